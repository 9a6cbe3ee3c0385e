"""Privacy losses on a lattice, from above and from below.

*From above.* Joining points of a profile by straight lines (in ``x = e^epsilon``) gives the profile of a pair whose
losses are exactly these points. A profile is convex, so this pair dominates (Doroshenko et al. 2022, "connect the
dots"). The error is of second order in the spacing.

*From below.* The same values give a pair that is *dominated*: lower every point by at least the largest overshoot of
its chords, and take the convex hull. `rounded_down` is a second one, with a first-order error, for sharply bent curves.

*Masses.* For losses ``y_j`` and curve values ``f_j``, with ``d_j = f_{j+1} - f_j``, the probability of ``y_j`` under P
is ``d_j / (e^(y_{j+1} - y_j) - 1) + d_{j-1} / (e^(y_{j-1} - y_j) - 1)``: the change of slope at the corner times x.
For y < 0 the curve is stored without its asymptote 1 - x, so that both tails keep their relative accuracy.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hush.accounting.losses.profile import ULP, Array, DominatingPair, Profile

_SEARCH = np.geomspace(1e-12, 1e15, 1351)  # twenty-seven decades, fifty points each
_HULL_ROUNDS = 6  # of the fast method, before the slow one takes over


@dataclass(frozen=True, slots=True)
class Atoms:
    """A discrete privacy loss.

    Attributes:
        losses: The losses y_j, increasing.
        gaps: Their differences, stored because subtracting rounded losses would be inaccurate.
        masses: The probability of each loss under P.
        mass_noise: A bound on the rounding error of each mass.
        infinite: The probability of an infinite loss.
        curve: The values of the curve at the losses.
        curve_error: A bound on the relative error of these values.
    """

    losses: Array
    gaps: Array
    masses: Array
    mass_noise: Array
    infinite: float
    curve: Array
    curve_error: float


@lru_cache(maxsize=1024)
def loss_range(pair: DominatingPair, tail: float) -> tuple[float, float]:
    """Return losses (low, high) outside of which the curve's two tails are at most ``tail``, or end."""
    return -_tail_start(pair.backward, tail), _tail_start(pair.forward, tail)


def _tail_start(profile: Profile, tail: float) -> float:
    """Return an epsilon from which on the profile is within ``tail`` of its constant."""
    grid = _SEARCH[profile.max_loss > _SEARCH]
    below = np.flatnonzero(profile.delta(grid) <= profile.failure + tail)
    return float(grid[below[0]]) if below.size else min(profile.max_loss, float(_SEARCH[-1]))


def curve_values(pair: DominatingPair, losses: Array) -> Array:
    """Return the curve at sorted losses: delta for y >= 0, and delta - (1 - e^y) for y < 0."""
    split = int(np.searchsorted(losses, 0.0))
    left = np.exp(losses[:split]) * pair.backward.delta(-losses[:split])
    return np.concatenate([left, pair.forward.delta(losses[split:])])


def dominating(pair: DominatingPair, losses: Array, gaps: Array) -> Atoms:
    """Return the pair whose profile joins the points of ``pair``'s profile at these losses. It dominates."""
    curve = curve_values(pair, losses)
    masses, noise = corner_masses(losses, gaps, curve)
    error = max(pair.forward.relative_error, pair.backward.relative_error)
    return Atoms(losses, gaps, masses, noise, float(curve[-1]), curve, error)


def corner_masses(losses: Array, gaps: Array, curve: Array) -> tuple[Array, Array]:
    """Return e^y times the change of slope at each corner, and a bound on the rounding error of each.

    The curve continues straight to the origin on the left, and flat on the right.
    """
    crosses = (losses[:-1] < 0) & (losses[1:] > 0)  # the cell around 0, if 0 is not among the points
    rises = np.diff(curve)
    end = int(np.searchsorted(losses, 0.0))
    if crosses.any():
        end -= 1
        rises[end] += math.expm1(losses[end])
    with np.errstate(over="ignore"):  # across a gap of more than 700 nothing is left
        up, down = rises / np.expm1(gaps), rises / np.expm1(-gaps)
    masses = np.append(up, 0.0)
    masses[1:] += down
    masses[0] -= curve[0]  # the chord from the origin, where the stored curve is 0
    # Left of 0 the asymptote 1 - x was subtracted. Its change of slope, from -1 to 0, belongs to where it ends.
    masses[end] += math.exp(losses[end])
    noise = np.append(np.abs(up), 0.0)
    noise[1:] += np.abs(down)
    noise[end] += 1.0
    return masses, noise * (4 * ULP)


