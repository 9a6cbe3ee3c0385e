"""Reconstruction: recover secrets from too many overly accurate answers.

- `reconstruct_by_linear_program` and `reconstruct_by_least_squares` recover a secret bit per record from noisy sums
  over subsets (Dinur & Nissim 2003). `subset_queries` draws the subsets, `linear_answers` queries them.
- `difference_attack` recovers bits from pairs of sums that differ in one record, from any interface that answers sums.

These attacks do not bound epsilon. They show that an interface fails, and `Reconstruction` measures how badly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack, vstack

from hush.errors import HushError, InvalidArgument, check_count
from hush.randomness import public_generator

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
    """An attacker's estimate of every secret bit.

    >>> result = Reconstruction(estimates=np.array([0.2, 0.7]), method="by hand")
    >>> result.bits.tolist(), result.fraction_correct([False, False])
    ([False, True], 0.5)

    Attributes:
        estimates: One number per record, or per target: near 1 if the bit is probably set, near 0 if not.
        method: The attack in a few words.
    """

    estimates: Floats
    method: str

    @property
    def bits(self) -> Bits:
        """The estimates, rounded at one half."""
        return np.asarray(self.estimates > 0.5)

    def fraction_correct(self, secret: ArrayLike) -> float:
        """Return the share of correct bits. Guessing reaches one half if both values are equally frequent."""
        truth = np.asarray(secret, dtype=np.bool_)
        if truth.shape != self.estimates.shape:
            raise InvalidArgument("secret", f"shape {truth.shape}", f"shape {self.estimates.shape}: one bit per record")
        return float(np.mean(self.bits == truth))


def subset_queries(num_records: int, num_queries: int, rng: int | np.random.Generator) -> Floats:
    """Return random subsets as rows of 0 and 1. Every record is in each subset with probability one half.

    >>> subset_queries(3, 2, rng=0).tolist()
    [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]

    Args:
        num_records: The number of records, one column each.
        num_queries: The number of subsets, one row each.
        rng: Draws the subsets: a seed or a NumPy generator.

    Returns:
        The subsets, [num_queries, num_records].
    """
    check_count("num_records", num_records)
    check_count("num_queries", num_queries)
    # As floats: a matrix product of booleans would compute "or" instead of sums.
    return (public_generator(rng).random((num_queries, num_records)) < 0.5).astype(np.float64)


def linear_answers(queries: ArrayLike, ask: Callable[[Bits], float]) -> Floats:
    """Query an interface for the sum over each subset.

    >>> secret = np.array([True, False, True])
    >>> linear_answers([[1, 1, 0], [1, 0, 1]], lambda subset: float(secret[subset].sum())).tolist()
    [1.0, 2.0]

    Args:
        queries: Subsets as rows of 0 and 1, one column per record.
        ask: A function from a subset, as booleans, to the noisy sum over it.

    Returns:
        One answer per subset.
    """
    return np.array([ask(subset) for subset in np.asarray(queries, dtype=np.bool_)], dtype=np.float64)


def reconstruct_by_linear_program(queries: ArrayLike, answers: ArrayLike) -> Reconstruction:
    """Find the bits whose subset sums are closest to the answers in total absolute error.

    With A = ``queries`` and a = ``answers``, minimise sum_j e_j such that |(A x - a)_j| <= e_j and 0 <= x <= 1. The x
    are then rounded at one half. If the answers to O(n) random subsets of n records have errors of o(sqrt n), all but
    o(n) bits are recovered.

    >>> rng = np.random.default_rng(1)
    >>> secret = rng.random(40) < 0.5
    >>> queries = subset_queries(40, 160, rng)
    >>> answers = queries @ secret + rng.normal(scale=0.5, size=160)
    >>> reconstruct_by_linear_program(queries, answers).fraction_correct(secret)
    1.0

    Args:
        queries: Subsets as rows of 0 and 1, one column per record.
        answers: One noisy sum per subset.

    Returns:
        One estimate per record.

    References:
        Dinur & Nissim (2003); Dwork, McSherry & Talwar (2007): absolute errors tolerate a fraction of answers that are
        arbitrarily wrong. Solved by HiGHS.
    """
    subsets, values = _checked(queries, answers)
    num_queries, num_records = subsets.shape
    matrix, slack = csr_array(subsets), eye_array(num_queries, format="csr")
    # Variables are (x, e). The constraints are A x - e <= a and -A x - e <= -a.
    solution = linprog(
        np.concatenate([np.zeros(num_records), np.ones(num_queries)]),
        A_ub=vstack([hstack([matrix, -slack]), hstack([-matrix, -slack])], format="csr"),
        b_ub=np.concatenate([values, -values]),
        bounds=[(0.0, 1.0)] * num_records + [(0.0, None)] * num_queries,
        method="highs",
    )
    if solution.x is None:  # the program is always feasible and bounded: only the solver itself can fail
        raise HushError(f"linear program: the solver gave up ({solution.message})")
    return Reconstruction(estimates=np.asarray(solution.x[:num_records]), method="linear program")


def reconstruct_by_least_squares(queries: ArrayLike, answers: ArrayLike) -> Reconstruction:
    """Find the numbers whose subset sums are closest to the answers in squared error. Faster, and a little weaker.

    It shows the fundamental law of information recovery: overly accurate answers to too many questions destroy privacy.

    >>> rng = np.random.default_rng(1)
    >>> secret = rng.random(40) < 0.5
    >>> queries = subset_queries(40, 160, rng)
    >>> reconstruct_by_least_squares(queries, queries @ secret).fraction_correct(secret)
    1.0

    Args:
        queries: Subsets as rows of 0 and 1, one column per record.
        answers: One noisy sum per subset.

    Returns:
        One estimate per record.

    References:
        Dwork & Yekhanin (2008); Kasiviswanathan, Rudelson & Smith (2013): the attack by least squares.
    """
    subsets, values = _checked(queries, answers)
    estimates = np.linalg.lstsq(subsets, values, rcond=None)[0]
    return Reconstruction(estimates=np.asarray(estimates), method="least squares")


def difference_attack(
    ask: Callable[[Bits], float], num_records: int, *, targets: Sequence[int] | None = None, num_repeats: int = 1
) -> Reconstruction:
    """Find a record's bit as the sum over all records minus the sum over all other records.

    Both queries cover many records, so a minimum group size is no defence (the "tracker" of Denning, Denning & Schwartz
    1979). Fresh noise on each answer is averaged away by repetition. A budget is a defence, because repetition spends
    it; with `hush.table`, each answer states its cost.

    >>> secret = np.array([True, False, True])
    >>> difference_attack(lambda subset: float(secret[subset].sum()), 3).fraction_correct(secret)
    1.0

    Args:
        ask: A function from a subset, as booleans, to the noisy sum over it.
        num_records: The number of records.
        targets: The records to attack; all of them by default.
        num_repeats: How often each query is repeated.

    Returns:
        One estimate per target.
    """
    all_records = np.ones(check_count("num_records", num_records), dtype=np.bool_)
    check_count("num_repeats", num_repeats)

    def mean_answer(subset: Bits) -> float:
        return float(np.mean([ask(subset) for _ in range(num_repeats)]))

    # The difference of two sums is one record's bit, plus the noise of both.
    total = mean_answer(all_records)
    target_records = range(num_records) if targets is None else targets
    sums_without = [mean_answer(np.arange(num_records) != record) for record in target_records]
    return Reconstruction(estimates=total - np.array(sums_without), method=f"differences, asked {num_repeats} times")


def _checked(queries: ArrayLike, answers: ArrayLike) -> tuple[Floats, Floats]:
    subsets, values = np.asarray(queries, dtype=np.float64), np.asarray(answers, dtype=np.float64)
    if subsets.ndim != 2 or 0 in subsets.shape or not np.isin(subsets, (0.0, 1.0)).all():
        raise InvalidArgument("queries", f"shape {subsets.shape}", "a table of 0 and 1, one row per subset")
    if values.shape != subsets.shape[:1] or not np.isfinite(values).all():
        raise InvalidArgument("answers", f"shape {values.shape}", "one finite number per subset")
    return subsets, values
