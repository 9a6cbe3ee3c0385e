"""scikit-learn's own checks that private estimators need not pass, each with the reason; all others they must.

The checks copy and pickle estimators, which no `TestSource` allows: they draw as users do. No chance must decide. Where
a check looks at what was learned, epsilon is 900, near the most that is accounted for. One of them is left to chance
even then, as it has ten rows, and is replaced by one with more: see `one_label`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.estimator_checks import check_classifiers_train, check_estimator

_DIFFER = "two noisy fits differ"
_TINY = "tiny training sets cannot be fitted well from noisy statistics"
_CLASSES = "classes are public and declared, not read from y"
_LEFT_OUT = "a row with something missing or undeclared is left out: an error would depend on the data"

EXPECTED_FAILED = {
    "check_classifier_data_not_an_array": _DIFFER,
    "check_classifiers_classes": _CLASSES,
    "check_classifiers_regression_target": _LEFT_OUT,
    "check_classifiers_train": _CLASSES + "; the check has two of them. `trains` runs what else it asks for",
    "check_clustering": "labels of training rows are not stored: they are an exact function of the data",
    "check_decision_proba_consistency": _CLASSES + "; the check has two of them",
    "check_do_not_raise_errors_in_init_or_set_params": "privacy parameters are checked when they are given",
    "check_estimators_nan_inf": _LEFT_OUT,
    "check_fit_idempotent": _DIFFER,
    "check_regressor_data_not_an_array": _DIFFER,
    "check_regressors_int": _DIFFER,
    "check_regressors_train": _TINY,
    "check_supervised_y_2d": _DIFFER,
    "check_supervised_y_no_nan": _LEFT_OUT,
}

# Ten rows of one class of three, and all predictions must be right: too few for some methods, whatever epsilon is.
BY_CHANCE = {"check_classifiers_one_label": _TINY + "; `one_label` runs it with more rows"}

# Of those that perturb rows where others transform them.
TELLING = {"check_estimators_pickle": "two noisy transforms differ"}


def results_of(estimator: Any, **more: str) -> list[dict[str, Any]]:
    """Return what each of scikit-learn's checks says; those in the table, and ``more``, may fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results: list[dict[str, Any]] = check_estimator(
            estimator, on_skip=None, on_fail=None, expected_failed_checks=EXPECTED_FAILED | more
        )
    assert len(results) > 20
    return results


def unexpected_failures(estimator: Any, **more: str) -> list[str]:
    """Return scikit-learn's checks that fail and are not in the table, with what they say."""
    failed = [result for result in results_of(estimator, **BY_CHANCE, **more) if result["status"] == "failed"]
    return [f"{result['check_name']}: {result['exception']}" for result in failed]


def trains(model: Any) -> None:
    """Run `check_classifiers_train` on a classifier that declares the classes that the check has."""
    kind = type(model)

    class Declaring(kind):  # type: ignore[misc, valid-type]
        def fit(self, X: Any, y: Any) -> Any:
            self.classes = np.unique(y) if np.ndim(y) == 1 else self.classes
            return super().fit(X, y)

    Declaring.__name__ = kind.__name__
    for memory in (False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_classifiers_train(kind.__name__, Declaring(**model.get_params(deep=False)), readonly_memmap=memory)


def one_label(model: Any) -> None:
    """Run what `check_classifiers_one_label` asks for, on many rows."""
    rows = np.random.default_rng(0).uniform(size=(2000, 3))
    assert (model.fit(rows, np.ones(2000)).predict(rows) == 1).all()


NOT_FINITE = "rows and labels that are not finite are dropped, one by one: an error would depend on private values"
DECLARED = "classes are public and declared, here as numbers; labels beside them are dropped, one by one"

PATE = {
    "check_estimators_nan_inf": NOT_FINITE,
    "check_supervised_y_no_nan": NOT_FINITE,
    "check_classifiers_regression_target": DECLARED,
    "check_classifiers_classes": DECLARED,
    "check_classifiers_train": DECLARED + "; probabilities have a column for every one of them",
}
