"""Support tests: outputs that only one neighbour can produce, and the lowest bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.testers.known_mechanisms import CONFIDENCE, Rows, batched, disclosure
from hush.audit.testers import Batched, support_test
from hush.audit.testers.support import lowest_bits
from hush.guarantee import Relation, Unit
from hush.mechanisms import Laplace
from hush.randomness import RandomSource, TestSource


def textbook(rng: np.random.Generator, value: float, count: int) -> Rows:
    """-sign ln(1 - 2 |u|) of a double-precision uniform, added in double precision."""
    uniform = rng.random(count) - 0.5
    return np.asarray(value - np.sign(uniform) * np.log1p(-2 * np.abs(uniform)))


def reachable(rows: Rows, value: float) -> NDArray[np.bool_]:
    """Which outputs the textbook sampler can make of a value: tried for the uniforms around the likeliest one."""
    noise = rows[:, 0] - value
    likely = np.round(-0.5 * np.expm1(-np.abs(noise)) * 2.0**53)
    steps = np.arange(-8, 9)[:, None]
    uniform = np.clip((likely + steps) / 2.0**53, 0, 0.5 - 2.0**-54)
    return np.asarray((value - np.sign(noise) * np.log1p(-2 * uniform) == rows[:, 0]).any(axis=0))


def test_outputs_that_one_neighbour_cannot_have() -> None:
    naive = batched(textbook)
    by_reach = support_test(naive, 0.0, 1.0, samples=20_000, reachable=reachable, source=TestSource(1))
    assert by_reach.epsilon_lower > 2
    by_bits = support_test(naive, 0.0, 1.0, samples=100_000, source=TestSource(2))
    assert by_bits.compare(1.0).violated

    def ours(data: float, source: RandomSource, count: int) -> Rows:
        return Laplace(epsilon=1.0, sensitivity=1.0, size=count).release(np.full(count, data), source).value

    for choice in (None, reachable):
        settings: dict[str, Any] = {"reachable": choice, "confidence": CONFIDENCE, "source": TestSource(3)}
        assert not support_test(Batched(ours), 0.0, 1.0, samples=100_000, **settings).compare(1.0).violated


def test_lowest_bits_of_special_values() -> None:
    rows = np.array([[0.0], [math.nan], [math.inf], [5e-324], [2.0**60 + 256]])
    lowest = lowest_bits(rows)[:, 0]
    assert np.isnan(lowest[:3]).all()
    assert lowest[3:].tolist() == [-1074.0, 8.0]


def test_results_carry_unit_and_relation() -> None:
    result = support_test(
        disclosure((0.0, 1.0)), 0, 1, samples=100, unit=Unit.user(), relation=Relation.REPLACE, source=TestSource(1)
    )
    assert (result.unit, result.relation) == (Unit.user(), Relation.REPLACE)
