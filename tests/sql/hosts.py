"""The same tables on DuckDB, PostgreSQL and Spark, for the tests that every engine has to pass."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar

import duckdb

from hush.data.tables.catalog import Catalog, PrivateTable, PublicTable
from hush.errors import Unsupported
from hush.sql.engines.connections import ConnectionEngine
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.engine import Engine
from hush.sql.engines.postgres import PostgresEngine
from hush.sql.engines.spark import SparkEngine
from hush.sql.engines.views import exact_groups, exact_leaves
from hush.sql.read.query import plan_query
from hush.sql.syntax.releases import Quantity
from hush.sql.write.plan import QueryPlan
from hush.statistics import ContributionLimits, TotalLimits

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
    "SELECT COUNT(DISTINCT note), COUNT(DISTINCT CASE WHEN age > 9 THEN user_id END), COUNT(DISTINCT price) "
    "FROM people",
    "SELECT region, COUNT(DISTINCT income), COUNT(DISTINCT moment) FILTER (WHERE flag) FROM people GROUP BY region",
    "SELECT p.note, COUNT(*), COUNT(DISTINCT o.item || p.region) FROM people p JOIN orders o ON p.user_id = o.uid "
    "GROUP BY p.note",
    "SELECT LAST_DAY(day) AS a, moment - INTERVAL 4000 YEAR AS b, day + 1461000 AS c, day + INTERVAL 13 MONTH AS d, "
    "COUNT(DISTINCT day - CAST(moment AS DATE)) FROM people GROUP BY a, b, c, d",
    "SELECT SPLIT_PART(note, 'a', 2) AS a, REPLACE(note, '1', '') AS b, CONCAT_WS('-', note, region) AS c, RIGHT(note, "
    "2) AS d, STRPOS(note, 'a') AS e, SIGN(income) AS f, ROUND(LOG(10, income), 6) AS g, COUNT(*) FROM people "
    "GROUP BY ALL",
    "SELECT region, flag, COUNT(*), COUNT(DISTINCT age) FROM people GROUP BY ROLLUP (region, flag)",
    "SELECT a, b, c, d, COUNT(*) FROM (SELECT user_id, BOOL_OR(flag) AS a, BOOL_AND(age > 3) AS b, MAX(flag) AS c, "
    "MIN(age > 3) AS d FROM people GROUP BY user_id) AS t GROUP BY a, b, c, d",
    "SELECT note, region, COUNT(*), SUM(age) FROM people GROUP BY GROUPING SETS ((note), (region), ())",
    "SELECT CORR(income, age), COVAR_SAMP(price, score), REGR_SLOPE(age, num) FROM people",
    "SELECT SUM(income) / SUM(age), COUNT_IF(flag), AVG(age) FILTER (WHERE note LIKE 'n1%') FROM people",
    "SELECT note, flag, SUM(income * age), COUNT(*) FILTER (WHERE age > 9) FROM people GROUP BY ALL",
    "SELECT o.item, SUM(p.age), COUNT(*) FROM people p, orders o, zones z WHERE p.user_id = o.uid AND "
    "z.region = p.region GROUP BY o.item",
    "SELECT p.note, COUNT(*), SUM(o.amount) FROM orders o RIGHT JOIN people p ON p.user_id = o.uid GROUP BY p.note",
    "WITH a AS (SELECT * FROM people WHERE age > 3), b AS (SELECT user_id, MAX(age) AS top FROM a GROUP BY user_id) "
    "SELECT a.note, COUNT(*) FROM a, b WHERE a.user_id = b.user_id AND a.age < b.top GROUP BY a.note",
    "SELECT p.note, COUNT(*), SUM(p.age) FROM people p WHERE EXISTS (SELECT * FROM orders o WHERE o.uid = p.user_id "
    "AND o.amount < p.age) AND p.region NOT IN (SELECT region FROM zones WHERE weight > 1) OR p.age > (SELECT "
    "0.5 * AVG(q.age) + MIN(q.age) / 2 FROM people q WHERE q.user_id = p.user_id) GROUP BY p.note",
    "SELECT k, COUNT(*), SUM(a) FROM (SELECT uid, item AS k, amount AS a, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY "
    "day DESC) AS n, LAG(amount) OVER (PARTITION BY uid ORDER BY amount) AS l, SUM(amount) OVER (PARTITION BY uid) AS "
    "s FROM orders UNION ALL SELECT user_id, note, income, 1.0, income, 2.0 FROM people WHERE user_id IN (SELECT uid "
    "FROM orders)) AS t WHERE n < 4 AND s > l GROUP BY k",
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
    "SELECT CASE WHEN age < 18 THEN 'minor' WHEN age < 65 THEN 'adult' ELSE 'old' END AS g, SUM(income) FROM people "
    "GROUP BY g",
    "SELECT SUM(LEAST(GREATEST(income * income / (age - 30), -5), 5)) FROM people WHERE SQRT(income) > 10 OR "
    "LN(age) < 3",
    "SELECT SUM(LEAST(GREATEST(EXP(age) - POW(num, 8), 0), 1)), COUNT(*) FROM people WHERE ABS(num) % 7 < 5",
    "SELECT SUM(CASE WHEN note LIKE 'n1%' THEN 1 ELSE 0 END) FROM people WHERE CAST(score AS DOUBLE) > 10",
    "SELECT SUBSTRING(UPPER(note), 1, 2) || region AS k, COUNT(*) FROM people GROUP BY k",
    "SELECT p.region, SUM(o.amount), COUNT(*) FROM people p JOIN orders o ON p.user_id = o.uid GROUP BY p.region",
    "SELECT o.item, COUNT(*), AVG(o.amount) FROM people p LEFT JOIN orders o ON p.user_id = o.uid AND o.amount > 1 "
    "GROUP BY o.item",
    "SELECT note, COUNT(*) FROM (SELECT user_id, note FROM people) AS p JOIN (SELECT user_id, age FROM people) AS q "
    "USING (user_id) WHERE q.age > 20 GROUP BY note",
    "SELECT z.zone, COUNT(*) FROM people p JOIN zones z ON p.region = z.region GROUP BY z.zone",
    "SELECT z.zone, SUM(p.age) FROM zones z CROSS JOIN people p WHERE z.weight < p.age GROUP BY z.zone",
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


def people(number: int) -> list[Row]:
    """Return rows of 40 people, some with missing values, and one row without a unit."""
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
    """Return the rows of the tables, before a unit is added."""
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
    "1" + "0" * 400,
    "0." + "0" * 400 + "1",
    "2023-02-29",
    "0000-01-01",
    "2024-13-01",
    "infinity",
    "${spark.app.name}",
]
LARGEST = {1: Decimal("9" * 38), -1: Decimal("-" + "9" * 38)}  # from text, as arithmetic would round them
PRICE = Decimal("9999999999999999.99")


def many_rows() -> Tables:
    """Return one unit's rows in hundreds of groups."""
    regions = ["north", "south", "east", "west", "new"]
    rows: list[Row] = [
        (
            *(99, regions[i % 5], 1e5, 50, "99", f"n{i}", date(2024, 1, 1) + timedelta(days=i)),
            *(datetime(2024, 1, 1) + timedelta(days=i), i % 2 == 0, Decimal(i), Decimal(i), i),
        )
        for i in range(300)
    ]
    return {"people": rows, "orders": [(99, 10.0, f"item{i}", date(2024, 1, 1)) for i in range(60)]}


