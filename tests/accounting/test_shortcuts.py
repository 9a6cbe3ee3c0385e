"""The one-liner: published settings, and agreement with the accountant behind it."""

from __future__ import annotations

import pytest

from hush import accounting
from hush.accounting import GaussianEvent, PldAccountant, PoissonSampledEvent
from hush.errors import InvalidArgument
from hush.guarantee import Relation


# Published settings, with the epsilon of their privacy loss distribution.
@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "epsilon", "digits"),
    [
        (256 / 60_000, 1.3, 15 * 60_000 // 256, 0.864, 3),  # TensorFlow Privacy's tutorial
        (256 / 60_000, 1.1, 60 * 60_000 // 256, 2.38, 2),
        (256 / 60_000, 0.7, 45 * 60_000 // 256, 5.64, 2),
        (4096 / 50_000, 10.0, 875, 0.903, 3),  # De et al. 2022
        (4096 / 50_000, 3.0, 2500, 6.58, 2),  # TAN 2022
        (100 / 60_000, 0.9, 30_000, 1.831, 3),  # the exercise's published solution
    ],
)
def test_published_settings(rate: float, sigma: float, steps: int, epsilon: float, digits: int) -> None:
    value = accounting.epsilon(noise_multiplier=sigma, sampling_rate=rate, num_steps=steps, delta=1e-5)
    assert value == pytest.approx(epsilon, abs=1.1 * 10.0**-digits)


@pytest.mark.parametrize("relation", list(Relation))
def test_it_is_the_accountant(relation: Relation) -> None:
    expected = PldAccountant(relation=relation).compose(PoissonSampledEvent(GaussianEvent(1.2), 0.02), 70).epsilon(1e-6)
    value = accounting.epsilon(noise_multiplier=1.2, sampling_rate=0.02, num_steps=70, delta=1e-6, relation=relation)
    assert value == expected


def test_defaults_are_a_single_gaussian() -> None:
    single = PldAccountant().compose(GaussianEvent(4.0)).epsilon(1e-5)
    assert accounting.epsilon(noise_multiplier=4.0, delta=1e-5) == pytest.approx(single, rel=1e-12)


def test_arguments_are_keywords_and_checked() -> None:
    with pytest.raises(TypeError):
        accounting.epsilon(1.0, 0.1)  # type: ignore[misc]
    with pytest.raises(InvalidArgument, match="^noise_multiplier="):
        accounting.epsilon(noise_multiplier=0.0, delta=1e-5)
