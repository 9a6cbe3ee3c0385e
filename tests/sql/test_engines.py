"""One suite that every engine passes: the same groups as DuckDB, one unit's bounded change, and silent errors.

DuckDB always runs; PostgreSQL and Spark where `services` finds them.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar

import duckdb
import pytest

from hush.data.tables.catalog import kind_of
from hush.errors import HushError, InvalidArgument, Unsupported
from hush.randomness import TestSource
from hush.sql import (
    BoundedViews,
    Catalog,
    ContributionLimits,
    DuckDBEngine,
    Engine,
    EngineFailed,
    PostgresEngine,
    PrivateTable,
    PublicTable,
    QueryPlan,
    SparkEngine,
    Table,
    exact_groups,
    exact_leaves,
    plan_query,
)
from hush.sql.write import bounded as bounded_module

Row = tuple[Any, ...]
Tables = dict[str, list[Row]]

# Names and types of columns, in words that all three engines read; [text], [double] and [time] differ.
COLUMNS = {
    "people": "user_id BIGINT, region [text], income [double], age INT, score [text], note [text], day DATE, "
    "moment [time], flag BOOLEAN, price DECIMAL(18, 2), big DECIMAL(38, 0), num BIGINT",
    "orders": "uid BIGINT, amount [double], item [text], day DATE",
    "zones": "region [text], zone [text], weight [double]",
}
PUBLIC = {"region": ("north", "south", "east", "west", None), "flag": (True, False)}
BOUNDS = {"income": (0, 200_000), "age": (0, 120), "score": (-50, 100), "price": (-10, 10.5), "num": (0, 2**40)}

QUERIES = [
    "SELECT COUNT(*), COUNT(income), COUNT(DISTINCT user_id), SUM(income), SUM(age) FROM people",
    "SELECT AVG(income), VARIANCE(age), STDDEV_POP(score), AVG(price), AVG(num) FROM people",
    "SELECT region, COUNT(*) AS n, AVG(income) FROM people GROUP BY region HAVING n > 3 ORDER BY n DESC LIMIT 2",
    "SELECT note, COUNT(*), SUM(price) FROM people GROUP BY note",
    "SELECT region, flag, SUM(score), COUNT(score) FROM people GROUP BY region, flag",
    "SELECT region, note, COUNT(DISTINCT user_id) FROM people GROUP BY region, note",
    "SELECT day, SUM(age) FROM people GROUP BY day",
    "SELECT moment, SUM(LEAST(GREATEST(CAST(note AS DOUBLE), -1), 1)) FROM people GROUP BY moment",
    "SELECT price * 2 AS p, COUNT(*) FROM people GROUP BY p",
    "SELECT income / age AS ratio, COUNT(*) FROM people GROUP BY ratio",
    "SELECT big, num, COUNT(*) FROM people GROUP BY big, num",
    "SELECT month(day), COUNT(*) FROM people WHERE day >= '2024-03-01' GROUP BY month(day)",
    "SELECT DATE_TRUNC('week', moment) AS week, COUNT(*) FROM people GROUP BY week",
    "SELECT CASE WHEN age < 18 THEN 'minor' ELSE 'old' END AS g, SUM(income) FROM people GROUP BY g",
    "SELECT SUM(LEAST(GREATEST(income * income / (age - 30), -5), 5)) FROM people WHERE SQRT(income) > 10 OR "
    "LN(age) < 3",
    "SELECT SUM(LEAST(GREATEST(EXP(age) - POW(num, 8), 0), 1)), COUNT(*) FROM people WHERE ABS(num) % 7 < 5",
    "SELECT SUM(CASE WHEN note LIKE 'n1%' THEN 1 ELSE 0 END) FROM people WHERE CAST(score AS DOUBLE) > 10",
    "SELECT SUBSTRING(UPPER(note), 1, 2) || region AS k, COUNT(*) FROM people GROUP BY k",
    "SELECT p.region, SUM(o.amount), COUNT(*) FROM people p JOIN orders o ON p.user_id = o.uid GROUP BY p.region",
    "SELECT o.item, COUNT(*), AVG(o.amount) FROM people p LEFT JOIN orders o ON p.user_id = o.uid AND o.amount > 1 "
    "GROUP BY o.item",
    "SELECT z.zone, COUNT(*) FROM people p JOIN zones z ON p.region = z.region GROUP BY z.zone",
    "SELECT CAST(note AS DATE) AS d, COUNT(*) FROM people GROUP BY d",
    "WITH t AS (SELECT user_id, SUM(income) AS total, COUNT(*) AS n, MAX(day) AS last FROM people GROUP BY user_id "
    "HAVING COUNT(*) > 1) "
    "SELECT n, COUNT(*), SUM(LEAST(GREATEST(total, 0), 1000000)) FROM t WHERE last > '2024-01-05' GROUP BY n",
    "SELECT t.region, AVG(t.a) FROM (SELECT user_id AS u, region, AVG(age) AS a, COUNT(DISTINCT note) AS d FROM people "
    "GROUP BY user_id, region) AS t JOIN orders o ON t.u = o.uid WHERE t.d > 1 GROUP BY t.region",
]
TREES = [
    "SELECT MEDIAN(income) FROM people",
    "SELECT note, QUANTILE_CONT(score, 0.9) FROM people GROUP BY note",
    "SELECT region, MEDIAN(age) FROM people GROUP BY region",
]


COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "CODEGEN_ONLY"}


def people(number: int) -> list[Row]:
    """Return rows of 40 people, some of whom lack things; one row is nobody's."""
    start, regions = datetime(2024, 1, 1), ["north", "south", "east", "west", "mars"]
    rows: list[Row] = [
        (
            *(i % 40, regions[(i * 7) % 5], float((i * 997) % 200_000), (i * 13) % 95, str((i * 31) % 100)),
            *(f"n{i % 11}", date(2024, 1, 1) + timedelta(days=(i * 5) % 360), start + timedelta(hours=i * 7)),
            *(i % 3 == 0, Decimal(i % 50) + Decimal("0.25"), Decimal(i), i * 1000),
        )
        for i in range(number)
    ]
    return [
        *rows,
        (None, "north", 1.0, *[None] * 9),
        (3, *[None] * 11),
        (4, None, None, 1, None, "2024-02-29", *[None] * 6),
    ]