def dominated(pair: DominatingPair, losses: Array, gaps: Array, *, straight: bool = False) -> list[Atoms]:
    """Return pairs on the same losses whose profiles are nowhere above ``pair``'s. Neither is best in all cases.

    Args:
        pair: The pair to bound from below.
        losses: The lattice points.
        gaps: Their differences.
        straight: Whether the curve has corners at these losses only, so that chords do not overshoot.
    """
    upper = dominating(pair, losses, gaps)
    floor = upper.curve * (1 - 4 * upper.curve_error)
    lowered = floor if straight else floor - _overshoot(upper)
    right = int(np.searchsorted(losses, 0.0))
    left = int(np.searchsorted(losses, 0.0, side="right"))
    ends_right = bool(losses[-1] >= pair.forward.max_loss * (1 - 4 * ULP))  # the curve is flat from here on
    ends_left = bool(-losses[0] >= pair.backward.max_loss * (1 - 4 * ULP))  # the curve is straight to the origin
    falling = _shift_tail(lowered[right:], floor[right:], floor[-1] if ends_right else 0.0, complete=ends_right)
    rising = [
        _shift_tail(lowered[:left][::-1], floor[:left][::-1], 0.0, complete=ends_left)[::-1],
        lowered[:left].copy(),
    ]
    # A value below 0 on the left is allowed: it stands for a Q with a total probability slightly above 1, and
    # composition is monotone in the curve whatever the masses add up to. If the curve is not straight to the origin,
    # the value must be <= 0.
    rising[1][0] = rising[1][0] if ends_left else min(rising[1][0], 0.0)
    bounds = []
    for start in rising:
        if right < left:  # there is a point at 0, where the two sides meet
            curve = np.concatenate([start[:-1], [min(start[-1], falling[0])], falling[1:]])
        elif start[-1] > lowered[left - 1] or falling[0] > lowered[right]:
            continue  # both ends of the cell around 0 must be lowered by the overshoot, not shifted
        else:
            curve = np.concatenate([start, falling])
        masses, noise = _hull_masses(losses, gaps, curve)
        bounds.append(Atoms(losses, gaps, masses, noise, float(curve[-1]), curve, 0.0))
    return bounds


def rounded_down(pair: DominatingPair, losses: Array, gaps: Array) -> Atoms:
    """Return a loss on the same points that is stochastically smaller than that of ``pair``.

    The line through the points j and j + 1 meets the axis x = 0 at the mass that `dominating` puts above j. The curve
    is convex, so the tangent at j meets it no lower, namely at P(Y > y_j). So the mass that `dominating` puts on a
    point can be moved to the preceding point. The error is of first order in the spacing, but small where the curve
    bends sharply.
    """
    upper = dominating(pair, losses, gaps)
    errors = upper.curve_error * np.abs(upper.curve)
    with np.errstate(over="ignore"):
        up, down = 1 / np.expm1(gaps), -1 / np.expm1(-gaps)
    noise = upper.mass_noise + errors * (np.append(up, 0.0) + np.append(1.0, down))
    noise[:-1] += errors[1:] * up
    noise[1:] += errors[:-1] * down
    masses, noise = (np.append(row[1:], end) for row, end in ((upper.masses, upper.infinite), (noise, errors[-1])))
    if -losses[0] >= pair.backward.max_loss * (1 - 4 * ULP):  # there are no losses further left
        masses[0], noise[0] = masses[0] + upper.masses[0], noise[0] + upper.mass_noise[0] + errors[0]
    return Atoms(losses, gaps, np.maximum(masses, 0.0), noise + np.maximum(-masses, 0.0), 0.0, upper.curve, 0.0)


