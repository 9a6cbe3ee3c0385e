"""One-hot columns of public categories: like scikit-learn, without looking at the data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.preprocessing import OneHotEncoder

import hush.estimators as he
from hush.errors import InvalidArgument
from hush.estimators import PublicOneHotEncoder


class TestOneHot:
    @pytest.mark.parametrize("wrong", ["ab", ["ab"], [["a"], "bc"], [b"ab"], [[]], [], 3, None, [["a", "a"]]])
    def test_wrong_categories(self, wrong):
        with pytest.raises(InvalidArgument, match="categories"):
            he.PublicOneHotEncoder(categories=wrong)

    @pytest.mark.parametrize(
        ("known", "cells"),
        [
            ([3, 1, 2], np.array([1, 2, 3, 4, 0, -1, 1])),
            ([0.5, -1.0], np.array([0.5, -1.0, math.nan, math.inf])),
            (["b", "a"], np.array(["a", "b", "", "c", "aa"])),
            (["b", "a"], np.array(["a", "b", None, 3], dtype=object)),
            ([True, False], np.array([True, False])),
            ([1, "1"], np.array([1, "1", 2], dtype=object)),
        ],
    )
    def test_like_scikit_learn(self, known, cells):
        ours = he.PublicOneHotEncoder(categories=[known]).fit(cells[:, None])
        expected = [[float(c == k) for k in known] for c in cells.tolist()]
        columns = ours.transform(cells[:, None])
        assert columns.tolist() == expected
        back = ours.inverse_transform(columns)[:, 0].tolist()
        assert back == [c if c in known else None for c in cells.tolist()]

    def test_inverse_of_several_features(self):
        known = [["a", "b"], [1, 2, 3]]
        rows = np.array([["a", 3], ["b", 1], ["c", 2]], dtype=object)
        ours = he.PublicOneHotEncoder(categories=known).fit(rows)
        theirs = OneHotEncoder(categories=known, handle_unknown="ignore", sparse_output=False).fit(rows[:2])
        columns = ours.transform(rows)
        assert columns.tolist() == theirs.transform(rows).tolist()
        assert ours.inverse_transform(columns).tolist() == theirs.inverse_transform(columns).tolist()
        with pytest.raises(InvalidArgument):
            ours.inverse_transform(columns[:, 1:])


def test_one_hot():
    encoder = PublicOneHotEncoder(categories=[["a", "b"], [1, 2, 3]])
    rows = np.array([["a", 1], ["c", 3], [None, math.nan]], dtype=object)
    assert encoder.fit(rows).transform(rows).tolist() == [[1, 0, 1, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]]
    assert encoder.get_feature_names_out().tolist() == ["x0_a", "x0_b", "x1_1", "x1_2", "x1_3"]
    other = PublicOneHotEncoder(categories=[["a", "b"], [1, 2, 3]]).fit(rows[:1])
    assert other.categories_ == encoder.categories_
    with pytest.raises(InvalidArgument):
        PublicOneHotEncoder(categories=[["a", "a"]])
    with pytest.raises(InvalidArgument):
        encoder.fit(rows[:, :1])


def test_a_missing_category_raises_no_error():
    pandas = pytest.importorskip("pandas")
    encoder = he.PublicOneHotEncoder(categories=[["a", "b"]])
    rows = np.array([["a"], [pandas.NA], [None], [math.nan], [["b"]], ["b"]], dtype=object)
    assert encoder.fit(rows).transform(rows).tolist() == [[1, 0], [0, 0], [0, 0], [0, 0], [0, 0], [0, 1]]
