"""LiRA in worlds whose best attack is known, at edge cases, and against a twin that cheats.

False alarms: generators have seeds, and tolerances are seven standard deviations or more, as measured over 15 seeds.
Deviations are noted where they are used.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from audit.membership.worlds import auc, gaussian_world
from hush.audit import audit_one_run
from hush.audit import membership as mi
from hush.audit.membership.lira import refuse_target
from hush.errors import InvalidArgument


@pytest.mark.parametrize("pooled", [None, True, False])
def test_lira_reaches_the_best_attack_on_gaussians(pooled: bool | None) -> None:
    """The best AUC is Phi(d / sqrt 2). One threshold for all examples, which ignores their means, has less."""
    rng, shift = np.random.default_rng(1), 1.5
    target, member, shadows, halves = gaussian_world(rng, shift=shift, models=200)
    best = norm.cdf(shift / math.sqrt(2))
    # Means of 100 models: their errors add a hundredth to the variance. AUCs of 2 x 2,000 deviate by 0.006 and 0.008.
    assert auc(mi.lira_online(target, shadows, halves, pooled=pooled), member) == pytest.approx(best, abs=0.045)
    assert auc(mi.lira_offline(target, shadows, halves, pooled=pooled), member) == pytest.approx(best, abs=0.045)
    assert auc(target, member) == pytest.approx(norm.cdf(shift / math.sqrt(2 + 2 * 4)), abs=0.06)


def test_offline_scores_are_standard_normal_for_non_members() -> None:
    target, member, shadows, halves = gaussian_world(np.random.default_rng(2), shift=1.0, models=100, spread=3.0)
    scores = mi.lira_offline(target, shadows, halves)
    # Deviations 0.023, 0.012 (around 1.03: means of 50 models) and 0.024.
    assert scores[~member].mean() == pytest.approx(0.0, abs=0.17)
    assert scores[~member].std() == pytest.approx(1.03, abs=0.09)
    assert scores[member].mean() == pytest.approx(1.0, abs=0.17)
    some_shadows = shadows[:, :50].copy()
    none_included = mi.lira_offline(target[:50], some_shadows, np.zeros_like(halves[:, :50]))
    assert (none_included == mi.lira_offline(target[:50], some_shadows)).all()


def test_variances_per_example_help_if_they_differ() -> None:
    rng = np.random.default_rng(3)
    world = gaussian_world(rng, shift=2.0, models=128, spread=np.exp(rng.normal(0, 1.5, 4000)))
    target, member, shadows, halves = world
    per_example = auc(mi.lira_online(target, shadows, halves, pooled=False), member)
    pooled = auc(mi.lira_online(target, shadows, halves, pooled=True), member)
    # Deviations 0.004 each; the difference is 0.054.
    assert per_example == pytest.approx(norm.cdf(2 / math.sqrt(2)), abs=0.03)
    assert per_example > pooled + 0.025


def test_augmentations_are_averaged() -> None:
    rng = np.random.default_rng(4)
    worlds = [gaussian_world(rng, shift=1.0, models=64) for _ in range(2)]
    (target, member, shadows, halves), _ = worlds
    shadow_noise, target_noise = rng.normal(size=(4, *shadows.shape)), rng.normal(size=(4, *target.shape))
    augmented_shadows = np.stack([shadows + noise for noise in shadow_noise], -1)
    augmented_target = np.stack([target + noise for noise in target_noise], -1)
    several = mi.lira_online(augmented_target, augmented_shadows, halves)
    single = mi.lira_online(augmented_target[:, 0], augmented_shadows[..., 0], halves)
    assert several.shape == target.shape
    assert auc(several, member) > auc(single, member)  # by 0.049, with a deviation of 0.005


def test_one_shadow_model_is_too_few_for_lira_and_enough_for_rmia() -> None:
    rng = np.random.default_rng(5)
    shadows = rng.random((1, 30))
    with pytest.raises(InvalidArgument, match="at least two models with the example out"):
        mi.lira_offline(rng.random(30), shadows)
    with pytest.raises(InvalidArgument, match="for each example at least one model that had it in"):
        mi.lira_online(rng.random(30), shadows, np.zeros((1, 30), bool))
    with pytest.raises(InvalidArgument, match="at least two models with the example"):  # a pair has no spread either
        mi.lira_online(rng.random(30), rng.random((2, 30)), np.stack([np.ones(30, bool), np.zeros(30, bool)]))
    scores = mi.rmia_offline(
        rng.random(30), shadows, population=rng.random(9), population_references=rng.random((1, 9))
    )
    assert ((scores >= 0) & (scores <= 1)).all()


def test_models_that_agree_to_the_last_digit_overflow_nothing() -> None:
    shadows, halves = np.ones((4, 3)), np.array([[1, 0, 1], [0, 1, 0]] * 2)
    assert np.isfinite(mi.lira_online(np.array([1.0, 1.0, 50.0]), shadows, halves)).all()
    assert np.isfinite(mi.lira_offline(np.ones(3), shadows, halves)).all()


@pytest.mark.parametrize(
    "change",
    [
        {"target": [0.0, float("nan")]},
        {"shadows": [[0.0, 1.0, 2.0]] * 4},
        {"included": [[0, 2]] * 4},
        {"included": [[0, 1]] * 3},
        {"pooled": "pooled"},
    ],
)
def test_invalid_arguments_are_refused(change: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {
        "target": [0.5, 0.1],
        "shadows": [[0.1, 0.2], [0.3, 0.5], [0.0, 0.0], [1.0, 2.0]],
        "included": [[0, 1], [1, 0], [0, 1], [1, 0]],
    }
    mi.lira_online(**arguments)
    with pytest.raises(InvalidArgument):
        mi.lira_online(**arguments | change)


def test_example_risk_has_its_closed_form_and_finds_the_outliers() -> None:
    rng = np.random.default_rng(6)
    _, _, shadows, halves = gaussian_world(rng, shift=1.0, models=400, examples=500)
    # The median deviates by 0.0025; the outliers' risk is 0.49 above that of the others, with a deviation of 0.016.
    assert np.median(mi.example_risk(shadows, halves)) == pytest.approx(2 * norm.cdf(0.5) - 1, abs=0.03)
    shadows[:, :10] += 5 * halves[:, :10]
    risk = mi.example_risk(shadows, halves)
    assert set(np.argsort(risk)[-10:]) == set(range(10))
    assert ((risk >= 0) & (risk <= 1)).all()


@pytest.mark.parametrize("attack", [mi.lira_online, mi.lira_offline])
def test_attacks_that_saw_the_answer_are_caught(attack: Any) -> None:
    """Without a leak nothing can be shown. A broken twin, whose shadows include the target trained twice, shows one."""
    rng = np.random.default_rng(7)
    target, member, shadows, halves = gaussian_world(rng, shift=0.0, models=4, examples=8000)
    honest = attack(target, shadows, halves)
    retrained = target + rng.normal(0, 0.01, len(target))  # the same sample, trained a second time
    leaking = attack(target, np.vstack([shadows, retrained]), np.vstack([halves, member]))
    assert auc(honest, member) == pytest.approx(0.5, abs=0.05)  # deviation 0.007
    settings = {"num_guesses": 2000, "confidence": 1 - 1e-7}
    bounds = [audit_one_run(scores, member, **settings).epsilon_lower for scores in (honest, leaking)]
    assert bounds[0] == 0  # false alarms: 1e-7
    assert bounds[1] > 0.02  # 0.84 online and 0.29 offline, with a deviation of 0.04
    with pytest.raises(InvalidArgument, match="not among the shadow models"):
        attack(target, np.vstack([shadows, target]), np.vstack([halves, member]))


def test_a_target_among_the_shadows_is_found_after_rounding() -> None:
    rng = np.random.default_rng(0)
    shadows = rng.normal(size=(4, 200))
    shadows[:, :120] = 103.0  # certainty, rounded: all models share it
    for target in (shadows[2], shadows[2] + 1e-9, shadows[2].astype(np.float32), np.append(shadows[2][:-1], 9.0)):
        with pytest.raises(InvalidArgument, match="not among the shadow models"):
            refuse_target(np.asarray(target, dtype=np.float64), shadows)
    honest = rng.normal(size=200)
    honest[:150] = 103.0
    refuse_target(honest, shadows)
    refuse_target(np.full(200, 103.0), shadows)
