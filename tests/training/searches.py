"""Private searches with known laws, for tests of tuning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, logser, nbinom, poisson

from hush.accounting import Event, GaussianEvent
from hush.training import Repetitions, plan_tuning
from hush.training.tuning.repetitions import NegativeBinomialRepetitions
from hush.training.tuning.scores import PublicScore
from hush.training.tuning.search import TuningPlan

ALARM = 1e-8
PUBLIC = PublicScore("invented for a test")
LAWS: dict[str, Repetitions] = {
    "logarithmic": Repetitions.logarithmic(8.0),
    "geometric": Repetitions.negative_binomial(6.0),
    "negative-binomial": Repetitions.negative_binomial(5.0, shape=0.5),
    "poisson": Repetitions.poisson(3.0),
}
EACH_LAW = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


def probabilities(law: Repetitions, count: int = 4000) -> np.ndarray:
    """P(K = 0, 1, ...) by SciPy, which computes these distributions independently."""
    k = np.arange(count)
    if isinstance(law, NegativeBinomialRepetitions):
        if law.shape == 0:
            return np.where(k >= 1, logser.pmf(np.maximum(k, 1), 1 - law.gamma), 0.0)
        plain = nbinom.pmf(k, law.shape, law.gamma)
        return np.where(k >= 1, plain, 0.0) / (1 - plain[0])
    return poisson.pmf(k, law.mean)


def gaussian_cost(settings: dict[str, Any], noise: float) -> Event:
    return GaussianEvent(noise)


def planned(law: Repetitions, space: Any = ({"way": 0},), score: Any = PUBLIC, **changes: Any) -> TuningPlan:
    plan = plan_tuning(list(space), cost=gaussian_cost, score=score, epsilon=2.0, delta=1e-5, repetitions=law)
    return replace(plan, **changes)


def within(hits: int, count: int, expected: float) -> bool:
    """Whether an exact confidence interval for the probability of a hit contains the expected one."""
    low = beta.ppf(ALARM, hits, count - hits + 1) if hits else 0.0
    high = beta.ppf(1 - ALARM, hits + 1, count - hits) if hits < count else 1.0
    return bool(low <= expected <= high)
