"""How each engine writes constants, columns and operations.

Every template is total: it has a value, or NULL, whatever the data are. An operation that failed on some row would
reveal that row.

Columns of numbers are read as doubles between -1e100 and 1e100. All other values, such as NaN and infinity, are NULL.
DuckDB and Spark compute with doubles without raising. PostgreSQL raises on overflow and underflow, so its templates
bring every result back to 0, to a magnitude in [1e-100, 1e100] or to NULL. No operation on such numbers leaves the
range of doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from types import MappingProxyType
from typing import Any

from hush.data.tables.catalog import LARGEST, ColumnKind
from hush.errors import InvalidArgument
from hush.sql.syntax.relation import ScannedColumn

# {0}, {1}, ... are the operands; [double], [text] and [time] the dialect's types.
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
    "like": "({0} LIKE {1})",
    "ilike": "({0} ILIKE {1})",
    "clamp": "(CASE WHEN {0} < {1} THEN {1} WHEN {0} > {2} THEN {2} ELSE {0} END)",
    "lower": "LOWER({0})",
    "upper": "UPPER({0})",
    "trim": "TRIM({0})",
    "ltrim": "LTRIM({0})",
    "rtrim": "RTRIM({0})",
    "position": "CAST(STRPOS({0}, {1}) AS [double])",
    "days_between": "CAST(({0} - {1}) AS [double])",
    "min_of": "MIN({0})",
    "max_of": "MAX({0})",
    "all_of": "BOOL_AND({0})",
    "any_of": "BOOL_OR({0})",
    "number": "CAST({0} AS [double])",
    "length": "CAST(LENGTH({0}) AS [double])",
    "bool_number": "CAST(CASE WHEN {0} THEN 1 WHEN NOT {0} THEN 0 END AS [double])",
    "to_text": "CAST({0} AS [text])",
    "integer_text": "(CASE WHEN ABS({0}) <= 9007199254740992 THEN CAST(CAST({0} AS BIGINT) AS [text]) END)",
    "to_time": "CAST({0} AS [time])",
    "time_date": "CAST({0} AS DATE)",
    "count_rows": "CAST(COUNT(*) AS [double])",
    "count_of": "CAST(COUNT({0}) AS [double])",
    "distinct_of": "CAST(COUNT(DISTINCT {0}) AS [double])",
    "to_number": "(CASE WHEN TRY_CAST({0} AS [double]) BETWEEN -1e100 AND 1e100 THEN TRY_CAST({0} AS [double]) END)",
    "to_date": "(CASE WHEN TRY_CAST({0} AS DATE) BETWEEN DATE '0001-01-08' AND DATE '9999-12-31' "
    "THEN TRY_CAST({0} AS DATE) END)",
}

# Brings a result back into range. OFFSET 0 keeps PostgreSQL's planner from inlining, and so repeating, the operands.
_IN_RANGE = (
    "(SELECT CASE WHEN ABS(s.v) < 1e-100 THEN 0 WHEN ABS(s.v) <= 1e100 THEN s.v END "
    "FROM (SELECT [inner] AS v OFFSET 0) AS s)"
)
_POSTGRES_NUMBER = r"'^[+-]?[0-9]{{1,90}}([.][0-9]{{0,90}})?([eE][+-]?[0-9]{{1,2}})?$'"
# Matches exactly the dates that exist, with leap days by the Gregorian rule: casting any other text raises.
_POSTGRES_DATE = (
    "'^([0-9]{{4}}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
    "|([0-9]{{2}}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)$'"
)

# The parts of Unicode that have letters in two cases, after ASCII.
_CASED_BLOCKS = (
    (0x80, 0x3000),
    (0xA600, 0xAC00),
    (0xFF00, 0xFFF0),
    (0x10400, 0x11900),
    (0x16E00, 0x17000),
    (0x1E900, 0x1EA00),
)


def _postgres_case(function: str, convert: Callable[[str], str]) -> str:
    """Return the template of LOWER or UPPER on PostgreSQL, for every letter that has one counterpart in Unicode.

    Text has the collation "C", under which PostgreSQL converts ASCII letters only. What other collations a server has,
    and what they convert, differs from server to server.
    """
    pairs = [(chr(code), convert(chr(code))) for first, last in _CASED_BLOCKS for code in range(first, last)]
    pairs = [(letter, other) for letter, other in pairs if letter != other and len(other) == 1]
    before, after = ("".join(side) for side in zip(*pairs, strict=True))
    # Few texts contain such a letter, and TRANSLATE compares each character with the whole list. Regular expressions
    # and TRANSLATE raise on texts of more than 256 MB.
    translated = f"TRANSLATE({function}({{0}}), '{before}', '{after}')"
    is_long = "OCTET_LENGTH({0}) > 100000000"
    plain = f"{function}({{0}})"
    return f"(CASE WHEN {is_long} THEN {plain} WHEN {{0}} ~ '[{before}]' THEN {translated} ELSE {plain} END)"


_POSTGRES_LOWER = _postgres_case("LOWER", str.lower)
_POSTGRES = {
    "lower": _POSTGRES_LOWER,
    "upper": _postgres_case("UPPER", str.upper),
    "ilike": f"({_POSTGRES_LOWER} LIKE {_POSTGRES_LOWER.replace('{0}', '{1}')})",
    "add": _IN_RANGE.replace("[inner]", "{0} + {1}"),
    "sub": _IN_RANGE.replace("[inner]", "{0} - {1}"),
    "mul": _IN_RANGE.replace("[inner]", "{0} * {1}"),
    "div": _IN_RANGE.replace("[inner]", "{0} / NULLIF({1}, 0)"),
    "mod": "CAST(MOD(CAST({0} AS NUMERIC), NULLIF(CAST({1} AS NUMERIC), 0)) AS [double])",
    "to_number": "(CASE WHEN TRIM({0}) ~ " + _POSTGRES_NUMBER + " THEN "
    "CASE WHEN CAST(TRIM({0}) AS NUMERIC) BETWEEN -1e100 AND 1e100 THEN CAST(ROUND(CAST(TRIM({0}) AS NUMERIC), 100) "
    "AS [double]) END END)",
    "to_date": "(CASE WHEN TRIM({0}) ~ "
    + _POSTGRES_DATE
    + " AND TRIM({0}) !~ '^0000' THEN CAST(TRIM({0}) AS DATE) END)",
}
_SPARK = {
    "position": "CAST(INSTR({0}, {1}) AS [double])",
    "days_between": "CAST(DATEDIFF({0}, {1}) AS [double])",
}
# Spark's FLOOR and CEIL return 64-bit integers, whose sums could overflow and raise. Doubles from 2^52 on are integers.
_SPARK |= {
    op: f"(CASE WHEN ABS({{0}}) < 4503599627370496 THEN CAST({op.upper()}({{0}}) AS [double]) ELSE {{0}} END)"
    for op in ("floor", "ceil")
}


@dataclass(frozen=True, slots=True)
class Dialect:
    r"""The SQL of one engine.

    Attributes:
        name: The dialect's name in sqlglot.
        double: The type of double-precision numbers.
        text: The type of text.
        time: The type of timestamps without a time zone.
        quote: The character that encloses a name.
        ranking: A template for a hash. {0} is a list of columns, and {1} the same columns joined to one text.
        has_try_cast: Whether it has TRY_CAST.
        backslash_escapes: Whether a backslash escapes a character in a text constant.
        collation: A suffix that makes comparisons of text exact, byte by byte.
        templates: How each operation is written.

    >>> [DIALECTS[name].constant("it's", ColumnKind.TEXT) for name in ("duckdb", "spark")]
    ["'it''s'", "'it\\'s'"]
    >>> DIALECTS["postgres"].real(0.5)
    'CAST(0.5 AS DOUBLE PRECISION)'
    """

    name: str
    double: str
    text: str
    time: str
    quote: str
    ranking: str
    has_try_cast: bool
    backslash_escapes: bool
    collation: str
    templates: Mapping[str, str]

    def identifier(self, name: str) -> str:
        """Return a quoted name."""
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def constant(self, value: Any, kind: ColumnKind) -> str:
        """Return the text of a constant of this kind."""
        if value is None:
            return "NULL"
        if kind is ColumnKind.BOOL:
            return "TRUE" if value else "FALSE"
        if kind is ColumnKind.INT:
            return str(int(value)) if value >= 0 else f"({int(value)})"
        if kind is ColumnKind.FLOAT:
            return self.real(float(value))
        if kind is ColumnKind.TIME and isinstance(value, datetime):
            return f"{self.time} '{value.isoformat(sep=' ')}'"
        if kind is ColumnKind.DATE and isinstance(value, date):
            return f"DATE '{value.isoformat()}'"
        return self.text_constant(str(value))

    def real(self, value: float) -> str:
        """Return a number in double precision. The repr of a float is exact."""
        return f"CAST({value!r} AS {self.double})"

    def in_range(self, number: str) -> str:
        """Return a number with which arithmetic cannot raise: 0 if it is tiny, NULL if it is huge."""
        return f"(CASE WHEN ABS({number}) < 1e-100 THEN 0 WHEN ABS({number}) <= 1e100 THEN {number} END)"

    def try_cast(self, text: str, target: str) -> str:
        """Return a cast that gives NULL if it fails, where the dialect has one."""
        return f"{'TRY_CAST' if self.has_try_cast else 'CAST'}({text} AS {target})"

    def read_column(self, column: ScannedColumn, raw: str) -> str:
        """Return a table's column converted to its kind. Values that do not fit become NULL, never an error."""
        if column.kind is ColumnKind.INT:
            return self.try_cast(raw, "BIGINT")
        if column.kind is ColumnKind.FLOAT:
            return self._read_number(column, raw)
        if column.kind in (ColumnKind.DATE, ColumnKind.TIME):
            target = "DATE" if column.kind is ColumnKind.DATE else self.time
            return self.in_calendar(self.try_cast(raw, target), target)
        return self.exact_text(raw) if column.kind is ColumnKind.TEXT else raw

    def in_calendar(self, moment: str, target: str) -> str:
        """Return a date or timestamp. Outside years 1 to 9999, where engines disagree, it is NULL."""
        midnight = "" if target == "DATE" else " 00:00:00"
        first, last = f"{target} '0001-01-08{midnight}'", f"{target} '9999-12-31{midnight}'"
        return f"(CASE WHEN {moment} BETWEEN {first} AND {last} THEN {moment} END)"

    def unit_id(self, column: ScannedColumn, raw: str) -> str:
        """Return the unit's column such that two units are equal if and only if their ids are."""
        if column.kind is ColumnKind.INT:
            return raw
        # In PostgreSQL, the numbers 7 and 7.00 of a column are equal, and differ as text.
        is_number = self.name == "postgres" and column.kind is ColumnKind.FLOAT
        return self.exact_text(f"TRIM_SCALE({raw})" if is_number else raw)

    def exact_text(self, raw: str) -> str:
        """Return a column as text that is compared byte by byte.

        Under a collation that ignores case, two units could share an id and be bounded as one. Removing one of them
        would then change what the other contributes.
        """
        return f"(CAST({raw} AS {self.text}){self.collation})"

    def _read_number(self, column: ScannedColumn, raw: str) -> str:
        """Return a column of numbers as a double, or NULL if it is not within 1e100."""
        if column.declared.upper().startswith(("VARCHAR", "TEXT", "STRING", "CHAR")):
            return self.templates["to_number"].format(raw)
        in_range = f"{raw} BETWEEN {-LARGEST!r} AND {LARGEST!r}"
        if not self.has_try_cast:  # PostgreSQL: compare before the cast, which raises; tiny numbers are 0
            return f"(CASE WHEN ABS({raw}) < 1e-100 THEN 0 WHEN {in_range} THEN CAST({raw} AS {self.double}) END)"
        number = self.try_cast(raw, self.double)
        return f"(CASE WHEN {number} BETWEEN -1e100 AND 1e100 THEN {number} END)"

    def text_constant(self, text: str) -> str:
        """Return a quoted text."""
        if self.backslash_escapes:  # Spark reads two quotes as the end of one text and the beginning of another
            return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + text.replace("'", "''") + "'"


