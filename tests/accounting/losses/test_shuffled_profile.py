"""Shuffled reports, compared with the enumeration of everything that can happen."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from hush.accounting import (
    ApproximateDPEvent,
    Event,
    GaussianEvent,
    GdpAccountant,
    GroupEvent,
    LaplaceEvent,
    PldAccountant,
    PoissonSampledEvent,
    PureFilter,
    RdpAccountant,
    SelfComposedEvent,
    ShuffledEvent,
    ZcdpAccountant,
)
from hush.accounting.events import RandomizedResponseEvent
from hush.accounting.losses.pairs.shuffled_profile import ShuffledProfile, _half_binomial
from hush.errors import InvalidArgument, Unsupported
from hush.estimators import LocalRandomizer
from hush.guarantee import Relation
from hush.mechanisms import RandomizedResponse

Masses = dict[tuple[int, ...], float]


def accountant(event: Event, count: int = 1) -> PldAccountant:
    return PldAccountant(relation=Relation.REPLACE).compose(event, count)


def epsilon(event: Event, delta: float) -> float:
    return accountant(event).epsilon(delta)


def delta_of(first: Masses, second: Masses, at: float) -> float:
    """Return the hockey-stick divergence of two distributions of finitely many outcomes."""
    ratio = math.exp(at)
    return math.fsum(max(mass - ratio * second.get(outcome, 0.0), 0.0) for outcome, mass in first.items())


def clone_pair(local_epsilon: float, num_reports: int, clone_rate: float) -> tuple[Masses, Masses]:
    """Return the theorem's pair: two counts, from a binomial number of fair coins and one biased coin."""
    truthful = 1 / (1 + math.exp(-local_epsilon))
    pair: list[Masses] = [Counter(), Counter()]
    for clones in range(num_reports):
        for heads in range(clones + 1):
            mass = math.comb(num_reports - 1, clones) * math.comb(clones, heads) / 2**clones
            mass *= clone_rate**clones * (1 - clone_rate) ** (num_reports - 1 - clones)
            for masses, share in zip(pair, (truthful, 1 - truthful), strict=True):
                masses[heads + 1, clones - heads] += mass * share
                masses[heads, clones - heads + 1] += mass * (1 - share)
    return pair[0], pair[1]


def shuffled_survey(local_epsilon: float, num_values: int, records: Sequence[int]) -> Masses:
    """Return the distribution of how often each value is reported, by adding one person after the other."""
    weight = math.exp(local_epsilon)
    result: Masses = {(0,) * num_values: 1.0}
    for record in records:
        following: Masses = Counter()
        for counts, mass in result.items():
            for value in range(num_values):
                more = tuple(count + (index == value) for index, count in enumerate(counts))
                following[more] += mass * (weight if value == record else 1.0) / (weight + num_values - 1)
        result = following
    return result


@pytest.mark.parametrize("num_reports", [2, 5, 40])
@pytest.mark.parametrize("local_epsilon", [0.1, 1.0, 4.0])
def test_the_curve_is_that_of_the_pair(local_epsilon: float, num_reports: int) -> None:
    for clone_rate in (math.exp(-local_epsilon), 2 / (1 + math.exp(local_epsilon))):
        profile = ShuffledProfile(local_epsilon, num_reports - 1, clone_rate)
        first, second = clone_pair(local_epsilon, num_reports, clone_rate)
        for at in np.linspace(0, local_epsilon, 9)[:-1]:
            truth = max(delta_of(first, second, at), delta_of(second, first, at))
            assert truth * (1 - 1e-12) <= float(profile.delta(np.array([at]))[0]) <= truth * 1.02, at


@pytest.mark.parametrize(
    ("local_epsilon", "num_values", "num_reports"), [(0.5, 2, 12), (2.0, 2, 12), (1.0, 3, 8), (3.0, 3, 8), (1.0, 4, 6)]
)
def test_no_survey_tells_more_than_the_bound(local_epsilon: float, num_values: int, num_reports: int) -> None:
    # Whatever the others report: all compositions of their records, up to the order that does not matter.
    bound = accountant(ShuffledEvent(RandomizedResponseEvent(local_epsilon, num_values), num_reports))
    anything = accountant(ShuffledEvent(ApproximateDPEvent(local_epsilon), num_reports))
    for others in itertools.combinations_with_replacement(range(num_values), num_reports - 1):
        first, second = (shuffled_survey(local_epsilon, num_values, (record, *others)) for record in (0, 1))
        for at in (0.0, 0.2, 0.4 * local_epsilon, 0.8 * local_epsilon):
            truth = max(delta_of(first, second, at), delta_of(second, first, at))
            assert truth <= bound.delta(at) * (1 + 1e-12) <= anything.delta(at) * (1 + 1e-9), (others, at)


