"""Gaussian differential privacy: exact for Gaussians, and an estimate by a central limit theorem for sampled ones."""

from __future__ import annotations

import math
from functools import singledispatch

from scipy.special import ndtr

from hush.accounting import events as ev
from hush.accounting.accountants.accountant import Accountant
from hush.accounting.losses.noise_profiles import GaussianProfile
from hush.accounting.losses.pairs import Change, Direction, changes
from hush.accounting.losses.profile import DominatingPair
from hush.accounting.losses.solver import ComposedLoss
from hush.errors import Unsupported
from hush.guarantee import Bound
from hush.numerics import expm1_or_infinity


class GdpAccountant(Accountant):
    """Adds up mu^2 of Gaussian differential privacy.

    Under mu-GDP, neighbours are at least as hard to tell apart as N(mu, 1) and N(0, 1).

    >>> from hush.accounting import GaussianEvent
    >>> accountant = GdpAccountant().compose(GaussianEvent(10.0), 4)
    >>> round(accountant.mu, 3), accountant.bound().value
    (0.2, 'upper')

    Guarantee:
        Exact for continuous Gaussians: ``bound`` is upper. For sampled Gaussians the central limit theorem gives only
        an *estimate*, and ``bound`` says so. It is often too low: at sampling rate 0.001, sigma 0.6 and 5000 steps it
        gives 1.31, but the true epsilon is 3.44.

    Assumes:
        Noise was drawn as the events say (the caller's duty). All events are Gaussians or sampled Gaussians (checked
        here).

    References:
        Dong, Roth & Su 2022, Corollary 3.3 (composition), Corollary 5.4 (fixed-size sampling); Bu, Dong, Long & Su
        2020, Theorem 5 (Poisson sampling).
    """

    method = "Gaussian differential privacy"

    @property
    def mu(self) -> float:
        """The composed parameter."""
        # mu-GDP mechanisms compose to sqrt(mu_1^2 + mu_2^2 + ...) (Dong, Roth & Su 2022, Corollary 3.3).
        squares = max(_mu_squared(ev.ComposedEvent(self.events), change) for change in changes(self.relation))
        return math.sqrt(squares) * (1 + 4e-16)  # the square root must not round mu down

    def bound(self) -> Bound:
        """Return upper if all events are unsampled Gaussians, else estimate."""
        return Bound.UPPER if all(map(_is_exact, self.events)) else Bound.ESTIMATE

    def _check(self, event: ev.Event) -> None:
        for change in changes(self.relation):
            _mu_squared(event, change)

    def _loss(self) -> ComposedLoss:
        mu = self.mu
        # By definition, mu-GDP means no easier to tell apart than N(0, 1) and N(mu, 1).
        return ComposedLoss([(DominatingPair.symmetric(GaussianProfile(mu)), 1)] if mu > 0 else [])

    def _epsilon(self, delta: float) -> float:
        if self.mu == math.inf:
            return math.inf
        return self._loss().epsilon_upper(delta)

    def _delta(self, epsilon: float) -> float:
        if self.mu == math.inf:
            return 1.0
        return self._loss().delta_upper(epsilon)


@singledispatch
def _mu_squared(event: ev.Event, change: Change) -> float:
    """Return mu^2 of an event under one change."""
    raise Unsupported(f"{event.kind}: it is not Gaussian", "Use PldAccountant")


@_mu_squared.register
def _(event: ev.GaussianEvent, change: Change) -> float:
    # A Gaussian with noise sigma on a shift s is (s / sigma)-GDP (Dong, Roth & Su 2022, section 2.3).
    return (change.shift / event.noise_multiplier) ** 2


@_mu_squared.register
def _(event: ev.ComposedEvent, change: Change) -> float:
    return math.fsum(_mu_squared(part, change) for part in event.events)


@_mu_squared.register
def _(event: ev.SelfComposedEvent, change: Change) -> float:
    # mu can be infinite, and 0 times infinity is NaN.
    return event.count * _mu_squared(event.event, change) if event.count else 0.0


@_mu_squared.register
def _(event: ev.GroupEvent, change: Change) -> float:
    if not _is_exact(event):
        raise Unsupported("group of a sampled gaussian: the central limit theorem does not cover it")
    return _mu_squared(event.event, Change(change.direction, change.relation, change.size * event.size))


@_mu_squared.register
def _(event: ev.PoissonSampledEvent, change: Change) -> float:
    if event.sampling_rate == 1:
        return _mu_squared(event.event, change)
    if change.direction is Direction.REPLACE or not isinstance(event.event, ev.GaussianEvent):
        raise Unsupported(f"poisson-sampled {event.event.kind} under {change.describe()}: no limit theorem is known")
    # Bu, Dong, Long & Su 2020, Theorem 5: mu = q sqrt(T (e^(1 / sigma^2) - 1)).
    return event.sampling_rate**2 * expm1_or_infinity(event.event.noise_multiplier**-2)


@_mu_squared.register
def _(event: ev.FixedSizeSampledEvent, change: Change) -> float:
    if event.batch_size == event.dataset_size:
        return _mu_squared(event.event, change)
    if change.direction is not Direction.REPLACE or not isinstance(event.event, ev.GaussianEvent):
        raise Unsupported(f"fixed-size-sampled {event.event.kind} under {change.describe()}: no limit theorem is known")
    mu = change.shift / event.event.noise_multiplier
    rate = event.batch_size / event.dataset_size
    # Dong, Roth & Su 2022, Corollary 5.4.
    spread = (expm1_or_infinity(mu**2) + 1) * float(ndtr(1.5 * mu)) + 3 * float(ndtr(-0.5 * mu)) - 2
    return 2 * rate**2 * spread


def _is_exact(event: ev.Event) -> bool:
    """Return whether no part of an event is sampled."""
    if isinstance(event, ev.PoissonSampledEvent):
        return event.sampling_rate == 1 and _is_exact(event.event)
    if isinstance(event, ev.FixedSizeSampledEvent):
        return event.batch_size == event.dataset_size and _is_exact(event.event)
    inner = getattr(event, "events", None) or [part for part in [getattr(event, "event", None)] if part is not None]
    return all(map(_is_exact, inner))
