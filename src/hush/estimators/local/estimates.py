"""Unbiased estimates from rows that were randomised one by one.

A *report* is the randomised form of a row, as `LocalRandomizer.transform` returns it. Every mechanism of the local
model has a known bias, and the estimates here subtract it: shares of categories, means, and second moments.
"""

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
    """Estimates from reports. They cost nothing more, because reports are already private.

    Attributes:
        channels_: The mechanism of each column.
        categories_: From the position of each categorical column to its categories.
        guarantee_: Privacy guarantee of the reports.
        event_: The same guarantee as an accounting event.
    """

    channels_: list[Any]
    categories_: dict[int, list[Any]]
    guarantee_: Guarantee
    event_: Any

    def frequencies(self, reports: Any, column: int, *, confidence: float = 0.95) -> Estimate:
        """Return an unbiased estimate of the share of each category of a column. Noise may bring it below 0.

        The intervals hold for each category separately. They cover the share in the population for any number of
        people, if these are drawn independently (Clopper & Pearson 1934, applied to how often the category is
        reported).

        Args:
            reports: Reports, as ``transform`` returns them.
            column: Position of the column in the original table.
            confidence: Coverage of each interval, in (0, 1).

        Returns:
            The shares with their intervals. ``noise_scale`` is the standard deviation of an estimate whose true share
            is 0.
        """
        check_is_fitted(self)
        error_rate = 1 - _check_confidence(confidence)
        channel = self._channel(column, RandomizedResponse, UnaryEncoding)
        values = self._columns(reports)[column]
        # NaN: the row did not report this column. Which ones it reports is drawn without looking at its values.
        values = values[~np.isnan(values[:, 0])]
        # One bit per category (Erlingsson, Pihur & Korolova 2014), or one category (Kairouz, Oh & Viswanath 2016).
        if isinstance(channel, UnaryEncoding):
            counts = values.sum(axis=0)
        else:
            counts = (values == np.arange(channel.num_values)).sum(axis=0)
        total, truth_rate, lie_rate = len(values), channel.truth_probability, channel.lie_probability
        # P(report of a value) = lie + share (truth - lie): invert it for the estimate and the ends of the interval.
        low, high = _binomial_interval(counts, total, error_rate)
        with np.errstate(all="ignore"):
            value, low, high = (
                (share - lie_rate) / (truth_rate - lie_rate) for share in (counts / np.float64(total), low, high)
            )
        return Estimate(
            value=value,
            low=np.clip(low, 0.0, 1.0),
            high=np.clip(high, 0.0, 1.0),
            confidence=float(confidence),
            # A category that no one has is reported by Binomial(total, lie) people; the slope of the inverse scales it.
            noise_scale=math.sqrt(lie_rate * (1 - lie_rate) / total) / (truth_rate - lie_rate) if total else math.inf,
            guarantee=self.guarantee_,
            event=self.event_,
            keys=tuple(self.categories_[column]),
        )

    def means(self, reports: Any, *, confidence: float = 0.95) -> Estimate:
        """Return an unbiased estimate of the mean of each numeric column; NaN for categorical columns.

        The intervals are the normal approximation with the variance of the reports, for each column separately.

        Args:
            reports: Reports, as ``transform`` returns them.
            confidence: Coverage of each interval, in (0, 1).
        """
        check_is_fitted(self)
        # Piecewise reports are unbiased (Wang et al. 2019, Lemma 1), so their plain mean estimates the mean.
        quantile = float(ndtri(0.5 + _check_confidence(confidence) / 2))
        column_means = [
            _mean(values[:, 0], quantile) if isinstance(channel, Piecewise) else (math.nan,) * 3
            for channel, values in zip(self.channels_, self._columns(reports), strict=True)
        ]
        value, low, high = np.array(column_means).T
        return Estimate(
            value=value,
            low=low,
            high=high,
            confidence=float(confidence),
            noise_scale=float(np.nanmax((high - low) / (2 * quantile), initial=0.0)),
            guarantee=self.guarantee_,
            event=self.event_,
        )

    def second_moments(self, reports: Any) -> Floats:
        """Return unbiased estimates of the mean product of each pair of numeric columns: for covariances, regression.

        Noise in different columns is independent, so products of two columns need no correction. The noise adds a known
        amount to squares, which is subtracted. A pair that no row reported, as with ``sampled=1``, is NaN, and so are
        categorical columns. The matrix may have negative eigenvalues because of the noise.

        Args:
            reports: Reports, as ``transform`` returns them.
        """
        check_is_fitted(self)
        columns = self._columns(reports)
        numeric = [index for index, channel in enumerate(self.channels_) if isinstance(channel, Piecewise)]
        moments = np.full((len(columns), len(columns)), math.nan)
        with np.errstate(all="ignore"):
            for i in numeric:
                # By the variance of a report (Wang et al. 2019, Lemma 1), E report^2 = a x^2 + c with known a and c.
                moments[i, i] = _known_mean(self.channels_[i].squares(columns[i][:, 0]))
                # E (report_i report_j) = x_i x_j, since the noises are independent and unbiased.
                for j in (j for j in numeric if j < i):
                    moments[i, j] = moments[j, i] = _known_mean(columns[i][:, 0] * columns[j][:, 0])
        return moments

    def _channel(self, column: Any, *kinds: type) -> Any:
        """Return the mechanism of a column, which must be of one of these types."""
        if not (isinstance(column, (int, np.integer)) and 0 <= column < len(self.channels_)):
            raise InvalidArgument("column", column, f"a position from 0 to {len(self.channels_) - 1}")
        if not isinstance(self.channels_[column], kinds):
            raise InvalidArgument("column", column, "a categorical column", "Use means() for numeric columns")
        return self.channels_[column]

    def _columns(self, reports: Any) -> list[Floats]:
        """Return the reports of each column: one number per row, or its bits."""
        rows = check_array(reports, dtype=np.float64, ensure_all_finite="allow-nan")
        widths = [channel.num_values if isinstance(channel, UnaryEncoding) else 1 for channel in self.channels_]
        if rows.shape[1] != sum(widths):
            raise InvalidArgument("reports", rows.shape, f"{sum(widths)} columns, as transform returns")
        return np.split(rows, np.cumsum(widths)[:-1].tolist(), axis=1)


