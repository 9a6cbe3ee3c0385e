"""Costs by the votes: against exact divergences, brute-force neighbours, and what leaves the report."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats
from scipy.special import log_ndtr

from hush.accounting.accountants.rdp import to_epsilon
from hush.errors import InvalidArgument, Unsupported
from hush.estimators.pate import (
    ConfidentGNMax,
    CostReport,
    DataDependentCost,
    GNMax,
    InteractiveGNMax,
    LNMax,
    VoteAggregator,
    VoteAnswers,
)
from hush.estimators.pate import costs as costs
from hush.estimators.pate.report import cost_to_epsilon
from hush.randomness import TestSource

Counts = NDArray[np.int64]
ORDERS = (1.5, 2.0, 4.0, 8.0, 20.0)


def winners(counts: Counts, noise: Any) -> NDArray[np.float64]:
    """Return the exact chances of a noisy maximum, by Simpson's rule; densities have kinks at whole numbers only."""
    reach = math.ceil(12 * noise.std())
    low, high = int(counts.min()) - reach, int(counts.max()) + reach
    points = np.linspace(low, high, 64 * (high - low) + 1)
    densities, below = noise.pdf(points - counts[:, None]), noise.cdf(points - counts[:, None])
    found = [
        float(integrate.simpson(densities[j] * np.delete(below, j, axis=0).prod(axis=0), x=points))
        for j in range(len(counts))
    ]
    return np.array(found) / sum(found)


def neighbours(counts: Counts) -> list[Counts]:
    """Return what one changed vote makes of counts; also one that abstains, then or now."""
    units = np.eye(len(counts), dtype=np.int64)
    moved = [counts - units[i] + units[j] for i, j in itertools.permutations(range(len(counts)), 2)]
    alone = [counts - unit for unit in units] + [counts + unit for unit in units]
    return [one for one in moved + alone if one.min() >= 0]


def renyi(p: NDArray[np.float64], q: NDArray[np.float64], order: float) -> float:
    return float(np.log(np.sum(p**order * q ** (1 - order))) / (order - 1))


def answered(num_queries: int) -> VoteAnswers:
    return VoteAnswers(
        np.zeros(num_queries, dtype=np.int64), np.ones(num_queries, dtype=np.bool_), num_queries, Fraction(0)
    )


def raw(counts: Any, aggregator: VoteAggregator, order: float, teachers: int, beta: float = 0.05) -> costs.RawCost:
    rows = np.atleast_2d(np.asarray(counts))
    return costs.raw_cost(rows, answered(len(rows)), aggregator, num_teachers=teachers, order=order, beta=beta)


@pytest.mark.parametrize("counts", [[12, 0, 0], [20, 2, 1], [9, 6], [5, 5, 4], [30, 0, 0], [16, 1]])
@pytest.mark.parametrize("aggregator", [GNMax(sigma=3.0), LNMax(scale=3.0)], ids=["gaussian", "laplace"])
def test_costs_bound_the_exact_divergence_from_every_neighbour(counts: list[int], aggregator: Any) -> None:
    here = np.array(counts)
    noise = stats.norm(scale=3.0) if isinstance(aggregator, GNMax) else stats.laplace(scale=3.0)
    exact = winners(here, noise)
    others = [winners(other, noise) for other in neighbours(here)]
    for order in ORDERS:
        true = max(renyi(exact, other, order) for other in others)
        found = raw(here, aggregator, order, int(here.sum()) + 1)
        assert true <= found.cost * (1 + 1e-9) + 1e-12
        assert found.cost <= found.worst * (1 + 1e-12)


@pytest.mark.parametrize("largest", range(0, 31, 2))
def test_the_check_costs_bound_the_exact_divergence(largest: int) -> None:
    threshold, sigma = 15.0, 3.0
    for order in ORDERS:
        lattice = costs.check_lattice(30, threshold, sigma, order)
        chance = np.exp(log_ndtr((largest - threshold) / sigma * np.array([1.0, -1.0])))
        for other in {max(largest - 1, 0), min(largest + 1, 30)}:
            there = np.exp(log_ndtr((other - threshold) / sigma * np.array([1.0, -1.0])))
            assert renyi(chance, there, order) <= lattice.costs[30 + largest] * (1 + 1e-9) + 1e-12
        assert lattice.costs[30 + largest] <= order / (2 * sigma**2) * (1 + 1e-12)


def test_agreement_is_cheap_and_disagreement_costs_the_worst() -> None:
    aggregator = GNMax(sigma=40.0)
    agreed, split = (raw(one, aggregator, 14.0, 250) for one in ([240, 5, 5], [90, 80, 80]))
    assert agreed.cost < 1e-2 * agreed.worst
    assert split.cost == pytest.approx(split.worst)
    assert agreed.worst == pytest.approx(14 / 40**2)


def test_costs_grow_with_the_chance_of_another_winner() -> None:
    logs = np.linspace(-60, -1e-9, 4000)
    for order in ORDERS:
        for found in (costs.gaussian_cost(logs, 5.0, order), costs.laplace_cost(logs, 5.0, order)):
            assert (np.diff(found) >= -1e-15).all()
    assert costs.gaussian_cost(np.array([-math.inf, -1e4]), 5.0, 4.0) == pytest.approx([0.0, 0.0], abs=1e-12)