def extreme_rows() -> Tables:
    """Return one unit's rows with the largest, smallest and oddest values."""
    rows: list[Row] = []
    for sign in (1, -1):
        for value in EXTREMES:
            integers = (sign * (2**31 - 1), str(value), "x", date(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59))
            rows += [(99, "north", value, *integers, None, sign * PRICE, LARGEST[sign], sign * (2**63 - 1))] * 3
    rows += [(99, "west", 2e5, -(2**31), t, t, date(9999, 12, 31), datetime(1, 1, 1), *[None] * 4) for t in TEXTS]
    rows += [(99, "", 0.0, 0, None, None, None, None, True, Decimal(0), Decimal(0), -(2**63))]
    return {"people": rows + [(99, *[None] * 11)] * 20, "orders": [(99, value, None, None) for value in EXTREMES]}


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
        for placeholder, word in self.words.items():
            columns = columns.replace(placeholder, word)
        self.execute(f"DROP TABLE IF EXISTS {table}")
        self.execute(f"CREATE TABLE {table}({columns})")
        if rows:
            self.add(table, rows)

    def execute(self, statement: str) -> None:
        self.connection.execute(statement)

    def add(self, table: str, rows: Sequence[Row]) -> None:
        self.connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)

    def add_dates_beyond(self) -> None:
        """Give unit 99 dates that Python cannot represent."""
        self.execute(
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
        self.execute(f"CREATE SCHEMA {self.schema}")
        self.execute(f"SET search_path = {self.schema}")
        self.string = psycopg.conninfo.make_conninfo(server, options=f"-csearch_path={self.schema}")
        self.engine = PostgresEngine(self.string)

    def add(self, table: str, rows: Sequence[Row]) -> None:
        with self.connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(rows[0]))})", rows)

    def add_dates_beyond(self) -> None:
        super().add_dates_beyond()
        self.execute("INSERT INTO people(user_id, note, price) VALUES (99, 'y', 'NaN')")

    def close(self) -> None:
        self.engine.close()  # type: ignore[attr-defined]
        self.execute(f"DROP SCHEMA {self.schema} CASCADE")
        self.connection.close()


