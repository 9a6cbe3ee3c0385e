"""Contribution limits for a query that names none: chosen privately, on a share of its epsilon.

Without limits, nobody knows how much noise a query needs. With wrong ones, an answer is badly noisy, or leaves most of
the data out without a word. So units are counted by how many rows and groups they have, in powers of two, with noise,
and limits are chosen from these counts (`hush.statistics.noise.levels`). The limits are then public. The answer reports
them, and further queries about the same rows and groups use them for free.

Rows are limited in total, over all groups (`TotalLimits`): Laplace noise then covers what a unit has, and not the
product of its busiest group and its number of groups. Gaussian noise grows with the square root of the number of groups
only, so if it is possible, rows in each group (`ContributionLimits`) may be the better limit. Then both are measured,
and the one with less noise is used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from hush.accounting import Event
from hush.randomness import RandomSource
from hush.sql.syntax.releases import Quantity
from hush.sql.write.plan import QueryPlan
from hush.statistics import (
    MAX_ROWS_PER_UNIT,
    Block,
    CalibratedPlan,
    ContributionLimits,
    LaplaceNoise,
    TotalLimits,
    plan_noise,
)
from hush.statistics.noise import NUM_LEVELS, ChosenLimit, choose_limit

Limits = ContributionLimits | TotalLimits
LevelCounts = Mapping[tuple[int, int, int], int]


class Measure(StrEnum):
    """What units are counted by."""

    ROWS = "rows"
    GROUPS = "groups"
    ROWS_IN_A_GROUP = "rows in a group"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedLimits:
    """The limits that a caller has given; None for those to choose. Rows are limited in each group or in total."""

    rows_per_unit: int | None = None
    groups_per_unit: int | None = None
    rows_in_total: int | None = None

    def __post_init__(self) -> None:
        """Check the limits that were given."""
        ContributionLimits(rows_per_unit=_or_one(self.rows_per_unit), groups_per_unit=_or_one(self.groups_per_unit))
        TotalLimits(rows_in_total=_or_one(self.rows_in_total), groups_per_unit=_or_one(self.groups_per_unit))

    def changed(self, *, rows_per_unit: int | None, groups_per_unit: int | None) -> RequestedLimits:
        """Return the same limits, with those replaced that are given here."""
        rows = self.rows_per_unit if rows_per_unit is None else rows_per_unit
        groups = self.groups_per_unit if groups_per_unit is None else groups_per_unit
        in_total = self.rows_in_total if rows_per_unit is None else None
        return RequestedLimits(rows_per_unit=rows, groups_per_unit=groups, rows_in_total=in_total)

    def measures(self, plan: QueryPlan, *, gaussian: bool = False) -> tuple[Measure, ...]:
        """Return what has to be measured before the limits of a plan can be chosen.

        Noise on rows and values depends on a unit's rows; noise on counts of units, and group selection, on its groups.

        Args:
            plan: The plan.
            gaussian: Whether the noise may be Gaussian.
        """
        counts_rows = bool(plan.trees) or any(release.quantity is not Quantity.UNITS for release in plan.releases)
        counts_units = any(release.quantity is Quantity.UNITS for release in plan.releases)
        many_groups = bool(plan.keys) and plan.num_groups != 1
        choose_rows = counts_rows and self.rows_per_unit is None and self.rows_in_total is None
        in_each_group = choose_rows and many_groups and gaussian
        # With a limit on the rows of each group, noise on rows depends on the number of groups as well.
        needs_groups = counts_units or not plan.public_keys or in_each_group or self.rows_per_unit is not None
        measures = [Measure.ROWS] if choose_rows else []
        measures += [Measure.GROUPS] if many_groups and needs_groups and self.groups_per_unit is None else []
        measures += [Measure.ROWS_IN_A_GROUP] if in_each_group else []
        return tuple(measures)

    def candidates(self, plan: QueryPlan, chosen: Mapping[Measure, ChosenLimit]) -> list[Limits]:
        """Return the limits to consider for a plan, from those given and those chosen. What is given goes first."""
        every_group = plan.num_groups if plan.keys else 1
        groups = self.groups_per_unit
        if groups is None:
            groups = chosen[Measure.GROUPS].limit if Measure.GROUPS in chosen else every_group or 1
            groups = min(groups, every_group or groups)
        if self.rows_in_total is not None:
            return [TotalLimits(rows_in_total=self.rows_in_total, groups_per_unit=groups)]
        if self.rows_per_unit is not None or Measure.ROWS not in chosen:
            return [ContributionLimits(groups_per_unit=groups, rows_per_unit=self.rows_per_unit or 1)]
        rows = {measure: min(choice.limit, MAX_ROWS_PER_UNIT) for measure, choice in chosen.items()}
        limits: list[Limits] = [TotalLimits(rows_in_total=rows[Measure.ROWS], groups_per_unit=groups)]
        if Measure.ROWS_IN_A_GROUP in chosen:
            in_each_group = rows[Measure.ROWS_IN_A_GROUP]
            limits.append(ContributionLimits(groups_per_unit=groups, rows_per_unit=in_each_group))
        return limits


def _counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _or_one(limit: int | None) -> int:
    """Return a limit, or 1 if there is none."""
    return 1 if limit is None else limit


@dataclass(frozen=True, slots=True)
class LimitsPlan:
    """The noise on the counts of units by level, fixed before they are read.

    Attributes:
        measures: What units are counted by.
        noise: The noise on all counts.
    """

    measures: tuple[Measure, ...]
    noise: CalibratedPlan

    @property
    def event(self) -> Event:
        """What choosing the limits costs."""
        return self.noise.event

    def choose(self, counts: LevelCounts, source: RandomSource) -> dict[Measure, ChosenLimit]:
        """Return the limits, from exact counts of units by their levels, in the order of `Measure`."""
        exact = np.zeros((len(Measure), NUM_LEVELS), dtype=np.int64)
        for levels, num_units in counts.items():
            for measure, level in enumerate(levels):
                exact[measure, level] += num_units
        rows: NDArray[np.int64] = exact[[list(Measure).index(measure) for measure in self.measures]]
        noisy = self.noise.release(rows.reshape(1, -1), source).reshape(rows.shape)
        scales = self.noise.block_scales
        return {measure: choose_limit(noisy[index], scales[index]) for index, measure in enumerate(self.measures)}


def plan_limits(measures: tuple[Measure, ...], epsilon: float) -> LimitsPlan:
    """Return how limits are chosen at an epsilon. A unit is in one level of each measure."""
    blocks = tuple(Block.disjoint(1, columns=NUM_LEVELS, whole=True) for _ in measures)
    return LimitsPlan(measures, plan_noise(blocks, groups_per_unit=1, epsilon=epsilon, noise=LaplaceNoise()))


def limits_to_json(chosen: Mapping[Measure, ChosenLimit]) -> str:
    """Return chosen limits as JSON, for a budget to store."""
    return json.dumps({measure.value: asdict(limit) for measure, limit in chosen.items()})


def limits_from_json(text: str) -> dict[Measure, ChosenLimit]:
    """Return the limits that `limits_to_json` wrote."""
    return {Measure(word): ChosenLimit(**limit) for word, limit in json.loads(text).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsInForce:
    """The limits that an answer was computed with, and where they come from.

    Attributes:
        limits: The limits.
        chosen: What was chosen privately, by measure; empty if all limits were given.
        epsilon: The part of the answer's epsilon that choosing them cost; 0 if they were given or known already.
    """

    limits: Limits
    chosen: Mapping[Measure, ChosenLimit] = field(default_factory=dict)
    epsilon: float = 0.0

    def sentences(self, plan: QueryPlan) -> list[str]:
        """Return the limits in words, with what they leave out."""
        plan_has_groups = bool(plan.keys)
        in_groups = f" in at most {_counted(self.limits.groups_per_unit, 'group')}" if plan_has_groups else ""
        if plan.sets:  # each row counts in every grouping
            in_groups += " of all groupings together" if plan.in_total else " of each grouping"
        if isinstance(self.limits, TotalLimits):
            counted = f"a unit counts with at most {_counted(self.limits.rows_in_total, 'row')}{in_groups}"
        else:
            per_group = " per group" if plan_has_groups else ""
            counted = f"a unit counts with at most {_counted(self.limits.rows_per_unit, 'row')}{per_group}{in_groups}"
        if not self.chosen:
            return [f"Limits, as you set them: {counted}. The answer leaves out the rest."]
        paid = f"chosen privately at epsilon {self.epsilon:.3g}" if self.epsilon else "chosen by an earlier answer"
        lines = [f"Limits, {paid}: {counted}."]
        unused = Measure.ROWS_IN_A_GROUP if isinstance(self.limits, TotalLimits) else Measure.ROWS
        for measure, choice in self.chosen.items():
            if measure is unused:
                continue
            most = choice.beyond + choice.beyond_error
            lines.append(
                f"About {choice.beyond:,.0f} units, at most {most:,.0f} (95 %), have more than {choice.limit:,} "
                f"{measure.value}. One of them could hold any number. Intervals do not cover what is beyond the limit."
            )
        return lines
