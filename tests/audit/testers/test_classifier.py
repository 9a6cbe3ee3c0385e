"""Attacks by classifiers: ties, other classifiers, and what the hockey-stick test sees.

False alarms: 1e-7 for bounds above the truth. Lower limits leave six standard deviations or more.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from audit.testers.known_mechanisms import CONFIDENCE, Rows, batched, disclosure, randomised_response
from hush.audit.testers import Attack, Batched, ClassifierAttack, HockeyStick, audit_mechanism
from hush.errors import InvalidArgument
from hush.lab.divergence import Renyi
from hush.randomness import RandomSource, TestSource


def test_ties_are_split() -> None:
    # Both outputs of a coin are far more probable than 0.01: the event takes a part of one of them.
    settings: dict[str, Any] = {"attack": ClassifierAttack(probability=0.01), "confidence": CONFIDENCE}
    result = audit_mechanism(randomised_response(1.0), 0, 1, samples=200_000, source=TestSource(4), **settings)
    assert "= with probability 0.03" in str(result.details["event"])
    assert float(result.details["other_hits"]) / 200_000 == pytest.approx(0.01, abs=0.002)  # deviation 0.0002
    assert 0.7 < result.epsilon_lower <= 1.0  # 0.817, with a deviation of 0.018


def test_other_classifiers_can_be_used() -> None:
    # Two signs that agree on the first input, and differ on the second: no straight line tells them apart, but a
    # product does. The best line cuts off half of a hundredth part each: ratios of 23 at most, ln 23 = 3.15.
    def law(rng: np.random.Generator, agree: int, count: int) -> Rows:
        sign = rng.choice([-1.0, 1.0], size=count)
        return np.column_stack([sign, sign * (2 * agree - 1)]) + rng.normal(scale=0.4, size=(count, 2))

    def shown(attack: Attack) -> float:
        return audit_mechanism(
            batched(law), 1, 0, samples=20_000, attack=attack, source=TestSource("signs")
        ).epsilon_lower

    # 4.7, 5.7 and 6.5 are shown, with deviations of 0.06, 0.09 and 0.16.
    products = make_pipeline(PolynomialFeatures(2), LogisticRegression())
    assert shown(ClassifierAttack(probability=0.02)) < 3.5
    assert shown(ClassifierAttack(probability=0.02, classifier=products)) > 3.5
    assert shown(HockeyStick(epsilon=2.0, classifier=products)) > 3.5
    assert shown(Renyi(classifier=products)) > 3.5
    assert not hasattr(products[-1], "coef_"), "the caller's classifier is left alone"


@pytest.mark.parametrize("values", [(0.0, 1.0), (math.inf, -math.inf), (math.nan, 1.0), (1.0, math.nan)])
def test_the_hockey_stick_sees_total_disclosure(values: tuple[float, float]) -> None:
    result = audit_mechanism(
        disclosure(values), 0, 1, samples=5000, attack=HockeyStick(epsilon=1.0), source=TestSource(1)
    )
    assert result.epsilon_lower > 6


@pytest.mark.parametrize("truthful", [0.9, 0.99, 0.996, 0.999])
def test_the_hockey_stick_sees_few_lies(truthful: float) -> None:
    def respond(which: int, source: RandomSource, count: int) -> Any:
        return np.where(np.random.default_rng(source.words(4)).random(count) < truthful, which, 1 - which)

    # False alarms: 1e-7 above. At 0.999, 0.86 of the truth are shown, with a standard deviation of 0.011 over seeds.
    settings: dict[str, Any] = {"attack": HockeyStick(epsilon=1.0), "confidence": 1 - 1e-7, "source": TestSource(1)}
    result = audit_mechanism(Batched(respond), 0, 1, samples=20_000, **settings)
    true_epsilon = math.log(truthful / (1 - truthful))
    assert 0.75 * true_epsilon < result.epsilon_lower <= true_epsilon


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="^probability="):
        ClassifierAttack(probability=0.0)
    with pytest.raises(InvalidArgument, match="^epsilon="):
        HockeyStick(epsilon=math.nan)
