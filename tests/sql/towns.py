"""A table of 3,000 users with one row each, in three regions. Ages are 0 to 99."""

from __future__ import annotations

from typing import Any

import duckdb

from hush.data.tables.catalog import Catalog, PrivateTable
from hush.sql import Table
from hush.sql.answer.choices.limits import RequestedLimits
from hush.sql.engines.duckdb import DuckDBEngine

ONE_ROW = RequestedLimits(rows_per_unit=1, groups_per_unit=1)


def towns_connection() -> Any:
    """Return a connection with the table."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE people AS SELECT i AS user_id, ['north', 'south', 'west'][1 + i % 3] AS region, "
        "CAST(i * 37 % 100 AS DOUBLE) AS age, CAST(i AS VARCHAR) AS name FROM range(3000) AS t(i)"
    )
    return connection


def towns_table(connection: Any, **changes: Any) -> Table:
    """Return the declared table; ``changes`` replace its declarations."""
    engine = DuckDBEngine(connection=connection)
    declared = {
        "unit": "user_id",
        "bounds": {"age": (0, 128)},
        "keys": {"region": ["north", "south", "west"]},
        **changes,
    }
    catalog = Catalog({"people": PrivateTable(columns=engine.columns("people"), **declared)})
    return Table(engine, catalog, "people", ONE_ROW)
