"""What charges cost together, by the filter that enforces the cap and by accountants for what is fixed in advance."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from hush.accounting import Accountant, ApproximateDPEvent, BasicAccountant, Event, PldAccountant, RdpAccountant
from hush.accounting.budget import Cap, Cost
from hush.accounting.events import QualifiedEvent
from hush.errors import HushError
from hush.ledger.history.records import Charged


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What one way of adding up says.

    Attributes:
        epsilon: None where it refuses; ``why`` then says why.
        delta: At which delta.
        why: Why it refuses.
    """

    epsilon: float | None
    delta: float
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """What the charges of one block cost together.

    Attributes:
        charges: How many there are; those that were voided are not counted, and a plan counts once.
        filter: By the filter that enforces the cap: it holds whatever was chosen on the way.
        addition: The sum of what each is worth alone, at the delta at which it was stated; deltas add up, too.
        rdp: By Renyi divergences at the best order. As if all charges had been fixed in advance.
        pld: By privacy loss distributions. As if all charges had been fixed in advance.
    """

    charges: int
    filter: Figure
    addition: Figure
    rdp: Figure
    pld: Figure


def composition(cap: Cap, spent: Cost, charges: Sequence[Charged]) -> Composition:
    """Return what charges cost together, in four ways; only the first is a promise for choices made on the way."""
    counted = [charge for charge in charges if charge.status != "voided" and charge.part_of is None]
    unread = next((charge.refused for charge in counted if charge.event is None), None)
    events = Counter((charge.event, charge.delta) for charge in counted if charge.event is not None)
    return Composition(
        charges=len(counted),
        filter=Figure(epsilon=cap.spent_epsilon(spent), delta=cap.delta),
        addition=_refusing(cap, unread, lambda: _added(cap, events)),
        rdp=_refusing(cap, unread, lambda: _composed(RdpAccountant, cap, events)),
        pld=_refusing(cap, unread, lambda: _composed(PldAccountant, cap, events)),
    )


@lru_cache(maxsize=4096)
def stated(cap: Cap, event: Event, delta: float | None) -> tuple[float, float]:
    """Return what an event is worth alone: its epsilon, and the delta at which that is.

    The delta that it claims, or at which it was charged; else 0 if it has an epsilon there; else the cap's.
    """
    while isinstance(event, QualifiedEvent):
        event = event.event
    if isinstance(event, ApproximateDPEvent):
        return event.epsilon, event.delta
    for at in [delta] if delta is not None else [0.0, cap.delta]:
        epsilon = _alone(cap, event, at)
        if epsilon < math.inf:
            return epsilon, at
    return math.inf, cap.delta if delta is None else delta


def used_of(most: Cost, spent: Cost) -> float:
    """Return which part of a limit is used up, such as that of a share; `Cap.used` is the same of a cap."""
    ways = []
    if spent.unbounded == 0:
        ways.append(spent.pure / most.pure if most.pure else 1.0)
    if most.renyi > 0:
        ways.append(spent.renyi / most.renyi)
    failing = spent.delta / most.delta if most.delta else float(spent.delta > 0)
    return max(min(ways, default=1.0), failing)


Events = Counter[tuple[Event, float | None]]


def _refusing(cap: Cap, unread: str | None, compute: Callable[[], tuple[float, float]]) -> Figure:
    if unread is not None:
        return Figure(epsilon=None, delta=cap.delta, why=unread)
    try:
        epsilon, delta = compute()
    except HushError as error:
        return Figure(epsilon=None, delta=cap.delta, why=str(error))
    return Figure(epsilon=epsilon, delta=delta)


def _composed(kind: type[Accountant], cap: Cap, events: Events) -> tuple[float, float]:
    accountant = kind(relation=cap.relation, unit=cap.unit)
    for (event, _), count in events.items():
        accountant = accountant.compose(event, count)
    return accountant.epsilon(cap.delta), cap.delta


def _added(cap: Cap, events: Events) -> tuple[float, float]:
    epsilons, delta = [], Fraction(0)
    for (event, at), count in events.items():
        epsilon, worth_at = stated(cap, event, at)
        epsilons.append(count * epsilon)
        delta += count * Fraction(str(worth_at))
    return math.fsum(epsilons), float(delta)


def _alone(cap: Cap, event: Event, delta: float) -> float:
    """Return an event's epsilon at a delta, by the first accountant that takes it."""
    for kind in (PldAccountant, RdpAccountant, BasicAccountant):
        accountant: Accountant = kind(relation=cap.relation, unit=cap.unit)
        if accountant.supports(event):
            return accountant.compose(event).epsilon(delta)
    return PldAccountant(relation=cap.relation, unit=cap.unit).compose(event).epsilon(delta)
