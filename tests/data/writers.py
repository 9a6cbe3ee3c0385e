"""Programs that write tables, and cells that try to break out of theirs."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import openpyxl
import pandas as pd
import polars as pl
from openpyxl.utils.exceptions import IllegalCharacterError

Rows = Sequence[Sequence[str]]
Writer = Callable[[Path, Rows], Path]
COLUMNS = ("who", "note", "place")

HOSTILE = (
    *("", " ", "  padded  ", "\t", "plain", "é", "日本", "😀"),
    *('"', '""', '"""', 'a"b', '"a', 'a"', '"a"', '","', '"\n', '\n"', 'x"\ny"', '"x",9,z', '""\n""', ' "x', '"x" y'),
    *(",", ";", "|", "a,b", "a;b", "a\tb", ",,,,", "9,x,y", "9;x;y"),
    *("\n", "\r", "\r\n", "\n\r", "\r\r", "a\nb", "a\rb", "a\r\nb", "a\r", "\ra", "a\n", "\na", "x\n9,y,z\n", "x\r9,y"),
    *("hi\r10000,x,y\r10001,x,y", "hi\n10000,x,y\n10001,x,y", "\x0b\x0c\x1c\x1d\x1e\x85", "a\u2028b\u2029c"),
    *("\\", "\\n", '\\"', "\\.", "\\N", "\\,", "a\\", "'", "''", "'; DROP TABLE t; --", "#", "=1+1", "NULL", "NaN"),
    *("\ufeff", "a\ufeffb", "\x00", "a\x00b", "\x01\x02\x03", "\x1a", "\udcff", "a\ud800b", "x" * 300_000),
    *("1,5", "1.234,5", "true", "t", "y", "2020-01-01", "1e400", "0x10", "-0", "sep=;"),
)


def write_with_csv(path: Path, rows: Rows, **options: str) -> Path:
    with path.open("w", newline="", encoding="utf-8", errors="surrogatepass") as file:
        csv.writer(file, **options).writerows([COLUMNS, *rows])  # type: ignore[arg-type]
    return path


def write_compressed(path: Path, rows: Rows) -> Path:
    plain = write_with_csv(path, rows).read_bytes()
    compressed = path.with_name(f"{path.name}.gz")
    compressed.write_bytes(gzip.compress(plain))
    return compressed


def write_as_excel_does(path: Path, rows: Rows, separator: str = ",") -> Path:
    """Excel's CSV UTF-8: a byte order mark, and no quotes around a carriage return."""

    def cell(text: str) -> str:
        quoted = any(character in text for character in (separator, '"', "\n"))
        return '"' + text.replace('"', '""') + '"' if quoted else text

    lines = [separator.join(cell(text) for text in row) + "\r\n" for row in [COLUMNS, *rows]]
    path.write_bytes(("\ufeff" + "".join(lines)).encode("utf-8", "surrogatepass"))
    return path


def write_with_pandas(path: Path, rows: Rows) -> Path:
    frame = pd.DataFrame([list(row) for row in rows], columns=list(COLUMNS), dtype=object)
    frame.to_csv(path, index=False, errors="surrogatepass")
    return path


def write_with_polars(path: Path, rows: Rows) -> Path:
    pl.DataFrame([list(row) for row in rows], schema=list(COLUMNS), orient="row").write_csv(path)
    return path


def write_with_duckdb(path: Path, rows: Rows, form: str = "csv") -> Path:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (who VARCHAR, note VARCHAR, place VARCHAR)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [list(row) for row in rows])
    connection.execute(f"COPY t TO '{path}' (FORMAT {form}{', HEADER' if form == 'csv' else ''})")
    return path


def write_parquet(path: Path, rows: Rows) -> Path:
    return write_with_duckdb(path.with_suffix(".parquet"), rows, "parquet")


def write_workbook(path: Path, rows: Rows) -> Path:
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    assert sheet is not None
    for number, row in enumerate([COLUMNS, *rows], 1):
        for column, text in enumerate(row, 1):
            text.encode()  # openpyxl writes halves of surrogate pairs, as XML that nothing can read
            cell = sheet.cell(number, column)
            cell.value = text
            cell.data_type = "s"  # text, even if it looks like a formula
    target = path.with_suffix(".xlsx")
    workbook.save(target)
    return target


# Each program refuses some texts, which its tables therefore cannot hold.
REFUSALS = (UnicodeEncodeError, IllegalCharacterError, duckdb.Error, pl.exceptions.PolarsError, TypeError)

WRITERS: dict[str, Writer] = {
    "csv": write_with_csv,
    "csv, line feeds": lambda path, rows: write_with_csv(path, rows, lineterminator="\n"),
    "csv, carriage returns": lambda path, rows: write_with_csv(path, rows, lineterminator="\r"),
    "csv, tabs": lambda path, rows: write_with_csv(path.with_suffix(".tsv"), rows, dialect="excel-tab"),
    "csv, semicolons": lambda path, rows: write_with_csv(path, rows, delimiter=";"),
    "csv, compressed": write_compressed,
    "Excel's CSV": write_as_excel_does,
    "Excel's CSV, semicolons": lambda path, rows: write_as_excel_does(path, rows, ";"),
    "workbook": write_workbook,
    "pandas": write_with_pandas,
    "Polars": write_with_polars,
    "DuckDB": write_with_duckdb,
    "Parquet": write_parquet,
}
