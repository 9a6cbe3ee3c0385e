"""The aggregator that asks teachers only where they contradict the student."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.errors import check_count, check_fraction
from hush.estimators.pate.aggregators import ConfidentGNMax
from hush.estimators.pate.noise import Counts, Labels


@dataclass(frozen=True, kw_only=True)
class InteractiveGNMax(ConfidentGNMax):
    """`ConfidentGNMax` that asks only where the teachers contradict the student.

    Queries are cut into ``rounds`` parts. After each, the student learns from the answers so far and predicts the next
    part. A query is checked by how far the votes exceed the prediction: the largest n_j - (number of teachers) p_j. If
    that is below the threshold, the student's own class is taken as the answer where its probability is at least
    ``reinforce``, which costs nothing more. The first part is as in `ConfidentGNMax`.

    Choose it over `ConfidentGNMax` where the student learns fast and queries are many: those that it answers itself
    cost a check only.

    >>> InteractiveGNMax(threshold=150.0, sigma_threshold=120.0, sigma=40.0, rounds=5).num_rounds
    5

    Args:
        sigma: Standard deviation of the noise on every count, in votes; public.
        threshold: By how many votes teachers must contradict the student; public.
        sigma_threshold: Standard deviation of the noise of that check; public.
        rounds: Into how many parts queries are cut.
        reinforce: From which probability on the student's own class is taken as the answer.

    Guarantee:
        As `ConfidentGNMax`: predictions are made from earlier answers.

    Assumes:
        As `ConfidentGNMax`. The student has ``predict_proba`` (checked here), and sees public data and answers only
        (the caller's duty; `PATEClassifier` does so).

    References:
        Papernot et al. 2018, Algorithm 2. Variant: expected votes of the student are rounded to whole ones.
    """

    rounds: int = 4
    reinforce: float = 0.95

    def __post_init__(self) -> None:
        """Check the arguments."""
        super().__post_init__()
        check_count("rounds", self.rounds, minimum=2)
        check_fraction("reinforce", self.reinforce)

    @property
    def num_rounds(self) -> int:
        """Into how many parts queries are cut."""
        return self.rounds

    def _expected(self, predictions: NDArray[np.float64] | None, num_teachers: int | None) -> Counts | None:
        if predictions is None:
            return None
        shares = np.clip(np.nan_to_num(predictions), 0.0, 1.0)
        expected: Counts = np.rint(shares * check_count("num_teachers", num_teachers)).astype(np.int64)
        return expected

    def _completed(
        self, labels: Labels, consulted: NDArray[np.bool_], asked: int, predictions: NDArray[np.float64] | None
    ) -> Labels:
        if predictions is None:
            return labels
        sure = ~consulted & (predictions.max(axis=1) >= self.reinforce) & (np.arange(len(labels)) < asked)
        return np.where(sure, predictions.argmax(axis=1), labels)
