"""The draft of a run: what follows from the settings and from public numbers, before any data are read.

- `completed` fills in the settings that you left out. They follow from the model, epsilon and the number of units, all
  of which are public, so choosing them costs no privacy.
- `draft_training` turns the settings into a `hush.training.TrainingPlan`.
- `RunCost` adds what a run does besides training: it states the cost of all of it, and finds the noise for an epsilon.

`hush train` and `hush plan` (through `draft_cost`) use these three, so that a plan promises what a run with the same
settings guarantees. This module needs no torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from hush.accounting import Accountant, ComposedEvent, Event, GaussianEvent, PldAccountant, calibrate_noise
from hush.accounting.events import plain_event
from hush.data import Learn
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Guarantee, Relation, Unit
from hush.runs.settings import DEFAULT_EPOCHS, Settings
from hush.training import Automatic, Flat, Full, Poisson, PublicPhase, TrainingPlan

_UNITS_PER_BATCH_UNIT = 4  # a quarter of all units: large batches have less noise for the same epsilon (De et al. 2022)
_SMALLEST_BATCH = 256
# The distance that the weights may travel is the sum of the learning rates. Noise limits it: it grows with
# (epsilon * num_units) ** _DISTANCE_POWER. Fitted on digits (1,440 units, epsilon 1 and 3) and on MNIST (60,000 units),
# which agree.
_DISTANCES = {"softmax": 0.8, "mlp": 0.4, "cnn": 0.4, "scattering": 0.4}
_OTHER_DISTANCE = 0.4
_DISTANCE_POWER = 0.6
_LEARNING_DELTA = 1e-5  # the delta that learning is calibrated at, unless you name one
# The share of delta for values that only one unit has: they stay hidden except with this probability.
_RARE_VALUES_SHARE = 1e-4
_LONGEST_EVENT = 160  # letters of an event in the report
_PHYSICAL_BATCH_SIZES = {"cpu": 512, "cuda": 4096}  # on a CPU, activations should fit into its caches


def completed(
    settings: Settings,
    *,
    model: str,
    num_units: int,
    num_all_units: int,
    rows_are_units: bool,
    learns: bool,
    device: str,
) -> Settings:
    """Return the settings that a run uses: with a value for each that was left out, and without those of no use.

    Args:
        settings: What was asked for.
        model: The model's name, or its factory's.
        num_units: How many units are trained on.
        num_all_units: How many units there are, with those that are held out: delta has to protect all of them.
        rows_are_units: Whether each row is its own privacy unit.
        learns: Whether something is learned because it was not declared.
        device: Where to train.
    """
    batch_size = settings.batch_size or min(num_units, max(num_units // _UNITS_PER_BATCH_UNIT, _SMALLEST_BATCH))
    if batch_size > num_units:
        raise InvalidArgument(
            "batch_size", batch_size, "at most the number of units that are trained on", "Leave it out for a default"
        )
    num_steps = settings.num_steps
    if num_steps is None:
        num_steps = max(math.ceil((settings.epochs or DEFAULT_EPOCHS) * num_units / batch_size), 1)
    delta = settings.delta or default_delta(num_all_units)
    if not delta * num_all_units < 1:
        raise InvalidArgument("delta", delta, "less than one over the number of units")
    return settings.replace(
        model=model,
        delta=delta,
        batch_size=batch_size,
        num_steps=num_steps,
        epochs=None,
        rows_per_unit=1 if rows_are_units else settings.rows_per_unit,
        learn_share=settings.learn_share if learns else 0.0,
        learning_rate=settings.learning_rate or _learning_rate(settings, model, num_units, num_steps),
        device=device,
    )


def _learning_rate(settings: Settings, model: str, num_units: int, num_steps: int) -> float:
    """Return the learning rate that moves the weights the default distance in all steps together."""
    scale: float = (settings.epsilon * num_units) ** _DISTANCE_POWER
    distance = _DISTANCES.get(model, _OTHER_DISTANCE) * scale
    # Automatic clipping scales gradients to about 1. With another clip norm, the steps stay as long as they would be.
    return distance / num_steps / (1.0 if settings.clip_norm is None else settings.clip_norm)


def default_delta(num_units: int) -> float:
    """Return 1e-5, or the largest power of ten below 1 / num_units, whichever is smaller.

    >>> default_delta(1_000), default_delta(250_000)
    (1e-05, 1e-06)
    """
    return min(1e-5, 10.0 ** (math.ceil(-math.log10(max(num_units, 1))) - 1))


def physical_batch_size(device: str, rows_per_unit: int) -> int:
    """Return how many examples go through the model at once: a multiple of the rows that a unit may have."""
    largest = _PHYSICAL_BATCH_SIZES.get(device.partition(":")[0], _PHYSICAL_BATCH_SIZES["cpu"])
    return max(largest // rows_per_unit, 1) * rows_per_unit


def draft_training(
    settings: Settings,
    *,
    num_units: int,
    unit: Unit = Unit.example(),
    relation: Relation = Relation.ADD_OR_REMOVE,
    group_size: int = 1,
) -> TrainingPlan:
    """Return the training plan of settings that `completed` has returned, with a noise multiplier of 1.

    Args:
        settings: The settings, with a value for each that was left out.
        num_units: How many units are trained on.
        unit: What is protected.
        relation: How neighbouring datasets differ.
        group_size: How many of the sampled units a protected unit stands for; see `hush.training.UserGroups`.
    """
    assert settings.batch_size is not None
    assert settings.num_steps is not None
    assert settings.delta is not None
    return TrainingPlan(
        sampling=Full() if settings.batch_size == num_units else Poisson(settings.batch_size),
        num_units=num_units,
        num_steps=settings.num_steps,
        clipping=Automatic(1.0) if settings.clip_norm is None else Flat(settings.clip_norm),
        noise_multiplier=1.0,
        delta=settings.delta,
        physical_batch_size=physical_batch_size(settings.device or "cpu", settings.rows_per_unit),
        relation=relation,
        unit=unit,
        rows_per_unit=settings.rows_per_unit,
        group_size=group_size,
        labelled=unit != Unit.example(),
        starts_from=None if settings.start is None else PublicPhase(settings.public or ""),
    )


def learning_delta(settings: Settings) -> float:
    """Return the delta at which learning has to stay within its share of epsilon."""
    return settings.delta or _LEARNING_DELTA


def learning_noise(epsilon: float, delta: float) -> Learn:
    """Return the noise with which learning bounds, values and classes costs epsilon by itself."""
    return Learn(
        noise_multiplier=calibrate_noise(epsilon=epsilon, delta=delta), delta=max(delta * _RARE_VALUES_SHARE, 1e-100)
    )


def evaluation_event(epsilon: float, delta: float) -> GaussianEvent:
    """Return the event of all held-out metrics together, with the least noise that stays within epsilon."""
    return GaussianEvent(calibrate_noise(epsilon=epsilon, delta=delta))


@dataclass(frozen=True, eq=False, kw_only=True)
class RunCost:
    """What a run costs the privacy units.

    A unit is on one of two sides. A training unit takes part in learning and in the training steps; these compose. A
    held-out unit takes part in the held-out metrics alone. So the two sides compose in parallel, and the run costs a
    unit the larger of the two (McSherry 2009, Theorem 4).

    Attributes:
        training: The plan of the training steps.
        learning: What learning bounds, values and classes costs the training units; None if all are declared.
        evaluation: What the held-out metrics cost the held-out units; None if they are exact, or there are none.

    >>> settings = completed(
    ...     Settings(data="patients.csv", epsilon=3.0), model="softmax", num_units=10_000, num_all_units=11_000,
    ...     rows_are_units=True, learns=False, device="cpu",
    ... )
    >>> cost = RunCost(training=draft_training(settings, num_units=10_000)).calibrated(3.0)
    >>> round(cost.training.noise_multiplier, 2), round(cost.guarantee().epsilon, 2)
    (4.54, 3.0)
    """

    training: TrainingPlan
    learning: Event | None = None
    evaluation: GaussianEvent | None = None

    def calibrated(self, epsilon: float) -> RunCost:
        """Return the cost with the least noise for which learning and training together stay within epsilon."""
        return self.with_noise(self.noise_for(epsilon))

    def noise_for(self, epsilon: float, accountant: type[Accountant] = PldAccountant) -> float:
        """Return the least noise multiplier that meets epsilon, by one kind of accountant."""
        return calibrate_noise(
            epsilon=epsilon,
            delta=self.training.delta,
            relation=self.training.relation,
            accountant=accountant,
            template=lambda noise_multiplier: self.with_noise(noise_multiplier).event(),
        )

    def with_noise(self, noise_multiplier: float) -> RunCost:
        """Return the cost of the same run with another noise multiplier."""
        return replace(self, training=replace(self.training, noise_multiplier=noise_multiplier))

    def event(self, num_steps: int | None = None) -> Event:
        """Return what a unit that is trained on takes part in: learning, and the first steps or all."""
        steps = self._steps(num_steps)
        return steps if self.learning is None else ComposedEvent((self.learning, steps))

    def epsilon(self, num_steps: int | None = None, accountant: Accountant | None = None) -> float:
        """Return the epsilon of learning and of the first steps, or of all; by the accountant of your choice."""
        return self._epsilon(self.event(num_steps), accountant)

    def guarantee(self, assumptions: tuple[str, ...] = ()) -> Guarantee:
        """Return what the whole run guarantees to every unit, on whichever side it is; it may assume more."""
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
            assumptions=tuple(dict.fromkeys((*training.assumptions, *assumptions))),
        )

    def parts(self) -> list[dict[str, Any]]:
        """Return where the budget went, for the report: each part with the epsilon that it has by itself."""
        events = {
            "learning bounds, values and classes": self.learning,
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

    def _epsilon(self, event: Event, accountant: Accountant | None = None) -> float:
        """Return the epsilon of an event at the plan's delta."""
        if accountant is None:
            accountant = PldAccountant(relation=self.training.relation, unit=self.training.unit)
        return accountant.compose(event).epsilon(self.training.delta)


