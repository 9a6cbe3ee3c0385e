"""Membership signals: they agree with each other, keep their digits, and refuse what is not a probability."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hush.audit import membership as mi
from hush.audit.membership.signals import mask
from hush.errors import InvalidArgument


def test_signals_agree_and_keep_their_digits() -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(0, 3, (50, 7)), rng.integers(0, 7, 50)
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    true_class = probabilities[np.arange(50), labels]
    log_odds = np.log(true_class) - np.log(1 - true_class)
    assert mi.confidence(probabilities, labels) == pytest.approx(true_class)
    assert mi.cross_entropy(probabilities, labels) == pytest.approx(-np.log(true_class))
    assert mi.logit_confidence(probabilities, labels) == pytest.approx(log_odds, rel=1e-9)
    assert mi.logit_confidence(logits, labels, from_logits=True) == pytest.approx(log_odds, rel=1e-9)
    stacked = mi.logit_confidence(np.stack([probabilities, probabilities]), labels)
    assert stacked.shape == (2, 50)
    # 1 - p is 1e-20 here: subtracting from 1 would give infinity.
    assert mi.logit_confidence([[1.0, 1e-20]], [0]) == pytest.approx(20 * math.log(10))
    assert mi.logit_confidence([[800.0, 0.0, 0.0]], [0], from_logits=True) == pytest.approx(800 - math.log(2))


def test_certainty_stays_finite() -> None:
    certain = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert np.isfinite(mi.logit_confidence(certain, [0, 0])).all()
    assert np.isfinite(mi.cross_entropy(certain, [0, 0])).all()
    assert mi.logit_confidence(certain, [0, 0])[0] == -mi.logit_confidence(certain, [0, 0])[1]


@pytest.mark.parametrize(
    ("probabilities", "labels"),
    [
        ([[0.5, float("nan")]], [0]),
        ([[1.0]], [0]),  # one class
        ([[3.0, -1.0]], [0]),  # logits
        ([[0.5, 0.5]], [2]),
        ([[0.5, 0.5]], [0.0]),
        ([[0.5, 0.5]], [0, 1]),
        (np.zeros((0, 2)), []),
        ("text", [0]),
    ],
)
def test_invalid_probabilities_are_refused(probabilities: Any, labels: Any) -> None:
    with pytest.raises(InvalidArgument):
        mi.logit_confidence(probabilities, labels)


def test_masks_take_booleans_zeros_and_ones() -> None:
    for values in ([True, False], [1, 0], [1.0, 0.0]):
        assert mask("member", values, (2,)).tolist() == [True, False]
    for invalid in ([2, 0], [0.5, 0.0], ["a", "b"], [True]):
        with pytest.raises(InvalidArgument, match="^member="):
            mask("member", invalid, (2,))
