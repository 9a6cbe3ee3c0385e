"""The mean of vectors, each clipped to a public norm."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting import events
from hush.errors import InvalidArgument, check_count, check_positive
from hush.guarantee import Guarantee, Relation
from hush.mechanisms.mechanism import Mechanism, Release, SensitivityType
from hush.mechanisms.noise import DiscreteLaplace, Gaussian, Laplace, check_integer_scale
from hush.numerics import down, numbers, silent
from hush.randomness import RandomSource, floored_gaussian, floored_laplace, source_or_default

_STEPS = 1 << 30  # of the fixed-point grid, to a clip norm
_CHUNK = 1 << 16


def clip(vectors: NDArray[np.float64], clip_norm: float, order: int) -> NDArray[np.float64]:
    """Scale each row down to the norm, if it is longer; NaN counts as 0, infinity as the largest number."""
    finite = np.clip(np.nan_to_num(vectors, nan=0.0), -1e150, 1e150)
    norms = np.abs(finite).sum(axis=1) if order == 1 else np.sqrt((finite * finite).sum(axis=1))
    factors = np.divide(clip_norm, norms, out=np.ones_like(norms), where=norms > clip_norm)
    clipped: NDArray[np.float64] = finite * factors[:, None]
    return clipped


@dataclass(frozen=True, kw_only=True)
class _VectorMean(Mechanism):
    """A mean of vectors: a noisy sum over a noisy count (add or remove), or over the public number (replace).

    Attributes:
        epsilon: For sum and count together.
        clip_norm: Longer vectors are scaled down to this norm.
        dimension: How many coordinates a vector has.
        count_share: What part of epsilon the count gets, where it is private.
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
        fixed = self.relation is Relation.REPLACE
        count = None if fixed else DiscreteLaplace(epsilon=self.epsilon * self.count_share, relation=self.relation)
        share = self.epsilon if fixed else down(self.epsilon * (1 - self.count_share))
        # In steps of the grid, where a clipped vector has norm 2^30 at most; a replacement changes two of them.
        noise = self._mechanism_for_sum(share, _STEPS * (2 if fixed else 1))
        check_integer_scale(noise.noise_scale)
        self._set(_sum=noise, _count=count)

    @abstractmethod
    def _mechanism_for_sum(self, epsilon: float, sensitivity: int) -> Laplace | Gaussian:
        """Return the noise for a sum on the grid."""

    def _describe(self) -> events.Event:
        if self._count is None:
            return self._sum.event
        return events.ComposedEvent((self._sum.event, self._count.event))

    @silent
    def release(self, records: Any, source: RandomSource | None = None) -> Release[NDArray[np.float64]]:
        """Return the mean of the rows; no coordinate exceeds the clip norm, and no number of rows is too small."""
        chosen = source_or_default(source)
        vectors = numbers("records", records)
        if vectors.size == 0:
            vectors = vectors.reshape(0, self.dimension)  # no rows have no shape
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            raise InvalidArgument(
                "records.shape", ("any", *vectors.shape[1:]), f"rows of {self.dimension} numbers, as configured"
            )
        if self._count is None:
            if len(vectors) == 0:
                raise InvalidArgument("records", "none", "at least one", "Under replacement their number is public")
            total = len(vectors)
        else:
            total = max(int(self._count.release(len(vectors), chosen).value), 1)
        noisy = self._noisy_sum(vectors, chosen) * (self.clip_norm / _STEPS)
        # No coordinate of the exact mean is beyond the clip norm; cutting each one off only brings it closer.
        return self._released(np.clip(noisy / total, -self.clip_norm, self.clip_norm), chosen)

    def _noisy_sum(self, vectors: NDArray[np.float64], source: RandomSource) -> NDArray[np.float64]:
        """Sum on a fixed-point grid, where no rounding can widen a record's share, and add integer noise."""
        total = np.zeros(self.dimension, dtype=np.int64)
        for start in range(0, len(vectors), _CHUNK):
            # A hair below the norm, then towards zero: what rounding adds cannot lead beyond it.
            steps = clip(vectors[start : start + _CHUNK] / self.clip_norm, 1 - 1e-9, self._order()) * _STEPS
            total += np.trunc(steps).astype(np.int64).sum(axis=0)
        draw = floored_laplace if self._order() == 1 else floored_gaussian
        return (total + draw(source, self._sum.noise_scale, self.dimension)).astype(np.float64)

    def _order(self) -> int:
        return 1 if isinstance(self._sum, Laplace) else 2

    def accuracy(self, num_records: int, confidence: float = 0.95) -> float:
        """Return what, with this confidence, no coordinate of the noisy mean is off the clipped mean by more than."""
        check_count("num_records", num_records)
        if self._count is None:
            return self._sum.accuracy(confidence) * self.clip_norm / _STEPS / num_records + 2 * self.clip_norm / _STEPS
        both = (1 + confidence) / 2
        missing = self._count.accuracy(both)
        at_least = max(num_records - missing, 1)
        noise = self._sum.accuracy(both) * self.clip_norm / _STEPS / at_least
        return noise + self.clip_norm * missing / at_least + 2 * self.clip_norm / _STEPS


@dataclass(frozen=True, kw_only=True)
class VectorMeanL2(_VectorMean):
    """The mean of vectors clipped in L2 norm, with Gaussian noise.

    >>> records = [[3.0, 4.0], [0.1, 0.2]] * 500
    >>> mean = VectorMeanL2(epsilon=1.0, delta=1e-6, clip_norm=1.0, dimension=2).release(records).value
    >>> mean.shape
    (2,)

    Guarantee:
        (epsilon, delta)-differential privacy, for the sum and, under add or remove, the count.

    Assumes:
        Nothing of the data: every record is clipped here, and the sum is exact on a fixed-point grid (checked here).
        The dimension is public (checked here); under replacement so is the number of records (the caller's duty).

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

    Guarantee:
        epsilon-differential privacy, delta = 0, for the sum and, under add or remove, the count.

    Assumes:
        Nothing of the data: every record is clipped here, and the sum is exact on a fixed-point grid (checked here).
        The dimension is public (checked here); under replacement so is the number of records (the caller's duty).

    References:
        Dwork, McSherry, Nissim & Smith 2006; Casacuberta et al. 2022 (why sums are not taken in floating point).
    """

    def _mechanism_for_sum(self, epsilon: float, sensitivity: int) -> Laplace:
        return Laplace(
            epsilon=epsilon, sensitivity=sensitivity, size=self.dimension, relation=self.relation, unit=self.unit
        )

    def _promise(self) -> Guarantee:
        return self._claim(self.epsilon, 0.0, "mean of vectors clipped in L1 norm")
