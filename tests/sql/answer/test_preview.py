"""Previews read no data, fit the declarations, and refuse what a query refuses."""

from __future__ import annotations

from typing import Any

import pytest

from hush.errors import HushError
from hush.sql import QueryRefused, Table
from hush.sql.answer.preview import Preview
from sql.towns import towns_table

PUBLIC = (
    "SELECT region, MEDIAN(income), QUANTILE_CONT(income, 0.9), COUNT(*), AVG(age), MEDIAN(age) FROM people "
    "GROUP BY region"
)


PRIVATE = "SELECT note, MEDIAN(income) AS m, SUM(age) AS s FROM people GROUP BY note"


ALL = "SELECT QUANTILE_CONT(score, 0.25) AS q FROM people"


class Blind:
    """An engine that fails the test if it is used."""

    dialect = "duckdb"
    assumptions = ()

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


PREVIEWS = [
    PUBLIC,
    PRIVATE,
    ALL,
    "SELECT region, flag, COUNT(*), SUM(price), STDDEV(num) FROM people WHERE day > '2024-01-05' GROUP BY region, flag",
    "SELECT p.region, SUM(o.amount) FROM people p JOIN orders o ON p.user_id = o.uid GROUP BY p.region",
    "SELECT z.region, COUNT(*) FROM people p JOIN zones z ON p.region = z.region GROUP BY z.region",
]


@pytest.mark.parametrize("text", PREVIEWS)
@pytest.mark.usefixtures("fixed_key")
def test_a_preview_reads_no_data(catalog: Any, text: str) -> None:
    # Fixed key: limits that are chosen hide all private groups now and then.
    preview = Table(Blind(), catalog, "people").preview(text)
    assert isinstance(preview, Preview)
    assert "invented" in preview.note
    assert preview.rows
    assert all(len(row) == len(preview.columns) for row in preview.rows)
    assert not hasattr(preview, "guarantee")


def test_a_preview_fits_declared_bounds_and_keys(catalog: Any) -> None:
    text = "SELECT region, AVG(income) AS a, COUNT(*) AS n FROM people GROUP BY region"
    preview = Table(Blind(), catalog, "people").preview(text, epsilon=50.0, rows_per_unit=2, groups_per_unit=5)
    # Laplace noise of scale 0.6 on counts of 367 to 431, and of 164 or less on means of 96,000 or more: off with e^-90.
    assert [row[0] for row in preview.rows] == ["north", "south", "east", "west", None]
    assert all(80_000 < row[1] < 120_000 for row in preview.rows)
    assert all(300 < row[2] < 500 for row in preview.rows)


@pytest.mark.parametrize("text", ["SELECT user_id FROM people", "SELECT MAX(age) FROM people", "SELECT nothing"])
def test_a_preview_refuses_what_a_query_refuses(catalog: Any, text: str) -> None:
    with pytest.raises((QueryRefused, HushError)):
        Table(Blind(), catalog, "people").preview(text)


def test_a_preview_of_text_with_bounds_and_of_windows(towns: Any) -> None:
    text = "SELECT name, COUNT(*) AS n, MEDIAN(age) FROM people GROUP BY name"
    table = towns_table(towns, bounds={"name": (0, 9), "age": (0, 128)}, keys={"name": [1, 2.5]})
    preview = table.preview(text, epsilon=10.0)
    assert [row[0] for row in preview.rows] == [1, 2.5]
    # Which of two rows counts is a coin, for 500 of 1,000 people or so: 80 are 7 standard deviations, 3e-12. Laplace
    # noise of scale 0.9 is beyond 20 with e^-22.
    assert all(400 < row[1] < 600 for row in preview.rows)
    towns.execute("ALTER TABLE people ADD COLUMN day DATE")
    windows = towns_table(towns, time="day", window="month")
    assert windows.preview("SELECT COUNT(*) AS n FROM people").rows[0][0] > 500
