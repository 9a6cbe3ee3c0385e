"""Power before spending: it agrees with tests that are run, and reads no data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hush.errors import InvalidArgument
from hush.randomness import TestSource
from hush.statistics import EachRow
from hush.statistics.hypotheses import Design, compare_means, compare_proportions


def test_power_grows_with_size_epsilon_and_effect() -> None:
    trial = Design.proportions((0.1, 0.2), sizes=(200, 200))
    powers = [trial.power(epsilon=epsilon) for epsilon in (0.02, 0.1, 0.5, 5.0)]
    assert powers == sorted(powers)
    assert trial.power(epsilon=0.1) < Design.proportions((0.1, 0.3), sizes=(200, 200)).power(epsilon=0.1)
    assert trial.power(epsilon=0.1) < Design.proportions((0.1, 0.2), sizes=(800, 800)).power(epsilon=0.1)
    assert trial.power(epsilon=0.5, level=0.01) < trial.power(epsilon=0.5)


def test_power_is_that_of_the_test() -> None:
    """Fixed key: the standard error of 60 experiments is 6.5 points."""
    rng, source, sizes = np.random.default_rng(0), TestSource(0), (100, 150)
    groups = np.repeat([0, 1], sizes)
    more: dict[str, Any] = {"units": EachRow(), "epsilon": 0.5, "num_simulations": 99, "source": source}
    hits = [0, 0]
    for _ in range(60):
        outcomes = (rng.random(250) < np.where(groups, 0.4, 0.2)).astype(int)
        values = rng.beta(2, 2, 250) + np.where(groups, 0.1, 0.0)
        rates = compare_proportions(outcomes, groups, keys=(0, 1), outcome_keys=(0, 1), **more)
        means = compare_means(values, groups, keys=(0, 1), bounds=(0, 1.5), **more)
        hits = [hits[0] + (rates.p_value <= 0.05), hits[1] + (means.p_value <= 0.05)]
    assert Design.proportions((0.2, 0.4), sizes=sizes).power(epsilon=0.5) == pytest.approx(hits[0] / 60, abs=0.16)
    design = Design.means_of((0.5, 0.6), stds=(0.2236, 0.2236), sizes=sizes, bounds=(0, 1.5))
    assert design.power(epsilon=0.5) == pytest.approx(hits[1] / 60, abs=0.16)


@pytest.mark.slow
def test_searches_reach_the_power() -> None:
    trial = Design.proportions((0.1, 0.2), sizes=(300, 300))
    epsilon = trial.epsilon_for(0.7)
    assert trial.power(epsilon=epsilon) >= 0.68
    assert trial.power(epsilon=epsilon / 1.5) < 0.7
    factor = trial.factor_for(0.7, epsilon=0.1)
    larger = Design.proportions((0.1, 0.2), sizes=(round(300 * factor), round(300 * factor)))
    assert larger.power(epsilon=0.1) >= 0.66
    with pytest.raises(InvalidArgument, match=r"^power=0.99"):
        Design.proportions((0.1, 0.11), sizes=(20, 20)).epsilon_for(0.99)


def test_without_an_effect_power_is_at_most_the_level() -> None:
    assert Design.proportions((0.2, 0.2), sizes=(100, 100)).power(epsilon=1.0) <= 0.055


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("sizes", lambda: Design.proportions((0.1, 0.2), sizes=(100,))),
        ("sizes", lambda: Design.proportions((0.1,), sizes=(100,))),
        ("sizes", lambda: Design.proportions((0.1, 0.2), sizes=(100, 1))),
        ("rates", lambda: Design.proportions((0.1, 1.2), sizes=(100, 100))),
        ("stds", lambda: Design.means_of((1, 2), stds=(1,), sizes=(9, 9), bounds=(0, 9))),
        ("stds", lambda: Design.means_of((1, 2), stds=(9, 9), sizes=(9, 9), bounds=(0, 9))),
        ("means", lambda: Design.means_of((1, 20), stds=(1, 1), sizes=(9, 9), bounds=(0, 9))),
        ("bounds", lambda: Design.means_of((1, 2), stds=(1, 1), sizes=(9, 9), bounds=(9, 0))),
        ("level", lambda: Design.proportions((0.1, 0.2), sizes=(9, 9)).power(epsilon=1.0, level=0.0)),
        ("epsilon", lambda: Design.proportions((0.1, 0.2), sizes=(9, 9)).power(epsilon=-1.0)),
    ],
)
def test_refusals(name: str, make: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"^{name}="):
        make()
