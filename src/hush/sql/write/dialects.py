"""How each engine writes constants, columns and operations.

Every template is total: it has a value, or NULL, whatever the data are. An operation that failed on some row would
reveal that row.

Columns of numbers are read as doubles between -1e100 and 1e100. All other values, such as NaN and infinity, are NULL.
DuckDB and Spark compute with doubles without raising. PostgreSQL raises on overflow and underflow, so its templates
bring every result back to 0, to a magnitude in [1e-100, 1e100] or to NULL. No operation on such numbers leaves the
range of doubles. The dialects of warehouses and of MySQL are in `hush.sql.write.warehouses`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from types import MappingProxyType
from typing import Any

from hush.data.tables.catalog import LARGEST, WINDOWS, ColumnKind
from hush.errors import InvalidArgument
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.relation import ScannedColumn
from hush.sql.write.patterns import DATE_PATTERN, NUMBER_PATTERN
from hush.sql.write.warehouses import WAREHOUSES

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
    "regexp_match": "REGEXP_MATCHES({0}, {1})",
    "regexp_extract": "REGEXP_EXTRACT({0}, {1})",
    "regexp_replace": "REGEXP_REPLACE({0}, {1}, {2}, 'g')",
    "regexp_replace_first": "REGEXP_REPLACE({0}, {1}, {2})",
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
_DATE_PARTS = ("year", "quarter", "month", "week", "day", "hour", "minute")
# Templates that are not operations of a query: constants, columns of tables, and steps of a plan.
_PLUMBING = {
    "date_literal": "DATE '{0}'",
    "time_literal": "[time] '{0}'",
    "bool_column": "{0}",
    "int_column": "TRY_CAST({0} AS BIGINT)",
    "date_column": "TRY_CAST({0} AS DATE)",
    "time_column": "TRY_CAST({0} AS [time])",
    "instant_column": "(CASE WHEN ISFINITE({0}) THEN MAKE_TIMESTAMP(EPOCH_US({0})) END)",
    "add_seconds": "({0} + TO_SECONDS({1}))",
    "number_column": "(CASE WHEN TRY_CAST({0} AS [double]) BETWEEN -1e100 AND 1e100 THEN TRY_CAST({0} AS [double]) "
    "END)",
    "text_column": "(CAST({0} AS [text])[collation])",
    "text_unit": "(CAST({0} AS [text])[collation])",
    "exact_unit": "(CAST({0} AS [text])[collation])",  # exact numbers
    "integer": "CAST({0} AS BIGINT)",
    "sum": "SUM({0})",
    "same": "{0} IS NOT DISTINCT FROM {1}",
    "partition_number": "{0}",
    "joined_part": "SUBSTRING({0}, 1, {1})",
    "join_texts": "({0} || {1})",
    "join_present": "CONCAT_WS({0}, {1})",
    "split_part": "SPLIT_PART({0}, {1}, {2})",
    "nulls_first": "{0} {1} NULLS FIRST",
    "nulls_last": "{0} {1} NULLS LAST",
    "substring": "SUBSTRING({0}, {1}, {2})",
    "regexp_end": "\\z",
    "bool_text": "CAST({0} AS [text])",
    "date_text": "CAST({0} AS [text])",
    "least": "LEAST({0})",
    "greatest": "GREATEST({0})",
    "public_list": "(VALUES {0}) AS {1}(i, k)",
    "public_first": "({0}, {1})",
    "public_next": ", ({0}, {1})",
    "part_dayofyear": "CAST(EXTRACT(DOY FROM {0}) AS BIGINT)",
    "part_isodow": "CAST(EXTRACT(ISODOW FROM {0}) AS BIGINT)",
    **{f"part_{part}": f"CAST(EXTRACT({part.upper()} FROM {{0}}) AS BIGINT)" for part in _DATE_PARTS},
    **{f"truncate_{window}": f"CAST(DATE_TRUNC('{window}', {{0}}) AS [time])" for window in WINDOWS},
}

# Brings a result back into range. OFFSET 0 keeps PostgreSQL's planner from inlining, and so repeating, the operands.
_IN_RANGE = (
    "(SELECT CASE WHEN ABS(s.v) < 1e-100 THEN 0 WHEN ABS(s.v) <= 1e100 THEN s.v END "
    "FROM (SELECT [inner] AS v OFFSET 0) AS s)"
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
    "regexp_match": "({0} ~ {1})",
    "regexp_extract": "(CASE WHEN {0} IS NOT NULL THEN COALESCE(SUBSTRING({0} FROM {1}), '') END)",
    "regexp_end": "\\Z",
    "mod": "CAST(MOD(CAST({0} AS NUMERIC), NULLIF(CAST({1} AS NUMERIC), 0)) AS [double])",
    "int_column": "CAST({0} AS BIGINT)",
    "date_column": "CAST({0} AS DATE)",
    "time_column": "CAST({0} AS [time])",
    "instant_column": "({0} AT TIME ZONE 'UTC')",
    "add_seconds": "({0} + {1} * INTERVAL '1 second')",
    # Compare before the cast, which raises; tiny numbers are 0.
    "number_column": f"(CASE WHEN ABS({{0}}) < 1e-100 THEN 0 WHEN {{0}} BETWEEN {-LARGEST!r} AND {LARGEST!r} "
    "THEN CAST({0} AS [double]) END)",
    "exact_unit": "(CAST(TRIM_SCALE({0}) AS [text])[collation])",  # 7 and 7.00 are equal, and differ as text
    "to_number": "(CASE WHEN TRIM({0}) ~ " + NUMBER_PATTERN + " THEN "
    "CASE WHEN CAST(TRIM({0}) AS NUMERIC) BETWEEN -1e100 AND 1e100 THEN CAST(ROUND(CAST(TRIM({0}) AS NUMERIC), 100) "
    "AS [double]) END END)",
    "to_date": "(CASE WHEN TRIM({0}) ~ " + DATE_PATTERN + " AND TRIM({0}) !~ '^0000' THEN CAST(TRIM({0}) AS DATE) END)",
}
# A moment in nanoseconds is of a type that no function takes.
_DUCKDB = {"instant_column": _PLUMBING["instant_column"].replace("{0}", "CAST({0} AS TIMESTAMPTZ)")}
_SPARK = {
    "position": "CAST(INSTR({0}, {1}) AS [double])",
    "days_between": "CAST(DATEDIFF({0}, {1}) AS [double])",
    "regexp_match": "({0} RLIKE {1})",
    "regexp_extract": "REGEXP_EXTRACT({0}, {1}, 0)",
    "regexp_replace": "REGEXP_REPLACE({0}, {1}, {2})",
    "same": "{0} <=> {1}",
    "instant_column": "TIMESTAMPADD(MICROSECOND, UNIX_MICROS({0}), TIMESTAMP_NTZ '1970-01-01 00:00:00')",
    "add_seconds": "TIMESTAMPADD(SECOND, {1}, {0})",
    "part_isodow": "CAST(EXTRACT(DOW_ISO FROM {0}) AS BIGINT)",
    **{
        op: f"(CASE WHEN ABS({{0}}) < 4503599627370496 THEN CAST({op.upper()}({{0}}) AS [double]) ELSE {{0}} END)"
        for op in ("floor", "ceil")
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    r"""The SQL of one engine.

    Attributes:
        name: The engine's name.
        grammar: The dialect's name in sqlglot.
        double: The type of double-precision numbers.
        text: The type of text.
        time: The type of timestamps without a time zone.
        integers: The types of integers of 16, 32 and 64 bits.
        quote: The character that encloses a name.
        ranking: A template for a hash. {0} is a list of columns, {1} the same columns joined to one text, and {2} a
            list of the hashes of their texts.
        escapes: How characters of a text constant are written.
        upper_names: Whether names of tables are in capital letters unless they are quoted.
        unordered: The kinds of values that LEAST and GREATEST do not take.
        missing: Operations that are not implemented for this engine.
        templates: How each operation is written.

    >>> [DIALECTS[name].constant("it's", ColumnKind.TEXT) for name in ("duckdb", "spark")]
    ["'it''s'", "'it\\'s'"]
    >>> DIALECTS["postgres"].real(0.5)
    'CAST(0.5 AS DOUBLE PRECISION)'
    """

    name: str
    grammar: str
    double: str
    text: str
    time: str
    integers: tuple[str, str, str]
    quote: str
    ranking: str
    escapes: Mapping[str, str]
    upper_names: bool
    unordered: frozenset[ColumnKind]
    missing: frozenset[str]
    templates: Mapping[str, str]

    def identifier(self, name: str) -> str:
        """Return a quoted name."""
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def table(self, name: str) -> str:
        """Return the quoted name of a table, which a query may write in any case."""
        return self.identifier(name.upper() if self.upper_names else name)

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
        if kind in (ColumnKind.TIME, ColumnKind.INSTANT) and isinstance(value, datetime):
            return self.templates["time_literal"].format(value.isoformat(sep=" "))
        if kind is ColumnKind.DATE and isinstance(value, date):
            return self.templates["date_literal"].format(value.isoformat())
        return self.text_constant(str(value))

    def null(self, kind: ColumnKind) -> str:
        """Return NULL with the type of values of this kind, so that a list of nothing else has one."""
        if kind is ColumnKind.BOOL:  # which is no type of a cast on MySQL
            return f"({self.null(ColumnKind.INT)} = 1)"
        types = {
            **{ColumnKind.INT: self.integers[2], ColumnKind.FLOAT: self.double, ColumnKind.TEXT: self.text},
            **{ColumnKind.DATE: "DATE", ColumnKind.TIME: self.time, ColumnKind.INSTANT: self.time},
        }
        return f"CAST(NULL AS {types[kind]})"

    def real(self, value: float) -> str:
        """Return a number in double precision. The repr of a float is exact."""
        return f"CAST({value!r} AS {self.double})"

    def text_constant(self, text: str) -> str:
        """Return a quoted text."""
        quoted = "'" + "".join(self.escapes.get(character, character) for character in text) + "'"
        if "hexadecimal" in self.templates and not (text.isascii() and "\\" not in text):
            quoted = self.templates["hexadecimal"].format(text.encode().hex())
        return self.templates.get("text_literal", "{0}").format(quoted)

    def in_range(self, number: str) -> str:
        """Return a number with which arithmetic cannot raise: 0 if it is tiny, NULL if it is huge."""
        return f"(CASE WHEN ABS({number}) < 1e-100 THEN 0 WHEN ABS({number}) <= 1e100 THEN {number} END)"

    def read_column(self, column: ScannedColumn, raw: str) -> str:
        """Return a table's column converted to its kind. Values that do not fit become NULL, never an error."""
        if column.kind is ColumnKind.FLOAT:
            is_text = column.declared.upper().startswith(("VARCHAR", "TEXT", "STRING", "CHAR"))
            return self.templates["to_number" if is_text else "number_column"].format(raw)
        if column.kind in _MOMENTS:
            moment = self.templates[_MOMENTS[column.kind]].format(raw)
            return self.in_calendar(moment, column.kind)
        return self.templates[_COLUMNS[column.kind]].format(raw)

    def in_calendar(self, moment: str, kind: ColumnKind) -> str:
        """Return a date or timestamp. Outside years 1 to 9999, where engines disagree, it is NULL.

        Infinite dates, which have no parts, are outside.
        """
        is_date = kind is ColumnKind.DATE
        first, last = (self.constant(end if is_date else _midnight(end), kind) for end in (_FIRST, _LAST))
        return f"(CASE WHEN {moment} BETWEEN {first} AND {last} THEN {moment} END)"

    def unit_id(self, column: ScannedColumn, raw: str) -> str:
        """Return the unit's column such that two units are equal if and only if their ids are.

        Under a collation that ignores case, two units could share an id and be bounded as one. Removing one of them
        would then change what the other contributes.
        """
        if column.kind is ColumnKind.INT:
            return raw
        name = "exact_unit" if column.kind is ColumnKind.FLOAT else "text_unit"
        # Where trailing spaces do not count, ids with and without them are one unit.
        name = "padded_unit" if column.declared == "TEXT PADDED" else name
        return self.templates[name].format(raw)

    def rank(self, names: list[str], key: str) -> str:
        """Return a hash of columns and a key. Its order is a random choice that needs no state."""
        texts = [f"CAST({name} AS {self.text})" for name in names]
        columns, joined = ", ".join([f"'{key}'", *names]), f"CONCAT_WS('|', '{key}', {', '.join(texts)})"
        hashes = [f"COALESCE({self.templates.get('hash', '{0}').format(text)}, '-')" for text in texts]
        return self.ranking.format(columns, joined, ", ".join([f"'{key}'", *hashes]))

    def public_list(self, alias: str, constants: list[str]) -> str:
        """Return constants as a table with their indices i and their values k."""
        rows = [
            self.templates["public_next" if index else "public_first"].format(index, constant)
            for index, constant in enumerate(constants)
        ]
        return self.templates["public_list"].format("".join(rows), alias)

    def writes(self, expression: Expr) -> bool:
        """Return whether the dialect has a total form of an operation."""
        if expression.op in ("least", "greatest"):
            return expression.kind not in self.unordered
        return expression.op not in self.missing


