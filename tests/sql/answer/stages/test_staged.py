"""Answers in stages: shares, one charge for all, notes, and what is refused before anything runs."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from hush.errors import BudgetExceeded, InvalidArgument, Unsupported
from hush.guarantee import CalendarWindow, UserWindow
from hush.randomness import TestSource
from hush.sql import JoinedTable, Table, table
from hush.sql.answer.price import PriceRequest
from hush.sql.answer.stages.staged import share_of

duckdb = pytest.importorskip("duckdb")

ABOVE = "SELECT COUNT(*) AS n FROM people WHERE age > (SELECT AVG(age) FROM people)"
BY_SEX = "SELECT t.sex, t.n FROM (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) AS t ORDER BY t.sex"


@pytest.fixture
def people() -> Any:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT i AS who, i % 70 AS age, i % 2 AS sex FROM range(5000) t(i)")
    yield table(connection, name="people", unit="who", bounds={"age": (0, 100)}, keys={"sex": [0, 1]}, rows_per_unit=1)
    connection.close()


@pytest.mark.parametrize("number", range(1, 21))
@pytest.mark.parametrize("epsilon", [1.0, 0.1, 0.7, 3e-5])
def test_shares_never_exceed_the_whole(number: int, epsilon: float) -> None:
    request = PriceRequest(epsilon, epsilon / 1e6, None, None, None, None, 0.95)
    share = share_of(request, number)
    assert share.epsilon is not None
    assert Fraction(share.epsilon) * number <= Fraction(epsilon)
    assert Fraction(share.delta) * number <= Fraction(request.delta)
    assert share.epsilon == pytest.approx(epsilon / number)


def test_the_answer_is_that_of_the_last_stage_and_says_what_was_released(people: Table) -> None:
    answer = people.sql(ABOVE, epsilon=4.0, source=TestSource(1))
    assert 2300 < answer.rows[0][0] < 2600
    assert answer.guarantee.epsilon == 4.0
    first, *others = answer.limits
    assert first.startswith("Subquery (SELECT AVG(age) FROM people): released first, at epsilon 2: 34.")
    assert any("takes the released value for constants" in line for line in others)
    assert any(name.startswith("subquery: ") for name in answer.scales)
    assert any(name.startswith("rows for n") for name in answer.scales)


def test_price_and_answer_agree(people: Table) -> None:
    price, answer = people.price(ABOVE, epsilon=1.0), people.sql(ABOVE, epsilon=1.0)
    assert (price.guarantee, price.event, price.scales) == (answer.guarantee, answer.event, answer.scales)
    assert "released first, at epsilon 0.5." in price.limits[0]


def test_a_public_last_stage_costs_nothing(people: Table) -> None:
    answer = people.sql(BY_SEX, epsilon=1.0, source=TestSource(1))
    assert [row[0] for row in answer.rows] == [0, 1]
    assert all(abs(n - 2500) < 50 and isinstance(n, int) for _, n in answer.rows)
    assert answer.intervals == [{}, {}]
    assert "at epsilon 1:" in answer.limits[0]
    assert any("costs nothing" in line for line in answer.limits)


def test_all_stages_are_one_charge(people: Table, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    from hush.ledger import Ledger

    budget = Ledger(f"sqlite:///{tmp_path / 'l.db'}").budget("people", epsilon=3, unit="person")
    answer = people.sql(ABOVE, epsilon=2.0, budget=budget)
    assert budget.spent == pytest.approx(2.0)
    assert answer.receipt is not None
    again = people.sql(ABOVE, epsilon=2.0, budget=budget)
    assert again.replayed
    assert budget.spent == pytest.approx(2.0)
    assert again.rows == answer.rows
    assert again.limits == answer.limits


def test_nothing_runs_unless_all_stages_fit(people: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sqlalchemy")
    from hush.ledger import Ledger

    budget = Ledger(f"sqlite:///{tmp_path / 'l.db'}").budget("people", epsilon=1.5, unit="person")
    monkeypatch.setattr(type(people._engine), "run", lambda *args: pytest.fail("data were read"))
    with pytest.raises(BudgetExceeded):  # the first stage alone would fit
        people.sql(ABOVE, epsilon=2.0, budget=budget)


def test_limits_are_chosen_in_each_stage_and_not_remembered(people: Table) -> None:
    connection = people._engine._connection  # type: ignore[attr-defined]
    visits = table(connection, name="people", unit="who", bounds={"age": (0, 100)})
    for _ in range(2):
        answer = visits.sql(ABOVE, epsilon=10.0, source=TestSource(2))
        assert answer.guarantee.epsilon == 10.0
        assert sum("chosen privately at epsilon 0.5" in line for line in answer.limits) == 2
    assert not visits._chooser.limits


def test_a_stage_leaves_no_view_behind(people: Table) -> None:
    for _ in range(3):
        people.sql(ABOVE, epsilon=1.0)
    assert len(people._views._views) == 1  # of the subquery, which has no constants


def test_what_cannot_be_shared_is_refused(people: Table) -> None:
    with pytest.raises(InvalidArgument, match="accuracy"):
        people.sql(ABOVE, accuracy=0.1, expected=1000)
    connection = people._engine._connection  # type: ignore[attr-defined]
    connection.execute(
        "CREATE TABLE days AS SELECT i AS who, DATE '2024-01-01' + CAST(i AS INT) AS d FROM range(9) t(i)"
    )
    monthly = UserWindow("who", time="d", window=CalendarWindow.MONTH)
    mixed = table(connection, name="people", unit="who", private={"days": JoinedTable(None, unit=monthly)})
    with pytest.raises(Unsupported, match="privacy unit is not that of the query"):
        mixed.sql("SELECT COUNT(*) FROM people WHERE age > (SELECT COUNT(*) FROM days)", epsilon=1.0)


def test_windows_have_released_subqueries_too(people: Table) -> None:
    connection = people._engine._connection  # type: ignore[attr-defined]
    connection.execute(
        "CREATE TABLE days AS SELECT i % 50 AS who, DATE '2024-01-01' + CAST(i % 90 AS INT) AS d FROM range(900) t(i)"
    )
    monthly = table(connection, name="days", unit=UserWindow("who", time="d", window=CalendarWindow.MONTH))
    text = "SELECT COUNT(*) AS n FROM days WHERE 500 < (SELECT COUNT(*) FROM days)"
    answer = monthly.sql(text, epsilon=50.0, rows_per_unit=20, source=TestSource(1))
    assert answer.rows[0][0] == pytest.approx(900, abs=20)
    assert "month" in str(answer.guarantee.unit)


def test_a_preview_releases_invented_values(people: Table) -> None:
    assert people.preview(ABOVE, epsilon=10).columns == ("n",)
