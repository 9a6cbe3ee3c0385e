"""Facts about what accountants say: epsilons, deltas and Renyi divergences of compositions, and calibrated noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from hush.accounting import (
    Accountant,
    ApproximateDPEvent,
    Event,
    GaussianEvent,
    GdpAccountant,
    LaplaceEvent,
    PldAccountant,
    PoissonSampledEvent,
    RdpAccountant,
    SelfComposedEvent,
    ZcdpAccountant,
    calibrate_noise,
    renyi_to_epsilon,
)
from hush.accounting.accountants.rdp import MAX_ORDER, renyi_bound
from hush.accounting.events import DiscreteLaplaceEvent, RepeatNegativeBinomialEvent, RepeatPoissonEvent
from hush.accounting.losses.pairs import Change, Direction
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Relation
from oracles import closed_form
from peers.event_specs import NEVER_RUN, UNPROTECTED, event
from peers.facts import Group, Row
from peers.verdicts import NotExpressible, Verdict, Verdicts, number

ACCOUNTANTS: dict[str, type[Accountant]] = {"pld": PldAccountant, "renyi": RdpAccountant, "gdp": GdpAccountant}
_ORDER_ONE = 1 + 1e-6  # hush has orders above 1; the divergence grows with the order


def compare(group: Group) -> Verdicts:
    """Compare every value of a group."""
    for row in group.rows:
        try:
            yield COMPARISONS[group.quantity](group, row)
        except (NotExpressible, Unsupported, InvalidArgument) as refusal:
            yield Verdict(row, None, False, str(refusal))


def composed(row: Row, kind: type[Accountant] = PldAccountant) -> Accountant:
    """Return an accountant that has composed the row's event."""
    relation = Relation(row.get("relation", "add-or-remove"))
    return kind(relation=relation).compose(event(row["event"], relation))


def _epsilon(kind: type[Accountant]) -> Callable[[Group, Row], Verdict]:
    return lambda group, row: number(group, row, composed(row, kind).epsilon(row["delta"]))


def _delta(kind: type[Accountant]) -> Callable[[Group, Row], Verdict]:
    return lambda group, row: number(group, row, composed(row, kind).delta(row["epsilon"]))


def _between(kind: type[Accountant]) -> Callable[[Group, Row], Verdict]:
    def compare_range(group: Group, row: Row) -> Verdict:
        ours = composed(row, kind).epsilon(row["delta"])
        return Verdict(row, ours, row["low"] <= ours <= row["value"])

    return compare_range


def _epsilon_at_most(group: Group, row: Row) -> Verdict:
    ours = composed(row, RdpAccountant).epsilon(row["delta"])
    return Verdict(row, ours, ours <= row["value"])


def _tpr(group: Group, row: Row) -> Verdict:
    return number(group, row, _rough(row).max_tpr(row["fpr"]))


def _gdp(group: Group, row: Row) -> Verdict:
    """The mu for which a Gaussian has the same true positive rate: the largest at their false positive rates."""
    accountant = _rough(row)
    # An outcome that betrays the record, whatever the false positive rate. Bounds on delta do not fall to 0.
    if accountant.delta(50.0) > 1e-300:
        return number(group, row, math.inf)
    # For two claims the largest is at their corner, 1 / (1 + e^2); for a Gaussian all rates give the same.
    rates = (0.05, 1 / (1 + math.exp(2)))
    return number(group, row, max(float(ndtri(accountant.max_tpr(rate)) - ndtri(rate)) for rate in rates))


def _rough(row: Row) -> Accountant:
    """Return an accountant that is accurate enough for rates, and fast."""
    relation = Relation(row["relation"])
    return PldAccountant(relation=relation, accuracy=1e-4).compose(event(row["event"], relation))


def _renyi_of(row: Row, spec: list[object]) -> float:
    accountant, order = composed({**row, "event": spec}, RdpAccountant), row["order"]
    assert isinstance(accountant, RdpAccountant)
    if order == math.inf:
        return accountant.epsilon(0.0)
    return accountant.renyi(min(max(order, _ORDER_ONE), MAX_ORDER))


def _renyi(group: Group, row: Row) -> Verdict:
    ours = _renyi_of(row, row["event"])
    if row["order"] == 1:  # the limit from above
        return Verdict(row, ours, row["value"] <= ours <= row["value"] * (1 + 1e-5))
    return number(group, row, ours)


def _renyi_as_of(group: Group, row: Row) -> Verdict:
    return number(group, {**row, "value": _renyi_of(row, row["other"])}, _renyi_of(row, row["event"]))


def _renyi_at_most(group: Group, row: Row) -> Verdict:
    ours = _renyi_of(row, row["event"])
    return Verdict(row, ours, ours <= row["value"] * (1 + 1e-5))


