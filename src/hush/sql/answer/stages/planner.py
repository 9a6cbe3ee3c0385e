"""Prepares queries: `QueryPlanner` fixes the plan, limits, noise and cost of each stage. It reads no rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hush.accounting import ComposedEvent, Event
from hush.data.tables.catalog import Catalog
from hush.errors import InvalidArgument
from hush.guarantee import Guarantee, Unit
from hush.randomness import RandomSource, source_or_default
from hush.sql.answer.accuracy import expected_errors
from hush.sql.answer.choices.chooser import Choices, ChoicesPlan
from hush.sql.answer.choices.limits import Limits, Measure, RequestedLimits, lowered
from hush.sql.answer.conditions import conditions, open_choices
from hush.sql.answer.price import PriceRequest, QueryPrice
from hush.sql.answer.priced_query import PricedQuery, plan_assumptions, protected_unit
from hush.sql.answer.stages.staged import StageCost, share_of, total_cost
from hush.sql.engines.engine import Engine
from hush.sql.read.aggregates import Bounds
from hush.sql.read.parsed_query import ParsedQuery
from hush.sql.read.public_query import plan_public
from hush.sql.read.query import plan_query
from hush.sql.read.stages import Stages, read_stages
from hush.sql.syntax.relation import scanned_tables
from hush.sql.write.plan import QueryPlan
from hush.statistics import ContributionLimits
from hush.statistics.noise import claim

KnownChoices = Callable[[QueryPlan, tuple[Measure, ...]], Choices]


def no_choices(plan: QueryPlan, measures: tuple[Measure, ...]) -> Choices:
    """Return no choices: none of earlier queries are used."""
    return Choices()


@dataclass(frozen=True, slots=True)
class LimitArguments:
    """The arguments of `Table.sql` about limits: ``rows_per_unit``, ``groups_per_unit`` and ``limits_share``."""

    rows_per_unit: int | None
    groups_per_unit: int | None
    share: float


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A query, or one of its stages, with all that is fixed before data are read.

    Attributes:
        text: The query.
        first: Its plan within any limits and bounds.
        requested: The limits that it is given.
        known: The limits and bounds that earlier queries chose.
        choices_plan: How the others are chosen.
        rest: What the answer may cost, besides these choices.
        has_choices: Whether any limits or bounds are chosen, now or earlier.
        query: The query with its noise; None if that depends on choices.
    """

    text: ParsedQuery
    first: QueryPlan
    requested: RequestedLimits
    known: Choices
    choices_plan: ChoicesPlan
    rest: PriceRequest
    has_choices: bool
    query: PricedQuery | None = None


