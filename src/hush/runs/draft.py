"""The draft of a run: everything that follows from the settings and public numbers, before any data are read.

- `completed` fills in the settings that you left out. They follow from the model, epsilon and the number of units, all
  of which are public, so choosing them costs no privacy.
- `draft_training` turns the settings into a `hush.training.TrainingPlan`.
- `draft_plan` adds the other parts of a run. The result is a `hush.runs.run_plan.RunPlan`, which states the
  cost of all of it, and finds the noise for an epsilon.

`hush train` and `hush plan` both use them, so that a plan states the guarantee of a run with the same settings. This
module needs no torch.
"""

from __future__ import annotations

import math
from enum import StrEnum

from hush.accounting import GaussianEvent, gaussian_multiplier
from hush.data import Learn
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Relation, Unit
from hush.runs.run_plan import RunPlan
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
_SMALLEST_IMAGE = 8  # pixels on a side, for convolutions and wavelets
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
    """Return the settings that a run uses: omitted ones get a value, and those that do not apply are reset.

    Args:
        settings: The settings of the run.
        model: The model's name, or its factory's.
        num_units: How many units are trained on.
        num_all_units: The number of all units, including held-out ones, because delta has to protect all of them.
        rows_are_units: Whether each row is its own privacy unit.
        learns: Whether anything has to be learned because it was not declared.
        device: The device to train on.
    """
    batch_size = settings.batch_size or min(num_units, max(num_units // _UNITS_PER_BATCH_UNIT, _SMALLEST_BATCH))
    if batch_size > num_units:
        raise InvalidArgument(
            "batch_size", batch_size, "at most the number of units that are trained on", "Omit it for a default"
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


def choose_model(settings: Settings, image_shape: tuple[int, ...] | None) -> str:
    """Return the model that the settings name, or the default for images of this shape, or for tables."""
    is_image = image_shape is not None
    is_large = image_shape is not None and min(image_shape[1:]) >= _SMALLEST_IMAGE
    model = settings.model or ("scattering" if is_large else "softmax")
    if model in ("cnn", "scattering") and not is_image:
        raise InvalidArgument("model", model, "softmax, mlp or MODULE:FACTORY", "The inputs are not images")
    if model in ("cnn", "scattering") and not is_large:
        pixels = f"{_SMALLEST_IMAGE} by {_SMALLEST_IMAGE} pixels"
        raise InvalidArgument("model", model, "softmax or mlp", f"Convolutions and wavelets need images of {pixels}")
    return model


def _learning_rate(settings: Settings, model: str, num_units: int, num_steps: int) -> float:
    """Return the learning rate that moves the weights the default distance in all steps together."""
    scale: float = (settings.epsilon * num_units) ** _DISTANCE_POWER
    distance = _DISTANCES.get(model, _OTHER_DISTANCE) * scale
    # Automatic clipping scales gradients to about 1. With another clip norm, the steps stay as long as they would be.
    return distance / num_steps / (1.0 if settings.clip_norm is None else settings.clip_norm)


def default_delta(num_units: int) -> float:
    """Return 1e-5, or the largest power of ten below 1 / num_units, whichever is smaller.

    1e-5 is what papers state. From 10,000 units on it is more than a tenth of 1 / num_units: `hush plan` warns.

    >>> default_delta(1_000), default_delta(250_000)
    (1e-05, 1e-06)
    """
    return min(1e-5, 10.0 ** (math.ceil(-math.log10(max(num_units, 1))) - 1))


def physical_batch_size(device: str, rows_per_unit: int) -> int:
    """Return how many examples go through the model at once: a multiple of the rows that a unit can have."""
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
        unit: The privacy unit.
        relation: How neighbouring datasets differ.
        group_size: How many of the sampled units a protected unit stands for; see `hush.training.UserGroups`.
    """
    assert settings.batch_size is not None
    assert settings.num_steps is not None
    assert settings.delta is not None
    return TrainingPlan(
        sampling=(
            Full()
            if settings.batch_size == num_units and settings.max_batch_size is None
            else Poisson(settings.batch_size, settings.max_batch_size)
        ),
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
    """Return the noise with which learning bounds, values and classes costs epsilon on its own."""
    return Learn(noise_multiplier=gaussian_multiplier(epsilon, delta), delta=max(delta * _RARE_VALUES_SHARE, 1e-100))


def evaluation_event(epsilon: float, delta: float) -> GaussianEvent:
    """Return the event of all held-out metrics together, with the least noise that stays within epsilon."""
    return GaussianEvent(gaussian_multiplier(epsilon, delta))


class Undeclared(StrEnum):
    """What a run has to learn because it is not declared. The values are the words that the command line uses."""

    BOUNDS = "bounds"  # of numeric columns only
    VALUES = "values"  # the values of categories or the classes, with or without bounds


def draft_plan(
    settings: Settings,
    *,
    num_units: int,
    num_held_out: int = 0,
    undeclared: Undeclared | None = None,
    unit: Unit = Unit.example(),
    relation: Relation = Relation.ADD_OR_REMOVE,
    group_size: int = 1,
) -> RunPlan:
    """Return the plan of a run with these settings, with a noise multiplier of 1, without its data.

    Args:
        settings: The settings of the run. The model and the learning rate do not matter here.
        num_units: How many units are trained on.
        num_held_out: How many units are held out for private metrics.
        undeclared: The things that have to be learned; None if everything is declared.
        unit: The privacy unit.
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
    return RunPlan(settings=used, training=training, learning=learning, evaluation=evaluation)
