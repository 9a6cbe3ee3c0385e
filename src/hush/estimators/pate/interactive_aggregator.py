"""An aggregator that consults the teachers only where they contradict the student."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.errors import check_count, check_fraction
from hush.estimators.pate.aggregators import ConfidentGNMax
from hush.estimators.pate.noise import Counts, Labels


@dataclass(frozen=True, kw_only=True)
class InteractiveGNMax(ConfidentGNMax):
    """`ConfidentGNMax` that consults the teachers only where they contradict the student.

    Queries are divided into ``rounds`` parts. After each part the student is trained on the answers so far, and
    predicts the next part. The check of a query looks at how far the votes exceed the prediction: the largest n_j -
    (number of teachers) p_j. Below the threshold, the student's own class is the answer if its probability is at least
    ``reinforce``, at no further cost. The first part is as in `ConfidentGNMax`.

    Choose it over `ConfidentGNMax` where the student learns fast and there are many queries: those that it answers
    itself cost only a check.

    Args:
        sigma: Standard deviation of the noise on every count, in votes; public.
        threshold: Number of votes by which teachers must contradict the student; public.
        sigma_threshold: Standard deviation of the noise of that check; public.
        rounds: Number of parts.
        reinforce: Probability from which the student's own class is taken as the answer.

    Guarantee:
        As `ConfidentGNMax`: predictions follow from earlier answers.

    Assumes:
        As `ConfidentGNMax`. The student has ``predict_proba`` (checked here), and sees only public data and answers
        (the caller's duty; `PATEClassifier` does so).

    References:
        Papernot et al. 2018, Algorithm 2. Variant: expected votes of the student are rounded to integers.

    >>> InteractiveGNMax(threshold=150.0, sigma_threshold=120.0, sigma=40.0, rounds=5).num_rounds
    5
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
        """Number of parts that queries are divided into."""
        return self.rounds

    def _expected_votes(self, predictions: NDArray[np.float64] | None, num_teachers: int | None) -> Counts | None:
        if predictions is None:
            return None
        # A function of public rows and earlier answers: subtracting it does not change the sensitivity of the check.
        shares = np.clip(np.nan_to_num(predictions), 0.0, 1.0)
        expected: Counts = np.rint(shares * check_count("num_teachers", num_teachers)).astype(np.int64)
        return expected

    def _with_predictions(
        self, labels: Labels, consulted: NDArray[np.bool_], num_asked: int, predictions: NDArray[np.float64] | None
    ) -> Labels:
        if predictions is None:
            return labels
        # Post-processing of the checks: what the student predicts is known already.
        confident = ~consulted & (predictions.max(axis=1) >= self.reinforce) & (np.arange(len(labels)) < num_asked)
        return np.where(confident, predictions.argmax(axis=1), labels)
