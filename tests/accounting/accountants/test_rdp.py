"""The Renyi accountant: closed forms, orders, and selection by repetition.

Selection (Papernot & Steinke 2022) is compared with dp-accounting 0.6 and with the paper's own figures.
"""

from __future__ import annotations

import itertools
import math
from functools import cache

import dp_accounting
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant as PeerRdp

from hush.accounting import (
    ApproximateDPEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PldAccountant,
    PoissonSampledEvent,
    RdpAccountant,
    SelfComposedEvent,
    ZeroConcentratedDPEvent,
    renyi_to_epsilon,
)
from hush.accounting.events import RepeatNegativeBinomialEvent, RepeatPoissonEvent
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Relation
from oracles import closed_form

# Their orders come from a list. A dense one makes the comparison about the theorem, not about the list.
ORDERS = [1 + x / 20 for x in range(1, 200)] + list(range(11, 200)) + [256, 512, 1024]


@cache
def peer(kind: str, *arguments: float) -> float:
    base = dp_accounting.GaussianDpEvent(2.0)
    if kind == "poisson":
        event = dp_event.RepeatAndSelectDpEvent(base, arguments[0], math.inf)
    else:
        gamma, shape = arguments
        mean = RepeatNegativeBinomialEvent(GaussianEvent(2.0), gamma, shape).mean
        event = dp_event.RepeatAndSelectDpEvent(base, mean, shape)
    accountant = PeerRdp(ORDERS, dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    return float(accountant.compose(event).get_epsilon(1e-5))


def ours(event: Event) -> float:
    return RdpAccountant().compose(event).epsilon(1e-5)


NEGATIVE_BINOMIAL = [
    # gamma, shape, mean, and the paper's value where it follows from Theorem 2
    (1 / 2, 1.0, 2.0, 3.174),
    (1 / 10, 1.0, 10.0, 4.320),
    (1 / 100, 1.0, 100.0, 5.437),
    (0.5, 0.0, 1.44, None),
    (0.1, 0.0, 3.91, None),
    (0.01, 0.0, 21.5, 3.889),
    (0.001, 0.0, 144.6, 4.423),
    (0.1, 0.5, 6.6, None),
    (0.01, 0.5, 55.0, 4.679),
]


@pytest.mark.parametrize(("gamma", "shape", "mean", "published"), NEGATIVE_BINOMIAL)
def test_negative_binomial(gamma: float, shape: float, mean: float, published: float | None) -> None:
    event = RepeatNegativeBinomialEvent(GaussianEvent(2.0), gamma, shape)
    assert event.mean == pytest.approx(mean, rel=0.005)
    epsilon = ours(event)
    assert epsilon <= peer("negative-binomial", gamma, shape) * (1 + 1e-6)
    assert epsilon == pytest.approx(peer("negative-binomial", gamma, shape), abs=5e-3)
    if published is not None:
        assert epsilon == pytest.approx(published, abs=2.5e-2)
        assert epsilon <= published + 1e-2


# dp-accounting 0.6's own values for the three whose published ones do not follow from Theorem 2.
@pytest.mark.parametrize(("gamma", "shape", "epsilon"), [(0.5, 0.0, 2.6718), (0.1, 0.0, 3.2669), (0.1, 0.5, 3.7970)])
def test_values_of_the_peer(gamma: float, shape: float, epsilon: float) -> None:
    assert ours(RepeatNegativeBinomialEvent(GaussianEvent(2.0), gamma, shape)) == pytest.approx(epsilon, abs=1e-2)


@pytest.mark.parametrize(("mean", "published"), [(5.0, 3.612), (10.0, 4.938), (50.0, 13.70), (100.0, 20.04)])
def test_poisson(mean: float, published: float) -> None:
    event = RepeatPoissonEvent(GaussianEvent(2.0), mean)
    epsilon = ours(event)
    # The paper and the peer bound a run's delta by its Renyi divergences; the exact one is smaller.
    assert epsilon <= published * 1.01
    assert epsilon <= peer("poisson", mean) * (1 + 1e-3)
    exact = closed_form.gaussian(2.0)

    def theorem(order: float) -> float:
        delta = exact(math.log1p(1 / (order - 1)))
        return order / 8 + mean * delta + math.log(mean) / (order - 1)

    orders = 1 + np.geomspace(1e-3, 1e3, 3000)
    divergences = np.array([theorem(float(order)) for order in orders])
    least = float(np.min(renyi_to_epsilon(divergences, orders, 1e-5)))
    assert epsilon == pytest.approx(least, rel=1e-4)


def best_of(probability: float, kind: str) -> list[float]:
    """Return the distribution of the best of a random number of reports: none, a 0, or a 1 with this probability."""
    if kind == "poisson":  # 5 runs on average
        none, below = math.exp(-5.0), math.exp(-5.0 * probability)
    else:  # a geometric number, 10 on average: the generating function at the probability of a 0
        none, below = 0.0, 0.1 * (1 - probability) / (1 - 0.9 * (1 - probability))
    return [none, below - none, 1 - below]


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("kind", ["poisson", "geometric"])
def test_bounds_on_selection_hold_for_the_exact_distribution(kind: str, epsilon: float) -> None:
    """For randomized response all distributions are known, and so is what a bound that is too small would miss."""
    base = ApproximateDPEvent(epsilon, 0.0)
    event = RepeatPoissonEvent(base, 5.0) if kind == "poisson" else RepeatNegativeBinomialEvent(base, 0.1, 1.0)
    accountant = RdpAccountant().compose(event)
    likely = 1 / (1 + math.exp(-epsilon))
    first, second = best_of(likely, kind), best_of(1 - likely, kind)
    for order in (1.001, 1.1, 2.0, 10.0, 100.0):
        for p, q in ((first, second), (second, first)):
            moment = sum(a * (a / b) ** (order - 1) for a, b in zip(p, q, strict=True) if a > 0)
            assert accountant.renyi(order) >= math.log(moment) / (order - 1)


@pytest.mark.parametrize(
    "event",
    [RepeatPoissonEvent(GaussianEvent(2.0), 5.0), RepeatNegativeBinomialEvent(GaussianEvent(2.0), 0.1, 1.0)],
)
def test_divergences_of_a_selection_grow_with_the_order(event: Event) -> None:
    accountant = RdpAccountant().compose(event)
    divergences = [accountant.renyi(order) for order in (1.0001, 1.01, 1.1, 1.5, 2.0, 5.0, 100.0)]
    assert divergences[0] < 4  # the theorems alone give more than 1,000
    assert all(low <= high * 1.01 for low, high in itertools.pairwise(divergences))


def test_no_divergence_exceeds_the_largest_loss() -> None:
    for event in (LaplaceEvent(2.0), PoissonSampledEvent(LaplaceEvent(1.0), 0.1), ApproximateDPEvent(0.5, 0.0)):
        accountant = RdpAccountant().compose(event)
        assert accountant.renyi(1e9) <= accountant.epsilon(0.0)


def test_the_base_itself() -> None:
    assert ours(GaussianEvent(2.0)) == pytest.approx(2.168, abs=3e-3)  # theirs used integer orders
    for event in (
        RepeatNegativeBinomialEvent(GaussianEvent(2.0), 0.5, 0.0),
        RepeatPoissonEvent(GaussianEvent(2.0), 1.0),
    ):
        assert ours(event) > ours(GaussianEvent(2.0))


def test_one_expected_run_is_not_free() -> None:
    # gamma close to 1 means almost always one run: the cost tends to that of pure selection, never below one run.
    for gamma in (0.9, 0.99, 0.999999):
        event = RepeatNegativeBinomialEvent(GaussianEvent(2.0), gamma, 1.0)
        assert event.mean >= 1
        assert ours(event) >= ours(GaussianEvent(2.0))


@pytest.mark.parametrize("mean", [1e-3, 0.1, 0.9, 1.0])
def test_few_expected_poisson_runs(mean: float) -> None:
    assert 0 < ours(RepeatPoissonEvent(GaussianEvent(2.0), mean)) < 10


@pytest.mark.parametrize("shape", [0.0, 1e-12, 5e-324, 0.5, 1.0, 3.0, 1e5])
@pytest.mark.parametrize("gamma", [1e-6, 0.1, 0.9])
def test_means_are_those_of_the_distribution(gamma: float, shape: float) -> None:
    mean = RepeatNegativeBinomialEvent(GaussianEvent(2.0), gamma, shape).mean
    assert 1 <= mean * (1 + 1e-9) < math.inf
    if gamma >= 0.1 and shape <= 3:
        # P(k) ~ (1 - gamma)^k binomial(k + shape - 1, k), summed
        weights, weight = [], (1 - gamma)
        for k in range(1, 2000):
            weights.append(weight)
            weight *= (1 - gamma) * (k + shape) / (k + 1)
        expected = sum(k * w for k, w in enumerate(weights, 1)) / sum(weights)
        assert mean == pytest.approx(expected, rel=1e-6)


def test_more_runs_and_composition_cost_more() -> None:
    values = [ours(RepeatNegativeBinomialEvent(GaussianEvent(2.0), gamma, 1.0)) for gamma in (0.5, 0.1, 0.01)]
    assert values == sorted(values)
    twice = SelfComposedEvent(RepeatNegativeBinomialEvent(GaussianEvent(2.0), 0.1, 1.0), 2)
    assert ours(twice) > values[1]
    assert ours(ComposedEvent((RepeatPoissonEvent(LaplaceEvent(5.0), 3.0), GaussianEvent(3.0)))) > ours(
        GaussianEvent(3.0)
    )


def test_replacement_costs_more() -> None:
    for event in (
        RepeatNegativeBinomialEvent(GaussianEvent(4.0), 0.1, 1.0),
        RepeatPoissonEvent(GaussianEvent(4.0), 5.0),
    ):
        assert RdpAccountant(relation=Relation.REPLACE).compose(event).epsilon(1e-5) > ours(event)


def test_a_privacy_loss_distribution_is_not_known() -> None:
    with pytest.raises(Unsupported, match="repeat-poisson.*RdpAccountant"):
        PldAccountant().compose(RepeatPoissonEvent(GaussianEvent(1.0), 3.0))


def test_selecting_among_pure_runs_costs_at_most_the_theorem_for_pure_dp() -> None:
    # Papernot & Steinke 2022, Corollary 3 in the limit: geometric repetition of an epsilon-DP run is 3 epsilon-DP.
    epsilon = ours(RepeatNegativeBinomialEvent(LaplaceEvent(10.0), 0.01, 1.0))
    assert epsilon < 1.0


def test_rdp_of_a_gaussian_is_its_formula() -> None:
    accountant = RdpAccountant().compose(GaussianEvent(2.0), 3)
    for order in (1.5, 2.0, 17.0, 300.0):
        assert accountant.renyi(order) == pytest.approx(3 * order / 8, rel=1e-12)
    assert math.isfinite(accountant.best_order(1e-5))


def test_rdp_orders_are_not_a_list_that_ends_at_63() -> None:
    # High privacy wants high orders: a list that stops at 63 is six times too loose here.
    event = GaussianEvent(200.0)
    exact = PldAccountant().compose(event).epsilon(1e-5)
    short = min(order / 8e4 + math.log1p(-1 / order) - math.log(1e-5 * order) / (order - 1) for order in range(2, 64))
    assert short > 6 * exact
    assert exact <= RdpAccountant().compose(event).epsilon(1e-5) < 1.6 * exact
    assert RdpAccountant().compose(event).best_order(1e-5) > 63


def test_claims_of_zcdp_are_lines() -> None:
    accountant = RdpAccountant().compose(ZeroConcentratedDPEvent(0.1), 2)
    assert accountant.renyi(5.0) == pytest.approx(1.0)


def test_an_event_with_a_delta_is_refused() -> None:
    for event in (ApproximateDPEvent(0.1, 1e-8), PoissonSampledEvent(ApproximateDPEvent(0.1, 1e-8), 0.1)):
        with pytest.raises(Unsupported, match="no Renyi divergence"):
            RdpAccountant().compose(event)


def test_at_delta_zero_the_largest_losses_add_up() -> None:
    accountant = RdpAccountant().compose(LaplaceEvent(2.0), 3)
    assert accountant.epsilon(0.0) == pytest.approx(1.5)
    assert accountant.delta(1.6) == 0
    assert RdpAccountant().compose(GaussianEvent(2.0)).epsilon(0.0) == math.inf


def test_the_conversion_is_the_proposition() -> None:
    # Canonne, Kamath & Steinke 2020, Proposition 12, at order 10.
    expected = 0.3 + math.log(0.9) - (math.log(1e-5) + math.log(10)) / 9
    assert renyi_to_epsilon(np.array([0.3]), np.array([10.0]), 1e-5)[0] == pytest.approx(expected)
    assert renyi_to_epsilon(np.array([0.0]), np.array([1e9]), 0.9)[0] == 0


@pytest.mark.parametrize("order", [0, 1.0, 1e10, math.nan])
def test_orders_are_checked(order: float) -> None:
    with pytest.raises(InvalidArgument, match="^order="):
        RdpAccountant().compose(GaussianEvent(1.0)).renyi(order)
