"""Exact sums: independent of the order of rows, with a twin that sums in floating point."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hush.estimators.linear.sums import BITS, clip_rows, exact_products, truncate


def test_sums_do_not_depend_on_the_order_of_rows() -> None:
    chance = np.random.default_rng(1)
    rows = truncate(clip_rows(chance.normal(size=(70_001, 3)), 1.0, intercept=True))
    slopes = truncate(chance.uniform(-1, 1, size=(70_001, 2)))
    order = chance.permutation(len(rows))
    exact = exact_products(slopes, rows)
    assert (exact == exact_products(slopes[order], rows[order])).all()
    assert np.allclose(exact, slopes.T @ rows, rtol=1e-9, atol=1e-9)
    plain = chance.uniform(size=70_001)
    # Plain sums in two orders are equal by chance in less than half of the cases, and in all of 40 with 1e-12.
    assert any(chance.permutation(plain).sum() != plain.sum() for _ in range(40)), "a twin that sums as it comes"


@pytest.mark.parametrize("order", [2, math.inf])
@pytest.mark.parametrize("intercept", [True, False])
def test_clipped_rows_have_norm_one_at_most(order: float, intercept: bool) -> None:
    rows = np.random.default_rng(0).normal(size=(200, 3)) * np.geomspace(1e-3, 1e200, 200)[:, None]
    bounded = clip_rows(rows, 2.0, intercept=intercept, order=order)
    norms = np.linalg.norm(bounded, ord=order, axis=1)
    assert norms.max() <= 1
    assert bounded.shape == (200, 3 + intercept)
    if not intercept:
        assert norms[-1] == pytest.approx(1)
        assert bounded[0] == pytest.approx(rows[0] / 2), "short rows are only scaled"
    elif order == 2:
        assert bounded[:, -1] == pytest.approx(math.sqrt(0.5))


def test_truncation_never_lengthens_a_row() -> None:
    values = np.random.default_rng(1).uniform(-1, 1, size=(500, 4))
    truncated = truncate(values)
    assert (np.abs(truncated) <= np.abs(values)).all()
    assert np.abs(truncated - values).max() < 2.0**-BITS
    assert (truncated * 2.0**BITS == np.rint(truncated * 2.0**BITS)).all()
    rounded = np.rint(values * 2.0**BITS) * 2.0**-BITS
    assert (np.linalg.norm(rounded, axis=1) > np.linalg.norm(values, axis=1)).any(), "a twin that rounds to nearest"
