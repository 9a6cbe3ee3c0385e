"""Attribute inference, compared with imputation."""

from __future__ import annotations

import numpy as np
import pytest

from hush.errors import InvalidArgument
from hush.lab.attributes import impute, infer_attribute


def losses(values: np.ndarray, fit: float, seed: int) -> np.ndarray:
    """The losses of a model that has a smaller loss, by ``fit``, at the true value."""
    table = np.abs(np.random.default_rng(seed).normal(1.0, 0.2, size=(len(values), 3)))
    table[np.arange(len(values)), values] -= fit
    return table


def test_a_model_that_memorises_reveals_attributes_of_members() -> None:
    random = np.random.default_rng(0)
    members, others = random.integers(0, 3, size=(2, 500))
    result = infer_attribute(
        losses(members, 0.8, 1),
        members,
        losses(others, 0.0, 2),
        others,
        prior=[1, 1, 1],
        train_loss=0.3,
        imputed=np.zeros(500),
    )
    # Over 40 seeds 0.996 and 0.60, with standard deviations of 0.003 and 0.02.
    assert result.member_accuracy > 0.9
    assert result.advantage_low > 0.4
    assert result.advantage_low < result.advantage < result.advantage_high
    assert result.gain == pytest.approx(result.member_accuracy - result.imputed_accuracy)


def test_a_model_that_generalises_has_no_advantage() -> None:
    random = np.random.default_rng(3)
    members, others = random.integers(0, 3, size=(2, 500))
    result = infer_attribute(
        losses(members, 0.5, 4),
        members,
        losses(others, 0.5, 5),
        others,
        prior=[1, 1, 1],
        train_loss=0.3,
        imputed=members,
        confidence=1 - 1e-7,
    )
    assert result.advantage_low < 0 < result.advantage_high  # false alarms: 1e-7
    assert result.gain < 0  # imputation is always correct here; the model errs 33 times in 500, never with e^-33


def test_the_prior_decides_between_equal_losses() -> None:
    values = np.array([2, 2, 0])
    same = np.full((3, 3), 0.5)
    result = infer_attribute(same, values, same, values, prior=[0.2, 0.1, 0.7], train_loss=1.0, imputed=values)
    assert result.member_accuracy == pytest.approx(2 / 3)


def test_imputation_learns_from_other_records() -> None:
    random = np.random.default_rng(6)
    x = random.normal(size=(800, 4)) * np.array([1.0, 100.0, 1.0, 0.0]) + 5
    values = (x[:, 0] > 5).astype(int)
    guessed = impute(x[:400], values[:400], x[400:], num_values=2)
    assert (guessed == values[400:]).mean() > 0.95  # 0.994 over seeds, with a standard deviation of 0.004


def test_invalid_losses_are_refused() -> None:
    invalid = np.full((2, 2), np.nan)
    with pytest.raises(InvalidArgument, match="NaN"):
        infer_attribute(invalid, [0, 1], invalid, [0, 1], prior=[1, 1], train_loss=1.0, imputed=[0, 1])
    valid = np.zeros((2, 2))
    with pytest.raises(InvalidArgument, match="a loss for each"):
        infer_attribute(valid, [0, 1, 1], valid, [0, 1], prior=[1, 1], train_loss=1.0, imputed=[0, 1])
    with pytest.raises(InvalidArgument, match="one guess"):
        infer_attribute(valid, [0, 1], valid, [0, 1], prior=[1, 1], train_loss=1.0, imputed=[0])


def test_the_interval_of_the_gain_keeps_its_confidence() -> None:
    """The model guesses seven values in ten and imputation six, independently: a gain of 0.1."""
    missed = narrow = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        values = rng.integers(0, 2, 2000)
        shown = np.where(rng.random(2000) < 0.7, values, 1 - values)
        imputed = np.where(rng.random(2000) < 0.6, values, 1 - values)
        losses = np.where(np.arange(2) == shown[:, None], 0.1, 2.0)
        result = infer_attribute(losses, values, losses, values, prior=[0.5, 0.5], train_loss=0.5, imputed=imputed)
        missed += not result.gain_low <= 0.1 <= result.gain_high
        narrow += result.gain_low > 0
        assert result.gain_low <= result.gain <= result.gain_high
    # False alarms: P(Binomial(100, 0.05) > 18) = 5e-7; of 800 intervals 4 missed, and all were above 0.
    assert missed <= 18
    assert narrow >= 90
