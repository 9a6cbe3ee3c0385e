"""What a model says of each example's own class: the numbers that membership attacks are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, logsumexp

from hush.errors import InvalidArgument

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# What single precision rounds to zero lies below its smallest number, 1.4e-45.
_FLOOR = 1e-45


def confidence(probabilities: ArrayLike, labels: ArrayLike) -> Floats:
    """Return the probability that a model gives to each example's own class.

    Args:
        probabilities: Of all classes, along the last axis: (examples, classes), or (models, examples, classes).
        labels: The class of each example, from 0 on.
    """
    return _own(_probabilities(probabilities), labels)


def cross_entropy(probabilities: ArrayLike, labels: ArrayLike) -> Floats:
    """Return each example's loss, the negative logarithm of `confidence`, finite even where that is 0."""
    return -np.log(np.maximum(confidence(probabilities, labels), _FLOOR))


def logit_confidence(probabilities: ArrayLike, labels: ArrayLike) -> Floats:
    """Return ln p - ln(1 - p), where p is the `confidence`; LiRA's statistic, which is nearly Gaussian.

    1 - p is the sum of the other classes' probabilities, which keeps the digits that a subtraction from 1 would lose.
    Probabilities that were rounded to 0 count as 1e-45. `logit_confidence_of_logits` rounds nothing.

    >>> logit_confidence([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]], [0, 0]).round(2).tolist()
    [0.0, 103.62]

    References:
        Carlini, Chien, Nasr, Song, Terzis & Tramer 2022, "Membership inference attacks from first principles",
        Section VI.A.
    """
    table = _probabilities(probabilities)
    own = _own(table, labels)
    others = np.where(_is_own(table, labels), 0.0, table).sum(-1)
    return np.asarray(np.log(np.maximum(own, _FLOOR)) - np.log(np.maximum(others, _FLOOR)))


def logit_confidence_of_logits(logits: ArrayLike, labels: ArrayLike) -> Floats:
    """Return the same as `logit_confidence` from a model's logits, without rounding towards certainty.

    >>> logit_confidence_of_logits([[1000.0, 0.0]], [0]).tolist()
    [1000.0]
    """
    table = finite("logits", logits, dimensions=(2, 3))
    _check_classes(table)
    scaled = log_softmax(table, axis=-1)
    others = logsumexp(np.where(_is_own(table, labels), -np.inf, scaled), axis=-1)
    return np.asarray(_own(scaled, labels) - others, dtype=np.float64)


def finite(name: str, values: ArrayLike, *, dimensions: tuple[int, ...]) -> Floats:
    """Return numbers as an array, if there are some and all of them are finite."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument(name, type(values).__name__, "an array of numbers") from None
    if array.ndim not in dimensions or array.size == 0:
        shapes = " or ".join(str(each) for each in dimensions)
        raise InvalidArgument(name, array.shape, f"an array of {shapes} dimensions that is not empty")
    if not np.isfinite(array).all():
        raise InvalidArgument(
            name, "...", "finite numbers", "A model that returns NaN or infinity has no confidence to compare"
        )
    return array


def mask(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Bools:
    """Return true and false as an array of the given shape; 0 and 1 will do."""
    array = np.asarray(values)
    if array.dtype != np.bool_ and not (array.dtype.kind in "iuf" and np.isin(array, (0, 1)).all()):
        raise InvalidArgument(name, array.dtype.name, "true or false for each entry")
    if array.shape != shape:
        raise InvalidArgument(name, array.shape, f"the shape {shape}")
    return array.astype(np.bool_)


def classes(labels: ArrayLike, num_examples: int, num_classes: int) -> NDArray[np.int64]:
    """Return classes as integers, checked against the numbers of examples and classes."""
    array = np.asarray(labels)
    if array.dtype.kind not in "iu" or array.shape != (num_examples,):
        raise InvalidArgument("labels", (array.dtype.name, array.shape), f"{num_examples} integers")
    if not ((array >= 0) & (array < num_classes)).all():
        raise InvalidArgument("labels", "...", f"classes from 0 to {num_classes - 1}")
    return array.astype(np.int64)


def _probabilities(values: Any) -> Floats:
    table = finite("probabilities", values, dimensions=(2, 3))
    _check_classes(table)
    # Single precision sums to 1 within 1e-6 or so; more than that is no distribution, but logits, say.
    if not ((table >= 0).all() and np.allclose(table.sum(-1), 1.0, rtol=0, atol=1e-3)):
        raise InvalidArgument(
            "probabilities", "...", "numbers >= 0 that add up to 1 along the last axis", "Logits have a function apart"
        )
    return table


def _check_classes(table: Floats) -> None:
    if table.shape[-1] < 2:
        raise InvalidArgument(
            "classes", table.shape[-1], "two or more along the last axis", "A single class has confidence 1 always"
        )


def _is_own(table: Floats, labels: ArrayLike) -> Bools:
    own = classes(labels, table.shape[-2], table.shape[-1])
    return np.asarray(np.arange(table.shape[-1]) == own[:, None])


def _own(table: Floats, labels: ArrayLike) -> Floats:
    own = classes(labels, table.shape[-2], table.shape[-1])
    return np.asarray(table[..., np.arange(len(own)), own], dtype=np.float64)
