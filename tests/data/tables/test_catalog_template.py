"""Templates of catalogs: names and kinds of columns, and no way out of a comment."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from hush.data.tables.catalog_template import TemplateTable, catalog_template
from hush.data.tables.catalog_toml import read_catalog
from hush.errors import InvalidArgument

HOSTILE = 'x\nversion = 9 "#'


def uncommented(text: str) -> str:
    """Return a template with everything filled in."""
    declared = [
        line.removeprefix("# ") if line.startswith(("# bounds.", "# keys.")) else line for line in text.splitlines()
    ]
    return "\n".join(declared).replace('unit = ""', 'unit = "who"')


def test_the_template_only_lacks_the_unit(tmp_path: Path) -> None:
    people = TemplateTable({"who": "BIGINT", "age": "DOUBLE", "the region": "VARCHAR", "day": "DATE"}, "p.parquet")
    file = tmp_path / "c.toml"
    file.write_text(catalog_template({"people": people}))
    assert [str(problem).partition(":")[0] for problem in read_catalog(file).problems] == ["tables.people.unit=''"]
    file.write_text(uncommented(catalog_template({"people": people})))
    table = read_catalog(file).tables["people"]
    assert (set(table.bounds), set(table.keys)) == ({"who", "age"}, {"who", "the region"})


def test_names_cannot_leave_their_place() -> None:
    table = TemplateTable({HOSTILE: "BIGINT", "other": "VARCHAR"}, HOSTILE, untyped=True)
    content = tomllib.loads(uncommented(catalog_template({HOSTILE: table})))
    assert content["format"] == "hush.catalog/1"
    assert list(content["tables"]) == [HOSTILE]
    assert content["tables"][HOSTILE]["data"] == HOSTILE
    assert list(content["tables"][HOSTILE]["bounds"]) == [HOSTILE, "other"]


def test_values_of_a_type_are_not_shown() -> None:
    table = TemplateTable({"who": "BIGINT", "illness": "ENUM('flu', 'gout')"}, "p.parquet")
    assert "gout" not in catalog_template({"people": table})


def test_a_file_without_a_header_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="first line names its columns") as refusal:
        catalog_template({"people": TemplateTable({"ann": "VARCHAR", "1985": "VARCHAR"}, "p.csv", untyped=True)})
    assert "ann" not in str(refusal.value)


def test_a_database_is_named_without_a_file() -> None:
    content = tomllib.loads(catalog_template({"people": TemplateTable({"who": "bigint"})}, "postgresql://ann@host/db"))
    assert content["database"] == "postgresql://ann@host/db"
    assert "data" not in content["tables"]["people"]
