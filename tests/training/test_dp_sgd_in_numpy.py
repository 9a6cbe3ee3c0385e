"""DP-SGD on one page of NumPy: its clipped sums are those of hush, its noise is what is accounted, and it learns."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hush.training import clipped_sum

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def page() -> ModuleType:
    pytest.importorskip("sklearn")
    spec = importlib.util.spec_from_file_location("dp_sgd_in_numpy", EXAMPLES / "dp_sgd_in_numpy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def one_against_all(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    wanted = F.one_hot(batch[1], 10).double()
    return F.binary_cross_entropy_with_logits(model(batch[0]), wanted, reduction="none").sum(1)


@pytest.mark.parametrize("clip_norm", [0.3, 1.0, 100.0])
def test_clipped_sums_are_those_of_hush(page: ModuleType, clip_norm: float) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(40, 6)), rng.integers(0, 10, 40)
    weights, biases = rng.normal(size=(6, 10)), rng.normal(size=10)
    model = nn.Linear(6, 10).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor(weights.T))
        model.bias.copy_(torch.tensor(biases))
    expected = clipped_sum(model, (torch.tensor(x), torch.tensor(y)), one_against_all, clip_norm=clip_norm).gradients
    of_weights, of_biases = page.clipped_sum(x, y, weights, biases, clip_norm)
    # hush clips a little shorter than the clip norm (0.07 %), which pays for rounding.
    assert np.allclose(of_weights.T, expected["weight"].numpy(), rtol=2e-3, atol=2e-3 * clip_norm)
    assert np.allclose(of_biases, expected["bias"].numpy(), rtol=2e-3, atol=2e-3 * clip_norm)


def test_one_example_moves_the_sum_by_the_clip_norm_and_the_faulty_recipe_by_more(page: ModuleType) -> None:
    x, y = np.full((50, 4), 0.1), np.zeros(50, dtype=np.int64)
    x[-1], y[-1] = [1000.0, 0.0, 0.0, 0.0], 1
    weights, biases = np.zeros((4, 10)), np.zeros(10)

    def length(sums: Any) -> float:
        return float(np.sqrt(sum((part**2).sum() for part in sums)))

    def moved(clipped: Any) -> float:
        both = zip(clipped(x, y), clipped(x[:-1], y[:-1]), strict=True)
        return length([one - other for one, other in both])

    assert moved(lambda *batch: page.clipped_sum(*batch, weights, biases, 1.0)) <= 1 + 1e-9

    def faulty(x: Any, y: Any) -> Any:  # clips the mean of the batch, and calls that C
        mean = [part.mean(0) for part in page.example_gradients(x, y, weights, biases)]
        return [part * min(1.0, 1.0 / length(mean)) for part in mean]

    assert moved(faulty) > 20 * (1 / 50)


def test_noise_is_added_once_to_the_sum(page: ModuleType) -> None:
    # Zeros have no gradient for the weights, and so the weights are noise alone. Fixed seed, 3,000 numbers.
    x, y = np.zeros((30, 300)), np.zeros(30, dtype=np.int64)
    weights, _ = page.train(x, y, noise_multiplier=5.0, num_steps=4, rng=np.random.default_rng(1))
    expected = np.sqrt(4) * 5.0 * page.CLIP_NORM * page.LEARNING_RATE / (page.SAMPLING_RATE * 30)
    assert float(weights.std()) == pytest.approx(expected, rel=0.05)


def test_it_learns(page: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["dp_sgd_in_numpy.py", "--num-steps", "100"])
    page.main()
    printed = capsys.readouterr().out
    assert "epsilon <= 3 at delta 1e-05" in printed
    accuracy = float(printed.split(": ")[-1].split("%")[0])
    assert 80 < accuracy < 97  # fixed seed
