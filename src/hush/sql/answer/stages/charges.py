"""Charges a query to a budget: `QueryCharges` reserves its cost, and finds the answers that the budget has stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from textwrap import shorten

from hush.accounting.budget import AnswerStore, Budget, Charge, Repeat, Reservation, run_sealed
from hush.accounting.receipts import receipt_of
from hush.data.tables.catalog import Catalog
from hush.sql.answer.answer import QueryAnswer, answer_from_json, answer_to_json
from hush.sql.answer.choices.limits import RequestedLimits
from hush.sql.answer.choices.stored_choices import StoredChoices
from hush.sql.answer.price import PriceRequest
from hush.sql.answer.stages.planner import LimitArguments, PreparedQuery
from hush.sql.answer.stages.runner import Runner
from hush.sql.answer.stages.staged import StageCost
from hush.sql.read.stages import Stages


@dataclass(frozen=True, slots=True)
class QueryCharges:
    """How a query is charged to a budget.

    Attributes:
        budget: The budget.
        text: The query.
        request: What it may cost.
        limits: The arguments about limits.
        runner: Prepares and runs the query.
        parts: The parts of the table whose rows are read.
        data: What identifies the data.
        new_data: Whether the data have changed, so that everything is asked again.
        asked: When the query was asked.
    """

    budget: Budget
    text: str
    request: PriceRequest
    limits: LimitArguments
    runner: Runner
    parts: tuple[str, ...]
    data: str
    new_data: bool
    asked: datetime

    def answer(self, stages: Stages) -> QueryAnswer:
        """Return the answer of a query, once it is charged, or the answer that the budget has stored.

        Guarantee:
            What `Table.sql` guarantees: the cost of all that is run is reserved before it is run.

        Assumes:
            The budget returns a stored answer only for the same question and event, about the same data (the duty of
            the budget; tested for hush's ledger).

        References:
            `hush.ledger.LedgerBudget`.
        """
        if not stages.released:
            return self._answer_alone(stages)
        planner, source = self.runner.planner, self.runner.source
        prepared = planner.prepared_stages(stages, self.request, self.limits)
        cost = planner.total_cost(prepared, self.request, source)
        charge = self._charge(cost, [stage.requested for stage in prepared])
        return self._sealed(charge, partial(self.runner.run_all, stages, prepared, cost))

    @property
    def _catalog(self) -> Catalog:
        """The declarations of the tables."""
        return self.runner.planner.catalog

    def _answer_alone(self, stages: Stages) -> QueryAnswer:
        """Return the answer of a query without released subqueries.

        It may have been asked when its choices had to be paid for, and the answer got the rest of epsilon, or when they
        were known, and it got all of it. A stored answer to either of these is the answer; neither is paid for twice.
        """
        planner = self.runner.planner
        claim = partial(planner.claim, delta=0.0, source=self.runner.source)
        stored = StoredChoices(self.budget, claim, declarations(self._catalog), self.parts, self.data, self.new_data)
        prepared = planner.prepared(stages.last, self.request, self.limits, stored.known)
        charge_choice = partial(stored.charge, prepared.first)
        charge, other = self._at_cost(prepared, prepared.rest), self._other_rest(prepared)
        if other is not None and self._may_continue(self._at_cost(prepared, other), prepared):
            charge = self._at_cost(prepared, other)
            prepared = prepared if prepared.choices_plan else planner.at_cost(prepared, other)
        return self._sealed(charge, partial(self.runner.run, prepared, charge_choice))

    def _other_rest(self, prepared: PreparedQuery) -> PriceRequest | None:
        """Return what the answer could cost if its choices were known, or not known; None if there are none."""
        if not prepared.has_choices:
            return None
        return self.request if prepared.choices_plan else self.request.split((), {}, self.limits.share)[1]

    def _may_continue(self, charge: Charge, prepared: PreparedQuery) -> bool:
        """Return whether the budget has a stored answer to a charge, or a reservation that this query can run.

        If the choices are not known, only a stored answer will do: a reservation for all of epsilon has none to choose.
        """
        if not isinstance(self.budget, AnswerStore):
            return False
        before = self.budget.answered(charge)
        return before is not None and (before.answer is not None or not prepared.choices_plan)

    def _at_cost(self, prepared: PreparedQuery, rest: PriceRequest) -> Charge:
        """Return the charge of a query without its choices, whose answer may cost ``rest``."""
        cost = self.runner.planner.cost_but_choices(prepared, rest, self.runner.source)
        return self._charge(cost, [prepared.requested])

    def _charge(self, cost: StageCost, requested: Sequence[RequestedLimits]) -> Charge:
        """Return the charge of a query, given its cost and the limits of each of its stages."""
        return Charge(
            event=cost.event,
            purpose=shorten(self.text, 400),
            question=question(self.text, requested, self.limits.share, self.request, self._catalog),
            data=self.data,
            repeat=Repeat.CHARGED if self.new_data else Repeat.REFUSED_ON_OTHER_DATA,
            delta=cost.guarantee.delta or None,
            parts=self.parts,
            sealed=True,
        )

    def _sealed(self, charge: Charge, run: Callable[[], QueryAnswer]) -> QueryAnswer:
        """Return the answer, once the budget has stored it, or the stored one."""
        answered: list[str] = []

        def run_as_text() -> str:
            answered.append(answer_to_json(replace(run(), answered=self.asked)))
            return answered[-1]

        settled: list[Reservation] = []
        stored = run_sealed(self.budget, charge, run_as_text, settled.append)
        # Another process may have answered the same question meanwhile. Both then have the answer that was charged.
        answer = replace(answer_from_json(stored), replayed=stored not in answered)
        return replace(answer, receipt=receipt_of(settled[0], answer.guarantee))


def question(
    text: str, requested: Sequence[RequestedLimits], share: float, request: PriceRequest, catalog: Catalog
) -> str:
    """Return everything that an answer depends on, besides the data. Equal questions share one answer.

    Args:
        text: The query.
        requested: The limits of each of its stages.
        share: The share of epsilon for choices.
        request: What it may cost.
        catalog: The declarations of the tables.
    """
    arguments: list[object] = []
    for stage in requested:
        limits = (stage.groups_per_unit, stage.rows_per_unit)
        arguments += [*limits, *(() if None not in limits else (share,))]
        arguments += [] if stage.rows_in_total is None else [("rows in total", stage.rows_in_total)]
        arguments += [] if stage.fact is None else [("most rows", stage.fact)]
    arguments += request.arguments()
    # The last item is from older versions: with it, questions that they stored are still recognised.
    return json.dumps([text, list(map(repr, arguments)), declarations(catalog), ""])


def declarations(catalog: Catalog) -> str:
    """Return everything that is declared about the tables."""
    return repr(list(catalog.tables.items()))
