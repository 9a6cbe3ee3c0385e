"""Whatever a record holds, it raises nothing, decides nothing for others, and appears in no message."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from data.files import KEY, source_of
from hush import data
from hush.errors import InvalidArgument

SECRET = "Rosebud7"
HONEST = [f"{i % 7},{i % 5},{i % 2}" for i in range(40)]
DECLARED = data.Schema(
    columns={"a": data.Numeric(lower=0, upper=6), "b": data.Numeric(lower=0, upper=4)}, target="y", classes=("0", "1")
)
HOSTILE = {
    "nothing": b"",
    "commas": b",,",
    "NaN": b"nan,NaN,1",
    "infinity": b"inf,-Infinity,0",
    "huge": b"1e308,-1e308,1",
    "beyond floats": b"1e400,-1e999,0",
    "huge integer": b"9" * 400 + b",1,0",
    "date": b"2020-01-01,2020-01-01 10:00:00,1",
    "truth": b"true,FALSE,1",
    "text": b"Rosebud7,Rosebud7,Rosebud7",
    "hexadecimal": b"0x10,1_000,1",
    "short": b"1",
    "long": b"1,2,1,4,5,6,7",
    "quote within": b'1"2,2,1',
    "quoted": b'"1","2","1"',
    "line breaks within quotes": b'"1\n7,7,7\r\n\r","2","1"',
    "control characters": b"\x00\x01\x02\x03\x1f,1,0",
    "not UTF-8": b"\xff\xfe\xe9,1,0",
    "a line of megabytes": b"7" * 3_000_000 + b",1,0",
    "carriage return": b"1,2\r3,4",
    "comment": b"#1,2,1",
    "formula": b"=1+1,2,1",
    "backslash": b'\\"1,2,1',
    "SQL": b"1'); DROP TABLE t; --,2,1",
    "other alphabets": "١,２,1".encode(),
}


@pytest.mark.parametrize("record", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("position", [0, 17, 40])
@pytest.mark.quick_cases(25)
def test_a_record_is_its_own_affair(tmp_path: Path, record: bytes, position: int) -> None:
    """Whatever one line holds, all other rows are what they are without it."""
    honest = [line.encode() for line in HONEST]
    alone = data.prepare(source_of(tmp_path, honest), schema=DECLARED, holdout=0, key=KEY).train
    joined = source_of(tmp_path, [*honest[:position], record, *honest[position:]])
    together = data.prepare(joined, schema=DECLARED, holdout=0, key=KEY).train
    rows, others = together.inputs.tolist(), alone.inputs.tolist()
    added = len(rows) - len(others)
    assert 0 <= added <= 1
    assert rows[:position] == others[:position]
    assert rows[position + added :] == others[position:]
    assert np.isfinite(together.inputs).all()
    assert np.abs(together.inputs).max() <= 1


@pytest.mark.parametrize("record", [b'"1,2,1', b'1,"2,1', b'"1" x,2,1', b'"1"2"3,2,1'])
def test_a_file_whose_records_cannot_be_told_apart_is_refused(tmp_path: Path, record: bytes) -> None:
    """In the usual CSV grammar, a quote that is not closed takes all other records with it."""
    lines = [line.encode() for line in HONEST]
    assert len(list(csv.reader(["a,b,y", '"1,2,1', *HONEST]))) == 2
    for position in (0, 17, 40):
        source = source_of(tmp_path, [*lines[:position], record, *lines[position:]])
        with pytest.raises(InvalidArgument, match="cannot be told apart") as caught:
            data.prepare(source, schema=DECLARED, holdout=0, key=KEY)
        assert "1,2" not in str(caught.value)


@pytest.mark.parametrize("lines", [[], [b""], [b"", b"\r", b""]], ids=["none", "empty", "carriage return"])
def test_no_rows_are_refused_by_structure(tmp_path: Path, lines: list[bytes]) -> None:
    with pytest.raises(InvalidArgument, match="at least one row"):
        data.prepare(source_of(tmp_path, lines), schema=DECLARED, key=KEY)


@pytest.mark.parametrize("record", [b"1,2,1", b",,", b"x,y,z", b"1,2,7"])
def test_one_row(tmp_path: Path, record: bytes) -> None:
    if record.startswith(b"x"):  # all of its values are text: the type of the file
        with pytest.raises(InvalidArgument, match="text column without a vocabulary"):
            data.prepare(source_of(tmp_path, [record]), schema=DECLARED, holdout=0, key=KEY)
        return
    prepared = data.prepare(source_of(tmp_path, [record]), schema=DECLARED, holdout=0, key=KEY)
    assert prepared.train.inputs.shape == (1, 2)
    assert prepared.train.targets.tolist() == [1 if record == b"1,2,1" else -1]


def test_a_text_column_is_named_and_nothing_in_it(tmp_path: Path) -> None:
    lines = [f"{i},{SECRET}{i},1".encode() for i in range(9)]
    with pytest.raises(InvalidArgument) as caught:
        data.prepare(source_of(tmp_path, lines), target="y", learn=data.Learn(noise_multiplier=1.0), key=KEY)
    assert str(caught.value).startswith("column='b': expected numbers. It is a text column without a vocabulary.")
    assert SECRET not in str(caught.value)
    # Not a matter of one record: half of them may be anything.
    numbers = [f"{i},{i},1".encode() for i in range(9)]
    data.prepare(source_of(tmp_path, numbers + lines), schema=DECLARED, key=KEY)


def test_how_many_rows_there_are_depends_on_no_target(tmp_path: Path) -> None:
    """Else a rare class, declared as the only one, would be counted exactly."""
    lines = [line.encode() for line in HONEST]
    sizes = []
    for target in (b"0", b"7", b"", b"HIV"):
        changed = [b"1,1," + target, *lines[1:]]
        prepared = data.prepare(source_of(tmp_path, changed), schema=DECLARED, key=KEY)
        sizes.append((len(prepared.train), len(prepared.test)))
    assert len(set(sizes)) == 1
    assert sum(sizes[0]) == len(lines)


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
@pytest.mark.parametrize("record", [b"1,2,1\r1,2,1\r1,2,1", b"1,2,1\r", b"1,2\r,1", b"\r", b"\r\r1,2,1"])
def test_a_carriage_return_makes_no_record_and_changes_no_other(tmp_path: Path, record: bytes, ending: bytes) -> None:
    lines = [line.encode() for line in HONEST]
    path = tmp_path / "t.csv"
    path.write_bytes(ending.join([b"a,b,y", *lines, b""]))
    alone = data.prepare(data.open_data(path), schema=DECLARED, holdout=0, key=KEY).train
    path.write_bytes(ending.join([b"a,b,y", *lines[:5], record, *lines[5:], b""]))
    beside = data.prepare(data.open_data(path), schema=DECLARED, holdout=0, key=KEY).train
    added = len(beside) - len(alone)
    assert added in (0, 1)
    others = np.delete(np.arange(len(beside)), [5] if added else [])
    assert beside.inputs[others].tolist() == alone.inputs.tolist()
    assert beside.targets[others].tolist() == alone.targets.tolist()


def test_one_text_in_an_empty_column_decides_nothing(tmp_path: Path) -> None:
    schema = data.Schema(columns={"a": data.Numeric(lower=0, upper=1)}, target="y", classes=("0", "1"))
    for first in (b"", b"10mg"):
        prepared = data.prepare(
            source_of(tmp_path, [first + b",1,0", *([b",1,0", b",1,1"] * 20)]),
            schema=data.Schema(columns={**schema.columns, "b": data.Ignore()}, target="y", classes=("0", "1")),
            key=KEY,
        )
        assert prepared.shape == (1,)
