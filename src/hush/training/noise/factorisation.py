"""The numerical work behind correlated noise: lower triangular Toeplitz matrices C, given by their first columns.

A run releases x_t + y_t, where x_t are the sums of clipped gradients and y = C^-1 z for independent noise z. This is as
private as C x + z, the Gaussian mechanism on C x, whose sensitivity follows from C. What matters for training is the
noise of the weights, A C^-1 z, where A is the workload: prefix sums, or prefix sums with momentum. From a number of
steps to coefficients:

workload     A's first column
objective    log(mean square of A C^-1 z) + log(squared sensitivity of C), with its derivatives
optimum      the coefficients that minimise it: `optimal_bands`, `optimal_buffers`
sensitivity  computed again, exactly and rounded up, from whatever coefficients are used

So the optimiser affects utility only, never privacy.

A Toeplitz matrix is a power series: products and inverses of matrices are those of the series of their first columns.
Names: r is the first column of C^-1; *taps* are the first few coefficients of a series.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, nnls
from scipy.signal import fftconvolve, lfilter
from scipy.special import expit, gammaln, logit, softmax

Array = NDArray[np.float64]
_ROUND_UP = 1 + 1e-9  # far above what double precision loses in sums of up to a million positive terms
_BINOMIAL_ERROR = 1e-8  # far above the relative error of a probability, for up to a hundred thousand turns
_BEYOND = 1e-30  # probability of numbers of turns that are not computed
_LARGEST_LOGIT = 15.0  # keeps decays below 1, in single precision too
_MAX_ITERATIONS = 200


def square_root(length: int) -> Array:
    """Return the first coefficients of (1 - x)^(-1/2), the square root of prefix sums: binomial(2 k, k) / 4^k."""
    # binomial(2 k, k) / 4^k is the product of (2 j - 1) / (2 j) over j <= k. This C has C C = A, the factorisation of
    # Fichtenberger, Henzinger & Upadhyay 2023.
    k = np.arange(1, length)
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


def inverse(taps: Array, length: int) -> Array:
    """Return the first coefficients of 1 / (taps_0 + taps_1 x + ...), by recursion. Fast for few taps."""
    # taps_0 r_k = [k = 0] - taps_1 r_(k-1) - taps_2 r_(k-2) - ..., which is an IIR filter of an impulse.
    impulse = np.zeros(length)
    impulse[0] = 1.0
    return np.asarray(lfilter([1.0], taps[:length], impulse))


def inverse_series(series: Array) -> Array:
    """Return as many coefficients of the inverse as the series has, by Newton's iteration. Fast for many."""
    result = np.array([1 / series[0]])
    while len(result) < len(series):
        # If f r = 1 up to order n, then f r (2 - f r) = 1 up to order 2 n.
        length = min(2 * len(result), len(series))
        correction = -fftconvolve(series[:length], result)[:length]
        correction[0] += 2.0
        result = fftconvolve(correction, result)[:length]
    return result


def workload(length: int, momentum: float = 0.0) -> Array:
    """Return A's first column: how far a gradient has moved the weights k steps later, at a constant learning rate."""
    return np.cumsum(momentum ** np.arange(length))


def mean_error(inverse_column: Array, momentum: float = 0.0) -> float:
    """Return the root of the mean variance, over all steps, of A C^-1 z.

    Args:
        inverse_column: The first column of C^-1.
        momentum: The optimizer's momentum, which is part of A.
    """
    length = len(inverse_column)
    noise = fftconvolve(workload(length, momentum), inverse_column)[:length]
    # Row t of the Toeplitz matrix A C^-1 has the coefficients 0 to t, so its variance is the sum of their squares.
    # Summed over the T rows, coefficient k counts T - k times.
    return math.sqrt(float(_row_shares(length) @ noise**2))


def _row_shares(length: int) -> Array:
    """Return, for each coefficient of a column, the share of the Toeplitz matrix's rows that contain it."""
    return 1 - np.arange(length) / length


