"""The price of any loss in units of Gaussian noise: `smoothed_price`.

A Gaussian of ``mu^2 = m`` means N(sqrt(m), 1) against N(0, 1). Gaussians add up: ``Gaussian(r) (x) Gaussian(b)`` is
``Gaussian(r + b)``. Write H(x; e) for the profile of e, its hockey-stick divergence at ``e^x``, for every real x.

*Price.* With a reserve r and a rate s fixed in advance, the price of e is some b with

    H(x; e (x) Gaussian(r)) <= H(x; Gaussian(r + b)) + s b      for every real x.        (1)

The reserve rounds off the corners of a loss such as Laplace's, which no Gaussian of about the same variance dominates.
The term s b pays for tails that no Gaussian has.

*Why prices add up, whatever is chosen next.* For a total m, let ``v(x, m) = H(x; Gaussian(m)) + s m``. For m >= r + b,
convolving (1) with the loss of Gaussian(m - r - b), and adding s (m - b), gives

    E[v(x - L, m - b)] = H(x; e (x) Gaussian(m - b)) + s (m - b) <= v(x, m),            (2)

where L is the loss of e. So v bounds, by induction from the last release to the first, what any strategy attains that
picks each release in view of the earlier ones, as long as at least r is left after each release that is no Gaussian. A
Gaussian satisfies (1) with r = s = 0 at its own mu^2, and needs no reserve. At the end v(x, m) >= (1 - e^x)_+. In sum,
if H(epsilon; Gaussian(m)) + s m <= delta, all releases together are (epsilon, delta)-differentially private. Each event
enters by one dominating pair, so this holds for interactive releases that run at the same time, too (Haney et al. 2023,
for f-DP).

*How (1) is certified.* The left side is bounded from above at points x_0 < x_1 < ..., in both directions of the pair,
which covers every real x: for y > 0, H(-y) = 1 - e^-y + e^-y H'(y) with H' the opposite profile, on both sides of (1).
In e^x the left side is convex, so between two points it is below their chord. The right side is convex, so its distance
from the chord is least where its slope is the chord's: a closed formula. Beyond the last point the left side falls, and
has to be at most s b there. Only a b that passes all of this is returned.

References: Dong, Roth & Su 2022, Corollary 3.3 (Gaussians); Zhu, Dong & Wang 2022, Theorem 10 (dominating pairs
compose); Doroshenko et al. 2022 (chords of a profile dominate); Kairouz, Oh & Viswanath 2015 (pure losses). The reserve
and the certificate are this package's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import erfinv, ndtr, ndtri

from hush.accounting.losses.lattice import dominating, loss_range
from hush.accounting.losses.noise_profiles import GaussianProfile
from hush.accounting.losses.pairs import Alternative, merge_gaussians
from hush.accounting.losses.profile import Array, DominatingPair, tail_gap
from hush.accounting.losses.saddle_point import CountedPair, CumulantFunction
from hush.accounting.losses.solver import ComposedLoss

_POINTS = 240  # at which the left side of (1) is bounded
_ENDS = 17  # among which the last of these points is looked for
_CHORDS = 1e-5  # of the reserve: what chords between the points cost at least
_ATOMS = 200  # of a loss, on either side of 0
_SAFETY = 1e-9  # relative, for the rounding of both sides; absolute errors are below 1e-14
_PRECISION = 1e-4  # relative, of a price
_ACCURACY = 1e-4  # relative, of epsilon, for composed losses
_TAIL = 0.02  # the share of s b that the tail beyond the last point may have
_MOST = 1e5


@dataclass(frozen=True, slots=True)
class Smoothing:
    """The terms of a price: the reserve r, and the rate s at which delta pays for tails.

    Attributes:
        reserve: What is left of mu^2 after each release that is no Gaussian.
        rate: The delta that is paid for each unit of mu^2.
    """

    reserve: float
    rate: float


@dataclass(frozen=True, slots=True)
class _UpperProfile:
    """Upper bounds on a profile at some epsilons, the first of which is 0."""

    epsilons: Array
    values: Array


def smoothed_price(option: Alternative, smoothing: Smoothing) -> float:
    """Return the price of an event's dominating pairs, without its Gaussians; 0 if there are only Gaussians.

    Infinity if no price below 1e5 was found.
    """
    parts = tuple((pair, count) for pair, count in merge_gaussians(option) if not _is_gaussian(pair))
    parts = tuple(part for part in parts if float(part[0].forward.delta(np.zeros(1))[0]) > 0)
    return _price(parts, smoothing) if parts else 0.0


def gaussian_share(option: Alternative) -> float:
    """Return the mu^2 of an event's Gaussians."""
    return math.fsum(count * pair.forward.mu**2 for pair, count in option.items() if _is_gaussian(pair))  # type: ignore[attr-defined]