def world() -> Tables:
    """Return the tables' rows, before anyone comes."""
    orders = [((i * 3) % 45, (i % 21) / 2, f"item{i % 4}", date(2024, 1, 1 + i % 28)) for i in range(150)]
    zones = [("north", "cold", 1.0), ("south", "warm", 2.0), ("east", "warm", 3.0), ("mars", None, 0.0)]
    return {"people": people(200), "orders": orders, "zones": zones}


EXTREMES = [1e308, -1e308, 5e-324, float("inf"), float("-inf"), float("nan"), -0.0, None]
TEXTS = [
    "abc",
    "",
    " ",
    "nan",
    "1e500",
    "1e-500",
    "-1e99",
    "0x12",
    "\\",
    "%",
    "'; DROP TABLE people; --",
    "é\U0001f600",
]
TEXTS += [
    "1" + "0" * 400,
    "0." + "0" * 400 + "1",
    "2023-02-29",
    "0000-01-01",
    "2024-13-01",
    "infinity",
    "${spark.app.name}",
]
MOST = {1: Decimal("9" * 38), -1: Decimal("-" + "9" * 38)}  # as texts: arithmetic would round them
PRICE = Decimal("9999999999999999.99")


def many_rows() -> Tables:
    """Return one unit's rows in hundreds of groups."""
    regions = ["north", "south", "east", "west", "new"]
    found: list[Row] = [
        (
            *(99, regions[i % 5], 1e5, 50, "99", f"n{i}", date(2024, 1, 1) + timedelta(days=i)),
            *(datetime(2024, 1, 1) + timedelta(days=i), i % 2 == 0, Decimal(i), Decimal(i), i),
        )
        for i in range(300)
    ]
    return {"people": found, "orders": [(99, 10.0, f"item{i}", date(2024, 1, 1)) for i in range(60)]}


