"""From pairs and a target to a certified epsilon or delta: saddle point, grid, composition, root.

1. *Saddle*: on a thousand unevenly spaced losses per pair, find the tilt c at which delta is decided, and about where.
2. *Grid*: the spacing that keeps the second-order error of epsilon below the accuracy asked for (far losses may
   be represented more coarsely, on the same lattice), and the window outside of which the tilted loss has nothing left.
3. *Compose* (``_compose``) and find the epsilon at which the certified bound meets delta.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.fft import next_fast_len

from hush.accounting._compose import Indices, LatticePart, spectrum
from hush.accounting._lattice import Atoms, dominated, dominating, loss_range
from hush.accounting._profile import ULP, Array, Pair, Profile

ACCURACY = 2e-6
_ROUGH = 1e-3
_MAX_STAGES = 4
_MAX_POINTS = 1 << 20
_FINEST = 1 << 24
_EXACT_POINTS = 1 << 17
_LARGEST = 1e15
_ALIAS = 1e-9
_TAIL = 1e-9
_UNEVEN = np.union1d(np.geomspace(1e-8, 1.0, 260), np.linspace(0.0, 1.0, 260)[1:])

Part = tuple[Pair, int]


@dataclass(frozen=True, slots=True)
class Moments:
    """The cumulant generating function K(c) = sum_i T_i log E[e^(c Y_i)] of the composed loss, from above."""

    losses: Array
    masses: Array
    counts: Array

    @staticmethod
    def of(parts: Sequence[Part], tail: float) -> Moments:
        """Discretise each pair on losses that are dense around 0, and evenly spaced further out."""
        rows = [_uneven(pair, tail) for pair, _ in parts]
        counts = np.array([count for _, count in parts], dtype=float)
        # Signed masses: clipping the rounding noise around 0 would add mass, T times.
        return Moments(np.stack([row.losses for row in rows]), np.stack([row.masses for row in rows]), counts)

    def at(self, tilt: float) -> tuple[float, float, float, Array]:
        """Return K, K', K'' and the tilted probabilities of each pair."""
        exponents = tilt * self.losses
        with np.errstate(divide="ignore"):
            logs = np.log(np.maximum(self.masses, 0.0)) + exponents
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

    reach = math.log(float(np.abs(moments.losses).max()))
    return _saddle_at(moments, math.exp(bisect(excess, -21 - reach, 18 - reach, 1e-3)))


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

    def coarser(self) -> Grid:
        """Return a grid for the same window that fits into memory."""
        factor = 1.001 * self.num_points / _MAX_POINTS
        points = int(next_fast_len(math.ceil(self.num_points / factor) - 8, real=True))
        return replace(self, spacing=self.spacing * factor, num_points=min(points, _MAX_POINTS), exact=False)

    def indices(self, pair: Pair, count: int, offset: float = 0.0, *, whole: bool = False) -> Indices:
        """Return the lattice points, counted from the offset, on which to represent a pair; all of it, if ``whole``."""
        low, high = loss_range(pair, self.tail) if whole else _useful_range(pair, count, self.tail, self.tilt)
        left = _spread_indices(max(math.ceil((offset - low) / self.spacing * (1 - 4 * ULP)), 0), self.fine_reach)
        right = _spread_indices(math.ceil((high - offset) / self.spacing * (1 - 4 * ULP)), self.fine_reach)
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


