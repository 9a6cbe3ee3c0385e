"""The differences between databases behind a connection: their column catalogs, and settings that change SQL.

Declared types are translated to those of `hush.data.tables.catalog`. Whatever is not listed here is OTHER and cannot
be used. Timestamps with a time zone are read as moments, whatever the session's time zone is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from hush.sql.engines.duckdb import collated_names
from hush.sql.engines.postgres import COLUMNS, FIX_SETTINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRules:
    """How plans run in a session of one kind of database.

    Attributes:
        columns: The query for a table's columns; {0} is its quoted name, {1} a text constant of its name.
        declared: The declared type of a column, from a row of that query.
        begin: Statements that begin a transaction which cannot write, where there are any.
        in_transaction: Whether the transaction is rolled back.
        settings: Settings that change what a plan's text means. They are fixed while it runs, and restored.
        read_setting: The statement that shows a setting.
        value_column: The position of its value in the resulting row.
        write_setting: The statement that changes one; {0} is its name and {1} its value.
    """

    columns: str
    declared: Callable[[Sequence[Any]], str]
    begin: tuple[str, ...] = ()
    in_transaction: bool = False
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    read_setting: str = ""
    value_column: int = 0
    write_setting: str = ""


def _of_duckdb(row: Sequence[Any]) -> str:
    """Return the type of a column of DuckDB from its name, type and the definition of its table."""
    name, declared, definition = row[:3]
    return "VARCHAR COLLATE" if name in collated_names(str(definition or "")) else str(declared)


_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
# Each character of these has one code point of its own: different texts stay different in Unicode.
_FAITHFUL_CHARACTER_SETS = ("utf8mb4", "utf8mb3", "utf8", "ascii", "latin1", "ucs2", "utf16", "utf16le", "utf32")


def _of_mysql(row: Sequence[Any]) -> str:
    """Return the type of a column of MySQL or MariaDB from its name, type, character set and collation."""
    declared, character_set, collation = (str(cell or "").lower() for cell in row[1:4])
    word = declared.partition("(")[0].partition(" ")[0]
    if declared.startswith("tinyint(1)"):
        return "BOOLEAN"
    if word in _INTEGERS:
        return "UBIGINT" if word == "bigint" and "unsigned" in declared else "BIGINT"
    if word in ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum"):
        return _text_of_mysql(character_set, collation)
    return {
        "decimal": "DECIMAL",
        "float": "DOUBLE",
        "double": "DOUBLE",
        "date": "DATE",
        "datetime": "TIMESTAMP",
        "timestamp": "TIMESTAMP WITH TIME ZONE",
    }.get(word, "OTHER")


def _text_of_mysql(character_set: str, collation: str) -> str:
    """Return the type of a text: PADDED if trailing spaces do not count, FOLDED if other texts are equal as well."""
    if character_set not in _FAITHFUL_CHARACTER_SETS:
        return "TEXT COLLATE"
    if not collation.endswith("_bin"):
        return "TEXT FOLDED"
    return "TEXT" if collation == "utf8mb4_0900_bin" or collation.endswith("_nopad_bin") else "TEXT PADDED"


_WORDS_OF_BIGQUERY = {
    "INT64": "BIGINT",
    "FLOAT64": "DOUBLE",
    "NUMERIC": "NUMERIC",
    "BIGNUMERIC": "NUMERIC",
    "BOOL": "BOOLEAN",
    "STRING": "TEXT",
    "DATE": "DATE",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMP": "TIMESTAMP WITH TIME ZONE",
}


def _of_bigquery(row: Sequence[Any]) -> str:
    """Return the type of a column of BigQuery from its name, type and collation."""
    _, declared, collation = row[:3]
    word = _WORDS_OF_BIGQUERY.get(str(declared).upper().partition("(")[0], "OTHER")
    return "TEXT COLLATE" if word == "TEXT" and collation not in (None, "", "NULL") else word


_WORDS_OF_SNOWFLAKE = {
    "FLOAT": "DOUBLE",
    "BOOLEAN": "BOOLEAN",
    "TEXT": "TEXT",
    "DATE": "DATE",
    "TIMESTAMP_NTZ": "TIMESTAMP",
    "TIMESTAMP_LTZ": "TIMESTAMP WITH TIME ZONE",
    "TIMESTAMP_TZ": "TIMESTAMP WITH TIME ZONE",
}


def _of_snowflake(row: Sequence[Any]) -> str:
    """Return the type of a column of Snowflake from its name, type, scale and collation. VARIANT is OTHER."""
    _, declared, scale, collation = row[:4]
    if str(declared).upper() in ("NUMBER", "DECIMAL"):
        return "BIGINT" if scale is not None and int(scale) == 0 else "DECIMAL"
    word = _WORDS_OF_SNOWFLAKE.get(str(declared).upper(), "OTHER")
    return "TEXT COLLATE" if word == "TEXT" and collation not in (None, "") else word


_WORDS_OF_DATABRICKS = {
    **dict.fromkeys(_INTEGERS, "BIGINT"),
    **dict.fromkeys(("float", "double"), "DOUBLE"),
    "decimal": "DECIMAL",
    "boolean": "BOOLEAN",
    "string": "TEXT",
    "date": "DATE",
    "timestamp_ntz": "TIMESTAMP",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
}


def _of_databricks(row: Sequence[Any]) -> str:
    """Return the type of a column of Databricks from its name and type."""
    declared = str(row[1]).lower().removesuffix(" collate utf8_binary")
    return "TEXT COLLATE" if " collate " in declared else _WORDS_OF_DATABRICKS.get(declared.partition("(")[0], "OTHER")


_MYSQL_SETTINGS = {
    "sql_mode": "'NO_ENGINE_SUBSTITUTION'",
    "sql_auto_is_null": "0",  # otherwise IS NULL can find the last row that was inserted
    "sql_select_limit": "18446744073709551615",
    "sql_big_selects": "1",
    "max_sort_length": "1024",  # how much of a text GROUP BY compares
}
_MYSQL = {
    "columns": "SELECT column_name, column_type, character_set_name, collation_name FROM information_schema.columns "
    "WHERE table_schema = DATABASE() AND table_name = {1} ORDER BY ordinal_position",
    "declared": _of_mysql,
    "begin": ("START TRANSACTION READ ONLY",),
    "in_transaction": True,
    "read_setting": "SELECT @@SESSION.{0}",
    "write_setting": "SET SESSION {0} = {1}",
}

# Time-outs are off where a plan's text or the transaction can say so: one unit with many rows could make a query fail.
RULES: Mapping[str, SessionRules] = {
    "postgres": SessionRules(
        columns=COLUMNS.replace("%s", "{2}"),
        declared=lambda row: str(row[1]),
        begin=(
            "SET TRANSACTION READ ONLY",
            FIX_SETTINGS,
            "SELECT pg_catalog.set_config('statement_timeout', '0', true)",
        ),
        in_transaction=True,
    ),
    "duckdb": SessionRules(
        columns="SELECT c.column_name, c.data_type, t.sql FROM duckdb_columns() AS c LEFT JOIN duckdb_tables() AS t "
        "ON t.table_oid = c.table_oid AND t.schema_oid = c.schema_oid AND t.database_oid = c.database_oid "
        "WHERE lower(c.table_name) = lower({1}) AND c.schema_name = current_schema() "
        "AND c.database_name = current_database() ORDER BY c.column_index",
        declared=_of_duckdb,
        in_transaction=True,
    ),
    "mysql": SessionRules(settings={**_MYSQL_SETTINGS, "max_execution_time": "0"}, **_MYSQL),  # type: ignore[arg-type]
    "mariadb": SessionRules(settings={**_MYSQL_SETTINGS, "max_statement_time": "0"}, **_MYSQL),  # type: ignore[arg-type]
    "bigquery": SessionRules(
        columns="SELECT column_name, data_type, collation_name FROM INFORMATION_SCHEMA.COLUMNS WHERE table_name = {1} "
        "ORDER BY ordinal_position",
        declared=_of_bigquery,
    ),
    "snowflake": SessionRules(
        columns="SELECT column_name, data_type, numeric_scale, collation_name FROM INFORMATION_SCHEMA.COLUMNS "
        "WHERE table_schema = CURRENT_SCHEMA() AND table_name = UPPER({1}) ORDER BY ordinal_position",
        declared=_of_snowflake,
        # Rows beyond a limit would be left out: one unit's group could take the place of another's.
        settings={"ROWS_PER_RESULTSET": "0", "STATEMENT_TIMEOUT_IN_SECONDS": "0"},
        read_setting="SHOW PARAMETERS LIKE '{0}' IN SESSION",
        value_column=1,
        write_setting="ALTER SESSION SET {0} = {1}",
    ),
    "databricks": SessionRules(
        columns="DESCRIBE TABLE {0}",
        declared=_of_databricks,
        settings={"ansi_mode": "true", "statement_timeout": "172800"},
        read_setting="SET {0}",
        value_column=1,
        write_setting="SET {0} = {1}",
    ),
}
