"""The lecture's examples as SQL queries, corrected: eye colours, the sensitivity quiz, salaries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hush.data.tables.catalog import Catalog, PrivateTable
from hush.randomness import TestSource
from hush.sql import Table
from hush.sql.engines.duckdb import DuckDBEngine
from hush.statistics import GaussianNoise

duckdb = pytest.importorskip("duckdb")

COLOURS = ["brown", "blue", "green", "hazel"]
SALARIES = [*np.linspace(30_000, 90_000, 999), 2e9]


@pytest.fixture(scope="module")
def people() -> Table:
    connection = duckdb.connect()
    columns = "who BIGINT, eyes VARCHAR, tall BOOLEAN, zip VARCHAR, city VARCHAR, pay DOUBLE"
    connection.execute(f"CREATE TABLE people({columns})")
    rows = [
        (number, COLOURS[number % 4 if number % 3 else 0], number % 2 == 0, str(10027 + number % 2), "NYC", float(pay))
        for number, pay in enumerate(SALARIES)
    ]
    connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", rows)
    engine = DuckDBEngine(connection=connection)
    declared = PrivateTable(
        columns=engine.columns("people"), unit="who", bounds={"pay": (0, 200_000)}, keys={"eyes": COLOURS}
    )
    return Table(engine, Catalog({"people": declared}), "people")


BROWN, TALL, ZIP, CITY = (
    f"SUM(CASE WHEN {condition} THEN 1 ELSE 0 END)"
    for condition in ("eyes = 'brown'", "tall", "zip = '10027'", "city = 'NYC'")
)


@pytest.mark.parametrize(
    ("text", "sensitivity"),
    [
        (f"SELECT {BROWN} AS a FROM people", 1),
        ("SELECT COUNT(*) FROM people WHERE eyes = 'brown'", 1),
        ("SELECT eyes, COUNT(*) FROM people GROUP BY eyes", 1),  # adding or removing a person; replacing one would be 2
        (f"SELECT {BROWN} AS a, {TALL} AS b FROM people", 2),
        (f"SELECT {ZIP} AS a, {CITY} AS b FROM people", 2),
    ],
)
def test_the_quiz(people: Table, text: str, sensitivity: int) -> None:
    """At epsilon 1, the scale of Laplace noise is the L1 sensitivity of all releases together."""
    scales = people.price(text, epsilon=1.0, rows_per_unit=1, groups_per_unit=1).scales
    assert scales
    assert list(scales.values()) == pytest.approx([sensitivity] * len(scales))


def test_the_noise_of_counts_does_not_depend_on_the_number_of_groups(people: Table) -> None:
    one_row = {"rows_per_unit": 1, "groups_per_unit": 1}
    price = people.price("SELECT zip, COUNT(*) FROM people GROUP BY zip", epsilon=1.5, delta=1e-6, **one_row)
    assert list(price.scales.values()) == pytest.approx([1.0])  # a third of epsilon selects the groups


def test_eye_colours(people: Table) -> None:
    answer = people.sql("SELECT eyes, COUNT(*) AS n FROM people GROUP BY eyes", epsilon=1.0, source=TestSource(1))
    truth = people._engine.run("SELECT eyes, COUNT(*) FROM people GROUP BY eyes")
    assert all(abs(n - dict(truth)[eyes]) < 25 for eyes, n in answer.rows)


@pytest.mark.parametrize("settings", [{}, {"noise": GaussianNoise(), "delta": 1e-6}])
def test_salaries_are_clamped_to_a_public_range(people: Table, settings: dict[str, Any]) -> None:
    text = "SELECT AVG(pay) AS mean, MEDIAN(pay) AS median, COUNT(*) AS n FROM people"
    answer = people.sql(text, epsilon=8.0, confidence=1 - 1e-8, source=TestSource(2), **settings)
    mean, median, _ = answer.rows[0]
    low, high = answer.intervals[0]["mean"]
    assert low <= np.clip(SALARIES, 0, 200_000).mean() <= high
    assert high - low < 30_000
    assert abs(mean - 60_000) < 6_000
    assert abs(median - 60_000) < 6_000
