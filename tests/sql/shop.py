"""A shop on DuckDB: buyers, their orders, the lines of orders, and what came back. Lines do not name buyers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb

from hush.data.tables.catalog import Catalog, PrivateTable, PublicTable
from hush.sql import Through
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.read.query import plan_query
from hush.sql.write.plan import QueryPlan
from hush.statistics import ContributionLimits

COLUMNS = {
    "buyers": "who BIGINT, town VARCHAR, age INTEGER",
    "orders": "id BIGINT, buyer BIGINT, shop VARCHAR, price DOUBLE",
    "lines": "order_id BIGINT, line VARCHAR, part BIGINT, amount DOUBLE",
    "returned": "line VARCHAR, reason VARCHAR",
    "parts": "part BIGINT, colour VARCHAR, weight DOUBLE",
}
NEW = 99  # the unit that tests add
Rows = Sequence[tuple[Any, ...]]


def shop() -> Any:
    """Return a connection with 30 buyers, of whom number 0 has no orders and some orders have no lines."""
    connection = duckdb.connect()
    for table, columns in COLUMNS.items():
        connection.execute(f"CREATE TABLE {table}({columns})")
    connection.execute("INSERT INTO buyers SELECT i, 'town' || i % 3, 20 + (i * 7) % 60 FROM range(30) AS t(i)")
    connection.execute(
        "INSERT INTO orders SELECT 100 + i, 1 + (i * 7) % 29, 'shop' || i % 4, (i * 13) % 50 FROM range(90) AS t(i)"
    )
    connection.execute(
        "INSERT INTO lines SELECT 100 + (i * 3) % 80, 'line' || i, i % 6, (i * 7 + i // 80) % 20 "
        "FROM range(200) AS t(i)"
    )
    connection.execute("INSERT INTO returned SELECT 'line' || i * 4, 'reason' || i % 3 FROM range(40) AS t(i)")
    connection.execute("INSERT INTO parts SELECT i, ['red', 'blue'][1 + i % 2], i / 2 FROM range(6) AS t(i)")
    # Rows of nobody: without an order, and without a buyer.
    connection.execute("INSERT INTO lines VALUES (NULL, 'x1', 1, 1), (7, 'x2', 1, 1), (500, 'x3', 1, 1)")
    connection.execute("INSERT INTO orders VALUES (500, NULL, 'shop1', 1)")
    return connection


def shop_catalog(engine: DuckDBEngine) -> Catalog:
    """Return the declarations. Lines refer to orders, and what came back to lines."""
    columns = {name: engine.columns(name) for name in COLUMNS}
    to_orders, to_lines = Through("order_id", to="orders", key="id"), Through("line", to="lines", key="line")
    return Catalog(
        {
            "buyers": PrivateTable(columns=columns["buyers"], unit="who", bounds={"age": (0, 100)}),
            "orders": PrivateTable(columns=columns["orders"], unit="buyer", bounds={"price": (0, 50)}),
            "lines": PrivateTable(columns=columns["lines"], unit=to_orders, bounds={"amount": (0, 20)}),
            "returned": PrivateTable(columns=columns["returned"], unit=to_lines),
            "parts": PublicTable(columns=columns["parts"]),
        }
    )


def shop_plan(text: str, engine: DuckDBEngine, **limits: int) -> QueryPlan:
    """Return the plan of a query about the shop."""
    return plan_query(text, tables=shop_catalog(engine), limits=ContributionLimits(**limits))


# FROM, the condition that WHERE then needs, and a key.
FROM_CLAUSES = [
    ("lines l", None, "l.part"),
    ("orders o, lines l", "l.order_id = o.id", "o.shop"),
    ("lines l, buyers b, orders o", "b.who = o.buyer AND o.id = l.order_id", "b.town"),
    ("orders o LEFT JOIN lines l ON o.id = l.order_id AND l.amount > 5", None, "o.shop"),
    ("(SELECT order_id AS id, part, amount FROM lines) AS l JOIN orders o USING (id)", None, "o.shop"),
    ("orders o NATURAL JOIN (SELECT order_id AS id, part, amount FROM lines) AS l", None, "o.shop"),
    ("lines l JOIN parts q ON l.part = q.part", "q.weight >= 0", "q.colour"),
    ("returned r", None, "r.reason"),
    ("returned r, lines l", "r.line = l.line", "r.reason"),
    ("lines l, lines m", "l.order_id = m.order_id AND l.amount < m.amount", "m.part"),
    ("buyers b", "EXISTS (SELECT * FROM orders o, lines l WHERE o.buyer = b.who AND l.order_id = o.id)", "b.town"),
    ("orders o", "o.id IN (SELECT order_id FROM lines GROUP BY order_id HAVING SUM(amount) > 9)", "o.shop"),
    ("orders o", "o.id NOT IN (SELECT order_id FROM lines WHERE amount > 3)", "o.shop"),
    ("orders o", "o.id NOT IN (SELECT m.id FROM orders m WHERE m.shop IN ('shop0', 'shop5'))", "o.price"),
    ("lines l", "l.amount > (SELECT 0.9 * AVG(m.amount) FROM lines m WHERE m.order_id = l.order_id)", "l.part"),
    ("orders o", "(SELECT COUNT(*) FROM lines l WHERE l.order_id = o.id AND l.amount < o.price) > 2", "o.price"),
    ("lines l", "l.part IN (SELECT q.part FROM parts q WHERE q.colour = 'red' AND q.weight < l.amount)", "l.part"),
    ("lines l", "l.part NOT IN (SELECT part FROM parts WHERE weight > 1)", "l.part"),
    ("buyers b", "NOT EXISTS (SELECT * FROM orders o WHERE o.buyer = b.who AND o.price > b.age)", "b.town"),
    ("(SELECT buyer, shop FROM orders UNION ALL SELECT who, town FROM buyers) AS t(buyer, shop)", None, "t.shop"),
    (
        "(SELECT order_id, part FROM lines UNION ALL SELECT id, 7 AS part FROM orders UNION ALL "
        "SELECT order_id, part FROM lines WHERE amount > 9) AS t",
        None,
        "t.part",
    ),
    (
        "(SELECT order_id, part, amount, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY amount, line) AS n, "
        "SUM(amount) OVER (PARTITION BY order_id ORDER BY amount) AS s FROM lines) AS l",
        "n <= 2 AND s < 30",
        "l.part",
    ),
    (
        "(SELECT buyer, shop, price, LAG(price) OVER (PARTITION BY buyer ORDER BY id) AS last, RANK() OVER "
        "(PARTITION BY buyer, shop ORDER BY price DESC) AS place FROM orders) AS o",
        "COALESCE(last, 50) >= price - 20 AND place < 3",
        "o.shop",
    ),
    ("(SELECT order_id, COUNT(*) AS n FROM lines GROUP BY order_id) AS t", "n > 1", "t.n"),
]
QUERIES = [
    f"SELECT {key} AS k, COUNT(*) AS n FROM {from_clause} WHERE {condition or '1 = 1'} GROUP BY {key}"
    for from_clause, condition, key in FROM_CLAUSES
]


def hostile_rows(connection: Any, seed: int) -> Iterator[tuple[str, Rows]]:
    """Yield tables with rows of a new unit: with keys of its own, of others and none, each many times.

    Lines that refer to an order of someone else as well are not among them: they are rows of that unit, too.
    """
    others = [
        row[0] for row in connection.execute("SELECT id FROM orders WHERE buyer <> ? ORDER BY 1", [NEW]).fetchall()
    ]
    taken, fresh = others[seed % 7 :: 2], list(range(1000, 1004))
    lines = [(1000 + i % 9, f"new{i % 11}", i % 7, [1e9, 3.0, None, -1.0][i % 4]) for i in range(60)]
    yield "buyers", [(NEW, f"town{i % 5}", i) for i in range(5)]
    yield (
        "orders",
        [(key, NEW, f"shop{i % 6}", [1e300, 7.0, None][i % 3]) for i, key in enumerate([*taken, *fresh * 3])],
    )
    yield "orders", [(None, NEW, "shop0", 1.0)] * 3
    lines += [(1000, f"line{i}", 1, 2.0) for i in range(0, 80, 3)]  # names of lines of others
    yield "lines", [*lines, (None, "new1", 1, 1.0), (-5, "new2", 1, 1.0)]
    yield "returned", [(f"new{i % 15}", f"reason{i % 4}") for i in range(40)] + [(None, "reason1"), ("?", "reason1")]


def delete_rows_of_nobody(connection: Any) -> None:
    """Remove the rows that have no unit, which plain SQL would count."""
    connection.execute("DELETE FROM orders WHERE buyer IS NULL")
    delete(connection, -1)


def insert(connection: Any, table: str, rows: Rows) -> None:
    """Add rows to a table, in one statement: DuckDB takes a millisecond for each."""
    row = f"({', '.join('?' * len(rows[0]))})"
    connection.execute(
        f"INSERT INTO {table} VALUES {', '.join([row] * len(rows))}", [cell for row in rows for cell in row]
    )


def delete(connection: Any, who: int) -> None:
    """Remove a unit: its own rows, then those that refer to none of the rows that are left."""
    connection.execute(f"DELETE FROM buyers WHERE who = {who}")
    connection.execute(f"DELETE FROM orders WHERE buyer = {who}")
    for table, column, parent, key in (("lines", "order_id", "orders", "id"), ("returned", "line", "lines", "line")):
        known = f"SELECT {key} FROM {parent} WHERE {key} IS NOT NULL"
        connection.execute(f"DELETE FROM {table} WHERE {column} IS NULL OR {column} NOT IN ({known})")
