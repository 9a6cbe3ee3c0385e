"""Epsilon for a wanted accuracy: enough, and not more than enough; and the errors to expect."""

from __future__ import annotations

import math
from typing import Any

import duckdb
import numpy as np
import pytest
from scipy.stats import binom

from hush.errors import InvalidArgument
from hush.randomness import TestSource
from hush.sql import table
from hush.statistics import GaussianNoise, LaplaceNoise
from sql.towns import towns_table

TOTALS = (
    "SELECT region, COUNT(*) AS n, SUM(age) AS s, AVG(age) AS a, COUNT(*) + SUM(age) AS o FROM people GROUP BY region"
)


PLAIN = "SELECT region, SUM(age) AS s FROM people GROUP BY region"


@pytest.mark.parametrize("noise", [LaplaceNoise(), GaussianNoise(), None])
@pytest.mark.quick_cases(2)
def test_epsilon_is_enough_and_not_more(towns: Any, noise: Any) -> None:
    people, text = towns_table(towns), "SELECT region, COUNT(*) AS n FROM people GROUP BY region"
    settings = {"delta": 1e-6, "noise": noise, "groups_per_unit": 2}
    wanted = {"accuracy": 0.05, "expected": 1000, "confidence": 0.5, **settings}
    price = people.price(text, **wanted)
    epsilon = price.guarantee.epsilon
    assert people.sql(text, **wanted).guarantee == price.guarantee
    source = TestSource(5)
    answers = [people.sql(text, epsilon=epsilon, source=source, **settings) for _ in range(100)]
    errors = [abs(row[1] - 1000) / 1000 for answer in answers for row in answer.rows]
    # Half of 300 answers are that accurate. False alarms: 2e-8.
    assert binom.ppf(1e-8, 300, 0.5) <= sum(error <= 0.05 for error in errors) <= binom.isf(1e-8, 300, 0.5)


def test_epsilon_for_one_count_and_one_sum(towns: Any) -> None:
    people = towns_table(towns)
    # The noise has a scale of 1 / epsilon, and P(|noise| > t) = exp(-epsilon t) = 0.05 at t = log(20) / epsilon.
    price = people.price("SELECT COUNT(*) FROM people", accuracy=0.01, expected=10_000)
    assert price.guarantee.epsilon == pytest.approx(math.log(20) / 100, rel=0.01)
    # A row adds up to 128 to a sum, and 64 on average: 20 rows are 1,280, of which 5 % are 64.
    price = people.price("SELECT SUM(age) FROM people", accuracy=0.05, expected=20)
    assert price.guarantee.epsilon == pytest.approx(128 * math.log(20) / 64, rel=0.01)


@pytest.mark.parametrize("text", [TOTALS, PLAIN, "SELECT MEDIAN(age) FROM people", "SELECT VARIANCE(age) FROM people"])
def test_more_accuracy_costs_more(towns: Any, text: str) -> None:
    people = towns_table(towns)
    costs = [people.price(text, accuracy=size, expected=1e5).guarantee.epsilon for size in (0.02, 0.01)]
    assert costs[1] == pytest.approx(2 * costs[0], rel=0.02)


def test_accuracy_with_private_groups(towns: Any) -> None:
    people = towns_table(towns, keys={})
    text = "SELECT region, COUNT(*) AS n FROM people GROUP BY region"
    price = people.price(text, accuracy=0.05, expected=1000, delta=1e-6, noise=LaplaceNoise())
    assert price.guarantee.epsilon == pytest.approx(1.5 * math.log(20) / 50, rel=0.02)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"epsilon": 1.0, "accuracy": 0.05, "expected": 10},
        {"epsilon": 1.0, "expected": 10},
        {"accuracy": 0.05},
        {"accuracy": 0.0, "expected": 10},
        {"accuracy": float("nan"), "expected": 10},
        {"accuracy": 0.05, "expected": float("nan")},
        {"epsilon": 1.0, "confidence": 1.0},
        {"epsilon": 1.0, "confidence": float("nan")},
        {"accuracy": 0.05, "expected": 10, "confidence": 0.0},
    ],
)
def test_arguments_that_are_refused(towns: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        towns_table(towns).sql("SELECT COUNT(*) FROM people", **settings)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_an_accuracy_that_no_epsilon_achieves_is_refused(towns: Any, delta: float) -> None:
    with pytest.raises(InvalidArgument, match="accuracy="):
        towns_table(towns).price(PLAIN, accuracy=1e-9, expected=10, delta=delta)


@pytest.fixture
def people() -> Any:
    """Return a table of 2,000 users in two regions, with ages from 0 to 69."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE people AS SELECT i AS who, i % 70 AS age, ['north', 'south'][1 + i % 2] AS region "
        "FROM range(2000) t(i)"
    )
    keys = {"region": ["north", "south"]}
    limits = {"rows_per_unit": 1, "groups_per_unit": 1}
    return table(connection, name="people", unit="who", bounds={"age": (0, 70)}, keys=keys, **limits)


def test_expected_errors_are_those_of_answers(people: Any) -> None:
    text = (
        "SELECT region, COUNT(*) AS n, ROUND(AVG(age)) AS a, SUM(age) * 2 AS s, STDDEV(age) AS d, MEDIAN(age) AS m "
        "FROM people GROUP BY region"
    )
    errors = people.price(text, epsilon=8.0, expected=1000).errors
    assert set(errors) == {"n", "a", "s", "d", "m"}
    plain = text.replace("ROUND(AVG(age))", "AVG(age)")
    for ends in people.sql(plain, epsilon=8.0, source=TestSource(3)).intervals[:1]:
        widths = {name: (high - low) / 2 for name, (low, high) in ends.items()}
        # The width of a median's interval is itself noisy: over 50 runs, its logarithm is off by -0.55 +- 0.15.
        assert abs(np.log(errors.pop("m") / widths.pop("m"))) < 1.6
        assert errors == pytest.approx(widths, rel=0.2)  # the standard deviation's by 1 %, others by less
    assert people.price(text, epsilon=4.0, expected=1000).errors["n"] > 1.5 * errors["n"]
    assert people.price(text, epsilon=8.0).errors == {}
    with pytest.raises(InvalidArgument, match="^expected="):
        people.price(text, epsilon=8.0, expected=float("nan"))
