"""From pairs and a target to a certified epsilon or delta: saddle point, grid, composition, root.

1. *Saddle*: on some 600 unevenly spaced losses per pair, find the tilt c at which delta is decided, and about where.
2. *Grid*: the spacing that keeps the second-order error of epsilon below the accuracy asked for (far losses may be
   represented more coarsely, on the same lattice), and the window outside of which the tilted loss has nothing left.
3. *Compose* (``_compose``) and find the epsilon at which the certified bound meets delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.fft import next_fast_len

from hush.accounting._compose import Indices, LatticePart, spectrum
from hush.accounting._lattice import Atoms, dominated, dominating, loss_range
from hush.accounting._profile import ULP, Array, Pair, Profile

ACCURACY = 2e-6
_ROUGH = 1e-3
_MAX_POINTS = 1 << 21
_EXACT_POINTS = 1 << 17
_ALIAS = 1e-9
_TAIL = 1e-9
_UNEVEN = np.geomspace(1e-8, 1.0, 320)

Part = tuple[Pair, int]


@dataclass(frozen=True, slots=True)
class Moments:
    """The cumulant generating function K(c) = sum_i T_i log E[e^(c Y_i)] of the composed loss, from above."""

    losses: Array
    masses: Array
    counts: Array

    @staticmethod
    def of(parts: Sequence[Part], tail: float) -> Moments:
        """Discretise each pair on geometrically spaced losses."""
        rows = [_uneven(pair, tail) for pair, _ in parts]
        counts = np.array([count for _, count in parts], dtype=float)
        # Signed masses: clipping the rounding noise around 0 would add mass, T times.
        return Moments(np.stack([row.losses for row in rows]), np.stack([row.masses for row in rows]), counts)

    def at(self, tilt: float) -> tuple[float, float, float, Array]:
        """Return K, K', K'' and the tilted probabilities of each pair."""
        exponents = tilt * self.losses
        logs = np.log(np.maximum(self.masses, 1e-300)) + exponents
        peak = np.take_along_axis(exponents, logs.argmax(axis=1)[:, None], axis=1)
        weights = self.masses * np.exp(np.minimum(exponents - peak, 600.0))
        total = weights.sum(axis=1, keepdims=True)
        weights /= total
        mean = (weights * self.losses).sum(axis=1)
        variance = (weights * (self.losses - mean[:, None]) ** 2).sum(axis=1)
        log_moment = peak[:, 0] + np.log(total[:, 0])
        return float(self.counts @ log_moment), float(self.counts @ mean), float(self.counts @ variance), weights


def _uneven(pair: Pair, tail: float) -> Atoms:
    low, high = loss_range(pair, tail)
    losses = np.concatenate([low * _UNEVEN[::-1], [0.0], high * _UNEVEN])
    return dominating(pair, losses, np.diff(losses))


@dataclass(frozen=True, slots=True)
class Saddle:
    """Where delta is decided: the tilt, about the epsilon, about log delta, and the spread of the tilted loss."""

    tilt: float
    epsilon: float
    log_delta: float
    spread: float


def _saddle_at(moments: Moments, tilt: float) -> Saddle:
    """Return the saddle point of K(c) - c eps - log(c (c + 1)) that has the given c."""
    value, mean, variance, _ = moments.at(tilt)
    epsilon = mean - 1 / tilt - 1 / (tilt + 1)
    curvature = max(variance, 0.0) + tilt**-2 + (tilt + 1) ** -2
    exponent = value - tilt * epsilon - math.log(tilt) - math.log1p(tilt)
    return Saddle(tilt, epsilon, exponent - 0.5 * math.log(2 * math.pi * curvature), math.sqrt(curvature))


def find_saddle(moments: Moments, *, log_delta: float | None = None, epsilon: float = 0.0) -> Saddle:
    """Find the saddle for a delta, or else for an epsilon."""

    def excess(log_tilt: float) -> float:
        saddle = _saddle_at(moments, math.exp(log_tilt))
        return saddle.epsilon - epsilon if log_delta is None else log_delta - saddle.log_delta

    return _saddle_at(moments, math.exp(bisect(excess, math.log(1e-5), math.log(1e8), 1e-3)))


