"""Losses by the kind of target; what is missing has no gradient."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hush.runs.outputs.losses import predictions, row_losses  # noqa: E402

LOGITS = {
    "classes": (torch.tensor([[1.0, 2.0], [0.0, 3.0]]), torch.tensor([1, -1])),
    "numbers": (torch.tensor([[1.0], [2.0]]), torch.tensor([0.5, math.nan])),
    "labels": (torch.tensor([[1.0, 2.0], [0.0, 3.0]]), torch.tensor([[1, 0], [-1, -1]])),
}


@pytest.mark.parametrize("kind", LOGITS)
def test_a_row_without_a_target_has_no_gradient(kind: str) -> None:
    logits, targets = LOGITS[kind]
    logits = logits.clone().requires_grad_()
    losses = row_losses(logits, targets)
    assert losses.shape == (2,)
    assert losses[1] == 0
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    assert torch.isfinite(gradient).all()
    assert gradient[1].abs().sum() == 0
    assert gradient[0].abs().sum() > 0


def test_known_losses() -> None:
    assert row_losses(*LOGITS["numbers"])[0] == pytest.approx(0.125)
    expected = (math.log1p(math.exp(-1)) + math.log1p(math.exp(2))) / 2
    assert row_losses(*LOGITS["labels"])[0] == pytest.approx(expected)


def test_predictions_have_the_shape_of_their_kind() -> None:
    inputs = torch.zeros(5, 3)
    for outputs, targets, shape in (
        (4, np.zeros(0, dtype=np.int64), (5, 4)),
        (1, np.zeros(0, dtype=np.float32), (5,)),
        (2, np.zeros((0, 2), dtype=np.int64), (5, 2)),
    ):
        assert predictions(torch.nn.Linear(3, outputs), inputs, targets).shape == shape
