"""What a plan computes: the engine's own answer where no limit applies, fair limits, and one integer per group."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from hush.errors import InvalidArgument
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.views import exact_groups
from hush.sql.write.plan import QueryPlan
from sql.queries import EXACT_QUERIES

NO_LIMIT = {"groups_per_unit": 1000, "rows_per_unit": 250}


def exact_answer(plan: QueryPlan, engine: DuckDBEngine, key: bytes) -> list[tuple[Any, ...]]:
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


@pytest.mark.parametrize("text", EXACT_QUERIES, ids=[text[:60] for text in EXACT_QUERIES])
@pytest.mark.quick_cases(17)
def test_without_limits_a_plan_answers_like_the_engine(
    text: str, planned: Callable[..., QueryPlan], engine: DuckDBEngine, connection: Any, ranking_key: bytes
) -> None:
    assert close(exact_answer(planned(text, **NO_LIMIT), engine, ranking_key), connection.execute(text).fetchall())


def test_public_keys_are_listed_whether_or_not_they_occur(
    planned: Callable[..., QueryPlan], engine: DuckDBEngine, connection: Any, ranking_key: bytes
) -> None:
    plan = planned("SELECT region, COUNT(*) AS n FROM people GROUP BY region", **NO_LIMIT)
    connection.execute("DELETE FROM people WHERE region = 'west'")
    assert plan.public_keys
    assert plan.groups_per_unit == 5  # no more groups than there are
    counts = dict(exact_answer(plan, engine, ranking_key))
    assert list(counts) == ["north", "south", "east", "west", None]  # mars is not listed
    assert counts["west"] == 0
    assert counts[None] == 1
    connection.execute("DELETE FROM people")
    assert dict(exact_answer(plan, engine, ranking_key)) == dict.fromkeys(counts, 0.0)


def test_combined_public_keys(
    planned: Callable[..., QueryPlan], engine: DuckDBEngine, connection: Any, ranking_key: bytes
) -> None:
    plan = planned("SELECT region, flag, COUNT(*) AS n FROM people GROUP BY region, flag", **NO_LIMIT)
    counts = {row[:2]: row[2] for row in exact_answer(plan, engine, ranking_key)}
    query = (
        "SELECT region, flag, COUNT(*) FROM people WHERE user_id >= 0 AND flag IS NOT NULL AND region <> "
        "'mars' GROUP BY ALL"
    )
    exact = {row[:2]: row[2] for row in connection.execute(query).fetchall()}
    assert counts == {(region, flag): exact.get((region, flag), 0) for region, flag in plan.listed_keys()}


def test_a_query_without_groups_always_has_an_answer(
    planned: Callable[..., QueryPlan], engine: DuckDBEngine, connection: Any, ranking_key: bytes
) -> None:
    connection.execute("DELETE FROM people")
    ((count, total, mean, spread),) = exact_answer(
        planned("SELECT COUNT(*), SUM(num), AVG(age), STDDEV(income) FROM people"), engine, ranking_key
    )
    assert (count, total, mean) == (0, 0, 60)
    assert 0 <= spread <= 200_000


def test_a_unit_with_more_rows_than_count_keeps_its_mean(
    connection: Any, engine: DuckDBEngine, planned: Callable[..., QueryPlan], ranking_key: bytes
) -> None:
    connection.execute("DELETE FROM people")
    connection.execute("INSERT INTO people(user_id, age) SELECT 1, 20 + i % 11 FROM range(110) AS t(i)")
    ((mean,),) = exact_answer(planned("SELECT AVG(age) FROM people", rows_per_unit=2), engine, ranking_key)
    assert mean == pytest.approx(25, abs=1e-5)


def test_which_groups_are_kept_is_fair(
    connection: Any, engine: DuckDBEngine, planned: Callable[..., QueryPlan], ranking_key: bytes
) -> None:
    """4000 units are in 8 groups each. With groups_per_unit=2, a quarter keeps each group, within 6 deviations."""
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


def test_the_order_of_rows_does_not_matter(
    connection: Any, engine: DuckDBEngine, planned: Callable[..., QueryPlan], ranking_key: bytes
) -> None:
    plan = planned("SELECT note, SUM(income), AVG(price) FROM people GROUP BY note", groups_per_unit=2)
    before = {group.keys: group for group in exact_groups(plan, engine, ranking_key=ranking_key)}
    connection.execute("CREATE TABLE shuffled AS SELECT * FROM people ORDER BY hash(income, note)")
    connection.execute("DELETE FROM people")
    connection.execute("INSERT INTO people SELECT * FROM shuffled")
    assert {group.keys: group for group in exact_groups(plan, engine, ranking_key=ranking_key)} == before


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
def test_only_duckdb_has_parts(planned: Callable[..., QueryPlan], dialect: str, ranking_key: bytes) -> None:
    plan = planned("SELECT note, COUNT(*) FROM people GROUP BY note")
    with pytest.raises(InvalidArgument, match="^part="):
        plan.sql(dialect, ranking_key=ranking_key, part=(0, 2))


@pytest.mark.parametrize("key", [b"short", "0" * 32, None])
def test_ranking_keys_that_are_refused(planned: Callable[..., QueryPlan], key: Any) -> None:
    with pytest.raises(InvalidArgument, match="^ranking_key='...'"):
        planned("SELECT COUNT(*) FROM people").sql(ranking_key=key)


def test_a_fingerprint_depends_on_rows_keys_and_limits_only(planned: Callable[..., QueryPlan]) -> None:
    fingerprint = planned("SELECT note, COUNT(*) FROM people GROUP BY note").fingerprint()
    assert planned("SELECT note, SUM(age) AS s FROM people GROUP BY note ORDER BY s").fingerprint() == fingerprint
    for text, limits in (
        ("SELECT note, COUNT(*) FROM people GROUP BY note", {"groups_per_unit": 2}),
        ("SELECT note, COUNT(*) FROM people WHERE age > 3 GROUP BY note", {}),
        ("SELECT region, COUNT(*) FROM people GROUP BY region", {}),
    ):
        assert planned(text, **limits).fingerprint() != fingerprint
