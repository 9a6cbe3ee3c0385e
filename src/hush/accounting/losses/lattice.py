"""Privacy loss on a lattice: pairs of distributions whose losses are multiples of one spacing.

Joining the points of a profile by straight lines (in ``x = e^epsilon``) gives the profile of a pair whose losses are
exactly the joined points, and, because a profile is convex, one that dominates (Doroshenko et al. 2022, "connect the
dots"). The error is of second order in the spacing. Here the same values also give a pair that is *dominated*: lower
every point by at least what a chord can overshoot, and take the convex hull.

For losses ``y_j`` and curve values ``f_j`` the probability under P of ``y_j`` is, with ``d_j = f_{j+1} - f_j``,
``a_j = d_j / (e^(y_{j+1} - y_j) - 1) + d_{j-1} / (e^(y_{j-1} - y_j) - 1)``, the change of slope at the corner times x.
For y < 0 the curve minus its asymptote 1 - x is what is stored, so that both tails keep their relative accuracy.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hush.accounting.losses.profile import ULP, Array, DominatingPair, Profile

_SEARCH = np.geomspace(1e-12, 1e15, 1351)  # twenty-seven decades, fifty points each
_HULL_ROUNDS = 6


@dataclass(frozen=True, slots=True)
class Atoms:
    """A discrete privacy loss.

    Attributes:
        losses: y_j, increasing, 0 among them.
        gaps: their differences: kept, because subtracting rounded losses would lose them.
        masses: P's probability of each loss, and ``mass_noise``, a bound on the rounding error of each.
        infinite: probability of a loss without bound.
        curve: values of the curve at the losses, of which the true ones differ by at most ``curve_error``, relatively.
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
    """Return (low, high) such that the curve's two tails, outside, are at most ``tail`` (or end there)."""
    return -_reach(pair.backward, tail), _reach(pair.forward, tail)


def _reach(profile: Profile, tail: float) -> float:
    grid = _SEARCH[profile.max_loss > _SEARCH]
    below = np.flatnonzero(profile.delta(grid) <= profile.failure + tail)
    return float(grid[below[0]]) if below.size else min(profile.max_loss, float(_SEARCH[-1]))


def curve_values(pair: DominatingPair, losses: Array) -> Array:
    """Evaluate the curve at sorted losses: delta for y >= 0, delta - (1 - e^y) for y < 0."""
    split = int(np.searchsorted(losses, 0.0))
    left = np.exp(losses[:split]) * pair.backward.delta(-losses[:split])
    return np.concatenate([left, pair.forward.delta(losses[split:])])


def dominating(pair: DominatingPair, losses: Array, gaps: Array) -> Atoms:
    """Return the pair whose profile joins the points of ``pair``'s at the given losses."""
    curve = curve_values(pair, losses)
    masses, noise = corner_masses(losses, gaps, curve)
    error = max(pair.forward.relative_error, pair.backward.relative_error)
    return Atoms(losses, gaps, masses, noise, float(curve[-1]), curve, error)


def corner_masses(losses: Array, gaps: Array, curve: Array) -> tuple[Array, Array]:
    """Return e^y times the change of slope at each corner, and a bound on each one's rounding error.

    The curve is joined to the origin on the left, and goes on flat on the right.
    """
    crosses = (losses[:-1] < 0) & (losses[1:] > 0)  # only where the corner at 0 is not among the points
    rises = np.diff(curve)
    end = int(np.searchsorted(losses, 0.0))
    if crosses.any():
        end -= 1
        rises[end] += math.expm1(losses[end])
    with np.errstate(over="ignore"):  # a gap beyond 700 leaves nothing to the right
        up, down = rises / np.expm1(gaps), rises / np.expm1(-gaps)
    masses = np.append(up, 0.0)
    masses[1:] += down
    masses[0] -= curve[0]  # the chord from the origin, where the stored curve is 0
    # Left of 0 the asymptote 1 - x was taken off: its change of slope, from -1 to 0, belongs where it ends.
    masses[end] += math.exp(losses[end])
    noise = np.append(np.abs(up), 0.0)
    noise[1:] += np.abs(down)
    noise[end] += 1.0
    return masses, noise * (4 * ULP)


def dominated(pair: DominatingPair, losses: Array, gaps: Array, *, straight: bool = False) -> list[Atoms]:
    """Return pairs on the same losses whose profiles are nowhere above that of ``pair``; which is best depends.

    ``straight`` says that the curve has its corners at these losses only, so that chords do not overshoot.
    """
    upper = dominating(pair, losses, gaps)
    floor = upper.curve * (1 - 4 * upper.curve_error)
    lowered = floor if straight else floor - _overshoot(upper)
    right = int(np.searchsorted(losses, 0.0))
    left = int(np.searchsorted(losses, 0.0, side="right"))
    whole_right = bool(losses[-1] >= pair.forward.max_loss * (1 - 4 * ULP))  # flat from here on
    whole_left = bool(-losses[0] >= pair.backward.max_loss * (1 - 4 * ULP))  # straight to the origin
    falling = _shift_tail(lowered[right:], floor[right:], floor[-1] if whole_right else 0.0, whole=whole_right)
    rising = [_shift_tail(lowered[:left][::-1], floor[:left][::-1], 0.0, whole=whole_left)[::-1], lowered[:left].copy()]
    # A value below 0 on the left is as good as any: it stands for a Q of slightly more than probability 1, and
    # composition is monotone in the curve whatever the masses add up to. Not straight to the origin, it must be <= 0.
    rising[1][0] = rising[1][0] if whole_left else min(rising[1][0], 0.0)
    found = []
    for start in rising:
        if right < left:  # there is a point at 0, where the two sides meet
            curve = np.concatenate([start[:-1], [min(start[-1], falling[0])], falling[1:]])
        elif start[-1] > lowered[left - 1] or falling[0] > lowered[right]:
            continue  # the cell around 0 needs both of its ends lowered by the overshoot, not shifted
        else:
            curve = np.concatenate([start, falling])
        masses, noise = _hull_masses(losses, gaps, curve)
        found.append(Atoms(losses, gaps, masses, noise, float(curve[-1]), curve, 0.0))
    return found


