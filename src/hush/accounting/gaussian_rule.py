"""A privacy filter in units of Gaussian noise: everything released is compared with one Gaussian.

A Gaussian of noise multiplier sigma costs ``mu^2 = 1 / sigma^2``; any other release costs what `smoothed_price`
certifies. The prices add up, and the total m is within the rule if

    H(epsilon; prepaid (x) Gaussian(m)) + rate m <= delta,                                       (1)

where H is the profile and *prepaid* is what was fixed before anything was released: nothing, a declared box, or the
first event. `smoothed_price` proves (1) for nothing prepaid. With something prepaid, its value function is convolved
with the prepaid losses: releases from the box keep it as it is (`accounting.box`), others lower it as before. An
event that comes first is a box of one.

The rule keeps a reserve unspent once a release that is no Gaussian was made: such prices hold on top of it only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from hush.accounting import events as ev
from hush.accounting.losses.noise_profiles import GaussianProfile, gaussian_delta
from hush.accounting.losses.pairs import Alternative, alternatives, changes, merge_gaussians
from hush.accounting.losses.profile import DominatingPair
from hush.accounting.losses.solver import ComposedLoss
from hush.accounting.smoothed_price import Smoothing, gaussian_share, smoothed_price
from hush.errors import Unsupported
from hush.guarantee import Relation

MU_STEPS = 10**12
"""The number of steps in a mu^2 of 1."""

TAILS_SHARE = 0.1
"""The share of a rule's delta that pays for tails that no Gaussian has, if all of the rule is spent."""

RESERVE_SHARE = 0.03
"""The share of mu^2 that is left after each release that is no Gaussian."""

_SAFETY = 1e-9  # relative, for the rounding of a Gaussian's delta
_HALVINGS = 8  # of what is left beside prepaid losses: to about half a percent
_ACCURACY = 1e-4  # relative, of epsilon, where a bound need not be tight

