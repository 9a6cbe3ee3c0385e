"""Facts about a single mechanism: deltas, losses and their masses, calibrated noise."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import ndtr, ndtri

from hush.accounting import Event, GaussianEvent, LaplaceEvent, PldAccountant, PoissonSampledEvent
from hush.accounting.events import DiscreteGaussianEvent, DiscreteLaplaceEvent, RandomizedResponseEvent
from hush.accounting.losses.pairs import Change, Direction, alternatives
from hush.guarantee import Relation
from peers.event_specs import ZERO_OUT, mixture
from peers.facts import Group, Row
from peers.laws import Law, law
from peers.loss_curve import LossCurve
from peers.verdicts import NotExpressible, Verdict, Verdicts, number

_CUT_OFF = "discrete Gaussian noise that is cut off: a mechanism of its own, whose loss can be infinite"
_INSIDE = "an outcome inside an atom of the loss: hush knows losses, not outcomes"
_LOOSE_PAIR = (
    "masses of a bound on batches of a largest size: theirs takes the pair of a replaced record for a full batch"
)
_ROUNDING = 2e-10  # of masses: slopes are differences


def event(mechanism: str, row: Row) -> Event:
    """Return a row's mechanism as an event."""
    if mechanism == "truncated-poisson-gaussian":
        raise NotExpressible(_LOOSE_PAIR)
    if mechanism == "randomized-response":
        noise, buckets = row["noise"], row["buckets"]
        return RandomizedResponseEvent(math.log1p(buckets * (1 - noise) / noise), buckets)
    if mechanism == "mixture":
        return mixture(row["stddev"], row["shifts"], row["weights"])
    base, rate = _NOISE[mechanism](row), row["rate"]
    return base if rate == 1 else PoissonSampledEvent(base, rate)


def _discrete_gaussian(row: Row) -> Event:
    if row["cut_off"] is not None:
        raise NotExpressible(_CUT_OFF)
    return DiscreteGaussianEvent(row["sigma"], row["sensitivity"])


_NOISE: dict[str, Callable[[Row], Event]] = {
    "gaussian": lambda row: GaussianEvent(row["stddev"] / row["sensitivity"]),
    "laplace": lambda row: LaplaceEvent(row["scale"] / row["sensitivity"]),
    "discrete-laplace": lambda row: DiscreteLaplaceEvent(1 / row["exponent"], row["sensitivity"]),
    "discrete-gaussian": _discrete_gaussian,
}


def curve(mechanism: str, row: Row) -> LossCurve:
    """Return the loss of a row's mechanism, for a record that is added, removed or replaced."""
    described = event(mechanism, row)
    direction = Direction(row["direction"])
    if mechanism == "randomized-response" and direction is not Direction.REPLACE:
        raise NotExpressible(ZERO_OUT)
    relation = Relation.REPLACE if direction is Direction.REPLACE else Relation.ADD_OR_REMOVE
    (option,) = alternatives(described, Change(direction, relation))
    (pair,) = option
    return LossCurve(pair, has_atoms=mechanism not in ("gaussian", "mixture"))


def compare(group: Group) -> Verdicts:
    """Compare every value of a group."""
    for row in group.rows:
        try:
            yield from COMPARISONS[group.quantity](group, row)
        except NotExpressible as refusal:
            for _ in range(size(row)):
                yield Verdict(row, None, False, str(refusal))


def size(row: Row) -> int:
    """Return how many values a row holds."""
    return len(row["masses"]) if "masses" in row else 1


def _delta(group: Group, row: Row) -> Verdicts:
    yield number(group, row, curve(group.mechanism, row).delta(row["epsilon"]))


def _first_cdf(group: Group, row: Row) -> Verdicts:
    losses, outcomes = curve(group.mechanism, row), law(group.mechanism, row)
    loss, strict = _upper_set(outcomes, row["x"])
    yield number(group, row, losses.first_tail(loss, strict=strict))


def _second_log_cdf(group: Group, row: Row) -> Verdicts:
    losses, outcomes = curve(group.mechanism, row), law(group.mechanism, row)
    loss, strict = _upper_set(outcomes, row["x"])
    mass = losses.second_tail(loss, strict=strict)
    yield number(group, row, math.log(mass) if mass > 0 else -math.inf)


