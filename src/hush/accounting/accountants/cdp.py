"""Concentrated differential privacy (CDP) of the first kind: a bound on the mean of the loss, and on its spread.

`concentration` has one rule for each event. The definition was superseded by zCDP (`accountants.zcdp`): CDP is not
closed under post-processing, and its conversion to epsilon is looser. It is here to be compared with.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import singledispatch

from hush.accounting import events as ev
from hush.accounting.accountants.accountant import Accountant
from hush.accounting.accountants.classic_theorems import claims
from hush.accounting.losses.pairs import (
    Change,
    Direction,
    changes,
    one_change,
    parts_that_differ,
    refuse_group,
)
from hush.errors import Unsupported
from hush.numerics import expm1_or_infinity, round_up

Concentration = tuple[float, float]  # the mean of the loss, and the variance that its spread is compared with


class CdpAccountant(Accountant):
    """Adds up the means and the variances of (mu, tau)-concentrated differential privacy, which came before zCDP.

    Under (mu, tau)-CDP, the privacy loss has a mean of at most mu, and around it tails no heavier than those of a
    Gaussian with standard deviation tau.

    >>> from hush.accounting import GaussianEvent, ZcdpAccountant
    >>> for accountant in (CdpAccountant(), ZcdpAccountant()):
    ...     print(round(accountant.compose(GaussianEvent(10.0), 4).epsilon(delta=1e-6), 3))
    1.071
    0.9

    Guarantee:
        `epsilon` and `delta` are upper bounds.

    Assumes:
        Noise was drawn as the events say (the caller's duty). Each event is Gaussian noise or has an epsilon without a
        delta (checked here: others are refused). What is released is what the events describe: a function of it
        has the same epsilon and delta, but not the same mu and tau.

    References:
        Dwork & Rothblum 2016, Definition 1.1, Theorem 3.2 (Gaussian noise), Theorem 3.4 (composition), Theorem 3.5
        (epsilon-DP is (epsilon (e^epsilon - 1) / 2, epsilon)-CDP); the tail bound of a subgaussian variable.
    """

    method = "mean-concentrated differential privacy"

    def _worst(self) -> list[Concentration]:
        return [concentration(ev.ComposedEvent(self.events), change) for change in changes(self.relation)]

    def _check(self, event: ev.Event) -> None:
        for change in changes(self.relation):
            concentration(event, change)

    def _epsilon(self, delta: float) -> float:
        if delta == 0:
            return 0.0 if all(variance == 0 for _, variance in self._worst()) else math.inf
        return round_up(max(mean + math.sqrt(-2 * math.log(delta) * variance) for mean, variance in self._worst()))

    def _delta(self, epsilon: float) -> float:
        return max(_tail(epsilon - mean, variance) for mean, variance in self._worst())


def _tail(distance: float, variance: float) -> float:
    """Return a bound on the probability of a loss this far above the bound on its mean."""
    if variance == 0:
        return 0.0 if distance >= 0 else 1.0
    deviations = distance / math.sqrt(variance)
    # A product that overflows is infinite; a power would raise.
    return math.exp(-deviations * deviations / 2) if deviations > 0 else 1.0


@singledispatch
def concentration(event: ev.Event, change: Change) -> Concentration:
    """Return the mean and the variance that an event is known to satisfy under one change."""
    try:
        parts = claims(event, change)
    except Unsupported:
        parts = [((0.0, 1.0), 1)]
    if any(delta > 0 for (_, delta), _ in parts):
        raise Unsupported(f"{event.kind}: it is not known to be concentrated", "Use RdpAccountant or PldAccountant")
    return _sum([(count * eps * expm1_or_infinity(eps) / 2, count * eps**2) for (eps, _), count in parts])


@concentration.register
def _(event: ev.ComposedEvent, change: Change) -> Concentration:
    return _sum([concentration(part, change) for part in event.events])


@concentration.register
def _(event: ev.SelfComposedEvent, change: Change) -> Concentration:
    mean, variance = concentration(event.event, change)
    return event.count * mean, event.count * variance


@concentration.register
def _(event: ev.GaussianEvent, change: Change) -> Concentration:
    variance = (change.shift / event.noise_multiplier) ** 2  # the loss is exactly N(variance / 2, variance)
    return variance / 2, variance


@concentration.register
def _(event: ev.DiscreteGaussianEvent, change: Change) -> Concentration:
    # The loss is linear in the noise, which is no less concentrated (Canonne, Kamath & Steinke 2020, Fact 17).
    variance = (change.shift * event.sensitivity / event.sigma) ** 2
    return variance / 2, variance


@concentration.register
def _(event: ev.PerChangeEvent, change: Change) -> Concentration:
    return concentration(event.event, one_change(event, change))


@concentration.register
def _(event: ev.ParallelByIndexEvent, change: Change) -> Concentration:
    refuse_group(event, change)
    return _largest([concentration(part, change) for part in dict.fromkeys(event.events)])


@concentration.register
def _(event: ev.ParallelEvent, change: Change) -> Concentration:
    refuse_group(event, change)
    stays = _largest([concentration(part, change) for part in dict.fromkeys(event.events)])
    if change.direction is not Direction.REPLACE or len(event.events) < 2:
        return stays
    # A replaced record may leave one part and enter another: the largest two of each number add up.
    moved = replace(change, direction=Direction.REMOVE, claimed=False)
    parts = [concentration(part, moved) for part in parts_that_differ(event)]
    means, variances = (sorted(values, reverse=True)[:2] for values in zip(*parts, strict=True))
    return _largest([stays, (math.fsum(means), math.fsum(variances))])


@concentration.register
def _(event: ev.GroupEvent, change: Change) -> Concentration:
    return concentration(event.event, replace(change, size=change.size * event.size))


def _sum(parts: list[Concentration]) -> Concentration:
    return math.fsum(mean for mean, _ in parts), math.fsum(variance for _, variance in parts)


def _largest(parts: list[Concentration]) -> Concentration:
    # A smaller mean, or a smaller variance, is covered by larger ones.
    return max(mean for mean, _ in parts), max(variance for _, variance in parts)