def _check_confidence(confidence: float) -> float:
    """Return the confidence as a float, if it is in (0, 1)."""
    if not check_probability("confidence", confidence) < 1:
        raise InvalidArgument("confidence", confidence, "a number in (0, 1)", "No interval of finite width is certain")
    return float(confidence)


def _binomial_interval(counts: Any, total: int, error_rate: float) -> tuple[Floats, Floats]:
    """Return the Clopper-Pearson interval of each count out of a total."""
    counts = np.asarray(counts, dtype=np.float64)
    with np.errstate(all="ignore"):
        # Clopper & Pearson 1934: quantiles of Beta(k, n - k + 1) and Beta(k + 1, n - k). At k = 0 and k = n one end is
        # known, and the tiny shape only keeps the function defined.
        low = np.where(counts > 0, betaincinv(np.maximum(counts, 1e-9), total - counts + 1, error_rate / 2), 0.0)
        high = betaincinv(counts + 1, np.maximum(total - counts, 1e-9), 1 - error_rate / 2)
    return low, np.where(counts < total, high, 1.0)


def _mean(values: Floats, quantile: float) -> tuple[float, float, float]:
    """Return the mean of the reported values and the ends of its interval."""
    known = values[~np.isnan(values)]
    # One report has no variance to estimate, so the interval is everything.
    if len(known) < 2:
        return (float(known[0]) if len(known) else math.nan), -math.inf, math.inf
    mean, error = float(known.mean()), float(known.std(ddof=1)) / math.sqrt(len(known))
    return mean, mean - quantile * error, mean + quantile * error


def _known_mean(values: Floats) -> float:
    """Return the mean of the reported values, or NaN if there is none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan
