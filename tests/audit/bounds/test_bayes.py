"""Jeffreys posteriors: a published interval, draws from the posterior, and how results are labelled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hush.audit import Explicit, Jeffreys, audit_scores
from hush.audit.bounds.bayes import _Posterior, jeffreys_interval
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Bound


def test_jeffreys_interval_of_the_reference() -> None:
    low, high = jeffreys_interval(487, 487, 512, 513, delta=1e-5, credibility=0.9)
    # The published example, [.145, 6.399], was integrated to 5e-3 and solved to 1e-2; so it agrees to no more.
    assert low == pytest.approx(0.145, abs=0.01)
    assert high == pytest.approx(6.399, abs=0.02)
    # Ours against a million draws from the posterior; standard deviations of their quantiles: 0.0005 and 0.007.
    rng, delta = np.random.default_rng(1), 1e-5
    fpr, fnr = rng.beta(512.5, 1.5, 1_000_000), rng.beta(0.5, 487.5, 1_000_000)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = [
            (1 - delta - fnr) / fpr,
            (1 - delta - fpr) / fnr,
            (fnr - delta) / (1 - fpr),
            (fpr - delta) / (1 - fnr),
        ]
        epsilon = np.log(np.maximum(np.fmax.reduce(ratios), 1.0))
    drawn = np.quantile(epsilon, [0.05, 0.95])
    assert low == pytest.approx(drawn[0], abs=0.005)
    assert high == pytest.approx(drawn[1], abs=0.06)


def test_the_posterior_is_a_distribution_function() -> None:
    posterior = _Posterior(3, 50, 40, 60, 1e-3)
    masses = [posterior.cdf(epsilon) for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0, 50.0)]
    assert masses == sorted(masses)
    assert masses[-1] == pytest.approx(1.0, abs=1e-9)
    assert posterior.cdf(posterior.quantile(0.3)) == pytest.approx(0.3, abs=1e-6)


def test_results_are_not_labelled_as_confidence_bounds() -> None:
    result = audit_scores([1.0] * 50, [0.0] * 50, method=Jeffreys(), threshold=Explicit(0.5))
    assert result.guarantee.bound is Bound.ESTIMATE
    assert "credib" in str(result)
    with pytest.raises(Unsupported, match="not a confidence bound"):
        result.compare(1.0)


@pytest.mark.parametrize(
    "call", [lambda: jeffreys_interval(1, 1, 2, 1), lambda: jeffreys_interval(1, 1, 0, 1, credibility=1.0)]
)
def test_invalid_arguments_are_refused(call: Any) -> None:
    with pytest.raises(InvalidArgument):
        call()
