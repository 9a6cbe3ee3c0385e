"""What models have in common that are learned from what people told, each by themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Self

from hush.errors import check_count
from hush.estimators.base.estimator import Floats, PrivateEstimator
from hush.estimators.local.randomizer import LocalRandomizer
from hush.guarantee import Relation


class LocalLearner(PrivateEstimator, ABC):
    """Two steps, by two parties: `tell` perturbs rows, where they are; `fit_told` learns from what was told."""

    delta = 0.0
    _relation = Relation.REPLACE

    def fit(self, X: Any, y: Any) -> Self:
        """Let each row tell, and learn from what is told: both steps, for whoever may hold the rows."""
        told = self.tell(X, y)
        return self.fit_told(told, num_features=self.n_features_in_)

    def tell(self, X: Any, y: Any) -> Floats:
        """Return what each row and its target tell. This is the private step: it is charged each time."""
        self._check()
        rows = self._rows(X)
        table = self._told_table(rows, y)
        randomizer = self._randomizer(rows.shape[1])
        told: Floats = randomizer.transform(table)
        self._claim(randomizer)
        return told

    def fit_told(self, told: Any, *, num_features: int) -> Self:
        """Learn from what rows told, to `tell` of a model with the same parameters. It costs nothing more."""
        self._check()
        self.n_features_in_ = check_count("num_features", num_features)
        randomizer = self._randomizer(self.n_features_in_)
        self._learn(randomizer, told)
        self._claim(randomizer)
        return self

    def _claim(self, randomizer: LocalRandomizer) -> None:
        """Promise what the randomizer does, in one's own name."""
        self.guarantee_ = replace(randomizer.guarantee_, method=type(self).__name__)
        self.event_ = randomizer.event_

    @abstractmethod
    def _randomizer(self, num_features: int) -> LocalRandomizer:
        """Return what perturbs rows, fitted."""

    @abstractmethod
    def _told_table(self, rows: Floats, y: Any) -> Floats:
        """Return the numbers of each row that are told, perturbed."""

    @abstractmethod
    def _learn(self, randomizer: LocalRandomizer, told: Any) -> None:
        """Set the model's attributes."""
