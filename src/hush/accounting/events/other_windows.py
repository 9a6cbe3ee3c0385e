"""Events, converted to units with other time windows than those they were stated for.

One window of the unit is a chain of changes in the windows of the release: `hush.guarantee.Unit.touched`. Where some of
them are removals and others additions, only events qualify whose cost does not depend on the direction: noise that is
added to a sum, by the triangle inequality, and claims, by chaining the definition.
"""

from __future__ import annotations

import math
from dataclasses import replace

from hush.accounting.events.claims import (
    ApproximateDPEvent,
    ExponentialMechanismEvent,
    NoisyMaxEvent,
    ZeroConcentratedDPEvent,
)
from hush.accounting.events.composition import ComposedEvent, GroupEvent, SelfComposedEvent
from hush.accounting.events.event import Event
from hush.accounting.events.noise import DiscreteGaussianEvent, DiscreteLaplaceEvent, GaussianEvent, LaplaceEvent
from hush.accounting.events.sampling import PoissonSampledEvent
from hush.errors import Unsupported
from hush.guarantee import Touched, group_delta, group_epsilon

_LARGEST_GROUP = 1000


def windows_event(event: Event, touched: Touched, *, stated: str, unit: str) -> Event:
    """Convert an event to a unit that amounts to several changes in the windows of the release, or refuse it.

    Args:
        event: The event, without qualifications.
        touched: The changes.
        stated: The unit of the event, for messages.
        unit: The unit that is accounted for, for messages.

    References:
        Dwork & Roth 2014, Theorem 2.2 (groups of pure claims); Bun & Steinke 2016, Proposition 27 (of concentrated
        ones). With a delta, as `Guarantee.for_group`.
    """
    if touched.changes <= _LARGEST_GROUP:
        converted = _converted(event, touched)
        if converted is not None:
            return converted
    raise Unsupported(
        f"{event.kind}: it protects a {stated}, and the budget a {unit}: one of these is {touched.changes} changes, "
        "for which no cost is proven",
        "Cut time as the budget does, or create a budget for the windows of the release",
    )


def _converted(event: Event, touched: Touched) -> Event | None:
    """Return the event for these changes; None if no cost is proven."""
    if touched.changes == 1:
        return event
    if isinstance(event, ComposedEvent):
        parts = [_converted(part, touched) for part in event.events]
        known = tuple(part for part in parts if part is not None)
        return replace(event, events=known) if len(known) == len(parts) else None
    if isinstance(event, SelfComposedEvent):
        inner = _converted(event.event, touched)
        return None if inner is None else replace(event, event=inner)
    if isinstance(event, (ApproximateDPEvent, ExponentialMechanismEvent)):
        return _claim(event, touched.changes)
    if isinstance(event, ZeroConcentratedDPEvent):
        return ZeroConcentratedDPEvent(math.nextafter(event.rho * touched.changes**2, math.inf))
    sampled_whole = touched.whole and isinstance(event, PoissonSampledEvent) and isinstance(event.event, GaussianEvent)
    return GroupEvent(event, touched.changes) if sampled_whole else _noise(event, touched.changes)


def _noise(event: Event, size: int) -> Event | None:
    """Return noise rescaled to a sum, or to scores, that move several times as far; None for other events."""
    if isinstance(event, GaussianEvent):
        return GaussianEvent(math.nextafter(event.noise_multiplier / size, 0.0))
    if isinstance(event, NoisyMaxEvent):
        return NoisyMaxEvent(math.nextafter(event.epsilon * size, math.inf))
    if isinstance(event, LaplaceEvent):
        return LaplaceEvent(math.nextafter(event.scale / size, 0.0))
    if isinstance(event, (DiscreteGaussianEvent, DiscreteLaplaceEvent)):
        return replace(event, sensitivity=event.sensitivity * size)
    return None


def _claim(event: ApproximateDPEvent | ExponentialMechanismEvent, size: int) -> Event | None:
    """Return a claim for a group."""
    delta = event.delta if isinstance(event, ApproximateDPEvent) else 0.0
    delta = group_delta(event.epsilon, delta, size)
    return ApproximateDPEvent(group_epsilon(event.epsilon, size), delta) if delta < 1 else None
