"""No setting of a session or a server changes what a query of timestamps with time zones answers, nor can any row."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from hush.data.tables.catalog import Catalog, PrivateTable
from hush.sql.engines.postgres import PostgresEngine
from hush.sql.engines.views import exact_groups
from hush.sql.read.query import plan_query
from hush.statistics import ContributionLimits
from sql.hosts import OnDuckDB, OnPostgres, OnSpark
from sql.transpiled import WAREHOUSES, OnWarehouse

BERLIN = ZoneInfo("Europe/Berlin")
# Around the two changes of a year, and between them.
MOMENTS = [
    datetime(2024, month, day, hour, 30, 15, tzinfo=UTC)
    for month, day in ((3, 30), (3, 31), (10, 26), (10, 27), (7, 1))
    for hour in (0, 1, 22, 23)
]
BEYOND = {
    "duckdb": ["infinity", "-infinity", "290309-12-22 (BC) 00:00:00+00", "294247-01-10 04:00:54.775806+00"],
    "postgres": ["infinity", "-infinity", "4713-01-01 00:00:00+00 BC", "294276-12-31 23:59:59.999999+00"],
}
SESSIONS = ("UTC", "Asia/Tokyo", "America/New_York")
TYPES = {"duckdb": "TIMESTAMPTZ", "postgres": "TIMESTAMPTZ", "spark": "TIMESTAMP"}
QUERY = (
    "SELECT CAST(z AT TIME ZONE 'Europe/Berlin' AS DATE) AS d, EXTRACT(HOUR FROM z AT TIME ZONE 'Europe/Berlin') AS h, "
    "z >= TIMESTAMP '2024-07-01 01:00:00' AT TIME ZONE 'Europe/Berlin' AS later, COUNT(*) AS n "
    "FROM t GROUP BY d, h, later"
)


def expected() -> dict[tuple[Any, ...], int]:
    groups: dict[tuple[Any, ...], int] = {(None, None, None): 1}
    for moment in MOMENTS:
        shown = moment.astimezone(BERLIN)
        group = (shown.date(), shown.hour, moment >= datetime(2024, 6, 30, 23, tzinfo=UTC))
        groups[group] = groups.get(group, 0) + 1
    return groups


@pytest.fixture(
    params=[
        "duckdb",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("spark", marks=pytest.mark.spark),
        *WAREHOUSES,
    ]
)
def host(request: pytest.FixtureRequest) -> Iterator[Any]:
    name = request.param
    if name == "spark":
        host: Any = OnSpark(request.getfixturevalue("spark_session"))
    elif name == "postgres":
        host = OnPostgres(request.getfixturevalue("postgres_url"))
    else:
        host = OnDuckDB() if name == "duckdb" else OnWarehouse(name)
    rows = [*enumerate(MOMENTS), (99, None)]
    host.put("t", f"who BIGINT, z {TYPES.get(name, 'TIMESTAMPTZ')}", rows)
    yield host
    if name == "spark":
        host.session.conf.unset("spark.sql.session.timeZone")
    host.close()


def groups(engine: Any, ranking_key: bytes) -> dict[tuple[Any, ...], int]:
    columns = engine.columns("t")
    grammar = getattr(engine, "grammar", engine.dialect)
    tables = Catalog({"t": PrivateTable(columns=columns, unit="who")})
    limits = ContributionLimits(groups_per_unit=100, rows_per_unit=1)
    plan = plan_query(QUERY, tables=tables, limits=limits, dialect=grammar)
    return {group.keys: group.units for group in exact_groups(plan, engine, ranking_key=ranking_key)}


def in_zone(host: Any, zone: str) -> Any:
    """Return the host's engine, in a session with a time zone."""
    if isinstance(host, OnSpark):
        host.session.conf.set("spark.sql.session.timeZone", zone)
    elif isinstance(host, OnPostgres):
        host.connection.execute(f"ALTER DATABASE {host.connection.info.dbname} SET timezone = '{zone}'")
        host.engine.close()  # type: ignore[attr-defined]
        host.engine = PostgresEngine(host.string)
        assert host.engine._connection.execute("SHOW timezone").fetchone()[0] == zone
    else:
        host.connection.execute(f"SET GLOBAL TimeZone = '{zone}'")
    return host.engine


def test_sessions_do_not_change_an_answer(host: Any, ranking_key: bytes) -> None:
    # Plans of warehouses run in sessions of DuckDB: one that is not in UTC is enough.
    for zone in SESSIONS[1:2] if isinstance(host, OnWarehouse) else SESSIONS:
        assert groups(in_zone(host, zone), ranking_key) == expected(), zone


@pytest.mark.parametrize("name", [pytest.param("postgres", marks=pytest.mark.postgres), "duckdb"])
def test_no_moment_makes_a_query_fail(name: str, request: pytest.FixtureRequest, ranking_key: bytes) -> None:
    host: Any = OnDuckDB() if name == "duckdb" else OnPostgres(request.getfixturevalue("postgres_url"))
    rows = [*enumerate(MOMENTS), (99, None)]
    host.put("t", "who BIGINT, z TIMESTAMPTZ", rows)
    for number, text in enumerate(BEYOND[name]):
        host.execute(f"INSERT INTO t VALUES ({200 + number}, '{text}')")
    others = groups(host.engine, ranking_key)
    # They are a group of their own, and everyone else's rows are as before.
    assert {key: units for key, units in others.items() if key[0] is not None} == {
        key: units for key, units in expected().items() if key[0] is not None
    }
    assert sum(units for key, units in others.items() if key[0] is None) == 1 + len(BEYOND[name])
    host.close()


@pytest.mark.spark
def test_no_moment_makes_a_query_on_spark_fail(spark_session: Any, ranking_key: bytes) -> None:
    host = OnSpark(spark_session)
    extremes = ", ".join(
        f"({n}, timestamp_micros({m}))" for n, m in ((0, -(2**62)), (1, 2**62), (2, 2**63 - 1), (3, 0))
    )
    spark_session.sql(f"SELECT * FROM VALUES {extremes} AS v(who, z)").createOrReplaceTempView("t")
    assert sum(groups(host.engine, ranking_key).values()) == 4
    spark_session.catalog.dropTempView("t")


def test_a_data_frame_with_a_time_zone() -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    import hush
    from hush.randomness import TestSource

    zoned = pandas.Series(MOMENTS * 50).dt.tz_convert("Asia/Tokyo")
    frame = pandas.DataFrame({"who": range(len(zoned)), "z": zoned})
    table = hush.table(frame, unit="who", name="t", rows_per_unit=1, groups_per_unit=1)
    text = "SELECT COUNT(*) AS n FROM t WHERE HOUR(z AT TIME ZONE 'Europe/Berlin') < 2"
    exact = 50 * sum(moment.astimezone(BERLIN).hour < 2 for moment in MOMENTS)
    # Discrete Laplace noise of scale 1/100: not 0 with 2 e^-100.
    assert table.sql(text, epsilon=100.0, source=TestSource(1)).rows[0][0] == exact
