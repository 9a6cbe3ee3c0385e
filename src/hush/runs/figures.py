"""Figures about people who were held out: accuracy, by class and by group, and calibration.

Exactly, where the test data are public. Else with noise: every figure is made of *tables* of counts, each held-out unit
adds to one cell of each table by its one row, and all tables together are one Gaussian release. Whoever is held out
takes part in nothing else, and whoever is trained on is not in these tables, so the two parts compose in parallel: what
the run gives away about one unit is the larger of both (McSherry 2009, Theorem 4; which part a unit is in is decided by
a coin of its own).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting import GaussianEvent, calibrate_noise
from hush.data import Examples
from hush.randomness import Grid, RandomSource, floored_gaussian

_CONFIDENCE = 0.95
_DEVIATIONS = 1.959964
_BINS = 10
_OTHERS = "(other)"
_ROUNDING = 1 + 1e-6  # sums that are no whole numbers are rounded to a grid some 2^40 times finer than the noise
# How the noise is shared: the squared weights of tables add up to 1.
_SHARES = {"final": 0.5, "curve": 0.2, "classes": 0.1, "calibration": 0.1, "groups": 0.1}


@dataclass(frozen=True, eq=False)
class Measurer:
    """Counts right and wrong answers of those held out.

    Attributes:
        examples: Who was held out.
        classes: Names of the classes.
        groups: For each column that accuracy is compared by, its values, which are public.
        noise: The noise multiplier of the whole release; None if the figures are exact.
        num_points: How many times accuracy is measured on the way.
        source: Where the noise comes from.
    """

    examples: Examples
    classes: tuple[str, ...]
    groups: dict[str, tuple[str, ...]]
    noise: float | None
    num_points: int
    source: RandomSource
    rows: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        """Choose one row of each unit, by its place: whether somebody else is there does not change it."""
        units = self.examples.units
        rows = np.arange(len(self.examples)) if units is None or self.noise is None else np.unique(units, True)[1]
        rows = np.sort(rows)
        object.__setattr__(self, "rows", rows[self.examples.targets[rows] >= 0])  # others count in no table

    @staticmethod
    def event_of(noise: float) -> GaussianEvent:
        """Return what all figures together cost those who were held out."""
        return GaussianEvent(noise)

    def point(self, probabilities: NDArray[np.float64]) -> dict[str, Any]:
        """Return the accuracy on the way, once of ``num_points`` times."""
        right = self._right(probabilities)
        return self._share(self._counted(right.astype(np.int64), 2, "curve", self.num_points), "curve", self.num_points)

    def figures(self, probabilities: NDArray[np.float64]) -> dict[str, Any]:
        """Return everything about the finished model, once."""
        right = self._right(probabilities)
        targets = self.examples.targets[self.rows]
        by_class = self._counted(2 * targets + right, 2 * len(self.classes), "classes", 1)
        found: dict[str, Any] = {
            "accuracy": {
                **self._share(self._counted(right.astype(np.int64), 2, "final", 1)),
                "confidence": _CONFIDENCE,
            },
            "classes": [
                {"name": name, **self._share(by_class[2 * place : 2 * place + 2], "classes", 1)}
                for place, name in enumerate(self.classes)
            ],
            "calibration": self._calibration(probabilities, right),
        }
        if self.groups:
            found["groups"] = {name: self._by_group(name, right) for name in self.groups}
        if self.noise is None:
            found["confusion"] = self._confusion(probabilities, targets)
        for part in ("accuracy", "calibration"):
            found[part]["private"] = self.noise is not None
        return found

    def _right(self, probabilities: NDArray[np.float64]) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = probabilities[self.rows].argmax(1) == self.examples.targets[self.rows]
        return found

    def _counted(self, cells: NDArray[np.int64], size: int, part: str, tables: int) -> NDArray[np.float64]:
        """Return how many fall into each cell, one of ``tables`` that share a part of the noise."""
        return self._released(np.bincount(cells, minlength=size).astype(np.float64), part, tables)

    def _released(self, sums: NDArray[np.float64], part: str, tables: int) -> NDArray[np.float64]:
        if self.noise is None:
            return sums
        stddev = self.stddev(part, tables)
        grid = Grid.for_scale(stddev)
        noise = floored_gaussian(self.source, stddev / grid.spacing, len(sums))
        return np.floor(sums / grid.spacing) * grid.spacing + grid.real(noise)

    def stddev(self, part: str, tables: int) -> float:
        """Return the noise of a table; one that rounding to the grid could widen gets a little more."""
        if self.noise is None:
            return 0.0
        wanted = {"groups": bool(self.groups), "curve": self.num_points > 0}
        shares = {name: share for name, share in _SHARES.items() if wanted.get(name, True)}
        weight = shares[part] / sum(shares.values()) / tables
        return self.noise * _ROUNDING / math.sqrt(weight)

    def _share(self, counts: NDArray[np.float64], part: str = "final", tables: int = 1) -> dict[str, Any]:
        """Return wrong and right as an accuracy, with an interval for sampling and for noise."""
        wrong, right = (max(float(count), 0.0) for count in counts)
        total = wrong + right
        if not total > 3 * self.stddev(part, tables):  # noise alone
            return {"value": None, "low": 0.0, "high": 1.0}
        value = right / total
        noise = self.stddev(part, tables) / total
        # d(right / total) = (wrong d(right) - right d(wrong)) / total^2, and both have noise of their own
        spread = noise**2 * (value**2 + (1 - value) ** 2)
        # For sampling, Agresti & Coull 1998: it covers also where nearly all are right.
        size = total + _DEVIATIONS**2
        middle = (right + _DEVIATIONS**2 / 2) / size
        half = _DEVIATIONS * math.sqrt(middle * (1 - middle) / size + spread)
        return {"value": value, "low": max(middle - half, 0.0), "high": min(middle + half, 1.0)}

    def _by_group(self, column: str, right: NDArray[np.bool_]) -> list[dict[str, Any]]:
        """Return the accuracy for each value that is declared, and for all others together."""
        names = (*self.groups[column], _OTHERS)
        place = {name: number for number, name in enumerate(names)}
        values = self.examples.groups[column][self.rows]
        cells = np.array([place.get(str(value), len(names) - 1) for value in values], dtype=np.int64)
        counts = self._counted(2 * cells + right, 2 * len(names), "groups", len(self.groups))
        return [
            {"name": name, **_renamed(self._share(counts[2 * number : 2 * number + 2], "groups", len(self.groups)))}
            for number, name in enumerate(names)
        ]

    def _calibration(self, probabilities: NDArray[np.float64], right: NDArray[np.bool_]) -> dict[str, Any]:
        """Return the reliability diagram: in each bin of stated confidence, what it was and how often it was right.

        Two tables: wrong and right by bin, and by how far confidence is from the middle of its bin, in half widths.
        """
        # A model whose weights are no numbers any more states 0: whose row shows it must not end the run.
        stated = np.clip(np.nan_to_num(probabilities[self.rows].max(1)), 0.0, 1.0)
        bins = np.minimum((stated * _BINS).astype(np.int64), _BINS - 1)
        counts = self._counted(2 * bins + right, 2 * _BINS, "calibration", 2).reshape(_BINS, 2)
        off = np.clip((stated - (bins + 0.5) / _BINS) * 2 * _BINS, -1.0, 1.0)
        sums = self._released(np.bincount(bins, weights=off, minlength=_BINS).astype(np.float64), "calibration", 2)
        found = np.maximum(counts, 0.0)
        found[: _BINS // len(self.classes)] = 0.0  # nobody is less sure than by chance: there is noise alone
        return _reliability(found, sums, 4 * self.stddev("calibration", 2))

    def _confusion(self, probabilities: NDArray[np.float64], targets: NDArray[np.int64]) -> list[list[int]]:
        size = len(self.classes)
        cells = targets * size + probabilities[self.rows].argmax(1)
        return [[int(count) for count in row] for row in np.bincount(cells, minlength=size * size).reshape(size, size)]


def _renamed(share: dict[str, Any]) -> dict[str, Any]:
    return {"accuracy" if name == "value" else name: value for name, value in share.items()}


def _reliability(counts: NDArray[np.float64], off: NDArray[np.float64], least: float) -> dict[str, Any]:
    """Return bins whose count stands out of the noise, and the expected calibration error over them."""
    totals = counts.sum(1)
    bins = []
    for place, total in enumerate(totals):
        if not total > least:
            continue
        middle = (place + 0.5) / _BINS
        confidence = min(max(middle + off[place] / total / (2 * _BINS), place / _BINS), (place + 1) / _BINS)
        bins.append(
            {
                "low": place / _BINS,
                "high": (place + 1) / _BINS,
                "confidence": confidence,
                "accuracy": counts[place, 1] / total,
                "share": total,
            }
        )
    whole = sum(each["share"] for each in bins)
    for each in bins:
        each["share"] /= whole
    ece = sum(each["share"] * abs(each["confidence"] - each["accuracy"]) for each in bins) if bins else None
    return {"ece": ece, "bins": bins}


def evaluation_noise(epsilon: float, delta: float) -> float:
    """Return the noise multiplier with which all figures stay within the budget of those who were held out."""
    return calibrate_noise(epsilon=epsilon, delta=delta)
