"""A small database on DuckDB: people, their orders and a public table. Tests add one more person to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

from hush.data.tables.catalog import Catalog, PrivateTable, PublicTable  # noqa: E402
from hush.sql.engines.duckdb import DuckDBEngine  # noqa: E402
from hush.sql.read.query import plan_query  # noqa: E402
from hush.sql.write.plan import QueryPlan  # noqa: E402
from hush.statistics import ContributionLimits  # noqa: E402

KEY = bytes(range(32))
REGIONS = ("north", "south", "east", "west", None)
PEOPLE = (
    "user_id BIGINT, region VARCHAR, income DOUBLE, age INTEGER, score VARCHAR, note VARCHAR, day DATE, moment "
    "TIMESTAMP, "
    "flag BOOLEAN, price DECIMAL(18, 2), big HUGEINT, num BIGINT"
)
ORDERS = "uid BIGINT, amount DOUBLE, item VARCHAR, day DATE"


def world() -> Any:
    """Return a connection with 40 people. Person 0 has many rows, and some columns are NULL."""
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE people({PEOPLE})")
    connection.execute(
        "INSERT INTO people SELECT i % 40, ['north','south','east','west','mars'][1 + (i * 7) % 5], (i * 997) % "
        "200000, "
        "(i * 13) % 95, CAST((i * 31) % 100 AS VARCHAR), 'n' || (i % 11), DATE '2024-01-01' + CAST((i * 5) % 360 "
        "AS INT), "
        "TIMESTAMP '2024-01-01' + INTERVAL (i * 7) HOUR, i % 3 = 0, (i % 50) + 0.25, i, i * 1000 FROM range(300) "
        "AS t(i)"
    )
    connection.execute(
        "INSERT INTO people SELECT 0, 'north', 150000, 30, '7', 'n1', DATE '2024-02-02', NULL, TRUE, 1, 1, 1 FROM "
        "range(30)"
    )
    connection.execute("INSERT INTO people(user_id, region, income) VALUES (NULL, 'north', 1), (3, NULL, NULL)")
    connection.execute(f"CREATE TABLE orders({ORDERS})")
    connection.execute(
        "INSERT INTO orders SELECT (i * 3) % 45, (i % 21) / 2, 'item' || (i % 4), DATE '2024-01-01' + CAST(i % 300 "
        "AS INT) "
        "FROM range(150) AS t(i)"
    )
    connection.execute("CREATE TABLE zones(region VARCHAR, zone VARCHAR, weight DOUBLE)")
    connection.execute(
        "INSERT INTO zones VALUES ('north', 'cold', 1), ('south', 'warm', 2), ('east', 'warm', 3), ('mars', NULL, 0)"
    )
    return connection


def catalog_of(engine: DuckDBEngine, **changes: Any) -> Catalog:
    """Return the declarations of the three tables; ``changes`` apply to people."""
    people = {
        "unit": "user_id",
        "bounds": {
            "income": (0, 200_000),
            "age": (0, 120),
            "score": (-50, 100),
            "price": (-10, 10.5),
            "num": (0, 2**40),
        },
        "keys": {"region": REGIONS, "flag": (True, False)},
        **changes,
    }
    return Catalog(
        {
            "people": PrivateTable(columns=engine.columns("people"), **people),
            "orders": PrivateTable(columns=engine.columns("orders"), unit="uid", bounds={"amount": (0, 10)}),
            "zones": PublicTable(columns=engine.columns("zones")),
        }
    )


@pytest.fixture
def connection() -> Any:
    return world()


@pytest.fixture
def engine(connection: Any) -> DuckDBEngine:
    return DuckDBEngine(connection=connection)


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return catalog_of(DuckDBEngine(connection=world()))


@pytest.fixture(scope="session")
def planned(catalog: Catalog) -> Callable[..., QueryPlan]:
    def plan(text: str, **limits: int) -> QueryPlan:
        return plan_query(text, tables=catalog, limits=ContributionLimits(**limits))

    return plan


@pytest.fixture(scope="session")
def ranking_key() -> bytes:
    return KEY


@pytest.fixture(scope="session")
def new_world() -> Callable[[], Any]:
    return world


@pytest.fixture(scope="session")
def described() -> Callable[..., Catalog]:
    return catalog_of


@pytest.fixture
def towns() -> Any:
    """Return a connection with 3,000 users of one row each, in three regions."""
    from sql.towns import towns_connection

    return towns_connection()
