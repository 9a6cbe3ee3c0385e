"""The composed cost of charges, four ways.

The privacy filter enforces the cap and holds for adaptive choices. Addition, RDP and privacy loss distributions are
shown for comparison: they hold only if all charges were fixed in advance.
"""

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
    """The epsilon according to one composition theorem.

    Attributes:
        epsilon: The epsilon; None if the accountant refuses.
        delta: The delta at which it holds.
        why: Why the accountant refuses.

    >>> Figure(epsilon=None, delta=1e-6, why="the event has no Renyi divergence").epsilon is None
    True
    """

    epsilon: float | None
    delta: float
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """The composed cost of one block's charges.

    Attributes:
        charges: The number of charges. Voided ones do not count; a plan counts once.
        filter: By the privacy filter that enforces the cap. It holds for adaptive choices.
        addition: By basic composition: the sum of the stated epsilons and deltas.
        rdp: By Renyi divergences at the best order, as if all charges had been fixed in advance.
        pld: By privacy loss distributions, as if all charges had been fixed in advance.

    >>> import tempfile
    >>> from hush import Ledger
    >>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/privacy.db")
    >>> from hush.accounting import GaussianEvent
    >>> people = ledger.budget("people", epsilon=4, delta=1e-6, unit="person")
    >>> for _ in range(50):
    ...     _ = people.charge(GaussianEvent(20.0), purpose="a mean")
    >>> (block,) = ledger.recompute("people").blocks
    >>> block.composition.pld.epsilon < block.composition.filter.epsilon < block.composition.addition.epsilon
    True
    """

    charges: int
    filter: Figure
    addition: Figure
    rdp: Figure
    pld: Figure


def composition(cap: Cap, spent: Cost, charges: Sequence[Charged]) -> Composition:
    """Return the composed cost of charges, four ways. Only the filter's holds for adaptive choices."""
    counted = [charge for charge in charges if charge.status != "voided" and charge.part_of is None]
    unsupported = next((charge.refused for charge in counted if charge.event is None), None)
    events = Counter((charge.event, charge.delta) for charge in counted if charge.event is not None)
    return Composition(
        charges=len(counted),
        filter=Figure(epsilon=cap.spent_epsilon(spent), delta=cap.delta),
        addition=_refusing(cap, unsupported, lambda: _added(cap, events)),
        rdp=_refusing(cap, unsupported, lambda: _composed(RdpAccountant, cap, events)),
        pld=_refusing(cap, unsupported, lambda: _composed(PldAccountant, cap, events)),
    )


@lru_cache(maxsize=4096)
def stated(cap: Cap, event: Event, delta: float | None) -> tuple[float, float]:
    """Return the epsilon of an event on its own, and the delta at which it holds.

    The delta is the one the event claims, or was charged at; otherwise 0, if the event is pure; otherwise the cap's.
    """
    while isinstance(event, QualifiedEvent):
        event = event.event
    if isinstance(event, ApproximateDPEvent):
        return event.epsilon, event.delta
    for candidate in [delta] if delta is not None else [0.0, cap.delta]:
        epsilon = _alone(cap, event, candidate)
        if epsilon < math.inf:
            return epsilon, candidate
    return math.inf, cap.delta if delta is None else delta


def used_of(limit: Cost, spent: Cost) -> float:
    """Return the fraction of a limit that is used, for a share. `Cap.used` does the same for a cap."""
    fractions = []
    if spent.unbounded == 0 and limit.pure >= 0:
        fractions.append(spent.pure / limit.pure if limit.pure else 1.0)
    most = limit.smoothed if spent.smoothed else limit.gaussian
    if most > 0:
        fractions.append(spent.gaussian / most)
    if limit.renyi > 0:
        fractions.append(spent.renyi / limit.renyi)
    delta_fraction = spent.delta / limit.delta if limit.delta else float(spent.delta > 0)
    return max(min(fractions, default=1.0), delta_fraction)


Events = Counter[tuple[Event, float | None]]


def _refusing(cap: Cap, unsupported: str | None, compute: Callable[[], tuple[float, float]]) -> Figure:
    if unsupported is not None:
        return Figure(epsilon=None, delta=cap.delta, why=unsupported)
    try:
        epsilon, delta = compute()
    except HushError as error:
        return Figure(
            epsilon=None, delta=cap.delta, why=str(error).partition(". ")[0]
        )  # without advice for programmers
    return Figure(epsilon=epsilon, delta=delta)


def _composed(kind: type[Accountant], cap: Cap, events: Events) -> tuple[float, float]:
    accountant = kind(relation=cap.relation, unit=cap.unit)
    for (event, _), count in events.items():
        accountant = accountant.compose(event, count)
    return accountant.epsilon(cap.delta), cap.delta


def _added(cap: Cap, events: Events) -> tuple[float, float]:
    epsilons, delta = [], Fraction(0)
    for (event, charged_at), count in events.items():
        epsilon, event_delta = stated(cap, event, charged_at)
        epsilons.append(count * epsilon)
        delta += count * Fraction(str(event_delta))
    return math.fsum(epsilons), float(delta)


def _alone(cap: Cap, event: Event, delta: float) -> float:
    """Return an event's epsilon at a delta, by the first accountant that supports it."""
    for kind in (PldAccountant, RdpAccountant, BasicAccountant):
        accountant: Accountant = kind(relation=cap.relation, unit=cap.unit)
        if accountant.supports(event):
            return accountant.compose(event).epsilon(delta)
    return PldAccountant(relation=cap.relation, unit=cap.unit).compose(event).epsilon(delta)
