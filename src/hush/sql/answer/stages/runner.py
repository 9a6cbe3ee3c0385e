"""Runs prepared queries: `Runner` makes the choices, asks the engine for exact aggregates, and adds noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from hush.accounting import ComposedEvent
from hush.accounting.events import QualifiedEvent
from hush.randomness import RandomSource
from hush.sql.answer.answer import QueryAnswer, answer_query, public_answer
from hush.sql.answer.choices.chooser import Choices, Chooser, StoredCharge
from hush.sql.answer.conditions import conditions
from hush.sql.answer.priced_query import PricedQuery
from hush.sql.answer.stages.planner import PreparedQuery, QueryPlanner
from hush.sql.answer.stages.staged import Asked, Rows, StageCost, run_stages, staged_answer
from hush.sql.engines.views import BoundedViews
from hush.sql.read.public_query import plan_public
from hush.sql.read.stages import Stages
from hush.statistics import ContributionLimits, TotalLimits


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs queries that a planner has prepared.

    >>> import duckdb, hush
    >>> connection = duckdb.connect()
    >>> _ = connection.execute("CREATE TABLE people AS SELECT i AS who FROM range(5000) AS t(i)")
    >>> people = hush.table(connection, name="people", unit="who", rows_per_unit=1)
    >>> answer = people.sql("SELECT COUNT(*) AS n FROM people", epsilon=1.0)  # prepares the query, then runs it
    >>> 4900 < answer.rows[0][0] < 5100
    True

    Attributes:
        planner: Prepares the stages whose text depends on released values.
        chooser: Makes choices, and remembers them for the table.
        confidence: The confidence of intervals.
        source: The random source.
    """

    planner: QueryPlanner
    chooser: Chooser
    confidence: float
    source: RandomSource

    def run(
        self,
        prepared: PreparedQuery,
        charge_choice: StoredCharge | None = None,
        *,
        remember: bool = False,
        views: BoundedViews | None = None,
    ) -> QueryAnswer:
        """Return the answer of a query that is prepared.

        Args:
            prepared: The query.
            charge_choice: Charges a budget for choices.
            remember: Whether further queries may use the choices.
            views: Views for this query alone; None for those of the table.
        """
        first, choices_plan = prepared.first, prepared.choices_plan
        chooser = self.chooser if views is None else Chooser(views)
        choices = chooser.choose(first, choices_plan, prepared.known, self.source, charge_choice)
        query = prepared.query
        if query is None:
            query = self.planner.within(prepared.text, prepared.requested, first, choices, prepared.rest)
        answer = self._answer(query, prepared, choices, chooser.views)
        if remember:
            chooser.remember(first, choices_plan, choices)
        return answer

    def run_all(self, stages: Stages, prepared: Sequence[PreparedQuery], total: StageCost) -> QueryAnswer:
        """Return the answer of a query in stages."""
        ask: list[Asked] = [partial(self._run_stage, stage) for stage in prepared]
        if stages.is_public:
            ask.append(partial(self._run_public, stages, total))
        costs = [self.planner.cost(stage, self.source) for stage in prepared]
        return staged_answer(stages, run_stages(stages, ask), costs, total)

    def _run_stage(self, prepared: PreparedQuery, rows: Rows) -> QueryAnswer:
        """Return the answer of a stage, with the rows that were released before it as constants."""
        if not prepared.text.released:
            return self.run(prepared)
        query, views = prepared.text.with_rows(rows), BoundedViews(self.planner.engine)
        has_noise = prepared.query is not None
        prepared = replace(prepared, text=query, first=self.planner.plan(query, ContributionLimits()))
        if has_noise:
            prepared = self.planner.at_cost(prepared, prepared.rest)
        try:
            return self.run(prepared, views=views)
        finally:
            views.drop()  # no other query has the same constants

    def _run_public(self, stages: Stages, total: StageCost, rows: Rows) -> QueryAnswer:
        """Return the answer of a last stage that reads public tables and released values only."""
        engine = self.planner.engine
        plan = plan_public(stages.last.with_rows(rows), tables=self.planner.catalog)
        shown = plan.answer(engine.run(plan.sql(engine.dialect)))
        return public_answer(plan.columns, shown, total.guarantee, total.event, self.confidence)

    def _answer(
        self, query: PricedQuery, prepared: PreparedQuery, choices: Choices, views: BoundedViews
    ) -> QueryAnswer:
        """Answer a priced query, and add what its choices cost now."""
        limits = conditions(query, prepared.requested, choices, self.confidence)
        left_out = choices.left_out(in_total=isinstance(query.limits, TotalLimits))
        answer = answer_query(query, views, limits, left_out, self.confidence, self.source)
        if not choices.paid:
            return answer
        guarantee = replace(answer.guarantee, epsilon=answer.guarantee.epsilon + sum(choices.paid.values()))
        assert isinstance(answer.event, QualifiedEvent)
        event = replace(answer.event, event=ComposedEvent((*choices.events, answer.event.event)))
        return replace(answer, guarantee=guarantee, event=event)
