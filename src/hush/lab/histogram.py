"""The histogram test: a lower bound on the hockey-stick divergence from bin counts alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.audit.testers import AttackEvidence, Bins, Rows
from hush.errors import check_count

__all__ = ["HistogramAttack"]

_LARGEST_EPSILON = 100.0  # no feasible number of samples proves as much
_BISECTIONS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramAttack:
    """Compare two histograms: of the output, or of a classifier's log-odds if the output has several columns.

    All bins count together, so nothing is chosen after the counts are seen. The price is a tolerance for the whole
    histogram, which makes this test weaker than a single event that was chosen beforehand.

    >>> from hush.audit.testers import Batched, audit_mechanism
    >>> from hush.randomness import TestSource
    >>> def leaky(data, source, count):
    ...     return np.full(count, data)
    >>> settings = {"samples": 2_000, "attack": HistogramAttack(num_bins=4), "source": TestSource(1)}
    >>> audit_mechanism(Batched(leaky), 0.0, 1.0, **settings).epsilon_lower > 1
    True

    Guarantee:
        With probability 1 - error, simultaneously for all epsilon, the sum over bins of (p - e^epsilon q)_+ is at least
        its empirical value minus (S(p) + e^epsilon S(q)) / sqrt(n) + 3 (1 + e^epsilon) sqrt(ln(4 / error) / 2n). Here S
        sums the square roots of the empirical frequencies. The bound on epsilon is the point where this falls to delta.
        It falls with epsilon, so no grid is needed. The two directions share the error.

    Assumes:
        Independent runs on neighbouring inputs (the caller's duty). The bins are fixed before the fresh outputs are
        drawn (checked here).

    References:
        Gilbert & McMillan (2018), Property Testing for Differential Privacy. The tolerance is that of Cohen,
        Kontorovich & Wolfer (2020), by empirical Rademacher averages. They bound sums of absolute differences; the
        positive parts sum to total variation, which is half of that in each direction.

    Attributes:
        num_bins: The number of bins, which hold equally many outputs as far as ties allow. There is one more for
            missing values.
    """

    num_bins: int = 20

    def __post_init__(self) -> None:
        check_count("num_bins", self.num_bins, minimum=2)

    @property
    def title(self) -> str:
        """The method in a few words."""
        return "histogram test"

    @property
    def rule(self) -> str:
        """How the threshold is chosen."""
        return f"{self.num_bins} bins fixed on other outputs, uniform over bins, Bonferroni over directions"

    def learn(self, first: Rows, second: Rows, delta: float, coins: np.random.Generator) -> HistogramCounts:
        """Fix the bins."""
        bins = Bins.learned(first, second, self.num_bins)
        counts = np.array([bins.count(rows) for rows in (first, second)], dtype=np.float64)
        # The bins were fitted to these very counts, so this bound is a promise only.
        return HistogramCounts(bins, delta, promise=max(_bounds(counts, delta, 0.05)))


class HistogramCounts:
    """Counts fresh outputs by bin."""

    def __init__(self, bins: Bins, delta: float, promise: float) -> None:
        """Start with empty bins."""
        self._bins, self._delta, self.promise = bins, delta, promise
        self._counts = np.zeros((2, len(bins.ratios)))

    def observe(self, first: Rows, second: Rows) -> None:
        """Count a block of fresh outputs."""
        self._counts += [self._bins.count(rows) for rows in (first, second)]

    def conclude(self, error: float) -> AttackEvidence:
        """Return the larger bound of the two directions."""
        bounds = _bounds(self._counts, self._delta, error)
        # Each bound holds with half of the error, so the larger one may be reported.
        best = int(np.argmax(bounds))
        p, q = (counts / counts.sum() for counts in (self._counts[::-1] if best else self._counts))
        return AttackEvidence(
            epsilon=_root(lambda epsilon: _hockey_stick(p, q, epsilon), self._delta),
            epsilon_lower=bounds[best],
            details={"event": f"all bins, {'second' if best else 'first'} input", "num_bins": len(p)},
        )


def _hockey_stick(p: NDArray[np.float64], q: NDArray[np.float64], epsilon: float) -> float:
    """Return the hockey-stick divergence of two histograms at ``epsilon``."""
    # sup over events of P(S) - e^epsilon Q(S), attained by the bins in which p > e^epsilon q.
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def _bounds(counts: NDArray[np.float64], delta: float, error: float) -> list[float]:
    """Return the bound of each direction. The two share the error."""
    return [_bound(counts[0], counts[1], delta, error / 2), _bound(counts[1], counts[0], delta, error / 2)]


def _bound(counts: NDArray[np.float64], other_counts: NDArray[np.float64], delta: float, error: float) -> float:
    """Return the epsilon at which the lower bound on the divergence falls to delta."""
    # NaN has a bin of its own, so no output is lost and both histograms sum to 1.
    samples = counts.sum()
    p, q = counts / samples, other_counts / samples
    # The tolerance of Cohen, Kontorovich & Wolfer (2020), halved: the formula is in the docstring of HistogramAttack.
    deviation = 3 * math.sqrt(math.log(4 / error) / (2 * samples))
    p_slack, q_slack = (float(np.sqrt(values).sum()) / math.sqrt(samples) + deviation for values in (p, q))
    return _root(lambda epsilon: _hockey_stick(p, q, epsilon) - p_slack - math.exp(epsilon) * q_slack, delta)


def _root(divergence: Callable[[float], float], delta: float) -> float:
    """Return where a decreasing function falls to delta, rounded down; infinity if it never does."""
    # Invariant: the divergence at low exceeds delta, so low never exceeds the answer.
    low, high = 0.0, _LARGEST_EPSILON
    if not divergence(low) > delta:
        return 0.0
    if divergence(high) > delta:
        return math.inf
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if divergence(middle) > delta else (low, middle)
    return low
