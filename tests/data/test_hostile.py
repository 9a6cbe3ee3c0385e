"""What is in a record raises nothing, decides nothing for others, and is told to nobody."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from hush import data
from hush.errors import HushError, InvalidArgument

KEY = bytes(32)
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
    "open quote": b'"1,2,1',
    "quote within": b'1"2,2,1',
    "quoted": b'"1","2","1"',
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


def source_of(tmp_path: Path, lines: list[bytes], name: str = "t.csv") -> data.RawData:
    path = tmp_path / name
    path.write_bytes(b"\n".join([b"a,b,y", *lines]) + b"\n")
    return data.open_data(path)


@pytest.mark.parametrize("record", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("place", [0, 17, 40])
def test_a_record_is_its_own_affair(tmp_path: Path, record: bytes, place: int) -> None:
    """Whatever one line holds, all other rows are what they are without it."""
    honest = [line.encode() for line in HONEST]
    alone = data.prepare(source_of(tmp_path, honest), schema=DECLARED, holdout=0, key=KEY).train
    joined = source_of(tmp_path, [*honest[:place], record, *honest[place:]])
    together = data.prepare(joined, schema=DECLARED, holdout=0, key=KEY).train
    rows, others = together.inputs.tolist(), alone.inputs.tolist()
    more = len(rows) - len(others)
    assert 0 <= more <= 1
    assert rows[:place] == others[:place]
    assert rows[place + more :] == others[place:]
    assert np.isfinite(together.inputs).all()
    assert np.abs(together.inputs).max() <= 1


def test_the_usual_grammar_fails_that(tmp_path: Path) -> None:
    """The twin: read as CSV usually is, one quote in one record takes all others with it."""
    lines = ["a,b,y", '"1,2,1', *HONEST]
    assert len(list(csv.reader(lines))) == 2
    table = source_of(tmp_path, [line.encode() for line in lines[1:]]).table  # type: ignore[attr-defined]
    assert table.num_rows == len(HONEST)


@pytest.mark.parametrize("lines", [[], [b""], [b"\xff"], [b'"']], ids=["none", "empty", "not UTF-8", "quote"])
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


def test_missing_values_take_the_middle(tmp_path: Path) -> None:
    lines = [b"3,2,1", b",na,1", b"nan,NULL,0", b"text,None,0", b"3,4,1", b"0,0,0", b"6,2,0"]
    inputs = data.prepare(source_of(tmp_path, lines), schema=DECLARED, holdout=0, key=KEY).train.inputs
    assert inputs.tolist() == [[0, 0], [0, 0], [0, 0], [0, 0], [0, 1], [-1, -1], [1, 0]]


def test_a_text_column_is_named_and_nothing_in_it(tmp_path: Path) -> None:
    lines = [f"{i},{SECRET}{i},1".encode() for i in range(9)]
    with pytest.raises(InvalidArgument) as caught:
        data.prepare(source_of(tmp_path, lines), target="y", learn=data.Learn(noise_multiplier=1.0), key=KEY)
    assert str(caught.value).startswith("column='b': expected numbers. It is a text column without a vocabulary.")
    assert SECRET not in str(caught.value)
    # Not a matter of one record: half of them may be anything.
    numbers = [f"{i},{i},1".encode() for i in range(9)]
    data.prepare(source_of(tmp_path, numbers + lines), schema=DECLARED, key=KEY)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b"", "the names of the columns"),
        (b",,", "the names of the columns"),
        (b"a,b,a", "each name once"),
        (b"1.5,2,7", "It has numbers only"),
        (b'"a,b,y', "without line breaks"),
        (b"a,\xff,y", "UTF-8"),
        ("a,b,y".encode("utf-16"), "UTF-8"),
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


@pytest.mark.parametrize("role", ["target", "unit", "groups"])
def test_a_missing_column_is_refused_with_those_that_exist(tmp_path: Path, role: str) -> None:
    source = source_of(tmp_path, [b"1,2,1"])
    roles: dict[str, Any] = {"target": "y", role: ["z"] if role == "groups" else "z"}
    with pytest.raises(InvalidArgument, match=f"^{role}='z': expected one of the columns a, b, y"):
        data.prepare(source, **roles, learn=data.Learn(noise_multiplier=1.0), key=KEY)
    with pytest.raises(InvalidArgument, match="^target='z'"):
        data.open_data(tmp_path / "t.csv", target="z")


def test_parquet_of_all_types(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    values = (
        "1::TINYINT a, 'infinity'::DATE b, 'infinity'::TIMESTAMP c, 'nan'::DOUBLE d, "
        "170141183460469231731687303715884105727::HUGEINT e, 1.5::DECIMAL(20, 3) f, true g, NULL::FLOAT h, "
        "[1] i, {'k': 1} j, 'x'::BLOB k, 't' l, 1 y"
    )
    duckdb.connect().execute(f"COPY (SELECT {values}) TO '{path}' (FORMAT parquet)")
    source = data.open_data(path)
    with pytest.raises(InvalidArgument, match="Declare it as ignore"):
        data.needs_learning(source, "y")
    ignored = {name: data.Ignore() for name in "ijk"}
    with pytest.raises(InvalidArgument, match="column='l': .*text column without a vocabulary"):
        data.needs_learning(source, "y", data.Schema(columns=ignored))
    columns = {**ignored, "l": data.Category(values=("t",))}
    columns |= {name: data.Numeric(lower=-1, upper=1) for name in "abcdefgh"}
    schema = data.Schema(columns=columns, classes=("0", "1"))
    train = data.prepare(source, target="y", schema=schema, holdout=0, key=KEY).train
    assert train.inputs.tolist() == [[1, 0, 0, 0, 1, 1, 1, 0, 1, 0]]
    assert train.targets.tolist() == [1]


def test_a_damaged_parquet_file_tells_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    query = f"COPY (SELECT '{SECRET}' || range AS a, range % 2 AS y FROM range(5000)) TO '{path}' (FORMAT parquet)"
    duckdb.connect().execute(query)
    raw = bytearray(path.read_bytes())
    raw[10:4000] = bytes(3990)
    path.write_bytes(raw)
    schema = data.Schema(columns={"a": data.Category(values=("x",))}, classes=("0", "1"))
    with pytest.raises(HushError) as caught:
        data.prepare(data.open_data(path), target="y", schema=schema, key=KEY)
    assert SECRET not in str(caught.value)


def test_bounds_at_the_end_of_floats(tmp_path: Path) -> None:
    wide = data.Numeric(lower=-1.7e308, upper=1.7e308)
    schema = data.Schema(columns={"a": wide, "b": wide}, target="y", classes=("0", "1"))
    lines = [b"1.7e308,-1.7e308,1", b"1e999,0,0"]
    inputs = data.prepare(source_of(tmp_path, lines), schema=schema, holdout=0, key=KEY).train.inputs
    assert inputs.tolist() == [[1, -1], [1, 0]]


def test_messages_show_no_key(tmp_path: Path) -> None:
    source = source_of(tmp_path, [b"1,2,1"])
    for key in (b"short secret", "a secret text", bytearray(b"s" * 32)):
        with pytest.raises(InvalidArgument) as caught:
            data.prepare(source, schema=DECLARED, key=key)  # type: ignore[arg-type]
        assert "secret" not in str(caught.value).replace("32 secret bytes", "")


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
    more = len(beside) - len(alone)
    assert more in (0, 1)
    kept = np.delete(np.arange(len(beside)), [5] if more else [])
    assert beside.inputs[kept].tolist() == alone.inputs.tolist()
    assert beside.targets[kept].tolist() == alone.targets.tolist()


def test_one_text_in_an_empty_column_decides_nothing(tmp_path: Path) -> None:
    schema = data.Schema(columns={"a": data.Numeric(lower=0, upper=1)}, target="y", classes=("0", "1"))
    for first in (b"", b"10mg"):
        prepared = data.prepare(
            source_of(tmp_path, [first + b",1,0", *([b",1,0", b",1,1"] * 20)]),
            schema=data.Schema(columns={**schema.columns, "b": data.Ignore()}, target="y", classes=("0", "1")),
            key=KEY,
        )
        assert prepared.shape == (1,)


def test_half_a_surrogate_ends_no_reading(tmp_path: Path) -> None:
    labels = np.array(["no", "yes"] * 50)
    for text in ("no", "\ud800"):
        labels[5] = text
        np.savez(tmp_path / "t.npz", x=np.zeros((100, 2)), y=labels)
        source = data.open_data(tmp_path / "t.npz")
        assert source.columns is not None
        schema = data.Schema(
            columns={name: data.Numeric(lower=0, upper=1) for name in source.columns[:2]}, classes=("no", "yes")
        )
        prepared = data.prepare(source, target=source.columns[-1], schema=schema, holdout=0, key=KEY)
        assert len(prepared.train) == 100
