"""From pairs and a target to a certified epsilon or delta.

1. *Saddle point* (`saddle_point`): find the tilt c at which delta is decided, on a thousand unevenly spaced losses for
   each pair.
2. *Grid* (`grid`): choose the spacing that keeps the second-order error of epsilon below the requested accuracy, and a
   window that holds the tilted loss. Large losses are represented more coarsely, on the same lattice.
3. *Composition* (`composition`): compose on the lattice, with a certified bound on all errors.
4. *Root*: find the epsilon at which the certified bound meets delta.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hush.accounting.losses.composition import Indices, LatticePart, spectrum
from hush.accounting.losses.grid import MAX_POINTS, TAIL, LossGrid, choose_grid
from hush.accounting.losses.lattice import Atoms, dominated, dominating, rounded_down
from hush.accounting.losses.profile import ULP, Array, DominatingPair, Profile
from hush.accounting.losses.saddle_point import CumulantFunction, Part, Saddle, find_saddle

DEFAULT_ACCURACY = 2e-6  # relative, of epsilon
_ROUGH = 1e-3  # accuracy of the first stage
_NARROW = 1e-3  # a certified interval of this relative width needs no second lower bound
_MAX_STAGES = 4
_LARGEST_EPSILON = 1e15


@dataclass(frozen=True, slots=True)
class _Solution:
    """An epsilon, with the saddle point and the grid that gave it."""

    epsilon: float
    saddle: Saddle
    grid: LossGrid


class ComposedLoss:
    """The privacy loss of independent pairs, each composed some number of times, with certified bounds.

    Args:
        parts: Pairs and how often each is composed.
    """

    def __init__(self, parts: Iterable[Part]) -> None:
        merged: dict[DominatingPair, int] = {}
        log_certain = 0.0
        for pair, count in parts:
            if pair.forward.max_loss == 0 == pair.backward.max_loss:
                log_certain += count * math.log1p(-pair.forward.failure)  # its loss is either 0 or infinite
            elif _distinguishable(pair):
                merged[pair] = merged.get(pair, 0) + count
        self._parts = list(merged.items())
        self._num_steps = sum(merged.values())
        self._failure = -math.expm1(log_certain)
        self.max_loss = sum(count * pair.forward.max_loss for pair, count in self._parts)
        self._unbounded = -math.expm1(sum(count * math.log1p(-pair.forward.failure) for pair, count in self._parts))

    def epsilon_upper(self, delta: float, accuracy: float = DEFAULT_ACCURACY) -> float:
        """Return an epsilon at which the true delta is proven to be at most ``delta``."""
        rest = self._rest(delta, up=False)
        simple = self._simple_epsilon(rest)
        return simple[1] if simple is not None else min(self._solve(rest, accuracy).epsilon, self.max_loss)

    def epsilon_interval(self, delta: float, accuracy: float = DEFAULT_ACCURACY) -> tuple[float, float]:
        """Return (lower, upper): bounds on the epsilon at which the true delta is ``delta``."""
        rest = self._rest(delta, up=False)
        simple = self._simple_epsilon(rest)
        if simple is not None:
            return simple
        solution = self._solve(rest, accuracy)
        if solution.epsilon == 0:
            return 0.0, 0.0
        upper = min(solution.epsilon, self.max_loss)
        log_delta = math.log(self._rest(delta, up=True))
        lower, start = 0.0, upper if upper < math.inf else solution.saddle.epsilon
        for placement in (_below, _rounded_down):
            bound, _ = self._compose(solution.grid, placement)
            lower = max(lower, min(_root(bound, solution.saddle, log_delta, start, upper=False), upper))
            if upper - lower <= _NARROW * upper:
                break
        return lower, upper

    def _rest(self, delta: float, *, up: bool) -> float:
        """Return the part of delta that remains after subtracting failures, rounded up or down; -1 if none does."""
        if self._failure == 0 or delta < self._failure:
            return delta if self._failure == 0 else -1.0
        slack = 8 * ULP * (1 if up else -1)
        return min(max((delta - self._failure) / (1 - self._failure) * (1 + slack) + slack * delta, 0.0), 1.0)

    def _simple_epsilon(self, delta: float) -> tuple[float, float] | None:
        """Return (lower, upper) for the cases that need no composition, or None."""
        if delta < 0:
            return math.inf, math.inf
        if not self._parts:
            return 0.0, 0.0
        if delta <= self._unbounded * (1 + 8 * ULP):
            # The failure probability of a single step is known exactly; that of several was rounded.
            known = self._parts[0][0].forward.failure if self._num_steps == 1 else 0.0
            epsilon = self.max_loss if delta == known and (known > 0 or self._unbounded == 0) else math.inf
            return epsilon, epsilon
        if self._num_steps == 1:
            profile = self._parts[0][0].forward
            margin = 4 * profile.relative_error
            lower = min(_invert(profile, delta / (1 - margin)), _LARGEST_EPSILON)  # beyond it, only this is known
            return max(0.0, lower * (1 - 1e-12)), _invert(profile, delta / (1 + margin))
        return None

    def delta_upper(self, epsilon: float, accuracy: float = DEFAULT_ACCURACY) -> float:
        """Return an upper bound on delta at epsilon >= 0."""
        return self._failure + (1 - self._failure) * self._delta(epsilon, accuracy, lower=False)

    def delta_lower(self, epsilon: float, accuracy: float = DEFAULT_ACCURACY) -> float:
        """Return a lower bound on delta at epsilon >= 0."""
        return self._failure + (1 - self._failure) * self._delta(epsilon, accuracy, lower=True)

    def _delta(self, epsilon: float, accuracy: float, *, lower: bool) -> float:
        """Return a bound on delta, without the parts that fail or cost nothing."""
        if not self._parts or epsilon >= self.max_loss:
            return self._unbounded
        if epsilon > _LARGEST_EPSILON:
            return self._unbounded if lower else self._delta(_LARGEST_EPSILON, accuracy, lower=False)
        if self._num_steps == 1:
            profile = self._parts[0][0].forward
            error = 4 * profile.relative_error
            return min(1.0, float(profile.delta(np.array([epsilon]))[0]) * (1 - error if lower else 1 + error))
        # How much of the tails to represent depends on delta, which a first saddle point estimates.
        first = find_saddle(CumulantFunction.of(self._parts, self._tail(math.log(1e-12))), epsilon=epsilon)
        tail = self._tail(first.log_delta)
        moments = CumulantFunction.of(self._parts, tail)
        saddle = find_saddle(moments, epsilon=epsilon)
        log_delta, scale = max(saddle.log_delta, -650.0), 1 / saddle.tilt
        accuracy = max(accuracy, 1e-4) if log_delta < math.log(1e-20) else accuracy  # enough for such a small delta
        grid = choose_grid(self._parts, moments, saddle, log_delta, tail, accuracy, scale)
        placements = (_below, _rounded_down) if lower else (_above,)
        bounds = [self._compose(grid, placement)[0] for placement in placements]
        return min(1.0, max(*(bound(epsilon) for bound in bounds), self._unbounded))

    def _solve(self, delta: float, accuracy: float) -> _Solution:
        """Return an upper bound on epsilon: first a rough one, then a precise one near it, refined until it is stable.

        The grid follows from a model of its error. If two grids differ by more than the model says, the model is off by
        that factor, and the next grid corrects for it.
        """
        log_delta = math.log(delta)
        tail = self._tail(log_delta)
        moments = CumulantFunction.of(self._parts, tail)
        saddle = find_saddle(moments, log_delta=log_delta)
        if not saddle.epsilon > 0:
            saddle = find_saddle(moments, epsilon=0.0)
        stage = last = max(_ROUGH, accuracy)
        before: _Solution | None = None
        for _ in range(_MAX_STAGES):
            # The accuracy is relative to epsilon. As delta falls like e^(-c eps), 0.01 / c is always precise enough.
            scale = max(abs(saddle.epsilon), 0.01 / saddle.tilt)
            grid = choose_grid(self._parts, moments, saddle, log_delta, tail, stage, scale)
            bound, grid = self._compose(grid, _above)
            solution = _Solution(_root(bound, saddle, log_delta, saddle.epsilon, upper=True), saddle, grid)
            if solution.epsilon == 0 or grid.exact:
                return solution
            finer = accuracy
            if before is not None:
                model_error = abs(before.epsilon - solution.epsilon) / (last * solution.epsilon)
                if not model_error > 5 or grid.spacing > 0.7 * before.grid.spacing:
                    return solution
                finer = stage / min(model_error, 1e4)
            elif stage <= accuracy:
                return solution
            last, stage, before = stage, finer, solution
            if math.isfinite(solution.epsilon):
                saddle = find_saddle(moments, epsilon=solution.epsilon)
        return solution

    def _tail(self, log_delta: float) -> float:
        """Return the probability of each step's loss that may be truncated."""
        return max(TAIL * math.exp(max(log_delta, -650.0)) / self._num_steps, 1e-300)

    def _compose(self, grid: LossGrid, placement: _Placement) -> tuple[Callable[[float], float], LossGrid]:
        """Return a function that bounds delta at an epsilon, and the grid, which is coarser if memory required it."""
        while True:
            placed = [placement(pair, count, grid) for pair, count in self._parts]
            lattice = [part for part in placed if part is not None and part.atoms.masses.any()]
            if len(lattice) < len(placed):
                return (lambda epsilon: 0.0), grid  # from below only: 0 is the best known bound
            composed = spectrum(lattice, grid.spacing, grid.tilt, grid.num_points, MAX_POINTS)
            if composed is not None:
                break
            grid = grid.coarser()
        final = composed
        if placement is _above:
            return lambda epsilon: final.delta_bounds(epsilon)[1], grid
        aliases = _alias_bound(lattice, grid)
        return lambda epsilon: max(final.delta_bounds(epsilon)[0] - aliases(epsilon), 0.0), grid


