"""Events as the facts write them, ``["poisson", 0.2, ["gaussian", 0.5]]``, and as hush does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hush.accounting import (
    ApproximateDPEvent,
    ComposedEvent,
    Event,
    FixedSizeSampledEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
    ZeroConcentratedDPEvent,
)
from hush.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    ExponentialMechanismEvent,
    GaussianMixtureEvent,
    RandomizedResponseEvent,
    TruncatedPoissonSampledEvent,
)
from hush.guarantee import Relation
from hush.mechanisms import PermuteAndFlip
from peers.verdicts import NotExpressible

UNPROTECTED = "an event that protects nothing"
NEVER_RUN = "a sample at rate 0"
OFFSET = "zCDP with an offset xi"
ZERO_OUT = "randomized response where a person may be missing: hush accounts for replacement only"


def event(spec: list[Any], relation: Relation) -> Event:
    """Return an event, or say why there is none."""
    kind, *arguments = spec
    return _KINDS[kind](relation, *arguments)


def _noise(make: Callable[..., Event]) -> Callable[..., Event]:
    def build(_: Relation, scale: float, *more: float) -> Event:
        if scale == 0:
            raise NotExpressible(UNPROTECTED)
        return make(scale, *more)

    return build


def _poisson(relation: Relation, rate: float, spec: list[Any]) -> Event:
    if rate == 0:
        raise NotExpressible(NEVER_RUN)
    return PoissonSampledEvent(event(spec, relation), rate)


def _truncated(relation: Relation, total: int, rate: float, batch: int, spec: list[Any]) -> Event:
    return TruncatedPoissonSampledEvent(event(spec, relation), rate, max_batch_size=batch, dataset_size=total)


def mixture(noise: float, shifts: list[float], weights: list[float]) -> Event:
    """Return a Gaussian with a random shift; their shifts are in no order."""
    if max(shifts) == 0:
        raise NotExpressible(NEVER_RUN)
    if noise == 0:
        raise NotExpressible(UNPROTECTED)
    ordered = sorted(zip(shifts, weights, strict=True))
    return GaussianMixtureEvent(noise, tuple(shift for shift, _ in ordered), tuple(weight for _, weight in ordered))


def _fixed(relation: Relation, batch: int, total: int, spec: list[Any]) -> Event:
    if batch == 0:
        raise NotExpressible(NEVER_RUN)
    return FixedSizeSampledEvent(event(spec, relation), batch, total)


def _response(relation: Relation, noise: float, buckets: int) -> Event:
    if relation is not Relation.REPLACE:
        raise NotExpressible(ZERO_OUT)
    if noise in (0, 1) or buckets == 1:
        raise NotExpressible("randomized response that never, or always, tells the truth")
    return RandomizedResponseEvent(math.log1p(buckets * (1 - noise) / noise), buckets)


def _zcdp(_: Relation, rho: float, offset: float = 0.0) -> Event:
    if offset > 0:
        raise NotExpressible(OFFSET)
    return ZeroConcentratedDPEvent(rho)


def _refusal(reason: str) -> Callable[..., Event]:
    def refuse(*_: Any) -> Event:
        raise NotExpressible(reason)

    return refuse


_KINDS: dict[str, Callable[..., Event]] = {
    "gaussian": _noise(GaussianEvent),
    "laplace": _noise(LaplaceEvent),
    "discrete-laplace": _noise(lambda exponent, sensitivity: DiscreteLaplaceEvent(1 / exponent, sensitivity)),
    "discrete-gaussian": _noise(DiscreteGaussianEvent),
    "poisson": _poisson,
    "fixed": _fixed,
    "response": _response,
    "zcdp": _zcdp,
    "approximate": lambda _, epsilon, delta: ApproximateDPEvent(epsilon, delta),
    "exponential": lambda _, epsilon: ExponentialMechanismEvent(epsilon),
    "permute-and-flip": lambda _, epsilon: PermuteAndFlip(epsilon=epsilon).event,
    "compose": lambda relation, *specs: ComposedEvent(tuple(event(spec, relation) for spec in specs)),
    "times": lambda relation, count, spec: SelfComposedEvent(event(spec, relation), count),
    "non-private": _refusal(UNPROTECTED),
    "mixture": lambda _, *arguments: mixture(*arguments),
    "truncated-poisson": _truncated,
}