def choose_tilt(moments: Moments, saddle: Saddle, log_delta: float, whole: float) -> tuple[float, float]:
    """Return the tilt c with the shortest window L outside of which wrap-around adds ``_ALIAS`` times delta, and L.

    On the left wrap-around adds at most e^(-c L); on the right, for every c' > c, e^(K(c') - c' eps - (c' - c) L). For
    a loss that is about Gaussian the saddle's own tilt is best. Where few large jumps decide, a smaller one is.
    """
    target = -log_delta - math.log(_ALIAS)
    tilts = saddle.tilt * np.geomspace(0.02, 1.0, 18)
    steeper = np.concatenate([tilts[4:-1], saddle.tilt + np.geomspace(0.1, 30.0, 14) / saddle.spread])
    excess = np.array([moments.at(tilt)[0] - tilt * saddle.epsilon for tilt in steeper]) + target
    with np.errstate(divide="ignore"):
        rights = np.where(steeper > tilts[:, None], excess / (steeper - tilts[:, None]), np.inf).min(axis=1)
    windows = np.maximum(target / tilts, np.minimum(rights, whole))
    # Rounding is relative to e^(K(c) - c eps): allow that to exceed delta by e^14 at most, unless it must.
    amplified = np.array([moments.at(tilt)[0] - tilt * saddle.epsilon for tilt in tilts]) - log_delta
    windows = np.where(amplified <= max(14.0, float(amplified.min()) + 2.0), windows, np.inf)
    best = int(np.argmin(windows))
    return float(tilts[best]), float(windows[best])


def choose_grid(
    parts: Sequence[Part],
    moments: Moments,
    saddle: Saddle,
    log_delta: float,
    tail: float,
    accuracy: float,
    scale: float,
) -> Grid:
    """Choose tilt, spacing and number of points, within memory."""
    whole = sum(count * float(np.ptp(row)) for row, (_, count) in zip(moments.losses, parts, strict=True))
    tilt, window = choose_tilt(moments, saddle, log_delta, whole)
    ranges = [_useful_range(pair, count, tail, tilt) for pair, count in parts]
    spacing, fine_reach = choose_spacing(moments, saddle, scale, accuracy)
    spacing = max(spacing, window / _FINEST)
    longest = max(window, *(high - low for low, high in ranges))
    period = _common_period(parts)
    # On a lattice of the corners themselves nothing is lost, even if it is coarser than asked for.
    exact = period is not None and (period >= spacing or longest <= _EXACT_POINTS * period)
    if exact and period is not None and longest <= _MAX_POINTS * period:
        # A hair more, so that no corner is left of its point by rounding. And a tilt beyond the lattice's own scale
        # would only magnify what rounding leaves to the right.
        spacing = period * (1 + 4 * ULP)
        tilt = min(tilt, 50 / spacing)
        window = max(window, (-log_delta - math.log(_ALIAS)) / tilt)
    else:
        exact = False
        if len(parts) == 1 and parts[0][0].forward is parts[0][0].backward and parts[0][0].forward.max_loss < math.inf:
            # Both ends on the lattice: mechanisms of bounded loss have atoms there.
            spacing = parts[0][0].forward.max_loss / math.ceil(parts[0][0].forward.max_loss / spacing)
    points = next_fast_len(math.ceil(window / spacing) + 2, real=True)
    power = max(8, math.ceil(math.log2(max(fine_reach, 1.0))))
    return Grid(spacing, tilt, points, 1 << (40 if exact else min(power, 16)), tail, exact)


def _common_period(parts: Sequence[Part]) -> float | None:
    periods = {profile.period for pair, _ in parts for profile in (pair.forward, pair.backward)}
    return periods.pop() if len(periods) == 1 else None


@dataclass(frozen=True, slots=True)
class _Solution:
    """An epsilon, and where and how it was found."""

    epsilon: float
    saddle: Saddle
    grid: Grid


