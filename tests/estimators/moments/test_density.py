"""Histogram densities: they integrate to one; a black box, and a twin without noise on empty cells."""

from __future__ import annotations

import math

import numpy as np
import pytest

from black_box.certainty import audit
from hush.estimators import PrivateHistogramDensity
from hush.randomness import TestSource
from hush.statistics import NoisePlan


def only_what_is_there(plan, totals, source):
    """A broken twin: empty cells have no noise."""
    return np.where(totals == 0, 0, RELEASE(plan, totals, source))


RELEASE = NoisePlan.release


@pytest.mark.parametrize("twin", [None, only_what_is_there])
def test_density_black_box(twin, monkeypatch):
    if twin is not None:
        monkeypatch.setattr(NoisePlan, "release", twin)

    def run(rows, source):
        return PrivateHistogramDensity(epsilon=1.0, bounds=(0, 1), bins=3, source=source).fit(rows).density_.tolist()

    first, second = np.array([[0.1]]), np.array([[0.1], [1e9]])
    result = audit(run, first, second, samples=400, search_samples=100, source=TestSource(1))
    assert result.compare(1.0).violated is (twin is not None)


def test_density_integrates_to_one():
    x = np.random.default_rng(0).uniform(size=(5000, 2))
    model = PrivateHistogramDensity(epsilon=1.0, bounds=(0, 2), bins=8, source=TestSource(1)).fit(x)
    assert model.density_.sum() * 0.25**2 == pytest.approx(1)
    assert model.score_samples([[0.5, 0.5], [1.9, 1.9]])[0] == pytest.approx(0, abs=0.4)
    assert model.score_samples([[3.0, 0.5]])[0] == -math.inf
