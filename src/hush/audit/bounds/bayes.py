"""A credible bound on epsilon: Jeffreys posteriors of the two error rates.

This is the only method in the package that makes no frequentist claim. Its results carry `Bound.ESTIMATE`, and
`AuditResult.compare` refuses them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, betaincinv, expit

from hush.audit.bounds.counts import INDEPENDENT, epsilon_at
from hush.audit.bounds.method import BoundMethod, Level, MethodBound
from hush.audit.bounds.rates import ClopperPearson
from hush.audit.bounds.sample import Floats, Sample
from hush.audit.bounds.thresholds import SplitScores
from hush.errors import InvalidArgument, Unsupported, check_count, check_delta
from hush.guarantee import Bound

_PANELS, _NODES = 400, 6  # Gauss-Legendre nodes in each panel of the quadrature
_LOG_ODDS_RANGE = 30.0  # panels cover quantiles from 1e-13 to 1 - 1e-13
_PRECISION = 1e-9
_LARGEST_EPSILON = 700.0  # exp(709) overflows


def jeffreys_interval(
    tp: int, num_in: int, fp: int, num_out: int, *, delta: float = 0.0, credibility: float = 0.95
) -> tuple[float, float]:
    """Return an equal-tailed *credible* interval for epsilon. It is not a confidence interval.

    With Jeffreys priors, an error rate with k errors in n trials has the posterior Beta(k + 1/2, n - k + 1/2). The
    posterior probability that epsilon is at most e is the mass of all pairs of error rates that (e, delta)-privacy
    allows, for the test and for its negation.

    >>> low, high = jeffreys_interval(487, 487, 512, 513, delta=1e-5, credibility=0.9)
    >>> round(low, 3), round(high, 3)
    (0.144, 6.416)

    Args:
        tp: True positives: members that the test flagged.
        num_in: The number of members.
        fp: False positives: non-members that the test flagged.
        num_out: The number of non-members.
        delta: The delta at which epsilon is estimated.
        credibility: The posterior probability of the interval.

    Returns:
        The two ends of the interval; the upper one may be infinite.

    References:
        Zanella-Beguelin et al. 2023, Section 4.
    """
    sizes = [check_count(name, value) for name, value in (("num_in", num_in), ("num_out", num_out))]
    for name, value, size in (("tp", tp, sizes[0]), ("fp", fp, sizes[1])):
        if not check_count(name, value, minimum=0) <= size:
            raise InvalidArgument(name, value, "at most the number of trials")
    if not 0 < credibility < 1:
        raise InvalidArgument("credibility", credibility, "a number in (0, 1)")
    posterior = _Posterior(fp, num_out, num_in - tp, num_in, check_delta("delta", delta))
    # Jeffreys prior: Beta(1/2, 1/2), which is invariant under reparametrisation.
    tail = (1 - credibility) / 2
    return posterior.quantile(tail), posterior.quantile(1 - tail)


@dataclass(frozen=True)
class _Posterior:
    """The posterior of epsilon, through those of FPR and FNR."""

    false_positives: int
    num_out: int
    false_negatives: int
    num_in: int
    delta: float

    @cached_property
    def fpr_nodes(self) -> tuple[Floats, Floats]:
        """FPRs at the nodes of a quadrature over posterior quantiles, and the weights."""
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        # Panels of equal width in log-odds shrink towards both ends, where the posterior's tails are.
        edges = expit(np.linspace(-_LOG_ODDS_RANGE, _LOG_ODDS_RANGE, _PANELS + 1))
        edges[[0, -1]] = 0.0, 1.0
        widths = np.diff(edges)
        quantiles = (edges[:-1, None] + widths[:, None] * (nodes + 1) / 2).ravel()
        shape = self.false_positives + 0.5, self.num_out - self.false_positives + 0.5
        return betaincinv(*shape, quantiles), (widths[:, None] * weights / 2).ravel()

    def cdf(self, epsilon: float) -> float:
        """Return the posterior probability that (epsilon, delta)-privacy allows the two error rates."""
        # P[epsilon <= e] is the mean, over FPR, of P[FNR lies where (e, delta)-privacy allows it]: the inner integral
        # is a beta function, the outer one is a quadrature.
        fpr, weights = self.fpr_nodes
        exp_epsilon, one_less_delta = math.exp(epsilon), 1 - self.delta
        # FNR >= 1 - delta - e^eps FPR and FNR >= e^-eps (1 - delta - FPR), and the same for the negated test.
        low = np.maximum(one_less_delta - exp_epsilon * fpr, (one_less_delta - fpr) / exp_epsilon)
        high = np.minimum(1 - one_less_delta + exp_epsilon * (1 - fpr), 1 - (one_less_delta - 1 + fpr) / exp_epsilon)
        shape = self.false_negatives + 0.5, self.num_in - self.false_negatives + 0.5
        low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
        masses = betainc(*shape, high) - betainc(*shape, low)
        return float(np.dot(weights, np.maximum(masses, 0.0)))

    def quantile(self, probability: float) -> float:
        """Return the epsilon below which this share of the posterior lies; infinite if there is none."""
        if self.cdf(0.0) >= probability:
            return 0.0
        low, high = 0.0, 1.0
        # Bracket the quantile by doubling, then solve.
        while self.cdf(high) < probability and high < _LARGEST_EPSILON:
            low, high = high, min(2 * high, _LARGEST_EPSILON)
        if self.cdf(high) < probability:
            return math.inf
        return float(brentq(lambda epsilon: self.cdf(epsilon) - probability, low, high, xtol=_PRECISION))


@dataclass(frozen=True, slots=True)
class Jeffreys(BoundMethod):
    """A credible bound on epsilon from Jeffreys priors. It is often tighter than `ClopperPearson`, but proves nothing.

    >>> from hush.audit import audit_scores
    >>> result = audit_scores([1.0] * 100, [0.0] * 100, method=Jeffreys())
    >>> print(result.bound.value, round(result.epsilon_lower, 1))
    estimate 4.2

    Guarantee:
        None in the frequentist sense: the result's bound is "estimate". Under the prior, epsilon exceeds
        ``epsilon_lower`` with posterior probability ``confidence``.

    Assumes:
        Independent scores (the caller's duty). Jeffreys priors for both error rates (the caller's duty to accept). A
        threshold that is fixed, or chosen on other scores (checked here): a posterior after a search means nothing.

    References:
        Zanella-Beguelin et al. 2023, Section 4.
    """

    description = "Jeffreys posteriors (credible)"
    assumptions = (INDEPENDENT, "Both error rates have Jeffreys priors: the bound is credible, not a confidence bound")
    bound = Bound.ESTIMATE
    default_rule = SplitScores()

    def bound_at(self, sample: Sample, threshold: float, level: Level) -> MethodBound:
        """Return the lower quantile of the posterior."""
        tp, fp = (int(count) for count in sample.counts(threshold))
        posterior = _Posterior(fp, sample.num_out, sample.num_in - tp, sample.num_in, level.delta)
        return MethodBound(
            lower=posterior.quantile(level.error),
            point=float(epsilon_at(tp / sample.num_in, fp / sample.num_out, level.delta)),
            num_in=sample.num_in,
            num_out=sample.num_out,
            details={"threshold": threshold, "tp": tp, "fp": fp},
        )

    def bound_at_best(self, sample: Sample, level: Level) -> MethodBound:
        """Refuse: a posterior cannot be corrected for a search."""
        raise Unsupported(
            "Jeffreys over all thresholds: a credible bound cannot be corrected for a search", "Use SplitScores()"
        )

    def choose_threshold(self, sample: Sample, level: Level) -> float:
        """Choose the threshold as `ClopperPearson` does."""
        return ClopperPearson().choose_threshold(sample, level)