def extreme_rows() -> Tables:
    """Return one unit's rows with the largest, the least and the strangest values."""
    found: list[Row] = []
    for sign in (1, -1):
        for value in EXTREMES:
            integers = (sign * (2**31 - 1), str(value), "x", date(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59))
            found += [(99, "north", value, *integers, None, sign * PRICE, MOST[sign], sign * (2**63 - 1))] * 3
    found += [(99, "west", 2e5, -(2**31), t, t, date(9999, 12, 31), datetime(1, 1, 1), *[None] * 4) for t in TEXTS]
    found += [(99, "", 0.0, 0, None, None, None, None, True, Decimal(0), Decimal(0), -(2**63))]
    return {"people": found + [(99, *[None] * 11)] * 20, "orders": [(99, value, None, None) for value in EXTREMES]}


INTRUDERS: dict[str, Callable[[], Tables]] = {"many rows": many_rows, "extreme rows": extreme_rows}


class OnDuckDB:
    """Tables on DuckDB."""

    words: ClassVar[dict[str, str]] = {"[text]": "VARCHAR", "[double]": "DOUBLE", "[time]": "TIMESTAMP"}
    beyond = (
        "('infinity'::DATE, 'infinity'::TIMESTAMP), ('-infinity'::DATE, '-infinity'::TIMESTAMP), "
        "('5877642-06-25 (BC)'::DATE, '290309-12-22 (BC) 00:00:00'::TIMESTAMP), "
        "('5881580-07-10'::DATE, '294247-01-10 04:00:54'::TIMESTAMP)"
    )

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        self.engine: Engine = DuckDBEngine(connection=self.connection)

    def put(self, table: str, columns: str, rows: Sequence[Row]) -> None:
        """Replace a table."""
        for there, here in self.words.items():
            columns = columns.replace(there, here)
        self.do(f"DROP TABLE IF EXISTS {table}")
        self.do(f"CREATE TABLE {table}({columns})")
        if rows:
            self.add(table, rows)

    def do(self, statement: str) -> None:
        self.connection.execute(statement)

    def add(self, table: str, rows: Sequence[Row]) -> None:
        self.connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)

    def add_dates_beyond(self) -> None:
        """Let unit 99 have dates that Python cannot hold."""
        self.do(
            f"INSERT INTO people(user_id, note, day, moment) SELECT 99, 'y', d, t FROM (VALUES {self.beyond}) v(d, t)"
        )

    def close(self) -> None:
        self.connection.close()


class OnPostgres(OnDuckDB):
    """Tables in a schema of their own, on a server that may have others."""

    words: ClassVar[dict[str, str]] = {"[text]": "TEXT", "[double]": "DOUBLE PRECISION", "[time]": "TIMESTAMP"}
    beyond = (
        "('infinity'::DATE, 'infinity'::TIMESTAMP), ('-infinity'::DATE, '-infinity'::TIMESTAMP), "
        "('4713-01-01 BC'::DATE, '4713-01-01 BC'::TIMESTAMP), ('5874897-12-31'::DATE, '294276-12-31'::TIMESTAMP)"
    )

    def __init__(self, server: str) -> None:
        import psycopg

        self.schema = f"hush_test_{uuid.uuid1().hex}"
        self.connection = psycopg.connect(server, autocommit=True)
        self.do(f"CREATE SCHEMA {self.schema}")
        self.do(f"SET search_path = {self.schema}")
        self.string = psycopg.conninfo.make_conninfo(server, options=f"-csearch_path={self.schema}")
        self.engine = PostgresEngine(self.string)

    def add(self, table: str, rows: Sequence[Row]) -> None:
        with self.connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(rows[0]))})", rows)

    def add_dates_beyond(self) -> None:
        super().add_dates_beyond()
        self.do("INSERT INTO people(user_id, note, price) VALUES (99, 'y', 'NaN')")

    def close(self) -> None:
        self.engine.close()  # type: ignore[attr-defined]
        self.do(f"DROP SCHEMA {self.schema} CASCADE")
        self.connection.close()


