"""A catalog of two tables, and the shell with its input from a pipe."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from hush.cli import main

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

CATALOG = """format = "hush.catalog/1"
[tables.people]
data = "people.parquet"
unit = {column = "who", time = "day", window = "month"}
rows_per_unit = 1
groups_per_unit = 2
bounds.age = [0, 100]
required = ["age"]
keys.region = ["north", {null = true}]
[tables.zones]
data = "zones.csv"
public = true
"""


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    duckdb.sql(
        "COPY (SELECT i AS who, i % 70 AS age, 'north' AS region, DATE '2024-01-01' AS day FROM range(3000) t(i)) "
        f"TO '{tmp_path / 'people.parquet'}'"
    )
    (tmp_path / "zones.csv").write_text("region,zone\nnorth,cold\n")
    file = tmp_path / "clinic.toml"
    file.write_text(CATALOG)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("HUSH_LEDGER", raising=False)
    monkeypatch.delenv("HUSH_LEDGER_TOKEN", raising=False)
    return file


Ask = Callable[..., int]


@pytest.fixture
def piped(clinic: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    def run(text: str, *options: str) -> int:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        return main(["query", "--catalog", str(clinic), *options])

    return run
