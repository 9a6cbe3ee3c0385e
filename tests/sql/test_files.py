"""Queries on files, end to end: one record is one record, and each row can be a unit."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hush.errors import InvalidArgument, Unsupported
from hush.randomness import TestSource
from hush.sql import JoinedTable, QueryRefused, table
from hush.sql.read.query import plan_query
from hush.statistics import ContributionLimits, EachRow


def test_a_changed_csv_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "live.csv"
    path.write_text("who\n" + "".join(f"{i}\n" for i in range(50)))
    people_table = table(path, unit="who", rows_per_unit=1)
    query = "SELECT COUNT(*) AS n FROM live"
    # Discrete Laplace noise of scale 1/50: 5 or beyond with probability below 2 exp(-250), here and below.
    assert abs(people_table.sql(query, epsilon=50.0).rows[0][0] - 50) < 5
    path.write_text("who\n" + "".join(f"{i}\n" for i in range(500)))
    assert abs(people_table.sql(query, epsilon=50.0).rows[0][0] - 500) < 5


def test_a_damaged_file_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text('who,x\n1,2\n2,"3\n')
    people_table = table(path, unit="who")
    charged = []

    class Refusing:
        def reserve(self, charge: object) -> None:
            charged.append(charge)
            raise AssertionError

    for budget in (None, Refusing()):
        with pytest.raises(InvalidArgument, match="cannot be told apart"):
            people_table.sql("SELECT COUNT(*) AS n FROM people", epsilon=1.0, budget=budget)  # type: ignore[arg-type]
    assert charged == []
    assert people_table.preview("SELECT COUNT(*) AS n FROM people").rows  # which reads no rows


@pytest.mark.parametrize(
    "cell", ["hi\r10000,x\r10001,x", 'hi"\n10000,x\n10001,"x', "\r" * 5000, "\n" * 5000, '"', '""']
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_one_cell_invents_no_people(tmp_path: Path, cell: str, end: str) -> None:
    path = tmp_path / "visits.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator=end).writerows([("who", "note"), *((i, "x") for i in range(50)), (50, cell)])
    visits = table(path, unit="who", rows_per_unit=1)
    # The noise is discrete Laplace of scale 1/50: beyond 2 with probability exp(-100) / (1 + exp(-50)).
    assert abs(visits.sql("SELECT COUNT(*) AS n FROM visits", epsilon=50.0).rows[0][0] - 51) < 2


ROW_QUERY = "SELECT region, COUNT(*) AS n, MEDIAN(age) AS m FROM people GROUP BY region"


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "xlsx", "parquet", "frame", "connection"])
def test_each_row_can_be_a_unit(tmp_path: Path, kind: str) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"region": ["n", "s"] * 500, "age": range(1000)})
    path = tmp_path / f"people.{kind}"
    write = {"xlsx": frame.to_excel, "parquet": frame.to_parquet}.get(kind, frame.to_csv)
    if kind == "frame":
        data: Any = frame
    elif kind == "connection":
        data = duckdb.connect()
        data.execute("CREATE TABLE people AS SELECT * FROM frame")
    else:
        data = path
        write(path, index=False)
    declared = {"bounds": {"age": (0, 1000)}, "keys": {"region": ["n", "s"]}, "unit": "row", "name": "people"}
    people_table = table(data, **declared)
    answer = people_table.sql(ROW_QUERY, epsilon=100.0, source=TestSource(1))
    # Each number of a group has at least a tenth of epsilon: noise of scale 0.1 is beyond 5 with probability exp(-50).
    assert [abs(row[1] - 500) < 5 and abs(row[2] - 500) < 10 for row in answer.rows] == [True, True]
    assert str(answer.guarantee.unit) == "example"
    assert any("each row is its own privacy unit" in line for line in answer.guarantee.assumptions)
    assert len(people_table.preview(ROW_QUERY).rows) == 2
    for query in (
        "SELECT COUNT(*) FROM people a JOIN people b ON a.age = b.age",
        "SELECT COUNT(DISTINCT hush_row) FROM people",
        "SELECT COUNT(DISTINCT rowid) FROM people",
    ):
        with pytest.raises(QueryRefused):
            people_table.sql(query, epsilon=1.0)


def test_a_row_that_is_added_changes_no_other_row(tmp_path: Path) -> None:
    """A row that matches several rows of a public table counts in one group, which its number does not choose."""
    public = duckdb.connect()
    public.execute("CREATE TABLE areas AS SELECT 'n' AS region, i AS area FROM range(40) t(i)")
    counts = []
    for rows in (30, 31):
        public.execute(f"CREATE OR REPLACE TABLE people AS SELECT 'n' AS region FROM range({rows})")
        people_table = table(public, unit="row", name="people", public={"areas": None}, keys={"region": ["n"]})
        people_table._views.ranking_key = bytes(32)
        limits = ContributionLimits(groups_per_unit=1)
        text = "SELECT area, COUNT(*) AS n FROM people JOIN areas USING (region) GROUP BY area"
        plan = plan_query(text, tables=people_table._catalog, limits=limits)
        counts.append({group.keys: group.units for group in people_table._views.groups(plan)})
    changed = [key for key in counts[0] | counts[1] if counts[0].get(key, 0) != counts[1].get(key, 0)]
    assert len(changed) == 1


@pytest.mark.parametrize("unit", ["row", EachRow()])
def test_a_column_called_row_is_ambiguous_and_rows_join_nothing(tmp_path: Path, unit: Any) -> None:
    """The guarantee would be per row or per person, depending on the name of a column."""
    path = tmp_path / "seats.csv"
    path.write_text("row,seat\n1,2\n1,3\n")
    with pytest.raises(InvalidArgument, match="^unit='row': .* a column called row"):
        table(path, unit=unit)
    path.write_text("who,seat\n1,2\n1,3\n")
    with pytest.raises(InvalidArgument, match="^unit='row'"):
        table(path, unit=unit, private={"others": JoinedTable(path, unit="who")})
    connection = duckdb.connect()
    connection.execute("CREATE VIEW people AS SELECT 1 AS x")
    with pytest.raises(Unsupported, match="rows of a view"):
        table(connection, name="people", unit=unit)
