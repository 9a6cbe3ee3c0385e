"""The physical batches of a step: their number, their rows, and the examples of users."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hush.training import Augmented, FixedSize, Full, InOrder, Microbatches, Poisson, ShuffledEpochs, UserGroups, Users
from training.loops import LINEAR_COUNT, linear_data, linear_run
from training.sums import COUNT as SUMS_COUNT
from training.sums import data as sums_data
from training.sums import run as sums_run


@pytest.mark.parametrize("sampling", [FixedSize(7), Full(), ShuffledEpochs(7), InOrder(7), Poisson(7, 40), Poisson(7)])
@pytest.mark.parametrize("physical", [3, 7, 100])
def test_len_is_honest_for_every_sampling(sampling: Any, physical: int) -> None:
    private = linear_run(sampling=sampling, physical_batch_size=physical, num_steps=12)
    assert len(private.loader) == sum(len(private._batches(step)) for step in range(12))


def test_users_with_few_examples_take_few_rows() -> None:
    x, y = linear_data()
    private = linear_run((x, y), unit=Users(np.arange(LINEAR_COUNT), rows_per_unit=50), batch_size=10, physical_batch_size=1000)
    assert {len(batch.indices) for step in range(4) for batch in private._batches(step)} == {20}


def test_no_user_has_more_examples_than_the_bound() -> None:
    x, y = sums_data()
    ids = np.zeros(SUMS_COUNT, dtype=int)
    ids[30:] = np.arange(1, 11)
    private = sums_run(x, y, unit=Users(ids, rows_per_unit=3), sampling=Full(), num_steps=20)
    seen = set()
    for step in range(20):
        for batch in private._batches(step):
            own = batch.indices[batch.real]
            assert np.sum(own < 30) == 3
            seen |= set(own[own < 30].tolist())
    # Fifteen of thirty are never among three once in 1 / (C(30, 15) (C(15, 3) / C(30, 3))^20) = 6e10 times.
    assert len(seen) > 15, "drawn afresh in every step"
    groups = sums_run(x, y, unit=UserGroups(ids, rows_per_unit=3), sampling=Full(), num_steps=20)
    assert groups.plan.num_units == 13
    kept = {tuple(batch.indices[batch.real].tolist()) for step in range(20) for batch in groups._batches(step)}
    assert len(kept) == 1, "the same ones all along"
