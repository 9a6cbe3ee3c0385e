"""Exact choices: coins at their exact limits, unbiased uniform integers, Cauchy noise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import binom, chisquare

from hush.errors import InvalidArgument
from hush.randomness import TestSource, bernoulli, flip, flip_exp, floored_cauchy, uniform_below
from randomness.scripted import ScriptedSource

FULL = (1 << 64) - 1
TINY = 1e-9  # the false-alarm rate of each comparison, on either side; a test makes six at most


def plausible(hits: int, trials: int, probability: float) -> bool:
    return bool(binom.ppf(TINY, trials, probability) <= hits <= binom.isf(TINY, trials, probability))


@pytest.mark.parametrize("probability", [0.1, 0.3, 1 / 3, 0.75, 1e-5, 2.0**-70, 1 - 2.0**-53])
def test_a_coin_at_its_limit_is_decided_by_further_bits(probability: float) -> None:
    exact = Fraction(probability) * 2**64
    word, rest = int(exact), exact - int(exact)
    assert bernoulli(ScriptedSource([max(word - 1, 0)]), probability, 1)[0] or word == 0
    assert not bernoulli(ScriptedSource([word + 1]), probability, 1)[0] or word + 1 < exact
    if rest:
        following = int(rest * 2**64)
        assert bernoulli(ScriptedSource([word, max(following - 1, 0)]), probability, 1)[0] or following == 0
        assert not bernoulli(ScriptedSource([word, min(following + 1, FULL)]), probability, 1)[0]
    else:
        assert not bernoulli(ScriptedSource([word]), probability, 1)[0]


def test_coins_that_cannot_fall_otherwise() -> None:
    for word in (0, 1, FULL - 1, FULL):
        assert bernoulli(ScriptedSource([word]), 1.0, 1)[0]
        assert bernoulli(ScriptedSource([word]), 1, 1)[0]
        assert not bernoulli(ScriptedSource([word]), 0.0, 1)[0]
        assert flip_exp(ScriptedSource([word]), np.zeros(1), lambda index: Fraction(0))[0]
        assert not flip_exp(ScriptedSource([word]), np.array([1e3]), lambda index: Fraction(1000))[0]
    assert bernoulli(TestSource(1), 0.5, 0).shape == (0,)


@pytest.mark.parametrize("exponent", [Fraction(1, 7), Fraction(1), Fraction(20), Fraction(1, 10**15)])
def test_flip_exp_at_its_limit(exponent: Fraction) -> None:
    with mpmath.workdps(60):
        scaled = mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator) * 2**64
        word = int(scaled)
        following = int((scaled - word) * 2**64)

    def coin(*script: int) -> bool:
        return bool(flip_exp(ScriptedSource(script), np.array([float(exponent)]), lambda index: exponent)[0])

    assert coin(word - 1)
    assert not coin(min(word + 1, FULL)) or word == FULL
    assert coin(word, following - 1)
    assert not coin(word, following + 1)


def test_the_exact_probability_counts_and_not_the_approximate_one() -> None:
    # An approximation that is off by less than is allowed changes no outcome.
    words = TestSource("words").words(200).tolist()
    third = Fraction(1, 3)
    for error in (-9e-14, 0.0, 9e-14):
        outcomes = flip(ScriptedSource(words), np.full(200, 1 / 3 + error), lambda index, digits: (third, third))
        assert outcomes.tolist() == [word < third * 2**64 for word in words]
    # Nor does one that is no number at all.
    unknown = flip(ScriptedSource(words), np.full(200, math.nan), lambda index, digits: (third, third))
    assert unknown.tolist() == outcomes.tolist()


@pytest.mark.parametrize("probability", [0.01, 0.3, 0.5, 0.999])
def test_coins_have_their_probability(probability: float) -> None:
    assert plausible(int(bernoulli(TestSource("coins"), probability, 200_000).sum()), 200_000, probability)
    exponent = -math.log(probability)
    outcomes = flip_exp(TestSource("exp"), np.full(200_000, exponent), lambda index: Fraction(exponent))
    assert plausible(int(outcomes.sum()), 200_000, probability)


def test_coins_of_several_probabilities_keep_their_order() -> None:
    probabilities = np.array([0.0, 1.0, 0.25] * 40_000)
    outcomes = flip(TestSource(1), probabilities, lambda i, digits: (Fraction(probabilities[i]),) * 2).reshape(-1, 3)
    assert outcomes.any(axis=0).tolist() == [False, True, True]
    assert outcomes.all(axis=0).tolist() == [False, True, False]
    assert plausible(int(outcomes[:, 2].sum()), 40_000, 0.25)


@pytest.mark.parametrize("probability", [-0.1, 1.1, math.nan, math.inf, True, "0.5", None])
def test_what_is_no_probability_is_refused(probability: Any) -> None:
    with pytest.raises(InvalidArgument, match="^probability="):
        bernoulli(TestSource(1), probability, 3)


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 1000, 2**31 + 1, 3 * 2**61, 2**63 - 1, 2**63])
def test_uniform_integers(bound: int) -> None:
    values = uniform_below(TestSource(bound), bound, 60_000)
    assert values.dtype == np.int64
    assert 0 <= values.min() <= values.max() < bound
    width = -(-bound // 10)
    counts = np.bincount(values // width)
    shares = [(min((i + 1) * width, bound) - i * width) / bound for i in range(-(-bound // width))]
    assert len(shares) == 1 or chisquare(counts, 60_000 * np.array(shares)).pvalue > TINY


@pytest.mark.parametrize("bound", [3, 10, 3 * 2**61, 2**63 - 1])
def test_words_that_would_favour_small_integers_are_drawn_again(bound: int) -> None:
    last = (1 << 64) - (1 << 64) % bound - 1
    assert uniform_below(ScriptedSource([last]), bound, 1).tolist() == [bound - 1]
    assert uniform_below(ScriptedSource([last + 1, 5]), bound, 1).tolist() == [5 % bound]
    assert uniform_below(ScriptedSource([FULL, last + 1, 2]), bound, 1).tolist() == [2]


@pytest.mark.parametrize("bound", [0, -1, 1.0, True, None, 2**63 + 1, math.nan])
def test_what_is_no_bound_is_refused(bound: Any) -> None:
    with pytest.raises(InvalidArgument, match="^bound="):
        uniform_below(TestSource(1), bound, 3)
    with pytest.raises(InvalidArgument, match="^size="):
        uniform_below(TestSource(1), 3, -1)


def test_cauchy_noise() -> None:
    source = TestSource("cauchy")
    assert floored_cauchy(source, Fraction(0)) == 0
    for scale in (Fraction(1, 10**9), Fraction(3, 7), Fraction(2**60)):
        sample = [floored_cauchy(source, scale) for _ in range(1_000)]
        assert all(type(value) is int for value in sample)
        assert plausible(sum(value < 0 for value in sample), 1_000, 0.5)
        assert plausible(sum(-scale <= value < scale for value in sample), 1_000, 0.5) or scale < 1