def two_values(local_epsilon: float, num_reports: int, at: float) -> float:
    """Return the exact delta of a survey with two values if half of the others have either."""
    truthful = 1 / (1 + math.exp(-local_epsilon))
    half = (num_reports - 1) // 2
    ones = np.convolve(
        binom.pmf(np.arange(half + 1), half, truthful),
        binom.pmf(np.arange(num_reports - half), num_reports - 1 - half, 1 - truthful),
    )
    first, second = (
        np.append(share * ones, 0.0) + np.append(0.0, (1 - share) * ones) for share in (truthful, 1 - truthful)
    )
    return float(np.maximum(first - math.exp(at) * second, 0.0).sum())


class TestBrokenTwins:
    """A survey of two values, whose delta is known exactly, must catch what is not a bound."""

    LOCAL, REPORTS, AT = 2.0, 1001, 0.3
    TRUTH = two_values(LOCAL, REPORTS, AT)

    def test_the_bound_is_above(self) -> None:
        bound = accountant(ShuffledEvent(RandomizedResponseEvent(self.LOCAL), self.REPORTS)).delta(self.AT)
        assert bound > self.TRUTH

    def test_all_others_as_clones(self) -> None:
        twin = ShuffledProfile(self.LOCAL, self.REPORTS - 1, 1 - 1e-12)
        assert float(twin.delta(np.array([self.AT]))[0]) < self.TRUTH / 100

    def test_sampling_instead_of_shuffling(self) -> None:
        # A report is not a sample of one record: the Poisson formula at rate 1 / n has no proof here.
        twin = math.log1p(math.expm1(self.LOCAL) / self.REPORTS)
        assert two_values(self.LOCAL, self.REPORTS, twin) > 0.02

    def test_the_mean_number_of_clones(self) -> None:
        # Where there happen to be few clones, they hide less, and that decides where delta is small.
        local, reports, rate = 4.0, 200, math.exp(-4.0)
        first, second = clone_pair(local, reports, rate)
        twin_first, twin_second = clone_pair(local, 1 + math.floor((reports - 1) * rate), 1.0)
        assert delta_of(twin_first, twin_second, 3.0) < 0.9 * delta_of(first, second, 3.0)


def test_half_binomials_are_exact() -> None:
    for trials, successes in ((0, 0), (1, 0), (1, 1), (17, 3), (400, 399), (5000, 2300)):
        truth = Fraction(math.comb(trials, successes), 2**trials)
        computed = float(_half_binomial(np.array([float(successes)]), np.array([float(trials)]))[0])
        assert float(Fraction(computed) / truth) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("local_epsilon", [1e-6, 0.01, 1.0, 10.0, 50.0])
@pytest.mark.parametrize("num_reports", [2, 1000, 10**6])
def test_profiles_fall_and_are_convex(local_epsilon: float, num_reports: int) -> None:
    profile = ShuffledProfile(local_epsilon, num_reports - 1, math.exp(-local_epsilon))
    unshuffled = ShuffledProfile(local_epsilon, 1, 1e-12)
    ratios = np.linspace(1.0, math.exp(min(local_epsilon, 5.0)), 500)
    values = profile.delta(np.log(ratios))
    assert (np.diff(values) <= 0).all()
    assert (values <= unshuffled.delta(np.log(ratios)) * (1 + 1e-9)).all()
    # Convex up to what the choice of ranges of clones may differ by.
    assert (np.diff(values, 2) >= -1e-6 * values[0]).all()
    assert float(profile.delta(np.array([local_epsilon]))[0]) == 0


