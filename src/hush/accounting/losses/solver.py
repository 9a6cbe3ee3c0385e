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
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.fft import next_fast_len

from hush.accounting.losses.composition import Indices, LatticePart, spectrum
from hush.accounting.losses.failures import any_failure, float_down, float_up, split_failure, states_failure
from hush.accounting.losses.grid import MAX_POINTS, TAIL, LossGrid, choose_grid
from hush.accounting.losses.lattice import Atoms, dominated, dominating, rounded_down
from hush.accounting.losses.profile import ULP, Array, DominatingPair, Profile
from hush.accounting.losses.saddle_point import CountedPair, CumulantFunction, Saddle, find_saddle
from hush.accounting.losses.substitutes import spurious_failure

DEFAULT_ACCURACY = 2e-6  # relative, of epsilon
_ROUGH = 1e-3  # accuracy of the first stage
_NARROW = 1e-3  # a certified interval of this relative width needs no second lower bound
_MAX_STAGES = 4
_LARGEST_EPSILON = 1e15
_LARGER_DELTAS = (1e-30, 1e-28, 1e-25, 1e-20, 1e-15)  # whose lower bounds are tried where there is no close one


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

    def __init__(self, parts: Iterable[CountedPair]) -> None:
        merged: dict[DominatingPair, int] = {}
        failures: list[tuple[float, int]] = []
        for composed_pair, count in parts:
            failure, pair = split_failure(composed_pair)
            if failure > 0:
                failures.append((failure, count))
            if _distinguishable(pair):
                merged[pair] = merged.get(pair, 0) + count
        self._parts = list(merged.items())
        self._num_steps = sum(merged.values())
        self._least_failure, self._most_failure = any_failure(failures)
        self.max_loss = sum(count * pair.forward.max_loss for pair, count in self._parts)
        self._spurious = spurious_failure(self._parts)
        self._unbounded = -math.expm1(sum(count * math.log1p(-pair.forward.failure) for pair, count in self._parts))

    def epsilon_upper(self, delta: float, accuracy: float = DEFAULT_ACCURACY) -> float:
        """Return an epsilon at which the true delta is proven to be at most ``delta``."""
        rest, most = self._rest(delta)
        simple = self._simple_epsilon(rest, most)
        return simple[1] if simple is not None else min(self._solve(rest, accuracy).epsilon, self.max_loss)

    def epsilon_interval(self, delta: float, accuracy: float = DEFAULT_ACCURACY) -> tuple[float, float]:
        """Return (lower, upper): bounds on the epsilon at which the true delta is ``delta``."""
        lower, upper = self._epsilon_interval(delta, accuracy)
        # Epsilon falls with delta. Next to delta = 0, rounding errors leave more of a lower bound at a larger delta.
        for larger in () if _close(lower, upper) else _LARGER_DELTAS:
            if larger > delta:
                bounds = self._epsilon_interval(larger, accuracy)
                lower = max(lower, min(bounds[0], upper))
                if _close(*bounds):
                    break
        return lower, upper

    def _epsilon_interval(self, delta: float, accuracy: float) -> tuple[float, float]:
        rest, most = self._rest(delta)
        # Without the losses that only the approximation makes infinite, delta is smaller by as much, or less.
        most += 2 * self._spurious if most >= 0 else 0.0
        simple = self._simple_epsilon(rest, most)
        if simple is not None:
            return simple
        # From here on: several parts, and a delta between the failures and 1.
        solution = self._solve(rest, accuracy)
        if solution.epsilon == 0:
            return 0.0, 0.0
        upper = min(solution.epsilon, self.max_loss)
        log_delta = math.log(most)
        lower, start = 0.0, upper if upper < math.inf else solution.saddle.epsilon
        for placement in (_below, _rounded_down):
            bound, _ = self._compose(solution.grid, placement)
            lower = max(lower, min(_root(bound, solution.saddle, log_delta, start, upper=False), upper))
            if upper - lower <= _NARROW * upper:
                return lower, upper
        # Lattices round small losses down to 0. Where delta is next to nothing, that can be all there is.
        return max(lower, min(self._joint_lower(most), upper)), upper

    def _joint_lower(self, delta: float) -> float:
        """Return an epsilon whose true delta is at least ``delta``, without a lattice.

        For any e_i with sum s, delta(eps) >= P(every loss exceeds its e_i) (1 - e^(eps - s)), as the loss is then above
        s; and P(loss_i > e_i) >= delta_i(e_i). With delta_i(e_i) = t for n losses, and t^n = K delta, the epsilon that
        gives delta is s + log(1 - 1 / K). Post-processing to one of the losses is the case n = 1 without the factor.
        """
        best = max(_certain_loss(pair.forward, math.log(delta)) for pair, _ in self._parts)
        for log_factor in np.geomspace(1e-2, 40.0, 24):  # log K
            log_level = (math.log(delta) + log_factor) / self._num_steps
            losses = [(_certain_loss(pair.forward, log_level), count) for pair, count in self._parts]
            # A loss of 0 may not be exceeded with this probability.
            if log_level < 0 and all(loss > 0 for loss, _ in losses):
                total = sum(count * loss for loss, count in losses)
                best = max(best, (total + math.log(-math.expm1(-log_factor))) * (1 - 1e-12) - 1e-15)
        return best

    def _rest(self, delta: float) -> tuple[float, float]:
        """Return bounds (lower, upper) on the delta that remains to the parts if none fails; -1 if none remains.

        It solves delta = f + (1 - f) rest for the rest, in exact arithmetic: where almost all of delta pays for the
        failures, the difference of two floats would be rounding error only.
        """
        if self._most_failure == 0:
            return delta, delta
        low, high = (
            (Fraction(delta) - failure) / (1 - failure) if failure < 1 else Fraction(-1)
            for failure in (self._most_failure, self._least_failure)
        )
        return float_down(low) if low >= 0 else -1.0, float_up(high) if high >= 0 else -1.0

    def _simple_epsilon(self, delta: float, most: float) -> tuple[float, float] | None:
        """Return (lower, upper) for the cases that need no composition, or None.

        Args:
            delta: The delta for the upper bound.
            most: The delta for the lower bound, which is at least as large.
        """
        if delta < 0:
            return 0.0 if most >= 0 else math.inf, math.inf
        if not self._parts:
            return 0.0, 0.0
        if delta <= self._unbounded * (1 + 8 * ULP):
            epsilon = self.max_loss if self._fails_within(delta) else math.inf
            return epsilon if most == delta else 0.0, epsilon
        if self._num_steps == 1:
            profile = self._parts[0][0].forward
            # delta is known up to this, so epsilon is solved for a delta that is smaller (upper) or larger (lower) by
            # it.
            margin = 4 * profile.relative_error
            lower = min(_invert(profile, most / (1 - margin)), _LARGEST_EPSILON)  # beyond it, only this is known
            return max(0.0, lower * (1 - 1e-12)), _invert(profile, delta / (1 + margin))
        return None

    def _fails_within(self, delta: float) -> bool:
        """Return whether the loss is proven to be infinite with probability at most ``delta``."""
        if self._num_steps > 1:  # the product of several probabilities was rounded
            return delta == self._unbounded == 0
        profile = self._parts[0][0].forward
        return delta == profile.failure or (delta > profile.failure and states_failure(profile))

    def is_truncated(self, delta: float) -> bool:
        """Return whether losses that only the approximation makes infinite take a share of ``delta`` that counts."""
        return self._spurious > TAIL * delta

    def profile_upper(self, delta: float, accuracy: float) -> tuple[float, Callable[[float], float]]:
        """Return an epsilon at which delta is at most ``delta``, and a function that bounds delta from 0 on.

        All values of the function come from one grid. It is wider than one for a single epsilon, and its tilt smaller,
        so that neither wrap-around nor rounding matters.
        """
        rest, _ = self._rest(delta)
        if not self._unbounded < rest:
            return math.inf, lambda _: 1.0
        solution = self._solve(rest, accuracy)
        points = next_fast_len(math.ceil(3 * solution.epsilon / solution.grid.spacing) + 2, real=True)
        grid = replace(
            solution.grid, tilt=solution.grid.tilt / 2, num_points=max(solution.grid.num_points, int(points))
        )
        bound, _ = self._compose(grid, _above)
        failure = float_up(self._most_failure)
        return solution.epsilon, lambda epsilon: min(1.0, failure + max(bound(epsilon), self._unbounded))

    def delta_upper(self, epsilon: float, accuracy: float = DEFAULT_ACCURACY) -> float:
        """Return an upper bound on delta at epsilon >= 0."""
        rest, failure = self._delta(epsilon, accuracy, lower=False), self._most_failure
        return rest if failure == 0 else min(1.0, float_up(failure + (1 - failure) * Fraction(rest)))

    def delta_lower(self, epsilon: float, accuracy: float = DEFAULT_ACCURACY) -> float:
        """Return a lower bound on delta at epsilon >= 0."""
        rest, failure = self._delta(epsilon, accuracy, lower=True), self._least_failure
        rest = max(0.0, rest - 2 * self._spurious)
        return rest if failure == 0 else float_down(failure + (1 - failure) * Fraction(rest))

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
        return _solution(tuple(self._parts), delta, accuracy)

    def _solve_afresh(self, delta: float, accuracy: float) -> _Solution:
        """Return an upper bound on epsilon: first a rough one, then a precise one near it, refined until it is stable.

        The grid follows from a model of its error. If two grids differ by more than the model says, the model is off by
        that factor, and the next grid corrects for it.
        """
        log_delta = math.log(delta)
        # Truncated tails count as infinite losses. A billionth of delta costs far less of epsilon than the accuracy.
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


# A run's plan, its charge and its report ask for the same epsilons.
@lru_cache(maxsize=256)
def _solution(parts: tuple[CountedPair, ...], delta: float, accuracy: float) -> _Solution:
    return ComposedLoss(parts)._solve_afresh(delta, accuracy)


def _close(lower: float, upper: float) -> bool:
    return lower == upper or (upper < math.inf and upper - lower <= _NARROW * upper)


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


def _certain_loss(profile: Profile, log_delta: float) -> float:
    """Return an epsilon whose true delta is proven to be at least this."""
    delta = math.exp(log_delta) * (1 + 1e-12) / (1 - 4 * profile.relative_error)
    return max(0.0, min(_invert(profile, delta), _LARGEST_EPSILON) * (1 - 1e-12))


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
