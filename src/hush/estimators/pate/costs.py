"""What answers cost on the data at hand: Renyi bounds that use the votes, and how smoothly they move.

All of it is private: costs are computed from votes. Only `hush.estimators.pate.CostReport` lets a number out, with
noise.

Costs are tables over a lattice of which a changed vote moves the position by a bounded number of cells (``reach``):
the largest count for a check of consensus, or the largest excess over what a student predicts (which earlier answers
alone decide); for a noisy maximum the *effective gap*, which is the lead over every rival that would give the same
bound on the chance of another winner. The tails of log-concave noise make it move by at most 2 votes: q -> G(G^-1(q) -
2) is concave for such tails G, so that (Jensen) of all gaps with one bound on q, equal ones move it the most, both up
and down; and the smallest of the bounds over possible winners is that of the leader.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d, minimum_filter1d
from scipy.special import log_ndtr, logsumexp

from hush.accounting import LaplaceEvent, RdpAccountant, SelfComposedEvent
from hush.errors import Unsupported
from hush.estimators.pate.aggregators import ConfidentGNMax, GNMax, LNMax, VoteAggregator, VoteAnswers
from hush.estimators.pate.noise import Counts

Floats = NDArray[np.float64]

_CELLS = 8  # per changed vote, of effective gaps


def gaussian_cost(log_q: Floats, sigma: float, order: float) -> Floats:
    """Bound the Renyi divergence of a choice that goes another way with probability at most q.

    The noise is such that the divergence is order / sigma^2 at worst. Papernot et al. 2018, Theorem 6, at the orders
    of their Proposition 10; where its conditions fail, the worst case.
    """
    worst = order / sigma**2
    q = np.clip(np.asarray(log_q, dtype=np.float64), -1e8, -1e-12)
    with np.errstate(all="ignore"):
        higher = sigma * np.sqrt(-q)  # mu_2; mu_1 is 1 more
        loss_1, loss_2 = (higher + 1) / sigma**2, higher / sigma**2
        # q is where the bound grows with it, and A is positive.
        rising = q <= (higher - 1) * loss_2 - higher * (np.log1p(1 / higher) + np.log1p(1 / (higher - 1)))
        applies = (higher + 1 > order) & (higher > 1) & rising & (-q > loss_2)
        likely = _log_1m_exp(q)
        log_a = (order - 1) * (likely - _log_1m_exp((q + loss_2) * (1 - 1 / higher)))
        log_b = (order - 1) * (loss_1 - q / higher)
        bound = np.logaddexp(likely + log_a, q + log_b) / (order - 1)
    return np.where(applies & (bound >= 0), np.minimum(bound, worst), worst)


def laplace_cost(log_q: Floats, scale: float, order: float) -> Floats:
    """Bound the same for Laplace noise on counts (Papernot et al. 2017, Theorem 3), or the worst case."""
    worst = RdpAccountant().compose(SelfComposedEvent(LaplaceEvent(scale), 2)).renyi(order)
    loss, moment = 2 / scale, order - 1
    q = np.clip(np.asarray(log_q, dtype=np.float64), -1e8, -1e-12)
    with np.errstate(all="ignore"):
        applies = q < math.log(math.expm1(loss)) - math.log(math.expm1(2 * loss))
        likely = _log_1m_exp(q)
        log_a = likely + moment * (likely - _log_1m_exp(q + loss))
        bound = np.logaddexp(log_a, q + loss * moment) / moment
    return np.where(applies & (bound >= 0), np.minimum(bound, worst), worst)


def _log_1m_exp(x: Floats) -> Floats:
    """Return log(1 - e^x) for x < 0."""
    return np.where(x > -0.7, np.log(-np.expm1(x)), np.log1p(-np.exp(x)))


@dataclass(frozen=True)
class Lattice:
    """Costs by position; a changed vote moves the position by at most ``reach`` cells."""

    costs: Floats
    reach: int

    def smooth(self, beta: float) -> Floats:
        """Return a bound on the local sensitivity at every position that a changed vote moves by e^beta at most.

        max over j of L_j e^(-beta |j - k| / reach), where L_j is what the cost changes within the reach of j.
        """
        width = 2 * self.reach + 1
        highest = maximum_filter1d(self.costs, width, mode="nearest")
        lowest = minimum_filter1d(self.costs, width, mode="nearest")
        local = np.maximum(highest - self.costs, self.costs - lowest)
        decay = beta / self.reach * np.arange(len(local))
        with np.errstate(divide="ignore"):
            logs = np.log(local)
        left = np.maximum.accumulate(logs + decay) - decay
        right = np.maximum.accumulate((logs - decay)[::-1])[::-1] + decay
        return np.asarray(np.exp(np.maximum(left, right)))


LogTail = Callable[[Floats], Floats]


def gaussian_tail(sigma: float) -> LogTail:
    """Return the log of the chance that the difference of two Gaussian noises exceeds a gap."""
    return lambda gap: np.asarray(log_ndtr(-gap / (math.sqrt(2) * sigma)))


def laplace_tail(scale: float) -> LogTail:
    """Return the same for Laplace noise, for gaps >= 0: (2 + g) e^-g / 4, g = gap / scale."""
    return lambda gap: np.log(2 + gap / scale) - gap / scale - math.log(4)


def effective_gap(counts: Counts, log_tail: LogTail) -> Floats:
    """Return the equal lead over all rivals that gives the same union bound on another winner, by bisection."""
    ordered = np.sort(counts, axis=1)
    gaps = (ordered[:, -1:] - ordered[:, :-1]).astype(np.float64)
    mean = logsumexp(log_tail(gaps), axis=1) - math.log(gaps.shape[1])
    low, high = gaps.min(axis=1), gaps.max(axis=1)
    for _ in range(60):
        middle = (low + high) / 2
        above = log_tail(middle) > mean
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.asarray(low)


def winner_lattice(num_teachers: int, num_classes: int, cost: Callable[[Floats], Floats], tail: LogTail) -> Lattice:
    """Return the costs of a noisy maximum by effective gap, in cells of 2 / _CELLS votes, each as at its lower end."""
    edges: Floats = np.arange(num_teachers * _CELLS // 2 + 1, dtype=np.float64) * (2.0 / _CELLS)
    costs = cost(tail(edges) + math.log(num_classes - 1))
    # A wider gap never costs more; one cell beyond the 8 of a vote is for rounding to cells.
    return Lattice(np.maximum.accumulate(costs[::-1])[::-1], _CELLS + 1)


def winner_cells(counts: Counts, lattice: Lattice, tail: LogTail) -> NDArray[np.int64]:
    """Return each query's position."""
    cells = np.floor(effective_gap(counts, tail) * (_CELLS / 2)).astype(np.int64)
    return np.clip(cells, 0, len(lattice.costs) - 1)


