"""Mechanisms that first test, privately, whether the data are stable enough for a release.

Most datasets are far from any dataset on which a statistic is unstable. Three mechanisms exploit this privately:

- `ProposeTestRelease` proposes a bound on the local sensitivity and tests that the data are far from exceeding it.
- `StableValue` tests that many records would have to change before the value does, and releases it without noise.
- `NoisyLocalSensitivity` releases a noisy upper bound on the local sensitivity and scales the noise to it.

A refusal is also an answer: it is covered by the guarantee and costs the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hush.accounting import events
from hush.errors import InvalidArgument, check_confidence, check_positive, check_probability
from hush.guarantee import Guarantee
from hush.mechanisms.mechanism import Mechanism, Release, SensitivityType
from hush.mechanisms.noise import Laplace
from hush.mechanisms.smooth_sensitivity import clamped_and_sorted, jumps
from hush.numerics import as_floats, check_bounds, quiet_numpy, round_down, round_up
from hush.randomness import RandomSource, discrete_laplace, source_or_default

_LARGEST_DISTANCE = 1 << 60  # fits into 64 bits with the noise


@dataclass(frozen=True, kw_only=True)
class _Tested(Mechanism):
    """Base of the mechanisms that release only if a noisy distance reaches a threshold."""

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
        scale = round_up(1 / self._test_epsilon())
        # At distance 0 the test must pass with probability at most delta. For the threshold T and the noise scale t
        # that is P(k >= T) = e^(-T / t) / (1 + e^(-1 / t)).
        rate = 1 / scale
        threshold = math.ceil(scale * (-math.log(self.delta) - math.log1p(math.exp(-rate))) * (1 + 1e-12))
        self._set(_scale=scale, _threshold=max(threshold, 1))

    def _test_epsilon(self) -> float:
        return self.epsilon

    def _passes(self, distance: Any, source: RandomSource) -> bool:
        """Return whether the noisy distance, rounded down to a whole number, reaches the threshold."""
        exact = float(np.nan_to_num(as_floats("distance", distance, ()), nan=0.0))
        whole_steps = math.floor(exact) if abs(exact) < _LARGEST_DISTANCE else exact
        # Rounded down: a distance that is too small only fails more often. The floor of a distance moves by at most 1,
        # too.
        steps = int(min(max(whole_steps, 0), _LARGEST_DISTANCE))
        return steps + int(discrete_laplace(source, self._scale, 1)[0]) >= self._threshold

    def _describe(self) -> events.Event:
        return events.ApproximateDPEvent(self.epsilon, self.delta)

    def distance_needed(self, confidence: float = 0.95) -> int:
        """Return a distance at which, with this confidence, the test passes."""
        # P(k < -m) <= e^(-m / t), so at the distance T + m the test fails with at most this probability.
        return self._threshold + math.ceil(-math.log(1 - check_confidence("confidence", confidence)) * self._scale)


@dataclass(frozen=True, kw_only=True)
class ProposeTestRelease(_Tested):
    """Propose a bound on the local sensitivity, test that the data are far from exceeding it, and add noise for it.

    Half of epsilon pays for the test and half for the release. Known as propose-test-release (PTR).

    >>> from hush.randomness import TestSource
    >>> ages = [30, 31, 32, 33, 34] * 200
    >>> from hush.guarantee import Relation
    >>> mechanism = ProposeTestRelease(epsilon=2.0, delta=1e-6, proposed_bound=1.0, relation=Relation.REPLACE)
    >>> distance = median_distance(ages, bounds=(0, 120), proposed_bound=1.0)
    >>> distance >= mechanism.distance_needed()
    True
    >>> abs(mechanism.release(32.0, distance, TestSource(1)).value - 32.0) < mechanism.accuracy(0.999)
    True

    Guarantee:
        (epsilon, delta)-differential privacy, refusals included.

    Assumes:
        ``distance`` is at most the number of records that must change before the local sensitivity exceeds
        ``proposed_bound`` (0 if it does already), and moves by at most 1 between neighbours (the caller's duty;
        `median_distance` computes such a distance).

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
        # Basic composition of test and release. The halves must not add up to more than epsilon.
        return round_down(self.epsilon / 2)

    def _promise(self) -> Guarantee:
        return self._claim(
            self.epsilon,
            self.delta,
            "propose-test-release",
            "the distance is at most the number of changes that bring the local sensitivity above the proposed bound",
        )

    @quiet_numpy
    def release(self, value: float, distance: float, source: RandomSource | None = None) -> Release[float | None]:
        """Return the value with noise, or None if the test fails."""
        random_source = source_or_default(source)
        # Noise is drawn whether or not the test passes, so that the work does not depend on the outcome.
        noisy = self._laplace.release(float(as_floats("value", value, ())), random_source).value
        return self._released(noisy if self._passes(distance, random_source) else None, random_source)

    def accuracy(self, confidence: float = 0.95) -> float:
        """Return a bound that, with this confidence, a released value's error does not exceed."""
        return self._laplace.accuracy(confidence)


