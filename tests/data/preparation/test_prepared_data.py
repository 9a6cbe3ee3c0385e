"""What is learned when data are prepared: how much one unit can change it, and that it is right."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from data.files import KEY, write_columns
from hush import data
from hush.data.preparation import learning, split
from hush.data.preparation import prepared_data as prepared_module
from hush.errors import InvalidArgument
from hush.statistics.noise import NoisePlan

Counts = tuple[Sequence[NDArray[np.int64]], Sequence[Mapping[str, int]]]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Counts]:
    """Record the counts that noise is added to."""
    seen: list[Counts] = []

    def release(histograms: Any, tallies: Any, learn: data.Learn, source: Any) -> Any:
        seen.append((histograms, tallies))
        return learning.release(histograms, tallies, learn, source)

    monkeypatch.setattr(prepared_module, "release", release)
    return seen


def distance(first: Counts, second: Counts, noise_multiplier: float) -> float:
    """Return how far apart two releases are without noise, in units of ``noise_multiplier`` times their noise."""
    squares = 0.0
    sorts = bool(first[0]) + bool(first[1])
    for histogram, twin_histogram in zip(first[0], second[0], strict=True):
        squares += float(((histogram - twin_histogram) ** 2).sum()) / (sorts * len(first[0]))
    for tally, twin in zip(first[1], second[1], strict=True):
        changes = [tally.get(name, 0) - twin.get(name, 0) for name in {*tally, *twin}]
        squares += sum(change**2 for change in changes) / (sorts * len(first[1]))
    return math.sqrt(squares)


def of_users(rows: Mapping[str, int]) -> dict[str, list[Any]]:
    """Return rows of users. Those of one user do not depend on who else is there."""
    columns: dict[str, list[Any]] = {"a": [], "b": [], "job": [], "user": [], "y": []}
    for user, count in rows.items():
        rng = np.random.default_rng(list(user.encode()))
        for name, values in (
            ("a", rng.normal(size=count) * 1000),
            ("b", rng.integers(0, 9, count)),
            ("job", rng.choice(["cook", "nurse", "pilot"], count)),
            ("user", [user] * count),
            ("y", rng.integers(0, 2, count)),
        ):
            columns[name].extend(values)
    return columns


def contributions(tmp_path: Path, counted: list[Counts]) -> list[float]:
    """Return what each of some users, of few and of many rows, changes in the counts."""
    users = {f"user{number}": 1 + number % 4 for number in range(300)} | {f"busy{number}": 120 for number in range(6)}
    schema = data.Schema(columns={"job": data.Category()})
    distances = []
    for left_out in (None, *(f"busy{number}" for number in range(6)), "user1", "user2"):
        source = write_columns(tmp_path / "t.csv", of_users({name: n for name, n in users.items() if name != left_out}))
        data.prepare(
            source, target="y", unit="user", schema=schema, holdout=0.3, learn=data.Learn(noise_multiplier=0.1), key=KEY
        )
        if left_out is not None:
            distances.append(distance(counted[0], counted[-1], 0.1))
    return distances


def test_a_unit_changes_no_more_than_the_event_says(tmp_path: Path, counted: list[Counts]) -> None:
    changes = contributions(tmp_path, counted)
    assert max(changes) == pytest.approx(1)  # reached by units that train: the scale is no looser than it has to be
    assert all(change < 1 + 1e-9 for change in changes)
    assert min(changes) == 0  # units that are held out


@pytest.mark.parametrize(
    "broken", [lambda units, picks: np.ones(len(units), dtype=np.bool_), None], ids=["rows", "position"]
)
def test_twins_that_a_busy_user_breaks(
    tmp_path: Path, counted: list[Counts], monkeypatch: pytest.MonkeyPatch, broken: Callable[..., Any] | None
) -> None:
    """Counting all rows, or choosing a row by its position in the file, lets one user change more."""

    def by_position(units: NDArray[np.int64], picks: NDArray[np.int64]) -> NDArray[np.bool_]:
        chosen = np.zeros(len(units), dtype=np.bool_)
        rows = np.arange(len(units))
        mixed = (rows * 2654435761) % 1000003
        for unit in np.unique(units):
            unit_rows = rows[units == unit]
            chosen[unit_rows[np.argmin(mixed[unit_rows])]] = True
        return chosen

    monkeypatch.setattr(split, "one_row_per_unit", broken or by_position)
    assert max(contributions(tmp_path, counted)) > 2


@pytest.mark.parametrize("unit", ["row", "user"])
def test_hostile_rows_change_no_more(tmp_path: Path, counted: list[Counts], unit: str) -> None:
    honest = {"a": range(50), "y": [0, 1] * 25, "user": [f"u{n // 2}" for n in range(50)]}
    for row in (("nan", "", "v"), ("inf", "1", "v"), ("-1e999", "never seen", "v"), ("1e308", "0", "v"), ("", "", "")):
        for rows in ([], [row] * (1 if unit == "row" else 20)):
            more = list(zip(*rows, strict=True)) or [()] * 3
            columns = {name: [*values, *added] for (name, values), added in zip(honest.items(), more, strict=True)}
            source = write_columns(tmp_path / "t.csv", columns)
            data.prepare(
                source,
                target="y",
                unit="user" if unit == "user" else None,
                schema=data.Schema(columns={"user": data.Ignore()}),
                holdout=0,
                learn=data.Learn(noise_multiplier=0.1, delta=0.4),
                key=KEY,
            )
        assert distance(counted[-1], counted[-2], 0.1) <= 1 + 1e-9


def test_bounds_of_plain_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    count = 20_000
    columns = {
        "normal": rng.normal(size=count),
        "pixel": rng.integers(0, 256, count),
        "truth": rng.integers(0, 2, count),
        "age": rng.integers(18, 90, count),
        "debt": -rng.integers(100, 1000, count),
        "small": rng.uniform(1e-4, 2e-4, count),
        "zero": np.zeros(count, dtype=int),
        "empty": [""] * count,
        "outlier": [1e9, *rng.uniform(0, 1, count - 1)],
        "y": rng.integers(0, 10, count),
    }
    source = write_columns(tmp_path / "t.csv", columns)
    prepared = data.prepare(source, target="y", learn=data.Learn(noise_multiplier=10.0), key=KEY)
    bounds: dict[str, Any] = {name: (c.lower, c.upper) for name, c in prepared.schema.columns.items()}  # type: ignore[union-attr]
    assert -5 <= bounds["normal"][0] <= -2  # over 8 keys 3.3 +- 0.2 on either side
    assert 2 <= bounds["normal"][1] <= 5
    assert bounds["pixel"] in [(0, 256), (1, 256), (2, 256), (4, 256), (8, 256)]  # a few of the smallest may drown
    assert bounds["truth"] == (0, 1)
    for name, least, most in (("age", 18, 89), ("debt", -999, -100), ("small", 1e-4, 2e-4)):
        lower, upper = bounds[name]
        assert lower <= least
        assert upper >= most
        assert upper - lower <= 2 * (most - least), name
    assert bounds["zero"] == bounds["empty"] == (-1, 1)
    assert bounds["outlier"][1] == 1
    assert prepared.classes == tuple("0123456789")
    assert sum("no number except zero" in sentence for sentence in prepared.learned) == 2
    assert len(prepared.learned) == 10
    again = data.prepare(data.open_data(tmp_path / "t.csv"), schema=prepared.schema, key=KEY)
    assert (again.event, again.learned) == (None, ())
    np.testing.assert_array_equal(again.train.inputs, prepared.train.inputs)


def test_one_bound_may_be_declared(tmp_path: Path) -> None:
    source = write_columns(tmp_path / "t.csv", {"a": [100] * 500, "b": [100] * 500, "c": [5] * 500, "y": [0, 1] * 250})
    columns = {"a": data.Numeric(lower=0), "b": data.Numeric(upper=3), "c": data.Numeric(lower=1e6)}
    schema = data.Schema(columns=columns, classes=("0", "1"))
    prepared = data.prepare(source, target="y", schema=schema, learn=data.Learn(noise_multiplier=1.0), key=KEY)
    assert prepared.schema.columns == {
        "a": data.Numeric(lower=0, upper=102),  # a 64th of [64, 128] more than there is, on either side
        "b": data.Numeric(lower=-96, upper=3),
        "c": data.Numeric(lower=1e6, upper=2e6),
    }
    assert np.isfinite(prepared.train.inputs).all()


def test_categories_and_classes_of_text(tmp_path: Path) -> None:
    columns = {"job": ["cook"] * 300 + ["nurse"] * 300 + ["spy"], "y": ["yes"] * 300 + ["no"] * 300 + ["maybe"]}
    source = write_columns(tmp_path / "t.csv", columns)
    schema = data.Schema(columns={"job": data.Category()})
    assert data.needs_learning(source, "y", schema) == ["values of column 'job'", "classes of the target"]
    learn = data.Learn(noise_multiplier=2.0)
    prepared = data.prepare(source, target="y", schema=schema, learn=learn, holdout=0, key=KEY)
    assert prepared.classes == ("no", "yes")
    assert prepared.schema.columns["job"] == data.Category(values=("cook", "nurse"))
    assert not any("spy" in text or "maybe" in text for text in prepared.learned)
    assert prepared.train.inputs.shape == (601, 3)  # the row of an unknown class stays
    assert prepared.train.inputs.sum(1).tolist() == [1] * 601
    assert prepared.train.targets[-1] == -1
    quiet = data.prepare(
        source,
        target="y",
        schema=data.Schema(columns={"job": data.Category()}, classes=("no", "yes")),
        learn=data.Learn(noise_multiplier=1e5),
        key=KEY,
    )
    assert quiet.schema.columns["job"] == data.Category(values=())
    assert quiet.shape == (1,)


def test_values_that_differ_in_white_space_only(tmp_path: Path) -> None:
    """They would collide if they were trimmed differently in two places, and a collision would be an exception."""
    spaces = [chr(code) for code in range(0x10000) if chr(code).isspace() and chr(code) not in "\r\n"]
    names = ["A", "a", "\x00A", "nan", "1", "1.0", "'", "\\", "\u200bA", *(f"{space}A" for space in spaces)]
    source = write_columns(tmp_path / "t.csv", {"v": names * 200, "y": names * 200})
    schema = data.Schema(columns={"v": data.Category()})
    learn = data.Learn(noise_multiplier=0.5)
    prepared = data.prepare(source, target="y", schema=schema, learn=learn, holdout=0, key=KEY)
    # None of the rows is lost: each value is one of the classes.
    assert len(prepared.train) == len(names) * 200
    assert prepared.train.inputs[:, -1].sum() == 0
    assert {"A", "\tA", "\x00A", "\u200bA"} <= set(prepared.classes)
    prepared.schema.save(tmp_path / "s.json")
    assert data.Schema.load(tmp_path / "s.json") == prepared.schema


@pytest.mark.parametrize("target", [["same"] * 400, list(range(400)), [""] * 400], ids=["one", "many", "none"])
def test_targets_without_two_classes_are_refused(tmp_path: Path, target: list[Any]) -> None:
    source = write_columns(tmp_path / "t.csv", {"a": range(400), "y": target})
    with pytest.raises(InvalidArgument, match="^target='y': expected at least two classes") as caught:
        data.prepare(source, target="y", learn=data.Learn(noise_multiplier=2.0), key=KEY)
    assert "same" not in str(caught.value)
    with pytest.raises(InvalidArgument, match="at least two classes"):
        data.Schema(classes=("1",))


def test_the_key_decides_the_noise(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    columns = {str(number): rng.normal(size=400) for number in range(9)}
    source = write_columns(tmp_path / "t.csv", {**columns, "y": rng.integers(0, 2, 400)})
    results = []
    for key in (KEY, KEY, *(bytes([number] * 32) for number in range(10))):
        schema = data.Schema(classes=("0", "1"))
        prepared = data.prepare(source, target="y", schema=schema, learn=data.Learn(noise_multiplier=20 / 3), key=key)
        results.append(prepared.learned)
    assert results[0] == results[1]
    assert len(set(results)) == 11  # over 8 sets of keys a column alone had 2 to 4 different bounds


def test_noise_of_one_key_does_not_cancel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is used twice, for data that differ in one row or for another question, adds other noise."""
    drawn: list[float] = []
    right = learning._noisy

    def noisy(counts: NDArray[np.int64], plan: NoisePlan, source: Any) -> NDArray[np.float64]:
        noisy_counts = right(counts, plan, source)
        if len(counts) == learning.BINS.size:  # the first release
            drawn.append(float(noisy_counts[0] - counts[0]) / plan.block_scales[0])
        return noisy_counts

    monkeypatch.setattr(learning, "_noisy", noisy)
    two_classes = data.Schema(classes=("0", "1"))
    for rows, schema, noise in (
        (300, two_classes, 1.0),
        (301, two_classes, 1.0),
        (300, two_classes, 1.5),
        (300, data.Schema(), 1.0),
        (300, two_classes, 1.0),
    ):
        source = write_columns(tmp_path / "t.csv", {"a": [5] * rows, "y": ([0, 1] * rows)[:rows]})
        data.prepare(source, target="y", schema=schema, learn=data.Learn(noise_multiplier=noise), holdout=0, key=KEY)
    assert drawn[0] == drawn[4]
    assert len(set(drawn)) == 4


