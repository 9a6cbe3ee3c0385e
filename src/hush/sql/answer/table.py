"""`Table`: ask queries of declared tables. `hush.table` makes one.

An answer takes these steps, and only the last three read data:

PriceRequest.check   the arguments
plan_query           the query with bounded contributions, or a refusal
PriceRequest.price   how much noise; with ``accuracy``, at which epsilon
run_sealed           with ``budget``: charge the ledger, or return the answer that it has already
LimitsPlan.choose    limits on contributions, if none are given
BoundedViews         exact, bounded aggregates from the engine
PricedQuery          selection of groups, noise; then HAVING, ORDER BY, LIMIT and intervals
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from textwrap import shorten
from typing import Any

from hush.accounting import ComposedEvent, Event
from hush.accounting.budget import Budget, Charge, run_sealed
from hush.accounting.events import QualifiedEvent
from hush.data.tables.catalog import ROW, Catalog, ColumnKind, PrivateTable, Through
from hush.errors import InvalidArgument, Unsupported, check_count
from hush.guarantee import CalendarWindow, Guarantee, Unit
from hush.randomness import RandomSource, source_or_default
from hush.sql.answer.accuracy import expected_errors
from hush.sql.answer.answer import QueryAnswer, answer_from_json, answer_to_json
from hush.sql.answer.intervals import intervals
from hush.sql.answer.limits import (
    Limits,
    LimitsInForce,
    LimitsPlan,
    Measure,
    RequestedLimits,
    limits_from_json,
    limits_to_json,
)
from hush.sql.answer.parts import parts_condition
from hush.sql.answer.preview import Preview, invented_engine
from hush.sql.answer.price import PriceRequest, QueryPrice
from hush.sql.answer.priced_query import PricedQuery
from hush.sql.engines.engine import Engine
from hush.sql.engines.views import BoundedViews
from hush.sql.read.query import plan_query
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.relation import scanned_tables
from hush.sql.write.plan import Output, QueryPlan
from hush.statistics import ContributionLimits, Selection
from hush.statistics.noise import NUM_LEVELS, ChosenLimit, NoiseKind, claim

_ROWS_ARE_UNITS = "each row is its own privacy unit: a person with two rows counts as two"
_KEYS_ARE_UNIQUE = "no two people have rows with the same {}: a row of {} that refers to both counts for both"
_CALENDAR_WINDOWS = "windows are those of the calendar: a user with rows in two of them counts as two units"


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
    ) -> None:
        """Take an engine, the declarations of its tables, and the name of the first one.

        ``limits`` are those of all queries; ``table_limits`` of queries that read this one table and no other.
        """
        self.name, self._limits, self._table_limits = name, limits or RequestedLimits(), dict(table_limits or {})
        self._engine, self._catalog, self._views = engine, catalog, BoundedViews(engine)
        self._parts: tuple[str, ...] = ()  # the parts whose rows are read; empty for all rows
        self._chosen: dict[
            Any, dict[Measure, ChosenLimit]
        ] = {}  # limits of queries without a budget, by rows and groups

    def __repr__(self) -> str:
        """Return the names of tables and columns, which are public."""
        tables = ", ".join(f"{name}({', '.join(table.columns)})" for name, table in self._catalog.tables.items())
        return f"Table({shorten(tables, 300)}, on {self._engine.dialect})"

    @property
    def catalog(self) -> Catalog:
        """What is declared about the tables."""
        return self._catalog

    def limits_of(self, name: str) -> RequestedLimits:
        """Return the limits of queries that read this one table and name none; None for those to be chosen."""
        return self._table_limits.get(name, self._limits)

    def forget(self) -> None:
        """Drop the views and limits that earlier queries left behind. Call it after the data have changed."""
        self._views.forget()
        self.forget_limits()

    def forget_limits(self) -> None:
        """Drop the limits that earlier queries chose. Further queries choose and pay anew, from the same views."""
        self._chosen.clear()

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
        """Return what `sql` would cost with the same arguments. No data are read.

        If limits have to be chosen first, the noise is not known yet: the price has the cost, and no scales. Give
        ``rows_per_unit`` and ``groups_per_unit`` to see the scales at these limits.

        ``expected`` is the approximate number of rows in a group. With it, and with limits, the price tells the error
        of each column. Here you can pass it without ``accuracy``.
        """
        request = PriceRequest(epsilon, delta, noise, selection, accuracy, expected, confidence)
        request.check(allow_expected=True)
        first = self._plan(text, ContributionLimits())
        requested = self._requested(first, rows_per_unit, groups_per_unit)
        measures, chosen = requested.measures(first, gaussian=request.allows_gaussian()), {}
        if measures:
            limits_plan, request = request.split(measures, limits_share)
            chosen = self._chosen.get(_rows_and_groups(first, measures), {})
            if not chosen:
                cost = ComposedEvent((limits_plan.event, request.bound()))
                total = limits_plan.noise.epsilon + request.known_epsilon()
                guarantee, event = self._claim(first, cost, total, request.delta, source_or_default(None))
                return QueryPrice(guarantee=guarantee, event=event, noise="chosen with the limits", scales={})
        query = self._least_noisy(text, requested.candidates(first, chosen), request)
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
        fresh: bool = False,
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
            limits_share: The share of epsilon that pays for choosing limits. The answer gets the rest. Nothing is paid
                for limits that an earlier query about the same rows and groups chose, nor for those that you give.
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
            correctly, and its running time is not observed (the caller's duty). Where tables refer to others
            (`Through`), no two units have rows with the same key (the caller's duty): a row that refers to rows of
            several units is a row of each of them.

        References:
            Wilson et al. 2020 (bounded contributions); Desfontaines et al. 2022 (selection of groups); Hay et al. 2010
            (quantiles).
        """
        request = PriceRequest(epsilon, delta, noise, selection, accuracy, expected, confidence)
        request.check(allow_expected=False)
        random_source = source_or_default(source)
        first = self._plan(text, ContributionLimits())
        self._views.load()  # a damaged file is refused before it is charged
        requested = self._requested(first, rows_per_unit, groups_per_unit)
        measures = requested.measures(first, gaussian=request.allows_gaussian())
        if measures:
            limits_plan, rest = request.split(measures, limits_share)
            self._priced_query(text, ContributionLimits(), rest)  # refuse what no limits would allow
            # Whatever the limits will be, the noise is calibrated to (epsilon, delta): the charge does not depend on
            # them, so that the same query is recognised whether its limits are known already or not.
            guarantee, event = self._claim(first, rest.bound(), rest.known_epsilon(), delta, random_source)
            choose = partial(self._choose_limits, first, limits_plan, random_source, budget)
            compute = partial(self._answer_within, choose, text, requested, first, limits_plan, rest, random_source)
        else:
            query = self._least_noisy(text, requested.candidates(first, {}), request)
            limits = LimitsInForce(limits=query.limits)
            guarantee, event = query.claim(random_source)
            compute = partial(_answer, query, self._views, limits, confidence, random_source)
        asked = datetime.now(UTC).replace(microsecond=0)  # before data are read: it shows no running time
        if budget is None:
            return replace(compute(), answered=asked)
        charge = Charge(
            event=event,
            purpose=shorten(text, 400),
            question=self._question(text, requested, limits_share, request, fresh=fresh),
            delta=guarantee.delta or None,
            parts=self._parts,
        )
        answered: list[str] = []

        def run() -> str:
            answered.append(answer_to_json(replace(compute(), answered=asked)))
            return answered[-1]

        stored = run_sealed(budget, charge, run)
        # Another process may have answered the same question meanwhile. Both then have the answer that was charged.
        return replace(answer_from_json(stored), replayed=stored not in answered)

    def _requested(self, first: QueryPlan, rows_per_unit: int | None, groups_per_unit: int | None) -> RequestedLimits:
        """Return the limits that a query is given, or its table has.

        If rows are the units, limits need no choice, unless a join multiplies rows.
        """
        limits = self.limits_of(first.single_table or "")
        requested = limits.changed(rows_per_unit=rows_per_unit, groups_per_unit=groups_per_unit)
        if first.single_table is None or _protected_unit(self._catalog, first) != Unit.example():
            return requested
        return RequestedLimits(
            rows_per_unit=requested.rows_per_unit or 1, groups_per_unit=requested.groups_per_unit or 1
        )

    def _claim(
        self, plan: QueryPlan, event: Event, epsilon: float, delta: float, source: RandomSource
    ) -> tuple[Guarantee, Event]:
        """Return the guarantee and the event of an answer whose limits are chosen privately."""
        method, unit = "noise within limits that are chosen privately", _protected_unit(self._catalog, plan)
        assumptions = self._assumptions(plan)
        return claim(event, epsilon, delta, method, unit=unit, source=source, assumptions=assumptions)

    def _choose_limits(
        self, first: QueryPlan, limits_plan: LimitsPlan, source: RandomSource, budget: Budget | None
    ) -> tuple[dict[Measure, ChosenLimit], float]:
        """Return limits and the epsilon that is paid for them now: 0 if they were chosen for the same rows and groups.

        What was chosen without a budget, or under another one, is chosen again: this budget has not paid for it.
        """
        epsilon, paid = limits_plan.noise.epsilon, 0.0

        def choose() -> str:
            nonlocal paid
            paid = epsilon
            return limits_to_json(limits_plan.choose(self._views.levels(first, NUM_LEVELS), source))

        if budget is None:
            key = _rows_and_groups(first, limits_plan.measures)
            if key not in self._chosen:
                self._chosen[key] = limits_from_json(choose())
            return self._chosen[key], paid
        _, event = self._claim(first, limits_plan.event, epsilon, 0.0, source)
        question = ["limits", *_rows_and_groups(first, limits_plan.measures), epsilon, self._declarations()]
        charge = Charge(event=event, purpose="contribution limits", question=json.dumps(question), parts=self._parts)
        return limits_from_json(run_sealed(budget, charge, choose)), paid

    def _answer_within(
        self,
        choose: Callable[[], tuple[dict[Measure, ChosenLimit], float]],
        text: str,
        requested: RequestedLimits,
        first: QueryPlan,
        limits_plan: LimitsPlan,
        request: PriceRequest,
        source: RandomSource,
    ) -> QueryAnswer:
        """Answer within limits that were chosen before for the same rows and groups, or that are chosen now."""
        chosen, paid = choose()
        query = self._least_noisy(text, requested.candidates(first, chosen), request)
        limits = LimitsInForce(limits=query.limits, chosen=chosen, epsilon=paid)
        answer = _answer(query, self._views, limits, request.confidence, source)
        if not paid:
            return answer
        guarantee = replace(answer.guarantee, epsilon=answer.guarantee.epsilon + paid)
        assert isinstance(answer.event, QualifiedEvent)
        event = replace(answer.event, event=ComposedEvent((limits_plan.event, answer.event.event)))
        return replace(answer, guarantee=guarantee, event=event)

    def _question(
        self, text: str, requested: RequestedLimits, limits_share: float, request: PriceRequest, *, fresh: bool
    ) -> str:
        """Return everything that an answer depends on, besides the data. Equal questions share one answer."""
        limits = (requested.groups_per_unit, requested.rows_per_unit)
        shares = () if None not in limits else (limits_share,)
        in_total = () if requested.rows_in_total is None else (("rows in total", requested.rows_in_total),)
        arguments = [repr(value) for value in (*limits, *shares, *in_total, *request.arguments())]
        return json.dumps([text, arguments, self._declarations(), os.urandom(16).hex() if fresh else ""])

    def _declarations(self) -> str:
        """Return everything that is declared about the tables."""
        return repr(list(self._catalog.tables.items()))

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
        catalog = Catalog({**self._catalog.tables, self.name: restricted})
        other = Table(self._engine, catalog, self.name, self._limits, table_limits=self._table_limits)
        other._views = self._views  # views of different conditions have different fingerprints
        other._chosen = self._chosen  # and so are limits
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

    def _least_noisy(self, text: str, candidates: Sequence[Limits], request: PriceRequest) -> PricedQuery:
        """Return a query with its plan and noise, within the limits that need least noise. All of this is public."""
        queries = [self._priced_query(text, limits, request) for limits in candidates]
        return min(queries, key=PricedQuery.log_error)

    def _priced_query(self, text: str, limits: Limits, request: PriceRequest) -> PricedQuery:
        """Return a query with its plan and noise, from public information only."""
        plan = self._plan(text, limits)
        query = request.price(plan, _protected_unit(self._catalog, plan))
        return replace(query, assumptions=self._assumptions(plan), limits=limits)

    def _plan(self, text: str, limits: Limits) -> QueryPlan:
        """Return the plan of a query."""
        plan = plan_query(text, tables=self._catalog, limits=limits, dialect=self._engine.dialect)
        if not plan.releases and not plan.trees:
            raise InvalidArgument("text", text, "a query with at least one aggregate", "For example COUNT(*)")
        return plan

    def _assumptions(self, plan: QueryPlan) -> tuple[str, ...]:
        """Return what the engine and the unit assume."""
        unit, assumptions = _protected_unit(self._catalog, plan), [*self._engine.assumptions]
        for name in sorted(scanned_tables(plan.origin, plan.where)):
            table = self._catalog.tables[name]
            if isinstance(table, PrivateTable) and isinstance(table.unit, Through):
                assumptions.append(_KEYS_ARE_UNIQUE.format(f"{table.unit.to}.{table.unit.key}", name))
        if unit != Unit.user():
            assumptions.append(_ROWS_ARE_UNITS if unit == Unit.example() else _CALENDAR_WINDOWS)
        return tuple(assumptions)


