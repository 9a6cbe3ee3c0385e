"""Queries without limits: what is chosen, what it costs, and what the answer says about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

import hush
from hush.accounting import PldAccountant
from hush.errors import InvalidArgument
from hush.guarantee import Unit
from hush.ledger import Ledger, OverBudget
from hush.randomness import TestSource
from hush.sql import Table
from hush.sql.answer.choices.limits import LimitsPlan, Measure, RequestedLimits, plan_limits
from hush.sql.answer.price import PriceRequest
from hush.sql.answer.stages.charges import question
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.views import BoundedViews
from hush.sql.read.query import plan_query
from hush.statistics import MAX_ROWS_PER_UNIT, ContributionLimits, GaussianNoise, LaplaceNoise, Selection, TotalLimits
from hush.statistics.noise import NUM_LEVELS, ChosenLimit, NoiseKind
from hush.statistics.noise.selection import GaussianThreshold, LaplaceThreshold, TruncatedGeometric
from sql.hosts import QUERIES
from sql.write.test_bounded import INTRUDERS

duckdb = pytest.importorskip("duckdb")

PLANES = 3000
COUNT = "SELECT COUNT(*) AS n FROM flights"
BY_DAY = "SELECT day, COUNT(*) AS n FROM flights GROUP BY day"
DAYS = [1, 2, 3, 4, 5, 6, 7]


@pytest.fixture
def flights() -> Table:
    """Planes with 60 rows each, over 7 days and 40 airports."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE flights AS SELECT i % 3000 AS plane, i // 3000 % 7 + 1 AS day, "
        "'A' || (i // 3000 % 40) AS airport, CAST(i % 90 AS DOUBLE) AS delay FROM range(180000) AS t(i)"
    )
    return hush.table(connection, name="flights", unit="plane", bounds={"delay": (0, 90)}, keys={"day": DAYS})


def test_nothing_is_left_out_in_silence(flights: Table) -> None:
    answer = flights.sql(COUNT, epsilon=1.0, source=TestSource(1))
    assert abs(answer.rows[0][0] - 180_000) < 64 / 0.9 * 20  # P < e^-20 in general; the source is fixed here
    assert answer.limits[0] == "Limits, chosen privately at epsilon 0.1: a unit counts with at most 64 rows."
    assert "have more than 64 rows" in answer.limits[1]
    assert answer.limits[0] in str(answer)


def test_given_limits_are_used_as_they_are(flights: Table) -> None:
    answer = flights.sql(COUNT, epsilon=1.0, rows_per_unit=2, groups_per_unit=1, source=TestSource(1))
    assert abs(answer.rows[0][0] - 2 * PLANES) < 2 * 20
    assert (
        answer.limits[0]
        == "Limits, as you set them: a unit counts with at most 2 rows. The answer leaves out the rest."
    )
    assert answer.guarantee.epsilon == 1.0
    assert PldAccountant(unit=Unit.user()).compose(answer.event).epsilon(0.0) == pytest.approx(1.0, rel=1e-4)


def test_the_choice_is_part_of_the_cost(flights: Table) -> None:
    answer = flights.sql(COUNT, epsilon=1.0, source=TestSource(1))
    assert answer.guarantee.epsilon == 1.0
    assert PldAccountant(unit=Unit.user()).compose(answer.event).epsilon(0.0) == pytest.approx(1.0, rel=1e-4)
    assert answer.scales["rows for n"] == pytest.approx(64 / 0.9)
    price = flights.price("SELECT AVG(delay) AS d, day FROM flights GROUP BY day", epsilon=1.0)
    assert (price.guarantee.epsilon, price.scales) == (1.0, {})
    assert PldAccountant(unit=Unit.user()).compose(price.event).epsilon(0.0) == pytest.approx(1.0, rel=1e-4)


