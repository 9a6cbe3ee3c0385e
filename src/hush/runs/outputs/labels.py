"""The accuracy of a model of several labels, measured privately on held-out units.

Each label has a table of two counts, wrong and right, to which a unit adds one. The tables of all labels share the
precision of their part. The overall accuracy is that of the labels' mean, so its counts are those of all labels divided
by their number: they have the noise of one table with the whole precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.runs.figures import CONFIDENCE, Measurer


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelMeasurer(Measurer):
    """Measures a model of several labels on the held-out units.

    Guarantee:
        All that `point`, called ``num_points`` times, and `figures`, called once, return has the event
        ``GaussianEvent(noise)``, for each unit, under add-or-remove.

    Assumes:
        The model does not depend on the held-out rows (the caller's duty), and each method is called no more often than
        stated (the caller's duty).

    References:
        Agresti & Coull 1998, for the intervals.
    """

    def point(self, probabilities: NDArray[np.float64]) -> dict[str, Any]:
        """Return the accuracy during training; call it ``num_points`` times at most."""
        counts = self._counts(probabilities, "curve", self.num_points)
        return self._accuracy(counts.mean(0), "curve", self.num_points)

    def figures(self, probabilities: NDArray[np.float64]) -> dict[str, Any]:
        """Return the accuracy of all labels together, and of each; call it once."""
        overall = self._counts(probabilities, "final", 1).mean(0)
        by_label = self._counts(probabilities, "classes", 1)
        tables = len(self.classes)
        return {
            "accuracy": {**self._accuracy(overall), "confidence": CONFIDENCE, "private": self.noise is not None},
            "classes": [
                {"name": name, **self._accuracy(pair, "classes", tables)}
                for name, pair in zip(self.classes, by_label, strict=True)
            ],
        }

    def _counts(self, probabilities: NDArray[np.float64], part: str, times: int) -> NDArray[np.float64]:
        """Return how many units are wrong and right in each label, with noise: [labels, 2]."""
        targets = self.examples.targets[self.rows]
        is_right = (np.nan_to_num(probabilities[self.rows]) > 0.5) == (targets == 1)
        tables = len(self.classes) * times
        return np.stack(
            [
                self._count(is_right[is_known, label].astype(np.int64), 2, part, tables)
                for label, is_known in enumerate((targets >= 0).T)
            ]
        )
