"""What all statistics share: whose rows, which groups, at what price; and the way from exact totals to an answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting import ComposedEvent, Event, events
from hush.errors import InvalidArgument, Unsupported, check_count, check_delta, check_instance, check_positive
from hush.guarantee import Guarantee, Relation, Unit
from hush.mechanisms.noise import check_confidence
from hush.randomness import RandomSource, assumptions_of, source_or_default
from hush.statistics.bounding import Bounded, bounded
from hush.statistics.columns import MISSING, Codes, EachRow, check_keys, codes_of, key_codes, labels_of, length_of
from hush.statistics.noise.estimate import Estimate
from hush.statistics.noise.release import Block, GaussianNoise, LaplaceNoise, NoiseKind, NoisePlan, plan_noise
from hush.statistics.noise.selection import Selection, SelectionPlan, TruncatedGeometric

_STEPS = 30  # bits of a fixed-point number: 2^33 rows add up without wrapping around
SELECTION_SHARE = 1 / 3  # of epsilon, for telling which groups there are
ONE_ID = "every person has one id in users"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLimits:
    """How much of a user counts.

    Attributes:
        rows_per_unit: Rows of a user in a group; of more, so many are chosen at random.
        groups_per_unit: Groups of a user; of more, so many are chosen at random.
    """

    rows_per_unit: int = 1
    groups_per_unit: int = 1

    def __post_init__(self) -> None:
        """Check both numbers."""
        for name in ("rows_per_unit", "groups_per_unit"):
            if not check_count(name, getattr(self, name)) <= 1 << 24:
                raise InvalidArgument(name, getattr(self, name), "at most 2^24", "Noise grows with it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A checked request. Data are codes: of users and groups, one for each row."""

    units: Codes
    groups: Codes
    keys: tuple[Any, ...] | None  # of the groups, in the order of their codes; None without groups
    private: bool  # whether keys were read from the data
    unit: Unit
    limits: UserLimits
    epsilon: float
    delta: float
    noise: NoiseKind | None
    selection: Selection
    confidence: float
    source: RandomSource

    @property
    def groups_per_unit(self) -> int:
        """How many groups one user can be in."""
        if self.keys is None:
            return 1
        return self.limits.groups_per_unit if self.private else min(self.limits.groups_per_unit, len(self.keys))

    @property
    def num_groups(self) -> int:
        """How many groups totals have, the last resort being one that is empty."""
        return 1 if self.keys is None else max(len(self.keys), 1)

    @property
    def wrong(self) -> float:
        """With which probability intervals may miss."""
        return 1 - self.confidence

    def steps(self, parts: float = 1.0) -> int:
        """Return how many units a contribution of size 1 has: 2^30, or less where noise would have too many.

        From public numbers only; ``parts`` is one over the block's share.
        """
        noise = self.groups_per_unit * self.limits.rows_per_unit * parts / min(self.epsilon, 1.0)
        return 1 << max(min(_STEPS, 44 - math.frexp(noise)[1]), 4)

    def bound(self, present: NDArray[np.bool_] | None = None, *, sample: bool = True) -> Bounded:
        """Keep what counts of each user; only rows that are ``present``, and all of them without ``sample``."""
        units = self.units if present is None else np.where(present, self.units, MISSING)
        return bounded(
            units,
            self.groups,
            self.num_groups,
            rows_per_unit=self.limits.rows_per_unit if sample else None,
            groups_per_unit=self.groups_per_unit,
            source=self.source,
        )

    def plan(self, blocks: tuple[Block, ...]) -> tuple[NoisePlan, SelectionPlan | None]:
        """Return the noise, and how groups are chosen where they are not public."""
        if not self.private:
            return self._noise(blocks, self.epsilon, self.delta), None
        share = self.epsilon * SELECTION_SHARE
        noise = self._noise(blocks, self.epsilon - share, self.delta / 2)
        left = self.delta if isinstance(noise.noise, LaplaceNoise) else self.delta / 2
        return noise, self.selection.plan(groups_per_unit=self.groups_per_unit, epsilon=share, delta=left)

    def _noise(self, blocks: tuple[Block, ...], epsilon: float, delta: float) -> NoisePlan:
        return plan_noise(blocks, groups_per_unit=self.groups_per_unit, epsilon=epsilon, delta=delta, noise=self.noise)

    def answer(self, totals: NDArray[np.int64], num_users: NDArray[np.int64], blocks: tuple[Block, ...]) -> Answer:
        """Choose groups, where they are not public, and add noise to their totals."""
        noise, selection = self.plan(blocks)
        event, delta, keys = noise.event, noise.delta, self.keys
        if selection is not None:
            chosen = np.flatnonzero(selection.choose(num_users, self.source))
            totals = totals[chosen]
            keys = tuple((keys or ())[place] for place in chosen)
            event, delta = ComposedEvent((event, selection.event)), self.delta
        method = f"{'Laplace' if isinstance(noise.noise, LaplaceNoise) else 'Gaussian'} noise on bounded contributions"
        return Answer(
            noise.release(totals, self.source),
            noise,
            keys,
            self.confidence,
            *self.claim(event, self.epsilon, delta, method),
        )

    def claim(self, event: Event, epsilon: float, delta: float, method: str) -> tuple[Guarantee, Event]:
        """Return the guarantee of a release, and its event for accountants."""
        return claim(event, epsilon, delta, method, unit=self.unit, source=self.source)