class OnSpark:
    """Temporary views of a session."""

    words: ClassVar[dict[str, str]] = {"[text]": "STRING", "[double]": "DOUBLE", "[time]": "TIMESTAMP_NTZ"}

    def __init__(self, session: Any) -> None:
        self.session = session
        self.engine: Engine = SparkEngine(session)
        self.schemas: dict[str, str] = {}

    def put(self, table: str, columns: str, rows: Sequence[Row]) -> None:
        for there, here in self.words.items():
            columns = columns.replace(there, here)
        self.schemas[table] = columns
        self.session.createDataFrame(list(rows), columns).createOrReplaceTempView(table)

    def add(self, table: str, rows: Sequence[Row]) -> None:
        more = self.session.createDataFrame(list(rows), self.schemas[table])
        self.session.table(table).union(more).coalesce(1).createOrReplaceTempView(table)

    def add_dates_beyond(self) -> None:
        found = [
            "SELECT 99 AS user_id, 'y' AS note, date_from_unix_date({}) AS day, "
            "CAST(timestamp_micros({}) AS TIMESTAMP_NTZ) AS moment".format(*ends)
            for ends in [(-(2**31) + 1, -(2**62)), (2**31 - 1, 2**62)]
        ]
        more = self.session.sql(" UNION ALL ".join(found))
        self.session.table("people").unionByName(more, True).createOrReplaceTempView("people")

    def close(self) -> None:
        for table in self.schemas:
            self.session.catalog.dropTempView(table)


ENGINES = [
    "duckdb",
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("spark", marks=pytest.mark.spark),
]
# Where a test takes Spark 20 seconds. That Spark computes what DuckDB does is shown in the fast suite.
SLOW_ON_SPARK = pytest.mark.parametrize(
    "host", [*ENGINES[:2], pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])], indirect=True
)
SERVICES = {"postgres": "postgres_url", "spark": "spark_session"}
MAKERS: dict[str, Callable[[Any], Any]] = {"duckdb": lambda _: OnDuckDB(), "postgres": OnPostgres, "spark": OnSpark}


@pytest.fixture(scope="module", params=ENGINES)
def host(request: pytest.FixtureRequest) -> Iterator[Any]:
    """An engine, and a way to put tables there."""
    name = request.param
    found = MAKERS[name](None if name == "duckdb" else request.getfixturevalue(SERVICES[name]))
    yield found
    found.close()


@pytest.fixture
def place(host: Any) -> Any:
    """The world, on each engine."""
    fill(host)
    return host


@pytest.fixture(scope="module")
def reference() -> OnDuckDB:
    found = OnDuckDB()
    fill(found)
    return found


def fill(host: Any) -> None:
    for table, rows in world().items():
        host.put(table, COLUMNS[table], rows)


def described(engine: Engine) -> Catalog:
    return Catalog(
        {
            "people": PrivateTable(columns=engine.columns("people"), unit="user_id", bounds=BOUNDS, keys=PUBLIC),
            "orders": PrivateTable(columns=engine.columns("orders"), unit="uid", bounds={"amount": (0, 10)}),
            "zones": PublicTable(columns=engine.columns("zones")),
        }
    )


def planned(text: str, engine: Engine, **limits: int) -> QueryPlan:
    return plan_query(text, tables=described(engine), limits=ContributionLimits(**limits))


def contents(plan: QueryPlan, engine: Engine, key: bytes) -> dict[Row, dict[str, int]]:
    groups = exact_groups(plan, engine, ranking_key=key)
    found = {group.keys: {"units": group.units, **group.sums} for group in groups}
    assert len(found) == len(groups)  # each group once
    return found


