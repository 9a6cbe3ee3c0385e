"""Data-dependent costs: against exact divergences and brute-force neighbours."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.special import log_ndtr

from estimators.pate.exact import ORDERS, all_answered, neighbours, winners
from hush.errors import Unsupported
from hush.estimators.pate import ConfidentGNMax, GNMax, LNMax, VoteAggregator
from hush.estimators.pate import costs as costs
from hush.estimators.pate.aggregators import VoteAnswers


def renyi(p: NDArray[np.float64], q: NDArray[np.float64], order: float) -> float:
    return float(np.log(np.sum(p**order * q ** (1 - order))) / (order - 1))


def raw(counts: Any, aggregator: VoteAggregator, order: float, teachers: int, beta: float = 0.05) -> costs.RawCost:
    rows = np.atleast_2d(np.asarray(counts))
    return costs.raw_cost(rows, all_answered(len(rows)), aggregator, num_teachers=teachers, order=order, beta=beta)


@pytest.mark.parametrize("counts", [[12, 0, 0], [20, 2, 1], [9, 6], [5, 5, 4], [30, 0, 0], [16, 1]])
@pytest.mark.parametrize("aggregator", [GNMax(sigma=3.0), LNMax(scale=3.0)], ids=["gaussian", "laplace"])
def test_costs_bound_the_exact_divergence_from_every_neighbour(counts: list[int], aggregator: Any) -> None:
    votes = np.array(counts)
    noise = stats.norm(scale=3.0) if isinstance(aggregator, GNMax) else stats.laplace(scale=3.0)
    exact = winners(votes, noise)
    others = [winners(neighbour, noise) for neighbour in neighbours(votes)]
    for order in ORDERS:
        true = max(renyi(exact, neighbour, order) for neighbour in others)
        cost = raw(votes, aggregator, order, int(votes.sum()) + 1)
        assert true <= cost.cost * (1 + 1e-9) + 1e-12
        assert cost.cost <= cost.worst * (1 + 1e-12)


@pytest.mark.parametrize("largest", range(0, 31, 2))
def test_the_check_costs_bound_the_exact_divergence(largest: int) -> None:
    threshold, sigma = 15.0, 3.0
    for order in ORDERS:
        lattice = costs.check_lattice(30, threshold, sigma, order)
        chance = np.exp(log_ndtr((largest - threshold) / sigma * np.array([1.0, -1.0])))
        for neighbour in {max(largest - 1, 0), min(largest + 1, 30)}:
            moved = np.exp(log_ndtr((neighbour - threshold) / sigma * np.array([1.0, -1.0])))
            assert renyi(chance, moved, order) <= lattice.costs[30 + largest] * (1 + 1e-9) + 1e-12
        assert lattice.costs[30 + largest] <= order / (2 * sigma**2) * (1 + 1e-12)


def test_agreement_is_cheap_and_disagreement_costs_the_worst() -> None:
    aggregator = GNMax(sigma=40.0)
    agreed, split = (raw(counts, aggregator, 14.0, 250) for counts in ([240, 5, 5], [90, 80, 80]))
    assert agreed.cost < 1e-2 * agreed.worst
    assert split.cost == pytest.approx(split.worst)
    assert agreed.worst == pytest.approx(14 / 40**2)


def test_costs_grow_with_the_chance_of_another_winner() -> None:
    logs = np.linspace(-60, -1e-9, 4000)
    for order in ORDERS:
        for bounds in (costs.gaussian_cost(logs, 5.0, order), costs.laplace_cost(logs, 5.0, order)):
            assert (np.diff(bounds) >= -1e-15).all()
    assert costs.gaussian_cost(np.array([-math.inf, -1e4]), 5.0, 4.0) == pytest.approx([0.0, 0.0], abs=1e-12)


@pytest.mark.parametrize("tail", [costs.gaussian_tail(3.0), costs.laplace_tail(3.0)], ids=["gaussian", "laplace"])
def test_a_changed_vote_moves_the_effective_gap_by_two_at_most(tail: costs.LogTail) -> None:
    widest = 0.0
    for counts in [*itertools.product(range(9), repeat=3), *itertools.product(range(9), repeat=2)]:
        near = np.array(neighbours(np.array(counts)))
        gaps = costs.effective_gap(np.vstack([np.array(counts), near]), tail)
        widest = max(widest, float(np.abs(gaps[1:] - gaps[0]).max()))
    assert 1.9 < widest <= 2 + 1e-9


@pytest.mark.parametrize(
    "aggregator",
    [GNMax(sigma=1.2), LNMax(scale=0.8), ConfidentGNMax(threshold=6.0, sigma_threshold=1.5, sigma=1.2)],
    ids=["gaussian", "laplace", "confident"],
)
@pytest.mark.parametrize("beta", [0.02, 0.3])
def test_the_smooth_bound_is_one_by_brute_force(aggregator: Any, beta: float) -> None:
    # All vote counts of 10 teachers who may abstain: the bound is at least the local sensitivity, and moves by e^beta.
    teachers, order = 10, 4.0
    every = [np.array(v) for v in itertools.product(range(teachers + 1), repeat=3) if sum(v) <= teachers]
    costs_of = {tuple(counts): raw(counts, aggregator, order, teachers, beta) for counts in every}
    widest = 0.0
    for counts in every:
        before = costs_of[tuple(counts)]
        for neighbour in neighbours(counts):
            if neighbour.sum() > teachers:
                continue
            after = costs_of[tuple(neighbour)]
            widest = max(widest, abs(before.cost - after.cost))
            assert abs(before.cost - after.cost) <= before.smooth * (1 + 1e-9)
            assert before.smooth <= after.smooth * math.exp(beta) * (1 + 1e-9)
    assert widest > 0, "some neighbours differ, or nothing was tested"


def test_local_sensitivity_alone_is_caught_as_a_broken_twin() -> None:
    # A bound that only looks at direct neighbours jumps: the brute force above would catch it.
    lattice = costs.check_lattice(30, 15.0, 1.0, 4.0)
    honest = lattice.smooth(0.05)
    local = lattice.smooth(1e6)  # e^-beta kills everything but the position itself
    assert (honest[1:] <= honest[:-1] * math.exp(0.05) * (1 + 1e-9)).all()
    with np.errstate(all="ignore"):
        assert np.nanmax(local[1:] / local[:-1]) > math.exp(0.05)


def test_the_sum_over_queries_adds_up() -> None:
    rows = np.array([[20, 3, 2], [10, 10, 5], [25, 0, 0]])
    aggregator = GNMax(sigma=4.0)
    together, separate = raw(rows, aggregator, 5.0, 25), [raw(row, aggregator, 5.0, 25) for row in rows]
    assert together.cost == pytest.approx(sum(query.cost for query in separate))
    assert together.smooth == pytest.approx(sum(query.smooth for query in separate))


def test_queries_without_an_answer_cost_the_check_alone() -> None:
    aggregator = ConfidentGNMax(threshold=15.0, sigma_threshold=10.0, sigma=4.0)
    rows = np.tile([12, 11, 2], (4, 1))
    nothing = VoteAnswers(np.full(4, -1), np.zeros(4, dtype=np.bool_), 4, Fraction(0))
    settings: dict[str, Any] = {"num_teachers": 25, "order": 5.0, "beta": 0.05}
    silent = costs.raw_cost(rows, nothing, aggregator, **settings)
    spoken = costs.raw_cost(rows, all_answered(4), aggregator, **settings)
    assert 0 < silent.cost < spoken.cost
    assert silent.worst == pytest.approx(4 * 5.0 / (2 * 10**2))


def test_other_aggregators_have_no_data_dependent_cost() -> None:
    with pytest.raises(Unsupported):
        costs.raw_cost(
            np.array([[5, 1]]),
            all_answered(1),
            object(),
            num_teachers=6,
            order=4.0,
            beta=0.1,  # type: ignore[arg-type]
        )


def test_no_raw_cost_is_public() -> None:
    from hush.estimators import pate

    names = [name for name in vars(pate) if not name.startswith("__")]
    assert not [name for name in names if "raw" in name.lower() or (name in vars(costs) and name.endswith("_cost"))]
    assert "RawCost" not in pate.__all__
