"""Membership attacks in worlds whose best attack is known, on inputs at the edge, and against a twin that cheats.

False alarms: generators have seeds, and tolerances are seven standard deviations or more, as measured over 15 seeds.
Deviations are noted where they are used.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from hush.audit import audit_one_run, roc
from hush.audit import membership as mi
from hush.errors import HushError, InvalidArgument

Floats = Any


def auc(scores: Floats, member: Floats) -> float:
    return float(roc(scores[member], scores[~member]).auc)


def gaussian_world(
    rng: np.random.Generator, *, shift: float, models: int, examples: int = 4000, spread: Floats = 1.0
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return a target, who is in it, shadows and who is in those: being in adds ``shift`` to an example's own mean."""
    usual = rng.normal(0, 2, examples)
    halves = np.argsort(rng.random((models, examples)), axis=0) < models // 2
    member = rng.random(examples) < 0.5
    scale = np.broadcast_to(spread, examples)
    target = usual + scale * (shift * member + rng.normal(size=examples))
    others = usual + scale * (shift * halves + rng.normal(size=(models, examples)))
    return target, member, others, halves


# --- what a model says -----------------------------------------------------------------------------------------------


def test_signals_agree_and_keep_their_digits() -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(0, 3, (50, 7)), rng.integers(0, 7, 50)
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    own = probabilities[np.arange(50), labels]
    assert mi.confidence(probabilities, labels) == pytest.approx(own)
    assert mi.cross_entropy(probabilities, labels) == pytest.approx(-np.log(own))
    assert mi.logit_confidence(probabilities, labels) == pytest.approx(np.log(own) - np.log(1 - own), rel=1e-9)
    assert mi.logit_confidence_of_logits(logits, labels) == pytest.approx(np.log(own) - np.log(1 - own), rel=1e-9)
    stacked = mi.logit_confidence(np.stack([probabilities, probabilities]), labels)
    assert stacked.shape == (2, 50)
    # 1 - p is 1e-20 here: a subtraction from 1 would say infinity.
    assert mi.logit_confidence([[1.0, 1e-20]], [0]) == pytest.approx(20 * math.log(10))
    assert mi.logit_confidence_of_logits([[800.0, 0.0, 0.0]], [0]) == pytest.approx(800 - math.log(2))


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
def test_what_is_no_probability_is_refused(probabilities: Any, labels: Any) -> None:
    with pytest.raises(InvalidArgument):
        mi.logit_confidence(probabilities, labels)


# --- LiRA ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variance", [None, mi.LiraVariance.POOLED, mi.LiraVariance.PER_EXAMPLE])
def test_lira_reaches_the_best_attack_on_gaussians(variance: mi.LiraVariance | None) -> None:
    """The best AUC is Phi(d / sqrt 2); a threshold for all, which does not know an example's own mean, has less."""
    rng, shift = np.random.default_rng(1), 1.5
    target, member, others, halves = gaussian_world(rng, shift=shift, models=200)
    best = norm.cdf(shift / math.sqrt(2))
    # Means of 100 models: their errors add a hundredth to the variance. AUCs of 2 x 2,000 deviate by 0.006 and 0.008.
    assert auc(mi.lira_online(target, others, halves, variance=variance), member) == pytest.approx(best, abs=0.045)
    assert auc(mi.lira_offline(target, others, halves, variance=variance), member) == pytest.approx(best, abs=0.045)
    assert auc(target, member) == pytest.approx(norm.cdf(shift / math.sqrt(2 + 2 * 4)), abs=0.06)


def test_offline_scores_are_standard_normal_for_non_members() -> None:
    target, member, others, halves = gaussian_world(np.random.default_rng(2), shift=1.0, models=100, spread=3.0)
    scores = mi.lira_offline(target, others, halves)
    # Deviations 0.023, 0.012 (around 1.03: means of 50 models) and 0.024.
    assert scores[~member].mean() == pytest.approx(0.0, abs=0.17)
    assert scores[~member].std() == pytest.approx(1.03, abs=0.09)
    assert scores[member].mean() == pytest.approx(1.0, abs=0.17)
    left_out = others[:, :50].copy()
    nobody = mi.lira_offline(target[:50], left_out, np.zeros_like(halves[:, :50]))
    assert (nobody == mi.lira_offline(target[:50], left_out)).all()