_FIRST, _LAST = date(1, 1, 8), date(9999, 12, 31)
_COLUMNS = {ColumnKind.BOOL: "bool_column", ColumnKind.INT: "int_column", ColumnKind.TEXT: "text_column"}
_MOMENTS = {
    ColumnKind.DATE: "date_column",
    ColumnKind.TIME: "time_column",
    ColumnKind.INSTANT: "instant_column",  # which becomes a timestamp in UTC, whatever the session's time zone is
}
_DOUBLED_QUOTES: Mapping[str, str] = {"'": "''"}
# Spark reads two quotes as the end of one text and the beginning of another.
_BACKSLASHES: Mapping[str, str] = {"'": "\\'", "\\": "\\\\"}


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)


def _dialect(
    name: str, *, double: str, text: str, time: str, collation: str = "", templates: Mapping[str, str], **options: Any
) -> Dialect:
    """Return a dialect with the common templates and its own, in its own types."""
    words = {"[double]": double, "[text]": text, "[time]": time, "[collation]": collation}
    filled = {**_COMMON, **_PLUMBING, **templates}
    for placeholder, word in words.items():
        filled = {op: template.replace(placeholder, word) for op, template in filled.items()}
    defaults: dict[str, Any] = {
        "grammar": name,
        "integers": ("SMALLINT", "INTEGER", "BIGINT"),
        "quote": '"',
        "escapes": _DOUBLED_QUOTES,
        "upper_names": False,
        "unordered": frozenset(),
        "missing": frozenset(),
    }
    return Dialect(
        name=name, double=double, text=text, time=time, **{**defaults, **options}, templates=MappingProxyType(filled)
    )


