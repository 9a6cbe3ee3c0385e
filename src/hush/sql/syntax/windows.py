"""Windows over released values: ranks, shares of a total, running sums, the row before.

They are computed from the rows of the answer, after noise and HAVING, which is post-processing. The rules are SQL's:
without ORDER BY a window is the whole partition; with it, it ends with the rows that are equal to the current one,
unless ROWS says otherwise.

>>> from hush.data.tables.catalog import ColumnKind
>>> count = Expr("statistic", ColumnKind.FLOAT, value=0)
>>> rank = ReleasedWindow("rank", order=(Order(expression=count, descending=True, nulls_first=False),))
>>> window_values(rank, [((), [5.0]), ((), [9.0]), ((), [5.0])])
[2, 1, 2]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hush.sql.syntax.expression import Expr
from hush.sql.syntax.output import Order, evaluate, sort_key

Released = tuple[Sequence[Any], Sequence[float | None]]  # the keys and the statistics of a group
Frame = tuple[int | None, int | None]  # the first and the last row, counted from the current one; None is unbounded


@dataclass(frozen=True, slots=True)
class ReleasedWindow:
    """A window function over the rows of the answer.

    Attributes:
        function: The function, as in `_FUNCTIONS`.
        args: Its arguments, which contain no windows.
        partition: Rows with equal values are one partition.
        order: The order of a partition's rows.
        frame: The rows of ROWS BETWEEN, if the query says so.
    """

    function: str
    args: tuple[Expr, ...] = ()
    partition: tuple[Expr, ...] = ()
    order: tuple[Order, ...] = ()
    frame: Frame | None = None


@dataclass(frozen=True, slots=True)
class _WindowRows:
    """The rows of a partition, in order. ``peers`` has the ends (first, last + 1) of each row's equals."""

    arguments: list[list[Any]]
    peers: list[tuple[int, int]]
    frames: list[tuple[int, int]]


def windows_in(expression: Expr) -> Iterator[ReleasedWindow]:
    """Yield the windows of an expression."""
    if expression.op == "window":
        yield expression.value
    for operand in expression.args:
        yield from windows_in(operand)


def window_values(window: ReleasedWindow, rows: Sequence[Released]) -> list[Any]:
    """Return the value of a window function for each row of the answer."""
    partitions: dict[tuple[Any, ...], list[int]] = {}
    for index, row in enumerate(rows):
        partitions.setdefault(tuple(evaluate(by, *row) for by in window.partition), []).append(index)
    values: list[Any] = [None] * len(rows)
    for indices in partitions.values():
        ranks = {index: [_order_key(by, rows[index]) for by in window.order] for index in indices}
        ordered = sorted(indices, key=ranks.__getitem__)
        partition = _partition(window, [rows[index] for index in ordered], [ranks[index] for index in ordered])
        results = _FUNCTIONS[window.function](partition)
        for index, result in zip(ordered, results, strict=True):
            values[index] = result
    return values


def _order_key(by: Order, row: Released) -> Any:
    """Return what a row is sorted by."""
    return sort_key(evaluate(by.expression, *row), by.descending, by.nulls_first)


def _partition(window: ReleasedWindow, rows: list[Released], ranks: list[Any]) -> _WindowRows:
    """Return a partition with the arguments, the peers and the frame of each row."""
    number, peers, start = len(rows), [], 0
    for index, rank in enumerate(ranks):
        start = start if index and rank == ranks[start] else index
        end = next((later for later in range(index + 1, number) if ranks[later] != rank), number)
        peers.append((start, end))
    frames = [(0, end) for _, end in peers]
    if window.frame is not None:
        first, last = window.frame
        frames = [
            (0 if first is None else max(0, index + first), number if last is None else max(0, index + last + 1))
            for index in range(number)
        ]
    return _WindowRows([[evaluate(arg, *row) for arg in window.args] for row in rows], peers, frames)


def _over_frame(rule: Callable[[list[Any]], Any]) -> Callable[[_WindowRows], list[Any]]:
    """Return an aggregate of the values in each row's frame that are there."""

    def values(partition: _WindowRows) -> list[Any]:
        arguments = [first for first, *_ in partition.arguments]
        return [rule([value for value in arguments[slice(*frame)] if value is not None]) for frame in partition.frames]

    return values


def _ends(index: int) -> Callable[[_WindowRows], list[Any]]:
    """Return the first or the last value of each row's frame."""

    def values(partition: _WindowRows) -> list[Any]:
        frames = [partition.arguments[slice(*frame)] for frame in partition.frames]
        return [frame[index][0] if frame else None for frame in frames]

    return values


def _shifted(sign: int) -> Callable[[_WindowRows], list[Any]]:
    """Return LAG or LEAD: the value some rows before or after, or the default."""

    def values(partition: _WindowRows) -> list[Any]:
        rows = partition.arguments
        shifted = [index + sign * int(row[1]) for index, row in enumerate(rows)]
        return [rows[other][0] if 0 <= other < len(rows) else row[2] for other, row in zip(shifted, rows, strict=True)]

    return values


def _dense_ranks(partition: _WindowRows) -> list[int]:
    """Return the number of distinct values up to each row's."""
    starts = sorted({start for start, _ in partition.peers})
    return [starts.index(start) + 1 for start, _ in partition.peers]


def _tiles(partition: _WindowRows) -> list[int]:
    """Return the number of each row's tile. The first tiles are larger by one row, if they cannot all be equal."""
    number, tiles = len(partition.arguments), int(partition.arguments[0][0])
    size, larger = divmod(number, tiles)
    sizes = [size + (tile < larger) for tile in range(min(tiles, number))]
    return [tile + 1 for tile, length in enumerate(sizes) for _ in range(length)]


def _total(values: list[float]) -> float | None:
    """Return the sum of values; nothing if there are none, or if it overflows."""
    total = sum(values)
    return total if values and math.isfinite(total) else None


def _average(values: list[float]) -> float | None:
    """Return the average of values, if it has one."""
    total = _total(values)
    return None if total is None else total / len(values)


_FUNCTIONS: Mapping[str, Callable[[_WindowRows], list[Any]]] = {
    "row_number": lambda partition: list(range(1, len(partition.peers) + 1)),
    "rank": lambda partition: [start + 1 for start, _ in partition.peers],
    "dense_rank": _dense_ranks,
    "percent_rank": lambda partition: [start / max(1, len(partition.peers) - 1) for start, _ in partition.peers],
    "cume_dist": lambda partition: [end / len(partition.peers) for _, end in partition.peers],
    "ntile": _tiles,
    "lag": _shifted(-1),
    "lead": _shifted(1),
    "first_value": _ends(0),
    "last_value": _ends(-1),
    "sum": _over_frame(_total),
    "avg": _over_frame(_average),
    "min": _over_frame(lambda values: min(values, default=None)),
    "max": _over_frame(lambda values: max(values, default=None)),
    "count": _over_frame(len),
}
