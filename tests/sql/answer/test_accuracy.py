"""Quantiles in SQL, epsilon from accuracy, intervals, and previews."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from hush.errors import HushError, InvalidArgument
from hush.randomness import TestSource
from hush.sql import DuckDBEngine, Preview, QueryRefused, Table, exact_groups, exact_leaves
from hush.sql.write.trees import as_pairs, node_totals
from hush.statistics import GaussianNoise, LaplaceNoise
from hush.statistics.noise.tree import UNITS, cells_of, node_counts

PUBLIC = (
    "SELECT region, MEDIAN(income), QUANTILE_CONT(income, 0.9), COUNT(*), AVG(age), MEDIAN(age) FROM people "
    "GROUP BY region"
)
PRIVATE = "SELECT note, MEDIAN(income) AS m, SUM(age) AS s FROM people GROUP BY note"
ALL = "SELECT QUANTILE_CONT(score, 0.25) AS q FROM people"


@pytest.fixture
def towns() -> Any:
    """Return a connection with 3,000 users of one row in three regions; ages are 0 to 99."""
    import duckdb

    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE people AS SELECT i AS user_id, ['north', 'south', 'west'][1 + i % 3] AS region, "
        "CAST(i * 37 % 100 AS DOUBLE) AS age, CAST(i AS VARCHAR) AS name FROM range(3000) AS t(i)"
    )
    return connection


def towns_table(connection: Any, **changes: Any) -> Table:
    from hush.sql import Catalog, PrivateTable

    engine = DuckDBEngine(connection=connection)
    about = {"unit": "user_id", "bounds": {"age": (0, 128)}, "keys": {"region": ["north", "south", "west"]}, **changes}
    return Table(engine, Catalog({"people": PrivateTable(columns=engine.columns("people"), **about)}), "people")


@pytest.mark.parametrize("keys", [{}, {"region": ["north", "south", "west", "east"]}])
def test_quantiles_are_near_the_truth(towns: Any, keys: Any) -> None:
    text = (
        "SELECT region, MEDIAN(age) AS m, QUANTILE_CONT(age, 0.9) AS q, COUNT(*) AS n FROM people GROUP BY region "
        "HAVING COUNT(*) > 500 ORDER BY region DESC"
    )
    answer = towns_table(towns, keys=keys).sql(text, epsilon=8.0, delta=1e-6, source=TestSource(3))
    assert [row[0] for row in answer.rows] == ["west", "south", "north"]
    for row, ends in zip(answer.rows, answer.intervals, strict=True):
        assert abs(row[1] - 49.5) < 6
        assert abs(row[2] - 89.5) < 6
        assert set(ends) == {"m", "q", "n"}
        assert all(ends[name][0] <= row[at] <= ends[name][1] for at, name in ((1, "m"), (2, "q"), (3, "n")))
    assert answer.guarantee.epsilon == 8.0


def test_more_quantiles_of_a_column_cost_nothing_and_other_aggregates_share_the_budget(towns: Any) -> None:
    own = towns_table(towns)
    one = own.price("SELECT MEDIAN(age) FROM people", epsilon=1.0)
    many = own.price("SELECT MEDIAN(age), QUANTILE_CONT(age, 0.1), QUANTILE_CONT(age, 0.9) FROM people", epsilon=1.0)
    both = own.price("SELECT MEDIAN(age), COUNT(*) FROM people", epsilon=1.0)
    assert one.scales == {"rows in a node of a tree for MEDIAN(age)": pytest.approx(4.0)}
    assert list(many.scales.values()) == list(one.scales.values())
    assert sorted(both.scales.values()) == pytest.approx([4.5, 9.0])  # 8 parts of 9 for the tree, of 4 times a count
    assert one.guarantee.epsilon == both.guarantee.epsilon == 1.0


def test_a_table_without_values_has_a_median(towns: Any) -> None:
    answer = towns_table(towns).sql("SELECT MEDIAN(age) AS m FROM people WHERE age > 1000", epsilon=1.0)
    assert 0 <= answer.rows[0][0] <= 128


@pytest.mark.parametrize("key", ["price * 2", "price", "day", "moment", "flag", "big", "note", "region"])
def test_trees_find_their_groups(key: str, engine: DuckDBEngine, planned: Any, ranking_key: bytes) -> None:
    """Keys of groups and of leaves come from two queries, and must be the same to Python: NULL, 0 and decimals too."""
    plan = planned(
        f"SELECT {key} AS k, COUNT(income), MEDIAN(income) FROM people GROUP BY k", groups_per_unit=3, rows_per_unit=2
    )
    leaves = exact_leaves(plan, 0, engine, ranking_key=ranking_key)
    groups = {group.keys: group for group in exact_groups(plan, engine, ranking_key=ranking_key)}
    assert leaves.keys() <= groups.keys()
    for keys, group in groups.items():  # no unit has more than two of its values counted, here or there
        assert sum(leaves.get(keys, {}).values()) == group.sums["a0"]


def test_nodes_are_those_of_the_tree_over_arrays(engine: DuckDBEngine, planned: Any, ranking_key: bytes) -> None:
    plan = planned("SELECT MEDIAN(income) FROM people", rows_per_unit=1000)
    leaves = exact_leaves(plan, 0, engine, ranking_key=ranking_key)[()]
    rows = engine.run("SELECT income FROM people WHERE income IS NOT NULL AND user_id IS NOT NULL")
    cells = cells_of(np.array([row[0] for row in rows]), plan.trees[0].bounds)
    assert np.array_equal(node_totals(plan.trees[0], as_pairs(leaves)), node_counts(cells) * UNITS)


def test_leaves_are_kept_until_they_are_forgotten(towns: Any) -> None:
    """A second question about a column, for whichever quantile, runs nothing but what a count would."""
    own = towns_table(towns)
    runs: list[str] = []
    run = own._engine.run
    own._views.engine = type("Spied", (), {"__getattr__": lambda _, name: getattr(own._engine, name)})()
    own._views.engine.run = lambda sql: (runs.append(sql), run(sql))[1]
    first = own.sql("SELECT MEDIAN(age) AS m, COUNT(*) FROM people", epsilon=50.0, source=TestSource(1))
    assert sum("leaf" in sql for sql in runs) == 1
    again = own.sql("SELECT MEDIAN(age) AS m, COUNT(*) FROM people", epsilon=50.0, source=TestSource(1))
    own.sql("SELECT QUANTILE_CONT(age, 0.9) FROM people", epsilon=1.0)
    assert again.rows == first.rows
    assert sum("leaf" in sql for sql in runs) == 1
    for other in (
        "SELECT MEDIAN(age) FROM people WHERE age < 50",
        "SELECT MEDIAN(age + 1) FROM people",
        "SELECT region, MEDIAN(age) FROM people GROUP BY region",
    ):
        before = len(runs)
        own.sql(other, epsilon=1.0)
        assert sum("leaf" in sql for sql in runs[before:]) == 1, other
    own.sql("SELECT MEDIAN(age) FROM people", epsilon=1.0, rows_per_unit=2)  # other rows count
    assert sum("leaf" in sql for sql in runs) == 5
    towns.execute("UPDATE people SET age = 128")
    assert own.sql("SELECT MEDIAN(age) FROM people", epsilon=50.0).rows[0][0] < 60  # as old as the first question
    own.forget()
    assert own.sql("SELECT MEDIAN(age) FROM people", epsilon=50.0).rows[0][0] > 120


def test_the_noise_suits_the_question(towns: Any) -> None:
    """Beside a median, counts and sums have the noise with the smaller error, too: Laplace for few groups."""
    own, text = towns_table(towns), "SELECT region, COUNT(*), SUM(age), MEDIAN(age) FROM people GROUP BY region"
    prices = {
        noise: own.price(text, epsilon=1.0, delta=1e-6, noise=noise)
        for noise in (None, LaplaceNoise(), GaussianNoise())
    }
    errors = {noise: math.prod(price.scales.values()) for noise, price in prices.items()}
    assert prices[None].noise == "Laplace"
    assert 2**1.5 * errors[LaplaceNoise()] < errors[GaussianNoise()]
    many = towns_table(towns, keys={"region": list("abcdefghijklmnopqrst")})
    assert many.price(text, epsilon=1.0, delta=1e-6, groups_per_unit=20).noise == "Gaussian"


TOTALS = (
    "SELECT region, COUNT(*) AS n, SUM(age) AS s, AVG(age) AS a, COUNT(*) + SUM(age) AS o FROM people GROUP BY region"
)
PLAIN = "SELECT region, SUM(age) AS s FROM people GROUP BY region"


def coverage(own: Table, text: str, truth: dict[str, Any], runs: int, **settings: Any) -> dict[str, int]:
    source = TestSource(11)
    hits: dict[str, list[bool]] = {}
    for _ in range(runs):
        answer = own.sql(text, source=source, **settings)
        for row, ends in zip(answer.rows, answer.intervals, strict=True):
            for name, (low, high) in ends.items():
                hits.setdefault(name, []).append(low <= truth[row[0]][name] <= high)
    return {name: sum(found) for name, found in hits.items()}


@pytest.mark.parametrize("noise", [LaplaceNoise(), GaussianNoise()])
def test_intervals_cover(towns: Any, noise: Any) -> None:
    """90 of each, at 0.95 and, as a control, at 0.5. False alarms: 1e-8 for each of eight comparisons."""
    rows = towns.execute("SELECT region, COUNT(*), SUM(age), AVG(age) FROM people GROUP BY region").fetchall()
    truth = {row[0]: dict(zip("nsa", row[1:], strict=True)) for row in rows}
    own, settings = towns_table(towns), {"epsilon": 0.05, "delta": 1e-6, "noise": noise}
    found = coverage(own, TOTALS, truth, 30, **settings)
    assert set(found) == {"n", "s", "a"}  # not of an expression of two of them
    assert all(hits >= binom.ppf(1e-8, 90, 0.95) for hits in found.values())
    half = coverage(own, TOTALS, truth, 30, confidence=0.5, **settings)
    plain = coverage(own, PLAIN, truth, 30, confidence=0.5, **settings)
    for hits in (half["n"], half["s"], plain["s"]):
        assert binom.ppf(1e-8, 90, 0.5) <= hits <= binom.isf(1e-8, 90, 0.5)


def test_an_interval_belongs_to_its_row(towns: Any) -> None:
    text = "SELECT COUNT(*) AS n, region FROM people GROUP BY region ORDER BY n DESC LIMIT 2"
    answer = towns_table(towns).sql(text, epsilon=0.1, source=TestSource(4))
    assert len(answer.rows) == len(answer.intervals) == 2
    assert [sum(ends["n"]) / 2 for ends in answer.intervals] == pytest.approx([row[0] for row in answer.rows])


@pytest.mark.parametrize("noise", [LaplaceNoise(), GaussianNoise(), None])
def test_epsilon_for_an_accuracy_is_enough_and_not_more(towns: Any, noise: Any) -> None:
    own, text = towns_table(towns), "SELECT region, COUNT(*) AS n FROM people GROUP BY region"
    settings = {"delta": 1e-6, "noise": noise, "groups_per_unit": 2}
    asked = {"accuracy": 0.05, "expected": 1000, "confidence": 0.5, **settings}
    price = own.price(text, **asked)
    found = price.guarantee.epsilon
    assert own.sql(text, **asked).guarantee == price.guarantee
    source = TestSource(5)
    answers = [own.sql(text, epsilon=found, source=source, **settings) for _ in range(100)]
    errors = [abs(row[1] - 1000) / 1000 for answer in answers for row in answer.rows]
    # Half of 300 are as good as that. False alarms: 2e-8.
    assert binom.ppf(1e-8, 300, 0.5) <= sum(error <= 0.05 for error in errors) <= binom.isf(1e-8, 300, 0.5)


def test_epsilon_for_an_accuracy_of_one_count(towns: Any) -> None:
    price = towns_table(towns).price("SELECT COUNT(*) FROM people", accuracy=0.01, expected=10_000)
    assert price.guarantee.epsilon == pytest.approx(math.log(20) / 100, rel=0.01)  # P(|Laplace(1/e)| > t) = exp(-e t)


@pytest.mark.parametrize("text", [TOTALS, PLAIN, "SELECT MEDIAN(age) FROM people", "SELECT VARIANCE(age) FROM people"])
def test_more_accuracy_costs_more(towns: Any, text: str) -> None:
    own = towns_table(towns)
    costs = [own.price(text, accuracy=size, expected=1e5).guarantee.epsilon for size in (0.02, 0.01)]
    assert costs[1] == pytest.approx(2 * costs[0], rel=0.02)


def test_accuracy_where_groups_are_chosen(towns: Any) -> None:
    own = towns_table(towns, keys={})
    text = "SELECT region, COUNT(*) AS n FROM people GROUP BY region"
    price = own.price(text, accuracy=0.05, expected=1000, delta=1e-6, noise=LaplaceNoise())
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
def test_refusals(towns: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        towns_table(towns).sql("SELECT COUNT(*) FROM people", **settings)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_an_accuracy_that_no_epsilon_gives_is_refused(towns: Any, delta: float) -> None:
    with pytest.raises(InvalidArgument, match="accuracy="):
        towns_table(towns).price(PLAIN, accuracy=1e-9, expected=10, delta=delta)


class Blind:
    """An engine that must not be used."""

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
def test_a_preview_looks_at_nothing(catalog: Any, text: str) -> None:
    found = Table(Blind(), catalog, "people").preview(text)
    assert isinstance(found, Preview)
    assert "invented" in found.note
    assert found.rows
    assert all(len(row) == len(found.columns) for row in found.rows)
    assert not hasattr(found, "guarantee")


def test_a_preview_is_of_declared_bounds_and_keys(catalog: Any) -> None:
    text = "SELECT region, AVG(income) AS a, COUNT(*) AS n FROM people GROUP BY region"
    found = Table(Blind(), catalog, "people").preview(text, epsilon=50.0, groups_per_unit=5)
    assert [row[0] for row in found.rows] == ["north", "south", "east", "west", None]
    assert all(80_000 < row[1] < 120_000 for row in found.rows)
    assert all(300 < row[2] < 500 for row in found.rows)


@pytest.mark.parametrize("text", ["SELECT user_id FROM people", "SELECT MAX(age) FROM people", "SELECT nothing"])
def test_a_preview_refuses_what_is_refused(catalog: Any, text: str) -> None:
    with pytest.raises((QueryRefused, HushError)):
        Table(Blind(), catalog, "people").preview(text)


def test_a_preview_of_text_with_bounds_and_of_windows(towns: Any) -> None:
    text = "SELECT name, COUNT(*) AS n, MEDIAN(age) FROM people GROUP BY name"
    found = towns_table(towns, bounds={"name": (0, 9), "age": (0, 128)}, keys={"name": [1, 2.5]}).preview(text)
    assert [row[0] for row in found.rows] == [1, 2.5]
    assert all(400 < row[1] < 600 for row in found.rows)
    towns.execute("ALTER TABLE people ADD COLUMN day DATE")
    windows = towns_table(towns, time="day", window="month")
    assert windows.preview("SELECT COUNT(*) AS n FROM people").rows[0][0] > 500
