"""Sums of vectors, one after the other, for which each record pays what its own vectors cost.

    start   every record has the same budget: ``full_sums`` squared clip norms
    sum     each record's vector is clipped, and costs its squared norm; a record that cannot pay is left out
    noise   the same for every sum, however many records still take part

A record whose vectors are short takes part in many more than ``full_sums`` sums. What a record has paid follows from
its data. So it is private: the session uses it, and shows it to nobody.
"""

from __future__ import annotations

import math
import os
import threading
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hush.accounting import events
from hush.errors import InvalidArgument, Unsupported, check_count, check_positive
from hush.guarantee import Guarantee, Relation
from hush.mechanisms.mechanism import Mechanism, SensitivityType
from hush.mechanisms.noise import Gaussian
from hush.numerics import as_floats, clip_rows, quiet_numpy, round_up
from hush.randomness import RandomSource, floored_gaussian, source_or_default

_STEP_BITS = 30
_STEPS = 1 << _STEP_BITS  # of the fixed-point grid, to a clip norm
_MAX_FULL_SUMS = 1 << 24


@dataclass(frozen=True, kw_only=True)
class IndividualSums(Mechanism):
    """Sums of vectors with individual accounting: any number of them, until a record's own vectors have used it up.

    `start` opens a session, whose `IndividualSession.sum` you may call as often as you like. All sums together cost
    epsilon. Each record takes part until the squared norms of its own vectors, after clipping, add up to ``full_sums``
    squared clip norms. Then it is left out, of this sum or of all, and nobody can see that. Vectors may depend on
    earlier sums: gradient descent on all records is the typical use, as gradients become short where a model fits.

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> mechanism = IndividualSums(epsilon=1.0, delta=1e-6, clip_norm=1.0, dimension=2, full_sums=4)
    >>> session = mechanism.start(TestSource(1))
    >>> short = np.full((10_000, 2), 0.1)  # costs 0.02 of 4
    >>> [float(session.sum(short)[0].round(-2)) for _ in range(3)]
    [1000.0, 1000.0, 1000.0]
    >>> print(mechanism.guarantee())
    epsilon <= 1, delta = 1e-06 per example (add-or-remove), by sums with individual accounting

    Attributes:
        epsilon: The cost of the whole session.
        delta: The delta of the whole session.
        clip_norm: Longer vectors are scaled down to this norm.
        dimension: The number of coordinates of a vector.
        full_sums: In how many sums a record takes part if all of its vectors are as long as the clip norm.

    Guarantee:
        (epsilon, delta)-differential privacy for all sums of a session together, however many there are, and for what
        was computed from them on the way.

    Assumes:
        Row i is the same record in every sum, and its vector depends on that record and on earlier sums only (the
        caller's duty). Vectors are clipped, and records that have used up their budget are left out (checked here).

    References:
        Feldman & Zrnic 2021, Algorithm 3 and Theorem 4.3 (a filter for each record, on the norms that it really has).
        For Gaussian noise nothing is lost to the filter (Smith & Thakurta 2022): complete what a record contributes by
        one more noisy number, so that the squares add up to the whole budget on every path. A sum of normal variables
        whose coefficients may depend on earlier ones, and whose squares add up to a constant, is normal. So the privacy
        loss is that of one Gaussian mechanism, and leaving that number out costs nothing.
    """

    sensitivity_type = SensitivityType.CLIPPED

    epsilon: float
    delta: float
    clip_norm: float
    dimension: int
    full_sums: int
    _noise: Gaussian = field(init=False, repr=False, compare=False)

    def _prepare(self) -> None:
        check_positive("epsilon", self.epsilon)
        if not 1e-150 < check_positive("clip_norm", self.clip_norm) < 1e150:
            raise InvalidArgument("clip_norm", self.clip_norm, "between 1e-150 and 1e150")
        check_count("dimension", self.dimension)
        if not check_count("full_sums", self.full_sums) <= _MAX_FULL_SUMS:
            raise InvalidArgument("full_sums", self.full_sums, f"at most {_MAX_FULL_SUMS}")
        # The contributions of a record to all sums, one below the other, are a vector of at most this norm. Replacing
        # it takes one such vector away and adds another.
        norm = round_up(_STEPS * math.sqrt(self.full_sums)) * (2 if self.relation is Relation.REPLACE else 1)
        noise = Gaussian(
            epsilon=self.epsilon,
            delta=self.delta,
            sensitivity=norm,
            size=self.dimension,
            relation=self.relation,
            unit=self.unit,
        )
        self._set(_noise=noise)

    def _promise(self) -> Guarantee:
        return self._claim(
            self.epsilon,
            self.delta,
            "sums with individual accounting",
            "a record's vector depends on that record and on earlier sums only",
        )

    def _describe(self) -> events.Event:
        return self._noise.event

    @property
    def noise_stddev(self) -> float:
        """The standard deviation of the noise on each coordinate of a sum."""
        return self._noise.noise_scale * self.clip_norm / _STEPS

    def start(self, source: RandomSource | None = None) -> IndividualSession:
        """Open a session.

        Args:
            source: The random bits; by default the process's own source.
        """
        return IndividualSession(self, source_or_default(source))

    def accuracy(self, num_records: int, confidence: float = 0.95) -> float:
        """Return a bound that, with this confidence, no coordinate's error exceeds.

        The error is the distance of one sum from that of the clipped vectors of all records that took part in it.
        """
        rounding = 2 * check_count("num_records", num_records)
        return (self._noise.accuracy(confidence) + rounding) * self.clip_norm / _STEPS


