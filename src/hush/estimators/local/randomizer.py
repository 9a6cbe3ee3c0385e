"""Rows that are perturbed one by one, before anybody sees them: the local model."""

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
from hush.estimators.base.bounds import check_bounds, fitted_bounds
from hush.estimators.base.estimator import Floats, PrivateEstimator
from hush.estimators.base.labels import number, place_of
from hush.estimators.local.estimates import LocalEstimates
from hush.guarantee import Relation
from hush.mechanisms import Piecewise, RandomizedResponse, UnaryEncoding
from hush.randomness import RandomSource, uniform_below

_TOLD_ONCE = "each row is transformed once: another transform of it costs as much again"
_EACH = 2.5  # epsilon from which telling one more column is worth it (Wang et al. 2019)


class LocalRandomizer(LocalEstimates, TransformerMixin, PrivateEstimator):  # type: ignore[misc]
    r"""Perturb a table row by row, for people who trust nobody with their row; estimate from what is told.

    Run it on the device or at collection. Numbers are told by the piecewise mechanism: beyond their bounds, but right
    on average. Categories are told as their place among ``categories``, by k-ary randomised response, or, if there are
    many (k >= 3 e^epsilon + 2), as k bits by optimised unary encoding. Each row tells some of its columns only, chosen
    at random, each with an equal part of epsilon: for many columns that is much better than to tell all of them with
    ever smaller parts. What is not told is NaN.

    Choose it where nobody may hold the rows. It costs people: the error of a share or a mean is about c / sqrt(n),
    where a trusted holder's noise adds about 1 / (epsilon n). Measured at epsilon 1: for a standard error of 1 % in the
    share of one of two values, 9,200 people are needed where 141 would do (65 times); for 0.1 %, 650 times.

    What is missing or undeclared is neither an error nor seen from what is told: a number counts as the middle of its
    bounds, a category as one drawn at random, or as ``None`` where that is among the declared ones.

    ``fit`` looks at the number of columns only. An analyst who has just what was told makes one with the same
    parameters, and fits it to any row of that width: `frequencies`, `means` and `second_moments` need no more.

    Args:
        epsilon: For one row: all its columns together, each time that it is transformed.
        bounds: (lower, upper) of the numeric columns, in their order, or of all; public. None if no column is numeric.
        categories: From the place of each categorical column to its categories; public.
        sampled: How many columns each row tells; None for epsilon / 2.5 of them, at least one.
        budget: What each transform is charged to, a data set whose relation is replacement; fit is free.
        source: Of randomness, for tests.

    Attributes:
        channels_: The mechanism of each column.
        sampled_: How many columns each row tells.
        categories_: From the place of each categorical column to its categories.
        n_features_in_: How many features there are.
        feature_names_in_: Their names, where X has some.
        guarantee_: What one transform gives away of one of its rows.
        event_: The same for accountants.

    Guarantee:
        epsilon-differential privacy, delta = 0, for the values of one row, replaced by any others (that there is such a
        row is seen), against everybody who sees what is told. Transforming a row again costs as much again.

    Assumes:
        Bounds and categories are public (the caller's duty) and applied (checked here: done here). Each person has one
        row, transformed once (the caller's duty). Which columns are told does not depend on the row (checked here).

    References:
        Kairouz, Oh & Viswanath 2016 (k-ary randomised response); Wang, Blocki, Li & Jha 2017 (unary encoding, and when
        to choose it); Wang et al. 2019, Algorithms 2 and 4 (piecewise mechanism, columns drawn at random; here the
        scale d / k is left to the estimates, and columns that are not told are NaN instead of 0).

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> rows = np.array([[30.0, "yes"], [50.0, "no"]] * 5000, dtype=object)
    >>> randomizer = LocalRandomizer(epsilon=2.0, bounds=(0, 100), categories={1: ["no", "yes"]}, source=TestSource(1))
    >>> told = randomizer.fit(rows).transform(rows)
    >>> randomizer.means(told).value.round(0).tolist()  # the mean of all rows is 40
    [41.0, nan]
    >>> share = randomizer.frequencies(told, 1)["yes"]
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
            raise InvalidArgument("bounds", None, "bounds of numbers, or categories", "They are public")
        _check_categories(self.categories)
        if self.sampled is not None:
            check_count("sampled", self.sampled)

    def __sklearn_tags__(self) -> Any:
        """Say that any value is fine."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = tags.input_tags.string = bool(self.categories)
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the number of columns. Nothing else is looked at, and nothing is charged."""
        self._check()
        self._table(X, reset=True)
        width = self.n_features_in_
        known = {int(place): list(each) for place, each in (self.categories or {}).items()}
        if not all(place < width for place in known):
            raise InvalidArgument("categories", self.categories, f"places of {width} columns, 0 to {width - 1}")
        numeric = [place for place in range(width) if place not in known]
        if numeric and self.bounds is None:
            raise InvalidArgument("bounds", None, f"bounds of {len(numeric)} numeric columns", "They are public")
        self.sampled_ = self._num_sampled(width)
        each = _part(float(self.epsilon), self.sampled_)
        ends = fitted_bounds("bounds", self.bounds, len(numeric)) if numeric else (np.empty(0), np.empty(0))
        channels: dict[int, Any] = {place: _categorical(each, len(values)) for place, values in known.items()}
        for place, lower, upper in zip(numeric, *ends, strict=True):
            channels[place] = Piecewise(epsilon=each, bounds=(float(lower), float(upper)))
        self.channels_ = [channels[place] for place in range(width)]
        self.categories_ = known
        self._spent = float(self.epsilon), 0.0  # as fitted, whatever set_params does before a transform
        self.guarantee_, self.event_ = self._claimed(self._event(), (_TOLD_ONCE,), self._spent)
        return self

    def transform(self, X: Any) -> Floats:
        """Return what each row tells. This is the private step: it is charged each time."""
        check_is_fitted(self)
        rows = self._table(X, reset=False)
        source = self._start(self._event(), _TOLD_ONCE, spent=self._spent)
        told_here = _subsets(len(rows), len(self.channels_), self.sampled_, source)
        parts = []
        for place, channel in enumerate(self.channels_):
            told = np.full((len(rows), _width(channel)), math.nan)
            here = told_here[:, place]
            values = self._values(rows[here, place], place, source)
            told[here] = np.asarray(channel.release(values, source).value, dtype=np.float64).reshape(-1, told.shape[1])
            parts.append(told)
        return np.concatenate(parts, axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return names of what is told: a column's own, or, if it is told as bits, with the category."""
        check_is_fitted(self)
        names: list[str] = []
        for place, name in enumerate(_check_feature_names_in(self, input_features)):
            several = isinstance(self.channels_[place], UnaryEncoding)
            names += [f"{name}_{value}" for value in self.categories_[place]] if several else [name]
        return np.array(names, dtype=object)

    def _num_sampled(self, width: int) -> int:
        if self.sampled is None:
            return max(1, min(width, int(float(self.epsilon) / _EACH)))
        if not self.sampled <= width:
            raise InvalidArgument("sampled", self.sampled, f"at most the number of columns, {width}")
        return int(self.sampled)

    def _event(self) -> Event:
        return events.SelfComposedEvent(events.ApproximateDPEvent(self.channels_[0].epsilon), self.sampled_)

    def _table(self, X: Any, *, reset: bool) -> NDArray[Any]:
        """Return the rows; numbers as they are, other values as objects."""
        kind: Any = np.float64 if (not self.categories if reset else not self.categories_) else None
        if kind is None and isinstance(X, (list, tuple)):
            X = np.array(X, dtype=object)  # as text, all cells would be what one of them is
        rows = validate_data(self, X, reset=reset, dtype=kind, ensure_all_finite=False)
        return np.asarray(rows)

    def _values(self, column: NDArray[Any], place: int, source: RandomSource) -> Any:
        """Return one column as its mechanism takes it."""
        if place not in self.categories_:
            return column if column.dtype.kind in "biuf" else np.array([number(value) for value in column.tolist()])
        known = self.categories_[place]
        table = {value: code for code, value in enumerate(known)}
        codes = np.array([place_of(table, value) for value in column.tolist()], dtype=np.int64)
        # Drawn for all, needed or not, so that the running time does not tell.
        instead = uniform_below(source, len(known), len(codes))
        return np.where(codes < 0, table.get(None, instead), codes)


