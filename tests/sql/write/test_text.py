"""The text of plans: every plan can be written in every dialect, and values are put on the grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pytest
import sqlglot

from hush.data.tables.catalog import Catalog
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.views import exact_groups
from hush.sql.read.query import plan_query
from hush.sql.syntax.grid import on_grid
from hush.sql.write.dialects import DIALECTS
from hush.sql.write.plan import QueryPlan
from hush.sql.write.text.sums import row_integer
from hush.statistics import ContributionLimits
from sql.queries import EXACT_QUERIES

WRITTEN = [*EXACT_QUERIES, "SELECT note, MEDIAN(income) FROM people GROUP BY note"]


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        # The quick variant writes each query in one of the dialects, in turn.
        pytest.param(text, dialect, marks=() if (number + turn) % 3 == 0 else pytest.mark.slow)
        for number, text in enumerate(WRITTEN)
        for turn, dialect in enumerate(("duckdb", "spark", "postgres"))
    ],
    ids=lambda text: text[:40],
)
@pytest.mark.quick_cases(20)
def test_every_plan_can_be_written_in_every_dialect(
    text: str, dialect: str, planned: Callable[..., QueryPlan], ranking_key: bytes
) -> None:
    plan = planned(text, groups_per_unit=2, rows_per_unit=3)
    texts = [
        plan.sql(dialect, ranking_key=ranking_key),
        plan.summary_sql("v", dialect, columns={release.name: release.name for release in plan.sums}),
    ]
    texts += [plan.tree_sql(tree, dialect, ranking_key=ranking_key) for tree in range(len(plan.trees))]
    texts += [plan.distinct_sql(release, dialect, ranking_key=ranking_key) for release in plan.distinct_counts]
    for written in texts:
        (statement,) = sqlglot.parse(written, read=dialect)
        assert isinstance(statement, sqlglot.exp.Select)
        assert not list(statement.find_all(sqlglot.exp.Command))
        again = statement.sql(dialect)
        assert sqlglot.parse_one(again, read=dialect).sql(dialect) == again
    if dialect == "postgres":
        assert "TRY_CAST" not in texts[0]


@pytest.mark.parametrize("square", [False, True])
def test_a_value_is_clamped_and_rounded_to_the_grid(square: bool) -> None:
    bounds, offset, grid = (-2.0, 3.0), 0.5, 2.0**-8
    values = [-1e308, -2.5, -2.0, -0.125, 0.0, 1.0 / 3, 2.999, 3.0, 1e100]
    text = row_integer("v", bounds, offset, grid, DIALECTS["duckdb"], square=square)
    rows = duckdb.connect().execute(f"SELECT v, {text} FROM (SELECT unnest(?) AS v) AS t", [values]).fetchall()
    for value, integer in rows:
        clamped = min(max(value, bounds[0]), bounds[1])
        # Numbers beyond 1e100 are missing, and count as 0.
        assert integer == (0 if abs(value) > 1e100 else on_grid((clamped**2 if square else clamped) - offset, grid))


def test_missing_values_count_as_zero() -> None:
    text = row_integer("v", (1.0, 3.0), 0.0, 1.0, DIALECTS["duckdb"])
    values = [None, float("nan"), float("inf"), 2.0]
    rows = duckdb.connect().execute(f"SELECT {text} FROM (SELECT unnest(?) AS v) AS t", [values]).fetchall()
    assert rows == [(0,), (0,), (0,), (2,)]


def test_columns_of_a_table_are_qualified(planned: Callable[..., QueryPlan], ranking_key: bytes) -> None:
    text = planned("SELECT COUNT(*) FROM people").sql(ranking_key=ranking_key)
    assert 's."user_id" AS u0' in text
    assert 's."user_id" IS NOT NULL' in text


def test_text_that_is_joined_again_and_again_ends_no_query(
    connection: Any, described: Callable[..., Catalog], ranking_key: bytes
) -> None:
    # Without a limit, the text of one person alone would have 1000 * 50^4 characters, and no engine holds it.
    joined = ["SELECT user_id, MAX(CASE WHEN num = 7 THEN REPEATED END) AS t FROM people GROUP BY user_id"]
    joined += [
        f"SELECT user_id, MAX({function.format(', '.join(['t'] * 50))}) AS t FROM c{index} GROUP BY user_id"
        for index, function in enumerate(
            ("CONCAT({0})", "CONCAT_WS('-', {0})", f"{' || '.join(['t'] * 50)}", "CONCAT({0})")
        )
    ]
    tables = ", ".join(f"c{index} AS ({text})" for index, text in enumerate(joined))
    text = f"WITH {tables} SELECT COUNT(*) FROM c4 WHERE LENGTH(t) BETWEEN 900000 AND 1000000"
    text = text.replace("REPEATED", f"'{'x' * 1000}'")
    connection.execute("UPDATE people SET num = CASE WHEN user_id = 5 THEN 7 END")
    engine = DuckDBEngine(connection=connection)
    plan = plan_query(text, tables=described(engine), limits=ContributionLimits(rows_per_unit=1))
    (group,) = exact_groups(plan, engine, ranking_key=ranking_key)
    assert list(group.sums.values()) == [1]