def test_further_queries_about_the_same_rows_use_the_limits_for_free(flights: Table) -> None:
    flights.sql(COUNT, epsilon=1.0, source=TestSource(1))
    answer = flights.sql("SELECT AVG(delay) AS d, COUNT(*) AS n FROM flights", epsilon=1.0, source=TestSource(2))
    assert answer.limits[0].startswith("Limits, chosen by an earlier answer: a unit counts with at most 64 rows")
    assert answer.scales["rows for n"] == pytest.approx(3 * 64)  # one of three releases
    other_rows = flights.sql(f"{COUNT} WHERE day = 1", epsilon=1.0, source=TestSource(3))
    assert "at most 16 rows" in other_rows.limits[0]
    flights.forget()
    assert "chosen privately" in flights.sql(COUNT, epsilon=1.0, source=TestSource(4)).limits[0]


def test_a_limit_in_total_needs_less_noise_than_one_in_each_group(flights: Table) -> None:
    """Each plane has 8 or 9 rows on each of 7 days: 60 rows in total, but 7 groups times 9 rows."""
    answer = flights.sql(BY_DAY, epsilon=1.0, source=TestSource(1))
    assert "a unit counts with at most 64 rows in at most 7 groups" in answer.limits[0]
    each = flights.price(BY_DAY, epsilon=0.9, rows_per_unit=16, groups_per_unit=7)
    assert answer.scales["rows for n"] == pytest.approx(64 / 0.9)
    assert each.scales["rows for n"] == pytest.approx(16 * 7 / 0.9)
    assert all(abs(n - 180_000 / 7) < 5_000 for _, n in answer.rows)


def test_private_groups_need_a_limit_on_groups(flights: Table) -> None:
    text = "SELECT airport, COUNT(*) AS n FROM flights GROUP BY airport"
    answer = flights.sql(text, epsilon=2.0, delta=1e-6, source=TestSource(1))
    assert "in at most 64 groups" in answer.limits[0]
    assert ["About" in line for line in answer.limits] == [False, True, True, False, False]
    assert len(answer.rows) == 40


@pytest.mark.parametrize(
    ("text", "rows", "groups", "measures"),
    [
        ("SELECT COUNT(*) FROM flights", None, None, (Measure.ROWS,)),
        ("SELECT COUNT(*) FROM flights", None, 1, (Measure.ROWS,)),
        ("SELECT COUNT(*) FROM flights", 3, None, ()),
        ("SELECT COUNT(DISTINCT plane) FROM flights", None, None, ()),
        ("SELECT day, COUNT(*) FROM flights GROUP BY day", None, None, (Measure.ROWS,)),
        ("SELECT day, COUNT(*) FROM flights GROUP BY day", 3, None, (Measure.GROUPS,)),
        ("SELECT day, COUNT(*) FROM flights GROUP BY day", None, 2, (Measure.ROWS,)),
        ("SELECT day, COUNT(*) FROM flights GROUP BY day", 3, 2, ()),
        ("SELECT day, COUNT(DISTINCT plane) FROM flights GROUP BY day", None, None, (Measure.GROUPS,)),
        (
            "SELECT day, COUNT(DISTINCT plane), COUNT(*) FROM flights GROUP BY day",
            None,
            None,
            (Measure.ROWS, Measure.GROUPS),
        ),
        ("SELECT airport, COUNT(DISTINCT plane) FROM flights GROUP BY airport", None, None, (Measure.GROUPS,)),
        ("SELECT airport, MEDIAN(delay) FROM flights GROUP BY airport", None, None, (Measure.ROWS, Measure.GROUPS)),
    ],
)
def test_only_what_is_needed_is_measured(
    text: str, rows: int | None, groups: int | None, measures: tuple[Measure, ...], flights: Table
) -> None:
    requested = RequestedLimits(rows_per_unit=rows, groups_per_unit=groups)
    plan = plan_query(text, tables=flights._catalog)
    assert requested.measures(plan) == measures
    chosen = {measure: ChosenLimit(limit=4, beyond=0.0, beyond_error=1.0) for measure in measures}
    [limits] = requested.candidates(plan, chosen)
    every_group = 7 if "day" in text else 1
    expected_groups = groups or (4 if Measure.GROUPS in measures else every_group)
    assert limits.groups_per_unit == expected_groups
    if Measure.ROWS in measures:
        assert limits == TotalLimits(rows_in_total=4, groups_per_unit=expected_groups)
    else:
        assert limits == ContributionLimits(rows_per_unit=rows or 1, groups_per_unit=expected_groups)


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("many rows in many groups", "extreme numbers") else pytest.param(name, marks=pytest.mark.slow)
        for name in INTRUDERS
    ],
)
def test_a_unit_is_in_one_level(
    name: str, new_world: Callable[[], Any], described: Callable[..., Any], ranking_key: bytes
) -> None:
    """The histogram has sensitivity 1: adding a unit, whatever its rows, adds one to one count, or to none."""
    connection = new_world()
    views = BoundedViews(DuckDBEngine(connection=connection))
    plans = [plan_query(query, tables=described(views.engine)) for query in QUERIES]
    before = [views.levels(plan, NUM_LEVELS) for plan in plans]
    for statement in INTRUDERS[name]:
        connection.execute(statement)
    for plan, old in zip(plans, before, strict=True):
        new = views.levels(plan, NUM_LEVELS)
        changes = {levels: new.get(levels, 0) - old.get(levels, 0) for levels in new.keys() | old.keys()}
        assert sorted(change for change in changes.values() if change) in ([], [1]), plan.columns


