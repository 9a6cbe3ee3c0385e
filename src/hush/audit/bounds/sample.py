"""Two samples of attack scores, checked once, and how often a threshold accuses whom."""

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

# Between neighbouring counts at which bands are corrected for, what rounding to them costs at most: a standard
# deviation of the count, or a twentieth of it.
_SHARE = 0.05


@dataclass(frozen=True)
class Sample:
    """Scores of members and of others; the higher, the more a record looks like a member's.

    ``coins``, where known, says which of the canaries, in an order of their own, are members; their scores come in it.
    """

    inside: Floats
    outside: Floats
    coins: Bools | None = None

    @classmethod
    def of(cls, scores_in: ArrayLike, scores_out: ArrayLike) -> Sample:
        """Check both arrays."""
        return cls(as_scores("scores_in", scores_in), as_scores("scores_out", scores_out))

    @property
    def num_in(self) -> int:
        """How many members."""
        return self.inside.size

    @property
    def num_out(self) -> int:
        """How many others."""
        return self.outside.size

    @cached_property
    def sorted_in(self) -> Floats:
        """Members' scores, ascending."""
        return np.sort(self.inside)

    @cached_property
    def sorted_out(self) -> Floats:
        """Others' scores, ascending."""
        return np.sort(self.outside)

    @cached_property
    def ranked(self) -> Floats:
        """All scores, ascending."""
        return np.sort(np.concatenate([self.inside, self.outside]))

    def counts(self, thresholds: ArrayLike) -> tuple[Ints, Ints]:
        """Return how many members and how many others score at least each threshold."""
        tp = self.num_in - np.searchsorted(self.sorted_in, thresholds, side="left")
        fp = self.num_out - np.searchsorted(self.sorted_out, thresholds, side="left")
        return np.asarray(tp, np.int64), np.asarray(fp, np.int64)

    def candidates(self) -> Floats:
        """Return thresholds at which the counts reach, from below, those of `ladder`: few, and none is much better.

        For each allowed number of false accusations the lowest threshold that makes no more of them, and for each
        number of members missed the highest that misses no more.
        """
        others, members = ladder(self.num_out), ladder(self.num_in)
        # "score > t" is "score >= the next float": nothing lies between.
        allowed = self.sorted_out[::-1][others[others < self.num_out]]
        above = np.nextafter(allowed[allowed < np.inf], np.inf)  # nothing is above an infinite score
        upto = self.sorted_in[members[members < self.num_in]]
        return np.unique(np.concatenate([above, upto]))

    def stratified(self, fraction: float, rng: np.random.Generator) -> tuple[Sample, Sample]:
        """Split members and others apart, each at ``fraction``: for independent samples."""
        (a, b), (c, d) = (_cut(scores, fraction, rng) for scores in (self.inside, self.outside))
        return Sample(a, c), Sample(b, d)

    def pooled(self, fraction: float, rng: np.random.Generator) -> tuple[Sample, Sample]:
        """Split canaries in their own order, without a look at who is a member: what is left has fair coins.

        With members in front, a seed would fix how many of each part are members: then the coins would be fair no more.
        """
        if self.coins is None:
            raise InvalidArgument(
                "threshold",
                "a split",
                "another rule where the order of the canaries is unknown",
                "To split without a look at the coins, use audit_one_run(scores, included, threshold=...)",
            )
        size = self.num_in + self.num_out
        first = np.zeros(size, dtype=bool)
        first[rng.permutation(size)[: round(size * fraction)]] = True
        parts = first, ~first
        one, two = (
            Sample(self.inside[part[self.coins]], self.outside[part[~self.coins]], self.coins[part]) for part in parts
        )
        return one, two


def as_scores(name: str, values: ArrayLike) -> Floats:
    """Return scores as a flat array of floats; infinite ones are in order, NaN is refused."""
    try:
        scores = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument(name, type(values).__name__, "an array of numbers") from None
    if scores.ndim != 1 or scores.size == 0:
        raise InvalidArgument(
            name, f"array of shape {scores.shape}", "a flat array with one score at least", "Both classes are needed"
        )
    if np.isnan(scores).any():
        advice = "To leave them out would be a choice made after the fact", "Decide beforehand what a failure scores"
        raise InvalidArgument(name, "array with NaN", "numbers, infinite ones allowed", *advice)
    return scores


def ladder(total: int) -> Ints:
    """Return counts from 0 to ``total``, close to each other at both ends: the same whatever the data.

    >>> ladder(20).tolist()
    [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 15, 16, 17, 18, 19, 20]
    """
    steps, half = [0], total // 2
    while steps[-1] < half:
        last = steps[-1]
        step = max(1, int(math.sqrt(last * (1 - last / total))), int(_SHARE * last))
        steps.append(min(last + step, half))
    low = np.array(steps, dtype=np.int64)
    return np.unique(np.concatenate([low, total - low]))


def _cut(scores: Floats, fraction: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    size = round(scores.size * fraction)
    if not 0 < size < scores.size:
        raise InvalidArgument("fraction", fraction, "a fraction that leaves scores of each class in both parts")
    order = rng.permutation(scores.size)
    return scores[order[:size]], scores[order[size:]]
