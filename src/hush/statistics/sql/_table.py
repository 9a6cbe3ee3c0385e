"""Questions in SQL, answered with noise: `hush.table(...).sql(...)`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from textwrap import shorten
from typing import Any

from hush.accounting import Event
from hush.accounting.budget import Budget, Charge, run_sealed
from hush.errors import InvalidArgument, check_count, check_delta, check_fraction, check_positive
from hush.guarantee import Guarantee, Unit
from hush.randomness import Source, source_or_default
from hush.statistics._release import NoiseKind
from hush.statistics._selection import Selection
from hush.statistics.sql._accuracy import solve_epsilon
from hush.statistics.sql._answer import QueryAnswer, decoded, encoded
from hush.statistics.sql._asked import Asked, ask
from hush.statistics.sql._catalog import Catalog, Kind, Limits, PrivateTable, PublicTable
from hush.statistics.sql._engine import BoundedViews, Engine
from hush.statistics.sql._expression import Expr
from hush.statistics.sql._intervals import intervals
from hush.statistics.sql._open import opened
from hush.statistics.sql._parts import rows_in
from hush.statistics.sql._plan import Output, Plan
from hush.statistics.sql._preview import Preview, invented
from hush.statistics.sql._query import plan_query


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a question would cost, and how much noise its answer would have; nothing is looked at for it.

    Attributes:
        guarantee: What is given away.
        event: The same for accountants and budgets.
        noise: The kind of noise.
        scales: For each number that is released, by what it is, the scale of its noise in its own unit.
    """

    guarantee: Guarantee
    event: Event
    noise: str
    scales: Mapping[str, float]


