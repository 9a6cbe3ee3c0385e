"""What an answer says about its limits, its bounds and its intervals, and that it is true."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

import hush
from hush.errors import InvalidArgument
from hush.randomness import TestSource
from hush.sql import MostRows
from hush.statistics import EachRow

duckdb = pytest.importorskip("duckdb")

COUNT = "SELECT COUNT(*) AS n FROM meals"
WITHIN = (
    "Intervals (95 %) cover the answer that counts each unit within these limits",
    "A single unit could hold more beyond them than an interval is wide; no private interval covers that.",
)


@pytest.fixture(scope="module")
def connection() -> Any:
    """Return 1,000 users with 4 meals each, on 2 days, and one with 5,000."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE meals AS SELECT i // 4 AS who, i % 2 AS day, i % 50 + 0.0 AS price FROM range(4000) AS t(i) "
        "UNION ALL SELECT 1000, i % 2, 10.0 FROM range(5000) AS t(i)"
    )
    connection.execute("CREATE VIEW usual AS SELECT * FROM meals WHERE who < 1000")
    return connection


def table(connection: Any, **declared: Any) -> Any:
    return hush.table(connection, **{"name": "meals", "unit": "who", "keys": {"day": [0, 1]}, **declared})


def said(connection: Any, text: str, settings: dict[str, Any] | None = None, **declared: Any) -> Any:
    return table(connection, **declared).sql(text, epsilon=4.0, source=TestSource(text), **(settings or {}))


def warned(answer: Any) -> bool:
    return any(all(part in line for part in WITHIN) for line in answer.limits)


def test_one_heavy_unit_is_beyond_any_interval_and_the_answer_says_so(connection: Any) -> None:
    answer = said(connection, COUNT)
    low, high = answer.intervals[0]["n"]
    assert low < 9000  # which holds for the truth in any case
    assert high < 5000
    assert warned(answer)
    assert answer.limits[-1] == "The lower ends of n are valid for the true answer in any case."
    assert all(line in str(answer) for line in answer.limits)


def test_what_is_beyond_is_estimated_in_units_and_rows(connection: Any) -> None:
    line = said(connection, COUNT).limits[1]
    assert line.startswith("About ")
    assert "have more than 4 rows; those with up to 16 hold about" in line


def test_a_fact_makes_intervals_hold_for_the_truth(connection: Any) -> None:
    answer = said(connection, "SELECT COUNT(*) AS n FROM usual", name="usual", rows_per_unit=MostRows(4))
    assert answer.limits == (
        "Limits, declared as facts: a unit counts with at most 4 rows.",
        "Intervals (95 %) cover the true answer, if your declarations are right.",
    )
    assert answer.guarantee.epsilon == 4.0
    low, high = answer.intervals[0]["n"]
    assert low < 4000 < high


def test_a_fact_covers_all_groups_of_a_unit(connection: Any) -> None:
    text = "SELECT day, COUNT(*) AS n, SUM(price) AS s FROM usual GROUP BY day"
    answer = said(connection, text, name="usual", rows_per_unit=MostRows(4), bounds={"price": (0, 50)})
    assert "at most 4 rows in at most 2 groups" in answer.limits[0]
    assert answer.limits[1:] == (
        "Values of price are clamped to 0 and 50, as declared.",
        "Intervals (95 %) cover the true answer, if your declarations are right and no value is beyond the bounds.",
    )
    truth = connection.execute(text.replace("GROUP BY", "GROUP BY ") + " ORDER BY day").fetchall()
    for row, ends in zip(truth, answer.intervals, strict=True):
        assert ends["n"][0] < row[1] < ends["n"][1]
        assert ends["s"][0] < row[2] < ends["s"][1]


def test_a_fact_that_is_wrong_costs_no_privacy(connection: Any) -> None:
    """The heavy user counts with four rows, as every other (fixed key)."""
    assert abs(said(connection, COUNT, rows_per_unit=MostRows(4)).rows[0][0] - 4004) < 50


def test_a_fact_gives_way_to_limits_joins_and_groups(connection: Any) -> None:
    limited = said(connection, COUNT, {"rows_per_unit": 2}, rows_per_unit=MostRows(4))
    assert limited.limits[0].startswith("Limits, as you set them")
    assert warned(limited)
    joined = said(
        connection, "SELECT COUNT(*) AS n FROM meals m, meals o WHERE m.who = o.who", rows_per_unit=MostRows(4)
    )
    assert "chosen privately" in joined.limits[0]  # a unit has up to 16 pairs
    by_day = said(
        connection,
        "SELECT day, COUNT(*) AS n FROM meals GROUP BY day",
        {"groups_per_unit": 1},
        rows_per_unit=MostRows(4),
    )
    assert warned(by_day)


@pytest.mark.parametrize("rows", [0, -1, 1.5, "4", None, 10**7])
def test_a_fact_is_a_count(rows: Any) -> None:
    with pytest.raises(InvalidArgument, match="rows_per_unit"):
        MostRows(rows)


def test_rows_as_units_and_counts_of_units_leave_nothing_out(connection: Any) -> None:
    rows = said(connection, COUNT, unit=EachRow())
    assert rows.limits == (
        "Each row is a unit, so no limit leaves any rows out.",
        "Intervals (95 %) cover the true answer, if your declarations are right.",
    )
    units = said(connection, "SELECT COUNT(DISTINCT who) AS n FROM meals")
    assert units.limits == (
        "Each unit counts once, so no limit leaves any rows out.",
        "Intervals (95 %) cover the true answer.",
    )