class ComposedLoss:
    """The privacy loss of independent pairs, each some number of times: certified bounds on delta and epsilon."""

    def __init__(self, parts: Iterable[Part]) -> None:
        merged: dict[Pair, int] = {}
        log_certain = 0.0
        for pair, count in parts:
            if pair.forward.max_loss == 0 == pair.backward.max_loss:
                log_certain += count * math.log1p(-pair.forward.failure)  # nothing, or no bound at all
            elif _distinguishable(pair):
                merged[pair] = merged.get(pair, 0) + count
        self._parts = list(merged.items())
        self._num_steps = sum(merged.values())
        self._failure = -math.expm1(log_certain)
        self.max_loss = sum(count * pair.forward.max_loss for pair, count in self._parts)
        self._unbounded = -math.expm1(sum(count * math.log1p(-pair.forward.failure) for pair, count in self._parts))

    def epsilon_upper(self, delta: float, accuracy: float = ACCURACY) -> float:
        """Return an epsilon at which delta is proven not to be exceeded."""
        rest = self._rest(delta, up=False)
        simple = self._simple_epsilon(rest)
        return simple[1] if simple is not None else min(self._solve(rest, accuracy).epsilon, self.max_loss)

    def epsilon_interval(self, delta: float, accuracy: float = ACCURACY) -> tuple[float, float]:
        """Return (lower, upper): at the lower one delta is proven to be exceeded (or it is 0), at the upper one not."""
        rest = self._rest(delta, up=False)
        simple = self._simple_epsilon(rest)
        if simple is not None:
            return simple
        solution = self._solve(rest, accuracy)
        if solution.epsilon == 0:
            return 0.0, 0.0
        bound, _ = self._compose(solution.grid, lower=True)
        lower = _root(bound, solution.saddle, math.log(self._rest(delta, up=True)), solution.epsilon, upper=False)
        upper = min(solution.epsilon, self.max_loss)
        return min(lower, upper), upper

    def _rest(self, delta: float, *, up: bool) -> float:
        """Return what is left of delta after the parts that protect nothing if they fail, rounded either way."""
        if self._failure == 0 or delta < self._failure:
            return delta if self._failure == 0 else -1.0
        slack = 8 * ULP * (1 if up else -1)
        return min(max((delta - self._failure) / (1 - self._failure) * (1 + slack) + slack * delta, 0.0), 1.0)

    def _simple_epsilon(self, delta: float) -> tuple[float, float] | None:
        """Answer what needs no composition."""
        if delta < 0:
            return math.inf, math.inf
        if not self._parts:
            return 0.0, 0.0
        if delta <= self._unbounded * (1 + 8 * ULP):
            epsilon = self.max_loss if delta == self._unbounded == 0 else math.inf
            return epsilon, epsilon
        if self._num_steps == 1:
            profile = self._parts[0][0].forward
            margin = 4 * profile.relative_error
            lower = min(_invert(profile, delta / (1 - margin)), _LARGEST)  # beyond, only that it is larger is known
            return max(0.0, lower * (1 - 1e-12)), _invert(profile, delta / (1 + margin))
        return None

    def delta_upper(self, epsilon: float, accuracy: float = ACCURACY) -> float:
        """Return an upper bound on delta at epsilon >= 0."""
        return self._failure + (1 - self._failure) * self._delta(epsilon, accuracy, lower=False)

    def delta_lower(self, epsilon: float, accuracy: float = ACCURACY) -> float:
        """Return a lower bound on delta at epsilon >= 0."""
        return self._failure + (1 - self._failure) * self._delta(epsilon, accuracy, lower=True)

    def _delta(self, epsilon: float, accuracy: float, *, lower: bool) -> float:
        if not self._parts or epsilon >= self.max_loss:
            return self._unbounded
        if epsilon > _LARGEST:
            return self._unbounded if lower else self._delta(_LARGEST, accuracy, lower=False)
        if self._num_steps == 1:
            profile = self._parts[0][0].forward
            error = 4 * profile.relative_error
            return min(1.0, float(profile.delta(np.array([epsilon]))[0]) * (1 - error if lower else 1 + error))
        # How much of the tails to represent depends on delta, which a first look estimates.
        first = find_saddle(Moments.of(self._parts, self._tail(math.log(1e-12))), epsilon=epsilon)
        tail = self._tail(first.log_delta)
        moments = Moments.of(self._parts, tail)
        saddle = find_saddle(moments, epsilon=epsilon)
        log_delta, scale = max(saddle.log_delta, -650.0), 1 / saddle.tilt
        accuracy = max(accuracy, 1e-4) if log_delta < math.log(1e-20) else accuracy  # nobody needs more there
        grid = choose_grid(self._parts, moments, saddle, log_delta, tail, accuracy, scale)
        bound, _ = self._compose(grid, lower=lower)
        return min(1.0, max(bound(epsilon), self._unbounded))

    def _solve(self, delta: float, accuracy: float) -> _Solution:
        """Find epsilon from above: roughly, then precisely around what was found; refine until it stands still.

        The grid follows from a model of its error. If two grids differ by more than the model says, the model is
        wrong by as much, and the next grid makes up for it.
        """
        log_delta = math.log(delta)
        tail = self._tail(log_delta)
        moments = Moments.of(self._parts, tail)
        saddle = find_saddle(moments, log_delta=log_delta)
        if not saddle.epsilon > 0:
            saddle = find_saddle(moments, epsilon=0.0)
        stage = last = max(_ROUGH, accuracy)
        before: _Solution | None = None
        for _ in range(_MAX_STAGES):
            # Relative to epsilon; delta falls like e^(-c eps), and need not be known better than to a hundredth of it.
            scale = max(abs(saddle.epsilon), 0.01 / saddle.tilt)
            grid = choose_grid(self._parts, moments, saddle, log_delta, tail, stage, scale)
            bound, grid = self._compose(grid, lower=False)
            found = _Solution(_root(bound, saddle, log_delta, saddle.epsilon, upper=True), saddle, grid)
            if found.epsilon == 0 or grid.exact:
                return found
            finer = accuracy
            if before is not None:
                off = abs(before.epsilon - found.epsilon) / (last * found.epsilon)
                if not off > 5 or grid.spacing > 0.7 * before.grid.spacing:
                    return found
                finer = stage / min(off, 1e4)
            elif stage <= accuracy:
                return found
            last, stage, before = stage, finer, found
            if math.isfinite(found.epsilon):
                saddle = find_saddle(moments, epsilon=found.epsilon)
        return found

    def _tail(self, log_delta: float) -> float:
        return max(_TAIL * math.exp(max(log_delta, -650.0)) / self._num_steps, 1e-300)

    def _compose(self, grid: Grid, *, lower: bool) -> tuple[Callable[[float], float], Grid]:
        """Return a function that bounds delta at an epsilon, and the grid, coarser if memory asked for it."""
        while True:
            placed = [_on_grid(pair, count, grid, lower=lower) for pair, count in self._parts]
            lattice = [part for part in placed if part is not None and part.atoms.masses.any()]
            if len(lattice) < len(placed):
                return (lambda epsilon: 0.0), grid  # only from below: nothing could be said
            composed = spectrum(lattice, grid.spacing, grid.tilt, grid.num_points, _MAX_POINTS)
            if composed is not None:
                break
            grid = grid.coarser()
        final = composed
        if not lower:
            return lambda epsilon: final.delta_bounds(epsilon)[1], grid
        aliases = _alias_bound(lattice, grid)
        return lambda epsilon: max(final.delta_bounds(epsilon)[0] - aliases(epsilon), 0.0), grid


