"""A black-box tester of privacy claims: it runs a mechanism on two neighbours and looks for an event that tells them.

If a mechanism is (epsilon, delta)-private, no event has P(event | first) > e^epsilon P(event | second) + delta. Here
events are searched on one set of samples and certified on another, fresh one, with Clopper-Pearson bounds that are
corrected for the number of events and for the two directions. So a violation that is reported is one, but for a
probability of 1 - confidence; that none is found proves nothing.

Every attack is a score, a function of the output, and its events are ``score >= t`` and ``score <= t``: single
coordinates, coordinates for a given value of another one, likelihood ratios (of values, of bins) and a logistic
regression. References: Ding et al. 2018 (the search); Bichsel et al. 2021 (classifiers); Clopper & Pearson 1934.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from hush.randomness import Source

Rows = NDArray[np.float64]
Scores = NDArray[np.float64]
Score = Callable[[Rows], Scores]  # NaN: in no event

CONFIDENCE = 1 - 1e-6
_CERTIFIED = 4  # events per direction
_LEARNING = 20_000  # samples that classifiers and bins learn from
_FEW_VALUES = 12
_FEW_COLUMNS = 6  # with more of them, pairs are left to the classifier
_LEVELS = np.unique(np.concatenate([np.linspace(0, 1, 65), 2.0 ** -np.arange(1, 24), 1 - 2.0 ** -np.arange(1, 24)]))


@dataclass(frozen=True, slots=True)
class Batched:
    """A mechanism that draws many independent outputs at once: one row each."""

    draw: Callable[[Any, Source, int], Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """What was certified: no mechanism with an epsilon below this one, at the given delta, would behave like that."""

    epsilon: float
    claimed: float
    delta: float
    confidence: float
    event: str

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted."""
        return self.epsilon > self.claimed


@dataclass(frozen=True, slots=True)
class _Event:
    score: Score
    name: str
    threshold: float
    above: bool
    swapped: bool  # whether it is more probable on the second input
    promise: float

    def hits(self, rows: Rows) -> int:
        scores = self.score(rows)
        return int(np.count_nonzero(scores >= self.threshold if self.above else scores <= self.threshold))

    def __str__(self) -> str:
        return f"{self.name} {'>=' if self.above else '<='} {self.threshold:.6g}"


def find_violation(
    mechanism: Callable[[Any, Source], Any] | Batched,
    first: Any,
    second: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    samples: int,
    source: Source,
    confidence: float = CONFIDENCE,
    features: Callable[[Rows], Rows] | None = None,
) -> Finding:
    """Return the largest epsilon that a search and a certification, of ``samples`` runs per input each, can prove."""
    searched, fresh = (
        tuple(_rows(mechanism, data, source, samples, features) for data in (first, second)) for _ in range(2)
    )
    width = max(rows.shape[1] for rows in (*searched, *fresh))
    searched, fresh = (tuple(_padded(rows, width) for rows in pair) for pair in (searched, fresh))
    events = _search(*searched, delta)
    best, name = 0.0, "none"
    for event in events:
        hits = [event.hits(rows) for rows in (reversed(fresh) if event.swapped else fresh)]
        proven = float(lower_bound(hits[0], hits[1], samples, delta, (1 - confidence) / len(events)))
        if proven > best:
            best, name = proven, f"{event}, {'second' if event.swapped else 'first'} input"
    return Finding(best, epsilon, delta, confidence, name)


def support_test(
    mechanism: Batched,
    first: float,
    second: float,
    *,
    epsilon: float,
    samples: int,
    source: Source,
) -> Finding:
    """Attack the lowest bits: which powers of two divide an output of some size must not tell (Mironov 2012)."""
    return find_violation(
        mechanism, first, second, epsilon=epsilon, samples=samples, source=source, features=lowest_bits
    )


def lowest_bits(rows: Rows) -> Rows:
    """Return the exponents of the largest powers of two that divide the values, and the values' own, with a sign."""
    mantissas, exponents = np.frexp(rows)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    lowest = np.log2(np.maximum(whole & -whole, 1).astype(np.float64)) + exponents - 53
    return np.column_stack([np.where(whole == 0, np.nan, lowest), np.sign(rows), exponents])


