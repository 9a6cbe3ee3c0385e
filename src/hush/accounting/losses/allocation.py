"""Profiles of balls-in-bins sampling: every record falls into one of T batches, and T noisy sums are released.

*The pair* is P = (1/T) sum_t N(e_t, sigma^2 I) against Q = N(0, sigma^2 I) (Chua et al. 2025; Feldman & Shenfeld 2025).
Under Q the likelihood ratio is L = (W_1 + ... + W_T) / T, with independent ``W = e^(Z/sigma - 1/(2 sigma^2))`` for
standard normal Z. Both profiles are expectations, under Q, of convex functions of L: ``E (L - x)_+`` forwards and
``E (1 - x L)_+`` backwards. This pair dominates even if a step depends on earlier outcomes: given these, W_t belongs to
a shift of at most 1, so it is at most W in the convex order, whatever they were. Replace it by an independent W, from
the last step to the first.

*The approximation.* L may be replaced by anything larger in the convex order, which independent sums preserve. Here
each mass moves to the two grid points around it, with the mean unchanged. The result dominates in both directions at
once, with a second-order error (about 1e-5 of epsilon). T summands take log2(T) doublings.

*The grid.* The points are spaced like floating-point numbers: evenly around a centre, and twice as far apart at each
next *level*. Their indices are integers, so sums of points are exact. Masses are only added and multiplied, never
subtracted: each keeps its relative accuracy, even far out, and no Fourier transform blurs the tails. Mass outside the
grid counts as failure: under Q it goes to L = 0, under P to L = infinity.

    summand   W on a grid: `_summand`
    law       the distribution of a partial sum, doubled and added: `_add`
    curve     both profiles at the points of the final sum: `_curve`
    profile   evaluated between the points: `AllocationProfile`

References:
    Chua et al. 2025, "Balls-and-bins sampling for DP-SGD" (the pair); Feldman & Shenfeld 2025, "Privacy amplification
    by random allocation". The pair is theirs; the convex order and the grid are this package's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import ndtr

from hush.accounting.losses.profile import ULP, Array, Profile, tail_gap

_RESOLUTION = 1 / 256  # spacing relative to the local spread of the sum, rounded down to a power of two
_HEAVY = 0.25  # a sum whose relative spread exceeds this is resolved relative to 0
_LARGEST_DEVIATE = 12.0  # larger normal deviates have probability 2e-33
_LOG_TAIL = -74.0  # e^-74 = 7e-33
_DUST = 1e-60  # smaller masses, under both P and Q, are dropped
_MARGINAL_ERROR = 4096 * ULP  # relative, of a summand's masses: exponents up to 22^2 / 2, from rounded deviates
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)

MIN_NOISE = 0.1
"""Below this noise multiplier the likelihood ratio spans too many powers of two; a single Gaussian replaces it."""


@dataclass(frozen=True)
class AllocationProfile(Profile):
    """(1/T) sum_t N(e_t, sigma^2 I) against N(0, sigma^2 I) in T dimensions, from above.

    Attributes:
        noise_multiplier: sigma.
        num_bins: T.
        reverse: Whether the profile is that of the second distribution against the first.
    """

    noise_multiplier: float
    num_bins: int
    reverse: bool = False

    @cached_property
    def _curve(self) -> _RatioProfiles:
        return _curve(self.noise_multiplier, self.num_bins)

    @cached_property
    def max_loss(self) -> float:  # type: ignore[override]
        """The loss of the last point."""
        return -float(self._curve.losses[0]) if self.reverse else float(self._curve.losses[-1])

    @cached_property
    def failure(self) -> float:  # type: ignore[override]
        """The mass that was moved to L = infinity, or in reverse to L = 0."""
        return self._curve.zero if self.reverse else self._curve.infinite

    @cached_property
    def relative_error(self) -> float:  # type: ignore[override]
        """A bound on the error of the masses, and of the losses relative to the spread of the likelihood ratio."""
        return self._curve.relative_error

    def delta(self, epsilon: Array) -> Array:
        """Evaluate the profile, a sum of positive terms."""
        curve = self._curve
        inside = epsilon < self.max_loss
        epsilon = np.where(inside, epsilon, 0.0)
        if self.reverse:
            # E (1 - x L)_+ = x put(y_j) + (1 - x e^(y_j)) Q(L <= e^(y_j)), with y_j the last loss up to -eps.
            last = np.maximum(np.searchsorted(curve.losses, -epsilon, side="right") - 1, 0)
            gap = -np.expm1(np.minimum(epsilon + curve.losses[last], 0.0))
            value = np.exp(epsilon) * curve.put[last] + gap * curve.head[last]
        else:
            # E (L - x)_+ = call(y_j) + (e^(y_j) - x) Q(L >= e^(y_j)), with y_j the first loss from eps on.
            first = np.minimum(np.searchsorted(curve.losses, epsilon), len(curve.losses) - 1)
            gap = np.expm1(np.maximum(curve.losses[first] - epsilon, 0.0))
            value = curve.call[first] + np.exp(epsilon) * gap * curve.tail[first]
        return np.where(inside, value, self.failure)


@dataclass(frozen=True, slots=True)
class _RatioProfiles:
    """A discrete likelihood ratio, as both profiles at its points. The names are those of options in finance.

    Attributes:
        losses: log L at the points, increasing.
        call: E (L - e^y)_+ at the points, including the mass at infinity.
        tail: Q(L >= e^y) at the points.
        put: E (e^y - L)_+ at the points, including the mass at 0.
        head: Q(L <= e^y) at the points, including the mass at 0.
        zero: Q's mass at L = 0.
        infinite: P's mass at L = infinity.
        relative_error: A bound on the relative error of the arrays, and of values between the points.
    """

    losses: Array
    call: Array
    tail: Array
    put: Array
    head: Array
    zero: float
    infinite: float
    relative_error: float


@lru_cache(maxsize=32)
def _curve(noise_multiplier: float, num_bins: int) -> _RatioProfiles:
    """Return both profiles at the points of the likelihood ratio L = sum / T."""
    law = _sum_law(noise_multiplier, num_bins)
    count = float(num_bins)
    levels = [(level, run) for level, run in law.runs.items() if run.masses.size]
    offsets = np.concatenate([np.ldexp(run.indices, level) for level, run in levels])
    order = np.argsort(offsets)
    offsets, masses = offsets[order], np.concatenate([run.masses for _, run in levels])[order]
    positive = masses > 0
    offsets, masses = offsets[positive], masses[positive]
    losses = np.log1p(offsets / count) if law.centre else np.log(offsets / count)
    steps = np.diff(offsets) / count  # the differences are exact
    # call(y_j) = sum over i > j of (step to i) * Q(L >= L_i): a sum of positive terms, like all that follow.
    tail = np.cumsum(masses[::-1])[::-1]
    head = law.zero + np.cumsum(masses)
    infinite = law.excess / count
    call = np.append(np.cumsum((steps * tail[1:])[::-1])[::-1], 0.0) + infinite
    # The first step starts at L = 0, where only the failed mass is.
    put = np.cumsum(np.append(math.exp(losses[0]) * law.zero, steps * head[:-1]))
    spread = math.sqrt(math.expm1(min(noise_multiplier**-2, 600.0)) / count)  # the standard deviation of L
    error = law.relative_error + 4 * len(masses) * ULP + 256 * ULP * (1 + 1 / min(spread, 1.0))
    return _RatioProfiles(losses, call, tail, put, head, law.zero, infinite, 1.01 * error)


@dataclass(slots=True)
class _Run:
    """Masses at consecutive points of one level's lattice, starting at index ``start``."""

    start: int = 0
    masses: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def indices(self) -> Array:
        return np.arange(self.start, self.start + len(self.masses), dtype=float)

    def trimmed(self) -> _Run:
        """Return the run without zeros at its ends."""
        nonzero = np.flatnonzero(self.masses)
        if not nonzero.size:
            return _Run()
        return _Run(self.start + int(nonzero[0]), self.masses[nonzero[0] : nonzero[-1] + 1])

    def __add__(self, other: _Run) -> _Run:
        if not self.masses.size or not other.masses.size:
            return self if self.masses.size else other
        start = min(self.start, other.start)
        end = max(self.start + len(self.masses), other.start + len(other.masses))
        total = np.zeros(end - start)
        for run in (self, other):
            total[run.start - start : run.start - start + len(run.masses)] += run.masses
        return _Run(start, total)

    def __mul__(self, other: _Run) -> _Run:
        if not self.masses.size or not other.masses.size:
            return _Run()
        return _Run(self.start + other.start, np.convolve(self.masses, other.masses))

    def coarser(self) -> _Run:
        """Return the run on the lattice of twice the spacing. Odd points go to both neighbours, half each."""
        if not self.masses.size:
            return self
        start = self.start // 2
        padded = np.zeros(2 * ((len(self.masses) + 1) // 2) + 2)
        padded[self.start - 2 * start : self.start - 2 * start + len(self.masses)] = self.masses
        even, odd = padded[0::2].copy(), 0.5 * padded[1::2]
        even += odd
        even[1:] += odd[:-1]
        return _Run(start, np.append(even, odd[-1])).trimmed()

    def shifted(self, distance: int, level: int) -> _Run:
        """Return the run shifted by an integer, which need not be a multiple of this level's spacing."""
        if level <= 0:
            return _Run(self.start + (distance << -level), self.masses)
        steps, remainder = divmod(distance, 1 << level)
        share = remainder / (1 << level)
        left = _Run(self.start + steps, (1 - share) * self.masses)
        return left + _Run(left.start + 1, share * self.masses) if remainder else left

    def within(self, low: int, high: int) -> tuple[_Run, _Run, _Run]:
        """Return three runs: the indices below ``low``, from ``low`` to ``high``, and above ``high``."""
        first = min(max(low - self.start, 0), len(self.masses))
        last = min(max(high + 1 - self.start, first), len(self.masses))
        pieces = ((0, first), (first, last), (last, len(self.masses)))
        below, inside, above = (_Run(self.start + a, self.masses[a:b]).trimmed() for a, b in pieces)
        return below, inside, above


@dataclass(frozen=True, slots=True)
class _SumGrid:
    """The points centre + index * 2^level with |index| <= radius, for levels from base to top, and none below low."""

    centre: int
    base: int
    top: int
    radius: int
    low: float


@dataclass(slots=True)
class _Law:
    """The distribution of a partial sum under Q.

    Attributes:
        centre: The centre of the grid.
        count: The number of summands, which is also the mean.
        runs: The masses of each level, at ``centre + index * 2^level``.
        zero: The mass that was moved to 0.
        excess: The expectation that was moved to infinity.
        relative_error: A bound on the relative error of every mass, of ``zero`` and of ``excess``.
    """

    centre: int
    count: int
    runs: dict[int, _Run]
    zero: float = 0.0
    excess: float = 0.0
    relative_error: float = 0.0


def _sum_law(noise_multiplier: float, num_bins: int) -> _Law:
    """Return the distribution of W_1 + ... + W_T, by doubling."""
    shape = _SumSpread(noise_multiplier)
    summand = _summand(noise_multiplier, shape.grid(1))
    law = summand
    # T in binary: double for every digit, and add one for every 1. log2(T) convolutions instead of T.
    for digit in bin(num_bins)[3:]:
        law = _add(law, law, shape.grid(2 * law.count))
        if digit == "1":
            law = _add(law, summand, shape.grid(law.count + 1))
    return law


class _SumSpread:
    """The approximate spread of a sum of k summands. It only decides where grid points are.

    Left of its mean, a sum near any value is distributed like its summands under a tilt e^(-r W) to that mean.
    """

    def __init__(self, noise_multiplier: float) -> None:
        self._sigma = noise_multiplier
        self._largest = math.exp(_LARGEST_DEVIATE / noise_multiplier + 0.5 / noise_multiplier**2)
        normal = np.linspace(-16.0, 10.0, 1301)
        values = np.exp(normal / noise_multiplier - 0.5 / noise_multiplier**2)
        rates = np.exp(
            np.linspace(-12.0, 2 * _LARGEST_DEVIATE / noise_multiplier + 0.5 / noise_multiplier**2 + 14.0, 200)
        )
        rates *= max(noise_multiplier, 1.0)
        logs = -0.5 * normal**2 - rates[:, None] * values
        peaks = logs.max(axis=1)
        weights = np.exp(logs - peaks[:, None])
        total = weights.sum(axis=1)
        # Cramer: P(mean of k <= m) is about e^(k (K(-r) + r m)), where the tilt e^(-r W) has mean m.
        means = weights @ values / total
        spreads = np.sqrt((weights * (values - means[:, None]) ** 2).sum(axis=1) / total)
        exponents = np.log(total / np.exp(-0.5 * normal**2).sum()) + peaks + rates * means
        inside = means > values[100]  # further left the truncated integral is inaccurate
        self._means, self._spreads, self._exponents = means[inside], spreads[inside], exponents[inside]

    def grid(self, count: int) -> _SumGrid:
        """Return the grid for the sum of ``count`` summands."""
        low = count * self._at(self._means, _LOG_TAIL / count)
        typical = count * self._at(self._means, -1 / count)
        spread = math.sqrt(count) * self._at(self._spreads, -1 / count)
        high = self._largest + (2 * count if count > 1 else 0)
        if spread > _HEAVY * typical:
            radius = _power_of_two(2 * typical / (_RESOLUTION * spread))
            centre, base = 0, math.floor(math.log2(low / radius)) + 1
        else:
            # Beyond sigma spreads a single large summand dominates, whose own spread grows with it.
            radius = _power_of_two(min(max(self._sigma, 4.0), 12.0) / _RESOLUTION)
            centre, base = count, math.floor(math.log2(_RESOLUTION * spread))
        top = max(base, math.ceil(math.log2((high - centre) / radius)))
        return _SumGrid(centre, base, top, radius, low)

    def _at(self, row: Array, exponent: float) -> float:
        """Return the row's value where the log-probability of a mean as small as this is about ``exponent``."""
        return float(np.interp(-exponent, -self._exponents, row))


def _power_of_two(value: float) -> int:
    return 1 << max(math.ceil(math.log2(value)), 5)


def _summand(sigma: float, grid: _SumGrid) -> _Law:
    """Return W on the grid: the mass of each cell goes to its two ends, with the mean unchanged."""
    indices, levels = _points(grid)
    offsets = np.ldexp(indices, levels)
    points = grid.centre + offsets
    logs = np.log1p(offsets) if grid.centre else np.log(offsets)
    normal = sigma * logs + 0.5 / sigma
    widths = np.log1p(np.diff(offsets) / points[:-1])  # of the cells, in log W
    # Gauss-Legendre is accurate here: a Gaussian times an exponential, over a fraction of the Gaussian's width.
    within = 0.5 * (1 + _NODES) * widths[:, None]
    nodes = normal[:-1, None] + sigma * within
    density = np.exp(-0.5 * nodes**2) * (0.5 * sigma / math.sqrt(2 * math.pi) * widths / np.expm1(widths))[:, None]
    up = (density * np.expm1(within)) @ _WEIGHTS
    down = (density * np.exp(within) * np.expm1(widths[:, None] - within)) @ _WEIGHTS
    # Each mass between two points goes to both, in shares that keep its mean: larger in the convex order.
    masses = np.append(down, 0.0) + np.append(0.0, up)
    masses[-1] += float(ndtr(-normal[-1]))
    runs = {}
    for level in range(grid.base, grid.top + 1):
        on_level = levels == level
        run = _Run(-grid.radius, np.zeros(2 * grid.radius + 1))
        run.masses[indices[on_level].astype(int) + grid.radius] = masses[on_level]
        runs[level] = run.trimmed()
    return _Law(
        centre=grid.centre,
        count=1,
        runs=runs,
        zero=float(ndtr(normal[0])),
        excess=float(ndtr(normal[0] - 1 / sigma) + tail_gap(normal[-1:] - 1 / sigma, 1 / sigma)[0]),
        relative_error=_MARGINAL_ERROR,
    )


def _points(grid: _SumGrid) -> tuple[Array, Array]:
    """Return the indices and levels of the grid's points, in increasing order and each point once."""
    radius = grid.radius
    # As in floating point, a level holds the upper half of its indices: the lower half lies on the level below.
    positive = [(np.arange(1, radius), grid.base)]
    positive += [(np.arange(radius // 2, radius), level) for level in range(grid.base + 1, grid.top + 1)]
    positive.append((np.array([radius]), grid.top))
    indices = np.concatenate([index for index, _ in positive]).astype(float)
    levels = np.concatenate([np.full(len(index), level) for index, level in positive])
    if grid.centre:
        indices = np.concatenate([-indices[::-1], [0.0], indices])
        levels = np.concatenate([levels[::-1], [grid.base], levels])
    inside = grid.centre + np.ldexp(indices, levels) >= grid.low
    return indices[inside], levels[inside]


def _add(first: _Law, second: _Law, grid: _SumGrid) -> _Law:
    """Return the distribution of the sum of two independent variables, on a grid."""
    products, terms = _products(first, second)
    law = _Law(grid.centre, first.count + second.count, {})
    # If one of the two failed, the sum fails, and all of the other's expectation goes to infinity.
    law.zero = first.zero + second.zero
    law.excess = first.excess + second.excess + first.zero * second.count + second.zero * first.count
    distance = first.centre + second.centre - grid.centre
    carried, top = _Run(), max(grid.top, *products)
    for level in range(min(products), top + 1):
        run = products[level].shifted(distance, level) + carried if level in products else carried
        if level < grid.base:
            carried = run.coarser()
            continue
        below, inside, above = run.within(-grid.radius, grid.radius)
        if level == top:
            inside = below + inside + _capped(law, above, level, grid)
        carried = below.coarser() + above.coarser()
        law.runs[level] = _swept(law, inside, level, grid)
    # Sums of at most ``terms`` products, collected over the levels and moved (halves are exact, other shares are not).
    rounding = (terms + 8 * (len(products) + len(law.runs)) + 16) * ULP
    law.relative_error = first.relative_error + second.relative_error + 1.01 * rounding
    return law


def _products(first: _Law, second: _Law) -> tuple[dict[int, _Run], int]:
    """Return the sum's masses on each level's lattice, and the number of terms in the longest sum.

    Two points of different levels are added on the coarser one, to which the finer mass is moved first.
    """
    lower = [_Run(), _Run()]
    products, terms = {}, 1
    levels = sorted({*first.runs, *second.runs})
    for level in range(levels[0], levels[-1] + 1):
        left, right = (law.runs.get(level, _Run()) for law in (first, second))
        lower = [run.coarser() for run in lower]
        right_and_lower = right + lower[1]
        products[level] = left * right_and_lower + lower[0] * right
        factors = ((left, right_and_lower), (lower[0], right))
        terms = max(terms, *(min(len(run_a.masses), len(run_b.masses)) for run_a, run_b in factors))
        lower = [left + lower[0], right_and_lower]
    return products, terms


def _capped(law: _Law, run: _Run, level: int, grid: _SumGrid) -> _Run:
    """Return the mass beyond the last point, moved to that point; its excess goes to infinity."""
    law.excess += math.ldexp(float(np.dot(run.masses, run.indices - grid.radius)), level)
    return _Run(grid.radius, run.masses.sum(keepdims=True)) if run.masses.size else run


def _swept(law: _Law, run: _Run, level: int, grid: _SumGrid) -> _Run:
    """Return the run without masses that are too far left or negligible; these go to 0 and to infinity."""
    values = grid.centre + np.ldexp(run.indices, level)
    dropped = (values < grid.low) | (run.masses * np.maximum(values, 1.0) < _DUST)
    if (values[run.masses > 0] < 0).any():  # a likelihood ratio is positive: this would be a bug
        raise ArithmeticError(f"a sum of positive numbers came out negative on {grid}")
    law.zero += float(run.masses[dropped].sum())
    law.excess += float(np.dot(run.masses[dropped], np.maximum(values[dropped], 0.0)))
    return _Run(run.start, np.where(dropped, 0.0, run.masses)).trimmed()
