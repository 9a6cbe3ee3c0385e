"""Attacks on the target alone: closed forms, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hush.audit import membership as mi
from hush.audit import roc
from hush.errors import HushError
from hush.lab.slicing import label_only


def test_yeom_on_exponential_losses() -> None:
    """Members' losses have mean 1, others' 2: AUC 2/3; at the members' mean, TPR 1 - 1/e and FPR 1 - 1/sqrt e."""
    rng = np.random.default_rng(9)
    losses = rng.exponential(1.0, 20_000), rng.exponential(2.0, 20_000)
    # Deviations 0.0024 and 0.004.
    assert roc(*map(mi.yeom, losses)).auc == pytest.approx(2 / 3, abs=0.018)
    fixed = roc(*(mi.yeom(values, mean_train_loss=1.0) for values in losses))
    assert fixed.advantage == pytest.approx(math.exp(-0.5) - math.exp(-1), abs=0.03)
    for invalid in ([float("nan")], [-1.0], []):
        with pytest.raises(HushError):
            mi.yeom(invalid)
    with pytest.raises(HushError):
        mi.yeom([1.0], mean_train_loss=float("nan"))


def test_the_gap_attack_has_the_generalisation_gap() -> None:
    labels = np.arange(10)
    scores = label_only(np.r_[labels, labels], np.r_[labels, labels[:6], -labels[6:]])
    assert roc(scores[:10], scores[10:]).advantage == pytest.approx(0.4)
    with pytest.raises(HushError):
        label_only([1, 2], [1])
    with pytest.raises(HushError):
        label_only([float("nan")], [1.0])