def test_an_examples_own_spread_helps_where_spreads_differ() -> None:
    rng = np.random.default_rng(3)
    world = gaussian_world(rng, shift=2.0, models=128, spread=np.exp(rng.normal(0, 1.5, 4000)))
    target, member, others, halves = world
    own = auc(mi.lira_online(target, others, halves, variance=mi.LiraVariance.PER_EXAMPLE), member)
    pooled = auc(mi.lira_online(target, others, halves, variance=mi.LiraVariance.POOLED), member)
    # Deviations 0.004 each; the difference is 0.054.
    assert own == pytest.approx(norm.cdf(2 / math.sqrt(2)), abs=0.03)
    assert own > pooled + 0.025


def test_augmentations_are_averaged() -> None:
    rng = np.random.default_rng(4)
    worlds = [gaussian_world(rng, shift=1.0, models=64) for _ in range(2)]
    (target, member, others, halves), _ = worlds
    noise = rng.normal(size=(4, *others.shape)), rng.normal(size=(4, *target.shape))
    wide = np.stack([others + each for each in noise[0]], -1), np.stack([target + each for each in noise[1]], -1)
    several = mi.lira_online(wide[1], wide[0], halves)
    single = mi.lira_online(wide[1][:, 0], wide[0][..., 0], halves)
    assert several.shape == target.shape
    assert auc(several, member) > auc(single, member)  # by 0.049, with a deviation of 0.005


def test_one_shadow_model_is_too_few_for_lira_and_enough_for_rmia() -> None:
    rng = np.random.default_rng(5)
    others = rng.random((1, 30))
    with pytest.raises(InvalidArgument, match="two models with the example out"):
        mi.lira_offline(rng.random(30), others)
    with pytest.raises(InvalidArgument, match="for each example a model that had it in"):
        mi.lira_online(rng.random(30), others, np.zeros((1, 30), bool))
    with pytest.raises(InvalidArgument, match="two models with the example"):  # a pair has no spread either
        mi.lira_online(rng.random(30), rng.random((2, 30)), np.stack([np.ones(30, bool), np.zeros(30, bool)]))
    scores = mi.rmia_offline(rng.random(30), others, population=rng.random(9), population_references=rng.random((1, 9)))
    assert ((scores >= 0) & (scores <= 1)).all()


def test_models_that_agree_to_the_last_digit_overflow_nothing() -> None:
    others, halves = np.ones((4, 3)), np.array([[1, 0, 1], [0, 1, 0]] * 2)
    assert np.isfinite(mi.lira_online(np.array([1.0, 1.0, 50.0]), others, halves)).all()
    assert np.isfinite(mi.lira_offline(np.ones(3), others, halves)).all()


@pytest.mark.parametrize(
    "change",
    [
        {"target": [0.0, float("nan")]},
        {"shadows": [[0.0, 1.0, 2.0]] * 4},
        {"included": [[0, 2]] * 4},
        {"included": [[0, 1]] * 3},
        {"variance": "pooled"},
    ],
)
def test_lira_refuses(change: dict[str, Any]) -> None:
    given: dict[str, Any] = {
        "target": [0.5, 0.1],
        "shadows": [[0.1, 0.2], [0.3, 0.5], [0.0, 0.0], [1.0, 2.0]],
        "included": [[0, 1], [1, 0], [0, 1], [1, 0]],
    }
    mi.lira_online(**given)
    with pytest.raises(InvalidArgument):
        mi.lira_online(**given | change)