def worst(
    plan: QueryPlan, before: dict[Row, dict[str, int]], after: dict[Row, dict[str, int]]
) -> tuple[int, list[str]]:
    """Return in how many groups something changed, and which numbers changed by more than they may."""
    ranges = {"units": (0, 1), **{release.name: (release.lower, release.upper) for release in plan.releases}}
    changed, broken = 0, []
    for keys in before.keys() | after.keys():
        left, right = before.get(keys, {}), after.get(keys, {})
        moves = {name: right.get(name, 0) - left.get(name, 0) for name in ranges}
        changed += any(moves.values())
        broken += [name for name, move in moves.items() if not ranges[name][0] <= move <= ranges[name][1]]
    return changed, broken


def test_the_types_of_columns_are_the_same_to_hush(place: Any, reference: OnDuckDB) -> None:
    for table in COLUMNS:
        found, wanted = place.engine.columns(table), reference.engine.columns(table)
        assert [(n, kind_of(t)) for n, t in found.items()] == [(n, kind_of(t)) for n, t in wanted.items()]


def test_groups_are_the_same_as_on_duckdb(place: Any, reference: OnDuckDB, ranking_key: bytes) -> None:
    """Where no group is dropped: which are kept is decided by each engine's own hash."""
    for text in QUERIES:
        found, wanted = [
            contents(planned(text, engine, groups_per_unit=10_000, rows_per_unit=3), engine, ranking_key)
            for engine in (place.engine, reference.engine)
        ]
        assert found == wanted, text
        assert any(numbers["units"] for numbers in found.values()), text


@pytest.mark.spark
def test_plans_that_spark_compiles_have_the_same_groups(
    spark_session: Any, reference: OnDuckDB, ranking_key: bytes
) -> None:
    """The tests' session interprets plans, since compiling takes longer than a few rows do; clusters compile."""
    here = OnSpark(spark_session)
    fill(here)
    before = {name: spark_session.conf.get(name) for name in COMPILED}
    try:
        for name, value in COMPILED.items():
            spark_session.conf.set(name, value)
        for text in QUERIES[::6]:
            plans = [
                (planned(text, e, groups_per_unit=10_000, rows_per_unit=3), e) for e in (here.engine, reference.engine)
            ]
            found, wanted = [contents(plan, engine, ranking_key) for plan, engine in plans]
            assert found == wanted, text
    finally:
        for name, value in before.items():
            spark_session.conf.set(name, value)
        here.close()


def test_leaves_of_quantile_trees_are_the_same_as_on_duckdb(
    place: Any, reference: OnDuckDB, ranking_key: bytes
) -> None:
    for text in TREES:
        found, wanted = [
            exact_leaves(planned(text, e, groups_per_unit=10_000, rows_per_unit=10_000), 0, e, ranking_key=ranking_key)
            for e in (place.engine, reference.engine)
        ]
        assert found == wanted, text


@SLOW_ON_SPARK
@pytest.mark.parametrize("name", INTRUDERS)
def test_one_unit_changes_no_more_than_stated(name: str, place: Any, ranking_key: bytes) -> None:
    plans = [planned(text, place.engine, groups_per_unit=2, rows_per_unit=2) for text in QUERIES]
    trees = [planned(text, place.engine, groups_per_unit=2, rows_per_unit=2) for text in TREES]
    before = [contents(plan, place.engine, ranking_key) for plan in plans]
    leaves = [exact_leaves(plan, 0, place.engine, ranking_key=ranking_key) for plan in trees]
    for table, rows in INTRUDERS[name]().items():
        place.add(table, rows)
    if name == "extreme rows":
        place.add_dates_beyond()
    for plan, old in zip(plans, before, strict=True):
        changed, broken = worst(plan, old, contents(plan, place.engine, ranking_key))
        assert changed <= plan.groups_per_unit, plan.columns
        assert not broken, plan.columns
    for plan, counts in zip(trees, leaves, strict=True):
        new = exact_leaves(plan, 0, place.engine, ranking_key=ranking_key)
        moved = [keys for keys in counts.keys() | new.keys() if counts.get(keys) != new.get(keys)]
        assert len(moved) <= plan.groups_per_unit, plan.columns
        for keys in moved:
            left, right = counts.get(keys, {}), new.get(keys, {})
            assert sum(abs(right.get(leaf, 0) - left.get(leaf, 0)) for leaf in left.keys() | right.keys()) <= 2


