"""Every public estimator, once for each of its methods, with the data that the contract needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import hush.estimators as he

# hush's own warning: the cases that learn bounds have three rows, so that one matters, and are told that these are few.
LEARNS_FROM_FEW = pytest.mark.filterwarnings("ignore:the bounds of .* are lost in noise:UserWarning")


@dataclass(frozen=True, slots=True)
class Case:
    """An estimator, and data on which one row matters as much as possible.

    Attributes:
        make: Function from keywords (epsilon, budget, source) to an estimator.
        first, second: X and y of neighbouring datasets: the second has one more row.
        samples: Number of fits for each dataset.
        caught: An epsilon at which the audit must find a leak above 1, which shows that it works. None where no allowed
            epsilon makes the noise small enough for that.
    """

    make: Callable[..., Any]
    first: tuple[Any, Any]
    second: tuple[Any, Any]
    samples: int = 150
    caught: float | None = 900.0


_FEW = np.array([[-0.2, 0.1], [0.1, 0.2], [0.2, -0.1]])
_MORE = np.vstack([_FEW, [[1.0, 1.0]]])
_LABELS, _TARGETS = np.array([0, 1, 0]), np.array([-0.1, 0.1, 0.0])
_ROWS = ((_FEW, None), (_MORE, None))
_CLASSES = ((_FEW, _LABELS), (_MORE, np.append(_LABELS, 1)))
# The minimum moves if the other rows would misclassify the new one.
_AGAINST = ((_FEW, _LABELS), (_MORE, np.append(_LABELS, 0)))
_NUMBERS = ((_FEW, _TARGETS), (_MORE, np.append(_TARGETS, 1.0)))
_DELTA, _BOX = 1e-6, (-1.0, 1.0)
_REGRESSION: dict[str, Any] = {"delta": _DELTA, "data_norm": 1.0, "target_bounds": _BOX}
_LINEAR: dict[str, Any] = {"data_norm": 1.0, "classes": [0, 1]}


# Two uninformative features, until a row is added for which one of them matters.
_TIE = ((np.zeros((2, 2)), np.array([0, 1])), (np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]), np.array([0, 1, 1])))
# Half of the rows are short. One more long row moves the median.
_SHORT = np.array([[0.2, 0.0], [0.2, 0.0], [1.0, 0.0], [1.0, 0.0]])
_HALVES = ((_SHORT, np.array([0, 1, 0, 1])), (np.vstack([_SHORT, [[1.0, 0.0]]]), np.array([0, 1, 0, 1, 1])))


def _linear(kind: Any, method: Any, *, caught: float = 900.0, rows: Any = _CLASSES, **more: Any) -> Case:
    return Case(lambda **given: kind(method=method, **_LINEAR, **more, **given), *rows, caught=caught)


def _of(kind: Any, rows: Any, *, caught: float | None = 900.0, samples: int = 150, **settings: Any) -> Case:
    return Case(lambda **given: kind(**settings, **given), *rows, samples, caught)


CASES: dict[str, Case] = {
    "PrivateLinearRegression": _of(he.PrivateLinearRegression, _NUMBERS, **_REGRESSION),
    "PrivateRidge": _of(he.PrivateRidge, _NUMBERS, **_REGRESSION),
    "PrivatePoissonRegression": _of(
        he.PrivatePoissonRegression, _NUMBERS, delta=_DELTA, data_norm=1.0, target_bounds=_BOX, rate_bounds=(0.5, 2.0)
    ),
    "FunctionalRegression": _of(he.FunctionalRegression, _NUMBERS, data_norm=1.0, target_bounds=_BOX),
    "PrivateGaussianNB": _of(he.PrivateGaussianNB, _CLASSES, bounds=_BOX, classes=[0, 1]),
    "PrivateLDA": _of(he.PrivateLDA, _CLASSES, delta=_DELTA, data_norm=1.0, classes=[0, 1]),
    "PrivatePCA": _of(he.PrivatePCA, _ROWS, delta=_DELTA, data_norm=1.0),
    "PrivatePCA, Wishart": _of(
        he.PrivatePCA, _ROWS, caught=None, delta=1e-4, data_norm=1.0, center=0.0, method=he.Wishart()
    ),
    "PrivatePCA, exponential": _of(
        he.PrivatePCA, _ROWS, delta=0.0, data_norm=1.0, center=0.0, method=he.ExponentialPCA()
    ),
    "PrivateCovariance": _of(he.PrivateCovariance, _ROWS, delta=_DELTA, data_norm=1.0),
    "PrivateKMeans": _of(he.PrivateKMeans, _ROWS, caught=100.0, n_iter=2, n_clusters=2, bounds=_BOX),
    "PrivateHistogramDensity": _of(he.PrivateHistogramDensity, _ROWS, bounds=_BOX, bins=4),
    "PrivateStandardScaler": _of(he.PrivateStandardScaler, _ROWS, bounds=_BOX),
    "PrivateStandardScaler, learned": _of(he.PrivateStandardScaler, _ROWS, bounds=he.LearnBounds(share=0.5)),
    "PrivateMinMaxScaler, learned": _of(he.PrivateMinMaxScaler, _ROWS, bounds=he.LearnBounds(share=0.5)),
    "PrivateRandomForestClassifier": _of(
        he.PrivateRandomForestClassifier, _CLASSES, n_estimators=2, bounds=_BOX, classes=[0, 1], max_depth=2
    ),
    "PrivateDecisionTreeClassifier": _of(
        he.PrivateDecisionTreeClassifier, _CLASSES, bounds=_BOX, classes=[0, 1], max_depth=2
    ),
    "PrivateSelectBest": _of(he.PrivateSelectBest, _TIE, samples=400, k=1, data_bound=1.0, classes=[0, 1]),
    "PrivateLogisticRegression": _linear(he.PrivateLogisticRegression, he.ObjectivePerturbation(), rows=_AGAINST),
    "PrivateLogisticRegression, output": _linear(
        he.PrivateLogisticRegression, he.OutputPerturbation(), regularization=1.0
    ),
    "PrivateLogisticRegression, gradients": _linear(
        he.PrivateLogisticRegression, he.NoisyGradients(num_steps=5), delta=_DELTA
    ),
    "PrivateLogisticRegression, Frank-Wolfe": _linear(he.PrivateLogisticRegression, he.FrankWolfe(num_steps=5)),
    "PrivateLogisticRegression, functional": _linear(
        he.PrivateLogisticRegression, he.FunctionalMechanism(), caught=50.0
    ),
    "PrivateLogisticRegression, bolt-on": _linear(he.PrivateLogisticRegression, he.BoltOnSGD()),
    "PrivateLogisticRegression, learned": _of(
        he.PrivateLogisticRegression,
        _HALVES,
        samples=200,
        data_norm=he.LearnBounds(share=0.5),
        classes=[0, 1],
        method=he.OutputPerturbation(),
    ),
    "PrivateLinearSVC": _linear(he.PrivateLinearSVC, he.ObjectivePerturbation(), caught=100.0, rows=_AGAINST),
}
