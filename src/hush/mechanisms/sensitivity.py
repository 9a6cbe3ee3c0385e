"""The sensitivity of queries and scores: how far they can move between neighbouring datasets.

Look up the sensitivity of your query here, then pass it to a mechanism:

>>> from hush.mechanisms import Laplace
>>> bound = sensitivity(Sum(bounds=(0, 10)))
>>> Laplace(epsilon=1.0, sensitivity=bound.l1, relation=bound.relation).sensitivity
10.0

Mechanisms that compare scores take a number, or `Monotone` where all scores move in the same direction.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from hush.errors import InvalidArgument, Unsupported, check_count, check_instance, check_positive
from hush.guarantee import Relation
from hush.numerics import check_bounds


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The largest change of a query between neighbours, in three norms.

    >>> sensitivity(Counts(num_counts=4))
    Sensitivity(l1=4.0, l2=2.0, linf=1.0, relation=<Relation.ADD_OR_REMOVE: 'add-or-remove'>)

    Attributes:
        l1: In the L1 norm, for Laplace noise.
        l2: In the L2 norm, for Gaussian noise.
        linf: In the maximum norm, for selection by scores.
        relation: How the neighbours differ.
    """

    l1: float
    l2: float
    linf: float
    relation: Relation


@dataclass(frozen=True, slots=True)
class Monotone:
    """The sensitivity of scores that all move in the same direction, as counts do when a record is added.

    Two such scores cannot move towards each other, so a mechanism that compares them needs half the noise.

    >>> from hush.mechanisms import ExponentialMechanism
    >>> counts = ExponentialMechanism(epsilon=1.0, sensitivity=Monotone(1.0))
    >>> any_scores = ExponentialMechanism(epsilon=1.0, sensitivity=1.0)
    >>> round(counts.accuracy(10), 2), round(any_scores.accuracy(10), 2)
    (5.3, 10.6)

    Attributes:
        largest_change: How far each score can move between neighbours.
    """

    largest_change: float = 1.0

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_positive("largest_change", self.largest_change)


def score_moves(sensitivity: float | Monotone, relation: Relation) -> tuple[float, int]:
    """Return how far a score can move between neighbours, and in how many directions (1 or 2) scores can move."""
    if not isinstance(sensitivity, Monotone):
        # One score may rise while another falls, so their difference moves by twice the sensitivity.
        return check_positive("sensitivity", sensitivity), 2
    if relation is Relation.REPLACE:
        raise InvalidArgument(
            "sensitivity",
            sensitivity,
            "a number under the relation replace",
            "A replacement moves some scores up and others down",
            f"Pass sensitivity={sensitivity.largest_change:.6g}",
        )
    # All scores move the same way: a difference of two moves by the largest change once.
    return sensitivity.largest_change, 1


def score_assumption(what: str, sensitivity: float | Monotone) -> str:
    """Return the assumption that a mechanism makes about scores, as text for its guarantee."""
    if isinstance(sensitivity, Monotone):
        return f"between neighbours every {what} moves in one direction by at most {sensitivity.largest_change:.6g}"
    return f"between neighbours every {what} moves by at most {sensitivity:.6g}"


class Query(ABC):
    """Base of the queries whose sensitivity is known."""

    @abstractmethod
    def _change(self, relation: Relation) -> tuple[float, float, float]:
        """Return the largest change in the L1, L2 and maximum norm."""


