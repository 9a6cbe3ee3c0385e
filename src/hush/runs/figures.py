"""Held-out metrics: accuracy overall, by class and by group, and calibration.

If the test data are public, the metrics are exact. Otherwise they are private. Every metric is computed from *tables*
of counts; a held-out unit adds at most 1 to one cell of each table, through one of its rows; and all tables together
are one Gaussian release, in which each table has a share of the precision:

    held-out rows  ->  one row per unit  ->  tables of counts  ->  noisy tables  ->  shares with intervals

Held-out units are used for nothing else, and training units are not in these tables. So the two parts
compose in parallel, and the run costs a unit the larger of the two (McSherry 2009, Theorem 4; each unit's own coin
decides which part it is in).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.data import Examples
from hush.randomness import Grid, RandomSource, floored_gaussian

CONFIDENCE = 0.95
DEVIATIONS = 1.959964  # the normal quantile at 0.975
_BINS = 10
_OTHER_GROUPS = "(other)"
# Sums that are not integers are rounded to a grid about 2^40 times finer than the noise, which can raise the
# sensitivity by far less than this factor.
ROUNDING = 1 + 1e-6
# The share of the precision, 1 / stddev^2, that each kind of table has.
SHARES = {"final": 0.5, "curve": 0.2, "classes": 0.1, "calibration": 0.1, "groups": 0.1}
# Below so many standard deviations of the noise, a count is taken for noise alone, and its metric is withheld.
DETECTED, DETECTED_BIN = 3, 4


@dataclass(frozen=True, eq=False)
class Measurer:
    """Measures a model on the held-out units.

    A table that has the share w of the precision gets noise of standard deviation noise / sqrt(w). One unit changes one
    cell of each table by at most 1. As the shares add up to 1, all tables together are one Gaussian mechanism with the
    noise multiplier ``noise``.

    Attributes:
        examples: The held-out rows.
        classes: The names of the classes.
        groups: The declared, public values of each column whose groups are compared.
        noise: The noise multiplier of all metrics together; None if they are exact.
        num_points: How often accuracy is measured during training.
        source: The source of the noise.
        rows: Which rows count: one for each unit, with a known class.

    Guarantee:
        All that `point`, called ``num_points`` times, and `figures`, called once, return has the event
        ``GaussianEvent(noise)``, for each unit, under add-or-remove.

    Assumes:
        The model does not depend on the held-out rows (the caller's duty), and each method is called no more often than
        stated (the caller's duty).

    References:
        Agresti & Coull 1998, for the intervals.
    """

    examples: Examples
    classes: tuple[str, ...]
    groups: dict[str, tuple[str, ...]]
    noise: float | None
    num_points: int
    source: RandomSource
    rows: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        """Choose the first row of each unit, which does not depend on other units."""
        units = self.examples.units
        rows = np.arange(len(self.examples)) if units is None or self.noise is None else np.unique(units, True)[1]
        rows = np.sort(rows)
        object.__setattr__(self, "rows", rows[self.examples.has_target[rows]])

    def point(self, probabilities: NDArray[np.float64]) -> dict[str, Any]:
        """Return the accuracy during training; call it ``num_points`` times at most."""
        correct = self._correct(probabilities)
        counts = self._count(correct.astype(np.int64), 2, "curve", self.num_points)
        return self._accuracy(counts, "curve", self.num_points)

    def figures(self, probabilities: NDArray[np.float64]) -> dict[str, Any]:
        """Return all metrics of the finished model; call it once."""
        correct = self._correct(probabilities)
        targets = self.examples.targets[self.rows]
        by_class = self._count(2 * targets + correct, 2 * len(self.classes), "classes", 1)
        figures: dict[str, Any] = {
            "accuracy": {
                **self._accuracy(self._count(correct.astype(np.int64), 2, "final", 1)),
                "confidence": CONFIDENCE,
            },
            "classes": [
                {"name": name, **self._accuracy(pair, "classes", 1)}
                for name, pair in zip(self.classes, by_class.reshape(-1, 2), strict=True)
            ],
            "calibration": self._calibration(probabilities, correct),
        }
        if self.groups:
            figures["groups"] = {name: self._by_group(name, correct) for name in self.groups}
        if self.noise is None:
            figures["confusion"] = self._confusion(probabilities, targets)
        for part in ("accuracy", "calibration"):
            figures[part]["private"] = self.noise is not None
        return figures

    def _correct(self, probabilities: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return for each counted row whether the most likely class is the right one."""
        correct: NDArray[np.bool_] = probabilities[self.rows].argmax(1) == self.examples.targets[self.rows]
        return correct

    def _count(self, cells: NDArray[np.int64], size: int, part: str, tables: int) -> NDArray[np.float64]:
        """Return a noisy table of how many units fall into each cell; ``tables`` tables share a part's precision."""
        return self._release(np.bincount(cells, minlength=size).astype(np.float64), part, tables)

    def _release(self, sums: NDArray[np.float64], part: str, tables: int) -> NDArray[np.float64]:
        """Add the noise of a part to a table."""
        return self.noisy(sums, self.stddev(part, tables))

    def noisy(self, sums: NDArray[np.float64], stddev: float) -> NDArray[np.float64]:
        """Return sums with noise; as they are, where metrics are exact."""
        if self.noise is None:
            return sums
        grid = Grid.for_scale(stddev)
        noise = floored_gaussian(self.source, stddev / grid.spacing, len(sums))
        return np.floor(sums / grid.spacing) * grid.spacing + grid.real(noise)

    def stddev(self, part: str, tables: int) -> float:
        """Return the standard deviation of a table's noise; shares of parts that are not released go to the others."""
        if self.noise is None:
            return 0.0
        is_released = {"groups": bool(self.groups), "curve": self.num_points > 0}
        shares = {name: share for name, share in SHARES.items() if is_released.get(name, True)}
        weight = shares[part] / sum(shares.values()) / tables
        return self.noise * ROUNDING / math.sqrt(weight)

    def _accuracy(self, counts: NDArray[np.float64], part: str = "final", tables: int = 1) -> dict[str, Any]:
        """Return an accuracy from counts of wrong and right, with an interval for sampling and for noise."""
        wrong, right = (max(float(count), 0.0) for count in counts)
        total = wrong + right
        if not total > DETECTED * self.stddev(part, tables):
            return {"value": None, "low": 0.0, "high": 1.0}
        value = right / total
        noise = self.stddev(part, tables) / total
        # The error of right / total is (wrong * error of right - right * error of wrong) / total^2.
        variance = noise**2 * (value**2 + (1 - value) ** 2)
        # For sampling, the interval of Agresti & Coull 1998, which also covers where nearly all are right.
        size = total + DEVIATIONS**2
        middle = (right + DEVIATIONS**2 / 2) / size
        half = DEVIATIONS * math.sqrt(middle * (1 - middle) / size + variance)
        return {"value": value, "low": max(middle - half, 0.0), "high": min(middle + half, 1.0)}

    def _by_group(self, column: str, correct: NDArray[np.bool_]) -> list[dict[str, Any]]:
        """Return the accuracy for each declared value of a column, and for all other values together."""
        names = (*self.groups[column], _OTHER_GROUPS)
        numbers = {name: number for number, name in enumerate(names)}
        values = self.examples.groups[column][self.rows]
        cells = np.array([numbers.get(str(value), len(names) - 1) for value in values], dtype=np.int64)
        tables = len(self.groups)
        counts = self._count(2 * cells + correct, 2 * len(names), "groups", tables).reshape(-1, 2)
        return [
            {"name": name, **_named_accuracy(self._accuracy(pair, "groups", tables))}
            for name, pair in zip(names, counts, strict=True)
        ]

    def _calibration(self, probabilities: NDArray[np.float64], correct: NDArray[np.bool_]) -> dict[str, Any]:
        """Return the reliability diagram: the mean confidence and the accuracy in each bin of confidence.

        It takes two tables: the counts of wrong and right by bin, and the sums of how far confidence is from the middle
        of its bin, in half widths of a bin, so that a unit adds at most 1.
        """
        # Weights that overflowed give NaN, which counts as 0: an exception would depend on a row.
        confidence = np.clip(np.nan_to_num(probabilities[self.rows].max(1)), 0.0, 1.0)
        bins = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
        counts = self._count(2 * bins + correct, 2 * _BINS, "calibration", 2).reshape(_BINS, 2)
        offsets = np.clip((confidence - (bins + 0.5) / _BINS) * 2 * _BINS, -1.0, 1.0)
        sums = np.bincount(bins, weights=offsets, minlength=_BINS).astype(np.float64)
        sums = self._release(sums, "calibration", 2)
        counts = np.maximum(counts, 0.0)
        counts[: _BINS // len(self.classes)] = 0.0  # the largest probability is at least 1 / classes: noise alone
        return _reliability(counts, sums, DETECTED_BIN * self.stddev("calibration", 2))

    def _confusion(self, probabilities: NDArray[np.float64], targets: NDArray[np.int64]) -> list[list[int]]:
        """Return how often each true class (rows) was predicted as each class (columns). It is exact."""
        size = len(self.classes)
        cells = targets * size + probabilities[self.rows].argmax(1)
        return [[int(count) for count in row] for row in np.bincount(cells, minlength=size * size).reshape(size, size)]


def _named_accuracy(share: dict[str, Any]) -> dict[str, Any]:
    """Rename the value of a share, as the report expects it for groups."""
    return {"accuracy" if name == "value" else name: value for name, value in share.items()}


def _reliability(counts: NDArray[np.float64], offsets: NDArray[np.float64], threshold: float) -> dict[str, Any]:
    """Return the bins whose count exceeds a threshold, and the expected calibration error over them.

    Args:
        counts: Wrong and right in each bin, [bins, 2].
        offsets: The sum of how far confidence is from the middle of each bin, in half widths.
        threshold: Smaller counts may be noise alone.
    """
    bins = []
    for index, total in enumerate(counts.sum(1)):
        if not total > threshold:
            continue
        low, high = index / _BINS, (index + 1) / _BINS
        middle = (index + 0.5) / _BINS
        bins.append(
            {
                "low": low,
                "high": high,
                "confidence": min(max(middle + offsets[index] / total / (2 * _BINS), low), high),
                "accuracy": counts[index, 1] / total,
                "share": total,
            }
        )
    total_share = sum(row["share"] for row in bins)
    for row in bins:
        row["share"] /= total_share
    error = sum(row["share"] * abs(row["confidence"] - row["accuracy"]) for row in bins) if bins else None
    return {"ece": error, "bins": bins}
