"""Run a mechanism on two neighbouring inputs and return the outputs as rows of numbers.

    mechanism(data, source)   one output of any type                encoding.py turns it into numbers
    Batched(draw)             many outputs at once, as an array     checked that doubles hold them exactly
    rows                      one row per run, NaN where an output is shorter than the longest
    features(rows)            optionally, another view of the rows, such as their lowest bits

Attacks see rows only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.audit.testers.encoding import EXACT, Raised, encode
from hush.errors import InvalidArgument
from hush.randomness import RandomSource

Rows = NDArray[np.float64]
Features = Callable[[Rows], Rows]

_SMALLEST_POSITIVE = 5e-324
_ATTEMPTS = 20  # runs on each input before a mechanism counts as failing
_BLOCK_ROWS = 1 << 17  # rows drawn at once: larger blocks are no faster, and wide ones take memory


@dataclass(frozen=True, slots=True)
class Batched:
    """A mechanism that draws many independent outputs at once. Ten million outputs take seconds.

    >>> import numpy as np
    >>> from hush.audit.testers import audit_mechanism
    >>> from hush.randomness import TestSource
    >>> def leaky(data, source, count):
    ...     return np.full(count, data)
    >>> audit_mechanism(Batched(leaky), 0.0, 1.0, samples=1000, source=TestSource(1)).epsilon_lower > 4
    True

    Attributes:
        draw: A function of the data, a source of randomness and a count. It returns an array with that many rows, or
            that many numbers. An exception ends the audit; to have exceptions count as outputs, audit a mechanism that
            runs once per call.
    """

    draw: Callable[[Any, RandomSource, int], Any]


BlackBox = Callable[[Any, RandomSource], Any] | Batched


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourPair:
    """A mechanism with two neighbouring inputs, ready to be run.

    Attributes:
        mechanism: The mechanism under test.
        first: An input.
        second: A neighbouring input.
        source: The randomness that the mechanism gets.
        features: Maps rows of outputs to the rows that attacks see; None leaves them as they are.
    """

    mechanism: BlackBox
    first: Any
    second: Any
    source: RandomSource
    features: Features | None = None

    def draw(self, samples: int) -> tuple[Rows, Rows]:
        """Return the outputs of ``samples`` runs on each input, with equally many columns.

        An exception counts as an output. If every run raises, the mechanism is being misused, and the error is raised.
        """
        self._raise_if_always_failing()
        first, second = (self._rows(data, samples) for data in (self.first, self.second))
        width = max(first.shape[1], second.shape[1])
        return with_width(first, width), with_width(second, width)

    def blocks(self, samples: int, width: int) -> Iterator[tuple[Rows, Rows]]:
        """Yield the outputs of ``samples`` runs on each input, block by block, with ``width`` columns."""
        # Every block is drawn anew and seen once, so counts over blocks are counts over independent runs.
        for start in range(0, samples, _BLOCK_ROWS):
            count = min(_BLOCK_ROWS, samples - start)
            first, second = (with_width(self._rows(data, count), width) for data in (self.first, self.second))
            yield first, second

    def _raise_if_always_failing(self) -> None:
        if isinstance(self.mechanism, Batched):
            return
        # On both inputs: a mechanism that fails on one of them only reveals which one it got, which is a finding.
        for _ in range(_ATTEMPTS):
            for data in (self.first, self.second):
                output = _run_once(self.mechanism, data, self.source)
                if not isinstance(output, Raised):
                    return
        raise output.error

    def _rows(self, data: Any, count: int) -> Rows:
        if isinstance(self.mechanism, Batched):
            rows = _batch_rows(self.mechanism.draw(data, self.source, count), count)
        else:
            rows = _table([encode(_run_once(self.mechanism, data, self.source)) for _ in range(count)])
        features = rows if self.features is None else np.asarray(self.features(rows), dtype=np.float64)
        return _mark_negative_zeros(features)


def with_width(rows: Rows, width: int) -> Rows:
    """Truncate or pad rows to ``width`` columns.

    Events do not see the truncated columns. That is valid, and rarely happens.
    """
    if rows.shape[1] >= width:
        return rows[:, :width]
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=np.nan)


def _run_once(mechanism: Callable[[Any, RandomSource], Any], data: Any, source: RandomSource) -> Any:
    try:
        return mechanism(data, source)
    except Exception as error:  # any exception is visible to the analyst, and may be raised on one input only
        return Raised(error)


def _table(outputs: list[list[float]]) -> Rows:
    """Return outputs of different lengths as rows, padded with NaN."""
    rows = np.full((len(outputs), max(map(len, outputs), default=0)), np.nan)
    for row, values in zip(rows, outputs, strict=True):
        row[: len(values)] = values
    return rows


def _batch_rows(drawn: Any, count: int) -> Rows:
    """Return a batch of outputs as rows. Refuse types that lose digits as doubles: they would hide differences."""
    batch = np.asarray(drawn)
    if batch.ndim == 0 or len(batch) != count:
        raise InvalidArgument("draw", batch.shape, "one row, or one number, for each run")
    if batch.dtype.kind == "c":
        # A reader sees both parts of a complex number, and so must the attack.
        batch = np.stack([batch.real, batch.imag], axis=-1)
    int64 = batch.dtype.kind in "iu" and batch.dtype.itemsize == 8 and batch.size > 0
    if (
        batch.dtype.kind not in "biuf"
        or (batch.dtype.kind == "f" and batch.dtype.itemsize > 8)
        or (int64 and not -EXACT <= int(batch.min()) <= int(batch.max()) <= EXACT)
    ):
        raise InvalidArgument(
            "draw",
            str(batch.dtype),
            "numbers that a double represents exactly, as rounding could make different outputs equal",
            "Return high and low digits as two columns, or audit a mechanism that runs once per call",
        )
    return batch.astype(np.float64, copy=False).reshape(count, -1)


def _mark_negative_zeros(rows: Rows) -> Rows:
    """Replace -0.0 by the negative number next to it: it equals 0.0 in comparisons, but prints differently."""
    negative_zeros = (rows == 0) & np.signbit(rows)
    return np.where(negative_zeros, -_SMALLEST_POSITIVE, rows) if negative_zeros.any() else rows
