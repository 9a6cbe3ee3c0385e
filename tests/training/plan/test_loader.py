"""The loader: padding, limits, datasets of several kinds, and one answer for every batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from hush.errors import InvalidArgument
from hush.training import FixedSize, PrivateTraining, privatize
from hush.training.plan.loader import fetcher, physical_batches
from training.loops import linear_run, network, run, train


def test_len_is_honest() -> None:
    private = run(physical_batch_size=9)
    assert len(private.loader) == sum(1 for _ in _answered(private))
    assert len(private.loader) == 0


def _answered(private: PrivateTraining) -> Any:
    for x, y in private.loader:
        assert len(x) == private.plan.physical_batch_size, "one size for all"
        private.step(F.cross_entropy(private.model(x), y, reduction="none"))
        yield x


def test_padding_contributes_nothing() -> None:
    batches = micro_batches(np.arange(5), 4)
    assert [batch.ends for batch in batches] == [False, True]
    assert [int(batch.weights.sum()) for batch in batches] == [4, 1]
    assert [int(batch.weights.sum()) for batch in micro_batches(np.arange(0), 4)] == [0]


def test_samples_beyond_the_limit_are_dropped() -> None:
    batches = micro_batches(np.arange(9), 4, limit=6)
    assert [int(batch.weights.sum()) for batch in batches] == [4, 2]
    assert [int(batch.weights.sum()) for batch in micro_batches(np.arange(1), 4, limit=6)] == [1, 0]


def test_every_batch_is_answered_once() -> None:
    private = run(physical_batch_size=10)
    with pytest.raises(InvalidArgument, match="^losses=.*out of turn"):
        private.step(torch.zeros(10, requires_grad=True))
    with pytest.raises(InvalidArgument, match="^step="):
        for _ in private.loader:
            pass


def test_datasets_of_other_kinds() -> None:
    class Pairs(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 50

        def __getitem__(self, index: int) -> tuple[Tensor, int]:
            return torch.full((6,), float(index)), index % 3

    model = network()
    private = privatize(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        Pairs(),
        noise_multiplier=1.0,
        delta=1e-3,
        num_steps=2,
        batch_size=9,
    )
    train(private)
    with pytest.raises(InvalidArgument, match="^dataset="):
        privatize(
            model, torch.optim.SGD(model.parameters(), lr=0.1), iter([]), noise_multiplier=1.0, delta=1e-3, num_steps=2
        )


def test_padding_is_nobodys_data() -> None:
    private = run(nn.Linear(6, 3), (torch.full((60, 6), 7.0), torch.full((60,), 2)), physical_batch_size=50)
    x, y = next(iter(private.loader))
    real = len(private._batches.sample(0))
    assert bool((x[:real] == 7).all())
    assert bool((y[:real] == 2).all())
    assert not x[real:].any()
    assert not y[real:].any()


def test_a_list_of_examples_is_no_list_of_columns() -> None:
    examples = [(torch.randn(6), 1) for _ in range(50)]
    assert run(nn.Linear(6, 3), examples)._num_examples == 50


def test_a_loop_that_was_begun_before_a_state_was_loaded_is_over() -> None:
    private, other = (
        run(sampling=FixedSize(5), physical_batch_size=2),
        run(sampling=FixedSize(5), physical_batch_size=2),
    )
    batches = iter(private.loader)
    x, y = next(batches)
    private.step(F.cross_entropy(private.model(x), y, reduction="none"))
    private.load_state_dict(other.state_dict())
    with pytest.raises(InvalidArgument, match="an old loop"):
        next(batches)


def test_two_loops_at_once_are_refused() -> None:
    private = run(zeroed(), (torch.full((8, 3), 100.0),), physical_batch_size=4)
    first, second = iter(private.loader), iter(private.loader)
    (x,) = next(first)
    private.step(private.model(x).squeeze(1))
    next(second)
    with pytest.raises(InvalidArgument, match="^step=.*one loop"):
        next(first)
