"""What plans compute: the same as the engine's own SQL where no bound bites; and what they hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import sqlglot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hush.sql import (
    Catalog,
    ContributionLimits,
    Counted,
    DuckDBEngine,
    QueryPlan,
    exact_groups,
    exact_leaves,
    plan_query,
)

NO_LIMIT = {"groups_per_unit": 1000, "rows_per_unit": 250}


def asked(plan: QueryPlan, engine: DuckDBEngine, key: bytes) -> list[tuple[Any, ...]]:
    """Return the answer without noise."""
    return plan.answer((group.keys, group.sums) for group in exact_groups(plan, engine, ranking_key=key))


def close(left: list[tuple[Any, ...]], right: list[tuple[Any, ...]]) -> bool:
    def same(a: Any, b: Any) -> bool:
        return (
            math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-6) if isinstance(b, (int, float)) and a is not None else a == b
        )

    return len(left) == len(right) and all(
        len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
        for a, b in zip(left, right, strict=True)
    )


# Each is run as it stands by the engine, and by the plan without limits: the answers agree.
SAME = [
    "SELECT COUNT(*), COUNT(income), SUM(age), SUM(income), COUNT(DISTINCT user_id) FROM people WHERE user_id IS "
    "NOT NULL",
    "SELECT AVG(income), AVG(age), VAR_POP(age), VARIANCE(age), STDDEV(income), STDDEV_POP(income) FROM people "
    "WHERE user_id >= 0",
    "SELECT note, COUNT(*) AS n, SUM(age) AS s FROM people WHERE age >= 0 GROUP BY note ORDER BY n DESC, note",
    "SELECT note, COUNT(*) AS n FROM people WHERE user_id >= 0 GROUP BY note HAVING n > 25 AND SUM(age) < 100000 "
    "ORDER BY note LIMIT 3",
    "SELECT note, flag, AVG(age) AS a FROM people WHERE note LIKE 'n1%' GROUP BY note, flag ORDER BY note, flag "
    "NULLS LAST",
    "SELECT FLOOR(age / 10) * 10 AS decade, COUNT(*) AS n FROM people WHERE age IS NOT NULL GROUP BY decade ORDER "
    "BY decade",
    "SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM people WHERE day BETWEEN '2024-02-01' AND "
    "'2024-06-30' GROUP BY m ORDER BY m",
    "SELECT YEAR(day) AS y, EXTRACT(quarter FROM moment) AS q, SUM(age) AS n FROM people WHERE moment < "
    "'2024-05-01 12:00:00' GROUP BY y, q ORDER BY y, q",
    "SELECT COUNT(*) * 2 + 1 AS n, ROUND(AVG(age), 2) AS a, CASE WHEN COUNT(*) > 3 THEN 'many' ELSE 'few' END AS w "
    "FROM people WHERE user_id >= 0",
    "SELECT SUM(CASE WHEN age > 50 AND NOT flag THEN 1 ELSE 0 END) AS s FROM people WHERE COALESCE(region, 'x') <> "
    "'mars'",
    "SELECT LENGTH(note) AS l, COUNT(*) AS n FROM people WHERE note IS NOT NULL AND LOWER(note) IN ('n1', 'n10', "
    "'n2') GROUP BY l ORDER BY l",
    "SELECT z.zone, COUNT(*) AS n, SUM(p.age) AS s FROM people p JOIN zones z ON p.region = z.region WHERE z.zone "
    "IS NOT NULL AND p.user_id >= 0 "
    "GROUP BY z.zone ORDER BY z.zone",
    "SELECT o.item, COUNT(*) AS n, SUM(o.amount) AS s FROM people p JOIN orders o ON p.user_id = o.uid GROUP BY "
    "o.item ORDER BY o.item",
    "SELECT COUNT(*) AS n, COUNT(o.item) AS m FROM people p LEFT JOIN orders o ON p.user_id = o.uid AND o.amount > "
    "5 WHERE p.user_id >= 0",
    "WITH t AS (SELECT user_id, COUNT(*) AS n, SUM(age) AS s, MAX(age) AS top FROM people WHERE user_id >= 0 GROUP "
    "BY user_id) "
    "SELECT n, COUNT(*) AS c, AVG(LEAST(GREATEST(s, 0), 10000)) AS a FROM t WHERE top > 20 GROUP BY n ORDER BY n",
    "SELECT COUNT(*) AS n FROM people WHERE note NOT LIKE 'n1%' AND age NOT IN (1, 2) AND age NOT BETWEEN 5 AND 9 "
    "AND NOT note ILIKE 'N2'",
    "SELECT CONCAT(note, region) AS c, note || region AS d, COUNT(*) AS n FROM people WHERE user_id = 3 GROUP BY "
    "c, d ORDER BY c",
    "SELECT COUNT(*) AS n FROM people WHERE TRY_CAST(note AS DOUBLE) IS NULL AND moment < CAST('2024-02-01' AS "
    "TIMESTAMP) AND day < TIMESTAMP '2024-03-01'",
    "SELECT COUNT(*) AS n FROM (SELECT user_id AS u, COUNT(*) AS n, MIN(day) AS d FROM people GROUP BY u HAVING n "
    "> 7) AS t WHERE d < '2024-02-01'",
    "SELECT IF(age > 50, 'old', 'young') AS g, CAST(flag AS INT) AS f, COUNT(*) AS n FROM people WHERE flag IS NOT "
    "NULL GROUP BY g, f ORDER BY g, f",
    "SELECT AVG(t.a) AS a FROM (SELECT age + 1 AS a FROM people WHERE age > 10 AND user_id >= 0) AS t",
    "SELECT SUM(LEAST(GREATEST(price * 2 - 1, -100), 100)) AS s FROM people WHERE price < 10 AND user_id >= 0",
    "SELECT SUM(LEAST(GREATEST(CAST(score AS DOUBLE), 0), 50)) AS s FROM people WHERE CAST(score AS DOUBLE) > 3",
]


@pytest.mark.parametrize("text", SAME, ids=[text[:60] for text in SAME])
def test_without_limits_the_answer_is_the_engine_s(
    text: str, planned: Callable[..., QueryPlan], engine: DuckDBEngine, connection: Any, ranking_key: bytes
) -> None:
    assert close(asked(planned(text, **NO_LIMIT), engine, ranking_key), connection.execute(text).fetchall())


def test_public_keys_are_listed_whether_or_not_they_occur(
    planned: Callable[..., QueryPlan], engine: DuckDBEngine, connection: Any, ranking_key: bytes
) -> None:
    plan = planned("SELECT region, COUNT(*) AS n FROM people GROUP BY region", **NO_LIMIT)
    connection.execute("DELETE FROM people WHERE region = 'west'")
    assert plan.public_keys
    assert plan.groups_per_unit == 5  # no more groups than there are
    found = dict(asked(plan, engine, ranking_key))
    assert list(found) == ["north", "south", "east", "west", None]  # mars is not on the list
    assert found["west"] == 0
    assert found[None] == 1
    connection.execute("DELETE FROM people")
    assert dict(asked(plan, engine, ranking_key)) == dict.fromkeys(found, 0.0)


def test_combined_public_keys(
    planned: Callable[..., QueryPlan], engine: DuckDBEngine, connection: Any, ranking_key: bytes
) -> None:
    plan = planned("SELECT region, flag, COUNT(*) AS n FROM people GROUP BY region, flag", **NO_LIMIT)
    found = {row[:2]: row[2] for row in asked(plan, engine, ranking_key)}
    query = (
        "SELECT region, flag, COUNT(*) FROM people WHERE user_id >= 0 AND flag IS NOT NULL AND region <> "
        "'mars' GROUP BY ALL"
    )
    exact = {row[:2]: row[2] for row in connection.execute(query).fetchall()}
    assert found == {(region, flag): exact.get((region, flag), 0) for region, flag in plan.listed_keys()}


def test_a_question_without_groups_has_always_an_answer(
    planned: Callable[..., QueryPlan], engine: DuckDBEngine, connection: Any, ranking_key: bytes
) -> None:
    connection.execute("DELETE FROM people")
    ((count, total, mean, spread),) = asked(
        planned("SELECT COUNT(*), SUM(num), AVG(age), STDDEV(income) FROM people"), engine, ranking_key
    )
    assert (count, total, mean) == (0, 0, 60)
    assert 0 <= spread <= 200_000


def test_mean_shares_what_it_contains(planned: Callable[..., QueryPlan]) -> None:
    def whats(text: str) -> list[Counted]:
        return [release.what for release in planned(text).releases]

    assert whats("SELECT AVG(age) FROM people") == [Counted.VALUES, Counted.CENTRED]
    assert whats("SELECT COUNT(age), SUM(age), AVG(age) FROM people") == [Counted.VALUES, Counted.CENTRED]
    assert whats("SELECT STDDEV(age), VARIANCE(age), AVG(age), SUM(age) FROM people") == [
        Counted.VALUES,
        Counted.CENTRED,
        Counted.SQUARES,
    ]
    assert whats("SELECT SUM(age) FROM people") == [Counted.SUM]
    assert whats("SELECT AVG(age) AS a, AVG(age) * 2 AS b FROM people HAVING AVG(age) > 3 ORDER BY AVG(age)") == whats(
        "SELECT AVG(age) FROM people"
    )


def test_a_required_column_shares_the_count_of_rows(
    engine: DuckDBEngine, described: Callable[..., Catalog], ranking_key: bytes
) -> None:
    tables = described(engine, required={"income"})
    plan = plan_query(
        "SELECT COUNT(*), AVG(income), COUNT(income) FROM people", tables=tables, limits=ContributionLimits(**NO_LIMIT)
    )
    assert [release.what for release in plan.releases] == [Counted.ROWS, Counted.CENTRED]
    ((rows, mean, values),) = asked(plan, engine, ranking_key)
    exact = engine.run("SELECT COUNT(*), AVG(COALESCE(income, 100000)), COUNT(*) FROM people WHERE user_id >= 0")
    assert close([(rows, mean, values)], exact)


def test_sensitivities_are_what_the_bounds_say(planned: Callable[..., QueryPlan]) -> None:
    plan = planned("SELECT COUNT(*), SUM(income), SUM(price) FROM people", rows_per_unit=3)
    rows, income, price = plan.releases
    assert (rows.lower, rows.upper, rows.sensitivity) == (0, 3, 3)
    assert income.lower == 0
    assert income.upper * income.grid == 600_000
    assert price.lower * price.grid == -30
    assert price.upper * price.grid == 31.5
    assert all(release.sensitivity <= 2**30 for release in plan.releases)
    centred = planned("SELECT AVG(income) FROM people").releases[1]
    assert centred.sensitivity * centred.grid == pytest.approx(
        100_000, rel=1e-6
    )  # half the width, not the largest value


def test_a_unit_with_more_rows_than_count_keeps_its_mean(
    connection: Any, engine: DuckDBEngine, planned: Callable[..., QueryPlan], ranking_key: bytes
) -> None:
    connection.execute("DELETE FROM people")
    connection.execute("INSERT INTO people(user_id, age) SELECT 1, 20 + i % 11 FROM range(110) AS t(i)")
    ((mean,),) = asked(planned("SELECT AVG(age) FROM people", rows_per_unit=2), engine, ranking_key)
    assert mean == pytest.approx(25, abs=1e-5)


def test_which_groups_are_kept_is_fair(
    connection: Any, engine: DuckDBEngine, planned: Callable[..., QueryPlan], ranking_key: bytes
) -> None:
    """Of 8 groups that all of 4000 units have, each is kept by about a quarter (groups_per_unit=2): within 6 deviations."""
    connection.execute(
        "INSERT INTO people(user_id, note) SELECT 1000 + u, 'g' || g FROM range(4000) AS a(u), range(8) AS b(g)"
    )
    plan = planned("SELECT note, COUNT(*) FROM people WHERE user_id >= 1000 GROUP BY note", groups_per_unit=2)
    counts = [group.units for group in exact_groups(plan, engine, ranking_key=ranking_key)]
    assert len(counts) == 8
    assert sum(counts) == 8000
    assert all(abs(count - 1000) < 6 * math.sqrt(4000 * 0.25 * 0.75) for count in counts)
    other = [group.units for group in exact_groups(plan, engine, ranking_key=bytes(16))]
    assert sorted(other) != sorted(counts)


def test_the_order_of_rows_is_of_no_consequence(
    connection: Any, engine: DuckDBEngine, planned: Callable[..., QueryPlan], ranking_key: bytes
) -> None:
    plan = planned("SELECT note, SUM(income), AVG(price) FROM people GROUP BY note", groups_per_unit=2)
    before = {group.keys: group for group in exact_groups(plan, engine, ranking_key=ranking_key)}
    connection.execute("CREATE TABLE shuffled AS SELECT * FROM people ORDER BY hash(income, note)")
    connection.execute("DELETE FROM people")
    connection.execute("INSERT INTO people SELECT * FROM shuffled")
    assert {group.keys: group for group in exact_groups(plan, engine, ranking_key=ranking_key)} == before


def test_quantile_leaves_hold_the_quantile(
    engine: DuckDBEngine, planned: Callable[..., QueryPlan], ranking_key: bytes
) -> None:
    plan = planned("SELECT MEDIAN(income) AS m, QUANTILE_CONT(income, 0.25) AS q FROM people", **NO_LIMIT)
    assert len(plan.trees) == 1
    assert [statistic.probability for statistic in plan.statistics] == [0.5, 0.25]
    (leaves,) = exact_leaves(plan, 0, engine, ranking_key=ranking_key).values()
    below, total, low = 0, sum(leaves.values()), 0.0
    for leaf in sorted(leaves):
        below += leaves[leaf]
        if below >= total / 2:
            low = leaf / 65_536 * 200_000
            break
    ((median,),) = engine.run("SELECT quantile_disc(income, 0.5) FROM people WHERE user_id >= 0")
    assert abs(low - median) <= 200_000 / 65_536
    names = [statistic.name for statistic in plan.statistics]
    assert plan.answer([((), dict(zip(names, (5.0, 2.0), strict=True)))]) == [(5.0, 2.0)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=3, max_size=3),
    key=st.text(max_size=3) | st.none() | st.floats(allow_nan=True),
)
def test_answers_never_raise(values: list[float], key: Any, catalog: Catalog) -> None:
    text = (
        "SELECT note, COUNT(*) AS n, AVG(age) AS a, SQRT(n) + LN(a) - EXP(n) AS e, n * n * n AS cube, ROUND(a, 3) "
        "AS r, "
        "CASE WHEN n > 3 THEN n / 2 END AS c, LEAST(n, a) AS l, NULLIF(n, 1) AS u, FLOOR(n) AS f, note IS NULL AS z "
        "FROM people GROUP BY note HAVING n > -5 OR n IS NULL OR a BETWEEN 1 AND 2 ORDER BY e DESC, note LIMIT 5"
    )
    plan = plan_query(text, tables=catalog)
    numbers = dict(zip([release.name for release in plan.releases], values, strict=True))
    plan.answer([((key,), numbers)])


@pytest.mark.parametrize("dialect", ["duckdb", "spark", "postgres"])
@pytest.mark.parametrize(
    "text", [*SAME, "SELECT note, MEDIAN(income) FROM people GROUP BY note"], ids=lambda text: text[:40]
)
def test_every_plan_can_be_written_in_every_dialect(
    text: str, dialect: str, planned: Callable[..., QueryPlan], ranking_key: bytes
) -> None:
    plan = planned(text, groups_per_unit=2, rows_per_unit=3)
    texts = [
        plan.sql(dialect, ranking_key=ranking_key),
        plan.bounded_sql(dialect, ranking_key=ranking_key),
        plan.summary_sql("v", dialect),
    ]
    texts += [plan.tree_sql(tree, dialect, ranking_key=ranking_key) for tree in range(len(plan.trees))]
    for written in texts:
        (found,) = sqlglot.parse(written, read=dialect)
        assert isinstance(found, sqlglot.exp.Select)
        assert not list(found.find_all(sqlglot.exp.Command))
        again = found.sql(dialect)
        assert sqlglot.parse_one(again, read=dialect).sql(dialect) == again
    if dialect == "postgres":
        assert "TRY_CAST" not in texts[0]


@pytest.mark.parametrize("dialect", ["duckdb", "spark", "postgres"])
def test_constants_are_written_such_that_they_are_read_as_they_were(
    dialect: str, planned: Callable[..., QueryPlan], ranking_key: bytes
) -> None:
    odd = "it's \\ \\' -- /* \n ; é"
    quoted = odd.replace("'", "''")
    plan = planned(f"SELECT COUNT(*) FROM people WHERE note = '{quoted}'")
    found = sqlglot.parse_one(plan.sql(dialect, ranking_key=ranking_key), read=dialect)
    assert odd in [part.this for part in found.find_all(sqlglot.exp.Literal) if part.is_string]
