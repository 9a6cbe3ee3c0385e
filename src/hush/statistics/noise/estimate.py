"""The result type of the statistics: a value, its confidence interval, and the cost of the release."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from hush.accounting import Event
from hush.accounting.receipts import Receipt
from hush.frames import to_arrow, to_pandas, to_polars
from hush.guarantee import Guarantee
from hush.notebook import card, clean, short_repr

_MOST_LINES = 20
_NO_PARTS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A private statistic with its confidence interval and its privacy guarantee.

    Printing it, or showing it in a notebook, displays the values with their intervals, and the guarantee.

    Intervals cover the noise only: they contain the answer over the bounded contributions (the rows that were kept,
    clamped to the bounds), not the raw answer. Each entry's interval holds on its own.

    >>> from hush.randomness import TestSource
    >>> from hush.statistics import count
    >>> people = count(["a", "b", "b"], units=[1, 2, 3], groups=["a", "b", "b"], keys=["a", "b"],
    ...                epsilon=50.0, source=TestSource(1))
    >>> int(people["b"].value), people["b"].confidence, list(people)
    (2, 0.95, ['a', 'b'])

    Attributes:
        value: A number; or an array with one entry per group, or per coordinate.
        low: The lower end of the confidence interval of each entry.
        high: The upper end.
        confidence: The probability with which an interval contains the answer.
        noise_scale: The scale of the noise on the total: the Laplace scale or the Gaussian standard deviation. For a
            mean, it is that of the numerator around the middle of the bounds. For several noises that add up, it is
            the root of the sum of their squares.
        guarantee: The guarantee of the release, for all of its parts together.
        event: The same for accountants.
        keys: The group of each entry; None without groups.
        bounds: The bounds that were learned (`LearnBounds`), to which values were clamped. Values beyond them are cut
            off, which the interval does not count: it is that of the clamped values. Both NaN if they were lost in the
            noise, and then so are all values. None if bounds were passed.
        parts: Other statistics that the same release contains, at no further cost and under the same guarantee.
        receipt: The cost of the release and the rest of the budget; None without a ledger.
    """

    value: Any
    low: Any
    high: Any
    confidence: float
    noise_scale: float
    guarantee: Guarantee
    event: Event
    keys: tuple[Any, ...] | None = None
    bounds: tuple[float, float] | None = None
    parts: Mapping[str, Estimate] = field(default_factory=lambda: _NO_PARTS)
    receipt: Receipt | None = field(default=None, compare=False)

    def __getitem__(self, key: Any) -> Estimate:
        """Return the estimate for one group."""
        if self.keys is None or key not in self.keys:
            raise KeyError(key)
        index = self.keys.index(key)
        parts = MappingProxyType({name: part[key] for name, part in self.parts.items()})
        return replace(
            self, value=self.value[index], low=self.low[index], high=self.high[index], keys=None, parts=parts
        )

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the keys of the groups."""
        return iter(self.keys or ())

    def to_pandas(self) -> Any:
        """Return the values with the ends of their intervals as a data frame of pandas, one row for each entry."""
        return to_pandas(self._columns())

    def to_polars(self) -> Any:
        """Return the values with the ends of their intervals as a data frame of Polars."""
        return to_polars(self._columns())

    def to_arrow(self) -> Any:
        """Return the values with the ends of their intervals as a table of Arrow."""
        return to_arrow(self._columns())

    def __repr__(self) -> str:
        """Return one line: the value, its interval and its cost."""
        values: dict[str, object] = {"value": self.value, "low": self.low, "high": self.high}
        if self.keys is not None:
            values["keys"] = self.keys
        values |= {"confidence": self.confidence, "epsilon": self.guarantee.epsilon, "delta": self.guarantee.delta}
        if self.parts:
            values["parts"] = list(self.parts)
        return short_repr("Estimate", values)

    def __str__(self) -> str:
        """Return the values with their intervals, one line for each, and the guarantee."""
        head, rows = self._table()
        lines = [head, *rows[:_MOST_LINES]]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        aligned = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        hidden = len(rows) - _MOST_LINES
        return "\n".join([*aligned, *([f"and {hidden:,} more"] if hidden > 0 else []), *self._notes()])

    def _repr_html_(self) -> str:
        """Return the estimate for a notebook."""
        head, rows = self._table()
        return card("Private estimate", {}, head=head, rows=rows, notes=self._notes())

    def _notes(self) -> list[str]:
        """Return the lines below the values."""
        bounds = [] if self.bounds is None else [_about_bounds(*self.bounds)]
        parts = [f"further parts of the same release: {', '.join(self.parts)}"] if self.parts else []
        receipt = [] if self.receipt is None else [str(self.receipt)]
        return [*bounds, *parts, str(self.guarantee), *receipt]

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Return the head and the rows that people read."""
        columns = self._columns()
        title = f"{100 * self.confidence:.10g} % interval"
        names = [name for name, _ in columns[:-2]]
        rows = [
            [*map(_written, row[:-2]), f"{_written(row[-2])} to {_written(row[-1])}"]
            for row in zip(*(values for _, values in columns), strict=True)
        ]
        return [*names, title], rows

    def _columns(self) -> list[tuple[str, list[Any]]]:
        """Return the entries as named columns: the position or the group, the value, and the ends of its interval."""
        ends = [("value", _listed(self.value)), ("low", _listed(self.low)), ("high", _listed(self.high))]
        if self.keys is not None:
            return [("group", list(self.keys)), *ends]
        shape = np.shape(self.value)
        if not shape:
            return ends
        places = [place[0] if len(shape) == 1 else str(place) for place in np.ndindex(*shape)]
        return [("entry", places), *ends]


def _about_bounds(lower: float, upper: float) -> str:
    """Return what learned bounds mean for the values."""
    if math.isnan(lower):
        return "No value: the learned bounds were lost in the noise."
    return f"Values were clamped to the learned bounds {lower:.6g} to {upper:.6g}, and the interval is theirs."


def _listed(value: Any) -> list[Any]:
    """Return the entries of a value as plain numbers."""
    return list(np.ravel(np.asarray(value)).tolist())


def _written(value: Any) -> str:
    """Return a value for display on one line."""
    return f"{value:.6g}" if isinstance(value, float) else clean(value).replace("\n", " ")
