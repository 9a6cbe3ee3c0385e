"""Time zones in queries: what is read, what is refused, and how each dialect writes it."""

from __future__ import annotations

import pytest

from hush.data.tables.catalog import Catalog, PrivateTable
from hush.sql import QueryRefused
from hush.sql.read.query import plan_query

TABLES = Catalog(
    {"visits": PrivateTable(columns={"who": "BIGINT", "m": "TIMESTAMP", "z": "TIMESTAMP WITH TIME ZONE"}, unit="who")}
)
BERLIN = "z AT TIME ZONE 'Europe/Berlin'"


def plan(condition: str, dialect: str = "duckdb") -> object:
    return plan_query(f"SELECT COUNT(*) AS n FROM visits WHERE {condition}", tables=TABLES, dialect=dialect).where


# Each pair says the same, in one dialect or in two.
SAME = [
    ("duckdb", f"HOUR({BERLIN}) > 3", "duckdb", "HOUR(TIMEZONE('Europe/Berlin', z)) > 3"),
    ("duckdb", f"HOUR({BERLIN}) > 3", "bigquery", "EXTRACT(HOUR FROM z AT TIME ZONE 'Europe/Berlin') > 3"),
    ("duckdb", f"{BERLIN} IS NULL", "bigquery", "DATETIME(z, 'Europe/Berlin') IS NULL"),
    ("duckdb", f"CAST({BERLIN} AS DATE) IS NULL", "bigquery", "DATE(z, 'Europe/Berlin') IS NULL"),
    ("duckdb", f"{BERLIN} IS NULL", "snowflake", "CONVERT_TIMEZONE('Europe/Berlin', z) IS NULL"),
    ("duckdb", "m AT TIME ZONE 'Asia/Tokyo' < z", "bigquery", "TIMESTAMP(m, 'Asia/Tokyo') < z"),
    *(
        ("duckdb", "m AT TIME ZONE 'Asia/Tokyo' AT TIME ZONE 'Europe/Berlin' IS NULL", dialect, text)
        for dialect, text in [
            ("snowflake", "CONVERT_TIMEZONE('Asia/Tokyo', 'Europe/Berlin', m) IS NULL"),
            ("databricks", "CONVERT_TIMEZONE('Asia/Tokyo', 'Europe/Berlin', m) IS NULL"),
            ("mysql", "CONVERT_TZ(m, 'Asia/Tokyo', 'Europe/Berlin') IS NULL"),
        ]
    ),
    *(
        ("duckdb", "m AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin' IS NULL", dialect, text)
        for dialect in ("spark", "databricks")
        for text in ["FROM_UTC_TIMESTAMP(m, 'Europe/Berlin') IS NULL"]
    ),
    (
        "duckdb",
        "m AT TIME ZONE 'Europe/Berlin' AT TIME ZONE 'UTC' IS NULL",
        "spark",
        "TO_UTC_TIMESTAMP(m, 'Europe/Berlin') IS NULL",
    ),
    # Constants, computed before any data are read.
    (
        "duckdb",
        "z < TIMESTAMPTZ '2024-03-31 02:00:00+01:00'",
        "postgres",
        "z < TIMESTAMP '2024-03-31 03:00:00' AT TIME ZONE 'Europe/Berlin'",
    ),
    ("duckdb", "z < TIMESTAMPTZ '2024-03-31 02:00:00+01:00'", "bigquery", "z < TIMESTAMP '2024-03-31 01:00:00Z'"),
    ("duckdb", "z < TIMESTAMPTZ '2024-03-31 02:00:00+01:00'", "duckdb", "z < '2024-03-31 01:00:00+00:00'"),
]


@pytest.mark.parametrize(("dialect", "text", "other_dialect", "other"), SAME)
def test_spellings(dialect: str, text: str, other_dialect: str, other: str) -> None:
    assert plan(text, dialect) == plan(other, other_dialect)


REFUSED = [
    ("HOUR(z) = 3", "has no date or hour of its own. Say in which time zone"),
    ("DATE_TRUNC('day', z) IS NULL", "has no date or hour of its own"),
    ("z + INTERVAL 3 DAY IS NULL", "has no date or hour of its own"),
    ("CAST(z AS DATE) IS NULL", "time zone of this CAST is not known"),
    ("CAST(z AS VARCHAR) = ''", "CAST from timestamp with a time zone to text|time zone of this CAST"),
    ("CAST(m AS TIMESTAMPTZ) = z", "time zone of this CAST is not known"),
    ("z = m", "of different kinds: timestamp and timestamp with a time zone. Say in which time zone"),
    ("z > '2024-01-01'", "time zone of this timestamp is not known"),
    ("z > TIMESTAMPTZ '0001-01-01 00:00:00+14:00'", "is not a timestamp"),
    ("m AT TIME ZONE 'CET' < z", "'CET' is not a time zone. Write the name of a place"),
    ("m AT TIME ZONE 'Europe/Berlim' < z", "is not a time zone"),
    ("m AT TIME ZONE CAST(who AS VARCHAR) < z", "expected a constant here"),
    ("who AT TIME ZONE 'UTC' < z", "expected a date here"),
    ("TIMESTAMP '1899-01-01' AT TIME ZONE 'Europe/Berlin' < z", "outside the years 1900 to 2099"),
]


@pytest.mark.parametrize(("condition", "words"), REFUSED)
def test_refused(condition: str, words: str) -> None:
    with pytest.raises(QueryRefused, match=words):
        plan(condition)


def test_a_moment_is_no_group() -> None:
    with pytest.raises(QueryRefused, match="Say in which time zone"):
        plan_query("SELECT z, COUNT(*) FROM visits GROUP BY z", tables=TABLES)
    text = f"SELECT EXTRACT(HOUR FROM {BERLIN}) AS h, COUNT(*) FROM visits GROUP BY h"
    assert plan_query(text, tables=TABLES).keys[0].domain == (*range(24), None)