def sensitivity(query: Query, relation: Relation = Relation.ADD_OR_REMOVE) -> Sensitivity:
    """Return how far a query can move if one record is added or removed, replaced, or zeroed out.

    >>> sensitivity(Histogram()).l1, sensitivity(Histogram(), Relation.REPLACE).l1
    (1.0, 2.0)
    >>> sensitivity(Mean(bounds=(0, 120), num_records=1000), Relation.REPLACE).l1
    0.12

    Args:
        query: The query, such as ``Count()`` or ``Sum(bounds=(0, 10))``.
        relation: How neighbouring datasets differ.

    Guarantee:
        No two neighbouring datasets give answers that are further apart.

    Assumes:
        Values are clamped to the stated bounds, vectors are clipped to the stated norm, and each record falls into at
        most one bin of a histogram (the caller's duty).

    References:
        Dwork & Roth 2014, Sections 3.2 and 3.3.
    """
    check_instance("query", query, Query, "Such as Count(), Histogram(), Sum(bounds=...)")
    check_instance("relation", relation, Relation)
    # Delta_p = max over neighbours of ||f(D) - f(D')||_p (Dwork & Roth 2014, Definitions 3.1 and 3.8).
    l1, l2, linf = query._change(relation)
    return Sensitivity(float(l1), float(l2), float(linf), relation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(Query):
    """The number of records with a property.

    >>> sensitivity(Count()).l1
    1.0
    """

    def _change(self, relation: Relation) -> tuple[float, float, float]:
        # Under every relation one record gains or loses the property, or neither.
        return 1, 1, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts(Query):
    """The numbers of records with each of several properties; one record may have all of them.

    >>> sensitivity(Counts(num_counts=9)).l2
    3.0
    """

    num_counts: int

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_count("num_counts", self.num_counts)

    def _change(self, relation: Relation) -> tuple[float, float, float]:
        # Each of the m counts moves by at most 1: ||(1, ..., 1)||_p = m^(1/p).
        return self.num_counts, math.sqrt(self.num_counts), 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram(Query):
    """The numbers of records in the bins of a histogram; a record falls into at most one bin.

    >>> sensitivity(Histogram()).l1
    1.0
    """

    def _change(self, relation: Relation) -> tuple[float, float, float]:
        # A replaced record may leave one bin and enter another. A record that is zeroed out is in no bin.
        return (2, math.sqrt(2), 1) if relation is Relation.REPLACE else (1, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum(Query):
    """The sum of values within bounds, in exact arithmetic.

    Sums of floats are rounded and can move further. `VectorMeanL1` avoids that: it sums integers on a grid.

    >>> sensitivity(Sum(bounds=(-5, 10))).l1, sensitivity(Sum(bounds=(-5, 10)), Relation.REPLACE).l1
    (10.0, 15.0)
    """

    bounds: tuple[float, float]

    def __post_init__(self) -> None:
        """Check the arguments."""
        object.__setattr__(self, "bounds", check_bounds(self.bounds))

    def _change(self, relation: Relation) -> tuple[float, float, float]:
        lower, upper = self.bounds
        # Replaced: |x - x'| <= upper - lower. Added, removed or set to 0: |x| <= the larger end in magnitude.
        change = upper - lower if relation is Relation.REPLACE else max(abs(lower), abs(upper))
        return change, change, change


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean(Query):
    """The mean of a public number of values within bounds.

    >>> sensitivity(Mean(bounds=(0, 10), num_records=100), Relation.REPLACE).l1
    0.1
    """

    bounds: tuple[float, float]
    num_records: int

    def __post_init__(self) -> None:
        """Check the arguments."""
        object.__setattr__(self, "bounds", check_bounds(self.bounds))
        check_count("num_records", self.num_records)

    def _change(self, relation: Relation) -> tuple[float, float, float]:
        _check_public_number(relation, "mean")
        # |x_1 - x_1'| / n. The n is the same in both datasets, since it is public.
        change = _width(self.bounds, relation) / self.num_records
        return change, change, change


@dataclass(frozen=True, slots=True, kw_only=True)
class Variance(Query):
    """The variance (divided by n) of a public number of values within bounds.

    >>> sensitivity(Variance(bounds=(0, 10), num_records=100), Relation.REPLACE).l1
    0.99
    """

    bounds: tuple[float, float]
    num_records: int

    def __post_init__(self) -> None:
        """Check the arguments."""
        object.__setattr__(self, "bounds", check_bounds(self.bounds))
        check_count("num_records", self.num_records)

    def _change(self, relation: Relation) -> tuple[float, float, float]:
        _check_public_number(relation, "variance")
        n = self.num_records
        # Replacing x_1 by x_1' moves the variance by at most width^2 (n - 1) / n^2, from a point mass at one end.
        change = _width(self.bounds, relation) ** 2 * (n - 1) / n**2
        return change, change, change


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile(Query):
    """A quantile of values within bounds, such as the median or the maximum. One record can move it across the bounds.

    >>> sensitivity(Quantile(bounds=(0, 10)), Relation.REPLACE).l1
    10.0
    """

    bounds: tuple[float, float]

    def __post_init__(self) -> None:
        """Check the arguments."""
        object.__setattr__(self, "bounds", check_bounds(self.bounds))

    def _change(self, relation: Relation) -> tuple[float, float, float]:
        # Half of the records at each end: one replacement takes the median from one to the other. Noise on this scale
        # is rarely useful; `SmoothLaplace` and `ProposeTestRelease` need less for typical data.
        change = _width(self.bounds, relation)
        return change, change, change


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSum(Query):
    """The sum of vectors that are clipped in L2 norm, or, with ``order=1``, in L1 norm.

    >>> sensitivity(VectorSum(clip_norm=1.0, dimension=16)).l1
    4.0
    """

    clip_norm: float
    dimension: int
    order: int = 2

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_positive("clip_norm", self.clip_norm)
        check_count("dimension", self.dimension)
        if self.order not in (1, 2):
            raise Unsupported(f"order={self.order!r}: norms of order 1 and 2 are known")

    def _change(self, relation: Relation) -> tuple[float, float, float]:
        # A replacement takes v out and puts -v in: ||v - (-v)|| = 2 C.
        norm = self.clip_norm * (2 if relation is Relation.REPLACE else 1)
        # A vector of L2 norm C has an L1 norm of at most sqrt(dimension) C.
        return (norm, norm, norm) if self.order == 1 else (norm * math.sqrt(self.dimension), norm, norm)


def _width(bounds: tuple[float, float], relation: Relation) -> float:
    """Return how far apart two values of a record can be. Zeroing out gives the value 0, even outside the bounds."""
    if relation is Relation.ZERO_OUT:
        return max(bounds[1], 0.0) - min(bounds[0], 0.0)
    return bounds[1] - bounds[0]


def _check_public_number(relation: Relation, what: str) -> None:
    """Refuse a query that needs the number of records, if that is private."""
    if relation is Relation.ADD_OR_REMOVE:
        raise Unsupported(
            f"the {what} of records that are added or removed: their number is private, too",
            "Release a sum and a count, or use Relation.REPLACE",
        )
