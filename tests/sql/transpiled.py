"""Plans in the SQL of warehouses, executed on DuckDB after sqlglot has translated them: no account of one exists here.

sqlglot parses the text in the grammar of its dialect. What it cannot translate is replaced here, or is a macro.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.write.dialects import DIALECTS
from sql.hosts import OnDuckDB

WAREHOUSES = ("bigquery", "snowflake", "databricks", "mysql")  # MariaDB has MySQL's templates

# The texts of all of them are compared in the quick suite. Running them takes longer: two dialects are enough there.
EXECUTED = ("bigquery", *(pytest.param(name, marks=pytest.mark.slow) for name in ("snowflake", "databricks", "mysql")))


class Transpiled:
    """An engine whose plans are in the SQL of a warehouse, and whose data and queries are DuckDB's."""

    assumptions: tuple[str, ...] = ()
    grammar = "duckdb"

    def __init__(self, dialect: str, connection: Any) -> None:
        self.dialect = dialect
        self._engine = DuckDBEngine(connection=connection)
        connection.execute("CREATE OR REPLACE MACRO try_sum(x) AS SUM(x)")
        connection.execute("CREATE OR REPLACE MACRO unix_timestamp(x) AS EPOCH_US(x) / 1e6")
        connection.create_function("hush_least", lambda x, y: min(x, y), ["DOUBLE", "DOUBLE"], "DOUBLE")
        connection.create_function("hush_greatest", lambda x, y: max(x, y), ["DOUBLE", "DOUBLE"], "DOUBLE")

    def columns(self, table: str) -> dict[str, str]:
        return self._engine.columns(table)

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        return self._engine.run(translated(sql, self.dialect))


class OnWarehouse(OnDuckDB):
    """Tables on DuckDB, for plans in the SQL of a warehouse."""

    def __init__(self, dialect: str) -> None:
        super().__init__()
        self.engine: Any = Transpiled(dialect, self.connection)


def parsed(sql: str, dialect: str) -> exp.Expr:
    """Return the only statement of a text, in the grammar of a dialect."""
    (statement,) = sqlglot.parse(sql, read=DIALECTS[dialect].grammar)
    assert statement is not None
    return statement


@cache
def translated(sql: str, dialect: str) -> str:
    """Return a text in DuckDB's SQL."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)  # an expression within functions takes the parser some twenty calls per function
    try:
        return parsed(sql, dialect).transform(_for_duckdb).sql("duckdb")
    finally:
        sys.setrecursionlimit(limit)


def _for_duckdb(node: exp.Expr) -> exp.Expr:
    """Return a node for DuckDB, which compares texts byte by byte, in UTF-8."""
    replaced = node
    if isinstance(node, exp.Collate):
        replaced = node.this
    elif isinstance(node, exp.Introducer):
        replaced = node.expression
    elif isinstance(node, exp.HexString):
        return exp.Literal.string(bytes.fromhex(node.this).decode())
    elif isinstance(node, exp.ToChar) or (isinstance(node, exp.Cast) and node.to.this is exp.DType.CHARACTER_SET):
        replaced = exp.cast(node.this, "text")
    elif isinstance(node, exp.Extract):
        return _extract(node)
    elif isinstance(node, (exp.Least, exp.Greatest)):
        return _extreme(node)
    elif isinstance(node, exp.Anonymous) and node.name.upper() == "XXHASH64":
        operands = [operand.transform(_for_duckdb) for operand in node.expressions]
        return exp.func("HASH", exp.func("HASH", *operands))
    elif isinstance(node, exp.Anonymous) and node.name.upper() == "WEEKDAY":  # MySQL's Monday is 0
        date = node.expressions[0].transform(_for_duckdb)
        weekday = exp.Extract(this=exp.var("ISODOW"), expression=date)
        return exp.paren(exp.Sub(this=weekday, expression=exp.Literal.number(1)))
    return node if replaced is node else replaced.transform(_for_duckdb)


def _extreme(node: exp.Least | exp.Greatest) -> exp.Expr:
    """Return LEAST or GREATEST. With NULL, sqlglot would write each operand several times: the text grows too much."""
    limit = node.expressions[0]
    number = limit.this if isinstance(limit, exp.Neg) else limit
    if isinstance(number, exp.Literal) and "e" in number.name:  # a limit of arithmetic, which keeps NULL
        operands = [operand.transform(_for_duckdb) for operand in (node.this, limit)]
        return exp.func(f"hush_{node.key}", *operands)
    node.set("ignore_nulls", True)  # these operands are never NULL, or the dialect skips NULL
    return node


def _extract(node: exp.Extract) -> exp.Expr:
    """Return a part of a date, by DuckDB's name. BigQuery's Sunday is 1, and DuckDB's is 0."""
    name, date = node.name.upper(), node.expression.transform(_for_duckdb)
    other = {"ISOWEEK": "WEEK", "DOW_ISO": "ISODOW", "DAYOFWEEK": "DOW"}.get(name, name)
    part = exp.Extract(this=exp.var(other), expression=date)
    return exp.paren(exp.Add(this=part, expression=exp.Literal.number(1))) if name == "DAYOFWEEK" else part
