"""The lattice for a problem: spacing, tilt and window, from a requested accuracy and within memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.fft import next_fast_len

from hush.accounting.losses.composition import Indices
from hush.accounting.losses.lattice import loss_range
from hush.accounting.losses.profile import ULP, DominatingPair
from hush.accounting.losses.saddle_point import CumulantFunction, Part, Saddle, bisect

MAX_POINTS = 1 << 20
TAIL = 1e-9
_FINEST = 1 << 24
_EXACT_POINTS = 1 << 17
_ALIAS = 1e-9


@dataclass(frozen=True, slots=True)
class LossGrid:
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

    def coarser(self) -> LossGrid:
        """Return a grid for the same window that fits into memory."""
        factor = 1.001 * self.num_points / MAX_POINTS
        points = int(next_fast_len(math.ceil(self.num_points / factor) - 8, real=True))
        return replace(self, spacing=self.spacing * factor, num_points=min(points, MAX_POINTS), exact=False)

    def indices(self, pair: DominatingPair, count: int, offset: float = 0.0, *, whole: bool = False) -> Indices:
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


def _useful_range(pair: DominatingPair, count: int, tail: float, tilt: float) -> tuple[float, float]:
    """Return the losses to represent: further left, the tilt leaves nothing that a chord to the origin would change."""
    low, high = loss_range(pair, tail)
    return max(low, (math.log(TAIL) - math.log(count)) / tilt), high


def choose_spacing(moments: CumulantFunction, saddle: Saddle, scale: float, accuracy: float) -> tuple[float, float]:
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


def choose_tilt(moments: CumulantFunction, saddle: Saddle, log_delta: float, whole: float) -> tuple[float, float]:
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
    moments: CumulantFunction,
    saddle: Saddle,
    log_delta: float,
    tail: float,
    accuracy: float,
    scale: float,
) -> LossGrid:
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
    if exact and period is not None and longest <= MAX_POINTS * period:
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
    return LossGrid(spacing, tilt, points, 1 << (40 if exact else min(power, 16)), tail, exact)


def _common_period(parts: Sequence[Part]) -> float | None:
    periods = {profile.period for pair, _ in parts for profile in (pair.forward, pair.backward)}
    return periods.pop() if len(periods) == 1 else None
