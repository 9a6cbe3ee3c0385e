"""Which canaries are guessed, and how many guesses are right."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import bdtr

from hush.audit.bounds.sample import Floats, Sample
from hush.errors import InvalidArgument, check_count

_SPACING = 1.25  # between numbers of guesses that are tried: precision changes slowly, and fewer cost less

_UNFAIR = 1e-6  # coins less likely than this are no fair ones


def check_guesses(accused: int | None, cleared: int) -> None:
    """Refuse numbers of guesses that make no test."""
    check_count("num_out_guesses", cleared, minimum=0)
    if accused is None:
        if cleared:
            raise InvalidArgument("num_out_guesses", cleared, "0 without num_guesses", "Fix both, or neither")
        return
    check_count("num_guesses", accused, minimum=0 if cleared else 1)


def check_coins(num_in: int, num_out: int) -> None:
    """Refuse numbers of members and others that fair coins do not give: the bound would be of the coins."""
    total = num_in + num_out
    chance = 2 * float(bdtr(min(num_in, num_out), total, 0.5))
    if not chance >= _UNFAIR:
        raise InvalidArgument(
            "included",
            f"{num_in} of {total} canaries",
            "about half of them, as by a fair coin for each",
            f"Fair coins fall so unevenly with a probability below {_UNFAIR:g}",
            "One-run bounds assume them: throw one for each canary, as label_canaries does",
        )


def numbers_of_guesses(size: int, error: float) -> list[int]:
    """Return the numbers of guesses that are tried: those that could show something if all were right."""
    rungs = [min(math.ceil(-math.log2(error)), size)]
    while rungs[-1] < size:
        rungs.append(min(math.ceil(rungs[-1] * _SPACING), size))
    return rungs


def right_guesses(sample: Sample, accused: int, cleared: int) -> int:
    """Return how many guesses are right; whoever ties with the last one is chosen as badly as can be.

    Any choice among ties that does not look at the coins has at least as many right, so the bound holds for it.
    """
    right, ranked = 0, sample.ranked
    if accused:
        last = ranked[-accused]
        above = sample.num_in - np.searchsorted(sample.sorted_in, last, side="right")
        tied = accused - (ranked.size - np.searchsorted(ranked, last, side="right"))
        wrong = _equal(sample.sorted_out, last)
        right += int(above) + max(0, int(tied) - wrong)
    if cleared:
        last = ranked[cleared - 1]
        below = int(np.searchsorted(sample.sorted_out, last, side="left"))
        tied = cleared - np.searchsorted(ranked, last, side="left")
        right += below + max(0, int(tied) - _equal(sample.sorted_in, last))
    return right


def _equal(ordered: Floats, value: float) -> int:
    return int(np.searchsorted(ordered, value, side="right") - np.searchsorted(ordered, value, side="left"))
