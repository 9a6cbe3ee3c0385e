"""Minima of regularised convex sums, to a gradient of a given size: no proof of privacy rests on an exact minimum."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import softmax

from hush.estimators.base.estimator import Floats
from hush.estimators.linear.losses import MarginLoss

_HALVINGS = 30


def minimise(loss: MarginLoss, signed: Floats, *, ridge: float, tilt: Floats, tolerance: float) -> Floats:
    """Return a w where the gradient of sum_i loss(<w, x_i>) + ridge |w|^2 / 2 + <tilt, w> is at most ``tolerance``.

    ``signed`` has the rows times their labels, -1 or 1, each of norm 1 at most. Newton's steps are halved until the
    gradient shrinks (no values of the sum are compared: they round badly). Where none does, as may happen at the
    corners of a slope, a plain gradient step is taken, with a step size for which gradients never grow and converge:
    so the loop ends for all data, as long as the tolerance is far above rounding errors.
    """
    steady = 1.0 / (loss.curvature * len(signed) + ridge)

    def gradient(at: Floats) -> Floats:
        found: Floats = loss.slope(signed @ at) @ signed + ridge * at + tilt
        return found

    def newton(at: Floats, slope: Floats) -> Floats:
        return np.asarray(np.linalg.solve(_hessian(loss, signed, at, ridge), slope))

    return _descend(np.zeros(signed.shape[1]), gradient, newton, steady=steady, tolerance=tolerance)


def minimise_jointly(
    rows: Floats, chosen: Floats, basis: Floats, *, ridge: float, tilt: Floats, tolerance: float
) -> Floats:
    """Return a V where the gradient of the sum of cross entropies + ridge |V|^2 / 2 + <tilt, V> is at most so large.

    The classes' weights are ``basis.T @ V``; ``chosen`` has a 1 at each row's class. As `minimise`, with Newton's steps
    by conjugate gradients: the matrix of all second derivatives is too large.
    """
    steady, shape = 1.0 / (0.5 * len(rows) + ridge), tilt.shape

    def gradient(at: Floats) -> Floats:
        off = softmax(rows @ at.reshape(shape).T @ basis, axis=1) - chosen
        return np.asarray((basis @ off.T @ rows + tilt).ravel() + ridge * at)

    def newton(at: Floats, slope: Floats) -> Floats:
        shares = softmax(rows @ at.reshape(shape).T @ basis, axis=1)

        def curve(way: Floats) -> Floats:
            moved = shares * (rows @ way.reshape(shape).T @ basis)
            moved = moved - shares * moved.sum(axis=1, keepdims=True)
            return np.asarray((basis @ moved.T @ rows).ravel() + ridge * way)

        operator = LinearOperator((slope.size, slope.size), matvec=curve, dtype=np.float64)
        return np.asarray(cg(operator, slope, rtol=1e-3, maxiter=200)[0])

    return _descend(np.zeros(tilt.size), gradient, newton, steady=steady, tolerance=tolerance).reshape(shape)


def _descend(
    weights: Floats,
    gradient: Callable[[Floats], Floats],
    newton: Callable[[Floats, Floats], Floats],
    *,
    steady: float,
    tolerance: float,
) -> Floats:
    slope = gradient(weights)
    size = float(np.linalg.norm(slope))
    while size > tolerance:
        step = newton(weights, slope)
        for halving in range(_HALVINGS):
            trial = weights - step * 0.5**halving
            changed = gradient(trial)
            found = float(np.linalg.norm(changed))
            if found <= size * (1 - 0.1 * 0.5**halving):
                break
        else:
            trial = weights - steady * slope
            changed = gradient(trial)
            found = float(np.linalg.norm(changed))
        weights, slope, size = trial, changed, found
    return weights


def _hessian(loss: MarginLoss, signed: Floats, weights: Floats, ridge: float) -> Floats:
    bends = loss.bend(signed @ weights)
    hessian: Floats = (signed * bends[:, None]).T @ signed
    hessian[np.diag_indices_from(hessian)] += ridge
    return hessian
