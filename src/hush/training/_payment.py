"""How a run is paid for: reserved whole before it begins, committed by what was really run."""

from __future__ import annotations

from hush.accounting.budget import Budget, Charge
from hush.errors import InvalidArgument
from hush.training._plan import Plan
from hush.training._samplers import FixedSize, Full, Poisson


class Payment:
    """What a run has reserved of a budget."""

    def __init__(self, plan: Plan, budget: Budget) -> None:
        """Reserve all steps of a plan, or raise `BudgetExceeded`."""
        charge = Charge(event=plan.event(), purpose=f"training, {plan.num_steps} steps", delta=plan.delta)
        self._plan, self._reservation = plan, budget.reserve(charge)
        self._must_load, self._settled = self._reservation.resumed, False

    def refuse_unpaid(self) -> None:
        """Refuse a step of a run that has ended, or that would begin anew what was begun before."""
        if self._settled:
            raise InvalidArgument("step", "after the end", "no more steps: the run is paid for up to here")
        if self._must_load:
            raise InvalidArgument(
                "budget",
                "one that an interrupted run has reserved",
                "load_state_dict before the first step",
                "What was released before it stopped is paid for once",
            )

    def loaded(self) -> None:
        """Note that the run goes on from its state."""
        self._must_load = False

    def settle(self, steps_taken: int) -> None:
        """Commit what was run; once."""
        if self._settled:
            return
        if self._must_load:
            return  # it has done nothing; what it did before it was interrupted stays reserved
        self._settled = True
        if steps_taken == 0:
            self._reservation.void()
        elif steps_taken < self._plan.num_steps and self._goes_by_step():
            self._reservation.commit(self._plan.event(steps_taken))
        else:
            self._reservation.commit()

    def _goes_by_step(self) -> bool:
        """Whether each step is an event by itself, so that one may stop because of what was seen."""
        return self._plan.correlated is None and isinstance(self._plan.sampling, (Poisson, FixedSize, Full))
