"""A belief about epsilon: Jeffreys posteriors of both error rates, and the mass of the region that epsilon allows."""

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

_PANELS, _NODES = 400, 6
_REACH = 30.0
_PRECISION = 1e-9
_LARGEST = 700.0


def jeffreys_interval(
    tp: int, num_in: int, fp: int, num_out: int, *, delta: float = 0.0, credibility: float = 0.95
) -> tuple[float, float]:
    """Return an equal-tailed *credible* interval for epsilon: a belief, not a confidence interval.

    Both error rates have independent posteriors Beta(k + 1/2, n - k + 1/2). The chance that epsilon is at most e is
    their mass on the pairs of rates that (e, delta) allows, in both directions.

    >>> low, high = jeffreys_interval(487, 487, 512, 513, delta=1e-5, credibility=0.9)
    >>> round(low, 3), round(high, 3)
    (0.144, 6.416)

    Args:
        tp: Members accused.
        num_in: Members.
        fp: Others accused.
        num_out: Others.
        delta: At which epsilon is meant.
        credibility: Of the interval.

    References:
        Zanella-Beguelin et al. 2023, Section 4.
    """
    sizes = [check_count(name, value) for name, value in (("num_in", num_in), ("num_out", num_out))]
    for name, value, size in (("tp", tp, sizes[0]), ("fp", fp, sizes[1])):
        if not check_count(name, value, minimum=0) <= size:
            raise InvalidArgument(name, value, "at most as many as there are trials")
    if not 0 < credibility < 1:
        raise InvalidArgument("credibility", credibility, "a number in (0, 1)")
    belief = _Belief(fp, num_out, num_in - tp, num_in, check_delta("delta", delta))
    tail = (1 - credibility) / 2
    return belief.quantile(tail), belief.quantile(1 - tail)


@dataclass(frozen=True)
class _Belief:
    """Posteriors of FPR and FNR."""

    false_positives: int
    others: int
    false_negatives: int
    members: int
    delta: float

    @cached_property
    def grid(self) -> tuple[Floats, Floats]:
        """FPRs at the nodes of a quadrature in their own quantiles, and weights."""
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        # Panels shrink towards both ends, where the posterior's tails are: they are equal in the log of the odds.
        edges = expit(np.linspace(-_REACH, _REACH, _PANELS + 1))
        edges[[0, -1]] = 0.0, 1.0
        widths = np.diff(edges)
        at = (edges[:-1, None] + widths[:, None] * (nodes + 1) / 2).ravel()
        shape = self.false_positives + 0.5, self.others - self.false_positives + 0.5
        return betaincinv(*shape, at), (widths[:, None] * weights / 2).ravel()

    def mass(self, epsilon: float) -> float:
        """Return the chance that the rates are possible at ``epsilon``."""
        fpr, weights = self.grid
        grown, left = math.exp(epsilon), 1 - self.delta
        # The two lines below which no test gets, and their mirror images for a test that is wrong on purpose.
        low = np.maximum(left - grown * fpr, (left - fpr) / grown)
        high = np.minimum(1 - left + grown * (1 - fpr), 1 - (left - 1 + fpr) / grown)
        shape = self.false_negatives + 0.5, self.members - self.false_negatives + 0.5
        low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
        inside = betainc(*shape, high) - betainc(*shape, low)
        return float(np.dot(weights, np.maximum(inside, 0.0)))

    def quantile(self, share: float) -> float:
        """Return the epsilon that is not exceeded with this chance."""
        if self.mass(0.0) >= share:
            return 0.0
        low, high = 0.0, 1.0
        while self.mass(high) < share and high < _LARGEST:
            low, high = high, min(2 * high, _LARGEST)
        if self.mass(high) < share:
            return math.inf
        return float(brentq(lambda epsilon: self.mass(epsilon) - share, low, high, xtol=_PRECISION))


@dataclass(frozen=True, slots=True)
class Jeffreys(BoundMethod):
    """A credible bound on epsilon from Jeffreys priors. Often tighter than `ClopperPearson`, and no proof.

    Guarantee:
        None in the frequentist sense: the result's bound is "estimate". Given the prior, epsilon is above
        ``epsilon_lower`` with probability ``confidence``.

    Assumes:
        Independent scores (the caller's duty). Jeffreys priors for both rates (the caller's duty to agree). The
        threshold is fixed, or chosen on other scores (checked here): a posterior after a search says nothing.

    References:
        Zanella-Beguelin et al. 2023, Section 4.
    """

    description = "Jeffreys posteriors (credible)"
    assumptions = (INDEPENDENT, "Both error rates have Jeffreys priors: the bound is a belief, not a confidence bound")
    bound = Bound.ESTIMATE
    default = SplitScores()

    def at(self, sample: Sample, threshold: float, level: Level) -> MethodBound:
        """Return the quantile of the belief."""
        tp, fp = (int(count) for count in sample.counts(threshold))
        belief = _Belief(fp, sample.num_out, sample.num_in - tp, sample.num_in, level.delta)
        return MethodBound(
            lower=belief.quantile(level.error),
            point=float(epsilon_at(tp / sample.num_in, fp / sample.num_out, level.delta)),
            num_in=sample.num_in,
            num_out=sample.num_out,
            details={"threshold": threshold, "tp": tp, "fp": fp},
        )

    def everywhere(self, sample: Sample, level: Level) -> MethodBound:
        """Refuse."""
        raise Unsupported("Jeffreys over all thresholds: a belief is not corrected for a search", "Use Split()")

    def choose(self, sample: Sample, level: Level) -> float:
        """Choose as `ClopperPearson` does."""
        return ClopperPearson().choose(sample, level)
