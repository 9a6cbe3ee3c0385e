"""How neighbours differ: the changes that a relation allows, and what a claim says about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from hush.accounting import events as ev
from hush.accounting.losses.profile import DominatingPair
from hush.errors import Unsupported
from hush.guarantee import Relation


class Direction(Enum):
    """The change from P to Q: a record is removed, added or replaced."""

    REMOVE = "remove"
    ADD = "add"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class Change:
    """The difference between two neighbouring datasets.

    Attributes:
        direction: Whether records are removed, added or replaced.
        relation: The accountant's relation. Claims hold for this relation and no other.
        size: How many records change at once.
        claimed: Whether the relation allows this change, so that claims cover it.
    """

    direction: Direction
    relation: Relation
    size: int = 1
    claimed: bool = True

    @property
    def shift(self) -> int:
        """How far a sum can move, in multiples of one record's contribution bound."""
        # A replaced record takes its contribution away and adds another, each of norm at most C.
        return self.size * (2 if self.direction is Direction.REPLACE else 1)

    def orient(self, pair: DominatingPair) -> DominatingPair:
        """Return the pair (with the record, without it) in the direction of this change."""
        return pair.swapped() if self.direction is Direction.ADD else pair

    def describe(self) -> str:
        """Return a name of the change for messages."""
        text = f"the relation {self.relation.value!r}"
        return text if self.size == 1 else f"{text} and a group of {self.size}"


def one_change(event: ev.PerChangeEvent, change: Change) -> Change:
    """Return the change whose shift is the distance that the event's noise is relative to."""
    require_claim(event, change)
    # A group of k is a chain of k changes: the distances add up. The noise is symmetric, so the direction is no matter.
    return replace(change, direction=Direction.REMOVE)


def removed_from_sample(change: Change) -> Change:
    """Return the removal that sampling compares: a record in the sample, and a sample without it."""
    # Only under add-or-remove is that what a claim is about. A contribution that is zeroed out is still in the sample.
    claimed = change.claimed and change.relation is Relation.ADD_OR_REMOVE
    return replace(change, direction=Direction.REMOVE, claimed=claimed)


def changes(relation: Relation) -> tuple[Change, ...]:
    """Return the changes that a relation allows. An accountant takes the worst of them."""
    if relation is Relation.REPLACE:
        return (Change(Direction.REPLACE, relation),)
    # Sampled mechanisms are not symmetric: a removal and an addition have different profiles, and both must hold.
    return (Change(Direction.REMOVE, relation), Change(Direction.ADD, relation))


def refuse_group(event: ev.Event, change: Change) -> None:
    """Refuse a group whose records may be in several parts."""
    if change.size > 1:
        raise Unsupported(
            f"{event.kind} under {change.describe()}: the group's records may be in several parts",
            "Use Guarantee.for_group on the result",
        )


def require_claim(event: ev.Event, change: Change) -> None:
    """Refuse a change that no claim covers because the relation does not allow it on its own."""
    if not change.claimed:
        raise Unsupported(
            f"{event.kind} in a part or a sample that a record may be missing from: it is stated for the relation "
            f"{change.relation.value!r}, and says nothing about a record that leaves",
            "Use Relation.ADD_OR_REMOVE, or an event of noise on a sum, such as GaussianEvent",
        )


def require_claim_on_one(event: ev.Event, change: Change) -> None:
    """Refuse a change that a claim about a single record does not cover."""
    require_claim(event, change)
    if change.size > 1:
        raise Unsupported(
            f"{event.kind} under {change.describe()}: the claim covers one record under the accountant's relation",
            "Use Guarantee.for_group on the result, or state the claim for this relation",
        )
