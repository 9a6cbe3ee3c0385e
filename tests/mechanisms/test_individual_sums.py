"""Individual accounting: no record contributes more than its budget on any path, and short vectors last longer."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.accounting import PldAccountant
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Relation
from hush.mechanisms import IndividualSums
from hush.mechanisms.individual_sums import IndividualSession
from hush.randomness import TestSource


def mechanism(**changes: Any) -> IndividualSums:
    arguments: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "clip_norm": 1.0, "dimension": 2, "full_sums": 2}
    return IndividualSums(**(arguments | changes))


def contributed(session_type: type[IndividualSession], rounds: list[np.ndarray], configured: IndividualSums) -> float:
    """Return the squares of what the last record contributes to all sums, by running with and without it."""
    # With the same random bits, sums with and without a record differ by its contribution, up to a rounding.
    with_record, without = (session_type(configured, TestSource("same bits")) for _ in range(2))
    differences = [with_record.sum(vectors) - without.sum(vectors[:-1]) for vectors in rounds]
    return float(np.sum(np.square(differences)))


class CheckedAfterwards(IndividualSession):
    """Twin: a record takes part as long as it has something left, and may overdraw with its last vector."""

    def _contributions(self, rows: Any) -> Any:
        assert self._paid is not None
        costs = ((rows * rows).sum(axis=1) + (1 << 30) - 1) >> 30
        can_pay = self._paid < self.mechanism.full_sums << 30
        self._paid += np.where(can_pay, costs, 0)
        return rows * can_pay[:, None]


class PaysWithTheMean(IndividualSession):
    """Twin: every record pays what records cost on average."""

    def _contributions(self, rows: Any) -> Any:
        assert self._paid is not None
        cost = int((rows * rows).sum() / max(len(rows), 1)) >> 30
        can_pay = self._paid + cost <= self.mechanism.full_sums << 30
        self._paid += np.where(can_pay, cost, 0)
        return rows * can_pay[:, None]


LONG_AND_SHORT = [np.array([[0.05, 0.0], [0.0, 0.99]])] * 30


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0, 3), min_size=1, max_size=12), st.integers(1, 3), st.sampled_from([0.1, 1.0, 7.0]))
def test_no_record_contributes_more_than_its_budget(norms: list[float], full_sums: int, clip_norm: float) -> None:
    rounds = [np.array([[0.3, -0.2], [0.6 * norm, -0.8 * norm]]) * clip_norm for norm in norms]
    configured = mechanism(full_sums=full_sums, clip_norm=clip_norm)
    total = contributed(IndividualSession, rounds, configured)
    assert total <= full_sums * clip_norm**2 * (1 + 1e-6)
    assert total >= min(sum(min(norm, 1.0) ** 2 for norm in norms), full_sums - 1) * clip_norm**2 * (1 - 1e-6)


@pytest.mark.parametrize("twin", [CheckedAfterwards, PaysWithTheMean])
def test_broken_twins_are_caught(twin: type[IndividualSession]) -> None:
    assert contributed(IndividualSession, LONG_AND_SHORT, mechanism()) <= 2
    assert contributed(twin, LONG_AND_SHORT, mechanism()) > 2.5


def test_short_vectors_take_part_far_more_often() -> None:
    # 0.1^2 + 0.1^2 is 0.02 of 2: a hundred sums, and no more (one less by the rounding up of costs).
    rounds = [np.array([[0.1, 0.1]])] * 150
    assert contributed(IndividualSession, rounds, mechanism()) == pytest.approx(2.0, abs=0.03)


def test_a_record_that_cannot_pay_for_a_long_vector_may_pay_for_a_short_one() -> None:
    rounds = [np.array([[norm, 0.0]]) for norm in (1.0, 0.9, 0.9, 0.2)]
    assert contributed(IndividualSession, rounds, mechanism()) == pytest.approx(1 + 0.81 + 0.04, abs=1e-6)


def test_other_records_do_not_notice() -> None:
    # What a record contributes depends on it and on the sums. Here, vectors do not depend on these.
    first = [np.array([[0.9, 0.1], [0.5, 0.5]])] * 6
    second = [np.array([[0.0, 0.1], [0.5, 0.5]])] * 6
    assert contributed(IndividualSession, first, mechanism()) == pytest.approx(
        contributed(IndividualSession, second, mechanism()), abs=1e-9
    )


def test_the_noise_is_that_of_one_gaussian() -> None:
    for relation, moves in ((Relation.ADD_OR_REMOVE, 1.0), (Relation.ZERO_OUT, 1.0), (Relation.REPLACE, 2.0)):
        configured = mechanism(full_sums=9, clip_norm=5.0, relation=relation)
        # sigma = 3 sensitivities, for nine full sums.
        single = mechanism(full_sums=1, clip_norm=5.0)
        assert configured.noise_stddev == pytest.approx(3 * moves * single.noise_stddev, rel=1e-6)
        accountant = PldAccountant(relation=relation).compose(configured.event)
        assert accountant.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)


def test_gradient_descent_gets_further_than_with_a_price_for_the_longest_vector() -> None:
    """Fixed key: least squares by 60 steps on all records; gradients become short as the model fits."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4000, 5))
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1)
    truth = np.array([2.0, -1.0, 0.5, 0.0, 1.5])
    y = x @ truth

    def error(add: Callable[[np.ndarray], np.ndarray]) -> float:
        weights = np.zeros(5)
        for _ in range(60):
            weights -= 3.0 * add((x @ weights - y)[:, None] * x) / len(x)
        return float(np.linalg.norm(weights - truth))

    individual = mechanism(dimension=5, full_sums=6).start(TestSource(1))
    uniform = mechanism(dimension=5, full_sums=60).start(TestSource(1))
    assert error(individual.sum) < 0.6 * error(uniform.sum)


def test_sessions_are_not_copied_and_rows_stay_the_same_records() -> None:
    session = mechanism().start(TestSource(1))
    session.sum(np.zeros((3, 2)))
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(Unsupported, match="cannot be copied"):
            duplicate(session)
    for vectors in (np.zeros((4, 2)), [], np.zeros((3, 1)), np.zeros(3)):
        with pytest.raises(InvalidArgument, match="^vectors"):
            session.sum(vectors)
    for name, value in (("full_sums", 0), ("full_sums", 2.5), ("full_sums", 1 << 25), ("dimension", 0)):
        with pytest.raises(InvalidArgument, match=f"^{name}="):
            mechanism(**{name: value})
    assert not [name for name in vars(session) if not name.startswith("_") and name not in ("mechanism", "guarantee")]