def _is_gaussian(pair: DominatingPair) -> bool:
    return isinstance(pair.forward, GaussianProfile)


@lru_cache(maxsize=4096)
def _price(parts: tuple[CountedPair, ...], smoothing: Smoothing) -> float:
    pure = _pure_price(parts)
    if pure <= _CHORDS * smoothing.reserve:
        return pure  # of so small a price, the chords of (1) would be the larger part
    single = len(parts) == 1 and parts[0][1] == 1
    bounds: Callable[[float], list[_UpperProfile]] = (
        (lambda tail: _single(parts[0][0], smoothing.reserve, tail))
        if single
        else (lambda tail: _composed(parts, smoothing.reserve, tail))
    )
    price, per_tail = math.inf, _TAIL * smoothing.rate
    low = 10 * _CHORDS * smoothing.reserve
    for guess in (max(_estimate(parts), low), smoothing.reserve):
        tail = per_tail * guess
        for _ in range(4):
            price = min(price, _least(bounds(tail), smoothing))
            if not price < math.inf or per_tail * price / 8 < tail <= 2 * per_tail * price:
                break
            tail = per_tail * price
        if price < math.inf:
            break
    return min(price, pure)


def _estimate(parts: tuple[CountedPair, ...]) -> float:
    """Return roughly what losses cost: their Renyi divergence at order 2, which is a Gaussian's mu^2."""
    value, _, _, _ = CumulantFunction.of(parts, 1e-12).at(1.0)
    return value


def _pure_price(parts: tuple[CountedPair, ...]) -> float:
    """Return a price of losses that are at most epsilon: a Gaussian of the same total variation dominates them."""
    total = 0.0
    for pair, count in parts:
        if max(pair.forward.failure, pair.backward.failure) > 0:
            return math.inf
        epsilon = max(pair.forward.max_loss, pair.backward.max_loss)
        # Randomised response follows from this Gaussian: its trade-off curve is two lines through one point.
        total += 8 * count * float(erfinv(math.tanh(epsilon / 2))) ** 2
    return total * (1 + _SAFETY) if total < math.inf else math.inf


def _least(profiles: list[_UpperProfile], smoothing: Smoothing) -> float:
    """Return about the least price that passes for all profiles."""
    high = max(float(profile.values[-1]) for profile in profiles) / (smoothing.rate * (1 - 2 * _SAFETY))
    low, high = 0.0, max(high, 1e-12)
    if high > _MOST:
        return math.inf
    chords = [_Chords.of(profile) for profile in profiles]
    while high <= _MOST and not _passes(chords, high, smoothing):
        low, high = high, 4 * high
    if high > _MOST:
        return math.inf
    while high - low > _PRECISION * high:
        middle = math.sqrt(low * high) if low > 0 else high / 2
        low, high = (low, middle) if _passes(chords, middle, smoothing) else (middle, high)
    return high


def _passes(chords: list[_Chords], price: float, smoothing: Smoothing) -> bool:
    """Return whether (1) is proven for a price."""
    paid = smoothing.rate * price * (1 - _SAFETY)
    mu = math.sqrt(smoothing.reserve + price)
    return all(part.last <= paid and bool((part.distances(mu) + paid >= 0).all()) for part in chords)


