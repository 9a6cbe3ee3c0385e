"""The private answer to a query, and its form in a ledger."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from hush.accounting import Event
from hush.accounting.receipts import Receipt
from hush.data.tables.catalog import ColumnKind
from hush.frames import to_arrow, to_pandas, to_polars
from hush.guarantee import Guarantee
from hush.notebook import short_repr
from hush.randomness import RandomSource
from hush.sql.answer.answer_columns import named_columns, written
from hush.sql.answer.answer_html import answer_page
from hush.sql.answer.choices.left_out import LeftOut
from hush.sql.answer.intervals import allowing_intervals, missing_slopes
from hush.sql.answer.priced_query import PricedQuery
from hush.sql.engines.views import BoundedViews
from hush.sql.syntax.expression import Expr
from hush.sql.write.plan import Output


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAnswer:
    """The private answer to a query.

    Printing it, or showing it in a notebook, displays the rows as a table and the guarantee.

    Attributes:
        columns: The names of the columns.
        rows: The rows. They hold noisy numbers, and keys that are public or were selected privately. Counts are
            integers.
        guarantee: The guarantee of the answer.
        event: The same as an accounting event, to compose it with other releases.
        scales: The noise, as in `QueryPrice`.
        intervals: For each row, the interval (low, high) of each column that has one, by name. A column has one if it
            is an aggregate, possibly rounded or combined with constants by + - * /. Each interval contains, with the
            stated confidence, the exact value that counts each unit within the limits. That of a count or sum also
            allows for what units just beyond privately chosen limits are expected to hold. Among rows that HAVING or
            LIMIT selected by their noisy values, fewer intervals hold.
        confidence: The confidence of each interval.
        limits: In words: the limits and bounds in force, who chose them, an estimate of what they leave out, and the
            meaning of the intervals.
        noise_intervals: The same intervals without that allowance: they cover the noise only.
        answered: When the question was first asked; None for answers that older versions stored in a ledger.
        replayed: Whether a ledger returned a stored answer, at no cost.
        receipt: The cost of the answer and the rest of the budget; None without a ledger.

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
    answered: datetime.datetime | None = field(default=None, compare=False)
    replayed: bool = field(default=False, compare=False)
    receipt: Receipt | None = field(default=None, compare=False)

    def to_pandas(self, *, intervals: bool = False) -> Any:
        """Return the rows as a data frame of pandas. Counts are integers, and dates are objects of `datetime.date`.

        Args:
            intervals: Whether columns such as ``n_low`` and ``n_high`` follow each column ``n`` that has an interval.
        """
        return to_pandas(named_columns(self, intervals=intervals))

    def to_polars(self, *, intervals: bool = False) -> Any:
        """Return the rows as a data frame of Polars. ``intervals`` is as for `to_pandas`."""
        return to_polars(named_columns(self, intervals=intervals))

    def to_arrow(self, *, intervals: bool = False) -> Any:
        """Return the rows as a table of Arrow. ``intervals`` is as for `to_pandas`."""
        return to_arrow(named_columns(self, intervals=intervals))

    def notes(self) -> list[str]:
        """Return the notes to show with the rows: limits, guarantee, receipt, and whether the answer was stored."""
        receipt = [] if self.receipt is None else [self.receipt.state if self.replayed else str(self.receipt)]
        return [*([self._replay()] if self.replayed else []), *self.limits, str(self.guarantee), *receipt]

    def _replay(self) -> str:
        date = "an earlier date" if self.answered is None else f"{self.answered:%Y-%m-%d %H:%M} UTC"
        return f"The ledger already had this answer, from {date}, so nothing was charged for it now."

    def __repr__(self) -> str:
        """Return one line: the shape and the cost. `print` shows the rows."""
        shape = {"columns": self.columns, "rows": len(self.rows)}
        return short_repr("QueryAnswer", {**shape, "epsilon": self.guarantee.epsilon, "delta": self.guarantee.delta})

    def _repr_html_(self) -> str:
        """Return the answer for a notebook."""
        return str(answer_page(self, self.confidence, self.notes()))

    def __str__(self) -> str:
        """Return the rows as a small table, and the guarantee."""
        lines = [list(self.columns), *(list(map(written, row)) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        aligned = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        return "\n".join([*aligned, *self.notes()])


def answer_query(
    query: PricedQuery,
    views: BoundedViews,
    limits: Sequence[str],
    left_out: LeftOut,
    confidence: float,
    source: RandomSource,
) -> QueryAnswer:
    """Run a priced query and return its answer. This is the only function that reads rows.

    Args:
        query: The query with its noise.
        views: The views on the engine.
        limits: The answer's statements about its limits and bounds.
        left_out: What intervals allow for.
        confidence: The confidence of the intervals.
        source: The random source.
    """
    plan = query.plan
    groups = views.groups(plan)
    # The view and the leaves may be of different age. Each block has noise for groups_per_unit groups of its own, so it
    # does not matter whether a unit is in the same groups of both.
    trees = [views.leaves(plan, index) for index in range(len(plan.trees))]
    released = query.release(groups, trees, confidence, source)
    # HAVING, ORDER BY and LIMIT drop and sort groups. A group's index goes along as a further key, to find its
    # intervals.
    group_index = Output(name="", expression=Expr("key", ColumnKind.INT, value=len(plan.keys)))
    indexed = replace(plan, outputs=(*plan.outputs, group_index))
    rows = indexed.answer(((*group.keys, index), group.numbers) for index, group in enumerate(released))
    ends, noise_ends = allowing_intervals(query, released, confidence, left_out)
    guarantee, event = query.claim(source)
    return QueryAnswer(
        columns=plan.columns,
        rows=[row[:-1] for row in rows],
        guarantee=guarantee,
        event=event,
        scales=query.scales(),
        intervals=[ends[row[-1]] for row in rows],
        confidence=confidence,
        limits=(*limits, *missing_slopes(query.plan, ends)),
        noise_intervals=[noise_ends[row[-1]] for row in rows],
    )


def public_answer(
    columns: tuple[str, ...], rows: list[tuple[Any, ...]], guarantee: Guarantee, event: Event, confidence: float
) -> QueryAnswer:
    """Return the answer of a last stage that reads public tables and released values only. It has no noise."""
    return QueryAnswer(
        columns=columns,
        rows=rows,
        guarantee=guarantee,
        event=event,
        scales={},
        intervals=[{} for _ in rows],
        confidence=confidence,
        noise_intervals=[{} for _ in rows],
    )


def answer_to_json(answer: QueryAnswer) -> str:
    """Return an answer as JSON, for a ledger. Values of types that JSON does not have are written with their type.

    Whether it is a replay is not stored, because that is known only when the ledger returns it.
    """
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
            "answered": None if answer.answered is None else answer.answered.isoformat(),
        }
    )


def answer_from_json(text: str) -> QueryAnswer:
    """Return the answer that `answer_to_json` wrote."""
    data = json.loads(text)
    answered = data.get("answered")
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
        answered=None if answered is None else datetime.datetime.fromisoformat(answered),
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
    if isinstance(value, list):
        return [_value_to_json(part) for part in value]
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    name = type(value).__name__
    if name not in _PARSERS:
        return str(value)
    return {name: value.isoformat() if hasattr(value, "isoformat") else str(value)}


def _value_from_json(value: Any) -> Any:
    """Return the value that `_value_to_json` wrote."""
    if isinstance(value, list):
        return [_value_from_json(part) for part in value]
    if not isinstance(value, dict):
        return value
    ((name, text),) = value.items()
    return _PARSERS[name](text)