def rounded_down(pair: DominatingPair, losses: Array, gaps: Array) -> Atoms:
    """Return a loss on the same points that is stochastically smaller than that of ``pair``.

    The line through the points j and j + 1 meets the axis x = 0 at what `dominating` puts above j. The curve is convex,
    so the tangent at j meets it no lower, at P(Y > y_j): what `dominating` puts on a point may be moved to the one
    before it. The error is of first order in the spacing, but small where the curve bends sharply.
    """
    upper = dominating(pair, losses, gaps)
    errors = upper.curve_error * np.abs(upper.curve)
    with np.errstate(over="ignore"):
        up, down = 1 / np.expm1(gaps), -1 / np.expm1(-gaps)
    noise = upper.mass_noise + errors * (np.append(up, 0.0) + np.append(1.0, down))
    noise[:-1] += errors[1:] * up
    noise[1:] += errors[:-1] * down
    masses, noise = (np.append(row[1:], end) for row, end in ((upper.masses, upper.infinite), (noise, errors[-1])))
    if -losses[0] >= pair.backward.max_loss * (1 - 4 * ULP):  # there is nothing further left
        masses[0], noise[0] = masses[0] + upper.masses[0], noise[0] + upper.mass_noise[0] + errors[0]
    return Atoms(losses, gaps, np.maximum(masses, 0.0), noise + np.maximum(-masses, 0.0), 0.0, upper.curve, 0.0)


def _overshoot(upper: Atoms) -> Array:
    """Bound, at each point, how far the chords on either side can lie above the curve.

    In a cell the curve is above the two neighbouring chords, extended. With slope changes A and B at the cell's ends
    and width D these meet ``A B D / (A + B)`` below the chord. And it is monotone: no chord is further above it than
    it changes across the cell (but for the cell around 0, where the stored curve changes its meaning).
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


def _shift_tail(lowered: Array, floor: Array, beyond: float, *, whole: bool) -> Array:
    """From where lowering goes below 0, take the next point's value: the curve is monotone, so it lies above that.

    The points run outwards from 0, and the curve falls, to ``beyond``. In every cell from the returned tail's first
    point on, both ends are at or below the curve's value at the cell's outer end; before it, both ends are lowered by
    the overshoot. Unless the ``whole`` curve is there, its last point belongs to the tail.
    """
    negative = lowered < 0
    if whole and not negative.any():
        return lowered
    following = np.append(floor[1:], beyond)
    start = int(np.argmax(negative)) if negative.any() else len(lowered) - 1
    result = lowered.copy()
    result[start:] = following[start:]
    if start > 0:
        result[start - 1] = min(lowered[start - 1], floor[start])
    return result


def _hull_masses(losses: Array, gaps: Array, curve: Array) -> tuple[Array, Array]:
    """Return the corner masses, and their rounding errors, of the lower convex hull of the points."""
    keep = np.arange(len(losses))
    reach = np.append(0.0, np.cumsum(gaps))
    masses, noise = corner_masses(losses, gaps, curve)
    # A point above the chord of two others (one may be the origin) is no corner of the hull. As a rule whole stretches
    # go at once; where they do not, a pass over the points settles all but the first.
    for attempt in itertools.count():
        if not (masses < 0).any() or (attempt > _HULL_ROUNDS and masses[0] >= 0):
            break
        if attempt < _HULL_ROUNDS:
            keep = keep[masses >= 0]
        elif attempt == _HULL_ROUNDS:
            keep = keep[_hull(losses[keep], curve[keep])]
        else:
            keep = keep[1:]
        masses, noise = corner_masses(losses[keep], np.diff(reach[keep]), curve[keep])
    full = np.zeros((2, len(curve)))
    full[:, keep] = np.maximum(masses, 0.0), noise + np.maximum(-masses, 0.0)
    return full[0], full[1]


def _hull(losses: Array, curve: Array) -> list[int]:
    """Return the indices of the hull's corners, by one pass (Andrew's monotone chain)."""
    y, v = losses.tolist(), curve.tolist()
    kept: list[int] = []
    for last in range(len(y)):
        while len(kept) >= 2 and _corner_mass(y, v, kept[-2], kept[-1], last) < 0:
            kept.pop()
        kept.append(last)
    return kept


def _corner_mass(y: list[float], v: list[float], before: int, here: int, after: int) -> float:
    """Return what `corner_masses` would for a corner between two others."""
    mass = math.exp(y[here]) if y[here] < 0 < y[after] or y[before] < 0 == y[here] else 0.0
    for other in (before, after):
        low, high = sorted((here, other))
        rise = v[high] - v[low] + (math.expm1(y[low]) if y[low] < 0 < y[high] else 0.0)
        gap = min(y[other] - y[here], 700.0)
        mass += rise / math.expm1(gap)
    return mass