class Undeclared(StrEnum):
    """What a run has to learn, because it is not declared. The values are the words of the command line."""

    BOUNDS = "bounds"  # of numeric columns only
    VALUES = "values"  # the values of categories or the classes, with or without bounds


def draft_cost(
    settings: Settings,
    *,
    num_units: int,
    num_held_out: int = 0,
    undeclared: Undeclared | None = None,
    unit: Unit = Unit.example(),
    relation: Relation = Relation.ADD_OR_REMOVE,
    group_size: int = 1,
) -> RunCost:
    """Return what a run with these settings would cost, with a noise multiplier of 1, without its data.

    Args:
        settings: What is asked for. The model and the learning rate do not matter here.
        num_units: How many units are trained on.
        num_held_out: How many units are held out for private metrics.
        undeclared: What has to be learned; None if everything is declared.
        unit: What is protected.
        relation: How neighbouring datasets differ.
        group_size: How many of the sampled units a protected unit stands for.
    """
    if (num_held_out or undeclared) and (relation is not Relation.ADD_OR_REMOVE or group_size > 1):
        # Their events hold per unit, under add-or-remove.
        raise Unsupported("learning or held-out metrics, under another relation or for groups of examples")
    used = completed(
        settings,
        model=settings.model or "softmax",
        num_units=num_units,
        num_all_units=num_units + num_held_out,
        rows_are_units=unit == Unit.example() or group_size > 1,
        learns=undeclared is not None,
        device="cpu",
    )
    training = draft_training(used, num_units=num_units, unit=unit, relation=relation, group_size=group_size)
    learning, evaluation = None, None
    if undeclared is not None:
        if not settings.learn_share > 0:
            raise InvalidArgument("learn_share", settings.learn_share, "more than 0", "Learning needs a share")
        noise = learning_noise(settings.epsilon * settings.learn_share, learning_delta(settings))
        learning = noise.bounds_event() if undeclared is Undeclared.BOUNDS else noise.event()
    if num_held_out:
        evaluation = evaluation_event(settings.epsilon, training.delta)
    return RunCost(training=training, learning=learning, evaluation=evaluation)


def shortened_event(event: Event) -> str:
    """Write an event for the report, which has room for a line or two."""
    text = repr(event)
    return text if len(text) <= _LONGEST_EVENT else text[: _LONGEST_EVENT - 3] + "..."
