"""Poisson regression: near the non-private fit, exact where the likelihood is a parabola, bounded by one row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import mean_poisson_deviance

from hush.accounting import PldAccountant
from hush.errors import InvalidArgument
from hush.estimators import PrivatePoissonRegression
from hush.estimators.linear.poisson import _parabola
from hush.randomness import TestSource


def data(count: int = 20_000) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 3))
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    return x, rng.poisson(np.exp(0.3 + x @ [0.8, -0.5, 0.3]))


def model(**changes: Any) -> PrivatePoissonRegression:
    settings: dict[str, Any] = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "data_norm": 1.0,
        "target_bounds": (0, 10),
        "rate_bounds": (0.5, 4),
        "source": TestSource(1),
    }
    return PrivatePoissonRegression(**(settings | changes))


def test_it_is_near_the_fit_without_privacy() -> None:
    x, y = data()
    private, public = model().fit(x, y), PoissonRegressor(alpha=0).fit(x, y)
    # Fixed key. With 10 other keys, the deviance was 0.1 % above that of the other fit, and 24 % below that of a mean.
    deviances = [mean_poisson_deviance(y, fitted.predict(x)) for fitted in (private, public)]
    assert deviances[0] < 1.005 * deviances[1] < 0.9 * mean_poisson_deviance(y, np.full(len(y), y.mean()))
    assert np.allclose(private.coef_, public.coef_, atol=0.08)
    assert private.intercept_ == pytest.approx(public.intercept_, abs=0.05)


def test_without_noise_it_maximises_the_quadratic_likelihood() -> None:
    x, y = data(3000)
    x = 0.9 * x  # nothing is clipped
    fitted = model(epsilon=5000.0).fit(x, y)
    middle, half = (math.log(4) + math.log(0.5)) / 2, (math.log(4) - math.log(0.5)) / 2
    _, slope, curvature = _parabola(half) * math.exp(middle)
    features = np.hstack([x, np.ones((len(x), 1))])
    expected = np.linalg.solve(2 * curvature * features.T @ features, features.T @ (np.minimum(y, 10) - slope))
    assert np.allclose(fitted.coef_, expected[:-1], atol=0.02)
    assert fitted.intercept_ == pytest.approx(middle + expected[-1], abs=0.02)


def test_other_units_of_the_rows_change_nothing() -> None:
    x, y = data(4000)
    one, other = model().fit(x, y), model(data_norm=10.0).fit(10 * x, y)
    assert np.allclose(one.coef_, 10 * other.coef_, rtol=1e-3)
    assert np.allclose(one.predict(x), other.predict(10 * x), rtol=1e-3)


def test_predictions_are_within_the_public_rates() -> None:
    x, y = data(100)
    rates = model(epsilon=0.01).fit(x, y).predict(100 * x)
    assert rates.min() >= 0.5 - 1e-12
    assert rates.max() <= 4 + 1e-12


def test_the_parabola_is_close_within_the_range() -> None:
    for half in (0.2, 1.0, 1.5):
        t = np.linspace(-half, half, 101)
        c, b, a = _parabola(half)
        # The error of interpolation in 3 Chebyshev points: e^half half^3 / (3! 2^2).
        assert np.abs(c + b * t + a * t * t - np.exp(t)).max() <= math.exp(half) * half**3 / 24
        assert a > 0


def test_the_cost_is_that_of_one_gaussian_release() -> None:
    x, y = data(50)
    assert PldAccountant().compose(model().fit(x, y).event_).epsilon(1e-6) == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("wrong", [(0, 4), (-1, 4), (4, 0.5), (1, 1), (1e-3, 1e5), (1, math.nan), ([1], [2]), "x"])
def test_rates_that_make_no_sense(wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="rate_bounds"):
        model(rate_bounds=wrong)
