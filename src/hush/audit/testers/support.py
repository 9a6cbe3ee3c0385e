"""Tests of floating-point noise: outputs that are possible on one input and impossible on its neighbour."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.audit.bounds.result import AuditResult
from hush.audit.testers.outputs import BlackBox, Features, Rows
from hush.audit.testers.tester import audit_mechanism
from hush.guarantee import Relation, Unit
from hush.randomness import RandomSource

Reachable = Callable[[Rows, Any], NDArray[np.bool_]]


def support_test(
    mechanism: BlackBox,
    first: Any,
    second: Any,
    *,
    samples: int,
    confidence: float = 0.95,
    reachable: Reachable | None = None,
    source: RandomSource | None = None,
    unit: Unit = Unit.example(),
    relation: Relation = Relation.ADD_OR_REMOVE,
) -> AuditResult:
    """Bound epsilon from below by the outputs that are possible on one input only.

    Noise that is drawn and added in floating point leaves gaps: some doubles are the sum of one input and a value that
    the sampler can return, but not the sum of the other input and any such value. If you know the sampler, pass
    ``reachable``. Otherwise the lowest bits of the outputs are attacked (`lowest_bits`): which powers of two divide an
    output must not depend on the input.

    >>> from hush.audit.testers import Batched
    >>> from hush.randomness import TestSource
    >>> def floating(data, source, count):
    ...     return data + np.random.default_rng(source.words(4)).laplace(size=count)
    >>> support_test(Batched(floating), 0.0, 1.0, samples=20_000, source=TestSource(1)).compare(1.0).verdict.value
    'violated'

    Args:
        mechanism: The mechanism, as in `audit_mechanism`.
        first: An input.
        second: A neighbouring input.
        samples: The number of fresh runs per input. The same number, up to half a million, is used for the search.
        confidence: The confidence of the bound.
        reachable: A function of rows of outputs and an input. It returns which rows this input can produce.
        source: The randomness that the mechanism gets.
        unit: The privacy unit in which the inputs differ, for comparisons with a guarantee.
        relation: The neighbouring relation between them.

    Returns:
        The bound at delta = 0.

    Guarantee:
        The same as for `audit_mechanism` at delta = 0, with `EventSearch` on these features.

    Assumes:
        Outputs are numbers (checked here). The inputs are neighbours and runs are independent (the caller's duty).

    References:
        Mironov (2012), On Significance of the Least Significant Bits for Differential Privacy.
    """
    features: Features = lowest_bits if reachable is None else _reachability(reachable, first, second)
    return audit_mechanism(
        mechanism,
        first,
        second,
        samples=samples,
        confidence=confidence,
        features=features,
        source=source,
        unit=unit,
        relation=relation,
    )


def _reachability(reachable: Reachable, first: Any, second: Any) -> Features:
    def features(rows: Rows) -> Rows:
        return np.column_stack([reachable(rows, first), reachable(rows, second)]).astype(np.float64)

    return features


def lowest_bits(rows: Rows) -> Rows:
    """Return three features of each column: the exponent of the largest power of two that divides it, sign, exponent.

    The sign of zero is distinguished, too: -0.5 for -0.0 and 0 for 0.0.

    >>> lowest_bits(np.array([[12.0], [-0.375]])).tolist()
    [[2.0, 1.0, 4.0], [-3.0, -1.0, -1.0]]

    Args:
        rows: Outputs, one row per run.

    Returns:
        All divisors, then all signs, then all exponents, one row per run. A divisor is NaN if the number is 0, infinite
        or NaN.
    """
    # rows = mantissas 2^exponents, with mantissas in [1/2, 1) and 53 bits.
    mantissas, exponents = np.frexp(rows)
    finite = np.isfinite(rows) & (rows != 0)
    # The 53-bit integer mantissa m; m & -m is the largest power of two that divides it.
    integers = np.ldexp(np.where(finite, mantissas, 0.0), 53).astype(np.int64)
    divisors = np.log2(np.maximum(integers & -integers, 1).astype(np.float64)) + exponents - 53
    signs = np.where((rows == 0) & np.signbit(rows), -0.5, np.sign(rows))
    return np.column_stack([np.where(finite, divisors, np.nan), signs, exponents])
