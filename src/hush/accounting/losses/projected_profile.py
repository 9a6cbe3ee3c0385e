"""The profile of Gaussian noise on a sum whose terms are clipped by estimated norms.

A norm is estimated from r projections on public standard normal vectors, ``M^2 = mean_j <g, v_j>^2``. Whatever g is,
``s = |g| / M`` has the distribution of ``sqrt(r / chi2_r)``, and g clipped by M has a norm of at most ``s C``. The
vectors are part of the outcome, so the pair is a mixture whose component the attacker sees. Its profile is the mean of
Gaussian profiles, ``E[delta_(s / sigma)(eps)]``. The curve computed here is nowhere below that:

1. *Cells.* s lies in a fine cell and counts as the cell's upper end. Cells have their exact chi-square probabilities.
2. *Nodes.* There are far fewer nodes than cells. The upper end ``m`` (over sigma) lies between two nodes a < m <= b.
   Its probability is split, ``t`` to b and ``1 - t`` to a, such that delta(0) stays the same. That raises delta
   everywhere: the derivative ``d delta / d m = phi(m / 2 - eps / m)`` is proportional to
   ``exp(-m^2 / 8 - eps^2 / (2 m^2))``, which moves to the right as eps grows. So the share of ``delta_b - delta_a``
   that is reached at m falls with eps, and t, the share at eps = 0, is the largest. The error is of second order in
   the distance of the nodes.
3. *Beyond the last node* the loss counts as infinite.
4. *Table.* The mean over the nodes is tabulated. Between its points the curve is a chord in e^eps, which lies above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import erf, erfc, gammainc, gammaincc, gammainccinv, gammaln

from hush.accounting.losses.profile import ULP, Array, Profile, tail_gap

_BEYOND = 1e-60  # probability that s exceeds the last node: far below any delta, even after many steps
_LAST_NODE = 100.0  # the last node in units of the noise, if that is smaller: losses near 5,000 are as good as infinite
_BELOW = 1e-13  # probability that s is below the first node, to which it is then rounded up
_STEP = 0.01  # relative distance of the nodes
_CELLS = 64  # between two nodes
_SLACK = 1e-9  # covers the rounding of a weight
_NEGLIGIBLE = 1e-6
_CHUNK = 1 << 17


@dataclass(frozen=True)
class ProjectedGaussianProfile(Profile):
    """(s, N(mu s, 1)) against (s, N(0, 1)), where s^2 is r over a chi-square variable with r degrees of freedom."""

    mu: float
    projections: int

    @cached_property
    def max_loss(self) -> float:  # type: ignore[override]
        """The end of the table."""
        return float(self._table[0][-1])

    @cached_property
    def failure(self) -> float:  # type: ignore[override]
        """The value there: about the probability of an s beyond the last node."""
        return float(self._table[1][-1])

    @cached_property
    def relative_error(self) -> float:  # type: ignore[override]
        """The error of the first node's Gaussian. The rest are sums of positive terms."""
        return float(ULP * (4200 + 400 / _nodes(self.mu, self.projections)[0][0]))

    def delta(self, epsilon: Array) -> Array:
        """Evaluate the chords of the table."""
        points, values = self._table
        cell = np.clip(np.searchsorted(points, epsilon, side="right") - 1, 0, len(points) - 2)
        gap, distance = (points[1:] - points[:-1])[cell], np.maximum(epsilon - points[cell], 0.0)
        share = np.exp(np.minimum(distance - gap, 0.0)) * np.expm1(-distance) / np.expm1(-gap)
        share = np.minimum(share, 1.0)
        return np.asarray(values[cell] * (1 - share) + values[cell + 1] * share)

    @property
    def _table(self) -> tuple[Array, Array]:
        return _table(self.mu, self.projections)