def test_more_reports_and_less_local_epsilon_cost_less() -> None:
    costs = [epsilon(ShuffledEvent(ApproximateDPEvent(2.0), reports), 1e-6) for reports in (1, 2, 10, 100, 10**9)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] == pytest.approx(2.0, abs=1e-5)
    costs = [epsilon(ShuffledEvent(ApproximateDPEvent(local), 1000), 1e-6) for local in (0.1, 0.5, 1.0, 3.0, 8.0, 60.0)]
    assert costs == sorted(costs)


def test_it_is_below_the_closed_form() -> None:
    # Feldman, McMillan & Talwar 2021, Theorem 3.1, for local epsilons up to ln(n / (16 ln(2 / delta))).
    for local, reports, delta in ((0.5, 10_000, 1e-6), (1.0, 100_000, 1e-8), (3.0, 1_000_000, 1e-6)):
        assert local <= math.log(reports / (16 * math.log(2 / delta)))
        weight = math.exp(local)
        root = 8 * math.sqrt(weight * math.log(4 / delta)) / math.sqrt(reports) + 8 * weight / reports
        closed = math.log1p((weight - 1) / (weight + 1) * root)
        assert closed / 20 < epsilon(ShuffledEvent(ApproximateDPEvent(local), reports), delta) < closed / 2


def test_composition_and_renyi_divergences() -> None:
    event = ShuffledEvent(LaplaceEvent(2.0), 10_000)  # a replaced record moves its own sum by 2
    assert epsilon(event, 1e-6) == pytest.approx(epsilon(ShuffledEvent(ApproximateDPEvent(1.0), 10_000), 1e-6))
    ten_times = accountant(event, 10)
    low, high = ten_times.interval(1e-6)
    assert 0.999 * high < low <= high
    renyi = RdpAccountant(relation=Relation.REPLACE).compose(event, 10).epsilon(1e-6)
    assert high < renyi < 1.3 * high


def test_mechanisms_and_estimators_can_be_shuffled_and_say_whom_to_trust() -> None:
    rows = np.zeros((3, 1))
    randomizer = LocalRandomizer(epsilon=1.0, bounds=(0, 1)).fit(rows)
    for local in (RandomizedResponse(epsilon=1.0).event, randomizer.event_):
        guarantee = accountant(ShuffledEvent(local, 1000)).guarantee(1e-6)
        assert guarantee.epsilon < 0.2
        assert set(ShuffledEvent.assumes) < set(guarantee.assumptions)  # and those of the mechanism
    repeated = accountant(SelfComposedEvent(ShuffledEvent(ApproximateDPEvent(1.0), 1000), 3))
    assert set(ShuffledEvent.assumes) < set(repeated.guarantee(1e-6).assumptions)


@pytest.mark.parametrize(
    "inner",
    [GaussianEvent(1.0), ApproximateDPEvent(1.0, 1e-9), SelfComposedEvent(GaussianEvent(9.0), 2)],
    ids=lambda event: event.kind,
)
def test_local_mechanisms_must_be_pure(inner: Event) -> None:
    with pytest.raises(Unsupported, match=f"shuffled {inner.kind}: shuffling is proven"):
        accountant(ShuffledEvent(inner, 100))


def test_other_relations_groups_and_samples_are_refused() -> None:
    event = ShuffledEvent(RandomizedResponseEvent(1.0), 100)
    for relation in (Relation.ADD_OR_REMOVE, Relation.ZERO_OUT):
        with pytest.raises(Unsupported, match="shuffled under"):
            PldAccountant(relation=relation).compose(event)
    with pytest.raises(Unsupported, match="a group of 2"):
        accountant(GroupEvent(event, 2))
    with pytest.raises(Unsupported, match="poisson-sampled shuffled"):
        accountant(PoissonSampledEvent(event, 0.1))
    for kind in (ZcdpAccountant, GdpAccountant):
        with pytest.raises(Unsupported, match="shuffled"):
            kind(relation=Relation.REPLACE).compose(event)
    with pytest.raises(Unsupported, match="shuffled"):
        PureFilter(epsilon=1.0, relation=Relation.REPLACE).spend(event)
    for number in (0, 10**9 + 1, 2.0, True):
        with pytest.raises(InvalidArgument, match="^num_reports="):
            ShuffledEvent(RandomizedResponseEvent(1.0), number)  # type: ignore[arg-type]
