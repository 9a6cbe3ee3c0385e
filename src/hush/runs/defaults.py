"""Hyper-parameters for those who name none. Chosen by public numbers alone: the model, and how many units there are."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hush.errors import InvalidArgument
from hush.runs.networks import Description
from hush.runs.settings import Settings

_EPOCHS = 40.0
_SHARE = 4  # one in so many units is in a batch: large batches have less noise for the same epsilon (De et al. 2022)
_LEAST = 256
# How far weights may go in all: the sum of the learning rates, over (epsilon times the number of units) ^ _POWER. Noise
# sets the limit; found on digits (1,440 units, epsilon 1 and 3) and on MNIST (60,000 units), which agree.
_DISTANCES = {"softmax": 0.8, "mlp": 0.4, "cnn": 0.4, "scattering": 0.4}
_OWN = 0.4
_POWER = 0.6
_PHYSICAL = {"cpu": 512, "cuda": 4096}  # examples that go through the model at once: a CPU has caches to stay in
_AVERAGED = 10  # the share of steps, one over this, that the average is about


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to train.

    Attributes:
        batch_size: How many units a step has on average.
        num_steps: How many steps there are.
        learning_rate: Of SGD, at first.
        clip_norm: Where gradients are clipped; None: automatically, to about 1.
        decay: Of the moving average of the weights.
        physical_batch_size: How many examples go through the model at once.
    """

    batch_size: int
    num_steps: int
    learning_rate: float
    clip_norm: float | None
    decay: float
    physical_batch_size: int

    def rate(self, share: float) -> float:
        """Return by what the learning rate is multiplied when this share of the steps is taken: 1, then towards 0.1."""
        return 1.0 if share < 0.5 else 1.0 - 1.8 * (share - 0.5)


def recipe(settings: Settings, description: Description, num_units: int, rows: int) -> Recipe:
    """Return what the settings say, and the defaults for the rest; a unit has so many rows in a step."""
    batch_size = settings.batch_size or min(num_units, max(num_units // _SHARE, _LEAST))
    if batch_size > num_units:
        raise InvalidArgument(
            "batch_size", batch_size, "at most the number of those who are trained on", "Leave it out for a default"
        )
    if settings.num_steps is not None:
        steps = settings.num_steps
    else:
        steps = max(math.ceil((settings.epochs or _EPOCHS) * num_units / batch_size), 1)
    distance = _DISTANCES.get(description.model, _OWN) * (settings.epsilon * num_units) ** _POWER
    rate = settings.learning_rate or distance / steps
    if settings.clip_norm is not None and settings.learning_rate is None:
        rate /= settings.clip_norm  # a step is as long as with gradients that are clipped to about 1
    return Recipe(
        batch_size=batch_size,
        num_steps=steps,
        learning_rate=rate,
        clip_norm=settings.clip_norm,
        decay=max(1 - _AVERAGED / max(steps, 2 * _AVERAGED), 0.5),
        physical_batch_size=_physical(settings, rows),
    )


def _physical(settings: Settings, rows: int) -> int:
    """Return how many examples go through the model at once: whole users, if they are what is protected."""
    most = _PHYSICAL.get((settings.device or "cpu").split(":")[0], _PHYSICAL["cpu"])
    return max(most // rows, 1) * rows
