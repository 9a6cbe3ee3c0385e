"""From a query to a noisy answer, end to end on DuckDB."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from hush.accounting import PldAccountant
from hush.cli import main
from hush.errors import HushError, InvalidArgument
from hush.guarantee import CalendarWindow, Unit, UserWindow
from hush.randomness import TestSource
from hush.sql import QueryRefused, table
from hush.sql.answer.choices.limits import RequestedLimits
from hush.sql.answer.price import PriceRequest
from hush.sql.answer.stages.charges import question
from hush.statistics import GaussianNoise, LaplaceNoise
from hush.statistics.noise.selection import TruncatedGeometric

REGIONS = ["north", "south", "west"]
QUERY = "SELECT region, COUNT(*) AS n, AVG(income) AS income FROM people GROUP BY region"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write 3,000 users with one row each. One of them lives in the east, alone."""
    file = tmp_path / "people.parquet"
    duckdb.sql(
        "COPY (SELECT i AS who, CASE WHEN i = 7 THEN 'east' WHEN i % 3 = 0 THEN 'north' ELSE 'south' END AS region, "
        "1000.0 * (i % 100) AS income, DATE '2024-01-01' + CAST(i % 60 AS INT) AS day FROM range(3000) t(i)) "
        f"TO '{file}'"
    )
    return file


def people(path: Path, **changes: Any) -> Any:
    declared = {"unit": "who", "bounds": {"income": (0, 100_000)}, "keys": {"region": REGIONS}, **changes}
    return table(path, **{"rows_per_unit": 1, "groups_per_unit": 1, **declared})


def test_answers_are_near_the_truth_and_empty_groups_are_reported(path: Path) -> None:
    answer = people(path).sql(QUERY, epsilon=5.0, source=TestSource(1))
    assert answer.columns == ("region", "n", "income")
    by_region = {row[0]: row[1:] for row in answer.rows}
    assert list(by_region) == REGIONS
    assert abs(by_region["north"][0] - 1000) < 20
    assert abs(by_region["south"][0] - 1999) < 20
    assert abs(by_region["west"][0]) < 20
    assert abs(by_region["north"][1] - 49_500) < 2000
    assert answer.guarantee.unit == Unit.user()
    assert "test randomness" in answer.guarantee.assumptions


@pytest.mark.parametrize("noise", [LaplaceNoise(), GaussianNoise()])
@pytest.mark.parametrize("private", [False, True])
def test_the_event_costs_what_is_claimed(path: Path, noise: Any, private: bool) -> None:
    people_table = people(path, keys={} if private else {"region": REGIONS})
    answer = people_table.sql(QUERY, epsilon=0.7, delta=1e-6, groups_per_unit=2, noise=noise, source=TestSource(2))
    assert answer.guarantee.epsilon == 0.7
    cost = PldAccountant(unit=Unit.user()).compose(answer.event).epsilon(max(answer.guarantee.delta, 1e-6))
    assert cost <= 0.7 * (1 + 1e-6)


def test_the_price_is_the_cost_of_the_answer(path: Path) -> None:
    people_table = people(path)
    price = people_table.price(QUERY, epsilon=0.5, groups_per_unit=2)
    answer = people_table.sql(QUERY, epsilon=0.5, groups_per_unit=2)
    assert price.guarantee == answer.guarantee
    assert price.scales == answer.scales


def test_noise_has_the_stated_scale(path: Path) -> None:
    people_table = people(path)
    query = "SELECT region, COUNT(*) AS n FROM people GROUP BY region"
    scale = next(iter(people_table.price(query, epsilon=0.5, groups_per_unit=2).scales.values()))
    assert scale == pytest.approx(2 / 0.5)  # two groups of one row each
    source = TestSource(3)
    truth = {"north": 1000, "south": 1999, "west": 0}
    answers = [people_table.sql(query, epsilon=0.5, groups_per_unit=2, source=source).rows for _ in range(60)]
    errors = [n - truth[region] for rows in answers for region, n in rows]
    # The mean of 180 of |Laplace(4)|. False alarms: 45 % off with 5e-8.
    assert np.mean(np.abs(errors)) == pytest.approx(4.0, rel=0.45)


def test_a_group_of_one_user_is_shown_with_probability_delta(path: Path) -> None:
    people_table = people(path, keys={})
    source = TestSource(4)
    # False alarms: 20 times 1e-9.
    seen = [{row[0] for row in people_table.sql(QUERY, epsilon=1.0, delta=1e-9, source=source).rows} for _ in range(20)]
    assert not any("east" in regions for regions in seen)
    assert all(regions == {"north", "south"} for regions in seen)