@pytest.mark.parametrize("tail", [costs.gaussian_tail(3.0), costs.laplace_tail(3.0)], ids=["gaussian", "laplace"])
def test_a_changed_vote_moves_the_effective_gap_by_two_at_most(tail: costs.LogTail) -> None:
    widest = 0.0
    for here in [*itertools.product(range(9), repeat=3), *itertools.product(range(9), repeat=2)]:
        near = np.array(neighbours(np.array(here)))
        gaps = costs.effective_gap(np.vstack([np.array(here), near]), tail)
        widest = max(widest, float(np.abs(gaps[1:] - gaps[0]).max()))
    assert 1.9 < widest <= 2 + 1e-9


@pytest.mark.parametrize(
    "aggregator",
    [GNMax(sigma=1.2), LNMax(scale=0.8), ConfidentGNMax(threshold=6.0, sigma_threshold=1.5, sigma=1.2)],
    ids=["gaussian", "laplace", "confident"],
)
@pytest.mark.parametrize("beta", [0.02, 0.3])
def test_the_smooth_bound_is_one_by_brute_force(aggregator: Any, beta: float) -> None:
    # All vote vectors of 10 teachers who may abstain: at least the local sensitivity, and it moves by e^beta at most.
    teachers, order = 10, 4.0
    every = [np.array(one) for one in itertools.product(range(teachers + 1), repeat=3) if sum(one) <= teachers]
    found = {tuple(one): raw(one, aggregator, order, teachers, beta) for one in every}
    widest = 0.0
    for one in every:
        here = found[tuple(one)]
        for other in neighbours(one):
            if other.sum() > teachers:
                continue
            there = found[tuple(other)]
            widest = max(widest, abs(here.cost - there.cost))
            assert abs(here.cost - there.cost) <= here.smooth * (1 + 1e-9)
            assert here.smooth <= there.smooth * math.exp(beta) * (1 + 1e-9)
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
    whole, single = raw(rows, aggregator, 5.0, 25), [raw(row, aggregator, 5.0, 25) for row in rows]
    assert whole.cost == pytest.approx(sum(one.cost for one in single))
    assert whole.smooth == pytest.approx(sum(one.smooth for one in single))


def test_queries_without_an_answer_cost_the_check_alone() -> None:
    aggregator = ConfidentGNMax(threshold=15.0, sigma_threshold=10.0, sigma=4.0)
    rows = np.tile([12, 11, 2], (4, 1))
    nothing = VoteAnswers(np.full(4, -1), np.zeros(4, dtype=np.bool_), 4, Fraction(0))
    settings: dict[str, Any] = {"num_teachers": 25, "order": 5.0, "beta": 0.05}
    silent = costs.raw_cost(rows, nothing, aggregator, **settings)
    asked = costs.raw_cost(rows, answered(4), aggregator, **settings)
    assert 0 < silent.cost < asked.cost
    assert silent.worst == pytest.approx(4 * 5.0 / (2 * 10**2))


REPORT = CostReport(epsilon=1.0, delta=1e-6, order=14.0, confidence=0.95)
AGREED = np.tile([230, 10, 10], (200, 1))


def released(report: CostReport, seed: int) -> DataDependentCost:
    return report.release(
        AGREED, answered(200), GNMax(sigma=40.0), num_teachers=250, delta=1e-5, source=TestSource(seed)
    )


def test_the_report_is_rarely_below_the_truth_and_never_above_the_worst() -> None:
    beta = REPORT._mechanism(1.0).beta
    truth = costs.raw_cost(AGREED, answered(200), GNMax(sigma=40.0), num_teachers=250, order=14.0, beta=beta)
    true, worst = (float(to_epsilon(np.array([d]), np.array([14.0]), 1e-5)[0]) + 1.0 for d in (truth.cost, truth.worst))
    found = np.array([released(REPORT, seed).epsilon for seed in range(400)])
    # False alarms: 5 % of 400 may be too low, P(Binomial(400, 0.05) > 55) = 6e-12.
    assert (found < true).sum() <= 55
    assert (found <= worst).all()
    assert np.median(found) < worst, "worth asking for"
    assert len(np.unique(found)) > 100, "there is noise"


def test_the_report_says_what_it_costs() -> None:
    found = released(REPORT, 1)
    assert found.delta == pytest.approx(1e-5 + 1e-6)
    assert found.epsilon >= REPORT.epsilon
    assert set(DataDependentCost.__dataclass_fields__) == {"epsilon", "delta", "order", "confidence", "ex_post"}
    assert not found.ex_post
    assert repr(costs.RawCost(0.125, 0.25, 0.5)) == "RawCost(private)"


@pytest.mark.parametrize(
    "wrong",
    [
        {"order": 1.0},
        {"order": math.nan},
        {"confidence": 0.3},
        {"confidence": 1.0},
        {"confidence": 1 - 1e-9},
        {"epsilon": 0.0},
        {"delta": 0.0},
    ],
)
def test_reports_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument):
        CostReport(**({"epsilon": 1.0, "delta": 1e-6} | wrong))