def sensitivity(column: Array, separation: int, times: int) -> float:
    """Return how far C x moves at most when a record is added or removed: in Frobenius norm, rounded up.

    The record adds vectors of norm at most 1 to at most ``times`` rows of x, any two of them at least ``separation``
    rows apart. For coefficients c_0 >= c_1 >= ... >= 0 the worst case is equal vectors in the rows 0, b, 2 b, ..., so
    the result is the norm of the sum of these columns (Kalinin & Lampert 2024, Theorem 2). For other columns, the
    smallest such series above the absolute values is used instead: the norm of a sum of columns times vectors is at
    most that of the sum of the columns' absolute values, and it grows with each of them. So the result is a bound for
    any column, and exact for those of the theorem.

    Args:
        column: The first column of C.
        separation: b, the smallest distance between two rows of one record.
        times: In how many rows a record may be.
    """
    # The running maximum from the end: the smallest falling series above the absolute values.
    majorant = np.maximum.accumulate(np.abs(column)[::-1])[::-1]
    total = _sum_of_columns(majorant, separation, times)
    # fsum adds without rounding; what is left is the rounding of the squares, the sums of columns and the root.
    return math.sqrt(math.fsum(total * total)) * _ROUND_UP


def binomial_above(trials: int, rate: float) -> tuple[list[int], list[float]]:
    """Return numbers and probabilities, of sum 1, of a variable that is stochastically above Binomial(trials, rate).

    Numbers far below the mean count as the first one that is kept. Those far above, of probability below 1e-30, count
    as ``trials``, with probability 1e-30.
    """
    if rate == 1:
        return [trials], [1.0]
    reach = 12 * math.sqrt(trials * rate * (1 - rate)) + 60  # Bernstein's inequality: beyond, less than 1e-30 remains
    first, last = max(math.floor(trials * rate - reach), 0), min(math.ceil(trials * rate + reach), trials)
    numbers = np.arange(first, last + 1)
    logs = gammaln(trials + 1) - gammaln(numbers + 1) - gammaln(trials - numbers + 1)
    masses = np.exp(logs + numbers * math.log(rate) + (trials - numbers) * math.log1p(-rate))
    above = numbers > trials * rate
    # Rounded up above the mean; the rest of the probability is below it.
    masses[above] *= 1 + _BINOMIAL_ERROR
    masses[-1] += 0.0 if last == trials else _BEYOND
    masses[~above] *= (1 - masses[above].sum()) / masses[~above].sum()
    return [*numbers[:-1].tolist(), trials], masses.tolist()


