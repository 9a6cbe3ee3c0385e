"""scikit-learn's own checks that private estimators need not pass, each with the reason; all others they must."""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.utils.estimator_checks import check_estimator

_DIFFER = "two noisy fits differ"
_TINY = "tiny training sets cannot be fitted well from noisy statistics"
_CLASSES = "classes are public and declared, not read from y"
_LEFT_OUT = "a row with something missing or undeclared is left out: an error would depend on the data"

EXPECTED_FAILED = {
    "check_classifier_data_not_an_array": _DIFFER,
    "check_classifiers_classes": _CLASSES,
    "check_classifiers_one_label": _CLASSES,
    "check_classifiers_regression_target": _LEFT_OUT,
    "check_classifiers_train": _TINY,
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
    "check_transformer_data_not_an_array": _DIFFER,
    "check_transformer_general": _DIFFER,
}


def unexpected_failures(estimator: Any) -> list[str]:
    """Return scikit-learn's checks that fail and are not in the table, with what they say."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_skip=None, on_fail=None, expected_failed_checks=EXPECTED_FAILED)
    assert len(results) > 20
    return [f"{one['check_name']}: {one['exception']}" for one in results if one["status"] == "failed"]


NOT_FINITE = "rows and labels that are not finite are dropped, one by one: an error would depend on private values"
DECLARED = "classes are public and declared, here as numbers; labels beside them are dropped, one by one"

PATE = {
    "check_estimators_nan_inf": NOT_FINITE,
    "check_supervised_y_no_nan": NOT_FINITE,
    "check_classifiers_regression_target": DECLARED,
    "check_classifiers_classes": DECLARED,
    "check_classifiers_train": DECLARED + "; probabilities have a column for every one of them",
}
