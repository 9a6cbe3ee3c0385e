"""The local model's channels, exactly: every draw is enumerated, and every coin's probability is a fraction."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from hush.errors import InvalidArgument
from hush.guarantee import Relation
from hush.mechanisms import Piecewise, RandomizedResponse, UnaryEncoding, local, piecewise
from hush.randomness import TestSource

EPSILON = 1.25
TINY = Fraction(1, 10**40)
Law = dict[Any, Fraction]


def exact_exp(x: float) -> Fraction:
    with localcontext() as context:
        context.prec = 60
        return Fraction(Decimal(x).exp())


class Coins:
    """Replaces a module's draws: all coins fall alike, and uniform draws go through all of their values."""

    def __init__(self, monkeypatch: Any, module: Any) -> None:
        self.side = True
        self.probability = Fraction(0)
        monkeypatch.setattr(module, "flip", self._flip)
        monkeypatch.setattr(module, "uniform_below", lambda source, bound, size: np.arange(size) % bound)

    def _flip(self, source: Any, approximate: Any, enclosure: Any) -> Any:
        low, high = enclosure(0, 60)
        assert high - low < TINY
        self.probability = (low + high) / 2
        assert approximate == pytest.approx(np.full(len(approximate), float(self.probability)), rel=1e-13)
        return np.full(len(approximate), self.side)

    def law(self, mechanism: Any, record: float, draws: tuple[int, int]) -> Law:
        """Return the law of what is told: for both sides of the coin, so many equally likely outcomes."""
        found: Law = Counter()  # type: ignore[assignment]
        for self.side, count in ((True, draws[0]), (False, draws[1])):
            told = mechanism.release([record] * count, TestSource(1)).value.tolist()
            weight = self.probability if self.side else 1 - self.probability
            for value in told:
                found[value] += weight / count
        return found


def check_ratios(laws: list[Law], epsilon: float) -> None:
    """Check that all inputs have the same outputs, within e^epsilon of each other, and that this is reached."""
    assert all(set(law) == set(laws[0]) for law in laws)
    limit = exact_exp(epsilon)
    worst = max(one[key] / other[key] for one in laws for other in laws for key in one)
    assert abs(worst - limit) < TINY * 10**6
    assert all(abs(sum(law.values()) - 1) < TINY for law in laws)


def test_randomized_response(monkeypatch):
    coins, mechanism = Coins(monkeypatch, local), RandomizedResponse(epsilon=EPSILON, num_values=4)
    laws = [coins.law(mechanism, record, (1, 3)) for record in range(4)]
    check_ratios(laws, EPSILON)
    assert float(laws[2][2]) == pytest.approx(mechanism.truth_probability, rel=1e-14)
    assert float(laws[2][3]) == pytest.approx(mechanism.lie_probability, rel=1e-14)
    for hostile in (math.nan, -math.inf, -7):
        assert coins.law(mechanism, hostile, (1, 3)) == laws[0]


@pytest.fixture
def few_steps(monkeypatch) -> None:
    monkeypatch.setattr(piecewise, "_STEPS", 6)


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("epsilon", [0.3, EPSILON, 8.0])
def test_piecewise(monkeypatch, epsilon):
    coins, mechanism = Coins(monkeypatch, piecewise), Piecewise(epsilon=epsilon, bounds=(-1.0, 3.0))
    near, far, reach = mechanism._near, mechanism._far, mechanism._reach
    assert near + far == 13
    grid = [-1.0 + 2.0 * (place + reach) / reach for place in range(-reach, reach + 1)]
    laws = [coins.law(mechanism, value, (near, far)) for value in grid]
    check_ratios(laws, epsilon)
    for value, law in zip(grid, laws, strict=True):
        mean = math.fsum(told * float(chance) for told, chance in law.items())
        assert mean == pytest.approx(value, abs=1e-11)
        square = math.fsum(float(mechanism.squares(told)) * float(chance) for told, chance in law.items())
        assert square == pytest.approx(value**2, abs=1e-9)
    at_the_bound = math.fsum(float(chance) * (told - 3) ** 2 for told, chance in laws[-1].items())
    assert mechanism.standard_error(1) == pytest.approx(math.sqrt(at_the_bound))
    hostile = {math.inf: laws[-1], 1e300: laws[-1], -math.inf: laws[0], math.nan: laws[reach]}
    assert all(coins.law(mechanism, value, (near, far)) == law for value, law in hostile.items())


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_piecewise_has_the_variance_of_the_paper(epsilon):
    """Wang et al. 2019, Lemma 1: x^2 / (s - 1) + (s + 3) / (3 (s - 1)^2), s = e^(epsilon / 2), here at x = 1."""
    s = math.exp(epsilon / 2)
    published = 1 / (s - 1) + (s + 3) / (3 * (s - 1) ** 2)
    assert Piecewise(epsilon=epsilon, bounds=(-1, 1)).standard_error(1) ** 2 == pytest.approx(published, rel=1e-6)


def test_unary_encoding(monkeypatch):
    coins, mechanism = Coins(monkeypatch, local), UnaryEncoding(epsilon=EPSILON, num_values=3)
    mechanism.release([0], TestSource(1))
    lie, half = coins.probability, Fraction(1, 2)
    for record in range(3):
        for side, own in product((True, False), (0, 1)):  # others fall alike; one's own is drawn apart
            coins.side = side
            row = mechanism.release([record] * 2, TestSource(1)).value[own].tolist()
            assert row == [bool(own) if place == record else side for place in range(3)]
    laws = [
        {
            bits: math.prod(half if place == record else (lie if bit else 1 - lie) for place, bit in enumerate(bits))
            for bits in product((0, 1), repeat=3)
        }
        for record in range(3)
    ]
    check_ratios(laws, EPSILON)
    assert float(lie) == pytest.approx(mechanism.lie_probability, rel=1e-14)


def test_unary_encoding_has_the_variance_of_the_paper():
    """Wang, Blocki, Li & Jha 2017: n 4 e^epsilon / (e^epsilon - 1)^2 for rare values."""
    mechanism = UnaryEncoding(epsilon=EPSILON, num_values=100)
    lie, grown = mechanism.lie_probability, math.exp(EPSILON)
    assert lie * (1 - lie) / (0.5 - lie) ** 2 == pytest.approx(4 * grown / (grown - 1) ** 2)
    assert mechanism.standard_error(100) >= math.sqrt(100 * lie * (1 - lie)) / (0.5 - lie)


@pytest.mark.parametrize("bounds", [(1, 1), (2, 1), (0, math.inf), (math.nan, 1), None, ("a", 1), (0, 1, 2)])
def test_wrong_bounds(bounds):
    with pytest.raises(InvalidArgument):
        Piecewise(epsilon=1.0, bounds=bounds)


@pytest.mark.parametrize("kind", [Piecewise, UnaryEncoding])
def test_presence_is_not_hidden(kind):
    more = {"bounds": (0, 1)} if kind is Piecewise else {"num_values": 2}
    with pytest.raises(InvalidArgument, match="relation"):
        kind(epsilon=1.0, relation=Relation.ADD_OR_REMOVE, **more)