def _distinguishable(pair: DominatingPair) -> bool:
    return float(pair.forward.delta(np.zeros(1))[0]) > 0


# Represents a pair on the grid, from above or from below; None if there is no bound from below.
_Placement = Callable[[DominatingPair, int, LossGrid], LatticePart | None]


def _above(pair: DominatingPair, count: int, grid: LossGrid) -> LatticePart | None:
    """Return the dominating pair on the grid."""
    indices, losses, gaps = _points(grid, grid.indices(pair, count), 0.0)
    return LatticePart(dominating(pair, losses, gaps), indices, count)


def _below(pair: DominatingPair, count: int, grid: LossGrid) -> LatticePart | None:
    """Return the best dominated pair on the grid."""
    # From below, losses between two points are rounded down. If sampling is rare, almost all of the probability is next
    # to the smallest loss, which then should be a lattice point. Of several lower bounds, take the one with the largest
    # moment.
    candidates = []
    for offset, complete in itertools.product({0.0, _smallest_loss(pair, grid)}, (False, True)):
        indices, losses, gaps = _points(grid, grid.indices(pair, count, offset, complete=complete), offset)
        candidates += [
            LatticePart(atoms, indices, count, offset) for atoms in dominated(pair, losses, gaps, straight=grid.exact)
        ]
    return max(candidates, key=lambda part: _log_moment(part.atoms, grid.tilt), default=None)


