"""Contribution bounds: how many rows and groups of one privacy unit count.

The same limits hold wherever contributions are bounded. `hush.statistics.bounding` enforces them on arrays, and
`hush.sql` writes queries that enforce them on an engine. `TotalLimits` is for queries only.
"""

from __future__ import annotations

from dataclasses import dataclass

from hush.errors import InvalidArgument, check_count

# Noise grows in proportion to the limits, so larger ones would drown any answer.
MAX_ROWS_PER_UNIT = 10**6
MAX_GROUPS_PER_UNIT = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class ContributionLimits:
    """How much one privacy unit may contribute to one release.

    Larger limits keep more of the data and need more noise: the noise scale is proportional to ``rows_per_unit``, and
    to ``groups_per_unit`` (Laplace) or its square root (Gaussian).

    >>> ContributionLimits(rows_per_unit=3)
    ContributionLimits(groups_per_unit=1, rows_per_unit=3)

    Attributes:
        groups_per_unit: In how many groups a unit counts (L0). If it is in more, a random choice of them is kept.
        rows_per_unit: How many rows of a unit count in one group. Sums over a unit's rows are clamped to this many
            times the bounds of one row.
    """

    groups_per_unit: int = 1
    rows_per_unit: int = 1

    def __post_init__(self) -> None:
        """Check that both limits are counts of a sensible size."""
        for name, largest in (("groups_per_unit", MAX_GROUPS_PER_UNIT), ("rows_per_unit", MAX_ROWS_PER_UNIT)):
            _check_limit(self, name, largest)

    def groups_among(self, num_groups: int | None) -> int:
        """Return in how many groups a unit can count if there are ``num_groups``; None if that number is not public.

        >>> limits = ContributionLimits(groups_per_unit=5)
        >>> limits.groups_among(2), limits.groups_among(None)
        (2, 5)
        """
        return self.groups_per_unit if num_groups is None else min(self.groups_per_unit, max(num_groups, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalLimits:
    """How much one privacy unit may contribute to one release, with one limit on rows for all groups together.

    Laplace noise is proportional to what a unit adds to all groups, in absolute value and in total. If units have rows
    in many groups but few in each, this limit needs far less noise than ``groups_per_unit * rows_per_unit`` would.

    >>> TotalLimits(rows_in_total=512, groups_per_unit=32).groups_among(8)
    8

    Attributes:
        rows_in_total: How many rows of a unit count, over all groups.
        groups_per_unit: In how many groups a unit counts.
    """

    rows_in_total: int
    groups_per_unit: int

    def __post_init__(self) -> None:
        """Check that both limits are counts of a sensible size."""
        for name, largest in (("groups_per_unit", MAX_GROUPS_PER_UNIT), ("rows_in_total", MAX_ROWS_PER_UNIT)):
            _check_limit(self, name, largest)

    def groups_among(self, num_groups: int | None) -> int:
        """Return in how many groups a unit can count if there are ``num_groups``; None if that number is not public."""
        return self.groups_per_unit if num_groups is None else min(self.groups_per_unit, max(num_groups, 1))


def _check_limit(limits: object, name: str, largest: int) -> None:
    """Check one limit, and store it as an int."""
    limit = check_count(name, getattr(limits, name))
    if not limit <= largest:
        raise InvalidArgument(name, limit, f"at most {largest}", "Noise grows with it")
    object.__setattr__(limits, name, limit)
