"""Tests of floating-point noise: outputs that one input can have and its neighbour cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.audit.bounds.result import AuditResult
from hush.audit.testers.outputs import Features, Mechanism, Rows
from hush.audit.testers.tester import audit_mechanism
from hush.guarantee import Relation, Unit
from hush.randomness import RandomSource

Reachable = Callable[[Rows, Any], NDArray[np.bool_]]


def support_test(
    mechanism: Mechanism,
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
    """Return the epsilon that can be proven of a mechanism from which outputs it can have at all.

    Noise that is drawn and added in floating point leaves gaps: some doubles are sums of the one input and a value that
    the sampler can return, and not of the other. Whoever knows the sampler says so by ``reachable``. Without it, the
    lowest bits of the outputs are attacked (`lowest_bits`): which powers of two divide an output must not tell.

    Guarantee:
        That of `audit_mechanism` at delta = 0, with `EventSearch` on these features.

    Assumes:
        Outputs are numbers (checked here). The inputs are neighbours, and runs are independent: the caller's duty.

    References:
        Mironov (2012), On Significance of the Least Significant Bits for Differential Privacy.

    Args:
        mechanism: As in `audit_mechanism`.
        first: An input.
        second: A neighbouring one.
        samples: Fresh runs per input; as many again are searched, up to half a million.
        confidence: Of the bound.
        reachable: From rows of outputs and an input to which rows this input can have.
        source: What the mechanism is given to draw from.
        unit: What the inputs differ in, for comparisons with a guarantee.
        relation: How they differ.
    """
    chosen: Features = lowest_bits if reachable is None else _by_reach(reachable, first, second)
    return audit_mechanism(
        mechanism,
        first,
        second,
        samples=samples,
        confidence=confidence,
        features=chosen,
        source=source,
        unit=unit,
        relation=relation,
    )


def _by_reach(reachable: Reachable, first: Any, second: Any) -> Features:
    def features(rows: Rows) -> Rows:
        return np.column_stack([reachable(rows, first), reachable(rows, second)]).astype(np.float64)

    return features


def lowest_bits(rows: Rows) -> Rows:
    """Return, for each column, the exponent of the largest power of two that divides it, its sign and its exponent.

    The sign of a zero is told, too: -0.5 of a negative one, else 0.

    >>> lowest_bits(np.array([[12.0], [-0.375]])).tolist()
    [[2.0, 1.0, 4.0], [-3.0, -1.0, -1.0]]
    """
    mantissas, exponents = np.frexp(rows)
    finite = np.isfinite(rows) & (rows != 0)
    whole = np.ldexp(np.where(finite, mantissas, 0.0), 53).astype(np.int64)
    lowest = np.log2(np.maximum(whole & -whole, 1).astype(np.float64)) + exponents - 53
    signs = np.where((rows == 0) & np.signbit(rows), -0.5, np.sign(rows))
    return np.column_stack([np.where(finite, lowest, np.nan), signs, exponents])