Options = tuple[tuple[tuple[DominatingPair, int], ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianRule:
    """The terms of the rule. They are chosen before anything is released, and stored with the budget.

    >>> rule = GaussianRule.chosen(epsilon=1.0, delta=1e-6)
    >>> cost, smoothed = rule.price(ev.GaussianEvent(100.0), Relation.ADD_OR_REMOVE)
    >>> cost, smoothed, rule.most // cost
    (100000001, 0, 554)

    Attributes:
        delta: The rule's share of the budget's delta.
        most: The largest total, in steps of mu^2; -1 if the rule allows nothing.
        reserve: What of it stays unspent once a release that is no Gaussian was made, in steps.
        rate: The delta that is paid for each unit of mu^2.
    """

    delta: float
    most: int
    reserve: int
    rate: float

    @staticmethod
    def chosen(*, epsilon: float, delta: float, prepaid: Options = ()) -> GaussianRule:
        """Return the rule for a guarantee, beside what is prepaid."""
        if not delta > 0:
            return GaussianRule(delta=0.0, most=-1, reserve=0, rate=0.0)
        whole = _largest_gaussian(epsilon, delta, 0.0)
        rate = TAILS_SHARE * delta / whole
        rule = GaussianRule(delta=delta, most=-1, reserve=_down(RESERVE_SHARE * whole), rate=rate)
        room = rule.room(epsilon, prepaid)
        return GaussianRule(delta=delta, most=-1 if room is None else room, reserve=rule.reserve, rate=rate)

    @property
    def most_smoothed(self) -> int:
        """The largest total once a release that is no Gaussian was made."""
        return max(self.most - self.reserve, -1)

    def room(self, epsilon: float, prepaid: Options) -> int | None:
        """Return the largest total beside prepaid losses, about; None if these alone do not fit."""
        if not prepaid:
            return _down(_largest_gaussian(epsilon, self.delta, self.rate))
        return _room(self, epsilon, prepaid)

    def holds(self, epsilon: float, total: int, prepaid: Options) -> bool:
        """Return whether (1) is proven for a total."""
        mu2 = total / MU_STEPS * (1 + 4e-16)
        rest = self.delta - self.rate * mu2 * (1 + 4e-16)
        if total == 0:
            return all(ComposedLoss(option).epsilon_upper(self.delta) <= epsilon for option in prepaid)
        if not rest > 0:
            return False
        if not prepaid:
            return _gaussian_delta(epsilon, mu2) <= rest
        return all(
            ComposedLoss(_with_gaussian(option, mu2)).delta_upper(epsilon, _ACCURACY) <= rest for option in prepaid
        )

    def epsilon(self, total: int, *, smoothed: bool, prepaid: Options = ()) -> float:
        """Return the smallest epsilon for which the rule, with these terms, would have allowed a total."""
        mu2 = (total + (self.reserve if smoothed else 0)) / MU_STEPS * (1 + 4e-16)
        rest = self.delta - self.rate * mu2 * (1 + 4e-16)
        if mu2 == 0 and not prepaid:
            return 0.0
        return _epsilon(prepaid or ((),), mu2, rest) if rest > 0 else math.inf

    def price(self, event: ev.Event, relation: Relation) -> tuple[int, int]:
        """Return the steps that an event costs, and 1 if it is no Gaussian. More than the rule has counts as one more.

        The parts of a composed event are priced one by one, so that those that were not run can be refunded.

        Args:
            event: An event without qualifications, and without deltas that are paid elsewhere.
            relation: How neighbouring datasets differ.
        """
        if self.most < 0:
            return 0, 0
        if isinstance(event, ev.ComposedEvent):
            parts = [self.price(part, relation) for part in event.events]
            return min(sum(steps for steps, _ in parts), self.most + 1), max((kind for _, kind in parts), default=0)
        smoothing = Smoothing(self.reserve / MU_STEPS * (1 - 4e-16), self.rate)
        try:
            options = _unordered(option for change in changes(relation) for option in alternatives(event, change))
        except Unsupported:
            return self.most + 1, 1
        prices = [(smoothed_price(option, smoothing), gaussian_share(option)) for option in options]
        largest = max((smoothed + gaussian for smoothed, gaussian in prices), default=0.0)
        steps = math.ceil(Fraction(largest * (1 + 1e-12)) * MU_STEPS) if largest < math.inf else self.most + 1
        return min(steps, self.most + 1), int(any(smoothed > 0 for smoothed, _ in prices))


def _unordered(options: Iterable[Alternative]) -> list[Alternative]:
    """Return options that differ by more than the order of their pairs: a price holds for both orders."""
    different: list[Alternative] = []
    for option in options:
        swapped = Alternative({pair.swapped(): count for pair, count in option.items()})
        if option not in different and swapped not in different:
            different.append(option)
    return different


def prepaid_options(options: tuple[Alternative, ...]) -> Options:
    """Return composed pairs in a form that can be compared and kept."""
    return tuple(dict.fromkeys(tuple(merge_gaussians(option)) for option in options))


@lru_cache(maxsize=256)
def _room(rule: GaussianRule, epsilon: float, prepaid: Options) -> int | None:
    if not rule.holds(epsilon, 0, prepaid):
        return None
    low, high = 0, _down(_largest_gaussian(epsilon, rule.delta, rule.rate))
    for _ in range(_HALVINGS):
        middle = (low + high) // 2
        low, high = (middle, high) if middle and rule.holds(epsilon, middle, prepaid) else (low, middle)
    return low


@lru_cache(maxsize=1024)
def _epsilon(prepaid: Options, mu2: float, delta: float) -> float:
    return max(ComposedLoss(_with_gaussian(option, mu2)).epsilon_upper(delta, _ACCURACY) for option in prepaid)


def _with_gaussian(option: tuple[tuple[DominatingPair, int], ...], mu2: float) -> list[tuple[DominatingPair, int]]:
    if mu2 <= 0:
        return list(option)
    squares = [(DominatingPair.symmetric(GaussianProfile(math.nextafter(math.sqrt(mu2), math.inf))), 1)]
    composed: Alternative = Alternative(dict(option))
    composed.update(dict(squares))
    return merge_gaussians(composed)


@lru_cache(maxsize=1024)
def _largest_gaussian(epsilon: float, delta: float, rate: float) -> float:
    """Return the largest mu^2, rounded down, of which a Gaussian's delta and the rate's are at most delta."""

    def fits(mu2: float) -> bool:
        return _gaussian_delta(epsilon, mu2) + rate * mu2 * (1 + 4e-16) <= delta

    low, high = 0.0, 1e-6
    while fits(high):
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _gaussian_delta(epsilon: float, mu2: float) -> float:
    return float(gaussian_delta(np.array([epsilon]), math.sqrt(mu2))[0]) * (1 + _SAFETY)


def _down(mu2: float) -> int:
    return math.floor(Fraction(mu2) * MU_STEPS)
