"""What a mechanism gives out, as rows of numbers that attacks can work on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from hush.errors import InvalidArgument
from hush.randomness import Source

Rows = NDArray[np.float64]
Features = Callable[[Rows], Rows]

_BLOCK = 1 << 17  # rows that are drawn at once: larger blocks are no faster, and wide ones take memory


@dataclass(frozen=True, slots=True)
class Batched:
    """A mechanism that draws many independent outputs at once.

    Attributes:
        draw: From data, a source of randomness and a count to an array with that many rows, or that many numbers.
    """

    draw: Callable[[Any, Source, int], Any]


Mechanism = Callable[[Any, Source], Any] | Batched


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A mechanism on two neighbouring inputs: what attacks draw from."""

    mechanism: Mechanism
    first: Any
    second: Any
    source: Source
    features: Features | None = None

    def draw(self, samples: int) -> tuple[Rows, Rows]:
        """Return the outputs of so many runs on each input, with equally many columns."""
        first, second = (self._rows(data, samples) for data in (self.first, self.second))
        width = max(first.shape[1], second.shape[1])
        return fitted(first, width), fitted(second, width)

    def blocks(self, samples: int, width: int) -> Iterator[tuple[Rows, Rows]]:
        """Draw so many, some at a time, with a given number of columns."""
        for start in range(0, samples, _BLOCK):
            count = min(_BLOCK, samples - start)
            first, second = (fitted(self._rows(data, count), width) for data in (self.first, self.second))
            yield first, second

    def _rows(self, data: Any, count: int) -> Rows:
        if isinstance(self.mechanism, Batched):
            rows = np.asarray(self.mechanism.draw(data, self.source, count), dtype=np.float64)
            if rows.ndim == 0 or len(rows) != count:
                raise InvalidArgument("draw", self.mechanism.draw, "a function that returns one row per run")
            rows = rows.reshape(count, -1)
        else:
            rows = _table([list(_flat(self.mechanism(data, self.source))) for _ in range(count)])
        return rows if self.features is None else np.asarray(self.features(rows), dtype=np.float64)


def fitted(rows: Rows, width: int) -> Rows:
    """Cut or fill up rows to a number of columns. What is cut is seen by no event; that is allowed, and rare."""
    if rows.shape[1] >= width:
        return rows[:, :width]
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=np.nan)


def _table(outputs: list[list[float]]) -> Rows:
    """Write outputs of any lengths as rows: the length, then the values."""
    rows = np.full((len(outputs), 1 + max(map(len, outputs), default=0)), np.nan)
    for row, values in zip(rows, outputs, strict=True):
        row[0] = len(values)
        row[1 : len(values) + 1] = values
    return rows


def _flat(output: Any) -> Iterator[float]:
    """Write any output as numbers: nothing for None, a checksum for text."""
    if isinstance(output, str | bytes):
        yield float(crc32(output.encode() if isinstance(output, str) else output))
    elif isinstance(output, Sequence) or (isinstance(output, np.ndarray) and output.ndim > 0):
        for part in output:
            yield from _flat(part) if part is not None else (math.nan,)
    elif output is not None:
        yield float(output)
