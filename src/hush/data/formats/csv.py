r"""CSV files: one grammar for training, queries, estimators and audits.

Python's csv parser reads the records, in its strict mode. A cell that begins with a quote ends at the next quote that
is not doubled, whatever separators and line breaks it holds. All other cells are taken as they are. This is how
Python's csv, pandas, Polars, DuckDB, PostgreSQL's COPY and Excel write tables. With such a file, whatever text the
cells of one person hold, only that person's records change:

- **Line breaks.** A record ends at a line feed outside quotes, or at a carriage return if the header does. Before
  Python 3.13, csv and pandas do not quote a carriage return if their lines end in line feeds. So a carriage return
  ends nothing in a file of line feeds: it is text.
- **Text.** A cell that is not valid in the file's encoding is missing. A cell may be as long as memory allows, and may
  hold NUL characters.
- **Types.** All cells are text. No type is inferred from values: what is not a number is missing where you ask for
  numbers, and affects no other cell.
- **Numbers.** The separator of a file is known from its header, which is public. Where it is a semicolon, numbers may
  have decimal commas: 1.234,5 is read as 1234.5. What 1.234 means in such a file depends on other cells, and no cell
  decides how another one is read. So it is 1.234, unless you declare that the column has decimal commas
  (``decimal_comma``): then it is 1234, and what is no such number is missing.
- **Width.** Cells that a record lacks are missing, cells beyond the last column are ignored, and empty lines are not
  records.

What no cell can cause, if one of these programs wrote the file, is a quote that is never closed, or text after a
closing quote. Such a file is damaged, or was put together without quoting. Its records cannot be told apart, so it is
refused as a whole, before anything is charged. A file without proper quoting that happens to follow the grammar cannot
be recognised. That cells are quoted is therefore an assumption of each guarantee.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import re
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from hush.data.formats.records import Record, column_names, of_width
from hush.errors import InvalidArgument

DELIMITERS = (",", ";", "\t", "|")
ASSUMPTION = (
    "the CSV file quotes cells that hold quotes, separators or line breaks, as spreadsheets, databases and data frames "
    "write them"
)
_BLOCK_BYTES, _HEADER_BLOCK_BYTES, _MAX_HEADER_BLOCKS = 1 << 22, 1 << 16, 256
_BATCH_CELLS = 614_400
_MAX_CELL_LENGTH = (1 << 31) - 1 if sys.platform == "win32" else sys.maxsize
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_LINE_END = re.compile(r"\r*\n|\r")
_LONE_RETURN = re.compile(r"\r(?!\r*\n)")
# Stands for a carriage return that ends no line. Decoding never yields it: bytes that are not text become U+DC80 to
# U+DCFF.
_HIDDEN_RETURN = "\udc0d"
_NOT_TEXT = re.compile("[\ud800-\udfff]")
_MARKED = (
    "hush.marked"  # what no text is becomes half of a surrogate pair in UTF-16, too: "surrogateescape" refuses that
)
codecs.register_error(_MARKED, lambda error: ("\udc80", error.end))  # type: ignore[attr-defined]
_COMMA_NUMBER = re.compile(r"\s*[+-]?(?:(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d*)?|,\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)
_DECIMAL_COMMA = re.compile(r"\s*[+-]?(?:\d{1,3}(?:\.\d{3})+|\d*),\d+(?:[eE][+-]?\d+)?\s*")
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_SWAPPED_LINE_ENDS = str.maketrans("\r\n", "\n\r")
_LIMIT_LOCK = threading.Lock()  # the limit of a cell's length belongs to the whole process


class CsvFile:
    """A CSV file of which only the header has been read.

    Attributes:
        path: The file.
        columns: The names of the columns.
        delimiter: The separator.
    """

    def __init__(self, path: Path, delimiter: str | None = None, decimal_comma: Sequence[str] = ()) -> None:
        """Read the header.

        Args:
            path: The file; compressed if its name ends in .gz.
            delimiter: The separator. If omitted, it is the one that is most frequent in the header; .tsv files have
                tabs.
            decimal_comma: The columns whose numbers have decimal commas, whatever their cells look like.
        """
        if delimiter is not None and delimiter not in DELIMITERS:
            raise InvalidArgument("delimiter", delimiter, "a comma, a semicolon, a tab or a bar")
        self.path = path
        with self._readable():
            header = _header_text(path)
        if _NOT_TEXT.search(header) or "\0" in header:
            advice = "In Excel, save it as CSV UTF-8"
            raise InvalidArgument("data", path.name, "text in UTF-8, or in UTF-16 with a byte order mark", advice)
        unquoted = _QUOTED.sub("", header)
        default = "\t" if ".tsv" in path.suffixes else max(DELIMITERS, key=unquoted.count)
        self.delimiter = delimiter or default
        end = _LINE_END.search(unquoted)
        self._ends_in_returns = end is not None and end.group() == "\r"
        lines = _Lines(iter([header]), ends_in_returns=self._ends_in_returns)
        try:
            names = next(self._reader(lines), [])
        except csv.Error:  # its message is not shown: without a header, the text is a record
            names = []
        self.columns = column_names([lines.restored(name) for name in names], path.name)
        unknown = next((name for name in decimal_comma if name not in self.columns), None)
        if unknown is not None:
            raise InvalidArgument("decimal_comma", unknown, "a column of the file")
        readers = {True: _with_comma_read, False: _with_decimal_point if self.delimiter == ";" else None}
        self._readers = [readers[name in decimal_comma] for name in self.columns]

    def batches(self) -> Iterator[list[Record]]:
        """Yield the records after the header, a few thousand at a time. A missing cell is None, or empty."""
        lines = _Lines(_text_blocks(self.path, _BLOCK_BYTES), ends_in_returns=self._ends_in_returns)
        reader = itertools.islice(self._reader(lines), 1, None)
        batch_size = 1 + _BATCH_CELLS // len(self.columns)
        while True:
            with self._readable(), _unlimited_cells():
                records: list[Record] = list(itertools.islice(reader, batch_size))
            if not records:
                return
            if lines.has_marks:
                records = [[lines.restored(cell) for cell in record] for record in records]
            records = of_width(len(self.columns), records)
            if any(self._readers):
                records = [
                    [cell if read is None else read(cell) for read, cell in zip(self._readers, record, strict=True)]
                    for record in records
                ]
            yield records

    def _reader(self, lines: Iterable[str]) -> Iterator[list[str]]:
        return csv.reader(lines, delimiter=self.delimiter, strict=True)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Refuse a file that cannot be read to its end. No message quotes it."""
        try:
            yield
        except csv.Error:
            raise InvalidArgument(
                "data",
                self.path.name,
                "a CSV file whose quoted cells are closed, and followed by a separator or a line break",
                "Records cannot be told apart otherwise",
                "Write the file again with a program that quotes cells, or save it as Parquet",
            ) from None
        except (OSError, EOFError, zlib.error):
            raise InvalidArgument("data", self.path.name, "a readable file") from None