def _distinguishable(pair: Pair) -> bool:
    return float(pair.forward.delta(np.zeros(1))[0]) > 0


def _on_grid(pair: Pair, count: int, grid: Grid, *, lower: bool) -> LatticePart | None:
    """Represent a pair on the grid, from above or from below (None if nothing can be said from below)."""
    if not lower:
        indices, losses, gaps = _points(grid, grid.indices(pair, count), 0.0)
        return LatticePart(dominating(pair, losses, gaps), indices, count)
    # From below, what lies between two points goes down. Where sampling is rare almost everything lies next to the
    # smallest loss, which then should be a point. Of several lower bounds take the one with the largest moment.
    offsets = [0.0] if grid.exact or not pair.backward.max_loss < math.inf else [0.0, -pair.backward.max_loss]
    found = []
    for offset, whole in itertools.product(offsets, (False, True)):
        indices, losses, gaps = _points(grid, grid.indices(pair, count, offset, whole=whole), offset)
        found += [
            LatticePart(atoms, indices, count, offset) for atoms in dominated(pair, losses, gaps, straight=grid.exact)
        ]
    return max(found, key=lambda part: _log_moment(part.atoms, grid.tilt), default=None)


def _points(grid: Grid, indices: Indices, offset: float) -> tuple[Indices, Array, Array]:
    losses, gaps = (steps.astype(float) * grid.spacing for steps in (indices, np.diff(indices)))
    return indices, losses + offset, gaps


