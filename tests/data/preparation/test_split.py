"""Which units are held out: by secret coins of their own, with all of their rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.files import KEY, source_of
from hush import data
from hush.errors import InvalidArgument

SCHEMA = data.Schema(columns={"a": data.Numeric(lower=0, upper=1e6)}, target="y", classes=("0", "1"))


def prepared(path: Path, rows: list[tuple[Any, ...]], **settings: Any) -> data.Prepared:
    path.write_text("\n".join(["a,user,y", *(",".join(str(x) for x in row) for row in rows)]) + "\n")
    arguments: dict[str, Any] = {"schema": SCHEMA, "unit": "user", "holdout": 0.3, "key": KEY, **settings}
    return data.prepare(data.open_data(path), **arguments)


def test_users_whose_ids_differ_in_their_decimal_mark_are_different_users(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"750000,5;{number}{mark}5;{number % 2}" for number in range(40) for mark in ",."]
    path.write_text("\n".join(["a;user;y", *rows]) + "\n")
    result = data.prepare(data.open_data(path), schema=SCHEMA, unit="user", holdout=0, key=KEY)
    assert result.train.units is not None
    assert len(np.unique(result.train.units)) == 80
    assert result.train.inputs[0, 0] == pytest.approx(0.5, abs=1e-5)  # a number has its decimal comma all the same
    with pytest.raises(InvalidArgument, match="decimal_comma='user': expected columns of numbers, not the unit"):
        data.prepare(data.open_data(path, decimal_comma=["user"]), schema=SCHEMA, unit="user", key=KEY)


def values(part: data.Examples) -> set[int]:
    return {round((float(x) + 1) * 5e5) for x in part.inputs[:, 0]}


ROWS = [(1000 * n, f"u{n % 120}", n % 2) for n in range(700)]


def test_a_user_is_on_one_side(tmp_path: Path) -> None:
    result = prepared(tmp_path / "t.csv", ROWS)
    assert len(result.train) + len(result.test) == len(ROWS)
    assert result.train.units is not None
    assert result.test.units is not None
    assert not set(result.train.units.tolist()) & set(result.test.units.tolist())
    assert len({*result.train.units.tolist(), *result.test.units.tolist()}) == 120
    users = {value: row[1] for value, row in zip((row[0] for row in ROWS), ROWS, strict=True)}
    by_code: dict[int, set[str]] = {}
    for x, unit in zip(result.train.inputs[:, 0], result.train.units, strict=True):
        by_code.setdefault(int(unit), set()).add(users[round((float(x) + 1) * 500) * 1000])
    assert all(len(names) == 1 for names in by_code.values())


@pytest.mark.parametrize("unit", ["user", None])
def test_a_side_does_not_depend_on_other_data(tmp_path: Path, unit: str | None) -> None:
    everything = prepared(tmp_path / "t.csv", ROWS, unit=unit, schema=with_user(unit))
    half = ROWS[:350]
    fewer = prepared(tmp_path / "t.csv", half, unit=unit, schema=with_user(unit))
    half_values = {row[0] for row in half}
    assert values(fewer.train) == values(everything.train) & half_values
    assert values(fewer.test) == values(everything.test) & half_values
    if unit is not None:  # where rows have names, their order does not matter either
        turned = prepared(tmp_path / "t.csv", ROWS[::-1])
        assert values(turned.test) == values(everything.test)


def with_user(unit: str | None) -> data.Schema:
    return (
        SCHEMA
        if unit
        else data.Schema(columns={**SCHEMA.columns, "user": data.Ignore()}, target="y", classes=("0", "1"))
    )


def test_the_share_is_the_requested_one(tmp_path: Path) -> None:
    rows = [(n, f"u{n}", n % 2) for n in range(4000)]
    for unit in ("user", None):
        for share in (0.0, 0.1, 0.5):
            result = prepared(tmp_path / "t.csv", rows, unit=unit, schema=with_user(unit), holdout=share)
            # False alarms: P(|Binomial(4000, 0.1) - 400| > 123) = 2e-10, P(|Binomial(4000, 0.5) - 2000| > 205) = 8e-11.
            assert abs(len(result.test) - 4000 * share) <= 6.5 * (4000 * share * (1 - share)) ** 0.5
    sides = {frozenset(values(prepared(tmp_path / "t.csv", rows, key=bytes([n]) * 32).test)) for n in range(3)}
    assert len(sides) == 3
    for share in (1.0, -0.1, float("nan"), "half"):
        with pytest.raises(InvalidArgument, match="^holdout="):
            prepared(tmp_path / "t.csv", rows, holdout=share)


def test_rows_without_a_unit_are_dropped(tmp_path: Path) -> None:
    rows = [*ROWS, (7, "", 1), (8, " ", 0)]
    result = prepared(tmp_path / "t.csv", rows)
    assert len(result.train) + len(result.test) == len(ROWS)
    assert result.train.units is not None
    assert result.train.units.min() >= 0
    assert any("left out" in sentence for sentence in result.assumptions)


def test_held_out_units_teach_nothing(tmp_path: Path) -> None:
    learn = data.Learn(noise_multiplier=1.0)
    schema = data.Schema(target="y")
    before = prepared(tmp_path / "t.csv", ROWS, schema=schema, learn=learn)
    held = values(prepared(tmp_path / "t.csv", ROWS).test)
    changed = [(-1e12, user, "strange") if value in held else (value, user, y) for value, user, y in ROWS]
    after = prepared(tmp_path / "t.csv", changed, schema=schema, learn=learn)
    assert after.learned == before.learned
    np.testing.assert_array_equal(after.train.inputs, before.train.inputs)
    everybody = [(-1e12, user, y) for _, user, y in ROWS]
    assert prepared(tmp_path / "t.csv", everybody, schema=schema, learn=learn).learned != before.learned


def test_messages_show_no_key(tmp_path: Path) -> None:
    source = source_of(tmp_path, [b"1,2,1"])
    schema = data.Schema(target="y", classes=("0", "1"))
    for key in (b"short secret", "a secret text", bytearray(b"s" * 32)):
        with pytest.raises(InvalidArgument) as caught:
            data.prepare(source, schema=schema, key=key)  # type: ignore[arg-type]
        assert "secret" not in str(caught.value).replace("32 secret bytes", "")
