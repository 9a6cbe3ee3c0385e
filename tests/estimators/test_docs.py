"""Every public class documents its parameters, and the attributes that fit sets."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

import hush.estimators as he
from estimators.table import CASES, LEARNS_FROM_FEW
from hush.estimators import pate
from hush.randomness import TestSource

X, Y = np.random.default_rng(0).uniform(-1, 1, size=(60, 2)), np.arange(60) % 2
BOX: dict[str, Any] = {"epsilon": 1.0, "bounds": (-1, 1)}
NET: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-4, "data_norm": 1.0, "epochs": 1, "batch_size": 20}


def network(kind: Any, **settings: Any) -> Any:
    return kind(pytest.importorskip("torch").nn.Linear, **NET, **settings)


OTHERS: dict[str, Any] = {
    "LocalRandomizer": lambda: he.LocalRandomizer(**BOX).fit(X),
    "Rappor": lambda: he.Rappor().fit(X),
    "LocalNaiveBayes": lambda: he.LocalNaiveBayes(classes=[0, 1], **BOX).fit(X, Y),
    "LocalLinearRegression": lambda: he.LocalLinearRegression(target_bounds=(0, 1), **BOX).fit(X, Y),
    "PublicOneHotEncoder": lambda: he.PublicOneHotEncoder(categories=[["a"]]).fit([["a"]]),
    "PATEClassifier": lambda: he.PATEClassifier(
        LogisticRegression(),
        LogisticRegression(),
        num_teachers=2,
        aggregator=pate.GNMax(sigma=2.0),
        epsilon=500.0,
        delta=1e-5,
        classes=[0, 1],
        source=TestSource(1),
    ).fit(X, Y, public=X),
    "PrivateGridSearch": lambda: he.PrivateGridSearch(
        he.PrivateGaussianNB(classes=[0, 1], **BOX), {"bounds": [(-1, 1), (-2, 2)]}, score_epsilon=1.0
    ).fit(X, Y),
    "PrivateClassifier": lambda: network(he.PrivateClassifier, classes=[0, 1]).fit(X, Y),
    "PrivateRegressor": lambda: network(he.PrivateRegressor, target_bounds=(0, 1)).fit(X, Y),
}
PUBLIC = [getattr(he, name) for name in he.__all__] + [getattr(pate, name) for name in pate.__all__]
ESTIMATORS = [kind for kind in PUBLIC if inspect.isclass(kind) and issubclass(kind, BaseEstimator)]


ALL = pytest.mark.parametrize("kind", dict.fromkeys(ESTIMATORS), ids=lambda kind: kind.__name__)


def documented(kind: Any, title: str) -> set[str]:
    """Return the names under a title of a docstring."""
    text = inspect.cleandoc(kind.__doc__ or "")
    section = re.search(rf"^{title}:\n((?:[ ]+\S.*\n?|\n)+)", text, re.MULTILINE)
    names = re.findall(r"^    (\w+(?:, \w+)*):", section[1], re.MULTILINE) if section else []
    return {name for entry in names for name in entry.split(", ")}


def fitted(kind: Any) -> Any:
    name = kind.__name__
    if name in OTHERS:
        return OTHERS[name]()
    case = next(case for title, case in CASES.items() if title.split(",")[0] == name)
    return case.make(epsilon=1.0).fit(*case.first)


@pytest.mark.parametrize("kind", dict.fromkeys(PUBLIC), ids=lambda kind: kind.__name__)
def test_parameters_are_documented(kind):
    listed = documented(kind, "Args") | documented(kind, "Attributes")  # dataclasses list their fields as attributes
    parameters = set(inspect.signature(kind).parameters)
    assert parameters - listed == set()


@pytest.mark.filterwarnings("ignore:the answers have fewer")  # hush's own warning: the table of PATE is tiny
@LEARNS_FROM_FEW
@ALL
def test_attributes_are_documented(kind):
    """Every documented attribute exists, except for feature names, which not all tables have."""
    public = {name for name in vars(fitted(kind)) if name.endswith("_") and not name.startswith("_")}
    listed = {name for name in documented(kind, "Attributes") if name.endswith("_")}
    assert public - listed == set()
    properties = {name for name in listed if hasattr(kind, name)}
    assert listed - public - properties - {"feature_names_in_"} == set()


@ALL
def test_docstrings_say_when_to_choose_it(kind):
    text = inspect.cleandoc(kind.__doc__ or "").split("Args:")[0]
    assert re.search(r"[Cc]hoose|^For |^Before |^Use it |^Try (it|this) first", text, re.MULTILINE)
    assert ">>>" in kind.__doc__


def test_sections_of_docstrings_are_parsed():
    class Example:
        """Something.

        Args:
            one, two: Numbers.
            three: A number, of
                several: lines.

        Attributes:
            four_: Another.
        """

    assert documented(Example, "Args") == {"one", "two", "three"}
    assert documented(Example, "Attributes") == {"four_"}
