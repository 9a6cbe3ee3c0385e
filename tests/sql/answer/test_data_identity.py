"""A ledger gives a stored answer again only about the same data."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hush.errors import InvalidArgument, Unsupported
from hush.sql import ContentKey, Table, load_catalog, table

pytest.importorskip("sqlalchemy")
from hush.ledger import Ledger, LedgerBudget

COUNT = "SELECT COUNT(*) AS n FROM people"
OTHER_DATA = (
    r"data='other data': expected the data that the question read when .* before, at \d{4}-.* UTC\. Then: .* Now: "
)
KEY = ContentKey(bytes(range(32)))


@pytest.fixture
def budget(tmp_path: Path) -> Any:
    with closing(Ledger(f"sqlite:///{tmp_path}/privacy.db")) as ledger:
        yield ledger.budget("people", epsilon=9, unit="person")


def written(path: Path, rows: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    duckdb.sql(f"COPY (SELECT i AS who FROM range({rows}) t(i)) TO '{path}'")
    return path


def people(data: Any, **settings: Any) -> Table:
    return table(data, unit="who", rows_per_unit=1, **{"name": "people"} | settings)


def asked(data: Any, budget: LedgerBudget, *, new_data: bool = False, **settings: Any) -> tuple[bool, float]:
    """Ask, and return whether the answer is a replay, and what the budget has spent."""
    answer = people(data, **settings).sql(COUNT, epsilon=1.0, budget=budget, new_data=new_data)
    return answer.replayed, budget.spent


@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz"])
def test_the_same_question_about_another_file_is_refused_with_both_dates(
    ending: str, tmp_path: Path, budget: LedgerBudget
) -> None:
    january, february = written(tmp_path / f"a/people.{ending}", 500), written(tmp_path / f"b/people.{ending}", 900)
    assert asked(january, budget) == (False, 1.0)
    with pytest.raises(InvalidArgument, match=OTHER_DATA) as refusal:
        asked(february, budget)
    assert len(re.findall(r"/[ab]/people\S*, changed \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", str(refusal.value))) == 2
    assert "--new-data" in str(refusal.value)
    assert budget.spent == 1.0
    assert asked(february, budget, new_data=True) == (False, 2.0)
    assert asked(january, budget) == asked(february, budget) == (True, 2.0)  # each has its own answer from now on


def test_a_file_that_was_replaced_is_other_data_also_for_an_open_table(tmp_path: Path, budget: LedgerBudget) -> None:
    opened = people(written(tmp_path / "people.csv", 500))
    opened.sql(COUNT, epsilon=1.0, budget=budget)
    written(tmp_path / "people.csv", 90_000)
    with pytest.raises(InvalidArgument, match=OTHER_DATA):
        opened.sql(COUNT, epsilon=1.0, budget=budget)
    # The view of the old rows must not answer for the new ones: the noise is off by 40,000 at a rate of e^-40000.
    assert opened.sql(COUNT, epsilon=1.0, budget=budget, new_data=True).rows[0][0] > 50_000


def test_a_time_that_was_set_back_does_not_hide_a_change(tmp_path: Path, budget: LedgerBudget) -> None:
    path = written(tmp_path / "people.parquet", 500)
    before = path.stat()
    asked(path, budget)
    content = path.read_bytes()
    path.write_bytes(content)  # as long as before
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(InvalidArgument, match=OTHER_DATA):
        asked(path, budget)


def test_the_ledger_does_not_hold_the_size_of_a_file(tmp_path: Path, budget: LedgerBudget) -> None:
    """The size of a file tells whether a row is there."""
    first, second = written(tmp_path / "a/people.csv", 999), written(tmp_path / "b/people.csv", 1000)
    for path in (first, second):
        os.utime(path, ns=(10**18, 10**18))
        asked(path, budget, new_data=True)
    stored = [
        json.loads(json.loads(row.details)["data"])["people"]
        for row in budget.entries()
        if row.event and row.kind == "reserved"
    ]
    assert [set(data) for data in stored] == [{"where", "changed", "version"}] * 2
    modified = [path.stat() for path in (first, second)]
    assert [data["version"] for data in stored] == [f"{stat.st_mtime_ns}:{stat.st_ctime_ns}" for stat in modified]


def test_an_answer_of_an_older_ledger_does_not_say_what_it_read(tmp_path: Path, budget: LedgerBudget) -> None:
    path = written(tmp_path / "people.parquet", 500)
    asked(path, budget)
    with closing(sqlite3.connect(tmp_path / "privacy.db")) as connection, connection:
        connection.execute("DROP TRIGGER hush_only_added_update")
        connection.execute("UPDATE hush_entries SET details = json_remove(details, '$.data')")
    with pytest.raises(InvalidArgument, match="Then: the ledger does not say which data it read"):
        asked(path, budget)
    assert asked(path, budget, new_data=True) == (False, 2.0)
    assert asked(path, budget) == (True, 2.0)


def test_an_interrupted_question_is_not_continued_with_other_data(
    tmp_path: Path, budget: LedgerBudget, monkeypatch: pytest.MonkeyPatch
) -> None:
    january, february = written(tmp_path / "a/people.csv", 500), written(tmp_path / "b/people.csv", 900)

    def crash(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("hush.sql.answer.stages.runner.answer_query", crash)
        with pytest.raises(KeyboardInterrupt):
            asked(january, budget)
    with pytest.raises(InvalidArgument, match=OTHER_DATA):
        asked(february, budget)
    assert asked(january, budget) == (False, 1.0)  # the reservation goes on


def test_a_content_key_recognises_data_wherever_they_are(tmp_path: Path, budget: LedgerBudget) -> None:
    first, other = written(tmp_path / "a/people.csv", 500), written(tmp_path / "b/people.csv", 501)
    copied = Path(shutil.copyfile(first, tmp_path / "copy.csv"))
    assert asked(first, budget, content_key=KEY) == (False, 1.0)
    assert asked(copied, budget, content_key=KEY) == (True, 1.0)
    for path, key in ((other, KEY), (first, ContentKey(bytes(32))), (first, None)):
        with pytest.raises(InvalidArgument, match=OTHER_DATA):
            asked(path, budget, content_key=key)
    stored = next(row.details for row in budget.entries() if row.question)
    assert "copy.csv" not in stored
    assert "a/people" not in stored


def frames(rows: int) -> dict[str, Callable[[], Any]]:
    import pandas as pd
    import pyarrow as pa

    return {
        "pandas": lambda: pd.DataFrame({"who": range(rows)}),
        "arrow": lambda: pa.table({"who": list(range(rows))}),
    }


@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_data_frames_are_known_within_a_table_or_by_their_content(kind: str, budget: LedgerBudget) -> None:
    frame, same, other = frames(500)[kind](), frames(500)[kind](), frames(501)[kind]()
    opened = people(frame)
    opened.sql(COUNT, epsilon=1.0, budget=budget)
    assert opened.sql(COUNT, epsilon=1.0, budget=budget).replayed
    with pytest.raises(InvalidArgument, match="people, in memory or behind a view"):
        asked(frame, budget)  # it may have changed since
    opened.forget()
    with pytest.raises(InvalidArgument, match=OTHER_DATA):
        opened.sql(COUNT, epsilon=1.0, budget=budget)
    assert asked(frame, budget, new_data=True, content_key=KEY) == (False, 2.0)
    assert asked(same, budget, content_key=KEY) == (True, 2.0)
    with pytest.raises(InvalidArgument, match=OTHER_DATA):
        asked(other, budget, content_key=KEY)


def test_tables_in_a_file_of_duckdb_are_known_until_it_changes(tmp_path: Path, budget: LedgerBudget) -> None:
    def opened() -> Any:
        return duckdb.connect(str(tmp_path / "clinic.duckdb"))

    with opened() as connection:
        connection.execute("CREATE TABLE people AS SELECT i AS who FROM range(500) t(i)")
        connection.execute("CREATE VIEW seen AS SELECT * FROM people")
    with opened() as connection:
        assert asked(connection, budget) == (False, 1.0)
    with opened() as connection:
        assert asked(connection, budget) == (True, 1.0)
        connection.execute(
            "CREATE TEMP TABLE people AS SELECT CAST(7 AS BIGINT) AS who"
        )  # it stands before the table of the file
        with pytest.raises(InvalidArgument, match="in memory or behind a view"):
            asked(connection, budget)
        connection.execute("DROP TABLE temp.people")
        connection.execute("INSERT INTO people VALUES (-1)")
        with pytest.raises(InvalidArgument, match=r"main\.people, changed"):
            asked(connection, budget)  # the row is in the log, and not in the file yet


def test_changes_in_an_open_transaction_are_other_data(tmp_path: Path, budget: LedgerBudget) -> None:
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT i AS who FROM range(500) t(i)")
        assert asked(connection, budget) == (False, 1.0)
        connection.execute("BEGIN")
        connection.execute("INSERT INTO people SELECT i + 1000 FROM range(400) t(i)")  # in no file yet
        with pytest.raises(InvalidArgument, match=OTHER_DATA):
            asked(connection, budget)
        connection.execute("ROLLBACK")
        assert asked(connection, budget) == (True, 1.0)


def test_views_and_databases_in_memory_are_known_within_a_table(budget: LedgerBudget) -> None:
    connection = duckdb.connect()
    connection.execute("CREATE VIEW people AS SELECT i AS who FROM range(500) t(i)")
    opened = people(connection)
    opened.sql(COUNT, epsilon=1.0, budget=budget)
    assert opened.sql(COUNT, epsilon=1.0, budget=budget).replayed
    with pytest.raises(InvalidArgument, match="in memory or behind a view"):
        asked(connection, budget)
    with pytest.raises(Unsupported, match="hash of the content of tables in a database"):
        asked(connection, budget, content_key=KEY)


def test_only_the_tables_that_a_query_reads_count(tmp_path: Path, budget: LedgerBudget) -> None:
    lookup = {"public": {"towns": str(written(tmp_path / "towns.parquet", 3))}}
    path = written(tmp_path / "people.parquet", 500)
    asked(path, budget, **lookup)
    written(tmp_path / "towns.parquet", 4)
    assert asked(path, budget, **lookup) == (True, 1.0)


def test_limits_are_chosen_anew_for_new_data_within_the_price(tmp_path: Path, budget: LedgerBudget) -> None:
    january, february = written(tmp_path / "a/people.csv", 500), written(tmp_path / "b/people.csv", 900)
    sums = "SELECT COUNT(*) AS n FROM people WHERE who > '1'"
    for path, text, spent in ((january, COUNT, 1.0), (february, sums, 2.0), (january, sums, None)):
        ask = table(path, unit="who", name="people").sql
        if spent is None:
            with pytest.raises(InvalidArgument, match=OTHER_DATA):
                ask(text, epsilon=1.0, budget=budget)
        else:
            ask(text, epsilon=1.0, budget=budget)
            assert budget.spent == pytest.approx(spent)


def test_keys_that_are_refused(tmp_path: Path) -> None:
    for key in (bytes(31), "a" * 40, None):
        with pytest.raises(InvalidArgument, match=r"key='\.\.\.': expected at least 32 secret bytes"):
            ContentKey(key)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="content_key"):
        ContentKey.from_file(tmp_path / "none")
    with pytest.raises(InvalidArgument, match="content_key"):
        people(written(tmp_path / "people.csv", 5), content_key=bytes(32))
    assert "\\x" not in repr(KEY)


def test_a_catalog_takes_a_key(tmp_path: Path, budget: LedgerBudget) -> None:
    written(tmp_path / "people.csv", 500)
    lines = ['format = "hush.catalog/1"', "[tables.people]", 'data = "people.csv"', 'unit = "who"']
    (tmp_path / "clinic.toml").write_text("\n".join([*lines, "rows_per_unit = 1"]))
    for replayed in (False, True):
        written(tmp_path / "people.csv", 500)
        opened = load_catalog(tmp_path / "clinic.toml", content_key=KEY)
        assert opened.sql(COUNT, epsilon=1.0, budget=budget).replayed is replayed


@pytest.mark.postgres
def test_postgresql_knows_the_table_and_not_when_its_rows_changed(postgres_url: str, budget: LedgerBudget) -> None:
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS identified")
        connection.execute("CREATE TABLE identified AS SELECT i AS who FROM generate_series(1, 500) AS t(i)")
        text = "SELECT COUNT(*) AS n FROM identified"

        def ask(*, new_data: bool = False) -> bool:
            people = table(postgres_url, unit="who", name="identified", rows_per_unit=1)
            return people.sql(text, epsilon=1.0, budget=budget, new_data=new_data).replayed

        assert [ask(), ask(), ask(new_data=True)] == [False, True, False]
        connection.execute("DROP TABLE identified")
        connection.execute("CREATE TABLE identified AS SELECT i AS who FROM generate_series(1, 500) AS t(i)")
        with pytest.raises(InvalidArgument, match=r"\.identified in postgresql://"):
            ask()
        connection.execute("DROP TABLE identified")
