"""Composition: several events on the same data, on disjoint parts of it, or for a group of records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from hush.accounting.events.event import Event
from hush.accounting.events.ranges import check_size
from hush.errors import InvalidArgument, check_instance


@dataclass(frozen=True, slots=True)
class ComposedEvent(Event):
    """Several events on the same data. Each may depend on earlier outcomes, but its privacy parameters may not.

    >>> from hush.accounting import GaussianEvent, LaplaceEvent, PldAccountant
    >>> event = ComposedEvent((GaussianEvent(4.0), LaplaceEvent(10.0)))
    >>> round(PldAccountant().compose(event).epsilon(delta=1e-5), 3)
    0.986
    """

    kind: ClassVar[str] = "composed"
    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        """Check the arguments."""
        # No events at all are allowed: they reveal nothing, and cost epsilon = 0.
        self._set(events=_check_events(self.events, minimum=0))


@dataclass(frozen=True, slots=True)
class SelfComposedEvent(Event):
    """``event``, run ``count`` times on the same data.

    >>> from hush.accounting import GaussianEvent, PldAccountant
    >>> round(PldAccountant().compose(SelfComposedEvent(GaussianEvent(8.0), 4)).epsilon(delta=1e-5), 3)
    0.926
    """

    kind: ClassVar[str] = "self-composed"
    event: Event
    count: int

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_instance("event", self.event, Event)
        # A count instead of a tuple of copies: accountants raise to a power, whatever the number of steps.
        self._set(count=check_size("count", self.count, minimum=0))


@dataclass(frozen=True, slots=True)
class ParallelEvent(Event):
    """One event on each of several disjoint parts, where a record's value decides its part, as in GROUP BY.

    A record that is replaced may leave one part and enter another. For a user with several rows, all of them must lie
    in one part: use `ComposedEvent` where they may not. Known as parallel composition.

    >>> from hush.accounting import LaplaceEvent, PldAccountant
    >>> from hush.guarantee import Relation
    >>> parts = ParallelEvent((LaplaceEvent(2.0), LaplaceEvent(1.0)))
    >>> round(PldAccountant().compose(parts).epsilon(delta=0), 3)
    1.0
    >>> round(PldAccountant(relation=Relation.REPLACE).compose(parts).epsilon(delta=0), 3)
    2.0
    """

    # McSherry 2009, Theorem 4: a record that is added is in one part, so the costliest part counts. A replacement
    # changes two parts, whose costs compose.
    kind: ClassVar[str] = "parallel"
    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        """Check the arguments."""
        self._set(events=_check_events(self.events, minimum=1))


@dataclass(frozen=True, slots=True)
class ParallelByIndexEvent(Event):
    """One event on each of several disjoint parts, where a public index decides a record's part.

    A record that is replaced stays in its part. All rows of a user must have the same index.

    >>> from hush.accounting import LaplaceEvent, PldAccountant
    >>> parts = ParallelByIndexEvent((LaplaceEvent(2.0), LaplaceEvent(1.0)))
    >>> round(PldAccountant().compose(parts).epsilon(delta=0), 3)
    1.0
    """

    # The index does not depend on the value, so under every relation one part changes, the costliest one.
    kind: ClassVar[str] = "parallel-by-index"
    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        """Check the arguments."""
        self._set(events=_check_events(self.events, minimum=1))


@dataclass(frozen=True, slots=True)
class GroupEvent(Event):
    """``event``, accounted for a group of ``size`` records that may all change at once.

    >>> from hush.accounting import GaussianEvent, PldAccountant
    >>> round(PldAccountant().compose(GroupEvent(GaussianEvent(12.0), size=3)).epsilon(delta=1e-5), 3)
    0.926
    """

    kind: ClassVar[str] = "group"
    event: Event
    size: int

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_instance("event", self.event, Event)
        # A group of k shifts a sum by up to k C: Gaussian noise sigma protects it as sigma / k would protect a record.
        # Pure epsilon becomes k epsilon (Dwork & Roth 2014, Theorem 2.2).
        self._set(size=check_size("size", self.size, maximum=10**6))


def _check_events(events: Iterable[Event], *, minimum: int) -> tuple[Event, ...]:
    """Return the events as a tuple of at least ``minimum``."""
    if isinstance(events, Event) or not isinstance(events, Iterable):
        raise InvalidArgument("events", events, "a sequence of events")
    result = tuple(events)
    for event in result:
        check_instance("events", event, Event)
    if not len(result) >= minimum:
        raise InvalidArgument("events", result, f"at least {minimum} event")
    return result


def is_part(event: Event, whole: Event) -> bool:
    """Return whether all of an event is contained in another one, so that whatever covers this one covers it, too.

    Both are plain events. Fewer repetitions are a part, and so is one branch of parallel events.

    >>> from hush.accounting import GaussianEvent, LaplaceEvent
    >>> whole = ComposedEvent((LaplaceEvent(4.0), SelfComposedEvent(GaussianEvent(2.0), 10)))
    >>> is_part(SelfComposedEvent(GaussianEvent(2.0), 3), whole), is_part(LaplaceEvent(2.0), whole)
    (True, False)
    """
    if event == whole:
        return True
    if isinstance(whole, (ParallelEvent, ParallelByIndexEvent)):
        if type(event) is type(whole) and len(event.events) == len(whole.events):
            return all(is_part(branch, of) for branch, of in zip(event.events, whole.events, strict=True))
        return any(is_part(event, branch) for branch in whole.events)
    return unrolled(event) <= unrolled(whole)


def unrolled(event: Event, times: int = 1) -> Counter[Event]:
    """Return the events that are composed, and how often each is run.

    >>> from hush.accounting import LaplaceEvent
    >>> unrolled(ComposedEvent((LaplaceEvent(4.0), SelfComposedEvent(LaplaceEvent(4.0), 10))))
    Counter({LaplaceEvent(scale=4.0): 11})
    """
    if isinstance(event, SelfComposedEvent):
        return unrolled(event.event, times * event.count)
    if isinstance(event, GroupEvent) and isinstance(event.event, (ComposedEvent, SelfComposedEvent)):
        inner = unrolled(event.event, times)
        return Counter({GroupEvent(part, event.size): number for part, number in inner.items()})
    if not isinstance(event, ComposedEvent):
        return Counter({event: times})
    counted: Counter[Event] = Counter()
    for part in event.events:
        counted.update(unrolled(part, times))
    return counted
