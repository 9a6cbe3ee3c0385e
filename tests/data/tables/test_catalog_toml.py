"""Catalog files: what they declare, and everything that is wrong with them, in one go."""

from __future__ import annotations

import datetime
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.data.tables.catalog_toml import CatalogFile, DeclaredUnit, read_catalog, toml_key, toml_text

HEAD = 'format = "hush.catalog/1"\n'
PEOPLE = '[tables.people]\ndata = "people.csv"\nunit = "who"\n'


def read(tmp_path: Path, text: str | bytes) -> CatalogFile:
    file = tmp_path / "c.toml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_catalog(file)


def problems(tmp_path: Path, text: str | bytes) -> list[str]:
    return [str(problem) for problem in read(tmp_path, text).problems]


def test_a_whole_file(tmp_path: Path) -> None:
    text = f"""{HEAD}
    [tables.visits]
    data = "in/visits.parquet"
    unit = {{column = "patient", time = "day", window = "month"}}
    required = ["cost"]
    rows_per_unit = 20
    groups_per_unit = 5
    bounds.cost = [0, 500.5]
    keys."the ward" = ["a", 2, 2.5, true, 2026-01-31, 2026-01-31T12:00:00, {{null = true}}]
    [tables.wards]
    data = "/data/wards.csv"
    public = true
    [tables.lines.unit]
    column = "order"
    to = "visits"
    key = "id"
    """
    file = read(tmp_path, text)
    assert file.problems == ()
    visits, wards, lines = (file.tables[name] for name in ("visits", "wards", "lines"))
    assert visits.data == tmp_path / "in" / "visits.parquet"  # relative to the file, wherever the process runs
    assert visits.unit == DeclaredUnit(column="patient", time="day", window="month")
    assert (visits.required, visits.rows_per_unit, visits.groups_per_unit) == (("cost",), 20, 5)
    assert visits.bounds == {"cost": (0, 500.5)}
    day = datetime.date(2026, 1, 31)
    assert visits.keys["the ward"] == ("a", 2, 2.5, True, day, datetime.datetime(2026, 1, 31, 12), None)
    assert (wards.data, wards.unit) == (Path("/data/wards.csv"), None)
    assert (lines.data, lines.unit) == (None, DeclaredUnit(column="order", to="visits", key="id"))


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    assert problems(tmp_path, b"\xef\xbb\xbf" + (HEAD + PEOPLE).encode()) == []


