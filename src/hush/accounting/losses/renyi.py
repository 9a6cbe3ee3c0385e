"""The Renyi divergence of a pair, from its profile.

For any pair, ``E_Q[(P/Q)^a] = 1 + a (a - 1) * integral over eps >= 0 of [e^((a-1) eps) delta_PQ(eps) + e^(-a eps)
delta_QP(eps)]`` (Sason & Verdu 2016, the integral representation of f-divergences by hockey-stick divergences). All
terms are positive, so a small divergence keeps its relative accuracy.

The integral is computed with Gauss-Legendre panels of equal relative width, on two grids. If the two disagree at an
order, or if the profile underflows there before the integrand has decayed, the result is infinity, which is still a
valid bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from hush.accounting.losses.lattice import dominating, loss_range
from hush.accounting.losses.noise_profiles import DiscreteGaussianProfile, GaussianProfile
from hush.accounting.losses.profile import Array, DominatingPair, Profile

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_PANELS = (240, 350)  # of the two grids
_DECADES = 12  # that a grid spans
_CORNERS = 2000  # of a piecewise linear profile that become edges of panels
_BACKWARD_END = 60.0  # the backward integrand has fallen by e^-60 here, at every order
_DECAY = 40.0  # the integrand must have fallen by e^-40 at the end of the grid
_SAFETY = 1e-8  # accepted relative disagreement of the two grids; results are raised by it

RenyiCurve = Callable[[Array], Array]


@lru_cache(maxsize=256)
def renyi_curve(pair: DominatingPair) -> RenyiCurve:
    """Return a function that maps an array of orders > 1 to upper bounds on the Renyi divergence of P from Q."""
    profile = pair.forward
    if float(profile.delta(np.zeros(1))[0]) == 0:
        return np.zeros_like
    if isinstance(profile, GaussianProfile):
        mu = profile.mu
        return lambda orders: orders * mu**2 / 2
    if isinstance(profile, DiscreteGaussianProfile):  # Canonne, Kamath & Steinke 2020, Theorem 4
        ratio = profile.sensitivity / profile.sigma
        return lambda orders: orders * ratio**2 / 2
    if profile.period is not None and profile.max_loss / profile.period <= 1e4:
        return _from_atoms(pair, profile.period)
    return _by_quadrature(pair)


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
            agree = np.abs(coarse - fine) <= _SAFETY * np.abs(fine)
        return np.where(agree & np.isfinite(fine), fine * (1 + _SAFETY) / (orders - 1), np.inf)

    return curve


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
    forward_exponents = np.outer(orders - 1, forward[0]) + forward[1]
    exponents = np.concatenate([forward_exponents, np.outer(-orders, backward[0]) + backward[1]], axis=1)
    peak = exponents.max(axis=1)
    integral = peak + np.log(np.exp(exponents - peak[:, None]).sum(axis=1))
    log_growth = integral + np.log(orders) + np.log(orders - 1)
    cut_off = unbounded & (forward_exponents[:, -1] > peak - _DECAY)
    return np.where(cut_off, np.inf, np.logaddexp(0.0, log_growth))
