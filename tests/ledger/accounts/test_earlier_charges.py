"""Earlier charges: what counts as the same question or request, also after hush has reworded its assumptions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hush.accounting import ComposedEvent, Event, GaussianEvent
from hush.accounting.budget import Charge, run_sealed
from hush.accounting.events import QualifiedEvent
from hush.errors import InvalidArgument
from hush.guarantee import Relation, Unit
from hush.ledger import Ledger
from hush.ledger.accounts.earlier_charges import same_event

OLD, NEW = (
    ("how many rows there are is public",),
    ("the number of rows is public", "the test part is the published one"),
)
RELATION, UNIT = Relation.ADD_OR_REMOVE, Unit.user()


def qualified(
    assumptions: tuple[str, ...], noise: float = 8.0, *, relation: Relation = RELATION, unit: Unit = UNIT
) -> QualifiedEvent:
    return QualifiedEvent(ComposedEvent((GaussianEvent(noise), GaussianEvent(9.0))), relation, unit, assumptions)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (qualified(OLD), True),
        (qualified(NEW), True),
        (qualified(()), True),
        (qualified(OLD, 8.5), False),
        (qualified(OLD, relation=Relation.REPLACE), False),
        (qualified(OLD, unit=Unit.example()), False),
        (qualified(OLD).event, False),
        (ComposedEvent((qualified(OLD), GaussianEvent(2.0))), False),
    ],
)
def test_events_are_compared_without_sentences(other: Event, same: bool) -> None:
    assert same_event(qualified(OLD).to_json(), other.to_json()) is same
    stored = qualified(OLD).to_json().replace('"format"', '"schema"', 1)  # as earlier versions wrote it
    assert same_event(stored, other.to_json()) is same
    nested = [ComposedEvent((event, GaussianEvent(2.0))).to_json() for event in (qualified(OLD), other)]
    assert same_event(*nested) is same
    assert not same_event(None, other.to_json())


def test_a_run_of_an_older_version_is_resumed(opened: Callable[..., Ledger]) -> None:
    budget = opened().budget("people", epsilon=9, delta=1e-6, unit="user")
    first = budget.for_run("run 1").reserve(Charge(event=qualified(OLD), purpose="training"))
    spent = budget.spent
    again = budget.for_run("run 1").reserve(Charge(event=qualified(NEW), purpose="training"))
    assert (again.id, again.resumed, budget.spent) == (first.id, True, spent)
    assert "the number of rows" not in str(again.row.event)  # the row says what was charged
    for other in (qualified(NEW, 8.5), qualified(NEW).event):
        with pytest.raises(InvalidArgument, match="^request='run 1': expected a new key for a new charge"):
            budget.for_run("run 1").reserve(Charge(event=other, purpose="training"))
    assert budget.spent == spent


def test_an_answer_is_returned_again_after_an_update(opened: Callable[..., Ledger]) -> None:
    budget = opened().budget("people", epsilon=9, delta=1e-6, unit="user")

    def ask(event: Event, answer: str) -> str:
        return run_sealed(budget, Charge(event=event, purpose="a count", question="how many?"), lambda: answer)

    assert ask(qualified(OLD), "12") == "12"
    spent = budget.spent
    assert ask(qualified(NEW), "13") == "12"
    assert budget.spent == spent
    assert ask(qualified(NEW, 7.0), "14") == "14"  # with less noise, it is another release
    assert budget.spent > spent
