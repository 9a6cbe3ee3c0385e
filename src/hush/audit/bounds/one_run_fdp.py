"""One run against a whole trade-off curve: the recursion of Mahloujifar, Melis & Chaudhuri (2024)."""

from __future__ import annotations

import math

from scipy.special.cython_special import ndtri

from hush.errors import InvalidArgument, check_count

_PRECISION = 1e-9
_ROOT_HALF = math.sqrt(0.5)
_LARGEST = 64.0  # nobody tells Gaussians apart that are this close and no closer: rates underflow


def one_run_fdp_mu(num_canaries: int, num_guesses: int, num_correct: int, *, significance: float) -> float:
    """Return the largest mu whose Gaussian trade-off curve so many right guesses contradict.

    >>> round(one_run_fdp_mu(1000, 100, 95, significance=0.05), 3) > 0
    True

    Args:
        num_canaries: m, each included by a fair coin.
        num_guesses: Of them, fixed beforehand.
        num_correct: How many were right.
        significance: With which probability the bound may fail.

    Returns:
        The bound, from below; 0 if nothing is contradicted.

    References:
        Mahloujifar, Melis & Chaudhuri 2024, Algorithm 3 (audit_rh_with_cap), for two choices per canary.
    """
    size, guesses = check_count("num_canaries", num_canaries), check_count("num_guesses", num_guesses, minimum=0)
    right = check_count("num_correct", num_correct, minimum=0)
    if not right <= guesses <= size:
        raise InvalidArgument("num_correct", num_correct, "at most as many as guesses, and these at most as canaries")
    if not 0 < significance < 1:
        raise InvalidArgument("significance", significance, "a number in (0, 1)")
    low, high = 0.0, 1.0
    if right == 0 or not rejected(size, guesses, right, significance, low):
        return 0.0
    while high < _LARGEST and rejected(size, guesses, right, significance, high):
        low, high = high, 2 * high
    while high - low > _PRECISION * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rejected(size, guesses, right, significance, middle) else (low, middle)
    return low


def rejected(size: int, guesses: int, right: int, significance: float, mu: float) -> bool:
    """Whether mu is contradicted.

    ``r`` and ``h`` bound, from below, how much of the chance of i guesses right lies in those that were right and in
    those that were not, if ``right`` or more had a chance of ``significance``; more than there is cannot be.
    """
    most = guesses / size
    r, h = significance * right / size, significance * (guesses - right) / size
    for i in range(right - 1, -1, -1):
        if r + h > most:
            return True
        # Phi(Phi^-1(r) - mu), the inverse of the curve's blow-up; erfc keeps the digits of a small tail.
        least = 0.5 * math.erfc((mu - ndtri(r)) * _ROOT_HALF)
        if not least > h:
            return False  # neither moves again
        r = min(r + i / (guesses - i) * (least - h), 1.0)
        h = least
    return r + h > most
