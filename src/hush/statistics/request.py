"""The checked request that every statistic starts from, and the steps from exact totals to an answer.

The flow is the same for all statistics on arrays:

`checked_request`          arguments and columns in; a `StatisticRequest` of codes, limits and budget out
`StatisticRequest.bound`   bounded contributions (`hush.statistics.bounding`)
the statistic's own part   integer totals of the groups, and a `Block` that states their sensitivity
`StatisticRequest.answer`  select groups, add noise: an `Answer` with guarantee and event
`Answer.estimate`          post-processing into the `Estimate` that you get
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting import ComposedEvent, Event
from hush.errors import InvalidArgument, Unsupported, check_confidence, check_delta, check_instance, check_positive
from hush.guarantee import Guarantee, Unit
from hush.randomness import RandomSource, source_or_default
from hush.statistics.bounding import Bounded, bounded
from hush.statistics.columns import MISSING, Codes, EachRow, check_keys, codes_of, key_codes, labels_of, length_of
from hush.statistics.limits import ContributionLimits
from hush.statistics.noise.budget_split import ReleasePlan, check_selection_delta, claim, plan_release
from hush.statistics.noise.estimate import Estimate
from hush.statistics.noise.release import Block, GaussianNoise, LaplaceNoise, NoiseKind, NoisePlan
from hush.statistics.noise.selection import Selection

_FIXED_POINT_BITS = 30  # 2^33 rows of that many bits add up without wrapping around
_MIN_FIXED_POINT_BITS = 4
_NOISE_BITS = 44  # noise of more steps than 2^44 is finer than anyone can use


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBounds:
    """The bounds of one column that were learned before a release.

    Attributes:
        bounds: (lower, upper); both NaN if all bins are lost in the noise.
        event: The cost of learning them.
        epsilon: The epsilon of learning and of the release that follows, together.
    """

    bounds: tuple[float, float]
    event: Event
    epsilon: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticRequest:
    """A checked request for a statistic.

    Attributes:
        units: The code of each row's unit; -1 for rows without one.
        groups: The code of each row's group; -1 for rows without one.
        keys: The groups in the order of their codes; None without groups.
        private_keys: Whether the keys were read from the data, so that groups must be selected privately.
        unit: The privacy unit.
        limits: The contribution bounds.
        epsilon: The budget of the release.
        delta: The delta of the release.
        noise: The kind of noise; None for the kind with the smaller error.
        selection: How groups are selected; None for the default.
        confidence: The confidence of the intervals.
        source: The source of all randomness.
        learned: The bounds that were learned on a share of the budget; None if they are public.
    """

    units: Codes
    groups: Codes
    keys: tuple[Any, ...] | None
    private_keys: bool
    unit: Unit
    limits: ContributionLimits
    epsilon: float
    delta: float
    noise: NoiseKind | None
    selection: Selection | None
    confidence: float
    source: RandomSource
    learned: ColumnBounds | None = None

    @property
    def groups_per_unit(self) -> int:
        """In how many groups one unit can count."""
        public_number = 1 if self.keys is None else len(self.keys)
        return self.limits.groups_among(None if self.private_keys else public_number)

    @property
    def num_groups(self) -> int:
        """The number of rows that totals have: at least one, which may be empty."""
        return 1 if self.keys is None else max(len(self.keys), 1)

    @property
    def wrong(self) -> float:
        """The probability with which an interval may miss."""
        return 1 - self.confidence

    def steps(self, shares: float = 1.0) -> int:
        """Return how many integer steps a contribution of size 1 has: 2^30, or fewer if noise would be too large.

        It depends on public numbers only.

        Args:
            shares: One over the block's share of the budget.
        """
        # In units of one contribution; its binary exponent and the grid's bits together must fit.
        noise_scale = self.groups_per_unit * self.limits.rows_per_unit * shares / min(self.epsilon, 1.0)
        bits = min(_FIXED_POINT_BITS, _NOISE_BITS - math.frexp(noise_scale)[1])
        return 1 << max(bits, _MIN_FIXED_POINT_BITS)

    def bound(self, present: NDArray[np.bool_] | None = None, *, sample_rows: bool = True) -> Bounded:
        """Return the bounded contributions of all units.

        Args:
            present: The rows to use; None for all.
            sample_rows: Whether to sample rows. If not, the statistic clamps the sums of each unit itself.
        """
        units = self.units if present is None else np.where(present, self.units, MISSING)
        return bounded(
            units, self.groups, self.num_groups, limits=self.limits, source=self.source, sample_rows=sample_rows
        )

    def plan(self, blocks: tuple[Block, ...]) -> ReleasePlan:
        """Return the noise, and the selection of groups if they are not public."""
        return plan_release(
            blocks,
            groups_per_unit=self.groups_per_unit,
            public_groups=not self.private_keys,
            epsilon=self.epsilon,
            delta=self.delta,
            noise=self.noise,
            selection=self.selection,
        )

    def select(self, plan: ReleasePlan, num_units: NDArray[np.int64]) -> tuple[Codes, tuple[Any, ...] | None]:
        """Return the codes of the groups to reveal, and their keys.

        Args:
            plan: The plan of this request.
            num_units: The number of units in each group.
        """
        if plan.selection is None:
            return np.arange(self.num_groups), self.keys
        chosen = plan.choose_groups(num_units, self.source)
        return chosen, tuple((self.keys or ())[code] for code in chosen)

    def answer(self, totals: NDArray[np.int64], num_units: NDArray[np.int64], blocks: tuple[Block, ...]) -> Answer:
        """Select groups, add noise to their totals, and return them with the guarantee.

        Args:
            totals: The exact totals, with one row per group.
            num_units: The number of units in each group.
            blocks: The columns of the totals, and their sensitivities.
        """
        plan = self.plan(blocks)
        chosen, keys = self.select(plan, num_units)
        guarantee, event = plan.claim(self.source, unit=self.unit)
        noisy = plan.noise.release(totals[chosen], self.source)
        answer = Answer(noisy, plan.noise, keys, self.confidence, guarantee, event)
        return answer if self.learned is None else self._with_learning(answer, plan, self.learned)

    def _with_learning(self, answer: Answer, plan: ReleasePlan, learned: ColumnBounds) -> Answer:
        """Return an answer whose cost includes that of its bounds."""
        # Basic composition: it also holds for a release whose bounds come from the first one.
        event = ComposedEvent((learned.event, plan.event))
        method = f"{plan.noise.kind} noise on bounded contributions, within learned bounds"
        guarantee, event_of_both = self.claim(event, learned.epsilon, plan.spent_delta, method)
        return replace(answer, guarantee=guarantee, event=event_of_both, bounds=learned.bounds)

    def claim(self, event: Event, epsilon: float, delta: float, method: str) -> tuple[Guarantee, Event]:
        """Return the guarantee of a release by another mechanism, and its event for accountants."""
        return claim(event, epsilon, delta, method, unit=self.unit, source=self.source)


@dataclass(frozen=True, slots=True)
class Answer:
    """Noisy totals of the groups that are revealed, and the common parts of all estimates made from them.

    Attributes:
        totals: The noisy totals, with one row per group.
        plan: The noise that they have.
        keys: The groups; None without groups.
        confidence: The confidence of the intervals.
        guarantee: The guarantee of the release.
        event: The same for accountants.
        bounds: The bounds that were learned; None if they are public, both NaN if they were lost in the noise.
    """

    totals: NDArray[np.int64]
    plan: NoisePlan
    keys: tuple[Any, ...] | None
    confidence: float
    guarantee: Guarantee
    event: Event
    bounds: tuple[float, float] | None = None

    def block(self, index: int) -> Answer:
        """Return the columns of one block. The cost remains that of all blocks together."""
        block, scale = self.plan.blocks[index], self.plan.block_scales[index]
        start = sum(before.columns for before in self.plan.blocks[:index])
        plan = replace(self.plan, blocks=(block,), block_scales=(scale,))
        return replace(self, totals=self.totals[:, start : start + block.columns], plan=plan)

    def estimate(
        self,
        value: NDArray[Any],
        low: NDArray[Any],
        high: NDArray[Any],
        noise_scale: float,
        parts: Mapping[str, Estimate] | None = None,
    ) -> Estimate:
        """Return an estimate: arrays with an entry per group; without groups, their only entry as a number."""
        arrays: tuple[NDArray[Any], ...] = (value, low, high)
        if self.bounds is not None and math.isnan(self.bounds[0]):  # a function of noisy counts
            arrays = tuple(np.full(np.shape(value), end) for end in (math.nan, -math.inf, math.inf))
        entries: tuple[Any, ...] = arrays if self.keys is not None else tuple(array[0].tolist() for array in arrays)
        return Estimate(
            value=entries[0],
            low=entries[1],
            high=entries[2],
            confidence=self.confidence,
            noise_scale=float(noise_scale),
            guarantee=self.guarantee,
            event=self.event,
            keys=self.keys,
            bounds=self.bounds,
            parts=MappingProxyType(dict(parts or {})),
        )


def checked_request(
    values: Any,
    units: Any,
    rows_per_unit: int,
    epsilon: float,
    delta: float,
    groups: Any,
    keys: Any,
    groups_per_unit: int,
    noise: NoiseKind | None,
    selection: Selection | None,
    confidence: float,
    source: RandomSource | None,
) -> StatisticRequest:
    """Check a request. No message depends on the data, apart from the lengths of columns and the types of arrays.

    The arguments are those of `hush.statistics.count`.
    """
    check_positive("epsilon", epsilon)
    check_delta("delta", delta)
    check_confidence("confidence", confidence)
    if noise is not None:
        check_instance("noise", noise, (LaplaceNoise, GaussianNoise), "Or None for the kind with the smaller error")
    if selection is not None:
        check_instance("selection", selection, Selection, "Such as Selection.truncated_geometric()")
    limits = ContributionLimits(rows_per_unit=rows_per_unit, groups_per_unit=groups_per_unit)
    length = length_of("values", values)
    unit_codes, unit = _unit_codes(units, length, limits)
    group_codes, labels = _group_codes(groups, keys, length, delta)
    return StatisticRequest(
        units=unit_codes,
        groups=group_codes,
        keys=labels,
        private_keys=groups is not None and keys is None,
        unit=unit,
        limits=limits,
        epsilon=float(epsilon),
        delta=float(delta),
        noise=noise,
        selection=selection,
        confidence=float(confidence),
        source=source_or_default(source),
    )


def _unit_codes(units: Any, length: int, limits: ContributionLimits) -> tuple[Codes, Unit]:
    """Return the code of each row's unit, and what the unit is."""
    if isinstance(units, EachRow):
        if limits != ContributionLimits():
            raise InvalidArgument(
                "rows_per_unit", limits.rows_per_unit, "1, and groups_per_unit=1", "With EachRow(), a unit is one row"
            )
        return np.arange(length), Unit.example()
    if units is None:
        raise InvalidArgument("units", units, "an id for each row", "For privacy per row, pass units=EachRow()")
    _check_length("units", units, length)
    return codes_of("units", units)[0], Unit.user()


def _group_codes(groups: Any, keys: Any, length: int, delta: float) -> tuple[Codes, tuple[Any, ...] | None]:
    """Return the code of each row's group, and the groups in the order of their codes."""
    if groups is None:
        if keys is not None:
            raise InvalidArgument("groups", groups, "a key for each row", "You passed keys=")
        return np.zeros(length, dtype=np.int64), None
    _check_length("groups", groups, length)
    if keys is not None:
        public_keys = check_keys("keys", keys)
        return key_codes("groups", groups, public_keys), public_keys
    check_selection_delta(delta)
    codes, labels = labels_of("groups", groups)
    return codes, tuple(labels)


def _check_length(name: str, column: Any, length: int) -> None:
    if length_of(name, column) != length:
        raise InvalidArgument(
            name, type(column).__name__, "one entry for each value", "All columns belong to the same rows"
        )


def check_ungrouped(request: StatisticRequest, method: str) -> None:
    """Refuse a request with groups, for methods that have no proof for them."""
    if request.keys is not None:
        raise Unsupported(f"{method} by group", "Ask for one group at a time: pass the rows of that group only")
