"""Canaries with wrong labels, each included in the training by a fair coin.

label_canaries         choose units, wrong labels and coins
your training          relabel the included canaries, leave out the others, and score all of them on the model
audit_label_canaries   calibrate the scores over runs, guess the coins, and bound epsilon
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hush.audit.bounds.audit import audit_one_run
from hush.audit.bounds.one_run import one_run_epsilon
from hush.audit.bounds.result import AuditResult
from hush.audit.membership.signals import mask
from hush.errors import InvalidArgument, check_count
from hush.guarantee import Relation, Unit
from hush.randomness import RandomSource, source_or_default, uniform_below

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class LabelCanaries:
    """Units with a wrong label each, which a model predicts only if it has been trained on them.

    >>> from hush.randomness import TestSource
    >>> canaries = label_canaries([0, 1, 2, 0], num_classes=3, num_canaries=2, source=TestSource(1))
    >>> len(canaries.units), len(canaries.again(TestSource(2)).included)
    (2, 2)

    Attributes:
        units: The indices of the chosen units.
        labels: Their wrong labels.
        included: Which of them take part in training. Leave the others out completely.
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


def audit_label_canaries(
    scores: ArrayLike,
    included: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.95,
    guessed: float = 0.25,
    unit: Unit | None = None,
    relation: Relation = Relation.ADD_OR_REMOVE,
) -> AuditResult:
    """Bound epsilon from the scores of canaries in one run or several.

    With several runs, each canary has a score and a coin in each of them. Its mean score over the *other* runs,
    whatever their coins, is subtracted: that part does not depend on the coin in question. All calibrated scores are
    then audited together as one run. This is valid because each coin influences one model only, so the joint release of
    all models is as private towards each coin as a single model.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> included = rng.random((4, 200)) < 0.5
    >>> scores = 3.0 * included + rng.normal(size=included.shape)
    >>> result = audit_label_canaries(scores, included, delta=1e-5)
    >>> 2 < result.epsilon_lower <= result.details["epsilon_at_best"]
    True

    Args:
        scores: The scores, [runs, canaries] or [canaries]. Higher means more likely to have been included.
        included: The coins, in the same shape.
        delta: The delta at which epsilon is bounded.
        confidence: The confidence of the bound.
        guessed: The share of canaries to guess, fixed beforehand. Half of the guesses say "in", half say "out".
        unit: The privacy unit that a canary stands for.
        relation: The neighbouring relation between the data with and without a canary.

    Returns:
        The bound. ``epsilon_at_best`` in its details is the bound if every guess were correct.

    Guarantee:
        With probability ``confidence``, epsilon_lower is at most the true epsilon of one run at delta.

    Assumes:
        Fair, independent coins, and scores that depend on the models alone, not on the coins (the caller's duty).
        Independent runs (the caller's duty). A share of guesses that was fixed beforehand (the caller's duty).

    References:
        Steinke, Nasr & Jagielski 2023, Theorem 5.2 (one run). Runs with separate coins are joined by parallel
        composition.
    """
    score_table = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    if score_table.ndim != 2:
        raise InvalidArgument("scores", score_table.shape, "[runs, canaries] or [canaries]")
    coins = mask("included", np.atleast_2d(np.asarray(included)), score_table.shape)
    if not 0 < guessed <= 1:
        raise InvalidArgument("guessed", guessed, "a share in (0, 1]")
    calibrated = calibrated_scores(score_table)
    # The number of guesses depends on the number of canaries only, so it is fixed beforehand.
    guesses_per_side = max(int(calibrated.size * guessed / 2), 1)
    result = audit_one_run(
        calibrated.ravel(),
        coins.ravel(),
        num_guesses=guesses_per_side,
        num_out_guesses=min(guesses_per_side, calibrated.size - guesses_per_side),
        delta=delta,
        confidence=confidence,
        unit=Unit.example() if unit is None else unit,
        relation=relation,
    )
    total_guesses = int(result.details["num_guesses"])
    at_best = one_run_epsilon(calibrated.size, total_guesses, total_guesses, significance=1 - confidence, delta=delta)
    return replace(result, details={**result.details, "epsilon_at_best": at_best})


def calibrated_scores(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Subtract from each score the canary's mean over the other runs. The scores of a single run are unchanged.

    >>> import numpy as np
    >>> calibrated_scores(np.array([[5.0, 1.0], [3.0, 1.0]])).tolist()
    [[2.0, 0.0], [-2.0, 0.0]]

    Args:
        scores: The scores, [runs, canaries].

    Returns:
        The calibrated scores, in the same shape.
    """
    num_runs = len(scores)
    if num_runs == 1:
        return scores
    mean_of_others = (scores.sum(0) - scores) / (num_runs - 1)
    return np.asarray(scores - mean_of_others)


def _coins(count: int, source: RandomSource | None) -> NDArray[np.bool_]:
    return np.asarray(uniform_below(source_or_default(source), 2, count), dtype=np.bool_)
