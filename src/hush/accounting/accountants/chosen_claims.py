"""Basic and advanced composition of steps that have a whole curve of (epsilon, delta), such as those of DP-SGD.

    event  ->  its steps, each with a count  ->  one (epsilon, delta) for each step  ->  basic or advanced composition

The classic theorems need one pair per step, and any pair on the step's curve will do. `choose_claims` takes the pairs
that make the total smallest. This is the "strong composition" that the moments accountant was compared with.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from scipy.optimize import minimize_scalar

from hush.accounting import events as ev
from hush.accounting.accountants.classic_theorems import AdvancedAccountant, BasicAccountant
from hush.accounting.accountants.pld import PldAccountant
from hush.errors import Unsupported, check_delta

_LOGITS = (-12.0, 12.0)  # of the share of delta that goes to the steps; the rest is the theorem's slack
_TOLERANCE = 0.03  # of the logit: epsilon is flat around its minimum
_SMALLEST_DELTA = 1e-279  # of a step: accountants refuse smaller ones
Step = tuple[ev.Event, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenClaims:
    """A total epsilon, and the pairs that it was composed from.

    Attributes:
        epsilon: The epsilon of all steps together; infinite if no choice gives a finite one.
        per_step: The (epsilon, delta) chosen for each kind of step that has no single one.
    """

    epsilon: float
    per_step: tuple[tuple[float, float], ...]


def choose_claims(empty: BasicAccountant, event: ev.Event, delta: float) -> ChosenClaims:
    """Return the composition of an event's steps by one (epsilon, delta) each, chosen to minimise the total epsilon.

    >>> from hush.accounting import AdvancedAccountant, GaussianEvent, SelfComposedEvent
    >>> steps = SelfComposedEvent(GaussianEvent(100.0), 400)
    >>> round(choose_claims(AdvancedAccountant(), steps, 1e-5).epsilon, 2)  # the exact value is 0.73
    5.1

    Steps without a single epsilon share what the others leave of delta: the same delta for each. If they are all alike,
    no other split is better, because a step's epsilon is convex in its delta. Advanced composition keeps a share
    as its slack, which is searched for.

    Guarantee:
        An upper bound: every pair is on a certified curve (`PldAccountant`), and the theorems hold for any pairs.

    Assumes:
        The steps are fixed in advance (the caller's duty). delta > 0 (checked here).

    References:
        Dwork, Rothblum & Vadhan 2010, Theorem III.3; Abadi et al. 2016, section 5.1 (the comparison).
    """
    if not check_delta("delta", delta) > 0:
        raise Unsupported(f"{event.kind}: without delta, its steps have no epsilon", "Choose a delta above 0")
    choice = _Choice(empty, event, delta)
    if not isinstance(empty, AdvancedAccountant):
        return choice.composed(1.0)  # the plain sum has no slack to pay for
    best = minimize_scalar(
        lambda logit: choice.composed(_logistic(logit)).epsilon,
        bounds=_LOGITS,
        method="bounded",
        options={"xatol": _TOLERANCE},
    )
    # Without slack the theorem is the plain sum, which is best for few steps.
    return min(choice.composed(1.0), choice.composed(_logistic(float(best.x))), key=lambda result: result.epsilon)


class _Choice:
    """The compositions that one event allows, by the share of delta that its steps have."""

    def __init__(self, empty: BasicAccountant, event: ev.Event, delta: float) -> None:
        counts: Counter[ev.Event] = Counter()
        for step, count in _steps(event):
            counts[step] += count  # equal steps are analysed once
        steps = list(counts.items())
        self._delta = delta
        self._curves = [
            (PldAccountant(relation=empty.relation, unit=empty.unit).compose(step), count)
            for step, count in steps
            if not empty.supports(step)
        ]
        self._stated = empty
        for step, count in steps:
            if empty.supports(step):
                self._stated = self._stated.compose(step, count)
        left = delta - self._stated.smallest_delta()
        if not left > 0:
            raise Unsupported(f"{event.kind}: the deltas of its parts use up all of delta", "Choose a larger delta")
        # The margin covers the rounding of sums: together the steps never have more than is left.
        self._largest = left * (1 - 1e-12) / max(sum(count for _, count in self._curves), 1)

    def composed(self, share: float) -> ChosenClaims:
        """Return the composition if the steps together have this share of delta."""
        step_delta = share * self._largest
        if not step_delta >= _SMALLEST_DELTA:
            return ChosenClaims(epsilon=math.inf, per_step=())
        claims = tuple((curve.epsilon(step_delta), step_delta) for curve, _ in self._curves)
        if not all(math.isfinite(epsilon) for epsilon, _ in claims):
            return ChosenClaims(epsilon=math.inf, per_step=())
        accountant = self._stated
        for claim, (_, count) in zip(claims, self._curves, strict=True):
            accountant = accountant.compose(ev.ApproximateDPEvent(*claim), count)
        return ChosenClaims(epsilon=accountant.epsilon(self._delta), per_step=claims)


def _steps(event: ev.Event, count: int = 1) -> Iterator[Step]:
    """Yield the steps of a composition, each with the number of times that it is run."""
    if isinstance(event, ev.SelfComposedEvent):
        yield from _steps(event.event, count * event.count)
    elif isinstance(event, ev.ComposedEvent):
        for part in event.events:
            yield from _steps(part, count)
    else:
        yield event, count


def _logistic(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))
