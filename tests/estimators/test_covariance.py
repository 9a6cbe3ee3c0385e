from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import ive
from sklearn.covariance import EmpiricalCovariance

from black_box.certainty import audit
from estimators.checks import unexpected_failures
from estimators.neighbours import EXTREMES, gaussian_distance, gaussian_releases
from hush.errors import InvalidArgument
from hush.estimators import ExponentialPCA, PrivateCovariance, Wishart
from hush.estimators.base.estimator import noise_multiplier
from hush.estimators.moments.bingham import bingham
from hush.estimators.moments.wishart import WishartNoise, chi_square_delta, wishart_noise
from hush.randomness import TestSource


@pytest.mark.parametrize("method", [None, Wishart()], ids=["gauss", "wishart"])
def test_scikit_learn_checks(method):
    assert unexpected_failures(PrivateCovariance(epsilon=2.0, delta=1e-5, data_norm=10, method=method)) == []


@pytest.mark.parametrize("center", [None, 0.25])
def test_one_row_moves_the_release_by_the_stated_sensitivity(center, monkeypatch):
    x = np.random.default_rng(0).normal(size=(5, 2))

    def released(rows):
        model = PrivateCovariance(epsilon=1.0, delta=1e-6, data_norm=1.0, center=center)
        return gaussian_releases(monkeypatch, lambda: model.fit(rows))

    before = released(x)
    largest = max(gaussian_distance(before, released(np.vstack([x, [a, b]]))) for a in EXTREMES for b in EXTREMES)
    assert 0.999 < largest * noise_multiplier(1.0, 1e-6) <= 1


@pytest.mark.parametrize("method", [None, Wishart()], ids=["gauss", "wishart"])
@pytest.mark.parametrize("center", [None, [1.0, 0.0, -1.0]])
def test_close_to_the_matrix_without_noise(method, center):
    x = np.random.default_rng(0).multivariate_normal([1, 0, -1], [[2, 0.5, 0], [0.5, 1, 0.3], [0, 0.3, 1]], size=50_000)
    model = PrivateCovariance(
        epsilon=2.0, delta=1e-6, data_norm=10.0, center=center, method=method, source=TestSource(1)
    ).fit(x)
    exact = EmpiricalCovariance().fit(x)
    # Over 10 seeds all errors are below a ninth of what is allowed, on average.
    assert model.location_ == pytest.approx(exact.location_, abs=0.05)
    assert model.covariance_ == pytest.approx(exact.covariance_, abs=0.1)
    assert model.covariance_ @ model.get_precision() == pytest.approx(np.eye(3))
    assert model.score(x) == pytest.approx(exact.score(x), abs=0.01)
    assert np.mean(model.mahalanobis(x)) == pytest.approx(3, rel=0.1)
    assert model.error_norm(exact.covariance_) < 0.1


def test_the_matrix_is_positive_when_rows_are_few():
    model = PrivateCovariance(epsilon=0.1, delta=1e-6, data_norm=1.0, source=TestSource(1)).fit(np.zeros((1, 4)))
    assert (np.linalg.eigvalsh(model.covariance_) > 0).all()
    assert np.isfinite(model.precision_).all()


class BoundsFromTheData(PrivateCovariance):
    """A broken twin."""

    def fit(self, X, y=None):
        self.data_norm = float(np.linalg.norm(X, axis=1).max())
        return super().fit(X)


@pytest.mark.parametrize(("model", "violated"), [(PrivateCovariance, False), (BoundsFromTheData, True)])
def test_black_box(model, violated):
    def run(rows, source):
        fitted = model(epsilon=1.0, delta=1e-6, data_norm=1.0, source=source).fit(rows)
        return [*fitted.covariance_.ravel().tolist(), *fitted.location_.tolist()]

    first, second = np.array([[0.1, 0.0]]), np.array([[0.1, 0.0], [1e4, 1e4]])
    result = audit(run, first, second, samples=150, search_samples=75, delta=1e-6, source=TestSource(1))
    assert result.compare(1.0).violated is violated


def test_wrong_parameters():
    with pytest.raises(InvalidArgument):
        PrivateCovariance(epsilon=1.0, delta=0.0, data_norm=1.0)
    with pytest.raises(InvalidArgument):
        PrivateCovariance(epsilon=1.0, delta=1e-6, data_norm=math.inf)
    with pytest.raises(InvalidArgument):
        PrivateCovariance(epsilon=1.0, delta=1e-6, data_norm=1.0, method=ExponentialPCA())
    with pytest.raises(InvalidArgument):  # more features than rounding errors of Wishart noise have room for
        PrivateCovariance(epsilon=1.0, delta=1e-9, data_norm=1.0, method=Wishart()).fit(np.zeros((1, 300)))


@pytest.mark.parametrize(("epsilon", "shift", "degrees"), [(0.5, 4.0, 100), (1.0, 0.7, 5), (1.0, 8.0, 40)])
def test_delta_of_chi_square_noise(epsilon, shift, degrees):
    """Against the integral of what one density has over e^epsilon times the other, in both directions."""
    one, other = stats.chi2(degrees), stats.chi2(degrees, loc=shift)
    points = np.linspace(0, one.isf(1e-15) + shift, 400_001)

    def over(p, q):
        return integrate.simpson(np.maximum(p.pdf(points) - math.exp(epsilon) * q.pdf(points), 0), x=points)

    assert chi_square_delta(epsilon, shift, degrees) == pytest.approx(max(over(one, other), over(other, one)), rel=1e-3)


