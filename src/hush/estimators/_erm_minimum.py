"""Minima of regularised convex sums, to a gradient of a given size: no proof of privacy rests on an exact minimum."""

from __future__ import annotations

import numpy as np

from hush.estimators._erm_losses import MarginLoss
from hush.estimators._private import Floats

_HALVINGS = 30


def minimise(loss: MarginLoss, signed: Floats, *, ridge: float, tilt: Floats, tolerance: float) -> Floats:
    """Return a w where the gradient of sum_i loss(<w, x_i>) + ridge |w|^2 / 2 + <tilt, w> is at most ``tolerance``.

    ``signed`` has the rows times their labels, -1 or 1, each of norm 1 at most. Newton's steps are halved until the
    gradient shrinks (no values of the sum are compared: they round badly). Where none does, as may happen at the
    corners of a slope, a plain gradient step is taken, with a step size for which gradients never grow and converge:
    so the loop ends for all data, as long as the tolerance is far above rounding errors.
    """
    weights = np.zeros(signed.shape[1])
    steady = 1.0 / (loss.curvature * len(signed) + ridge)

    def gradient(at: Floats) -> Floats:
        found: Floats = loss.slope(signed @ at) @ signed + ridge * at + tilt
        return found

    slope = gradient(weights)
    size = float(np.linalg.norm(slope))
    while size > tolerance:
        step = np.linalg.solve(_hessian(loss, signed, weights, ridge), slope)
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
