"""What a whole pipeline costs, and steps that would read the data without paying."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

import hush
import hush.estimators as he
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Unit

ROWS, LABELS = np.random.default_rng(1).uniform(-1, 1, (40, 2)), np.arange(40) % 2


def scaler(epsilon=1.0, **more):
    return he.PrivateStandardScaler(epsilon=epsilon, bounds=(-1, 1), **more)


def bayes(epsilon=2.0, **more):
    return he.PrivateGaussianNB(epsilon=epsilon, bounds=(-3, 3), classes=[0, 1], **more)


def test_a_pipeline_costs_what_its_steps_cost():
    model = make_pipeline(Normalizer(), scaler(), bayes()).fit(ROWS, LABELS)
    assert model[-1].guarantee_.epsilon == 2.0, "what the last step says is not the total"
    total = hush.guarantee_of(model)
    assert total.epsilon == pytest.approx(3.0)
    assert total.epsilon <= 3.0 * (1 + 1e-12)
    assert total.delta == 0.0
    assert total.method == "composition of 2 private steps"


def test_one_estimator_costs_what_it_says():
    model = bayes().fit(ROWS, LABELS)
    assert hush.guarantee_of(model) == model.guarantee_


def test_deltas_add_up_and_noise_composes():
    lda = he.PrivateLDA(epsilon=1.0, delta=1e-6, data_norm=1.0, classes=[0, 1])
    model = make_pipeline(he.PrivatePCA(epsilon=1.0, delta=1e-6, data_norm=1.0), lda).fit(ROWS, LABELS)
    total = hush.guarantee_of(model)
    assert total.delta == 2e-6
    assert 1.0 < total.epsilon < 1.5, "two Gaussian releases cost less than the sum of their claims"
    assert hush.guarantee_of(model, delta=1e-5).epsilon < total.epsilon


def test_steps_side_by_side_and_inside_each_other_count():
    both = make_union(scaler(0.5), make_pipeline(scaler(0.25), "passthrough"))
    columns = ColumnTransformer([("left", scaler(0.125), [0])], remainder="passthrough")
    model = make_pipeline(both, bayes(2.0)).fit(ROWS, LABELS)
    assert hush.guarantee_of(model).epsilon == pytest.approx(2.75)
    assert hush.guarantee_of(columns.fit(ROWS)).epsilon == pytest.approx(0.125)


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), bayes()),
        make_pipeline(SimpleImputer(), bayes()),
        make_pipeline(SelectKBest(k=1), bayes()),
        make_pipeline(scaler(), GridSearchCV(bayes(), {"epsilon": [1.0, 2.0]}, cv=2)),
        BaggingClassifier(bayes(), n_estimators=2),
        GridSearchCV(make_pipeline(scaler(), bayes()), {}, cv=2),
        make_union(StandardScaler(), scaler()),
        ColumnTransformer([("left", scaler(), [0])], remainder=StandardScaler()),
    ],
    ids=lambda model: type(model).__name__,
)
def test_steps_that_read_the_data_unpaid_are_refused(model):
    model.fit(ROWS, LABELS)
    with pytest.raises(InvalidArgument, match="learns from the data, but its cost is not accounted for"):
        hush.guarantee_of(model)


def test_a_subclass_of_a_step_that_learns_nothing_is_no_such_step():
    class Learns(Normalizer):
        def fit(self, X, y=None):
            self.mean_ = np.mean(X, axis=0)
            return super().fit(X, y)

    with pytest.raises(InvalidArgument, match="not accounted for"):
        hush.guarantee_of(make_pipeline(Learns(), bayes()).fit(ROWS, LABELS))


def test_a_function_is_an_assumption():
    total = hush.guarantee_of(make_pipeline(FunctionTransformer(np.abs), bayes()).fit(ROWS, LABELS))
    assert "the function of each FunctionTransformer treats every row by itself" in total.assumptions
    assert hush.guarantee_of(make_pipeline(FunctionTransformer(), bayes()).fit(ROWS, LABELS)).assumptions == ()


def test_people_and_rows_do_not_add_up():
    model = make_pipeline(scaler(), bayes())
    ids = np.arange(40) // 2
    with pytest.raises(Unsupported, match="different units"):
        hush.guarantee_of(model.fit(ROWS, LABELS, privategaussiannb__units=ids))
    total = hush.guarantee_of(
        model.fit(ROWS, LABELS, privatestandardscaler__units=ids, privategaussiannb__units=he.OneRowPerUser())
    )
    assert total.unit == Unit.user()
    assert len(total.assumptions) == 2


def test_models_that_were_not_fitted_or_are_not_private():
    with pytest.raises(NotFittedError):
        hush.guarantee_of(bayes())
    with pytest.raises(InvalidArgument):
        hush.guarantee_of(make_pipeline(scaler(), bayes()))
    with pytest.raises(InvalidArgument, match="^model="):
        hush.guarantee_of(Normalizer().fit(ROWS))
    lda = he.PrivateLDA(epsilon=1.0, delta=1e-6, data_norm=1.0, classes=[0, 1]).fit(ROWS, LABELS)
    with pytest.raises(InvalidArgument, match="^delta="):
        hush.guarantee_of(make_pipeline(lda), delta=0.0)


def test_a_class_of_its_own_is_not_taken_for_a_pipeline():
    class Leaks(Pipeline):
        def fit(self, X, y=None):
            self.first_row_ = X[0]
            return super().fit(X, y)

    with pytest.raises(InvalidArgument, match="a private estimator"):
        hush.guarantee_of(Leaks([("bayes", bayes())]).fit(ROWS, LABELS))
