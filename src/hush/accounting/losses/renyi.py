"""Renyi divergence of a pair, from its profile.

For any pair, ``E_Q[(P/Q)^a] = 1 + a (a - 1) * integral over eps >= 0 of [e^((a-1) eps) delta_PQ(eps) + e^(-a eps)
delta_QP(eps)]`` (Sason & Verdu 2016, the integral representation of f-divergences by hockey sticks). All terms are
positive, so a small divergence keeps its relative accuracy. The integral is taken by Gauss-Legendre panels of equal
relative width, on two grids; an order at which the two disagree, or at which the profile underflows before the
integrand has decayed, is given up (infinite), never guessed.
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
_PANELS = (240, 350)
_DECADES = 12
_CORNERS = 2000
_FAR = 60.0  # the backward part has fallen by e^-60 here, at every order
_DECAY = 40.0  # the integrand must have fallen by e^-40 at the end of the grid
_SAFETY = 1e-8  # disagreement of the two grids that is accepted; results are raised by it

RenyiCurve = Callable[[Array], Array]


@lru_cache(maxsize=256)
def renyi_curve(pair: DominatingPair) -> RenyiCurve:
    """Return a function that bounds the Renyi divergence of P from Q, from above, at an array of orders > 1."""
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
        return _of_atoms(pair, profile.period)
    return _by_quadrature(pair)


def _of_atoms(pair: DominatingPair, period: float) -> RenyiCurve:
    """Sum over the losses themselves where they are multiples of a period."""
    count = round(pair.forward.max_loss / period)
    losses = np.arange(-count, count + 1, dtype=float) * period
    masses = np.maximum(dominating(pair, losses, np.full(2 * count, period)).masses, 0.0)

    def curve(orders: Array) -> Array:
        exponents = np.outer(orders - 1, losses)
        peak = np.maximum(exponents.max(axis=1) - 600.0, 0.0)
        growth = (np.expm1(exponents - peak[:, None]) + -np.expm1(-peak)[:, None]) @ masses
        return np.asarray((np.log1p(growth) + peak) / (orders - 1) * (1 + _SAFETY))

    return curve


def _by_quadrature(pair: DominatingPair) -> RenyiCurve:
    low, high = loss_range(pair, 1e-290)
    rules = [(_rule(pair.forward, high, panels), _rule(pair.backward, min(-low, _FAR), panels)) for panels in _PANELS]
    endless = pair.forward.max_loss == math.inf

    def curve(orders: Array) -> Array:
        coarse, fine = (_log_moments(*rule, orders, endless=endless) for rule in rules)
        with np.errstate(invalid="ignore"):
            agree = np.abs(coarse - fine) <= _SAFETY * np.abs(fine)
        return np.where(agree & np.isfinite(fine), fine * (1 + _SAFETY) / (orders - 1), np.inf)

    return curve


def _rule(profile: Profile, reach: float, panels: int) -> tuple[Array, Array]:
    """Return nodes in [0, reach], and the logs of weight times the profile at them."""
    corners = profile.corners(_CORNERS)
    even = np.append(0.0, reach * np.geomspace(10.0**-_DECADES, 1.0, panels))
    edges = np.union1d(even, corners[corners < reach])
    half = 0.5 * np.diff(edges)
    nodes = (edges[:-1, None] + half[:, None] * (_NODES + 1)).ravel()
    with np.errstate(divide="ignore"):
        return nodes, np.log((half[:, None] * _WEIGHTS).ravel()) + np.log(profile.delta(nodes))


def _log_moments(forward: tuple[Array, Array], backward: tuple[Array, Array], orders: Array, *, endless: bool) -> Array:
    """Return log E_Q[(P/Q)^a] by one rule; infinite where the integrand is cut off."""
    ahead = np.outer(orders - 1, forward[0]) + forward[1]
    exponents = np.concatenate([ahead, np.outer(-orders, backward[0]) + backward[1]], axis=1)
    peak = exponents.max(axis=1)
    integral = peak + np.log(np.exp(exponents - peak[:, None]).sum(axis=1))
    log_growth = integral + np.log(orders) + np.log(orders - 1)
    cut_off = endless & (ahead[:, -1] > peak - _DECAY)
    return np.where(cut_off, np.inf, np.logaddexp(0.0, log_growth))
