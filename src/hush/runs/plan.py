"""The plan of a run: everything that is decided before its first step, and what that costs.

A privacy unit is on one of two sides. A training unit takes part in learning (of undeclared bounds, values and
classes) and in the training steps; these compose. A held-out unit takes part in the held-out metrics alone. No unit is
on both sides, so the two sides compose in parallel: the run costs a unit the larger of the two.

    settings + data  ->  draft_plan  ->  calibrated  ->  training steps  ->  guarantee

`RunPlan.training` is the `hush.training.TrainingPlan` that the run hands to `hush.training.start_training`. After
that, `RunPlan.with_training` replaces it by the plan of the training that was started, so that the guarantee, the
budget's charge and the metrics are about the very object that draws the noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hush.accounting import ComposedEvent, Event, GaussianEvent, ParallelByIndexEvent, PldAccountant, calibrate_noise
from hush.accounting.events import QualifiedEvent, plain_event
from hush.data import Prepared
from hush.errors import InvalidArgument
from hush.guarantee import Guarantee, Unit
from hush.runs.dataset import count_units
from hush.runs.defaults import completed, physical_batch_size
from hush.runs.networks import Network, adapt, build_network, choose_model
from hush.runs.settings import Settings
from hush.training import Automatic, Flat, Full, Poisson, PublicPhase, TrainingPlan, Users

_LONGEST_EVENT = 160  # letters of an event in the report


@dataclass(frozen=True, eq=False, kw_only=True)
class RunPlan:
    """What a run will do, and what it costs.

    Attributes:
        settings: The settings, with a value for each that was left out.
        data: The examples to train on and to measure with, and what preparing them cost.
        training: The plan that draws the noise of training.
        users: Who owns each training example; None if each is its own unit.
        evaluation: What the held-out metrics cost the held-out units; None if the metrics are exact, or there are none.
        assumptions: What the guarantee rests on besides what the training plan assumes.
    """

    settings: Settings
    data: Prepared
    training: TrainingPlan
    users: Users | None
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

    def network_arguments(self) -> dict[str, Any]:
        """Return the arguments of `hush.runs.networks.build_network`, as model.json stores them."""
        shape, num_classes = self.data.shape, len(self.data.classes)
        return {"model": self.model, "shape": shape, "num_classes": num_classes, "seed": self.settings.seed}

    def build_network(self) -> Network:
        """Return the network with its starting weights: public ones, where there is a public checkpoint."""
        network = build_network(**self.network_arguments())
        adapt(network, self.settings)
        return network

    def with_training(self, training: TrainingPlan) -> RunPlan:
        """Return the same plan with another training plan."""
        return replace(self, training=training)

    def event(self, num_steps: int | None = None) -> Event:
        """Return what a unit that is trained on takes part in: learning, and the first steps or all."""
        steps = self._steps(num_steps)
        return steps if self.data.event is None else ComposedEvent((self.data.event, steps))

    def charged_event(self) -> Event:
        """Return what any unit takes part in, on whichever side it is: what a ledger charges."""
        either = self.event() if self.evaluation is None else ParallelByIndexEvent((self.event(), self.evaluation))
        return QualifiedEvent(either, self.training.relation.value, str(self.training.unit), self.assumptions)

    def epsilon(self, num_steps: int | None = None) -> float:
        """Return the epsilon of learning and of the first steps, or of all."""
        return self._epsilon(self.event(num_steps))

    def guarantee(self, assumptions: tuple[str, ...] = ()) -> Guarantee:
        """Return what the whole run guarantees to every unit, on whichever side it is; it may assume more."""
        training = self.training.guarantee()
        epsilon, methods = self.epsilon(), [training.method]
        if self.data.event is not None:
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
            assumptions=tuple(dict.fromkeys((*training.assumptions, *self.assumptions, *assumptions))),
        )

    def budget_parts(self) -> list[dict[str, Any]]:
        """Return where the budget went, for the report: each part with the epsilon that it has by itself."""
        events = {
            "learning bounds, values and classes": self.data.event,
            "training": self._steps(),
            "held-out metrics, for other units": self.evaluation,
        }
        return [
            {"what": what, "epsilon": self._epsilon(event), "event": shortened_event(event)}
            for what, event in events.items()
            if event is not None
        ]

    def _steps(self, num_steps: int | None = None) -> Event:
        """Return the event of the training steps, without the plan's relation, unit and assumptions."""
        event, _ = plain_event(self.training.event(num_steps), self.training.relation, self.training.unit)
        return event

    def _epsilon(self, event: Event) -> float:
        """Return the epsilon of an event at the plan's delta."""
        accountant = PldAccountant(relation=self.training.relation, unit=self.training.unit)
        return accountant.compose(event).epsilon(self.training.delta)


def draft_plan(settings: Settings, data: Prepared, *, device: str) -> RunPlan:
    """Return what the settings mean for these data, with a noise multiplier of 1.

    Only public numbers decide it: the shape of an input, the number of classes, and how many units there are.
    """
    num_units = count_units(data.train)
    if num_units < 2:
        raise InvalidArgument("data", settings.data, "at least two units to train on, with a target")
    num_all_units = num_units + count_units(data.test)
    owners = data.train.units
    used = completed(
        settings,
        model=choose_model(settings, data.shape),
        num_units=num_units,
        num_all_units=num_all_units,
        rows_are_units=owners is None,
        learns=data.event is not None,
        device=device,
    )
    assert used.batch_size is not None
    assert used.num_steps is not None
    assert used.delta is not None
    users = None if owners is None else Users(owners, rows_per_unit=used.rows_per_unit)
    training = TrainingPlan(
        sampling=Full() if used.batch_size == num_units else Poisson(used.batch_size),
        num_units=num_units,
        num_steps=used.num_steps,
        clipping=Automatic(1.0) if used.clip_norm is None else Flat(used.clip_norm),
        noise_multiplier=1.0,
        delta=used.delta,
        physical_batch_size=physical_batch_size(device, used.rows_per_unit),
        unit=Unit.example() if users is None else users.unit,
        rows_per_unit=used.rows_per_unit,
        labelled=users is not None,
        starts_from=None if used.start is None else PublicPhase(used.public or ""),
    )
    if not used.delta * num_all_units < 1:
        raise InvalidArgument("delta", used.delta, "less than one over the number of units")
    return RunPlan(settings=used, data=data, training=training, users=users)


def calibrated(plan: RunPlan) -> RunPlan:
    """Return the plan with the least noise for which learning and training together stay within epsilon."""
    draft = plan.training

    def event(noise_multiplier: float) -> Event:
        return plan.with_training(replace(draft, noise_multiplier=noise_multiplier)).event()

    noise_multiplier = calibrate_noise(
        epsilon=plan.settings.epsilon, delta=draft.delta, relation=draft.relation, template=event
    )
    return plan.with_training(replace(draft, noise_multiplier=noise_multiplier))


def shortened_event(event: Event) -> str:
    """Write an event for the report, which has room for a line or two."""
    text = repr(event)
    return text if len(text) <= _LONGEST_EVENT else text[: _LONGEST_EVENT - 3] + "..."