@pytest.mark.parametrize(
    ("aggregates", "lines"),
    [
        ("COUNT(*) AS n, AVG(price) AS a", ["The lower ends of n are valid for the true answer in any case."]),
        ("AVG(price) AS a, MEDIAN(price) AS m", []),
        (
            "SUM(price) AS s",
            ["The lower ends of s are valid for the true answer if no value is below its lower bound."],
        ),
        ("SUM(price - 10) AS s, -COUNT(*) AS n", []),
    ],
)
def test_lower_ends_that_hold_for_the_truth(aggregates: str, lines: list[str], connection: Any) -> None:
    text = f"SELECT {aggregates} FROM meals"
    answer = said(connection, text, {"rows_per_unit": 1}, bounds={"price": (0, 50)})
    assert [line for line in answer.limits if line.startswith("The lower ends")] == lines


def test_lower_ends_are_below_the_truth_whatever_the_limit(connection: Any) -> None:
    """40 draws at 97.5 % one-sided; with a limit of one row, the truth is far above all of them (fixed key)."""
    meals = table(connection, bounds={"price": (0, 50)})
    text = "SELECT COUNT(*) AS n, SUM(price) AS s FROM meals"
    count, total = connection.execute(text).fetchone()
    for rows in (1, 2, 64):
        for draw in range(13):
            answer = meals.sql(text, epsilon=1.0, rows_per_unit=rows, source=TestSource(f"{rows} {draw}"))
            assert answer.intervals[0]["n"][0] <= count
            assert answer.intervals[0]["s"][0] <= total


def test_intervals_allow_for_what_is_expected_just_beyond(connection: Any) -> None:
    meals = table(connection, bounds={"price": (-10, 50)})
    text = "SELECT day, COUNT(*) AS n, SUM(price) AS s, AVG(price) AS a FROM meals GROUP BY day"
    answer = meals.sql(text, epsilon=1.0, source=TestSource(3))
    (line,) = [line for line in answer.limits if "allow for" in line]
    rows = float(line.split("allow for the ")[1].split()[0].replace(",", ""))
    assert rows > 0
    for wide, noise in zip(answer.intervals, answer.noise_intervals, strict=True):
        assert wide["n"] == (noise["n"][0], pytest.approx(noise["n"][1] + rows, abs=0.5))
        assert wide["s"] == pytest.approx((noise["s"][0] - 10 * rows, noise["s"][1] + 50 * rows), abs=25)
        assert wide["a"] == noise["a"]


def test_given_limits_and_facts_allow_for_nothing(connection: Any) -> None:
    for declared in ({"rows_per_unit": 2}, {"rows_per_unit": MostRows(4)}):
        answer = said(connection, COUNT, **declared)
        assert answer.intervals == answer.noise_intervals
        assert not any("allow for" in line for line in answer.limits)


def test_units_just_beyond_are_covered_more_often(connection: Any) -> None:
    """20 units of 5 to 8 rows among 10,000 of at most 4: where the limit is 4, only the allowance covers the truth.

    Of 40 draws, with fixed keys.
    """
    connection.execute(
        "CREATE OR REPLACE TABLE beyond AS SELECT u AS who FROM range(10000) AS t(u), range(8) AS r(i) "
        "WHERE i < CASE WHEN u < 20 THEN 5 + u % 4 ELSE 1 + u % 4 END"
    )
    units = table(connection, name="beyond", keys={})
    text = "SELECT COUNT(*) AS n FROM beyond"
    ((truth,),) = connection.execute(text).fetchall()
    wide = noise = 0
    for draw in range(40):
        units.forget_limits()
        answer = units.sql(text, epsilon=1.0, source=TestSource(f"beyond {draw}"))
        wide += answer.intervals[0]["n"][0] <= truth <= answer.intervals[0]["n"][1]
        noise += answer.noise_intervals[0]["n"][0] <= truth <= answer.noise_intervals[0]["n"][1]
    assert wide > noise


def test_a_fact_covers_all_groupings(connection: Any) -> None:
    """Each row counts in each grouping, so a user with four rows counts with eight."""
    text = "SELECT day, COUNT(*) AS n FROM usual GROUP BY ROLLUP (day)"
    answer = said(connection, text, name="usual", rows_per_unit=MostRows(4))
    assert answer.limits == (
        "Limits, declared as facts: a unit counts with at most 8 rows in at most 3 groups of all groupings together.",
        "Intervals (95 %) cover the true answer, if your declarations are right.",
    )
    assert [row[0] for row in answer.rows] == [0, 1, None]
    for row, ends in zip(answer.rows, answer.intervals, strict=True):
        assert ends["n"][0] < (4000 if row[0] is None else 2000) < ends["n"][1]


def test_bounds_are_learned_once_for_all_groupings(connection: Any) -> None:
    meals = table(connection, name="usual", rows_per_unit=4, groups_per_unit=2)
    first = meals.sql("SELECT AVG(price) AS p FROM usual", epsilon=4.0, source=TestSource(1))
    again = meals.sql("SELECT day, AVG(price) AS p FROM usual GROUP BY ROLLUP (day)", epsilon=4.0, source=TestSource(1))
    assert "learned privately" in first.limits[1]
    assert "learned by an earlier answer" in again.limits[1]


def test_a_fact_that_no_noise_covers_is_refused_before_anything_is_paid(connection: Any) -> None:
    """With two groupings, a million rows of a user are two million."""
    meals = table(connection, rows_per_unit=MostRows(10**6))
    with mock.patch.object(type(meals._engine), "run", side_effect=AssertionError), pytest.raises(InvalidArgument):
        meals.sql("SELECT day, SUM(price) AS s FROM meals GROUP BY ROLLUP (day)", epsilon=1.0)
