"""The Renyi divergence of a pair, from its profile.

For any pair, ``E_Q[(P/Q)^a] = 1 + a (a - 1) * integral over eps >= 0 of [e^((a-1) eps) delta_PQ(eps) + e^(-a eps)
delta_QP(eps)]`` (Sason & Verdu 2016, the integral representation of f-divergences by hockey-stick divergences). All
terms are positive, so a small divergence keeps its relative accuracy.

The integral is computed with Gauss-Legendre panels of equal relative width, on two grids. If the two disagree at an
order, or if the profile underflows there before the integrand has decayed, it is computed again for this order alone,
in logarithms and with panels that adapt to the integrand, twice. If these two disagree, the result is the largest loss,
or the divergence without sampling. It may be infinity: a valid bound, where a guess would not be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from hush.accounting.losses.lattice import dominating, loss_range
from hush.accounting.losses.noise_profiles import DiscreteGaussianProfile, GaussianProfile
from hush.accounting.losses.profile import Array, DominatingPair, Profile
from hush.accounting.losses.sampled_profiles import SampledRemoval

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_PANELS = (240, 350)  # of the two grids
_DECADES = 12  # that a grid spans
_CORNERS = 2000  # of a piecewise linear profile that become edges of panels
_BACKWARD_END = 60.0  # the backward integrand has fallen by e^-60 here, at every order
_DECAY = 40.0  # the integrand must have fallen by e^-40 at the end of the grid
_ROUNDS = 60  # in which panels are halved, at most
_MOST_PANELS = 4000
_MOST_ADAPTED = 3  # orders of one call; a search for the best order asks for dozens, most of which are far from it
_SAFETY = 1e-8  # accepted relative disagreement of the two grids; results are raised by it

RenyiCurve = Callable[[Array], Array]


@lru_cache(maxsize=256)
def renyi_curve(pair: DominatingPair) -> RenyiCurve:
    """Return a function that maps an array of orders > 1 to upper bounds on the Renyi divergence of P from Q."""
    profile = pair.forward
    if float(profile.delta(np.zeros(1))[0]) == 0:
        return np.zeros_like
    rate = _rate(profile)
    if rate is not None:
        return lambda orders: orders * rate
    # Without sampling there is no less divergence: it is quasi-convex (van Erven & Harremoes 2014, Theorem 13).
    unsampled = _rate(profile.base) if isinstance(profile, SampledRemoval) else None
    if profile.period is not None and profile.max_loss / profile.period <= 1e4:
        curve = _from_atoms(pair, profile.period)
    else:
        curve = _by_quadrature(pair)

    # A search for the best order begins with the same orders each time.
    @lru_cache(maxsize=64)
    def values(orders: bytes) -> Array:
        # No mean of losses exceeds the largest one, but the safety margins do.
        known = np.frombuffer(orders)
        bound = np.minimum(curve(known), profile.max_loss)
        return bound if unsampled is None else np.minimum(bound, known * unsampled)

    return lambda orders: values(np.asarray(orders, dtype=float).tobytes()).copy()


def _rate(profile: Profile) -> float | None:
    """Return the divergence per order of a Gaussian; None for other noise."""
    if isinstance(profile, GaussianProfile):
        return profile.mu**2 / 2
    if isinstance(profile, DiscreteGaussianProfile):  # Canonne, Kamath & Steinke 2020, Theorem 4
        return (profile.sensitivity / profile.sigma) ** 2 / 2
    return None


def _from_atoms(pair: DominatingPair, period: float) -> RenyiCurve:
    """Return the curve as a sum over the losses, which are multiples of a period."""
    count = round(pair.forward.max_loss / period)
    losses = np.arange(-count, count + 1, dtype=float) * period
    masses = np.maximum(dominating(pair, losses, np.full(2 * count, period)).masses, 0.0)

    def curve(orders: Array) -> Array:
        exponents = np.outer(orders - 1, losses)
        peak = np.maximum(exponents.max(axis=1) - 600.0, 0.0)  # taken out of the sum, so that exp() does not overflow
        growth = (np.expm1(exponents - peak[:, None]) + -np.expm1(-peak)[:, None]) @ masses
        return np.asarray((np.log1p(growth) + peak) / (orders - 1) * (1 + _SAFETY))

    return curve


def _by_quadrature(pair: DominatingPair) -> RenyiCurve:
    """Return the curve by numerical integration on two grids."""
    low, high = loss_range(pair, 1e-290)
    rules = [
        (_rule(pair.forward, high, panels), _rule(pair.backward, min(-low, _BACKWARD_END), panels))
        for panels in _PANELS
    ]
    unbounded = pair.forward.max_loss == math.inf

    def curve(orders: Array) -> Array:
        coarse, fine = (_log_moments(*rule, orders, unbounded=unbounded) for rule in rules)
        with np.errstate(invalid="ignore"):
            agree = np.isfinite(fine) & (np.abs(coarse - fine) <= _SAFETY * np.abs(fine))
        result = np.where(agree, fine * (1 + _SAFETY) / (orders - 1), pair.forward.max_loss)
        for index in np.flatnonzero(~agree)[:_MOST_ADAPTED]:
            result[index] = adapted_bound(pair, float(orders[index]))
        return result

    return curve


def adapted_bound(pair: DominatingPair, order: float) -> float:
    """Return an upper bound on the divergence at one order, on panels that adapt to it."""
    halves = [
        _adapted(pair.forward, order - 1, pair.forward.max_loss),
        _adapted(pair.backward, -order, pair.backward.max_loss),
    ]
    coarse, fine = (
        float(np.logaddexp(0.0, np.logaddexp(forward, backward) + math.log(order) + math.log(order - 1)))
        for forward, backward in zip(*halves, strict=True)
    )
    if not (math.isfinite(fine) and abs(coarse - fine) <= _SAFETY * abs(fine)):
        return pair.forward.max_loss
    return min(fine * (1 + _SAFETY) / (order - 1), pair.forward.max_loss)


def _adapted(profile: Profile, rate: float, end: float) -> tuple[float, float]:
    """Return the log of the integral of e^(rate eps) delta(eps), by one rule and by a finer one."""

    def exponents(epsilon: Array) -> Array:
        return rate * epsilon + profile.log_delta(epsilon)

    edges = _edges(exponents, end)
    if edges is None:
        return math.inf, math.inf
    first, last = edges
    for _ in range(_ROUNDS):
        middle = 0.5 * (first + last)
        values = exponents(np.stack([first, middle, last]))
        alive = values.max(axis=0) >= values.max() - 1.5 * _DECAY
        first, middle, last, values = first[alive], middle[alive], last[alive], values[:, alive]
        # Across a panel that is fine enough the integrand changes by less than a factor of e.
        with np.errstate(invalid="ignore"):  # where the integrand is 0, so is its logarithm's difference
            steep = np.abs(np.diff(values, axis=0)).max(axis=0) > 1
        if not steep.any() or len(first) > _MOST_PANELS:
            break
        first = np.concatenate([first, middle[steep]])
        last = np.concatenate([np.where(steep, middle, last), last[steep]])
    middle = 0.5 * (first + last)
    finer = np.concatenate([first, middle]), np.concatenate([middle, last])
    return _log_integral(exponents, first, last), _log_integral(exponents, *finer)


def _edges(exponents: Callable[[Array], Array], end: float) -> tuple[Array, Array] | None:
    """Return the first panels, dense at both ends; None if the integrand does not decay, or if too little is known."""
    if end == math.inf:
        scan = np.geomspace(1e-12, 1e15, 2000)
        values = exponents(scan)
        if not np.isfinite(values.max()):
            return None
        beyond = np.flatnonzero(values >= values.max() - 1.5 * _DECAY)
        if beyond[-1] + 1 >= len(scan) or values[beyond[-1] + 1] == -math.inf:
            return None
        end = float(scan[beyond[-1] + 1])
    near = end * np.geomspace(10.0**-_DECADES, 0.5, 200)
    points = np.concatenate([[0.0], near, (end - near)[-2::-1], [end]])
    values = exponents(points[:-1])
    # A profile that underflows looks as if it had ended. That is harmless only where nothing is left of the integrand.
    known = np.flatnonzero(np.isfinite(values))
    if not known.size or (known[-1] + 1 < len(values) and values[known[-1]] >= values.max() - 1.5 * _DECAY):
        return None
    return points[:-1], points[1:]


def _log_integral(exponents: Callable[[Array], Array], first: Array, last: Array) -> float:
    """Return the log of an integral over panels, by Gauss-Legendre quadrature on each."""
    half = 0.5 * (last - first)
    nodes = (first[:, None] + half[:, None] * (_NODES + 1)).ravel()
    with np.errstate(divide="ignore"):
        return float(np.logaddexp.reduce(exponents(nodes) + np.log((half[:, None] * _WEIGHTS).ravel())))


def _rule(profile: Profile, end: float, panels: int) -> tuple[Array, Array]:
    """Return nodes in [0, end], and the logs of weight times profile at the nodes."""
    corners = profile.corners(_CORNERS)
    geometric = np.append(0.0, end * np.geomspace(10.0**-_DECADES, 1.0, panels))
    edges = np.union1d(geometric, corners[corners < end])
    half = 0.5 * np.diff(edges)
    nodes = (edges[:-1, None] + half[:, None] * (_NODES + 1)).ravel()
    with np.errstate(divide="ignore"):
        return nodes, np.log((half[:, None] * _WEIGHTS).ravel()) + np.log(profile.delta(nodes))


def _log_moments(
    forward: tuple[Array, Array], backward: tuple[Array, Array], orders: Array, *, unbounded: bool
) -> Array:
    """Return log E_Q[(P/Q)^a] by one rule, or infinity where the grid cuts the integrand off."""
    # In place: thousands of nodes at hundreds of orders are megabytes.
    exponents = [np.outer(orders - 1, forward[0]), np.outer(-orders, backward[0])]
    exponents[0] += forward[1]
    exponents[1] += backward[1]
    last = exponents[0][:, -1].copy()
    peak = np.maximum(*(half.max(axis=1) for half in exponents))
    sums = []
    for half in exponents:
        half -= peak[:, None]
        sums.append(np.exp(half, out=half).sum(axis=1))
    integral = peak + np.log(sums[0] + sums[1])
    log_growth = integral + np.log(orders) + np.log(orders - 1)
    cut_off = unbounded & (last > peak - _DECAY)
    return np.where(cut_off, np.inf, np.logaddexp(0.0, log_growth))
