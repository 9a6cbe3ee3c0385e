"""The overlap of predicted members across runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from hush.errors import InvalidArgument
from hush.lab.data_overlap import overlap


def test_chance_overlaps_binomially_and_memorisation_fully() -> None:
    rng = np.random.default_rng(5)
    member = np.arange(4000) < 2000
    chance = overlap(rng.random((4, 4000)) < 0.2, member)
    for k in range(1, 5):
        law = binom(2000, binom.sf(k - 1, 4, 0.2))
        for count in (chance.members[k - 1], chance.others[k - 1]):  # false alarms: 2e-8 each
            assert law.ppf(1e-8) <= count <= law.isf(1e-8)
    assert chance.jaccard == pytest.approx(0.04 / 0.36, abs=0.03)  # standard deviation 0.0037
    same = overlap(np.tile(member, (4, 1)), member)
    assert same.members == (2000,) * 4
    assert same.others == (0,) * 4
    assert same.precision == (1.0,) * 4
    assert same.jaccard == 1
    none_predicted = overlap(np.zeros((2, 5)), np.ones(5))
    assert math.isnan(none_predicted.precision[0])
    assert none_predicted.jaccard == 1


def test_invalid_predictions_are_refused() -> None:
    with pytest.raises(InvalidArgument):
        overlap(np.zeros(5), np.ones(5))
    with pytest.raises(InvalidArgument):
        overlap([[0.0, float("nan")]], [0, 1])