def _upper_set(outcomes: Law, x: float) -> tuple[float, bool]:
    """Return {X <= x} as a set of losses: those above a number, strictly or not."""
    loss = outcomes.loss(x)
    if not outcomes.noise.has_atoms:
        return loss, True
    step = 1.0 if outcomes.noise.is_discrete else 1e-6
    if outcomes.loss(x + step) < loss - 1e-9:
        return loss, False
    if not outcomes.noise.is_discrete and outcomes.loss(x - step) > loss + 1e-9:
        return loss, True
    raise NotExpressible(_INSIDE)


def _loss(group: Group, row: Row) -> Verdicts:
    """The loss at x is l if and only if {loss > l} lies in {X <= x}, and that in {loss >= l}: compare their masses."""
    if group.mechanism == "discrete-gaussian" and math.isinf(row["value"]) and math.isfinite(row["x"]):
        raise NotExpressible(_CUT_OFF)
    losses, outcomes = curve(group.mechanism, row), law(group.mechanism, row)
    margin, mass = group.margin(row["value"]), outcomes.first_cdf(row["x"])
    least = losses.first_tail(row["value"] + margin, strict=True)
    most = losses.first_tail(row["value"] - margin, strict=False)
    yield Verdict(row, (least, mass, most), least - _ROUNDING <= mass <= most + _ROUNDING)


def _atom(group: Group, row: Row) -> Verdicts:
    losses = curve(group.mechanism, row)
    low, high = row["loss"] - 1e-7, row["loss"] + 1e-7
    yield number(group, row, losses.first_tail(low) - losses.first_tail(high))


def _tail(group: Group, row: Row) -> Verdicts:
    """A cut at x: the mass on one side of it, and the loss at it, which their truncation gives that mass."""
    losses, outcomes = curve(group.mechanism, row), law(group.mechanism, row)
    below = losses.first_tail(outcomes.loss(row["x"]))
    ours = number(group, row, below if row["side"] == "below" else 1 - below)
    same = row["loss"] is None or math.isclose(outcomes.loss(row["x"]), row["loss"], rel_tol=1e-5, abs_tol=1e-8)
    yield Verdict(row, ours.ours, ours.agrees and same)


def _extreme_loss(group: Group, row: Row) -> Verdicts:
    pair = curve(group.mechanism, row).pair
    yield number(group, row, pair.forward.max_loss if row["side"] == "largest" else -pair.backward.max_loss)


def _extreme_outcome(group: Group, row: Row) -> Verdicts:
    """The outcome at which the loss reaches its largest or smallest value."""
    pair, outcomes, x = curve(group.mechanism, row).pair, law(group.mechanism, row), row["value"]
    largest = row["side"] == "largest"
    extreme = pair.forward.max_loss if largest else -pair.backward.max_loss
    beyond = outcomes.loss(x + 1) < extreme - 1e-9 if largest else outcomes.loss(x - 1) > extreme + 1e-9
    yield Verdict(row, extreme, beyond and math.isclose(outcomes.loss(x), extreme, abs_tol=1e-9))


def _calibrated(group: Group, row: Row) -> Verdicts:
    """The parameter meets the target exactly if the target lies between the deltas at its two margins."""
    name, value = next(iter(row)), row["value"]
    deltas = sorted(
        curve(group.mechanism, row | {name: value + side * group.margin(value)}).delta(row["epsilon"])
        for side in (-1, 1)
    )
    # Delta 0 is met by all noise from the smallest on.
    is_least = deltas[0] <= row["delta"] < deltas[1] if row["delta"] == 0 else deltas[0] <= row["delta"] <= deltas[1]
    yield Verdict(row, tuple(deltas), is_least)


def _connected(group: Group, row: Row) -> Verdicts:
    """Their connected dots: masses at the points of a grid, so that deltas at those epsilons are exact."""
    losses, masses = curve(group.mechanism, row), dict(row["masses"])
    grid = range(min(masses), max(masses) + 1)
    ours = losses.connected([index * row["interval"] for index in grid])
    for index, mass in zip(grid, ours, strict=True):
        if index in masses:
            yield Verdict(row, (index, mass), group.agrees(mass, masses[index]))


