"""Defaults: values for the hyper-parameters that you leave out.

They follow from public numbers alone: the model, epsilon, and how many units there are. So choosing them costs no
privacy. `completed` fills them into the settings.
"""

from __future__ import annotations

import math

from hush.errors import InvalidArgument
from hush.runs.settings import DEFAULT_EPOCHS, Settings

_UNITS_PER_BATCH_UNIT = 4  # a quarter of all units: large batches have less noise for the same epsilon (De et al. 2022)
_SMALLEST_BATCH = 256
# The distance that the weights may travel is the sum of the learning rates. Noise limits it: it grows with
# (epsilon * num_units) ** _DISTANCE_POWER. Fitted on digits (1,440 units, epsilon 1 and 3) and on MNIST (60,000 units),
# which agree.
_DISTANCES = {"softmax": 0.8, "mlp": 0.4, "cnn": 0.4, "scattering": 0.4}
_OTHER_DISTANCE = 0.4
_DISTANCE_POWER = 0.6
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
    return settings.replace(
        model=model,
        delta=settings.delta or default_delta(num_all_units),
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
