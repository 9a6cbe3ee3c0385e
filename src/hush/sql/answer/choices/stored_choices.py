"""Choices that a budget has paid for: it stores each with its own charge, and further queries use them for free.

A choice is public once it is charged, so reading it again costs nothing. It is known by what it is about: the rows, the
groups or the column, the declarations, and the data; not by its noise, which follows from what the first query could
spend. What is not a choice of the same mechanism for the same unit, or could not have been chosen, is not used. Privacy
does not depend on that: noise covers whatever limits and bounds are in force.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hush.accounting import Event
from hush.accounting.budget import AnswerStore, Budget, Charge, Repeat, run_sealed
from hush.accounting.events import QualifiedEvent
from hush.guarantee import Guarantee
from hush.sql.answer.choices.bounds import LearnedBounds, bounds_from_json, plan_bounds
from hush.sql.answer.choices.chooser import Choices, Key, column_key, wider_keys
from hush.sql.answer.choices.limits import Measure, limits_from_json, plan_limits
from hush.sql.syntax.expression import Expr
from hush.sql.write.plan import QueryPlan
from hush.statistics.noise import ChosenLimit


@dataclass(frozen=True, slots=True)
class StoredChoices:
    """The choices that a budget stores, and how it is charged for more.

    Attributes:
        budget: The budget.
        claim: Returns the guarantee of a choice, and its event, qualified by what it protects and assumes.
        declarations: What is declared about the tables.
        parts: The parts of the table whose rows are read.
        data: What identifies the data.
        new_data: Whether the data have changed, so that everything is chosen again.
    """

    budget: Budget
    claim: Callable[[QueryPlan, Event, float], tuple[Guarantee, Event]]
    declarations: str
    parts: tuple[str, ...]
    data: str
    new_data: bool

    def known(self, plan: QueryPlan, measures: tuple[Measure, ...]) -> Choices:
        """Return what earlier queries have chosen of all that a plan needs."""
        bounds = {column: self._known_bounds(plan, column) for column in plan.undeclared}
        return Choices(
            limits=self._known_limits(plan, measures),
            bounds={column: learned for column, learned in bounds.items() if learned is not None},
        )

    def charge(
        self, plan: QueryPlan, event: Event, epsilon: float, question: Key, choose: Callable[[], str]
    ) -> tuple[str, bool]:
        """Charge a choice and run it. Return its text, and whether it was charged now."""
        was_run = []

        def run() -> str:
            was_run.append(True)
            return choose()

        request = Charge(
            event=self.claim(plan, event, epsilon)[1],
            purpose=f"contribution {question[0]}",
            question=self._question(question),
            data=self.data,
            repeat=Repeat.CHARGED if self.new_data else Repeat.CHARGED_ON_OTHER_DATA,
            parts=self.parts,
        )
        return run_sealed(self.budget, request, run), bool(was_run)

    def _question(self, key: Key) -> str:
        """Return everything that a choice depends on, besides the data and its noise."""
        return json.dumps([*key, self.declarations])

    def _texts(self, plan: QueryPlan, key: Key, choice: Event) -> Iterator[str]:
        """Yield the stored choices of a key, the last one first, that were charged as choices of the same kind."""
        if self.new_data or not isinstance(self.budget, AnswerStore):
            return
        expected = self.claim(plan, choice, 1.0)[1]
        for answer in self.budget.answers(self._question(key), self.data):
            if _same_kind(answer.event, expected):
                yield answer.text

    def _known_limits(self, plan: QueryPlan, measures: tuple[Measure, ...]) -> dict[Measure, ChosenLimit]:
        """Return stored limits of all these measures, or none. Those that were chosen with more measures will do."""
        for wider, key in wider_keys(plan, measures):
            for text in self._texts(plan, ("limits", *key), plan_limits(wider, 1.0).event):
                try:
                    chosen = limits_from_json(text)
                except ValueError:
                    continue
                if set(chosen) == set(wider):
                    return {measure: chosen[measure] for measure in measures}
        return {}

    def _known_bounds(self, plan: QueryPlan, column: Expr) -> LearnedBounds | None:
        """Return the stored bounds of a column, or None."""
        choice = plan_bounds(column, "", 1.0).event
        for text in self._texts(plan, ("bounds", *column_key(plan, column)), choice):
            try:
                return bounds_from_json(text)
            except ValueError:
                continue
        return None


def _same_kind(event: Event, expected: Event) -> bool:
    """Return whether an event is that of the same mechanism, for the same unit, whatever its noise is."""
    if not isinstance(event, QualifiedEvent) or not isinstance(expected, QualifiedEvent):
        return False
    same_claim = (event.unit, event.relation) == (expected.unit, expected.relation)
    return same_claim and _shape(json.loads(event.event.to_json())) == _shape(json.loads(expected.event.to_json()))


def _shape(content: Any) -> Any:
    """Return an event's JSON without its noise."""
    if isinstance(content, list):
        return [_shape(part) for part in content]
    if isinstance(content, dict):
        return {name: _shape(value) for name, value in content.items()}
    return None if isinstance(content, float) else content
