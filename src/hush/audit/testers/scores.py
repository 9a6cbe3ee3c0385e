"""Scores: functions of an output that are larger where the first input is more likely."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hush.audit.testers.outputs import Rows

Scores = NDArray[np.float64]
Score = Callable[[Rows], Scores]  # NaN: in no event

_LEARNING = 20_000  # samples that bins and values learn from
_FEW_VALUES = 12
_FEW_COLUMNS = 6  # with more of them, pairs are left to the classifier
_BINS = 40
_ROUNDS = 12  # of Newton's method
_SEEN = 8  # times that a value must be seen to have a ratio


class Classifier(Protocol):
    """What scikit-learn's classifiers are: `fit`, then probabilities of the classes 0 and 1."""

    def fit(self, x: Any, y: Any) -> Any:
        """Learn from rows and labels."""

    def predict_proba(self, x: Any) -> Any:
        """Return two columns of probabilities."""


def all_scores(first: Rows, second: Rows) -> Iterator[tuple[str, Score]]:
    """Yield values, columns, bins, columns where another has some value, and a classifier (Ding et al. 2018)."""
    few_first, few_second = first[:_LEARNING], second[:_LEARNING]
    yield "value ratio", value_ratio(few_first, few_second)
    columns = varying(few_first, few_second)
    for column in columns:
        yield f"output[{column}]", _column(column)
        yield f"bin ratio of output[{column}]", Bins(_column(column), few_first, few_second).known_ratio
    for given in columns if len(columns) <= _FEW_COLUMNS else ():
        values = np.unique(few_first[:, given])
        values = values[~np.isnan(values)]
        for value in values if len(values) <= _FEW_VALUES else ():
            for column in columns:
                if column != given:
                    yield f"output[{column}] where output[{given}] = {value:.6g}", _given(column, given, float(value))
    if len(columns) > 1:
        yield "classifier", log_odds(few_first, few_second, products=True)


def varying(first: Rows, second: Rows) -> list[int]:
    """Return the columns with more than one value."""
    both = np.concatenate([first, second])
    return [column for column in range(both.shape[1]) if len(np.unique(both[:, column])) > 1]


def _column(column: int) -> Score:
    return lambda rows: rows[:, column]


def _given(column: int, given: int, value: float) -> Score:
    return lambda rows: np.where(rows[:, given] == value, rows[:, column], np.nan)


def value_ratio(first: Rows, second: Rows) -> Score:
    """Score an output by how much more often it was seen on the first input; rare ones not at all."""
    known, place = np.unique(_keys(np.concatenate([first, second])), return_inverse=True)
    counts = [np.bincount(part, minlength=len(known)) for part in (place[: len(first)], place[len(first) :])]
    ratios = np.log(counts[0] + 0.5) - np.log(counts[1] + 0.5)
    often = counts[0] + counts[1] >= _SEEN
    known, ratios = known[often], ratios[often]

    def score(rows: Rows) -> Scores:
        if not len(known):
            return np.full(len(rows), np.nan)
        keys = _keys(rows)
        places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return np.where(known[places] == keys, ratios[places], np.nan)

    return score


def _keys(rows: Rows) -> NDArray[Any]:
    """Write rows as things that can be sorted and are equal where the rows are, NaN included."""
    plain = np.ascontiguousarray(rows + 0.0)  # -0.0 is 0.0; as an output it comes as another number
    if plain.shape[1] == 1:  # integers are compared faster than bytes
        return plain.ravel().view(np.int64)
    return plain.view(np.dtype((np.void, plain.shape[1] * 8))).ravel()


def bin_edges(values: Scores, bins: int = _BINS) -> Scores:
    """Return edges between bins with equally many values, as far as ties allow."""
    values = values[~np.isnan(values)]
    if not len(values):
        return np.zeros(0)
    return np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1], method="lower"))


