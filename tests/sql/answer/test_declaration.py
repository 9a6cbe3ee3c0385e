"""`hush.table`: wrong declarations are named, and private tables are joined on the unit."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import CalendarWindow, UserWindow
from hush.randomness import TestSource
from hush.sql import JoinedTable, QueryRefused, Through, table
from hush.sql.answer.declaration import _row_id

JOINED = "SELECT COUNT(*) AS n, SUM(v.cost) AS s FROM people p JOIN visits v ON p.who = v.u WHERE p.age > 30"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "people.parquet"
    duckdb.sql(
        "COPY (SELECT i AS who, i % 70 AS age, ['north', 'south'][1 + i % 2] AS region, DATE '2024-01-01' AS day "
        f"FROM range(2000) t(i)) TO '{file}'"
    )
    return file


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    file = tmp_path / "v.parquet"
    duckdb.sql(f"COPY (SELECT i % 2000 AS u, 5.0 AS cost, DATE '2024-01-01' AS day FROM range(4000) t(i)) TO '{file}'")
    return file


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"keys": {"region": "north"}}, r"^keys=\{'region': 'north'\}: expected a list of values\. Write \['north'\]"),
        ({"keys": {"region": 5}}, "^keys=.*a list of values"),
        ({"keys": ["north"]}, "^keys=.*a dictionary by column"),
        ({"bounds": {"age": 5}}, "^bounds=5: expected a pair of numbers"),
        ({"bounds": {"age": "05"}}, "^bounds='05': expected a pair of numbers"),
        ({"bounds": {"age": (0, 10**400)}}, "^bounds=.*finite numbers"),
        ({"bounds": 5}, "^bounds=5: expected a dictionary"),
        (
            {"unit": ("who", "day", "month")},
            r"^unit=\('who', 'day', 'month'\): expected the name of a column, EachRow\(\), a Through, or a "
            r"hush.guarantee.UserWindow. "
            r"Write UserWindow\(\"user_id\", time=\"day\", window=CalendarWindow.MONTH\).$",
        ),
        (
            {"unit": UserWindow("who", time="day", window=timedelta(days=7))},
            "^window=.*expected a CalendarWindow. Engines cut time into hours",
        ),
        ({"unit": 5}, "^unit=5: expected the name of a column"),
        ({"unit": "nobody"}, "^unit='nobody': expected a column of the table. The table has who, age, region, day."),
        (
            {"unit": UserWindow("who", time="age", window=CalendarWindow.MONTH)},
            "^time='age': expected a column of dates .* AT TIME ZONE 'UTC'",
        ),
        ({"required": "age"}, "^required='age': expected a list"),
        ({"public": ["zones"]}, "^public='list': expected a dictionary"),
        ({"public": {"zones": None}}, "^public='zones': expected an existing table or view"),
        ({"public": {"people": None}}, "^public='people': expected a name that no other table has"),
        ({"private": {"visits": "v.parquet"}}, "^private=.*expected JoinedTable"),
    ],
)
def test_mistakes_are_named(path: Path, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        table(path, **{"unit": "who", **settings})


@pytest.mark.parametrize("data", [[1, 2], {"who": [1]}, None, 5, (1,)])
def test_data_of_other_types_are_refused_without_their_contents(data: Any) -> None:
    with pytest.raises(InvalidArgument, match="^data=('[a-z]+'|None): expected a path .*Polars data frame"):
        table(data, unit="who")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "people.parquet").write_text("secret")
    with pytest.raises(InvalidArgument, match="^data='people.parquet': expected a file that can be read") as caught:
        table(tmp_path / "people.parquet", unit="who")
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_arrays_and_lists_are_accepted(path: Path) -> None:
    bounds = {"age": np.array([0, 100])}
    monthly = UserWindow("who", time="day", window=CalendarWindow.MONTH)
    people = table(path, unit=monthly, bounds=bounds, keys={"region": np.array(["north", "south"])})
    other = table(path, unit=monthly, bounds={"age": (np.int64(0), np.float32(100))})
    declared, same = people._catalog.tables["people"], other._catalog.tables["people"]
    assert declared.bounds == same.bounds == {"age": (0.0, 100.0)}
    assert declared.keys["region"] == ("north", "south")
    assert {type(key) for key in declared.keys["region"]} == {str}
    text = "SELECT region, AVG(age) AS age FROM people GROUP BY region"
    answer = people.sql(text, epsilon=50.0, source=TestSource(1))
    assert [row[0] for row in answer.rows] == ["north", "south"]
    assert {type(end) for ends in answer.intervals for end in ends["age"]} == {float}
    assert repr(people) == "Table(people(who, age, region, day), on duckdb)"
    lines = str(answer).splitlines()
    assert lines[0].split() == ["region", "age"]
    assert lines[1].startswith("north")
    assert lines[-1] == str(answer.guarantee)


def test_a_csv_file_with_another_separator_or_without_names(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("who;income\n1;2,5\n")
    people = table(path, unit="who", bounds={"income": (0, 10)})
    assert people._engine.run("SELECT * FROM people") == [("1", "2.5")]
    path.write_text("17,ann\n18,bob\n")  # the first line is a record, which no message may show
    with pytest.raises(InvalidArgument, match="The first line of a CSV file must name its columns") as caught:
        table(path, unit="who")
    assert "ann" not in str(caught.value)
    path.write_text("who,income\n1,2\n")
    with pytest.raises(QueryRefused, match="--bounds income=LOW:HIGH"):
        table(path, unit="who").sql("SELECT AVG(income) FROM people", epsilon=1.0)


def test_private_tables_are_joined_on_the_unit(path: Path, visits: Path) -> None:
    joined = {"visits": JoinedTable(visits, unit="u", bounds={"cost": (0, 10)})}
    people = table(path, unit="who", private=joined)
    answer = people.sql(JOINED, epsilon=100.0, rows_per_unit=2, source=TestSource(1))
    exact = 2 * sum(i % 70 > 30 for i in range(2000))
    assert answer.rows[0] == (pytest.approx(exact, abs=5), pytest.approx(5 * exact, abs=50))
    alone = people.sql("SELECT COUNT(*) AS n FROM visits", epsilon=100.0, rows_per_unit=2)
    assert alone.rows[0][0] == pytest.approx(4000, abs=5)  # Laplace noise of scale 2/100: false alarms e^-250
    with pytest.raises(QueryRefused, match="rows of different units"):
        people.sql("SELECT COUNT(*) FROM people p JOIN visits v ON p.age = v.cost", epsilon=1.0)


def test_private_tables_of_a_connection(path: Path, visits: Path) -> None:
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE people AS FROM '{path}'; CREATE TABLE visits AS FROM '{visits}'")
    joined = {"visits": JoinedTable(None, unit="u", bounds={"cost": (0, 10)})}
    people = table(connection, name="people", unit="who", private=joined)
    assert people.sql(JOINED, epsilon=1.0).columns == ("n", "s")
    with pytest.raises(InvalidArgument, match="^private='nothing'"):
        table(connection, name="people", unit="who", private={"nothing": JoinedTable(None, unit="u")})


def test_public_columns_may_have_bounds(path: Path) -> None:
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE people AS FROM '{path}'")
    connection.execute(
        "CREATE TABLE zones AS SELECT * FROM (VALUES ('north', 2.0), ('south', 50.0)) AS t(region, cost)"
    )
    text = "SELECT SUM(cost) AS s FROM people JOIN zones USING (region)"
    declared = table(
        connection, name="people", unit="who", public={"zones": JoinedTable(None, bounds={"cost": (0, 9)})}
    )
    assert declared.sql(text, epsilon=500.0, rows_per_unit=1).rows[0][0] == pytest.approx(
        11_000, abs=2
    )  # false alarms e^-111
    with pytest.raises(QueryRefused, match="no bounds"):
        table(connection, name="people", unit="who", public={"zones": None}).price(text, epsilon=1.0)
    for wrong in ({"unit": "region"}, {"keys": {"region": ["north"]}}, {"required": ["cost"]}):
        with pytest.raises(InvalidArgument, match="^public='zones': expected a table without unit"):
            table(connection, name="people", unit="who", public={"zones": JoinedTable(None, **wrong)})  # type: ignore[arg-type]


def test_a_private_table_has_a_unit(path: Path, visits: Path) -> None:
    with pytest.raises(InvalidArgument, match="^unit=None: expected the name of a column"):
        table(path, unit="who", private={"visits": JoinedTable(visits)})
    through = Through("u", to="nothing", key="who")
    with pytest.raises(InvalidArgument, match="^to='nothing': expected a private table"):
        table(path, unit="who", private={"visits": JoinedTable(visits, unit=through)})


def test_a_table_has_its_unit_through_another(path: Path, visits: Path) -> None:
    through = Through("u", to="people", key="who")
    people = table(path, unit="who", private={"visits": JoinedTable(visits, unit=through, bounds={"cost": (0, 10)})})
    answer = people.sql(JOINED, epsilon=100.0, rows_per_unit=2, source=TestSource(1))
    exact = 2 * sum(i % 70 > 30 for i in range(2000))
    assert answer.rows[0] == (pytest.approx(exact, abs=5), pytest.approx(5 * exact, abs=50))
    assert any("people.who" in line for line in answer.guarantee.assumptions)


def test_rows_are_no_units_where_the_engine_cannot_number_them() -> None:
    """Spark may read rows again in another order, within one query."""

    class Unnumbered:
        dialect = "spark"

    with pytest.raises(Unsupported, match="Add a column of row numbers"):
        _row_id(Unnumbered(), "people")  # type: ignore[arg-type]
