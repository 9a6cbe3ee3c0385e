"""The cost in delta of a limit on Poisson samples (``Poisson(..., max_batch_size=)``).

A run that drops the excess of large samples equals a run that drops nothing, unless one of its samples exceeds the
limit. If that has probability at most t for either neighbour, (epsilon, delta) becomes

    (epsilon, delta + (1 + e^epsilon) t)

for all steps together: once t for each of the two datasets, one of them inside the factor e^epsilon (Chua et al. 2024,
"Scalable DP-SGD: Shuffling vs. Poisson Subsampling", Theorem 3.3).
"""

from __future__ import annotations

import math
from dataclasses import replace

from scipy.stats import binom

from hush.accounting import PldAccountant
from hush.errors import InvalidArgument
from hush.guarantee import Guarantee

_MAX_EXPONENT = 700.0  # exp overflows beyond 709; such an epsilon leaves no delta anyway
_MAX_ROUNDS = 100


def overflow_probability(limit: int, num_units: int, rate: float) -> float:
    """Return the probability that a Poisson sample exceeds the limit, rounded up."""
    # The size of a sample is Binomial(num_units, rate). SciPy's tail is good to about 1e-12; the factor covers it.
    return float(binom.sf(limit, num_units, rate)) * (1 + 1e-9)


def remaining_delta(delta: float, epsilon: float, overflow: float, limit: int) -> float:
    """Return the delta that remains after truncation, delta - (1 + e^epsilon) t; refuse a limit that leaves nothing."""
    remaining = delta - (1 + math.exp(min(epsilon, _MAX_EXPONENT))) * overflow
    if not remaining > 0:
        raise _limit_too_small(limit)
    return remaining


def guarantee_after_truncation(accountant: PldAccountant, delta: float, overflow: float, limit: int) -> Guarantee:
    """Return a guarantee whose delta is smaller than ``delta`` by the price of dropped examples.

    That price grows with epsilon, which in turn grows as less of delta is left. So this is a fixed point, found by
    iteration from below.

    Args:
        accountant: The accountant of a run that drops nothing.
        delta: The delta that the run may use in all.
        overflow: An upper bound on the probability t that a sample of the run exceeds the limit.
        limit: The limit, for a message.
    """
    stated = accountant.guarantee(delta)
    for _ in range(_MAX_ROUNDS):
        remaining = remaining_delta(delta, stated.epsilon, overflow, limit)
        candidate = accountant.guarantee(remaining)
        # Rounding in the accountant may move epsilon by an ulp without progress; 1e-12 is far below what it reports.
        if candidate.epsilon <= stated.epsilon * (1 + 1e-12):
            return candidate  # the price was computed for an epsilon that is at least as large
        # A little beyond the candidate, so that the iteration passes the fixed point instead of creeping towards it.
        stated = replace(candidate, epsilon=candidate.epsilon * (1 + 1e-6))
    raise _limit_too_small(limit)


def _limit_too_small(limit: int) -> InvalidArgument:
    return InvalidArgument(
        "max_batch_size",
        limit,
        "a larger limit: dropping examples would use up delta",
        "Six standard deviations above batch_size suffice",
    )
