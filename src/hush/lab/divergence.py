"""The Renyi test: a lower bound on a Renyi divergence, by a variational formula."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from hush.audit.testers import AttackEvidence, Bins, Classifier, Rows
from hush.errors import InvalidArgument, Unsupported, check_positive

__all__ = ["Renyi"]

_MAX_EXPONENT = 700.0  # exp(709) overflows


@dataclass(frozen=True, slots=True, kw_only=True)
class Renyi:
    """Bound the Renyi divergence between the two output distributions from below.

    For every bounded function g of an output, the divergence of order a between P and Q is at least
    a / (a - 1) ln E_P e^((a - 1) g) - ln E_Q e^(a g), with equality if g is the log-likelihood ratio. Here g is the
    log-ratio of two histograms: of the output, or of a classifier's log-odds.

    >>> from hush.audit.testers import Batched, audit_mechanism
    >>> from hush.randomness import TestSource
    >>> def noisy(data, source, count):
    ...     return data + np.random.default_rng(source.words(4)).normal(size=count)
    >>> settings = {"samples": 20_000, "attack": Renyi(order=2.0), "source": TestSource(1)}
    >>> result = audit_mechanism(Batched(noisy), 0.0, 1.0, **settings)
    >>> 0.6 < result.details["divergence_lower"] <= 1.0  # the divergence is 2 / 2
    True

    Guarantee:
        With probability 1 - error, ``divergence_lower`` in the details is at most the divergence in one of the two
        directions. Both means are bounded by the empirical Bernstein inequality, and the four bounds share the error.
        The bound on epsilon holds at delta = 0: it is the smallest epsilon whose pure guarantee allows the divergence.
        Compare a claim of Renyi differential privacy with ``divergence_lower`` itself.

    Assumes:
        Independent runs on neighbouring inputs (the caller's duty). g and its range are fixed before the fresh outputs
        are drawn (checked here).

    References:
        Birrell et al. (2021): the variational formula. Kong et al. (2024), DP-Auditorium: the test; theirs has no union
        bound. Maurer & Pontil (2009), Theorem 4: the inequality. Mironov (2017), Proposition 5: the divergence of
        randomised response. Every pure mechanism is a post-processing of it (Kairouz, Oh & Viswanath 2015).

    Attributes:
        order: The order a > 1.
        classifier: A classifier with scikit-learn's interface. By default the output itself is used, or a logistic
            regression with products if the output has several columns.
    """

    order: float = 2.0
    classifier: Classifier | None = None

    def __post_init__(self) -> None:
        if not check_positive("order", self.order) > 1:
            raise InvalidArgument("order", self.order, "a finite number > 1")

    @property
    def title(self) -> str:
        """The method in a few words."""
        return f"Renyi test of order {self.order:g}"

    @property
    def rule(self) -> str:
        """How the threshold is chosen."""
        return "no threshold, Bonferroni over directions"

    def learn(self, first: Rows, second: Rows, delta: float, coins: np.random.Generator) -> RenyiMeans:
        """Fix g and its range."""
        if delta > 0:
            raise Unsupported(
                f"delta={delta:.3g}: an (epsilon, delta) guarantee with delta > 0 does not bound Renyi divergences",
                "Use delta=0, and compare divergence_lower with a claim of Renyi differential privacy",
            )
        means = RenyiMeans(Bins.learned(first, second, classifier=self.classifier), self.order)
        means.observe(first, second)
        means.reset()
        return means


class RenyiMeans:
    """Means and variances of e^((a - 1) g) and e^(a g), for both directions."""

    def __init__(self, bins: Bins, order: float) -> None:
        """Start with no outputs."""
        self._bins, self._order = bins, order
        # g is clipped to this range, which Bernstein's inequality needs, and within which exp does not overflow.
        self._limit = min(max(bins.largest, 1e-9), _MAX_EXPONENT / order)
        self._sums = np.zeros((2, 2, 2))  # direction, term (E_P or E_Q), power (1 or 2)
        self._samples = 0
        self.promise = 0.0

    def reset(self) -> None:
        """Keep the bound on the outputs so far as the promise, and discard the outputs."""
        # Any error would do: a promise ranks hypotheses, and certifies nothing.
        self.promise = self.conclude(0.05).epsilon_lower
        self._sums[:], self._samples = 0.0, 0

    def observe(self, first: Rows, second: Rows) -> None:
        """Add a block of outputs to the sums."""
        self._samples += len(first)
        g = [np.clip(self._bins.ratio(rows), -self._limit, self._limit) for rows in (first, second)]
        # One g serves both directions: swapping P and Q turns ln p / q into its negative.
        for direction, (g_p, g_q) in enumerate(((g[0], g[1]), (-g[1], -g[0]))):
            for term, values in enumerate((np.exp((self._order - 1) * g_p), np.exp(self._order * g_q))):
                self._sums[direction, term] += values.sum(), np.square(values).sum()

    def conclude(self, error: float) -> AttackEvidence:
        """Return the larger bound of the two directions. Two means in two directions share the error."""
        divergences = [self._divergence(direction, error / 4) for direction in (0, 1)]
        best = int(np.argmax([lower for _, lower in divergences]))
        estimate, lower = divergences[best]
        return AttackEvidence(
            epsilon=_pure_epsilon(max(estimate, 0.0), self._order),
            epsilon_lower=_pure_epsilon(max(lower, 0.0), self._order),
            details={
                "event": f"log-ratio of bins, {'second' if best else 'first'} input",
                "order": self._order,
                "divergence": max(estimate, 0.0),
                "divergence_lower": max(lower, 0.0),
            },
        )

    def _divergence(self, direction: int, error: float) -> tuple[float, float]:
        """Return the estimate and the lower bound of one direction."""
        order = self._order
        factors = np.array([order - 1, order])
        ranges = 2 * np.sinh(factors * self._limit)  # e^(c g) lies between e^(-c limit) and e^(c limit)
        means, widths = _bernstein(self._sums[direction], ranges, self._samples, error)
        # The variational formula; the lower bound takes the first mean low and the second one high.
        estimate = order / (order - 1) * math.log(means[0]) - math.log(means[1])
        if not means[0] > widths[0]:
            return estimate, 0.0
        return estimate, order / (order - 1) * math.log(means[0] - widths[0]) - math.log(means[1] + widths[1])


def _bernstein(
    sums: NDArray[np.float64], ranges: NDArray[np.float64], samples: int, error: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return means and the half-widths of their intervals, each of which fails with probability ``error``.

    Maurer & Pontil (2009), Theorem 4: sqrt(2 V ln(2 / error) / n) + 7 range ln(2 / error) / (3 (n - 1)).
    """
    means = sums[:, 0] / samples
    # The difference of two large sums may round to below 0.
    variances = np.maximum(sums[:, 1] - samples * means**2, 0.0) / max(samples - 1, 1)
    log_error = math.log(2 / error)
    return means, np.sqrt(2 * variances * log_error / samples) + 7 * ranges * log_error / (3 * max(samples - 1, 1))


def pure_divergence(epsilon: float, order: float) -> float:
    """Return the largest Renyi divergence that a pure epsilon allows: that of randomised response.

    ln((e^(a epsilon) + e^((1 - a) epsilon)) / (1 + e^epsilon)) / (a - 1), with a = ``order``.
    """
    # Randomised response has P = (e^epsilon, 1) / (1 + e^epsilon) and Q its mirror: the sum over P^a Q^(1 - a).
    log_terms = np.logaddexp(order * epsilon, (1 - order) * epsilon) - np.logaddexp(0.0, epsilon)
    return float(log_terms) / (order - 1)


def _pure_epsilon(divergence: float, order: float) -> float:
    """Return the smallest epsilon that allows a divergence, rounded down."""
    if not divergence > 0:
        return 0.0
    high = divergence + math.log(2) / (order - 1) + 1.0
    # The divergence is at least epsilon - ln 2 / (a - 1), so this seldom runs; it guards against rounding.
    while pure_divergence(high, order) < divergence:
        high *= 2
    root = float(brentq(lambda epsilon: pure_divergence(epsilon, order) - divergence, 0.0, high, xtol=1e-12))
    return max(0.0, root - 1e-9)  # more than the solver's error