def _sum_of_columns(column: Array, separation: int, times: int) -> Array:
    """Return column 0 + column b + column 2 b + ..., ``times`` of them, of the Toeplitz matrix."""
    length = len(column)
    rows = -(-length // separation)
    padded = np.zeros(rows * separation)
    padded[:length] = column
    # Entry t of the sum is c_t + c_(t-b) + c_(t-2b) + ...: cumulative sums of every b-th coefficient. Terms
    # beyond the first ``times`` are subtracted again.
    sums = np.cumsum(padded.reshape(rows, separation), axis=0)
    if times < rows:
        sums[times:] -= sums[:-times].copy()
    return sums.reshape(-1)[:length]


def _sum_of_rows(row: Array, separation: int, times: int) -> Array:
    """Apply the transpose of `_sum_of_columns`."""
    length, pad = len(row), -len(row) % separation
    padded = np.concatenate([row, np.zeros(pad)])
    return _sum_of_columns(padded[::-1], separation, times)[::-1][:length]


class NoiseObjective:
    """The loss of a factor C, with derivatives: log mean squared error plus log squared sensitivity.

    Scaling C leaves it unchanged: the error falls as the sensitivity rises.
    """

    def __init__(self, length: int, separation: int, times: int, momentum: float) -> None:
        """Take the number of steps, the pattern of a record's steps (see `sensitivity`), and the momentum."""
        self.length, self._separation, self._times = length, separation, times
        self._workload, self._row_shares = workload(length, momentum), _row_shares(length)

    def error(self, inverse_column: Array) -> tuple[float, Array, Array]:
        """Return the log mean squared error, its gradient with respect to A C^-1, and A C^-1."""
        # A C^-1 is Toeplitz with this first column.
        noise = fftconvolve(self._workload, inverse_column)[: self.length]
        error = float(self._row_shares @ noise**2)
        return math.log(error), 2 / error * self._row_shares * noise, noise

    def error_by_inverse(self, inverse_column: Array) -> tuple[float, Array]:
        """Return the log mean squared error, and its gradient with respect to C^-1."""
        value, slope, _ = self.error(inverse_column)
        return value, _correlate(slope, self._workload)

    def error_by_column(self, inverse_column: Array) -> tuple[float, Array]:
        """Return the log mean squared error, and its gradient with respect to C: d(A / C) = -(A / C) / C dC."""
        value, slope, noise = self.error(inverse_column)
        return value, -_correlate(slope, fftconvolve(noise, inverse_column)[: self.length])

    def sensitivity(self, column: Array) -> tuple[float, Array]:
        """Return the log squared sensitivity of a column that falls, and its gradient with respect to C."""
        total = _sum_of_columns(column, self._separation, self._times)
        square = float(total @ total)
        # d log |S c|^2 = 2 S^T S c / |S c|^2, for the linear map S that sums the columns.
        return math.log(square), 2 / square * _sum_of_rows(total, self._separation, self._times)


def _correlate(slope: Array, factor: Array) -> Array:
    """Return the gradient with respect to a series y, from that with respect to the product of ``factor`` and y."""
    length = len(slope)
    # The product is (f y)_t = sum_k f_(t-k) y_k, so dL/dy_k = sum_t f_(t-k) dL/d(f y)_t: a correlation.
    return np.asarray(fftconvolve(slope, factor[::-1])[length - 1 :])


def _minimum(loss: Callable[[Array], tuple[float, Array]], start: Array) -> Array:
    """Return a point where the loss is small, and no larger than at the start."""
    box = [(-_LARGEST_LOGIT, _LARGEST_LOGIT)] * len(start)
    start = np.clip(start, -_LARGEST_LOGIT, _LARGEST_LOGIT)
    options = {"maxiter": _MAX_ITERATIONS}
    point = np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=box, options=options).x)
    return point if np.isfinite(point).all() and loss(point)[0] <= loss(start)[0] else start


def optimal_bands(bands: int, objective: NoiseObjective) -> Array:
    """Return the ``bands`` coefficients c_0 = 1 >= c_1 >= ... > 0 of least loss.

    The search is over the quotients of neighbours, each in (0, 1): the coefficients fall whatever the optimiser finds.
    It starts from the square root of prefix sums.
    """
    length = objective.length
    bands = min(bands, length)
    if bands == 1:
        return np.ones(1)

    def column(logits: Array) -> Array:
        return np.concatenate([[1.0], np.cumprod(expit(logits))])

    def loss(logits: Array) -> tuple[float, Array]:
        taps = column(logits)
        padded = np.concatenate([taps, np.zeros(length - bands)])
        error, by_error = objective.error_by_column(inverse(taps, length))
        size, by_size = objective.sensitivity(padded)
        # The derivative with respect to the logarithm of a quotient is the sum over the coefficients that contain it.
        slope = ((by_error + by_size)[:bands] * taps)[::-1].cumsum()[::-1][1:]
        return error + size, slope * expit(-logits)

    k = np.arange(1, bands)
    return column(_minimum(loss, logit((2 * k - 1) / (2 * k))))


def moments(weights: Array, decays: Array, length: int) -> Array:
    """Return c_0 = 1 and c_k = sum_i weights_i decays_i^k, for k < ``length``."""
    return np.concatenate([[1.0], weights @ decays[:, None] ** np.arange(1, length)])


