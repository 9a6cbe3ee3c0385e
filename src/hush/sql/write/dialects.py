"""How each engine writes what hush asks of it. Every template is total: whatever the data are, it does not raise.

Numbers are doubles between -1e100 and 1e100 where columns are read; what is not (NaN, infinities) is missing there.
DuckDB's and Spark's arithmetic on doubles does not raise. PostgreSQL's does, on overflow and underflow: there every
result is brought back to magnitudes in [1e-100, 1e100], 0 or NULL, so that no operation can leave the range of doubles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from types import MappingProxyType
from typing import Any

from hush.data.tables.catalog import LARGEST, ColumnKind
from hush.errors import InvalidArgument
from hush.sql.syntax.relation import ScannedColumn

_COMMON = {
    "neg": "(-{0})",
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "div": "({0} / NULLIF({1}, 0))",
    "mod": "({0} % NULLIF({1}, 0))",
    "abs": "ABS({0})",
    "floor": "FLOOR({0})",
    "ceil": "CEIL({0})",
    "sqrt": "(CASE WHEN {0} >= 0 THEN SQRT({0}) END)",
    "ln": "(CASE WHEN {0} > 0 THEN LN({0}) END)",
    "exp": "(CASE WHEN {0} < -200 THEN 0 WHEN {0} <= 200 THEN EXP({0}) END)",
    "nullif": "NULLIF({0}, {1})",
    "eq": "({0} = {1})",
    "ne": "({0} <> {1})",
    "lt": "({0} < {1})",
    "le": "({0} <= {1})",
    "gt": "({0} > {1})",
    "ge": "({0} >= {1})",
    "and": "({0} AND {1})",
    "or": "({0} OR {1})",
    "not": "(NOT {0})",
    "is_null": "({0} IS NULL)",
    "is_true": "COALESCE({0}, FALSE)",
    "is_false": "COALESCE(NOT {0}, FALSE)",
    "between": "({0} BETWEEN {1} AND {2})",
    "lower": "LOWER({0})",
    "upper": "UPPER({0})",
    "trim": "TRIM({0})",
    "min_of": "MIN({0})",
    "max_of": "MAX({0})",
    "number": "CAST({0} AS [double])",
    "length": "CAST(LENGTH({0}) AS [double])",
    "bool_number": "CAST(CASE WHEN {0} THEN 1 WHEN NOT {0} THEN 0 END AS [double])",
    "to_text": "CAST({0} AS [text])",
    "to_time": "CAST({0} AS [time])",
    "time_date": "CAST({0} AS DATE)",
    "count_rows": "CAST(COUNT(*) AS [double])",
    "count_of": "CAST(COUNT({0}) AS [double])",
    "distinct_of": "CAST(COUNT(DISTINCT {0}) AS [double])",
    "to_number": "(CASE WHEN TRY_CAST({0} AS [double]) BETWEEN -1e100 AND 1e100 THEN TRY_CAST({0} AS [double]) END)",
    "to_date": "(CASE WHEN TRY_CAST({0} AS DATE) BETWEEN DATE '0001-01-08' AND DATE '9999-12-31' "
    "THEN TRY_CAST({0} AS DATE) END)",
}

_KEPT = (
    "(SELECT CASE WHEN ABS(s.v) < 1e-100 THEN 0 WHEN ABS(s.v) <= 1e100 THEN s.v END "
    "FROM (SELECT [inner] AS v OFFSET 0) AS s)"  # OFFSET 0 keeps the planner from writing the operands twice
)
_POSTGRES_NUMBER = r"'^[+-]?[0-9]{{1,90}}([.][0-9]{{0,90}})?([eE][+-]?[0-9]{{1,2}})?$'"
# Dates that exist, leap days included: a cast of any other text raises.
_POSTGRES_DATE = (
    "'^([0-9]{{4}}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
    "|([0-9]{{2}}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)$'"
)
_POSTGRES = {
    "add": _KEPT.replace("[inner]", "{0} + {1}"),
    "sub": _KEPT.replace("[inner]", "{0} - {1}"),
    "mul": _KEPT.replace("[inner]", "{0} * {1}"),
    "div": _KEPT.replace("[inner]", "{0} / NULLIF({1}, 0)"),
    "mod": "CAST(MOD(CAST({0} AS NUMERIC), NULLIF(CAST({1} AS NUMERIC), 0)) AS [double])",
    "to_number": "(CASE WHEN TRIM({0}) ~ " + _POSTGRES_NUMBER + " THEN "
    "CASE WHEN CAST(TRIM({0}) AS NUMERIC) BETWEEN -1e100 AND 1e100 THEN CAST(ROUND(CAST(TRIM({0}) AS NUMERIC), 100) "
    "AS [double]) END END)",
    "to_date": "(CASE WHEN TRIM({0}) ~ "
    + _POSTGRES_DATE
    + " AND TRIM({0}) !~ '^0000' THEN CAST(TRIM({0}) AS DATE) END)",
}


# Spark's are integers of 64 bits, whose sums could overflow and raise.
_SPARK = {"floor": "CAST(FLOOR({0}) AS [double])", "ceil": "CAST(CEIL({0}) AS [double])"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """One engine's way of writing a plan.

    Attributes:
        name: As sqlglot calls it.
        double: Its type of double-precision numbers.
        text: Its type of text.
        time: Its type of timestamps that know no time zone.
        quote: What encloses a name.
        templates: How each operation is written.
        ranking: A hash of the parts in {0}, of which {1} is the same as text, separated.
        tries: Whether it has TRY_CAST.
        escapes: Whether a backslash escapes within a text constant.
        collate: What makes comparisons of text exact.
    """

    name: str
    double: str
    text: str
    time: str
    quote: str
    ranking: str
    tries: bool
    escapes: bool
    collate: str
    templates: Mapping[str, str]

    def identifier(self, name: str) -> str:
        """Return a name, quoted."""
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def constant(self, value: Any, kind: ColumnKind) -> str:
        """Return a constant."""
        if value is None:
            return "NULL"
        if kind is ColumnKind.BOOL:
            return "TRUE" if value else "FALSE"
        if kind is ColumnKind.INT:
            return str(int(value)) if value >= 0 else f"({int(value)})"
        if kind is ColumnKind.FLOAT:
            return self.real(float(value))
        return self._other(value, kind)

    def real(self, value: float) -> str:
        """Return a number, in double precision."""
        return f"CAST({value!r} AS {self.double})"

    def in_range(self, number: str) -> str:
        """Return a number that later arithmetic cannot make raise: as small as 0, or missing, beyond what it takes."""
        return f"(CASE WHEN ABS({number}) < 1e-100 THEN 0 WHEN ABS({number}) <= 1e100 THEN {number} END)"

    def try_cast(self, text: str, target: str) -> str:
        """Return a cast that gives NULL where it has no value."""
        return f"{'TRY_CAST' if self.tries else 'CAST'}({text} AS {target})"

    def scanned(self, column: ScannedColumn, raw: str) -> str:
        """Return a column as its kind. What the kind cannot hold is missing, and never an error."""
        if column.kind is ColumnKind.INT:
            return self.try_cast(raw, "BIGINT")
        if column.kind is ColumnKind.FLOAT:
            return self._scanned_number(column, raw)
        if column.kind in (ColumnKind.DATE, ColumnKind.TIME):
            name = "DATE" if column.kind is ColumnKind.DATE else self.time
            found = f"CAST({raw} AS {name})" if not self.tries else f"TRY_CAST({raw} AS {name})"
            # Engines differ beyond these years, and infinite dates have no parts.
            last = "9999-12-31" if column.kind is ColumnKind.DATE else "9999-12-31 00:00:00"
            first = "0001-01-08" if column.kind is ColumnKind.DATE else "0001-01-08 00:00:00"
            return f"(CASE WHEN {found} BETWEEN {name} '{first}' AND {name} '{last}' THEN {found} END)"
        return self.exact_text(raw) if column.kind is ColumnKind.TEXT else raw

    def identity(self, column: ScannedColumn, raw: str) -> str:
        """Return a unit's column such that equal units, and only they, have equal values."""
        return raw if column.kind is ColumnKind.INT else self.exact_text(raw)

    def exact_text(self, raw: str) -> str:
        """Return a column as text that is compared byte by byte.

        A collation that takes two units' names for equal would bound them as one, and one of them could move the other.
        """
        return f"(CAST({raw} AS {self.text}){self.collate})"

    def _scanned_number(self, column: ScannedColumn, raw: str) -> str:
        if column.declared.upper().startswith(("VARCHAR", "TEXT", "STRING", "CHAR")):
            return self.templates["to_number"].format(raw)
        guard = f"{raw} BETWEEN {-LARGEST!r} AND {LARGEST!r}"
        if not self.tries:  # PostgreSQL: compared before the cast, and tiny numbers are 0
            return f"(CASE WHEN ABS({raw}) < 1e-100 THEN 0 WHEN {guard} THEN CAST({raw} AS {self.double}) END)"
        found = f"TRY_CAST({raw} AS {self.double})"
        return f"(CASE WHEN {found} BETWEEN -1e100 AND 1e100 THEN {found} END)"

    def _other(self, value: Any, kind: ColumnKind) -> str:
        if kind is ColumnKind.TIME and isinstance(value, datetime):
            return f"{self.time} '{value.isoformat(sep=' ')}'"
        if kind is ColumnKind.DATE and isinstance(value, date):
            return f"DATE '{value.isoformat()}'"
        return self.quoted(str(value))

    def quoted(self, text: str) -> str:
        """Return a text constant."""
        if self.escapes:  # Spark would read two quotes as the end of one text and the beginning of another
            return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + text.replace("'", "''") + "'"


