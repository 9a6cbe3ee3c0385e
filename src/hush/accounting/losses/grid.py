"""The choice of a lattice: spacing, tilt and window, for a requested accuracy and within memory.

    tilt        c, near the saddle point, such that a short window holds the tilted loss
    window      the period L of the Fourier transform; mass outside it wraps around and counts as error
    spacing     h, such that the chords between lattice points raise epsilon by the accuracy
    reach       up to this many points from 0 every lattice point is used; farther out a relative resolution is enough

These choices affect how tight a bound is, never whether it is valid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.fft import next_fast_len

from hush.accounting.losses.composition import Indices
from hush.accounting.losses.lattice import loss_range
from hush.accounting.losses.profile import ULP, DominatingPair
from hush.accounting.losses.saddle_point import CountedPair, CumulantFunction, Saddle, bisect

MAX_POINTS = 1 << 20  # of an FFT
TAIL = 1e-9  # the share of delta that truncated tails may have
_FINEST = 1 << 24  # lattice points in a window, at most
_EXACT_POINTS = 1 << 17  # up to here a lattice of the corners is used even if it is finer than needed
_ALIAS = 1e-9  # the share of delta that wrap-around may have


@dataclass(frozen=True, slots=True)
class LossGrid:
    """The lattice for one problem.

    Attributes:
        spacing: The distance h of the lattice points.
        tilt: The tilt c.
        num_points: The number n of lattice points in a period.
        fine_reach: Within this many points of 0, every lattice point is used. Farther out, the relative resolution
            stays constant.
        tail: The probability of each loss that may be truncated on the right.
        exact: Whether every corner of every curve is a lattice point.
    """

    spacing: float
    tilt: float
    num_points: int
    fine_reach: int
    tail: float
    exact: bool

    def coarser(self) -> LossGrid:
        """Return a coarser grid for the same window, which fits into memory."""
        factor = 1.001 * self.num_points / MAX_POINTS
        points = int(next_fast_len(math.ceil(self.num_points / factor) - 8, real=True))
        return replace(self, spacing=self.spacing * factor, num_points=min(points, MAX_POINTS), exact=False)

    def indices(self, pair: DominatingPair, count: int, offset: float = 0.0, *, complete: bool = False) -> Indices:
        """Return the lattice points that represent a pair, counted from the offset.

        Args:
            pair: The pair.
            count: How often it is composed.
            offset: The loss of the point 0.
            complete: Whether to represent all losses, or only those that matter under the tilt.
        """
        low, high = loss_range(pair, self.tail) if complete else _useful_range(pair, count, self.tail, self.tilt)
        left = _spread_indices(max(math.ceil((offset - low) / self.spacing * (1 - 4 * ULP)), 0), self.fine_reach)
        right = _spread_indices(math.ceil((high - offset) / self.spacing * (1 - 4 * ULP)), self.fine_reach)
        return np.concatenate([-left[:0:-1], right])


def _spread_indices(last: int, fine_reach: int) -> Indices:
    """Return 0, 1, ..., fine_reach, then steps of 2 up to twice that, steps of 4 up to four times that, ..., last."""
    pieces = [np.arange(0, min(fine_reach, last))]
    start, step = fine_reach, 1
    while start < last:
        pieces.append(np.arange(start, min(2 * start, last), 2 * step))
        start, step = 2 * start, 2 * step
    return np.append(np.concatenate(pieces), last)


def _useful_range(pair: DominatingPair, count: int, tail: float, tilt: float) -> tuple[float, float]:
    """Return the range of losses to represent. Further left, the tilt makes the error of a chord negligible."""
    low, high = loss_range(pair, tail)
    return max(low, (math.log(TAIL) - math.log(count)) / tilt), high


def choose_spacing(moments: CumulantFunction, saddle: Saddle, scale: float, accuracy: float) -> tuple[float, float]:
    """Return the spacing at which chords raise epsilon by about ``accuracy * scale``, and the fine reach.

    A loss y in a cell [a, b] is split to the cell's ends, which adds (y - a)(b - y) to its second moment: h^2 / 6 on
    average if the loss spreads over many cells, and at most |y| h otherwise. delta grows by the factor
    e^(c (c + 1) / 2 times the added second moment).
    """
    weights = np.abs(moments.at(saddle.tilt)[3])
    magnitudes = np.abs(moments.losses)

    def added_moment(h: float) -> float:
        return float(moments.counts @ (weights * np.minimum(h * h / 6, magnitudes * h)).sum(axis=1))

    budget = 2 * accuracy * scale / (saddle.tilt + 1)
    largest = math.log(float(magnitudes.max()))
    # 80 % of the budget is for the spacing, 20 % for the coarser cells farther out.
    spacing = math.exp(bisect(lambda log_h: added_moment(math.exp(log_h)) - 0.8 * budget, largest - 30, largest, 0.05))
    # Cells of relative width 1 / m, with m = fine_reach / 2, add y^2 / (6 m^2).
    second_moment = float(moments.counts @ (weights * magnitudes**2).sum(axis=1))
    return spacing, 2 * math.sqrt(second_moment / (6 * 0.2 * budget))


def choose_tilt(moments: CumulantFunction, saddle: Saddle, log_delta: float, widest: float) -> tuple[float, float]:
    """Return the tilt c with the shortest window L for which wrap-around adds at most ``_ALIAS`` times delta, and L.

    From the left wrap-around adds at most e^(-c L). From the right it adds at most e^(K(c') - c' eps - (c' - c) L), for
    every c' > c. For a loss that is nearly Gaussian the saddle point's own tilt is best. If a few large losses decide
    delta, a smaller tilt is.

    Args:
        moments: The cumulants of the composed loss.
        saddle: The saddle point.
        log_delta: The log of the target delta.
        widest: The width of the whole range of the composed loss; no window needs to be wider.
    """
    target = -log_delta - math.log(_ALIAS)
    tilts = saddle.tilt * np.geomspace(0.02, 1.0, 18)
    steeper = np.concatenate([tilts[4:-1], saddle.tilt + np.geomspace(0.1, 30.0, 14) / saddle.spread])
    excess = moments.values(steeper) - steeper * saddle.epsilon + target
    with np.errstate(divide="ignore"):
        rights = np.where(steeper > tilts[:, None], excess / (steeper - tilts[:, None]), np.inf).min(axis=1)
    windows = np.maximum(target / tilts, np.minimum(rights, widest))
    # Rounding is relative to e^(K(c) - c eps). That may exceed delta by a factor of e^14, or more if it must.
    amplified = moments.values(tilts) - tilts * saddle.epsilon - log_delta
    windows = np.where(amplified <= max(14.0, float(amplified.min()) + 2.0), windows, np.inf)
    best = int(np.argmin(windows))
    return float(tilts[best]), float(windows[best])


def choose_grid(
    parts: Sequence[CountedPair],
    moments: CumulantFunction,
    saddle: Saddle,
    log_delta: float,
    tail: float,
    accuracy: float,
    scale: float,
) -> LossGrid:
    """Return the lattice for a problem.

    Args:
        parts: The pairs and their counts.
        moments: The cumulants of the composed loss.
        saddle: The saddle point.
        log_delta: The log of the target delta.
        tail: The probability of each loss that may be truncated.
        accuracy: The requested relative accuracy.
        scale: The epsilon to which the accuracy is relative.
    """
    widest = sum(count * float(np.ptp(row)) for row, (_, count) in zip(moments.losses, parts, strict=True))
    tilt, window = choose_tilt(moments, saddle, log_delta, widest)
    ranges = [_useful_range(pair, count, tail, tilt) for pair, count in parts]
    spacing, fine_reach = choose_spacing(moments, saddle, scale, accuracy)
    spacing = max(spacing, window / _FINEST)
    longest = max(window, *(high - low for low, high in ranges))
    period = _common_period(parts)
    # A lattice that contains all corners represents the curves exactly, even if it is coarser than requested.
    exact = period is not None and (period >= spacing or longest <= _EXACT_POINTS * period)
    if exact and period is not None and longest <= MAX_POINTS * period:
        # Slightly wider, so that rounding puts no corner to the left of its point. A tilt beyond the lattice's own
        # scale would only magnify the rounding errors on the right.
        spacing = period * (1 + 4 * ULP)
        tilt = min(tilt, 50 / spacing)
        window = max(window, (-log_delta - math.log(_ALIAS)) / tilt)
    else:
        exact = False
        if len(parts) == 1 and parts[0][0].forward is parts[0][0].backward and parts[0][0].forward.max_loss < math.inf:
            # A mechanism of bounded loss has atoms at both ends, so both are put on the lattice.
            spacing = parts[0][0].forward.max_loss / math.ceil(parts[0][0].forward.max_loss / spacing)
    points = next_fast_len(math.ceil(window / spacing) + 2, real=True)
    power = max(8, math.ceil(math.log2(max(fine_reach, 1.0))))
    return LossGrid(spacing, tilt, points, 1 << (40 if exact else min(power, 16)), tail, exact)


def _common_period(parts: Sequence[CountedPair]) -> float | None:
    """Return the period of all profiles, if they have the same one."""
    periods = {profile.period for pair, _ in parts for profile in (pair.forward, pair.backward)}
    return periods.pop() if len(periods) == 1 else None
