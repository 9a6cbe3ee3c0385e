"""Reconstruction: what too many answers that are too accurate give away.

- `reconstruct_by_linear_program` and `reconstruct_by_least_squares` find a secret bit per record from noisy sums over
  subsets (Dinur & Nissim 2003); `subset_queries` draws the subsets, `linear_answers` asks them.
- `difference_attack` finds bits from pairs of sums that differ in one record, against any interface that answers sums.

They bound no epsilon: they show that an interface fails, and a `Reconstruction` says how badly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack, vstack

from hush.errors import HushError, InvalidArgument, check_count

__all__ = [
    "Reconstruction",
    "difference_attack",
    "linear_answers",
    "reconstruct_by_least_squares",
    "reconstruct_by_linear_program",
    "subset_queries",
]

Bits = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reconstruction:
    """What an attacker believes of every record.

    Attributes:
        estimates: A number per record, or target; 1 speaks for the secret bit, 0 against it.
        method: How it was found.
    """

    estimates: Floats
    method: str

    @property
    def bits(self) -> Bits:
        """The estimates, rounded at one half."""
        return np.asarray(self.estimates > 0.5)

    def fraction_correct(self, secret: ArrayLike) -> float:
        """Return how many of the bits are right; one half is what guessing finds among even bits."""
        truth = np.asarray(secret, dtype=np.bool_)
        if truth.shape != self.estimates.shape:
            raise InvalidArgument("secret", f"shape {truth.shape}", f"shape {self.estimates.shape}: one bit per record")
        return float(np.mean(self.bits == truth))


def subset_queries(num_records: int, num_queries: int, generator: np.random.Generator) -> Floats:
    """Return random subsets as rows of 0 and 1: every record is in each of them with probability one half."""
    check_count("num_records", num_records)
    check_count("num_queries", num_queries)
    return (generator.random((num_queries, num_records)) < 0.5).astype(np.float64)  # products of booleans are no sums


def linear_answers(queries: ArrayLike, ask: Callable[[Bits], float]) -> Floats:
    """Return an interface's answers to subsets, asked one by one."""
    return np.array([ask(subset) for subset in np.asarray(queries, dtype=np.bool_)], dtype=np.float64)


def reconstruct_by_linear_program(queries: ArrayLike, answers: ArrayLike) -> Reconstruction:
    """Find the bits whose sums are closest to the answers, in total absolute error.

    min sum_j e_j such that |(A x - a)_j| <= e_j and 0 <= x <= 1, then rounded at one half. If answers to O(n) random
    subsets of n records are off by o(sqrt n), all but o(n) bits are found.

    >>> generator = np.random.default_rng(1)
    >>> secret = generator.random(40) < 0.5
    >>> queries = subset_queries(40, 160, generator)
    >>> answers = queries @ secret + generator.normal(scale=0.5, size=160)
    >>> reconstruct_by_linear_program(queries, answers).fraction_correct(secret)
    1.0

    References:
        Dinur & Nissim (2003); Dwork, McSherry & Talwar (2007): absolute errors, which stand a fraction of
        answers that are arbitrarily wrong. Solved by HiGHS.

    Args:
        queries: Subsets as rows of 0 and 1, one column per record.
        answers: A number for each.
    """
    subsets, values = _checked(queries, answers)
    num_queries, num_records = subsets.shape
    matrix, slack = csr_array(subsets), eye_array(num_queries, format="csr")
    solved = linprog(
        np.concatenate([np.zeros(num_records), np.ones(num_queries)]),
        A_ub=vstack([hstack([matrix, -slack]), hstack([-matrix, -slack])], format="csr"),
        b_ub=np.concatenate([values, -values]),
        bounds=[(0.0, 1.0)] * num_records + [(0.0, None)] * num_queries,
        method="highs",
    )
    if solved.x is None:  # the program is always feasible and bounded: only the solver itself can fail
        raise HushError(f"linear program: the solver gave up ({solved.message})")
    return Reconstruction(estimates=np.asarray(solved.x[:num_records]), method="linear program")


def reconstruct_by_least_squares(queries: ArrayLike, answers: ArrayLike) -> Reconstruction:
    """Find the numbers whose sums are closest to the answers in squares, and round them: faster, a little weaker.

    References:
        Dwork & Yekhanin (2008); Kasiviswanathan, Rudelson & Smith (2013): the attack by least squares.

    Args:
        queries: Subsets as rows of 0 and 1, one column per record.
        answers: A number for each.
    """
    subsets, values = _checked(queries, answers)
    estimates = np.linalg.lstsq(subsets, values, rcond=None)[0]
    return Reconstruction(estimates=np.asarray(estimates), method="least squares")


def difference_attack(
    ask: Callable[[Bits], float], num_records: int, *, targets: Sequence[int] | None = None, num_repeats: int = 1
) -> Reconstruction:
    """Find a record's bit from the sum over all records, less the sum over all others.

    Neither question is about few people, so that a smallest number of records per answer is no defence (the "tracker"
    of Denning, Denning & Schwartz 1979). Noise that is fresh for each question is averaged away by repetition: what
    helps is a budget that repetition spends, and `hush.table` states it as the guarantee of each answer.

    >>> secret = np.array([True, False, True])
    >>> difference_attack(lambda subset: float(secret[subset].sum()), 3).fraction_correct(secret)
    1.0

    Args:
        ask: From a subset to the noisy sum over it.
        num_records: How many records there are.
        targets: Whose bits are wanted; everybody's by default.
        num_repeats: How often each question is asked.
    """
    everybody = np.ones(check_count("num_records", num_records), dtype=np.bool_)
    check_count("num_repeats", num_repeats)

    def mean(subset: Bits) -> float:
        return float(np.mean([ask(subset) for _ in range(num_repeats)]))

    total = mean(everybody)
    wanted = range(num_records) if targets is None else targets
    others = [mean(np.arange(num_records) != record) for record in wanted]
    return Reconstruction(estimates=total - np.array(others), method=f"differences, asked {num_repeats} times")


def _checked(queries: ArrayLike, answers: ArrayLike) -> tuple[Floats, Floats]:
    subsets, values = np.asarray(queries, dtype=np.float64), np.asarray(answers, dtype=np.float64)
    if subsets.ndim != 2 or 0 in subsets.shape or not np.isin(subsets, (0.0, 1.0)).all():
        raise InvalidArgument("queries", f"shape {subsets.shape}", "a table of 0 and 1, one row per subset")
    if values.shape != subsets.shape[:1] or not np.isfinite(values).all():
        raise InvalidArgument("answers", f"shape {values.shape}", "one finite number per subset")
    return subsets, values
