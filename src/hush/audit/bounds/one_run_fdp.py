"""One run against a whole trade-off curve: the recursion of Mahloujifar, Melis & Chaudhuri (2024).

`one_run.py` tests one (epsilon, delta) at a time. This file tests a full Gaussian trade-off curve, i.e. all pairs of
epsilon and delta that noise of one scale has, which gives about twice the bound if the mechanism is Gaussian.
"""

from __future__ import annotations

import math

from scipy.special.cython_special import ndtri

from hush.errors import InvalidArgument, check_count

_PRECISION = 1e-9
_ROOT_HALF = math.sqrt(0.5)
_LARGEST_MU = 64.0  # beyond this, the error rates underflow


def one_run_fdp_mu(num_canaries: int, num_guesses: int, num_correct: int, *, significance: float) -> float:
    """Return the largest mu whose Gaussian trade-off curve this many correct guesses contradict.

    >>> round(one_run_fdp_mu(1000, 100, 95, significance=0.05), 3) > 0
    True

    Args:
        num_canaries: The number of canaries, each included by a fair coin.
        num_guesses: The number of guesses, fixed beforehand.
        num_correct: The number of correct guesses.
        significance: The probability with which the bound may fail.

    Returns:
        A lower bound on mu, rounded down; 0 if no mu is contradicted.

    References:
        Mahloujifar, Melis & Chaudhuri 2024, Algorithm 3 (audit_rh_with_cap), for two choices per canary.
    """
    size, guesses = check_count("num_canaries", num_canaries), check_count("num_guesses", num_guesses, minimum=0)
    correct = check_count("num_correct", num_correct, minimum=0)
    if not correct <= guesses <= size:
        raise InvalidArgument("num_correct", num_correct, "num_correct <= num_guesses <= num_canaries")
    if not 0 < significance < 1:
        raise InvalidArgument("significance", significance, "a number in (0, 1)")
    # Bisection; low is always contradicted, so it never exceeds the answer.
    low, high = 0.0, 1.0
    if correct == 0 or not contradicts(size, guesses, correct, significance, low):
        return 0.0
    while high < _LARGEST_MU and contradicts(size, guesses, correct, significance, high):
        low, high = high, 2 * high
    while high - low > _PRECISION * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if contradicts(size, guesses, correct, significance, middle) else (low, middle)
    return low


def contradicts(num_canaries: int, num_guesses: int, num_correct: int, significance: float, mu: float) -> bool:
    """Whether ``num_correct`` correct guesses contradict a Gaussian trade-off curve with parameter ``mu``.

    Suppose that ``num_correct`` or more guesses are correct with probability ``significance``. Going down from there,
    r and h bound from below the probability mass of correct and of wrong guesses, counted per canary, over outcomes
    with at least i correct guesses. Their sum cannot exceed the share of canaries guessed. If it does, mu is refuted.
    """
    guessed_share = num_guesses / num_canaries
    r = significance * num_correct / num_canaries
    h = significance * (num_guesses - num_correct) / num_canaries
    for i in range(num_correct - 1, -1, -1):
        if r + h > guessed_share:
            return True
        # The trade-off curve forces h up to Phi(Phi^-1(r) - mu). erfc keeps the digits of a small tail.
        h_next = 0.5 * math.erfc((mu - ndtri(r)) * _ROOT_HALF)
        if not h_next > h:
            return False  # neither r nor h moves again
        r = min(r + i / (num_guesses - i) * (h_next - h), 1.0)
        h = h_next
    return r + h > guessed_share