def _renyi_positive(group: Group, row: Row) -> Verdict:
    ours = _renyi_of(row, row["event"])
    return Verdict(row, ours, 0 < ours < math.inf)


@cache
def _sampled_renyi_once(rate: float, noise: float, order: float) -> float:
    return RdpAccountant().compose(PoissonSampledEvent(GaussianEvent(noise), rate)).renyi(order)


def _sampled_renyi(group: Group, row: Row) -> Verdict:
    if row["rate"] == 0:
        raise NotExpressible(NEVER_RUN)
    return number(group, row, row["count"] * _sampled_renyi_once(row["rate"], row["noise"], row["order"]))


def _log_moment(group: Group, row: Row) -> Verdict:
    step = PoissonSampledEvent(GaussianEvent(row["noise"]), row["rate"])
    removal = Change(Direction.REMOVE, Relation.ADD_OR_REMOVE)
    divergence = float(renyi_bound(step, removal, np.array([float(row["order"])]))[0])
    return number(group, row, (row["order"] - 1) * divergence)


def _conversion(group: Group, row: Row) -> Verdict:
    ours = renyi_to_epsilon(np.array([row["divergence"]]), np.array([float(row["order"])]), row["delta"])
    return number(group, row, float(ours[0]))


def _round_trip(group: Group, row: Row) -> Verdict:
    """The delta of the epsilon of a delta is that delta, unless epsilon is already 0 or cannot fall further."""
    if 0 in (row["rate"], row["noise"]):
        raise NotExpressible(NEVER_RUN if row["rate"] == 0 else UNPROTECTED)
    accountant = RdpAccountant().compose(PoissonSampledEvent(GaussianEvent(row["noise"]), row["rate"]))
    epsilon = accountant.epsilon(row["delta"])
    ours = accountant.delta(epsilon)
    agrees = ours <= row["delta"] + group.margin(0) and (epsilon == 0 or group.agrees(ours, row["delta"]))
    return Verdict(row, ours, agrees)


def _delta_between(group: Group, row: Row) -> Verdict:
    """At every epsilon: the exact delta, then the Renyi bound, then the classic tail bound."""
    exact, bound = closed_form.gaussian(1.0), composed(row, RdpAccountant)
    for index in range(row["count"]):
        epsilon = row["first"] + index * row["step"]
        classic = max(math.exp(-0.5 * max(epsilon - 0.5, 0.0) ** 2), math.ulp(0.0))
        if not exact(epsilon) * (1 - 1e-9) <= bound.delta(epsilon) <= classic:
            return Verdict(row, epsilon, False)
    return Verdict(row, None, True)


def _effective_noise(group: Group, row: Row) -> Verdict:
    accountant = composed(row, ZcdpAccountant)
    assert isinstance(accountant, ZcdpAccountant)
    return number(group, row, math.sqrt(0.5 / accountant.rho))


# --- Gaussians in closed form


def gaussian_noise(epsilon: float, delta: float) -> float:
    """Return the noise multiplier of (epsilon, delta), by the closed form of Balle & Wang (2018)."""

    def noise(z: float) -> float:  # z = sigma epsilon - 1 / (2 sigma)
        return 1 / (math.sqrt(z * z + 2 * epsilon) - z)

    z = brentq(lambda z: closed_form.gaussian(noise(z))(epsilon) - delta, -8, 38, xtol=1e-15, rtol=1e-15)
    return noise(float(z))


def gaussian_epsilon(noise: float, delta: float) -> float:
    """Return the epsilon of Gaussian noise by the same closed form."""
    if delta == 0:
        return math.inf
    profile = closed_form.gaussian(noise)
    least = max(-0.5 / noise, -8.0)
    if delta == 1 or (least > -8 and profile(0.0) <= delta):
        return 0.0
    z = brentq(lambda z: profile((z + 0.5 / noise) / noise) - delta, least, 38, xtol=1e-15, rtol=1e-15)
    return float((z + 0.5 / noise) / noise)


def _gaussian_epsilon(group: Group, row: Row) -> Verdict:
    ours = PldAccountant().compose(GaussianEvent(row["noise"])).epsilon(row["delta"])
    return number(group, {**row, "value": gaussian_epsilon(row["noise"], row["delta"])}, ours)


def _epsilon_at_its_noise(group: Group, row: Row) -> Verdict:
    if row["delta"] in (0, 1):
        raise NotExpressible("Gaussian noise that is 0 or infinite")
    noise = gaussian_noise(row["value"], row["delta"])
    return number(group, row, PldAccountant().compose(GaussianEvent(noise)).epsilon(row["delta"]))


def _noise_at_its_epsilon(group: Group, row: Row) -> Verdict:
    noise, delta = row["value"], row["delta"]
    epsilon = gaussian_epsilon(noise, delta) if noise >= 1e-3 else math.nan
    return number(group, {**row, "value": epsilon}, PldAccountant().compose(GaussianEvent(noise)).epsilon(delta))


