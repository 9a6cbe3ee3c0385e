"""The contract that every accountant fulfils."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from hush.accounting.events import Event, SelfComposedEvent, plain_event
from hush.errors import InvalidArgument, Unsupported, check_count, check_delta, check_epsilon, check_instance
from hush.guarantee import Bound, Guarantee, Relation, Unit

_SMALLEST_DELTA = 1e-280


def check_accountant(name: str, kind: object) -> None:
    """Refuse what is not a class of accountants."""
    if not (isinstance(kind, type) and issubclass(kind, Accountant)):
        raise InvalidArgument(name, kind, "a class of accountants", "Such as PldAccountant, not an instance of it")


class Accountant(ABC):
    """Analyses events: how much one record, or whatever ``unit`` is, can show in what was released.

    An accountant is a value. `compose` returns a new one with the event appended; nothing is ever taken back. What it
    cannot analyse it refuses with `Unsupported`, naming the part; it never approximates silently.
    """

    method: str
    assumptions: tuple[str, ...] = ()

    def __init__(self, *, relation: Relation = Relation.ADD_OR_REMOVE, unit: Unit | None = None) -> None:
        """Start with nothing released."""
        check_instance("relation", relation, Relation)
        self.relation = relation
        self.unit = Unit.example() if unit is None else unit
        check_instance("unit", self.unit, Unit)
        self.events: tuple[Event, ...] = ()

    def compose(self, event: Event, count: int = 1) -> Self:
        """Return an accountant that has seen ``event``, ``count`` times, after all that this one has seen."""
        check_instance("event", event, Event)
        check_count("count", count, minimum=0)
        plain, assumed = self._plain(event)
        appended = plain if count == 1 else SelfComposedEvent(plain, count)
        self._checked(appended)
        result = type(self)(relation=self.relation, unit=self.unit)
        result.__dict__.update(self._settings())
        result.events = (*self.events, appended)
        result.assumptions = tuple(dict.fromkeys((*self.assumptions, *assumed)))
        return result

    def supports(self, event: Event) -> bool:
        """Say whether `compose` would take the event."""
        check_instance("event", event, Event)
        try:
            self._checked(self._plain(event)[0])
        except Unsupported:
            return False
        return True

    def _plain(self, event: Event) -> tuple[Event, tuple[str, ...]]:
        try:
            return plain_event(event, self.relation, self.unit)
        except RecursionError:
            return event, ()  # nested too deeply: `_checked` says so

    def _checked(self, event: Event) -> None:
        try:
            self._check(event)
        except OverflowError:
            raise Unsupported(f"{event.kind}: its numbers multiply beyond what floats hold", "Compose fewer") from None
        except RecursionError:
            raise Unsupported(
                f"{event.kind}: it is nested too deeply", "Flatten it: Composed takes any number"
            ) from None

    def epsilon(self, delta: float) -> float:
        """Return epsilon for a delta: never too small, unless the accountant says that it estimates."""
        if 0 < check_delta("delta", delta) < _SMALLEST_DELTA:
            raise InvalidArgument("delta", delta, f"0, or at least {_SMALLEST_DELTA:.3g}", "Smaller ones underflow")
        try:
            return self._epsilon(float(delta))
        except OverflowError:
            raise Unsupported("the events' numbers multiply beyond what floats hold", "Compose fewer") from None

    def delta(self, epsilon: float) -> float:
        """Return delta for an epsilon: never too small, unless the accountant says that it estimates."""
        try:
            return self._delta(check_epsilon("epsilon", epsilon))
        except OverflowError:
            raise Unsupported("the events' numbers multiply beyond what floats hold", "Compose fewer") from None

    def guarantee(self, delta: float) -> Guarantee:
        """Return what is promised at this delta, with its assumptions."""
        return Guarantee(
            epsilon=self.epsilon(delta),
            delta=delta,
            unit=self.unit,
            relation=self.relation,
            bound=self.bound(),
            method=self.method,
            assumptions=self.assumptions,
        )

    def bound(self) -> Bound:
        """Say whether results are upper bounds or estimates."""
        return Bound.UPPER

    def _settings(self) -> dict[str, object]:
        """Return what a composed copy keeps besides relation and unit."""
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
        """Show the relation and how much was seen."""
        return f"{type(self).__name__}(relation={self.relation.value!r}, events={len(self.events)})"