def _check_categories(categories: Any) -> None:
    expected = "from places of columns to two or more different categories"
    if categories is None:
        return
    if not isinstance(categories, Mapping):
        raise InvalidArgument("categories", categories, expected)
    for place, values in categories.items():
        check_count("categories", place, "Its keys are places of columns", minimum=0)
        try:
            fine = not isinstance(values, str) and len(set(values)) == len(values) >= 2
        except TypeError:
            fine = False
        if not fine:
            raise InvalidArgument("categories", categories, expected, "They are public")


def _part(epsilon: float, parts: int) -> float:
    """Return an equal part; all of them add up to no more than the whole."""
    return epsilon if parts == 1 else math.nextafter(epsilon / parts, 0.0)


def _categorical(epsilon: float, num_values: int) -> RandomizedResponse | UnaryEncoding:
    # Wang et al. 2017: which of the two varies less.
    few = num_values < 3 * math.exp(min(epsilon, 50.0)) + 2
    kind = RandomizedResponse if few else UnaryEncoding
    return kind(epsilon=epsilon, num_values=num_values)


def _width(channel: Any) -> int:
    return channel.num_values if isinstance(channel, UnaryEncoding) else 1


def _subsets(num_rows: int, width: int, size: int, source: RandomSource) -> NDArray[np.bool_]:
    """Return which columns each row tells: ``size`` of them, all subsets equally likely."""
    order = np.tile(np.arange(width), (num_rows, 1))
    each = np.arange(num_rows)
    for place in range(size if size < width else 0):  # the first steps of a shuffle
        other = place + uniform_below(source, width - place, num_rows)
        order[each, place], order[each, other] = order[each, other], order[each, place].copy()
    told = np.zeros((num_rows, width), dtype=np.bool_)
    np.put_along_axis(told, order[:, :size], True, axis=1)
    return told
