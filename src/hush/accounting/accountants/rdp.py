"""The Renyi accountant (moments accountant), which optimises over all real orders.

    curve        the Renyi divergence of all events as a function of the order (`renyi_bound`, one rule per event)
    conversion   epsilon = divergence + slack(order, delta), minimised over orders (`best_order`)

Divergences of noise come from the same privacy profiles that `PldAccountant` composes, by one integral
(`losses.renyi`). So no mechanism needs a second formula that might disagree with the first. This module adds only what
has no profile: zCDP claims, and selection by repetition.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, singledispatch

import numpy as np

from hush.accounting import events as ev
from hush.accounting.accountants.accountant import Accountant
from hush.accounting.losses.pairs import (
    Change,
    Direction,
    alternatives,
    changes,
    leaf_pair,
    merge_gaussians,
    parts_that_differ,
    require_claim,
)
from hush.accounting.losses.profile import Array
from hush.accounting.losses.renyi import renyi_curve
from hush.accounting.losses.solver import ComposedLoss
from hush.errors import InvalidArgument, Unsupported, check_delta, check_positive

MAX_ORDER = 1e9
"""The largest order; the search is in (1, MAX_ORDER]."""
_LARGEST_EPSILON = 1e100


class RdpAccountant(Accountant):
    """Adds up Renyi divergences and converts to epsilon at the best order: the moments accountant.

    The order can be any real number above 1; it is optimised, not picked from a list. The bound is looser than that of
    `PldAccountant`, but it also holds adaptively at a fixed order (see `RdpFilter`), and it is the only accountant that
    supports private selection. Known as composition of Renyi differential privacy (RDP).

    >>> from hush.accounting import GaussianEvent, PoissonSampledEvent
    >>> accountant = RdpAccountant().compose(PoissonSampledEvent(GaussianEvent(1.0), 0.01), 1000)
    >>> round(accountant.epsilon(delta=1e-5), 3), round(accountant.best_order(delta=1e-5), 1)
    (2.101, 7.8)

    Guarantee:
        `epsilon` and `delta` are upper bounds.

    Assumes:
        Noise was drawn as the events say (the caller's duty). Each event has a Renyi divergence, so none has a delta of
        its own (checked here: others are refused).

    References:
        Mironov 2017 (composition); Abadi et al. 2016 (moments); Mironov, Talwar & Zhang 2019 (sampled Gaussian);
        Canonne, Kamath & Steinke 2020, Proposition 12 (conversion); Papernot & Steinke 2022, Theorems 2 and 6
        (repetition and selection). Divergences come from the same dominating pairs that `PldAccountant` composes.
    """

    method = "Renyi differential privacy"

    def renyi(self, order: float) -> float:
        """Return the composed Renyi divergence at an order > 1."""
        if not 1 < check_positive("order", order) <= MAX_ORDER:
            raise InvalidArgument("order", order, f"a number in (1, {MAX_ORDER:.3g}]")
        return float(self._curve(np.array([float(order)]))[0])

    def best_order(self, delta: float) -> float:
        """Return the order that gives the smallest epsilon at this delta > 0."""
        check_positive("delta", check_delta("delta", delta))
        return best_order(lambda orders: renyi_to_epsilon(self._curve(orders), orders, delta))[0]

    def _check(self, event: ev.Event) -> None:
        for change in changes(self.relation):
            renyi_bound(event, change, np.array([2.0]))

    def _curve(self, orders: Array) -> Array:
        everything = ev.ComposedEvent(self.events)
        # Each change is bounded separately; the worst at every order bounds them all.
        return np.asarray(
            np.max([renyi_bound(everything, change, orders) for change in changes(self.relation)], axis=0)
        )

    def _epsilon(self, delta: float) -> float:
        # Every finite order gives infinity here; the limit at infinite order may not.
        if delta == 0:
            return self._pure_epsilon()
        if not self._curve(np.array([2.0])).any():  # no divergence at one order is none at any
            return 0.0
        epsilon = best_order(lambda orders: renyi_to_epsilon(self._curve(orders), orders, delta))[1]
        # What holds at delta = 0 holds at any delta, and the conversion does not see it: it stops at a finite order.
        return min(epsilon, self._pure_epsilon())

    def _delta(self, epsilon: float) -> float:
        if not self._curve(np.array([2.0])).any() or epsilon >= self._pure_epsilon():
            return 0.0
        return min(
            1.0, math.exp(best_order(lambda orders: renyi_to_log_delta(self._curve(orders), orders, epsilon))[1])
        )

    def _pure_epsilon(self) -> float:
        """Return the limit at infinite order: the sum of the largest privacy losses."""
        try:
            options = [alternatives(ev.ComposedEvent(self.events), change) for change in changes(self.relation)]
        except Unsupported:
            return math.inf
        return max(ComposedLoss(option.items()).epsilon_upper(0.0) for choice in options for option in choice)


def renyi_to_epsilon(divergence: Array, orders: Array, delta: float) -> Array:
    """Return the epsilon that a Renyi divergence implies at each order (Canonne, Kamath & Steinke 2020, Prop. 12).

    epsilon = divergence + log(1 - 1 / order) - (log delta + log order) / (order - 1), and at least 0.

    Args:
        divergence: The Renyi divergence at each order.
        orders: The orders, all above 1.
        delta: A delta > 0.
    """
    slack = np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    return np.maximum(divergence + slack, 0.0)


def renyi_to_log_delta(divergence: Array, orders: Array, epsilon: float) -> Array:
    """Return the log of the delta that a Renyi divergence implies at an epsilon (the same proposition)."""
    # delta = e^((a - 1)(D - eps)) (1 - 1/a)^(a - 1) / a, solved for delta instead of epsilon. It falls as epsilon
    # grows, so that a smaller epsilon, for which nothing overflows, gives a bound, too.
    return (orders - 1) * (divergence - min(epsilon, _LARGEST_EPSILON) + np.log1p(-1 / orders)) - np.log(orders)


def best_order(objective: Callable[[Array], Array]) -> tuple[float, float]:
    """Return the order that minimises ``objective``, and the minimum.

    The search starts with a wide grid in log(order - 1) and repeats with finer ones around the best point. Any order
    gives a valid bound, so an inexact minimum only makes it looser.
    """
    low, high = math.log(1e-6), math.log(MAX_ORDER)
    best, value = 2.0, math.inf
    for points in (40, 15, 15, 15):
        grid = np.linspace(low, high, points)
        # The best order is near 1 for little noise and in the thousands for much, so the grid is in log(order - 1).
        values = objective(1 + np.exp(grid))
        index = int(np.argmin(values))
        if values[index] < value:
            best, value = float(1 + math.exp(grid[index])), float(values[index])
        low, high = grid[max(index - 1, 0)], grid[min(index + 1, points - 1)]
    return best, value


@singledispatch
def renyi_bound(event: ev.Event, change: Change, orders: Array) -> Array:
    """Return an upper bound on the Renyi divergence of an event, under one change, at an array of orders > 1."""
    options = alternatives(event, change)
    # An infinite loss of any probability makes the divergence infinite at every order.
    if any(pair.forward.failure > 0 for option in options for pair in option):
        raise Unsupported(f"{event.kind}: its loss can be infinite, so it has no Renyi divergence", "Use PldAccountant")
    # Renyi divergences at one order add up (Mironov 2017, Proposition 1).
    sums = [np.sum([count * renyi_curve(pair)(orders) for pair, count in option.items()], axis=0) for option in options]
    return np.asarray(np.max(sums, axis=0))


@renyi_bound.register
def _(event: ev.ProjectedGaussianEvent, change: Change, orders: Array) -> Array:
    # The mean of e^(a / X) for a chi-square X is infinite for every a > 0, whatever its degrees of freedom.
    raise Unsupported(
        f"{event.kind}: its sensitivity is random, so its Renyi divergence is infinite at every order",
        "Use PldAccountant",
    )


@renyi_bound.register
def _(event: ev.ComposedEvent, change: Change, orders: Array) -> Array:
    total = np.zeros_like(orders)
    # Equal events are analysed once.
    for part, count in Counter(event.events).items():
        total = total + count * renyi_bound(part, change, orders)
    return total


@renyi_bound.register
def _(event: ev.SelfComposedEvent, change: Change, orders: Array) -> Array:
    return event.count * renyi_bound(event.event, change, orders) if event.count else np.zeros_like(orders)


@renyi_bound.register
def _(event: ev.ApproximateDPEvent, change: Change, orders: Array) -> Array:
    if event.delta > 0:
        raise Unsupported("approximate-dp with delta > 0: it has no Renyi divergence", "Use PldAccountant")
    return renyi_curve(leaf_pair(event, change))(orders)


@renyi_bound.register
def _(event: ev.ZeroConcentratedDPEvent, change: Change, orders: Array) -> Array:
    require_claim(event, change)
    return event.rho * change.size**2 * orders  # a group of k: k^2 rho (Bun & Steinke 2016, Proposition 1.9)


@renyi_bound.register(ev.BallsInBinsEvent)
@renyi_bound.register(ev.AllocatedEvent)
def _(event: ev.BallsInBinsEvent | ev.AllocatedEvent, change: Change, orders: Array) -> Array:
    raise Unsupported(f"{event.kind}: its Renyi divergence is not implemented for both directions", "Use PldAccountant")


@renyi_bound.register
def _(event: ev.ParallelByIndexEvent, change: Change, orders: Array) -> Array:
    if change.size > 1:
        alternatives(event, change)  # raises the error with the reason
    return _largest(event, change, orders)


@renyi_bound.register
def _(event: ev.ParallelEvent, change: Change, orders: Array) -> Array:
    if change.size > 1:
        alternatives(event, change)  # raises the error with the reason
    stays = _largest(event, change, orders)  # the record is in the same part
    if change.direction is not Direction.REPLACE or len(event.events) < 2:
        return stays
    # A replaced record may leave one part and enter another: the divergences add up.
    leave, enter = (replace(change, direction=d, claimed=False) for d in (Direction.REMOVE, Direction.ADD))
    parts = parts_that_differ(event)
    sources, targets = (np.stack([renyi_bound(part, way, orders) for part in parts]) for way in (leave, enter))
    # For each source the costliest target that is another part: the first or, for the first itself, the second.
    ranked = np.sort(targets, axis=0)
    others = np.where(np.arange(len(parts))[:, None] == targets.argmax(axis=0), ranked[-2], ranked[-1])
    return np.asarray(np.maximum(stays, np.max(sources + others, axis=0)))


def _largest(event: ev.ParallelEvent | ev.ParallelByIndexEvent, change: Change, orders: Array) -> Array:
    """Return the largest divergence of the parts at each order."""
    return np.asarray(np.max([renyi_bound(part, change, orders) for part in dict.fromkeys(event.events)], axis=0))


@renyi_bound.register
def _(event: ev.GroupEvent, change: Change, orders: Array) -> Array:
    return renyi_bound(event.event, replace(change, size=change.size * event.size), orders)


@renyi_bound.register(ev.RepeatNegativeBinomialEvent)
@renyi_bound.register(ev.RepeatPoissonEvent)
def _(event: ev.RepeatNegativeBinomialEvent | ev.RepeatPoissonEvent, change: Change, orders: Array) -> Array:
    """Return the theorem's bound at each order, or at a larger one, where it may be smaller.

    Divergences grow with the order (van Erven & Harremoes 2014, Theorem 3), but the theorems' bounds do not: what they
    add is divided by order - 1.
    """
    larger, least = _least_beyond(event, change)
    return np.minimum(_selected(event, change, orders), least[np.searchsorted(larger, orders)])


@lru_cache(maxsize=64)
def _least_beyond(event: ev.RepeatNegativeBinomialEvent | ev.RepeatPoissonEvent, change: Change) -> tuple[Array, Array]:
    """Return orders, and the smallest bound at each of them or at a larger one; infinity beyond the last."""
    excess = np.geomspace(1e-3, 1e4, 200)  # of the order over 1
    best = int(np.argmin(_selected(event, change, 1 + excess)))
    # Dense where the smallest bound is, which holds at every smaller order, too.
    near = np.geomspace(excess[max(best - 1, 0)], excess[min(best + 1, len(excess) - 1)], 101)
    orders = 1 + np.union1d(excess, near)
    least = np.minimum.accumulate(_selected(event, change, orders)[::-1])[::-1]
    return orders, np.append(least, np.inf)


@singledispatch
def _selected(event: ev.Event, change: Change, orders: Array) -> Array:
    """Return what a theorem on selection by repetition gives at an array of orders."""
    raise TypeError(f"{event.kind} does not repeat")


@_selected.register
def _(event: ev.RepeatNegativeBinomialEvent, change: Change, orders: Array) -> Array:
    """Papernot & Steinke 2022, Theorem 2, with the second order that minimises the penalty."""
    inner = _both_ways(event.event, change, orders)
    return np.asarray(inner + _penalty(event, change) + math.log(event.mean) / (orders - 1))


@lru_cache(maxsize=64)
def _penalty(event: ev.RepeatNegativeBinomialEvent, change: Change) -> float:
    """Return the term that the theorem adds at every order: (1 + shape) times a bound at a second, free order."""

    def penalty(others: Array) -> Array:
        base = _both_ways(event.event, change, others)
        return (1 + event.shape) * ((1 - 1 / others) * base - math.log(event.gamma) / others)

    return float(best_order(penalty)[1])


@_selected.register
def _(event: ev.RepeatPoissonEvent, change: Change, orders: Array) -> Array:
    """Papernot & Steinke 2022, Theorem 6, which needs a run's delta at epsilon = log(1 + 1 / (order - 1))."""
    inner = _both_ways(event.event, change, orders)
    grid = 1 + np.geomspace(1e-4, 1e6, 300)
    base = _both_ways(event.event, change, grid)
    epsilons = np.log1p(1 / (orders - 1))
    log_deltas = [float(np.min(renyi_to_log_delta(base, grid, epsilon))) for epsilon in epsilons]
    deltas = np.minimum(np.exp(np.minimum(log_deltas, 0.0)), _single_delta(event.event, change, epsilons))
    return np.asarray(inner + event.mean * deltas + max(math.log(event.mean), 0.0) / (orders - 1))


def _single_delta(event: ev.Event, change: Change, epsilons: Array) -> Array:
    """Return the delta of a run, in both directions, where it is a single mechanism with a profile; else 1."""
    try:
        options = [alternatives(event, directed) for directed in _ways(change)]
    except Unsupported:
        return np.ones_like(epsilons)
    merged = [merge_gaussians(option) for choice in options for option in choice]
    if any(sum(count for _, count in parts) > 1 for parts in merged):
        return np.ones_like(epsilons)
    profiles = [side for parts in merged for pair, _ in parts for side in (pair.forward, pair.backward)]
    deltas = [profile.delta(epsilons) * (1 + profile.relative_error) for profile in profiles]
    return np.minimum(np.max(deltas, axis=0, initial=0.0), 1.0) if deltas else np.zeros_like(epsilons)


def _both_ways(event: ev.Event, change: Change, orders: Array) -> Array:
    """Bound the divergence in both directions, which the theorems on selection need."""
    return np.asarray(np.max([renyi_bound(event, directed, orders) for directed in _ways(change)], axis=0))


def _ways(change: Change) -> list[Change]:
    """Return a change and its opposite."""
    if change.direction is Direction.REPLACE:
        return [change]
    return [replace(change, direction=direction) for direction in (Direction.REMOVE, Direction.ADD)]
