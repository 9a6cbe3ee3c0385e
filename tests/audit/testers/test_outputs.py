"""Runs of a mechanism as rows: batches, exceptions, widths, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hush.audit.testers import Batched, HockeyStick, audit_mechanism, support_test
from hush.audit.testers.outputs import NeighbourPair, with_width
from hush.errors import InvalidArgument
from hush.lab.histogram import HistogramAttack
from hush.randomness import RandomSource, TestSource

BIG = 2**60


def test_the_sign_of_zero_is_seen_in_batches() -> None:
    def signed(which: int, source: RandomSource, count: int) -> Any:
        return np.full(count, -0.0 if which else 0.0)

    for attack in (None, HockeyStick(epsilon=1.0), HistogramAttack()):
        assert (
            audit_mechanism(Batched(signed), 0, 1, samples=3000, attack=attack, source=TestSource(1)).epsilon_lower > 2
        )
    assert support_test(Batched(signed), 0, 1, samples=3000, source=TestSource(1)).epsilon_lower > 4


def test_a_batch_of_complex_numbers_is_two_columns() -> None:
    result = audit_mechanism(
        Batched(lambda which, source, count: np.full(count, 1 + 1j * which)), 0, 1, samples=300, source=TestSource(1)
    )
    assert result.epsilon_lower > 3


@pytest.mark.parametrize(
    "draw",
    [
        lambda which, source, count: np.full(count, BIG + which),
        lambda which, source, count: np.full(count, 2**63 + which, dtype=np.uint64),
        lambda which, source, count: np.full(count, str(which)),
        lambda which, source, count: np.full(count, None),
        lambda which, source, count: np.zeros(count, dtype=np.longdouble),
        lambda which, source, count: np.zeros(count + 1),
    ],
)
def test_batches_that_doubles_do_not_hold_are_refused(draw: Callable[[int, RandomSource, int], Any]) -> None:
    with pytest.raises(InvalidArgument, match="draw="):
        audit_mechanism(Batched(draw), 0, 1, samples=10, source=TestSource(1))


def test_an_exception_is_an_output() -> None:
    result = audit_mechanism(lambda which, source: 1 / which, 0, 1, samples=300, source=TestSource(1))
    assert result.epsilon_lower > 3

    def by_type(which: int, source: RandomSource) -> float:
        if int(source.words(1)[0]) % 2:
            raise KeyError if which else ValueError
        return 0.0

    assert audit_mechanism(by_type, 0, 1, samples=1000, source=TestSource(1)).epsilon_lower > 3


def test_a_mechanism_that_always_fails_is_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        audit_mechanism(lambda which, source: 1 / 0, 0, 1, samples=10, source=TestSource(1))


def test_rows_are_padded_and_truncated() -> None:
    rows = np.array([[1.0, 2.0]])
    assert with_width(rows, 1).tolist() == [[1.0]]
    padded = with_width(rows, 3)
    assert padded[0, :2].tolist() == [1.0, 2.0]
    assert math.isnan(padded[0, 2])


def test_blocks_add_up_to_all_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hush.audit.testers.outputs._BLOCK_ROWS", 7)
    mechanism = Batched(lambda which, source, count: np.full((count, 2), which))
    pair = NeighbourPair(mechanism=mechanism, first=0, second=1, source=TestSource(1))
    blocks = list(pair.blocks(20, 2))
    assert [len(first) for first, _ in blocks] == [len(second) for _, second in blocks] == [7, 7, 6]
    assert all((first == 0).all() and (second == 1).all() for first, second in blocks)


def test_features_replace_the_rows() -> None:
    mechanism = Batched(lambda which, source, count: np.full(count, float(which)))
    pair = NeighbourPair(
        mechanism=mechanism, first=2, second=3, source=TestSource(1), features=lambda rows: np.hstack([rows, rows**2])
    )
    first, second = pair.draw(1)
    assert (first.tolist(), second.tolist()) == ([[2.0, 4.0]], [[3.0, 9.0]])