def test_the_version_was_a_key_of_its_own(tmp_path: Path) -> None:
    assert problems(tmp_path, 'format = "hush-catalog"\nversion = 1\n' + PEOPLE) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "format=None: expected 'hush.catalog/1'. `hush catalog init DATA` writes one."),
        (
            'format = "hush.catalog/2"',
            "format='hush.catalog/2': expected 'hush.catalog/1'. It was written for a newer hush. Install that.",
        ),
        ('format = "hush-catalog"\nversion = true', "format='hush.catalog/True': expected 'hush.catalog/1'."),
        ("format = 1", "format=1: expected 'hush.catalog/1'."),
        (HEAD, "tables=[]: expected at least one private table."),
        (HEAD + "tables = 5", "tables=5: expected a table, such as [tables.people]."),
        (HEAD + "a = ", "catalog='c.toml': expected TOML. Invalid value (at "),
        (HEAD + "x = 1\nx = 2", "catalog='c.toml': expected TOML. Cannot overwrite a value"),
        (HEAD + PEOPLE + PEOPLE, "catalog='c.toml': expected TOML. Cannot declare ('tables', 'people') twice"),
        (HEAD + "x = " + "9" * 9999, "catalog='c.toml': expected TOML. It holds a number"),
        (HEAD + "x = " + "[" * 9999, "catalog='c.toml': expected TOML. It holds a number or a nesting"),
        (b"\xff", "catalog='c.toml': expected a readable TOML file in UTF-8."),
        (HEAD + "pasword = 'x'\n" + PEOPLE, "catalog='pasword': expected one of the keys format, database,"),
        (HEAD + PEOPLE + "bound.age = [0, 1]", "tables.people='bound': expected one of the keys data, public, unit,"),
        (HEAD + PEOPLE + "bounds.age = [1, 0]", "tables.people.bounds.age=[1, 0]: expected two finite numbers"),
        (HEAD + PEOPLE + "bounds.age = [nan, 1]", "tables.people.bounds.age=[nan, 1]: expected two finite numbers"),
        (HEAD + PEOPLE + "bounds.age = [0, inf]", "tables.people.bounds.age=[0, inf]: expected two finite numbers"),
        (HEAD + PEOPLE + f"bounds.age = [0, 1{'0' * 400}]", "tables.people.bounds.age="),
        (HEAD + PEOPLE + "bounds.age = [false, true]", "tables.people.bounds.age=[False, True]: expected two finite"),
        (HEAD + PEOPLE + "bounds = 5", "tables.people.bounds=5: expected a table"),
        (HEAD + PEOPLE + 'bounds."a b" = "0:5"', "tables.people.bounds.\"a b\"='0:5': expected two finite numbers"),
        (HEAD + PEOPLE + "keys.sex = []", "tables.people.keys.sex=[]: expected a list of values, at least one."),
        (HEAD + PEOPLE + 'keys.sex = "mf"', "tables.people.keys.sex='mf': expected a list of values"),
        (HEAD + PEOPLE + "keys.sex = [1, 1]", "tables.people.keys.sex=[1, 1]: expected distinct values."),
        (HEAD + PEOPLE + "keys.sex = [nan]", "tables.people.keys.sex=nan: expected finite numbers."),
        (HEAD + PEOPLE + "keys.sex = [{null = 1}]", "tables.people.keys.sex={'null': 1}: expected text, numbers"),
        (
            HEAD + PEOPLE + "keys.t = [2026-01-01T00:00:00Z]",
            "tables.people.keys.t='2026-01-01 00:00:00+00:00': expected a",
        ),
        (HEAD + PEOPLE + "required = 'age'", "tables.people.required='age': expected a list of names."),
        (HEAD + PEOPLE + "decimal_comma = 'age'", "tables.people.decimal_comma='age': expected a list of names."),
        (HEAD + PEOPLE + "rows_per_unit = 0", "tables.people.rows_per_unit=0: expected an integer >= 1."),
        (
            HEAD + PEOPLE + "rows_in_total = 1\nmost_rows = 1",
            "tables.people.most_rows=1: expected none with a limit on rows.",
        ),
        (
            HEAD + PEOPLE + "rows_per_unit = 1\nrows_in_total = 1",
            "tables.people.rows_in_total=1: expected none with rows_per_unit.",
        ),
        (HEAD + PEOPLE + "groups_per_unit = true", "tables.people.groups_per_unit=True: expected an integer >= 1."),
        (HEAD + PEOPLE.replace('"who"', '""'), "tables.people.unit='': expected the column that identifies a person."),
        (HEAD + PEOPLE.replace('"who"', "5"), "tables.people.unit=5: expected a name."),
        (HEAD + PEOPLE.replace('unit = "who"', ""), "tables.people.unit=None: expected the column that identifies"),
        (HEAD + PEOPLE.replace('"who"', '{time = "day"}'), "tables.people.unit.column=None: expected the name of"),
        (
            HEAD + PEOPLE.replace('"who"', '{column = "a", key = "b"}'),
            "tables.people.unit=['column', 'key']: expected to",
        ),
        (
            HEAD + PEOPLE.replace('"who"', '{column = "a", time = "b", window = "decade"}'),
            "tables.people.unit.window='decade': expected one of hour, day, week, month, quarter, year.",
        ),
        (HEAD + PEOPLE + "public = 1", "tables.people.public=1: expected true or false."),
        (HEAD + PEOPLE + "public = true", "tables.people='unit': expected one of the keys data, public, bounds"),
        (HEAD + PEOPLE.replace("[tables.people]", '[tables."a\\n"]'), "tables='a\\n': expected a printable name"),
        (HEAD + PEOPLE + PEOPLE.replace("people]", "PEOPLE]"), "tables='PEOPLE': expected names that differ in more"),
        (
            HEAD + PEOPLE.replace('"who"', '"row"') + PEOPLE.replace("people]", "more]"),
            "unit='row': expected a column that identifies people, if there are several private tables.",
        ),
        (
            HEAD + 'database = "postgresql://ann@host/db"\n' + PEOPLE,
            "tables.people.data='people.csv': expected no file beside a database.",
        ),
        (HEAD + 'database = "mysql://host"\n' + PEOPLE, "database='...': expected an address that starts with"),
    ],
)
def test_mistakes_have_a_place(tmp_path: Path, text: str | bytes, words: str) -> None:
    messages = problems(tmp_path, text)
    assert any(message.startswith(words) for message in messages), messages


