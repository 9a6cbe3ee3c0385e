"""`Table`: ask queries of declared tables. `hush.table` makes one.

An answer takes these steps, and only the last two read data:

_PriceRequest.check   the arguments
plan_query            the query with bounded contributions, or a refusal
_PriceRequest.price   how much noise; with ``accuracy``, at which epsilon
run_sealed            with ``budget``: charge the ledger, or return the answer that it has already
BoundedViews          exact, bounded aggregates from the engine
PricedQuery           selection of groups, noise; then HAVING, ORDER BY, LIMIT and intervals
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import timedelta
from textwrap import shorten

from hush.accounting import Event
from hush.accounting.budget import Budget, Charge, run_sealed
from hush.data.tables.catalog import ROW, Catalog, ColumnKind, PrivateTable
from hush.errors import InvalidArgument, Unsupported, check_count, check_delta, check_fraction, check_positive
from hush.guarantee import Guarantee, Unit
from hush.randomness import RandomSource, source_or_default
from hush.sql.answer.accuracy import expected_errors, solve_epsilon
from hush.sql.answer.answer import QueryAnswer, answer_from_json, answer_to_json
from hush.sql.answer.intervals import intervals
from hush.sql.answer.parts import parts_condition
from hush.sql.answer.preview import Preview, invented_engine
from hush.sql.answer.priced_query import PricedQuery, price_query
from hush.sql.engines.engine import Engine
from hush.sql.engines.views import BoundedViews
from hush.sql.read.query import plan_query
from hush.sql.syntax.expression import Expr
from hush.sql.write.plan import Output, QueryPlan
from hush.statistics import ContributionLimits, Selection
from hush.statistics.noise import NoiseKind

_ROWS_ARE_UNITS = "each row is its own privacy unit: a person with two rows counts as two"
_CALENDAR_WINDOWS = "windows are those of the calendar: a user with rows in two of them counts as two units"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPrice:
    """What a query would cost, and how much noise its answer would have. No data are read for it.

    Attributes:
        guarantee: The guarantee of the answer.
        event: The same for accountants and budgets.
        noise: The kind of noise.
        scales: The noise scale of each released number, in units of the data, by a description of the number.
        errors: With ``expected``: about half the width of each column's interval in a group of that many rows, by
            column. For averages, variances and quantiles, it assumes values that are spread evenly over their bounds.

    >>> import duckdb, hush
    >>> connection = duckdb.connect()
    >>> _ = connection.execute("CREATE TABLE people (who BIGINT)")
    >>> people = hush.table(connection, name="people", unit="who")
    >>> price = people.price("SELECT COUNT(*) AS n FROM people", epsilon=0.5, expected=1_000)
    >>> price.noise, price.scales, price.errors
    ('Laplace', {'rows for n': 2.0...}, {'n': 6.0})
    """

    guarantee: Guarantee
    event: Event
    noise: str
    scales: Mapping[str, float]
    errors: Mapping[str, float] = field(default_factory=dict)


class Table:
    """A declared table to query. Make one with `hush.table`. No rows are read before the first query.

    >>> import duckdb, hush
    >>> from hush.randomness import TestSource
    >>> connection = duckdb.connect()
    >>> _ = connection.execute("CREATE TABLE people AS SELECT i AS who, i % 70 AS age FROM range(5000) AS t(i)")
    >>> people = hush.table(connection, name="people", unit="who", bounds={"age": (0, 100)})
    >>> people
    Table(people(who, age), on duckdb)
    >>> answer = people.sql("SELECT AVG(age) AS age FROM people", epsilon=1.0, source=TestSource(1))
    >>> abs(answer.rows[0][0] - 34.5) < 1
    True
    """

    def __init__(self, engine: Engine, catalog: Catalog, name: str) -> None:
        """Take an engine, the declarations of its tables, and the name of the first table."""
        self.name = name
        self._engine, self._catalog, self._views = engine, catalog, BoundedViews(engine)
        self._parts: tuple[str, ...] = ()  # the parts whose rows are read; empty for all rows

    def __repr__(self) -> str:
        """Return the names of tables and columns, which are public."""
        tables = ", ".join(f"{name}({', '.join(table.columns)})" for name, table in self._catalog.tables.items())
        return f"Table({shorten(tables, 300)}, on {self._engine.dialect})"

    def forget(self) -> None:
        """Drop the views that earlier queries left on the engine. Call it after the data have changed."""
        self._views.forget()

    def price(
        self,
        text: str,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        groups_per_unit: int = 1,
        rows_per_unit: int = 1,
        noise: NoiseKind | None = None,
        selection: Selection | None = None,
        accuracy: float | None = None,
        expected: float | None = None,
        confidence: float = 0.95,
    ) -> QueryPrice:
        """Return what `sql` would cost with the same arguments. No data are read.

        ``expected`` is the approximate number of rows in a group. With it, the price tells the error of each column.
        Here you can pass it without ``accuracy``.
        """
        limits = ContributionLimits(groups_per_unit=groups_per_unit, rows_per_unit=rows_per_unit)
        request = _PriceRequest(epsilon, delta, noise, selection, accuracy, expected, confidence)
        query = self._priced_query(text, limits, request, allow_expected=True)
        guarantee, event = query.claim(source_or_default(None))
        errors = {} if expected is None else expected_errors(query, float(expected), confidence)
        return QueryPrice(
            guarantee=guarantee, event=event, noise=query.noise_kind, scales=query.scales(), errors=errors
        )

    def sql(
        self,
        text: str,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        groups_per_unit: int = 1,
        rows_per_unit: int = 1,
        noise: NoiseKind | None = None,
        selection: Selection | None = None,
        accuracy: float | None = None,
        expected: float | None = None,
        confidence: float = 0.95,
        source: RandomSource | None = None,
        budget: Budget | None = None,
        fresh: bool = False,
    ) -> QueryAnswer:
        """Answer a query privately.

        Args:
            text: A SELECT with aggregates; `hush.sql` lists what is supported.
            epsilon: The epsilon of the answer.
            delta: The delta of the answer. You need one if groups are not public, and for Gaussian noise.
            groups_per_unit: The most groups that a unit contributes to.
            rows_per_unit: The most rows of a unit that count in one group.
            noise: LaplaceNoise() or GaussianNoise(); by default the one with the smaller error.
            selection: How groups that are not public are selected; by default `TruncatedGeometric()`.
            accuracy: Instead of epsilon: the relative error that you allow, such as 0.05 for 5 %. The smallest
                sufficient epsilon is used. The error of a sum is relative to rows at the middle of the bounds. That of
                MEDIAN and other quantiles is an error of rank: 0.05 means between the 45th and the 55th percentile of
                about ``expected`` rows.
            expected: With ``accuracy``: the approximate number of rows in a group. It is public, so do not look it up.
            confidence: The confidence of ``accuracy`` and of the intervals.
            source: The random source; pass a TestSource in tests.
            budget: A budget to charge before the answer is returned, such as one of a ledger. If the same query was
                answered before, you get the same answer again, for free.
            fresh: With ``budget``: answer again and charge again, because the data may have changed.

        Guarantee:
            (epsilon, delta)-differential privacy under adding or removing one unit with all of its rows.

        Assumes:
            Names and types of columns, bounds and lists of keys are public (the caller's duty). Contributions are
            bounded by the query that the engine runs (checked here, by construction). The engine executes SQL
            correctly, and its running time is not observed (the caller's duty).

        References:
            Wilson et al. 2020 (bounded contributions); Desfontaines et al. 2022 (selection of groups); Hay et al. 2010
            (quantiles).
        """
        limits = ContributionLimits(groups_per_unit=groups_per_unit, rows_per_unit=rows_per_unit)
        request = _PriceRequest(epsilon, delta, noise, selection, accuracy, expected, confidence)
        query = self._priced_query(text, limits, request)
        self._views.load()  # a damaged file is refused before it is charged
        if budget is None:
            return _answer(query, self._views, confidence, source)
        random_source = source_or_default(source)
        guarantee, event = query.claim(random_source)
        charge = Charge(
            event=event,
            purpose=shorten(text, 400),
            question=self._question(text, limits, request, fresh=fresh),
            delta=guarantee.delta if guarantee.delta else None,
            parts=self._parts,
        )
        answered = run_sealed(
            budget, charge, lambda: answer_to_json(_answer(query, self._views, confidence, random_source))
        )
        return answer_from_json(answered)

    def _question(self, text: str, limits: ContributionLimits, request: _PriceRequest, *, fresh: bool) -> str:
        """Return everything that an answer depends on, besides the data. Equal questions share one answer."""
        declarations = repr(list(self._catalog.tables.items()))
        arguments = [repr(value) for value in (*astuple(limits), *request.arguments())]
        return json.dumps([text, arguments, declarations, os.urandom(16).hex() if fresh else ""])

    def only(self, column: str, parts: Sequence[str]) -> Table:
        """Return the same table restricted to some parts. Rows of other parts are never read.

        Args:
            column: The column that divides the table: text, or the time column of the unit's window.
            parts: Values of a text column; for a time column, years, months or days such as ``2026``, ``2026-11`` or
                ``2026-11-15``.
        """
        table = self._catalog.tables[self.name]
        assert isinstance(table, PrivateTable)
        if sum(isinstance(other, PrivateTable) for other in self._catalog.tables.values()) > 1:
            # The other tables' rows would be read whatever part they belong to.
            raise Unsupported("parts of a table with further private tables", "Declare the table without private=")
        restricted = replace(table, only=parts_condition(column, parts, table))
        other = Table(self._engine, Catalog({**self._catalog.tables, self.name: restricted}), self.name)
        other._views = self._views  # views of different conditions have different fingerprints
        other._parts = tuple(sorted(parts))
        return other

    def preview(
        self,
        text: str,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        groups_per_unit: int = 1,
        rows_per_unit: int = 1,
        noise: NoiseKind | None = None,
        confidence: float = 0.95,
        num_units: int = 1000,
    ) -> Preview:
        """Return the shape of an answer, from invented rows. It is free, and says nothing about your data.

        Rows are invented from the declared columns, bounds and keys. No table is read, not even a public one. A query
        that `sql` refuses is refused here as well.

        Args:
            text: A query, as for `sql`.
            epsilon: Sets the amount of noise.
            delta: Sets the amount of noise.
            groups_per_unit: As for `sql`.
            rows_per_unit: As for `sql`.
            noise: As for `sql`.
            confidence: As for `sql`.
            num_units: How many units to invent, with two rows each.
        """
        limits = ContributionLimits(groups_per_unit=groups_per_unit, rows_per_unit=rows_per_unit)
        query = self._priced_query(text, limits, _PriceRequest(epsilon, delta, noise, None, None, None, confidence))
        views = BoundedViews(invented_engine(self._catalog, check_count("num_units", num_units)))
        answer = _answer(query, views, confidence, None)
        return Preview(columns=answer.columns, rows=answer.rows, intervals=answer.intervals, confidence=confidence)

    def _priced_query(
        self, text: str, limits: ContributionLimits, request: _PriceRequest, *, allow_expected: bool = False
    ) -> PricedQuery:
        """Return a query with its plan and noise, from public information only."""
        request.check(allow_expected=allow_expected)
        plan = plan_query(text, tables=self._catalog, limits=limits, dialect=self._engine.dialect)
        if not plan.releases and not plan.trees:
            raise InvalidArgument("text", text, "a query with at least one aggregate", "For example COUNT(*)")
        unit, assumptions = _protected_unit(self._catalog, plan), self._engine.assumptions
        if unit == Unit.example():
            assumptions += (_ROWS_ARE_UNITS,)
        elif unit != Unit.user():
            assumptions += (_CALENDAR_WINDOWS,)
        return replace(request.price(plan, unit), assumptions=assumptions)


@dataclass(frozen=True, slots=True)
class _PriceRequest:
    """What an answer may cost, or how accurate it has to be, as `Table.sql` takes them."""

    epsilon: float | None
    delta: float
    noise: NoiseKind | None
    selection: Selection | None
    accuracy: float | None
    expected: float | None
    confidence: float

    def check(self, *, allow_expected: bool) -> None:
        """Refuse arguments that are out of range or do not go together.

        Args:
            allow_expected: Whether ``expected`` may be given without ``accuracy``.
        """
        check_delta("delta", self.delta)
        if not 0 < check_fraction("confidence", self.confidence, "For example 0.95 for 95 %") < 1:
            raise InvalidArgument("confidence", self.confidence, "a number in (0, 1)", "For example 0.95 for 95 %")
        if self.accuracy is not None:
            if self.epsilon is not None:
                raise InvalidArgument(
                    "accuracy", self.accuracy, "None with epsilon=", "Give epsilon or accuracy, not both"
                )
            return
        if self.epsilon is None:
            raise InvalidArgument("epsilon", None, "a finite number > 0", "Give epsilon=, or accuracy= and expected=")
        check_positive("epsilon", self.epsilon)
        if self.expected is not None and not allow_expected:
            raise InvalidArgument(
                "expected", self.expected, "None without accuracy=", "Leave it out, or give accuracy="
            )
        if self.expected is not None:
            check_positive("expected", self.expected)

    def price(self, plan: QueryPlan, unit: Unit) -> PricedQuery:
        """Return the plan with its noise."""

        def price_at(epsilon: float) -> PricedQuery:
            """Return the priced query at an epsilon."""
            return price_query(plan, epsilon, self.delta, self.noise, self.selection, unit)

        if self.epsilon is not None:
            return price_at(float(self.epsilon))
        epsilon = solve_epsilon(price_at, accuracy=self.accuracy, expected=self.expected, confidence=self.confidence)
        return price_at(epsilon)

    def arguments(self) -> tuple[object, ...]:
        """Return the arguments, in order."""
        return (
            self.epsilon,
            self.delta,
            self.noise,
            self.selection,
            self.accuracy,
            self.expected,
            self.confidence,
        )


def _answer(query: PricedQuery, views: BoundedViews, confidence: float, source: RandomSource | None) -> QueryAnswer:
    """Run a priced query and return its answer. This is the only function that reads rows.

    Args:
        query: The query with its noise.
        views: The views on the engine.
        confidence: The confidence of the intervals.
        source: The random source.
    """
    random_source, plan = source_or_default(source), query.plan
    groups = views.groups(plan)
    # The view and the leaves may be of different age. Each block has noise for groups_per_unit groups of its own, so it
    # does not matter whether a unit is in the same groups of both.
    trees = [views.leaves(plan, index) for index in range(len(plan.trees))]
    released = query.release(groups, trees, confidence, random_source)
    # HAVING, ORDER BY and LIMIT drop and sort groups. A group's index goes along as a further key, to find its
    # intervals.
    group_index = Output(name="", expression=Expr("key", ColumnKind.INT, value=len(plan.keys)))
    indexed = replace(plan, outputs=(*plan.outputs, group_index))
    rows = indexed.answer(((*group.keys, index), group.numbers) for index, group in enumerate(released))
    ends = intervals(query, released, confidence)
    guarantee, event = query.claim(random_source)
    return QueryAnswer(
        columns=plan.columns,
        rows=[row[:-1] for row in rows],
        guarantee=guarantee,
        event=event,
        scales=query.scales(),
        intervals=[ends[row[-1]] for row in rows],
        confidence=confidence,
    )


def _protected_unit(catalog: Catalog, plan: QueryPlan) -> Unit:
    """Return the privacy unit: a user; a row; or a user within the shortest window, if the plan's unit has a window."""
    owner = plan.origin.owner
    if owner is not None and owner.relation.entity == ROW:
        return Unit.example()
    windows = {table.window for table in catalog.tables.values() if isinstance(table, PrivateTable)}
    if plan.units == 1 or windows == {None}:
        return Unit.user()
    units = (Unit.user_calendar(window) for window in windows if window is not None)
    return min(units, key=lambda unit: unit.window or timedelta.max)
