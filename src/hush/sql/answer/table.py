"""`Table`: ask queries of declared tables. `hush.table` makes one.

An answer takes these steps, and only the last three read rows:

PriceRequest.check   the arguments
plan_query           the query with bounded contributions, or a refusal
PriceRequest.price   how much noise; with ``accuracy``, at which epsilon
run_sealed           with ``budget``: charge the ledger, or return the answer that it has already
Chooser.choose       limits on contributions if none are given, and undeclared bounds
BoundedViews         exact, bounded aggregates from the engine
PricedQuery          selection of groups, noise; then HAVING, ORDER BY, LIMIT and intervals
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from textwrap import shorten

from hush.accounting import ComposedEvent, Event
from hush.accounting.budget import Budget, Charge, Repeat, Reservation, run_sealed
from hush.accounting.events import QualifiedEvent
from hush.accounting.receipts import check_budget, receipt_of
from hush.data.tables.catalog import Catalog, PrivateTable
from hush.errors import InvalidArgument, Unsupported, check_count
from hush.guarantee import Guarantee, Unit
from hush.randomness import RandomSource, source_or_default
from hush.sql.answer.accuracy import expected_errors
from hush.sql.answer.answer import QueryAnswer, answer_from_json, answer_query, answer_to_json
from hush.sql.answer.choices.chooser import Choices, ChoicesPlan, Chooser, stored_charge
from hush.sql.answer.choices.limits import Limits, RequestedLimits, lowered
from hush.sql.answer.conditions import conditions, open_choices
from hush.sql.answer.preview import Preview, invented_engine
from hush.sql.answer.price import PriceRequest, QueryPrice
from hush.sql.answer.priced_query import PricedQuery, plan_assumptions, protected_unit
from hush.sql.answer.table_parts import parts_condition
from hush.sql.engines.data_identity import ContentKey, DataIdentities
from hush.sql.engines.engine import Engine
from hush.sql.engines.views import BoundedViews
from hush.sql.read.aggregates import Bounds
from hush.sql.read.query import plan_query
from hush.sql.syntax.relation import scanned_tables
from hush.sql.write.plan import QueryPlan
from hush.statistics import ContributionLimits, Selection, TotalLimits
from hush.statistics.noise import NoiseKind, claim


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

    @property
    def catalog(self) -> Catalog:
        """The declarations of the tables."""
        return self._catalog

    def limits_of(self, name: str) -> RequestedLimits:
        """Return the limits for queries that read only this table and give no limits; None for those to be chosen."""
        limits = self._table_limits.get(name, self._limits)
        return limits if name == self.name else replace(limits, most_rows=None)  # a fact about the first table

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
        first = self._plan(text, ContributionLimits())
        requested = self._requested(first, rows_per_unit, groups_per_unit)
        known, choices_plan, request = self._plan_choices(first, requested, request, limits_share, budget=None)
        if choices_plan:
            cost = ComposedEvent((choices_plan.event, request.bound()))
            total = choices_plan.epsilon + request.known_epsilon()
            guarantee, event = self._claim(first, cost, total, request.delta, source_or_default(None))
            lines = tuple(open_choices(first, choices_plan, known))
            return QueryPrice(guarantee=guarantee, event=event, noise="chosen with the limits", scales={}, limits=lines)
        query = self._within(text, requested, first, known, request)
        guarantee, event = query.claim(source_or_default(None))
        errors = {} if expected is None else expected_errors(query, float(expected), confidence)
        return QueryPrice(
            guarantee=guarantee,
            event=event,
            noise=query.noise_kind,
            scales=query.scales(),
            errors=errors,
            limits=tuple(conditions(query, requested, known, confidence)),
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
                columns that are summed. The answer gets the rest. Choices of earlier queries are free: limits for the
                same rows and groups, bounds for the same rows. Limits and bounds that you give are free, too.
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
            (epsilon, delta)-differential privacy under adding or removing one unit with all of its rows.

        Assumes:
            Names and types of columns, declared bounds, `MostRows` and lists of keys are public (the caller's duty).
            Contributions are bounded by the query that the engine runs (checked here, by construction). The engine
            executes SQL correctly, and its running time is not observed (the caller's duty). It is public when the data
            were changed, and no file is replaced while a query reads it (the caller's duty). Where tables refer to
            others (`Through`), no two units have rows with the same key (the caller's duty): a row that refers to rows
            of several units is a row of each of them.

        References:
            Wilson et al. 2020 (bounded contributions); Desfontaines et al. 2022 (selection of groups); Hay et al. 2010
            (quantiles).
        """
        request = PriceRequest(epsilon, delta, noise, selection, accuracy, expected, confidence)
        request.check(allow_expected=False)
        check_budget(budget)
        random_source = source_or_default(source)
        first = self._plan(text, ContributionLimits())
        names = scanned_tables(first.origin, first.where)
        if self._data.is_stale(names):  # a file was replaced
            self.forget()
            self._data.is_stale(names)
        data = "" if budget is None else self._data.text(names)
        self._views.load()  # a damaged file is refused before it is charged
        requested = self._requested(first, rows_per_unit, groups_per_unit)
        known, choices_plan, rest = self._plan_choices(first, requested, request, limits_share, budget)
        query = None
        if rest is not request:
            self._priced_query(text, ContributionLimits(), {}, rest)  # refuse what no limits would allow
            requested.candidates(first, {})  # and facts that no noise covers
            # Whatever the choices will be, the noise is calibrated to (epsilon, delta): the charge does not depend on
            # them, so that the same query is recognised whether they are known already or not.
            guarantee, event = self._claim(first, rest.bound(), rest.known_epsilon(), delta, random_source)
        else:
            query = self._within(text, requested, first, known, request)
            guarantee, event = query.claim(random_source)
        charge_choice = None
        if budget is not None and choices_plan:
            details = (self._declarations(), limits_share * request.known_epsilon())
            claim_choice = partial(self._claim, first, delta=0.0, source=random_source)
            repeat = Repeat.CHARGED if new_data else Repeat.CHARGED_ON_OTHER_DATA
            charge_choice = stored_charge(budget, claim_choice, details, self._parts, data, repeat)
        choose = partial(self._chooser.choose, first, choices_plan, known, random_source, charge_choice)

        def compute() -> QueryAnswer:
            choices = choose()
            priced = query or self._within(text, requested, first, choices, rest)
            answer = self._answer(priced, requested, choices, confidence, random_source)
            if budget is None:
                self._chooser.remember(first, choices_plan, choices)
            return answer

        asked = datetime.now(UTC).replace(microsecond=0)  # before data are read: it shows no running time
        if budget is None:
            return replace(compute(), answered=asked)
        charge = Charge(
            event=event,
            purpose=shorten(text, 400),
            question=self._question(text, requested, limits_share, request),
            data=data,
            repeat=Repeat.CHARGED if new_data else Repeat.REFUSED_ON_OTHER_DATA,
            delta=guarantee.delta or None,
            parts=self._parts,
        )
        answered: list[str] = []

        def run() -> str:
            answered.append(answer_to_json(replace(compute(), answered=asked)))
            return answered[-1]

        settled: list[Reservation] = []
        stored = run_sealed(budget, charge, run, settled.append)
        # Another process may have answered the same question meanwhile. Both then have the answer that was charged.
        answer = replace(answer_from_json(stored), replayed=stored not in answered)
        return replace(answer, receipt=receipt_of(settled[0], answer.guarantee))

    def _requested(self, first: QueryPlan, rows_per_unit: int | None, groups_per_unit: int | None) -> RequestedLimits:
        """Return the limits given for a query or its table, and the known facts about the rows of one table."""
        limits = self.limits_of(first.single_table or "")
        requested = limits.changed(rows_per_unit=rows_per_unit, groups_per_unit=groups_per_unit)
        if first.single_table is not None and protected_unit(self._catalog, first) == Unit.example():
            return replace(requested, rows_in_total=None, most_rows=1)
        return requested

    def _plan_choices(
        self,
        first: QueryPlan,
        requested: RequestedLimits,
        request: PriceRequest,
        share: float,
        budget: Budget | None,
    ) -> tuple[Choices, ChoicesPlan, PriceRequest]:
        """Return the known limits and bounds of a query, how the rest is chosen, and the budget of the answer.

        Choices made without a budget, or under another one, do not count as known: this budget has not paid for them.
        """
        measures = requested.measures(first, gaussian=request.allows_gaussian())
        if not measures and not first.undeclared:
            return Choices(), ChoicesPlan(None, ()), request
        known = self._chooser.known(first, measures) if budget is None else Choices()
        columns = {column: first.column_name(column) for column in first.undeclared if column not in known.bounds}
        choices_plan, rest = request.split(() if known.limits else measures, columns, share)
        return known, choices_plan, rest

    def _claim(
        self, plan: QueryPlan, event: Event, epsilon: float, delta: float, source: RandomSource
    ) -> tuple[Guarantee, Event]:
        """Return the guarantee and the event of an answer whose limits or bounds are chosen privately."""
        chosen = "limits and bounds" if plan.undeclared else "limits"
        method, unit = f"noise within {chosen} that are chosen privately", protected_unit(self._catalog, plan)
        assumptions = self._assumptions(plan)
        return claim(event, epsilon, delta, method, unit=unit, source=source, assumptions=assumptions)

    def _within(
        self, text: str, requested: RequestedLimits, first: QueryPlan, choices: Choices, request: PriceRequest
    ) -> PricedQuery:
        """Return a query with its plan and noise, within the limits and bounds that were given or chosen.

        Limits that no noise covers are lowered until one does. What was chosen must not decide whether there is an
        answer: its cost would not be reported, and the message would tell the noise.
        """
        bounds = {column: (learned.low, learned.high) for column, learned in choices.bounds.items()}
        chosen, query = choices.limits, None
        while query is None:
            candidates = requested.candidates(first, chosen, request.groups_allowed(first))
            try:
                query = self._least_noisy(text, candidates, bounds, request)
            except InvalidArgument:
                if all(choice.limit == 1 for choice in chosen.values()):
                    raise
                chosen = lowered(chosen)
        unknown = [column for column, learned in choices.bounds.items() if not learned.learned]
        return replace(query, plan=query.plan.without(unknown))

    def _answer(
        self, query: PricedQuery, requested: RequestedLimits, choices: Choices, confidence: float, source: RandomSource
    ) -> QueryAnswer:
        """Answer a priced query, and add what its choices cost now."""
        limits = conditions(query, requested, choices, confidence)
        left_out = choices.left_out(in_total=isinstance(query.limits, TotalLimits))
        answer = answer_query(query, self._views, limits, left_out, confidence, source)
        if not choices.paid:
            return answer
        guarantee = replace(answer.guarantee, epsilon=answer.guarantee.epsilon + sum(choices.paid.values()))
        assert isinstance(answer.event, QualifiedEvent)
        event = replace(answer.event, event=ComposedEvent((*choices.events, answer.event.event)))
        return replace(answer, guarantee=guarantee, event=event)

    def _question(self, text: str, requested: RequestedLimits, limits_share: float, request: PriceRequest) -> str:
        """Return everything that an answer depends on, besides the data. Equal questions share one answer."""
        limits = (requested.groups_per_unit, requested.rows_per_unit)
        shares = () if None not in limits else (limits_share,)
        in_total = () if requested.rows_in_total is None else (("rows in total", requested.rows_in_total),)
        fact = () if requested.fact is None else (("most rows", requested.fact),)
        arguments = [repr(value) for value in (*limits, *shares, *in_total, *fact, *request.arguments())]
        # The last item is from older versions: with it, questions that they stored are still recognised.
        return json.dumps([text, arguments, self._declarations(), ""])

    def _declarations(self) -> str:
        """Return everything that is declared about the tables."""
        return repr(list(self._catalog.tables.items()))

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

    def _least_noisy(
        self, text: str, candidates: Sequence[Limits], bounds: Bounds, request: PriceRequest
    ) -> PricedQuery:
        """Return a query with its plan and noise, within the limits that need least noise. All of this is public."""
        queries: list[PricedQuery] = []
        for limits in candidates:
            try:
                queries.append(self._priced_query(text, limits, bounds, request))
            except InvalidArgument:
                if not queries and limits is candidates[-1]:
                    raise
        return min(queries, key=PricedQuery.log_error)

    def _priced_query(self, text: str, limits: Limits, bounds: Bounds, request: PriceRequest) -> PricedQuery:
        """Return a query with its plan and noise, from public information only."""
        plan = self._plan(text, limits, bounds)
        query = request.price(plan, protected_unit(self._catalog, plan))
        return replace(query, assumptions=self._assumptions(plan), limits=limits)

    def _plan(self, text: str, limits: Limits, bounds: Bounds | None = None) -> QueryPlan:
        """Return the plan of a query."""
        dialect = self._engine.dialect
        plan = plan_query(text, tables=self._catalog, limits=limits, dialect=dialect, bounds=bounds or {})
        if not plan.releases and not plan.trees:
            raise InvalidArgument("text", text, "a query with at least one aggregate", "For example COUNT(*)")
        return plan

    def _assumptions(self, plan: QueryPlan) -> tuple[str, ...]:
        """Return the assumptions of the engine and the unit."""
        return (*self._engine.assumptions, *plan_assumptions(self._catalog, plan))
