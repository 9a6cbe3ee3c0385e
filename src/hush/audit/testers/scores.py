"""Scores: functions of an output that are larger for outputs that are more likely on the first input.

Attacks turn scores into events by a threshold (`events.py`), or into histograms (`Bins`). All scores are learned from
search outputs and then fixed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hush.audit.testers.outputs import Rows

Scores = NDArray[np.float64]
OutputScore = Callable[[Rows], Scores]  # a score of NaN is in no event

_LEARNING_ROWS = 20_000  # search outputs that bins and value ratios are learned from
_MAX_VALUES = 12  # columns with at most this many values are conditioned on
_MAX_PAIRED_COLUMNS = 6  # with more columns, pairs are left to the classifier
_NUM_BINS = 40
_NEWTON_STEPS = 12
_MIN_COUNT = 8  # a value seen less often has no reliable ratio
_RIDGE = 1.0  # keeps the Newton step finite if the classes are separable


class Classifier(Protocol):
    """The interface of scikit-learn's classifiers: `fit`, then probabilities of the classes 0 and 1.

    >>> from hush.audit.testers import ClassifierAttack
    >>> class BySign:  # x has a constant column first, then the standardised columns of the output
    ...     def fit(self, x, y):
    ...         return self
    ...
    ...     def predict_proba(self, x):
    ...         first = np.where(x[:, 1] < 0, 0.9, 0.1)
    ...         return np.column_stack([1 - first, first])
    >>> attack = ClassifierAttack(classifier=BySign())
    """

    def fit(self, x: Any, y: Any) -> Any:
        """Learn from rows and labels."""

    def predict_proba(self, x: Any) -> Any:
        """Return two columns of probabilities."""


def all_scores(first: Rows, second: Rows) -> Iterator[tuple[str, OutputScore]]:
    """Yield the scores that `EventSearch` tries, by name (Ding et al. 2018).

    They are: the frequency ratio of exact values; each column, and the ratio of its bins; each column given a value of
    another column; and a logistic regression.
    """
    few_first, few_second = first[:_LEARNING_ROWS], second[:_LEARNING_ROWS]
    yield "value ratio", value_ratio(few_first, few_second)
    columns = varying(few_first, few_second)
    for column in columns:
        yield f"output[{column}]", _column(column)
        yield f"bin ratio of output[{column}]", Bins(_column(column), few_first, few_second).known_ratio
    for condition in columns if len(columns) <= _MAX_PAIRED_COLUMNS else ():
        values = np.unique(few_first[:, condition])
        values = values[~np.isnan(values)]
        for value in values if len(values) <= _MAX_VALUES else ():
            for column in columns:
                if column != condition:
                    name = f"output[{column}] where output[{condition}] = {value:.6g}"
                    yield name, _conditional_column(column, condition, float(value))
    if len(columns) > 1:
        yield "classifier", log_odds(few_first, few_second, products=True)


def varying(first: Rows, second: Rows) -> list[int]:
    """Return the columns that have more than one value."""
    rows = np.concatenate([first, second])
    return [column for column in range(rows.shape[1]) if len(np.unique(rows[:, column])) > 1]


def _column(column: int) -> OutputScore:
    return lambda rows: rows[:, column]


def _conditional_column(column: int, condition: int, value: float) -> OutputScore:
    return lambda rows: np.where(rows[:, condition] == value, rows[:, column], np.nan)


def value_ratio(first: Rows, second: Rows) -> OutputScore:
    """Score an output by how much more often its exact value occurred on the first input. Rare values score NaN."""
    known, indices = np.unique(_sortable_keys(np.concatenate([first, second])), return_inverse=True)
    counts = [np.bincount(part, minlength=len(known)) for part in (indices[: len(first)], indices[len(first) :])]
    # Half a count more keeps the ratio finite for a value that one input never produced.
    ratios = np.log(counts[0] + 0.5) - np.log(counts[1] + 0.5)
    frequent = counts[0] + counts[1] >= _MIN_COUNT
    known, ratios = known[frequent], ratios[frequent]

    def score(rows: Rows) -> Scores:
        if not len(known):
            return np.full(len(rows), np.nan)
        keys = _sortable_keys(rows)
        nearest = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return np.where(known[nearest] == keys, ratios[nearest], np.nan)

    return score


def _sortable_keys(rows: Rows) -> NDArray[Any]:
    """Return a sortable key for each row. Keys are equal if the rows are, with NaN equal to NaN."""
    plain = np.ascontiguousarray(rows + 0.0)  # -0.0 becomes 0.0: as an output it was replaced by another number before
    if plain.shape[1] == 1:  # integers compare faster than bytes
        return plain.ravel().view(np.int64)
    return plain.view(np.dtype((np.void, plain.shape[1] * 8))).ravel()


def bin_edges(values: Scores, bins: int = _NUM_BINS) -> Scores:
    """Return the edges between bins that hold equally many values, as far as ties allow."""
    values = values[~np.isnan(values)]
    if not len(values):
        return np.zeros(0)
    return np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1], method="lower"))


class Bins:
    """A histogram of a statistic of the outputs, with one extra bin for NaN.

    Attributes:
        ratios: The log-likelihood ratio of each bin in the search outputs.
        largest: The largest absolute ratio among bins that are not nearly empty.
    """

    def __init__(self, statistic: OutputScore, first: Rows, second: Rows, bins: int = _NUM_BINS) -> None:
        """Choose edges so that the bins hold equally many search outputs."""
        self._statistic = statistic
        values = statistic(first), statistic(second)
        self._edges = bin_edges(np.concatenate(values), bins)
        counts = [self._count_values(part) for part in values]
        self.ratios = np.log(counts[0] + 0.5) - np.log(counts[1] + 0.5)
        # The ratio of a nearly empty bin is noise.
        self.largest = float(np.max(np.abs(self.ratios[counts[0] + counts[1] >= _MIN_COUNT]), initial=0.0))

    @classmethod
    def learned(cls, first: Rows, second: Rows, bins: int = _NUM_BINS, classifier: Classifier | None = None) -> Bins:
        """Choose the statistic, too: the only column that varies, or the log-odds of a classifier."""
        columns = varying(first[:_LEARNING_ROWS], second[:_LEARNING_ROWS])
        if len(columns) == 1 and classifier is None:
            return cls(_column(columns[0]), first, second, bins)
        return cls(log_odds(first, second, products=True, classifier=classifier), first, second, bins)

    def count(self, rows: Rows) -> NDArray[np.int64]:
        """Return how many outputs fall into each bin."""
        return self._count_values(self._statistic(rows))

    def ratio(self, rows: Rows) -> Scores:
        """Return the log-likelihood ratio of each output's bin, as learned from the search outputs."""
        return np.asarray(self.ratios[self._bin_indices(self._statistic(rows))])

    def known_ratio(self, rows: Rows) -> Scores:
        """Return the same, but NaN if the statistic is NaN."""
        values = self._statistic(rows)
        return np.where(np.isnan(values), np.nan, self.ratios[self._bin_indices(values)])

    def _count_values(self, values: Scores) -> NDArray[np.int64]:
        return np.bincount(self._bin_indices(values), minlength=len(self._edges) + 2)

    def _bin_indices(self, values: Scores) -> NDArray[np.intp]:
        indices = np.searchsorted(self._edges, values, side="left")
        indices[np.isnan(values)] = len(self._edges) + 1
        return indices


