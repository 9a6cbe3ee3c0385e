"""The private answer to a question, and its form in a ledger."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hush.accounting import Event
from hush.guarantee import Guarantee


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAnswer:
    """The private answer to a question.

    Attributes:
        columns: Names of the columns.
        rows: The rows, made of noisy numbers and of keys that are public or were chosen privately.
        guarantee: What they give away.
        event: The same for accountants, to be composed with more.
        scales: The noise, as in `Price`.
        intervals: For each row, (low, high) by column, where a column is an aggregate, or one that constants are added
            to or multiplied with, or that is rounded: with the stated confidence, each for itself, it holds the exact
            value after contributions are bounded. Of rows that HAVING or LIMIT chose by their noisy values, fewer do.
        confidence: Of the intervals.
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    guarantee: Guarantee
    event: Event
    scales: Mapping[str, float]
    intervals: list[dict[str, tuple[float, float]]]
    confidence: float

    def __str__(self) -> str:
        """Return the rows as a small table, and what they give away."""
        lines = [list(self.columns), *([_cell(value) for value in row] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        laid = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        return "\n".join([*laid, str(self.guarantee)])


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def encoded(answer: QueryAnswer) -> str:
    """Return an answer as JSON; what JSON has no form for is written with its type."""
    return json.dumps(
        {
            "columns": answer.columns,
            "rows": [[_told(value) for value in row] for row in answer.rows],
            "guarantee": answer.guarantee.to_json(),
            "event": answer.event.to_json(),
            "scales": dict(answer.scales),
            "intervals": answer.intervals,
            "confidence": answer.confidence,
        }
    )


def decoded(text: str) -> QueryAnswer:
    """Return the answer that `encoded` wrote."""
    data = json.loads(text)
    return QueryAnswer(
        columns=tuple(data["columns"]),
        rows=[tuple(_value(told) for told in row) for row in data["rows"]],
        guarantee=Guarantee.from_json(data["guarantee"]),
        event=Event.from_json(data["event"]),
        scales=data["scales"],
        intervals=[{name: (pair[0], pair[1]) for name, pair in row.items()} for row in data["intervals"]],
        confidence=data["confidence"],
    )


_TYPES: dict[str, Any] = {
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "Decimal": Decimal,
    "bytes": bytes.fromhex,
}


def _told(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    kind = type(value).__name__
    return {kind: value.isoformat() if hasattr(value, "isoformat") else str(value)} if kind in _TYPES else str(value)


def _value(told: Any) -> Any:
    if not isinstance(told, dict):
        return told
    ((kind, text),) = told.items()
    return _TYPES[kind](text)
