"""The catalog: kinds of columns, and the declarations that are refused."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pytest

from hush.data.tables.catalog import Catalog, ColumnKind, PrivateTable, PublicTable, kind_of, plain
from hush.errors import InvalidArgument
from hush.statistics import ContributionLimits

COLUMNS = {"who": "BIGINT", "x": "DOUBLE", "k": "VARCHAR", "d": "DATE"}


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("BOOLEAN", ColumnKind.BOOL),
        ("bigint", ColumnKind.INT),
        ("INT", ColumnKind.INT),
        ("UINTEGER", ColumnKind.INT),
        ("UBIGINT", ColumnKind.FLOAT),  # does not fit 64 bits with a sign
        ("DECIMAL(18,2)", ColumnKind.FLOAT),
        ("character varying", ColumnKind.TEXT),
        ("ENUM('a', 'MAP', 'x[]')", ColumnKind.TEXT),  # whatever its values are called
        ("DATE", ColumnKind.DATE),
        ("TIMESTAMP_NTZ", ColumnKind.TIME),
        ("TIMESTAMP WITH TIME ZONE", ColumnKind.INSTANT),
        ("TIMESTAMP_LTZ", ColumnKind.INSTANT),
        ("TIME WITH TIME ZONE", ColumnKind.OTHER),
        ("INTERVAL", ColumnKind.OTHER),
        ("INTEGER[]", ColumnKind.OTHER),
        ("STRUCT(a DATE)", ColumnKind.OTHER),
        ("geometry", ColumnKind.OTHER),
    ],
)
def test_kinds_of_declared_types(declared: str, kind: ColumnKind) -> None:
    assert kind_of(declared) is kind


BAD_TABLES: list[dict[str, Any]] = [
    {"unit": "nobody"},
    {"unit": "x"},
    {"bounds": {"x": (1, 0)}},
    {"bounds": {"x": (0, float("nan"))}},
    {"bounds": {"x": (0, float("inf"))}},
    {"bounds": {"x": (1,)}},
    {"bounds": {"y": (0, 1)}},
    {"bounds": {"x": (True, 2)}},
    {"keys": {"k": []}},
    {"keys": {"k": ["a", "a"]}},
    {"keys": {"k": [1]}},
    {"keys": {"k": ["\0"]}},
    {"keys": {"who": [1.5]}, "bounds": {"who": (0, 9)}},
    {"keys": {"x": [float("nan")]}},
    {"required": {"k"}},
    {"window": "month"},
    {"time": "d"},
    {"time": "k", "window": "month"},
    {"time": "d", "window": "decade"},
    {"columns": {}},
    {"columns": {"who": "BIGINT", "WHO": "BIGINT"}},
]


@pytest.mark.parametrize("changes", BAD_TABLES, ids=map(str, BAD_TABLES))
def test_tables_that_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=r"^[a-z_]+=.*: expected .*\."):
        PrivateTable(**{"columns": COLUMNS, "unit": "who", **changes})


def test_names_and_limits_that_are_refused() -> None:
    table = PrivateTable(columns={"who": "BIGINT"}, unit="who")
    for names in ({"a": table, "A": table}, {"hush_kept": table}, {"": table}, {"t": None}):
        with pytest.raises(InvalidArgument):
            Catalog(names)  # type: ignore[arg-type]
    for limits in (
        {"groups_per_unit": 0},
        {"rows_per_unit": 0},
        {"groups_per_unit": 1.5},
        {"rows_per_unit": 10**7},
        {"rows_per_unit": True},
    ):
        with pytest.raises(InvalidArgument):
            ContributionLimits(**limits)  # type: ignore[arg-type]


def test_declarations_become_plain_immutable_values() -> None:
    bounds, keys = {"x": np.array([0, 5])}, {"k": np.array(["a", "b"]), "d": [datetime.date(2024, 1, 1), None]}
    table = PrivateTable(columns=COLUMNS, unit="who", bounds=bounds, keys=keys, required={"x"})
    assert table.bounds["x"] == (0.0, 5.0)
    assert table.keys["k"] == ("a", "b")
    assert {type(key) for key in table.keys["k"]} == {str}
    bounds["x"] = (0, 100)  # the caller's dictionary is copied
    assert table.bounds["x"] == (0.0, 5.0)
    with pytest.raises(TypeError):
        table.bounds["x"] = (0.0, 9.0)  # type: ignore[index]
    assert plain(np.int64(3)) == 3
    assert type(plain(np.int64(3))) is int


def test_an_unknown_column_is_answered_with_the_columns() -> None:
    with pytest.raises(
        InvalidArgument, match="^unit='nobody': expected a column of the table. The table has who, x, k"
    ):
        PrivateTable(columns=COLUMNS, unit="nobody")


def test_a_first_line_that_is_a_record_is_not_shown() -> None:
    """A CSV file without a header: its first line, a record, was taken for the names of columns."""
    columns = {"17": "VARCHAR", "ann": "VARCHAR"}
    with pytest.raises(InvalidArgument, match="first line of a CSV file") as caught:
        PrivateTable(columns=columns, unit="who")
    assert "ann" not in str(caught.value)


def test_a_catalog_holds_tables_by_name() -> None:
    zones = PublicTable(columns={"region": "VARCHAR"})
    assert Catalog({"zones": zones}).tables["zones"] is zones
    with pytest.raises(InvalidArgument, match="^columns="):
        PublicTable(columns={})


@pytest.mark.parametrize("declared", ["VARCHAR COLLATE", "text COLLATE", "string collate UNICODE_CI"])
def test_texts_that_are_not_compared_byte_by_byte_are_not_used(declared: str) -> None:
    assert kind_of(declared) is ColumnKind.OTHER
    with pytest.raises(InvalidArgument, match="^unit="):
        PrivateTable(columns={"who": declared}, unit="who")


def test_rows_are_units_only_by_a_row_id() -> None:
    rows = PrivateTable(columns={"x": "DOUBLE"}, unit="row", row_id=("rowid", "BIGINT"))
    assert rows.row_id == ("rowid", "BIGINT")
    with pytest.raises(InvalidArgument, match="each row belongs to a different person, pass unit='row'"):
        PrivateTable(columns={"x": "DOUBLE"}, unit="who")
    for changes in ({"unit": "x"}, {"columns": {"row": "BIGINT"}}, {"time": "x", "window": "day"}):
        with pytest.raises(InvalidArgument, match="^unit="):
            PrivateTable(**{"columns": {"x": "DATE"}, "unit": "row", "row_id": ("rowid", "BIGINT"), **changes})


@pytest.mark.parametrize("declared", ["UNION(a INTEGER, b VARCHAR)", "DOUBLE", "BLOB", "BOOLEAN"])
def test_units_have_a_type_whose_values_differ_as_text(declared: str) -> None:
    """In a union, the number 7 and the text 7 are two values with one text."""
    with pytest.raises(InvalidArgument, match="expected a column of integers or text"):
        PrivateTable(columns={"who": declared}, unit="who")


@pytest.mark.parametrize("declared", ["UBIGINT", "UHUGEINT", "UTINYINT", "HUGEINT", "DECIMAL(9, 2)", "UUID"])
def test_exact_numbers_and_unique_ids_are_units(declared: str) -> None:
    assert PrivateTable(columns={"who": declared}, unit="who").unit == "who"
