"""The baseline of adaptive data analysis: a part of the held-out rows for each question, and none is used twice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hush.errors import BudgetExceeded, InvalidArgument, check_confidence, check_count
from hush.numerics import quiet_numpy
from hush.stability.row_queries import Query, checked_length, copied, mean_of, row_values, unchangeable


class SplitHoldout:
    """A held-out set in parts: each question is answered from a part of its own, so nothing can be overfitted.

    Not private. The answers need no noise, but k questions leave a k-th of the rows for each. Compare its `width` with
    `ReusableHoldout.proven_width`: for few questions, splitting is better. Methods for adaptive data analysis have to
    beat this baseline.

    >>> import numpy as np
    >>> split = SplitHoldout((np.arange(10_000) % 2,), num_queries=4)
    >>> split.ask(lambda x: x == 1), split.remaining, round(split.width(), 3)
    (0.5, 3, 0.032)

    Args:
        holdout: The columns of the held-out rows.
        num_queries: The number of questions, fixed in advance.

    Guarantee:
        No privacy. With the stated confidence, all answers are within `width` of the population's means.

    Assumes:
        The rows are independent draws from the population, in an order that does not depend on their values (the
        caller's duty).

    References:
        Hoeffding 1963, Theorem 2 (each part's mean), with a union bound over the questions.
    """

    def __init__(self, holdout: Sequence[Any], *, num_queries: int) -> None:
        self._holdout, self.remaining = copied(holdout), check_count("num_queries", num_queries)
        self._num_queries = self.remaining
        num_rows = checked_length("holdout", self._holdout)
        self._size = num_rows // self._num_queries
        if not self._size:
            raise InvalidArgument("num_queries", num_queries, f"at most {num_rows}", "Each question needs a row")

    @quiet_numpy
    def ask(self, query: Query) -> float:
        """Return the mean of a query's values, as for `ReusableHoldout.ask`, over the next part."""
        if not self.remaining:
            raise BudgetExceeded(f"num_queries={self._num_queries}: every part was used", "Collect new rows")
        start = (self._num_queries - self.remaining) * self._size
        self.remaining -= 1
        part = tuple(column[start : start + self._size] for column in self._holdout)
        return mean_of(row_values(query, unchangeable(part)), self._size)

    def width(self, confidence: float = 0.95) -> float:
        """Return a bound on how far all answers are from the population's means."""
        return split_width(self._size * self._num_queries, self._num_queries, confidence)


def split_width(num_rows: int, num_queries: int, confidence: float) -> float:
    """Return `SplitHoldout.width`, from public numbers alone; 1 if there are fewer rows than questions."""
    failure = 1 - check_confidence("confidence", confidence)
    size = num_rows // num_queries
    # P[|mean - expectation| > t] <= 2 e^(-2 m t^2) for m rows; the margin covers the mean's own rounding.
    return min(1.0, math.sqrt(math.log(2 * num_queries / failure) / (2 * size)) + 2.0**-29) if size else 1.0
