"""Releases that first ask, privately, whether the data allow them: stable values, and little noise where it is enough.

Three ways to use a local property of the data without giving it away: test how far they are from trouble
(`ProposeTestRelease`, `StableValue`), or bound the local sensitivity itself with noise (`NoisyLocalSensitivity`).
A refusal is a private answer like any other: it is part of what is released, and of the guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hush.accounting import events
from hush.errors import InvalidArgument, check_positive, check_probability
from hush.guarantee import Guarantee
from hush.mechanisms.mechanism import Mechanism, Release, SensitivityType
from hush.mechanisms.noise import Laplace, check_confidence
from hush.mechanisms.smooth import check_bounds, clamped_and_sorted, jumps
from hush.numerics import down, numbers, silent, up
from hush.randomness import RandomSource, discrete_laplace, source_or_default

_FAR = 1 << 60


@dataclass(frozen=True, kw_only=True)
class _Tested(Mechanism):
    """A release that happens only if a distance, with noise, is large enough."""

    sensitivity_type = SensitivityType.LOCAL

    epsilon: float
    delta: float
    _threshold: int = field(init=False, repr=False, compare=False)
    _scale: float = field(init=False, repr=False, compare=False)

    def _prepare(self) -> None:
        check_positive("epsilon", self.epsilon)
        if not 1e-280 <= check_probability("delta", self.delta) < 1:
            raise InvalidArgument("delta", self.delta, "a number in [1e-280, 1)")
        events.LaplaceEvent(1 / self.epsilon)
        scale = up(1 / self._test_epsilon())
        # At distance 0 the test passes with probability P(k >= T) = e^(-T / t) / (1 + e^(-1 / t)), at most delta.
        rate = 1 / scale
        threshold = math.ceil(scale * (-math.log(self.delta) - math.log1p(math.exp(-rate))) * (1 + 1e-12))
        self._set(_scale=scale, _threshold=max(threshold, 1))

    def _test_epsilon(self) -> float:
        return self.epsilon

    def _passes(self, distance: Any, source: RandomSource) -> bool:
        given = float(np.nan_to_num(numbers("distance", distance, ()), nan=0.0))
        steps = int(min(max(math.floor(given) if abs(given) < _FAR else given, 0), _FAR))
        return steps + int(discrete_laplace(source, self._scale, 1)[0]) >= self._threshold

    def _describe(self) -> events.Event:
        return events.ApproximateDPEvent(self.epsilon, self.delta)

    def distance_needed(self, confidence: float = 0.95) -> int:
        """Return a distance from which on the release happens with this confidence."""
        # P(k < -m) <= e^(-m / t): at T + m it fails no more often than that.
        return self._threshold + math.ceil(-math.log(check_confidence(confidence)) * self._scale)


@dataclass(frozen=True, kw_only=True)
class ProposeTestRelease(_Tested):
    """Propose a bound on the local sensitivity, test that the data are far from exceeding it, release with its noise.

    Half of epsilon goes to the test, half to the release.

    Guarantee:
        (epsilon, delta)-differential privacy, refusals included.

    Assumes:
        ``distance`` is how many records must change before the local sensitivity exceeds ``proposed_bound`` (0 if it
        does already), or less; it moves by at most 1 between neighbours (the caller's duty; `median_distance` is such
        a distance).

    References:
        Dwork & Lei 2009; Vadhan 2017, Proposition 3.2 with a discrete test.
    """

    proposed_bound: float
    _laplace: Laplace = field(init=False, repr=False, compare=False)

    def _prepare(self) -> None:
        super()._prepare()
        laplace = Laplace(
            epsilon=self.epsilon / 2, sensitivity=self.proposed_bound, relation=self.relation, unit=self.unit
        )
        self._set(_laplace=laplace)

    def _test_epsilon(self) -> float:
        return down(self.epsilon / 2)

    def _promise(self) -> Guarantee:
        return self._claim(
            self.epsilon,
            self.delta,
            "propose-test-release",
            "the distance is at most that to data of a local sensitivity above the proposed bound",
        )

    @silent
    def release(self, value: float, distance: float, source: RandomSource | None = None) -> Release[float | None]:
        """Return the value with noise, or None if the test fails."""
        chosen = source_or_default(source)
        noisy = self._laplace.release(float(numbers("value", value, ())), chosen).value
        return self._released(noisy if self._passes(distance, chosen) else None, chosen)

    def accuracy(self, confidence: float = 0.95) -> float:
        """Return what, with this confidence, the error of a value that is released does not exceed."""
        return self._laplace.accuracy(confidence)


@dataclass(frozen=True, kw_only=True)
class StableValue(_Tested):
    """Release a value as it is, if many records would have to change before it does.

    Guarantee:
        (epsilon, delta)-differential privacy, refusals included.

    Assumes:
        ``distance`` is how many records must change before the value does (1 or more), or less; it moves by at most 1
        between neighbours that have the same value (the caller's duty).

    References:
        Smith & Thakurta 2013; Vadhan 2017, Proposition 3.3, with a discrete test.
    """

    def _promise(self) -> Guarantee:
        return self._claim(
            self.epsilon,
            self.delta,
            "release of stable values",
            "the distance is at most that to data of another value",
        )

    @silent
    def release(self, value: Any, distance: float, source: RandomSource | None = None) -> Release[Any]:
        """Return the value itself, of whatever type, or None if the test fails."""
        chosen = source_or_default(source)
        # Neighbours of different values are at distance 1 from each other: that is where the test must fail.
        beyond = float(np.nan_to_num(numbers("distance", distance, ()), nan=0.0)) - 1
        return self._released(value if self._passes(beyond, chosen) else None, chosen)

    def distance_needed(self, confidence: float = 0.95) -> int:
        """Return a distance from which on the value is released with this confidence."""
        return super().distance_needed(confidence) + 1


@dataclass(frozen=True, kw_only=True)
class NoisyLocalSensitivity(Mechanism):
    """Bound the local sensitivity with noise, from above, then release the value with noise of that scale.

    Half of epsilon goes to the bound, which is released as well.

    Guarantee:
        (epsilon, delta)-differential privacy, for value and bound together.

    Assumes:
        ``local_sensitivity`` bounds how far the value moves from the data to any neighbour, and moves itself by at most
        ``bound_sensitivity`` between neighbours (the caller's duty).

    References:
        Vadhan 2017, Section 3.4 (privately bounding local sensitivity); Kasiviswanathan et al. 2013.
    """

    sensitivity_type = SensitivityType.LOCAL

    epsilon: float
    delta: float
    bound_sensitivity: float
    _first: Laplace = field(init=False, repr=False, compare=False)
    _margin: float = field(init=False, repr=False, compare=False)

    def _prepare(self) -> None:
        if not 1e-280 <= check_probability("delta", self.delta) < 1:
            raise InvalidArgument("delta", self.delta, "a number in [1e-280, 1)")
        first = Laplace(
            epsilon=check_positive("epsilon", self.epsilon) / 2,
            sensitivity=self.bound_sensitivity,
            relation=self.relation,
            unit=self.unit,
        )
        # The noisy bound plus this is below the true one with probability delta at most; flooring included.
        margin = up(first.noise_scale * max(-math.log(2 * self.delta), 0.0)) + 2 * first._grid.spacing
        self._set(_first=first, _margin=margin)

    def _promise(self) -> Guarantee:
        return self._claim(
            self.epsilon,
            self.delta,
            "noisy bound on the local sensitivity",
            f"the local sensitivity moves by at most {self.bound_sensitivity:.6g} between neighbours",
        )

    def _describe(self) -> events.Event:
        return events.ApproximateDPEvent(self.epsilon, self.delta)

    @silent
    def release(
        self, value: float, local_sensitivity: float, source: RandomSource | None = None
    ) -> Release[tuple[float, float]]:
        """Return (noisy value, bound on the local sensitivity that its noise was scaled to)."""
        chosen = source_or_default(source)
        smallest = self._first._grid.spacing
        bound = self._first.release(float(numbers("local_sensitivity", local_sensitivity, ())), chosen).value
        bound = min(max(bound + self._margin, smallest), 1e150)
        second = Laplace(epsilon=self.epsilon / 2, sensitivity=bound, relation=self.relation, unit=self.unit)
        # Of a bound that was capped, too, the value moves by no more than it says.
        exact = min(max(float(np.nan_to_num(numbers("value", value, ()))), -4e149), 4e149)
        return self._released((second.release(exact, chosen).value, bound), chosen)

    def accuracy(self, bound: float, confidence: float = 0.95) -> float:
        """Return what, with this confidence, the error of a value released with this bound does not exceed."""
        return Laplace(epsilon=self.epsilon / 2, sensitivity=bound).accuracy(confidence)


def median_distance(records: Any, bounds: tuple[float, float], proposed_bound: float) -> int:
    """Return how many records must be replaced before the median's local sensitivity exceeds ``proposed_bound``.

    For `ProposeTestRelease` under the replace relation. Records are clamped to public bounds, NaN to the lower one.
    """
    limits = check_bounds(bounds)
    values = clamped_and_sorted(records, limits)
    if values.size == 0:
        raise InvalidArgument("records.shape", values.shape, "at least one record", "Their number is public")
    low, high = 0, len(values) + 1  # the largest jump grows with the distance
    if jumps(values, limits, high) <= proposed_bound:
        return high
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if jumps(values, limits, middle) > proposed_bound else (middle + 1, high)
    return low
