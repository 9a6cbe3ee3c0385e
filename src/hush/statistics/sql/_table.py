"""Questions in SQL, answered with noise: `hush.table(...).sql(...)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from hush.accounting import Composed, Event
from hush.errors import InvalidArgument, Unsupported, check_delta, check_positive
from hush.guarantee import Guarantee, Unit
from hush.randomness import Source, source_or_default
from hush.statistics._question import SELECTION_SHARE, claim
from hush.statistics._release import Block, Laplace, NoiseKind, NoisePlan, plan_noise
from hush.statistics._selection import Selection, SelectionPlan, TruncatedGeometric
from hush.statistics.sql._catalog import Catalog, Limits, PrivateTable, PublicTable
from hush.statistics.sql._duckdb import DuckDBEngine
from hush.statistics.sql._engine import BoundedViews, Engine
from hush.statistics.sql._plan import Group, Plan
from hush.statistics.sql._query import plan_query

# The shortest that each calendar window can be: a guarantee must not promise more than it protects.
_WINDOWS = {"hour": 1 / 24, "day": 1, "week": 7, "month": 28, "quarter": 90, "year": 365}


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a question would cost, and how much noise its answer would have; nothing is looked at for it.

    Attributes:
        guarantee: What is given away.
        noise: The kind of noise.
        scales: For each number that is released, by what it is, the scale of its noise in its own unit.
    """

    guarantee: Guarantee
    noise: str
    scales: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAnswer:
    """The private answer to a question.

    Attributes:
        columns: Names of the columns.
        rows: The rows, made of noisy numbers and of keys that are public or were chosen privately.
        guarantee: What they give away.
        event: The same for accountants, to be composed with more.
        scales: The noise, as in `Price`.
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    guarantee: Guarantee
    event: Event
    scales: Mapping[str, float]


class Table:
    """A table that questions are asked of; `table` makes one. Nothing is read before the first question."""

    def __init__(self, engine: Engine, catalog: Catalog, name: str) -> None:
        """Take an engine and what is known of its tables."""
        self.name = name
        self._engine, self._catalog, self._views = engine, catalog, BoundedViews(engine)

    def price(
        self,
        text: str,
        *,
        epsilon: float,
        delta: float = 0.0,
        max_groups: int = 1,
        max_rows: int = 1,
        noise: NoiseKind | None = None,
        selection: Selection | None = None,
    ) -> Price:
        """Return what `sql` would cost with the same arguments; no data are looked at."""
        question = self._asked(text, epsilon, delta, Limits(max_groups=max_groups, max_rows=max_rows), noise, selection)
        guarantee, _ = question.claim(source_or_default(None))
        return Price(guarantee=guarantee, noise=question.kind, scales=question.scales())

    def sql(
        self,
        text: str,
        *,
        epsilon: float,
        delta: float = 0.0,
        max_groups: int = 1,
        max_rows: int = 1,
        noise: NoiseKind | None = None,
        selection: Selection | None = None,
        source: Source | None = None,
    ) -> QueryAnswer:
        """Answer a question privately.

        Args:
            text: A SELECT with aggregates; `hush.statistics.sql` says what is supported.
            epsilon: What the answer may cost.
            delta: At which delta; needed where groups are not public, and for Gaussian noise.
            max_groups: In how many groups a unit takes part at most.
            max_rows: How many rows of a unit count in one group at most.
            noise: Laplace() or Gaussian(); the one with the smaller error, unless given.
            selection: How groups that are not public are chosen; `TruncatedGeometric()`, unless given.
            source: Where noise comes from; for tests, a TestSource.

        Guarantee:
            (epsilon, delta)-differential privacy for a unit that is added or removed, with all of its rows.

        Assumes:
            Names and types of columns, bounds and lists of keys are public (the caller's duty). Contributions are
            bounded by the query that the engine runs (checked here, by how it is made). The engine does what SQL says,
            and its running time is not observed (the caller's duty).

        References:
            Wilson et al. 2020 (bounded contributions); Desfontaines et al. 2022 (choice of groups).
        """
        question = self._asked(text, epsilon, delta, Limits(max_groups=max_groups, max_rows=max_rows), noise, selection)
        own = source_or_default(source)
        groups = self._views.groups(question.plan)
        rows = question.plan.answer(question.release(groups, own))
        guarantee, event = question.claim(own)
        return QueryAnswer(
            columns=question.plan.columns, rows=rows, guarantee=guarantee, event=event, scales=question.scales()
        )

    def _asked(
        self,
        text: str,
        epsilon: float,
        delta: float,
        limits: Limits,
        noise: NoiseKind | None,
        selection: Selection | None,
    ) -> _Question:
        check_positive("epsilon", epsilon)
        check_delta("delta", delta)
        plan = plan_query(text, tables=self._catalog, limits=limits, dialect=self._engine.dialect)
        if plan.trees:
            raise Unsupported("MEDIAN and QUANTILE_CONT in SQL: their trees are not released yet", "See quantiles()")
        if not plan.releases:
            raise InvalidArgument("text", text, "a question with at least one aggregate", "Such as COUNT(*)")
        return _question(plan, epsilon, delta, noise, selection, _unit(self._catalog, plan))


@dataclass(frozen=True, slots=True)
class _Question:
    """A plan with its noise: fixed before anybody looks at data."""

    plan: Plan
    noise: NoisePlan
    selection: SelectionPlan | None
    epsilon: float
    delta: float
    unit: Unit

    @property
    def kind(self) -> str:
        return "Laplace" if isinstance(self.noise.noise, Laplace) else "Gaussian"

    def scales(self) -> dict[str, float]:
        pairs = zip(self.plan.releases, self.noise.scales, strict=True)
        return {f"{release.what.value} ({release.name})": float(scale) * release.grid for release, scale in pairs}

    def claim(self, source: Source) -> tuple[Guarantee, Event]:
        event, delta = self.noise.event, self.noise.delta
        if self.selection is not None:
            event, delta = Composed((event, self.selection.event)), self.delta
        method = f"{self.kind} noise on bounded contributions"
        return claim(event, self.epsilon, delta, method, unit=self.unit, source=source)

    def release(self, groups: Sequence[Group], source: Source) -> list[tuple[tuple[Any, ...], dict[str, float]]]:
        """Choose groups, where they are not public, and add noise to what is told of them."""
        if self.selection is not None and groups:
            users = np.array([group.units for group in groups], dtype=np.int64)
            kept = self.selection.choose(users, source)
            groups = [group for group, keep in zip(groups, kept, strict=True) if keep]
            # In an order that depends on nothing but the keys that are told.
            groups = sorted(groups, key=lambda group: [(key is None, str(key)) for key in group.keys])
        if not groups:
            return []
        names = [release.name for release in self.plan.releases]
        totals = np.array([[group.sums[name] for name in names] for group in groups], dtype=np.int64)
        noisy = self.noise.release(totals, source)
        return [
            (group.keys, dict(zip(names, map(float, row), strict=True)))
            for group, row in zip(groups, noisy, strict=True)
        ]


def _question(
    plan: Plan, epsilon: float, delta: float, noise: NoiseKind | None, selection: Selection | None, unit: Unit
) -> _Question:
    blocks = tuple(
        Block(columns=1, l1=release.sensitivity, l2=release.sensitivity, whole=release.grid == 1.0)
        for release in plan.releases
    )
    groups = plan.max_groups if plan.num_groups is None else min(plan.max_groups, max(plan.num_groups, 1))
    if plan.public_keys or not plan.keys:
        found = plan_noise(blocks, max_groups=groups, epsilon=epsilon, delta=delta, noise=noise)
        return _Question(plan, found, None, epsilon, delta, unit)
    if not delta > 0:
        raise InvalidArgument(
            "delta", delta, "a number in (0, 1)", "Telling which groups occur needs one", "Or list the keys"
        )
    share = epsilon * SELECTION_SHARE
    found = plan_noise(blocks, max_groups=groups, epsilon=epsilon - share, delta=delta / 2, noise=noise)
    left = delta if isinstance(found.noise, Laplace) else delta / 2
    chosen = (selection or TruncatedGeometric()).plan(max_groups=groups, epsilon=share, delta=left)
    return _Question(plan, found, chosen, epsilon, delta, unit)


def _unit(catalog: Catalog, plan: Plan) -> Unit:
    """Return what is protected: a user, or, if every private table says so, a user within a window."""
    windows = {table.window for table in catalog.tables.values() if isinstance(table, PrivateTable)}
    if plan.units == 1 or windows == {None}:
        return Unit.user()
    return Unit.user_window(timedelta(days=min(_WINDOWS[window] for window in windows if window is not None)))


def table(
    source: Any,
    *,
    unit: str | tuple[str, str, str],
    name: str | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    keys: Mapping[str, Sequence[Any]] | None = None,
    required: Sequence[str] = (),
    public: Mapping[str, Any] | None = None,
) -> Table:
    """Return a table to ask questions of; data stay where they are.

    Args:
        source: A Parquet or CSV file, an Arrow table, or a pandas or Polars data frame.
        unit: The column that says whose each row is; or (column, time column, window): a user within an hour, day,
            week, month, quarter or year.
        name: What queries call it; the file's name without its ending, or ``data``.
        bounds: For columns that are summed, the least and the largest value that counts.
        keys: For columns that queries group by, the values to report, which are public. Others are chosen privately.
        required: Columns whose missing values count as the middle of their bounds, so that AVG shares COUNT(*).
        public: Tables about nobody, by name, to be joined.

    >>> import duckdb, tempfile
    >>> path = tempfile.mkdtemp() + "/people.parquet"
    >>> _ = duckdb.sql(f"COPY (SELECT i AS who, i % 2 AS sex, i % 70 AS age FROM range(5000) t(i)) TO '{path}'")
    >>> people = table(path, unit="who", bounds={"age": (0, 100)}, keys={"sex": [0, 1]})
    >>> answer = people.sql("SELECT sex, COUNT(*) AS n, AVG(age) AS age FROM people GROUP BY sex", epsilon=1.0)
    >>> answer.columns, len(answer.rows), abs(answer.rows[0][1] - 2500) < 100
    (('sex', 'n', 'age'), 2, True)
    """
    called = name or (Path(source).name.split(".")[0] if isinstance(source, (str, Path)) else "data")
    engine = DuckDBEngine({called: source, **dict(public or {})})
    column, time, window = unit if isinstance(unit, tuple) else (unit, None, None)
    private = PrivateTable(
        columns=engine.columns(called),
        unit=column,
        time=time,
        window=window,
        bounds=dict(bounds or {}),
        keys=dict(keys or {}),
        required=frozenset(required),
    )
    others = {each: PublicTable(columns=engine.columns(each)) for each in public or {}}
    return Table(engine, Catalog({called: private, **others}), called)
