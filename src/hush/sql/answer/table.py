"""Questions in SQL, answered with noise: `hush.table(...).sql(...)`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from textwrap import shorten

from hush.accounting import Event
from hush.accounting.budget import Budget, Charge, run_sealed
from hush.data.tables.catalog import Catalog, ColumnKind, ContributionLimits, PrivateTable
from hush.errors import InvalidArgument, Unsupported, check_count, check_delta, check_fraction, check_positive
from hush.guarantee import Guarantee, Unit
from hush.randomness import RandomSource, source_or_default
from hush.sql.answer.accuracy import expected_errors, solve_epsilon
from hush.sql.answer.answer import QueryAnswer, decoded, encoded
from hush.sql.answer.asked import Asked, ask
from hush.sql.answer.intervals import intervals
from hush.sql.answer.parts import rows_in
from hush.sql.answer.preview import Preview, invented
from hush.sql.engines.engine import BoundedViews, Engine
from hush.sql.read.query import plan_query
from hush.sql.syntax.expression import Expr
from hush.sql.write.plan import Output, QueryPlan
from hush.statistics.noise.release import NoiseKind
from hush.statistics.noise.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPrice:
    """What a question would cost, and how much noise its answer would have; nothing is looked at for it.

    Attributes:
        guarantee: What is given away.
        event: The same for accountants and budgets.
        noise: The kind of noise.
        scales: For each number that is released, by what it is, the scale of its noise in its own unit.
        errors: With ``expected``: by column of the answer, about half the width of its interval, at the confidence, in
            a group of so many rows. Of averages, variances and quantiles, for values spread evenly over their bounds.
    """

    guarantee: Guarantee
    event: Event
    noise: str
    scales: Mapping[str, float]
    errors: Mapping[str, float] = field(default_factory=dict)


class Table:
    """A table that questions are asked of; `table` makes one. Nothing is read before the first question."""

    def __init__(self, engine: Engine, catalog: Catalog, name: str) -> None:
        """Take an engine and what is known of its tables."""
        self.name = name
        self._engine, self._catalog, self._views = engine, catalog, BoundedViews(engine)
        self._parts: tuple[str, ...] = ()  # of which only rows are looked at; none by name: all

    def __repr__(self) -> str:
        """Return names of tables and columns, which are public."""
        tables = ", ".join(f"{name}({', '.join(about.columns)})" for name, about in self._catalog.tables.items())
        return f"Table({shorten(tables, 300)}, on {self._engine.dialect})"

    def forget(self) -> None:
        """Drop what was kept of earlier questions: after the data have changed."""
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
        """Return what `sql` would cost with the same arguments; no data are looked at.

        ``expected``, here also without ``accuracy``, is how many rows a group has, about; the price then tells errors.
        """
        limits = ContributionLimits(groups_per_unit=groups_per_unit, rows_per_unit=rows_per_unit)
        wanted = _Wanted(epsilon, delta, noise, selection, accuracy, expected, confidence)
        question = self._asked(text, limits, wanted, sized=True)
        guarantee, event = question.claim(source_or_default(None))
        errors = {} if expected is None else expected_errors(question, float(expected), confidence)
        return QueryPrice(
            guarantee=guarantee, event=event, noise=question.kind, scales=question.scales(), errors=errors
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
        """Answer a question privately.

        Args:
            text: A SELECT with aggregates; `hush.sql` says what is supported.
            epsilon: What the answer may cost.
            delta: At which delta; needed where groups are not public, and for Gaussian noise.
            groups_per_unit: In how many groups a unit takes part at most.
            rows_per_unit: How many rows of a unit count in one group at most.
            noise: Laplace() or Gaussian(); the one with the smaller error, unless given.
            selection: How groups that are not public are chosen; `TruncatedGeometric()`, unless given.
            accuracy: In place of epsilon: the relative error that noise may make, 0.05 for 5 %; of sums, relative to
                rows in the middle of their bounds; of MEDIAN and other quantiles, of the rank: 0.05 is the true one
                between the 45th and the 55th percentile of about ``expected`` rows. The smallest epsilon is found.
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
        limits = ContributionLimits(groups_per_unit=groups_per_unit, rows_per_unit=rows_per_unit)
        wanted = _Wanted(epsilon, delta, noise, selection, accuracy, expected, confidence)
        question = self._asked(text, limits, wanted)
        if budget is None:
            return _answered(question, self._views, confidence, source)
        own = source_or_default(source)
        guarantee, event = question.claim(own)
        asked = json.dumps([text, repr(limits), repr(wanted), self._described(), os.urandom(16).hex() if fresh else ""])
        charge = Charge(
            event=event,
            purpose=shorten(text, 400),
            question=asked,
            delta=guarantee.delta if guarantee.delta else None,
            parts=self._parts,
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
        if sum(isinstance(each, PrivateTable) for each in self._catalog.tables.values()) > 1:
            # Rows of the others would be looked at, whatever part they are in.
            raise Unsupported("parts of a table that other private tables are joined with", "Declare it by itself")
        narrowed = replace(held, only=rows_in(column, parts, held))
        other = Table(self._engine, Catalog({**self._catalog.tables, self.name: narrowed}), self.name)
        other._views = self._views  # which are told apart by their queries
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
        """Return what an answer would look like, from invented rows: free, and about nobody.

        Rows are made from declared columns, bounds and keys; no table is read, public ones included. Whatever `sql`
        refuses is refused here, too.

        Args:
            text: A query, as for `sql`.
            epsilon: For how much noise.
            delta: The same.
            groups_per_unit: As for `sql`.
            rows_per_unit: As for `sql`.
            noise: As for `sql`.
            confidence: As for `sql`.
            num_units: How many units are invented, with two rows each.
        """
        limits = ContributionLimits(groups_per_unit=groups_per_unit, rows_per_unit=rows_per_unit)
        question = self._asked(text, limits, _Wanted(epsilon, delta, noise, None, None, None, confidence))
        views = BoundedViews(invented(self._catalog, check_count("num_units", num_units)))
        found = _answered(question, views, confidence, None)
        return Preview(columns=found.columns, rows=found.rows, intervals=found.intervals, confidence=confidence)

    def _asked(self, text: str, limits: ContributionLimits, wanted: _Wanted, *, sized: bool = False) -> Asked:
        wanted.check(sized)
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

    def check(self, sized: bool) -> None:
        check_delta("delta", self.delta)
        if not 0 < check_fraction("confidence", self.confidence, "Such as 0.95 for 95 %") < 1:
            raise InvalidArgument("confidence", self.confidence, "a number in (0, 1)", "Such as 0.95 for 95 %")
        if self.accuracy is None:
            if self.epsilon is None:
                raise InvalidArgument(
                    "epsilon", None, "a finite number > 0", "Give epsilon=, or accuracy= and expected="
                )
            check_positive("epsilon", self.epsilon)
            if self.expected is not None and sized:
                check_positive("expected", self.expected)
            elif self.expected is not None:
                raise InvalidArgument("expected", self.expected, "nothing, without accuracy", "Leave it out")
        elif self.epsilon is not None:
            raise InvalidArgument("accuracy", self.accuracy, "nothing, where epsilon is given", "Leave one of both out")

    def ask(self, plan: QueryPlan, unit: Unit) -> Asked:
        def at(epsilon: float) -> Asked:
            return ask(plan, epsilon, self.delta, self.noise, self.selection, unit)

        if self.epsilon is not None:
            return at(float(self.epsilon))
        return at(solve_epsilon(at, accuracy=self.accuracy, expected=self.expected, confidence=self.confidence))


def _answered(question: Asked, views: BoundedViews, confidence: float, source: RandomSource | None) -> QueryAnswer:
    own, plan = source_or_default(source), question.plan
    groups = views.groups(plan)
    # View and leaves may differ in age. Each block has noise for groups_per_unit groups of its own, so that nothing hangs on
    # whether a unit's groups are the same here and there.
    trees = [views.leaves(plan, place) for place in range(len(plan.trees))]
    released = question.release(groups, trees, confidence, own)
    # HAVING, ORDER BY and LIMIT act on released values; a group's place goes along as one more key.
    place = Output(name="", expression=Expr("key", ColumnKind.INT, value=len(plan.keys)))
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


def _unit(catalog: Catalog, plan: QueryPlan) -> Unit:
    """Return what is protected: a user, or, if every private table says so, a user within a window."""
    windows = {table.window for table in catalog.tables.values() if isinstance(table, PrivateTable)}
    if plan.units == 1 or windows == {None}:
        return Unit.user()
    units = (Unit.user_calendar(window) for window in windows if window is not None)
    return min(units, key=lambda unit: unit.window or timedelta.max)
