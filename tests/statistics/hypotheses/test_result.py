"""What a result says in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hush.randomness import TestSource
from hush.statistics import EachRow
from hush.statistics.hypotheses import HypothesisResult, goodness_of_fit


@pytest.fixture
def result() -> HypothesisResult:
    return goodness_of_fit([1, 2] * 500, {1: 0.5, 2: 0.5}, units=EachRow(), epsilon=1.0, source=TestSource(1))


def test_evidence_and_none(result: HypothesisResult) -> None:
    assert ": no evidence against the hypothesis that the shares are as stated." in str(result)
    assert ": evidence against" in str(replace(result, p_value=0.05))


def test_the_estimate_and_its_interval(result: HypothesisResult) -> None:
    assert "estimate" not in str(result)
    assert "The estimate is 0.5. " in str(replace(result, estimate=0.5))
    with_interval = replace(result, estimate=0.5, low=0.25, high=0.75)
    assert "The estimate is 0.5 (95 % interval 0.25 to 0.75). Noise and chance" in str(with_interval)


def test_what_the_noise_hides_is_said_to_be_unknown(result: HypothesisResult) -> None:
    text = str(replace(result, is_hidden=True, p_value=1.0))
    assert text.startswith(
        "p = 1: nothing is known about the hypothesis that the shares are as stated. The noise hides"
    )
    assert "few rows could be used" in text


def test_a_confidence_is_not_rounded_to_certainty(result: HypothesisResult) -> None:
    near_one = replace(result, estimate=0.5, low=0.25, high=0.75, confidence=0.999999)
    assert "(99.9999 % interval" in str(near_one)