def _rows_and_groups(plan: QueryPlan, measures: tuple[Measure, ...]) -> tuple[str, tuple[Measure, ...]]:
    """Return what chosen limits depend on: a query's rows and groups, and what is measured."""
    return plan.fingerprint(), measures


def _answer(
    query: PricedQuery, views: BoundedViews, limits: LimitsInForce, confidence: float, source: RandomSource
) -> QueryAnswer:
    """Run a priced query and return its answer. This is the only function that reads rows.

    Args:
        query: The query with its noise.
        views: The views on the engine.
        limits: The limits that the query was planned with.
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
    ends = intervals(query, released, confidence)
    guarantee, event = query.claim(source)
    return QueryAnswer(
        columns=plan.columns,
        rows=[row[:-1] for row in rows],
        guarantee=guarantee,
        event=event,
        scales=query.scales(),
        intervals=[ends[row[-1]] for row in rows],
        confidence=confidence,
        limits=tuple(limits.sentences(plan)),
    )


def _protected_unit(catalog: Catalog, plan: QueryPlan) -> Unit:
    """Return the privacy unit: a user; a row; or a user within the shortest window, if the plan's unit has a window."""
    owner = plan.origin.owner
    if owner is not None and owner.relation.entity == ROW:
        return Unit.example()
    windows = {table.window for table in catalog.tables.values() if isinstance(table, PrivateTable)}
    if plan.units == 1 or windows == {None}:
        return Unit.user()
    units = (Unit.user_calendar(CalendarWindow(window)) for window in windows if window is not None)
    return min(units, key=lambda unit: unit.window or timedelta.max)
