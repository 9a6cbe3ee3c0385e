"""Means of vectors: no record contributes more than the clip norm to the exact sum, whatever it contains."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hush.errors import InvalidArgument
from hush.guarantee import Relation
from hush.mechanisms import VectorMeanL1, VectorMeanL2
from hush.mechanisms import vector_mean as module
from hush.randomness import TestSource

KINDS = [
    VectorMeanL2(epsilon=1.0, delta=1e-6, clip_norm=0.3, dimension=3),
    VectorMeanL1(epsilon=1.0, clip_norm=0.3, dimension=3),
]


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("floored_laplace", "floored_gaussian"):
        monkeypatch.setattr(module, name, lambda source, scale, size: np.zeros(size, dtype=np.int64))


@pytest.mark.parametrize("mechanism", KINDS)
@settings(max_examples=200)
@given(data=st.data())
def test_a_record_moves_the_sum_by_at_most_the_clip_norm(mechanism: Any, data: st.DataObject) -> None:
    rows = data.draw(arrays(np.float64, (5, 3), elements=st.floats(width=64)))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("floored_laplace", "floored_gaussian"):
            patch.setattr(module, name, lambda source, scale, size: np.zeros(size, dtype=np.int64))
        with np.errstate(all="ignore"):  # as `release` has it
            sums = [mechanism._noisy_sum(part, TestSource(1)) for part in (rows, rows[1:])]
    change = [int(a) - int(b) for a, b in zip(*sums, strict=True)]
    steps = 1 << 30
    if isinstance(mechanism, VectorMeanL1):
        assert sum(abs(x) for x in change) <= steps
    else:
        assert sum(x * x for x in change) <= steps * steps


@pytest.mark.parametrize("mechanism", KINDS)
def test_sums_do_not_depend_on_the_order(no_noise: None, mechanism: Any) -> None:
    rows = np.random.default_rng(2).normal(size=(4000, 3)) * np.geomspace(1e-9, 1e9, 4000)[:, None]
    results = {
        tuple(mechanism._noisy_sum(rows[order], TestSource(1))) for order in (slice(None), slice(None, None, -1))
    }
    assert len(results) == 1


@pytest.mark.parametrize("relation", [Relation.ADD_OR_REMOVE, Relation.REPLACE])
def test_means_are_close(relation: Relation) -> None:
    rows = np.tile([[0.1, -0.2, 0.0], [0.3, 0.4, 5.0]], (5000, 1))
    mechanism = VectorMeanL2(epsilon=2.0, delta=1e-6, clip_norm=1.0, dimension=3, relation=relation)
    length = math.hypot(0.3, 0.4, 5.0)
    expected = (np.array([0.1, -0.2, 0.0]) + np.array([0.3, 0.4, 5.0]) / length) / 2
    value = mechanism.release(rows, TestSource(4)).value
    assert np.abs(value - expected).max() <= mechanism.accuracy(len(rows), 1 - 1e-7)  # which is how often it fails


def test_an_empty_dataset_is_answered_unless_its_number_is_public() -> None:
    empty = np.zeros((0, 3))
    assert KINDS[0].release(empty).value.shape == (3,)
    with pytest.raises(InvalidArgument, match="^records="):
        VectorMeanL1(epsilon=1.0, clip_norm=1.0, dimension=3, relation=Relation.REPLACE).release(empty)


@pytest.mark.parametrize("records", [np.zeros(3), np.zeros((4, 2)), np.zeros((2, 3, 1))])
def test_rows_have_the_configured_dimension(records: Any) -> None:
    with pytest.raises(InvalidArgument, match="^records.shape="):
        KINDS[0].release(records)


def test_means_of_vectors_are_as_accurate_as_they_say_in_many_dimensions() -> None:
    mechanism = VectorMeanL2(epsilon=1.0, delta=1e-6, clip_norm=1.0, dimension=1000, relation=Relation.REPLACE)
    records = np.zeros((100, 1000))
    records[:, 0] = 1.0
    value = mechanism.release(records, TestSource(3)).value
    assert np.abs(value - records[0]).max() <= mechanism.accuracy(100, 1 - 1e-7)  # which is how often it fails


def test_no_records_are_answered_like_one_record() -> None:
    mechanism = VectorMeanL2(epsilon=1.0, delta=1e-6, clip_norm=1.0, dimension=2)
    assert mechanism.release([]).value.shape == mechanism.release([[1.0, 2.0]]).value.shape