def test_both_releases_of_bounds_together_are_one_gaussian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one unit changes, over the noise of each release, is at most one over the noise that is accounted for."""
    noise = 0.05
    seen: list[tuple[float, list[NDArray[np.int64]]]] = []
    outputs: list[Any] = []

    def release(histograms: Any, tallies: Any, learn: data.Learn, source: Any) -> Any:
        sorts = bool(histograms) + bool(tallies)
        seen.append((learn.noise_multiplier * math.sqrt(sorts * len(histograms)), list(histograms)))
        counts = [np.array([tally.get(name, 0) for name in ("0", "1")]) for tally in tallies]
        seen.append((learn.noise_multiplier * math.sqrt(sorts * len(tallies)), counts))
        outputs.append(learning.release(histograms, tallies, learn, source))
        return outputs[0]  # a second release may depend on the first: neighbours are compared after the same one

    def refine(bins: Any, histograms: Any, multiplier: float, source: Any, *, num_units: int) -> Any:
        seen.append((multiplier * math.sqrt(len(histograms)), list(histograms)))
        return learning.refine(bins, histograms, multiplier, source, num_units=num_units)

    monkeypatch.setattr(prepared_module, "release", release)
    monkeypatch.setattr(prepared_module, "refine", refine)
    for extra in ([], ["1990,140,1"], ["nan,1e9,0"]):
        lines = ["year,pressure,y", *(f"{1940 + i % 60},{100 + i % 50},{i % 2}" for i in range(400)), *extra]
        (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
        source = data.open_data(tmp_path / "t.csv")
        data.prepare(source, target="y", holdout=0, learn=data.Learn(noise_multiplier=noise), key=KEY)
    size = len(seen) // 3
    for twin in (seen[size : 2 * size], seen[2 * size :]):
        squares = sum(
            float(((counts - twin_counts) ** 2).sum()) / stddev**2
            for (stddev, before), (_, after) in zip(seen[:size], twin, strict=True)
            for counts, twin_counts in zip(before, after, strict=True)
        )
        assert squares <= 1 / noise**2
        assert squares > 0.4 / noise**2  # and it was measured


def test_bounds_far_from_zero_are_close(tmp_path: Path) -> None:
    lines = ["year,y", *(f"{1940 + i % 60},{i % 2}" for i in range(4000))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    source = data.open_data(tmp_path / "t.csv")
    prepared = data.prepare(source, target="y", learn=data.Learn(noise_multiplier=10.0), key=KEY)
    column = prepared.schema.columns["year"]
    assert isinstance(column, data.Numeric)
    assert column.lower is not None
    assert column.upper is not None
    assert 1850 < column.lower <= 1940
    assert 1999 <= column.upper <= 2048
