"""The SQL of warehouses: written as before, parsed back, and executed on DuckDB after sqlglot has translated it.

`sql.test_engine_functions` compares every function, in the same way. The files in ``golden`` hold the text of plans for
each dialect. To write them again after a change, run this file as a program, and read the difference.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hush.data.tables.catalog import Catalog, ColumnKind, PrivateTable
from hush.errors import Unsupported
from hush.sql import QueryRefused
from hush.sql.engines.views import exact_leaves
from hush.sql.read.query import plan_query
from hush.sql.write import dialects
from hush.sql.write.dialects import DIALECTS
from hush.sql.write.text.expressions import NESTED
from hush.sql.write.text.functions import WRITERS
from hush.statistics import ContributionLimits, TotalLimits
from sql.hosts import (
    INTRUDERS,
    QUERIES,
    TREES,
    OnDuckDB,
    contents,
    fill,
    is_written,
    largest_change,
    planned,
    planned_alike,
)
from sql.transpiled import EXECUTED, WAREHOUSES, OnWarehouse, parsed

GOLDEN = Path(__file__).parent / "golden"
TABLES = Catalog(
    {
        "Visits": PrivateTable(
            columns={
                "who": "VARCHAR",
                "cost": "DOUBLE",
                "note": "VARCHAR",
                "day": "DATE",
                "at": "TIMESTAMP",
                "n": "BIGINT",
            }
            | {"flag": "BOOLEAN", "exact": "DECIMAL(18,2)"},
            unit="who",
            bounds={"cost": (0, 50)},
            keys={"note": ["it's", "a\\b", "é", None]},
        ),
        "monthly": PrivateTable(
            columns={"who": "DECIMAL(20,0)", "at": "TIMESTAMP"}, unit="who", time="at", window="month"
        ),
    }
)
PLANS = {
    "Public keys": "SELECT note, COUNT(*), AVG(cost) FROM Visits GROUP BY note",
    "Private keys": "SELECT day, n, SUM(cost) FROM Visits GROUP BY day, n",
    "Quantiles": "SELECT cost, MEDIAN(cost) FROM Visits GROUP BY cost",
    "Windows": "SELECT COUNT(*) FROM monthly WHERE at > TIMESTAMP '2024-01-01 00:00:00'",
    "Numbers": "SELECT SUM(LEAST(GREATEST((cost + n) * cost / n - n % 3, -1), 1)) FROM Visits WHERE SQRT(cost) > 1 OR "
    "LN(cost) < 3 OR EXP(cost) < 9 OR ROUND(cost, 1) = FLOOR(n) OR CAST(note AS DOUBLE) > 0 OR LEAST(n, 3) = 2",
    "Texts": "SELECT COUNT(*) FROM Visits WHERE TRIM(LOWER(note)) || UPPER(note) ILIKE 'é%' OR LENGTH(note) > 2 OR "
    "SUBSTRING(note, 1, 2) = 'a' OR CAST(n AS VARCHAR) = CAST(day AS VARCHAR) OR CAST(flag AS VARCHAR) = 'true'",
    "Dates": "SELECT DATE_TRUNC('week', at) AS w, COUNT(*) FROM Visits WHERE EXTRACT(ISODOW FROM day) = 1 AND "
    "EXTRACT(WEEK FROM day) = EXTRACT(DAYOFYEAR FROM day) AND CAST(note AS DATE) < CAST(at AS DATE) AND "
    "DATE_TRUNC('quarter', at) < DATE_TRUNC('year', at) AND EXTRACT(HOUR FROM at) > 3 GROUP BY w",
    "More texts": "SELECT COUNT(*) FROM Visits WHERE LTRIM(note) = RTRIM(note) AND STRPOS(note, 'é') = 2 AND "
    "RIGHT(note, 3) = REPLACE(note, 'a', '') AND CONCAT(FLOOR(cost), '%') = '3%' AND day - CAST(at AS DATE) < 9",
    "Nested": "SELECT COUNT(*) FROM (SELECT who, BOOL_OR(flag) AS a, BOOL_AND(cost > 3) AS b FROM Visits v WHERE "
    "EXISTS (SELECT 1 FROM Visits o WHERE o.who = v.who AND o.cost < v.cost) GROUP BY who) AS q WHERE a OR b",
    "Windows of a unit": "SELECT COUNT(*), COUNT(DISTINCT last) FROM (SELECT LAG(day) OVER (PARTITION BY who, cost "
    "ORDER BY n DESC NULLS FIRST) AS last, SUM(cost) OVER (PARTITION BY who) AS s FROM Visits) AS q WHERE s > 3",
    "Groupings": "SELECT flag, n, COUNT(*) FROM Visits GROUP BY ROLLUP (flag, n)",
    "Per unit": "SELECT COUNT(*) FROM (SELECT who, SUM(cost) AS total, COUNT(DISTINCT note) AS k, MAX(day) AS last "
    "FROM Visits GROUP BY who) AS q WHERE total > 3 AND k > 1",
}


def written(dialect: str) -> dict[str, str]:
    """Return the text of each plan."""
    plans = {name: query for name, query in PLANS.items() if dialect != "mariadb" or "OVER" not in query}
    return {name: _text(query, dialect) for name, query in plans.items()}


def _text(query: str, dialect: str) -> str:
    limits = TotalLimits(rows_in_total=4, groups_per_unit=2) if "GROUP BY day" in query else ContributionLimits()
    plan = plan_query(query, tables=TABLES, limits=limits)
    return plan.tree_sql(0, dialect, ranking_key=bytes(16)) if plan.trees else plan.sql(dialect, ranking_key=bytes(16))


def as_file(texts: dict[str, str]) -> str:
    """Return texts for a file: one common table expression on each line."""
    lines = {name: sql.replace("), hush_", "),\nhush_") for name, sql in texts.items()}
    return "\n".join(f"-- {name}\n{sql};\n" for name, sql in lines.items())


@pytest.mark.parametrize("dialect", WAREHOUSES)
def test_plans_are_written_as_before(dialect: str) -> None:
    assert as_file(written(dialect)) == (GOLDEN / f"{dialect}.sql").read_text()


@pytest.mark.parametrize("dialect", [*WAREHOUSES, "mariadb"])
def test_plans_are_parsed_back_as_written(dialect: str) -> None:
    for name, sql in written(dialect).items():
        rendered = parsed(sql, dialect).sql(DIALECTS[dialect].grammar)
        assert parsed(rendered, dialect).sql(DIALECTS[dialect].grammar) == rendered, name


def test_mariadb_has_the_text_of_mysql_with_a_collation_of_its_own() -> None:
    in_mariadb = written("mariadb")
    assert PLANS.keys() - in_mariadb.keys() == {"Windows of a unit"}
    for name, sql in written("mysql").items():
        assert in_mariadb.get(name) in (None, sql.replace("utf8mb4_0900_bin", "utf8mb4_nopad_bin")), name


def exact(host: Any, key: bytes) -> dict[str, Any]:
    """Return the exact groups and leaves of each query, with limits that drop none: engines hash differently."""
    plans = {query: planned_alike(query, host.engine) for query in QUERIES}
    numbers: dict[str, Any] = {
        query: contents(plan, host.engine, key) for query, plan in plans.items() if is_written(plan, host.engine)
    }
    limits = {"groups_per_unit": 10_000, "rows_per_unit": 10_000}
    trees = {query: planned(query, host.engine, **limits) for query in TREES}
    return numbers | {query: exact_leaves(plan, 0, host.engine, ranking_key=key) for query, plan in trees.items()}


@pytest.fixture(scope="module")
def reference(ranking_key: bytes) -> dict[str, Any]:
    host = OnDuckDB()
    fill(host)
    return exact(host, ranking_key)


@pytest.mark.parametrize("dialect", EXECUTED)
def test_groups_and_leaves_are_the_same_as_on_duckdb(
    dialect: str, reference: dict[str, Any], ranking_key: bytes
) -> None:
    host = OnWarehouse(dialect)
    fill(host)
    numbers_of = exact(host, ranking_key)
    for query, numbers in numbers_of.items():
        assert numbers == reference[query], query
    # The others have an operation that is refused by name.
    assert len(reference) - len(numbers_of) == SKIPPED[dialect]


@pytest.mark.slow
@pytest.mark.parametrize("dialect", WAREHOUSES)
@pytest.mark.parametrize("name", INTRUDERS)
def test_one_unit_changes_no_more_than_its_bounds(name: str, dialect: str, ranking_key: bytes) -> None:
    host = OnWarehouse(dialect)
    fill(host)
    plans = [planned(query, host.engine, groups_per_unit=2, rows_per_unit=2) for query in QUERIES]
    plans = [plan for plan in plans if is_written(plan, host.engine)]
    before = [contents(plan, host.engine, ranking_key) for plan in plans]
    for table, rows in INTRUDERS[name]().items():
        host.add(table, rows)
    if name == "extreme rows" and dialect != "mysql":  # which has no such dates
        host.add_dates_beyond()
    for plan, old in zip(plans, before, strict=True):
        changed, broken = largest_change(plan, old, contents(plan, host.engine, ranking_key))
        assert changed <= plan.groups_per_unit, plan.columns
        assert not broken, plan.columns


# The kinds that LEAST and GREATEST do not take: where they are NULL if an operand is, no text or date never wins.
REFUSED = {
    "bigquery": {ColumnKind.TEXT, ColumnKind.DATE, ColumnKind.TIME, ColumnKind.INSTANT, ColumnKind.BOOL},
    "mysql": {ColumnKind.TEXT, ColumnKind.DATE, ColumnKind.TIME, ColumnKind.INSTANT, ColumnKind.BOOL},
    "mariadb": {ColumnKind.TEXT, ColumnKind.DATE, ColumnKind.TIME, ColumnKind.INSTANT, ColumnKind.BOOL},
}
# Operations without a form that cannot fail on any row.
REGEXPS = {"regexp_match", "regexp_extract", "regexp_replace", "regexp_replace_first"}
MISSING = {
    "bigquery": {"shift", *REGEXPS},
    "snowflake": {"shift", *REGEXPS},
    "databricks": {"shift", *REGEXPS},
    "mysql": {"shift", "split_part", *REGEXPS},
    "mariadb": {"shift", "split_part", "window", *REGEXPS},
    "spark": {"regexp_replace_first"},
}
SKIPPED = {"bigquery": 2, "snowflake": 2, "databricks": 2, "mysql": 3}  # queries with such operations
# What every dialect can write, but for those above. An operation that is added here needs a form in each warehouse that
# cannot fail on any row: look at its manual, then add the form to hush.sql.write.warehouses, or the operation to those
# that are missing there; a case to sql.test_engine_functions; and the operation to this list.
OPERATIONS = (
    "neg add sub mul div mod abs floor ceil sqrt ln exp nullif eq ne lt le gt ge and or not is_null is_true is_false "
    "between like ilike clamp lower upper trim min_of max_of number length bool_number to_text to_time time_date "
    "count_rows count_of distinct_of to_number to_date literal column case least greatest coalesce in round part "
    "truncate substring concat sum_of mean_of ltrim rtrim position days_between right split_part replace shift "
    "move_clock concat_ws integer_text all_of any_of window exists in_query scalar "
    "regexp_match regexp_extract regexp_replace regexp_replace_first"
)


def test_every_operation_was_looked_up_for_every_warehouse() -> None:
    assert sorted({*dialects._COMMON, *WRITERS, *NESTED}) == sorted(OPERATIONS.split())
    for name, dialect in DIALECTS.items():
        assert dialect.unordered == REFUSED.get(name, set()), name
        assert dialect.missing == MISSING.get(name, set()), name


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_a_dialect_cannot_compute_is_refused_by_name(dialect: str) -> None:
    query = "SELECT COUNT(*) AS n FROM Visits WHERE 1 = 1 AND LEAST(day, at) > '2024-01-01'"
    if dialect not in REFUSED:
        assert plan_query(query, tables=TABLES, dialect=dialect).columns == ("n",)
        return
    with pytest.raises(QueryRefused, match=f"column 50: LEAST of timestamp values is not supported on {dialect}"):
        plan_query(query, tables=TABLES, dialect=dialect)


# A query with each operation that some dialect is missing.
USES = {
    "shift": "SELECT COUNT(*) AS n FROM Visits WHERE LAST_DAY(day) > day",
    "split_part": "SELECT COUNT(*) AS n FROM Visits WHERE SPLIT_PART(note, '-', 2) = 'x'",
    "concat_ws": "SELECT COUNT(*) AS n FROM Visits WHERE CONCAT_WS('-', note, who) = 'x'",
    "regexp_match": "SELECT COUNT(*) AS n FROM Visits WHERE REGEXP_MATCHES(note, '^[a-z]+$')",
    "regexp_extract": "SELECT COUNT(*) AS n FROM Visits WHERE REGEXP_EXTRACT(note, '[a-z]+') = 'x'",
    "regexp_replace": "SELECT COUNT(*) AS n FROM Visits WHERE REGEXP_REPLACE(note, '[a-z]', '', 'g') = 'x'",
    "regexp_replace_first": "SELECT COUNT(*) AS n FROM Visits WHERE REGEXP_REPLACE(note, '[a-z]', '') = 'x'",
    "window": "SELECT COUNT(*) AS n FROM (SELECT who, RANK() OVER (PARTITION BY who ORDER BY n) AS r FROM Visits) AS q",
}


@pytest.mark.parametrize("op", USES)
@pytest.mark.parametrize("dialect", MISSING)
def test_missing_operations_are_refused_by_name_and_never_written(op: str, dialect: str) -> None:
    # Regular expressions have other names and parts in some dialects, and are refused as these.
    words = f"{op.upper()} .*is not supported on {dialect}" if op not in REGEXPS else "."
    elsewhere = plan_query(USES[op], tables=TABLES)
    if op not in MISSING[dialect]:
        assert elsewhere.sql(dialect, ranking_key=bytes(16))
        return
    with pytest.raises(Unsupported, match=f"{op.upper()} is not supported on {dialect}"):
        elsewhere.sql(dialect, ranking_key=bytes(16))
    if dialect == "spark":  # where the same text replaces all matches
        return
    with pytest.raises(QueryRefused, match=words):
        plan_query(USES[op], tables=TABLES, dialect=dialect)


# Words of each dialect, and the same in DuckDB's.
WORDS = {
    "bigquery": [
        ("DATE_TRUNC(day, MONTH)", "DATE_TRUNC('month', day)"),
        ("DATETIME_TRUNC(at, HOUR)", "DATE_TRUNC('hour', at)"),
        ("SAFE_CAST(note AS FLOAT64)", "CAST(note AS DOUBLE)"),
        ("CAST(n AS STRING)", "CAST(n AS VARCHAR)"),
        ("EXTRACT(ISOWEEK FROM day)", "EXTRACT(WEEK FROM day)"),
        ('IF(note = "x", `n`, 0)', "IF(note = 'x', n, 0)"),
        ("LENGTH(note)", "LENGTH(note)"),
        ("DATE_DIFF(day, DATE '2024-01-01', DAY)", "DATE_DIFF('day', DATE '2024-01-01', day)"),
        ("STRPOS(note, 'x')", "STRPOS(note, 'x')"),
    ],
    "snowflake": [
        ("DATE_TRUNC(MONTH, day)", "DATE_TRUNC('month', day)"),
        ("TRY_CAST(note AS DOUBLE)", "CAST(note AS DOUBLE)"),
        ("IFF(n > 1, NVL(n, 0), 2)", "IF(n > 1, COALESCE(n, 0), 2)"),
        ("DAYOFWEEKISO(day)", "EXTRACT(ISODOW FROM day)"),
        ("ROUND(cost, 1)", "ROUND(cost, 1)"),
        ("SUBSTR(note, 2, 3)", "SUBSTRING(note, 2, 3)"),
        ("SPLIT_PART(note, '-', 2)", "SPLIT_PART(note, '-', 2)"),
        ("CHARINDEX('x', note)", "STRPOS(note, 'x')"),
        ("DATEDIFF(DAY, DATE '2024-01-01', day)", "DATE_DIFF('day', DATE '2024-01-01', day)"),
    ],
    "databricks": [
        ("DATE_TRUNC('MONTH', at)", "DATE_TRUNC('month', at)"),
        ("CAST(note AS STRING)", "note"),
        ("CONCAT_WS('-', note, n)", "CONCAT_WS('-', note, n)"),
        ("INSTR(note, 'x')", "STRPOS(note, 'x')"),
        ("EXTRACT(DAYOFWEEK_ISO FROM day)", "EXTRACT(ISODOW FROM day)"),
        ("day < TIMESTAMP '2024-01-01 00:00:01'", "day < TIMESTAMP '2024-01-01 00:00:01'"),
    ],
    "mysql": [
        ("CAST(note AS SIGNED)", "CAST(note AS BIGINT)"),
        ("IFNULL(`n`, 0)", "COALESCE(n, 0)"),
        ("DAYOFMONTH(day)", "DAY(day)"),
        ("DAYOFYEAR(day)", "EXTRACT(DAYOFYEAR FROM day)"),
        ("CONCAT(note, 'x')", "note || 'x'"),
        ("LOCATE('x', note)", "STRPOS(note, 'x')"),
        ("DATEDIFF(day, DATE '2024-01-01')", "DATE_DIFF('day', DATE '2024-01-01', day)"),
        ('note = "x"', "note = 'x'"),
    ],
}


@pytest.mark.parametrize("dialect", WORDS)
def test_queries_are_read_in_their_own_dialect(dialect: str) -> None:
    for own, common in WORDS[dialect]:
        here, there = [
            plan_query(f"SELECT {item} AS k, COUNT(*) AS c FROM Visits GROUP BY {item}", tables=TABLES, dialect=name)
            for item, name in ((own, dialect), (common, "duckdb"))
        ]
        assert here.sql(dialect, ranking_key=bytes(16)) == there.sql(dialect, ranking_key=bytes(16)), own


@pytest.mark.parametrize("dialect", EXECUTED)
def test_one_unit_changes_a_few_queries_no_more_than_its_bounds(dialect: str, ranking_key: bytes) -> None:
    """As above, for two queries: the others are slow to translate."""
    host = OnWarehouse(dialect)
    fill(host)
    texts = [text for text in QUERIES if ("GROUP BY note" in text and "SUM(price)" in text) or "GROUP BY ratio" in text]
    plans = [planned(text, host.engine, groups_per_unit=2, rows_per_unit=2) for text in texts]
    before = [contents(plan, host.engine, ranking_key) for plan in plans]
    for name in INTRUDERS:
        host.add("people", INTRUDERS[name]()["people"])
    for plan, old in zip(plans, before, strict=True):
        changed, broken = largest_change(plan, old, contents(plan, host.engine, ranking_key))
        assert 1 <= changed <= plan.groups_per_unit
        assert not broken


@pytest.mark.parametrize("dialect", EXECUTED)
def test_long_ids_are_distinct_and_long_texts_are_cut(dialect: str, ranking_key: bytes) -> None:
    host = OnWarehouse(dialect)
    long = "x" * 20_000
    host.put("visits", "who VARCHAR, place VARCHAR", [(long + end, long + end) for end in "abc"])
    tables = Catalog({"visits": PrivateTable(columns=host.engine.columns("visits"), unit="who")})
    plan = plan_query("SELECT place, COUNT(DISTINCT who) FROM visits GROUP BY place", tables=tables)
    ((keys, numbers),) = contents(plan, host.engine, ranking_key).items()
    assert numbers["units"] == 3
    assert len(keys[0]) in (250, 10_000)


def test_numbers_that_leave_the_range_of_doubles_do_not_fail(ranking_key: bytes) -> None:
    """MySQL and BigQuery raise on overflow. Here, the largest result in any step is 1e202."""
    ends: list[Any] = [1e100, -1e100, 1e-100, 1e-300, 5e-324, 0.0, None]
    host = OnWarehouse("mysql")
    host.put(
        "t",
        "who BIGINT, x DOUBLE, y DOUBLE",
        [(i, x, y) for i, (x, y) in enumerate((a, b) for a in ends for b in ends)],
    )
    tables = Catalog({"t": PrivateTable(columns=host.engine.columns("t"), unit="who")})
    for item in ("x * y * x * y", "x / y", "x / y / y", "1 / (x / y)", "(x - y) * (x + y) / x"):
        plan = plan_query(f"SELECT {item} AS k, COUNT(*) FROM t GROUP BY k", tables=tables)
        assert sum(numbers["units"] for numbers in contents(plan, host.engine, ranking_key).values()) == len(ends) ** 2


if __name__ == "__main__":
    for name in WAREHOUSES:
        (GOLDEN / f"{name}.sql").write_text(as_file(written(name)))
