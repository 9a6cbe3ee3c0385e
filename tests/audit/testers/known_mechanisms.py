"""Mechanisms whose epsilon is known, and one attack of each kind, for the tests of this folder."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

from hush.audit.testers import Attack, Batched, ClassifierAttack, EventSearch, HockeyStick
from hush.lab.divergence import Renyi
from hush.lab.histogram import HistogramAttack

Rows = NDArray[Any]
CONFIDENCE = 1 - 1e-7

ATTACKS: dict[str, Attack] = {
    "events": EventSearch(),
    "classifier": ClassifierAttack(probability=0.1),
    "hockey-stick": HockeyStick(epsilon=0.8),
    "histogram": HistogramAttack(num_bins=4),
    "renyi": Renyi(order=2.0),
}


def batched(law: Callable[[np.random.Generator, Any, int], Rows]) -> Batched:
    return Batched(lambda data, source, count: law(np.random.default_rng(source.words(4)), data, count))


def laplace(scale: float) -> Batched:
    return batched(lambda rng, value, count: value + rng.laplace(scale=scale, size=count))


def gaussian(sigma: float) -> Batched:
    return batched(lambda rng, value, count: value + rng.normal(scale=sigma, size=count))


def randomised_response(epsilon: float) -> Batched:
    truthful = 1 / (1 + math.exp(-epsilon))
    return batched(lambda rng, bit, count: np.where(rng.random(count) < truthful, bit, 1 - bit))


def disclosure(values: tuple[float, float]) -> Batched:
    """A mechanism without noise: input 0 gives the first value, input 1 the second."""
    return Batched(lambda which, source, count: np.full(count, values[which]))


def gaussian_epsilon(sigma: float, delta: float) -> float:
    """The epsilon of Gaussian noise (Balle & Wang 2018, Theorem 8)."""
    mu = 1 / sigma

    def excess(epsilon: float) -> float:
        tail = math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
        return float(norm.cdf(-epsilon / mu + mu / 2) - tail - delta)

    return float(brentq(excess, 0, 50))
