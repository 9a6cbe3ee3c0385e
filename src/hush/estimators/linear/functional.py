"""The functional mechanism: noise on the coefficients of a polynomial that is minimised afterwards."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting import ApproximateDPEvent, Event, SelfComposedEvent
from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, Unsupported, check_positive
from hush.estimators.base.bounds import LearnBounds, check_norm, fitted_norm, norm_costs, with_norm
from hush.estimators.base.estimator import Floats, PrivateEstimator, planned
from hush.estimators.base.networks import check_target_bounds
from hush.estimators.linear.losses import LogisticLoss
from hush.estimators.linear.method import LinearMethod, LinearRecipe, Places, Problem, signs
from hush.estimators.linear.sums import MOST_ROWS, clipped, exact_products, truncated
from hush.mechanisms import Laplace
from hush.numerics import down, silent
from hush.randomness import RandomSource

_SLACK = 1e-7  # sums are exact; what their conversion to floats rounds is far below


@dataclass(frozen=True, slots=True, kw_only=True)
class Quadratic:
    """The sum over records of constant + linear t <x, w> + square <x, w>^2, for |x| <= 1 and |t| <= 1.

    Attributes:
        linear: A factor, of which the size counts.
        square: A factor > 0.
    """

    linear: float
    square: float

    def reach(self, dimension: int) -> float:
        """Return by how much one record moves all coefficients together, in L1 norm: |x|_1 <= sqrt(d) |x|_2."""
        return abs(self.linear) * math.sqrt(dimension) + self.square * dimension

    def minimum(self, rows: Floats, targets: Floats, *, epsilon: float, ridge: float, source: RandomSource) -> Floats:
        """Return where the polynomial with noisy coefficients is smallest, where it has a minimum."""
        rows, size = truncated(rows), rows.shape[1]
        slopes = self.linear * exact_products(truncated(targets[:, None]), rows)[0]
        squares = self.square * exact_products(rows, rows)
        upper = np.triu_indices(size)
        doubled = np.where(upper[0] == upper[1], 1.0, 2.0)  # the coefficient of w_j w_k has both halves
        values = np.concatenate([slopes, squares[upper] * doubled])
        mechanism = Laplace(epsilon=epsilon, sensitivity=self.reach(size) + _SLACK, size=values.size)
        noisy = mechanism.release(values, source).value
        matrix = np.zeros((size, size))
        matrix[upper] = noisy[size:] / doubled
        matrix = matrix + np.triu(matrix, 1).T
        # Zhang et al. 2012, Section 6: four standard deviations on the diagonal, then only what is convex.
        lift = 4 * math.sqrt(2) * mechanism.noise_scale + ridge / 2
        sizes, directions = np.linalg.eigh(matrix + lift * np.eye(size))
        kept = sizes > 0
        turned = directions[:, kept].T @ noisy[:size]
        return np.asarray(-0.5 * directions[:, kept] @ (turned / sizes[kept]))


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionalMechanism(LinearMethod):
    """Logistic regression by its second-order polynomial, with Laplace noise on the coefficients.

    Choose it for few features (noise grows with the square of their number) where the same noisy coefficients are to
    serve for more than one fit; else `ObjectivePerturbation` is better. Delta is not used.

    Guarantee:
        epsilon-DP, add or remove: everything is computed from the noisy coefficients.

    Assumes:
        Rows have norm at most 1 (checked here: they are clipped). Sums are exact in fixed point (checked here).

    References:
        Zhang et al. 2012, Algorithm 2 and Sections 5 and 6; with the sensitivity of rows of norm 1 under add or remove,
        sqrt(d) / 2 + d / 8, in the place of their d^2 / 4 + 3 d.
    """

    def prepare(self, problem: Problem) -> LinearRecipe:
        """Refuse other losses than the logistic one, whose polynomial this is."""
        if not isinstance(problem.loss, LogisticLoss):
            raise Unsupported("FunctionalMechanism: the hinge has no polynomial", "Use ObjectivePerturbation()")
        return _Functional(problem=problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Functional(LinearRecipe):
    problem: Problem

    @property
    def event(self) -> Event:
        claim = ApproximateDPEvent(self.problem.share()[0])
        return claim if self.problem.outputs == 1 else SelfComposedEvent(claim, self.problem.outputs)

    def run(self, rows: Floats, places: Places, source: RandomSource) -> Floats:
        labels, shape = signs(places, self.problem.outputs), Quadratic(linear=-0.5, square=0.125)
        epsilon, ridge = down(self.problem.share()[0]), self.problem.regularization or 0.0
        each = [shape.minimum(rows, column, epsilon=epsilon, ridge=ridge, source=source) for column in labels.T]
        return np.stack(each)


class FunctionalRegression(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """Linear regression by noisy coefficients of the sum of squared errors.

    Choose `PrivateLinearRegression` instead where a delta > 0 is acceptable: this is for delta = 0 and few features.

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> X = np.linspace(-1, 1, 20_000)[:, None]
    >>> model = FunctionalRegression(epsilon=1.0, data_norm=1.0, target_bounds=(-1, 1), source=TestSource(1))
    >>> model.fit(X, 0.7 * X[:, 0]).score(X, 0.7 * X[:, 0]) > 0.98
    True

    Guarantee:
        epsilon-differential privacy, add or remove.

    Assumes:
        ``data_norm`` and ``target_bounds`` are public (the caller's duty); rows are scaled down and targets clamped,
        those with NaN are left out (checked here).

    References:
        Zhang et al. 2012, Algorithm 1 and Section 6; sensitivity 2 sqrt(d) + d, of rows and targets of norm 1, under
        add or remove.

    Args:
        epsilon: Of the guarantee.
        data_norm: A public bound on the L2 norm of rows, or `LearnBounds`.
        target_bounds: (lower, upper), public.
        regularization: Half of it times the squared norm of the weights is added to the sum.
        fit_intercept: Whether there is one. It is bounded and regularised like a weight.
        budget: What fits are charged to.
        source: Of noise, for tests.

    Attributes:
        coef_: Weights.
        intercept_: The constant term.
        data_norm_: What rows were scaled down to: ``data_norm``, or what was learned.
        n_features_in_: How many features there are.
        feature_names_in_: Their names, where X has some.
        guarantee_: What fit gave away.
        event_: The same for accountants.
    """

    delta = 0.0

    _most_rows = MOST_ROWS

    def __init__(
        self,
        *,
        epsilon: float,
        data_norm: float | LearnBounds,
        target_bounds: tuple[float, float],
        regularization: float | None = None,
        fit_intercept: bool = True,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.data_norm = data_norm
        self.target_bounds = target_bounds
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.budget = budget
        self.source = source
        self._check()

    def _check(self) -> None:
        super()._check()
        check_norm("data_norm", self.data_norm)
        check_target_bounds(self.target_bounds)
        if self.regularization is not None:
            check_positive("regularization", self.regularization)
        if not isinstance(self.fit_intercept, (bool, np.bool_)):
            raise InvalidArgument("fit_intercept", self.fit_intercept, "True or False")
        self._event()  # what is wrong with epsilon is said here

    def _event(self) -> Event:
        _, left = norm_costs(self.data_norm, float(self.epsilon))
        return planned(self.epsilon, lambda: with_norm(self.data_norm, float(self.epsilon), ApproximateDPEvent(left)))

    @silent
    def fit(self, X: Any, y: Any) -> Self:
        """Learn weights; rows with NaN or infinity in them, and NaN targets, are left out."""
        self._check()
        rows = self._rows(X)
        targets = self._labels(rows, y, numeric=True)
        low, high = check_target_bounds(self.target_bounds)
        middle, half = (low + high) / 2, (high - low) / 2
        _, left = norm_costs(self.data_norm, float(self.epsilon))
        source = self._start(self._event())
        kept = np.isfinite(rows).all(axis=1) & ~np.isnan(targets)
        self.data_norm_ = fitted_norm(self.data_norm, rows[kept], epsilon=float(self.epsilon), source=source)
        bounded = clipped(rows[kept], self.data_norm_, intercept=bool(self.fit_intercept))
        weights = Quadratic(linear=-2.0, square=1.0).minimum(
            bounded,
            np.clip((targets[kept] - middle) / half, -1, 1),
            epsilon=left,
            ridge=float(self.regularization or 0.0),
            source=source,
        )
        shrink = half * (math.sqrt(0.5) if self.fit_intercept else 1.0)
        self.coef_ = (weights[:-1] if self.fit_intercept else weights) * (shrink / self.data_norm_)
        self.intercept_ = middle + (float(weights[-1]) * shrink if self.fit_intercept else 0.0)
        return self

    def predict(self, X: Any) -> Floats:
        """Return a number for each row."""
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        return np.asarray(rows @ self.coef_ + self.intercept_)
