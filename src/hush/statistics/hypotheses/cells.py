"""Tests of counts in cells: independence of two columns, and the fit of stated shares.

The statistic is Pearson's with the noise in its denominators, the sum over cells of

    (count - expected)^2 / (expected + noise variance),

which is close to the chi-squared statistic of Kifer & Rogers 2017 for noisy counts: cells that hold little but noise
weigh little. Its distribution is simulated with the noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument
from hush.numerics import quiet_numpy
from hush.randomness import RandomSource
from hush.statistics.columns import MISSING, check_keys, key_codes
from hush.statistics.hypotheses.release import NoisyTotals, ReleaseTerms, check_key_types
from hush.statistics.hypotheses.result import HypothesisResult
from hush.statistics.hypotheses.simulation import NoiseModel, p_value
from hush.statistics.noise.release import NoiseKind

Floats = NDArray[np.float64]

_FURTHER = 1.5  # standard deviations of the noise by which nuisances are moved
_SEEN = 2.0  # standard deviations of the noise by which the number of rows must exceed 0
_MAX_CELLS = 1 << 12


@quiet_numpy
def independence(
    first: Any,
    second: Any,
    *,
    first_keys: Sequence[Any],
    second_keys: Sequence[Any],
    units: Any,
    epsilon: float,
    delta: float = 0.0,
    noise: NoiseKind | None = None,
    num_simulations: int = 9_999,
    source: RandomSource | None = None,
    budget: Budget | None = None,
) -> HypothesisResult:
    """Test whether two categorical columns are independent: the chi-squared test of a contingency table.

    Each unit counts once: by one random row of those that can be used. There is no estimate and no interval. Measures
    of association such as Cramer's V are 0 where columns are independent, at the edge of their range; simulated
    intervals are not valid near there, and those from tail inversions (Smithson 2003) know no noise. For two columns of
    two values, `compare_proportions` gives the difference of the shares with an interval.

    >>> from hush.randomness import TestSource
    >>> from hush.statistics import EachRow
    >>> diets, health = ["a", "b", "c"] * 300, ["good", "good", "bad", "fair", "good", "bad"] * 150
    >>> independence(diets, health, first_keys=["a", "b", "c"], second_keys=["good", "fair", "bad"], units=EachRow(),
    ...              epsilon=1.0, source=TestSource(1)).p_value
    0.0001

    Args:
        first: A column.
        second: Another column of the same rows.
        first_keys: The public list of values of the first column. Rows with others are left out.
        second_keys: The public list of values of the second column.
        units: The id of the person behind each row; `EachRow()` if each row is about a different person.
        epsilon: The cost of the test.
        delta: The delta for Gaussian noise.
        noise: The kind of noise; None for the kind with the smaller error.
        num_simulations: How many datasets to simulate under the hypothesis. No p-value is below one over it.
        source: The source of all randomness; by default the operating system.
        budget: A budget to charge, such as one of a ledger. It is charged before totals are computed.

    Guarantee:
        (epsilon, delta)-differential privacy for all rows of one unit (delta = 0 with Laplace noise); whatever is
        computed from the noisy totals costs nothing more.

    Assumes:
        Each person has exactly one id (the caller's duty). Keys are public (the caller's duty). For the p-value: units
        are independent, and were not chosen by looking at the data (the caller's duty). The p-value is simulated from
        the shares that were estimated, as if the columns were independent; its level is measured, not proven
        (``reproductions/hypothesis_tests.py``).

    References:
        Gaboardi, Lim, Rogers & Vadhan 2016 (simulated independence test); Kifer & Rogers 2017 (the statistic); Wang,
        Lee & Kifer 2015.
    """
    terms = _terms(units, epsilon, delta, noise, num_simulations, source, budget)
    rows, columns = check_keys("first_keys", first_keys), check_keys("second_keys", second_keys)
    if min(len(rows), len(columns)) < 2 or len(rows) * len(columns) > _MAX_CELLS:
        sizes = f"{len(rows)} and {len(columns)} keys"
        raise InvalidArgument("first_keys", sizes, f"two keys or more for each column, and {_MAX_CELLS} cells at most")
    for name, column, keys in (("first", first, rows), ("second", second, columns)):
        check_key_types(name, column, keys)
    codes = key_codes("first", first, rows), key_codes("second", second, columns)
    if len(codes[0]) != len(codes[1]):
        raise InvalidArgument("second", type(second).__name__, "as many rows as the first column")
    present = (codes[0] >= 0) & (codes[1] >= 0)
    cells = np.where(present, codes[0] * len(columns) + codes[1], MISSING)
    noisy = _counts(terms, cells, len(rows) * len(columns), "independence")
    return _independence_of(noisy, (len(rows), len(columns)))


@quiet_numpy
def goodness_of_fit(
    values: Any,
    shares: Mapping[Any, float],
    *,
    units: Any,
    epsilon: float,
    delta: float = 0.0,
    noise: NoiseKind | None = None,
    num_simulations: int = 9_999,
    source: RandomSource | None = None,
    budget: Budget | None = None,
) -> HypothesisResult:
    """Test whether values have stated shares: the chi-squared test of goodness of fit, for two values a binomial test.

    Each unit counts once: by one random row of those that can be used. There is no interval, because the hypothesis is
    about all shares at once, and no single number tells by how much they differ. `statistics.count` by value gives the
    share of each, with intervals.

    >>> from hush.randomness import TestSource
    >>> from hush.statistics import EachRow
    >>> tosses = ["heads"] * 520 + ["tails"] * 480
    >>> test = goodness_of_fit(tosses, {"heads": 0.5, "tails": 0.5}, units=EachRow(), epsilon=1.0, source=TestSource(1))
    >>> test.p_value > 0.1
    True

    Args:
        values: The values. Rows with a value that is not among the keys of ``shares`` are left out.
        shares: The share of each value under the hypothesis: positive numbers that add up to 1.
        units: The id of the person behind each row; `EachRow()` if each row is about a different person.
        epsilon: The cost of the test.
        delta: The delta for Gaussian noise.
        noise: The kind of noise; None for the kind with the smaller error.
        num_simulations: How many datasets to simulate under the hypothesis. No p-value is below one over it.
        source: The source of all randomness; by default the operating system.
        budget: A budget to charge, such as one of a ledger. It is charged before totals are computed.

    Guarantee:
        (epsilon, delta)-differential privacy for all rows of one unit (delta = 0 with Laplace noise); whatever is
        computed from the noisy totals costs nothing more.

    Assumes:
        Each person has exactly one id (the caller's duty). The shares are public, and were not chosen after a look at
        the data (the caller's duty). For the p-value: units are independent, and were not chosen by looking at the data
        (the caller's duty). The p-value is simulated from the stated shares; its level is measured, not proven
        (``reproductions/hypothesis_tests.py``).

    References:
        Gaboardi, Lim, Rogers & Vadhan 2016; Kifer & Rogers 2017.
    """
    terms = _terms(units, epsilon, delta, noise, num_simulations, source, budget)
    keys, chances = _checked_shares(shares)
    check_key_types("values", values, keys)
    noisy = _counts(terms, key_codes("values", values, keys), len(keys), "goodness_of_fit")
    counts, variance = noisy.totals[0], noisy.noise.variance
    statistic = float(fit_statistic(counts, chances, variance))
    is_hidden = counts.sum() <= _SEEN * np.sqrt(len(keys) * variance)
    nulls = (_fit_draws(size, chances, noisy.noise) for size in _sizes(counts.sum(), len(keys), variance))
    p = 1.0 if is_hidden else p_value(statistic, nulls, noisy.draws, noisy.rng, num_totals=noisy.totals.size)
    return noisy.result("the shares are as stated", p, statistic, is_hidden=bool(is_hidden))


def _terms(
    units: Any,
    epsilon: float,
    delta: float,
    noise: NoiseKind | None,
    num_simulations: int,
    source: RandomSource | None,
    budget: Budget | None,
) -> ReleaseTerms:
    return ReleaseTerms(
        units=units,
        epsilon=epsilon,
        delta=delta,
        noise=noise,
        confidence=0.95,
        num_simulations=num_simulations,
        source=source,
        budget=budget,
    )


def _counts(terms: ReleaseTerms, cells: NDArray[np.int64], num_cells: int, test: str) -> NoisyTotals:
    """Release the number of units in each cell; the totals have a single row."""
    request = terms.request(cells, cells, range(num_cells))
    noisy = terms.release(request, cells >= 0, np.ones((len(cells), 1), dtype=np.int64), 1, test)
    return replace(noisy, totals=noisy.totals.T)


def _checked_shares(shares: Any) -> tuple[tuple[Any, ...], Floats]:
    if not isinstance(shares, Mapping):
        raise InvalidArgument("shares", type(shares).__name__, "a dictionary of values and their shares")
    keys = check_keys("shares", list(shares))
    try:
        chances = np.array([float(share) for share in shares.values()])
    except (TypeError, ValueError):
        chances = np.array([np.nan])
    if not (2 <= len(keys) <= _MAX_CELLS and bool((chances > 0).all()) and abs(chances.sum() - 1) <= 1e-9):
        raise InvalidArgument("shares", dict(shares), "two positive shares or more, which add up to 1")
    return keys, chances / chances.sum()


def fit_statistic(counts: Floats, chances: Floats, noise_variance: float) -> Floats:
    """Return the statistic of a fit, for counts (..., cells)."""
    expected = counts.sum(-1, keepdims=True) * chances
    return np.asarray(((counts - expected) ** 2 / (np.maximum(expected, 0.0) + noise_variance + 1e-9)).sum(-1))


def table_statistic(counts: Floats, noise_variance: float) -> Floats:
    """Return the statistic of independence, for counts (..., rows, columns)."""
    rows, columns = np.maximum(counts.sum(-1), 0.0), np.maximum(counts.sum(-2), 0.0)
    total = np.maximum(counts.sum((-1, -2)), 1.0)[..., None, None]
    expected = rows[..., :, None] * columns[..., None, :] / total
    return np.asarray(((counts - expected) ** 2 / (expected + noise_variance + 1e-9)).sum((-1, -2)))


def _sizes(total: float, cells: int, variance: float) -> list[int]:
    """Return the number of rows as it seems, and further out than the noise is likely to move it."""
    reach = _FURTHER * np.sqrt(cells * variance)
    return sorted({max(round(float(total + sign * reach)), 1) for sign in (-1, 0, 1)})


def _fit_draws(size: int, chances: Floats, noise: NoiseModel) -> Callable[[int, np.random.Generator], Floats]:
    def draw(draws: int, rng: np.random.Generator) -> Floats:
        counts = rng.multinomial(size, chances, draws).astype(np.float64)
        return fit_statistic(counts + noise.draw(counts.shape, rng), chances, noise.variance)

    return draw


def _independence_of(noisy: NoisyTotals, shape: tuple[int, int]) -> HypothesisResult:
    counts, variance = noisy.totals.reshape(shape), noisy.noise.variance
    statistic = float(table_statistic(counts, variance))
    is_hidden = counts.sum() <= _SEEN * np.sqrt(counts.size * variance)
    nulls = (_table_draws(size, margins, noisy.noise) for size, margins in _margins(counts, variance))
    p = 1.0 if is_hidden else p_value(statistic, nulls, noisy.draws, noisy.rng, num_totals=noisy.totals.size)
    return noisy.result("the two columns are independent", p, statistic, is_hidden=bool(is_hidden))


def _margins(counts: Floats, variance: float) -> Iterator[tuple[int, tuple[Floats, Floats]]]:
    """Yield a number of rows and the shares of both columns: as they seem, and flatter or steeper, within the noise."""
    sizes = _sizes(float(counts.sum()), counts.size, variance)
    seen = max(float(counts.sum()), 1.0)

    def shares(totals: Floats, width: int, lift: float) -> Floats:
        # Noise that is cut off at 0 makes rare values look more frequent, or missing: both are tried.
        lifted = np.maximum(totals + lift * _FURTHER * np.sqrt(width * variance), 1e-9 * seen)
        return np.asarray(lifted / lifted.sum())

    for lift in (0.0, 1.0, -1.0):
        rows, columns = shares(counts.sum(1), counts.shape[1], lift), shares(counts.sum(0), counts.shape[0], lift)
        for size in sizes if lift == 0 else [max(round(seen), 1)]:
            yield size, (rows, columns)


def _table_draws(
    size: int, margins: tuple[Floats, Floats], noise: NoiseModel
) -> Callable[[int, np.random.Generator], Floats]:
    chances = np.outer(*margins)

    def draw(draws: int, rng: np.random.Generator) -> Floats:
        counts = rng.multinomial(size, chances.ravel() / chances.sum(), draws).astype(np.float64)
        noisy = counts + noise.draw(counts.shape, rng)
        return table_statistic(noisy.reshape(draws, *chances.shape), noise.variance)

    return draw