class Table:
    """A table that questions are asked of; `table` makes one. Nothing is read before the first question."""

    def __init__(self, engine: Engine, catalog: Catalog, name: str) -> None:
        """Take an engine and what is known of its tables."""
        self.name = name
        self._engine, self._catalog, self._views = engine, catalog, BoundedViews(engine)

    def forget(self) -> None:
        """Drop what was kept of earlier questions: after the data have changed."""
        self._views.forget()

    def price(
        self,
        text: str,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        max_groups: int = 1,
        max_rows: int = 1,
        noise: NoiseKind | None = None,
        selection: Selection | None = None,
        accuracy: float | None = None,
        expected: float | None = None,
        confidence: float = 0.95,
    ) -> Price:
        """Return what `sql` would cost with the same arguments; no data are looked at."""
        limits = Limits(max_groups=max_groups, max_rows=max_rows)
        wanted = _Wanted(epsilon, delta, noise, selection, accuracy, expected, confidence)
        question = self._asked(text, limits, wanted)
        guarantee, event = question.claim(source_or_default(None))
        return Price(guarantee=guarantee, event=event, noise=question.kind, scales=question.scales())

    def sql(
        self,
        text: str,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        max_groups: int = 1,
        max_rows: int = 1,
        noise: NoiseKind | None = None,
        selection: Selection | None = None,
        accuracy: float | None = None,
        expected: float | None = None,
        confidence: float = 0.95,
        source: Source | None = None,
        budget: Budget | None = None,
        fresh: bool = False,
    ) -> QueryAnswer:
        """Answer a question privately.

        Args:
            text: A SELECT with aggregates; `hush.statistics.sql` says what is supported.
            epsilon: What the answer may cost.
            delta: At which delta; needed where groups are not public, and for Gaussian noise.
            max_groups: In how many groups a unit takes part at most.
            max_rows: How many rows of a unit count in one group at most.
            noise: Laplace() or Gaussian(); the one with the smaller error, unless given.
            selection: How groups that are not public are chosen; `TruncatedGeometric()`, unless given.
            accuracy: In place of epsilon: the relative error that noise may make, 0.05 for 5 %; of sums, relative to
                rows in the middle of their bounds. The smallest epsilon for it is found.
            expected: With ``accuracy``: how many rows a group has, about. Public, and not to be looked up.
            confidence: Of ``accuracy`` and of intervals.
            source: Where noise comes from; for tests, a TestSource.
            budget: What the answer is charged to before it leaves, such as a ledger's data set. A question that was
                answered before is not asked again: the same answer is returned, and costs nothing.
            fresh: Whether to ask again all the same, and to pay again: the data may have changed.

        Guarantee:
            (epsilon, delta)-differential privacy for a unit that is added or removed, with all of its rows.

        Assumes:
            Names and types of columns, bounds and lists of keys are public (the caller's duty). Contributions are
            bounded by the query that the engine runs (checked here, by how it is made). The engine does what SQL says,
            and its running time is not observed (the caller's duty).

        References:
            Wilson et al. 2020 (bounded contributions); Desfontaines et al. 2022 (choice of groups); Hay et al. 2010
            (quantiles).
        """
        limits = Limits(max_groups=max_groups, max_rows=max_rows)
        wanted = _Wanted(epsilon, delta, noise, selection, accuracy, expected, confidence)
        question = self._asked(text, limits, wanted)
        if budget is None:
            return _answered(question, self._views, confidence, source)
        own = source_or_default(source)
        guarantee, event = question.claim(own)
        asked = json.dumps([text, repr(limits), repr(wanted), self._described(), os.urandom(16).hex() if fresh else ""])
        charge = Charge(
            event=event, purpose=shorten(text, 400), question=asked, delta=guarantee.delta if guarantee.delta else None
        )
        return decoded(run_sealed(budget, charge, lambda: encoded(_answered(question, self._views, confidence, own))))

    def _described(self) -> str:
        """Return all that an answer depends on, besides the question and the data."""
        return repr([(name, table) for name, table in self._catalog.tables.items()])

    def only(self, column: str, parts: Sequence[str]) -> Table:
        """Return the same table with those rows alone that are in some of its parts; others are not looked at.

        Args:
            column: What says in which part a row is: text, or a date or time, whose parts are years, months or days.
            parts: Values of the column; for dates, such as ``2026``, ``2026-11`` or ``2026-11-15``.
        """
        held = self._catalog.tables[self.name]
        assert isinstance(held, PrivateTable)
        narrowed = replace(held, only=rows_in(column, parts, held))
        other = Table(self._engine, Catalog({**self._catalog.tables, self.name: narrowed}), self.name)
        other._views = self._views  # which are told apart by their queries
        return other

    def preview(
        self,
        text: str,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        max_groups: int = 1,
        max_rows: int = 1,
        noise: NoiseKind | None = None,
        confidence: float = 0.95,
        num_units: int = 1000,
    ) -> Preview:
        """Return what an answer would look like, from invented rows: free, and about nobody.

        Rows are made from declared columns, bounds and keys; no table is read, public ones included. Whatever `sql`
        refuses is refused here, too.

        Args:
            text: A query, as for `sql`.
            epsilon: For how much noise.
            delta: The same.
            max_groups: As for `sql`.
            max_rows: As for `sql`.
            noise: As for `sql`.
            confidence: As for `sql`.
            num_units: How many units are invented, with two rows each.
        """
        limits = Limits(max_groups=max_groups, max_rows=max_rows)
        question = self._asked(text, limits, _Wanted(epsilon, delta, noise, None, None, None, confidence))
        views = BoundedViews(invented(self._catalog, check_count("num_units", num_units)))
        found = _answered(question, views, confidence, None)
        return Preview(columns=found.columns, rows=found.rows, intervals=found.intervals, confidence=confidence)

    def _asked(self, text: str, limits: Limits, wanted: _Wanted) -> Asked:
        wanted.check()
        plan = plan_query(text, tables=self._catalog, limits=limits, dialect=self._engine.dialect)
        if not plan.releases and not plan.trees:
            raise InvalidArgument("text", text, "a question with at least one aggregate", "Such as COUNT(*)")
        unit, stated = _unit(self._catalog, plan), self._engine.assumptions
        if unit != Unit.user():
            stated += ("windows are those of the calendar: what a user does in two of them counts twice",)
        return replace(wanted.ask(plan, unit), assumptions=stated)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What may be spent, or how accurate the answer has to be."""

    epsilon: float | None
    delta: float
    noise: NoiseKind | None
    selection: Selection | None
    accuracy: float | None
    expected: float | None
    confidence: float

    def check(self) -> None:
        check_delta("delta", self.delta)
        if not 0 < check_fraction("confidence", self.confidence) < 1:
            raise InvalidArgument("confidence", self.confidence, "a number in (0, 1)")
        if self.accuracy is None:
            check_positive("epsilon", self.epsilon, "Or give accuracy and expected")
            if self.expected is not None:
                raise InvalidArgument("expected", self.expected, "nothing, without accuracy", "Leave it out")
        elif self.epsilon is not None:
            raise InvalidArgument("accuracy", self.accuracy, "nothing, where epsilon is given", "Leave one of both out")

    def ask(self, plan: Plan, unit: Unit) -> Asked:
        def at(epsilon: float) -> Asked:
            return ask(plan, epsilon, self.delta, self.noise, self.selection, unit)

        if self.epsilon is not None:
            return at(float(self.epsilon))
        return at(solve_epsilon(at, accuracy=self.accuracy, expected=self.expected, confidence=self.confidence))


def _answered(question: Asked, views: BoundedViews, confidence: float, source: Source | None) -> QueryAnswer:
    own, plan = source_or_default(source), question.plan
    groups = views.groups(plan)
    # View and leaves may differ in age. Each block has noise for max_groups groups of its own, so that nothing hangs on
    # whether a unit's groups are the same here and there.
    trees = [views.leaves(plan, place) for place in range(len(plan.trees))]
    released = question.release(groups, trees, confidence, own)
    # HAVING, ORDER BY and LIMIT act on released values; a group's place goes along as one more key.
    place = Output(name="", expression=Expr("key", Kind.INT, value=len(plan.keys)))
    numbered = replace(plan, outputs=(*plan.outputs, place))
    shown = numbered.answer(((*each.keys, at), each.numbers) for at, each in enumerate(released))
    ends = intervals(question, released, confidence)
    guarantee, event = question.claim(own)
    return QueryAnswer(
        columns=plan.columns,
        rows=[row[:-1] for row in shown],
        guarantee=guarantee,
        event=event,
        scales=question.scales(),
        intervals=[ends[row[-1]] for row in shown],
        confidence=confidence,
    )


def _unit(catalog: Catalog, plan: Plan) -> Unit:
    """Return what is protected: a user, or, if every private table says so, a user within a window."""
    windows = {table.window for table in catalog.tables.values() if isinstance(table, PrivateTable)}
    if plan.units == 1 or windows == {None}:
        return Unit.user()
    units = (Unit.user_calendar(window) for window in windows if window is not None)
    return min(units, key=lambda unit: unit.window or timedelta.max)


def table(
    source: Any,
    *,
    unit: str | tuple[str, str, str],
    name: str | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    keys: Mapping[str, Sequence[Any]] | None = None,
    required: Sequence[str] = (),
    public: Mapping[str, Any] | None = None,
) -> Table:
    """Return a table to ask questions of; data stay where they are.

    Args:
        source: Where the data are. Read by DuckDB: a Parquet or CSV file, an Arrow table, a pandas or Polars data
            frame, or a DuckDB connection. On PostgreSQL: an address, ``postgresql://user@host/database``, or a
            psycopg connection. On Spark: a data frame, or a session.
        unit: The column that says whose each row is; or (column, time column, window): a user within an hour, day,
            week, month, quarter or year.
        name: What queries call it; the file's name without its ending, or ``data``. On a connection, a database or a
            Spark session, the name of the table or view there, which has to be given.
        bounds: For columns that are summed, the least and the largest value that counts.
        keys: For columns that queries group by, the values to report, which are public. Others are chosen privately.
        required: Columns whose missing values count as the middle of their bounds, so that AVG shares COUNT(*).
        public: Tables about nobody, by name, to be joined; None for one that the connection, database or session has.

    A password is better kept out of an address (``~/.pgpass``, ``PGPASSWORD``); messages do not repeat it.

    >>> import duckdb, tempfile
    >>> path = tempfile.mkdtemp() + "/people.parquet"
    >>> _ = duckdb.sql(f"COPY (SELECT i AS who, i % 2 AS sex, i % 70 AS age FROM range(5000) t(i)) TO '{path}'")
    >>> people = table(path, unit="who", bounds={"age": (0, 100)}, keys={"sex": [0, 1]})
    >>> answer = people.sql("SELECT sex, COUNT(*) AS n, AVG(age) AS age FROM people GROUP BY sex", epsilon=1.0)
    >>> answer.columns, len(answer.rows), abs(answer.rows[0][1] - 2500) < 100
    (('sex', 'n', 'age'), 2, True)
    """
    engine, called = opened(source, name, dict(public or {}))
    column, time, window = unit if isinstance(unit, tuple) else (unit, None, None)
    private = PrivateTable(
        columns=engine.columns(called),
        unit=column,
        time=time,
        window=window,
        bounds=dict(bounds or {}),
        keys=dict(keys or {}),
        required=frozenset(required),
    )
    others = {each: PublicTable(columns=engine.columns(each)) for each in public or {}}
    return Table(engine, Catalog({called: private, **others}), called)
