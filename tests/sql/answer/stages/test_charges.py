"""A question is charged once, whether it was asked before its limits were known or after that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import hush
from hush.sql import QueryAnswer, Table

pytest.importorskip("sqlalchemy")
from hush.ledger import Ledger, LedgerBudget

duckdb = pytest.importorskip("duckdb")

COUNT = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
SUM = "SELECT sex, SUM(x) AS s FROM people GROUP BY sex"
DELTA = 1e-8


@pytest.fixture(scope="module")
def data() -> Any:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE people AS SELECT i // 4 AS who, i % 100 + 0.0 AS x, i % 2 AS sex, i % 3 AS k "
        "FROM range(8000) AS t(i)"
    )
    return connection


@pytest.fixture
def people(data: Any) -> Table:
    return people_in(data)


def people_in(data: Any, **settings: Any) -> Table:
    return hush.table(data, name="people", unit="who", keys={"sex": [0, 1], "k": [0, 1, 2]}, **settings)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(Ledger(f"sqlite:///{tmp_path}/privacy.db")) as ledger:
        yield ledger


@pytest.fixture
def budget(ledger: Ledger) -> LedgerBudget:
    return ledger.budget("people", epsilon=50, delta=1e-5, unit="user")


def asked(people: Table, budget: Any, text: str, epsilon: float = 0.5, **arguments: Any) -> QueryAnswer:
    return people.sql(text, epsilon=epsilon, budget=budget, **{"delta": DELTA} | arguments)


def test_the_later_query_spends_all_of_epsilon_on_its_answer(people: Table, budget: LedgerBudget) -> None:
    first = asked(people, budget, COUNT, delta=0.0)
    scale, later = first.scales["rows for n"], asked(people, budget, COUNT.replace("AS n", "AS m"), delta=0.0)
    assert later.scales["rows for m"] == pytest.approx(0.9 * scale)
    assert (first.guarantee.epsilon, later.guarantee.epsilon) == (pytest.approx(0.5), pytest.approx(0.5))
    assert budget.spent == pytest.approx(1.0)


def test_each_question_has_its_stored_answer_whichever_came_first(people: Table, budget: LedgerBudget) -> None:
    first, later = asked(people, budget, COUNT), asked(people, budget, SUM, rows_per_unit=None)
    other = asked(people, budget, COUNT.replace("AS n", "AS m"))
    spent = budget.spent
    for text, before in ((COUNT, first), (SUM, later), (COUNT.replace("AS n", "AS m"), other)):
        again = asked(people, budget, text)
        assert (again.replayed, again.rows) == (True, before.rows)
    assert budget.spent == spent


def test_an_answer_at_all_of_epsilon_is_refused_on_other_data(people: Table, budget: LedgerBudget) -> None:
    asked(people, budget, SUM)
    asked(people, budget, COUNT)  # its limits are known
    people.forget()
    with pytest.raises(hush.errors.InvalidArgument, match="other data"):
        asked(people, budget, COUNT)


def test_an_interrupted_answer_goes_on_with_its_reservation(
    people: Table, budget: LedgerBudget, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("hush.sql.answer.stages.runner.answer_query", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            asked(people, budget, COUNT, delta=0.0)
    spent = budget.spent
    answer = asked(people, budget, COUNT, delta=0.0)  # the limits are known by now, and the noise is still that of 90 %
    assert (budget.spent, answer.guarantee.epsilon) == (spent, pytest.approx(0.45))