@lru_cache(maxsize=256)
def _table(mu: float, projections: int) -> tuple[Array, Array]:
    """Return the table: epsilons, dense where the curve bends, and the mean of the nodes' profiles at each."""
    nodes, weights, beyond = _nodes(mu, projections)
    end = float(nodes[-1]) ** 2 / 2 + 40 * float(nodes[-1])
    pieces = [np.linspace(0.0, 5 * mu, 500, endpoint=False)]
    for start, stop, step in ((5 * mu, 200.0, 2e-3), (max(5 * mu, 200.0), end, 2e-2)):
        stop = min(stop, end)
        if start < stop:
            pieces.append(np.geomspace(start, stop, math.ceil(math.log(stop / start) / step) + 1, endpoint=False))
    points = np.append(np.concatenate(pieces), end)
    points = points[: int(np.searchsorted(points, end)) + 1]
    rows = max(1, _CHUNK // len(nodes))
    means = np.concatenate(
        [_mean(points[start : start + rows], nodes, weights) for start in range(0, len(points), rows)]
    )
    # The table ends where the curve is so close to its constant that rounding errors would dominate.
    length = int(np.argmax(means <= _NEGLIGIBLE * beyond)) + 1
    return points[:length], beyond + means[:length]


def _mean(epsilon: Array, nodes: Array, weights: Array) -> Array:
    """Return the weighted mean of the nodes' Gaussian profiles at each epsilon."""
    low = epsilon[:, None] / nodes - nodes / 2
    inside = low < 40.0  # further out, a profile is 0 in double precision
    values = np.zeros_like(low)
    values[inside] = tail_gap(low[inside], np.broadcast_to(nodes, low.shape)[inside])
    return np.asarray(values @ weights)


@lru_cache(maxsize=256)
def _nodes(mu: float, projections: int) -> tuple[Array, Array, float]:
    """Return the nodes in units of the noise, their probabilities, and the probability beyond the last one."""
    edges = _edges(mu, projections)
    fractions = np.arange(_CELLS) / _CELLS
    logs = np.append((edges[:-1, None] + np.diff(edges)[:, None] * fractions).ravel(), edges[-1])
    cell_ends = np.exp(logs)
    masses, beyond = _masses(cell_ends, projections)
    nodes = mu * np.exp(edges)
    left_nodes = np.repeat(np.arange(len(edges) - 1), _CELLS)
    shares = _shares(nodes[left_nodes], mu * cell_ends[1:], nodes[left_nodes + 1])
    weights = np.bincount(left_nodes, masses[1:] * (1 - shares), len(nodes))
    weights += np.bincount(left_nodes + 1, masses[1:] * shares, len(nodes))
    weights[0] += masses[0]
    positive = weights > 0
    return nodes[positive], np.asarray(weights[positive] * (1 + _SLACK), dtype=np.float64), beyond * (1 + _SLACK)


def _edges(mu: float, projections: int) -> Array:
    """Return the logarithms of s at the nodes, among them s = 1."""
    half = projections / 2
    first = 0.5 * math.log(half / float(gammainccinv(half, _BELOW)))
    # P(chi2 / 2 <= x) <= x^half / Gamma(half + 1), solved for the x with probability _BEYOND.
    last = 0.5 * (math.log(half) - (math.log(_BEYOND) + float(gammaln(half + 1))) / half)
    last = min(last, max(math.log(_LAST_NODE / mu), 1.0))
    return _STEP * np.arange(math.floor(first / _STEP), math.ceil(last / _STEP) + 1.0)


def _masses(ends: Array, projections: int) -> tuple[Array, float]:
    """Return the probabilities that s is below the first end, between consecutive ends, and above the last one."""
    half = projections / 2
    x = half / ends**2
    below, above = gammaincc(half, x), gammainc(half, x)  # P(s <= end), P(s > end)
    between = np.where(above[1:] < below[1:], -np.diff(above), np.diff(below))  # by the smaller, more accurate tail
    return np.append(below[0], np.maximum(between, 0.0)), max(float(above[-1]), _BEYOND)


def _shares(low: Array, point: Array, high: Array) -> Array:
    """Return (F(point) - F(low)) / (F(high) - F(low)), rounded up, for F(m) = 2 Phi(m / 2) - 1 = delta_m(0)."""
    points = np.stack([low, point, high]) / math.sqrt(8.0)
    below, above = erf(points), erfc(points)
    # For small nodes differences of erf are accurate, for large ones those of erfc.
    rise = np.where(low < 1, below[1] - below[0], above[0] - above[1])
    total = np.where(low < 1, below[2] - below[0], above[0] - above[2])
    share = np.divide(rise, total, out=np.ones_like(rise), where=total > 0)
    return np.asarray(np.clip(share + _SLACK, 0.0, 1.0))
