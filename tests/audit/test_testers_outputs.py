"""What a mechanism can give out: outputs that differ are told apart, whatever they are, or refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hush.audit.testers import Batched, HistogramAttack, HockeyStick, audit_mechanism, support_test
from hush.audit.testers.written import written
from hush.errors import InvalidArgument
from hush.guarantee import Relation, Unit
from hush.randomness import RandomSource, TestSource

BIG = 2**60


DIFFERENT: dict[str, tuple[Any, Any]] = {
    "sign of zero": (0.0, -0.0),
    "sign of zero in a list": ([1.0, 0.0], [1.0, -0.0]),
    "large integers": (BIG, BIG + 1),
    "negative integers": (-BIG, -BIG - 1),
    "huge integers": (10**400, 10**400 + 1),
    "huge integers, high digits": (10**400, 10**400 + 2**1000),
    "large integers of numpy": (np.array([BIG]), np.array([BIG + 1])),
    "nothing and no entries": (None, []),
    "missing and NaN": ([None], [math.nan]),
    "structure": ([[1], [2, 3]], [[1, 2], [3]]),
    "list and number": ([1], 1),
    "list and tuple": ([1], (1,)),
    "types": (1, 1.0),
    "truth and number": (True, 1),
    "text and bytes": ("a", b"a"),
    "imaginary part": (1 + 0j, 1 + 1j),
    "dictionaries": ({"a": 1}, {"a": 2}),
    "keys": ({"a": 1}, {"b": 1}),
    "sets": ({1, 5}, {1, 6}),
    "decimals": (Decimal("0.1"), Decimal("0.10000000000000000000001")),
    "fractions": (Fraction(1, 3), Fraction(10**20, 3 * 10**20 + 1)),
    "shapes": (np.zeros((2, 3)), np.zeros((3, 2))),
    "precision": (np.float32(0.5), np.float64(0.5)),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_outputs_that_differ_are_told_apart(name: str) -> None:
    pair = DIFFERENT[name]
    found = audit_mechanism(lambda which, source: pair[which], 0, 1, samples=300, source=TestSource(1))
    assert found.epsilon_lower > 3
    again = audit_mechanism(lambda which, source: pair[0], 0, 1, samples=300, source=TestSource(1))
    assert again.epsilon_lower == 0


def test_equal_outputs_are_written_alike() -> None:
    assert written({3, 1, 2}) == written({1, 2, 3})
    assert written(np.array([1.0, 2.0])) == written(np.array([1.0, 2.0]))
    lengths = [written([0.5] * count)[0] for count in range(1, 30)]
    assert np.allclose(np.diff(lengths), 1, rtol=0, atol=1e-9)  # of a flat list the length alone counts


def test_the_sign_of_zero_is_seen_in_batches() -> None:
    def signed(which: int, source: RandomSource, count: int) -> Any:
        return np.full(count, -0.0 if which else 0.0)

    for attack in (None, HockeyStick(epsilon=1.0), HistogramAttack()):
        assert (
            audit_mechanism(Batched(signed), 0, 1, samples=3000, attack=attack, source=TestSource(1)).epsilon_lower > 2
        )
    assert support_test(Batched(signed), 0, 1, samples=3000, source=TestSource(1)).epsilon_lower > 4


def test_a_batch_of_complex_numbers_is_two_columns() -> None:
    found = audit_mechanism(
        Batched(lambda which, source, count: np.full(count, 1 + 1j * which)), 0, 1, samples=300, source=TestSource(1)
    )
    assert found.epsilon_lower > 3


@pytest.mark.parametrize(
    "draw",
    [
        lambda which, source, count: np.full(count, BIG + which),
        lambda which, source, count: np.full(count, 2**63 + which, dtype=np.uint64),
        lambda which, source, count: np.full(count, str(which)),
        lambda which, source, count: np.full(count, None),
        lambda which, source, count: np.zeros(count, dtype=np.longdouble),
        lambda which, source, count: np.zeros(count + 1),
    ],
)
def test_batches_that_doubles_do_not_hold_are_refused(draw: Callable[[int, RandomSource, int], Any]) -> None:
    with pytest.raises(InvalidArgument, match="draw="):
        audit_mechanism(Batched(draw), 0, 1, samples=10, source=TestSource(1))


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="output="):
        audit_mechanism(lambda which, source: object(), 0, 1, samples=10, source=TestSource(1))


def test_an_exception_is_an_output() -> None:
    found = audit_mechanism(lambda which, source: 1 / which, 0, 1, samples=300, source=TestSource(1))
    assert found.epsilon_lower > 3

    def by_type(which: int, source: RandomSource) -> float:
        if int(source.words(1)[0]) % 2:
            raise KeyError if which else ValueError
        return 0.0

    assert audit_mechanism(by_type, 0, 1, samples=1000, source=TestSource(1)).epsilon_lower > 3


def test_a_mechanism_that_always_fails_is_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        audit_mechanism(lambda which, source: 1 / 0, 0, 1, samples=10, source=TestSource(1))


def disclosed(values: tuple[float, float]) -> Batched:
    return Batched(lambda which, source, count: np.full(count, values[which]))


@pytest.mark.parametrize("values", [(0.0, 1.0), (math.inf, -math.inf), (math.nan, 1.0), (1.0, math.nan)])
def test_the_hockey_stick_sees_total_disclosure(values: tuple[float, float]) -> None:
    found = audit_mechanism(
        disclosed(values), 0, 1, samples=5000, attack=HockeyStick(epsilon=1.0), source=TestSource(1)
    )
    assert found.epsilon_lower > 6


@pytest.mark.parametrize("truthful", [0.9, 0.99, 0.996, 0.999])
def test_the_hockey_stick_sees_few_lies(truthful: float) -> None:
    def respond(which: int, source: RandomSource, count: int) -> Any:
        return np.where(np.random.default_rng(source.words(4)).random(count) < truthful, which, 1 - which)

    # False alarms: 1e-7 above. At 0.999, 0.86 of the truth are shown, with a standard deviation of 0.011 over seeds.
    settings: dict[str, Any] = {"attack": HockeyStick(epsilon=1.0), "confidence": 1 - 1e-7, "source": TestSource(1)}
    found = audit_mechanism(Batched(respond), 0, 1, samples=20_000, **settings)
    true = math.log(truthful / (1 - truthful))
    assert 0.75 * true < found.epsilon_lower <= true


def test_support_tests_say_what_the_inputs_differ_in() -> None:
    found = support_test(
        disclosed((0.0, 1.0)), 0, 1, samples=100, unit=Unit.user(), relation=Relation.REPLACE, source=TestSource(1)
    )
    assert (found.unit, found.relation) == (Unit.user(), Relation.REPLACE)