def _rounded_up(group: Group, row: Row) -> Verdicts:
    """Each mass is that of the losses in ((k - 1) h, k h]; the tails are put into the last ones."""
    losses, masses, h = curve(group.mechanism, row), dict(row["masses"]), row["interval"]
    top = _tail_beyond(group, row)
    for index, value in masses.items():
        above = losses.first_tail(index * h) if index < max(masses) else top
        from_below = losses.first_tail((index - 1) * h) if index > min(masses) else 1.0
        agrees = group.agrees(from_below - above, value)
        if group.mechanism == "mixture" and index == max(masses):  # their test bounds the mass at infinity from above
            agrees = value >= from_below - above - group.margin(value)
        yield Verdict(row, (index, from_below - above), agrees)


def _rounded_down(group: Group, row: Row) -> Verdicts:
    """Each mass is that of the losses in [k h, (k + 1) h); the lower tail is dropped."""
    losses, masses, h = curve(group.mechanism, row), dict(row["masses"]), row["interval"]
    dropped = _tail_dropped(group, row)
    for index, value in masses.items():
        above = losses.first_tail((index + 1) * h, strict=False) if index < max(masses) else 0.0
        from_below = losses.first_tail(index * h, strict=False) if index > min(masses) else 1.0 - dropped
        yield Verdict(row, (index, from_below - above), group.agrees(from_below - above, value))


_TAIL = 0.9  # standard deviations beyond which they cut Gaussian noise off in these tests


def _tail_beyond(group: Group, row: Row) -> float:
    """Return the mass that they move to infinity."""
    if group.mechanism == "mixture":
        return float(ndtr(-_TAIL))  # exactly, where a Gaussian is cut at a number of standard deviations
    if group.mechanism != "gaussian":
        return 0.0
    outcomes, (low, _) = law(group.mechanism, row), _cuts(row)
    return curve(group.mechanism, row).first_tail(outcomes.loss(low))


def _tail_dropped(group: Group, row: Row) -> float:
    if group.mechanism != "gaussian":
        return 0.0
    outcomes, (_, high) = law(group.mechanism, row), _cuts(row)
    return 1 - curve(group.mechanism, row).first_tail(outcomes.loss(high))


def _cuts(row: Row) -> tuple[float, float]:
    reach, width = row["sensitivity"], _TAIL * row["stddev"]
    return (-width, reach + width) if row["direction"] == "add" else (-width - reach, width)


def _tpr(group: Group, row: Row) -> Verdicts:
    yield number(group, row, _accountant(group, row).max_tpr(row["fpr"]))


def _gdp_parameter(group: Group, row: Row) -> Verdicts:
    """The mu for which a Gaussian has the same true positive rate; without an fpr, the largest over all of them."""
    accountant = _accountant(group, row)
    rates = [row["fpr"]] if row["fpr"] is not None else [index / 200 for index in range(1, 200)]
    yield number(group, row, max(float(ndtri(accountant.max_tpr(rate)) - ndtri(rate)) for rate in rates))


def _accountant(group: Group, row: Row) -> PldAccountant:
    local = group.mechanism == "randomized-response"
    relation = Relation.REPLACE if local else Relation.ADD_OR_REMOVE
    return PldAccountant(relation=relation).compose(event(group.mechanism, row))


def _refused(group: Group, row: Row) -> Verdicts:
    curve(group.mechanism, row)
    raise AssertionError(f"{group.name}: hush can say this now, so compare it")
    yield


COMPARISONS: dict[str, Callable[[Group, Row], Verdicts]] = {
    "delta": _delta,
    "first-cdf": _first_cdf,
    "second-log-cdf": _second_log_cdf,
    "loss": _loss,
    "atom": _atom,
    "tail": _tail,
    "extreme-loss": _extreme_loss,
    "extreme-outcome": _extreme_outcome,
    "calibrated": _calibrated,
    "masses-connected": _connected,
    "masses-up": _rounded_up,
    "masses-down": _rounded_down,
    "tpr": _tpr,
    "gdp-parameter": _gdp_parameter,
    "noise-cdf": _refused,
    "noise-stddev": _refused,
    "connected-mass": _refused,
    "mass-rounded-up": _refused,
}
