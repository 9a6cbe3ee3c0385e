"""Boxes: a multiset of releases that is declared before the first one, and may be used in any order.

*Why the order does not matter.* Let R be the multiset, and ``v(x, R)`` the profile at ``e^x`` of all of R composed. If
the next release is i, with loss L, then ``E[v(x - L, R - i)] = v(x, R)``, whichever i was picked. By induction from the
last release to the first, any strategy that picks the next release in view of the earlier ones, or stops, attains at
most v(epsilon, R): the delta of the composed privacy loss distribution. Releases outside the box come on top: see
`hush.accounting.gaussian_rule`.

For this, each release has to be one composition of dominating pairs. Some events stand for several cases, since a
record may be in several parts. Where an index decides the part, as of people who are trained on or held out, and it
does not depend on answers, the proof holds for each way to deal out the cases, and the worst one counts. Where a
record's value decides it, the case could follow earlier answers. Such kinds, and those that only a Renyi divergence
describes, are composed at one Renyi order, at which their worst cases add up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hush.accounting import events as ev
from hush.accounting.losses.pairs import Alternative, alternatives, changes
from hush.errors import InvalidArgument, Unsupported, check_count, check_instance
from hush.guarantee import Relation, Unit

_MOST_RELEASES = 10**6

_EXAMPLE = "Such as Box({GaussianEvent(25.0): 40})"


@dataclass(frozen=True, slots=True, init=False)
class Box:
    """Kinds of releases and the largest number of each, declared when a budget is created.

    >>> from hush.accounting import GaussianEvent, LaplaceEvent
    >>> box = Box({GaussianEvent(25.0): 40, LaplaceEvent(20.0): 10})
    >>> box.numbers, Box.from_json(box.to_json()) == box
    ((40, 10), True)

    Attributes:
        kinds: The events, each with its largest number. You can pass a mapping.
    """

    kinds: tuple[tuple[ev.Event, int], ...]

    def __init__(self, kinds: Mapping[ev.Event, int] | tuple[tuple[ev.Event, int], ...]) -> None:
        """Check the kinds."""
        pairs: object = tuple(kinds.items()) if isinstance(kinds, Mapping) else kinds
        if not isinstance(pairs, tuple) or not pairs or not all(isinstance(p, tuple) and len(p) == 2 for p in pairs):
            raise InvalidArgument("box", kinds, "at least one event and its largest number", _EXAMPLE)
        for event, number in pairs:
            check_instance("box", event, ev.Event, _EXAMPLE)
            if not check_count("box", number) <= _MOST_RELEASES:
                raise InvalidArgument("box", number, f"at most {_MOST_RELEASES:,} releases of a kind")
        object.__setattr__(self, "kinds", pairs)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The largest number of each kind."""
        return tuple(number for _, number in self.kinds)

    @property
    def event(self) -> ev.Event:
        """All releases of the box, as one event."""
        return ev.ComposedEvent(tuple(ev.SelfComposedEvent(event, number) for event, number in self.kinds))

    def kind_of(self, event: ev.Event, relation: Relation, unit: Unit) -> int | None:
        """Return the kind that an event belongs to; None if it belongs to none."""
        plain, _ = ev.plain_event(event, relation, unit)
        for index, (kind, _) in enumerate(self.kinds):
            if ev.plain_event(kind, relation, unit)[0] == plain:
                return index
        return None

    @property
    def has_indices(self) -> bool:
        """Whether a public index decides which part of some release a record is in."""
        return any(_holds(event, ev.ParallelByIndexEvent) for event, _ in self.kinds)

    def options(self, relation: Relation, unit: Unit) -> tuple[Alternative, ...]:
        """Return the composed pairs of the box, for each change of the data and each way in which indices may fall.

        Other kinds of events are refused.
        """
        plain, _ = ev.plain_event(self.event, relation, unit)
        composed = []
        for change in changes(relation):
            for event, _ in self.kinds:
                stated, _ = ev.plain_event(event, relation, unit)
                if _holds(stated, ev.ParallelEvent) and len(alternatives(stated, change)) > 1:
                    raise Unsupported(f"{event.kind} in a box, composed by privacy loss distributions")
            composed += alternatives(plain, change)
        return tuple(composed)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the box as plain values."""
        return [{"event": json.loads(event.to_json()), "number": number} for event, number in self.kinds]

    @staticmethod
    def from_json(kinds: Any) -> Box:
        """Return the box that `to_json` described: a list such as ``[{"event": {...}, "number": 40}]``."""
        if not isinstance(kinds, list) or not all(
            isinstance(k, dict) and k.keys() == {"event", "number"} for k in kinds
        ):
            raise InvalidArgument("box", kinds, 'a list such as [{"event": {...}, "number": 40}]')
        return Box(tuple((ev.Event.from_json(json.dumps(kind["event"])), kind["number"]) for kind in kinds))


def _holds(event: ev.Event, kind: type[ev.Event]) -> bool:
    """Return whether an event, or something within it, is of a kind."""
    inner = [*getattr(event, "events", ()), *([event.event] if hasattr(event, "event") else [])]
    return isinstance(event, kind) or any(_holds(part, kind) for part in inner)