class OnMariaDB(OnDuckDB):
    """Tables in a database of their own, through SQLAlchemy. MariaDB has no numbers that are not finite."""

    words: ClassVar[dict[str, str]] = {"[text]": "TEXT", "[double]": "DOUBLE", "[time]": "DATETIME(6)"}

    def __init__(self, address: str) -> None:
        import sqlalchemy

        self.schema = f"hush_test_{uuid.uuid1().hex}"
        server = sqlalchemy.create_engine(address)
        with server.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {self.schema} CHARACTER SET utf8mb4")
        server.dispose()
        self.pool = sqlalchemy.create_engine(sqlalchemy.make_url(address).set(database=self.schema))
        self.engine: Any = ConnectionEngine(self.pool)
        self.engine.grammar = "duckdb"

    def execute(self, statement: str) -> None:
        with self.pool.connect() as connection:
            connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
            connection.commit()

    def add(self, table: str, rows: Sequence[Row]) -> None:
        finite = [tuple(None if isinstance(x, float) and not abs(x) < math.inf else x for x in row) for row in rows]
        with self.pool.connect() as connection:
            places = ", ".join(["%s"] * len(rows[0]))
            connection.exec_driver_sql(f"INSERT INTO {table} VALUES ({places})", finite)
            connection.commit()

    def add_dates_beyond(self) -> None:
        """Give unit 99 dates that are none, which MariaDB stores if it is told to."""
        with self.pool.connect() as connection:
            connection.exec_driver_sql("SET sql_mode = 'ALLOW_INVALID_DATES'")
            for day in ("0000-00-00", "2024-00-15", "2024-02-31", "2024-03-00", "0000-01-01"):
                insert = "INSERT INTO people(user_id, note, day, moment) VALUES (99, 'y', %s, %s)"
                connection.exec_driver_sql(insert, (day, day + " 23:59:59.999999"))
            connection.commit()
            connection.invalidate()

    def close(self) -> None:
        self.execute(f"DROP DATABASE {self.schema}")
        self.pool.dispose()


