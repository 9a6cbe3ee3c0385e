"""What every attack keeps: valid and sharp bounds, both directions, outputs of any type.

False alarms: a bound that must not exceed the truth does so with probability 1e-7 at most. Lower limits on bounds were
measured over ten seeds or more, and leave a margin of at least six standard deviations.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from scipy.stats import binom

from audit.testers.known_mechanisms import (
    ATTACKS,
    CONFIDENCE,
    batched,
    gaussian,
    gaussian_epsilon,
    laplace,
    randomised_response,
)
from hush.audit.testers import Attack, Batched, audit_mechanism
from hush.randomness import RandomSource, TestSource

# A mechanism, its true epsilon, and the delta at which it holds.
TRUTHS: dict[str, tuple[Batched, float, float]] = {
    "response": (randomised_response(1.0), 1.0, 0.0),
    "laplace": (laplace(1.0), 1.0, 0.0),
    "gaussian": (gaussian(1.0), gaussian_epsilon(1.0, 0.05), 0.05),
}


def count_misses(attack: Attack, truth: str, audits: int, samples: int, confidence: float) -> int:
    """Count the audits whose bound lies above the truth."""
    mechanism, epsilon, delta = TRUTHS[truth]
    return sum(
        audit_mechanism(
            mechanism,
            0.0,
            1.0,
            samples=samples,
            delta=delta,
            confidence=confidence,
            attack=attack,
            source=TestSource(f"{truth} {number}"),
        ).epsilon_lower
        > epsilon
        for number in range(audits)
    )


def too_many(count: int, audits: int, error: float) -> bool:
    """Whether so many misses have a probability below 1e-7, if each has probability ``error`` at most."""
    return bool(binom.sf(count - 1, audits, error) < 1e-7)


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.quick_cases(4)
def test_bounds_are_valid(name: str, truth: str) -> None:
    if name == "renyi" and truth == "gaussian":
        pytest.skip("bounds of Renyi divergences are for delta = 0")
    assert not too_many(count_misses(ATTACKS[name], truth, 60, 400, 0.8), 60, 0.2)


@pytest.mark.slow
@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("name", ATTACKS)
def test_bounds_are_valid_in_500_audits(name: str, truth: str) -> None:
    if name == "renyi" and truth == "gaussian":
        pytest.skip("bounds of Renyi divergences are for delta = 0")
    assert not too_many(count_misses(ATTACKS[name], truth, 500, 2_000, 0.95), 500, 0.05)


@pytest.mark.parametrize(
    ("name", "lowest"),
    [("events", 0.91), ("classifier", 0.9), ("hockey-stick", 0.93), ("histogram", 0.72), ("renyi", 0.83)],
)
def test_bounds_are_sharp(name: str, lowest: float) -> None:
    # Standard deviations: 0.007, 0.007, 0.004, 0.006 and 0.003.
    settings: dict[str, Any] = {"attack": ATTACKS[name], "confidence": CONFIDENCE, "source": TestSource(name)}
    result = audit_mechanism(laplace(1.0), 0.0, 1.0, samples=200_000, **settings)
    assert lowest < result.epsilon_lower <= 1.0
    assert result.epsilon == pytest.approx(1.0, abs=0.2)
    assert (result.num_in, result.num_out, result.delta) == (200_000, 200_000, 0.0)


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("inputs", [(0, 1), (1, 0)])
def test_both_directions_are_tried(name: str, inputs: tuple[int, int]) -> None:
    # Only the input 1 ever gives a 1. One direction alone shows little, ln(1 / 0.8).
    mechanism = batched(lambda rng, bit, count: bit * (rng.random(count) < 0.2))
    result = audit_mechanism(mechanism, *inputs, samples=20_000, attack=ATTACKS[name], source=TestSource(name))
    # A classifier's event has a given probability, here 0.1; the last two tests bound more than one event.
    lowest = {"events": 3.0, "hockey-stick": 3.0, "classifier": 0.75, "histogram": 0.8, "renyi": 0.5}
    assert result.epsilon_lower > lowest[name]


@pytest.mark.parametrize("name", ATTACKS)
def test_constant_outputs_show_nothing(name: str) -> None:
    for output in (3.0, math.nan, math.inf, None, "text", [], [1.0, [None, 2.0]]):
        # A bound above 0 is a false alarm, at most 1e-8 for each of 35 audits.
        settings: dict[str, Any] = {"samples": 200, "confidence": 1 - 1e-8, "attack": ATTACKS[name]}
        result = audit_mechanism(lambda data, source: output, 0, 1, **settings)  # noqa: B023
        assert result.epsilon_lower == 0


def outputs_of_any_shape(bit: int, source: RandomSource) -> Any:
    coin = source.word() % 4 == 0
    return [None, "a", b"b", (1.0, [2, True]), math.nan, -math.inf][: 2 + 2 * bit + coin]


@pytest.mark.parametrize("name", ATTACKS)
def test_outputs_of_any_shape(name: str) -> None:
    result = audit_mechanism(outputs_of_any_shape, 0, 1, samples=2_000, attack=ATTACKS[name], source=TestSource(1))
    assert result.epsilon_lower > 0.5


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_describes_itself(name: str) -> None:
    attack = ATTACKS[name]
    result = audit_mechanism(laplace(1.0), 0.0, 1.0, samples=300, attack=attack, source=TestSource(1))
    assert (result.method, result.threshold_rule) == (attack.title, attack.rule)
    assert "event" in result.details
