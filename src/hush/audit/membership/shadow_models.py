"""Shadow models: the target's training, repeated on samples whose members are known."""

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
from hush.errors import InvalidArgument, check_count, check_positive, check_probability
from hush.randomness import public_generator

Predict: TypeAlias = Callable[[NDArray[Any]], ArrayLike]
Fit: TypeAlias = Callable[[NDArray[Any], NDArray[np.int64]], Predict]
ProgressCallback: TypeAlias = Callable[[int, int], None]

_MIN_MODELS = 2
_MIN_EXAMPLES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadows:
    """Predictions of shadow models for every example, and which examples each model was trained on.

    >>> import numpy as np
    >>> shadow_models = Shadows(
    ...     probabilities=np.array([[[0.9, 0.1]], [[0.6, 0.4]]]),
    ...     included=np.array([[True], [False]]),
    ...     labels=np.array([0]),
    ... )
    >>> shadow_models.confidence.tolist()
    [[0.9], [0.6]]

    Attributes:
        probabilities: Class probabilities: (models, examples, classes).
        included: Which examples each model was trained on: (models, examples).
        labels: The true class of each example.
        stopped: Whether the time budget ran out before all models were trained.
    """

    probabilities: Floats
    included: Bools
    labels: NDArray[np.int64]
    stopped: bool = False

    @property
    def confidence(self) -> Floats:
        """The probability of each example's true class: (models, examples)."""
        return confidence_of(self.probabilities, self.labels)

    @property
    def logit_confidence(self) -> Floats:
        """The logit of that probability, by `logit_confidence`: (models, examples)."""
        return logit_of(self.probabilities, self.labels)


def shadows(
    fit: Fit,
    x: NDArray[Any],
    labels: ArrayLike,
    *,
    num_models: int,
    num_classes: int,
    rng: int | np.random.Generator,
    progress: ProgressCallback | None = None,
    seconds: float | None = None,
) -> Shadows:
    """Train shadow models on random halves of the examples, and record their predictions for every example.

    Models come in pairs. The second model of a pair is trained on the examples that the first one left out. So every
    example is in exactly half of the models, even if the time runs out, and every attack has models of both kinds.

    >>> import numpy as np
    >>> def fit(x, labels):  # predicts the class frequencies of its training data
    ...     frequencies = np.bincount(labels, minlength=2) / len(labels)
    ...     return lambda new: np.tile(frequencies, (len(new), 1))
    >>> x, labels = np.zeros((6, 1)), np.array([0, 0, 0, 1, 1, 1])
    >>> trained = shadows(fit, x, labels, num_models=4, num_classes=2, rng=0)
    >>> trained.probabilities.shape, trained.included.sum(0).tolist()
    ((4, 6, 2), [2, 2, 2, 2, 2, 2])

    Args:
        fit: A function of examples and classes that trains a model. It returns a function from examples to class
            probabilities (examples, classes). It must do what the target's training does, including its randomness.
        x: The examples: anything that ``fit`` accepts and that can be indexed by a mask.
        labels: The class of each example, counted from 0.
        num_models: The number of models, even.
        num_classes: The number of classes. A sample may lack some of them.
        rng: Draws the halves: a seed or a NumPy generator.
        progress: Called with the number of finished models and the total.
        seconds: The time budget. No pair is started once it is used up, but at least one pair is trained.

    Returns:
        The predictions and the samples of all trained models.
    """
    total = check_count("num_models", num_models, minimum=_MIN_MODELS)
    if total % 2:
        raise InvalidArgument("num_models", total, "an even number", "Models come in pairs of complementary samples")
    limit = np.inf if seconds is None else check_positive("seconds", seconds)
    true_classes = checked_classes(labels, len(x), check_count("num_classes", num_classes, minimum=2))
    generator = public_generator(rng)
    predictions: list[Floats] = []
    halves: list[Bools] = []
    started = time.monotonic()
    for half in _complementary_halves(len(true_classes), total, generator):
        pair_is_complete = len(predictions) % 2 == 0
        if pair_is_complete and predictions and time.monotonic() - started > limit:
            break
        predictions.append(_predictions(fit(x[half], true_classes[half]), x, num_classes))
        halves.append(half)
        if progress is not None:
            progress(len(predictions), total)
    return Shadows(
        probabilities=np.stack(predictions),
        included=np.stack(halves),
        labels=true_classes,
        stopped=len(predictions) < total,
    )


def coin_sample(num_examples: int, *, rng: int | np.random.Generator, rate: float = 0.5) -> Bools:
    """Choose the target's training examples by independent coins.

    A target trained on such a sample can be audited by `hush.audit.audit_one_run`, whose theorem assumes these coins
    (Steinke, Nasr & Jagielski 2023). A target trained on exactly half of the examples cannot.

    >>> coin_sample(4, rng=0).tolist()
    [False, True, True, True]

    Args:
        num_examples: The number of examples.
        rng: Draws the coins: a seed or a NumPy generator.
        rate: The probability of each coin. Audits of one run need 1/2.

    Returns:
        True for each example that the target should be trained on.
    """
    count = check_count("num_examples", num_examples)
    # Independent coins, unlike exact halves: given the others, a coin of an exact half would be known.
    return np.asarray(public_generator(rng).random(count) < check_probability("rate", rate), dtype=np.bool_)


def _complementary_halves(num_examples: int, total: int, rng: np.random.Generator) -> Iterator[Bools]:
    if num_examples < _MIN_EXAMPLES:
        raise InvalidArgument("x", num_examples, "at least two examples", "Otherwise no example is left out")
    for _ in range(total // 2):
        # A half and its complement: every example is in exactly half of the models, so both hypotheses have equal data.
        half = np.zeros(num_examples, dtype=np.bool_)
        half[rng.permutation(num_examples)[: num_examples // 2]] = True
        yield half
        yield ~half


def _predictions(predict: Predict, x: NDArray[Any], num_classes: int) -> Floats:
    table = finite("fit(...)(x)", predict(x), dimensions=(2,))
    if table.shape != (len(x), num_classes):
        raise InvalidArgument(
            "fit(...)(x)",
            table.shape,
            f"probabilities of shape {(len(x), num_classes)}",
            "Include a column for classes that a sample lacks",
        )
    return table