def test_a_row_sees_chi_square_noise():
    """The theorem that Wishart noise is accounted for by: 1 / x'W^-1 x is a chi-square variable."""
    noise, x = WishartNoise(6, 20, 1.0), np.array([0.6, 0.0, 0.8, 0.0, 0.0, 0.0])
    source, zeros = TestSource(1), np.zeros((6, 6), dtype=np.int64)
    mean = 20 * np.eye(6)
    seen = [1 / (x @ np.linalg.solve(noise.release(zeros, source) + mean, x)) for _ in range(1000)]
    # Steps of a thirtieth of the noise are seen by larger samples. False alarms: 1e-8. Misses: the twin's law is 0.34
    # away, 15 standard errors more than what has a p-value of 1e-8.
    assert stats.kstest(seen, stats.chi2(15).cdf).pvalue > 1e-8
    assert stats.kstest(seen, stats.chi2(20).cdf).pvalue < 1e-8


def test_wishart_noise_is_as_large_as_its_delta_asks_for():
    noise = wishart_noise(5, 1.0, 1e-6)
    shift, degrees = 1 / noise.scale, noise.degrees - 4
    assert chi_square_delta(1.0, shift, degrees) + (1 + math.e) * noise.doubt <= 1e-6
    assert chi_square_delta(1.0, shift * 1.01, degrees) > 1e-6
    assert 1 < noise.stddev / noise_multiplier(1.0, 1e-6) < 1.25


def test_wishart_noise_is_not_private_without_a_delta():
    """Jiang, Xie & Zhang 2016 claim epsilon 1, delta 0; a row that is not there is ruled out 28 times of 100."""
    noise, row = WishartNoise(2, 3, 1.5), np.array([[1.0, 0.0], [0.0, 0.0]])
    units = (row * 2**32).astype(np.int64)
    source = TestSource(1)

    def ruled_out(totals):
        released = noise.release(totals, source) + 3 * noise.scale * np.eye(2)
        return np.linalg.eigvalsh(released - row)[0] < -0.2  # more than rounding to steps

    without = np.mean([ruled_out(np.zeros((2, 2), dtype=np.int64)) for _ in range(2000)])
    assert 1 - math.exp(-1 / 3) == pytest.approx(0.283, abs=1e-3)
    assert without > 0.15  # it is 0.2: P(Binomial(2000, 0.2) <= 300) = 4e-9
    assert not any(ruled_out(units) for _ in range(2000))


@pytest.mark.parametrize(("noise", "violated"), [(wishart_noise(2, 1.0, 1e-6), False), (WishartNoise(2, 3, 1.5), True)])
def test_wishart_black_box(noise, violated):
    """The second is Jiang, Xie & Zhang's at epsilon 1."""
    x = np.array([1.0, 0.0])
    mean = noise.degrees * noise.scale * np.eye(2)

    def run(totals, source):
        released = noise.release(totals, source) + mean + 0.01 * np.eye(2)
        return [float(1 / (x @ np.linalg.solve(released, x)))]

    first = np.zeros((2, 2), dtype=np.int64)
    second = (np.outer(x, x) * 2**32).astype(np.int64)
    result = audit(run, first, second, samples=2000, search_samples=400, delta=1e-6, source=TestSource(1))
    assert result.compare(1.0).violated is violated


@pytest.mark.parametrize("strength", [0.0, 1.5, 40.0])
def test_directions_have_the_bingham_law(strength):
    """In the plane, e^(k cos^2 t): the angle 2 t is von Mises with k / 2."""
    source, turn = TestSource(1), np.array([[0.6, -0.8], [0.8, 0.6]])
    matrix = turn @ np.diag([strength, 0.0]) @ turn.T
    drawn = np.array([bingham(matrix, source) for _ in range(1500)]) @ turn
    angles = np.angle((drawn[:, 0] + 1j * drawn[:, 1]) ** 2)
    # False alarms: 1e-8, and 6.5 standard errors of a mean. Misses: the twins' laws are 0.16 away or more, six standard
    # errors beyond what has a p-value of 1e-8.
    assert stats.kstest(angles, stats.vonmises(max(strength / 2, 1e-12)).cdf).pvalue > 1e-8
    assert stats.kstest(angles, stats.vonmises(strength * 2 + 2).cdf).pvalue < 1e-8
    wanted = 0.5 + 0.5 * ive(1, strength / 2) / ive(0, strength / 2)
    assert np.mean(drawn[:, 0] ** 2) == pytest.approx(wanted, abs=0.06)


def test_directions_in_space():
    source, below = TestSource(1), np.array([0.0, 2.0, 6.0])
    drawn = np.array([bingham(np.diag(-below), source) for _ in range(3000)])
    grid = np.random.default_rng(0).normal(size=(400_000, 3))
    grid /= np.linalg.norm(grid, axis=1, keepdims=True)
    weights = np.exp(-(grid**2) @ below)
    # False alarms: the standard error of a mean of 3000 is 0.0046: 6.5 of them.
    assert (drawn**2).mean(axis=0) == pytest.approx(weights @ grid**2 / weights.sum(), abs=0.03)