def claim(
    event: Event,
    epsilon: float,
    delta: float,
    method: str,
    *,
    unit: Unit,
    source: RandomSource,
    more: tuple[str, ...] = (),
) -> tuple[Guarantee, Event]:
    """Return the guarantee of a release of bounded totals, and its event, both with what they assume."""
    assumptions = (*(() if unit == Unit.example() else (ONE_ID,)), *more, *assumptions_of(source))
    guarantee = Guarantee(epsilon=epsilon, delta=delta, unit=unit, method=method, assumptions=assumptions)
    return guarantee, events.QualifiedEvent(event, Relation.ADD_OR_REMOVE.value, str(unit), assumptions)


@dataclass(frozen=True, slots=True)
class Answer:
    """Noisy totals of the groups that are told, and everything that estimates made of them have in common."""

    totals: NDArray[np.int64]
    plan: NoisePlan
    keys: tuple[Any, ...] | None
    confidence: float
    guarantee: Guarantee
    event: Event

    def block(self, place: int) -> Answer:
        """Return the part of one block; what it costs remains what all of them cost together."""
        block, scale = self.plan.blocks[place], self.plan.block_scales[place]
        first = sum(before.columns for before in self.plan.blocks[:place])
        plan = replace(self.plan, blocks=(block,), block_scales=(scale,))
        return replace(self, totals=self.totals[:, first : first + block.columns], plan=plan)

    def estimate(
        self,
        value: NDArray[Any],
        low: NDArray[Any],
        high: NDArray[Any],
        noise_scale: float,
        parts: Mapping[str, Estimate] | None = None,
    ) -> Estimate:
        """Return an estimate: arrays with an entry for each group, or, without groups, their only entry."""
        arrays = (value, low, high)
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
            parts=MappingProxyType(dict(parts or {})),
        )


def question(
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
) -> Question:
    """Check a request; no message depends on the data but for lengths that do not match and types of arrays."""
    check_positive("epsilon", epsilon)
    check_delta("delta", delta)
    check_confidence(confidence)
    if noise is not None:
        check_instance("noise", noise, (LaplaceNoise, GaussianNoise), "Or None for the one with the smaller error")
    if selection is not None:
        check_instance("selection", selection, Selection, "Such as TruncatedGeometric()")
    limits = UserLimits(rows_per_unit=rows_per_unit, groups_per_unit=groups_per_unit)
    length = length_of("values", values)
    user_codes, unit = _units(units, length, limits)
    group_codes, labels = _groups(groups, keys, length, delta)
    return Question(
        units=user_codes,
        groups=group_codes,
        keys=labels,
        private=groups is not None and keys is None,
        unit=unit,
        limits=limits,
        epsilon=float(epsilon),
        delta=float(delta),
        noise=noise,
        selection=selection or TruncatedGeometric(),
        confidence=float(confidence),
        source=source_or_default(source),
    )


def _units(units: Any, length: int, limits: UserLimits) -> tuple[Codes, Unit]:
    if isinstance(units, EachRow):
        if limits != UserLimits():
            raise InvalidArgument(
                "rows_per_unit", limits.rows_per_unit, "1, as groups_per_unit", "A unit is one row here"
            )
        return np.arange(length), Unit.example()
    if units is None:
        raise InvalidArgument("units", units, "an id for each row", "For privacy per row say units=EachRow()")
    _same_length("units", units, length)
    return codes_of("units", units)[0], Unit.user()


def _groups(groups: Any, keys: Any, length: int, delta: float) -> tuple[Codes, tuple[Any, ...] | None]:
    if groups is None:
        if keys is not None:
            raise InvalidArgument("groups", groups, "a key for each row", "Keys were given")
        return np.zeros(length, dtype=np.int64), None
    _same_length("groups", groups, length)
    if keys is not None:
        public = check_keys("keys", keys)
        return key_codes("groups", groups, public), public
    if not delta > 0:
        raise InvalidArgument(
            "delta", delta, "a number in (0, 1)", "Telling which groups occur needs one", "Or give public keys"
        )
    codes, labels = labels_of("groups", groups)
    return codes, tuple(labels)


def _same_length(name: str, column: Any, length: int) -> None:
    if length_of(name, column) != length:
        raise InvalidArgument(
            name, type(column).__name__, "one entry for each value", "Columns belong to the same rows"
        )


def ungrouped(asked: Question, what: str) -> Question:
    """Return the question if it has no groups, else refuse."""
    if asked.keys is not None:
        raise Unsupported(f"{what} by group", "Ask for one group at a time, by a column without the other rows")
    return asked