def _gaussian_tpr(group: Group, row: Row) -> Verdict:
    ours = PldAccountant().compose(GaussianEvent(row["noise"])).max_tpr(row["fpr"])
    return number(group, {**row, "value": float(ndtr(ndtri(row["fpr"]) + 1 / row["noise"]))}, ours)


# --- calibration


def _noise_from_its_epsilon(group: Group, row: Row) -> Verdict:
    epsilon = gaussian_epsilon(row["value"] / math.sqrt(row["count"]), row["delta"])
    if epsilon == 0:
        raise NotExpressible("a target of epsilon 0")
    return number(group, row, calibrate_noise(epsilon=epsilon, delta=row["delta"], num_steps=row["count"]))


def _smallest_noise(group: Group, row: Row) -> Verdict:
    """The parameter is the smallest if the target lies between the epsilons at its two margins."""
    make: Callable[[float], Event] = {
        "laplace": lambda scale: LaplaceEvent(scale / row["sensitivity"]),
        "gaussian": lambda stddev: GaussianEvent(stddev / row["sensitivity"]),
        "discrete-laplace": lambda exponent: DiscreteLaplaceEvent(1 / exponent, row["sensitivity"]),
    }[row["mechanism"]]
    steps = [
        PoissonSampledEvent(make(row["value"] + side * group.margin(row["value"])), row["rate"]) for side in (-1, 1)
    ]
    bounds = sorted(PldAccountant().compose(step, row["count"]).interval(row["delta"]) for step in steps)
    return Verdict(row, bounds, bounds[0][0] <= row["epsilon"] <= bounds[1][1])


def _sampled_noise(group: Group, row: Row) -> Verdict:
    ours = calibrate_noise(
        epsilon=row["epsilon"],
        delta=row["delta"],
        sampling_rate=row["rate"],
        num_steps=row["count"],
        accountant=ACCOUNTANTS[row["accountant"]],
    )
    return number(group, row, ours)


def _calibrated_step(group: Group, row: Row) -> Verdict:
    """Noise for epsilon 1 at delta 1e-6, and the epsilon of that noise."""
    kind, relation, step = ACCOUNTANTS[row["accountant"]], Relation(row["relation"]), row["event"]

    def steps(noise: float) -> Event:
        inner = ["zcdp", 0.5 / noise**2] if step[0].endswith("zcdp") else ["gaussian", noise]
        sampled = event([step[0].removesuffix("-zcdp"), *step[1:], inner], relation)
        return SelfComposedEvent(sampled, row["count"])

    noise = calibrate_noise(epsilon=1.0, delta=1e-6, relation=relation, accountant=kind, template=steps)
    ours = kind(relation=relation).compose(steps(noise)).epsilon(1e-6)
    return Verdict(row, ours, ours <= 1 and group.agrees(ours, 1.0))


def _optimal_composition(group: Group, row: Row) -> Verdict:
    """Theirs is the smallest of n epsilon, (n - 2) epsilon, ... whose delta is within the total."""
    epsilon, value, total = row["epsilon"], row["value"], row["total_delta"]
    accountant = PldAccountant().compose(ApproximateDPEvent(epsilon, row["delta"]), row["count"])
    if value == math.inf:
        return number(group, row, accountant.epsilon(total))
    at, before = accountant.delta_interval(value), accountant.delta_interval(value - 2 * epsilon)
    return Verdict(row, (at, before), at[0] <= total and before[1] >= total)


def _optimal_composition_inverse(group: Group, row: Row) -> Verdict:
    """Theirs is the largest of total / n, total / (n - 2), ... that stays within the total delta."""
    total, count = row["total_epsilon"], row["count"]

    def deltas(epsilon: float) -> tuple[float, float]:
        return PldAccountant().compose(ApproximateDPEvent(epsilon, row["delta"]), count).delta_interval(total)

    if row["value"] == math.inf:
        least = deltas(1e-6)[0]
        return Verdict(row, least, least > row["total_delta"])
    at, after = deltas(row["value"]), deltas(total / (total / row["value"] - 2))
    return Verdict(row, (at, after), at[0] <= row["total_delta"] <= after[1])


# --- selection by repetition


def _mean(gamma: float, shape: float) -> float:
    return RepeatNegativeBinomialEvent(GaussianEvent(1.0), gamma, shape).mean


def _repetitions(group: Group, row: Row) -> Verdict:
    return number(group, row, _mean(row["gamma"], row["shape"]))


def _repetitions_as_of(group: Group, row: Row) -> Verdict:
    other = _mean(row["other_gamma"], row["other_shape"])
    return number(group, {**row, "value": other}, _mean(row["gamma"], row["shape"]))


