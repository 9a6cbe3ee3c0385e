"""The Renyi test: divergences of known mechanisms, Bernstein intervals, and refusals.

False alarms: 1e-7 for bounds above the truth. Lower limits leave six standard deviations or more.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from audit.testers.known_mechanisms import CONFIDENCE, gaussian, laplace
from hush.audit.testers import audit_mechanism
from hush.errors import InvalidArgument, Unsupported
from hush.lab.divergence import Renyi, _bernstein, _pure_epsilon, pure_divergence
from hush.randomness import TestSource


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0])
def test_renyi_divergences(order: float) -> None:
    # Randomised response, written out; and the inverse.
    truth = 1 / (1 + math.exp(-1.3))
    moment = truth**order * (1 - truth) ** (1 - order) + (1 - truth) ** order * truth ** (1 - order)
    assert pure_divergence(1.3, order) == pytest.approx(math.log(moment) / (order - 1))
    assert _pure_epsilon(pure_divergence(1.3, order), order) == pytest.approx(1.3, abs=1e-8)
    # Gaussian noise has order / (2 sigma^2).
    settings: dict[str, Any] = {"attack": Renyi(order=order), "confidence": CONFIDENCE, "source": TestSource(1)}
    result = audit_mechanism(gaussian(2.0), 0.0, 1.0, samples=200_000, **settings)
    assert 0.5 * order / 8 < float(result.details["divergence_lower"]) <= order / 8  # least for 8: 0.60, +- 0.014


def test_the_bernstein_interval_is_as_published() -> None:
    # Values 0 and 1 once each: mean 1/2, variance 1/2, range 1, n = 2.
    means, widths = _bernstein(np.array([[1.0, 1.0]]), np.array([1.0]), 2, 0.1)
    assert means.tolist() == [0.5]
    assert widths[0] == pytest.approx(math.sqrt(2 * 0.5 * math.log(20) / 2) + 7 * math.log(20) / 3)


def test_approximate_claims_are_refused() -> None:
    with pytest.raises(Unsupported, match="^delta="):
        audit_mechanism(laplace(1.0), 0.0, 1.0, samples=100, delta=0.1, attack=Renyi())
    with pytest.raises(InvalidArgument, match="^order="):
        Renyi(order=1.0)