class _Lines:
    """The lines of a text, for Python's csv parser. Outside quotes, the parser sees only line feeds as line breaks."""

    def __init__(self, blocks: Iterator[str], *, ends_in_returns: bool) -> None:
        """Take the text.

        Args:
            blocks: The text, in parts.
            ends_in_returns: Whether carriage returns end lines, and line feeds do not.
        """
        self.has_marks = ends_in_returns
        self._ends_in_returns = ends_in_returns
        self._lines = itertools.chain.from_iterable(self._split(blocks))

    def __iter__(self) -> Iterator[str]:
        return self._lines

    def restored(self, cell: str | None) -> str | None:
        """Return a cell as it was in the file; None if it was not text."""
        if cell is None or (cell.isascii() and not self._ends_in_returns):
            return cell
        cell = cell.replace(_HIDDEN_RETURN, "\r")
        if self._ends_in_returns:
            cell = cell.translate(_SWAPPED_LINE_ENDS)
        return None if _NOT_TEXT.search(cell) else cell

    def _split(self, blocks: Iterator[str]) -> Iterator[Iterable[str]]:
        pending: list[str] = []
        for text in blocks:
            block = text.translate(_SWAPPED_LINE_ENDS) if self._ends_in_returns else text
            end = block.rfind("\n") + 1
            if end:
                yield io.StringIO(self._marked("".join(pending) + block[:end]), newline="\n")
                pending = []
            pending.append(block[end:])
        yield [self._marked("".join(pending))]

    def _marked(self, text: str) -> str:
        """Hide carriage returns that end no line, and note whether any cell has to be restored."""
        if text.count("\r") != text.count("\r\n"):
            text = _LONE_RETURN.sub(_HIDDEN_RETURN, text)
        if not text.isascii() and _NOT_TEXT.search(text):
            self.has_marks = True
        return text


def _header_text(path: Path) -> str:
    """Return the text up to the first line end outside quotes, and ignore the rest."""
    text, start, quotes = "", 0, 0
    for block in itertools.islice(_text_blocks(path, _HEADER_BLOCK_BYTES), _MAX_HEADER_BLOCKS):
        text += block
        for end in _LINE_END.finditer(text, start):
            if end.end() == len(text) and end.group().endswith("\r"):
                break  # a line feed may follow in the next block
            quotes += text.count('"', start, end.start())
            start = end.end()
            if quotes % 2 == 0:
                return text[:start]
    return text


def _text_blocks(path: Path, num_bytes: int) -> Iterator[str]:
    """Yield a file's text in parts. Bytes that are not text become halves of surrogate pairs."""
    with _open(path) as file:
        block = file.read(num_bytes)
        mark, encoding = next((pair for pair in _BYTE_ORDER_MARKS if block.startswith(pair[0])), (b"", "utf-8"))
        decoder = codecs.getincrementaldecoder(encoding)("surrogateescape" if encoding == "utf-8" else _MARKED)
        block = block[len(mark) :]
        while block:
            yield decoder.decode(block)
            block = file.read(num_bytes)
        yield decoder.decode(b"", final=True)


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.suffix.lower() == ".gz" else path.open("rb")


@contextmanager
def _unlimited_cells() -> Iterator[None]:
    """Let the parser read cells of any length: by default, one long cell would stop it."""
    with _LIMIT_LOCK:
        limit = csv.field_size_limit(_MAX_CELL_LENGTH)
        try:
            yield
        finally:
            csv.field_size_limit(limit)


def _with_comma_read(cell: str | None) -> str | None:
    """Return a number of a column with decimal commas as one with a decimal point, and None for any other cell.

    >>> [_with_comma_read(cell) for cell in ("1.234", "1.234,5", "-,5", "1.5", "1,234,5", "n/a")]
    ['1234', '1234.5', '-.5', None, None, None]
    """
    if cell is None or _COMMA_NUMBER.fullmatch(cell) is None:
        return None
    return cell.replace(".", "").replace(",", ".")


def _with_decimal_point(cell: str | None) -> str | None:
    """Return a number with a decimal comma as one with a decimal point, and any other cell as it is.

    >>> [_with_decimal_point(cell) for cell in ("1,5", "1.234,50", "-,5", "1,5 mg", "a,b")]
    ['1.5', '1234.50', '-.5', '1,5 mg', 'a,b']
    """
    if cell is None or "," not in cell or _DECIMAL_COMMA.fullmatch(cell) is None:
        return cell
    return cell.replace(".", "").replace(",", ".")
