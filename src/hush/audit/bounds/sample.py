"""Attack scores of members and non-members, checked once, and the counts at any threshold.

Every bound in this package starts here. A higher score means that a record looks more like a member of the training
data. At a threshold t, ``tp`` members and ``fp`` non-members score t or more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hush.errors import InvalidArgument

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Rungs of the ladder are at most one standard deviation of the count apart, or this share of it: rounding a count up to
# the next rung then costs little, and the number of rungs, which the error is divided by, grows slowly.
_RELATIVE_STEP = 0.05


@dataclass(frozen=True)
class Sample:
    """Scores of members and non-members; higher means more like a member.

    Attributes:
        inside: Scores of members.
        outside: Scores of non-members.
        coins: For canaries of one run, in the order in which the coins were tossed: True where the canary was included.
            ``inside`` and ``outside`` keep that order. None if the order is unknown.
    """

    inside: Floats
    outside: Floats
    coins: Bools | None = None

    @classmethod
    def of(cls, scores_in: ArrayLike, scores_out: ArrayLike) -> Sample:
        """Check the two arrays and return them as a sample."""
        return cls(as_scores("scores_in", scores_in), as_scores("scores_out", scores_out))

    @property
    def num_in(self) -> int:
        """The number of members."""
        return self.inside.size

    @property
    def num_out(self) -> int:
        """The number of non-members."""
        return self.outside.size

    @cached_property
    def sorted_in(self) -> Floats:
        """Scores of members, ascending."""
        return np.sort(self.inside)

    @cached_property
    def sorted_out(self) -> Floats:
        """Scores of non-members, ascending."""
        return np.sort(self.outside)

    @cached_property
    def ranked(self) -> Floats:
        """All scores, ascending."""
        return np.sort(np.concatenate([self.inside, self.outside]))

    def counts(self, thresholds: ArrayLike) -> tuple[Ints, Ints]:
        """Return how many members and how many non-members score at least each threshold."""
        # side="left" counts the scores below the threshold; a score equal to it is flagged.
        tp = self.num_in - np.searchsorted(self.sorted_in, thresholds, side="left")
        fp = self.num_out - np.searchsorted(self.sorted_out, thresholds, side="left")
        return np.asarray(tp, np.int64), np.asarray(fp, np.int64)

    def candidates(self) -> Floats:
        """Return the few thresholds worth trying: one or two for each rung of `ladder`.

        For each allowed number of false positives, the lowest threshold with no more of them. For each allowed number
        of false negatives, the highest threshold with no more of them. No other threshold has a better bound.
        """
        out_rungs, in_rungs = ladder(self.num_out), ladder(self.num_in)
        # With k false positives allowed, the threshold lies just above the (k + 1)-th largest non-member score.
        # "score > t" is "score >= the next float": no score lies between. Nothing lies above an infinite score.
        excluded = self.sorted_out[::-1][out_rungs[out_rungs < self.num_out]]
        just_above = np.nextafter(excluded[excluded < np.inf], np.inf)
        included = self.sorted_in[in_rungs[in_rungs < self.num_in]]
        return np.unique(np.concatenate([just_above, included]))

    def stratified(self, fraction: float, rng: np.random.Generator) -> tuple[Sample, Sample]:
        """Split members and non-members separately, each at ``fraction``. For independent scores."""
        (first_in, second_in), (first_out, second_out) = (
            _cut(scores, fraction, rng) for scores in (self.inside, self.outside)
        )
        return Sample(first_in, first_out), Sample(second_in, second_out)

    def pooled(self, fraction: float, rng: np.random.Generator) -> tuple[Sample, Sample]:
        """Split canaries of one run without looking at their coins, so that the coins of both parts stay fair.

        This needs the original order. If all members came first, the seed would fix how many members each part has, and
        the coins of the second part would no longer be independent and fair.
        """
        if self.coins is None:
            raise InvalidArgument(
                "threshold",
                "a split",
                "a rule that does not split, because the order of the canaries is unknown",
                "To split canaries of one run, use audit_one_run(scores, included, threshold=...)",
            )
        size = self.num_in + self.num_out
        # The choice depends on the seed and the number of canaries, not on coins or scores.
        in_first = np.zeros(size, dtype=bool)
        in_first[rng.permutation(size)[: round(size * fraction)]] = True
        first, second = (
            Sample(self.inside[part[self.coins]], self.outside[part[~self.coins]], self.coins[part])
            for part in (in_first, ~in_first)
        )
        return first, second


def as_scores(name: str, values: ArrayLike) -> Floats:
    """Return scores as a one-dimensional float array. Infinite scores are allowed, NaN is refused."""
    try:
        scores = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument(name, type(values).__name__, "an array of numbers") from None
    if scores.ndim != 1 or scores.size == 0:
        raise InvalidArgument(
            name,
            f"array of shape {scores.shape}",
            "a one-dimensional array with at least one score",
            "An audit needs members and non-members",
        )
    if np.isnan(scores).any():
        advice = (
            "Dropping NaN after seeing the scores would bias the audit",
            "Decide in advance which score a failure gets",
        )
        raise InvalidArgument(name, "array with NaN", "numbers, possibly infinite", *advice)
    return scores


def ladder(total: int) -> Ints:
    """Return counts from 0 to ``total``, dense at both ends and sparse in between.

    The rungs depend on ``total`` alone, never on scores, so a union bound over them is valid.

    >>> ladder(20).tolist()
    [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 15, 16, 17, 18, 19, 20]
    """
    rungs, half = [0], total // 2
    while rungs[-1] < half:
        last = rungs[-1]
        # sqrt(k (1 - k / n)) is the standard deviation of a binomial count k.
        step = max(1, int(math.sqrt(last * (1 - last / total))), int(_RELATIVE_STEP * last))
        rungs.append(min(last + step, half))
    # Mirrored, because a count k of flags is a count n - k of the others.
    lower_half = np.array(rungs, dtype=np.int64)
    return np.unique(np.concatenate([lower_half, total - lower_half]))


def _cut(scores: Floats, fraction: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    size = round(scores.size * fraction)
    if not 0 < size < scores.size:
        raise InvalidArgument("fraction", fraction, "a fraction that leaves both parts with scores of both classes")
    # Independent scores are exchangeable, so any fixed-size random split keeps both parts independent.
    order = rng.permutation(scores.size)
    return scores[order[:size]], scores[order[size:]]
