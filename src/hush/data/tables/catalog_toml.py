"""The TOML form of a catalog: public knowledge about tables.

`hush.sql.load_catalog` and `hush query --catalog` read it, and `hush catalog init` writes the first version. A file
holds declarations only. Opening one reads no data, and it cannot hold a password.

    format = "hush.catalog/1"
    database = "postgresql://analyst@host/clinic"  # instead of the tables' data

    [tables.visits]
    data = "visits.parquet"     # relative to this file
    unit = "patient"            # or "row"; or a table with column, time and window
    required = ["cost"]
    decimal_comma = ["cost"]    # in a CSV file: 1.234 is 1234
    rows_per_unit = 20
    groups_per_unit = 5
    bounds.cost = [0, 500]
    keys.ward = ["a", "b", {null = true}]

    [tables.wards]
    data = "wards.csv"
    public = true

Reading is strict: an unknown key is probably a typing error, and would leave something undeclared. All mistakes of a
file are collected, each with its place.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from hush.data.tables.catalog import ROW, WINDOWS
from hush.errors import HushError, InvalidArgument, check_count
from hush.strict_json import take_format

FORMAT = "hush.catalog/1"
PASSWORDS = "Use PGPASSWORD or ~/.pgpass for a password"
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_DATABASES = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredUnit:
    """The unit of a table, as a file declares it.

    Attributes:
        column: The column that identifies it; ``row`` if each row is a unit.
        time: With ``window``: the column of dates.
        window: A word of `hush.data.tables.catalog.WINDOWS`.
        zone: With ``window``: the time zone in which the dates are written.
        to: With ``key``: the table that knows the unit of ``column``, which is a foreign key.
        key: The column of that table.
    """

    column: str
    time: str | None = None
    window: str | None = None
    zone: str | None = None
    to: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTable:
    """A table, as a file declares it. A table without a unit is public.

    Attributes:
        data: Its file; None for a table of the database or of a connection.
        unit: Its unit.
        bounds: As for `hush.table`, and so are the others.
        keys: The groups of columns.
        required: Columns with bounds.
        decimal_comma: Columns of a CSV file whose numbers have decimal commas.
        rows_per_unit: A limit for queries of this table alone: rows of a unit in each group.
        groups_per_unit: A limit for queries of this table alone: groups of a unit.
        rows_in_total: Instead of ``rows_per_unit``: rows of a unit in all groups together, as in limits that hush
            chose.
        most_rows: Instead of both: a fact, that no unit has more rows than this.
    """

    data: Path | None = None
    unit: DeclaredUnit | None = None
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    keys: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    decimal_comma: tuple[str, ...] = ()
    rows_per_unit: int | None = None
    groups_per_unit: int | None = None
    rows_in_total: int | None = None
    most_rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogFile:
    """The declarations of a catalog file, and its mistakes.

    Attributes:
        path: The file.
        database: The address of the database that has the tables, if they are not files.
        tables: The tables by name, as far as they could be read.
        problems: The mistakes, in the order of the file's keys.
    """

    path: Path
    database: str | None = None
    tables: Mapping[str, DeclaredTable] = field(default_factory=dict)
    problems: tuple[HushError, ...] = ()


def read_catalog(path: str | Path) -> CatalogFile:
    """Return a file's declarations and all of its mistakes. No table is opened."""
    file = Path(path)
    try:
        content = tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError):
        expected = "a readable TOML file in UTF-8"
        return CatalogFile(path=file, problems=(InvalidArgument("catalog", file.name, expected, _INIT),))
    except (ValueError, RecursionError) as error:  # numbers and nesting beyond Python's limits, too
        is_syntax = isinstance(error, tomllib.TOMLDecodeError)
        reason = str(error) if is_syntax else "It holds a number or a nesting that is too large"
        return CatalogFile(path=file, problems=(InvalidArgument("catalog", file.name, "TOML", reason),))
    problem = _wrong_format(content)
    if problem is not None:
        return CatalogFile(path=file, problems=(problem,))
    return _CatalogReader(file).catalog(content)


_INIT = "`hush catalog init DATA` writes one"
_NEWER = "It was written for a newer hush. Install that"


def _wrong_format(content: dict[str, Any]) -> InvalidArgument | None:
    """Take the format out of a file, and return why this version cannot read the rest; None if it can."""
    written = take_format(content)
    if written == FORMAT:
        return None
    is_newer = re.fullmatch(r"hush\.catalog/[1-9]\d*", str(written)) is not None
    return InvalidArgument("format", written, repr(FORMAT), _NEWER if is_newer else _INIT)


