"""CSV files: their first line, and the one grammar of their records."""

from __future__ import annotations

import codecs
import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from data.files import KEY
from hush import data
from hush.data.formats import csv as csv_module
from hush.data.formats.csv import CsvFile
from hush.errors import InvalidArgument


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b"", "the names of the columns"),
        (b",,", "the names of the columns"),
        (b"a,b,a", "each name only once"),
        (b"1.5,2,7", "It has numbers only"),
        (b'"a,b,y', "the names of the columns"),
        (b'"a"x,b,y', "the names of the columns"),
        (b"a,b\0,y", "UTF-8"),
        (b"a,\xff,y", "UTF-8"),
        ("a,b,y".encode("utf-16-le"), "UTF-8"),
    ],
)
def test_headers_that_are_none(tmp_path: Path, header: bytes, words: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(header + b"\n1,2,1\n")
    with pytest.raises(InvalidArgument, match=words) as caught:
        data.open_data(path)
    assert "1.5" not in str(caught.value)  # a first line of numbers may be a record


def test_names_that_are_strange_but_names(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(',"a ""b""",c0,C0,"x,y",y\'; DROP TABLE t\n1,2,3,4,5,0\n1,2,3,4,5,1\n')
    source = data.open_data(path)
    assert source.columns == ["column1", 'a "b"', "c0", "C0", "x,y", "y'; DROP TABLE t"]
    bounds = {name: data.Numeric(lower=0, upper=5) for name in source.columns[:-1]}
    schema = data.Schema(columns=bounds, classes=("0", "1"))
    train = data.prepare(source, target="y'; DROP TABLE t", schema=schema, holdout=0, key=KEY).train
    np.testing.assert_allclose(train.inputs[0], [-0.6, -0.2, 0.2, 0.6, 1], rtol=1e-6)
    numbered = tmp_path / "numbered.csv"
    numbered.write_text("0,1,2\n5,5,5\n")
    assert data.open_data(numbered).columns == ["0", "1", "2"]


def test_the_delimiter_is_the_most_frequent_one_or_the_stated_one(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;b;c,d\n")
    assert (CsvFile(path).columns, CsvFile(path).delimiter) == (["a", "b", "c,d"], ";")
    assert (CsvFile(path, ",").columns, CsvFile(path, ",").delimiter) == (["a;b;c", "d"], ",")
    with pytest.raises(InvalidArgument, match="^delimiter="):
        CsvFile(path, ".")
    path.write_text('"a,b,c,d";e\n')
    assert CsvFile(path).columns == ["a,b,c,d", "e"]


@pytest.mark.parametrize("numbers", ["0,1,2", "1,2,3", "0", "1"])
def test_columns_may_be_numbered(tmp_path: Path, numbers: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(numbers + "\n")
    assert CsvFile(path).columns == numbers.split(",")


def records(path: Path, delimiter: str | None = None) -> list[list[str | None]]:
    return [list(record) for batch in CsvFile(path, delimiter).batches() for record in batch]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a,b\n1,2\n", [["1", "2"]]),
        (b"a,b\n1,2", [["1", "2"]]),
        (b"a,b\r\n1,2\r\n", [["1", "2"]]),
        (b"a,b\r\r\n1,2\r\r\n", [["1", "2"]]),
        (b"a,b\r1,2\r3,4\r", [["1", "2"], ["3", "4"]]),
        (b"a,b\r1,2\n3\r", [["1", "2\n3"]]),
        (b'a,b\r1,"2\r3\n4"\r', [["1", "2\r3\n4"]]),
        (b"a,b\n1,2\r3\n", [["1", "2\r3"]]),
        (b"a,b\r\n1,2\n3,4\r5\r\n", [["1", "2"], ["3", "4\r5"]]),
        (b'a,b\n"x\r\ny\rz\n","""q"""\n', [["x\r\ny\rz\n", '"q"']]),
        (b"a,b\n\n\n1,2\n\n", [["1", "2"]]),
        (b"a,b\n1\n2,3,4\n", [["1", None], ["2", "3"]]),
        (b"a,b\n\xff,2\nx\xe9,\xc3\xa9\n", [[None, "2"], [None, "\u00e9"]]),
        (b'a,b\n5" disk,a"b"c\n', [['5" disk', 'a"b"c']]),
        (b"a,b\n\xe2\x82,\xe2\n3,4\n", [[None, None], ["3", "4"]]),
    ],
)
def test_records(tmp_path: Path, content: bytes, expected: list[list[str | None]]) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    assert records(path) == expected
    path.write_bytes(codecs.BOM_UTF8 + content)
    assert records(path) == expected
    compressed = tmp_path / "t.csv.gz"
    compressed.write_bytes(gzip.compress(content))
    assert records(compressed) == expected


@pytest.mark.parametrize("mark", [codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE])
def test_utf_16_has_a_mark(tmp_path: Path, mark: bytes) -> None:
    path = tmp_path / "t.csv"
    encoding = "utf-16-le" if mark == codecs.BOM_UTF16_LE else "utf-16-be"
    path.write_bytes(mark + 'a\tb\r\n\u00e9\t"\U0001f600\n"\r\n'.encode(encoding))
    assert records(path) == [["\u00e9", "\U0001f600\n"]]
    half = mark + "a,b\n".encode(encoding) + "\ud800".encode(encoding, "surrogatepass") + ",2\n3,4\n".encode(encoding)
    path.write_bytes(half)
    assert records(path) == [[None, "2"], ["3", "4"]]


def test_decimal_commas_are_read_in_files_with_semicolons(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('a;b\n1,5;-1.234.567,25\n1,5 mg;"a,b"\n1.5;7\n,5e-3;1,2,3\n')
    assert records(path) == [["1.5", "-1234567.25"], ["1,5 mg", "a,b"], ["1.5", "7"], [".5e-3", "1,2,3"]]
    path.write_text('a,b\n"1,5",2\n')
    assert records(path) == [["1,5", "2"]]  # a comma may separate thousands here


def test_blocks_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a file is cut for reading: within characters, quotes and line ends."""
    path = tmp_path / "t.csv"
    path.write_bytes('"a\n1",b\r\n"\u00e9""\r\n\r",2\r\n\r3,\U0001f600\r\n'.encode() + b"\xff,\r\r\n5,6")
    expected = [['\u00e9"\r\n\r', "2"], ["\r3", "\U0001f600"], [None, ""], ["5", "6"]]
    for size in range(1, 12):
        monkeypatch.setattr(csv_module, "_BLOCK_BYTES", size)
        monkeypatch.setattr(csv_module, "_HEADER_BLOCK_BYTES", size)
        monkeypatch.setattr(csv_module, "_BATCH_CELLS", size % 6)
        assert CsvFile(path).columns == ["a 1", "b"]
        assert records(path) == expected


def test_the_limit_of_cells_is_restored(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "x" * 200_000 + ",2\n")
    limit = csv.field_size_limit()
    assert len(records(path)[0][0] or "") == 200_000
    assert csv.field_size_limit() == limit


@pytest.mark.parametrize("cut", [10, 30])
def test_a_damaged_compressed_file_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + bytes(range(48, 58)) * 1000 + b",1\n")[:-cut])
    with pytest.raises(InvalidArgument, match="a readable file"):
        records(path)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_cell_that_is_not_utf_16_is_missing(tmp_path: Path, encoding: str) -> None:
    """It must not become the text that another person has, who then would be the same unit."""
    path = tmp_path / "t.csv"
    lines = ["\ufeffwho,x", "\ufffd,1", "\ud800,2", "b\udc0d,3", "é,4", ""]
    path.write_bytes("\n".join(lines).encode(encoding, "surrogatepass") + b"\x00")  # and half of a character at the end
    records = [list(record) for batch in CsvFile(path).batches() for record in batch]
    assert records[:4] == [["\ufffd", "1"], [None, "2"], [None, "3"], ["é", "4"]]
    assert [record[0] for record in records[4:]] == [None]


TEXTS = ["1.234", "1.234,5", "1,5", "-,5", "1.5", "12.345.678", "x", "", "1e3", "1.234,5 EUR", "1.23,4", "\u0661.234"]


@pytest.mark.parametrize("columns", [(), ("income",)])
def test_no_cell_decides_how_another_one_is_read(tmp_path: Path, columns: tuple[str, ...]) -> None:
    """Neighbours: one person's cell becomes any other text, and only that cell is read in another way."""
    path = tmp_path / "t.csv"

    def read(texts: list[str]) -> list[object]:
        path.write_text("who;income\n" + "".join(f"{i};{text}\n" for i, text in enumerate(texts)))
        file = CsvFile(path, decimal_comma=columns)
        return [record[1] for batch in file.batches() for record in batch]

    plain = read(TEXTS)
    assert plain[:4] == (["1234", "1234.5", "1.5", "-.5"] if columns else ["1.234", "1234.5", "1.5", "-.5"])
    if columns:
        assert plain[4:] == [None, "12345678", None, None, "1e3", None, None, None]
    for place in range(len(TEXTS)):
        for text in TEXTS:
            changed = read([*TEXTS[:place], text, *TEXTS[place + 1 :]])
            assert changed[:place] + changed[place + 1 :] == plain[:place] + plain[place + 1 :]


def test_a_reader_that_learns_the_mark_from_cells_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin reads 1.234 as 1234 once it has seen a decimal comma."""
    seen: list[str] = []

    def learned(cell: str | None) -> str | None:
        if cell and "," in cell:
            seen.append(cell)
        return csv_module._with_comma_read(cell) if seen else cell

    monkeypatch.setattr(csv_module, "_with_decimal_point", learned)
    with pytest.raises(AssertionError):
        test_no_cell_decides_how_another_one_is_read(tmp_path, ())


def test_columns_of_the_file_only_have_decimal_commas(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('a,b\n"1.234","1.234"\n')
    assert data.open_data(path, decimal_comma=["b"]).columns == ["a", "b"]
    assert next(CsvFile(path, decimal_comma=["b"]).batches()) == [["1.234", "1234"]]
    with pytest.raises(InvalidArgument, match="decimal_comma='c': expected a column of the file"):
        data.open_data(path, decimal_comma=["c"])