def _alias_bound(lattice: Sequence[LatticePart], grid: Grid) -> Callable[[float], float]:
    """Return a bound on what wrap-around adds: sum over l != 0 of e^(c l L) delta(eps + l L).

    To the left delta <= 1; to the right Chernoff: delta(eps) <= e^(K(c') - c' eps) for any c' > c.
    """
    length = grid.num_points * grid.spacing
    left = 1 / math.expm1(min(grid.tilt * length, 700.0))
    tilts = grid.tilt + np.geomspace(2.0, 400.0, 10) / length
    cumulants = [sum(part.count * _log_moment(part.atoms, tilt) for part in lattice) for tilt in tilts]

    largest = sum(part.count * float(part.atoms.losses[-1]) for part in lattice)

    def bound(epsilon: float) -> float:
        if epsilon + length >= largest * (1 + 8 * ULP):
            return left  # there is nothing to the right
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
    """Return the smallest epsilon found whose computed delta is at most the one given: nested search."""
    if float(profile.delta(np.zeros(1))[0]) <= delta:
        return 0.0
    low, high = 0.0, min(profile.max_loss, _LARGEST)
    grid = np.append(np.geomspace(1e-24, 1.0, 1200) * high, high)
    while True:
        met = np.flatnonzero(profile.delta(grid) <= delta)
        if not met.size:
            return math.inf if profile.max_loss == math.inf else profile.max_loss
        first = int(met[0])
        low, high = (float(grid[first - 1]) if first else low), float(grid[first])
        grid = np.linspace(low, high, 65)[1:]
        if high - low <= 4 * ULP * high or not low < grid[0] < high:
            return high


def _root(bound: Callable[[float], float], saddle: Saddle, log_delta: float, start: float, *, upper: bool) -> float:
    """Solve bound(epsilon) = delta; the result is on the safe side: bound <= delta there if ``upper``, else >=.

    The bound is about exponential with rate -tilt, so the secant method in log delta, started so, takes few steps; each
    goes a little too far, so that the root is enclosed. Only points where the bound was evaluated are returned.
    """

    def excess(epsilon: float) -> float:
        value = bound(epsilon)
        return (math.log(value) if value > 0 else -1e4) - log_delta

    if upper and excess(0.0) <= 0:
        return 0.0
    epsilon, rate = max(start, 1e-12 / saddle.tilt), saddle.tilt
    low, high = 0.0, math.inf  # where the bound was seen above and below delta
    before: tuple[float, float] | None = None
    hair = 1e-11
    for attempt in range(160):
        value = excess(epsilon)
        low, high = (epsilon, high) if value > 0 else (low, epsilon)
        if high < math.inf and high - low <= 1e-10 * high:
            break
        if before is not None and abs(epsilon - before[0]) > 1e-7 * epsilon:  # closer, rounding would decide
            rate = min(max((before[1] - value) / (epsilon - before[0]), rate / 8), rate * 8)
        before = (epsilon, value)
        following = epsilon + value / rate
        if abs(following - epsilon) <= 1e-8 * epsilon:
            following += math.copysign(hair * epsilon, value)
            hair *= 4
        stuck = high < math.inf and attempt % 3 == 2  # whatever the bound's shape, halve now and then
        if stuck or not low < following < high:
            following = 0.5 * (low + high) if high < math.inf else 2 * epsilon + 1 / rate
        epsilon = following
    return high if upper else low
