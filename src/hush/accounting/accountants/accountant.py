"""The interface of every accountant.

compose     append an event, or refuse one that cannot be analysed
events      the events so far, without qualifications
epsilon     for a delta, over the worst change of the data that the relation allows
guarantee   epsilon with its unit, relation, method and assumptions
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Self

from hush.accounting.accountants.trade_off import largest_tpr, trade_off
from hush.accounting.events import ComposedEvent, Event, SelfComposedEvent, parts_of, plain_event
from hush.errors import (
    InvalidArgument,
    Unsupported,
    check_count,
    check_delta,
    check_epsilon,
    check_fraction,
    check_instance,
)
from hush.guarantee import Bound, Guarantee, Relation, TradeOff, Unit

_SMALLEST_DELTA = 1e-280  # smaller ones underflow when they are divided among many steps
FIXED_IN_ADVANCE = "the parameters of all mechanisms, and their number, were fixed in advance"


def check_accountant(name: str, kind: object) -> None:
    """Check that the argument is an accountant class."""
    if not (isinstance(kind, type) and issubclass(kind, Accountant)):
        raise InvalidArgument(name, kind, "a class of accountants", "Pass PldAccountant, for example, not an instance")


def is_composition(event: Event) -> bool:
    """Return whether an event runs more than one mechanism on the same data."""
    if isinstance(event, SelfComposedEvent):
        return event.count > 1 or (event.count == 1 and is_composition(event.event))
    parts = parts_of(event)
    if isinstance(event, ComposedEvent) and len(parts) > 1:
        return True
    return any(map(is_composition, parts))


class Accountant(ABC):
    """Base class of accountants: they bound how much the released results reveal about one unit.

    An accountant is an immutable value: `compose` returns a new one with the event appended. If it cannot analyse an
    event, it raises `Unsupported` and names the offending part. It never approximates silently.

    >>> from hush.accounting import GaussianEvent, PldAccountant
    >>> accountant = PldAccountant().compose(GaussianEvent(10.0)).compose(GaussianEvent(5.0), 3)
    >>> len(accountant.events), round(accountant.epsilon(delta=1e-6), 3)
    (2, 1.577)

    Args:
        relation: How neighbouring datasets differ.
        unit: The privacy unit; by default an example.
    """

    method: str
    fixed: ClassVar[str] = FIXED_IN_ADVANCE  # what a composition assumes, if outcomes may choose parameters
    assumptions: tuple[str, ...] = ()

    def __init__(self, *, relation: Relation = Relation.ADD_OR_REMOVE, unit: Unit | None = None) -> None:
        """Start without events."""
        check_instance("relation", relation, Relation)
        self.relation = relation
        self.unit = Unit.example() if unit is None else unit
        check_instance("unit", self.unit, Unit)
        self.events: tuple[Event, ...] = ()

    def compose(self, event: Event, count: int = 1) -> Self:
        """Return an accountant with ``event`` appended ``count`` times."""
        check_instance("event", event, Event)
        check_count("count", count, minimum=0)
        plain, assumptions = self._plain(event)
        # Kept as one event with a count: a million steps cost as much to analyse as one.
        appended = plain if count == 1 else SelfComposedEvent(plain, count)
        # Refused here, before anything is run, and not when epsilon is asked for.
        self._checked(appended)
        # A new value: holders of the old accountant keep an unchanged one.
        result = type(self)(relation=self.relation, unit=self.unit)
        result.__dict__.update(self._settings())
        result.events = (*self.events, appended)
        # Assumptions of mechanisms, such as test randomness, must reach every guarantee. Each is stated once.
        result.assumptions = tuple(dict.fromkeys((*self.assumptions, *assumptions)))
        return result

    def supports(self, event: Event) -> bool:
        """Return whether `compose` would accept the event."""
        check_instance("event", event, Event)
        try:
            self._checked(self._plain(event)[0])
        except Unsupported:
            return False
        return True

    def _plain(self, event: Event) -> tuple[Event, tuple[str, ...]]:
        """Return an event without qualifications, and their assumptions."""
        try:
            return plain_event(event, self.relation, self.unit)
        except RecursionError:
            return event, ()  # nested too deeply, which `_checked` reports

    def _checked(self, event: Event) -> None:
        """Check an event, and turn overflows and deep nesting into refusals."""
        try:
            self._check(event)
        except OverflowError:
            raise Unsupported(f"{event.kind}: its numbers overflow", "Compose fewer events") from None
        except RecursionError:
            raise Unsupported(
                f"{event.kind}: it is nested too deeply", "Flatten it: ComposedEvent takes any number of events"
            ) from None

    def epsilon(self, delta: float) -> float:
        """Return epsilon for a delta: an upper bound, unless `bound` says that it is an estimate."""
        # Curves are computed to a relative accuracy, which subnormal numbers do not have.
        if 0 < check_delta("delta", delta) < _SMALLEST_DELTA:
            raise InvalidArgument("delta", delta, f"0, or at least {_SMALLEST_DELTA:.3g}", "Smaller ones underflow")
        try:
            return self._epsilon(float(delta))
        except OverflowError:
            raise Unsupported("the numbers of the events overflow", "Compose fewer events") from None

    def delta(self, epsilon: float) -> float:
        """Return delta for an epsilon: an upper bound, unless `bound` says that it is an estimate."""
        checked = check_epsilon("epsilon", epsilon)
        try:
            delta = abs(self._delta(checked))  # no -0.0
            # A delta that underflows is not 0, unless no loss exceeds epsilon.
            return delta if delta > 0 or self._epsilon(0.0) <= checked else math.ulp(0.0)
        except OverflowError:
            raise Unsupported("the numbers of the events overflow", "Compose fewer events") from None

    def guarantee(self, delta: float) -> Guarantee:
        """Return the guarantee at this delta, with its assumptions."""
        return Guarantee(
            epsilon=self.epsilon(delta),
            delta=delta,
            unit=self.unit,
            relation=self.relation,
            bound=self.bound(),
            method=self.method,
            assumptions=(*self.assumptions, *self._fixed()),
        )

    def _fixed(self) -> tuple[str, ...]:
        """Return what a composition assumes about its parameters."""
        # If the first outcome decides what is run next, the sum of what was run is not a bound (Rogers et al. 2016).
        return (self.fixed,) if is_composition(ComposedEvent(self.events)) else ()

    def max_tpr(self, fpr: float) -> float:
        """Return the largest true positive rate that any membership attack can reach at a false positive rate.

        This is one minus the trade-off function of f-DP. It is tight for the events' dominating pairs, and much smaller
        than `Guarantee.max_tpr`, which uses a single (epsilon, delta).

        >>> from hush.accounting import GaussianEvent, PldAccountant
        >>> round(PldAccountant().compose(GaussianEvent(1.0)).max_tpr(0.01), 3)
        0.092

        Args:
            fpr: The attacker's false positive rate, in [0, 1].

        Guarantee:
            An upper bound if `epsilon` and `delta` are.

        Assumes:
            The attacker targets a single unit (the caller's duty).

        References:
            Dong, Roth & Su 2022, Proposition 2.4; Wasserman & Zhou 2010.
        """
        return largest_tpr(self, check_fraction("fpr", fpr))

    def tradeoff(self) -> TradeOff:
        """Return the whole trade-off curve of any membership attack's errors, from pairs at many epsilons.

        >>> from hush.accounting import GaussianEvent, PldAccountant
        >>> accountant = PldAccountant().compose(GaussianEvent(1.0))
        >>> round(accountant.tradeoff().max_tpr(0.01), 2), round(accountant.guarantee(1e-5).tradeoff().max_tpr(0.01), 2)
        (0.09, 0.8)

        Guarantee:
            An upper bound if `epsilon` and `delta` are. `max_tpr`, which searches between the pairs, is a little
            tighter.

        Assumes:
            The attacker targets a single unit (the caller's duty).

        References:
            Dong, Roth & Su 2022, Proposition 2.4.
        """
        return trade_off(self)

    def bound(self) -> Bound:
        """Return whether results are upper bounds or estimates."""
        return Bound.UPPER

    def _settings(self) -> dict[str, object]:
        """Return the further attributes that a composed copy keeps, besides relation and unit."""
        return {}

    @abstractmethod
    def _check(self, event: Event) -> None:
        """Raise `Unsupported` for an event that cannot be analysed."""

    @abstractmethod
    def _epsilon(self, delta: float) -> float:
        """Return epsilon for a valid delta."""

    @abstractmethod
    def _delta(self, epsilon: float) -> float:
        """Return delta for a valid epsilon."""

    def __repr__(self) -> str:
        """Return a string with the relation and the number of events."""
        return f"{type(self).__name__}(relation={self.relation.value!r}, events={len(self.events)})"
