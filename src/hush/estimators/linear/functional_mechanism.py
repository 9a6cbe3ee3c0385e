"""The functional mechanism: add noise to the coefficients of a quadratic objective, then minimise it.

Squared errors are a quadratic polynomial in the weights; the logistic loss is replaced by its second-order Taylor
polynomial. One Laplace release of the coefficients is the only access to the data.
"""

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
from hush.estimators.base.bounds import check_norm, event_with_norm, resolve_norm, split_epsilon
from hush.estimators.base.estimator import Floats, PrivateEstimator, blame_epsilon
from hush.estimators.base.networks import check_target_bounds
from hush.estimators.linear.losses import LogisticLoss
from hush.estimators.linear.method import ClassIndices, LinearMethod, LinearRecipe, Problem, label_signs
from hush.estimators.linear.sums import MAX_ROWS, clip_rows, exact_products, truncate
from hush.mechanisms import Laplace
from hush.numerics import quiet_numpy, round_down
from hush.randomness import RandomSource
from hush.statistics import LearnBounds

_SLACK = 1e-7  # sums are exact; converting them to floats rounds by far less than this


@dataclass(frozen=True, slots=True, kw_only=True)
class Quadratic:
    """The sum over rows of constant + linear t <x, w> + square <x, w>^2, for |x| <= 1 and targets |t| <= 1.

    Attributes:
        linear: Factor of the linear term, of any sign.
        square: Factor of the quadratic term, above 0.
    """

    linear: float
    square: float

    def sensitivity(self, dimension: int) -> float:
        """Return the effect of one row on all coefficients together, in L1 norm; |x|_1 <= sqrt(d) |x|_2."""
        # Linear terms: |t| |x|_1 <= sqrt(d). Quadratic terms: |x|_1^2 <= d.
        return abs(self.linear) * math.sqrt(dimension) + self.square * dimension

    def noisy_minimum(
        self, rows: Floats, targets: Floats, *, epsilon: float, ridge: float, source: RandomSource
    ) -> Floats:
        """Add Laplace noise to the coefficients and return the minimum of the convex part of the polynomial."""
        rows, size = truncate(rows), rows.shape[1]
        # The coefficients of w_j and of w_j w_k, summed over the rows (Zhang et al. 2012, Section 4).
        linear_terms = self.linear * exact_products(truncate(targets[:, None]), rows)[0]
        quadratic_terms = self.square * exact_products(rows, rows)
        upper = np.triu_indices(size)
        multiplicity = np.where(upper[0] == upper[1], 1.0, 2.0)  # the coefficient of w_j w_k sums two equal entries
        values = np.concatenate([linear_terms, quadratic_terms[upper] * multiplicity])
        mechanism = Laplace(epsilon=epsilon, sensitivity=self.sensitivity(size) + _SLACK, size=values.size)
        noisy = mechanism.release(values, source).value
        matrix = np.zeros((size, size))
        matrix[upper] = noisy[size:] / multiplicity
        matrix = matrix + np.triu(matrix, 1).T
        # Zhang et al. 2012, Section 6: lift the diagonal by four standard deviations, then drop concave directions.
        lift = 4 * math.sqrt(2) * mechanism.noise_scale + ridge / 2
        curvatures, directions = np.linalg.eigh(matrix + lift * np.eye(size))
        convex = curvatures > 0
        coordinates = directions[:, convex].T @ noisy[:size]
        # The minimum of <a, w> + w'Qw is -Q^-1 a / 2, on the convex directions.
        return np.asarray(-0.5 * directions[:, convex] @ (coordinates / curvatures[convex]))


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionalMechanism(LinearMethod):
    """Logistic regression by its second-order polynomial, with Laplace noise on the coefficients.

    Choose it for few features, since its noise grows with the square of their number, and to compare with the paper.
    Otherwise `ObjectivePerturbation` is more accurate. Delta is not used. Known as the functional mechanism.

    Guarantee:
        epsilon-DP when one row is added or removed: everything is computed from the noisy coefficients.

    Assumes:
        Rows have norm at most 1 (checked here: they are clipped). Sums are exact in fixed point (checked here).

    References:
        Zhang et al. 2012, Algorithm 2 and Sections 5 and 6. Variant: the sensitivity is that of rows of norm 1 under
        add-or-remove, sqrt(d) / 2 + d / 8, instead of their d^2 / 4 + 3 d.

    >>> import numpy as np
    >>> from hush.estimators import PrivateLogisticRegression
    >>> from hush.randomness import TestSource
    >>> X = np.array([[-1.0], [1.0]] * 1000)
    >>> model = PrivateLogisticRegression(
    ...     epsilon=1.0, data_norm=1.0, classes=[0, 1], method=FunctionalMechanism(), source=TestSource(1)
    ... )
    >>> model.fit(X, [0, 1] * 1000).predict([[-0.5], [0.5]]).tolist()
    [0, 1]
    """

    def prepare(self, problem: Problem) -> LinearRecipe:
        """Refuse every loss except the logistic one, whose polynomial is built in."""
        if not isinstance(problem.loss, LogisticLoss):
            raise Unsupported(
                "FunctionalMechanism: the hinge loss has no polynomial expansion", "Use ObjectivePerturbation()"
            )
        return _FunctionalRecipe(problem=problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FunctionalRecipe(LinearRecipe):
    problem: Problem

    @property
    def event(self) -> Event:
        claim = ApproximateDPEvent(self.problem.per_output_budget()[0])
        return claim if self.problem.outputs == 1 else SelfComposedEvent(claim, self.problem.outputs)

    def run(self, rows: Floats, class_indices: ClassIndices, source: RandomSource) -> Floats:
        # Taylor expansion of ln(1 + e^-m) at 0: ln 2 - m / 2 + m^2 / 8.
        labels, polynomial = label_signs(class_indices, self.problem.outputs), Quadratic(linear=-0.5, square=0.125)
        epsilon, ridge = round_down(self.problem.per_output_budget()[0]), self.problem.regularization or 0.0
        weights = [
            polynomial.noisy_minimum(rows, signs, epsilon=epsilon, ridge=ridge, source=source) for signs in labels.T
        ]
        return np.stack(weights)


class FunctionalRegression(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """Linear regression from noisy coefficients of the sum of squared errors, with delta = 0.

    Choose `PrivateLinearRegression` instead where delta > 0 is acceptable. This is for delta = 0 and few features.

    Args:
        epsilon: Privacy budget of one fit.
        data_norm: Public clip norm: bound on the L2 norm of a row; or `LearnBounds`. Longer rows are scaled down.
        target_bounds: Public (lower, upper) of y. Targets are clamped to it.
        regularization: Ridge: half of it times the squared norm of the weights is added to the sum. Default: none.
        fit_intercept: Whether to fit an intercept. It is clipped and regularised like any other weight.
        budget: Every fit is charged to it, such as ``hush.Ledger(...).budget(...)``. Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        coef_: Weights of the features.
        intercept_: Intercept of the model.
        data_norm_: Clip norm of the rows: ``data_norm``, or the norm that was learned.
        n_features_in_: Number of features in X.
        feature_names_in_: Names of the features, if X has them.
        guarantee_: Privacy guarantee of this fit.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        epsilon-differential privacy when one row is added or removed.

    Assumes:
        ``data_norm`` and ``target_bounds`` are public (the caller's duty). Rows are clipped, targets are clamped, and
        rows with a missing value are dropped (checked here).

    References:
        Zhang et al. 2012, Algorithm 1 and Section 6. Variant: sensitivity 2 sqrt(d) + d, for rows and targets of norm 1
        under add-or-remove.

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> X = np.linspace(-1, 1, 20_000)[:, None]
    >>> model = FunctionalRegression(epsilon=1.0, data_norm=1.0, target_bounds=(-1, 1), source=TestSource(1))
    >>> model.fit(X, 0.7 * X[:, 0]).score(X, 0.7 * X[:, 0]) > 0.98
    True
    """

    delta = 0.0

    _max_rows = MAX_ROWS

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
        self._event()  # refuses an unusable epsilon in the constructor

    def _event(self) -> Event:
        _, weights_epsilon = split_epsilon(self.data_norm, float(self.epsilon))
        return blame_epsilon(
            self.epsilon,
            lambda: event_with_norm(self.data_norm, float(self.epsilon), ApproximateDPEvent(weights_epsilon)),
        )

    @quiet_numpy
    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows and targets. Rows with a missing or infinite value, and missing targets, are dropped."""
        self._check()
        rows = self._rows(X)
        targets = self._labels(rows, y, numeric=True)
        low, high = check_target_bounds(self.target_bounds)
        middle, half = (low + high) / 2, (high - low) / 2
        _, weights_epsilon = split_epsilon(self.data_norm, float(self.epsilon))
        source = self._charge(self._event())
        usable = np.isfinite(rows).all(axis=1) & ~np.isnan(targets)
        self.data_norm_ = resolve_norm(self.data_norm, rows[usable], epsilon=float(self.epsilon), source=source)
        bounded = clip_rows(rows[usable], self.data_norm_, intercept=bool(self.fit_intercept))
        # (t - <x, w>)^2 = t^2 - 2 t <x, w> + <x, w>^2.
        weights = Quadratic(linear=-2.0, square=1.0).noisy_minimum(
            bounded,
            np.clip((targets[usable] - middle) / half, -1, 1),
            epsilon=weights_epsilon,
            ridge=float(self.regularization or 0.0),
            source=source,
        )
        # Undo the scaling of targets, and the shortening of rows that made room for the intercept.
        shrink = half * (math.sqrt(0.5) if self.fit_intercept else 1.0)
        self.coef_ = (weights[:-1] if self.fit_intercept else weights) * (shrink / self.data_norm_)
        self.intercept_ = middle + (float(weights[-1]) * shrink if self.fit_intercept else 0.0)
        return self

    def predict(self, X: Any) -> Floats:
        """Return the predicted target of each row."""
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        return np.asarray(rows @ self.coef_ + self.intercept_)
