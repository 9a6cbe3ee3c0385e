"""An estimate of what chosen limits leave out. Intervals of counts and sums allow for it."""

from __future__ import annotations

from dataclasses import dataclass

from hush.sql.syntax.releases import Quantity, QueryStatistic


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The expected excess beyond the limits of a query: ``rows``, and ``units`` in groups that do not count."""

    rows: float = 0.0
    units: float = 0.0

    def widened(self, statistic: QueryStatistic, ends: tuple[float, float]) -> tuple[float, float]:
        """Return an interval that allows for it. Each row that is left out could have any value within the bounds."""
        if statistic.kind == "count":
            is_units = statistic.parts[0].quantity is Quantity.UNITS
            return ends[0], ends[1] + (self.units if is_units else self.rows)
        if statistic.kind not in ("sum", "shared sum"):
            return ends
        return ends[0] + self.rows * min(statistic.bounds[0], 0.0), ends[1] + self.rows * max(statistic.bounds[1], 0.0)
