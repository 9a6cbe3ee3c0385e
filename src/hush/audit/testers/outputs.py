"""What a mechanism gives out, as rows of numbers that attacks can work on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.audit.testers.written import EXACT, Raised, written
from hush.errors import InvalidArgument
from hush.randomness import RandomSource

Rows = NDArray[np.float64]
Features = Callable[[Rows], Rows]

_SMALLEST = 5e-324  # positive double
_TRIES = 20  # runs on each input before a mechanism counts as failing
_BLOCK = 1 << 17  # rows that are drawn at once: larger blocks are no faster, and wide ones take memory


@dataclass(frozen=True, slots=True)
class Batched:
    """A mechanism that draws many independent outputs at once.

    Attributes:
        draw: From data, a source of randomness and a count to an array with that many rows, or that many numbers. An
            exception ends the audit: to have it judged as an output, audit one run at a time.
    """

    draw: Callable[[Any, RandomSource, int], Any]


Mechanism = Callable[[Any, RandomSource], Any] | Batched


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourPair:
    """A mechanism on two neighbouring inputs: what attacks draw from."""

    mechanism: Mechanism
    first: Any
    second: Any
    source: RandomSource
    features: Features | None = None

    def draw(self, samples: int) -> tuple[Rows, Rows]:
        """Return the outputs of so many runs on each input, with equally many columns.

        An exception is an output, too, unless there is no other: a mechanism that fails on both inputs is misused.
        """
        self._refuse_failing()
        first, second = (self._rows(data, samples) for data in (self.first, self.second))
        width = max(first.shape[1], second.shape[1])
        return fitted(first, width), fitted(second, width)

    def _refuse_failing(self) -> None:
        if isinstance(self.mechanism, Batched):
            return
        for _ in range(_TRIES):
            for data in (self.first, self.second):
                found = _once(self.mechanism, data, self.source)
                if not isinstance(found, Raised):
                    return
        raise found.error

    def blocks(self, samples: int, width: int) -> Iterator[tuple[Rows, Rows]]:
        """Draw so many, some at a time, with a given number of columns."""
        for start in range(0, samples, _BLOCK):
            count = min(_BLOCK, samples - start)
            first, second = (fitted(self._rows(data, count), width) for data in (self.first, self.second))
            yield first, second

    def _rows(self, data: Any, count: int) -> Rows:
        if isinstance(self.mechanism, Batched):
            rows = _batch(self.mechanism.draw(data, self.source, count), count)
        else:
            rows = _table([written(_once(self.mechanism, data, self.source)) for _ in range(count)])
        return _told(rows if self.features is None else np.asarray(self.features(rows), dtype=np.float64))


def _once(mechanism: Callable[[Any, RandomSource], Any], data: Any, source: RandomSource) -> Any:
    try:
        return mechanism(data, source)
    except Exception as error:  # whatever it is, whoever asks sees it, and a neighbour may not raise it
        return Raised(error)


def fitted(rows: Rows, width: int) -> Rows:
    """Cut or fill up rows to a number of columns. What is cut is seen by no event; that is allowed, and rare."""
    if rows.shape[1] >= width:
        return rows[:, :width]
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=np.nan)


def _table(outputs: list[list[float]]) -> Rows:
    """Write outputs of any lengths as rows."""
    rows = np.full((len(outputs), max(map(len, outputs), default=0)), np.nan)
    for row, values in zip(rows, outputs, strict=True):
        row[: len(values)] = values
    return rows


def _batch(drawn: Any, count: int) -> Rows:
    """Return a batch of outputs as rows, if doubles can hold them."""
    batch = np.asarray(drawn)
    if batch.ndim == 0 or len(batch) != count:
        raise InvalidArgument("draw", batch.shape, "one row, or one number, for each run")
    if batch.dtype.kind == "c":
        batch = np.stack([batch.real, batch.imag], axis=-1)
    wide = batch.dtype.kind in "iu" and batch.dtype.itemsize == 8 and batch.size > 0
    if (
        batch.dtype.kind not in "biuf"
        or (batch.dtype.kind == "f" and batch.dtype.itemsize > 8)
        or (wide and not -EXACT <= int(batch.min()) <= int(batch.max()) <= EXACT)
    ):
        raise InvalidArgument(
            "draw",
            str(batch.dtype),
            "numbers that doubles hold: outputs that rounding makes equal would not be told apart",
            "Return high and low digits as two columns, or audit the mechanism one run at a time",
        )
    return batch.astype(np.float64, copy=False).reshape(count, -1)


def _told(rows: Rows) -> Rows:
    """Write -0.0 as the negative number next to it: comparisons do not tell it from 0.0, and whoever prints it does."""
    negative = (rows == 0) & np.signbit(rows)
    return np.where(negative, -_SMALLEST, rows) if negative.any() else rows