@dataclass(frozen=True, slots=True)
class _Chords:
    """The chords between the points of a profile, in e^x: what is the same for each price."""

    begins: Array
    ends: Array
    values: Array  # at the begins
    rises: Array  # of a chord for each unit of e^(x - begin)
    touching: Array  # the normal quantile of its slope, at which a Gaussian's profile is as steep
    last: float

    @staticmethod
    def of(profile: _UpperProfile) -> _Chords:
        """Return the chords of a profile."""
        epsilons, values = profile.epsilons, profile.values
        rises = np.diff(values) / np.expm1(np.diff(epsilons))
        slopes = rises * np.exp(-epsilons[:-1])
        touching = ndtri(np.clip(-slopes, 0.0, 0.5))
        return _Chords(epsilons[:-1], epsilons[1:], values[:-1], rises, touching, float(values[-1]))

    def distances(self, mu: float) -> Array:
        """Return, for each chord, how far Gaussian noise's profile is above it at least."""
        # The slope of the Gaussian's profile in e^x is -Phi(-x / mu - mu / 2).
        touching = np.clip(-mu * (mu / 2 + self.touching), self.begins, self.ends)
        chords = self.values + self.rises * np.expm1(touching - self.begins)
        gaussian = tail_gap(touching / mu - mu / 2, mu)
        return np.asarray(gaussian * (1 - _SAFETY) - chords)


def _single(pair: DominatingPair, reserve: float, tail: float) -> list[_UpperProfile]:
    """Return bounds on the profiles of one loss and Gaussian(reserve), in both directions.

    The loss is put on points first, from above (`lattice.dominating`). Then the profile is a sum of shifted Gaussians'.
    """
    return [_mixture(one_way, reserve, tail) for one_way in dict.fromkeys((pair, pair.swapped()))]


def _mixture(pair: DominatingPair, reserve: float, tail: float) -> _UpperProfile:
    losses = _loss_points(pair, tail / 10)
    atoms = dominating(pair, losses, np.diff(losses))
    masses = np.maximum(atoms.masses, 0.0) + atoms.mass_noise
    mu = math.sqrt(reserve)

    def bound(epsilons: Array) -> Array:
        values = _sum_of_gaussians(epsilons, losses, masses, mu)
        return np.asarray((values + atoms.infinite) * (1 + atoms.curve_error + _SAFETY) + 1e-14)

    last = float(losses[-1]) + mu * (mu / 2 + 9.0)
    enough = max(tail, 2 * float(bound(np.array([last]))[0]))
    for _ in range(2):  # the points beyond are not needed
        ends = np.linspace(0.0, last, _ENDS)
        last = float(ends[max(int(np.argmax(bound(ends) <= enough)), 1)])
    epsilons = np.linspace(0.0, last, _POINTS)
    return _UpperProfile(epsilons, bound(epsilons))


def _sum_of_gaussians(epsilons: Array, losses: Array, masses: Array, mu: float) -> Array:
    """Return the profile of a discrete loss and a Gaussian: the mean of the Gaussian's at ``epsilon - loss``."""
    rest = epsilons[:, None] - losses[None, :]
    with np.errstate(over="ignore"):
        values = ndtr(mu / 2 - rest / mu) - np.exp(np.minimum(rest, 700.0)) * ndtr(-mu / 2 - rest / mu)
    return np.asarray(np.maximum(values, 0.0) @ masses)


def _loss_points(pair: DominatingPair, tail: float) -> Array:
    """Return points that are close together near 0, and reach as far as the loss does, up to a tail."""
    low, high = loss_range(pair, tail)
    curvature = 5.0
    steps = np.sinh(np.linspace(0.0, curvature, _ATOMS)) / math.sinh(curvature)
    return np.concatenate([low * steps[:0:-1], high * steps])


def _composed(parts: tuple[CountedPair, ...], reserve: float, tail: float) -> list[_UpperProfile]:
    """Return bounds on the profiles of several losses and Gaussian(reserve), in both directions."""
    smooth = (DominatingPair.symmetric(GaussianProfile(math.nextafter(math.sqrt(reserve), 0.0))), 1)
    ways = dict.fromkeys((parts, tuple((pair.swapped(), count) for pair, count in parts)))
    bounds = []
    for one_way in ways:
        last, bound = ComposedLoss((*one_way, smooth)).profile_upper(tail, _ACCURACY)
        epsilons = np.linspace(0.0, last, _POINTS) if 0 < last < math.inf else np.zeros(1)
        values = np.array([bound(epsilon) for epsilon in epsilons.tolist()])
        bounds.append(_UpperProfile(epsilons, np.minimum.accumulate(values) * (1 + _SAFETY)))
    return bounds
