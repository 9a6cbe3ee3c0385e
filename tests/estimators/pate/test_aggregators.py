"""Aggregators: sensitivities on neighbours, budgets, audits as black boxes, and broken twins."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from black_box.certainty import audit, refuted
from hush.accounting import GaussianEvent, GdpAccountant, PldAccountant, RdpAccountant, SelfComposedEvent
from hush.audit.testers import Batched
from hush.errors import InvalidArgument
from hush.estimators.pate import ConfidentGNMax, GNMax, InteractiveGNMax, LNMax, VoteAggregator
from hush.randomness import RandomSource, TestSource

EVERYTHING = Fraction(10**9)

# One teacher of five moves from the first class to the second: the worst pair of neighbours.
BEFORE, AFTER = np.array([3, 2, 0]), np.array([2, 3, 0])
AGGREGATORS = [
    LNMax(scale=2.0),
    GNMax(sigma=1.5),
    ConfidentGNMax(threshold=3.0, sigma_threshold=2.0, sigma=1.5),
    InteractiveGNMax(threshold=1.0, sigma_threshold=2.0, sigma=1.5),
]


def counts_of(votes: NDArray[np.int64], num_classes: int) -> NDArray[np.int64]:
    return np.bincount(votes, minlength=num_classes)


@pytest.mark.parametrize("seed", range(20))
def test_one_vote_moves_two_counts_by_one_and_the_largest_by_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    votes = rng.integers(0, 4, 9)
    changed = votes.copy()
    changed[rng.integers(9)] = rng.integers(0, 4)
    before, after = counts_of(votes, 4), counts_of(changed, 4)
    moved = before - after
    assert np.abs(moved).sum() <= 2
    assert (moved**2).sum() <= 2
    assert abs(before.max() - after.max()) <= 1
    expected = rng.integers(0, 9, 4)
    assert abs((before - expected).max() - (after - expected).max()) <= 1


def test_costs_follow_from_these_sensitivities() -> None:
    # Papernot et al. 2018: alpha / sigma^2 for GNMax, and alpha / (2 sigma_1^2) more for the check.
    plan = GNMax(sigma=40.0).plan(1, epsilon=50.0, delta=1e-5)
    assert RdpAccountant().compose(plan.event).renyi(8.0) == pytest.approx(8 / 40**2, rel=1e-6)
    plan = ConfidentGNMax(threshold=200.0, sigma_threshold=150.0, sigma=40.0).plan(1, epsilon=50.0, delta=1e-5)
    assert RdpAccountant().compose(plan.event).renyi(8.0) == pytest.approx(8 / 40**2 + 8 / (2 * 150**2), rel=1e-6)
    plan = LNMax(scale=20.0).plan(1, epsilon=50.0, delta=1e-5)
    assert PldAccountant().compose(plan.event).epsilon(0.0) == pytest.approx(2 / 20, rel=1e-6)


def test_worst_cases_against_theorems() -> None:
    # Strong composition (Dwork, Rothblum & Vadhan 2010) of 2 / scale is above; the Gaussian limit of 2 T Laplace
    # losses of 1 / scale, whose variance is about 1 / scale^2 each, is about the truth.
    for count in (100, 1000):
        plan = LNMax(scale=20.0).plan(count, epsilon=1e3, delta=1e-5)
        curve = PldAccountant().compose(plan.event).epsilon(1e-5)
        strong = math.sqrt(2 * count * math.log(1e5)) * 0.1 + count * 0.1 * math.expm1(0.1)
        limit = GdpAccountant().compose(GaussianEvent(20 / math.sqrt(2 * count))).epsilon(1e-5)
        assert curve < strong
        assert curve == pytest.approx(limit, rel=0.05)
    # GNMax composes to sqrt(2 T) / sigma - GDP exactly.
    plan = GNMax(sigma=40.0).plan(640, epsilon=1e3, delta=1e-5)
    exact = GdpAccountant().compose(GaussianEvent(40 / math.sqrt(2 * 640))).epsilon(1e-5)
    assert PldAccountant().compose(plan.event).epsilon(1e-5) == pytest.approx(exact, rel=1e-5)


def test_queries_stop_before_the_budget_is_exceeded() -> None:
    aggregator = ConfidentGNMax(threshold=30.0, sigma_threshold=20.0, sigma=10.0)
    plan = aggregator.plan(1000, epsilon=1.0, delta=1e-5)
    counts = np.tile([50, 0, 0], (1000, 1))
    counts[::2] = [18, 16, 16]
    answers = aggregator.answer(counts, TestSource("stop"), limit=plan.limit)
    assert 0 < answers.num_asked < 1000
    assert answers.spent <= plan.limit < answers.spent + aggregator.check_cost + aggregator.answer_cost
    assert (answers.labels[answers.num_asked :] == -1).all()
    assert not answers.consulted[answers.num_asked :].any()
    spent = GdpAccountant().compose(GaussianEvent(20.0), answers.num_asked)
    spent = spent.compose(GaussianEvent(10 / math.sqrt(2)), int(answers.consulted.sum()))
    assert spent.epsilon(1e-5) <= 1.0
    assert PldAccountant().compose(plan.event).epsilon(1e-5) <= 1.0


def test_unanswered_queries_leave_more_for_others() -> None:
    # Both votes are ten standard deviations of the check's noise from the threshold.
    aggregator = ConfidentGNMax(threshold=200.0, sigma_threshold=20.0, sigma=10.0)
    limit = aggregator.plan(1000, epsilon=1.0, delta=1e-5).limit
    agreed = aggregator.answer(np.tile([400, 0, 0], (1000, 1)), TestSource("a"), limit=limit)
    split = aggregator.answer(np.tile([1, 1, 1], (1000, 1)), TestSource("b"), limit=limit)
    assert split.num_asked > agreed.num_asked


@pytest.mark.parametrize("aggregator", AGGREGATORS, ids=lambda one: type(one).__name__)
def test_a_small_budget_is_refused_and_a_large_one_asks_everything(aggregator: VoteAggregator) -> None:
    with pytest.raises(InvalidArgument, match="enough for one query"):
        aggregator.plan(5, epsilon=1e-2, delta=1e-9)
    plan = aggregator.plan(5, epsilon=100.0, delta=1e-5)
    answers = aggregator.answer(np.tile(BEFORE, (5, 1)), TestSource(0), limit=plan.limit, num_teachers=5)
    assert answers.num_asked == 5


def test_little_noise_gives_the_plurality() -> None:
    rng = np.random.default_rng(1)
    counts = rng.permuted(np.tile([9, 5, 3, 0], (200, 1)), axis=1)
    for aggregator in (LNMax(scale=1e-3), GNMax(sigma=1e-3)):
        answers = aggregator.answer(counts, TestSource(3), limit=EVERYTHING * 10**9)
        assert (answers.labels == counts.argmax(axis=1)).all()


def outputs(aggregator: VoteAggregator) -> Batched:
    """Return the aggregator as a black box: one query, many times."""

    def run(counts: NDArray[np.int64], source: RandomSource, count: int) -> NDArray[np.int64]:
        guesses = np.tile([0.4, 0.4, 0.2], (count, 1)) if isinstance(aggregator, InteractiveGNMax) else None
        rows = np.tile(counts, (count, 1))
        return aggregator.answer(rows, source, limit=EVERYTHING, predictions=guesses, num_teachers=5).labels

    return Batched(run)


@pytest.mark.parametrize("aggregator", AGGREGATORS, ids=lambda one: type(one).__name__)
def test_audits_find_nothing(aggregator: VoteAggregator) -> None:
    delta = 1e-3
    event = aggregator.plan(1, epsilon=100.0, delta=delta).event
    claimed = PldAccountant().compose(event).epsilon(delta)
    for first, second in ((BEFORE, AFTER), (np.array([4, 0, 0]), np.array([3, 0, 0]))):
        result = audit(outputs(aggregator), first, second, delta=delta, samples=40_000, source=TestSource("audit"))
        assert not result.compare(claimed).violated


def test_noise_for_one_count_instead_of_two_is_caught() -> None:
    # The twin claims 1 / scale, as if a vote changed one count only. The chance of the second class is
    # (2 + g) e^-g / 4, g = gap / scale: its logarithm moves by 3.49 here, where the twin says 2.
    twin = LNMax(scale=0.5)
    neighbours = np.array([6, 2]), np.array([5, 3])
    settings: dict[str, Any] = {"samples": 200_000, "source": TestSource("one count")}
    assert refuted(outputs(twin), *neighbours, epsilon=1 / 0.5, **settings)
    assert not refuted(outputs(twin), *neighbours, epsilon=2 / 0.5, **settings)
    # The same for Gaussian noise on the counts themselves: the twin's noise protects one of the two.
    sigma = 3.0

    def add_noise(counts: NDArray[np.int64], source: RandomSource, count: int) -> NDArray[np.float64]:
        return counts + np.random.default_rng(source.words(4)).normal(0, sigma, (count, 3))

    delta = 1e-2
    single = PldAccountant().compose(GaussianEvent(sigma)).epsilon(delta)
    double = PldAccountant().compose(GNMax(sigma=sigma).plan(1, epsilon=99.0, delta=delta).event).epsilon(delta)
    direction = Batched(lambda counts, source, count: add_noise(counts, source, count) @ [1.0, -1.0, 0.0])
    large: dict[str, Any] = {"delta": delta, "samples": 200_000, "source": TestSource("two counts")}
    assert refuted(direction, BEFORE, AFTER, epsilon=single, **large)
    assert not refuted(direction, BEFORE, AFTER, epsilon=double, **large)


def test_a_check_without_noise_is_caught() -> None:
    aggregator = ConfidentGNMax(threshold=3.0, sigma_threshold=4.0, sigma=8.0)
    claimed = PldAccountant().compose(aggregator.plan(1, epsilon=99.0, delta=1e-3).event).epsilon(1e-3)

    def twin(counts: NDArray[np.int64], source: RandomSource, count: int) -> NDArray[np.int64]:
        labels = GNMax(sigma=8.0).answer(np.tile(counts, (count, 1)), source, limit=EVERYTHING).labels
        return labels if counts.max() >= 3 else np.full(count, -1)

    settings: dict[str, Any] = {"delta": 1e-3, "samples": 20_000, "source": TestSource("check")}
    neighbours = np.array([3, 2, 0]), np.array([2, 2, 1])
    assert refuted(Batched(twin), *neighbours, epsilon=claimed, **settings)
    assert not refuted(outputs(aggregator), *neighbours, epsilon=claimed, **settings)


def test_averaged_answers_to_a_repeated_query_are_caught() -> None:
    # A twin asks 25 times and charges once. If all 25 are charged, the audit finds nothing.
    aggregator = GNMax(sigma=4.0)

    def repeated(counts: NDArray[np.int64], source: RandomSource, count: int) -> NDArray[np.int64]:
        rows = np.tile(counts, (count * 25, 1))
        labels = aggregator.answer(rows, source, limit=EVERYTHING).labels.reshape(count, 25)
        return (labels == 0).sum(axis=1)

    query = aggregator.plan(1, epsilon=99.0, delta=1e-3).event
    settings: dict[str, Any] = {"delta": 1e-3, "samples": 10_000, "source": TestSource("repeat")}
    single, charged = (PldAccountant().compose(SelfComposedEvent(query, k)).epsilon(1e-3) for k in (1, 25))
    assert refuted(Batched(repeated), BEFORE, AFTER, epsilon=single, **settings)
    assert not refuted(Batched(repeated), BEFORE, AFTER, epsilon=charged, **settings)
