"""Means and covariances of vectors: covered by their intervals, clipped, and no other row is touched by a bad one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import hush.statistics as hs
from hush.errors import InvalidArgument
from hush.randomness import TestSource

RNG = np.random.default_rng(20_26)


@pytest.mark.parametrize("settings", [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}], ids=["laplace", "gaussian"])
def test_intervals_cover(settings: dict[str, float]) -> None:
    vectors = RNG.uniform(-0.25, 0.3, (3_000, 2))  # within both norms
    shared = {"units": range(3_000), "dimension": 2, "clip_norm": 1.0, "confidence": 0.9, **settings}
    hits = [0, 0]
    for run in range(80):
        matrix = hs.covariance(vectors, **shared, source=TestSource(f"{run} {settings}"))
        mean = hs.vector_mean(vectors, **shared, source=TestSource(f"mean {run} {settings}"))
        truth = vectors.mean(axis=0)
        hits[0] += int(np.count_nonzero((mean.low <= truth) & (truth <= mean.high)))
        truth = np.cov(vectors.T, bias=True)
        hits[1] += int(((matrix.low <= truth) & (truth <= matrix.high))[np.triu_indices(2)].sum())
        assert np.linalg.eigvalsh(matrix.value).min() >= -1e-12
    # Intervals of one answer are not independent: each of its numbers is covered in enough of 80 runs, or one is not.
    assert hits[0] >= 2 * int(binom.ppf(1e-8, 80, 0.9))
    assert hits[1] >= 3 * int(binom.ppf(1e-8, 80, 0.9))
    assert np.abs(matrix.value - truth).max() < 0.1


def test_long_vectors_are_clipped() -> None:
    vectors = np.array([[3.0, 4.0]] * 2_000)
    settings = {"units": range(2_000), "dimension": 2, "clip_norm": 1.0, "epsilon": 50.0}
    in_l1 = hs.vector_mean(vectors, **settings, source=TestSource(1))
    in_l2 = hs.vector_mean(vectors, **settings, delta=1e-6, source=TestSource(1))
    assert np.abs(in_l1.value - [3 / 7, 4 / 7]).max() < 0.01
    assert np.abs(in_l2.value - [0.6, 0.8]).max() < 0.01


def test_rows_that_cannot_be_used_are_left_out_by_themselves() -> None:
    good = [[0.5, -0.5]] * 500
    bad = [[1.0], [1.0, None], "ab", None, [0.1, 0.2, 0.3], [float("nan"), 0.0], np.zeros((2, 2))]
    settings = {"dimension": 2, "clip_norm": 2.0, "epsilon": 50.0}
    result = hs.vector_mean([*bad, *good], units=range(507), **settings, source=TestSource(1))
    assert np.abs(result.value - [0.5, -0.5]).max() < 0.02


def test_the_covariance_is_around_the_mean() -> None:
    vectors = np.repeat([[0.6, 0.1], [0.2, 0.1]], 4_000, axis=0)
    settings = {"units": range(8_000), "dimension": 2, "clip_norm": 1.0, "epsilon": 80.0, "delta": 1e-6}
    result = hs.covariance(vectors, **settings, source=TestSource(1))
    assert np.abs(result.value - [[0.04, 0.0], [0.0, 0.0]]).max() < 0.01
    assert np.abs(result.parts["mean"].value - [0.4, 0.1]).max() < 0.01


@pytest.mark.parametrize(
    "wrong",
    [{"dimension": 0}, {"dimension": 5000}, {"dimension": 3}, {"clip_norm": 0.0}, {"clip_norm": 1e101}],
    ids=str,
)
def test_shapes_and_norms_are_checked(wrong: dict[str, float]) -> None:
    settings = {"units": [1, 2], "dimension": 2, "clip_norm": 1.0, "epsilon": 1.0, **wrong}
    with pytest.raises(InvalidArgument):
        hs.vector_mean(np.zeros((2, 2)), **settings)  # type: ignore[arg-type]