def test_a_twin_without_the_limit_on_groups_is_caught(
    place: Any, monkeypatch: pytest.MonkeyPatch, ranking_key: bytes
) -> None:
    monkeypatch.setattr(bounded_module, "_kept", lambda *_: "SELECT * FROM hush_pairs")
    plan = planned("SELECT note, COUNT(*) FROM people GROUP BY note", place.engine, groups_per_unit=2)
    before = contents(plan, place.engine, ranking_key)
    place.add("people", many_rows()["people"])
    assert worst(plan, before, contents(plan, place.engine, ranking_key))[0] > plan.groups_per_unit


def test_constants_are_what_they_were_written_as(place: Any, ranking_key: bytes) -> None:
    """Quotes, backslashes and what an engine would replace: in a query's text, and in lists of keys."""
    odd = ["it's", "\\", "\\'", "'' OR 1=1 --", '"', "`", "${spark.app.name}", "%s", "a\nb", "\\u0041", "é\U0001f600"]
    place.put("odd", "who BIGINT, k [text]", [(i, text) for i, text in enumerate(odd)])
    columns = place.engine.columns("odd")
    listed = Catalog({"odd": PrivateTable(columns=columns, unit="who", keys={"k": odd})})
    plan = plan_query("SELECT k, COUNT(*) FROM odd GROUP BY k", tables=listed)
    assert [(g.keys, g.units) for g in exact_groups(plan, place.engine, ranking_key=ranking_key)] == [
        ((text,), 1) for text in odd
    ]
    free = Catalog({"odd": PrivateTable(columns=columns, unit="who")})
    for text in odd:
        literal = "'" + text.replace("'", "''") + "'"
        plan = plan_query(f"SELECT k, COUNT(*) FROM odd WHERE k = {literal} GROUP BY k", tables=free)
        assert [g.keys for g in exact_groups(plan, place.engine, ranking_key=ranking_key)] == [(text,)]


def test_names_are_what_they_were_written_as(host: Any, ranking_key: bytes) -> None:
    quote = "`" if host.engine.dialect == "spark" else '"'
    host.put("raw", f"u0 BIGINT, k0 [text], {quote}select x.*{quote} [double]", [(i, "c", 1.0) for i in range(5)])
    columns = host.engine.columns("raw")
    tables = Catalog({"raw": PrivateTable(columns=columns, unit="u0", bounds={"select x.*": (0, 2)})})
    plan = plan_query('SELECT k0, COUNT("select x.*") AS n FROM raw AS k0 WHERE u0 < 4 GROUP BY k0', tables=tables)
    groups = exact_groups(plan, host.engine, ranking_key=ranking_key)
    assert plan.answer((g.keys, g.sums) for g in groups) == [("c", 4)]


def test_views_answer_further_questions_and_stay_as_they_are(place: Any, ranking_key: bytes) -> None:
    views = BoundedViews(place.engine, ranking_key)
    first = planned(
        "SELECT note, COUNT(*), AVG(income), SUM(age) FROM people GROUP BY note", place.engine, groups_per_unit=2
    )
    second = planned("SELECT note, SUM(age) FROM people GROUP BY note", place.engine, groups_per_unit=2)
    wider = planned("SELECT note, SUM(price) FROM people GROUP BY note", place.engine, groups_per_unit=2)
    for plan in (first, second, wider):
        found = {group.keys: (group.units, group.sums) for group in views.groups(plan)}
        exact = exact_groups(plan, place.engine, ranking_key=ranking_key)
        assert found == {group.keys: (group.units, group.sums) for group in exact}
    place.add("people", many_rows()["people"])
    assert {group.keys: (group.units, group.sums) for group in views.groups(wider)} == found
    table = views.bounded_view(wider).table
    views.forget()
    with pytest.raises(EngineFailed):
        place.engine.columns(table)
    place.engine.drop(table)  # once more is no error