def test_having_order_and_limit_act_on_noisy_values(path: Path) -> None:
    text = "SELECT region, COUNT(*) AS n FROM people GROUP BY region HAVING COUNT(*) > 500 ORDER BY n DESC LIMIT 1"
    assert [row[0] for row in people(path).sql(text, epsilon=2.0, source=TestSource(5)).rows] == ["south"]


def test_users_within_windows(path: Path) -> None:
    people_table = table(path, unit=UserWindow("who", time="day", window=CalendarWindow.MONTH), name="people")
    answer = people_table.sql("SELECT COUNT(*) AS n FROM people", epsilon=2.0, rows_per_unit=1, groups_per_unit=1)
    assert answer.guarantee.unit.kind is not Unit.user().kind
    assert any("written in the time zone UTC" in assumption for assumption in answer.guarantee.assumptions)
    assert abs(answer.rows[0][0] - 3000) < 50  # Laplace noise of scale 1/2: false alarms e^-100


@pytest.mark.parametrize(
    ("text", "settings", "error"),
    [
        ("SELECT who FROM people", {}, QueryRefused),
        (QUERY, {"epsilon": 0.0}, InvalidArgument),
        (QUERY, {"epsilon": float("nan")}, InvalidArgument),
        (QUERY, {"noise": GaussianNoise()}, InvalidArgument),
        (QUERY, {"groups_per_unit": 0}, InvalidArgument),
        ("SELECT COUNT(*) FROM read_csv('/etc/passwd')", {}, HushError),
    ],
)
def test_queries_and_arguments_that_are_refused(
    path: Path, text: str, settings: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        people(path).sql(text, **{"epsilon": 1.0, **settings})


def test_groups_that_are_not_public_need_a_delta(path: Path) -> None:
    with pytest.raises(InvalidArgument, match="^delta=0: .*keys are not public.*keys="):
        people(path, keys={}).sql(QUERY, epsilon=1.0)


COMMAND = ["--unit", "who", "--bounds", "income=0:100000", "--keys", "region=north,south,west", "--epsilon", "2"]


def test_the_command(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", str(path), QUERY, *COMMAND]) == 0
    printed = capsys.readouterr()
    assert "north" in printed.out
    assert "epsilon <= 2" in printed.err
    assert main(["query", str(path), QUERY, *COMMAND, "--format", "json"]) == 0
    printed_json = json.loads(capsys.readouterr().out)
    assert [row["region"] for row in printed_json["rows"]] == REGIONS
    assert printed_json["guarantee"]["epsilon"] == 2
    assert main(["query", str(path), QUERY, *COMMAND, "--format", "csv"]) == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows[0] == ["region", "n", "n_low", "n_high", "income", "income_low", "income_high"]
    assert len(rows) == 4
    assert main(["query", str(path), QUERY, *COMMAND, "--price"]) == 0
    assert "noise" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [["--bounds", "income"], ["--keys", "region="], ["--epsilon", "0"]])
def test_mistakes_are_reported_in_one_line(path: Path, capsys: pytest.CaptureFixture[str], wrong: list[str]) -> None:
    assert main(["query", str(path), QUERY, *COMMAND, *wrong]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1


@pytest.mark.parametrize("record", ["bob,5\r", "bob,5\r\r", "\r", "bob,5"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_no_record_of_a_csv_file_changes_another(tmp_path: Path, record: str, ending: str) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(ending.join(["who,x", "alice,1", record, "carol,3", "dave,4", ""]).encode())
    people_table = table(path, unit="who", keys={"who": ["alice", "carol", "dave"]}, bounds={"x": (0, 10)})
    with pytest.raises(QueryRefused):  # units are never shown
        people_table.sql("SELECT who, COUNT(*) AS n FROM people GROUP BY who", epsilon=1.0)
    rows = people_table._engine.run('SELECT "who", "x" FROM "people" ORDER BY 1')
    assert [row for row in rows if row[0] in ("alice", "carol", "dave")] == [
        ("alice", "1"),
        ("carol", "3"),
        ("dave", "4"),
    ]


def test_the_assumption_about_csv_files_is_stated(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("who,x\n1,2\n")
    answer = table(path, unit="who").sql("SELECT COUNT(*) AS n FROM people", epsilon=1.0)
    assert any("CSV file quotes cells" in assumption for assumption in answer.guarantee.assumptions)


def test_changed_data_are_read_after_forget(tmp_path: Path) -> None:
    path = tmp_path / "live.parquet"
    duckdb.sql(f"COPY (SELECT i AS who FROM range(50) t(i)) TO '{path}'")
    people_table = table(path, unit="who", rows_per_unit=1)  # limits that are chosen may be wrong, one in 1,000 times
    query = "SELECT COUNT(*) AS n FROM live"
    # Laplace noise of scale 1/50: false alarms e^-250, here and below.
    assert abs(people_table.sql(query, epsilon=50.0).rows[0][0] - 50) < 5
    duckdb.sql(f"COPY (SELECT i AS who FROM range(500) t(i)) TO '{path}'")
    people_table.forget()
    assert abs(people_table.sql(query, epsilon=50.0).rows[0][0] - 500) < 5


def test_a_question_is_everything_that_an_answer_depends_on(path: Path) -> None:
    """Two calls with the same question share one answer in a ledger, so all arguments have to be part of it."""
    limits, request = RequestedLimits(), PriceRequest(1.0, 0.0, None, None, None, None, 0.95)
    catalog, bounded = people(path).catalog, people(path, bounds={"income": (0, 5)}).catalog
    first = question("SELECT 1", [limits], 0.1, request, catalog)
    assert question("SELECT 1", [limits], 0.1, request, people(path).catalog) == first
    others = [
        question("SELECT 2", [limits], 0.1, request, catalog),
        question("SELECT 1", [RequestedLimits(rows_per_unit=2)], 0.1, request, catalog),
        question("SELECT 1", [RequestedLimits(groups_per_unit=2)], 0.1, request, catalog),
        question("SELECT 1", [limits], 0.1, request, bounded),
        question("SELECT 1", [limits], 0.2, request, catalog),
    ]
    changes = {
        "epsilon": 2.0,
        "delta": 1e-6,
        "noise": LaplaceNoise(),
        "selection": TruncatedGeometric(),
        "accuracy": 0.05,
        "expected": 10.0,
        "confidence": 0.9,
    }
    assert changes.keys() == {field.name for field in fields(PriceRequest)}
    for name, value in changes.items():
        others.append(question("SELECT 1", [limits], 0.1, replace(request, **{name: value}), catalog))
    assert len({first, *others}) == 1 + len(others)


def test_a_replay_is_marked(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    from hush.ledger import Ledger

    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT i AS who FROM range(500) t(i)")
    people = table(connection, name="people", unit="who", rows_per_unit=1)
    budget = Ledger(f"sqlite:///{tmp_path / 'l.db'}").budget("people", epsilon=3, unit="person")
    text = "SELECT COUNT(*) AS n FROM people"
    first = people.sql(text, epsilon=1.0, budget=budget)
    again = people.sql(text, epsilon=1.0, budget=budget)
    paid_again = people.sql(text, epsilon=1.0, budget=budget, new_data=True)
    assert [answer.replayed for answer in (first, again, paid_again)] == [False, True, False]
    assert first.answered is not None
    assert again.answered == first.answered
    assert (again.rows, budget.spent) == (first.rows, 2.0)
    assert people.sql(text, epsilon=1.0).replayed is False
    assert people.sql(text, epsilon=1.0).answered is not None


def test_counts_are_integers() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT i AS who, i % 2 AS sex, 1.5 AS cost FROM range(500) t(i)")
    people = table(connection, name="people", unit="who", bounds={"cost": (0, 2)}, keys={"sex": [0, 1]})
    columns = "COUNT(*), COUNT(cost), COUNT(DISTINCT who), COUNT_IF(cost > 1), COUNT(*) + 1, COUNT(*) / 2.0, AVG(cost)"
    for noise in (LaplaceNoise(), GaussianNoise()):
        answer = people.sql(f"SELECT sex, {columns} FROM people GROUP BY sex", epsilon=1.0, delta=1e-6, noise=noise)
        for row in answer.rows:
            assert list(map(type, row)) == [int, int, int, int, int, int, float, float]


@pytest.mark.parametrize("word", ["no", 0, None])
def test_new_data_is_a_bool(path: Path, word: Any) -> None:
    """Every text but the empty one counts as true: "no" would pay again."""
    with pytest.raises(InvalidArgument, match="^new_data="):
        people(path).sql("SELECT COUNT(*) AS n FROM people", epsilon=1.0, new_data=word)