@dataclass(frozen=True, kw_only=True)
class StableValue(_Tested):
    """Release a value without noise, if many records would have to change before the value does.

    >>> from hush.randomness import TestSource
    >>> mechanism = StableValue(epsilon=1.0, delta=1e-6)
    >>> mechanism.release("Madrid", distance=500, source=TestSource(1)).value
    'Madrid'
    >>> mechanism.release("Madrid", distance=1, source=TestSource(1)).value is None
    True

    Guarantee:
        (epsilon, delta)-differential privacy, refusals included.

    Assumes:
        ``distance`` is at most the number of records that must change before the value does (1 or more), and moves by
        at most 1 between neighbours with the same value (the caller's duty).

    References:
        Smith & Thakurta 2013; Vadhan 2017, Proposition 3.3, with a discrete test.
    """

    def _promise(self) -> Guarantee:
        return self._claim(
            self.epsilon,
            self.delta,
            "release of stable values",
            "the distance is at most the number of changes after which the value differs",
        )

    @quiet_numpy
    def release(self, value: Any, distance: float, source: RandomSource | None = None) -> Release[Any]:
        """Return the value itself, of any type, or None if the test fails."""
        random_source = source_or_default(source)
        # Neighbours with different values have distance 1 each. There the test must fail, so count from there.
        excess = float(np.nan_to_num(as_floats("distance", distance, ()), nan=0.0)) - 1
        return self._released(value if self._passes(excess, random_source) else None, random_source)

    def distance_needed(self, confidence: float = 0.95) -> int:
        """Return a distance at which, with this confidence, the value is released."""
        return super().distance_needed(confidence) + 1


@dataclass(frozen=True, kw_only=True)
class NoisyLocalSensitivity(Mechanism):
    """Release a noisy upper bound on the local sensitivity, then the value with noise scaled to that bound.

    Half of epsilon pays for the bound and half for the value.

    >>> from hush.randomness import TestSource
    >>> mechanism = NoisyLocalSensitivity(epsilon=2.0, delta=1e-6, bound_sensitivity=0.1)
    >>> value, bound = mechanism.release(50.0, local_sensitivity=0.5, source=TestSource(1)).value
    >>> 0.5 <= bound < 5, abs(value - 50.0) < mechanism.accuracy(bound, 0.999)
    (True, True)

    Guarantee:
        (epsilon, delta)-differential privacy, for value and bound together.

    Assumes:
        ``local_sensitivity`` bounds how far the value moves from this dataset to any neighbour, and itself moves by at
        most ``bound_sensitivity`` between neighbours (the caller's duty).

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
        # The noisy bound plus this margin is below the true one with probability at most delta, flooring included.
        margin = round_up(first.noise_scale * max(-math.log(2 * self.delta), 0.0)) + 2 * first._grid.spacing
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

    @quiet_numpy
    def release(
        self, value: float, local_sensitivity: float, source: RandomSource | None = None
    ) -> Release[tuple[float, float]]:
        """Return (noisy value, bound), where the value's noise is scaled to the bound on the local sensitivity."""
        random_source = source_or_default(source)
        smallest = self._first._grid.spacing
        bound = self._first.release(float(as_floats("local_sensitivity", local_sensitivity, ())), random_source).value
        # Post-processing of a private number: P(bound < true local sensitivity) <= delta.
        bound = min(max(bound + self._margin, smallest), 1e150)
        # Given the released bound, the value costs epsilon / 2 wherever the bound holds, which it does except with
        # delta.
        second = Laplace(epsilon=self.epsilon / 2, sensitivity=bound, relation=self.relation, unit=self.unit)
        # Clamping the value keeps its sensitivity below the bound even where the bound was capped at 1e150.
        exact = min(max(float(np.nan_to_num(as_floats("value", value, ()))), -4e149), 4e149)
        return self._released((second.release(exact, random_source).value, bound), random_source)

    def accuracy(self, bound: float, confidence: float = 0.95) -> float:
        """Return a bound on the error of a value released with this ``bound``, which holds with this confidence."""
        return Laplace(epsilon=self.epsilon / 2, sensitivity=bound).accuracy(confidence)


def median_distance(records: Any, bounds: tuple[float, float], proposed_bound: float) -> int:
    """Return how many records must be replaced before the median's local sensitivity exceeds ``proposed_bound``.

    It is the ``distance`` for `ProposeTestRelease` under the replace relation.

    >>> median_distance([30, 31, 32, 33, 34], bounds=(0, 120), proposed_bound=2.0)
    2

    Args:
        records: Numbers, which are clamped to the bounds; NaN becomes the lower bound.
        bounds: Public bounds (lower, upper).
        proposed_bound: The proposed bound on the local sensitivity.
    """
    limits = check_bounds(bounds)
    values = clamped_and_sorted(records, limits)
    if values.size == 0:
        raise InvalidArgument("records.shape", values.shape, "at least one record", "Their number is public")
    low, high = 0, len(values) + 1  # bisection: the largest jump grows with the distance
    if jumps(values, limits, high) <= proposed_bound:
        return high
    while low < high:
        middle = (low + high) // 2
        # The invariant: the answer is in [low, high].
        low, high = (low, middle) if jumps(values, limits, middle) > proposed_bound else (middle + 1, high)
    return low
