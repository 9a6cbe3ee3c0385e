"""scikit-learn's own checks that private estimators need not pass, with reasons. They must pass all others.

The checks copy and pickle estimators, which a `TestSource` does not allow. So the system's source has a fixed key
while they run (`fixed_randomness`): chance has no part. Besides, where a check looks at the fitted model, epsilon is
900, near the largest that accountants support, so that another key would do as well. For one check it would not, even
then, since it has ten rows. It is replaced by one with more: see `one_label`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.estimator_checks import check_classifiers_train, check_estimator

from chance import fixed_randomness

_DIFFER = "two noisy fits differ"
_TINY = "tiny training sets cannot be fitted well from noisy statistics"
_CLASSES = "classes are public and declared, not read from y"
_LEFT_OUT = "a row with a missing value or an undeclared label is dropped: an error would depend on the data"

EXPECTED_FAILED = {
    "check_classifier_data_not_an_array": _DIFFER,
    "check_classifiers_classes": _CLASSES,
    "check_classifiers_regression_target": _LEFT_OUT,
    "check_classifiers_train": _CLASSES + "; the check has two of them. `trains` runs the rest of it",
    "check_clustering": "labels of training rows are not stored: they are an exact function of the data",
    "check_decision_proba_consistency": _CLASSES + "; the check has two of them",
    "check_do_not_raise_errors_in_init_or_set_params": "privacy parameters are checked in the constructor",
    "check_dtype_object": _LEFT_OUT,
    "check_estimators_nan_inf": _LEFT_OUT,
    "check_fit_idempotent": _DIFFER,
    "check_regressor_data_not_an_array": _DIFFER,
    "check_regressors_int": _DIFFER,
    "check_regressors_train": _TINY,
    "check_supervised_y_2d": _DIFFER,
    "check_supervised_y_no_nan": _LEFT_OUT,
}

# Ten rows of one class of three, and all predictions must be right: too few for some methods at any epsilon.
BY_CHANCE = {"check_classifiers_one_label": _TINY + "; `one_label` runs it with more rows"}

# For estimators whose transform is noisy.
TELLING = {"check_estimators_pickle": "two noisy transforms differ"}


def results_of(estimator: Any, **more: str) -> list[dict[str, Any]]:
    """Return the result of each of scikit-learn's checks. Those in the table, and in ``more``, may fail."""
    with fixed_randomness("check_estimator"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="sklearn")
        results: list[dict[str, Any]] = check_estimator(
            estimator, on_skip=None, on_fail=None, expected_failed_checks=EXPECTED_FAILED | more
        )
    assert len(results) > 20
    return results


def unexpected_failures(estimator: Any, **more: str) -> list[str]:
    """Return the checks that fail and are not in the table, with their messages."""
    failed = [result for result in results_of(estimator, **BY_CHANCE, **more) if result["status"] == "failed"]
    return [f"{result['check_name']}: {result['exception']}" for result in failed]


def trains(model: Any) -> None:
    """Run `check_classifiers_train` on a classifier that declares the classes of the check."""
    kind = type(model)

    class Declaring(kind):  # type: ignore[misc, valid-type]
        def fit(self, X: Any, y: Any) -> Any:
            self.classes = np.unique(y) if np.ndim(y) == 1 else self.classes
            return super().fit(X, y)

    Declaring.__name__ = kind.__name__
    for memory in (False, True):
        with fixed_randomness("check_classifiers_train"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="sklearn")
            check_classifiers_train(kind.__name__, Declaring(**model.get_params(deep=False)), readonly_memmap=memory)


def one_label(model: Any) -> None:
    """Run `check_classifiers_one_label` with many rows."""
    # Fixed key: no chance. With other keys, class 1 wins every row by 28 standard deviations of its margin, too.
    rows = np.random.default_rng(0).uniform(size=(2000, 3))
    with fixed_randomness("one_label"):
        assert (model.fit(rows, np.ones(2000)).predict(rows) == 1).all()


NOT_FINITE = "rows and labels that are not finite are dropped, one by one: an error would depend on private values"
DECLARED = "classes are public and declared, here as numbers; labels beside them are dropped, one by one"

PATE = {
    "check_dtype_object": NOT_FINITE,
    "check_estimators_nan_inf": NOT_FINITE,
    "check_supervised_y_no_nan": NOT_FINITE,
    "check_classifiers_regression_target": DECLARED,
    "check_classifiers_classes": DECLARED,
    "check_classifiers_train": DECLARED + "; probabilities have a column for every one of them",
}
