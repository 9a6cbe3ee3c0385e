"""`hush.table`: wrong declarations are named, and private tables are joined on the unit."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from hush.data.tables.catalog_toml import _has_password
from hush.errors import HushError, InvalidArgument, Unsupported
from hush.guarantee import CalendarWindow, UserWindow
from hush.randomness import TestSource
from hush.sql import JoinedTable, QueryRefused, Through, load_catalog, table
from hush.sql.answer.catalog_file import catalog_problems, database_columns
from hush.sql.answer.declaration import _row_id
from hush.sql.answer.stages.planner import LimitArguments
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.write.plan import QueryPlan
from hush.statistics import ContributionLimits
from sql.hosts import OnPostgres, contents, largest_change

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
    price = table(connection, name="people", unit="who", public={"zones": None}).price(text, epsilon=1.0)
    assert price.limits[-1] == "Bounds of cost will be learned at epsilon 0.0667."
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


HEAD = 'format = "hush.catalog/1"\n'
BY_REGION = "SELECT region, COUNT(*) AS n, SUM(age) AS age FROM people GROUP BY region"


def catalog(path: Path, text: str, head: str = HEAD) -> Path:
    file = path.parent / "clinic.toml"
    file.write_text(head + text)
    return file


def test_a_catalog_is_a_declaration(path: Path, visits: Path) -> None:
    file = catalog(
        path,
        """[tables.people]
        data = "people.parquet"
        unit = "who"
        bounds.age = [0, 100]
        keys.region = ["north", "south"]
        required = ["age"]
        [tables.visits]
        data = "v.parquet"
        unit = "u"
        bounds.cost = [0, 9]
        [tables.zones]
        data = "zones.csv"
        public = true
        bounds.weight = [0, 5000]
        decimal_comma = ["weight"]
        """,
    )
    zones = path.parent / "zones.csv"
    zones.write_text("region;zone;weight\nnorth;cold;1.234\n")
    declared = table(
        path,
        unit="who",
        bounds={"age": (0, 100)},
        keys={"region": ["north", "south"]},
        required=["age"],
        private={"visits": JoinedTable(visits, "u", bounds={"cost": (0, 9)})},
        public={"zones": JoinedTable(zones, bounds={"weight": (0, 5000)}, decimal_comma=["weight"])},
    )
    loaded = load_catalog(file)
    assert loaded.catalog == declared.catalog
    settings: dict[str, Any] = {"epsilon": 1.0, "rows_per_unit": 2, "groups_per_unit": 1, "source": TestSource(1)}
    assert loaded.sql(JOINED, **settings).rows == declared.sql(JOINED, **{**settings, "source": TestSource(1)}).rows
    assert catalog_problems(file) == []
    loaded._engine.load()  # type: ignore[attr-defined]
    assert loaded._engine.run("SELECT weight FROM zones") == [("1234",)]


def test_columns_with_decimal_commas(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "euros.csv"
    file.write_text("who;note;income\n" + "1.000;1,5;1.234\n" * 3 + "2;x;1.234,5\n3;x;1.5\n4;x;-\n5;x;\n")
    declared: dict[str, Any] = {"unit": "who", "bounds": {"income": (0, 5000)}}
    euros = table(file, **declared, decimal_comma=["income"])
    assert euros.price("SELECT SUM(income) AS s FROM euros", epsilon=1.0, rows_per_unit=3).noise == "Laplace"
    rows = euros._engine.run("SELECT * FROM euros")
    # Other columns are as they are without the declaration.
    assert rows[2:] == [
        ("1.000", "1.5", "1234"),
        ("2", "x", "1234.5"),
        ("3", "x", None),
        ("4", "x", None),
        ("5", "x", None),
    ]
    total = euros.sql("SELECT SUM(income) AS s FROM euros", epsilon=100.0, rows_per_unit=3, source=TestSource(1))
    # Discrete Laplace noise of scale 150: beyond 3,600 with e^-24.
    assert abs(total.rows[0][0] - (3 * 1234 + 1234.5)) < 3_600
    assert not any("decimal_comma" in line for line in total.guarantee.assumptions)
    plain = table(file, **declared)
    answer = plain.sql("SELECT COUNT(*) AS n FROM euros", epsilon=1.0, rows_per_unit=1)
    assert any("declare that column with decimal_comma" in line for line in answer.guarantee.assumptions)
    # A stored answer is about another question, if the declaration is another.
    assert euros.catalog != plain.catalog
    for argument, words in [
        (["incomes"], "decimal_comma='incomes': expected a column of the file"),
        ("income", "decimal_comma='income': expected a list of column names"),
        (["who"], "decimal_comma='who': expected columns of numbers, not the unit"),
    ]:
        with pytest.raises(InvalidArgument, match=words):
            table(file, **declared, decimal_comma=argument)
    for other in (path, duckdb.connect()):
        with pytest.raises(InvalidArgument, match="decimal_comma=.*: expected none, unless the data are a CSV file"):
            table(other, name="people", unit="who", decimal_comma=["age"])


def test_a_catalog_has_paths_of_foreign_keys(path: Path, visits: Path) -> None:
    """Rows may belong to the person whose row they refer to."""
    file = catalog(
        path,
        """[tables.visits]
        data = "v.parquet"
        unit = {column = "u", to = "people", key = "who"}
        bounds.cost = [0, 10]
        [tables.people]
        data = "people.parquet"
        unit = "who"
        """,
    )
    through = Through("u", to="people", key="who")
    declared = table(path, unit="who", private={"visits": JoinedTable(visits, unit=through, bounds={"cost": (0, 10)})})
    loaded = load_catalog(file)
    assert loaded.catalog == declared.catalog
    assert loaded.name == "people"
    assert catalog_problems(file) == []


def test_a_catalog_answers_as_the_engine_does(path: Path) -> None:
    file = catalog(
        path,
        '[tables.people]\ndata = "people.parquet"\nunit = "who"\nbounds.age = [0, 100]\nrows_per_unit = 1\n'
        'groups_per_unit = 1\nkeys.region = ["north", "south"]',
    )
    exact = duckdb.sql(BY_REGION.replace("people", f"'{path}'") + " ORDER BY region").fetchall()
    rows = load_catalog(file).sql(BY_REGION, epsilon=500.0).rows
    for row, expected in zip(rows, exact, strict=True):  # noise of scale 0.4: an error of 10 has a chance of exp(-25)
        assert row[0] == expected[0]
        assert row[1:] == pytest.approx(expected[1:], abs=10)


def test_limits_of_a_catalog_are_for_one_table(path: Path, visits: Path) -> None:
    file = catalog(
        path,
        '[tables.people]\ndata = "people.parquet"\nunit = "who"\nrows_per_unit = 1\n'
        '[tables.visits]\ndata = "v.parquet"\nunit = "u"\nrows_per_unit = 4\n',
    )
    clinic = load_catalog(file)
    scales = {
        text: clinic.price(text, epsilon=1.0).scales
        for text in ("SELECT COUNT(*) AS n FROM people", "SELECT COUNT(*) AS n FROM visits")
    }
    assert [scale["rows for n"] for scale in scales.values()] == pytest.approx([1.0, 4.0])
    assert clinic.price(JOINED.replace(", SUM(v.cost) AS s", ""), epsilon=1.0).noise == "chosen with the limits"
    given = clinic.price("SELECT COUNT(*) AS n FROM visits", epsilon=1.0, rows_per_unit=2)
    assert given.scales["rows for n"] == pytest.approx(2.0)
    preview = clinic.preview("SELECT COUNT(*) AS n FROM visits", epsilon=1.0)
    assert preview.intervals[0]["n"][1] - preview.rows[0][0] > 8  # scale 4; of 1 it would be 3


def test_chosen_limits_are_kept_in_a_catalog(path: Path) -> None:
    """What an answer chose is written into the file: the same limits, and no share of epsilon for them."""
    text = '[tables.people]\ndata = "people.parquet"\nunit = "who"\nkeys.region = ["north", "south"]\n'
    query = "SELECT region, COUNT(*) AS n, COUNT(DISTINCT who) AS u FROM people GROUP BY region"
    answer = load_catalog(catalog(path, text)).sql(query, epsilon=1.0, source=TestSource(1))
    limits = re.search(r"at most ([\d,]+) rows? in at most ([\d,]+) groups?", answer.limits[0])
    assert limits is not None
    rows, groups = (int(number.replace(",", "")) for number in limits.groups())
    keeping = load_catalog(catalog(path, f"{text}rows_in_total = {rows}\ngroups_per_unit = {groups}\n"))
    assert keeping.price(query, epsilon=0.9).scales == pytest.approx(answer.scales)  # a tenth had paid for the limits
    assert keeping.price(query, epsilon=1.0).guarantee.epsilon == 1
    again = keeping.sql(query, epsilon=1.0)
    assert again.limits[0].startswith(f"Limits, as you set them: a unit counts with {limits[0]}")


def test_a_fact_in_a_catalog_leaves_nothing_out(path: Path) -> None:
    people = load_catalog(catalog(path, '[tables.people]\ndata = "people.parquet"\nunit = "who"\nmost_rows = 3\n'))
    answer = people.sql("SELECT COUNT(*) AS n FROM people", epsilon=1.0)
    assert answer.limits[0].startswith("Limits, declared as facts: ")
    assert any("cover the true answer, if your declarations are right" in line for line in answer.limits)
    assert answer.scales["rows for n"] == pytest.approx(3.0)


def test_a_catalog_for_a_connection(path: Path) -> None:
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE people AS SELECT * FROM '{path}'")
    file = catalog(path, '[tables.people]\nunit = "who"\n')
    assert list(load_catalog(file, connection=connection).catalog.tables["people"].columns) == [
        "who",
        "age",
        "region",
        "day",
    ]
    with pytest.raises(InvalidArgument, match=r"tables.people.data=None: expected a file. .* pass a connection"):
        load_catalog(file)
    with pytest.raises(InvalidArgument, match="connection='...': expected None: the catalog says where"):
        load_catalog(catalog(path, '[tables.people]\ndata = "people.parquet"\nunit = "who"\n'), connection=connection)


@pytest.mark.postgres
def test_a_catalog_for_postgres(path: Path, postgres_url: str) -> None:
    host = OnPostgres(postgres_url)
    try:
        host.put("people", "who BIGINT, age INT", [(1, 30)])
        text = '[tables.people]\nunit = "who"\nbounds.age = [0, 100]\n'
        loaded = load_catalog(catalog(path, text), connection=host.connection)
        assert loaded.sql("SELECT AVG(age) AS a FROM people", epsilon=1.0).columns == ("a",)
        address = f"{postgres_url}{'&' if '?' in postgres_url else '?'}options=-csearch_path%3D{host.schema}"
        if address.startswith("postgres") and not _has_password(address):
            assert database_columns(address, ["people"]) == {"people": {"who": "bigint", "age": "integer"}}
            file = catalog(path, f'database = "{address}"\n{text}')
            assert load_catalog(file).catalog == loaded.catalog
            assert catalog_problems(file) == []
    finally:
        host.close()


WRONG = """[tables.people]
data = "people.parquet"
unit = "whom"
required = ["region"]
bounds.agee = [0, 1]
bounds.age = [0, 1e60]
keys.region = [1, 2]
keys.day = [2024-01-01]
[tables.visits]
data = "visits.parquet"
unit = "u"
[tables.items]
data = "v.parquet"
[tables.items.unit]
column = "u"
to = "persons"
key = "who"
"""


def test_everything_that_is_wrong_is_told_in_one_go(path: Path, visits: Path) -> None:
    file = catalog(path, WRONG)
    expected = [
        "tables.items.unit.to='persons': expected a private table of this file.",
        "tables.people: unit='whom': expected a column of the table. The table has who, age, region, day.",
        "tables.people: bounds='agee': expected a column of the table.",
        "tables.people: bounds=[0, 1e+60]: expected finite numbers",
        "tables.people: keys=(1, 2): expected values of the column's type, text, or None.",
        "tables.people: required='region': expected a column with bounds.",
        "tables.visits: data='visits.parquet': expected an existing file.",
    ]
    problems = catalog_problems(file)
    assert len(problems) == len(expected), problems
    for problem, words in zip(problems, expected, strict=True):
        assert problem.replace("(0, 1e+60)", "[0, 1e+60]").startswith(words), problem
    with pytest.raises(InvalidArgument, match="a private table of this file"):
        load_catalog(file)
    file = catalog(path, WRONG.partition("[tables.visits]")[0])
    with pytest.raises(
        InvalidArgument, match=r"^catalog='clinic.toml': .*whom.* It has 5 mistakes: `hush catalog check`"
    ):
        load_catalog(file)


def outcomes(folder: Path) -> list[Any]:
    """Return what loading, checking and pricing say about files that differ in their rows only."""
    said: list[Any] = []
    for rows in ("", "1,5,north\n", "1,x,\n,,\n" * 50, '1,"unclosed\n'):
        (folder / "n.csv").write_text("who,age,region\n" + rows)
        text = '[tables.n]\ndata = "n.csv"\nunit = "who"\nbounds.age = [0, 9]\nkeys.region = [5]\nrows_per_unit = 1'
        try:
            wrong = catalog_problems(catalog(folder / "n.csv", text))
            loaded = load_catalog(catalog(folder / "n.csv", text.replace("[5]", '["north"]')))
            said.append((wrong, repr(loaded), loaded.price("SELECT AVG(age) FROM n", epsilon=1.0)))
        except HushError as error:
            said.append(str(error))
    return said


def test_a_catalog_reads_no_rows(tmp_path: Path) -> None:
    first, *others = outcomes(tmp_path)
    assert len(first[0]) == 1
    assert all(other == first for other in others)


def test_a_catalog_that_read_rows_would_be_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = DuckDBEngine.columns

    def twin(engine: DuckDBEngine, name: str) -> dict[str, str]:
        engine.load()
        return columns(engine, name)

    monkeypatch.setattr(DuckDBEngine, "columns", twin)
    first, *others = outcomes(tmp_path)
    assert any(other != first for other in others)


def test_limits_of_a_catalog_bound_a_unit(path: Path) -> None:
    """Neighbouring files: one more unit with many rows in many groups. A twin reads with looser limits than it says."""
    text = '[tables.people]\ndata = "people.parquet"\nunit = "who"\nrows_per_unit = 2\ngroups_per_unit = 3\n'
    query, key = "SELECT region, COUNT(*), COUNT(DISTINCT who) FROM people GROUP BY region", bytes(32)

    def exact(limits: ContributionLimits | None = None) -> tuple[QueryPlan, Any]:
        loaded = load_catalog(catalog(path, text))
        first = loaded._planner().plan(query, ContributionLimits())
        (own_limits,) = loaded._planner()._requested(first, LimitArguments(None, None, 0.1)).candidates(first, {})
        plan = loaded._planner().plan(query, limits or own_limits)
        loaded._views.load()
        return plan, contents(plan, loaded._engine, key)

    loose = ContributionLimits(rows_per_unit=9, groups_per_unit=9)
    (plan, before), (_, before_loose) = exact(), exact(loose)
    added = "SELECT 9999, 5, 'r' || (i % 20), DATE '2024-01-01' FROM range(200) t(i)"
    duckdb.sql(f"COPY (SELECT * FROM '{path}' UNION ALL {added}) TO '{path.parent / 'more.parquet'}'")
    (path.parent / "more.parquet").replace(path)
    changed, broken = largest_change(plan, before, exact()[1])
    assert (changed, broken) == (3, [])
    changed, broken = largest_change(plan, before_loose, exact(loose)[1])
    assert changed > plan.groups_per_unit
    assert broken
