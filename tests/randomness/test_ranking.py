"""Rankings: the distributions of the exponential mechanism and of noisy max, for scores of any size, and exact ties."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from hush.randomness import Key, Noise, RandomSource, TestSource, gap, rank
from hush.randomness.ranking import compare
from randomness.scripted import ScriptedSource

TINY = 1e-9  # the false-alarm rate of each comparison; of 60 draws among three, exactly 1.02e-9
ROUNDS = 2_500


def ranked(source: RandomSource, noise: Noise, deficits: list[float], count: int) -> list[Key]:
    return rank(source, noise, -np.array(deficits), 1.0, count)


def best(noise: Noise, deficits: list[float], rounds: int = ROUNDS) -> np.ndarray:
    """Return how often each candidate came first."""
    source = TestSource(f"best {deficits}")
    return np.bincount([ranked(source, noise, deficits, 1)[0].index for _ in range(rounds)], minlength=len(deficits))


@pytest.mark.parametrize(
    "deficits", [[0.0, 0.0, 0.0], [0.0, 1.0, 0.3], [2.0, 0.0], [0.0, 0.0, 3.0, 1e300], [0.0, 1.7e308], [0.0]]
)
@pytest.mark.quick_cases(2)
def test_gumbel_keys_give_the_exponential_mechanism(deficits: list[float]) -> None:
    source, weights = TestSource(str(deficits)), np.exp(-np.array(deficits))
    winners = [ranked(source, Noise.GUMBEL, deficits, 1)[0].index for _ in range(ROUNDS)]
    counts, possible = np.bincount(winners, minlength=len(deficits)), weights > 0
    assert not counts[~possible].any()
    assert (
        possible.sum() == 1 or chisquare(counts[possible], ROUNDS * (weights / weights.sum())[possible]).pvalue > TINY
    )


def test_the_order_follows_plackett_and_luce() -> None:
    # Gumbel keys, in order, are the exponential mechanism applied repeatedly to the remaining candidates.
    deficits, source = [0.0, 0.5, 1.5], TestSource("order")
    weights = np.exp(-np.array(deficits))
    orders = [tuple(key.index for key in ranked(source, Noise.GUMBEL, deficits, 3)) for _ in range(ROUNDS)]
    expected = {
        (i, j, 3 - i - j): weights[i] / weights.sum() * weights[j] / (weights.sum() - weights[i])
        for i in range(3)
        for j in range(3)
        if i != j
    }
    observed = [orders.count(order) for order in expected]
    assert chisquare(observed, [ROUNDS * share for share in expected.values()]).pvalue > TINY


@pytest.mark.parametrize("deficit", [0.0, 0.7, 3.0])
def test_laplace_keys_give_noisy_max(deficit: float) -> None:
    # P(X - X' > d) = e^-d (2 + d) / 4 for two Laplace variables.
    loses = math.exp(-deficit) * (2 + deficit) / 4
    assert chisquare(best(Noise.LAPLACE, [0.0, deficit]), [ROUNDS * (1 - loses), ROUNDS * loses]).pvalue > TINY


@pytest.mark.parametrize("noise", list(Noise))
def test_equal_candidates_are_chosen_equally(noise: Noise) -> None:
    assert chisquare(best(noise, [0.0] * 5)).pvalue > TINY
    # At deficits of 1e300 floating point cannot see the noise, so every comparison is exact.
    assert chisquare(best(noise, [1e300] * 3, 200)).pvalue > TINY


@pytest.mark.parametrize("noise", list(Noise))
def test_huge_deficits(noise: Noise) -> None:
    deficits = [1e300, 0.0, 1e9, 1e308]
    for seed in range(50):
        keys = ranked(TestSource(seed), noise, deficits, 4)
        assert [key.index for key in keys] == [1, 2, 0, 3]


@pytest.mark.parametrize("noise", list(Noise))
@pytest.mark.parametrize("count", [1, 2, 7, 8, 100])
def test_the_number_of_keys(noise: Noise, count: int) -> None:
    deficits = [0.0, 0.1, 0.2, 0.0, 5.0, 0.3, 0.0]
    for seed in range(30):
        keys = ranked(TestSource(seed), noise, deficits, count)
        indices = [key.index for key in keys]
        assert len(set(indices)) == len(indices) == min(count, 7)
        everything = [key.index for key in ranked(TestSource(seed), noise, deficits, 7)]
        assert indices == everything[:count]


@pytest.mark.parametrize("noise", list(Noise))
@pytest.mark.parametrize("word", [0, 1, 2, 2**63, 2**64 - 2, 2**64 - 1, 0x0123456789ABCDEF])
@pytest.mark.quick_cases(5)
def test_ties_of_all_known_bits_are_broken_by_fair_further_ones(noise: Noise, word: int) -> None:
    wins = np.zeros(3, dtype=int)
    for seed in range(60):
        keys = ranked(ScriptedSource([word] * 3, seed), noise, [0.0] * 3, 3)
        assert all(compare(better, worse) == -1 for better, worse in pairwise(keys))
        wins[keys[0].index] += 1
    assert chisquare(wins).pvalue > TINY


@pytest.mark.parametrize("noise", list(Noise))
def test_extreme_words_next_to_ordinary_ones(noise: Noise) -> None:
    # The word 0 is the smallest uniform: the largest key, or for Laplace noise the largest of a positive sign.
    for seed in range(20):
        ordinary = TestSource(seed).words(4).tolist()
        keys = ranked(ScriptedSource([*ordinary[:2], 0, *ordinary[2:]], seed), noise, [0.0] * 5, 5)
        assert keys[0].index == 2
        last = 2**64 - 1 if noise is Noise.GUMBEL else 1
        keys = ranked(ScriptedSource([*ordinary[:2], last, *ordinary[2:]], seed), noise, [0.0] * 5, 5)
        assert keys[-1].index == 2


@pytest.mark.parametrize("noise", list(Noise))
def test_keys_enclose_their_value(noise: Noise) -> None:
    deficits = [0.0, 0.25, 1e300, 7.0]
    for seed in range(40):
        for key in ranked(TestSource(seed), noise, deficits, 4):
            low, high = (end - Fraction(1e300) for end in key.interval())  # they are relative to the last of the four
            with mpmath.workdps(400):
                for u in key.uniform.interval():
                    u = mpmath.mpf(u.numerator) / u.denominator
                    value = -mpmath.log(-mpmath.log(1 - u)) if noise is Noise.GUMBEL else -mpmath.log(u)
                    value = (-value if noise is Noise.LAPLACE and key.negative else value) - deficits[key.index]
                    assert mpmath.mpf(low.numerator) / low.denominator <= value
                    assert value <= mpmath.mpf(high.numerator) / high.denominator


@pytest.mark.parametrize("noise", list(Noise))
def test_the_gap_has_the_right_distribution(noise: Noise) -> None:
    # |G - G'| of Gumbel variables is logistic, |X - X'| of Laplace variables has the tail e^-x (1 + x / 2).
    source, scale = TestSource(f"gap {noise}"), 2**30

    def tail(x: np.ndarray) -> np.ndarray:
        return 2 / (1 + np.exp(x)) if noise is Noise.GUMBEL else np.exp(-x) * (1 + x / 2)

    gaps = [gap(*ranked(source, noise, [0.0, 0.0], 2), Fraction(scale)) for _ in range(600)]
    assert min(gaps) >= 0
    assert kstest(np.array(gaps) / scale, lambda x: 1 - tail(x)).pvalue > TINY


def test_the_gap_is_a_floor_and_grows_with_the_deficit() -> None:
    for seed in range(40):
        first, second = ranked(TestSource(seed), Noise.LAPLACE, [0.0, 1e6], 2)
        coarse, fine = gap(first, second, Fraction(1)), gap(first, second, Fraction(2**70))
        assert coarse == fine >> 70
        assert abs(coarse - 10**6) < 100
