"""The loader: padding, limits, datasets of several kinds, and one answer for every batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hush.errors import InvalidArgument
from hush.training import FixedSize, privatize
from hush.training.plan.loader import fetcher, physical_batches
from training.loops import answered, linear_run, network, run, start, train


def test_len_is_the_number_of_batches() -> None:
    private = run(physical_batch_size=9)
    assert len(private.loader) == sum(1 for _ in answered(private))
    assert len(private.loader) == 0


def test_padding_contributes_nothing() -> None:
    batches = physical_batches(np.arange(5), 4)
    assert [batch.ends for batch in batches] == [False, True]
    assert [int(batch.weights.sum()) for batch in batches] == [4, 1]
    assert [int(batch.weights.sum()) for batch in physical_batches(np.arange(0), 4)] == [0]


def test_all_steps_have_the_batches_that_the_limit_fills() -> None:
    batches = physical_batches(np.arange(6), 4, limit=6)
    assert [int(batch.weights.sum()) for batch in batches] == [4, 2]
    assert [int(batch.weights.sum()) for batch in physical_batches(np.arange(1), 4, limit=6)] == [1, 0]


def test_every_batch_needs_one_answer() -> None:
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
    with pytest.raises(InvalidArgument, match="^data="):
        privatize(
            model, torch.optim.SGD(model.parameters(), lr=0.1), iter([]), noise_multiplier=1.0, delta=1e-3, num_steps=2
        )


def test_padding_holds_no_data() -> None:
    dataset = torch.full((60, 6), 7.0), torch.full((60,), 2)
    private = start(nn.Linear(6, 3), dataset, physical_batch_size=50, batch_size=20)
    x, y = next(iter(private.loader))
    real = len(private._batches.sample(0))
    assert bool((x[:real] == 7).all())
    assert bool((y[:real] == 2).all())
    assert not x[real:].any()
    assert not y[real:].any()


def test_a_list_of_examples_is_not_a_list_of_columns() -> None:
    examples = [(torch.randn(6), 1) for _ in range(50)]
    assert start(nn.Linear(6, 3), examples)._num_examples == 50


def test_loading_a_state_ends_earlier_loops() -> None:
    private, other = (linear_run(sampling=FixedSize(5), physical_batch_size=2) for _ in range(2))
    batches = iter(private.loader)
    x, y = next(batches)
    private.step(F.cross_entropy(private.model(x), y, reduction="none"))
    private.load_state_dict(other.state_dict())
    with pytest.raises(InvalidArgument, match="an old loop"):
        next(batches)


def test_two_loops_at_once_are_refused() -> None:
    private = start(nn.Linear(3, 1), (torch.full((8, 3), 100.0),), physical_batch_size=4)
    first, second = iter(private.loader), iter(private.loader)
    (x,) = next(first)
    private.step(private.model(x).squeeze(1))
    next(second)
    with pytest.raises(InvalidArgument, match="^step=.*one loop"):
        next(first)


def test_rows_of_a_contribution_stay_together() -> None:
    rows = np.arange(12).reshape(4, 3)
    real = np.ones((4, 3), dtype=np.bool_)
    real[1, 2] = False
    first, second = physical_batches(rows, 6, step=7, real=real)
    assert first.indices.tolist() == [0, 1, 2, 3, 4, 5]
    assert first.real.tolist() == [True, True, True, True, True, False]
    assert first.weights.tolist() == [True, True]
    assert (second.step, second.position, second.ends) == (7, 1, True)
    assert len(physical_batches(rows, 2)) == 4, "a contribution is never cut"


def test_mappings_are_fetched_by_numeric_columns() -> None:
    count, fetch = fetcher({"x": torch.arange(5.0), "name": np.array(list("abcde")), "y": np.arange(5)})
    fetched = fetch(np.array([3, 1]))
    assert count == 5
    assert {name: column.tolist() for name, column in fetched.items()} == {"x": [3.0, 1.0], "y": [3, 1]}
    with pytest.raises(InvalidArgument, match="^data="):
        fetcher({"name": np.array(["a", "b"])})
    with pytest.raises(InvalidArgument, match=r"^data=\[2, 3\]"):
        fetcher((torch.zeros(2), torch.zeros(3)))
