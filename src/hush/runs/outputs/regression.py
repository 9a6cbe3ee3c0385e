"""The errors of a model of numbers, measured privately on held-out units.

Every unit counts with one row. Its prediction p and its target y, scaled and clamped to [-1, 1], add to five sums: 1,
|p - y| / 2, ((p - y) / 2)^2, (y + 1) / 2 and y^2. Each is in [0, 1], so the sums have the L2 sensitivity sqrt(5), and
one Gaussian release with sqrt(5) times the noise of all held-out metrics costs what these cost.

Without the clamping, one target could change a sum by any amount. So these are errors of clamped targets, and the range
goes with them wherever they are shown: beyond it, the model may be wrong by more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.data import Numeric
from hush.runs.figures import CONFIDENCE, DETECTED, DEVIATIONS, ROUNDING, Measurer

_SUMS = 5
_SQUARES = 6  # standard deviations of the noise, above which the root of a sum is good to about a tenth


@dataclass(frozen=True, eq=False, kw_only=True)
class NumberMeasurer(Measurer):
    """Measures a model of numbers on the held-out units: once, at the end.

    Attributes:
        target_range: The range that targets were scaled from.

    Guarantee:
        What `figures`, called once, returns has the event ``GaussianEvent(noise)``, for each unit, under
        add-or-remove.

    Assumes:
        The model does not depend on the held-out rows (the caller's duty), and `figures` is called once (the caller's
        duty).

    References:
        Dwork & Roth 2014, Theorem A.1, for Gaussian noise in proportion to the L2 sensitivity.
    """

    target_range: Numeric

    def point(self, probabilities: NDArray[np.float64]) -> dict[str, Any]:
        """Return nothing: errors are measured at the end only, with all of the precision."""
        return {"value": None, "low": None, "high": None}

    def figures(self, probabilities: NDArray[np.float64]) -> dict[str, Any]:
        """Return the errors of the model and of predicting the mean, and the range that targets are clamped to."""
        targets = self.examples.targets[self.rows].astype(np.float64)
        predicted = np.clip(np.nan_to_num(probabilities[self.rows]), -1.0, 1.0)
        errors = np.abs(predicted - targets) / 2
        columns = np.stack([np.ones_like(errors), errors, errors**2, (targets + 1) / 2, targets**2])
        stddev = 0.0 if self.noise is None else self.noise * ROUNDING * math.sqrt(_SUMS)
        sums = self.noisy(columns.sum(1), stddev)
        clamped_to = [self.target_range.lower, self.target_range.upper]
        shared = {"clamped_to": clamped_to, "confidence": CONFIDENCE, "private": self.noise is not None}
        return {"error": {**self._errors(sums, stddev), **shared}}

    def _errors(self, sums: NDArray[np.float64], stddev: float) -> dict[str, Any]:
        """Return the errors in the target's own unit, with intervals for sampling and noise."""
        count = float(sums[0])
        if not count > max(DETECTED * stddev, 1.0):
            return {"value": None}
        absolute, squared = (min(max(float(part) / count, 0.0), 1.0) for part in sums[1:3])
        mean, spread = 2 * float(sums[3]) / count - 1, min(max(float(sums[4]) / count, 0.0), 1.0)
        # The error of a / n is (error of a - (a / n) * error of n) / n.
        noise = stddev / count * math.sqrt(1 + absolute**2)
        half = DEVIATIONS * math.sqrt(max(squared - absolute**2, 0.0) / count + noise**2)
        scale = (self.target_range.upper or 0.0) - (self.target_range.lower or 0.0)
        baseline = math.sqrt(max(spread - mean**2, 0.0)) / 2
        return {
            "value": absolute * scale,
            "low": max(absolute - half, 0.0) * scale,
            "high": min(absolute + half, 1.0) * scale,
            # Noise alone has a root, too: it is told only where the sum of squares is well above the noise.
            "root_mean_square": math.sqrt(squared) * scale if squared > _SQUARES * stddev / count else None,
            "baseline": baseline * scale,
        }
