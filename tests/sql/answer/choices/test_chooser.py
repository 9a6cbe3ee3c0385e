"""What is chosen once is free for further queries, and everything that is paid is part of the guarantee."""

from __future__ import annotations

from contextlib import closing
from typing import Any
from unittest import mock

import pytest

import hush
from hush.accounting import PldAccountant
from hush.errors import HushError, InvalidArgument
from hush.guarantee import Unit
from hush.ledger import Ledger
from hush.randomness import TestSource
from hush.sql import EngineFailed, JoinedTable, Table

duckdb = pytest.importorskip("duckdb")

AVERAGE = "SELECT AVG(x) AS a FROM people"


@pytest.fixture
def people() -> Table:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE people AS SELECT i // 2 AS who, i % 100 + 0.0 AS x, i % 7 + 0.0 AS y, i % 2 AS sex, i % 3 AS k "
        "FROM range(12000) AS t(i)"
    )
    connection.execute("CREATE TABLE visits AS SELECT i AS visitor, i % 9 + 0.0 AS x FROM range(6000) AS t(i)")
    return hush.table(
        connection,
        name="people",
        unit="who",
        keys={"sex": [0, 1], "k": [0, 1, 2]},
        private={"visits": JoinedTable(None, unit="visitor")},
    )


def paid(answer: Any) -> float:
    """Return the epsilon of an answer, by its guarantee, if its event says the same."""
    pure = PldAccountant(unit=Unit.user()).compose(answer.event).epsilon(0.0)
    assert pure == pytest.approx(answer.guarantee.epsilon, rel=1e-3)
    return float(answer.guarantee.epsilon)


def test_bounds_are_free_for_further_queries_about_the_same_rows(people: Table) -> None:
    assert paid(people.sql(AVERAGE, epsilon=1.0, source=TestSource(1))) == pytest.approx(1.0)
    again = people.sql("SELECT SUM(x * x) AS a FROM people", epsilon=1.0)
    assert paid(again) == pytest.approx(1.0)  # all of it is noise of the answer
    assert ("chosen by an earlier answer" in again.limits[0], "at epsilon" in str(again.limits)) == (True, False)
    by_sex = people.sql("SELECT sex, AVG(x) AS a FROM people GROUP BY sex", epsilon=1.0)  # needs limits for its groups
    assert paid(by_sex) == pytest.approx(1.0)
    assert "learned by an earlier answer" in str(by_sex)
    other_rows = people.sql(f"{AVERAGE} WHERE y > 3", epsilon=1.0)
    assert paid(other_rows) == pytest.approx(1.0)
    assert "learned privately at epsilon 0.0667" in str(other_rows)
    people.forget_limits()
    assert paid(people.sql(AVERAGE, epsilon=1.0)) == pytest.approx(1.0)


def test_a_price_says_what_is_known(people: Table) -> None:
    price = people.price(AVERAGE, epsilon=1.0)
    assert price.limits == (
        "Limits on rows of a unit will be chosen at epsilon 0.0333.",
        "Bounds of x will be learned at epsilon 0.0667.",
    )
    assert (price.guarantee.epsilon, price.scales) == (1.0, {})
    people.sql(AVERAGE, epsilon=1.0, source=TestSource(1))
    price = people.price("SELECT SUM(x * y) AS a FROM people", epsilon=1.0)
    assert price.limits[0] == "Limits on rows of a unit are known."
    assert price.limits[1] == "Bounds of y will be learned at epsilon 0.0667."
    assert price.limits[2].startswith("Values of x are clamped to ")
    known = people.price(AVERAGE, epsilon=1.0)
    assert known.scales
    assert known.guarantee.epsilon == pytest.approx(1.0)


def test_columns_of_the_same_name_are_paid_for_each(people: Table) -> None:
    text = "SELECT SUM(p.x) AS a, SUM(v.x) AS b FROM people p JOIN visits v ON p.who = v.visitor"
    answer = people.sql(text, epsilon=1.0, rows_per_unit=2)
    assert paid(answer) == pytest.approx(0.9 + 4 / 6 * 0.1)  # four histograms, at a sixth each
    assert ["learned privately at epsilon 0.0333" in line for line in answer.limits].count(True) == 2


def test_a_budget_pays_for_its_own_bounds_once(people: Table, tmp_path: Any) -> None:
    people.sql(AVERAGE, epsilon=1.0)  # without a budget: no budget has paid for it
    with closing(Ledger(f"sqlite:///{tmp_path}/ledger.db")) as ledger:
        for name in ("first", "second"):
            budget = ledger.budget(name, epsilon=5, unit="user")
            assert paid(people.sql(AVERAGE, epsilon=1.0, budget=budget)) == pytest.approx(1.0)
            assert budget.spent == pytest.approx(1.0, rel=1e-3)
            people.sql("SELECT SUM(x) AS a FROM people", epsilon=1.0, budget=budget)
            assert budget.spent == pytest.approx(2.0, rel=1e-3)
            people.sql("SELECT AVG(y) AS a FROM people", epsilon=1.0, budget=budget)  # the limits are stored
            assert budget.spent == pytest.approx(2.9 + 0.1 * 2 / 3, rel=1e-3)
            people.sql(AVERAGE, epsilon=1.0, budget=budget)
            assert budget.spent == pytest.approx(2.9 + 0.1 * 2 / 3, rel=1e-3)


def test_an_answer_that_fails_leaves_no_choice_that_nobody_reported(people: Table) -> None:
    with (
        mock.patch.object(type(people._views), "groups", side_effect=EngineFailed("no memory")),
        pytest.raises(EngineFailed),
    ):
        people.sql(AVERAGE, epsilon=1.0)
    assert paid(people.sql(AVERAGE, epsilon=1.0)) == pytest.approx(1.0)


def test_nothing_is_read_for_a_price_or_a_refusal(people: Table) -> None:
    with mock.patch.object(type(people._engine), "run", side_effect=AssertionError):
        people.price(AVERAGE, epsilon=1.0)
        for text in ("SELECT SUM(x / y) AS a FROM people", "SELECT AVG(LN(x)) AS a FROM people"):
            with pytest.raises(HushError, match="no bounds"):
                people.sql(text, epsilon=1.0)
        with pytest.raises(InvalidArgument, match="limits or bounds"):
            people.sql(AVERAGE, accuracy=0.1, expected=1000)
        with pytest.raises(InvalidArgument, match="limits_share"):
            people.sql(AVERAGE, epsilon=1.0, rows_per_unit=1, limits_share=0)