def check_lattice(num_teachers: int, threshold: float, sigma: float, order: float) -> Lattice:
    """Return the costs of a check by the largest count or excess, -num_teachers first; a changed vote moves it by 1."""
    distance = np.abs(np.arange(-num_teachers, num_teachers + 1) - threshold)
    # The worst case is order / (2 sigma^2): sensitivity 1, not sqrt(2).
    return Lattice(gaussian_cost(log_ndtr(-distance / sigma), math.sqrt(2) * sigma, order), 1)


def check_cells(counts: Counts, expected: Counts | None, num_teachers: int) -> NDArray[np.int64]:
    """Return each query's position: the largest of counts less expected votes."""
    excess = counts if expected is None else counts - expected
    return np.asarray(np.clip(excess.max(axis=1), -num_teachers, num_teachers) + num_teachers)


@dataclass(frozen=True, slots=True)
class RawCost:
    """The cost of answers at one order, a smooth bound on its local sensitivity, and what no data exceed. Private."""

    cost: float
    smooth: float
    worst: float

    def __repr__(self) -> str:
        """Show nothing that depends on votes."""
        return "RawCost(private)"


def raw_cost(
    counts: Counts, answers: VoteAnswers, aggregator: VoteAggregator, *, num_teachers: int, order: float, beta: float
) -> RawCost:
    """Return what the answers have cost, by the votes. It is private: see `RawCost`."""
    if not isinstance(aggregator, (LNMax, GNMax, ConfidentGNMax)):
        raise Unsupported(
            f"{type(aggregator).__name__}: its cost by the votes is not implemented",
            "Use ConfidentGNMax, or leave out the report",
        )
    parts = [_winners(counts[answers.consulted], aggregator, num_teachers, order, beta)]
    if isinstance(aggregator, ConfidentGNMax):
        lattice = check_lattice(num_teachers, aggregator.threshold, aggregator.sigma_threshold, order)
        asked = slice(answers.num_asked)
        expected = None if answers.expected is None else answers.expected[asked]
        cells = check_cells(counts[asked], expected, num_teachers)
        parts.append(_summed(lattice, cells, beta, order / (2 * aggregator.sigma_threshold**2)))
    return RawCost(*(math.fsum(values) for values in zip(*parts, strict=True)))


def _winners(
    counts: Counts, aggregator: LNMax | GNMax | ConfidentGNMax, num_teachers: int, order: float, beta: float
) -> tuple[float, float, float]:
    if isinstance(aggregator, LNMax):
        scale = aggregator.scale
        tail, worst = laplace_tail(scale), float(laplace_cost(np.zeros(1), scale, order)[0])
        lattice = winner_lattice(num_teachers, counts.shape[1], lambda q: laplace_cost(q, scale, order), tail)
    else:
        sigma = aggregator.sigma
        tail, worst = gaussian_tail(sigma), order / sigma**2
        lattice = winner_lattice(num_teachers, counts.shape[1], lambda q: gaussian_cost(q, sigma, order), tail)
    return _summed(lattice, winner_cells(counts, lattice, tail), beta, worst)


def _summed(lattice: Lattice, cells: NDArray[np.int64], beta: float, worst: float) -> tuple[float, float, float]:
    return float(lattice.costs[cells].sum()), float(lattice.smooth(beta)[cells].sum()), worst * len(cells)
