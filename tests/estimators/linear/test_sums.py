"""Exact sums: independent of the order of rows, with a twin that sums in floating point."""

from __future__ import annotations

import numpy as np

from hush.estimators.linear.sums import clip_rows, exact_products, truncate


def test_sums_do_not_depend_on_the_order_of_rows() -> None:
    chance = np.random.default_rng(1)
    rows = truncate(clip_rows(chance.normal(size=(70_001, 3)), 1.0, intercept=True))
    slopes = truncate(chance.uniform(-1, 1, size=(70_001, 2)))
    order = chance.permutation(len(rows))
    exact = exact_products(slopes, rows)
    assert (exact == exact_products(slopes[order], rows[order])).all()
    assert np.allclose(exact, slopes.T @ rows, rtol=1e-9, atol=1e-9)
    plain = chance.uniform(size=70_001)
    # Plain sums of two orders are equal by chance in less than half of the cases, and so in all of 40 with 1e-12.
    assert any(chance.permutation(plain).sum() != plain.sum() for _ in range(40)), "a twin that sums as it comes"
