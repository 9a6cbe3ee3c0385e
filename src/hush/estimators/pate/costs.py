"""The cost of answers for the data at hand: Renyi bounds that use the votes, and bounds on how smoothly they vary.

Everything here is sensitive, since costs are computed from votes. Only `hush.estimators.pate.CostReport` publishes a
number, with noise.

Costs are tables over a lattice of positions, and a changed vote moves the position by a bounded number of cells
(``max_shift``). For a check of consensus, the position is the largest count, or its excess over the student's
prediction (which follows from earlier answers alone). For a noisy maximum it is the *effective gap*: the lead that, if
it were the same over every rival, would give the same bound on the probability of another winner. A changed vote moves
the effective gap by at most 2 votes, because the noise is log-concave: for its tail G, q -> G(G^-1(q) - 2) is concave.
By Jensen's inequality, among all gaps with the same bound on q, equal gaps move it the most, up and down; and the
smallest bound over possible winners is that of the leader.
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

_CELLS = 8  # cells by which a changed vote moves the effective gap: a cell is 2 / 8 of a vote


def gaussian_cost(log_q: Floats, sigma: float, order: float) -> Floats:
    """Bound the Renyi divergence of a choice that has another outcome with probability at most q.

    Papernot et al. 2018, Theorem 6, at the orders of their Proposition 10. Where its conditions fail, the worst case
    order / sigma^2 is returned.

    Args:
        log_q: Logarithm of q.
        sigma: Noise for which the divergence is at most order / sigma^2.
        order: Renyi order.
    """
    worst = order / sigma**2
    # Raising a tiny q is safe, because the bounds grow with q. Near q = 1 the conditions fail, and the worst case is
    # returned.
    q = np.clip(np.asarray(log_q, dtype=np.float64), -1e8, -1e-12)
    with np.errstate(all="ignore"):
        mu_2 = sigma * np.sqrt(-q)  # the order mu_2 of Proposition 10; mu_1 = mu_2 + 1
        loss_1, loss_2 = (mu_2 + 1) / sigma**2, mu_2 / sigma**2
        # The conditions of Theorem 6: the bound is increasing at q, and the base of A is positive.
        rising = q <= (mu_2 - 1) * loss_2 - mu_2 * (np.log1p(1 / mu_2) + np.log1p(1 / (mu_2 - 1)))
        applies = (mu_2 + 1 > order) & (mu_2 > 1) & rising & (-q > loss_2)
        log_1m_q = _log_1m_exp(q)
        # Theorem 6: (1 - q) A^(order - 1) + q B^(order - 1), in logarithms.
        log_a = (order - 1) * (log_1m_q - _log_1m_exp((q + loss_2) * (1 - 1 / mu_2)))
        log_b = (order - 1) * (loss_1 - q / mu_2)
        bound = np.logaddexp(log_1m_q + log_a, q + log_b) / (order - 1)
    return np.where(applies & (bound >= 0), np.minimum(bound, worst), worst)


def laplace_cost(log_q: Floats, scale: float, order: float) -> Floats:
    """Bound the same for Laplace noise on counts (Papernot et al. 2017, Theorem 3), or return the worst case."""
    worst = RdpAccountant().compose(SelfComposedEvent(LaplaceEvent(scale), 2)).renyi(order)
    loss, moment = 2 / scale, order - 1
    q = np.clip(np.asarray(log_q, dtype=np.float64), -1e8, -1e-12)
    with np.errstate(all="ignore"):
        # Theorem 3 holds for q < (e^loss - 1) / (e^(2 loss) - 1).
        applies = q < math.log(math.expm1(loss)) - math.log(math.expm1(2 * loss))
        log_1m_q = _log_1m_exp(q)
        # (1 - q) ((1 - q) / (1 - e^loss q))^moment + q e^(loss moment), in logarithms, with moment = order - 1.
        log_a = log_1m_q + moment * (log_1m_q - _log_1m_exp(q + loss))
        bound = np.logaddexp(log_a, q + loss * moment) / moment
    return np.where(applies & (bound >= 0), np.minimum(bound, worst), worst)


def _log_1m_exp(x: Floats) -> Floats:
    """Return log(1 - e^x) for x < 0."""
    return np.where(x > -0.7, np.log(-np.expm1(x)), np.log1p(-np.exp(x)))


@dataclass(frozen=True)
class Lattice:
    """Costs by position.

    Attributes:
        costs: Cost at each position.
        max_shift: Number of cells by which a changed vote moves the position, at most.
    """

    costs: Floats
    max_shift: int

    def smooth(self, beta: float) -> Floats:
        """Return a smooth bound on the local sensitivity at every position: a changed vote scales it by at most e^beta.

        The bound at position k is the maximum over j of L_j e^(-beta |j - k| / max_shift), where L_j is the largest
        change of the cost within ``max_shift`` of j.
        """
        width = 2 * self.max_shift + 1
        highest = maximum_filter1d(self.costs, width, mode="nearest")
        lowest = minimum_filter1d(self.costs, width, mode="nearest")
        # Local sensitivity: the largest difference to a position that one changed vote can lead to.
        local = np.maximum(highest - self.costs, self.costs - lowest)
        decay = beta / self.max_shift * np.arange(len(local))
        with np.errstate(divide="ignore"):
            logs = np.log(local)
        # The maximum over j is a running maximum from the left and from the right.
        left = np.maximum.accumulate(logs + decay) - decay
        right = np.maximum.accumulate((logs - decay)[::-1])[::-1] + decay
        return np.asarray(np.exp(np.maximum(left, right)))


LogTail = Callable[[Floats], Floats]


def gaussian_tail(sigma: float) -> LogTail:
    """Return the log-probability that the difference of two Gaussian noises exceeds a gap."""
    # The difference of two noises has the variance 2 sigma^2.
    return lambda gap: np.asarray(log_ndtr(-gap / (math.sqrt(2) * sigma)))


def laplace_tail(scale: float) -> LogTail:
    """Return the same for Laplace noise and gaps >= 0: (2 + g) e^-g / 4, where g = gap / scale."""
    # The difference of two Laplace variables has the density (1 + |g|) e^-|g| / 4; this is the integral from g on.
    return lambda gap: np.log(2 + gap / scale) - gap / scale - math.log(4)


def effective_gap(counts: Counts, log_tail: LogTail) -> Floats:
    """Return the equal lead over all rivals that gives the same union bound on another winner, by bisection."""
    ordered = np.sort(counts, axis=1)
    # Union bound over rivals: q <= sum of tails of their gaps.
    gaps = (ordered[:, -1:] - ordered[:, :-1]).astype(np.float64)
    mean = logsumexp(log_tail(gaps), axis=1) - math.log(gaps.shape[1])
    # The mean of the tails lies between the tails of the smallest and of the largest gap.
    low, high = gaps.min(axis=1), gaps.max(axis=1)
    for _ in range(60):
        middle = (low + high) / 2
        above = log_tail(middle) > mean
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    # The lower end: a smaller gap costs more, so the cost is not rounded down.
    return np.asarray(low)


def winner_lattice(num_teachers: int, num_classes: int, cost: Callable[[Floats], Floats], tail: LogTail) -> Lattice:
    """Return the costs of a noisy maximum by effective gap, in cells of 2 / _CELLS votes, each at its lower end.

    Args:
        num_teachers: Number of teachers.
        num_classes: Number of classes.
        cost: From log q to a cost.
        tail: From a gap to log-probabilities.
    """
    edges: Floats = np.arange(num_teachers * _CELLS // 2 + 1, dtype=np.float64) * (2.0 / _CELLS)
    # With equal gaps, the union bound over the rivals is (classes - 1) times one tail.
    costs = cost(tail(edges) + math.log(num_classes - 1))
    # A wider gap never costs more. One cell is added to the shift for rounding positions to cells.
    return Lattice(np.maximum.accumulate(costs[::-1])[::-1], _CELLS + 1)


def winner_cells(counts: Counts, lattice: Lattice, tail: LogTail) -> NDArray[np.int64]:
    """Return the position of each query."""
    cells = np.floor(effective_gap(counts, tail) * (_CELLS / 2)).astype(np.int64)
    return np.clip(cells, 0, len(lattice.costs) - 1)


def check_lattice(num_teachers: int, threshold: float, sigma: float, order: float) -> Lattice:
    """Return the costs of a check by the largest count or excess, from -num_teachers on. A changed vote moves it by 1.

    Args:
        num_teachers: Number of teachers.
        threshold: Threshold of the check.
        sigma: Noise of the check.
        order: Renyi order.
    """
    # The check has another outcome with probability P(noise > distance to the threshold).
    distance = np.abs(np.arange(-num_teachers, num_teachers + 1) - threshold)
    # The worst case is order / (2 sigma^2), since the sensitivity is 1 and not sqrt(2).
    return Lattice(gaussian_cost(log_ndtr(-distance / sigma), math.sqrt(2) * sigma, order), 1)


def check_cells(counts: Counts, expected: Counts | None, num_teachers: int) -> NDArray[np.int64]:
    """Return the position of each query: the largest count, minus expected votes."""
    excess = counts if expected is None else counts - expected
    return np.asarray(np.clip(excess.max(axis=1), -num_teachers, num_teachers) + num_teachers)


@dataclass(frozen=True, slots=True)
class RawCost:
    """The exact cost of answers at one order. It is private.

    Attributes:
        cost: Sum of the costs.
        smooth: Smooth bound on its local sensitivity.
        worst: Bound on the cost for any data.
    """

    cost: float
    smooth: float
    worst: float

    def __repr__(self) -> str:
        """Show nothing that depends on votes."""
        return "RawCost(private)"


def raw_cost(
    counts: Counts, answers: VoteAnswers, aggregator: VoteAggregator, *, num_teachers: int, order: float, beta: float
) -> RawCost:
    """Return the cost of the answers, given the votes. The result is private: see `RawCost`.

    Args:
        counts: Votes, one row per query: private.
        answers: The released answers.
        aggregator: The aggregator that released them.
        num_teachers: Number of teachers.
        order: Renyi order.
        beta: Smoothness of the sensitivity bound.
    """
    if not isinstance(aggregator, (LNMax, GNMax, ConfidentGNMax)):
        raise Unsupported(
            f"{type(aggregator).__name__}: its data-dependent cost is not implemented",
            "Use ConfidentGNMax, or omit the report",
        )
    parts = [_winner_cost(counts[answers.consulted], aggregator, num_teachers, order, beta)]
    if isinstance(aggregator, ConfidentGNMax):
        lattice = check_lattice(num_teachers, aggregator.threshold, aggregator.sigma_threshold, order)
        asked_queries = slice(answers.num_asked)
        expected = None if answers.expected is None else answers.expected[asked_queries]
        cells = check_cells(counts[asked_queries], expected, num_teachers)
        parts.append(_sum_costs(lattice, cells, beta, order / (2 * aggregator.sigma_threshold**2)))
    # Costs at one order add up. A sum of smooth bounds is a smooth bound of the sum.
    return RawCost(*(math.fsum(values) for values in zip(*parts, strict=True)))


def _winner_cost(
    counts: Counts, aggregator: LNMax | GNMax | ConfidentGNMax, num_teachers: int, order: float, beta: float
) -> tuple[float, float, float]:
    """Return the total cost of the noisy maxima, its smooth bound, and the worst case."""
    if isinstance(aggregator, LNMax):
        scale = aggregator.scale
        tail, worst = laplace_tail(scale), float(laplace_cost(np.zeros(1), scale, order)[0])
        lattice = winner_lattice(num_teachers, counts.shape[1], lambda q: laplace_cost(q, scale, order), tail)
    else:
        sigma = aggregator.sigma
        tail, worst = gaussian_tail(sigma), order / sigma**2
        lattice = winner_lattice(num_teachers, counts.shape[1], lambda q: gaussian_cost(q, sigma, order), tail)
    return _sum_costs(lattice, winner_cells(counts, lattice, tail), beta, worst)


def _sum_costs(lattice: Lattice, cells: NDArray[np.int64], beta: float, worst: float) -> tuple[float, float, float]:
    """Sum costs, smooth bounds and worst cases over queries."""
    return float(lattice.costs[cells].sum()), float(lattice.smooth(beta)[cells].sum()), worst * len(cells)