def test_levels_are_powers_of_two() -> None:
    connection = duckdb.connect()
    sizes = [1, 2, 3, 4, 5, 1024, 1025]
    connection.execute("CREATE TABLE t(who BIGINT, k BIGINT)")
    for who, size in enumerate(sizes):
        connection.execute(f"INSERT INTO t SELECT {who}, i % 3 FROM range({size}) AS r(i)")
    views = BoundedViews(DuckDBEngine(connection=connection))
    people = hush.table(connection, name="t", unit="who")
    plan = plan_query("SELECT k, COUNT(*) FROM t GROUP BY k", tables=people._catalog)
    groups = [0, 1, 2, 2, 2, 2, 2]  # the level of min(size, 3) groups
    rows = [0, 1, 2, 2, 3, 10, 11]
    fullest = [0, 0, 0, 1, 1, 9, 9]  # the level of ceil(size / 3)
    counts = Counter(zip(rows, groups, fullest, strict=True))
    assert views.levels(plan, NUM_LEVELS) == counts
    few = Counter((min(r, 2), g, min(m, 2)) for r, g, m in zip(rows, groups, fullest, strict=True))
    assert views.levels(plan, 3) == few


def test_the_noise_on_levels_is_what_the_event_says() -> None:
    plan = plan_limits((Measure.ROWS, Measure.GROUPS), 0.1)
    assert plan.noise.block_scales == pytest.approx((20.0, 20.0))
    assert PldAccountant(unit=Unit.user()).compose(plan.event).epsilon(0.0) == pytest.approx(0.1, rel=1e-4)


def test_a_ledger_is_charged_once_for_limits_and_answer(flights: Table, tmp_path: Any) -> None:
    with closing(Ledger(f"sqlite:///{tmp_path}/privacy.db")) as ledger:
        budget = ledger.budget("flights", epsilon=3.2, unit="user")
        first = flights.sql(COUNT, epsilon=1.0, budget=budget)
        assert budget.spent == pytest.approx(1.0, rel=1e-3)
        again = flights.sql(COUNT, epsilon=1.0, budget=budget)
        assert (again.rows, again.limits) == (first.rows, first.limits)
        assert budget.spent == pytest.approx(1.0, rel=1e-3)
        flights.sql("SELECT AVG(delay) AS d FROM flights", epsilon=1.0, budget=budget)
        assert budget.spent == pytest.approx(2.0, rel=1e-3)  # the limits are known
        flights.forget_limits()
        flights.sql("SELECT SUM(delay) AS s FROM flights", epsilon=1.0, budget=budget)  # the ledger has stored them
        assert budget.spent == pytest.approx(3.0, rel=1e-3)
        with pytest.raises(OverBudget):
            flights.sql(BY_DAY, epsilon=1.0, budget=budget)
        assert not budget.pending()
        assert budget.spent == pytest.approx(3.0, rel=1e-3)
        with pytest.raises(OverBudget):  # the answer would fit, but not its limits
            flights.sql(BY_DAY, epsilon=0.21, budget=budget)
        assert not budget.pending()
        assert budget.spent == pytest.approx(3.0, rel=1e-3)


