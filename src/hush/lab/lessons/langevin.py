"""Noisy Langevin sampling (ULA), and what its last iterate alone reveals: hidden-state accounting.

    w_(t+1) = P(w_t - lr grad U(w_t) + Z_t),    Z_t ~ N(0, s^2 I),    P projects onto a ball, or does nothing

Composition bounds what *all* iterates reveal, and grows with their number. If only the last one is published, noise of
later steps also hides earlier ones: for convex, smooth losses the cost stops growing. `last_iterate_rho` has the bound,
and `sample_posterior` is the sampler of the lecture notes with its guarantee.

It is for teaching: noise and sums are floating-point numbers, and hush cannot check that a loss is convex and smooth.
The sampler's loss is, by construction. The theorem covers neither minibatches nor clipping that shortens any gradient.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hush.accounting import ZcdpAccountant, ZeroConcentratedDPEvent
from hush.errors import InvalidArgument, check_count, check_delta, check_epsilon, check_positive
from hush.guarantee import Guarantee, Relation
from hush.randomness import public_generator

__all__ = ["PosteriorSample", "last_iterate_rho", "sample_posterior"]

_MOST_STEPS = 10**6
_HIDDEN = "only the last iterate is published"
_REAL = "arithmetic and noise are those of real numbers"


def last_iterate_rho(
    *, shift: float, contraction: float, noise_stddev: float, num_steps: int, diameter: float = math.inf
) -> float:
    """Return rho of zero-concentrated privacy for the last iterate of noisy gradient descent on all records.

    A step moves two iterates that start z apart at most ``contraction * z + shift`` apart, and its noise can hide a
    part b of that at a cost of b^2 / (2 s^2). The bound is the cheapest way to hide everything within the last k steps,
    from iterates that are a diameter apart, or from the common start; for the best k.

    >>> settings = {"shift": 0.02, "noise_stddev": 0.1}
    >>> for num_steps in (10, 1000, 100_000):  # composition, convex on a ball, strongly convex
    ...     ways = {"contraction": 1.0}, {"contraction": 1.0, "diameter": 1.0}, {"contraction": 0.99}
    ...     print([round(last_iterate_rho(num_steps=num_steps, **settings, **way), 2) for way in ways])
    [0.2, 0.2, 0.2]
    [20.0, 4.0, 3.98]
    [2000.0, 4.0, 3.98]

    Args:
        shift: The largest distance between the steps of neighbouring datasets from the same iterate: the learning rate
            times the largest change of the gradient.
        contraction: The Lipschitz constant of a step. For an m-strongly convex and b-smooth loss and a learning rate of
            at most 2 / (m + b), it is 1 - lr m. For a convex one and at most 2 / b, it is 1.
        noise_stddev: The standard deviation of the noise on each coordinate of the iterate.
        num_steps: The number of steps.
        diameter: The diameter of the convex set that every iterate is projected onto.

    Guarantee:
        An upper bound, exact for quadratic losses without a projection.

    Assumes:
        A step is a contraction (checked here: a factor above 1 is refused). Its constants are true for every dataset,
        all records take part in every step, nothing is cut off by clipping, both runs start at the same public point,
        and earlier iterates stay secret (the caller's duty).

    References:
        Feldman, Mironov, Talwar & Thakurta 2018 (shifted divergences); Altschuler & Talwar 2022, Theorem 3.1 (the
        diameter), here with its constants; Ye & Shokri 2022 (strongly convex losses).
    """
    shift, stddev = check_epsilon("shift", shift), check_positive("noise_stddev", noise_stddev)
    if not 0 <= check_epsilon("contraction", contraction) <= 1:
        raise InvalidArgument(
            "contraction", contraction, "at most 1", "Steps that move iterates apart need composition: PldAccountant"
        )
    if not check_count("num_steps", num_steps) <= _MOST_STEPS:
        raise InvalidArgument("num_steps", num_steps, f"at most {_MOST_STEPS:.0e}")
    if not diameter > 0:
        raise InvalidArgument("diameter", diameter, "a number > 0")
    last = np.arange(1, num_steps + 1)
    powers = contraction ** (last - 1.0)
    lengths, squares = np.cumsum(powers), np.cumsum(powers**2)
    # Parts b_j must hide c^k D + a sum c^j in all, b_j counting c^(k - 1 - j): least squares, by Cauchy and Schwarz.
    costs = [(shift * lengths[-1]) ** 2 / squares[-1]]
    if diameter < math.inf:
        costs.append(float(((contraction**last * diameter + shift * lengths) ** 2 / squares).min()))
    # Sums of up to a million terms round by less than this.
    return float(min(costs)) / (2 * stddev**2) * (1 + 1e-9)


@dataclass(frozen=True, slots=True, kw_only=True)
class PosteriorSample:
    """The last iterate of a sampler.

    >>> settings = {"row_norm": 1.0, "prior_precision": 9.0, "num_steps": 50, "delta": 1e-5, "rng": 1}
    >>> sample = sample_posterior([[1.0], [-1.0]] * 20, [1, -1] * 20, **settings)
    >>> sample.weights.shape, sample.guarantee.epsilon < sample.composed.epsilon
    ((1,), True)

    Attributes:
        weights: The iterate.
        guarantee: What it guarantees, if it alone is published.
        composed: What composition guarantees for all iterates together.
    """

    weights: NDArray[np.float64]
    guarantee: Guarantee
    composed: Guarantee


def sample_posterior(
    rows: ArrayLike,
    signs: ArrayLike,
    *,
    row_norm: float,
    prior_precision: float,
    num_steps: int,
    delta: float,
    temperature: float = 1.0,
    rng: int | np.random.Generator,
) -> PosteriorSample:
    """Return approximately one sample from the posterior of a logistic regression, by the unadjusted Langevin
    algorithm.

    It samples from exp(-U / temperature), U(w) = sum_i log(1 + e^(-y_i <x_i, w>)) + prior_precision |w|^2 / 2. Noise of
    variance 2 lr temperature that makes descent a sampler is also what makes it private.

    >>> rows = np.random.default_rng(0).normal(size=(500, 3))
    >>> settings = {"row_norm": 1.0, "prior_precision": 20.0, "temperature": 4.0, "delta": 1e-5, "rng": 1}
    >>> sample = sample_posterior(rows, np.sign(rows[:, 0]), num_steps=400, **settings)
    >>> round(sample.guarantee.epsilon, 2), round(sample.composed.epsilon, 2)
    (0.87, 5.28)
    >>> bool(sample.weights[0] > abs(sample.weights[1:]).max())
    True

    Args:
        rows: The features. Longer rows are scaled down to ``row_norm``; values that are not finite become 0.
        signs: 1 or -1 for each row. Others become 0, and such rows take no part.
        row_norm: The largest norm of a row.
        prior_precision: One over the variance of the prior on each weight.
        num_steps: The number of steps.
        delta: The delta of the guarantees.
        temperature: A higher one means more noise: less privacy loss, and a wider posterior.
        rng: Draws the noise.

    Guarantee:
        That of `last_iterate_rho`, for the discrete sampler as it runs, however far it is from the posterior.

    Assumes:
        The number of rows is public, and one row is replaced. Only the last iterate is published (the caller's duty).
        The loss is smooth and strongly convex, and the steps short enough (checked here). Noise and sums are those of
        real numbers (not so: this is for teaching).

    References:
        Ye & Shokri 2022; Altschuler & Talwar 2022; Wang, Fienberg & Smola 2015 (posterior samples).
    """
    check_positive("row_norm", row_norm)
    precision, heat = check_positive("prior_precision", prior_precision), check_positive("temperature", temperature)
    check_count("num_steps", num_steps)
    check_delta("delta", delta)
    features, labels = _bounded(rows, signs, row_norm)
    # The logistic loss has second derivatives of at most 1/4 along <x, w>.
    smoothness = len(features) * row_norm**2 / 4 + precision
    learning_rate = 1 / (smoothness + precision)
    stddev = math.sqrt(2 * learning_rate * heat)
    generator, weights = public_generator(rng), np.zeros(features.shape[1])
    for _ in range(num_steps):
        slopes = -labels / (1 + np.exp(np.clip(labels * (features @ weights), -700, 700)))
        gradient = features.T @ slopes + precision * weights
        weights = weights - learning_rate * gradient + stddev * generator.standard_normal(len(weights))
    # A replaced row moves the gradient by at most twice its largest norm.
    hidden, composed = (
        last_iterate_rho(
            shift=learning_rate * 2 * row_norm, contraction=contraction, noise_stddev=stddev, num_steps=num_steps
        )
        for contraction in (1 - learning_rate * precision, 1.0)
    )
    return PosteriorSample(
        weights=weights,
        guarantee=_guarantee(hidden, delta, "the last iterate of Langevin sampling", _HIDDEN),
        composed=_guarantee(composed, delta, "all iterates of Langevin sampling"),
    )


def _bounded(rows: ArrayLike, signs: ArrayLike, row_norm: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return rows of bounded norm and signs; those that cannot be used are 0."""
    features, labels = np.array(rows, dtype=np.float64), np.array(signs, dtype=np.float64)
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise InvalidArgument("rows", features.shape, "a matrix, and a sign for each row")
    features[~np.isfinite(features)] = 0.0
    largest = np.abs(features).max(axis=1, initial=1e-300)
    norms = largest * np.linalg.norm(features / largest[:, None], axis=1)
    features *= np.minimum(1.0, row_norm / np.maximum(norms, 1e-300))[:, None]
    return features, np.where(np.abs(labels) == 1, labels, 0.0)


def _guarantee(rho: float, delta: float, method: str, *assumptions: str) -> Guarantee:
    accountant = ZcdpAccountant(relation=Relation.REPLACE).compose(ZeroConcentratedDPEvent(rho))
    return Guarantee(
        epsilon=accountant.epsilon(delta),
        delta=delta,
        relation=Relation.REPLACE,
        method=method,
        assumptions=(*assumptions, "the number of rows is public", _REAL),
    )
