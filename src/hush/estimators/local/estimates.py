"""What can be estimated, without bias, from rows that were perturbed one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtri
from sklearn.utils.validation import check_array, check_is_fitted

from hush.errors import InvalidArgument, check_probability
from hush.estimators.base.estimator import Floats
from hush.guarantee import Guarantee
from hush.mechanisms import Piecewise, RandomizedResponse, UnaryEncoding
from hush.statistics import Estimate


class LocalEstimates:
    """Estimates from what rows told. They cost nothing: what is told is private already."""

    channels_: list[Any]
    categories_: dict[int, list[Any]]
    guarantee_: Guarantee
    event_: Any

    def frequencies(self, told: Any, column: int, *, confidence: float = 0.95) -> Estimate:
        """Return the share of people in each category of a column, without bias: noise may bring one below 0.

        The intervals, one for each category by itself, cover the population's share whatever the number of people
        (Clopper & Pearson 1934, for how often the category is told), if people are drawn independently. ``noise_scale``
        is the standard deviation of a share that is 0.
        """
        check_is_fitted(self)
        wrong = 1 - _open(confidence)
        channel = self._channel(column, RandomizedResponse, UnaryEncoding)
        values = self._columns(told)[column]
        values = values[~np.isnan(values[:, 0])]
        if isinstance(channel, UnaryEncoding):
            counts = values.sum(axis=0)
        else:
            counts = (values == np.arange(channel.num_values)).sum(axis=0)
        total, truth, lie = len(values), channel.truth_probability, channel.lie_probability
        low, high = _binomial_interval(counts, total, wrong)
        with np.errstate(all="ignore"):
            value, low, high = ((share - lie) / (truth - lie) for share in (counts / np.float64(total), low, high))
        return Estimate(
            value=value,
            low=np.clip(low, 0.0, 1.0),
            high=np.clip(high, 0.0, 1.0),
            confidence=float(confidence),
            noise_scale=math.sqrt(lie * (1 - lie) / total) / (truth - lie) if total else math.inf,
            guarantee=self.guarantee_,
            event=self.event_,
            keys=tuple(self.categories_[column]),
        )

    def means(self, told: Any, *, confidence: float = 0.95) -> Estimate:
        """Return the mean of each numeric column, without bias; NaN for categorical ones.

        The intervals are the normal approximation, with the variance of what was told, for each column by itself.
        """
        check_is_fitted(self)
        quantile = float(ndtri(0.5 + _open(confidence) / 2))
        found = [
            _mean(values[:, 0], quantile) if isinstance(channel, Piecewise) else (math.nan,) * 3
            for channel, values in zip(self.channels_, self._columns(told), strict=True)
        ]
        value, low, high = np.array(found).T
        return Estimate(
            value=value,
            low=low,
            high=high,
            confidence=float(confidence),
            noise_scale=float(np.nanmax((high - low) / (2 * quantile), initial=0.0)),
            guarantee=self.guarantee_,
            event=self.event_,
        )

    def second_moments(self, told: Any) -> Floats:
        """Return the mean product of each pair of numeric columns, without bias: for covariances and regression.

        Noise of different columns is independent, so their products need no correction; what noise adds to squares is
        known, and taken away. A pair that no row told, as with ``sampled=1``, is NaN; so are categorical columns. The
        matrix may have negative eigenvalues, which are noise.
        """
        check_is_fitted(self)
        columns = self._columns(told)
        numeric = [place for place, channel in enumerate(self.channels_) if isinstance(channel, Piecewise)]
        moments = np.full((len(columns), len(columns)), math.nan)
        with np.errstate(all="ignore"):
            for i in numeric:
                moments[i, i] = _known_mean(self.channels_[i].squares(columns[i][:, 0]))
                for j in (j for j in numeric if j < i):
                    moments[i, j] = moments[j, i] = _known_mean(columns[i][:, 0] * columns[j][:, 0])
        return moments

    def _channel(self, column: Any, *kinds: type) -> Any:
        if not (isinstance(column, (int, np.integer)) and 0 <= column < len(self.channels_)):
            raise InvalidArgument("column", column, f"a place from 0 to {len(self.channels_) - 1}")
        if not isinstance(self.channels_[column], kinds):
            raise InvalidArgument("column", column, "a categorical column", "Numbers have means")
        return self.channels_[column]

    def _columns(self, told: Any) -> list[Floats]:
        """Return what was told of each column: one number for each row, or its bits."""
        rows = check_array(told, dtype=np.float64, ensure_all_finite="allow-nan")
        widths = [one.num_values if isinstance(one, UnaryEncoding) else 1 for one in self.channels_]
        if rows.shape[1] != sum(widths):
            raise InvalidArgument("told", rows.shape, f"{sum(widths)} columns", "It is what transform returns")
        return np.split(rows, np.cumsum(widths)[:-1].tolist(), axis=1)


def _open(confidence: float) -> float:
    if not check_probability("confidence", confidence) < 1:
        raise InvalidArgument("confidence", confidence, "a number in (0, 1)", "Nothing is certain here")
    return float(confidence)


def _binomial_interval(counts: Any, total: int, wrong: float) -> tuple[Floats, Floats]:
    """Return the ends of Clopper & Pearson's interval for each count out of a total."""
    counts = np.asarray(counts, dtype=np.float64)
    with np.errstate(all="ignore"):
        low = np.where(counts > 0, betaincinv(np.maximum(counts, 1e-9), total - counts + 1, wrong / 2), 0.0)
        high = betaincinv(counts + 1, np.maximum(total - counts, 1e-9), 1 - wrong / 2)
    return low, np.where(counts < total, high, 1.0)


def _mean(values: Floats, quantile: float) -> tuple[float, float, float]:
    known = values[~np.isnan(values)]
    if len(known) < 2:
        return (float(known[0]) if len(known) else math.nan), -math.inf, math.inf
    mean, error = float(known.mean()), float(known.std(ddof=1)) / math.sqrt(len(known))
    return mean, mean - quantile * error, mean + quantile * error


def _known_mean(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan
