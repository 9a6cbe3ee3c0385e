"""What comparing one published value can find."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from peers.facts import Group, Row


class NotExpressible(Exception):
    """hush has no words for a fact. The message says why."""


@dataclass(frozen=True)
class Verdict:
    """The comparison of one value.

    Attributes:
        row: The fact.
        ours: What hush says, or None if it cannot.
        agrees: Whether the two agree.
        reason: Why hush cannot say it.
    """

    row: Row
    ours: Any
    agrees: bool
    reason: str = ""


Verdicts = Iterator[Verdict]


def number(group: Group, row: Row, ours: float) -> Verdict:
    """Compare a number with the row's value."""
    return Verdict(row, ours, group.agrees(ours, row["value"]))
