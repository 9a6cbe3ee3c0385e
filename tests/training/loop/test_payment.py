"""Charging a run to a budget: what is reserved, and what is committed, voided or left open."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import Any

import pytest

from hush.accounting import Event
from hush.accounting.budget import Charge
from hush.errors import BudgetExceeded, InvalidArgument
from hush.ledger import Ledger
from hush.ledger.accounts.reservation import Reserved
from hush.training import BallsInBins, Banded, FixedSize, InOrder, PrivateTraining
from training.loops import linear_run, train


class FakeBudget:
    """A budget and its only reservation, which write down what is done to them."""

    def __init__(self, *, resumed: bool = False, is_full: bool = False) -> None:
        self.resumed, self.is_full, self.settled_outside = resumed, is_full, False
        self.charges: list[Charge] = []
        self.log: list[Any] = []
        self.held: list[int] = []

    def reserve(self, charge: Charge) -> FakeBudget:
        if self.is_full:
            raise BudgetExceeded("nothing is left")
        self.charges.append(charge)
        return self

    def is_open(self) -> bool:
        return not self.settled_outside

    def hold(self, states: int) -> None:
        self.held.append(states)

    def release(self, *, wait: bool = True) -> None:
        self.held.clear()

    def commit(self, event: Event | None = None) -> None:
        self.log.append(event)

    def void(self) -> None:
        self.log.append("void")


def start(budget: FakeBudget, **settings: Any) -> PrivateTraining:
    return linear_run(budget=budget, **settings)


def test_the_whole_plan_is_reserved_and_committed_at_the_last_step() -> None:
    budget = FakeBudget()
    private = start(budget)
    assert [charge.event for charge in budget.charges] == [private.plan.event()]
    assert budget.charges[0].delta == private.plan.delta
    assert budget.log == []
    train(private)
    assert budget.log == [None], "the reservation as it is"
    private.close()
    assert budget.log == [None], "once"


def test_a_run_that_was_closed_early_pays_for_its_steps() -> None:
    budget = FakeBudget()
    private = train(start(budget), steps=2)
    private.close()
    assert budget.log == [private.plan.event(2)]


@pytest.mark.parametrize(
    "settings",
    [
        {"sampling": BallsInBins(12)},
        {"sampling": InOrder(12)},
        {"sampling": InOrder(12), "correlated": Banded(bands=2)},
    ],
    ids=["balls in bins", "in order", "correlated"],
)
def test_steps_that_are_not_events_of_their_own_are_paid_for_together(settings: dict[str, Any]) -> None:
    budget = FakeBudget()
    train(start(budget, **settings), steps=2).close()
    assert budget.log == [None]


def test_fixed_size_batches_are_paid_for_by_step() -> None:
    budget = FakeBudget()
    private = train(start(budget, sampling=FixedSize(12)), steps=3)
    private.close()
    assert budget.log == [private.plan.event(3)]


def test_a_run_without_steps_is_voided() -> None:
    budget = FakeBudget()
    start(budget).close()
    assert budget.log == ["void"]


def test_a_refused_run_reserves_nothing() -> None:
    budget = FakeBudget()
    with pytest.raises(InvalidArgument):
        start(budget, compile="nonsense")
    assert budget.charges == []
    with pytest.raises(BudgetExceeded):
        start(FakeBudget(is_full=True))


def test_a_resumed_run_loads_its_state_first_and_pays_for_everything() -> None:
    first = train(start(FakeBudget()), steps=2)
    budget = FakeBudget(resumed=True)
    second = start(budget)
    with pytest.raises(InvalidArgument, match="^budget=.*load_state_dict before the first step"):
        train(second)
    second.close()
    assert budget.log == [], "it has released nothing, and the interrupted run may still be resumed"
    third = start(budget)
    third.load_state_dict(first.state_dict())
    train(third, steps=3).close()
    assert budget.log == [None]
    assert "the interrupted run was continued from one of its states only" in third.guarantee().assumptions


def test_a_run_that_was_settled_from_outside_ends() -> None:
    budget = FakeBudget()
    private = train(start(budget, num_steps=9), steps=3)
    budget.settled_outside = True
    with pytest.raises(InvalidArgument, match="^step='after the end'"):
        train(private)
    assert private.steps_taken == 4, "it is looked up in steps 4 and 8"
    private.close()
    assert budget.log == [], "somebody else has settled it"


def test_a_run_is_held_from_its_first_step_on() -> None:
    budget = FakeBudget()
    private = start(budget, num_steps=9, physical_batch_size=2)  # so that steps have several physical batches
    assert budget.held == []
    train(private, steps=5)
    assert budget.held == [1, 1, 1, 1], "in steps 0, 1, 2 and 4"
    del private
    gc.collect()
    assert budget.held == [], "a run that was dropped holds nothing"


def test_others_see_that_a_run_is_alive_and_cannot_void_it(tmp_path: Path) -> None:
    """With a ledger: while the run goes on, and, since it may have published weights, after it was left."""
    ledger = Ledger(f"sqlite:///{tmp_path}/privacy.db")
    budget = ledger.budget("people", epsilon=1000, delta=1e-3, unit="row")
    private = train(linear_run(budget=budget, num_steps=9), steps=1)
    (pending,) = Ledger(f"sqlite:///{tmp_path}/privacy.db").budget("people").pending()
    assert pending.held_for() is not None
    with pytest.raises(InvalidArgument, match="one that no process is working on"):
        pending.void()
    train(private, steps=1)
    del private
    gc.collect()
    while pending.held_for() is not None:  # the lease is let go in its own thread
        time.sleep(0.01)
    with pytest.raises(InvalidArgument, match="The release was begun"):
        pending.void()
    pending.void(force=True)
    assert budget.spent == 0


def let_go(ledger: Ledger) -> Reserved:
    """Return the only pending reservation, once the run that was dropped no longer holds it."""
    gc.collect()
    (pending,) = ledger.budget("people").pending()
    while pending.held_for() is not None:  # the lease is let go in its own thread
        time.sleep(0.01)
    return pending


def test_a_first_step_is_not_given_back_by_mistake(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/privacy.db")
    budget = ledger.budget("people", epsilon=1000, delta=1e-3, unit="row")
    private = train(linear_run(budget=budget, num_steps=9), steps=1)
    del private
    with pytest.raises(InvalidArgument, match="The release was begun"):
        let_go(ledger).void()


@pytest.mark.slow
def test_a_state_is_continued_once(tmp_path: Path) -> None:
    """Each run from a state is a release, and the reservation pays for one."""
    ledger = Ledger(f"sqlite:///{tmp_path}/privacy.db")
    budget = ledger.budget("people", epsilon=1000, delta=1e-3, unit="row").for_run("a run")
    private = train(linear_run(budget=budget, num_steps=9), steps=3)
    states = [private.state_dict()]
    del private
    for steps in (0, 2):  # loading alone releases nothing
        let_go(ledger)
        private = linear_run(budget=budget, num_steps=9)
        private.load_state_dict(states[0])
        if steps:
            train(private, steps=steps)
        states.append(private.state_dict())
        del private
    let_go(ledger)
    for state in states[:2]:
        again = linear_run(budget=budget, num_steps=9)
        again.load_state_dict(state)
        with pytest.raises(InvalidArgument, match="was continued from this state before"):
            train(again, steps=1)
        assert again.steps_taken == 3
        del again
        let_go(ledger)
    last = linear_run(budget=budget, num_steps=9)
    last.load_state_dict(states[2])
    train(last)
    assert last.steps_taken == 9
    assert not ledger.budget("people").pending()


def test_a_run_that_was_voided_by_force_cannot_go_on(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/privacy.db")
    budget = ledger.budget("people", epsilon=1000, delta=1e-3, unit="row")
    private = train(linear_run(budget=budget, num_steps=9), steps=1)
    (pending,) = ledger.budget("people").pending()
    pending.void(force=True)
    with pytest.raises(InvalidArgument, match="^step='after the end'"):
        train(private)
    assert private.steps_taken == 1
