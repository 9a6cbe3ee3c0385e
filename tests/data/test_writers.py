"""Whatever text one person's cells hold, and whichever program wrote the table, only that person's rows change."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from data.writers import COLUMNS, HOSTILE, REFUSALS, WRITERS, Writer
from hush import data
from hush.data import TableData
from hush.sql.engines.duckdb import DuckDBEngine

OTHERS = [("ann", "hi", "north"), ("bob", 'a "b", c', "south"), ("cyd", "two\nlines", "9"), ("dan", "", "1.5")]
MALLORY = "mallory"
CELLS = st.one_of(st.sampled_from(HOSTILE), st.text('",;\n\r\\x \t\x00é', max_size=6), st.text(max_size=4))


def as_queries_read(path: Path) -> list[tuple[str | None, ...]]:
    rows = DuckDBEngine({"t": path}).run("SELECT * FROM t")
    return [tuple(cell or None for cell in row) for row in rows]


def as_training_reads(path: Path) -> list[tuple[str, ...]]:
    source = data.open_data(path)
    assert isinstance(source, TableData)
    return list(zip(*(source.table.texts(name).tolist() for name in COLUMNS), strict=True))


def check_others(path: Path, num_records: int) -> list[tuple[str | None, ...]]:
    """Check that the other people's rows are as they were, in queries and in training. Return the hostile rows."""
    queried, trained = as_queries_read(path), as_training_reads(path)
    expected = [tuple(cell or None for cell in row) for row in OTHERS]
    assert [row for row in queried if row[0] in {other[0] for other in OTHERS}] == expected
    assert [row for row in trained if row[0] in {other[0] for other in OTHERS}] == OTHERS
    assert len(queried) == len(trained) == len(OTHERS) + num_records
    return [row for row in queried if row[0] not in {other[0] for other in OTHERS}]


def accepts(writer: Writer, folder: Path, cell: str) -> bool:
    """Return whether a table of this program can hold a cell. All of them hold what is printed."""
    if cell.isprintable():
        return True
    try:
        writer(folder / "t.csv", [(MALLORY, cell, "x")])
    except REFUSALS:
        return False
    return True


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
@pytest.mark.quick_cases(4)
def test_each_hostile_cell(writer: Writer, tmp_path: Path) -> None:
    """All of them in one table: in the middle of a record, at its end, and in two cells."""
    rows: list[tuple[str, ...]] = []
    for cell in HOSTILE:
        if accepts(writer, tmp_path, cell):
            rows += [(MALLORY, cell, "x"), (MALLORY, "x", cell), (MALLORY, cell, cell)]
    assert len(rows) > 150
    path = writer(tmp_path / "t.csv", [*OTHERS[:2], *rows, *OTHERS[2:]])
    for read, row in zip(check_others(path, len(rows)), rows, strict=True):
        assert read[0] == MALLORY
        if "\udcff" not in row[1] + row[2] and "\ud800" not in row[1] + row[2] and "," not in row[1] + row[2]:
            # XML has no carriage returns, and one at the end of a line may belong to the line.
            # Excel's cells have at most 32,767 characters.
            assert re.sub(r"[\r\n]", "", read[1] or "")[:32_767] == re.sub(r"[\r\n]", "", row[1])[:32_767]


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
@settings(max_examples=8, deadline=None)
@given(cells=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=3), position=st.integers(0, len(OTHERS)))
@example(cells=[('"', '"'), ('"', '"')], position=1)
@example(cells=[("a\r", "b\r"), ("\r", "\n")], position=2)
@pytest.mark.quick_cases(7)
def test_hostile_cells(writer: Writer, cells: list[tuple[str, str]], position: int) -> None:
    rows = [(MALLORY, *pair) for pair in cells]
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = writer(Path(folder) / "t.csv", [*OTHERS[:position], *rows, *OTHERS[position:]])
        except REFUSALS:
            return
        assert {row[0] for row in check_others(path, len(rows))} == {MALLORY}


@pytest.mark.postgres
def test_what_postgresql_copies(postgres_url: str, tmp_path: Path) -> None:
    import psycopg

    held = [cell for cell in HOSTILE if "\x00" not in cell and cell.isprintable() | cell.isascii()]
    rows = [row for cell in held for row in ((MALLORY, cell, "x"), (MALLORY, "x", cell), (MALLORY, cell, cell))]
    path = tmp_path / "t.csv"
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TEMP TABLE t (who TEXT, note TEXT, place TEXT)")
        insert = "INSERT INTO t VALUES (%s, %s, %s)"
        connection.cursor().executemany(insert, [*OTHERS[:2], *rows, *OTHERS[2:]])
        with connection.cursor().copy("COPY t TO STDOUT (FORMAT csv, HEADER)") as copy:
            path.write_bytes(b"".join(bytes(block) for block in copy))
    read = check_others(path, len(rows))
    assert [(row[1] or "", row[2] or "") for row in read] == [row[1:] for row in rows]