INTERACTIVE = InteractiveGNMax(threshold=4.0, sigma_threshold=3.0, sigma=3.0)


def asked(aggregator: VoteAggregator, counts: Counts, expected: Counts, *, passed: bool, order: float) -> costs.RawCost:
    """Return the cost of one query, by its outcome."""
    answers = VoteAnswers(np.array([-1]), np.array([passed]), 1, Fraction(0), expected[None])
    return costs.raw_cost(counts[None], answers, aggregator, num_teachers=20, order=order, beta=0.05)


def outcomes(counts: Counts, expected: Counts) -> NDArray[np.float64]:
    """Return the exact chances of no answer, and of every class as one."""
    excess = (counts - expected).max()
    passes = np.exp(log_ndtr((excess - INTERACTIVE.threshold) / INTERACTIVE.sigma_threshold))
    return np.array([1 - passes, *(passes * winners(counts, stats.norm(scale=INTERACTIVE.sigma)))])


@pytest.mark.parametrize(
    ("counts", "expected"),
    [([14, 3, 3], [2, 9, 9]), ([14, 3, 3], [14, 4, 2]), ([20, 0, 0], [20, 0, 0]), ([9, 8, 3], [0, 0, 0])],
)
def test_the_loss_of_an_interactive_query_is_bounded_after_the_fact(counts: list[int], expected: list[int]) -> None:
    # E exp((order - 1)(loss - cost)) <= 1 over outcomes, for every neighbour: what the conversion rests on.
    here, guess = np.array(counts), np.array(expected)
    exact = outcomes(here, guess)
    others = [outcomes(other, guess) for other in neighbours(here)]
    for order in ORDERS:
        silent, spoken = (asked(INTERACTIVE, here, guess, passed=p, order=order).cost for p in (False, True))
        paid = np.array([silent, *[spoken] * 3])
        means = [float(np.sum(exact * np.exp((order - 1) * (np.log(exact / other) - paid)))) for other in others]
        assert max(means) <= 1 + 1e-9
        free = [
            float(np.sum(exact * np.exp((order - 1) * (np.log(exact / other) - paid + silent)))) for other in others
        ]
        if here.tolist() == [14, 3, 3] and order == 8.0:
            assert max(free) > 1, "a twin that does not pay for checks is caught"


def test_an_interactive_check_is_cheap_where_the_student_is_right_or_clearly_wrong() -> None:
    aggregator = InteractiveGNMax(threshold=100.0, sigma_threshold=20.0, sigma=20.0)
    rows = np.array([[240, 10]])
    found = []
    for guess in ([240, 10], [0, 250], [140, 110]):
        answers = VoteAnswers(np.array([0]), np.array([False]), 1, Fraction(0), np.array([guess]))
        found.append(costs.raw_cost(rows, answers, aggregator, num_teachers=250, order=14.0, beta=0.05))
    right, wrong, unsure = found
    assert right.cost < 0.1 * right.worst
    assert wrong.cost < 0.1 * wrong.worst
    assert unsure.cost == pytest.approx(unsure.worst)


@pytest.mark.parametrize("guess", [[0, 0, 0], [10, 0, 0], [3, 4, 3]])
def test_the_smooth_bound_holds_for_any_prediction(guess: list[int]) -> None:
    teachers, order, beta = 10, 4.0, 0.1
    aggregator = InteractiveGNMax(threshold=3.0, sigma_threshold=1.5, sigma=1.2)
    every = [one for one in itertools.product(range(teachers + 1), repeat=3) if sum(one) <= teachers]
    answers = VoteAnswers(np.array([0]), np.array([True]), 1, Fraction(0), np.array([guess]))
    settings: dict[str, Any] = {"num_teachers": teachers, "order": order, "beta": beta}
    found = {one: costs.raw_cost(np.array([one]), answers, aggregator, **settings) for one in every}
    for one, here in found.items():
        for other in neighbours(np.array(one)):
            there = found.get(tuple(other.tolist()))
            if there is not None:
                assert abs(here.cost - there.cost) <= here.smooth * (1 + 1e-9)
                assert here.smooth <= there.smooth * math.exp(beta) * (1 + 1e-9)


def test_the_loss_after_the_fact_is_converted_by_markov_and_a_divergence_more_tightly() -> None:
    loss, divergence = (cost_to_epsilon(0.25, 11.0, 1e-5, ex_post=one) for one in (True, False))
    assert loss == pytest.approx(0.25 + math.log(1e5) / 10)
    assert 0 < divergence < loss
    confident = ConfidentGNMax(threshold=200.0, sigma_threshold=150.0, sigma=40.0)
    settings: dict[str, Any] = {"num_teachers": 250, "delta": 1e-5, "source": TestSource(1)}
    assert REPORT.release(AGREED, answered(200), confident, **settings).ex_post


def test_other_aggregators_have_no_cost_by_the_votes() -> None:
    with pytest.raises(Unsupported):
        costs.raw_cost(
            np.array([[5, 1]]),
            answered(1),
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