class _CatalogReader:
    """Reads a file, and collects its mistakes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._problems: list[HushError] = []

    def catalog(self, content: Mapping[str, Any]) -> CatalogFile:
        """Return the whole file."""
        self._check_keys("", content, ("format", "database", "tables"))
        database = self._read("database", content.get("database"), checked_address)
        named = self._read("tables", content.get("tables", {}), _mapping) or {}
        tables = {name: self._table(name, value) for name, value in named.items()}
        self._check_names(tables)
        for name, table in tables.items():
            if database is not None and table.data is not None:
                location = _location("tables", name, "data")
                self._refuse(location, table.data.name, "no file beside a database", _ONE_ENGINE)
        private = [value for value in named.values() if not _is_public(value)]
        if not private:
            self._refuse("tables", list(named), "at least one private table")
        for name, table in tables.items():
            if table.unit is not None and table.unit.to not in (None, *_with_units(tables)):
                location = _location("tables", name, "unit", "to")
                self._refuse(location, table.unit.to, "a private table of this file", "It knows whose row each row is")
        if len(private) > 1 and any(isinstance(value, dict) and value.get("unit") == ROW for value in private):
            self._refuse("unit", ROW, "a column that identifies people, if there are several private tables")
        return CatalogFile(path=self._path, database=database, tables=tables, problems=tuple(self._problems))

    def _table(self, name: str, value: Any) -> DeclaredTable:
        """Return one table, with what could be read."""
        location = _location("tables", name)
        content = self._read(location, value, _mapping) or {}
        is_public = bool(self._read(f"{location}.public", content.get("public"), _boolean))
        allowed = ("data", "public", *(_PUBLIC if is_public else _PRIVATE))
        self._check_keys(location, content, allowed)
        data = self._read(f"{location}.data", content.get("data"), _path)
        read: dict[str, Any] = {"data": None if data is None else self._path.parent / data}
        read["bounds"] = self._columns(f"{location}.bounds", content.get("bounds", {}), _bounds)
        read["decimal_comma"] = self._read(f"{location}.decimal_comma", content.get("decimal_comma"), _names)
        if not is_public:
            if "unit" not in content:
                self._refuse(f"{location}.unit", None, "the column that identifies a person", _UNIT_ADVICE)
            read["unit"] = self._unit(f"{location}.unit", content.get("unit", ROW))
            read["keys"] = self._columns(f"{location}.keys", content.get("keys", {}), _PRIVATE["keys"])
            for key in ("required", "rows_per_unit", "groups_per_unit", "rows_in_total", "most_rows"):
                read[key] = self._read(f"{location}.{key}", content.get(key), _PRIVATE[key])
            if "rows_per_unit" in content and "rows_in_total" in content:
                self._refuse(f"{location}.rows_in_total", content["rows_in_total"], "none with rows_per_unit")
            if "most_rows" in content and ("rows_per_unit" in content or "rows_in_total" in content):
                self._refuse(f"{location}.most_rows", content["most_rows"], "none with a limit on rows")
        lists = {key: tuple(read.get(key) or ()) for key in ("required", "decimal_comma")}
        return DeclaredTable(**{**read, **lists})

    def _unit(self, location: str, value: Any) -> DeclaredUnit:
        """Return a unit: a name, or a table."""
        if not isinstance(value, dict):
            return DeclaredUnit(column=self._read(location, value, _unit_column) or ROW)
        self._check_keys(location, value, ("column", "time", "window", "zone", "to", "key"))
        parts = {key: self._read(f"{location}.{key}", value.get(key), _name) for key in ("time", "zone", "to", "key")}
        window = self._read(f"{location}.window", value.get("window"), _window)
        if "column" not in value:
            self._refuse(f"{location}.column", None, "the name of a column", _UNIT_ADVICE)
        for first, second in (("time", "window"), ("to", "key")):
            if (first in value) != (second in value):
                self._refuse(location, sorted(value), f"{first} and {second} together, or neither")
        if "zone" in value and "window" not in value:
            self._refuse(location, sorted(value), "zone together with time and window")
        return DeclaredUnit(
            column=self._read(f"{location}.column", value.get("column"), _name) or ROW, window=window, **parts
        )

    def _columns(self, location: str, value: Any, read: Callable[[str, Any], Any]) -> dict[str, Any]:
        """Return a declaration for each column."""
        content = self._read(location, value, _mapping) or {}
        values = {name: self._read(f"{location}.{toml_key(name)}", item, read) for name, item in content.items()}
        return {name: value for name, value in values.items() if value is not None}

    def _read(self, location: str, value: Any, read: Callable[[str, Any], Any]) -> Any:
        """Return a value that is checked; None if it is missing, or wrong."""
        if value is None:
            return None
        try:
            return read(location, value)
        except InvalidArgument as problem:
            self._problems.append(problem)
            return None

    def _check_keys(self, location: str, content: Mapping[str, Any], allowed: Iterable[str]) -> None:
        names = tuple(allowed)
        for key in content:
            if key not in names:
                # Only the key is shown: its value could be a password.
                self._refuse(location or "catalog", key, "one of the keys " + ", ".join(names))

    def _check_names(self, names: Iterable[str]) -> None:
        seen: set[str] = set()
        for name in names:
            if not name.strip() or not name.isprintable():
                self._refuse("tables", name, "a printable name that is not empty")
            if name.casefold() in seen:
                self._refuse("tables", name, "names that differ in more than their case")
            seen.add(name.casefold())

    def _refuse(self, location: str, value: object, expected: str, *advice: str) -> None:
        self._problems.append(InvalidArgument(location, value, expected, *advice))


_UNIT_ADVICE = f"If each row is a different person, write {ROW!r}; for a public table, public = true"
_ONE_ENGINE = "The tables of a catalog are joined, so all of them are in the database, or all are files"


def _location(*names: str) -> str:
    """Return the dotted path of a key in the file."""
    return ".".join(map(toml_key, names))


def _is_public(value: Any) -> bool:
    return isinstance(value, dict) and value.get("public") is True


def _mapping(location: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgument(location, value, "a table, such as [tables.people]")
    return value


def _boolean(location: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument(location, value, "true or false")
    return value


def _name(location: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InvalidArgument(location, value, "a name")
    return value


def _unit_column(location: str, value: Any) -> str:
    if value == "":  # as in a template
        raise InvalidArgument(location, value, "the column that identifies a person", _UNIT_ADVICE)
    return _name(location, value)


def _window(location: str, value: Any) -> str:
    if value not in WINDOWS:
        raise InvalidArgument(location, value, "one of " + ", ".join(WINDOWS))
    return str(value)


def _path(location: str, value: Any) -> str:
    if isinstance(value, str) and "://" in value:
        raise InvalidArgument(location, "...", "a file", "The address of a database is the key database of the catalog")
    return _name(location, value)


def _names(location: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise InvalidArgument(location, value, "a list of names")
    return tuple(value)


def _bounds(location: str, value: Any) -> tuple[float, float]:
    is_pair = isinstance(value, list) and len(value) == 2 and all(type(end) in (int, float) for end in value)
    try:
        is_range = is_pair and -math.inf < float(value[0]) < float(value[1]) < math.inf
    except OverflowError:  # an integer beyond the range of floats
        is_range = False
    if not is_range:
        raise InvalidArgument(location, value, "two finite numbers [lower, upper], lower < upper")
    return value[0], value[1]


def _key_values(location: str, value: Any) -> tuple[Any, ...]:
    """Return the values of a column's keys. TOML has no NULL: it is written as {null = true}."""
    if not isinstance(value, list) or not value:
        raise InvalidArgument(location, value, "a list of values, at least one")
    keys = tuple(None if isinstance(item, dict) and _is_null(item) else item for item in value)
    for key in keys:
        if key is not None and not isinstance(key, (str, int, float, date)):  # a datetime is a date
            raise InvalidArgument(location, key, "text, numbers, booleans, dates or {null = true}")
        if isinstance(key, datetime) and key.tzinfo is not None:
            raise InvalidArgument(location, str(key), "a time without a zone")
        if isinstance(key, float) and not math.isfinite(key):
            raise InvalidArgument(location, key, "finite numbers")
    if len({(type(key), key) for key in keys}) != len(keys):
        raise InvalidArgument(location, value, "distinct values")
    return keys


