"""RMIA: its definition written out, extreme confidences, tuning, and refusals.

False alarms: generators have seeds, and tolerances are seven standard deviations or more, as measured over 15 seeds.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from audit.membership.worlds import Floats, auc, gaussian_world
from hush.audit import membership as mi
from hush.errors import InvalidArgument


def test_rmia_is_its_definition() -> None:
    rng = np.random.default_rng(10)
    target, references, halves = rng.random(40), rng.random((6, 40)), np.argsort(rng.random((6, 40)), 0) < 3
    population, population_references = rng.random(25), rng.random((6, 25))
    a, gamma = 0.4, 1.3

    def share(ratios: Floats, population_ratios: Floats) -> Floats:
        return (ratios[:, None] / population_ratios >= gamma).mean(1)

    out = np.where(halves, np.nan, references)
    offline = share(
        target / ((1 + a) / 2 * np.nanmean(out, 0) + (1 - a) / 2),
        population / ((1 + a) / 2 * population_references.mean(0) + (1 - a) / 2),
    )
    settings = {"population": population, "population_references": population_references, "gamma": gamma}
    assert mi.rmia_offline(target, references, halves, offline_a=a, **settings) == pytest.approx(offline)
    average = (np.nanmean(out, 0) + np.nanmean(np.where(halves, references, np.nan), 0)) / 2
    online = share(target / average, population / population_references.mean(0))
    assert mi.rmia_online(target, references, halves, **settings) == pytest.approx(online)


def test_rmia_survives_confidences_of_zero_and_one() -> None:
    target, references = np.array([0.0, 1.0, 0.5]), np.zeros((2, 3))
    included = np.array([[1, 0, 1], [0, 1, 0]])
    population = {"population": np.array([0.0, 1.0]), "population_references": np.array([[0.0, 1.0], [1.0, 0.0]])}
    for scores in (
        mi.rmia_online(target, references, included, **population),
        mi.rmia_offline(target, references, included, **population),
        mi.rmia_offline(target, references, included, **population, offline_a=1.0),
    ):
        assert np.isfinite(scores).all()
        assert scores[1] >= scores[0]
    with pytest.raises(InvalidArgument):
        mi.rmia_offline(target + 1, references, included, **population)
    with pytest.raises(InvalidArgument, match="had it out"):
        mi.rmia_offline(target, references, np.ones((2, 3)), **population)


def test_rmia_finds_members_and_tunes_itself() -> None:
    rng = np.random.default_rng(11)
    target, member, shadows, halves = gaussian_world(rng, shift=1.5, models=4)
    confidences, table = norm.cdf(target / 3), norm.cdf(shadows / 3)
    scored, population = np.arange(3000), 3000 + np.flatnonzero(~member[3000:])
    a = mi.tuned_offline_a(table[:, scored], halves[:, scored])
    assert 0 <= a <= 1
    scores = mi.rmia_offline(
        confidences[scored],
        table[:, scored],
        halves[:, scored],
        population=confidences[population],
        population_references=table[:, population],
        population_included=halves[:, population],
        offline_a=a,
    )
    reached = auc(scores, member[scored])
    # 0.10 above the threshold attack and 0.07 below the best attack, with deviations of 0.004 and 0.006.
    assert reached > auc(target[scored], member[scored]) + 0.03
    assert reached < norm.cdf(1.5 / math.sqrt(2)) + 0.02  # nothing beats the best
    with pytest.raises(InvalidArgument, match="at least two models"):
        mi.tuned_offline_a(table[:1], halves[:1])


def test_the_target_is_refused_among_the_references() -> None:
    rng = np.random.default_rng(8)
    target = rng.random(20)
    with pytest.raises(InvalidArgument, match="not among the shadow models"):
        mi.rmia_offline(target, np.stack([target]), population=rng.random(5), population_references=rng.random((1, 5)))