def _repetitions_inverse(group: Group, row: Row) -> Verdict:
    mean, shape = _mean(row["value"], row["shape"]), row["shape"]
    log_gamma = brentq(lambda x: _mean(math.exp(x), shape) - mean, -40, -1e-9, xtol=1e-14, rtol=1e-14)
    return number(group, row, math.exp(float(log_gamma)))


def _selection(group: Group, row: Row) -> Verdict:
    shape, mean = row["shape"], row["mean"]
    if mean == 1:
        raise NotExpressible("a selection among a single run")
    log_gamma = brentq(lambda x: _mean(math.exp(x), shape) - mean, -40, -1e-9, xtol=1e-14, rtol=1e-14)
    return _selected(group, row, math.exp(float(log_gamma)))


def _selection_by_gamma(group: Group, row: Row) -> Verdict:
    return _selected(group, row, row["gamma"])


def _selected(group: Group, row: Row, gamma: float) -> Verdict:
    inner = event(row["event"], Relation.ADD_OR_REMOVE)
    best = RdpAccountant().compose(RepeatNegativeBinomialEvent(inner, gamma, row["shape"]))
    return number(group, row, best.renyi(max(row["order"], _ORDER_ONE)))


def _selection_poisson(group: Group, row: Row) -> Verdict:
    inner = event(row["event"], Relation.ADD_OR_REMOVE)
    return number(group, row, RdpAccountant().compose(RepeatPoissonEvent(inner, row["mean"])).renyi(row["order"]))


def _selection_poisson_at_least(group: Group, row: Row) -> Verdict:
    """At every order the smallest of the theorem's bounds (with the exact delta) at this order or above."""
    noise, mean = row["noise"], row["mean"]
    best = RdpAccountant().compose(RepeatPoissonEvent(GaussianEvent(noise), mean))
    orders = [1.1, 1.5, 2, 3, 5, 8, 16, 32, 64, 256, 1024]

    def bound(order: float) -> float:
        epsilon = math.log1p(1 / (order - 1))
        near, far = (side / (2 * noise) - epsilon * noise for side in (1, -1))
        delta = float(ndtr(near) - math.exp(epsilon) * ndtr(far))
        return order / (2 * noise**2) + mean * delta + math.log(mean) / (order - 1)

    dense = 1 + np.geomspace(1e-3, 1e4, 2000)
    bounds = np.array([bound(float(order)) for order in dense])
    least = [min(bound(order), np.min(bounds[dense >= order], initial=math.inf)) for order in orders]
    ours = [best.renyi(order) for order in orders]
    agrees = all(0.99 * low <= value <= 1.01 * low for low, value in zip(least, ours, strict=True))
    return Verdict(row, ours, agrees)


def _no_characteristic_function(group: Group, row: Row) -> Verdict:
    raise NotExpressible("the characteristic function of a loss")


COMPARISONS: dict[str, Callable[[Group, Row], Verdict]] = {
    "epsilon": _epsilon(PldAccountant),
    "epsilon-renyi": _epsilon(RdpAccountant),
    "epsilon-renyi-between": _between(RdpAccountant),
    "epsilon-gdp-between": _between(GdpAccountant),
    "epsilon-at-most": _epsilon_at_most,
    "delta": _delta(PldAccountant),
    "delta-renyi": _delta(RdpAccountant),
    "delta-between": _delta_between,
    "tpr-of-event": _tpr,
    "gdp-of-event": _gdp,
    "renyi": _renyi,
    "renyi-as-of": _renyi_as_of,
    "renyi-at-most": _renyi_at_most,
    "renyi-positive": _renyi_positive,
    "renyi-round-trip": _round_trip,
    "sampled-renyi": _sampled_renyi,
    "log-moment": _log_moment,
    "conversion": _conversion,
    "effective-noise": _effective_noise,
    "gaussian-epsilon": _gaussian_epsilon,
    "gaussian-epsilon-at-its-noise": _epsilon_at_its_noise,
    "gaussian-noise-at-its-epsilon": _noise_at_its_epsilon,
    "gaussian-tpr": _gaussian_tpr,
    "noise-from-its-epsilon": _noise_from_its_epsilon,
    "smallest-noise": _smallest_noise,
    "sampled-noise": _sampled_noise,
    "calibrated-step": _calibrated_step,
    "optimal-composition": _optimal_composition,
    "optimal-composition-inverse": _optimal_composition_inverse,
    "repetitions": _repetitions,
    "repetitions-as-of": _repetitions_as_of,
    "repetitions-inverse": _repetitions_inverse,
    "selection": _selection,
    "selection-by-gamma": _selection_by_gamma,
    "selection-poisson": _selection_poisson,
    "selection-poisson-at-least": _selection_poisson_at_least,
    "characteristic-function": _no_characteristic_function,
}
