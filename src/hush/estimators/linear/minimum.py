"""Minimisers of regularised convex sums, up to a gradient of a given size.

No privacy proof in this package assumes an exact minimum. The ridge bounds how far a point with a small gradient is
from the exact minimum, and noise masks that distance (`hush.estimators.linear.noise.mask_error`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import softmax

from hush.estimators.base.estimator import Floats
from hush.estimators.linear.losses import MarginLoss

_MAX_HALVINGS = 30


def minimise(loss: MarginLoss, signed: Floats, *, ridge: float, tilt: Floats, tolerance: float) -> Floats:
    """Return a w at which the gradient of sum_i loss(<w, x_i>) + ridge |w|^2 / 2 + <tilt, w> is at most ``tolerance``.

    Newton steps are halved until the gradient shrinks. Values of the sum are never compared, because they round badly.
    Where no halving helps, as may happen at the corners of a slope, a plain gradient step is taken with a rate at which
    gradients never grow and converge. So the loop ends for any data, as long as the tolerance is well above rounding
    errors.

    Args:
        loss: Loss of a margin.
        signed: Rows times their labels -1 or 1, of norm at most 1.
        ridge: Regularisation, above 0.
        tilt: Linear term: the noise of objective perturbation, or zeros.
        tolerance: Norm of the gradient at which to stop.
    """
    # Inverse of a bound on the curvature of the sum: gradient steps at this rate contract.
    safe_rate = 1.0 / (loss.curvature * len(signed) + ridge)

    def gradient(weights: Floats) -> Floats:
        # sum_i loss'(<w, y_i x_i>) y_i x_i + ridge w + tilt.
        total: Floats = loss.slope(signed @ weights) @ signed + ridge * weights + tilt
        return total

    def newton(weights: Floats, slope: Floats) -> Floats:
        return np.asarray(np.linalg.solve(_hessian(loss, signed, weights, ridge), slope))

    return _descend(np.zeros(signed.shape[1]), gradient, newton, safe_rate=safe_rate, tolerance=tolerance)


def minimise_jointly(
    rows: Floats, one_hot: Floats, basis: Floats, *, ridge: float, tilt: Floats, tolerance: float
) -> Floats:
    """Return a V with a gradient of at most ``tolerance`` of the sum of cross entropies + ridge |V|^2 / 2 + <tilt, V>.

    Like `minimise`, but Newton steps are computed by conjugate gradients, since the full Hessian is too large.

    Args:
        rows: Rows, of norm at most 1.
        one_hot: A 1 at the class of each row.
        basis: Orthonormal rows; the weights of the classes are ``basis.T @ V``.
        ridge: Regularisation, above 0.
        tilt: Linear term, of the shape of V.
        tolerance: Norm of the gradient at which to stop.
    """
    # The Hessian of a cross entropy, diag(p) - p p', has norm at most 1/2.
    safe_rate, shape = 1.0 / (0.5 * len(rows) + ridge), tilt.shape

    def gradient(weights: Floats) -> Floats:
        residuals = softmax(rows @ weights.reshape(shape).T @ basis, axis=1) - one_hot
        return np.asarray((basis @ residuals.T @ rows + tilt).ravel() + ridge * weights)

    def newton(weights: Floats, slope: Floats) -> Floats:
        probabilities = softmax(rows @ weights.reshape(shape).T @ basis, axis=1)

        def hessian_product(direction: Floats) -> Floats:
            # The Hessian of a cross entropy is diag(p) - p p', in the space of the scores.
            changes = probabilities * (rows @ direction.reshape(shape).T @ basis)
            changes = changes - probabilities * changes.sum(axis=1, keepdims=True)
            return np.asarray((basis @ changes.T @ rows).ravel() + ridge * direction)

        operator = LinearOperator((slope.size, slope.size), matvec=hessian_product, dtype=np.float64)
        # A rough solution is enough: `_descend` checks that the gradient shrinks.
        return np.asarray(cg(operator, slope, rtol=1e-3, maxiter=200)[0])

    return _descend(np.zeros(tilt.size), gradient, newton, safe_rate=safe_rate, tolerance=tolerance).reshape(shape)


def _descend(
    weights: Floats,
    gradient: Callable[[Floats], Floats],
    newton: Callable[[Floats, Floats], Floats],
    *,
    safe_rate: float,
    tolerance: float,
) -> Floats:
    """Take Newton steps, or safe gradient steps where these fail, until the gradient is small."""
    slope = gradient(weights)
    size = float(np.linalg.norm(slope))
    while size > tolerance:
        step = newton(weights, slope)
        for halving in range(_MAX_HALVINGS):
            trial = weights - step * 0.5**halving
            trial_slope = gradient(trial)
            trial_size = float(np.linalg.norm(trial_slope))
            # Armijo-like: demand a decrease in proportion to the step.
            if trial_size <= size * (1 - 0.1 * 0.5**halving):
                break
        else:
            # The curvature lies between ridge and L. A step at the rate 1 / L shrinks the gradient by 1 - ridge / L.
            trial = weights - safe_rate * slope
            trial_slope = gradient(trial)
            trial_size = float(np.linalg.norm(trial_slope))
        weights, slope, size = trial, trial_slope, trial_size
    return weights


def _hessian(loss: MarginLoss, signed: Floats, weights: Floats, ridge: float) -> Floats:
    second_derivatives = loss.second_derivative(signed @ weights)
    # sum_i loss''(m_i) x_i x_i' + ridge I; the signs cancel.
    hessian: Floats = (signed * second_derivatives[:, None]).T @ signed
    hessian[np.diag_indices_from(hessian)] += ridge
    return hessian
