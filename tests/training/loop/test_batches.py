"""The physical batches of a step: their number, their rows, and the examples of users."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hush.training import (
    Augmented,
    FixedSize,
    Full,
    InOrder,
    Microbatches,
    Poisson,
    ShuffledEpochs,
    UserGroups,
    Users,
    leave_out_unit,
    unit_rows,
)
from hush.training.loop.keys import RunKeys
from training.loops import LINEAR_COUNT, linear_data, linear_run
from training.sums import COUNT as SUMS_COUNT
from training.sums import data as sums_data
from training.sums import run as sums_run


@pytest.mark.parametrize("sampling", [FixedSize(7), Full(), ShuffledEpochs(7), InOrder(7), Poisson(7, 40), Poisson(7)])
@pytest.mark.parametrize("physical", [3, 7, 100])
def test_the_number_of_batches_is_known_for_every_sampling(sampling: Any, physical: int) -> None:
    private = linear_run(sampling=sampling, physical_batch_size=physical, num_steps=12)
    assert len(private.loader) == sum(len(private._batches(step)) for step in range(12))


def test_users_with_few_examples_take_few_rows() -> None:
    x, y = linear_data()
    private = linear_run(
        (x, y), unit=Users(np.arange(LINEAR_COUNT), rows_per_unit=50), batch_size=10, physical_batch_size=1000
    )
    assert {len(batch.indices) for step in range(4) for batch in private._batches(step)} == {20}


def test_no_user_has_more_rows_than_the_bound() -> None:
    x, y = sums_data()
    ids = np.zeros(SUMS_COUNT, dtype=int)
    ids[30:] = np.arange(1, 11)
    private = sums_run(x, y, unit=Users(ids, rows_per_unit=3), sampling=Full(), num_steps=20)
    seen = set()
    for step in range(20):
        for batch in private._batches(step):
            examples = batch.indices[batch.real]
            assert np.sum(examples < 30) == 3
            seen |= set(examples[examples < 30].tolist())
    # Fifteen of the thirty are never drawn with probability at most C(30, 15) (C(15, 3) / C(30, 3))^20 = 2e-11.
    assert len(seen) > 15, "every step draws a new subset"
    groups = sums_run(x, y, unit=UserGroups(ids, rows_per_unit=3), sampling=Full(), num_steps=20)
    assert groups.plan.num_units == 13
    subsets = {tuple(batch.indices[batch.real].tolist()) for step in range(20) for batch in groups._batches(step)}
    assert len(subsets) == 1, "one subset for the whole run"


def test_samples_and_batches_are_functions_of_the_key() -> None:
    first, same, other = (sums_run(*sums_data(), batch_size=8) for _ in range(3))
    other._keys = RunKeys([(0, bytes(32))])
    batches = [
        [batch.indices.tolist() for step in range(3) for batch in run._batches(step)] for run in (first, same, other)
    ]
    assert batches[0] == batches[1]
    assert batches[0] != batches[2]  # 40 coins of 1 / 5, three times, fall the same with probability 0.68^120 = 8e-21


def test_a_subset_of_a_group_lasts_until_the_key_changes() -> None:
    private = sums_run(*sums_data(), unit=UserGroups(np.zeros(SUMS_COUNT, dtype=int), rows_per_unit=3), sampling=Full())
    before = private._batches.group_examples()
    assert len(before) == 3
    private._batches.forget()
    assert np.array_equal(private._batches.group_examples(), before), "the same key gives the same subset"
    private._keys = RunKeys([(0, bytes(32))])
    private._batches.forget()
    # Equal by chance with probability 1 / C(40, 3) = 1e-4; both keys are fixed.
    assert not np.array_equal(private._batches.group_examples(), before)


def test_copies_and_micro_batches_fill_rows_side_by_side() -> None:
    augmented = sums_run(*sums_data(), sampling=InOrder(4), contribution=Augmented(3), num_steps=1)
    (batch,) = augmented._batches(0)
    assert batch.indices.tolist() == np.repeat([0, 1, 2, 3], 3).tolist()
    shared = sums_run(*sums_data(), sampling=InOrder(5), contribution=Microbatches(4), num_steps=1)
    (batch,) = shared._batches(0)
    assert batch.indices.tolist() == [0, 1, 2, 3, 4, 0, 0, 0]
    assert batch.real.tolist() == [True] * 5 + [False] * 3
    assert batch.weights.tolist() == [True, True]


def test_owners_are_told_apart_by_their_fingerprint() -> None:
    x, y = sums_data()
    ids, other = np.arange(SUMS_COUNT) // 2, np.arange(SUMS_COUNT) % 20
    owners = [sums_run(x, y, unit=Users(column), batch_size=5)._batches.owners for column in (ids, ids + 7, other)]
    assert owners[0] == owners[1], "other names for the same people"
    assert owners[0] != owners[2]
    assert sums_run(x, y, batch_size=5)._batches.owners is None


@pytest.mark.parametrize("kind", [None, Users, UserGroups])
def test_a_unit_can_be_left_out_of_some_steps(kind: Any) -> None:
    """Audits compare a run with and without a canary. All other units stay in the samples."""
    x, y = sums_data()
    unit = None if kind is None else kind(np.arange(SUMS_COUNT) // 2, rows_per_unit=2)
    runs = [sums_run(x, y, sampling=Poisson(6), unit=unit, num_steps=6) for _ in range(2)]
    left_out = runs[1]
    left_out._keys = runs[0]._keys
    leave_out_unit(left_out, 0, lambda step: step % 2 == 1)
    rows = unit_rows(left_out, 0)
    assert rows.tolist() == ([0] if unit is None else [0, 1])
    for step in range(6):
        examples, remaining = (
            {row for batch in run._batches(step) for row in batch.indices[batch.real].tolist()} for run in runs
        )
        assert remaining == (examples - set(rows.tolist()) if step % 2 == 1 else examples)