class OnSpark:
    """Temporary views of a session."""

    words: ClassVar[dict[str, str]] = {"[text]": "STRING", "[double]": "DOUBLE", "[time]": "TIMESTAMP_NTZ"}

    def __init__(self, session: Any) -> None:
        self.session = session
        self.engine: Engine = SparkEngine(session)
        self.schemas: dict[str, str] = {}

    def put(self, table: str, columns: str, rows: Sequence[Row]) -> None:
        for placeholder, word in self.words.items():
            columns = columns.replace(placeholder, word)
        self.schemas[table] = columns
        self.session.createDataFrame(list(rows), columns).createOrReplaceTempView(table)

    def add(self, table: str, rows: Sequence[Row]) -> None:
        more = self.session.createDataFrame(list(rows), self.schemas[table])
        self.session.table(table).union(more).coalesce(1).createOrReplaceTempView(table)

    def add_dates_beyond(self) -> None:
        selects = [
            "SELECT 99 AS user_id, 'y' AS note, date_from_unix_date({}) AS day, "
            "CAST(timestamp_micros({}) AS TIMESTAMP_NTZ) AS moment".format(*ends)
            for ends in [(-(2**31) + 1, -(2**62)), (2**31 - 1, 2**62)]
        ]
        more = self.session.sql(" UNION ALL ".join(selects))
        self.session.table("people").unionByName(more, True).createOrReplaceTempView("people")

    def close(self) -> None:
        for table in self.schemas:
            self.session.catalog.dropTempView(table)


def fill(host: Any) -> None:
    """Create the tables."""
    for table, rows in world().items():
        host.put(table, COLUMNS[table], rows)


def described(engine: Engine) -> Catalog:
    """Return the declarations of the tables."""
    return Catalog(
        {
            "people": PrivateTable(columns=engine.columns("people"), unit="user_id", bounds=BOUNDS, keys=PUBLIC),
            "orders": PrivateTable(columns=engine.columns("orders"), unit="uid", bounds={"amount": (0, 10)}),
            "zones": PublicTable(columns=engine.columns("zones")),
        }
    )


def planned(text: str, engine: Engine, **limits: int) -> QueryPlan:
    """Return the plan of a query, which is written in the engine's own dialect, or in its grammar."""
    kind = TotalLimits if "rows_in_total" in limits else ContributionLimits
    grammar = getattr(engine, "grammar", engine.dialect)
    return plan_query(text, tables=described(engine), limits=kind(**limits), dialect=grammar)


def planned_alike(text: str, engine: Engine) -> QueryPlan:
    """Return a plan that drops no group and no distinct value: engines choose them by hashes of their own."""
    plan = planned(text, engine, groups_per_unit=10_000, rows_per_unit=3)
    return planned(text, engine, groups_per_unit=10_000, rows_per_unit=10_000) if plan.distinct_counts else plan


def is_written(plan: QueryPlan, engine: Engine) -> bool:
    """Return whether the engine's dialect has all operations of a plan, which may be planned for another dialect."""
    try:
        plan.sql(engine.dialect, ranking_key=bytes(16))
    except Unsupported:
        return False
    return True


def total_changes(plan: QueryPlan, before: dict[str, dict[Any, int]], after: dict[str, dict[Any, int]]) -> list[str]:
    """Return the names of the numbers that changed by more than a unit may add to all groups together."""
    groups = min(plan.groups_per_unit, plan.rows_per_unit)
    most = {release.name: release.sensitivity for release in plan.releases}
    counted_once = (Quantity.UNITS, Quantity.DISTINCT)
    most |= {r.name: min(groups * r.upper, plan.rows_per_unit) for r in plan.releases if r.quantity in counted_once}
    most |= {"units": groups} | {f"tree {index}": plan.rows_per_unit for index in range(len(plan.trees))}
    changes = {
        name: sum(abs(after[name].get(g, 0) - before[name].get(g, 0)) for g in before[name].keys() | after[name].keys())
        for name in before
    }
    return [name for name, change in changes.items() if change > most[name]]


