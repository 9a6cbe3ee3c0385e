"""Exact decisions, compared with mpmath at 60 and more digits."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.randomness import ExactInterval, TestSource, exp_interval
from hush.randomness.exact_samplers import _Form, _NoiseLaw, _Sampler
from hush.randomness.resolution import Uniform, below_exp, floor_exponential, log_interval
from randomness.scripted import ScriptedSource

FULL = (1 << 64) - 1
WORDS = st.one_of(st.integers(0, FULL), st.integers(0, 100), st.integers(FULL - 100, FULL))
FRACTIONS = st.fractions(min_value=0, max_value=60, max_denominator=10**12)


def high_precision(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def floors(interval: ExactInterval, scale: Fraction) -> set[int]:
    """Return floor(-scale ln u) at both ends of an interval: one number, if all of it has the same."""
    with mpmath.workdps(100):
        near = [end for end in interval if end > 0]
        return {int(mpmath.floor(-high_precision(scale) * mpmath.log(high_precision(end)))) for end in near}


@given(WORDS, st.sampled_from([0, 1, 3, 8, 64]), st.floats(1e-3, 1e6))
def test_floor_exponential(word: int, num_bits: int, scale: float) -> None:
    # With few known bits it draws more. In the end, every U that agrees with the bits has the same floor.
    uniform = Uniform(TestSource(word), word >> (64 - num_bits), num_bits)
    result = floor_exponential(uniform, Fraction(scale))
    allowed = floors(uniform.interval(), Fraction(scale))
    assert allowed <= {result, result + 1}  # + 1: the lower end itself, of an interval that ends right there
    assert result in allowed
    assert uniform.bits >> (uniform.num_bits - num_bits) == word >> (64 - num_bits)


@given(WORDS, st.sampled_from([0, 1, 3, 8, 64]), FRACTIONS)
def test_below_exp(word: int, num_bits: int, exponent: Fraction) -> None:
    uniform = Uniform(TestSource(word), word >> (64 - num_bits), num_bits)
    result = below_exp(uniform, lambda: (exponent, exponent))
    low, high = uniform.interval()
    with mpmath.workdps(100):
        limit = mpmath.exp(-high_precision(exponent))
        assert high_precision(high) <= limit if result else high_precision(low) >= limit


@given(WORDS, st.floats(0.0, 20.0))
def test_below_exp_of_an_exponent_that_is_refined_too(word: int, start: float) -> None:
    # The exponent lies in an interval that shrinks with each step. The answer holds for everything left in it.
    state = [Fraction(start), Fraction(start) + 1]

    def refine() -> None:
        state[1] = state[0] + (state[1] - state[0]) / 2**20

    uniform = Uniform(TestSource(word), word, 64)
    result = below_exp(uniform, lambda: (state[0], state[1]), refine)
    low, high = uniform.interval()
    with mpmath.workdps(100):
        largest, smallest = (mpmath.exp(-high_precision(end)) for end in state)
        assert high_precision(high) <= smallest if result else high_precision(low) >= largest


@given(st.fractions(min_value=Fraction(1, 10**30), max_value=10**6, max_denominator=10**30), st.integers(20, 60))
def test_enclosures(x: Fraction, digits: int) -> None:
    with mpmath.workdps(100):
        low, high = log_interval((x, x), digits)
        assert high_precision(low) < mpmath.log(high_precision(x)) < high_precision(high)
        assert high - low <= Fraction(30, 10**digits) * (1 + abs(low))
        small = -x % (4 * digits)
        low, high = exp_interval((-small, -small), digits)
        assert high_precision(low) <= mpmath.exp(-high_precision(small)) <= high_precision(high)
        assert 0 < high - low <= Fraction(30, 10**digits) * (1 + small) * high


@pytest.mark.parametrize("scale", [0.3, 2.0, 3.0, 16.0, 29.7, 1e6, 2.0**50])
def test_words_next_to_a_step(scale: float) -> None:
    """The fast path on words where -scale ln u is next to an integer, and on the first and the last ones."""
    sampler = _Sampler(TestSource("steps"), scale, _NoiseLaw.LAPLACE, _Form.FLOORED)
    steps = Fraction(sampler._steps)
    with mpmath.workdps(60):
        inner = [int(mpmath.exp(-j / high_precision(steps)) * 2**64) for j in range(1, 200)]
    words = sorted({word + shift for word in [*inner, 1, FULL - 1] for shift in (-1, 0, 1) if word + shift >= 0})
    vector = sampler._multiples(np.array(words, dtype=np.uint64)).tolist()
    for word, result in zip(words, vector, strict=True):
        allowed = floors((Fraction(word, 1 << 64), Fraction(word + 1, 1 << 64)), steps)
        assert min(allowed) <= result
        assert word == 0 or result <= max(allowed)
    # The scalar path, too: accepted at once, without a sign, as the second and third words are 0.
    for word in words[:: max(len(words) // 60, 1)]:
        scripted = _Sampler(ScriptedSource([word, 0, 0]), scale, _NoiseLaw.LAPLACE, _Form.FLOORED)
        multiple = int(scripted.draw(1)[0]) >> scripted._low_bits
        allowed = floors((Fraction(word, 1 << 64), Fraction(word + 1, 1 << 64)), steps)
        assert min(allowed) <= multiple
        assert word == 0 or multiple <= max(allowed)


@pytest.mark.parametrize("size", [1, 9])
@pytest.mark.parametrize("scale", [40.0, 1e6, 2.0**45])
def test_acceptance_next_to_the_limit(scale: float, size: int) -> None:
    """A word that is right below, or above, e^-g decides; on the limit itself the bits that follow do."""
    low_bits = _Sampler(TestSource(1), scale, _NoiseLaw.LAPLACE, _Form.FLOORED)._low_bits
    rest = (1 << low_bits) - 1  # the largest remainder, the least probable one
    second = rest << (64 - low_bits)
    with mpmath.workdps(60):
        limit = int(mpmath.exp(-rest / mpmath.mpf(scale)) * 2**64)
        fraction = int((mpmath.exp(-rest / mpmath.mpf(scale)) * 2**64 - limit) * 2**64)
    first = int(2**64 * math.exp(-0.5 * 2**low_bits / scale))  # the multiple 0
    for third, then, accepted in [
        (limit - 1, 0, True),
        (limit + 1, 0, False),
        (limit, fraction - 1, True),
        (limit, fraction + 1, False),
    ]:
        if size == 1:
            source = ScriptedSource([first, second, third, then])
            sample = _Sampler(source, scale, _NoiseLaw.LAPLACE, _Form.FLOORED).draw(1)
            # A rejected proposal is followed by another one, of words that are not in the script.
            assert accepted == (source.improvised <= 1)
            assert sample[0] == rest or not accepted
        else:
            others = size * 3 // 2 + 7  # accepted all: their remainder is 0
            script = [first] * (others + 1) + [second] + [0] * others + [third] + [0] * others + [then]
            sample = _Sampler(ScriptedSource(script), scale, _NoiseLaw.LAPLACE, _Form.FLOORED).draw(size)
            assert sample.tolist() == ([rest] if accepted else [0]) + [0] * (size - 1)