def _overshoot(upper: Atoms) -> Array:
    """Return, at each point, a bound on how far the chords on either side can be above the curve.

    In a cell the curve is above the extensions of the two neighbouring chords. With slope changes A and B at the cell's
    ends and the width D, these extensions meet ``A B D / (A + B)`` below the chord. The curve is also monotone, so no
    chord is further above it than the curve changes across the cell (except in the cell around 0, where the stored
    curve changes its meaning).
    """
    masses = np.maximum(upper.masses, 0.0) + upper.mass_noise
    first, second = masses[:-1], masses[1:] * np.exp(-upper.gaps)
    total = first + second
    with np.errstate(over="ignore"):
        height = np.divide(first * second, total, out=np.zeros_like(total), where=total > 0) * np.expm1(upper.gaps)
    crosses = (upper.losses[:-1] < 0) & (upper.losses[1:] > 0)
    height = np.where(crosses, height, np.minimum(height, np.abs(np.diff(upper.curve))))
    bound = np.append(height, 0.0)
    bound[1:] = np.maximum(bound[1:], height)
    return bound


def _shift_tail(lowered: Array, floor: Array, beyond: float, *, complete: bool) -> Array:
    """Replace values in the tail, where lowering would go below 0, by the value of the next point outwards.

    The curve is monotone, so it lies above that value. In every cell of the tail both ends are then at most the curve's
    value at the cell's outer end. Before the tail, both ends are lowered by the overshoot.

    Args:
        lowered: The curve, lowered by the overshoot, at points that run outwards from 0.
        floor: The curve itself, reduced by its error.
        beyond: The value that the curve falls to after the last point.
        complete: Whether the curve ends at the last point. If not, the last point belongs to the tail.
    """
    negative = lowered < 0
    if complete and not negative.any():
        return lowered
    following = np.append(floor[1:], beyond)
    start = int(np.argmax(negative)) if negative.any() else len(lowered) - 1
    result = lowered.copy()
    result[start:] = following[start:]
    if start > 0:
        result[start - 1] = min(lowered[start - 1], floor[start])
    return result


def _hull_masses(losses: Array, gaps: Array, curve: Array) -> tuple[Array, Array]:
    """Return the corner masses of the lower convex hull of the points, and bounds on their rounding errors."""
    keep = np.arange(len(losses))
    distances = np.append(0.0, np.cumsum(gaps))
    masses, noise = corner_masses(losses, gaps, curve)
    # A point above the chord of two others (one may be the origin) is not a corner of the hull; its mass is negative.
    # Usually whole stretches can be dropped at once. If not, a pass over the points settles all but the first.
    for attempt in itertools.count():
        if not (masses < 0).any() or (attempt > _HULL_ROUNDS and masses[0] >= 0):
            break
        if attempt < _HULL_ROUNDS:
            keep = keep[masses >= 0]
        elif attempt == _HULL_ROUNDS:
            keep = keep[_hull(losses[keep], curve[keep])]
        else:
            keep = keep[1:]
        masses, noise = corner_masses(losses[keep], np.diff(distances[keep]), curve[keep])
    full = np.zeros((2, len(curve)))
    full[:, keep] = np.maximum(masses, 0.0), noise + np.maximum(-masses, 0.0)
    return full[0], full[1]


def _hull(losses: Array, curve: Array) -> list[int]:
    """Return the indices of the hull's corners, by one pass over the points (Andrew's monotone chain)."""
    y, v = losses.tolist(), curve.tolist()
    corners: list[int] = []
    for last in range(len(y)):
        while len(corners) >= 2 and _corner_mass(y, v, corners[-2], corners[-1], last) < 0:
            corners.pop()
        corners.append(last)
    return corners


def _corner_mass(y: list[float], v: list[float], before: int, corner: int, after: int) -> float:
    """Return the mass that `corner_masses` gives a corner between two other points."""
    first, middle, last = y[before], y[corner], y[after]
    mass = math.exp(middle) if middle < 0 < last or first < 0 == middle else 0.0
    rise = v[corner] - v[before] + (math.expm1(first) if first < 0 < middle else 0.0)
    mass += rise / math.expm1(first - middle)
    rise = v[after] - v[corner] + (math.expm1(middle) if middle < 0 < last else 0.0)
    mass += rise / math.expm1(min(last - middle, 700.0))
    return mass