class IndividualSession:
    """A running `IndividualSums`. It belongs to one process and cannot be copied, since two copies would pay once.

    Attributes:
        mechanism: The mechanism that started it.
        guarantee: The guarantee of the whole session.
    """

    def __init__(self, mechanism: IndividualSums, source: RandomSource) -> None:
        """Start with nothing paid. Call `IndividualSums.start` to get a session."""
        self.mechanism = mechanism
        self.guarantee = mechanism.guarantee(source)
        self._source, self._process, self._lock = source, os.getpid(), threading.Lock()
        self._paid: NDArray[np.int64] | None = None  # by each record, in 2^30 squared steps of the grid

    @quiet_numpy
    def sum(self, vectors: Any) -> NDArray[np.float64]:
        """Return the noisy sum of the vectors of all records that can still pay for theirs.

        Args:
            vectors: An array with a row of ``dimension`` numbers for each record, in the same order every time.
        """
        if self._process != os.getpid():
            raise Unsupported("a session of another process: records would pay once for two sums", "Start a new one")
        with self._lock:  # no other thread may add between the check and the payment
            return self._noisy(self._contributions(self._on_grid(vectors)))

    def _on_grid(self, vectors: Any) -> NDArray[np.int64]:
        """Return the clipped vectors in steps of the grid, rounded towards zero."""
        dimension = self.mechanism.dimension
        rows = as_floats("vectors", vectors)
        if rows.size == 0:
            rows = rows.reshape(0, dimension)  # an empty list has no second axis
        if rows.ndim != 2 or rows.shape[1] != dimension:
            raise InvalidArgument(
                "vectors.shape", ("any", *rows.shape[1:]), f"rows of {dimension} numbers, as configured"
            )
        if self._paid is None:
            self._paid = np.zeros(len(rows), dtype=np.int64)
        if len(rows) != len(self._paid):
            raise InvalidArgument(
                "vectors",
                "an array of rows",
                "as many rows as in the first sum",
                "Row i must be the same record each time",
            )
        # Clipped slightly below the norm, then rounded towards zero: rounding errors cannot exceed the norm.
        steps = clip_rows(rows / self.mechanism.clip_norm, 1 - 1e-9, 2) * _STEPS
        return np.trunc(steps).astype(np.int64)

    def _contributions(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of the records that can pay for them; they pay. The others' rows are 0."""
        assert self._paid is not None
        # Squares of at most 2^60, exact, rounded up to multiples of 2^30: totals fit into 64 bits.
        costs = ((rows * rows).sum(axis=1) + _STEPS - 1) >> _STEP_BITS
        # Checked before the vector is added: what was released cannot be taken back.
        can_pay = self._paid + costs <= self.mechanism.full_sums << _STEP_BITS
        self._paid += np.where(can_pay, costs, 0)
        return np.where(can_pay[:, None], rows, 0)

    def _noisy(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        mechanism = self.mechanism
        noise = floored_gaussian(self._source, mechanism._noise.noise_scale, mechanism.dimension)
        return np.asarray((rows.sum(axis=0) + noise) * (mechanism.clip_norm / _STEPS), dtype=np.float64)

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied."""
        raise Unsupported("a session of individual sums cannot be copied or pickled: records would pay once for two")
