"""The piecewise mechanism, exactly: privacy, bias and variance from the enumerated distribution."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hush.errors import InvalidArgument
from hush.guarantee import Relation
from hush.mechanisms import Piecewise, piecewise_mechanism
from mechanisms.channels import EPSILON, Coins, check_ratios


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piecewise_mechanism, "_STEPS", 6)


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("epsilon", [0.3, EPSILON, 8.0])
def test_reports_are_private_and_unbiased(monkeypatch: pytest.MonkeyPatch, epsilon: float) -> None:
    coins, mechanism = Coins(monkeypatch, piecewise_mechanism), Piecewise(epsilon=epsilon, bounds=(-1.0, 3.0))
    num_near, num_far, largest = mechanism._near, mechanism._far, mechanism._reach
    assert num_near + num_far == 13
    grid = [-1.0 + 2.0 * (step + largest) / largest for step in range(-largest, largest + 1)]
    laws = [coins.law(mechanism, value, (num_near, num_far)) for value in grid]
    check_ratios(laws, epsilon)
    for value, law in zip(grid, laws, strict=True):
        mean = math.fsum(report * float(chance) for report, chance in law.items())
        assert mean == pytest.approx(value, abs=1e-11)
        square = math.fsum(float(mechanism.squares(report)) * float(chance) for report, chance in law.items())
        assert square == pytest.approx(value**2, abs=1e-9)
    at_the_bound = math.fsum(float(chance) * (report - 3) ** 2 for report, chance in laws[-1].items())
    assert mechanism.standard_error(1) == pytest.approx(math.sqrt(at_the_bound))
    hostile = {math.inf: laws[-1], 1e300: laws[-1], -math.inf: laws[0], math.nan: laws[largest]}
    assert all(coins.law(mechanism, value, (num_near, num_far)) == law for value, law in hostile.items())


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_variance_is_that_of_the_paper(epsilon: float) -> None:
    """Wang et al. 2019, Lemma 1: x^2 / (s - 1) + (s + 3) / (3 (s - 1)^2), s = e^(epsilon / 2), here at x = 1."""
    s = math.exp(epsilon / 2)
    published = 1 / (s - 1) + (s + 3) / (3 * (s - 1) ** 2)
    assert Piecewise(epsilon=epsilon, bounds=(-1, 1)).standard_error(1) ** 2 == pytest.approx(published, rel=1e-6)


@pytest.mark.parametrize("bounds", [(1, 1), (2, 1), (0, math.inf), (math.nan, 1), None, ("a", 1), (0, 1, 2)])
def test_wrong_bounds(bounds: Any) -> None:
    with pytest.raises(InvalidArgument):
        Piecewise(epsilon=1.0, bounds=bounds)


def test_the_relation_is_replacement() -> None:
    with pytest.raises(InvalidArgument, match="^relation="):
        Piecewise(epsilon=1.0, bounds=(0, 1), relation=Relation.ADD_OR_REMOVE)