def lower_bound(
    hits: NDArray[np.int64] | int, other_hits: NDArray[np.int64] | int, samples: int, delta: float, error: float
) -> NDArray[np.float64]:
    """Return ln((p - delta) / q) for the smallest p and the largest q that the counts leave possible."""
    hits, other_hits = np.asarray(hits), np.asarray(other_hits)
    smallest = np.where(hits > 0, beta.ppf(error / 2, np.maximum(hits, 1), samples - hits + 1), 0.0)
    largest = np.where(
        other_hits < samples, beta.isf(error / 2, other_hits + 1, np.maximum(samples - other_hits, 1)), 1.0
    )
    return np.log(np.maximum(smallest - delta, 1e-300) / largest)


def _rows(
    mechanism: Callable[[Any, Source], Any] | Batched,
    data: Any,
    source: Source,
    samples: int,
    features: Callable[[Rows], Rows] | None,
) -> Rows:
    if isinstance(mechanism, Batched):
        rows = np.asarray(mechanism.draw(data, source, samples), dtype=np.float64).reshape(samples, -1)
    else:
        flat = [list(_flat(mechanism(data, source))) for _ in range(samples)]
        width = max(map(len, flat))
        rows = np.full((samples, width + 1), np.nan)
        for row, values in zip(rows, flat, strict=True):
            row[0] = len(values)
            row[1 : len(values) + 1] = values
    return rows if features is None else features(rows)


def _flat(output: Any) -> Iterator[float]:
    """Write any output as numbers: nothing for None, a checksum for text."""
    if isinstance(output, (str, bytes)):
        yield float(crc32(output.encode() if isinstance(output, str) else output))
    elif isinstance(output, (Sequence, np.ndarray)) and np.shape(output) != ():
        for part in output:
            yield from _flat(part) if part is not None else (math.nan,)
    elif output is not None:
        yield float(output)


def _padded(rows: Rows, width: int) -> Rows:
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=np.nan)


def _search(first: Rows, second: Rows, delta: float) -> list[_Event]:
    """Return the most promising events of both directions."""
    found = [
        event for name, score in _scores(first, second) for event in _best_events(name, score, first, second, delta)
    ]
    result = []
    for swapped in (False, True):
        direction = [event for event in found if event.swapped is swapped]
        result += sorted(direction, key=lambda event: -event.promise)[:_CERTIFIED]
    return result


def _best_events(name: str, score: Score, first: Rows, second: Rows, delta: float) -> Iterator[_Event]:
    """Yield a score's best threshold for each side and direction."""
    scores = [values[~np.isnan(values)] for values in (score(first), score(second))]
    for values in scores:
        values.sort()
    thresholds = [values[(_LEVELS * (len(values) - 1)).astype(int)] for values in scores if len(values)]
    if not thresholds:
        return
    candidates = np.unique(np.concatenate(thresholds))
    for above in (True, False):
        side = "left" if above else "right"
        below = [np.searchsorted(values, candidates, side=side) for values in scores]
        hits = [len(values) - count if above else count for values, count in zip(scores, below, strict=True)]
        for swapped in (False, True):
            ordered = hits[::-1] if swapped else hits
            # As it will be judged; the number of events, which is not known yet, hardly matters.
            promises = lower_bound(ordered[0], ordered[1], len(first), delta, 1e-7)
            best = int(np.argmax(promises))
            yield _Event(score, name, float(candidates[best]), above, swapped, float(promises[best]))


