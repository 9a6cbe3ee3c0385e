"""How far standard queries can move between neighbours, under both relations."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from hush.errors import Unsupported, check_count, check_instance, check_positive
from hush.guarantee import Relation
from hush.mechanisms.smooth import check_bounds


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The largest change of a query between neighbours, in three norms: L1 for Laplace, L2 for Gaussian noise."""

    l1: float
    l2: float
    linf: float
    relation: Relation


class Query(ABC):
    """A query of which the sensitivity is known."""

    @abstractmethod
    def _change(self, relation: Relation) -> tuple[float, float, float]:
        """Return the largest change in L1, L2 and L-infinity norm."""


def sensitivity(query: Query, relation: Relation = Relation.ADD_OR_REMOVE) -> Sensitivity:
    """Return how far a query can move when one record is added or removed, replaced, or zeroed out.

    >>> sensitivity(Histogram()).l1, sensitivity(Histogram(), Relation.REPLACE).l1
    (1.0, 2.0)
    >>> sensitivity(Mean(bounds=(0, 120), num_records=1000), Relation.REPLACE).l1
    0.12

    Guarantee:
        No pair of neighbours is further apart.

    Assumes:
        Values are clamped to the stated bounds, vectors clipped to the stated norm, and each record falls into one bin
        of a histogram at most (the caller's duty).

    References:
        Dwork & Roth 2014, Sections 3.2 and 3.3.
    """
    check_instance("query", query, Query, "Such as Count(), Histogram(), Sum(bounds=...)")
    check_instance("relation", relation, Relation)
    l1, l2, linf = query._change(relation)
    return Sensitivity(float(l1), float(l2), float(linf), relation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(Query):
    """How many records have a property."""

    def _change(self, relation: Relation) -> tuple[float, float, float]:
        return 1, 1, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts(Query):
    """How many records have each of several properties, all of which one record may have."""

    num_counts: int

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_count("num_counts", self.num_counts)

    def _change(self, relation: Relation) -> tuple[float, float, float]:
        return self.num_counts, math.sqrt(self.num_counts), 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram(Query):
    """How many records fall into each of several bins, of which a record has one."""

    def _change(self, relation: Relation) -> tuple[float, float, float]:
        # A record that is replaced may leave one bin and enter another; zeroed out, it counts in none.
        return (2, math.sqrt(2), 1) if relation is Relation.REPLACE else (1, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum(Query):
    """The sum of values within bounds, as real numbers: sums of floats round, and can move further.

    `hush.mechanisms.VectorMeanL1` shows how to avoid that: it sums integers of a fixed-point grid.
    """

    bounds: tuple[float, float]

    def __post_init__(self) -> None:
        """Check the arguments."""
        object.__setattr__(self, "bounds", check_bounds(self.bounds))

    def _change(self, relation: Relation) -> tuple[float, float, float]:
        lower, upper = self.bounds
        change = upper - lower if relation is Relation.REPLACE else max(abs(lower), abs(upper))
        return change, change, change


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean(Query):
    """The mean of a public number of values within bounds."""

    bounds: tuple[float, float]
    num_records: int

    def __post_init__(self) -> None:
        """Check the arguments."""
        object.__setattr__(self, "bounds", check_bounds(self.bounds))
        check_count("num_records", self.num_records)

    def _change(self, relation: Relation) -> tuple[float, float, float]:
        _fixed_number(relation, "mean")
        change = _width(self.bounds, relation) / self.num_records
        return change, change, change


@dataclass(frozen=True, slots=True, kw_only=True)
class Variance(Query):
    """The variance (over n) of a public number of values within bounds."""

    bounds: tuple[float, float]
    num_records: int

    def __post_init__(self) -> None:
        """Check the arguments."""
        object.__setattr__(self, "bounds", check_bounds(self.bounds))
        check_count("num_records", self.num_records)

    def _change(self, relation: Relation) -> tuple[float, float, float]:
        _fixed_number(relation, "variance")
        n = self.num_records
        change = _width(self.bounds, relation) ** 2 * (n - 1) / n**2
        return change, change, change


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile(Query):
    """A quantile (also the median, the minimum, the maximum) of values within bounds: it can move from end to end."""

    bounds: tuple[float, float]

    def __post_init__(self) -> None:
        """Check the arguments."""
        object.__setattr__(self, "bounds", check_bounds(self.bounds))

    def _change(self, relation: Relation) -> tuple[float, float, float]:
        change = _width(self.bounds, relation)
        return change, change, change


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSum(Query):
    """The sum of vectors of a dimension, clipped to an L2 norm (or, with ``order`` 1, to an L1 norm)."""

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
        size = self.clip_norm * (2 if relation is Relation.REPLACE else 1)
        return (size, size, size) if self.order == 1 else (size * math.sqrt(self.dimension), size, size)


def _width(bounds: tuple[float, float], relation: Relation) -> float:
    """Return how far apart two values of a record can be: a record that is zeroed out may be outside the bounds."""
    if relation is Relation.ZERO_OUT:
        return max(bounds[1], 0.0) - min(bounds[0], 0.0)
    return bounds[1] - bounds[0]


def _fixed_number(relation: Relation, what: str) -> None:
    if relation is Relation.ADD_OR_REMOVE:
        raise Unsupported(
            f"the {what} when records come and go: their number is private, too",
            "Release a sum and a count, or use Relation.REPLACE",
        )
