"""The profile of Gaussian noise on a sum whose terms were clipped by estimated norms.

A norm is estimated from r projections on public standard normal vectors, ``M^2 = mean_j <g, v_j>^2``. Whatever g is,
``s = |g| / M`` has the law of ``sqrt(r / chi2_r)``, and g clipped by M has norm ``s C`` at most. The vectors are part
of the outcome, so the pair is a mixture whose component is seen: its profile is the mean of Gaussian profiles,
``E[delta_(s / sigma)(eps)]``. What is computed here is nowhere below that:

1. s lies in a fine cell, and counts as the cell's upper end. Cells have their exact chi-square probabilities.
2. The upper end ``m`` (over sigma) lies between two nodes ``a < m <= b``, far fewer than cells. Its probability is
   split, ``t`` to b and ``1 - t`` to a, so that delta(0) stays as it is. That raises delta everywhere: the
   derivative ``d delta / d m = phi(m / 2 - eps / m)`` is proportional to ``exp(-m^2 / 8 - eps^2 / (2 m^2))``, of which
   more and more lies to the right as eps grows; so the share of ``delta_b - delta_a`` that is reached at m falls with
   eps, and t, the share at 0, is the largest. The error is of second order in the distance of nodes.
3. Beyond the last node, the loss is infinite.
4. The mean over nodes is found on a table; between its points the curve is straight in e^eps, and so too high.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import erf, erfc, gammainc, gammaincc, gammainccinv, gammaln

from hush.accounting.losses.profile import ULP, Array, Profile, tail_gap

_BEYOND = 1e-60  # probability that s is larger than the last node: far below any delta, also after many steps
_HOPELESS = 100.0  # or else the last node, in units of the noise: losses around 5,000 are as good as infinite
_BELOW = 1e-13  # probability that s is smaller than the first node, to which it is then rounded up
_STEP = 0.01  # distance of nodes, relative
_CELLS = 64  # cells between two nodes
_SLACK = 1e-9  # what rounding can do to a weight
_NEXT_TO_NOTHING = 1e-6
_CHUNK = 1 << 17


@dataclass(frozen=True)
class ProjectedGaussianProfile(Profile):
    """(s, N(mu s, 1)) against (s, N(0, 1)), where s^2 is r over a chi-square with r degrees of freedom."""

    mu: float
    projections: int

    @cached_property
    def max_loss(self) -> float:  # type: ignore[override]
        """The end of the table."""
        return float(self._table[0][-1])

    @cached_property
    def failure(self) -> float:  # type: ignore[override]
        """The value there: about the probability of an s beyond all nodes."""
        return float(self._table[1][-1])

    @cached_property
    def relative_error(self) -> float:  # type: ignore[override]
        """As for the Gaussian of the first node; the rest are sums of positive terms."""
        return float(ULP * (4200 + 400 / _nodes(self.mu, self.projections)[0][0]))

    def delta(self, epsilon: Array) -> Array:
        """Evaluate the table's chords."""
        points, values = self._table
        place = np.clip(np.searchsorted(points, epsilon, side="right") - 1, 0, len(points) - 2)
        gap, way = (points[1:] - points[:-1])[place], np.maximum(epsilon - points[place], 0.0)
        share = np.exp(np.minimum(way - gap, 0.0)) * np.expm1(-way) / np.expm1(-gap)
        share = np.minimum(share, 1.0)
        return np.asarray(values[place] * (1 - share) + values[place + 1] * share)

    @property
    def _table(self) -> tuple[Array, Array]:
        return _table(self.mu, self.projections)


@lru_cache(maxsize=256)
def _table(mu: float, projections: int) -> tuple[Array, Array]:
    """Return points, dense where the loss is decided, and the mean of the nodes' profiles at each."""
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
    # Where next to nothing is left above the constant, rounding would decide: the table ends.
    kept = int(np.argmax(means <= _NEXT_TO_NOTHING * beyond)) + 1
    return points[:kept], beyond + means[:kept]


def _mean(epsilon: Array, nodes: Array, weights: Array) -> Array:
    low = epsilon[:, None] / nodes - nodes / 2
    inside = low < 40.0  # further out, a profile is 0 in double precision
    values = np.zeros_like(low)
    values[inside] = tail_gap(low[inside], np.broadcast_to(nodes, low.shape)[inside])
    return np.asarray(values @ weights)


@lru_cache(maxsize=256)
def _nodes(mu: float, projections: int) -> tuple[Array, Array, float]:
    """Return the nodes, in units of the noise, their probabilities, and that of what lies beyond."""
    edges = _edges(mu, projections)
    fractions = np.arange(_CELLS) / _CELLS
    logs = np.append((edges[:-1, None] + np.diff(edges)[:, None] * fractions).ravel(), edges[-1])
    sizes = np.exp(logs)
    masses, beyond = _masses(sizes, projections)
    nodes = mu * np.exp(edges)
    places = np.repeat(np.arange(len(edges) - 1), _CELLS)
    shares = _shares(nodes[places], mu * sizes[1:], nodes[places + 1])
    weights = np.bincount(places, masses[1:] * (1 - shares), len(nodes))
    weights += np.bincount(places + 1, masses[1:] * shares, len(nodes))
    weights[0] += masses[0]
    kept = weights > 0
    return nodes[kept], np.asarray(weights[kept] * (1 + _SLACK), dtype=np.float64), beyond * (1 + _SLACK)


def _edges(mu: float, projections: int) -> Array:
    """Return the logarithms of s at the nodes; s = 1 is one of them."""
    half = projections / 2
    first = 0.5 * math.log(half / float(gammainccinv(half, _BELOW)))
    # P(chi2 / 2 <= x) <= x^half / Gamma(half + 1)
    last = 0.5 * (math.log(half) - (math.log(_BEYOND) + float(gammaln(half + 1))) / half)
    last = min(last, max(math.log(_HOPELESS / mu), 1.0))
    return _STEP * np.arange(math.floor(first / _STEP), math.ceil(last / _STEP) + 1.0)


def _masses(sizes: Array, projections: int) -> tuple[Array, float]:
    """Return the probabilities of s up to the first size and between each two, by the smaller tail, and beyond."""
    half = projections / 2
    x = half / sizes**2
    up, down = gammaincc(half, x), gammainc(half, x)  # P(s <= size), P(s > size)
    between = np.where(down[1:] < up[1:], -np.diff(down), np.diff(up))
    return np.append(up[0], np.maximum(between, 0.0)), max(float(down[-1]), _BEYOND)


def _shares(low: Array, here: Array, high: Array) -> Array:
    """Return (F(here) - F(low)) / (F(high) - F(low)), a hair up, for F(m) = 2 Phi(m / 2) - 1 = delta_m(0)."""
    points = np.stack([low, here, high]) / math.sqrt(8.0)
    below, above = erf(points), erfc(points)
    rise = np.where(low < 1, below[1] - below[0], above[0] - above[1])
    whole = np.where(low < 1, below[2] - below[0], above[0] - above[2])
    share = np.divide(rise, whole, out=np.ones_like(rise), where=whole > 0)
    return np.asarray(np.clip(share + _SLACK, 0.0, 1.0))
