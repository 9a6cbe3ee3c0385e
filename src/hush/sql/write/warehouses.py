"""The SQL dialects of BigQuery, Snowflake, Databricks, MySQL and MariaDB: data for `hush.sql.write.dialects`.

hush's tests have no account with any of the warehouses, so the generated SQL relies on as little as possible:

- **Arithmetic never leaves the range of doubles.** Every result stops at 1e101 (`_limited`), so no operation can
  overflow, whether or not the engine raises then. Numbers beyond 1e100 count as missing where they are released.
- **Functions get arguments that they accept**, and not only within a branch of CASE: engines may evaluate both.
- **Text has a largest length**, so that joining texts cannot exceed the limit of an engine. What is longer is cut.
  Units are hashed with SHA-256 instead, so that long ids stay distinct.
- **Sums cannot overflow.** They are computed in decimals of 38 digits or more. Those of Databricks are NULL if they do.
- **Settings of a session do not matter** for dates and for quoting, as far as the text itself can fix their meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hush.data.tables.catalog import ColumnKind
from hush.sql.write.patterns import DATE_PATTERN, NUMBER_PATTERN

_BEYOND = 1e101  # larger than any number of a plan
# A power of two, so that multiplying with it and dividing by it again is exact.
_SHRINK = 2.0**-664


def _limited(result: str, limit: float = _BEYOND) -> str:
    """Return a result, or the limit that it exceeds. NULL stays NULL.

    The result is written once. CASE and NULLIF would compute it twice, and nested results exponentially often.
    """
    return f"GREATEST(LEAST({result}, {limit!r}), {-limit!r})"


# Dividing by the smallest double takes a number beyond the range, unless it is made small before.
_QUOTIENT = _limited(f"{{0}} * {_SHRINK!r} / NULLIF({{1}}, 0)", _BEYOND * _SHRINK)
_ARITHMETIC = {
    "add": _limited("{0} + {1}"),
    "sub": _limited("{0} - {1}"),
    "mul": _limited("{0} * {1}"),
    "div": f"({_QUOTIENT} * {1 / _SHRINK!r})",
    "sqrt": "SQRT(CASE WHEN {0} >= 0 THEN {0} END)",
    "ln": "LN(CASE WHEN {0} > 0 THEN {0} END)",
    "exp": "(CASE WHEN {0} < -200 THEN 0 ELSE EXP(CASE WHEN {0} BETWEEN -200 AND 200 THEN {0} END) END)",
}
# Where LEAST and GREATEST are NULL if an operand is, missing ones become a number that never wins. There is no such
# text or date.
_NEVER_LEAST, _NEVER_GREATEST = 2**63 - 1, -(2**63 - 1)
_EXTREMES = {
    "least_operand": f"COALESCE({{0}}, {_BEYOND!r})",
    "least": f"NULLIF(LEAST({{0}}), {_BEYOND!r})",
    "greatest_operand": f"COALESCE({{0}}, {-_BEYOND!r})",
    "greatest": f"NULLIF(GREATEST({{0}}), {-_BEYOND!r})",
    "least_integer_operand": f"COALESCE({{0}}, {_NEVER_LEAST})",
    "least_integer": f"NULLIF(LEAST({{0}}), {_NEVER_LEAST})",
    "greatest_integer_operand": f"COALESCE({{0}}, {_NEVER_GREATEST})",
    "greatest_integer": f"NULLIF(GREATEST({{0}}), {_NEVER_GREATEST})",
}
_UNORDERED = frozenset({ColumnKind.TEXT, ColumnKind.DATE, ColumnKind.TIME, ColumnKind.INSTANT, ColumnKind.BOOL})
# Engines may convert numbers to integers before they test them, so those that are none are NULL before.
_INTEGER = "CAST(CASE WHEN ABS({0}) <= 9007199254740992 THEN {0} END AS [integer])"
_ALL_OR_ANY = {
    op: f"({function}(CASE WHEN {{0}} THEN 1 WHEN NOT {{0}} THEN 0 END) = 1)"
    for op, function in (("all_of", "MIN"), ("any_of", "MAX"))
}
# MySQL cannot split texts such that a part that is not there is an empty text. Adding to the last days of the calendar
# raises on some of the five. MariaDB 10.11 returns wrong values of several windows with different PARTITION BY.
_UNWRITTEN = frozenset({"shift", "regexp_match", "regexp_extract", "regexp_replace", "regexp_replace_first"})
_LARGEST_TEXT = 10_000
# MySQL sorts and groups by the first 1024 bytes of a text (max_sort_length): what is longer would equal other texts.
_LARGEST_TEXT_OF_MYSQL = 250

_BIGQUERY = {
    **_ARITHMETIC,
    **_EXTREMES,
    "mod": "CAST(MOD(SAFE_CAST({0} AS BIGNUMERIC), NULLIF(SAFE_CAST({1} AS BIGNUMERIC), 0)) AS FLOAT64)",
    **_ALL_OR_ANY,
    "ilike": "(LOWER({0}) LIKE LOWER({1}))",
    "trim": "TRIM({0}, ' ')",
    "ltrim": "LTRIM({0}, ' ')",
    "rtrim": "RTRIM({0}, ' ')",
    "position": "CAST(STRPOS({0}, {1}) AS FLOAT64)",
    "days_between": "CAST(DATE_DIFF({0}, {1}, DAY) AS FLOAT64)",
    "integer_text": f"CAST({_INTEGER.replace('[integer]', 'INT64')} AS STRING)",
    "to_number": "(CASE WHEN SAFE_CAST({0} AS FLOAT64) BETWEEN -1e100 AND 1e100 THEN SAFE_CAST({0} AS FLOAT64) END)",
    "to_date": "(CASE WHEN SAFE_CAST({0} AS DATE) BETWEEN DATE '0001-01-08' AND DATE '9999-12-31' "
    "THEN SAFE_CAST({0} AS DATE) END)",
    "int_column": "{0}",
    "date_column": "{0}",
    "time_column": "{0}",
    "instant_column": "DATETIME({0}, 'UTC')",
    "add_seconds": "DATETIME_ADD({0}, INTERVAL {1} SECOND)",
    "number_column": "(CASE WHEN SAFE_CAST({0} AS FLOAT64) BETWEEN -1e100 AND 1e100 "
    "THEN SAFE_CAST({0} AS FLOAT64) END)",
    "text_column": f"LEFT(CAST({{0}} AS STRING), {_LARGEST_TEXT})",
    "text_unit": "TO_HEX(SHA256(CAST({0} AS STRING)))",
    "exact_unit": "CAST({0} AS STRING)",
    "hash": "TO_HEX(SHA256({0}))",
    "integer": "CAST({0} AS INT64)",
    "sum": "SUM(CAST({0} AS NUMERIC))",  # of INT64, it raises when it overflows
    "partition_number": "CAST({0} AS STRING)",  # PARTITION BY takes no FLOAT64
    "joined_part": "{0}",  # what is joined is cut afterwards
    "join_texts": f"LEFT(CONCAT({{0}}, {{1}}), {_LARGEST_TEXT})",
    "join_present": f"LEFT(COALESCE(ARRAY_TO_STRING([{{1}}], {{0}}), ''), {_LARGEST_TEXT})",  # skips NULL
    "split_part": "COALESCE(SPLIT({0}, {1})[SAFE_ORDINAL({2})], CASE WHEN {0} IS NOT NULL THEN '' END)",
    "public_list": "UNNEST([{0}]) AS {1}",
    "public_first": "STRUCT({0} AS i, {1} AS k)",
    "public_next": ", STRUCT({0} AS i, {1} AS k)",
    **{f"part_{part}": f"EXTRACT({part.upper()} FROM {{0}})" for part in ("year", "quarter", "month", "day")},
    **{f"part_{part}": f"EXTRACT({part.upper()} FROM {{0}})" for part in ("hour", "minute", "dayofyear")},
    "part_week": "EXTRACT(ISOWEEK FROM {0})",
    "part_isodow": "(MOD(EXTRACT(DAYOFWEEK FROM {0}) + 5, 7) + 1)",  # 1 is Sunday
    **{
        f"truncate_{window}": f"DATETIME_TRUNC(CAST({{0}} AS DATETIME), {window.upper()})"
        for window in ("hour", "day", "month", "quarter", "year")
    },
    "truncate_week": "DATETIME_TRUNC(CAST({0} AS DATETIME), ISOWEEK)",
}

_SNOWFLAKE = {
    **_ARITHMETIC,
    **_ALL_OR_ANY,
    "position": "CAST(CHARINDEX({1}, {0}) AS DOUBLE)",
    "days_between": "CAST(DATEDIFF(DAY, {1}, {0}) AS DOUBLE)",
    "integer_text": f"CAST({_INTEGER.replace('[integer]', 'NUMBER(38, 0)')} AS VARCHAR)",
    "to_date": "(CASE WHEN TRY_TO_DATE({0}, 'YYYY-MM-DD') BETWEEN TO_DATE('0001-01-08', 'YYYY-MM-DD') "
    "AND TO_DATE('9999-12-31', 'YYYY-MM-DD') THEN TRY_TO_DATE({0}, 'YYYY-MM-DD') END)",
    "date_literal": "TO_DATE('{0}', 'YYYY-MM-DD')",
    "time_literal": "TO_TIMESTAMP_NTZ('{0}')",
    "int_column": "(CASE WHEN {0} BETWEEN -9223372036854775808 AND 9223372036854775807 THEN {0} END)",
    # TRY_CAST takes texts only. A cast of numbers, dates or timestamps to these types does not fail.
    "date_column": "CAST({0} AS DATE)",
    "time_column": "CAST({0} AS TIMESTAMP_NTZ)",
    "instant_column": "CAST(CONVERT_TIMEZONE('UTC', {0}) AS TIMESTAMP_NTZ)",
    "add_seconds": "DATEADD(SECOND, {1}, {0})",
    "number_column": "(CASE WHEN CAST({0} AS DOUBLE) BETWEEN -1e100 AND 1e100 THEN CAST({0} AS DOUBLE) END)",
    "text_column": f"LEFT(CAST({{0}} AS VARCHAR), {_LARGEST_TEXT})",
    "text_unit": "SHA2(CAST({0} AS VARCHAR), 256)",
    "exact_unit": "CAST({0} AS VARCHAR)",
    "hash": "SHA2({0}, 256)",
    "joined_part": "{0}",  # what is joined is cut afterwards
    "join_texts": f"LEFT({{0}} || {{1}}, {_LARGEST_TEXT})",
    "join_present": f"LEFT(ARRAY_TO_STRING(ARRAY_CONSTRUCT_COMPACT({{1}}), {{0}}), {_LARGEST_TEXT})",
    "date_text": "TO_CHAR({0}, 'YYYY-MM-DD')",
    "least": "LEAST_IGNORE_NULLS({0})",
    "greatest": "GREATEST_IGNORE_NULLS({0})",
    **{f"part_{part}": f"EXTRACT({part.upper()} FROM {{0}})" for part in ("year", "quarter", "month", "day")},
    **{f"part_{part}": f"EXTRACT({part.upper()} FROM {{0}})" for part in ("hour", "minute")},
    "part_week": "WEEKISO({0})",
    "part_dayofyear": "DAYOFYEAR({0})",
    "part_isodow": "DAYOFWEEKISO({0})",
    # Which day begins a week of DATE_TRUNC is a setting of the session.
    "truncate_week": "DATEADD(DAY, 1 - DAYOFWEEKISO({0}), DATE_TRUNC('DAY', CAST({0} AS TIMESTAMP_NTZ)))",
    **{
        f"truncate_{window}": f"DATE_TRUNC('{window.upper()}', CAST({{0}} AS TIMESTAMP_NTZ))"
        for window in ("hour", "day", "month", "quarter", "year")
    },
}

_DATABRICKS = {
    "sum": "TRY_SUM({0})",  # NULL where SUM raises
    "text_column": f"LEFT(CAST({{0}} AS STRING), {_LARGEST_TEXT})",
    "joined_part": "{0}",  # what is joined is cut afterwards
    "join_texts": f"LEFT(CONCAT({{0}}, {{1}}), {_LARGEST_TEXT})",
    "join_present": f"LEFT(CONCAT_WS({{0}}, {{1}}), {_LARGEST_TEXT})",
    "integer_text": f"CAST({_INTEGER.replace('[integer]', 'BIGINT')} AS STRING)",
}

_FIRST_OF_MONTH = "DATE_SUB(DATE({0}), INTERVAL DAYOFMONTH({0}) - 1 DAY)"
_MYSQL = {
    **_ARITHMETIC,
    **_EXTREMES,
    "ilike": "(LOWER({0}) LIKE LOWER({1}))",
    **_ALL_OR_ANY,
    "length": "CAST(CHAR_LENGTH({0}) AS DOUBLE)",
    "position": "CAST(LOCATE({1}, {0}) AS DOUBLE)",
    "days_between": "CAST(DATEDIFF({0}, {1}) AS DOUBLE)",
    "integer_text": f"(CONVERT(CAST({_INTEGER.replace('[integer]', 'SIGNED')} AS CHAR) USING utf8mb4)[collation])",
    "nulls_first": "({0} IS NULL) DESC, {0} {1}",
    "nulls_last": "({0} IS NULL), {0} {1}",
    "to_number": f"(CASE WHEN TRIM({{0}}) REGEXP {NUMBER_PATTERN} THEN CASE WHEN CAST(TRIM({{0}}) AS DOUBLE) "
    "BETWEEN -1e100 AND 1e100 THEN CAST(TRIM({0}) AS DOUBLE) END END)",
    "to_date": f"(CASE WHEN TRIM({{0}}) REGEXP {DATE_PATTERN} AND TRIM({{0}}) NOT LIKE '0000%' "
    "THEN CAST(TRIM({0}) AS DATE) END)",
    "to_text": "(CONVERT(CAST({0} AS CHAR) USING utf8mb4)[collation])",
    "date_text": "(CONVERT(CAST({0} AS CHAR) USING utf8mb4)[collation])",
    "bool_text": "(CASE WHEN {0} THEN (_utf8mb4'true'[collation]) WHEN NOT {0} THEN (_utf8mb4'false'[collation]) END)",
    "time_date": "DATE({0})",  # CAST rounds half a day's last second up to the next day
    "time_literal": "CAST('{0}' AS DATETIME(6))",
    "text_literal": "(_utf8mb4{0}[collation])",
    "hexadecimal": " x'{0}'",  # the same under every sql_mode and character set of the connection
    "bool_column": "({0} <> 0)",
    "int_column": "CAST({0} AS SIGNED)",
    # Dates such as 2024-00-15 and 2024-02-31 can be stored.
    "date_column": "(CASE WHEN DAYOFMONTH({0}) > 0 AND {0} <= LAST_DAY({0}) THEN {0} END)",
    "time_column": "(CASE WHEN DAYOFMONTH({0}) > 0 AND DATE({0}) <= LAST_DAY({0}) THEN CAST({0} AS DATETIME(6)) END)",
    # The number of seconds since 1970 that is stored, which does not depend on the session. Year 0 is stored as 0.
    "instant_column": "(CASE WHEN DAYOFMONTH({0}) > 0 THEN "
    "DATE_ADD(CAST('1970-01-01' AS DATETIME(6)), INTERVAL UNIX_TIMESTAMP({0}) SECOND) END)",
    "add_seconds": "DATE_ADD({0}, INTERVAL {1} SECOND)",
    "number_column": "(CASE WHEN {0} BETWEEN -1e100 AND 1e100 THEN CAST({0} AS DOUBLE) END)",
    "text_column": f"(LEFT(CONVERT({{0}} USING utf8mb4), {_LARGEST_TEXT_OF_MYSQL})[collation])",
    "text_unit": "SHA2(CONVERT({0} USING utf8mb4), 256)",
    "padded_unit": "SHA2(CONVERT(TRIM(TRAILING ' ' FROM {0}) USING utf8mb4), 256)",
    "exact_unit": "CAST({0} AS CHAR)",
    "hash": "SHA2({0}, 256)",
    "integer": "CAST({0} AS SIGNED)",
    "same": "{0} <=> {1}",
    "joined_part": "{0}",  # what is joined is cut afterwards
    "join_texts": f"LEFT(CONCAT({{0}}, {{1}}), {_LARGEST_TEXT_OF_MYSQL})",
    "join_present": f"LEFT(CONCAT_WS({{0}}, {{1}}), {_LARGEST_TEXT_OF_MYSQL})",
    "public_list": "({0}) AS {1}",
    "public_first": "SELECT {0} AS i, {1} AS k",
    "public_next": " UNION ALL SELECT {0}, {1}",
    **{f"part_{part}": f"{part.upper()}({{0}})" for part in ("year", "quarter", "month", "hour", "minute")},
    "part_day": "DAYOFMONTH({0})",
    "part_dayofyear": "DAYOFYEAR({0})",
    "part_week": "WEEKOFYEAR({0})",
    "part_isodow": "(WEEKDAY({0}) + 1)",
    "truncate_hour": "CAST(DATE_ADD(CAST(DATE({0}) AS DATETIME(6)), INTERVAL HOUR({0}) HOUR) AS DATETIME(6))",
    "truncate_day": "CAST(DATE({0}) AS DATETIME(6))",
    "truncate_week": "CAST(DATE_SUB(DATE({0}), INTERVAL WEEKDAY({0}) DAY) AS DATETIME(6))",
    "truncate_month": f"CAST({_FIRST_OF_MONTH} AS DATETIME(6))",
    "truncate_quarter": f"CAST(DATE_SUB({_FIRST_OF_MONTH}, INTERVAL MOD(MONTH({{0}}) - 1, 3) MONTH) AS DATETIME(6))",
    "truncate_year": "CAST(DATE_SUB(DATE({0}), INTERVAL DAYOFYEAR({0}) - 1 DAY) AS DATETIME(6))",
}
_MYSQL_OPTIONS: Mapping[str, Any] = {
    "grammar": "mysql",
    "double": "DOUBLE",
    "text": "CHAR",
    "time": "DATETIME(6)",
    "integers": ("SIGNED", "SIGNED", "SIGNED"),
    "quote": "`",
    "ranking": "SHA2(CONCAT({2}), 256)",
    "unordered": _UNORDERED,
    "missing": _UNWRITTEN | {"split_part"},
}
_PYTHON_ESCAPES = {"'": "\\'", "\\": "\\\\", "\n": "\\n", "\r": "\\r"}

# The arguments and the templates of each dialect, by its name. Databricks has the templates of Spark besides its own.
WAREHOUSES: Mapping[str, tuple[Mapping[str, Any], Mapping[str, str]]] = {
    "bigquery": (
        {
            "double": "FLOAT64",
            "text": "STRING",
            "time": "DATETIME",
            "integers": ("INT64", "INT64", "INT64"),
            "quote": "`",
            "ranking": "SHA256(CONCAT({2}))",
            "escapes": _PYTHON_ESCAPES,
            "unordered": _UNORDERED,
            "missing": _UNWRITTEN,
        },
        _BIGQUERY,
    ),
    "snowflake": (
        {
            "double": "DOUBLE",
            "text": "VARCHAR",
            "time": "TIMESTAMP_NTZ",
            "ranking": "SHA2(CONCAT({2}), 256)",
            "escapes": {"'": "''", "\\": "\\\\"},
            "upper_names": True,
            "missing": _UNWRITTEN,
        },
        _SNOWFLAKE,
    ),
    "databricks": (
        {
            "double": "DOUBLE",
            "text": "STRING",
            "time": "TIMESTAMP_NTZ",
            "quote": "`",
            "ranking": "XXHASH64({0})",
            "escapes": {"'": "\\'", "\\": "\\\\"},
            "missing": _UNWRITTEN,
        },
        _DATABRICKS,
    ),
    "mysql": ({**_MYSQL_OPTIONS, "collation": " COLLATE utf8mb4_0900_bin"}, _MYSQL),
    "mariadb": (
        {
            **_MYSQL_OPTIONS,
            "collation": " COLLATE utf8mb4_nopad_bin",
            "missing": _MYSQL_OPTIONS["missing"] | {"window"},
        },
        _MYSQL,
    ),
}
