"""ROC curves as drawings: what the SVG contains."""

from __future__ import annotations

import xml.etree.ElementTree as Xml

import numpy as np
import pytest

from hush.audit import membership as mi
from hush.audit import roc
from hush.errors import InvalidArgument
from hush.guarantee import Guarantee


def test_the_figure_shows_curves_and_the_claim() -> None:
    rng = np.random.default_rng(7)
    curves = {
        "a < b": roc(rng.normal(2, 1, 3000), rng.normal(0, 1, 3000)),
        "chance": roc(rng.normal(size=300), rng.normal(size=300)),
    }
    claim = Guarantee(epsilon=1.0, delta=1e-5)
    tree = Xml.fromstring(mi.roc_document(curves, claimed=claim))
    space = "{http://www.w3.org/2000/svg}"
    texts = ["".join(element.itertext()) for element in tree.iter(f"{space}text")]
    assert any(text.startswith("a < b: AUC 0.9") for text in texts)  # 0.921, with a standard deviation of 0.003
    assert {"limit at epsilon 1", "true positive rate", "false positive rate"} <= set(texts)
    assert len(list(tree.iter(f"{space}line"))) == 10  # five powers of ten, either way
    assert {"1", "0.1", "0.01", "0.001", "1e-4"} <= set(texts)
    lines = [line for line in tree.iter(f"{space}polyline") if len((line.get("points") or "").split()) > 10]
    assert len(lines) == 4  # chance, the limit, two curves
    for line in lines:
        points = np.array([[float(v) for v in point.split(",")] for point in (line.get("points") or "").split()])
        assert (np.diff(points[:, 0]) >= 0).all()
        assert (np.diff(points[:, 1]) <= 0).all()  # up is down in SVG
    assert "The claim allows 2.7 % there" in "".join(next(tree.iter(f"{space}desc")).itertext())
    assert mi.roc_figure(curves).startswith("<svg")


def test_one_to_three_curves_are_drawn() -> None:
    curve = roc([1.0, 2.0], [0.0, 1.0])
    assert mi.roc_figure({str(number): curve for number in range(3)}).count("line s2") == 2  # the curve and its legend
    for curves in ({}, {str(number): curve for number in range(4)}):
        with pytest.raises(InvalidArgument, match="^curves="):
            mi.roc_figure(curves)
