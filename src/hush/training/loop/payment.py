"""How a run is paid for: reserved whole before it begins, committed by what was really run."""

from __future__ import annotations

from hush.accounting.budget import Budget, Charge
from hush.errors import InvalidArgument
from hush.training.plan.plan import TrainingPlan
from hush.training.plan.samplers import FixedSize, Full, Poisson


class Payment:
    """What a run has reserved of a budget."""

    def __init__(self, plan: TrainingPlan, budget: Budget) -> None:
        """Reserve all steps of a plan, or raise `BudgetExceeded`."""
        charge = Charge(event=plan.event(), purpose=f"training, {plan.num_steps} steps", delta=plan.delta)
        self._plan, self._reservation = plan, budget.reserve(charge)
        self._resumed = self._must_load = self._reservation.resumed
        self._settled = False

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a guarantee rests on because of how the run was paid for."""
        return ("of an interrupted run's states, only one was gone on from",) if self._resumed else ()

    def refuse_unpaid(self, step: int) -> None:
        """Refuse a step of a run that has ended, or that would begin anew what was begun before.

        Whether somebody has settled it from outside is looked up in steps 0, 1, 2, 4, 8, ...
        """
        if not self._settled and (step & (step - 1)) == 0 and not self._reservation.is_open():
            self._settled = True
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
        if steps_taken == 0 and not self._resumed:
            self._reservation.void()
        elif 0 < steps_taken < self._plan.num_steps and self._goes_by_step() and not self._resumed:
            self._reservation.commit(self._plan.event(steps_taken))
        else:
            self._reservation.commit()

    def _goes_by_step(self) -> bool:
        """Whether each step is an event by itself, so that one may stop because of what was seen."""
        return self._plan.correlated is None and isinstance(self._plan.sampling, (Poisson, FixedSize, Full))