def _rounded_down(pair: DominatingPair, count: int, grid: LossGrid) -> LatticePart | None:
    """Return the loss rounded down to the grid."""
    offset = _smallest_loss(pair, grid)
    indices, losses, gaps = _points(grid, grid.indices(pair, count, offset, complete=True), offset)
    return LatticePart(rounded_down(pair, losses, gaps), indices, count, offset)


def _smallest_loss(pair: DominatingPair, grid: LossGrid) -> float:
    """Return the smallest loss, or 0 if there is none or it is a lattice point anyway."""
    return 0.0 if grid.exact or not pair.backward.max_loss < math.inf else -pair.backward.max_loss


def _points(grid: LossGrid, indices: Indices, offset: float) -> tuple[Indices, Array, Array]:
    """Return the indices, the losses and the gaps between them."""
    losses, gaps = (steps.astype(float) * grid.spacing for steps in (indices, np.diff(indices)))
    return indices, losses + offset, gaps


def _alias_bound(lattice: Sequence[LatticePart], grid: LossGrid) -> Callable[[float], float]:
    """Return a bound on what wrap-around adds: the sum over l != 0 of e^(c l L) delta(eps + l L).

    On the left delta <= 1. On the right the Chernoff bound holds: delta(eps) <= e^(K(c') - c' eps) for any c' > c.
    """
    length = grid.num_points * grid.spacing
    left = 1 / math.expm1(min(grid.tilt * length, 700.0))
    tilts = grid.tilt + np.geomspace(2.0, 400.0, 10) / length
    cumulants = [sum(part.count * _log_moment(part.atoms, tilt) for part in lattice) for tilt in tilts]
    largest = sum(part.count * float(part.atoms.losses[-1]) for part in lattice)

    def bound(epsilon: float) -> float:
        if epsilon + length >= largest * (1 + 8 * ULP):
            return left  # no loss is that large
        right = min(
            cumulant - tilt * epsilon - math.log(math.expm1((tilt - grid.tilt) * length))
            for tilt, cumulant in zip(tilts, cumulants, strict=True)
        )
        return left + math.exp(min(right, 700.0))

    return bound


