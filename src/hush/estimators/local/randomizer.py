"""The local model: rows are randomised one by one, before anyone collects them.

row       stays with its owner
columns   a random subset, drawn without looking at the row
report    each drawn column through its own mechanism; NaN for the others
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from hush.accounting import Event, events
from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_count
from hush.estimators.base.bounds import check_bounds, feature_bounds
from hush.estimators.base.estimator import Floats, PrivateEstimator
from hush.estimators.base.labels import index_of, with_numbers_only
from hush.estimators.local.estimates import LocalEstimates
from hush.guarantee import Relation
from hush.mechanisms import Piecewise, RandomizedResponse, UnaryEncoding
from hush.numerics import number_or_nan
from hush.randomness import RandomSource, uniform_below

_ONCE = "each row is transformed once: every further transform of it costs as much again"
_EPSILON_PER_COLUMN = 2.5  # a further column is worth reporting for each 2.5 of epsilon (Wang et al. 2019)


class LocalRandomizer(LocalEstimates, TransformerMixin, PrivateEstimator):  # type: ignore[misc]
    """Randomise a table row by row, for data you must not collect in the clear, and estimate from the reports.

    Run it on the device, or at collection. Numbers go through the piecewise mechanism: a report may lie beyond the
    bounds, but it is right on average. Categories are reported by their position in ``categories``, by k-ary randomised
    response; with many categories (k >= 3 e^epsilon + 2), as k bits by optimised unary encoding. Each row reports only
    some of its columns, chosen at random, and divides epsilon equally between them. For many columns this is far better
    than reporting all of them with tiny parts of epsilon. Columns that are not reported are NaN. Known as input
    perturbation: the noise is in the records before anyone collects them.

    Use it for data that you must not collect in the clear. The price is the number of people: the error of a share or
    mean is about c / sqrt(n), while a trusted curator adds noise of only about 1 / (epsilon n). Measured at epsilon 1:
    a standard error of 1 % in the share of one of two values takes 9,200 people instead of 141 (65 times as many); one
    of 0.1 %, 650 times as many.

    Missing or undeclared values raise no error and cannot be seen in the reports. A missing number counts as the middle
    of its bounds, and an undeclared category as a random one, or as ``None`` if you declare that.

    ``fit`` looks at the number of columns only. An analyst who has only the reports creates a randomizer with the same
    parameters and fits it to any row of that width. `frequencies`, `means` and `second_moments` need no more.

    Args:
        epsilon: Privacy budget of one row: all of its columns together, for each transform.
        bounds: Public (lower, upper) of the numeric columns in their order, or one pair for all. None if there are
            none.
        categories: From the position of each categorical column to its categories; public.
        sampled: Number of columns that each row reports. Default: epsilon / 2.5, at least one.
        budget: Every transform is charged to it; fit is free. It must be a budget whose relation is replacement.
            Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        channels_: The mechanism of each column.
        sampled_: Number of columns that each row reports.
        categories_: From the position of each categorical column to its categories.
        n_features_in_: Number of features in X.
        feature_names_in_: Names of the features, if X has them.
        guarantee_: Privacy guarantee of one row in one transform.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        epsilon-differential privacy, delta = 0, when the values of one row are replaced by any others, against anyone
        who sees the reports. That the row exists is visible. Transforming it again costs as much again.

    Assumes:
        Bounds and categories are public (the caller's duty) and applied (checked here). Each person has one row,
        transformed once (the caller's duty). The choice of columns does not depend on the row (checked here).

    References:
        Kairouz, Oh & Viswanath 2016 (k-ary randomised response); Wang, Blocki, Li & Jha 2017 (unary encoding, and when
        to choose it); Wang et al. 2019, Algorithms 2 and 4 (piecewise mechanism, random columns). Variant: the factor d
        / k is left to the estimates, and columns that are not reported are NaN instead of 0.

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> rows = np.array([[30.0, "yes"], [50.0, "no"]] * 5000, dtype=object)
    >>> randomizer = LocalRandomizer(epsilon=2.0, bounds=(0, 100), categories={1: ["no", "yes"]}, source=TestSource(1))
    >>> reports = randomizer.fit(rows).transform(rows)
    >>> randomizer.means(reports).value.round(0).tolist()  # the mean of all rows is 40
    [41.0, nan]
    >>> share = randomizer.frequencies(reports, 1)["yes"]
    >>> bool(share.low < 0.5 < share.high)
    True
    """

    delta = 0.0
    _relation = Relation.REPLACE
    _private_step = "transform"

    def __init__(
        self,
        *,
        epsilon: float,
        bounds: Any,
        categories: Mapping[int, Any] | None = None,
        sampled: int | None = None,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.categories = categories
        self.sampled = sampled
        self.budget = budget
        self.source = source
        self._check()

    def _check(self) -> None:
        super()._check()
        if self.bounds is not None:
            check_bounds("bounds", self.bounds)
        elif not self.categories:
            raise InvalidArgument("bounds", None, "bounds of the numeric columns, or categories", "Both are public")
        _check_categories(self.categories)
        if self.sampled is not None:
            check_count("sampled", self.sampled)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn which values are allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = tags.input_tags.string = bool(self.categories)
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the number of columns. No value is looked at, and nothing is charged."""
        self._check()
        self._table(X, reset=True)
        width = self.n_features_in_
        known = {int(position): list(values) for position, values in (self.categories or {}).items()}
        if not all(position < width for position in known):
            raise InvalidArgument("categories", self.categories, f"positions of columns, from 0 to {width - 1}")
        numeric = [position for position in range(width) if position not in known]
        if numeric and self.bounds is None:
            raise InvalidArgument(
                "bounds",
                None,
                f"bounds of the {len(numeric)} numeric columns",
                "Bounds are public: pass them, they are never read from the data",
            )
        self.sampled_ = self._num_sampled(width)
        column_epsilon = _equal_part(float(self.epsilon), self.sampled_)
        ends = feature_bounds("bounds", self.bounds, len(numeric)) if numeric else (np.empty(0), np.empty(0))
        channels: dict[int, Any] = {
            position: _categorical(column_epsilon, len(values)) for position, values in known.items()
        }
        for position, lower, upper in zip(numeric, *ends, strict=True):
            channels[position] = Piecewise(epsilon=column_epsilon, bounds=(float(lower), float(upper)))
        self.channels_ = [channels[position] for position in range(width)]
        self.categories_ = known
        self._spent = float(self.epsilon), 0.0  # remembered, since set_params may change epsilon
        self.guarantee_, self.event_ = self._guarantee_and_event(self._event(), (_ONCE,), self._spent)
        return self

    def transform(self, X: Any) -> Floats:
        """Return the report of each row. This is the private step, and every call is charged."""
        check_is_fitted(self)
        rows = self._table(X, reset=False)
        source = self._charge(self._event(), _ONCE, spent=self._spent)
        # Columns are drawn without looking at the row. So a row costs the sum over the columns that it reports.
        reported = _random_subsets(len(rows), len(self.channels_), self.sampled_, source)
        reports = []
        for position, channel in enumerate(self.channels_):
            column_reports = np.full((len(rows), _width(channel)), math.nan)
            drawn = reported[:, position]
            values = self._values(rows[drawn, position], position, source)
            column_reports[drawn] = np.asarray(channel.release(values, source).value, dtype=np.float64).reshape(
                -1, column_reports.shape[1]
            )
            reports.append(column_reports)
        return np.concatenate(reports, axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the report columns: the column name, or column_category where it is reported as bits."""
        check_is_fitted(self)
        names: list[str] = []
        for position, name in enumerate(_check_feature_names_in(self, input_features)):
            as_bits = isinstance(self.channels_[position], UnaryEncoding)
            names += [f"{name}_{value}" for value in self.categories_[position]] if as_bits else [name]
        return np.array(names, dtype=object)

    def _num_sampled(self, width: int) -> int:
        """Return the number of columns that each row reports."""
        if self.sampled is None:
            return max(1, min(width, int(float(self.epsilon) / _EPSILON_PER_COLUMN)))
        if not self.sampled <= width:
            raise InvalidArgument("sampled", self.sampled, f"at most the number of columns, {width}")
        return int(self.sampled)

    def _event(self) -> Event:
        return events.SelfComposedEvent(events.ApproximateDPEvent(self.channels_[0].epsilon), self.sampled_)

    def _table(self, X: Any, *, reset: bool) -> NDArray[Any]:
        """Return the rows: as floats if all columns are numeric, otherwise as objects."""
        kind: Any = np.float64 if (not self.categories if reset else not self.categories_) else None
        if kind is not None:
            X = with_numbers_only(X)
        elif isinstance(X, (list, tuple)):
            X = np.array(X, dtype=object)  # otherwise one text cell would turn all cells into text
        rows = validate_data(self, X, reset=reset, dtype=kind, ensure_all_finite=False)
        return np.asarray(rows)

    def _values(self, column: NDArray[Any], position: int, source: RandomSource) -> Any:
        """Return a column in the form that its mechanism reads: numbers, or positions of categories."""
        if position not in self.categories_:
            return (
                column if column.dtype.kind in "biuf" else np.array([number_or_nan(value) for value in column.tolist()])
            )
        known = self.categories_[position]
        table = {value: code for code, value in enumerate(known)}
        codes = np.array([index_of(table, value) for value in column.tolist()], dtype=np.int64)
        # Drawn for every row, needed or not, so that the running time reveals nothing.
        random_codes = uniform_below(source, len(known), len(codes))
        return np.where(codes < 0, table.get(None, random_codes), codes)


def _check_categories(categories: Any) -> None:
    """Check that categories map positions of columns to lists of distinct values."""
    expected = "a mapping from positions of columns to two or more different categories"
    if categories is None:
        return
    if not isinstance(categories, Mapping):
        raise InvalidArgument("categories", categories, expected)
    for position, values in categories.items():
        check_count("categories", position, "Its keys are positions of columns", minimum=0)
        try:
            valid = not isinstance(values, str) and len(set(values)) == len(values) >= 2
        except TypeError:
            valid = False
        if not valid:
            raise InvalidArgument(
                "categories",
                categories,
                expected,
                "Categories are public: pass them, they are never read from the data",
            )


def _equal_part(epsilon: float, parts: int) -> float:
    """Return an equal part of epsilon, rounded so that the parts add up to at most epsilon."""
    return epsilon if parts == 1 else math.nextafter(epsilon / parts, 0.0)


def _categorical(epsilon: float, num_values: int) -> RandomizedResponse | UnaryEncoding:
    """Return the categorical mechanism with the smaller variance."""
    # Wang et al. 2017: randomised response varies less for k < 3 e^epsilon + 2.
    few = num_values < 3 * math.exp(min(epsilon, 50.0)) + 2
    kind = RandomizedResponse if few else UnaryEncoding
    return kind(epsilon=epsilon, num_values=num_values)


def _width(channel: Any) -> int:
    """Return the number of report columns of a mechanism."""
    return channel.num_values if isinstance(channel, UnaryEncoding) else 1


def _random_subsets(num_rows: int, width: int, size: int, source: RandomSource) -> NDArray[np.bool_]:
    """Return which columns each row reports: ``size`` of them, with all subsets equally likely."""
    order = np.tile(np.arange(width), (num_rows, 1))
    row_indices = np.arange(num_rows)
    for step in range(size if size < width else 0):  # the first steps of a Fisher-Yates shuffle
        other = step + uniform_below(source, width - step, num_rows)
        order[row_indices, step], order[row_indices, other] = order[row_indices, other], order[row_indices, step].copy()
    reported = np.zeros((num_rows, width), dtype=np.bool_)
    np.put_along_axis(reported, order[:, :size], True, axis=1)
    return reported
