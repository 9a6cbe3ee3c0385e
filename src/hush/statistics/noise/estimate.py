"""What a statistic is returned as."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from hush.accounting import Event
from hush.guarantee import Guarantee

_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A private statistic, how far off it may be, and what it costs.

    Attributes:
        value: A number, or an array: one entry for each group, or each coordinate.
        low: Lower end of the confidence interval of each entry by itself. It covers what would be reported without
            noise: of the rows that were kept, clamped to the bounds. What bounding leaves out is not in it.
        high: Upper end.
        confidence: With which probability the interval covers.
        noise_scale: Of the noise on the total (of a mean, on the numerator around the middle of the bounds): Laplace's
            scale or the Gaussian's standard deviation; of several that add up, the root of the sum of their squares.
        guarantee: What the release gives away, all of its parts together.
        event: The same for accountants.
        keys: Which group each entry is about; None without groups.
        parts: Other statistics that the same release contains: no further charge, the same guarantee.
    """

    value: Any
    low: Any
    high: Any
    confidence: float
    noise_scale: float
    guarantee: Guarantee
    event: Event
    keys: tuple[Any, ...] | None = None
    parts: Mapping[str, Estimate] = field(default_factory=lambda: _NONE)

    def __getitem__(self, key: Any) -> Estimate:
        """Return the estimate of one group."""
        if self.keys is None or key not in self.keys:
            raise KeyError(key)
        place = self.keys.index(key)
        parts = MappingProxyType({name: part[key] for name, part in self.parts.items()})
        return replace(
            self, value=self.value[place], low=self.low[place], high=self.high[place], keys=None, parts=parts
        )

    def __iter__(self) -> Iterator[Any]:
        """Go through the keys of the groups."""
        return iter(self.keys or ())
