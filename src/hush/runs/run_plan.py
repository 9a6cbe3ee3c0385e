"""The plan of a run: everything that is decided before its first step, and its privacy cost.

    settings + public numbers  ->  draft  ->  calibrated  ->  training steps  ->  guarantee

`hush.runs.draft` makes it: from numbers for `hush plan`, from data for `hush train`. A plan states the guarantee of a
run with the same settings. It holds no data, and needs no torch.

`RunPlan.training` is the `hush.training.TrainingPlan` that the run hands to `hush.training.start_training`. After
that, `RunPlan.with_training` replaces it by the plan of the training that was started, so that the guarantee, the
budget's charge and the metrics are about the very object that draws the noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hush.accounting import (
    Accountant,
    ComposedEvent,
    Event,
    GaussianEvent,
    ParallelByIndexEvent,
    PldAccountant,
    calibrate_noise,
)
from hush.accounting.events import QualifiedEvent, plain_event
from hush.guarantee import Guarantee
from hush.notebook import card, short_repr
from hush.runs.settings import Settings
from hush.training import TrainingPlan

_LONGEST_EVENT = 160  # letters of an event in the report


@dataclass(frozen=True, eq=False, kw_only=True)
class RunPlan:
    """The plan of a run, and its cost for the privacy units.

    A unit is on one of two sides. A training unit takes part in learning and in the training steps; these compose. A
    held-out unit takes part in the held-out metrics alone. So the two sides compose in parallel, and the run costs a
    unit the larger of the two (McSherry 2009, Theorem 4).

    Attributes:
        settings: The settings, with a value for each that was left out.
        training: The plan that draws the noise of training.
        learning: The cost of learning bounds, values and classes, for training units; None if all are declared.
        evaluation: The cost of the held-out metrics, for held-out units; None if there are none, or they are exact.
        assumptions: The assumptions of the guarantee, besides those of the training plan.

    >>> from hush.runs.draft import draft_plan
    >>> plan = draft_plan(Settings(data="patients.csv", epsilon=3.0), num_units=10_000).calibrated()
    >>> round(plan.training.noise_multiplier, 2), round(plan.guarantee().epsilon, 2)
    (4.54, 3.0)
    """

    settings: Settings
    training: TrainingPlan
    learning: Event | None = None
    evaluation: GaussianEvent | None = None
    assumptions: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        """The model's name, or its factory's."""
        assert self.settings.model is not None
        return self.settings.model

    @property
    def learning_rate(self) -> float:
        """The learning rate at the start."""
        assert self.settings.learning_rate is not None
        return self.settings.learning_rate

    def calibrated(self) -> RunPlan:
        """Return the plan with the least noise for which learning and training together stay within epsilon."""
        return self.with_noise(self.noise_for(self.settings.epsilon))

    def noise_for(self, epsilon: float, accountant: type[Accountant] = PldAccountant) -> float:
        """Return the least noise multiplier that meets epsilon, by one kind of accountant."""
        return calibrate_noise(
            epsilon=epsilon,
            delta=self.training.delta,
            relation=self.training.relation,
            accountant=accountant,
            template=lambda noise_multiplier: self.with_noise(noise_multiplier).event(),
        )

    def with_noise(self, noise_multiplier: float) -> RunPlan:
        """Return the same plan with another noise multiplier."""
        return replace(self, training=replace(self.training, noise_multiplier=noise_multiplier))

    def with_training(self, training: TrainingPlan) -> RunPlan:
        """Return the same plan with another training plan."""
        return replace(self, training=training)

    def event(self, num_steps: int | None = None) -> Event:
        """Return the event for a training unit: learning, and the first steps or all steps."""
        steps, _ = self._steps(num_steps)
        return steps if self.learning is None else ComposedEvent((self.learning, steps))

    def charged_event(self) -> Event:
        """Return the event that covers any unit, on either side. It is what a ledger charges.

        It assumes what the guarantee assumes.
        """
        either = self.event() if self.evaluation is None else ParallelByIndexEvent((self.event(), self.evaluation))
        assumptions = self._all_assumptions(self._steps()[1])
        return QualifiedEvent(either, self.training.relation, self.training.unit, assumptions)

    def epsilon(self, num_steps: int | None = None, accountant: Accountant | None = None) -> float:
        """Return the epsilon of learning and of the first steps, or of all; by the accountant of your choice."""
        return self._epsilon(self.event(num_steps), accountant)

    def guarantee(self, assumptions: tuple[str, ...] = ()) -> Guarantee:
        """Return the guarantee of the whole run for every unit, on either side. ``assumptions`` are added to it."""
        training = self.training.guarantee()
        epsilon, methods = self.epsilon(), [training.method]
        if self.learning is not None:
            methods.append("composed with what was learned about the data")
        if self.evaluation is not None:
            epsilon = max(epsilon, self._epsilon(self.evaluation))
            methods.append("in parallel with the held-out metrics")
        return Guarantee(
            epsilon=epsilon,
            delta=self.training.delta,
            unit=training.unit,
            relation=training.relation,
            method=", ".join(methods),
            assumptions=self._all_assumptions(training.assumptions, assumptions),
        )

    def parts(self) -> list[dict[str, Any]]:
        """Return how the budget was spent, for the report: each part with its own epsilon."""
        events = {
            "learning bounds, values and classes": self.learning,
            "training": self._steps()[0],
            "held-out metrics, for other units": self.evaluation,
        }
        return [
            {"what": what, "epsilon": self._epsilon(event), "event": shortened_event(event)}
            for what, event in events.items()
            if event is not None
        ]

    def __repr__(self) -> str:
        """Return one line. `settings` and `training` hold the parts."""
        training = self.training
        values = {"model": self.model, "num_units": training.num_units, "num_steps": training.num_steps}
        noise = round(training.noise_multiplier, 4)
        return short_repr("RunPlan", {**values, "noise_multiplier": noise, "delta": training.delta})

    def _repr_html_(self) -> str:
        """Return the plan for a notebook, with its guarantee and how the budget is spent."""
        facts = {
            "data": Path(self.settings.data).name,
            "model": self.model,
            "units to train on": f"{self.training.num_units:,}",
            "steps": f"{self.training.num_steps:,}",
            "units per step": f"{self.training.batch_size:,} on average",
            "noise multiplier": f"{self.training.noise_multiplier:.4g}",
        }
        rows = [(part["what"], f"{part['epsilon']:.4g}") for part in self.parts()]
        head = ("part of the run", "epsilon on its own")
        return card("Plan of a run", facts, head=head, rows=rows, notes=[str(self.guarantee())])

    def _steps(self, num_steps: int | None = None) -> tuple[Event, tuple[str, ...]]:
        """Return the event of the training steps, without the plan's relation and unit, and what it assumes."""
        return plain_event(self.training.event(num_steps), self.training.relation, self.training.unit)

    def _all_assumptions(self, training: tuple[str, ...], more: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return the assumptions of training, plan and caller, each sentence once."""
        return tuple(dict.fromkeys((*training, *self.assumptions, *more)))

    def _epsilon(self, event: Event, accountant: Accountant | None = None) -> float:
        """Return the epsilon of an event at the plan's delta."""
        if accountant is None:
            accountant = PldAccountant(relation=self.training.relation, unit=self.training.unit)
        return accountant.compose(event).epsilon(self.training.delta)


def shortened_event(event: Event) -> str:
    """Write an event for the report, which has room for a line or two."""
    text = repr(event)
    return text if len(text) <= _LONGEST_EVENT else text[: _LONGEST_EVENT - 3] + "..."
