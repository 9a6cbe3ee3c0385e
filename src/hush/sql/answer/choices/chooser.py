"""Makes the private choices that precede an answer: limits on contributions, and bounds of undeclared columns.

One share of epsilon pays for all of it. What is chosen is public from then on. Further queries about the same rows use
it again for free: limits if they also have the same groups, bounds whatever their groups are. Without a budget, the
table remembers choices; with one, its ledger stores them (`stored_choices`), since a budget cannot use what another one
paid for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations

from hush.accounting import ComposedEvent, Event
from hush.randomness import RandomSource
from hush.sql.answer.choices.bounds import (
    BINS,
    BoundsPlan,
    LearnedBounds,
    bounds_from_json,
    bounds_to_json,
    plan_bounds,
)
from hush.sql.answer.choices.left_out import LeftOut
from hush.sql.answer.choices.limits import LimitsPlan, Measure, limits_from_json, limits_to_json, plan_limits
from hush.sql.engines.views import BoundedViews
from hush.sql.syntax.expression import Expr
from hush.sql.write.dialects import dialect_named
from hush.sql.write.plan import QueryPlan
from hush.sql.write.text.expressions import write_expression
from hush.statistics.noise import NUM_LEVELS, ChosenLimit

Key = tuple[str, ...]
# Runs a choice once it is charged; returns its text, and whether it was charged now. What it takes: the event, its
# epsilon, the question and the choice.
StoredCharge = Callable[[Event, float, Key, Callable[[], str]], tuple[str, bool]]
_HISTOGRAMS = 2  # of a column: of least and of greatest values


@dataclass(frozen=True, slots=True)
class ChoicesPlan:
    """How limits and bounds are chosen, fixed before data are read.

    Attributes:
        limits: How limits are chosen; None if they are given or known.
        bounds: How to learn the bounds of each column for which they were neither declared nor learned before.
    """

    limits: LimitsPlan | None
    bounds: tuple[BoundsPlan, ...]

    def __bool__(self) -> bool:
        """Return whether there is anything to choose."""
        return self.limits is not None or bool(self.bounds)

    @property
    def epsilon(self) -> float:
        """The epsilon of all choices together."""
        limits = 0.0 if self.limits is None else self.limits.noise.epsilon
        return limits + sum(column.noise.epsilon for column in self.bounds)

    @property
    def event(self) -> Event:
        """The cost of all choices together."""
        limits = () if self.limits is None else (self.limits.event,)
        return ComposedEvent((*limits, *(column.event for column in self.bounds)))


def plan_choices(measures: tuple[Measure, ...], columns: Mapping[Expr, str], epsilon: float) -> ChoicesPlan:
    """Return how choices are made at an epsilon, of which each histogram of units gets the same part.

    Where bounds are learned, that part is a third, a sixth, a twelfth and so on. Queries with similar columns then make
    choices with the same noise, and one of them can finish a choice of another that was interrupted.

    Args:
        measures: The properties by which units are counted, to choose limits.
        columns: The names of the columns whose bounds have to be learned.
        epsilon: The most epsilon of all choices together.
    """
    histograms = len(measures) + _HISTOGRAMS * len(columns)
    parts = max(histograms, 1) if not columns else 3 * 2 ** math.ceil(math.log2(max(histograms / 3, 1)))
    limits = plan_limits(measures, epsilon * len(measures) / parts) if measures else None
    column_epsilon = epsilon * _HISTOGRAMS / parts
    return ChoicesPlan(limits, tuple(plan_bounds(column, name, column_epsilon) for column, name in columns.items()))


@dataclass(frozen=True, slots=True)
class Choices:
    """Limits and bounds that were chosen privately.

    Attributes:
        limits: The chosen limit of each measure.
        bounds: The learned bounds of each column.
        paid: The epsilon that this answer pays for the bounds of columns, and for limits (None).
        events: The events of these choices.
    """

    limits: Mapping[Measure, ChosenLimit] = field(default_factory=dict)
    bounds: Mapping[Expr, LearnedBounds] = field(default_factory=dict)
    paid: Mapping[Expr | None, float] = field(default_factory=dict)
    events: tuple[Event, ...] = ()

    def left_out(self, *, in_total: bool) -> LeftOut:
        """Return the expected excess beyond the limits, of rows in total or in each group, as whole numbers."""
        expected = {measure: float(round(choice.expected)) for measure, choice in self.limits.items()}
        rows = expected.get(Measure.ROWS if in_total else Measure.ROWS_IN_A_GROUP, 0.0)
        return LeftOut(rows=rows, units=expected.get(Measure.GROUPS, 0.0))


@dataclass(slots=True)
class Chooser:
    """Makes choices, and remembers those of queries without a budget.

    Attributes:
        views: The views on the engine.
        limits: Chosen limits, by rows, groups and what was measured.
        bounds: Learned bounds, by rows and column.
    """

    views: BoundedViews
    limits: dict[Key, Mapping[Measure, ChosenLimit]] = field(default_factory=dict)
    bounds: dict[Key, LearnedBounds] = field(default_factory=dict)

    def clear(self) -> None:
        """Forget all choices."""
        self.limits.clear()
        self.bounds.clear()

    def known(self, plan: QueryPlan, measures: tuple[Measure, ...]) -> Choices:
        """Return what earlier queries without a budget have chosen of all that a plan needs."""
        bounds = {column: self.bounds.get(column_key(plan, column)) for column in plan.undeclared}
        chosen: Mapping[Measure, ChosenLimit] = next(
            (self.limits[key] for _, key in wider_keys(plan, measures) if key in self.limits), {}
        )
        return Choices(
            limits={measure: chosen[measure] for measure in measures if chosen},
            bounds={column: learned for column, learned in bounds.items() if learned is not None},
        )

    def choose(
        self,
        plan: QueryPlan,
        choices_plan: ChoicesPlan,
        known: Choices,
        source: RandomSource,
        charge: StoredCharge | None = None,
    ) -> Choices:
        """Return all choices of a query. Those that have to be paid for are made now.

        Args:
            plan: The query's plan, within any limits and bounds.
            choices_plan: How choices are made.
            known: Earlier choices.
            source: The random source.
            charge: Charges a budget, which stores choices; None without a budget.
        """
        limits, bounds, payments = known.limits, dict(known.bounds), _Payments(charge)
        limits_plan = choices_plan.limits
        if limits_plan is not None:
            key = limits_key(plan, limits_plan.measures)
            choose = partial(self._choose_limits, plan, limits_plan, source)
            limits = limits_from_json(payments.run(None, limits_plan, ("limits", *key), choose))
        for column_plan in choices_plan.bounds:
            key = column_key(plan, column_plan.column)
            learn = partial(self._learn, plan, column_plan, source)
            text = payments.run(column_plan.column, column_plan, ("bounds", *key), learn)
            bounds[column_plan.column] = bounds_from_json(text)
        return Choices(limits, bounds, payments.epsilons, tuple(payments.events))

    def remember(self, plan: QueryPlan, choices_plan: ChoicesPlan, choices: Choices) -> None:
        """Remember choices that no budget stores. Call it when the answer that reports their cost is there."""
        if choices_plan.limits is not None:
            self.limits[limits_key(plan, choices_plan.limits.measures)] = choices.limits
        for column_plan in choices_plan.bounds:
            column = column_plan.column
            self.bounds[column_key(plan, column)] = choices.bounds[column]

    def _choose_limits(self, plan: QueryPlan, limits_plan: LimitsPlan, source: RandomSource) -> str:
        """Return limits as JSON, from the engine's exact counts."""
        return limits_to_json(limits_plan.choose(self.views.levels(plan, NUM_LEVELS), source))

    def _learn(self, plan: QueryPlan, column_plan: BoundsPlan, source: RandomSource) -> str:
        """Return the bounds of a column as JSON, from the engine's exact counts."""
        counts = self.views.extremes(plan, column_plan.column, BINS.edges.tolist())
        return bounds_to_json(column_plan.learn(counts, source))