def test_example_risk_has_its_closed_form_and_finds_the_outliers() -> None:
    rng = np.random.default_rng(6)
    _, _, others, halves = gaussian_world(rng, shift=1.0, models=400, examples=500)
    # The median deviates by 0.0025; the outliers' risk is 0.49 above that of the others, with a deviation of 0.016.
    assert np.median(mi.example_risk(others, halves)) == pytest.approx(2 * norm.cdf(0.5) - 1, abs=0.03)
    others[:, :10] += 5 * halves[:, :10]
    risk = mi.example_risk(others, halves)
    assert set(np.argsort(risk)[-10:]) == set(range(10))
    assert ((risk >= 0) & (risk <= 1)).all()


# --- a twin that cheats ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attack", [mi.lira_online, mi.lira_offline])
def test_scores_that_saw_the_answer_are_found(attack: Any) -> None:
    """In a world without any leak nothing can be shown. A twin whose shadows hold the target, trained twice, does."""
    rng = np.random.default_rng(7)
    target, member, others, halves = gaussian_world(rng, shift=0.0, models=4, examples=8000)
    honest = attack(target, others, halves)
    again = target + rng.normal(0, 0.01, len(target))  # the same sample, trained a second time
    leaking = attack(target, np.vstack([others, again]), np.vstack([halves, member]))
    assert auc(honest, member) == pytest.approx(0.5, abs=0.05)  # deviation 0.007
    settings = {"num_guesses": 2000, "confidence": 1 - 1e-7}
    shown = [audit_one_run(scores, member, **settings).epsilon_lower for scores in (honest, leaking)]
    assert shown[0] == 0  # false alarms: 1e-7
    assert shown[1] > 0.02  # 0.84 online and 0.29 offline, with a deviation of 0.04
    with pytest.raises(InvalidArgument, match="not among the shadow models"):
        attack(target, np.vstack([others, target]), np.vstack([halves, member]))


def test_rmia_and_shokri_refuse_the_target_among_the_references() -> None:
    rng = np.random.default_rng(8)
    own = rng.random(20)
    with pytest.raises(InvalidArgument, match="not among the shadow models"):
        mi.rmia_offline(own, np.stack([own]), population=rng.random(5), population_references=rng.random((1, 5)))
    table = rng.dirichlet(np.ones(3), 20)
    with pytest.raises(InvalidArgument, match="not among the shadow models"):
        mi.shokri(table, np.stack([table, table]), np.ones((2, 20), bool), rng.integers(0, 3, 20))


# --- one model alone -------------------------------------------------------------------------------------------------


def test_yeom_on_exponential_losses() -> None:
    """Members' losses have mean 1, others' 2: AUC 2/3; at the members' mean, TPR 1 - 1/e and FPR 1 - 1/sqrt e."""
    rng = np.random.default_rng(9)
    losses = rng.exponential(1.0, 20_000), rng.exponential(2.0, 20_000)
    # Deviations 0.0024 and 0.004.
    assert roc(*map(mi.yeom, losses)).auc == pytest.approx(2 / 3, abs=0.018)
    fixed = roc(*(mi.yeom(each, mean_train_loss=1.0) for each in losses))
    assert fixed.advantage == pytest.approx(math.exp(-0.5) - math.exp(-1), abs=0.03)
    for bad in ([float("nan")], [-1.0], []):
        with pytest.raises(HushError):
            mi.yeom(bad)
    with pytest.raises(HushError):
        mi.yeom([1.0], mean_train_loss=float("nan"))


def test_the_gap_attack_has_the_generalisation_gap() -> None:
    labels = np.arange(10)
    scores = mi.label_only(np.r_[labels, labels], np.r_[labels, labels[:6], -labels[6:]])
    assert roc(scores[:10], scores[10:]).advantage == pytest.approx(0.4)
    with pytest.raises(HushError):
        mi.label_only([1, 2], [1])
    with pytest.raises(HushError):
        mi.label_only([float("nan")], [1.0])


