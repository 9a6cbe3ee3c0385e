"""Factors for correlated noise: lower triangular Toeplitz matrices C, given by their first columns.

A run releases x_t + y_t, where x_t are sums of clipped gradients and y = C^-1 z for independent noise z: as private as
C x + z, the Gaussian mechanism on C x. What matters for training are the sums of the first t gradients, whose noise is
A C^-1 z for the matrix A of prefix sums. Its mean square, times the squared sensitivity of C, is what `optimal_bands`
and `optimal_buffers` make small. They decide how useful a factor is, never how private: `sensitivity` is computed from
whatever coefficients are used.

A Toeplitz matrix is a power series: products and inverses of matrices are those of the series of their first columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, nnls
from scipy.signal import fftconvolve, lfilter
from scipy.special import expit, logit, softmax

Array = NDArray[np.float64]
_ROUND_UP = 1 + 1e-9  # far above what double precision loses in sums of up to a million positive terms
_LARGEST_LOGIT = 15.0  # decays stay below 1 in single precision, too
_MOST_ITERATIONS = 200


def square_root(length: int) -> Array:
    """Return the first coefficients of (1 - x)^(-1/2), the square root of prefix sums: binomial(2 k, k) / 4^k."""
    k = np.arange(1, length)
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


def inverse(taps: Array, length: int) -> Array:
    """Return the first coefficients of 1 / (taps_0 + taps_1 x + ...), one after the other; for few taps."""
    impulse = np.zeros(length)
    impulse[0] = 1.0
    return np.asarray(lfilter([1.0], taps[:length], impulse))


def inverse_series(series: Array) -> Array:
    """Return as many coefficients of the inverse as there are of the series, by Newton's iteration."""
    result = np.array([1 / series[0]])
    while len(result) < len(series):
        length = min(2 * len(result), len(series))
        rest = -fftconvolve(series[:length], result)[:length]
        rest[0] += 2.0
        result = fftconvolve(rest, result)[:length]
    return result


def workload(length: int, momentum: float = 0.0) -> Array:
    """Return the first column of A: how the weights move by a gradient, k steps later, at a constant learning rate."""
    return np.cumsum(momentum ** np.arange(length))


def mean_error(inverse_column: Array, momentum: float = 0.0) -> float:
    """Return the root of the mean over steps of the variance of A C^-1 z."""
    length = len(inverse_column)
    noise = fftconvolve(workload(length, momentum), inverse_column)[:length]
    return math.sqrt(float(_weights(length) @ noise**2))


def _weights(length: int) -> Array:
    """Return in what share of the rows of a Toeplitz matrix each coefficient of its first column is."""
    return 1 - np.arange(length) / length


def sensitivity(column: Array, separation: int, times: int) -> float:
    """Return how far C x moves, at most, when one record comes or goes: in Frobenius norm, rounded up.

    The record adds vectors of norm at most 1 to at most ``times`` rows of x, any two of them at least ``separation``
    apart. For coefficients c_0 >= c_1 >= ... >= 0 the worst are equal vectors in the rows 0, b, 2 b, ..., so that the
    result is the norm of the sum of these columns (Kalinin & Lampert 2024, Theorem 2). Otherwise the least such series
    above the absolute values takes their place: the norm of a sum of columns times vectors is at most that of the sum
    of absolute columns, which is monotone in every entry. So the result is an upper bound for any coefficients, and
    exact for those of the theorem.
    """
    majorant = np.maximum.accumulate(np.abs(column)[::-1])[::-1]
    total = _sum_of_columns(majorant, separation, times)
    return math.sqrt(math.fsum(total * total)) * _ROUND_UP


def _sum_of_columns(column: Array, separation: int, times: int) -> Array:
    """Return column 0 + column b + column 2 b + ... of the Toeplitz matrix."""
    length = len(column)
    rows = -(-length // separation)
    padded = np.zeros(rows * separation)
    padded[:length] = column
    sums = np.cumsum(padded.reshape(rows, separation), axis=0)
    if times < rows:
        sums[times:] -= sums[:-times].copy()
    return sums.reshape(-1)[:length]


def _sum_of_rows(row: Array, separation: int, times: int) -> Array:
    """Return the transpose of `_sum_of_columns`."""
    length, pad = len(row), -len(row) % separation
    padded = np.concatenate([row, np.zeros(pad)])
    return _sum_of_columns(padded[::-1], separation, times)[::-1][:length]


class NoiseObjective:
    """The logarithm of what is to be small, and its derivatives: mean squared error times squared sensitivity."""

    def __init__(self, length: int, separation: int, times: int, momentum: float) -> None:
        """Take the number of steps, in which of them a record may be, and the workload."""
        self.length, self._separation, self._times = length, separation, times
        self._workload, self._weights = workload(length, momentum), _weights(length)

    def error(self, inverse_column: Array) -> tuple[float, Array, Array]:
        """Return the logarithm of the error, its gradient by A C^-1, and A C^-1."""
        noise = fftconvolve(self._workload, inverse_column)[: self.length]
        error = float(self._weights @ noise**2)
        return math.log(error), 2 / error * self._weights * noise, noise

    def error_by_inverse(self, inverse_column: Array) -> tuple[float, Array]:
        """Return the logarithm of the error, and its gradient by C^-1."""
        value, slope, _ = self.error(inverse_column)
        return value, _correlate(slope, self._workload)

    def error_by_column(self, inverse_column: Array) -> tuple[float, Array]:
        """Return the logarithm of the error, and its gradient by C: the differential of A / C is -(A / C) / C dC."""
        value, slope, noise = self.error(inverse_column)
        return value, -_correlate(slope, fftconvolve(noise, inverse_column)[: self.length])

    def sensitivity(self, column: Array) -> tuple[float, Array]:
        """Return the logarithm of the squared sensitivity, for falling coefficients, and its gradient by C."""
        total = _sum_of_columns(column, self._separation, self._times)
        square = float(total @ total)
        return math.log(square), 2 / square * _sum_of_rows(total, self._separation, self._times)


def _correlate(slope: Array, factor: Array) -> Array:
    """Return the gradient by the series y, where that by the product x y is ``slope`` and x is ``factor``."""
    length = len(slope)
    return np.asarray(fftconvolve(slope, factor[::-1])[length - 1 :])


def _minimum(loss: Callable[[Array], tuple[float, Array]], start: Array) -> Array:
    """Return where the loss is smallest, or the start, if nothing better was found."""
    box = [(-_LARGEST_LOGIT, _LARGEST_LOGIT)] * len(start)
    start = np.clip(start, -_LARGEST_LOGIT, _LARGEST_LOGIT)
    options = {"maxiter": _MOST_ITERATIONS}
    found = np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=box, options=options).x)
    return found if np.isfinite(found).all() and loss(found)[0] <= loss(start)[0] else start


