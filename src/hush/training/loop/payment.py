"""Charging a run to a budget: reserve the cost of the whole plan before the run, commit the actual cost after it."""

from __future__ import annotations

from dataclasses import replace

from hush.accounting.budget import Budget, Charge
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
    """

    def __init__(self, plan: TrainingPlan, budget: Budget, assumptions: tuple[str, ...] = ()) -> None:
        """Reserve the cost of all steps of a plan, or raise `BudgetExceeded`. ``assumptions`` are those of its keys."""
        event = plan.event()
        assert isinstance(event, QualifiedEvent)
        event = replace(event, assumptions=(*event.assumptions, *assumptions))
        charge = Charge(event=event, purpose=f"training, {plan.num_steps} steps", delta=plan.delta)
        self._plan, self._reservation = plan, budget.reserve(charge)
        self._resumed = self._must_load = self._reservation.resumed
        self._settled = False

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee assumes because of how the run was charged."""
        return ("the interrupted run was continued from one of its states only",) if self._resumed else ()

    def receipt(self, guarantee: Guarantee) -> Receipt | None:
        """Return what the run has cost, and what is left of the budget, once it is settled."""
        return receipt_of(self._reservation, guarantee) if self._settled else None

    def refuse_unpaid(self, step: int) -> None:
        """Refuse a step after the run was settled, or before a resumed run has loaded its state.

        The reservation may have been settled by another process. Steps 0, 1, 2, 4, 8 and so on look that up.
        """
        if not self._settled and (step & (step - 1)) == 0 and not self._reservation.is_open():
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

    def loaded(self) -> None:
        """Note that the run has loaded its state."""
        self._must_load = False

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
            self._reservation.commit(self._plan.event(steps_taken))
        else:
            self._reservation.commit()

    def _charges_by_step(self) -> bool:
        """Return whether every step is an event of its own, so that a run may stop depending on its results."""
        return self._plan.correlated is None and isinstance(self._plan.sampling, (Poisson, FixedSize, Full))
