"""Membership signals: how well a model knows each example's true class.

Every attack in this package starts from these: a model's probabilities or logits become one number per example. Arrays
have the shape (examples, classes) for one model, or (models, examples, classes) for several.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, logsumexp

from hush.errors import InvalidArgument

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Single precision rounds probabilities below its smallest number, 1.4e-45, to zero. Such zeros count as this.
_FLOOR = 1e-45


def confidence(probabilities: ArrayLike, labels: ArrayLike) -> Floats:
    """Return the probability that a model gives to each example's true class.

    >>> confidence([[0.75, 0.25], [0.5, 0.5]], [0, 1]).tolist()
    [0.75, 0.5]

    Args:
        probabilities: Class probabilities: (examples, classes), or (models, examples, classes).
        labels: The true class of each example, counted from 0.

    Returns:
        One probability per example: (examples,), or (models, examples).
    """
    return _of_true_class(_checked_probabilities(probabilities), labels)


def cross_entropy(probabilities: ArrayLike, labels: ArrayLike) -> Floats:
    """Return each example's loss: the negative logarithm of `confidence`, finite even if that is 0.

    >>> cross_entropy([[0.75, 0.25], [0.5, 0.5]], [0, 1]).round(4).tolist()
    [0.2877, 0.6931]

    Args:
        probabilities: Class probabilities: (examples, classes), or (models, examples, classes).
        labels: The true class of each example, counted from 0.

    Returns:
        One loss per example: (examples,), or (models, examples).
    """
    # -ln p of the true class; the floor keeps a probability that was rounded to 0 finite.
    return -np.log(np.maximum(confidence(probabilities, labels), _FLOOR))


def logit_confidence(scores: ArrayLike, labels: ArrayLike, *, from_logits: bool = False) -> Floats:
    """Return ln p - ln(1 - p), where p is the `confidence`. This is LiRA's statistic, which is nearly Gaussian.

    1 - p is computed as the sum of the other classes' probabilities: subtracting p from 1 would lose digits.
    Probabilities that were rounded to 0 count as 1e-45. If you have logits, pass them: they involve no rounding.

    >>> logit_confidence([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]], [0, 0]).round(2).tolist()
    [0.0, 103.62]
    >>> logit_confidence([[1000.0, 0.0]], [0], from_logits=True).tolist()
    [1000.0]

    Args:
        scores: Class probabilities, or logits: (examples, classes), or (models, examples, classes).
        labels: The true class of each example, counted from 0.
        from_logits: Whether the scores are logits.

    Returns:
        One number per example: (examples,), or (models, examples).

    References:
        Carlini, Chien, Nasr, Song, Terzis & Tramer 2022, "Membership inference attacks from first principles",
        Section VI.A.
    """
    if from_logits:
        return _of_logits(scores, labels)
    table = _checked_probabilities(scores)
    true_class = _of_true_class(table, labels)
    other_classes = np.where(_true_class_mask(table, labels), 0.0, table).sum(-1)
    return np.asarray(np.log(np.maximum(true_class, _FLOOR)) - np.log(np.maximum(other_classes, _FLOOR)))


def _of_logits(logits: ArrayLike, labels: ArrayLike) -> Floats:
    table = finite("scores", logits, dimensions=(2, 3))
    _check_classes(table)
    log_probabilities = log_softmax(table, axis=-1)
    # ln p - ln(1 - p), with ln(1 - p) as the logarithm of the sum of all other probabilities.
    other_classes = logsumexp(np.where(_true_class_mask(table, labels), -np.inf, log_probabilities), axis=-1)
    return np.asarray(_of_true_class(log_probabilities, labels) - other_classes, dtype=np.float64)


def finite(name: str, values: ArrayLike, *, dimensions: tuple[int, ...]) -> Floats:
    """Return values as a float array, checked to be finite, not empty, and of the right number of dimensions."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument(name, type(values).__name__, "an array of numbers") from None
    if array.ndim not in dimensions or array.size == 0:
        allowed = " or ".join(str(dimension) for dimension in dimensions)
        raise InvalidArgument(name, array.shape, f"a non-empty array of {allowed} dimensions")
    if not np.isfinite(array).all():
        raise InvalidArgument(
            name, "...", "finite numbers", "If a model returns NaN or infinity, its confidence cannot be compared"
        )
    return array


def mask(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Bools:
    """Return values as a boolean array of the given shape. Zeros and ones are accepted."""
    array = np.asarray(values)
    if array.dtype != np.bool_ and not (array.dtype.kind in "iuf" and np.isin(array, (0, 1)).all()):
        raise InvalidArgument(name, array.dtype.name, "true or false for each entry")
    if array.shape != shape:
        raise InvalidArgument(name, array.shape, f"the shape {shape}")
    return array.astype(np.bool_)


def classes(labels: ArrayLike, num_examples: int, num_classes: int) -> NDArray[np.int64]:
    """Return labels as integers, checked against the numbers of examples and classes."""
    array = np.asarray(labels)
    if array.dtype.kind not in "iu" or array.shape != (num_examples,):
        raise InvalidArgument("labels", (array.dtype.name, array.shape), f"{num_examples} integers")
    if not ((array >= 0) & (array < num_classes)).all():
        raise InvalidArgument("labels", "...", f"classes from 0 to {num_classes - 1}")
    return array.astype(np.int64)


def _checked_probabilities(values: Any) -> Floats:
    table = finite("probabilities", values, dimensions=(2, 3))
    _check_classes(table)
    # Single precision sums to 1 within about 1e-6. Anything farther off is not a distribution; most likely logits.
    if not ((table >= 0).all() and np.allclose(table.sum(-1), 1.0, rtol=0, atol=1e-3)):
        raise InvalidArgument(
            "probabilities",
            "...",
            "numbers >= 0 that add up to 1 along the last axis",
            "For logits, use logit_confidence(..., from_logits=True)",
        )
    return table


def _check_classes(table: Floats) -> None:
    if table.shape[-1] < 2:
        raise InvalidArgument(
            "classes",
            table.shape[-1],
            "at least two along the last axis",
            "With a single class, confidence is always 1",
        )


def _true_class_mask(table: Floats, labels: ArrayLike) -> Bools:
    true_classes = classes(labels, table.shape[-2], table.shape[-1])
    return np.asarray(np.arange(table.shape[-1]) == true_classes[:, None])


def _of_true_class(table: Floats, labels: ArrayLike) -> Floats:
    true_classes = classes(labels, table.shape[-2], table.shape[-1])
    return np.asarray(table[..., np.arange(len(true_classes)), true_classes], dtype=np.float64)
