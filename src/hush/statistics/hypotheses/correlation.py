"""A test of correlation between two bounded columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument
from hush.numerics import quiet_numpy
from hush.randomness import RandomSource
from hush.statistics.columns import as_floats
from hush.statistics.hypotheses.means import public_bounds
from hush.statistics.hypotheses.release import NoisyTotals, ReleaseTerms
from hush.statistics.hypotheses.result import HypothesisResult
from hush.statistics.hypotheses.simulation import NoiseModel, RowValues, p_value, totals_of
from hush.statistics.moments import unit_weights
from hush.statistics.noise.release import NoiseKind

Floats = NDArray[np.float64]

_FURTHER = 1.5  # standard deviations of the noise by which variances are moved
_SEEN = 2.0  # standard deviations of the noise by which the number of rows must exceed 0
_STEP_BITS = 30


@quiet_numpy
def correlation(
    first: Any,
    second: Any,
    *,
    first_bounds: tuple[float, float],
    second_bounds: tuple[float, float],
    units: Any,
    epsilon: float,
    delta: float = 0.0,
    noise: NoiseKind | None = None,
    num_simulations: int = 9_999,
    source: RandomSource | None = None,
    budget: Budget | None = None,
) -> HypothesisResult:
    """Test whether two numeric columns are independent, by their correlation.

    Each unit counts once: by one random row of those that can be used. The statistic is the squared covariance, so the
    test finds linear dependence only. The estimate is Pearson's correlation of the clamped values. It has no interval:
    the variance of a correlation depends on moments of the fourth order of both columns together (Steiger & Hakstian
    1982), such as that of x^3 y. The release has those of x^2 y^2 at most, and further moments would need more noise in
    all of them. Fisher's transformation takes the columns to be normal, which clamped values are not.

    >>> from hush.randomness import TestSource
    >>> from hush.statistics import EachRow
    >>> hours, marks = list(range(20)) * 50, [value + value % 7 for value in range(20)] * 50
    >>> test = correlation(hours, marks, first_bounds=(0, 20), second_bounds=(0, 30), units=EachRow(), epsilon=1.0,
    ...                    source=TestSource(1))
    >>> test.p_value, 0.8 < test.estimate < 1
    (0.0001, True)

    Args:
        first: A column of numbers. Rows where either number is missing are left out.
        second: Another column of the same rows.
        first_bounds: The public range of the first column.
        second_bounds: The public range of the second column.
        units: The id of the person behind each row; `EachRow()` if each row is about a different person.
        epsilon: The cost of the test.
        delta: The delta for Gaussian noise.
        noise: The kind of noise; None for the kind with the smaller error.
        num_simulations: How many datasets to simulate under the hypothesis. No p-value is below one over it.
        source: The source of all randomness; by default the operating system.
        budget: A budget to charge, such as one of a ledger. It is charged before totals are computed.

    Guarantee:
        (epsilon, delta)-differential privacy for all rows of one unit (delta = 0 with Laplace noise); whatever is
        computed from the noisy totals costs nothing more.

    Assumes:
        Each person has exactly one id (the caller's duty). The bounds are public (the caller's duty). For the p-value:
        units are independent, and were not chosen by looking at the data (the caller's duty). The p-value is simulated
        from independent columns with the means and variances that were estimated; its level is measured, not proven
        (``reproductions/hypothesis_tests.py``). Columns that are uncorrelated, but not independent, are rejected too
        often (the caller's duty): with a scale that is common to both, in 13.5 % of experiments at 5 %.

    References:
        Gaboardi, Lim, Rogers & Vadhan 2016, and Ferrando, Wang & Sheldon 2022 (simulating the hypothesis with the
        noise); Berger & Boos 1994 (the largest over nuisances). The release is that of the nine products of the weights
        of `hush.statistics.moments`.
    """
    terms = ReleaseTerms(
        units=units,
        epsilon=epsilon,
        delta=delta,
        noise=noise,
        confidence=0.95,
        num_simulations=num_simulations,
        source=source,
        budget=budget,
    )
    limits = public_bounds(first_bounds, "first_bounds"), public_bounds(second_bounds, "second_bounds")
    columns = as_floats("first", first), as_floats("second", second)
    if len(columns[0]) != len(columns[1]):
        raise InvalidArgument("second", type(second).__name__, "as many rows as the first column")
    request = terms.request(columns[0])
    present = ~np.isnan(columns[0]) & ~np.isnan(columns[1])
    # Products of two integer weights: each side has the square root of the steps.
    side = 1 << min(_STEP_BITS, request.steps().bit_length() - 1) // 2
    sides = [
        unit_weights(np.where(present, column, ends[0]), ends, side, degree=2)
        for column, ends in zip(columns, limits, strict=True)
    ]
    weights = (sides[0][:, :, None] * sides[1][:, None, :]).reshape(len(present), 9)
    noisy = terms.release(request, present, weights, side * side, "correlation")
    return _tested(noisy)


def _tested(noisy: NoisyTotals) -> HypothesisResult:
    products, variance = noisy.totals.reshape(3, 3), noisy.noise.variance
    size = products.sum()
    is_hidden = bool(size <= _SEEN * 3 * np.sqrt(variance))
    statistic, estimate = (float(number) for number in correlation_statistic(products, variance))
    nulls = (_draws(model, noisy.noise) for model in _models(products, variance))
    p = 1.0 if is_hidden else p_value(statistic, nulls, noisy.draws, noisy.rng, num_totals=noisy.totals.size)
    return noisy.result(
        "the two columns are independent",
        p,
        statistic,
        is_hidden=is_hidden,
        interval=(0.0 if is_hidden else estimate, None, None),
    )


def correlation_statistic(products: Floats, noise_variance: float) -> tuple[Floats, Floats]:
    """Return the squared covariance in units of its variance under independence, and the correlation.

    Args:
        products: Totals of the products of weights, an array (..., 3, 3).
        noise_variance: The variance of the noise on each of them.
    """
    size = np.maximum(products.sum((-1, -2)), 1.0)
    centres, variances = _margins(products, size)
    coefficients = np.array([0.0, 0.5, 1.0]) - centres[..., None]  # of s - centre: [..., column, weight]
    covariance = np.einsum("...ij,...i,...j->...", products, coefficients[..., 0, :], coefficients[..., 1, :])
    spread = size * variances.prod(-1)
    noise = noise_variance * np.square(coefficients).sum(-1).prod(-1)
    root = np.maximum(size * np.sqrt(variances.prod(-1)), 1e-9)
    return covariance**2 / (spread + noise + 1e-9), np.clip(covariance / root, -1.0, 1.0)


def _margins(products: Floats, size: Floats) -> tuple[Floats, Floats]:
    """Return the means and the variances of both columns: arrays (..., 2)."""
    sums = np.stack([products.sum(-1), products.sum(-2)], axis=-2) / size[..., None, None]
    centres = np.clip(sums @ np.array([0.0, 0.5, 1.0]), 0.0, 1.0)
    squares = np.stack([centres**2, centres**2 - centres, (1 - centres) ** 2], axis=-1)
    return centres, np.clip((sums * squares).sum(-1), 0.0, centres * (1 - centres))


def _models(products: Floats, noise_variance: float) -> Iterator[tuple[int, RowValues, RowValues]]:
    """Yield independent columns: their variances as they seem, and larger; fewer rows, and more."""
    size = np.maximum(products.sum(), 1.0)
    centres, variances = _margins(products, size)
    for drift in (0.0, _FURTHER):
        moved = variances + drift * np.sqrt(1.5 * noise_variance) / size
        first, second = (RowValues.beta(float(mean), float(value)) for mean, value in zip(centres, moved, strict=True))
        yield round(float(size)), first, second


def _draws(model: tuple[int, RowValues, RowValues], noise: NoiseModel) -> Callable[[int, np.random.Generator], Floats]:
    size, first, second = model
    chances = np.outer(first.chances, second.chances).ravel()
    weights = np.einsum("ia,jb->ijab", first.weights(3), second.weights(3)).reshape(len(chances), 9)

    def draw(draws: int, rng: np.random.Generator) -> Floats:
        totals = totals_of(size, chances / chances.sum(), weights, draws, rng)
        noisy = (totals + noise.draw(totals.shape, rng)).reshape(draws, 3, 3)
        return correlation_statistic(noisy, noise.variance)[0]

    return draw
