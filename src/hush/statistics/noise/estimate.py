"""The result type of the statistics: a value, its confidence interval, and the cost of the release."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from hush.accounting import Event
from hush.accounting.receipts import Receipt
from hush.guarantee import Guarantee

_NO_PARTS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A private statistic with its confidence interval and its privacy guarantee.

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

    def __str__(self) -> str:
        """Return a single number in words; the fields for several."""
        if self.keys is not None or not isinstance(self.value, (int, float)):
            return repr(self)
        if self.bounds is not None and math.isnan(self.bounds[0]):
            return "No value: the learned bounds were lost in the noise."
        interval = f"{100 * self.confidence:.10g} % interval of the noise: {self.low:.6g} to {self.high:.6g}"
        text = f"{self.value:.6g} ({interval})."
        if self.bounds is None:
            return text
        ends = f"{self.bounds[0]:.6g} to {self.bounds[1]:.6g}"
        return f"{text} Values were clamped to the learned bounds {ends}, and the interval is theirs."

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the keys of the groups."""
        return iter(self.keys or ())
