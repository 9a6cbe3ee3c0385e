"""Charging a run to a budget: reserve the cost of the whole plan before the run, commit the actual cost after it."""

from __future__ import annotations

import gc
import os
import weakref
from dataclasses import replace

from hush.accounting.budget import Budget, Charge, Reservation
from hush.accounting.events import QualifiedEvent
from hush.accounting.receipts import Receipt, receipt_of
from hush.errors import InvalidArgument
from hush.guarantee import Guarantee
from hush.training.plan.samplers import FixedSize, Full, Poisson
from hush.training.plan.training_plan import TrainingPlan


class Payment:
    """The reservation of a run in a budget.

    A reservation may be that of an interrupted run with the same name. Such a run must load its state before its first
    step, and it is charged for the whole plan: hush cannot know what the interrupted process released.

    The process holds the reservation from its first step on, until the run is settled, or dropped. So other processes
    see that the run is active, and neither void it nor continue it from a copy of its state. A state is continued once.

    Attributes:
        turn: How many processes have worked on the run; states store it.
    """

    def __init__(self, plan: TrainingPlan, budget: Budget, assumptions: tuple[str, ...] = ()) -> None:
        """Reserve the cost of all steps of a plan, or raise `BudgetExceeded`. ``assumptions`` are those of its keys."""
        self._plan, self._assumptions = plan, assumptions
        event = self._event(plan.num_steps)
        charge = Charge(event=event, purpose=f"training, {plan.num_steps} steps", delta=plan.delta)
        self._reservation = budget.reserve(charge)
        self._resumed = self._must_load = self._reservation.resumed
        self._settled = False
        self.turn, self._takes_turn = 1, False
        if self._resumed:
            gc.collect()  # the interrupted run may be one of this process that was dropped, and still hold it
        self._letting_go = weakref.finalize(self, _let_go, self._reservation, os.getpid())
        self._letting_go.atexit = False  # the hold of a process that has ended counts for nothing

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of the guarantee that follow from how the run was charged."""
        return ("the interrupted run was continued from one of its states only",) if self._resumed else ()

    def receipt(self, guarantee: Guarantee) -> Receipt | None:
        """Return the cost of the run and the rest of the budget, once it is settled."""
        return receipt_of(self._reservation, guarantee) if self._settled else None

    def refuse_unpaid(self, step: int, *, begins: bool = True) -> None:
        """Refuse a step after the run was settled, or before a resumed run has loaded its state.

        The reservation may have been settled by another process. Steps 0, 1, 2, 4, 8 and so on look that up, and show
        that this process holds it: once, and not for each of their physical batches. So does the first step after a
        state was loaded.

        Args:
            step: The number of steps before this one.
            begins: Whether this is the step's first physical batch.
        """
        looks_up = begins and (self._takes_turn or (step & (step - 1)) == 0)
        if not self._settled and looks_up and not self._reservation.is_open():
            self._settled = True
        if self._settled:
            raise InvalidArgument("step", "after the end", "no more steps: the run was charged for the steps so far")
        if self._must_load:
            raise InvalidArgument(
                "budget",
                "the reservation of an interrupted run",
                "load_state_dict before the first step",
                "The charge covers one run. Starting again would release more than it covers",
            )
        if looks_up:
            # Before the first step: its weights can be published at once, and only --force voids the reservation then.
            self._reservation.hold(self.turn)
            if self._takes_turn:  # whoever continues from the same state again is a turn behind
                self._reservation.hold(self.turn + 1)
                self.turn, self._takes_turn = self.turn + 1, False

    def loaded(self, turn: int) -> None:
        """Record that the run has loaded a state, and in which turn it was stored.

        Each process that continues a run takes the next turn. Then no state of an earlier turn can be continued.
        """
        self._must_load = False
        if self._resumed:
            self.turn, self._takes_turn = turn, True

    def settle(self, steps_taken: int) -> None:
        """Commit the cost of the steps that were taken. Further calls do nothing."""
        if self._settled:
            return
        if self._must_load:
            return  # this process released nothing; the reservation stays for the interrupted run
        self._settled = True
        if steps_taken == 0 and not self._resumed:
            self._reservation.void()
        elif 0 < steps_taken < self._plan.num_steps and self._charges_by_step() and not self._resumed:
            self._reservation.commit(self._event(steps_taken))
        else:
            self._reservation.commit()

    def _event(self, num_steps: int) -> QualifiedEvent:
        """Return the event of this many steps, with the assumptions of the run's keys."""
        event = self._plan.event(num_steps)
        assert isinstance(event, QualifiedEvent)
        return replace(event, assumptions=(*event.assumptions, *self._assumptions))

    def _charges_by_step(self) -> bool:
        """Return whether every step is a separate event, so that a run may stop depending on its results."""
        return self._plan.correlated is None and isinstance(self._plan.sampling, (Poisson, FixedSize, Full))


def _let_go(reservation: Reservation, process: int) -> None:
    """Release the reservation of a run that was dropped, in the process that holds it and not in a fork of it."""
    if os.getpid() == process:
        reservation.release(wait=False)
