"""A question is charged once, whether it was asked before its limits were known or after that."""

from __future__ import annotations

import pytest

import hush
from hush.sql import Table

pytest.importorskip("sqlalchemy")
from hush.ledger import LedgerBudget

pytest.importorskip("duckdb")
from sql.answer.charged_people import COUNT, SUM, asked


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