def _scores(first: Rows, second: Rows) -> Iterator[tuple[str, Score]]:
    few_first, few_second = first[:_LEARNING], second[:_LEARNING]
    yield "value ratio", _value_ratio(few_first, few_second)
    columns = [column for column in range(first.shape[1]) if not _constant(few_first, few_second, column)]
    for column in columns:
        yield f"output[{column}]", lambda rows, column=column: rows[:, column]
        yield f"bin ratio of output[{column}]", _bin_ratio(few_first, few_second, column)
    for given in columns if len(columns) <= _FEW_COLUMNS else ():
        values = np.unique(few_first[:, given])
        values = values[~np.isnan(values)]
        for value in values if len(values) <= _FEW_VALUES else ():
            for column in columns:
                if column != given:
                    yield (
                        f"output[{column}] where output[{given}] = {value:.6g}",
                        lambda rows, column=column, given=given, value=value: np.where(
                            rows[:, given] == value, rows[:, column], np.nan
                        ),
                    )
    if len(columns) > 1:
        yield "classifier", _classifier(few_first, few_second, columns)


def _constant(first: Rows, second: Rows, column: int) -> bool:
    values = np.concatenate([first[:, column], second[:, column]])
    return len(np.unique(values)) == 1


def _bytes(rows: Rows) -> NDArray[Any]:
    plain = np.ascontiguousarray(np.where(rows == 0, 0.0, rows))  # -0.0 is 0.0
    return plain.view(np.dtype((np.void, plain.shape[1] * 8))).ravel()


def _value_ratio(first: Rows, second: Rows) -> Score:
    """Score an output by how much more often it was seen on the first input; rare ones not at all."""
    known, place = np.unique(_bytes(np.concatenate([first, second])), return_inverse=True)
    counts = [np.bincount(part, minlength=len(known)) for part in (place[: len(first)], place[len(first) :])]
    ratios = np.log(counts[0] + 0.5) - np.log(counts[1] + 0.5)
    ratios[counts[0] + counts[1] < 8] = np.nan

    def score(rows: Rows) -> Scores:
        if np.isnan(ratios).all():
            return np.full(len(rows), np.nan)
        keys = _bytes(rows)
        places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return np.where(known[places] == keys, ratios[places], np.nan)

    return score


def _bin_ratio(first: Rows, second: Rows, column: int) -> Score:
    """Score a number by the likelihood ratio of its bin, of 40 with equally many samples."""
    pooled = np.concatenate([first[:, column], second[:, column]])
    pooled = pooled[~np.isnan(pooled)]
    edges = np.unique(np.quantile(pooled, np.linspace(0, 1, 41)[1:-1], method="lower"))
    places = [np.searchsorted(edges, rows[:, column], side="left") for rows in (first, second)]
    counts = [np.bincount(part[part < len(edges) + 1], minlength=len(edges) + 1) for part in places]
    ratios = np.log(counts[0] + 0.5) - np.log(counts[1] + 0.5)

    def score(rows: Rows) -> Scores:
        values = rows[:, column]
        return np.where(np.isnan(values), np.nan, ratios[np.searchsorted(edges, values, side="left")])

    return score


def _classifier(first: Rows, second: Rows, columns: Sequence[int]) -> Score:
    """Score an output by a logistic regression, with squares, and with products while there are few coordinates."""
    both = np.concatenate([first, second])
    middle, spread = np.nanmedian(both[:, columns], axis=0), np.nanstd(both[:, columns], axis=0) + 1e-300
    pairs = [(i, j) for i in range(len(columns)) for j in range(i + 1)] if len(columns) <= _FEW_COLUMNS else []

    def inputs(rows: Rows) -> Rows:
        x = np.clip(np.nan_to_num((rows[:, columns] - middle) / spread), -8, 8)
        missing = np.isnan(rows[:, columns]).astype(np.float64)
        return np.column_stack([np.ones(len(rows)), x, missing, *(x[:, i] * x[:, j] for i, j in pairs)])

    x, target = inputs(both), np.repeat([1.0, 0.0], [len(first), len(second)])
    weights = np.zeros(x.shape[1])
    for _ in range(12):  # Newton's steps, with a little ridge
        probability = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        curvature = (x * (probability * (1 - probability))[:, None]).T @ x + np.eye(len(weights))
        weights += np.linalg.solve(curvature, x.T @ (target - probability) - weights)
    return lambda rows: inputs(rows) @ weights