def _dialect(name: str, double: str, text: str, time: str, quote: str, ranking: str, **changes: Any) -> Dialect:
    own: Mapping[str, str] = changes.pop("own", {})
    found = {**_COMMON, **own}
    typed = {
        op: form.replace("[double]", double).replace("[text]", text).replace("[time]", time)
        for op, form in found.items()
    }
    return Dialect(name, double, text, time, quote, ranking, **changes, templates=MappingProxyType(typed))


# DuckDB combines the hashes of several values so simply that some groups would be kept more often: hashed once more.
DIALECTS: Mapping[str, Dialect] = {
    "duckdb": _dialect(
        "duckdb",
        "DOUBLE",
        "VARCHAR",
        "TIMESTAMP",
        '"',
        "HASH(HASH({0}))",
        tries=True,
        escapes=False,
        collate=" COLLATE C",
    ),
    "spark": _dialect(
        "spark",
        "DOUBLE",
        "STRING",
        "TIMESTAMP_NTZ",
        "`",
        "XXHASH64({0})",
        tries=True,
        escapes=True,
        collate="",
        own=_SPARK,
    ),
    "postgres": _dialect(
        "postgres",
        "DOUBLE PRECISION",
        "TEXT",
        "TIMESTAMP",
        '"',
        "HASHTEXTEXTENDED({1}, 0)",
        tries=False,
        escapes=False,
        collate=' COLLATE "C"',
        own=_POSTGRES,
    ),
}


def dialect_named(name: str) -> Dialect:
    """Return a dialect by its name."""
    if name not in DIALECTS:
        raise InvalidArgument("dialect", name, "one of " + ", ".join(DIALECTS))
    return DIALECTS[name]
