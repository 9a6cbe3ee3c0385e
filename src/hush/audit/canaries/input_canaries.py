"""Canaries with wrong labels, each included in the training by a fair coin.

label_canaries         choose units, wrong labels and coins
your training          relabel the included canaries, leave out the others, and score all of them on the model
audit_label_canaries   calibrate the scores over runs, guess the coins, and bound epsilon (`canary_scores`)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hush.errors import InvalidArgument, check_count
from hush.randomness import RandomSource, source_or_default, uniform_below

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class LabelCanaries:
    """Units with wrong labels, which a model predicts only if it was trained on them.

    >>> from hush.randomness import TestSource
    >>> canaries = label_canaries([0, 1, 2, 0], num_classes=3, num_canaries=2, source=TestSource(1))
    >>> len(canaries.units), len(canaries.again(TestSource(2)).included)
    (2, 2)

    Attributes:
        units: The indices of the chosen units.
        labels: Their wrong labels.
        included: Which of them take part in training. Leave out the others completely.
    """

    units: Integers
    labels: Integers
    included: NDArray[np.bool_]

    def again(self, source: RandomSource | None = None) -> LabelCanaries:
        """Return the same canaries with fresh coins, for another run."""
        return LabelCanaries(units=self.units, labels=self.labels, included=_coins(len(self.units), source))


def label_canaries(
    labels: ArrayLike, *, num_classes: int, num_canaries: int, source: RandomSource | None = None
) -> LabelCanaries:
    """Choose random units, a wrong label for each, and fair coins that decide which of them are trained on.

    Args:
        labels: The true label of every unit, or -1 for a unit without one.
        num_classes: The number of classes.
        num_canaries: The number of canaries to choose.
        source: The source of randomness. Pass a TestSource in tests only.

    Returns:
        The canaries.

    References:
        Steinke, Nasr & Jagielski 2023, Section 6 (mislabelled canaries, half of them included).
    """
    true_labels = np.asarray(labels)
    if true_labels.ndim != 1 or not np.issubdtype(true_labels.dtype, np.integer):
        raise InvalidArgument("labels", true_labels.shape, "one integer for each unit")
    if not check_count("num_classes", num_classes) >= 2:
        raise InvalidArgument("num_classes", num_classes, "at least two", "With one class, no label is wrong")
    if not bool(np.all((true_labels >= -1) & (true_labels < num_classes))):
        raise InvalidArgument("labels", "...", "integers from 0 to num_classes - 1, or -1")
    if not check_count("num_canaries", num_canaries) <= len(true_labels):
        raise InvalidArgument("num_canaries", num_canaries, "at most the number of units")
    source = source_or_default(source)
    # Sorting by random 62-bit keys is a uniform choice without replacement; ties have probability below n^2 / 2^63.
    sort_keys = np.asarray(uniform_below(source, 1 << 62, len(true_labels)))
    units = np.sort(np.argsort(sort_keys)[:num_canaries]).astype(np.int64)
    shifts = np.asarray(uniform_below(source, num_classes - 1, num_canaries), dtype=np.int64)
    # A shift of 1 to num_classes - 1 leads to another class; from -1, which means no label, to any but the last.
    wrong_labels = (true_labels[units].astype(np.int64) + 1 + shifts) % num_classes
    return LabelCanaries(units=units, labels=wrong_labels, included=_coins(num_canaries, source))


def _coins(count: int, source: RandomSource | None) -> NDArray[np.bool_]:
    return np.asarray(uniform_below(source_or_default(source), 2, count), dtype=np.bool_)
