"""How a run's budget is shared: what is not declared is learned first, training has the rest.

Those who are held out take part in neither; the figures about them have the whole budget for themselves, in parallel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hush.accounting import ComposedEvent, Event, GaussianEvent, ParallelByIndexEvent, PldAccountant, calibrate_noise
from hush.accounting.events import QualifiedEvent, plain_event
from hush.data import Learn
from hush.guarantee import Guarantee
from hush.training import TrainingPlan

_RARE = 1e-4  # of delta goes to values that only one unit has


def learning(epsilon: float, share: float, delta: float) -> Learn:
    """Return the noise for what is not declared, such that it alone would cost its share of epsilon."""
    return Learn(
        noise_multiplier=calibrate_noise(epsilon=share * epsilon, delta=delta), delta=max(delta * _RARE, 1e-100)
    )


@dataclass(frozen=True, slots=True)
class RunCost:
    """What the parts of a run cost.

    Attributes:
        plan: The plan of training.
        learned: What learning of bounds, values and classes cost, if there was some.
        figures: What the figures about those held out cost them, if they are private.
        assumptions: What else the guarantee rests on.
    """

    plan: TrainingPlan
    learned: Event | None
    figures: GaussianEvent | None
    assumptions: tuple[str, ...]

    def event(self, num_steps: int | None = None) -> Event:
        """Return what those who are trained on are part of: learning, and the first steps or all."""
        steps, _ = plain_event(self.plan.event(num_steps), self.plan.relation, self.plan.unit)
        return steps if self.learned is None else ComposedEvent((self.learned, steps))

    def whole_event(self) -> Event:
        """Return all that a person can be part of: training or, held out, the figures."""
        both = self.event() if self.figures is None else ParallelByIndexEvent((self.event(), self.figures))
        return QualifiedEvent(both, self.plan.relation.value, str(self.plan.unit), self.assumptions)

    def epsilon(self, num_steps: int | None = None) -> float:
        """Return what that costs."""
        return self._accountant(self.event(num_steps)).epsilon(self.plan.delta)

    def guarantee(self, num_steps: int | None = None) -> Guarantee:
        """Return what the whole run promises to everybody, on whichever side they are."""
        stated = self.plan.guarantee(num_steps)
        trained = self._accountant(self.event(num_steps)).guarantee(self.plan.delta)
        epsilon, parts = trained.epsilon, [stated.method]
        if self.learned is not None:
            parts.append("composed with what was learned about the data")
        if self.figures is not None:
            epsilon = max(epsilon, self._accountant(self.figures).epsilon(self.plan.delta))
            parts.append("in parallel with figures about those held out")
        return Guarantee(
            epsilon=epsilon,
            delta=self.plan.delta,
            unit=stated.unit,
            relation=stated.relation,
            method=", ".join(parts),
            assumptions=tuple(dict.fromkeys((*stated.assumptions, *self.assumptions))),
        )

    def parts(self) -> list[dict[str, Any]]:
        """Return where the budget went, for the report."""
        delta, found = self.plan.delta, []
        if self.learned is not None:
            cost = self._accountant(self.learned).epsilon(delta)
            found.append({"what": "learning what was not declared", "epsilon": cost, "event": _written(self.learned)})
        steps, _ = plain_event(self.plan.event(), self.plan.relation, self.plan.unit)
        cost = self._accountant(steps).epsilon(delta)
        found.append({"what": "training", "epsilon": cost, "event": _written(steps)})
        if self.figures is not None:
            cost = self._accountant(self.figures).epsilon(delta)
            found.append({"what": "figures about others, held out", "epsilon": cost, "event": _written(self.figures)})
        return found

    def _accountant(self, event: Event) -> PldAccountant:
        return PldAccountant(relation=self.plan.relation, unit=self.plan.unit).compose(event)


def calibrated(draft: TrainingPlan, learned: Event | None, epsilon: float) -> TrainingPlan:
    """Return the plan with the least noise for which learning and training together stay within epsilon."""

    def event(noise: float) -> Event:
        return RunCost(replace(draft, noise_multiplier=noise), learned, None, ()).event()

    noise = calibrate_noise(epsilon=epsilon, delta=draft.delta, relation=draft.relation, template=event)
    return replace(draft, noise_multiplier=noise)


def _written(event: Event) -> str:
    text = repr(event)
    return text if len(text) <= 160 else text[:157] + "..."