def test_a_materialised_name_is_replaced(host: Any) -> None:
    for number in (1, 2):
        host.engine.materialise("hush_x", f"SELECT {number} AS x")
        assert host.engine.run("SELECT x FROM hush_x") == [(number,)]
    host.engine.drop("hush_x")


def test_errors_do_not_quote_records(place: Any) -> None:
    with pytest.raises(HushError) as caught:
        place.engine.run("SELECT CAST(CAST(note AS DECIMAL(9, 0)) AS INT) FROM people WHERE note = 'n7'")
    assert "n7" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    with pytest.raises(EngineFailed):
        place.engine.columns("nothing")
    assert len(place.engine.run("SELECT 1 AS x FROM zones")) == 4  # it goes on


def test_a_table_is_asked_privately(place: Any) -> None:
    asked = Table(place.engine, described(place.engine), "people")
    text = "SELECT region, COUNT(DISTINCT user_id) AS n FROM people GROUP BY region"
    answer = asked.sql(text, epsilon=200.0, groups_per_unit=5, source=TestSource(1))
    assert [row[0] for row in answer.rows] == list(PUBLIC["region"])
    assert [round(row[1]) for row in answer.rows] == [8, 8, 8, 8, 2]


COMMANDS = [
    "DROP TABLE zones",
    "INSERT INTO zones VALUES ('x', 'y', 1)",
    "SELECT 1 AS x; DROP TABLE zones",
    "CREATE TABLE z(x INT)",
]


@pytest.mark.postgres
@pytest.mark.parametrize("command", [*COMMANDS, "COMMIT", "SELECT 1; COMMIT; DROP TABLE zones"])
def test_postgres_writes_nothing(command: str, postgres_url: str) -> None:
    here = OnPostgres(postgres_url)
    fill(here)
    if command != "COMMIT":
        with pytest.raises(EngineFailed):
            here.engine.run(command)
    with pytest.raises(EngineFailed):
        here.engine.materialise("x", f"SELECT 1 AS x; {command}")
    assert len(here.engine.run("SELECT * FROM zones")) == 4
    here.close()


@pytest.mark.postgres
def test_a_connection_of_postgres_stays_as_it_is(postgres_url: str) -> None:
    import psycopg

    with psycopg.connect(postgres_url, row_factory=psycopg.rows.dict_row) as connection:
        connection.execute("SET standard_conforming_strings = off")
        connection.execute("SET extra_float_digits = -3")
        connection.commit()
        engine = PostgresEngine(connection)
        assert engine.run("SELECT 'a\\', 0.1::DOUBLE PRECISION + 0.2::DOUBLE PRECISION") == [("a\\", 0.1 + 0.2)]
        engine.close()  # it was given
        assert connection.execute("SHOW standard_conforming_strings").fetchone() == {
            "standard_conforming_strings": "off"
        }
        with pytest.raises(Unsupported, match="transaction"):
            engine.run("SELECT 1")
        connection.rollback()
        assert engine.run("SELECT 1") == [(1,)]


@pytest.mark.postgres
def test_types_of_postgres_that_are_only_called_like_known_ones(postgres_url: str) -> None:
    here = OnPostgres(postgres_url)
    here.do("CREATE TYPE integer_like AS (x INT)")
    here.do("CREATE TYPE mood AS ENUM ('sad', 'glad')")
    here.do("CREATE DOMAIN small AS INT CHECK (VALUE < 10)")
    here.do(
        "CREATE TABLE t(a integer_like, b mood, c small, d int4range, e daterange, f INT[], g TIMESTAMPTZ, h INTERVAL)"
    )
    kinds = [kind_of(declared).value for declared in here.engine.columns("t").values()]
    assert kinds == ["other", "text", "integer", *["other"] * 5]
    here.close()


