"""Where hush and a published value differ, what shows who is right: closed forms and direct integration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp

from hush.accounting import GaussianEvent, PldAccountant, PoissonSampledEvent, RdpAccountant
from hush.accounting.events import ExponentialMechanismEvent
from hush.guarantee import Relation
from oracles import closed_form, contour
from peers.event_specs import event
from peers.facts import Group, Row, groups
from peers.laws import law


def group(file: str, test: str) -> Group:
    """Return the first group of a test."""
    return next(group for group in groups(file) if group.test.endswith(test))


def check_above(row: Row, published: float) -> None:
    """Check that hush's interval holds the epsilon of direct integration, and that a published bound is above it."""
    _, count, (_, rate, (_, noise)) = row["event"]
    truth = contour.epsilon(contour.parse([["sg", rate, noise, count]]), row["delta"], contour.ADD_OR_REMOVE)
    step = PoissonSampledEvent(GaussianEvent(noise), rate)
    lower, upper = PldAccountant().compose(step, count).interval(row["delta"])
    assert lower <= truth * (1 + 1e-9)
    assert truth * (1 - 1e-9) <= upper
    assert truth < published <= truth + 0.025


PUBLISHED = group("opacus", "PRVAccountantTest.test_values").rows


@pytest.mark.parametrize(
    "row", [pytest.param(row, marks=[] if index == 24 else pytest.mark.slow) for index, row in enumerate(PUBLISHED)]
)
def test_an_error_is_added_to_these_epsilons(row: Row) -> None:
    check_above(row, row["value"])