def bisect(function: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """Find where an increasing function changes sign; an end of the interval where it does not."""
    while high - low > tolerance:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if function(middle) > 0 else (middle, high)
    return 0.5 * (low + high)


@dataclass(frozen=True, slots=True)
class Grid:
    """The lattice for one problem.

    Attributes:
        spacing, tilt, num_points: as in ``Spectrum``.
        fine_reach: up to this many lattice points from 0 each one is used; beyond, relative resolution is kept.
        tail: how much of each loss may be left outside on the right.
        exact: whether every corner of every curve is a lattice point.
    """

    spacing: float
    tilt: float
    num_points: int
    fine_reach: int
    tail: float
    exact: bool

    def indices(self, pair: Pair, count: int) -> Indices:
        """Return the lattice points on which to represent a pair."""
        low, high = _useful_range(pair, count, self.tail, self.tilt)
        left = _spread_indices(math.ceil(-low / self.spacing), self.fine_reach)
        right = _spread_indices(math.ceil(high / self.spacing), self.fine_reach)
        return np.concatenate([-left[:0:-1], right])


def _spread_indices(last: int, fine_reach: int) -> Indices:
    """Return 0, 1, .., fine_reach, then steps of 2 up to twice that, of 4 up to four times, .., last."""
    pieces = [np.arange(0, min(fine_reach, last))]
    start, step = fine_reach, 1
    while start < last:
        pieces.append(np.arange(start, min(2 * start, last), 2 * step))
        start, step = 2 * start, 2 * step
    return np.append(np.concatenate(pieces), last)


def _useful_range(pair: Pair, count: int, tail: float, tilt: float) -> tuple[float, float]:
    """Return the losses to represent: further left, the tilt leaves nothing that a chord to the origin would change."""
    low, high = loss_range(pair, tail)
    return max(low, (math.log(_TAIL) - math.log(count)) / tilt), high


def choose_spacing(moments: Moments, saddle: Saddle, scale: float, accuracy: float) -> tuple[float, float]:
    """Return the spacing at which joining points raises epsilon by about ``accuracy * scale``, and the fine reach.

    A loss y inside a cell is split to the cell's ends, which adds (y - a)(b - y) to its second moment: h^2 / 6 where
    the loss is spread over many cells, at most |y| h where it is not; and delta grows by e^(c (c + 1) / 2 of that).
    """
    weights = np.abs(moments.at(saddle.tilt)[3])
    sizes = np.abs(moments.losses)

    def added(h: float) -> float:
        return float(moments.counts @ (weights * np.minimum(h * h / 6, sizes * h)).sum(axis=1))

    budget = 2 * accuracy * scale / (saddle.tilt + 1)
    reach = math.log(float(sizes.max()))
    spacing = math.exp(bisect(lambda log_h: added(math.exp(log_h)) - 0.8 * budget, reach - 30, reach, 0.05))
    # Cells of relative width 1 / m, with m = fine_reach / 2, add y^2 / (6 m^2).
    second = float(moments.counts @ (weights * sizes**2).sum(axis=1))
    return spacing, 2 * math.sqrt(second / (6 * 0.2 * budget))


def choose_window(moments: Moments, saddle: Saddle, whole: float) -> float:
    """Return the length L beyond which wrap-around adds at most about ``_ALIAS`` times delta."""
    below = (-saddle.log_delta - math.log(_ALIAS)) / saddle.tilt
    above = whole
    for step in np.geomspace(0.3, 30.0, 12) / saddle.spread:
        exponent = moments.at(saddle.tilt + step)[0] - (saddle.tilt + step) * saddle.epsilon - saddle.log_delta
        above = min(above, (exponent - math.log(_ALIAS)) / step)
    return max(below, above)


def choose_grid(parts: Sequence[Part], moments: Moments, saddle: Saddle, tail: float, accuracy: float) -> Grid:
    """Choose spacing and number of points, within memory."""
    ranges = [_useful_range(pair, count, tail, saddle.tilt) for pair, count in parts]
    whole = sum(count * (high - low) for (low, high), (_, count) in zip(ranges, parts, strict=True))
    window = choose_window(moments, saddle, whole)
    scale = max(abs(saddle.epsilon), 1e-3 * saddle.spread)
    spacing, fine_reach = choose_spacing(moments, saddle, scale, accuracy)
    spacing = max(spacing, window / _MAX_POINTS)
    longest = max(window, *(high - low for low, high in ranges))
    period = _common_period(parts)
    # On a lattice of the corners themselves nothing is lost, even if it is coarser than asked for.
    exact = period is not None and (period >= spacing or longest <= _EXACT_POINTS * period)
    if exact and period is not None and longest <= _MAX_POINTS * period:
        spacing = period
    else:
        exact = False
    points = next_fast_len(math.ceil(window / spacing) + 2, real=True)
    power = max(8, math.ceil(math.log2(max(fine_reach, 1.0))))
    return Grid(spacing, saddle.tilt, points, 1 << (40 if exact else min(power, 20)), tail, exact)


def _common_period(parts: Sequence[Part]) -> float | None:
    periods = {profile.period for pair, _ in parts for profile in (pair.forward, pair.backward)}
    return periods.pop() if len(periods) == 1 else None


class ComposedLoss:
    """The privacy loss of independent pairs, each some number of times: certified bounds on delta and epsilon."""

    def __init__(self, parts: Iterable[Part]) -> None:
        merged: dict[Pair, int] = {}
        for pair, count in parts:
            if _distinguishable(pair):
                merged[pair] = merged.get(pair, 0) + count
        self._parts = list(merged.items())
        self._num_steps = sum(merged.values())
        self.max_loss = sum(count * pair.forward.max_loss for pair, count in self._parts)
        self.infinite = -math.expm1(sum(count * math.log1p(-_unbounded(pair)) for pair, count in self._parts))

    def epsilon_upper(self, delta: float, accuracy: float = ACCURACY) -> float:
        """Return an epsilon at which delta is proven not to be exceeded."""
        if not self._parts:
            return 0.0
        if delta <= self.infinite * (1 + 8 * ULP):
            return self.max_loss if delta == self.infinite == 0 else math.inf
        if self._num_steps == 1:
            return _invert(self._parts[0][0].forward, delta)
        _, epsilon = self._solve(delta, accuracy, lower=False)
        return min(epsilon, self.max_loss)

    def epsilon_lower(self, delta: float, accuracy: float = ACCURACY) -> float:
        """Return an epsilon at which delta is proven to be exceeded, or 0."""
        if not self._parts:
            return 0.0
        if delta <= self.infinite * (1 - 8 * ULP) or delta == 0:
            return self.max_loss if delta == self.infinite == 0 else math.inf
        if self._num_steps == 1:
            profile = self._parts[0][0].forward
            return max(0.0, _invert(profile, delta / (1 - 4 * profile.relative_error)) * (1 - 1e-12))
        return self._solve(delta, accuracy, lower=True)[1]

    def delta_upper(self, epsilon: float, accuracy: float = ACCURACY) -> float:
        """Return an upper bound on delta at epsilon >= 0."""
        return self._delta(epsilon, accuracy, lower=False)

    def delta_lower(self, epsilon: float, accuracy: float = ACCURACY) -> float:
        """Return a lower bound on delta at epsilon >= 0."""
        return self._delta(epsilon, accuracy, lower=True)

    def _delta(self, epsilon: float, accuracy: float, *, lower: bool) -> float:
        if not self._parts or epsilon >= self.max_loss:
            return self.infinite
        if self._num_steps == 1:
            profile = self._parts[0][0].forward
            error = 4 * profile.relative_error
            return min(1.0, float(profile.delta(np.array([epsilon]))[0]) * (1 - error if lower else 1 + error))
        # How much of the tails to represent depends on delta, which a first look estimates.
        first = find_saddle(Moments.of(self._parts, self._tail(math.log(1e-12))), epsilon=epsilon)
        tail = self._tail(first.log_delta)
        moments = Moments.of(self._parts, tail)
        saddle = find_saddle(moments, epsilon=epsilon)
        grid = choose_grid(self._parts, moments, saddle, tail, accuracy)
        return min(1.0, max(self._compose(grid, lower=lower)(epsilon), self.infinite))

    def _solve(self, delta: float, accuracy: float, *, lower: bool) -> tuple[Saddle, float]:
        """Find epsilon roughly, from the saddle point, and again, precisely, with the tilt that belongs to it."""
        log_delta = math.log(delta)
        tail = self._tail(log_delta)
        moments = Moments.of(self._parts, tail)
        saddle = find_saddle(moments, log_delta=log_delta)
        if not saddle.epsilon > 0:
            saddle = find_saddle(moments, epsilon=0.0)
        epsilon = 0.0
        for stage in (max(_ROUGH, accuracy), accuracy):
            grid = choose_grid(self._parts, moments, saddle, tail, stage)
            epsilon = _root(self._compose(grid, lower=lower), saddle, log_delta, upper=not lower)
            if stage == accuracy:
                break
            if math.isfinite(epsilon) and not (lower and epsilon == 0):
                saddle = find_saddle(moments, epsilon=epsilon)
        return saddle, epsilon

    def _tail(self, log_delta: float) -> float:
        return max(_TAIL * math.exp(max(log_delta, -650.0)) / self._num_steps, 1e-300)

    def _compose(self, grid: Grid, *, lower: bool) -> Callable[[float], float]:
        """Return a function that bounds delta at an epsilon."""
        lattice = [_on_grid(pair, count, grid, lower=lower) for pair, count in self._parts]
        composed = spectrum(lattice, grid.spacing, grid.tilt, grid.num_points)
        if not lower:
            return lambda epsilon: composed.delta_bounds(epsilon)[1]
        aliases = _alias_bound(lattice, grid)
        return lambda epsilon: max(composed.delta_bounds(epsilon)[0] - aliases(epsilon), 0.0)


def _distinguishable(pair: Pair) -> bool:
    return float(pair.forward.delta(np.zeros(1))[0]) > 0


def _unbounded(pair: Pair) -> float:
    """Return P's probability of a loss without bound."""
    limit = pair.forward.max_loss
    return 0.0 if limit == math.inf else float(pair.forward.delta(np.array([limit]))[0])


def _on_grid(pair: Pair, count: int, grid: Grid, *, lower: bool) -> LatticePart:
    indices = grid.indices(pair, count)
    losses, gaps = (steps.astype(float) * grid.spacing for steps in (indices, np.diff(indices)))
    atoms = dominated(pair, losses, gaps, straight=grid.exact) if lower else dominating(pair, losses, gaps)
    return LatticePart(atoms, indices, count)


def _alias_bound(lattice: Sequence[LatticePart], grid: Grid) -> Callable[[float], float]:
    """Return a bound on what wrap-around adds: sum over l != 0 of e^(c l L) delta(eps + l L).

    To the left delta <= 1; to the right Chernoff: delta(eps) <= e^(K(c') - c' eps) for any c' > c.
    """
    length = grid.num_points * grid.spacing
    left = 1 / math.expm1(min(grid.tilt * length, 700.0))
    tilts = grid.tilt + np.geomspace(2.0, 400.0, 10) / length
    cumulants = [sum(part.count * _log_moment(part.atoms, tilt) for part in lattice) for tilt in tilts]

    def bound(epsilon: float) -> float:
        right = min(
            cumulant - tilt * epsilon - math.log(math.expm1((tilt - grid.tilt) * length))
            for tilt, cumulant in zip(tilts, cumulants, strict=True)
        )
        return left + math.exp(min(right, 700.0))

    return bound


def _log_moment(atoms: Atoms, tilt: float) -> float:
    exponents = tilt * atoms.losses
    peak = float(exponents.max())
    return peak + math.log(float(np.dot(atoms.masses, np.exp(exponents - peak))) + 1e-300)


def _invert(profile: Profile, delta: float) -> float:
    """Return an epsilon whose delta, computed with its error, is at most the one given: nested search."""
    limit = delta / (1 + 4 * profile.relative_error)
    if float(profile.delta(np.zeros(1))[0]) <= limit:
        return 0.0
    low, high = 0.0, min(profile.max_loss, 1e15)
    grid = np.append(np.geomspace(1e-24, 1.0, 1200) * high, high)
    while high - low > 4 * ULP * high:
        met = np.flatnonzero(profile.delta(grid) <= limit)
        if not met.size:
            return math.inf if profile.max_loss == math.inf else profile.max_loss
        first = int(met[0])
        low, high = (float(grid[first - 1]) if first else low), float(grid[first])
        grid = np.linspace(low, high, 65)[1:]
        if grid[0] >= high or grid[0] <= low:
            break
    return high


def _root(bound: Callable[[float], float], saddle: Saddle, log_delta: float, *, upper: bool) -> float:
    """Solve bound(epsilon) = delta; the result is on the safe side: bound <= delta there if ``upper``, else >=.

    The bound is about exponential with rate -tilt, so the secant method in log delta, started so, takes few steps.
    Whatever it converges to, only a point where the bound was evaluated and is safe is returned.
    """

    def excess(epsilon: float) -> float:
        value = bound(epsilon)
        return (math.log(value) if value > 0 else -1e4) - log_delta

    if upper and excess(0.0) <= 0:
        return 0.0
    before, value_before = 0.0, math.inf
    epsilon = max(saddle.epsilon, 0.0)
    rate = saddle.tilt
    for _ in range(50):
        value = excess(epsilon)
        if math.isfinite(value_before) and epsilon != before and (value - value_before) * (epsilon - before) < 0:
            rate = min(max((value_before - value) / (epsilon - before), rate / 4), rate * 4)
        before, value_before = epsilon, value
        epsilon = max(epsilon + value / rate, 0.0)
        if abs(epsilon - before) <= 1e-11 * epsilon:
            break
    nudge = (1e-11 if upper else -1e-11) * epsilon
    for _ in range(60):
        if epsilon <= 0 or (excess(epsilon) <= 0) == upper:
            return max(epsilon, 0.0)
        epsilon += nudge
        nudge *= 2
    return math.inf if upper else 0.0
