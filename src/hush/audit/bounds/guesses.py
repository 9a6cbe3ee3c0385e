"""Guesses about the canaries of one run: how many to make, and how many are correct.

An "in" guess says that a canary was included, an "out" guess that it was left out. The highest scores get the in
guesses, the lowest scores the out guesses, and the rest are abstained from. `one_run.py` turns the counts into a bound.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import bdtr

from hush.audit.bounds.sample import Floats, Sample
from hush.errors import InvalidArgument, check_count

_SPACING = 1.25  # ratio of consecutive numbers of guesses: the share of correct ones changes slowly between them
_UNFAIR = 1e-6  # coins that fall less evenly than this probability are refused


def check_guesses(in_guesses: int | None, out_guesses: int) -> None:
    """Refuse numbers of guesses that do not define a test."""
    check_count("num_out_guesses", out_guesses, minimum=0)
    if in_guesses is None:
        if out_guesses:
            raise InvalidArgument("num_out_guesses", out_guesses, "0 without num_guesses", "Fix both, or neither")
        return
    check_count("num_guesses", in_guesses, minimum=0 if out_guesses else 1)


def check_coins(num_in: int, num_out: int) -> None:
    """Refuse a split into members and non-members that fair coins do not produce.

    With unfair coins, always guessing the likelier side would be correct too often, whatever the mechanism does.
    """
    total = num_in + num_out
    # Two-sided binomial test of probability 1/2.
    tail = 2 * float(bdtr(min(num_in, num_out), total, 0.5))
    if not tail >= _UNFAIR:
        raise InvalidArgument(
            "included",
            f"{num_in} of {total} canaries",
            "about half of them, as fair coins would include",
            f"Fair coins fall this unevenly with probability below {_UNFAIR:g}",
            "One-run bounds assume a fair coin for each canary: toss one, as label_canaries does",
        )


def numbers_of_guesses(num_canaries: int, error: float) -> list[int]:
    """Return the numbers of guesses to try, which depend on no score.

    The first is log2(1 / error): with fewer guesses, even an all-correct result is luck with probability above
    ``error``. After that, each is larger than the previous one by a fixed factor.
    """
    rungs = [min(math.ceil(-math.log2(error)), num_canaries)]
    while rungs[-1] < num_canaries:
        rungs.append(min(math.ceil(rungs[-1] * _SPACING), num_canaries))
    return rungs


def count_correct(sample: Sample, in_guesses: int, out_guesses: int) -> int:
    """Return how many guesses are correct, with ties at the last guess broken in the worst way.

    Any tie-break that does not look at the coins has at least as many correct guesses, so the bound holds for it.
    """
    correct, ranked = 0, sample.ranked
    if in_guesses:
        last = ranked[-in_guesses]
        # Guesses strictly above the last one are all made; the remaining guesses fall among its ties.
        members_above = sample.num_in - np.searchsorted(sample.sorted_in, last, side="right")
        tied_guesses = in_guesses - (ranked.size - np.searchsorted(ranked, last, side="right"))
        # Worst case: the tied guesses fall on tied non-members first.
        correct += int(members_above) + max(0, int(tied_guesses) - _count_equal(sample.sorted_out, last))
    if out_guesses:
        last = ranked[out_guesses - 1]
        others_below = int(np.searchsorted(sample.sorted_out, last, side="left"))
        tied_guesses = out_guesses - np.searchsorted(ranked, last, side="left")
        correct += others_below + max(0, int(tied_guesses) - _count_equal(sample.sorted_in, last))
    return correct


def _count_equal(ordered: Floats, value: float) -> int:
    return int(np.searchsorted(ordered, value, side="right") - np.searchsorted(ordered, value, side="left"))
