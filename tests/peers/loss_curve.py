"""Masses of privacy losses, from a pair's two profiles.

With t = e^epsilon the profile is f(t) = P(loss > epsilon) - t Q(loss > epsilon), and its slope is -Q(loss > epsilon).
So one curve knows both tails of the loss. Below t = 1 the opposite profile knows them better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hush.accounting.losses.profile import DominatingPair, Profile

_STEP = 1e-4  # of epsilon, in a one-sided difference
_WEIGHTS = np.array([-137 / 60, 5, -5, 10 / 3, -5 / 4, 1 / 5])  # of its six points
_NEAR_END = 1e-3  # of the distance to the largest loss, near which a curve falls like a high power of that distance
_APART = 1e-9  # how far from an atom of the loss its two sides are


@dataclass(frozen=True)
class LossCurve:
    """A dominating pair, asked for deltas and for masses of its loss."""

    pair: DominatingPair
    has_atoms: bool = False

    def delta(self, epsilon: float) -> float:
        """Return the hockey-stick divergence at any epsilon."""
        if epsilon >= 0:
            return _value(self.pair.forward, epsilon)
        return 1 - math.exp(epsilon) + math.exp(epsilon) * _value(self.pair.backward, -epsilon)

    def first_tail(self, loss: float, *, strict: bool = True) -> float:
        """Return P(loss > a number), or P(loss >= it)."""
        return self._tails(loss, strict)[0]

    def second_tail(self, loss: float, *, strict: bool = True) -> float:
        """Return Q(loss > a number), or Q(loss >= it)."""
        return self._tails(loss, strict)[1]

    def connected(self, grid: list[float]) -> list[float]:
        """Return the masses, at the points of a grid, of the loss whose profile connects ours at them."""
        points = np.exp(grid)
        curve = np.array([self.delta(epsilon) for epsilon in grid])
        slopes = np.concatenate([[(curve[0] - 1) / points[0]], np.diff(curve) / np.diff(points), [0.0]])
        return [float(mass) for mass in points * np.diff(slopes)]

    def _tails(self, loss: float, strict: bool) -> tuple[float, float]:
        if math.isinf(loss):
            return (1.0, 1.0) if loss < 0 else (self.pair.forward.failure, 0.0)
        # An atom within rounding of the number is on the side that was asked for.
        at = loss + (0.0 if not self.has_atoms else _APART if strict else -_APART)
        if at > 0 or (at == 0 and strict):
            return self._one_sided(self.pair.forward, at, right=strict)
        # loss <= at if and only if the opposite loss is >= -at.
        second, first = self._one_sided(self.pair.backward, -at, right=not strict)
        return 1 - first, 1 - second

    def _one_sided(self, profile: Profile, epsilon: float, *, right: bool) -> tuple[float, float]:
        """Return (P, Q) of the losses beyond epsilon, from the slope on one side of it."""
        right = right or not self.has_atoms
        room = profile.max_loss - epsilon
        if room <= (0 if right else -_APART):
            return profile.failure, 0.0
        step = min(_STEP, room / 10 if self.has_atoms else room * _NEAR_END) if right else -_STEP
        values = [_value(profile, epsilon + step * index) for index in range(len(_WEIGHTS))]
        slope = float(_WEIGHTS @ values) / step  # with respect to epsilon
        return values[0] - slope, -slope / math.exp(epsilon)


def _value(profile: Profile, epsilon: float) -> float:
    return float(profile.delta(np.array([epsilon]))[0])
