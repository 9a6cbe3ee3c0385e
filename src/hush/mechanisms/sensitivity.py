"""The sensitivity of queries and scores: how far they can move between neighbouring datasets.

Look up the sensitivity of your query here, then pass it to a mechanism:

>>> from hush.mechanisms import Laplace
>>> bound = Sensitivity.sum(bounds=(0, 10))
>>> Laplace(epsilon=1.0, sensitivity=bound.l1, relation=bound.relation).sensitivity
10.0

Mechanisms that compare scores take a number, or `Monotone` where all scores move in the same direction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hush.errors import InvalidArgument, Unsupported, check_count, check_instance, check_positive
from hush.guarantee import Relation
from hush.numerics import check_bounds


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The largest change of a query between neighbours, in three norms.

    The class methods return the sensitivity of standard queries. It is the global sensitivity: over all pairs of
    neighbours, not only those of the dataset at hand.

    >>> Sensitivity.counts(4)
    Sensitivity(l1=4.0, l2=2.0, linf=1.0, relation=<Relation.ADD_OR_REMOVE: 'add-or-remove'>)
    >>> Sensitivity.histogram().l1, Sensitivity.histogram(Relation.REPLACE).l1
    (1.0, 2.0)
    >>> Sensitivity.mean(bounds=(0, 120), num_records=1000, relation=Relation.REPLACE).l1
    0.12

    Attributes:
        l1: In the L1 norm, for Laplace noise.
        l2: In the L2 norm, for Gaussian noise.
        linf: In the maximum norm, for selection by scores.
        relation: How the neighbours differ.

    Guarantee:
        No two neighbouring datasets give answers that are further apart.

    Assumes:
        Values are clamped to the stated bounds, vectors are clipped to the stated norm, and each record falls into at
        most one bin of a histogram (the caller's duty).

    References:
        Dwork & Roth 2014, Definitions 3.1 and 3.8, Sections 3.2 and 3.3.
    """

    # Delta_p = max over neighbours of ||f(D) - f(D')||_p.
    l1: float
    l2: float
    linf: float
    relation: Relation

    @classmethod
    def count(cls, relation: Relation = Relation.ADD_OR_REMOVE) -> Sensitivity:
        """Return the sensitivity of the number of records with a property."""
        # Under every relation one record gains or loses the property, or neither.
        return cls._one_number(1.0, relation)

    @classmethod
    def counts(cls, num_counts: int, relation: Relation = Relation.ADD_OR_REMOVE) -> Sensitivity:
        """Return the sensitivity of the numbers of records with each of several properties. One record may have all."""
        # Each of the m counts moves by at most 1: ||(1, ..., 1)||_p = m^(1/p).
        size = check_count("num_counts", num_counts)
        return cls(float(size), math.sqrt(size), 1.0, _checked(relation))

    @classmethod
    def histogram(cls, relation: Relation = Relation.ADD_OR_REMOVE) -> Sensitivity:
        """Return the sensitivity of a histogram's counts; a record falls into at most one bin."""
        # A replaced record may leave one bin and enter another. A record that is zeroed out is in no bin.
        moved = 2 if _checked(relation) is Relation.REPLACE else 1
        return cls(float(moved), math.sqrt(moved), 1.0, relation)

    @classmethod
    def sum(cls, *, bounds: tuple[float, float], relation: Relation = Relation.ADD_OR_REMOVE) -> Sensitivity:
        """Return the sensitivity of the sum of values within bounds, in exact arithmetic.

        Sums of floats are rounded and can move further. `VectorMeanL1` avoids that: it sums integers on a grid.

        >>> Sensitivity.sum(bounds=(-5, 10)).l1, Sensitivity.sum(bounds=(-5, 10), relation=Relation.REPLACE).l1
        (10.0, 15.0)
        """
        lower, upper = check_bounds(bounds)
        # Replaced: |x - x'| <= upper - lower. Added, removed or set to 0: |x| <= the larger end in magnitude.
        replaced = _checked(relation) is Relation.REPLACE
        return cls._one_number(upper - lower if replaced else max(abs(lower), abs(upper)), relation)

    @classmethod
    def mean(
        cls, *, bounds: tuple[float, float], num_records: int, relation: Relation = Relation.ADD_OR_REMOVE
    ) -> Sensitivity:
        """Return the sensitivity of the mean of a public number of values within bounds."""
        width = _width(check_bounds(bounds), relation)
        size = _public_number(num_records, relation, "mean")
        # |x_1 - x_1'| / n. The n is the same in both datasets, since it is public.
        return cls._one_number(width / size, relation)

    @classmethod
    def variance(
        cls, *, bounds: tuple[float, float], num_records: int, relation: Relation = Relation.ADD_OR_REMOVE
    ) -> Sensitivity:
        """Return the sensitivity of the variance (divided by n) of a public number of values within bounds."""
        width = _width(check_bounds(bounds), relation)
        size = _public_number(num_records, relation, "variance")
        # Replacing x_1 by x_1' moves the variance by at most width^2 (n - 1) / n^2, from a point mass at one end.
        return cls._one_number(width**2 * (size - 1) / size**2, relation)

    @classmethod
    def quantile(cls, *, bounds: tuple[float, float], relation: Relation = Relation.ADD_OR_REMOVE) -> Sensitivity:
        """Return the sensitivity of a quantile of values within bounds, such as the median or the maximum.

        One record can move it across the bounds.
        """
        # Half of the records at each end: one replacement takes the median from one to the other. Noise on this scale
        # is rarely useful; `SmoothLaplace` and `ProposeTestRelease` need less for typical data.
        return cls._one_number(_width(check_bounds(bounds), relation), relation)

    @classmethod
    def vector_sum(
        cls, *, clip_norm: float, dimension: int, order: int = 2, relation: Relation = Relation.ADD_OR_REMOVE
    ) -> Sensitivity:
        """Return the sensitivity of the sum of vectors clipped in L2 norm, or, with ``order=1``, in L1 norm.

        >>> Sensitivity.vector_sum(clip_norm=1.0, dimension=16).l1
        4.0
        """
        size, length = check_count("dimension", dimension), check_positive("clip_norm", clip_norm)
        if order not in (1, 2):
            raise Unsupported(f"order={order!r}: norms of order 1 and 2 are known")
        # A replacement takes v out and puts -v in: ||v - (-v)|| = 2 C.
        norm = float(length * (2 if _checked(relation) is Relation.REPLACE else 1))
        # A vector of L2 norm C has an L1 norm of at most sqrt(dimension) C.
        return cls(norm if order == 1 else norm * math.sqrt(size), norm, norm, relation)

    @classmethod
    def _one_number(cls, change: float, relation: Relation) -> Sensitivity:
        """Return the sensitivity of one number: all norms agree."""
        return cls(float(change), float(change), float(change), _checked(relation))


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


def _checked(relation: Relation) -> Relation:
    check_instance("relation", relation, Relation)
    return relation


def _width(bounds: tuple[float, float], relation: Relation) -> float:
    """Return how far apart two values of a record can be. Zeroing out gives the value 0, even outside the bounds."""
    if _checked(relation) is Relation.ZERO_OUT:
        return max(bounds[1], 0.0) - min(bounds[0], 0.0)
    return bounds[1] - bounds[0]


def _public_number(num_records: int, relation: Relation, what: str) -> int:
    """Return the number of records, or refuse if it is private."""
    if relation is Relation.ADD_OR_REMOVE:
        raise Unsupported(
            f"the {what} of records that are added or removed: their number is private, too",
            "Release a sum and a count, or use Relation.REPLACE",
        )
    return check_count("num_records", num_records)
