"""The base class of models that learn from reports.

rows     stay with their owners
reports  what `randomize` returns: products or pairs that the model needs, randomised row by row
model    what `fit_reports` learns from reports
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Self

from hush.errors import check_count
from hush.estimators.base.estimator import Floats, PrivateEstimator
from hush.estimators.local.randomizer import LocalRandomizer
from hush.guarantee import Relation


class LocalLearner(PrivateEstimator, ABC):
    """A model in two steps, by two parties: `randomize` perturbs rows locally, `fit_reports` learns from reports.

    ``fit`` does both, for experiments in which you hold the rows.
    """

    delta = 0.0
    _relation = Relation.REPLACE

    def fit(self, X: Any, y: Any) -> Self:
        """Randomise the rows and learn from the reports: both steps at once."""
        reports = self.randomize(X, y)
        return self.fit_reports(reports, num_features=self.n_features_in_)

    def randomize(self, X: Any, y: Any) -> Floats:
        """Return the reports of rows and their targets. This is the private step, and every call is charged.

        Args:
            X: Rows of numbers.
            y: Class or target of each row.
        """
        self._check()
        rows = self._rows(X)
        table = self._report_table(rows, y)
        randomizer = self._randomizer(rows.shape[1])
        reports: Floats = randomizer.transform(table)
        self._adopt_guarantee(randomizer)
        return reports

    def fit_reports(self, reports: Any, *, num_features: int) -> Self:
        """Learn from reports. This costs nothing more.

        Args:
            reports: Reports from `randomize` of a model with the same parameters.
            num_features: Number of features of the original rows.
        """
        self._check()
        self.n_features_in_ = check_count("num_features", num_features)
        randomizer = self._randomizer(self.n_features_in_)
        self._learn(randomizer, reports)
        self._adopt_guarantee(randomizer)
        return self

    def _adopt_guarantee(self, randomizer: LocalRandomizer) -> None:
        """Take over the guarantee of the randomizer, under the name of this model."""
        self.guarantee_ = replace(randomizer.guarantee_, method=type(self).__name__)
        self.event_ = randomizer.event_

    @abstractmethod
    def _randomizer(self, num_features: int) -> LocalRandomizer:
        """Return the fitted randomizer of the reported table."""

    @abstractmethod
    def _report_table(self, rows: Floats, y: Any) -> Floats:
        """Return the table that is randomised: the statistics of each row that the model needs."""

    @abstractmethod
    def _learn(self, randomizer: LocalRandomizer, reports: Any) -> None:
        """Learn from the reports and set the fitted attributes."""
