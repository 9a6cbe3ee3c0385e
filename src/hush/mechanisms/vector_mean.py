"""The private mean of vectors, each clipped to a public norm.

    records   rows of a public dimension, whatever they contain
    clipped   each row scaled down to the clip norm
    steps     on a fixed-point grid of 2^30 steps to the clip norm, rounded towards zero
    sum       exact, in 64-bit integers, plus integer noise
    mean      divided by a noisy count (add or remove) or by the public number of records (replace)

Sums of floats depend on their order, so that one record can move them by more than its clip norm (Casacuberta et al.
2022). Integer sums cannot.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting import events
from hush.errors import InvalidArgument, check_count, check_positive
from hush.guarantee import Guarantee, Relation
from hush.mechanisms.integer_noise import DiscreteLaplace, check_integer_scale
from hush.mechanisms.mechanism import Mechanism, Release, SensitivityType
from hush.mechanisms.noise import Gaussian, Laplace
from hush.numerics import as_floats, clip_rows, quiet_numpy, round_down
from hush.randomness import RandomSource, floored_gaussian, floored_laplace, source_or_default

_STEPS = 1 << 30  # of the fixed-point grid, to a clip norm
_CHUNK = 1 << 16  # rows, which bounds the memory that clipping takes


@dataclass(frozen=True, kw_only=True)
class _VectorMean(Mechanism):
    """Base of the means: a noisy sum, divided by a noisy count (add or remove) or the public number (replace).

    Attributes:
        epsilon: The cost of sum and count together.
        clip_norm: Longer vectors are scaled down to this norm.
        dimension: The number of coordinates of a vector.
        count_share: The fraction of epsilon that pays for the count, if the count is private.
    """

    sensitivity_type = SensitivityType.CLIPPED

    epsilon: float
    clip_norm: float
    dimension: int
    count_share: float = 0.1
    _sum: Laplace | Gaussian = field(init=False, repr=False, compare=False)
    _count: DiscreteLaplace | None = field(init=False, repr=False, compare=False)

    def _prepare(self) -> None:
        check_positive("epsilon", self.epsilon)
        check_positive("clip_norm", self.clip_norm)
        check_count("dimension", self.dimension)
        if not 1e-150 < self.clip_norm < 1e150:
            raise InvalidArgument("clip_norm", self.clip_norm, "between 1e-150 and 1e150")
        if not 0 < check_positive("count_share", self.count_share) < 1:
            raise InvalidArgument("count_share", self.count_share, "a number in (0, 1)")
        public_count = self.relation is Relation.REPLACE
        count = (
            None if public_count else DiscreteLaplace(epsilon=self.epsilon * self.count_share, relation=self.relation)
        )
        # Sum and count compose to epsilon. Rounded down, as the shares must not add up to more.
        share = self.epsilon if public_count else round_down(self.epsilon * (1 - self.count_share))
        # In steps of the grid a clipped vector has a norm of at most 2^30. A replacement changes two vectors.
        noise = self._mechanism_for_sum(share, _STEPS * (2 if public_count else 1))
        check_integer_scale(noise.noise_scale)
        self._set(_sum=noise, _count=count)

    @abstractmethod
    def _mechanism_for_sum(self, epsilon: float, sensitivity: int) -> Laplace | Gaussian:
        """Return the mechanism whose noise is added to a sum on the grid."""

    def _describe(self) -> events.Event:
        if self._count is None:
            return self._sum.event
        return events.ComposedEvent((self._sum.event, self._count.event))

    @quiet_numpy
    def release(self, records: Any, source: RandomSource | None = None) -> Release[NDArray[np.float64]]:
        """Return the private mean of the rows. No coordinate of it exceeds the clip norm.

        Args:
            records: An array with a row of ``dimension`` numbers for each record. It may have no rows, unless their
                number is public.
            source: The random bits; by default the process's own source.
        """
        random_source = source_or_default(source)
        vectors = as_floats("records", records)
        if vectors.size == 0:
            vectors = vectors.reshape(0, self.dimension)  # an empty list has no second axis
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            raise InvalidArgument(
                "records.shape", ("any", *vectors.shape[1:]), f"rows of {self.dimension} numbers, as configured"
            )
        if self._count is None:
            if len(vectors) == 0:
                raise InvalidArgument("records", "none", "at least one", "Their number is public under replacement")
            total = len(vectors)
        else:
            total = max(int(self._count.release(len(vectors), random_source).value), 1)
        noisy = self._noisy_sum(vectors, random_source) * (self.clip_norm / _STEPS)
        # No coordinate of the exact mean is beyond the clip norm, so clamping only brings the result closer.
        return self._released(np.clip(noisy / total, -self.clip_norm, self.clip_norm), random_source)

    def _noisy_sum(self, vectors: NDArray[np.float64], source: RandomSource) -> NDArray[np.float64]:
        """Return the sum on the fixed-point grid, where rounding cannot increase a contribution, plus integer noise."""
        total = np.zeros(self.dimension, dtype=np.int64)
        for start in range(0, len(vectors), _CHUNK):
            # Clip slightly below the norm, then round towards zero: rounding errors cannot exceed the norm.
            steps = clip_rows(vectors[start : start + _CHUNK] / self.clip_norm, 1 - 1e-9, self._order()) * _STEPS
            total += np.trunc(steps).astype(np.int64).sum(axis=0)
        # The grid of the sum is that of the integers, so integer noise of the same scale is added.
        draw = floored_laplace if self._order() == 1 else floored_gaussian
        return (total + draw(source, self._sum.noise_scale, self.dimension)).astype(np.float64)

    def _order(self) -> int:
        return 1 if isinstance(self._sum, Laplace) else 2

    def accuracy(self, num_records: int, confidence: float = 0.95) -> float:
        """Return a bound that, with this confidence, no coordinate's error exceeds.

        The error is the distance from the mean of the clipped records, not of the records themselves.
        """
        check_count("num_records", num_records)
        if self._count is None:
            return self._sum.accuracy(confidence) * self.clip_norm / _STEPS / num_records + 2 * self.clip_norm / _STEPS
        half_the_errors = (1 + confidence) / 2  # a union bound over sum and count
        count_error = self._count.accuracy(half_the_errors)
        smallest_count = max(num_records - count_error, 1)
        noise = self._sum.accuracy(half_the_errors) * self.clip_norm / _STEPS / smallest_count
        # |s / m - s / n| <= (|s| / n) |m - n| / m, and |s| / n is at most the clip norm.
        return noise + self.clip_norm * count_error / smallest_count + 2 * self.clip_norm / _STEPS


@dataclass(frozen=True, kw_only=True)
class VectorMeanL2(_VectorMean):
    """The mean of vectors clipped in L2 norm, with Gaussian noise.

    >>> from hush.randomness import TestSource
    >>> records = [[3.0, 4.0], [0.2, 0.4]] * 500  # clipped: [0.6, 0.8] and [0.2, 0.4]
    >>> mechanism = VectorMeanL2(epsilon=1.0, delta=1e-6, clip_norm=1.0, dimension=2)
    >>> mechanism.release(records, TestSource(1)).value.round(1).tolist()
    [0.4, 0.6]

    Guarantee:
        (epsilon, delta)-differential privacy, for the sum and, under add or remove, the count.

    Assumes:
        Nothing about the data: every record is clipped, and the sum is exact on a fixed-point grid (checked here). The
        dimension is public (checked here). Under replacement the number of records is public (the caller's duty).

    References:
        Balle & Wang 2018; Casacuberta et al. 2022 (why sums are not taken in floating point).
    """

    delta: float

    def _mechanism_for_sum(self, epsilon: float, sensitivity: int) -> Gaussian:
        return Gaussian(
            epsilon=epsilon,
            delta=self.delta,
            sensitivity=sensitivity,
            size=self.dimension,
            relation=self.relation,
            unit=self.unit,
        )

    def _promise(self) -> Guarantee:
        return self._claim(self.epsilon, self.delta, "mean of vectors clipped in L2 norm")


@dataclass(frozen=True, kw_only=True)
class VectorMeanL1(_VectorMean):
    """The mean of vectors clipped in L1 norm, with Laplace noise.

    >>> from hush.randomness import TestSource
    >>> mechanism = VectorMeanL1(epsilon=1.0, clip_norm=1.0, dimension=2)
    >>> mechanism.release([[0.25, 0.75], [0.15, 0.25]] * 5000, TestSource(1)).value.round(1).tolist()
    [0.2, 0.5]

    Guarantee:
        epsilon-differential privacy, delta = 0, for the sum and, under add or remove, the count.

    Assumes:
        Nothing about the data: every record is clipped, and the sum is exact on a fixed-point grid (checked here). The
        dimension is public (checked here). Under replacement the number of records is public (the caller's duty).

    References:
        Dwork, McSherry, Nissim & Smith 2006; Casacuberta et al. 2022 (why sums are not taken in floating point).
    """

    def _mechanism_for_sum(self, epsilon: float, sensitivity: int) -> Laplace:
        return Laplace(
            epsilon=epsilon, sensitivity=sensitivity, size=self.dimension, relation=self.relation, unit=self.unit
        )

    def _promise(self) -> Guarantee:
        return self._claim(self.epsilon, 0.0, "mean of vectors clipped in L1 norm")