@pytest.mark.postgres
def test_what_postgres_is_given(postgres_url: str) -> None:
    import psycopg

    with pytest.raises(InvalidArgument, match="^connection="):
        PostgresEngine(None)
    with pytest.raises(EngineFailed) as caught:
        PostgresEngine("host=/nowhere password=secret")
    assert "secret" not in str(caught.value)
    name = f"hush_test_{uuid.uuid1().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
        with pytest.raises(Unsupported, match="UTF-8"):
            PostgresEngine(psycopg.conninfo.make_conninfo(postgres_url, dbname=name))
        connection.execute(f"DROP DATABASE {name}")


@pytest.mark.postgres
def test_units_that_a_collation_of_postgres_takes_for_one_are_two(postgres_url: str, ranking_key: bytes) -> None:
    import psycopg

    here = OnPostgres(postgres_url)
    try:
        here.do("CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    except psycopg.Error:
        here.close()
        pytest.skip("this server is built without ICU")
    here.put("visits", "who TEXT COLLATE nocase, place TEXT", [("ann", "a"), ("ANN", "b")])
    assert two_units(here.engine, ranking_key)
    here.close()


@pytest.mark.spark
def test_units_that_a_collation_of_spark_takes_for_one_are_two(spark_session: Any, ranking_key: bytes) -> None:
    if int(spark_session.version.split(".")[0]) < 4:
        pytest.skip("Spark has collations from version 4 on")
    here = OnSpark(spark_session)
    here.put("visits", "who STRING COLLATE UTF8_LCASE, place STRING", [("ann", "a"), ("ANN", "b")])
    assert spark_session.sql("SELECT COUNT(DISTINCT who) FROM visits").collect()[0][0] == 1  # to Spark they are one
    assert two_units(here.engine, ranking_key)
    here.close()


def two_units(engine: Engine, key: bytes) -> bool:
    tables = Catalog({"visits": PrivateTable(columns=engine.columns("visits"), unit="who")})
    plan = plan_query("SELECT place, COUNT(*) FROM visits GROUP BY place", tables=tables)
    return len(exact_groups(plan, engine, ranking_key=key)) == 2


@pytest.mark.spark
@pytest.mark.parametrize("command", [*COMMANDS, "SET spark.sql.ansi.enabled=false", "DROP VIEW zones"])
def test_spark_runs_no_commands(command: str, spark_session: Any) -> None:
    here = OnSpark(spark_session)
    fill(here)
    with pytest.raises(EngineFailed):
        here.engine.run(command)
    assert len(here.engine.run("SELECT * FROM zones")) == 4
    here.close()


HOSTILE = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.groupByOrdinal": "false",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.parser.quotedRegexColumnNames": "true",
}


@pytest.mark.spark
def test_a_session_of_spark_stays_as_it_is(spark_session: Any, ranking_key: bytes) -> None:
    """Plans mean the same under settings that change what texts mean, and the settings are there afterwards."""
    here = OnSpark(spark_session)
    before = {name: spark_session.conf.get(name) for name in HOSTILE}
    try:
        for name, value in HOSTILE.items():
            spark_session.conf.set(name, value)
        test_constants_are_what_they_were_written_as(here, ranking_key)
        with pytest.raises(EngineFailed):
            here.engine.run("SELECT nothing")
        assert {name: spark_session.conf.get(name) for name in HOSTILE} == HOSTILE
    finally:
        for name, value in before.items():
            spark_session.conf.set(name, value)
        here.close()


def test_what_spark_is_given() -> None:
    with pytest.raises(InvalidArgument, match="^session="):
        SparkEngine(None)


@pytest.mark.parametrize("missing", ["psycopg"])
def test_a_package_that_is_missing(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(Unsupported, match=r"hush\[postgres\]"):
        PostgresEngine("dbname=x")