def test_a_missing_file(tmp_path: Path) -> None:
    (problem,) = read_catalog(tmp_path / "none.toml").problems
    assert str(problem).startswith("catalog='none.toml': expected a readable TOML file")


def test_all_mistakes_are_collected(tmp_path: Path) -> None:
    text = HEAD + PEOPLE + "bounds.age = 5\nkeys.sex = 6\nrows_per_unit = 1.5\n[tables.zones]\npublic = 2\n"
    assert len(problems(tmp_path, text)) == 5  # zones has no unit, either


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ann:geheim@host/db",
        "postgres://ann:geheim@host:5432/db",
        "postgresql://ann:gehe?im@host/db",  # libpq reads on until the @
        "postgresql://:geheim@host/db",
        "postgresql://host/db?password=geheim",
        "postgresql://host/db?user=ann&pass%77ord=geheim",
        "postgresql://host/db?sslpassword=geheim",
        "postgresql:///db?PASSWORD=geheim",
    ],
)
def test_a_password_is_refused_and_never_shown(tmp_path: Path, address: str) -> None:
    (message,) = problems(tmp_path, f'{HEAD}database = "{address}"\n[tables.people]\nunit = "who"')
    assert (
        message == "database='...': expected an address without a password. Use PGPASSWORD or ~/.pgpass for a password."
    )
    for misplaced in (f'data = "{address}"', f'password = "{address}"', f'database = "{address}"'):
        messages = problems(tmp_path, f'{HEAD}[tables.people]\nunit = "who"\n{misplaced}')
        assert messages
        assert not any("geheim" in message for message in messages)


@pytest.mark.parametrize(
    "address", ["postgresql://ann@host:5432/db", "postgresql://host:5432/db?user=a%40b", "postgres:///d"]
)
def test_addresses_without_a_password(tmp_path: Path, address: str) -> None:
    file = read(tmp_path, f'{HEAD}database = "{address}"\n[tables.people]\nunit = "who"')
    assert (file.problems, file.database) == ((), address)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_texts_and_keys_can_be_read_back(text: str) -> None:
    assert tomllib.loads(f"x = {toml_text(text)}") == {"x": text}
    assert tomllib.loads(f"{toml_key(text)} = 1") == {text: 1}
    assert "\n" not in toml_text(text)


_ITEMS = st.sampled_from(["5", "nan", '""', '"who"', "true", "2026-01-01", "[]", "{}", "[1, 2]", "{null = true}"])
_VALUES = _ITEMS | st.lists(_ITEMS, max_size=3).map(lambda items: f"[{', '.join(items)}]")
_KEYS = [
    "format",
    "tables",
    "data",
    "unit",
    "unit.to",
    "unit.column",
    "bounds",
    "keys.a",
    "public",
    "tables.t.unit",
]


@given(st.lists(st.tuples(st.sampled_from(_KEYS), _VALUES), max_size=6))
def test_no_file_raises(tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[str, str]]) -> None:
    text = "\n".join(f"{key} = {value}" for key, value in lines)
    for content in (text, f"{HEAD}{text}", f"{HEAD}[tables.t]\n{text}"):
        read(tmp_path_factory.getbasetemp(), content)