def optimal_buffers(buffers: int, objective: NoiseObjective, window: int | None) -> tuple[Array, Array]:
    """Return the weights p_i and decays of c_k = sum_i p_i decays_i^k that have least loss.

    The weights add up to less than c_0 = 1. So c is the moment sequence of a distribution on [0, 1), with the rest of
    its mass at 0: it falls and is log-convex, and its inverse has r_0 = 1, r_k <= 0 and a sum >= 0 (Kaluza 1928).

    With a window, the inverse is cut after that many coefficients, and the loss is that of the cut inverse. The C that
    belongs to it falls, too: within the window it is unchanged, and beyond it each difference of neighbours is a sum of
    earlier differences with weights -r_k >= 0.

    Args:
        buffers: How many series.
        objective: The loss.
        window: How many coefficients of the inverse are used; all, if None.
    """
    length = objective.length
    powers = np.arange(1, length)

    def split(point: Array) -> tuple[Array, Array]:
        return softmax(np.concatenate([[0.0], point[:buffers]]))[1:], expit(point[buffers:])

    def loss(point: Array) -> tuple[float, Array]:
        weights, decays = split(point)
        column = moments(weights, decays, length)
        value, slope = _full_loss(column, objective) if window is None else _cut_loss(column, objective, window)
        table = decays[:, None] ** powers
        by_weight = table @ slope[1:]
        by_decay = weights * (table @ (powers * slope[1:]))  # with respect to the logarithms of the decays
        # The softmax has the derivative dp_i / dl_j = p_i ([i = j] - p_j).
        by_logit = weights * (by_weight - weights @ by_weight)
        return value, np.concatenate([by_logit, by_decay * (1 - decays)])

    weights, decays = split(_minimum(loss, _start(buffers, length)))
    return weights, decays


def _full_loss(column: Array, objective: NoiseObjective) -> tuple[float, Array]:
    """Return the loss of the factor with this column, and its gradient."""
    error, by_error = objective.error_by_column(inverse_series(column))
    size, by_size = objective.sensitivity(column)
    return error + size, by_error + by_size


def _cut_loss(column: Array, objective: NoiseObjective, window: int) -> tuple[float, Array]:
    """Return the loss of the factor whose inverse is that of ``column``, cut after ``window``; and its gradient."""
    length = objective.length
    # The first coefficients of an inverse depend on the first coefficients of the column only.
    cut = inverse_series(column[:window])
    taps = np.concatenate([cut, np.zeros(length - len(cut))])
    cut_column = inverse(cut, length)
    error, slope = objective.error_by_inverse(taps)
    size, by_size = objective.sensitivity(cut_column)
    # The chain rule through two inverses: d(1 / r) = -(1 / r)^2 dr, first to the cut inverse, then to the column.
    slope = slope - _correlate(by_size, fftconvolve(cut_column, cut_column)[:length])
    square = fftconvolve(cut, cut)[: len(cut)]
    by_column = np.zeros(length)
    by_column[: len(cut)] = -_correlate(slope[: len(cut)], square)
    return error + size, by_column


def _start(buffers: int, length: int) -> Array:
    """Return where the optimiser starts: decays over two to ``length`` steps, and weights fitted to the square root."""
    # (1 - x)^(-1/2) is a mixture of geometric series with all time constants; these cover those that matter.
    decays = 1 - np.geomspace(0.5, min(1 / length, 0.25), buffers)
    lags = np.unique(np.geomspace(1, max(length - 1, 1), 100).astype(int))
    scale = square_root(int(lags[-1]) + 1)[lags]
    # Non-negative least squares for relative errors: the tail counts as much as the beginning.
    weights, _ = nnls((decays[None, :] ** lags[:, None]) / scale[:, None], np.ones(len(lags)))
    # Inside of the domain: the softmax needs weights above 0 whose sum is below 1.
    weights = np.maximum(weights, 1e-3)
    weights *= min(1.0, 0.95 / weights.sum())
    return np.concatenate([np.log(weights / (1 - weights.sum())), logit(decays)])