# DuckDB combines the hashes of several columns so simply that it would keep some groups more often than others. Hashing
# the result once more makes the choice fair.
DIALECTS: Mapping[str, Dialect] = {
    "duckdb": _dialect(
        "duckdb",
        double="DOUBLE",
        text="VARCHAR",
        time="TIMESTAMP",
        ranking="HASH(HASH({0}))",
        collation=" COLLATE C",
        templates=_DUCKDB,
    ),
    "spark": _dialect(
        "spark",
        double="DOUBLE",
        text="STRING",
        time="TIMESTAMP_NTZ",
        quote="`",
        ranking="XXHASH64({0})",
        escapes=_BACKSLASHES,
        missing=frozenset({"regexp_replace_first"}),
        templates=_SPARK,
    ),
    "postgres": _dialect(
        "postgres",
        double="DOUBLE PRECISION",
        text="TEXT",
        time="TIMESTAMP",
        ranking="HASHTEXTEXTENDED({1}, 0)",
        collation=' COLLATE "C"',
        templates=_POSTGRES,
    ),
    **{
        name: _dialect(
            name,
            **{**options, "templates": {**(_SPARK if name == "databricks" else {}), **templates}},
        )
        for name, (options, templates) in WAREHOUSES.items()
    },
}


def dialect_named(name: str) -> Dialect:
    """Return a dialect by its name."""
    if name not in DIALECTS:
        raise InvalidArgument("dialect", name, "one of " + ", ".join(DIALECTS))
    return DIALECTS[name]