def test_bounds_on_the_advantage() -> None:
    for epsilon, tight in ((0.1, 0.05), (0.5, 0.2449), (1, 0.4621), (2, 0.7616), (4, 0.964)):
        bounds = mi.advantage_bounds(epsilon)
        assert round(bounds.tight, 4) == tight
        assert bounds.yeom == pytest.approx(math.expm1(epsilon))
        assert bounds.tight < bounds.yeom
    assert mi.advantage_bounds(1.0, 0.1).tight == pytest.approx((math.e - 1 + 0.2) / (math.e + 1))
    assert mi.advantage_bounds(1000.0).yeom == math.inf
    with pytest.raises(HushError):
        mi.advantage_bounds(float("nan"))


# --- RMIA ------------------------------------------------------------------------------------------------------------


def test_rmia_is_its_definition() -> None:
    rng = np.random.default_rng(10)
    own, others, who = rng.random(40), rng.random((6, 40)), np.argsort(rng.random((6, 40)), 0) < 3
    around, around_others = rng.random(25), rng.random((6, 25))
    a, gamma = 0.4, 1.3

    def share(ratio: Floats, around_ratio: Floats) -> Floats:
        return (ratio[:, None] / around_ratio >= gamma).mean(1)

    out = np.where(who, np.nan, others)
    offline = share(
        own / ((1 + a) / 2 * np.nanmean(out, 0) + (1 - a) / 2),
        around / ((1 + a) / 2 * around_others.mean(0) + (1 - a) / 2),
    )
    found = mi.rmia_offline(
        own, others, who, population=around, population_references=around_others, offline_a=a, gamma=gamma
    )
    assert found == pytest.approx(offline)
    both = (np.nanmean(out, 0) + np.nanmean(np.where(who, others, np.nan), 0)) / 2
    online = share(own / both, around / around_others.mean(0))
    found = mi.rmia_online(own, others, who, population=around, population_references=around_others, gamma=gamma)
    assert found == pytest.approx(online)


def test_rmia_survives_confidences_of_zero_and_one() -> None:
    own, others = np.array([0.0, 1.0, 0.5]), np.zeros((2, 3))
    who = np.array([[1, 0, 1], [0, 1, 0]])
    around = {"population": np.array([0.0, 1.0]), "population_references": np.array([[0.0, 1.0], [1.0, 0.0]])}
    for scores in (
        mi.rmia_online(own, others, who, **around),
        mi.rmia_offline(own, others, who, **around),
        mi.rmia_offline(own, others, who, **around, offline_a=1.0),
    ):
        assert np.isfinite(scores).all()
        assert scores[1] >= scores[0]
    with pytest.raises(InvalidArgument):
        mi.rmia_offline(own + 1, others, who, **around)
    with pytest.raises(InvalidArgument, match="had it out"):
        mi.rmia_offline(own, others, np.ones((2, 3)), **around)


def test_rmia_finds_members_and_tunes_itself() -> None:
    rng = np.random.default_rng(11)
    target, member, others, halves = gaussian_world(rng, shift=1.5, models=4)
    own, table = norm.cdf(target / 3), norm.cdf(others / 3)  # confidences
    scored, around = np.arange(3000), 3000 + np.flatnonzero(~member[3000:])
    a = mi.tuned_offline_a(table[:, scored], halves[:, scored])
    assert 0 <= a <= 1
    scores = mi.rmia_offline(
        own[scored],
        table[:, scored],
        halves[:, scored],
        population=own[around],
        population_references=table[:, around],
        population_included=halves[:, around],
        offline_a=a,
    )
    found = auc(scores, member[scored])  # by 0.10 above the one, by 0.07 below the other; deviations 0.004 and 0.006
    assert found > auc(target[scored], member[scored]) + 0.03
    assert found < norm.cdf(1.5 / math.sqrt(2)) + 0.02  # nothing beats the best
    with pytest.raises(InvalidArgument, match="two models or more"):
        mi.tuned_offline_a(table[:1], halves[:1])


# --- learned attacks -------------------------------------------------------------------------------------------------


