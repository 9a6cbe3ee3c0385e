"""A private search over tables as users have them: frames, text, steps side by side, and nobody left to train on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, is_classifier, is_regressor
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from estimators.checks import unexpected_failures
from estimators.neighbours import check_blocks, planned_releases
from hush.accounting import ComposedEvent
from hush.errors import InvalidArgument
from hush.estimators import (
    Folds,
    HeldOut,
    PrivateGaussianNB,
    PrivateGridSearch,
    PrivateLogisticRegression,
    PrivateRidge,
    PrivateStandardScaler,
    PublicOneHotEncoder,
)
from hush.estimators.selection.grid_table import build_table, equal_labels
from hush.randomness import TestSource

pd = pytest.importorskip("pandas")

X, Y = np.tile([[1.0], [-1.0]], (200, 1)), np.tile([1, 0], 200)
FRAME = pd.DataFrame({"size": X[:, 0], "colour": np.tile(["red", "green"], 200)})


def logistic(epsilon: float = 2.0, **given: Any) -> Any:
    return PrivateLogisticRegression(
        epsilon=epsilon, **({"data_norm": 2.0, "classes": [0, 1], "source": TestSource(1)} | given)
    )


def search(estimator: Any, grid: Any = None, **given: Any) -> PrivateGridSearch:
    return PrivateGridSearch(estimator, grid or {}, **({"score_epsilon": 1.0, "source": TestSource(2)} | given))


def ridge() -> Any:
    return PrivateRidge(epsilon=50.0, delta=1e-6, data_norm=9.0, target_bounds=(-9, 9))


def test_scikit_learn_checks() -> None:
    inner = PrivateLogisticRegression(epsilon=900.0, data_norm=10.0, classes=[0, 1, 2])
    assert unexpected_failures(PrivateGridSearch(inner, {"regularization": [1.0, 2.0]}, score_epsilon=900.0)) == []
    found = unexpected_failures(PrivateGridSearch(ridge(), {}, score_epsilon=9.0, loss_bound=9.0, delta=1e-4))
    # A regressor needs a public bound on the loss, for which there is no default.
    assert [each for each in found if not each.startswith("check_parameters_default_constructible")] == []


class InsteadOfNobody(PrivateGridSearch):
    """A broken twin: who comes first takes the place of a row that was there for nobody."""

    def _fit_setting(self, setting: Any, table: Any, train: Any) -> Any:
        rows, labels = table.training(train)
        one = (rows[:-1], labels[:-1]) if len(labels) > 1 else (np.zeros((1, 1)), np.zeros(1, dtype=int))
        return self.estimator.fit(*one)


@pytest.mark.parametrize("kind", [PrivateGridSearch, InsteadOfNobody])
@pytest.mark.parametrize("cv", [HeldOut(1e-9), Folds(2)])
def test_the_first_who_comes_changes_one_row(kind: Any, cv: Any, monkeypatch: Any) -> None:
    def released(rows: Any, labels: Any) -> Any:
        inner = PrivateGaussianNB(epsilon=1.0, bounds=(-1, 1), classes=[0, 1], source=TestSource(1))
        found = kind(inner, {}, score_epsilon=1.0, cv=cv, source=TestSource(3))
        return planned_releases(monkeypatch, lambda: found.fit(rows, labels))

    before = released([[np.nan]], [1])
    after = released([[np.nan], [1.0]], [1, 1])
    changed = 0
    for (plan, one), (_, other) in zip(before, after, strict=True):
        changed += bool((one != other).any())
        if kind is PrivateGridSearch:
            check_blocks(plan, one, other)
    assert changed > 0
    if kind is InsteadOfNobody:
        with pytest.raises(AssertionError):
            [check_blocks(plan, one, other) for (plan, one), (_, other) in zip(before, after, strict=True)]


def test_a_frame_keeps_its_names() -> None:
    numbers = FRAME[["size"]]
    found = search(logistic(), {"regularization": [1.0, 2.0]}).fit(numbers, Y)
    assert found.feature_names_in_.tolist() == ["size"]
    assert found.score(numbers, Y) == 1.0, "and no warning"
    assert found.predict_log_proba(numbers).shape == (400, 2) if hasattr(logistic(), "predict_log_proba") else True
    assert not hasattr(found, "transform")


def both(**given: Any) -> Any:
    encoder = PublicOneHotEncoder(categories=[["red", "green"]])
    scaler = PrivateStandardScaler(epsilon=0.5, bounds=(-1, 1), source=TestSource(4))
    return make_column_transformer((encoder, ["colour"]), (scaler, ["size"]), **given)


def test_columns_with_steps_of_their_own_are_all_paid_for() -> None:
    found = search(make_pipeline(both(), logistic())).fit(FRAME, Y)
    assert found.guarantee_.epsilon == pytest.approx(2.5)
    assert found.score(FRAME, Y) == 1.0
    nothing = both(remainder=StandardScaler())
    leaking = make_column_transformer((StandardScaler(), ["size"]))
    for wrong in (nothing, leaking, make_union(StandardScaler())):
        with pytest.raises(InvalidArgument, match="StandardScaler"):
            search(make_pipeline(wrong, logistic())).fit(FRAME, Y)
    by_type = make_column_transformer((both(), make_column_selector(dtype_include=object)))
    with pytest.raises(InvalidArgument, match="columns"):
        search(make_pipeline(by_type, logistic())).fit(FRAME, Y)
    united = make_union(FunctionTransformer(), PrivateStandardScaler(epsilon=0.5, bounds=(-1, 1), source=TestSource(4)))
    assert search(make_pipeline(united, logistic())).fit(X, Y).guarantee_.epsilon == pytest.approx(2.5)


@pytest.mark.parametrize("text", [FRAME[["colour"]], FRAME[["colour"]].to_numpy(), FRAME[["colour"]].values.tolist()])
def test_text_reaches_its_encoder(text: Any) -> None:
    inner = make_pipeline(PublicOneHotEncoder(categories=[["red", "green"]]), logistic())
    assert search(inner, cv=Folds(2)).fit(text, Y).score(text, Y) == 1.0


def test_tags_follow_the_estimator() -> None:
    assert is_classifier(search(logistic()))
    assert is_classifier(search(make_pipeline(FunctionTransformer(), logistic())))
    assert is_regressor(search(ridge(), loss_bound=1.0))


def test_without_labels() -> None:
    with pytest.raises(ValueError, match="requires y"):
        search(logistic()).fit(X, None)
    with pytest.raises(ValueError, match=r"^y: expected numbers\.$"):
        search(ridge(), loss_bound=1.0).fit(X[:2], ["1", "secret"])


@pytest.mark.parametrize("strange", [1e305, 1e308, np.nan, np.inf])
def test_no_row_is_an_error(strange: float) -> None:
    rows = X.copy()
    rows[3] = strange
    scaler = PrivateStandardScaler(epsilon=0.5, bounds=(-1, 1), source=TestSource(4))
    assert search(make_pipeline(scaler, logistic()), cv=Folds(2)).fit(rows, Y).score(X, Y) == 1.0


@pytest.mark.parametrize("label", ["x", None, 7, 1.5, pd.NA, [1]])
def test_a_label_of_another_type_changes_no_other(label: Any) -> None:
    labels = Y.tolist()
    odd = np.array([*labels, None], dtype=object)
    odd[-1] = label
    table = build_table(np.zeros((401, 1)), odd, classes=True)
    assert table.labels[:400].tolist() == labels
    assert equal_labels(np.ones(401, dtype=int), table.labels[:401]).sum() == 200


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("cell", "error"), [({"a": "b"}, TypeError), ("secret", InvalidArgument)])
def test_what_is_no_number_is_refused_whichever_rows_are_held_out(cell: Any, error: Any, seed: int) -> None:
    rows = X.astype(object)
    rows[0, 0] = cell
    searched = search(ridge(), loss_bound=1.0, delta=1e-4, cv=HeldOut(0.5), source=TestSource(seed))
    with pytest.raises(error) as refusal:
        searched.fit(rows, Y)
    assert "secret" not in str(refusal.value)


def test_a_row_with_a_list_in_it_is_left_out() -> None:
    rows = FRAME.to_numpy(dtype=object)
    rows[3, 1] = ["red"]
    assert build_table(rows, Y, classes=True).row_numbers.tolist() == [place for place in range(400) if place != 3]


class Picky(ClassifierMixin, BaseEstimator):
    """A free estimator that predicts nothing for negative rows."""

    def fit(self, rows: Any, labels: Any) -> Picky:
        self.event_, self.classes_ = ComposedEvent(()), np.arange(2)
        return self

    def predict(self, rows: Any) -> Any:
        if (rows < 0).any():
            raise ValueError("negative")
        return np.ones(len(rows))


def test_rows_that_a_model_refuses_count_as_wrong() -> None:
    table = build_table(X, Y, classes=True)
    everyone = np.ones(400, dtype=bool)
    assert search(Picky())._score(Picky(), table, everyone) == 200
