"""Attacks that train a model: Shokri's classifiers and quantile regression.

False alarms: generators have seeds, and tolerances are seven standard deviations or more, as measured over 15 seeds.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from audit.membership.worlds import Floats, auc
from hush.errors import InvalidArgument
from hush.lab.slicing import slices
from hush.lab.trained_attacks import quantile_gaussian, quantile_pinball, shokri


def test_shokri_learns_each_class_by_itself() -> None:
    """Members of class 0 get sharper answers, members of class 1 duller ones, and class 2 does not leak."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(12)
    labels, member, halves = rng.integers(0, 3, 900), rng.random(900) < 0.5, np.argsort(rng.random((4, 900)), 0) < 2

    def predictions(inside: Floats) -> Floats:
        logits = rng.normal(0, 1, (900, 3))
        logits[np.arange(900), labels] += 2 + np.select([labels == 0, labels == 1], [2.0, -2.0], 0.0) * inside
        return np.exp(logits) / np.exp(logits).sum(1, keepdims=True)

    target, shadows = predictions(member), np.stack([predictions(half) for half in halves])
    scores = shokri(target, shadows, halves, labels, classifier=LogisticRegression)
    parts = slices(scores, member, labels, num_resamples=100)
    assert parts[0].auc is not None
    assert parts[1].auc is not None
    assert parts[2].auc is not None
    # 0.81 each, with deviations of 0.027; the AUC of 300 that do not leak has 0.033.
    assert parts[0].auc.low > 0.6
    assert parts[1].auc.low > 0.6
    assert parts[2].auc.value == pytest.approx(0.5, abs=0.24)
    members_only = halves.copy()
    members_only[:, labels == 2] = True
    unknown = shokri(target, shadows, members_only, labels, classifier=LogisticRegression)
    assert (unknown[labels == 2] == 0.5).all()


def test_targets_share_their_attack_classifiers() -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(14)
    tables, labels, halves = rng.dirichlet(np.ones(3), (6, 60)), rng.integers(0, 3, 60), rng.random((3, 60)) < 0.5
    made: list[object] = []

    def classifier() -> LogisticRegression:
        made.append(None)
        return LogisticRegression()

    together = shokri(tables[:3], tables[3:], halves, labels, classifier=classifier)
    assert len(made) == 3  # one for each class, not for each target
    alone = [shokri(table, tables[3:], halves, labels, classifier=LogisticRegression) for table in tables[:3]]
    np.testing.assert_allclose(together, np.stack(alone))
    with pytest.raises(InvalidArgument, match="not among the shadow models"):
        shokri(tables[2:4], tables[3:], halves, labels, classifier=LogisticRegression)


def test_shokri_has_a_default_network() -> None:
    rng = np.random.default_rng(13)
    table = rng.dirichlet(np.ones(2), (3, 40))
    scores = shokri(table[0], table[1:], np.arange(80).reshape(2, 40) % 2, np.zeros(40, int))
    assert ((scores >= 0) & (scores <= 1)).all()


def test_the_target_is_refused_among_the_shadow_models() -> None:
    rng = np.random.default_rng(8)
    table = rng.dirichlet(np.ones(3), 20)
    with pytest.raises(InvalidArgument, match="not among the shadow models"):
        shokri(table, np.stack([table, table]), np.ones((2, 20), bool), rng.integers(0, 3, 20))


def test_quantile_regression_learns_non_members() -> None:
    """Non-members' statistics have a mean and a spread that depend on x; their scores do not."""
    rng = np.random.default_rng(14)
    x = rng.normal(size=(9000, 3))
    mean, spread = x @ [2.0, -1.0, 0.0], np.exp(x @ [0.0, 0.3, 0.3])
    non_member = mean + spread * rng.normal(size=len(x))
    public, scored = slice(0, 4000), slice(4000, None)
    member = rng.random(5000) < 0.5
    statistic = non_member[scored] + 1.5 * spread[scored] * member
    scores = quantile_gaussian(x[public], non_member[public], x[scored], statistic)
    # Deviations 0.006, 0.028, 0.004, 0.008 (around 0.18), 0.009 (around 0.14) and 0.012 (around 0.63).
    assert (scores[~member] > norm.ppf(0.95)).mean() == pytest.approx(0.05, abs=0.042)
    assert scores[~member].std() == pytest.approx(1.0, abs=0.2)
    assert auc(scores, member) == pytest.approx(norm.cdf(1.5 / math.sqrt(2)), abs=0.03)
    assert auc(scores, member) > auc(statistic, member) + 0.1
    beyond = quantile_pinball(x[public], non_member[public], x[scored], statistic, fpr=0.1)
    assert (beyond[~member] > 0).mean() == pytest.approx(0.14, abs=0.07)
    assert (beyond[member] > 0).mean() > 0.4


def test_quantile_regression_with_more_features_than_rows() -> None:
    rng = np.random.default_rng(15)
    x = rng.normal(size=(300, 60))
    scores = quantile_gaussian(x[:50], rng.normal(size=50), x[50:], rng.normal(size=250))
    # 0.71 with a deviation of 0.12, over 40 seeds; residuals of rows that were fitted would give far more.
    assert np.median(np.abs(scores)) < 1.6
    constant = quantile_gaussian(np.ones((5, 2)), np.ones(5), np.ones((3, 2)), np.array([1.0, 2.0, 0.0]))
    assert np.isfinite(constant).all()
    for arguments in (
        (x[:1], [1.0], x, np.ones(300)),
        (x[:5], np.ones(5), x[:, :2], np.ones(300)),
        (x[:5], np.full(5, np.nan), x, np.ones(300)),
    ):
        with pytest.raises(InvalidArgument):
            quantile_gaussian(*arguments)
    with pytest.raises(InvalidArgument):
        quantile_pinball(x[:5], np.ones(5), x[:5], np.ones(5), fpr=1.0)