@pytest.mark.parametrize("index", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_this_noise_is_rounded_up(index: int) -> None:
    row = group("dp_accounting_accountants", "test_get_smallest_subsampled_gaussian_noise").rows[index]
    phases = contour.parse([["sg", row["rate"], row["value"] / row["sensitivity"], row["count"]]])
    truth = contour.epsilon(phases, row["delta"], contour.ADD_OR_REMOVE)
    assert 1 - 1e-5 < truth < 1 - 1e-8


def test_this_pessimistic_delta_is_too_small() -> None:
    name = "test_mixture_gaussian_varying_standard_deviation_and_sensitivity_connect_dots"
    row = group("dp_accounting_distributions", name).rows[0]
    assert row["weights"] == [1]  # a plain Gaussian, of which the delta is known
    masses = dict(row["masses"])
    at_infinity = 1 - sum(masses.values())
    published = at_infinity + sum(mass * -math.expm1(-loss) for loss, mass in masses.items() if loss > 0)
    exact = closed_form.gaussian(row["stddev"] / row["shifts"][0])(0.0)
    assert published < exact - 0.04
    assert PldAccountant().compose(GaussianEvent(1.0)).delta(0.0) == pytest.approx(exact, rel=1e-12)


def test_this_series_stops_early() -> None:
    published = group("dp_accounting_accountants", "test_compute_rdp_poisson_sampled_gaussian").rows[0]
    noise, rate, order = 2.5, 0.01, published["order"]

    def moment(x: float) -> float:
        density = math.exp(-0.5 * (x / noise) ** 2) / (noise * math.sqrt(2 * math.pi))
        ratio = rate * math.expm1((2 * x - 1) / (2 * noise**2))  # P / Q - 1
        return density * (math.exp(order * math.log1p(ratio)) - 1 - order * ratio)  # the mean of the ratio is 0

    exact = 50 * math.log1p(quad(moment, -40, 45, epsabs=1e-18, limit=200)[0]) / (order - 1)
    ours = 50 * RdpAccountant().compose(PoissonSampledEvent(GaussianEvent(noise), rate)).renyi(order)
    assert ours == pytest.approx(exact, rel=1e-6)
    assert published["value"] > 1.03 * exact


def test_less_laplace_noise_is_enough() -> None:
    rows = group("dp_accounting_mechanisms", "LaplacePrivacyLossTest.test_laplace_from_privacy_parameters").rows
    sampled = {"add": closed_form.sampled_add, "remove": closed_form.sampled_remove}
    for row in rows:
        if row["delta"] > 0 or (row["direction"] == "add" and row["rate"] < 1):
            profile = sampled[row["direction"]](
                closed_form.laplace(0.999 * row["value"] / row["sensitivity"]), row["rate"]
            )
            assert profile(row["epsilon"]) <= row["delta"]


@pytest.mark.parametrize(
    ("mechanism", "parameter", "factor"),
    [("discrete-laplace", "exponent", 1.001), ("discrete-gaussian", "sigma", 0.999)],
)
def test_less_discrete_noise_is_enough(mechanism: str, parameter: str, factor: float) -> None:
    name = f"test_{mechanism.replace('-', '_')}_from_privacy_parameters"
    for row in group("dp_accounting_mechanisms", name).rows:
        added = row["direction"] == "add" and row["rate"] < 1
        if added or (mechanism == "discrete-laplace" and row["delta"] > 0):
            outcomes = law(mechanism, {**row, parameter: factor * row["value"]})
            masses = [(outcomes.first_cdf(x) - outcomes.first_cdf(x - 1), outcomes.loss(x)) for x in range(-50, 50)]
            delta = sum(mass * max(0.0, -math.expm1(row["epsilon"] - loss)) for mass, loss in masses)
            assert delta <= row["delta"] * (1 + 1e-9), row


def test_large_orders_have_finite_divergences() -> None:
    """At an integer order the moment is a binomial sum (Mironov, Talwar & Zhang 2019)."""
    for row in group("autodp", "test_RDP_values_lowerbound").rows:
        order, rate, noise = row["order"], row["rate"], row["noise"]
        if order == int(order) and 0 < rate < 1:
            k = np.arange(order + 1)
            log_choose = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
            terms = log_choose + (order - k) * math.log1p(-rate) + k * math.log(rate) + k * (k - 1) / (2 * noise**2)
            exact = row["count"] * float(logsumexp(terms)) / (order - 1)
            assert row["value"] == pytest.approx(exact, rel=1e-6, abs=1e-11)


def test_two_intervals_disagree_about_one_mixture() -> None:
    """P(loss <= 0) depends on no interval. The integer one is wrong."""
    name = "test_mixture_gaussian_varying_standard_deviation_and_sensitivity"
    mixture = {"stddev": 1, "shifts": [0, 1, 2], "weights": [0.2, 0.6, 0.2], "direction": "add"}
    (coarse,) = (row for row in group("dp_accounting_distributions", name).rows if mixture.items() <= row.items())
    fine = group("dp_accounting_distributions", "test_mixture_gaussian_discretization").rows[0]
    assert mixture.items() <= fine.items()
    outcomes = law("mixture", fine)
    at_zero = float(brentq(lambda x: -outcomes.loss(x), -10, 10))
    exact = 1 - outcomes.first_cdf(at_zero)
    assert dict(fine["masses"])[0] == pytest.approx(exact, abs=1e-6)
    assert dict(coarse["masses"])[0] == 0.5


@pytest.mark.slow
def test_a_finer_grid_gives_this_epsilon() -> None:
    row = group("dp_accounting_accountants", "test_mixture_of_gaussians_basic").rows[0]
    accountant = PldAccountant(accuracy=1e-8).compose(event(row["event"], Relation.ADD_OR_REMOVE))
    low, high = accountant.delta_interval(row["epsilon"])
    assert low <= row["value"] * (1 + 1e-6)
    assert high == pytest.approx(row["value"], abs=1e-12)


def test_this_divergence_is_not_the_largest_loss() -> None:
    """The worst mechanism of range 1 has two losses, t and t - 1; their masses follow from the total of 1."""
    (row,) = (
        row
        for row in group("dp_accounting_accountants", "test_compute_rdp_exponential_mechanism").rows
        if row["order"] == 1000
    )
    losses = np.linspace(1e-6, 1 - 1e-9, 1_000_001)
    masses = (np.exp(1 - losses) - 1) / (np.exp(1 - losses) - np.exp(-losses))
    moments = np.logaddexp(np.log(masses) + 999 * losses, np.log1p(-masses) + 999 * (losses - 1))
    supremum = float(moments.max()) / 999
    ours = RdpAccountant().compose(ExponentialMechanismEvent(1.0)).renyi(1000.0)
    assert supremum <= ours < 1.001 * supremum < row["value"]