def numbers_by_name(plan: QueryPlan, engine: Engine, key: bytes) -> dict[str, dict[Any, int]]:
    """Return what the plan reads, by release and group; leaves count as groups of their tree."""
    groups = exact_groups(plan, engine, ranking_key=key)
    numbers = {release.name: {g.keys: g.sums[release.name] for g in groups} for release in plan.releases}
    numbers["units"] = {group.keys: group.units for group in groups}
    for index in range(len(plan.trees)):
        leaves = exact_leaves(plan, index, engine, ranking_key=key)
        numbers[f"tree {index}"] = {(keys, leaf): n for keys, tree in leaves.items() for leaf, n in tree.items()}
    return numbers


def contents(plan: QueryPlan, engine: Engine, key: bytes) -> dict[Row, dict[str, int]]:
    """Return the exact numbers of each group, by its keys."""
    groups = exact_groups(plan, engine, ranking_key=key)
    by_keys = {group.keys: {"units": group.units, **group.sums} for group in groups}
    assert len(by_keys) == len(groups)  # no group twice
    return by_keys


def largest_change(
    plan: QueryPlan, before: dict[Row, dict[str, int]], after: dict[Row, dict[str, int]]
) -> tuple[int, list[str]]:
    """Return how many groups changed, and the names of the numbers that changed by more than their bound."""
    ranges = {"units": (0, 1), **{release.name: (release.lower, release.upper) for release in plan.releases}}
    changed, broken = 0, []
    for keys in before.keys() | after.keys():
        left, right = before.get(keys, {}), after.get(keys, {})
        moves = {name: right.get(name, 0) - left.get(name, 0) for name in ranges}
        changed += any(moves.values())
        broken += [name for name, move in moves.items() if not ranges[name][0] <= move <= ranges[name][1]]
    return changed, broken


def keeps_two_units(engine: Engine, key: bytes) -> bool:
    """Return whether two units whose ids are equal under a collation are bounded as two."""
    # The columns are declared here, because an engine may report a collated column as one that cannot be a unit.
    tables = Catalog({"visits": PrivateTable(columns={"who": "VARCHAR", "place": "VARCHAR"}, unit="who")})
    plan = plan_query("SELECT place, COUNT(*) FROM visits GROUP BY place", tables=tables)
    return len(exact_groups(plan, engine, ranking_key=key)) == 2


COMMANDS = [
    "DROP TABLE zones",
    "INSERT INTO zones VALUES ('x', 'y', 1)",
    "SELECT 1 AS x; DROP TABLE zones",
    "CREATE TABLE z(x INT)",
]


def check_constants(host: Any, ranking_key: bytes) -> None:
    """Check that constants reach the engine as written, in queries and in keys: quotes, backslashes, placeholders."""
    odd = ["it's", "\\", "\\'", "'' OR 1=1 --", '"', "`", "${spark.app.name}", "%s", "a\nb", "\\u0041", "é\U0001f600"]
    host.put("odd", "who BIGINT, k [text]", [(i, text) for i, text in enumerate(odd)])
    columns = host.engine.columns("odd")
    listed = Catalog({"odd": PrivateTable(columns=columns, unit="who", keys={"k": odd})})
    plan = plan_query("SELECT k, COUNT(*) FROM odd GROUP BY k", tables=listed)
    assert [(g.keys, g.units) for g in exact_groups(plan, host.engine, ranking_key=ranking_key)] == [
        ((text,), 1) for text in odd
    ]
    free = Catalog({"odd": PrivateTable(columns=columns, unit="who")})
    for text in odd:
        literal = "'" + text.replace("'", "''") + "'"
        plan = plan_query(f"SELECT k, COUNT(*) FROM odd WHERE k = {literal} GROUP BY k", tables=free)
        assert [g.keys for g in exact_groups(plan, host.engine, ranking_key=ranking_key)] == [(text,)]