def optimal_bands(bands: int, objective: NoiseObjective) -> Array:
    """Return c_0 = 1 >= c_1 >= ... > 0, as many as there are bands; started from the square root's.

    In terms of the quotients of neighbours, each in (0, 1), so that the coefficients fall whatever the optimiser finds.
    """
    length = objective.length
    bands = min(bands, length)
    if bands == 1:
        return np.ones(1)

    def column(place: Array) -> Array:
        return np.concatenate([[1.0], np.cumprod(expit(place))])

    def loss(place: Array) -> tuple[float, Array]:
        taps = column(place)
        padded = np.concatenate([taps, np.zeros(length - bands)])
        error, by_error = objective.error_by_column(inverse(taps, length))
        size, by_size = objective.sensitivity(padded)
        slope = ((by_error + by_size)[:bands] * taps)[::-1].cumsum()[::-1][1:]  # by the logarithms of the quotients
        return error + size, slope * expit(-place)

    k = np.arange(1, bands)
    return column(_minimum(loss, logit((2 * k - 1) / (2 * k))))


def moments(weights: Array, decays: Array, length: int) -> Array:
    """Return c_0 = 1 and c_k = sum_i weights_i decays_i^k."""
    return np.concatenate([[1.0], weights @ decays[:, None] ** np.arange(1, length)])


def optimal_buffers(buffers: int, objective: NoiseObjective, window: int | None) -> tuple[Array, Array]:
    """Return the weights p_i and decays of c_k = sum_i p_i decays_i^k; the weights add up to less than c_0 = 1.

    So c is the moment sequence of a distribution on [0, 1), with the rest of its mass at 0: it falls and is log-convex,
    so that the inverse is r_0 = 1 and r_k <= 0, of sum >= 0 (Kaluza 1928). With a window, the inverse is cut after that
    many coefficients, and the objective is that of the cut one. Its inverse C falls, too: before the window's end it is
    what it was, and from there on each difference of neighbours is a sum of earlier ones with weights -r_k >= 0.
    """
    length = objective.length
    powers = np.arange(1, length)

    def split(place: Array) -> tuple[Array, Array]:
        return softmax(np.concatenate([[0.0], place[:buffers]]))[1:], expit(place[buffers:])

    def loss(place: Array) -> tuple[float, Array]:
        weights, decays = split(place)
        column = moments(weights, decays, length)
        value, slope = _whole(column, objective) if window is None else _cut(column, objective, window)
        table = decays[:, None] ** powers
        by_weight = table @ slope[1:]
        by_decay = weights * (table @ (powers * slope[1:]))  # by the logarithms of the decays
        by_logit = weights * (by_weight - weights @ by_weight)
        return value, np.concatenate([by_logit, by_decay * (1 - decays)])

    weights, decays = split(_minimum(loss, _start(buffers, length)))
    return weights, decays


def _whole(column: Array, objective: NoiseObjective) -> tuple[float, Array]:
    error, by_error = objective.error_by_column(inverse_series(column))
    size, by_size = objective.sensitivity(column)
    return error + size, by_error + by_size


def _cut(column: Array, objective: NoiseObjective, window: int) -> tuple[float, Array]:
    """Return the loss of the factor whose inverse is cut, and its gradient by the column before."""
    length = objective.length
    before = inverse_series(column[:window])
    taps = np.concatenate([before, np.zeros(length - len(before))])
    after = inverse(before, length)
    error, slope = objective.error_by_inverse(taps)
    size, by_size = objective.sensitivity(after)
    # Of an inverse, twice: the differential of 1 / r is -(1 / r)^2 dr.
    slope = slope - _correlate(by_size, fftconvolve(after, after)[:length])
    square = fftconvolve(before, before)[: len(before)]
    by_column = np.zeros(length)
    by_column[: len(before)] = -_correlate(slope[: len(before)], square)
    return error + size, by_column


def _start(buffers: int, length: int) -> Array:
    """Return where the optimiser begins: decays at times between two steps and all, weights fitted to square roots."""
    decays = 1 - np.geomspace(0.5, min(1 / length, 0.25), buffers)
    places = np.unique(np.geomspace(1, max(length - 1, 1), 100).astype(int))
    scale = square_root(int(places[-1]) + 1)[places]
    weights, _ = nnls((decays[None, :] ** places[:, None]) / scale[:, None], np.ones(len(places)))
    weights = np.maximum(weights, 1e-3)
    weights *= min(1.0, 0.95 / weights.sum())
    return np.concatenate([np.log(weights / (1 - weights.sum())), logit(decays)])
