from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

from estimators.checks import unexpected_failures
from estimators.neighbours import EXTREMES, check_blocks, planned_releases
from hush.audit.testers import audit_mechanism
from hush.errors import InvalidArgument
from hush.estimators import PrivateDecisionTreeClassifier, PrivateRandomForestClassifier
from hush.randomness import TestSource


@pytest.mark.parametrize(
    "model",
    [
        PrivateRandomForestClassifier(5, epsilon=50.0, bounds=(-10, 10), classes=[0, 1, 2]),
        PrivateDecisionTreeClassifier(epsilon=50.0, bounds=(-10, 10), classes=[0, 1, 2]),
    ],
    ids=["forest", "tree"],
)
def test_scikit_learn_checks(model):
    assert unexpected_failures(model) == []


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_one_row_moves_the_release_by_the_stated_sensitivity(delta, monkeypatch):
    from hush.estimators import _trees

    x, y = np.random.default_rng(0).normal(size=(5, 2)), np.array([0, 1, 0, 1, 7])
    # Trees are a function of the first release, which is fixed here.
    monkeypatch.setattr(_trees, "_quantiles", lambda *_: np.tile(np.linspace(0, 1, _trees._BINS + 1), (2, 1)))

    def released(rows, labels):
        model = PrivateRandomForestClassifier(
            4, epsilon=1.0, delta=delta, bounds=(-1, 1), classes=[0, 1], source=TestSource(1)
        )
        return planned_releases(monkeypatch, lambda: model.fit(rows, labels))

    before = released(x, y)
    assert len(before) == 2
    for a in EXTREMES:
        for (plan, totals), (_, after) in zip(before, released(np.vstack([x, [a, 1.0]]), np.append(y, 1)), strict=True):
            check_blocks(plan, totals, after)
            assert np.isnan(a) or np.abs(totals - after).sum() == plan.blocks[0].l1


class OneTreePaid(PrivateRandomForestClassifier):
    """A broken twin: a row is in all trees, and the noise is that of one."""

    def _plan(self):
        from dataclasses import replace

        plan = super()._plan()
        return replace(plan, block_scales=(plan.block_scales[0], plan.block_scales[1] / self.n_estimators))


@pytest.mark.parametrize(("model", "violated"), [(PrivateRandomForestClassifier, False), (OneTreePaid, True)])
def test_black_box(model, violated):
    def run(data, source):
        forest = model(8, epsilon=1.0, bounds=(-1, 1), classes=[0, 1], max_depth=1, source=source).fit(*data)
        return [float(forest._counts[:, :, 1].sum())]

    first = np.array([[0.0]]), np.array([0])
    second = np.array([[0.0], [1.0]]), np.array([0, 1])
    result = audit_mechanism(run, first, second, samples=600, source=TestSource(1))
    assert (result.epsilon_lower > 1.0) is violated


@pytest.mark.parametrize(
    ("load", "epsilon", "level"),
    # diffprivlib 0.6.6 (ten trees, pure epsilon): 0.807, 0.822; 0.404, 0.451.
    [
        (load_breast_cancer, 1.0, 0.807),
        (load_breast_cancer, 10.0, 0.90),
        (load_digits, 1.0, 0.55),
        (load_digits, 10.0, 0.75),
    ],
)
def test_better_than_diffprivlib(load, epsilon, level):
    x, y = load(return_X_y=True)
    bounds, source, scores = (x.min(axis=0), x.max(axis=0) + 1e-9), TestSource(1), []
    for split in range(6):
        xa, xb, ya, yb = train_test_split(x, y, test_size=0.3, random_state=split)
        forest = PrivateRandomForestClassifier(
            epsilon=epsilon, delta=1e-6, bounds=bounds, classes=np.unique(y), source=source
        )
        scores.append(forest.fit(xa, ya).score(xb, yb))
    assert np.mean(scores) > level


def test_trees_alone_lose_little():
    x, y = load_digits(return_X_y=True)
    xa, xb, ya, yb = train_test_split(x, y, test_size=0.3, random_state=0)
    forest = PrivateRandomForestClassifier(
        100, epsilon=300.0, delta=1e-6, bounds=(0, 16), classes=range(10), max_depth=9, source=TestSource(1)
    )
    assert forest.fit(xa, ya).score(xb, yb) > 0.88  # diffprivlib's reaches 0.784 without noise


def test_wrong_parameters():
    for wrong in ({"max_depth": 17}, {"max_depth": 0}, {"n_estimators": 0}, {"classes": [0]}):
        with pytest.raises(InvalidArgument):
            PrivateRandomForestClassifier(**{"epsilon": 1.0, "bounds": (0, 1), "classes": [0, 1], **wrong})