def _log_moment(atoms: Atoms, tilt: float) -> float:
    """Return log E[e^(c Y)], without overflow."""
    exponents = tilt * atoms.losses
    peak = float(exponents.max())
    return peak + math.log(float(np.dot(atoms.masses, np.exp(exponents - peak))) + 1e-300)


def _invert(profile: Profile, delta: float) -> float:
    """Return the smallest epsilon, up to rounding, whose computed delta is at most ``delta``, by a nested search."""
    if float(profile.delta(np.zeros(1))[0]) <= delta:
        return 0.0
    low, high = 0.0, min(profile.max_loss, _LARGEST_EPSILON)
    grid = np.append(np.geomspace(1e-24, 1.0, 1200) * high, high)
    while True:
        fitting = np.flatnonzero(profile.delta(grid) <= delta)
        if not fitting.size:
            return math.inf if profile.max_loss == math.inf else profile.max_loss
        first = int(fitting[0])
        low, high = (float(grid[first - 1]) if first else low), float(grid[first])
        grid = np.linspace(low, high, 65)[1:]
        if high - low <= 4 * ULP * high or not low < grid[0] < high:
            return high


def _root(bound: Callable[[float], float], saddle: Saddle, log_delta: float, start: float, *, upper: bool) -> float:
    """Solve bound(epsilon) = delta on the safe side: where bound <= delta if ``upper``, else where bound >= delta.

    The bound falls about exponentially with rate ``tilt``, so the secant method in log delta takes few steps. Each step
    goes slightly too far, which encloses the root. Only points where the bound was evaluated are returned.
    """

    def excess(epsilon: float) -> float:
        value = bound(epsilon)
        return (math.log(value) if value > 0 else -1e4) - log_delta

    if upper and excess(0.0) <= 0:
        return 0.0
    epsilon, rate = max(start, 1e-12 / saddle.tilt), saddle.tilt
    low, high = 0.0, math.inf  # the bound is above delta at the first and below it at the second
    before: tuple[float, float] | None = None
    overstep = 1e-11
    for attempt in range(160):
        value = excess(epsilon)
        low, high = (epsilon, high) if value > 0 else (low, epsilon)
        if high < math.inf and high - low <= 1e-10 * high:
            break
        if before is not None and abs(epsilon - before[0]) > 1e-7 * epsilon:  # closer points differ by rounding only
            rate = min(max((before[1] - value) / (epsilon - before[0]), rate / 8), rate * 8)
        before = (epsilon, value)
        following = epsilon + value / rate
        if abs(following - epsilon) <= 1e-8 * epsilon:
            following += math.copysign(overstep * epsilon, value)
            overstep *= 4
        # Bisect every third time, whatever the bound's shape. A lower bound can vanish far from its root, where
        # wrap-around is subtracted from it; so it is bisected only after it was seen above delta.
        stuck = high < math.inf and attempt % 3 == 2 and (upper or low > 0)
        if stuck or not low < following < high:
            following = 0.5 * (low + high) if high < math.inf else 2 * epsilon + 1 / rate
        epsilon = following
    return high if upper else low
