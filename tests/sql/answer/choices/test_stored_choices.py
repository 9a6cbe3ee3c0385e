"""What a budget has paid for is free for every later query under it, about the same rows, groups and data."""

from __future__ import annotations

import json
from typing import Any

import pytest

import hush
from hush.accounting import LaplaceEvent
from hush.accounting.budget import Charge
from hush.accounting.events import QualifiedEvent
from hush.guarantee import Relation, Unit
from hush.sql import Table
from hush.sql.answer.choices.limits import plan_limits
from hush.sql.answer.choices.stored_choices import StoredChoices

pytest.importorskip("sqlalchemy")
from hush.ledger import Ledger, LedgerBudget

pytest.importorskip("duckdb")
from sql.answer.charged_people import COUNT, SUM, asked, people_in


def choices(budget: LedgerBudget) -> list[str]:
    """Return the purposes of all choices that were charged."""
    return [row.purpose for row in budget.entries() if row.kind == "reserved" and "contribution" in str(row.purpose)]


def test_a_sum_after_a_count_pays_for_no_limits(people: Table, budget: LedgerBudget) -> None:
    assert "chosen privately at epsilon 0.05" in str(asked(people, budget, COUNT))
    total = asked(people, budget, SUM)
    assert choices(budget) == ["contribution limits", "contribution bounds"]
    assert "chosen by an earlier answer" in total.limits[0]
    asked(people, budget, "SELECT sex, AVG(x) AS s FROM people GROUP BY sex", epsilon=0.1, limits_share=0.3)
    assert len(choices(budget)) == 2


def test_limits_that_were_chosen_with_more_measures_will_do(people: Table, budget: LedgerBudget) -> None:
    asked(people, budget, COUNT)  # Gaussian noise is possible: rows, groups and rows in a group
    asked(people, budget, COUNT, delta=0.0)  # rows
    asked(people, budget, "SELECT sex, COUNT(DISTINCT who) AS n FROM people GROUP BY sex", delta=0.0)  # groups
    assert choices(budget) == ["contribution limits"]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (f"{COUNT.replace(' GROUP', ' WHERE k = 1 GROUP')}", 1),  # other rows
        ("SELECT k, COUNT(*) AS n FROM people GROUP BY k", 1),  # other groups
        ("SELECT COUNT(*) AS n FROM people", 1),
    ],
)
def test_other_rows_and_other_groups_pay(text: str, kinds: int, people: Table, budget: LedgerBudget) -> None:
    asked(people, budget, COUNT)
    asked(people, budget, text)
    assert len(choices(budget)) == 1 + kinds


def test_other_data_declarations_and_budgets_pay(data: Any, ledger: Ledger, budget: LedgerBudget) -> None:
    people = people_in(data)
    asked(people, budget, COUNT)
    people.forget()  # data frames and tables in memory may have changed since
    asked(people, budget, SUM)
    assert choices(budget) == ["contribution limits", "contribution limits", "contribution bounds"]
    asked(people_in(data, bounds={"x": (0, 100)}), budget, SUM)
    assert len(choices(budget)) == 4
    foreign = ledger.budget("others", epsilon=50, delta=1e-5, unit="user")
    asked(people, foreign, SUM)
    assert choices(foreign) == ["contribution limits", "contribution bounds"]


def test_new_data_choose_again(people: Table, budget: LedgerBudget) -> None:
    asked(people, budget, COUNT)
    asked(people, budget, COUNT, new_data=True)
    assert len(choices(budget)) == 2
    asked(people, budget, SUM, rows_per_unit=None)
    assert choices(budget)[2:] == ["contribution bounds"]


LIMITS = {"rows": {"limit": 4, "beyond": 0.0, "beyond_error": 1.0, "excess": 0.0, "excess_error": 1.0, "expected": 0.0}}


def stored_choices(people: Table, budget: LedgerBudget) -> tuple[StoredChoices, Any, Any]:
    planner = people._planner()
    plan = planner.plan(planner.stages("SELECT COUNT(*) AS n FROM people").last, hush.statistics.ContributionLimits())
    source = hush.randomness.source_or_default(None)

    def claim(plan: Any, event: Any, epsilon: float) -> Any:
        return planner.claim(plan, event, epsilon, 0.0, source)

    return StoredChoices(budget, claim, "", (), "", new_data=False), plan, plan_limits((Rows,), 0.1).event


Rows = hush.sql.answer.choices.limits.Measure.ROWS


@pytest.mark.parametrize(
    ("content", "is_used"),
    [
        (LIMITS, True),
        ({"rows": LIMITS["rows"] | {"limit": 0}}, False),
        ({"rows": LIMITS["rows"] | {"limit": True}}, False),
        ({"rows": LIMITS["rows"] | {"limit": 2.0}}, False),
        ({"rows": LIMITS["rows"] | {"limit": 2**70}}, False),
        ({"rows": LIMITS["rows"] | {"more": 1}}, False),
        ({"rows": {"limit": 4}}, False),
        ({"rows": 4}, False),
        ({"groups": LIMITS["rows"]}, False),
        ({"words": LIMITS["rows"]}, False),
        ([], False),
        ("no JSON", False),
        (json.dumps(LIMITS).replace("1.0", "1e999"), False),
    ],
)
def test_a_forged_choice_is_not_used(content: Any, is_used: bool, people: Table, budget: LedgerBudget) -> None:
    stored, plan, event = stored_choices(people, budget)
    text = content if isinstance(content, str) else json.dumps(content)
    stored.charge(plan, event, 0.1, ("limits", plan.fingerprint(), "rows"), lambda: text)
    chosen = stored.known(plan, (Rows,)).limits
    assert ({measure: choice.limit for measure, choice in chosen.items()} == {Rows: 4}) is is_used
    assert bool(chosen) is is_used


@pytest.mark.parametrize(
    "event",
    [
        LaplaceEvent(1.0),  # says nothing about the unit
        QualifiedEvent(LaplaceEvent(1.0), Relation.ADD_OR_REMOVE, Unit.user()),  # another mechanism
        None,  # the same mechanism for another unit
    ],
)
def test_a_foreign_choice_is_not_used(event: Any, people: Table, budget: LedgerBudget, ledger: Ledger) -> None:
    stored, plan, noise = stored_choices(people, budget)
    key = ("limits", plan.fingerprint(), "rows")
    if event is None:
        event = QualifiedEvent(noise, Relation.ADD_OR_REMOVE, Unit.example())
        budget = ledger.budget("rows", epsilon=5, unit="row")
    charge = Charge(event=event, purpose="forged", question=stored._question(key), data="")
    budget.reserve(charge).commit(answer=json.dumps(LIMITS))
    stored = StoredChoices(budget, stored.claim, "", (), "", new_data=False)
    assert len(budget.answers(stored._question(key), "")) == 1
    assert not stored.known(plan, (Rows,)).limits


def test_a_budget_that_stores_no_answers_pays_each_time(people: Table, budget: LedgerBudget) -> None:
    class Forgetful:
        def reserve(self, charge: Charge) -> Any:
            return budget.reserve(charge)

    asked(people, budget, COUNT)
    asked(people, Forgetful(), SUM)
    assert choices(budget) == ["contribution limits", "contribution limits", "contribution bounds"]
