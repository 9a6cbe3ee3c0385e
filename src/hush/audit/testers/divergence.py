"""The Renyi test: a lower bound on a Renyi divergence, from a variational form."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from hush.audit.testers.attack import AttackEvidence
from hush.audit.testers.outputs import Rows
from hush.audit.testers.scores import Bins, Classifier
from hush.errors import InvalidArgument, Unsupported, check_positive

_LARGEST = 700.0  # of what exp takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Renyi:
    """Bound the Renyi divergence of some order between the two outputs from below.

    For every bounded function g of an output, the divergence of order a is at least
    a / (a - 1) ln E_P e^((a - 1) g) - ln E_Q e^(a g), and the log-likelihood ratio reaches it. Here g is the
    log-ratio of histograms, of the output or of a classifier's log-odds.

    Guarantee:
        With probability 1 - error, ``divergence_lower`` in the details is at most the divergence in one of the two
        directions: both means are bounded by the empirical Bernstein inequality, and the four bounds share the error.
        The bound on epsilon is for delta = 0: the least epsilon whose pure guarantee allows such a divergence. A claim
        of Renyi differential privacy is compared with ``divergence_lower`` itself.

    Assumes:
        Runs are independent and the two inputs are neighbours: the caller's duty. g and its range are fixed before
        the outputs are drawn that are averaged: checked here.

    References:
        Birrell et al. (2021): the variational form. Kong et al. (2024), DP-Auditorium: the test; theirs has no union
        bound. Maurer & Pontil (2009), Theorem 4: the inequality. Mironov (2017), Proposition 5: the divergence of
        randomised response, of which every pure mechanism is a function (Kairouz, Oh & Viswanath 2015).

    Attributes:
        order: The order a > 1.
        classifier: Anything like scikit-learn's classifiers; by default the output itself, or a
            logistic regression with products where it has several columns.
    """

    order: float = 2.0
    classifier: Classifier | None = None

    def __post_init__(self) -> None:
        if not check_positive("order", self.order) > 1:
            raise InvalidArgument("order", self.order, "a finite number > 1")

    @property
    def title(self) -> str:
        """The method, in a few words."""
        return f"Renyi test of order {self.order:g}"

    @property
    def rule(self) -> str:
        """How the threshold is chosen."""
        return "no threshold, Bonferroni over directions"

    def learn(self, first: Rows, second: Rows, delta: float, coins: np.random.Generator) -> RenyiMeans:
        """Fix g and its range."""
        if delta > 0:
            raise Unsupported(
                f"delta={delta:.3g}: an (epsilon, delta) guarantee with delta > 0 bounds no Renyi divergence",
                "Use delta=0, and compare divergence_lower with a claim of Renyi differential privacy",
            )
        result = RenyiMeans(Bins.learned(first, second, classifier=self.classifier), self.order)
        result.observe(first, second)
        result.forget()
        return result


class RenyiMeans:
    """Means and variances of e^((a - 1) g) and e^(a g), for both directions."""

    def __init__(self, bins: Bins, order: float) -> None:
        """Start with no outputs."""
        self._bins, self._order = bins, order
        self._limit = min(max(bins.largest, 1e-9), _LARGEST / order)
        self._sums = np.zeros((2, 2, 2))  # direction, numerator or denominator, power
        self._samples = 0
        self.promise = 0.0

    def forget(self) -> None:
        """Keep what the outputs so far promise, and nothing else of them."""
        self.promise = self.conclude(0.05).epsilon_lower
        self._sums[:], self._samples = 0.0, 0

    def observe(self, first: Rows, second: Rows) -> None:
        """Add up fresh outputs."""
        self._samples += len(first)
        g = [np.clip(self._bins.ratio(rows), -self._limit, self._limit) for rows in (first, second)]
        for direction, (p, q) in enumerate(((g[0], g[1]), (-g[1], -g[0]))):
            for place, values in enumerate((np.exp((self._order - 1) * p), np.exp(self._order * q))):
                self._sums[direction, place] += values.sum(), np.square(values).sum()

    def conclude(self, error: float) -> AttackEvidence:
        """Return the larger bound of the two directions."""
        shown = [self._divergences(direction, error / 4) for direction in (0, 1)]
        best = int(np.argmax([lower for _, lower in shown]))
        estimate, lower = shown[best]
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

    def _divergences(self, direction: int, error: float) -> tuple[float, float]:
        """Return the estimate and the lower bound of one direction."""
        order = self._order
        factors = np.array([order - 1, order])
        ranges = 2 * np.sinh(factors * self._limit)
        means, widths = _bernstein(self._sums[direction], ranges, self._samples, error)
        estimate = order / (order - 1) * math.log(means[0]) - math.log(means[1])
        if not means[0] > widths[0]:
            return estimate, 0.0
        return estimate, order / (order - 1) * math.log(means[0] - widths[0]) - math.log(means[1] + widths[1])


def _bernstein(
    sums: NDArray[np.float64], ranges: NDArray[np.float64], samples: int, error: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return means and how far the true ones may be, each with probability 1 - error (Maurer & Pontil 2009, Thm 4)."""
    means = sums[:, 0] / samples
    variances = np.maximum(sums[:, 1] - samples * means**2, 0.0) / max(samples - 1, 1)
    term = math.log(2 / error)
    return means, np.sqrt(2 * variances * term / samples) + 7 * ranges * term / (3 * max(samples - 1, 1))


def pure_divergence(epsilon: float, order: float) -> float:
    """Return the largest Renyi divergence of some order under pure epsilon, that of randomised response."""
    log_terms = np.logaddexp(order * epsilon, (1 - order) * epsilon) - np.logaddexp(0.0, epsilon)
    return float(log_terms) / (order - 1)


def _pure_epsilon(divergence: float, order: float) -> float:
    """Return the least epsilon that allows a divergence, from below."""
    if not divergence > 0:
        return 0.0
    high = divergence + math.log(2) / (order - 1) + 1.0
    while pure_divergence(high, order) < divergence:
        high *= 2
    found = float(brentq(lambda epsilon: pure_divergence(epsilon, order) - divergence, 0.0, high, xtol=1e-12))
    return max(0.0, found - 1e-9)
