"""The private answer to a query, and its form in a ledger."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from hush.accounting import Event
from hush.guarantee import Guarantee


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAnswer:
    """The private answer to a query. Printing it shows the rows as a table, and the guarantee.

    Attributes:
        columns: The names of the columns.
        rows: The rows. They hold noisy numbers, and keys that are public or were selected privately.
        guarantee: What the answer costs.
        event: The same for accountants, to compose it with other releases.
        scales: The noise, as in `QueryPrice`.
        intervals: For each row, the interval (low, high) of each column that has one, by name. A column has one if it
            is an aggregate, possibly rounded or combined with constants by + - * /. Each interval contains, with the
            stated confidence, the exact value that counts each unit within the limits. That of a count or sum also
            allows for what units just beyond privately chosen limits are expected to hold. Among rows that HAVING or
            LIMIT selected by their noisy values, fewer intervals hold.
        confidence: The confidence of each interval.
        limits: The limits and bounds in force, who chose them, an estimate of what they leave out, and what the
            intervals mean, in words.
        noise_intervals: The same intervals without that allowance, for the noise alone.

    >>> import duckdb, hush
    >>> from hush.randomness import TestSource
    >>> connection = duckdb.connect()
    >>> _ = connection.execute("CREATE TABLE people AS SELECT i AS who FROM range(5000) AS t(i)")
    >>> people = hush.table(connection, name="people", unit="who")
    >>> answer = people.sql("SELECT COUNT(*) AS n FROM people", epsilon=1.0, source=TestSource(1))
    >>> answer.columns, answer.guarantee.epsilon, abs(answer.rows[0][0] - 5000) < 50
    (('n',), 1.0, True)
    >>> low, high = answer.intervals[0]["n"]
    >>> low < 5000 < high
    True
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    guarantee: Guarantee
    event: Event
    scales: Mapping[str, float]
    intervals: list[dict[str, tuple[float, float]]]
    confidence: float
    limits: tuple[str, ...] = ()
    noise_intervals: list[dict[str, tuple[float, float]]] = field(default_factory=list)

    def __str__(self) -> str:
        """Return the rows as a small table, and the guarantee."""
        lines = [list(self.columns), *([_cell(value) for value in row] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        aligned = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        return "\n".join([*aligned, *self.limits, str(self.guarantee)])


def _cell(value: Any) -> str:
    """Return a value for display, a number with six digits."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def answer_to_json(answer: QueryAnswer) -> str:
    """Return an answer as JSON. Values of types that JSON does not have are written with their type."""
    return json.dumps(
        {
            "columns": answer.columns,
            "rows": [[_value_to_json(value) for value in row] for row in answer.rows],
            "guarantee": answer.guarantee.to_json(),
            "event": answer.event.to_json(),
            "scales": dict(answer.scales),
            "intervals": answer.intervals,
            "confidence": answer.confidence,
            "limits": answer.limits,
            "noise_intervals": answer.noise_intervals,
        }
    )


def answer_from_json(text: str) -> QueryAnswer:
    """Return the answer that `answer_to_json` wrote."""
    data = json.loads(text)
    return QueryAnswer(
        columns=tuple(data["columns"]),
        rows=[tuple(_value_from_json(value) for value in row) for row in data["rows"]],
        guarantee=Guarantee.from_json(data["guarantee"]),
        event=Event.from_json(data["event"]),
        scales=data["scales"],
        intervals=_pairs(data["intervals"]),
        confidence=data["confidence"],
        limits=tuple(data.get("limits", ())),
        noise_intervals=_pairs(data.get("noise_intervals", data["intervals"])),
    )


def _pairs(rows: list[dict[str, list[float]]]) -> list[dict[str, tuple[float, float]]]:
    """Return intervals, which JSON has as lists, as pairs."""
    return [{name: (low, high) for name, (low, high) in row.items()} for row in rows]


_PARSERS: dict[str, Any] = {
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "Decimal": Decimal,
    "bytes": bytes.fromhex,
}


def _value_to_json(value: Any) -> Any:
    """Return a value as JSON has it: as it is, or as {type: text}.

    Keys of groups can be dates, times, decimals and bytes. Values of other types become text.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    name = type(value).__name__
    if name not in _PARSERS:
        return str(value)
    return {name: value.isoformat() if hasattr(value, "isoformat") else str(value)}


def _value_from_json(value: Any) -> Any:
    """Return the value that `_value_to_json` wrote."""
    if not isinstance(value, dict):
        return value
    ((name, text),) = value.items()
    return _PARSERS[name](text)