def _dialect(
    name: str,
    double: str,
    text: str,
    time: str,
    quote: str,
    ranking: str,
    *,
    overrides: Mapping[str, str] | None = None,
    **options: Any,
) -> Dialect:
    """Return a dialect with the common templates and its overrides, in its own types."""
    templates = {
        op: template.replace("[double]", double).replace("[text]", text).replace("[time]", time)
        for op, template in {**_COMMON, **(overrides or {})}.items()
    }
    return Dialect(name, double, text, time, quote, ranking, **options, templates=MappingProxyType(templates))


# DuckDB combines the hashes of several columns so simply that it would keep some groups more often than others. Hashing
# the result once more makes the choice fair.
DIALECTS: Mapping[str, Dialect] = {
    "duckdb": _dialect(
        "duckdb",
        "DOUBLE",
        "VARCHAR",
        "TIMESTAMP",
        '"',
        "HASH(HASH({0}))",
        has_try_cast=True,
        backslash_escapes=False,
        collation=" COLLATE C",
    ),
    "spark": _dialect(
        "spark",
        "DOUBLE",
        "STRING",
        "TIMESTAMP_NTZ",
        "`",
        "XXHASH64({0})",
        has_try_cast=True,
        backslash_escapes=True,
        collation="",
        overrides=_SPARK,
    ),
    "postgres": _dialect(
        "postgres",
        "DOUBLE PRECISION",
        "TEXT",
        "TIMESTAMP",
        '"',
        "HASHTEXTEXTENDED({1}, 0)",
        has_try_cast=False,
        backslash_escapes=False,
        collation=' COLLATE "C"',
        overrides=_POSTGRES,
    ),
}


def dialect_named(name: str) -> Dialect:
    """Return a dialect by its name."""
    if name not in DIALECTS:
        raise InvalidArgument("dialect", name, "one of " + ", ".join(DIALECTS))
    return DIALECTS[name]