@dataclass(frozen=True, slots=True)
class QueryPlanner:
    """Prepares the queries of a table.

    >>> import duckdb
    >>> from hush.data.tables.catalog import Catalog, ColumnKind, PrivateTable
    >>> from hush.sql.engines.duckdb import DuckDBEngine
    >>> people = PrivateTable(columns={"who": ColumnKind.INT}, unit="who")
    >>> engine = DuckDBEngine(connection=duckdb.connect())
    >>> planner = QueryPlanner(engine, Catalog({"people": people}), lambda name: RequestedLimits())
    >>> sorted(planner.tables_read(planner.stages("SELECT COUNT(*) AS n FROM people")))
    ['people']

    Attributes:
        engine: The engine of the tables. Nothing is run on it here.
        catalog: The declarations of the tables.
        limits_of: Returns the limits for queries that read only the table of that name.
    """

    engine: Engine
    catalog: Catalog
    limits_of: Callable[[str], RequestedLimits]

    def stages(self, text: str) -> Stages:
        """Return the stages of a query: the subqueries to release, and what is asked with their values."""
        return read_stages(text, tables=self.catalog, dialect=self.engine.dialect)

    def tables_read(self, stages: Stages) -> set[str]:
        """Return the tables that a query reads in any of its stages."""
        names: set[str] = set()
        for query in stages.private:
            plan = self.plan(query, ContributionLimits())
            names |= scanned_tables(plan.origin, plan.where)
        if stages.is_public:
            public = plan_public(stages.last, tables=self.catalog)
            public.sql(self.engine.dialect)  # refuse what the engine cannot compute
            names |= scanned_tables(public.origin, None)
        return names

    def prepared(
        self,
        query: ParsedQuery,
        request: PriceRequest,
        limits: LimitArguments,
        known_choices: KnownChoices = no_choices,
    ) -> PreparedQuery:
        """Return a query with all that is fixed before data are read.

        Args:
            query: The query, or one of its stages.
            request: What it may cost.
            limits: The arguments about limits.
            known_choices: Returns the choices of earlier queries that may be used.
        """
        first = self.plan(query, ContributionLimits())
        requested = self._requested(first, limits)
        measures = requested.measures(first, gaussian=request.allows_gaussian())
        has_choices = bool(measures or first.undeclared)
        known = known_choices(first, measures) if has_choices else Choices()
        choices_plan, rest = ChoicesPlan(None, ()), request
        if has_choices:
            columns = {column: first.column_name(column) for column in first.undeclared if column not in known.bounds}
            choices_plan, rest = request.split(() if known.limits else measures, columns, limits.share)
        prepared = PreparedQuery(query, first, requested, known, choices_plan, rest, has_choices)
        if not choices_plan:  # what is known costs nothing: the answer gets the whole of epsilon
            return self.at_cost(prepared, request)
        self.priced_query(query, ContributionLimits(), {}, rest)  # refuse what no limits would allow
        requested.candidates(first, {})  # and facts that no noise covers
        return prepared

    def prepared_stages(self, stages: Stages, request: PriceRequest, limits: LimitArguments) -> list[PreparedQuery]:
        """Return the private stages of a query with all that is fixed before data are read.

        They make their own choices: the total is reserved before data are read, whatever was chosen before.
        """
        part = share_of(request, len(stages.private))
        return [self.prepared(query, part, limits) for query in stages.private]

    def at_cost(self, prepared: PreparedQuery, rest: PriceRequest) -> PreparedQuery:
        """Return a query whose choices are known with the noise of another cost of the answer."""
        query = self.within(prepared.text, prepared.requested, prepared.first, prepared.known, rest)
        return replace(prepared, rest=rest, query=query)

    def cost(self, prepared: PreparedQuery, source: RandomSource) -> StageCost:
        """Return what a query costs, with its choices."""
        if prepared.query is not None:
            return StageCost(*prepared.query.claim(source))
        choices_plan, rest = prepared.choices_plan, prepared.rest
        event = ComposedEvent((choices_plan.event, rest.bound()))
        epsilon = choices_plan.epsilon + rest.known_epsilon()
        return StageCost(*self.claim(prepared.first, event, epsilon, rest.delta, source))

    def cost_but_choices(self, prepared: PreparedQuery, rest: PriceRequest, source: RandomSource) -> StageCost:
        """Return what a query costs besides its choices, which are charged by themselves.

        Whatever the choices are, the noise is calibrated to ``rest``: the charge does not depend on them.
        """
        if prepared.has_choices:
            return StageCost(*self.claim(prepared.first, rest.bound(), rest.known_epsilon(), rest.delta, source))
        assert prepared.query is not None
        return StageCost(*prepared.query.claim(source))

    def price(self, prepared: PreparedQuery, expected: float | None) -> QueryPrice:
        """Return the price of a query that is prepared, with errors in groups of ``expected`` rows."""
        cost, query, known = self.cost(prepared, source_or_default(None)), prepared.query, prepared.known
        if query is None:
            return QueryPrice(
                guarantee=cost.guarantee,
                event=cost.event,
                noise="chosen with the limits",
                scales={},
                limits=tuple(open_choices(prepared.first, prepared.choices_plan, known)),
            )
        confidence = prepared.rest.confidence
        return QueryPrice(
            guarantee=cost.guarantee,
            event=cost.event,
            noise=query.noise_kind,
            scales=query.scales(),
            errors={} if expected is None else expected_errors(query, float(expected), confidence),
            limits=tuple(conditions(query, prepared.requested, known, confidence)),
        )

    def total_cost(self, prepared: Sequence[PreparedQuery], request: PriceRequest, source: RandomSource) -> StageCost:
        """Return what all stages of a query cost together."""
        costs = [self.cost(stage, source) for stage in prepared]
        assumptions = [line for stage in prepared for line in self.assumptions(stage.first)]
        return total_cost(costs, request.known_epsilon(), source, assumptions)

    def claim(
        self, plan: QueryPlan, event: Event, epsilon: float, delta: float, source: RandomSource
    ) -> tuple[Guarantee, Event]:
        """Return the guarantee and the event of an answer whose limits or bounds are chosen privately."""
        chosen = "limits and bounds" if plan.undeclared else "limits"
        method, unit = f"noise within {chosen} that are chosen privately", protected_unit(self.catalog, plan)
        assumptions = self.assumptions(plan)
        return claim(event, epsilon, delta, method, unit=unit, source=source, assumptions=assumptions)

    def within(
        self, text: ParsedQuery, requested: RequestedLimits, first: QueryPlan, choices: Choices, request: PriceRequest
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

    def priced_query(self, text: ParsedQuery, limits: Limits, bounds: Bounds, request: PriceRequest) -> PricedQuery:
        """Return a query with its plan and noise, from public information only."""
        plan = self.plan(text, limits, bounds)
        query = request.price(plan, protected_unit(self.catalog, plan))
        return replace(query, assumptions=self.assumptions(plan), limits=limits)

    def plan(self, text: ParsedQuery, limits: Limits, bounds: Bounds | None = None) -> QueryPlan:
        """Return the plan of a query."""
        dialect = self.engine.dialect
        plan = plan_query(text, tables=self.catalog, limits=limits, dialect=dialect, bounds=bounds or {})
        if not plan.releases and not plan.trees:
            raise InvalidArgument(
                "text", text.select.sql(dialect), "a query with at least one aggregate", "For example COUNT(*)"
            )
        return plan

    def assumptions(self, plan: QueryPlan) -> tuple[str, ...]:
        """Return the assumptions of the engine and the unit."""
        return (*self.engine.assumptions, *plan_assumptions(self.catalog, plan))

    def _requested(self, first: QueryPlan, given: LimitArguments) -> RequestedLimits:
        """Return the limits given for a query or its table, and the known facts about the rows of one table."""
        limits = self.limits_of(first.single_table or "")
        requested = limits.changed(rows_per_unit=given.rows_per_unit, groups_per_unit=given.groups_per_unit)
        if first.single_table is not None and protected_unit(self.catalog, first) == Unit.example():
            return replace(requested, rows_in_total=None, most_rows=1)
        return requested

    def _least_noisy(
        self, text: ParsedQuery, candidates: Sequence[Limits], bounds: Bounds, request: PriceRequest
    ) -> PricedQuery:
        """Return a query with its plan and noise, within the limits that need least noise. All of this is public."""
        queries: list[PricedQuery] = []
        for limits in candidates:
            try:
                queries.append(self.priced_query(text, limits, bounds, request))
            except InvalidArgument:
                if not queries and limits is candidates[-1]:
                    raise
        return min(queries, key=PricedQuery.log_error)