class _Payments:
    """Runs choices, and adds up what they cost this answer."""

    def __init__(self, charge: StoredCharge | None) -> None:
        self._charge = charge
        self.epsilons: dict[Expr | None, float] = {}
        self.events: list[Event] = []

    def run(
        self, column: Expr | None, choice: LimitsPlan | BoundsPlan, question: Key, choose: Callable[[], str]
    ) -> str:
        """Return a choice as JSON, and note its cost unless a budget has stored it."""
        epsilon = choice.noise.epsilon
        if self._charge is None:
            text, is_new = choose(), True
        else:
            text, is_new = self._charge(choice.event, epsilon, question, choose)
        if is_new:
            self.epsilons[column] = epsilon
            self.events.append(choice.event)
        return text


def limits_key(plan: QueryPlan, measures: tuple[Measure, ...]) -> Key:
    """Return the key of chosen limits: a query's rows and groups, and the measure."""
    return (plan.fingerprint(), *measures)


def wider_keys(plan: QueryPlan, measures: tuple[Measure, ...]) -> list[tuple[tuple[Measure, ...], Key]]:
    """Return the keys of limits that hold all of these measures, the fewest first, with their measures."""
    if not measures:
        return []
    sets = (chosen for size in range(len(measures), len(Measure) + 1) for chosen in combinations(Measure, size))
    return [(wider, limits_key(plan, wider)) for wider in sets if set(measures) <= set(wider)]


def column_key(plan: QueryPlan, column: Expr) -> Key:
    """Return the key of learned bounds: a query's rows, and the column."""
    return (plan.rows_fingerprint(), write_expression(column, dialect_named("duckdb")))
