"""Convex losses for linear classifiers, as functions of the margin m = y <w, x>.

Privacy proofs rest on two bounds: the slope lies in [-1, 0], so a row of norm 1 has a gradient of norm at most 1; and
the second derivative is at most ``curvature``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit

from hush.errors import check_positive
from hush.estimators.base.estimator import Floats


class MarginLoss(Protocol):
    """A convex, non-increasing loss l(m) of the margin m, with slope in [-1, 0]."""

    @property
    def curvature(self) -> float:
        """Upper bound on the second derivative."""

    def slope(self, margins: Floats) -> Floats:
        """Return the first derivative at each margin, in [-1, 0]."""

    def second_derivative(self, margins: Floats) -> Floats:
        """Return the second derivative at each margin."""


@dataclass(frozen=True, slots=True)
class LogisticLoss:
    """The logistic loss ln(1 + e^-m)."""

    @property
    def curvature(self) -> float:
        """Upper bound on the second derivative."""
        # p (1 - p) is largest at p = 1/2.
        return 0.25

    def slope(self, margins: Floats) -> Floats:
        """Return the first derivative at each margin, in [-1, 0]."""
        # d/dm ln(1 + e^-m) = -1 / (1 + e^m), which is -expit(-m) without overflow.
        return np.asarray(-expit(-margins))

    def second_derivative(self, margins: Floats) -> Floats:
        """Return the second derivative at each margin."""
        probability: Floats = expit(margins)
        return np.asarray(probability * (1 - probability))


@dataclass(frozen=True, slots=True)
class HuberHinge:
    """The hinge loss max(0, 1 - m) with its corner replaced by a parabola (Chaudhuri et al. 2011, Equation 8).

    Attributes:
        width: Half the width of the parabola.
    """

    width: float = 0.5

    def __post_init__(self) -> None:
        """Check the width."""
        check_positive("width", self.width)

    @property
    def curvature(self) -> float:
        """Upper bound on the second derivative."""
        # The slope climbs from -1 to 0 over the 2 width of the parabola.
        return 0.5 / self.width

    def slope(self, margins: Floats) -> Floats:
        """Return the first derivative at each margin, in [-1, 0]."""
        # Below 1 - width the loss is 1 - m, and above 1 + width it is 0.
        return np.clip((margins - 1 - self.width) * self.curvature, -1.0, 0.0)

    def second_derivative(self, margins: Floats) -> Floats:
        """Return the second derivative at each margin; at the two corners of the slope, 0."""
        return np.where(np.abs(margins - 1) < self.width, self.curvature, 0.0)
