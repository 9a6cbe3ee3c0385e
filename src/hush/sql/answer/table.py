"""`Table`: ask queries of declared tables. `hush.table` makes one.

An answer takes these steps, and only the last three read rows:

PriceRequest.check   the arguments
QueryPlanner.stages       the subqueries to release, and what is asked with their values
QueryPlanner.prepared     the query with bounded contributions, or a refusal; how much noise, and at what cost
QueryCharges         with ``budget``: charge the ledger, or return the answer that it has already
Chooser.choose       limits on contributions if none are given, and undeclared bounds
BoundedViews         exact, bounded aggregates from the engine
PricedQuery          selection of groups, noise; then HAVING, ORDER BY, LIMIT and intervals

`hush.sql.answer.stages` has the steps between the arguments and the choices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from textwrap import shorten

from hush.accounting.budget import Budget
from hush.accounting.receipts import check_budget
from hush.data.tables.catalog import Catalog, PrivateTable, PublicTable
from hush.errors import Unsupported, check_count, check_instance
from hush.notebook import card
from hush.randomness import RandomSource, source_or_default
from hush.sql.answer.answer import QueryAnswer
from hush.sql.answer.choices.chooser import Chooser
from hush.sql.answer.choices.limits import RequestedLimits
from hush.sql.answer.preview import Preview, invented_engine
from hush.sql.answer.price import PriceRequest, QueryPrice
from hush.sql.answer.stages.charges import QueryCharges
from hush.sql.answer.stages.planner import LimitArguments, QueryPlanner
from hush.sql.answer.stages.runner import Runner
from hush.sql.answer.stages.staged import staged_price
from hush.sql.engines.data_identity import ContentKey, DataIdentities
from hush.sql.engines.engine import Engine
from hush.sql.engines.views import BoundedViews
from hush.sql.write.table_parts import parts_condition
from hush.statistics import Selection
from hush.statistics.noise import NoiseKind


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

    def __init__(
        self,
        engine: Engine,
        catalog: Catalog,
        name: str,
        limits: RequestedLimits | None = None,
        *,
        table_limits: Mapping[str, RequestedLimits] | None = None,
        content_key: ContentKey | None = None,
    ) -> None:
        """Take an engine, the declarations of its tables, and the name of the first one.

        ``limits`` are those of all queries; ``table_limits`` of queries that read this one table and no other.
        """
        self._data = DataIdentities(engine, content_key)
        self.name, self._limits, self._table_limits = name, limits or RequestedLimits(), dict(table_limits or {})
        self._engine, self._catalog, self._views = engine, catalog, BoundedViews(engine)
        self._parts: tuple[str, ...] = ()  # the parts whose rows are read; empty for all rows
        self._chooser = Chooser(self._views)  # remembers the choices of queries without a budget

    def __repr__(self) -> str:
        """Return the names of tables and columns, which are public."""
        tables = ", ".join(f"{name}({', '.join(table.columns)})" for name, table in self._catalog.tables.items())
        return f"Table({shorten(tables, 300)}, on {self._engine.dialect})"

    def _repr_html_(self) -> str:
        """Return the tables and their declarations for a notebook. No row is read."""
        rows = [
            (name, "public" if isinstance(table, PublicTable) else str(table.unit), ", ".join(table.columns))
            for name, table in self._catalog.tables.items()
        ]
        notes = [f"Ask with {self.name}.sql(query, epsilon=...); price(...) says what a question costs."]
        title = f"Private tables on {self._engine.dialect}"
        return card(title, {}, head=("table", "unit", "columns"), rows=rows, notes=notes)

    @property
    def catalog(self) -> Catalog:
        """The declarations of the tables."""
        return self._catalog

    def limits_of(self, name: str) -> RequestedLimits:
        """Return the limits for queries that read only this table and give no limits; None for those to be chosen."""
        if name in self._table_limits:
            return self._table_limits[name]
        return self._limits if name == self.name else replace(self._limits, most_rows=None)  # a fact about the first

    def forget(self) -> None:
        """Drop the views, limits and bounds of earlier queries. Call this after the data have changed."""
        self._views.forget()
        self._data.forget()
        self.forget_limits()

    def forget_limits(self) -> None:
        """Drop the limits and bounds that earlier queries chose. Later queries choose and pay again."""
        self._chooser.clear()

    def price(
        self,
        text: str,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        groups_per_unit: int | None = None,
        rows_per_unit: int | None = None,
        noise: NoiseKind | None = None,
        selection: Selection | None = None,
        accuracy: float | None = None,
        expected: float | None = None,
        confidence: float = 0.95,
        limits_share: float = 0.1,
    ) -> QueryPrice:
        """Return the cost of `sql` with the same arguments. No data are read.

        If limits or bounds have to be chosen first, the noise is not known yet: the price has the cost, and no scales,
        and its ``limits`` say what is known. Give ``rows_per_unit`` and ``groups_per_unit``, and declare the bounds of
        columns, to see the scales.

        ``expected`` is the approximate number of rows in a group. With it, and with limits, the price tells the error
        of each column. Here you can pass it without ``accuracy``.
        """
        request = PriceRequest(epsilon, delta, noise, selection, accuracy, expected, confidence)
        request.check(allow_expected=True)
        planner, limits = self._planner(), LimitArguments(rows_per_unit, groups_per_unit, limits_share)
        stages = planner.stages(text)
        planner.tables_read(stages)  # refuse what `sql` refuses
        if not stages.released:
            return planner.price(planner.prepared(stages.last, request, limits, self._chooser.known), expected)
        prepared = planner.prepared_stages(stages, request, limits)
        total = planner.total_cost(prepared, request, source_or_default(None))
        return staged_price(stages, [planner.price(stage, None) for stage in prepared], total)

    def sql(
        self,
        text: str,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        groups_per_unit: int | None = None,
        rows_per_unit: int | None = None,
        noise: NoiseKind | None = None,
        selection: Selection | None = None,
        accuracy: float | None = None,
        expected: float | None = None,
        confidence: float = 0.95,
        limits_share: float = 0.1,
        source: RandomSource | None = None,
        budget: Budget | None = None,
        new_data: bool = False,
    ) -> QueryAnswer:
        """Answer a query privately.

        Args:
            text: A SELECT with aggregates; `hush.sql` lists what is supported.
            epsilon: The epsilon of the answer.
            delta: The delta of the answer. You need one if groups are not public, and for Gaussian noise.
            groups_per_unit: The most groups that a unit contributes to; by default that of the table, or chosen
                privately.
            rows_per_unit: The most rows of a unit that count in one group; by default that of the table. If it has
                none, a limit on a unit's rows in all groups together is chosen privately.
            limits_share: The share of epsilon that pays for choosing limits, and for learning undeclared bounds of
                columns that are summed. The answer gets the rest, or all of epsilon if there is nothing to choose.
                Choices of earlier queries are free: limits for the same rows and groups, bounds for the same rows. With
                ``budget``, these are the choices that it has stored, about the same data. Limits and bounds that you
                give are free, too.
            noise: LaplaceNoise() or GaussianNoise(); by default the one with the smaller error.
            selection: How groups that are not public are selected; by default `TruncatedGeometric()`.
            accuracy: Instead of epsilon: the largest relative error that you accept, such as 0.05 for 5 %. The smallest
                sufficient epsilon is used. The error of a sum is relative to rows at the middle of the bounds. That of
                MEDIAN and other quantiles is an error of rank: 0.05 means between the 45th and the 55th percentile of
                about ``expected`` rows.
            expected: With ``accuracy``: the approximate number of rows in a group. It is public, so do not look it up
                in the data.
            confidence: The confidence of ``accuracy`` and of the intervals.
            source: The random source; pass a TestSource in tests.
            budget: A budget to charge before the answer is returned, such as a ledger's. If the same query was answered
                before, from the same data, you get the stored answer at no cost. If the data have changed, the query is
                refused.
            new_data: With ``budget``: the data have changed, so answer and charge again. Databases do not report when
                their tables changed, so pass this to get a new answer from them.

        Guarantee:
            (epsilon, delta)-differential privacy under adding or removing one unit with all of its rows. It covers the
            released values of subqueries: each stage is private at its share for whatever was released before it.

        Assumes:
            Names and types of columns, declared bounds, `MostRows` and lists of keys are public (the caller's duty).
            Contributions are bounded by the query that the engine runs (checked here, by construction). The engine
            executes SQL correctly, and its running time is not observed (the caller's duty). It is public when the data
            were changed, and no file is replaced while a query reads it (the caller's duty). Where tables refer to
            others (`Through`), no two units have rows with the same key (the caller's duty): a row that refers to rows
            of several units is a row of each of them.

        References:
            Wilson et al. 2020 (bounded contributions); Desfontaines et al. 2022 (selection of groups); Hay et al. 2010
            (quantiles); Dwork et al. 2010, "Boosting and differential privacy" (stages: adaptive composition).
        """
        request = PriceRequest(epsilon, delta, noise, selection, accuracy, expected, confidence)
        request.check(allow_expected=False)
        check_budget(budget)
        check_instance("new_data", new_data, bool)
        planner, limits = self._planner(), LimitArguments(rows_per_unit, groups_per_unit, limits_share)
        runner = Runner(planner, self._chooser, confidence, source_or_default(source))
        stages = planner.stages(text)
        data = self._identity(planner.tables_read(stages), is_needed=budget is not None)
        self._views.load()  # a damaged file is refused before it is charged
        asked = datetime.now(UTC).replace(microsecond=0)  # before data are read: it shows no running time
        if budget is not None:
            return QueryCharges(budget, text, request, limits, runner, self._parts, data, new_data, asked).answer(
                stages
            )
        if stages.released:
            every_stage = planner.prepared_stages(stages, request, limits)
            total = planner.total_cost(every_stage, request, runner.source)
            return replace(runner.run_all(stages, every_stage, total), answered=asked)
        prepared = planner.prepared(stages.last, request, limits, self._chooser.known)
        return replace(runner.run(prepared, remember=True), answered=asked)

    def _planner(self) -> QueryPlanner:
        """Return what prepares queries, with the limits that are set now."""
        return QueryPlanner(self._engine, self._catalog, self.limits_of)

    def _identity(self, names: set[str], *, is_needed: bool) -> str:
        """Return what identifies the data of some tables, or nothing. Forget what replaced files had."""
        if self._data.is_stale(names):
            self.forget()
            self._data.is_stale(names)
        return self._data.text(names) if is_needed else ""

    def only(self, column: str, parts: Sequence[str]) -> Table:
        """Return the table restricted to some parts. Rows of other parts are never read.

        Args:
            column: The column that divides the table: text, if each row is a unit; or the time column of its window.
            parts: Values of a text column; for a time column, years, months or days such as ``2026``, ``2026-11`` or
                ``2026-11-15``.
        """
        table = self._catalog.tables[self.name]
        assert isinstance(table, PrivateTable)
        if sum(isinstance(other, PrivateTable) for other in self._catalog.tables.values()) > 1:
            # The other tables' rows would be read whatever part they belong to.
            raise Unsupported("parts of a table with further private tables", "Declare the table without private=")
        restricted = replace(table, only=parts_condition(column, parts, table))
        catalog = Catalog({**self._catalog.tables, self.name: restricted})
        other = Table(self._engine, catalog, self.name, self._limits, table_limits=self._table_limits)
        other._views = self._views  # views of different conditions have different fingerprints
        other._chooser = self._chooser  # and so are limits and bounds
        other._data = self._data
        other._parts = tuple(sorted(parts))
        return other

    def preview(
        self,
        text: str,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        groups_per_unit: int | None = None,
        rows_per_unit: int | None = None,
        noise: NoiseKind | None = None,
        confidence: float = 0.95,
        num_units: int = 1000,
    ) -> Preview:
        """Return the shape of an answer, on invented rows. It is free and reveals nothing about your data.

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
        engine = invented_engine(self._catalog, check_count("num_units", num_units))
        invented = Table(engine, self._catalog, self.name, self._limits, table_limits=self._table_limits)
        answer = invented.sql(
            text,
            epsilon=epsilon,
            delta=delta,
            groups_per_unit=groups_per_unit,
            rows_per_unit=rows_per_unit,
            noise=noise,
            confidence=confidence,
        )
        return Preview(columns=answer.columns, rows=answer.rows, intervals=answer.intervals, confidence=confidence)