def log_odds(first: Rows, second: Rows, *, products: bool = False, classifier: Classifier | None = None) -> OutputScore:
    """Score an output by the log-odds that a classifier gives to the first input.

    Args:
        first: Outputs on the first input.
        second: Outputs on the second input.
        products: Whether squares are features, too, and products if there are few columns.
        classifier: A classifier with scikit-learn's interface; by default a built-in logistic regression.
    """
    columns = varying(first[:_LEARNING_ROWS], second[:_LEARNING_ROWS])
    features = _feature_map(np.concatenate([first, second]), columns, products)
    x = np.concatenate([features(first), features(second)])
    target = np.repeat([1.0, 0.0], [len(first), len(second)])
    if classifier is None:
        weights = _logistic_regression(x, target)
        # Rounded, so that equal outputs have equal scores wherever they are in a block.
        return lambda rows: np.round(features(rows) @ weights, 9)
    trained = copy.deepcopy(classifier)
    trained.fit(x, target)
    return lambda rows: _log_odds_of(trained.predict_proba(features(rows)))


def _log_odds_of(probabilities: Any) -> Scores:
    first = np.clip(np.asarray(probabilities, dtype=np.float64)[:, 1], 1e-12, 1 - 1e-12)
    return np.asarray(np.round(np.log(first) - np.log1p(-first), 9))


def _feature_map(rows: Rows, columns: Sequence[int], products: bool) -> Callable[[Rows], Rows]:
    """Return the map from outputs to features: standardised columns, missing-value indicators, and products."""
    finite = [values[np.isfinite(values)] for values in (rows[:, column] for column in columns)]
    centre = np.array([np.median(values) if len(values) else 0.0 for values in finite])
    spread = np.array([np.std(values) if len(values) else 0.0 for values in finite])
    # Very heavy tails overflow the standard deviation; without this, they would hide the middle of the distribution.
    spread[~((spread > 0) & np.isfinite(spread))] = 1.0
    has_missing = np.isnan(rows[:, columns]).any(axis=0)
    pairs = [(i, j) for i in range(len(columns)) for j in range(i + 1)] if len(columns) <= _MAX_PAIRED_COLUMNS else []

    def features(rows: Rows) -> Rows:
        x = rows[:, columns] - centre
        x /= spread
        np.clip(x, -8, 8, out=x)
        missing = np.isnan(x)
        x[missing] = 0.0
        squares = [x[:, i] * x[:, j] for i, j in pairs] if products else []
        return np.column_stack([np.ones(len(rows)), x, missing[:, has_missing], *squares])

    return features


def _logistic_regression(x: Rows, target: Scores) -> Scores:
    """Return the weights of a ridge-regularised logistic regression, by Newton's method."""
    weights = np.zeros(x.shape[1])
    for _ in range(_NEWTON_STEPS):
        # Newton: w += (X' D X + r I)^-1 (X' (y - p) - r w), with D = p (1 - p).
        probability = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        hessian = (x * (probability * (1 - probability))[:, None]).T @ x + _RIDGE * np.eye(len(weights))
        step = np.linalg.solve(hessian, x.T @ (target - probability) - _RIDGE * weights)
        weights += step
        if np.max(np.abs(step)) < 1e-10:
            break
    return weights
