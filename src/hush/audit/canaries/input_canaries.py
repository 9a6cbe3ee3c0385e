"""Input canaries: examples whose presence a model is likely to show, each included or not by a coin of its own."""

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
    """Some units with a wrong label each: what no model says of them unless it has seen them.

    Attributes:
        units: Which units, as places among all.
        labels: Their wrong labels.
        included: Which of them take part; the others must take no part at all.
    """

    units: Integers
    labels: Integers
    included: NDArray[np.bool_]

    def again(self, source: RandomSource | None = None) -> LabelCanaries:
        """Return the same with fresh coins, for another run."""
        return LabelCanaries(units=self.units, labels=self.labels, included=_coins(len(self.units), source))


def label_canaries(
    labels: ArrayLike, *, num_classes: int, num_canaries: int, source: RandomSource | None = None
) -> LabelCanaries:
    """Choose units at random, a wrong label for each, and by fair coins which of them take part.

    Args:
        labels: The true label of every unit; of one that has none, -1.
        num_classes: How many classes there are.
        num_canaries: How many to choose.
        source: Where the choices come from; for tests, a TestSource.

    References:
        Steinke, Nasr & Jagielski 2023, Section 6 (mislabelled canaries, half of them included).
    """
    given = np.asarray(labels)
    if given.ndim != 1 or not np.issubdtype(given.dtype, np.integer):
        raise InvalidArgument("labels", given.shape, "one whole number for each unit")
    if not check_count("num_classes", num_classes) >= 2:
        raise InvalidArgument("num_classes", num_classes, "two at least", "With one class no label is wrong")
    if not bool(np.all((given >= -1) & (given < num_classes))):
        raise InvalidArgument("labels", "...", "numbers from 0 up to num_classes, or -1")
    if not check_count("num_canaries", num_canaries) <= len(given):
        raise InvalidArgument("num_canaries", num_canaries, "at most as many as there are units")
    own = source_or_default(source)
    units = np.sort(np.argsort(np.asarray(uniform_below(own, 1 << 62, len(given))))[:num_canaries]).astype(np.int64)
    shifts = np.asarray(uniform_below(own, num_classes - 1, num_canaries), dtype=np.int64)
    # From -1, which stands for no label, a shift of 1 to num_classes - 1 leads to a class, too.
    wrong = (given[units].astype(np.int64) + 1 + shifts) % num_classes
    return LabelCanaries(units=units, labels=wrong, included=_coins(num_canaries, own))


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
    """Bound epsilon from how models answer on canaries, of one run or of several.

    With several runs each canary has a score and a coin of its own in each. Its mean score in the *other* runs,
    whatever their coins were, is taken off: what a model says of it anyway. Then all scores are one run's: each coin
    has an influence on one model only, so all models together keep the promise to each coin.

    Args:
        scores: For [runs, canaries], or [canaries]: higher means more likely to have taken part.
        included: The coins, of the same shape.
        delta: At which epsilon is meant.
        confidence: Of the bound.
        guessed: For which share of the canaries to guess; half of those "took part", half "did not".
        unit: What a canary is.
        relation: How the canary that takes part differs from the one that does not.

    Returns:
        The bound; ``epsilon_at_best`` in its details is what it would be if every guess were right.

    Guarantee:
        With probability ``confidence``, epsilon_lower is at most the true epsilon of one run at delta.

    Assumes:
        Coins were fair and independent, and scores depend on the models alone, not on the coins (the caller's duty).
        Runs are independent (the caller's duty). The share to guess was fixed beforehand (the caller's duty).

    References:
        Steinke, Nasr & Jagielski 2023, Theorem 5.2 (one run); that runs with coins of their own can be joined is
        parallel composition.
    """
    found = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    if found.ndim != 2:
        raise InvalidArgument("scores", found.shape, "[runs, canaries] or [canaries]")
    coins = mask("included", np.atleast_2d(np.asarray(included)), found.shape)
    if not 0 < guessed <= 1:
        raise InvalidArgument("guessed", guessed, "a share in (0, 1]")
    centred = calibrated_scores(found)
    each = max(int(centred.size * guessed / 2), 1)
    result = audit_one_run(
        centred.ravel(),
        coins.ravel(),
        num_guesses=each,
        num_out_guesses=min(each, centred.size - each),
        delta=delta,
        confidence=confidence,
        unit=Unit.example() if unit is None else unit,
        relation=relation,
    )
    guesses = int(result.details["num_guesses"])
    best = one_run_epsilon(centred.size, guesses, guesses, significance=1 - confidence, delta=delta)
    return replace(result, details={**result.details, "epsilon_at_best": best})


def calibrated_scores(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return scores of [runs, canaries] less each canary's mean over the other runs; of one run, as they are."""
    runs = len(scores)
    if runs == 1:
        return scores
    others = (scores.sum(0) - scores) / (runs - 1)
    return np.asarray(scores - others)


def _coins(count: int, source: RandomSource | None) -> NDArray[np.bool_]:
    return np.asarray(uniform_below(source_or_default(source), 2, count), dtype=np.bool_)