def test_shokri_learns_each_class_by_itself() -> None:
    """Members of class 0 get sharper answers, members of class 1 duller ones, and class 2 does not leak."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(12)
    labels, member, halves = rng.integers(0, 3, 900), rng.random(900) < 0.5, np.argsort(rng.random((4, 900)), 0) < 2

    def answers(inside: Floats) -> Floats:
        logits = rng.normal(0, 1, (900, 3))
        logits[np.arange(900), labels] += 2 + np.select([labels == 0, labels == 1], [2.0, -2.0], 0.0) * inside
        return np.exp(logits) / np.exp(logits).sum(1, keepdims=True)

    target, others = answers(member), np.stack([answers(half) for half in halves])
    scores = mi.shokri(target, others, halves, labels, classifier=LogisticRegression)
    parts = mi.slices(scores, member, labels, num_resamples=100)
    assert parts[0].auc is not None
    assert parts[1].auc is not None
    assert parts[2].auc is not None
    # 0.81 each, with deviations of 0.027; the AUC of 300 that do not leak has 0.033.
    assert parts[0].auc.low > 0.6
    assert parts[1].auc.low > 0.6
    assert parts[2].auc.value == pytest.approx(0.5, abs=0.24)
    alone = halves.copy()
    alone[:, labels == 2] = True
    assert (mi.shokri(target, others, alone, labels, classifier=LogisticRegression)[labels == 2] == 0.5).all()


def test_shokri_has_a_network_of_its_own() -> None:
    rng = np.random.default_rng(13)
    table = rng.dirichlet(np.ones(2), (3, 40))
    scores = mi.shokri(table[0], table[1:], np.arange(80).reshape(2, 40) % 2, np.zeros(40, int))
    assert ((scores >= 0) & (scores <= 1)).all()


def test_quantile_regression_knows_what_is_usual() -> None:
    """Non-members' statistics have mean and spread that depend on x; their scores do not."""
    rng = np.random.default_rng(14)
    x = rng.normal(size=(9000, 3))
    mean, spread = x @ [2.0, -1.0, 0.0], np.exp(x @ [0.0, 0.3, 0.3])
    usual = mean + spread * rng.normal(size=len(x))
    public, scored = slice(0, 4000), slice(4000, None)
    member = rng.random(5000) < 0.5
    statistic = usual[scored] + 1.5 * spread[scored] * member
    scores = mi.quantile_gaussian(x[public], usual[public], x[scored], statistic)
    # Deviations 0.006, 0.028, 0.004, 0.008 (around 0.18), 0.009 (around 0.14) and 0.012 (around 0.63).
    assert (scores[~member] > norm.ppf(0.95)).mean() == pytest.approx(0.05, abs=0.042)
    assert scores[~member].std() == pytest.approx(1.0, abs=0.2)
    assert auc(scores, member) == pytest.approx(norm.cdf(1.5 / math.sqrt(2)), abs=0.03)
    assert auc(scores, member) > auc(statistic, member) + 0.1
    beyond = mi.quantile_pinball(x[public], usual[public], x[scored], statistic, fpr=0.1)
    assert (beyond[~member] > 0).mean() == pytest.approx(0.14, abs=0.07)
    assert (beyond[member] > 0).mean() > 0.4


def test_quantile_regression_with_more_features_than_people() -> None:
    rng = np.random.default_rng(15)
    x = rng.normal(size=(300, 60))
    scores = mi.quantile_gaussian(x[:50], rng.normal(size=50), x[50:], rng.normal(size=250))
    # 0.71 with a deviation of 0.12, over 40 seeds; residuals of rows that were fitted would give far more.
    assert np.median(np.abs(scores)) < 1.6
    constant = mi.quantile_gaussian(np.ones((5, 2)), np.ones(5), np.ones((3, 2)), np.array([1.0, 2.0, 0.0]))
    assert np.isfinite(constant).all()
    for arguments in (
        (x[:1], [1.0], x, np.ones(300)),
        (x[:5], np.ones(5), x[:, :2], np.ones(300)),
        (x[:5], np.full(5, np.nan), x, np.ones(300)),
    ):
        with pytest.raises(InvalidArgument):
            mi.quantile_gaussian(*arguments)
    with pytest.raises(InvalidArgument):
        mi.quantile_pinball(x[:5], np.ones(5), x[:5], np.ones(5), fpr=1.0)