class Bins:
    """Bins of an output's only column, or of a classifier's log-odds where it has several; one more for NaN."""

    def __init__(self, statistic: Score, first: Rows, second: Rows, bins: int = _BINS) -> None:
        """Cut a statistic so that bins hold equally many of the given outputs."""
        self._statistic = statistic
        values = statistic(first), statistic(second)
        self._edges = bin_edges(np.concatenate(values), bins)
        counts = [self._count(part) for part in values]
        self.ratios = np.log(counts[0] + 0.5) - np.log(counts[1] + 0.5)
        # The ratio of a bin that is nearly empty is noise.
        self.largest = float(np.max(np.abs(self.ratios[counts[0] + counts[1] >= _SEEN]), initial=0.0))

    @classmethod
    def learned(cls, first: Rows, second: Rows, bins: int = _BINS, classifier: Classifier | None = None) -> Bins:
        """Choose the statistic too."""
        columns = varying(first[:_LEARNING], second[:_LEARNING])
        if len(columns) == 1 and classifier is None:
            return cls(_column(columns[0]), first, second, bins)
        return cls(log_odds(first, second, products=True, classifier=classifier), first, second, bins)

    def count(self, rows: Rows) -> NDArray[np.int64]:
        """Return how many outputs are in each bin."""
        return self._count(self._statistic(rows))

    def ratio(self, rows: Rows) -> Scores:
        """Return the log-likelihood ratio of each output's bin, as it was in the outputs that bins were made of."""
        return np.asarray(self.ratios[self._places(self._statistic(rows))])

    def known_ratio(self, rows: Rows) -> Scores:
        """Return the same, and NaN for NaN."""
        values = self._statistic(rows)
        return np.where(np.isnan(values), np.nan, self.ratios[self._places(values)])

    def _count(self, values: Scores) -> NDArray[np.int64]:
        return np.bincount(self._places(values), minlength=len(self._edges) + 2)

    def _places(self, values: Scores) -> NDArray[np.intp]:
        places = np.searchsorted(self._edges, values, side="left")
        places[np.isnan(values)] = len(self._edges) + 1
        return places


def _numbers(rows: Rows, column: int) -> Scores:
    values = rows[:, column]
    return values[~np.isnan(values)]


def log_odds(first: Rows, second: Rows, *, products: bool = False, classifier: Classifier | None = None) -> Score:
    """Score an output by the log-odds that a classifier gives to the first input.

    Args:
        first: Outputs on the first input.
        second: Outputs on the second.
        products: Whether squares, and products while there are few columns, are inputs too.
        classifier: Anything like scikit-learn's classifiers; by default a logistic regression of our own.
    """
    columns = varying(first[:_LEARNING], second[:_LEARNING])
    inputs = _inputs(np.concatenate([first, second]), columns, products)
    x = np.concatenate([inputs(first), inputs(second)])
    target = np.repeat([1.0, 0.0], [len(first), len(second)])
    if classifier is None:
        weights = _logistic(x, target)
        # Rounded, so that equal outputs have equal scores wherever they stand in a block.
        return lambda rows: np.round(inputs(rows) @ weights, 9)
    fitted = copy.deepcopy(classifier)
    fitted.fit(x, target)
    return lambda rows: _odds_of(fitted.predict_proba(inputs(rows)))


def _odds_of(probabilities: Any) -> Scores:
    first = np.clip(np.asarray(probabilities, dtype=np.float64)[:, 1], 1e-12, 1 - 1e-12)
    return np.asarray(np.round(np.log(first) - np.log1p(-first), 9))


def _inputs(both: Rows, columns: Sequence[int], products: bool) -> Callable[[Rows], Rows]:
    """Return the map from outputs to what is learned from: scaled columns, and which of their values are missing."""
    known = [_numbers(both, column) for column in columns]
    known = [values[np.isfinite(values)] for values in known]
    middle = np.array([np.median(values) if len(values) else 0.0 for values in known])
    spread = np.array([np.std(values) if len(values) else 0.0 for values in known])
    # Tails that are too heavy for a standard deviation would hide the middle of the distribution.
    spread[~((spread > 0) & np.isfinite(spread))] = 1.0
    some_missing = np.isnan(both[:, columns]).any(axis=0)
    pairs = [(i, j) for i in range(len(columns)) for j in range(i + 1)] if len(columns) <= _FEW_COLUMNS else []

    def inputs(rows: Rows) -> Rows:
        x = rows[:, columns] - middle
        x /= spread
        np.clip(x, -8, 8, out=x)
        missing = np.isnan(x)
        x[missing] = 0.0
        squares = [x[:, i] * x[:, j] for i, j in pairs] if products else []
        return np.column_stack([np.ones(len(rows)), x, missing[:, some_missing], *squares])

    return inputs


def _logistic(x: Rows, target: Scores) -> Scores:
    """Return the weights of a logistic regression, by Newton's steps with a little ridge."""
    weights = np.zeros(x.shape[1])
    for _ in range(_ROUNDS):
        probability = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        curvature = (x * (probability * (1 - probability))[:, None]).T @ x + np.eye(len(weights))
        step = np.linalg.solve(curvature, x.T @ (target - probability) - weights)
        weights += step
        if np.max(np.abs(step)) < 1e-10:
            break
    return weights