def _is_null(item: Mapping[str, Any]) -> bool:
    return set(item) == {"null"} and item["null"] is True


def _limit(location: str, value: Any) -> int:
    return check_count(location, value)


_PUBLIC = ("bounds", "decimal_comma")
_PRIVATE: Mapping[str, Callable[[str, Any], Any]] = {
    "unit": _name,
    "bounds": _bounds,
    "keys": _key_values,
    "required": _names,
    "decimal_comma": _names,
    "rows_per_unit": _limit,
    "groups_per_unit": _limit,
    "rows_in_total": _limit,
    "most_rows": _limit,
}


def checked_address(location: str, value: Any) -> str:
    """Return the address of a database. It is never shown, and must not contain a password."""
    if not isinstance(value, str) or not value.startswith(_DATABASES) or not value.isprintable():
        raise InvalidArgument(location, "...", "an address that starts with postgresql://")
    if _has_password(value):
        raise InvalidArgument(location, "...", "an address without a password", PASSWORDS)
    return value


def _has_password(address: str) -> bool:
    """Return whether an address holds a password, as libpq reads it: before an @, or as a parameter.

    >>> _has_password("postgresql://ann:secret@host/db"), _has_password("postgresql://host:5432/db?user=ann")
    (True, False)
    """
    rest = address.partition("://")[2]
    credentials, has_credentials, _ = rest.partition("@")
    if has_credentials and "/" not in credentials and ":" in credentials:
        return True
    parameters = parse_qsl(rest.partition("?")[2], keep_blank_values=True)
    return any("password" in name.casefold() for name, _ in parameters)


def toml_text(text: str) -> str:
    r"""Return a text as TOML writes it, on one line.

    >>> print(toml_text('a "b"\n'))
    "a \"b\"\n"
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + "".join(letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in escaped) + '"'


def _with_units(tables: Mapping[str, DeclaredTable]) -> list[str]:
    """Return the names of the private tables."""
    return [name for name, table in tables.items() if table.unit is not None]


def toml_key(name: str) -> str:
    """Return a name as a key of TOML."""
    return name if _BARE.fullmatch(name) else toml_text(name)
