"""Shadow models: the same training on other samples, of which it is known who was in them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hush.audit.membership.signals import Bools, Floats, finite
from hush.audit.membership.signals import classes as checked_classes
from hush.audit.membership.signals import confidence as confidence_of
from hush.audit.membership.signals import logit_confidence as logit_of
from hush.errors import InvalidArgument, check_count, check_instance, check_positive, check_probability

Predict: TypeAlias = Callable[[NDArray[Any]], ArrayLike]
Fit: TypeAlias = Callable[[NDArray[Any], NDArray[np.int64]], Predict]
ProgressCallback: TypeAlias = Callable[[int, int], None]

_FEWEST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadows:
    """What shadow models say of every example, and which of them were trained on it.

    Attributes:
        probabilities: Of each class: (models, examples, classes).
        included: Who was trained on: (models, examples).
        labels: The class of each example.
        stopped: Whether the time budget ended before all models were made.
    """

    probabilities: Floats
    included: Bools
    labels: NDArray[np.int64]
    stopped: bool = False

    @property
    def confidence(self) -> Floats:
        """The probability of each example's own class: (models, examples)."""
        return confidence_of(self.probabilities, self.labels)

    @property
    def logit_confidence(self) -> Floats:
        """Its logit, by `logit_confidence`: (models, examples)."""
        return logit_of(self.probabilities, self.labels)


def shadows(
    fit: Fit,
    x: NDArray[Any],
    labels: ArrayLike,
    *,
    num_models: int,
    num_classes: int,
    rng: np.random.Generator,
    progress: ProgressCallback | None = None,
    seconds: float | None = None,
) -> Shadows:
    """Train shadow models on random halves, arranged in pairs, and ask each of them about every example.

    The second model of a pair is trained on whoever was left out of the first. So every example is in exactly half of
    the models, however early the time runs out: no attack ever meets an example without a model of either kind.

    Args:
        fit: From examples and classes to a function that gives probabilities (examples, classes). It must do what the
            target's training does, its randomness included.
        x: The examples; whatever ``fit`` takes that can be indexed by a mask.
        labels: The class of each, from 0 on.
        num_models: How many, an even number.
        num_classes: How many classes there are; a sample may lack some of them.
        rng: Decides the halves.
        progress: Called with the number of finished models, and of all.
        seconds: No further pair is begun after that long. At least one pair is made.
    """
    total = check_count("num_models", num_models, minimum=_FEWEST)
    if total % 2:
        raise InvalidArgument("num_models", total, "an even number", "Models come in pairs, of a sample and the rest")
    limit = np.inf if seconds is None else check_positive("seconds", seconds)
    own = checked_classes(labels, len(x), check_count("num_classes", num_classes, minimum=2))
    check_instance("rng", rng, np.random.Generator)
    rows: list[Floats] = []
    halves: list[Bools] = []
    started = time.monotonic()
    for half in _pairs(len(own), total, rng):
        if len(rows) % 2 == 0 and rows and time.monotonic() - started > limit:
            break
        rows.append(_answers(fit(x[half], own[half]), x, num_classes))
        halves.append(half)
        if progress is not None:
            progress(len(rows), total)
    return Shadows(probabilities=np.stack(rows), included=np.stack(halves), labels=own, stopped=len(rows) < total)


def coin_sample(num_examples: int, *, rng: np.random.Generator, rate: float = 0.5) -> Bools:
    """Return who is in the target's training: one coin for each example, independent of all others.

    A target that is trained on such a sample can be audited in one run (Steinke, Nasr & Jagielski 2023, which assumes
    these coins); one that is trained on exactly half of the examples cannot.
    """
    count = check_count("num_examples", num_examples)
    return np.asarray(rng.random(count) < check_probability("rate", rate), dtype=np.bool_)


def _pairs(num_examples: int, total: int, rng: np.random.Generator) -> Iterator[Bools]:
    if num_examples < _FEWEST:
        raise InvalidArgument("x", num_examples, "two examples or more", "Otherwise nobody is left out")
    for _ in range(total // 2):
        half = np.zeros(num_examples, dtype=np.bool_)
        half[rng.permutation(num_examples)[: num_examples // 2]] = True
        yield half
        yield ~half


def _answers(predict: Predict, x: NDArray[Any], num_classes: int) -> Floats:
    table = finite("fit(...)(x)", predict(x), dimensions=(2,))
    if table.shape != (len(x), num_classes):
        raise InvalidArgument(
            "fit(...)(x)",
            table.shape,
            f"probabilities of shape {(len(x), num_classes)}",
            "Classes that a sample lacks have a column, too",
        )
    return table