def test_a_budget_pays_for_its_limits(flights: Table, tmp_path: Any) -> None:
    """Limits that somebody else paid for are a release from the data that this budget has not been charged for."""
    flights.sql(COUNT, epsilon=1.0)
    with Ledger(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        for name in ("first", "second"):
            budget = ledger.budget(name, epsilon=3, unit="user")
            assert flights.sql(COUNT, epsilon=1.0, budget=budget).guarantee.epsilon == pytest.approx(1.0)
            assert budget.spent == pytest.approx(1.0, rel=1e-3)
            flights.forget_limits()
            again = flights.sql("SELECT AVG(delay) AS d FROM flights", epsilon=1.0, budget=budget)
            assert again.guarantee.epsilon == pytest.approx(1.0)  # this budget has stored the limits
            assert budget.spent == pytest.approx(2.0, rel=1e-3)


def test_gaussian_noise_within_chosen_limits(flights: Table) -> None:
    """With 8 or 9 rows on each of 7 days, sqrt(7) * 16 is less than 64: limits in each group need less noise."""
    answer = flights.sql(BY_DAY, epsilon=1.0, delta=1e-6, noise=GaussianNoise(), source=TestSource(1))
    assert "a unit counts with at most 16 rows per group in at most 7 groups" in answer.limits[0]
    assert ["rows in a group" in line for line in answer.limits[:2]] == [False, True]
    assert answer.guarantee.delta == 1e-6
    assert PldAccountant(unit=Unit.user()).compose(answer.event).epsilon(1e-6) <= 1.0


def test_an_accuracy_needs_limits(flights: Table) -> None:
    with pytest.raises(InvalidArgument, match="Give rows_per_unit= and groups_per_unit=, or epsilon="):
        flights.sql(COUNT, accuracy=0.05, expected=1000)
    flights.sql(COUNT, accuracy=0.05, expected=100_000, rows_per_unit=1, source=TestSource(1))


@pytest.mark.parametrize("share", [0, 1, -0.1, float("nan"), "a lot"])
def test_a_wrong_share_is_refused(share: Any, flights: Table) -> None:
    with pytest.raises(InvalidArgument, match="limits_share"):
        flights.sql(COUNT, epsilon=1.0, limits_share=share)


def test_rows_can_be_limited_in_total_by_hand(flights: Table) -> None:
    """As a catalog file does with limits that an answer chose."""
    kept = RequestedLimits(rows_in_total=64, groups_per_unit=7)
    plan = plan_query(BY_DAY, tables=flights.catalog, limits=ContributionLimits())
    assert kept.measures(plan, gaussian=True) == ()
    assert kept.candidates(plan, {}) == [TotalLimits(rows_in_total=64, groups_per_unit=7)]
    changed = kept.changed(rows_per_unit=2, groups_per_unit=None)
    assert changed.candidates(plan, {}) == [ContributionLimits(rows_per_unit=2, groups_per_unit=7)]
    assert kept.changed(rows_per_unit=None, groups_per_unit=3).rows_in_total == 64
    with pytest.raises(InvalidArgument, match="rows_in_total=0"):
        RequestedLimits(rows_in_total=0)


def test_a_ledger_tells_limits_in_total_apart(flights: Table) -> None:
    request = PriceRequest(1.0, 0.0, None, None, None, None, 0.95)
    limits = [RequestedLimits(rows_per_unit=64, groups_per_unit=7)]
    limits += [RequestedLimits(rows_in_total=rows, groups_per_unit=7) for rows in (63, 64)]
    assert len({question(BY_DAY, [requested], 0.1, request, flights.catalog) for requested in limits}) == 3


@pytest.mark.parametrize("noise", [None, LaplaceNoise(), GaussianNoise()])
@pytest.mark.parametrize("selection", [None, LaplaceThreshold(), GaussianThreshold()])
@pytest.mark.quick_cases(4)
def test_a_chosen_limit_on_groups_is_no_more_than_delta_allows(
    flights: Table, noise: NoiseKind | None, selection: Selection | None
) -> None:
    """Planes have 40 airports. A delta of 2e-11 covers 5 to 20 of them, and the answer says so."""
    text = "SELECT airport, day % 2 AS odd, COUNT(*) AS n FROM flights GROUP BY ROLLUP (airport, odd)"
    for query in (text, "SELECT airport, COUNT(*) AS n, COUNT(DISTINCT plane) AS p FROM flights GROUP BY airport"):
        answer = flights.sql(
            query, epsilon=20.0, delta=2e-11, noise=noise, selection=selection, source=TestSource(query)
        )
        assert any(line.startswith("Epsilon and delta allow ") for line in answer.limits)
        flights.forget_limits()


def test_limits_that_no_noise_covers_are_lowered(flights: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the answer would fail after its limits were paid for, and tell their noise without an account of it."""

    def choose(plan: LimitsPlan, *_: Any) -> dict[Measure, ChosenLimit]:
        limits = {measure: 2**24 if measure is Measure.GROUPS else 2**19 for measure in plan.measures}
        return {measure: ChosenLimit(limit=limit, beyond=0.0, beyond_error=0.0) for measure, limit in limits.items()}

    monkeypatch.setattr(LimitsPlan, "choose", choose)
    text = (
        "SELECT airport, MEDIAN(delay) AS m, COUNT(DISTINCT plane) AS p, SUM(delay) AS s FROM flights GROUP BY airport"
    )
    for rows_per_unit in (None, 10**6):
        for noise in (None, LaplaceNoise()):
            flights.forget_limits()
            answer = flights.sql(text, epsilon=0.01, delta=1e-6, rows_per_unit=rows_per_unit, noise=noise)
            assert answer.guarantee.epsilon == pytest.approx(0.01)
            assert any(line.startswith("Epsilon and delta allow ") for line in answer.limits)


@pytest.mark.parametrize("selection", [TruncatedGeometric(), LaplaceThreshold(), GaussianThreshold()])
@pytest.mark.parametrize("delta", [1e-11, 1e-9, 3e-7])
def test_delta_allows_a_number_of_groups_and_hardly_more(selection: Selection, delta: float) -> None:
    most = selection.most_groups(delta)
    selection.plan(groups_per_unit=most, epsilon=1.0, delta=delta)
    with pytest.raises(InvalidArgument, match="^delta="):
        selection.plan(groups_per_unit=most + 2 + most // 10**6, epsilon=1.0, delta=delta)


def test_no_limit_on_rows_is_larger_than_what_may_be_given() -> None:
    """Ten units have ten million rows: the limit that is used and the one that is reported are the same number."""
    plan = plan_limits((Measure.ROWS,), 50.0)
    chosen = plan.choose({(NUM_LEVELS - 1, 0, 0): 10}, TestSource(1))[Measure.ROWS]
    assert chosen.limit == 2**19 <= MAX_ROWS_PER_UNIT
    assert round(chosen.beyond) == 10


def test_a_single_row_is_no_rows(flights: Table) -> None:
    text = "SELECT COUNT(*) AS n FROM flights WHERE day = 1 AND airport = 'A0'"
    answer = flights.sql(text, epsilon=500.0, source=TestSource(1))
    assert answer.limits[0].endswith("a unit counts with at most 1 row.") or "at most 2 rows" in answer.limits[0]
    assert "1 rows" not in " ".join(answer.limits)
    assert "1 units" not in " ".join(answer.limits)
