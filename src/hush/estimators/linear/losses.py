"""Convex losses of linear classifiers, by the margin y <w, x>: their slopes and curvatures are bounded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit

from hush.errors import check_positive
from hush.estimators.base.estimator import Floats


class MarginLoss(Protocol):
    """A loss l(m) of the margin m, convex and falling: its slope is in [-1, 0], which privacy proofs rest on."""

    @property
    def curvature(self) -> float:
        """What the second derivative never exceeds."""

    def slope(self, margins: Floats) -> Floats:
        """Return the first derivative, in [-1, 0]."""

    def bend(self, margins: Floats) -> Floats:
        """Return the second derivative."""


@dataclass(frozen=True, slots=True)
class LogisticLoss:
    """ln(1 + e^-m)."""

    @property
    def curvature(self) -> float:
        """What the second derivative never exceeds."""
        return 0.25

    def slope(self, margins: Floats) -> Floats:
        """Return the first derivative, in [-1, 0]."""
        return np.asarray(-expit(-margins))

    def bend(self, margins: Floats) -> Floats:
        """Return the second derivative."""
        chance: Floats = expit(margins)
        return np.asarray(chance * (1 - chance))


@dataclass(frozen=True, slots=True)
class HuberHinge:
    """The hinge max(0, 1 - m), with a parabola in the place of its corner (Chaudhuri et al. 2011, Equation 8).

    Attributes:
        width: Half the width of the parabola.
    """

    width: float = 0.5

    def __post_init__(self) -> None:
        """Check the width."""
        check_positive("width", self.width)

    @property
    def curvature(self) -> float:
        """What the second derivative never exceeds."""
        return 0.5 / self.width

    def slope(self, margins: Floats) -> Floats:
        """Return the first derivative, in [-1, 0]."""
        return np.clip((margins - 1 - self.width) * self.curvature, -1.0, 0.0)

    def bend(self, margins: Floats) -> Floats:
        """Return the second derivative, where there is one."""
        return np.where(np.abs(margins - 1) < self.width, self.curvature, 0.0)
