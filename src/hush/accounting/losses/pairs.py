"""From events to dominating pairs: how one change of the data affects each mechanism.

    relation       how neighbours differ
    changes        a record removed, added or replaced (or ``size`` records at once); the worst of them counts
    alternatives   for each change, an event unfolds into alternatives, usually one; the worst of them counts
    pairs          an alternative is a multiset of dominating pairs whose losses add up

An event without a proven pair is refused, and the error names it. To add a mechanism, register a `leaf_pair`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import singledispatch

from hush.accounting import events as ev
from hush.accounting.losses.allocation import MIN_NOISE, AllocationProfile
from hush.accounting.losses.noise_profiles import (
    BoundedRangeProfile,
    DiscreteGaussianProfile,
    DiscreteLaplaceProfile,
    GaussianProfile,
    LaplaceProfile,
    RandomizedResponseProfile,
)
from hush.accounting.losses.profile import DominatingPair, PointwiseMax
from hush.accounting.losses.projected_profile import ProjectedGaussianProfile
from hush.accounting.losses.saddle_point import CountedPair
from hush.accounting.losses.sampled_profiles import ReplacedSample, SampledAddition, SampledGroup, SampledRemoval
from hush.errors import Unsupported
from hush.guarantee import Relation

Alternative = Counter[DominatingPair]
_MAX_ALTERNATIVES = 200  # each one is composed separately


class Direction(Enum):
    """The change from P to Q: a record is removed, added or replaced."""

    REMOVE = "remove"
    ADD = "add"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class Change:
    """The difference between two neighbouring datasets.

    Attributes:
        direction: Whether records are removed, added or replaced.
        relation: The accountant's relation. Claims hold for this relation and no other.
        size: How many records change at once.
        claimed: Whether the relation allows this change, so that claims cover it.
    """

    direction: Direction
    relation: Relation
    size: int = 1
    claimed: bool = True

    @property
    def shift(self) -> int:
        """How far a sum can move, in multiples of one record's contribution bound."""
        # A replaced record takes its contribution away and adds another, each of norm at most C.
        return self.size * (2 if self.direction is Direction.REPLACE else 1)

    def orient(self, pair: DominatingPair) -> DominatingPair:
        """Return the pair (with the record, without it) in the direction of this change."""
        return pair.swapped() if self.direction is Direction.ADD else pair

    def describe(self) -> str:
        """Return a name of the change for messages."""
        text = f"the relation {self.relation.value!r}"
        return text if self.size == 1 else f"{text} and a group of {self.size}"


def changes(relation: Relation) -> tuple[Change, ...]:
    """Return the changes that a relation allows. An accountant takes the worst of them."""
    if relation is Relation.REPLACE:
        return (Change(Direction.REPLACE, relation),)
    # Sampled mechanisms are not symmetric: a removal and an addition have different profiles, and both must hold.
    return (Change(Direction.REMOVE, relation), Change(Direction.ADD, relation))


def refuse_group(event: ev.Event, change: Change) -> None:
    """Refuse a group whose records may be in several parts."""
    if change.size > 1:
        raise Unsupported(
            f"{event.kind} under {change.describe()}: the group's records may be in several parts",
            "Use Guarantee.for_group on the result",
        )


def require_claim(event: ev.Event, change: Change) -> None:
    """Refuse a change that no claim covers because the relation does not allow it on its own."""
    if not change.claimed:
        raise Unsupported(f"{event.kind} in a part that a replaced record may leave: the claim does not cover removal")


def require_claim_on_one(event: ev.Event, change: Change) -> None:
    """Refuse a change that a claim about a single record does not cover."""
    if change.size > 1 or not change.claimed:
        raise Unsupported(
            f"{event.kind} under {change.describe()}: the claim covers one record under the accountant's relation",
            "Use Guarantee.for_group on the result, or state the claim for this relation",
        )


@singledispatch
def alternatives(event: ev.Event, change: Change) -> list[Alternative]:
    """Return the alternatives of an event under one change, each a multiset of dominating pairs."""
    return [Counter({leaf_pair(event, change): 1})]


@alternatives.register
def _(event: ev.ComposedEvent, change: Change) -> list[Alternative]:
    result: list[Alternative] = [Counter()]
    for part in event.events:
        result = all_sums(result, alternatives(part, change), event)
    return result


@alternatives.register
def _(event: ev.SelfComposedEvent, change: Change) -> list[Alternative]:
    inner = alternatives(event.event, change)
    if len(inner) == 1:
        # Dominating pairs compose, also adaptively (Zhu, Dong & Wang 2022, Theorem 10).
        return [Counter({pair: count * event.count for pair, count in inner[0].items()})]
    if event.count > _MAX_ALTERNATIVES:
        raise Unsupported(
            f"{event.kind} of a parallel composition of composed events, {event.count} times: too many cases",
            "Put a single event into each part, or use BasicAccountant",
        )
    result: list[Alternative] = [Counter()]
    # In each repetition the worst case may be another one, so all combinations count.
    for _ in range(event.count):
        result = all_sums(result, inner, event)
    return result


@alternatives.register
def _(event: ev.ParallelEvent, change: Change) -> list[Alternative]:
    refuse_group(event, change)
    stays = [option for part in event.events for option in alternatives(part, change)]
    if change.direction is not Direction.REPLACE:
        # A record that is added or removed is in one part only.
        return _worst(stays)
    # The record may leave one part and enter another: a removal in one and an addition in the other.
    leave, enter = (replace(change, direction=d, claimed=False) for d in (Direction.REMOVE, Direction.ADD))
    moves = [
        first + second
        for index, source in enumerate(event.events)
        for other, target in enumerate(event.events)
        if index != other
        for first in alternatives(source, leave)
        for second in alternatives(target, enter)
    ]
    return _limited(_distinct(stays + moves), event)


@alternatives.register
def _(event: ev.ParallelByIndexEvent, change: Change) -> list[Alternative]:
    refuse_group(event, change)
    return _worst([option for part in event.events for option in alternatives(part, change)])


@alternatives.register
def _(event: ev.GroupEvent, change: Change) -> list[Alternative]:
    # Groups of groups multiply. Each mechanism then knows what ``size`` records do to it.
    return alternatives(event.event, replace(change, size=change.size * event.size))


@alternatives.register
def _(event: ev.RandomizedResponseEvent, change: Change) -> list[Alternative]:
    # Local reports are independent, so a group of k people is k reports.
    return [Counter({leaf_pair(event, replace(change, size=1)): change.size})]


@singledispatch
def leaf_pair(event: ev.Event, change: Change) -> DominatingPair:
    """Return the dominating pair of a single mechanism."""
    raise Unsupported(
        f"{event.kind} has no privacy loss distribution that follows from its parameters",
        "Use RdpAccountant, which accepts it alone and in compositions",
    )


@leaf_pair.register
def _(event: ev.GaussianEvent, change: Change) -> DominatingPair:
    # Rotational symmetry reduces vectors to one dimension (Balle & Wang 2018, Theorem 8).
    return DominatingPair.symmetric(GaussianProfile(change.shift / event.noise_multiplier))


@leaf_pair.register
def _(event: ev.ProjectedGaussianEvent, change: Change) -> DominatingPair:
    if change.relation is Relation.REPLACE or change.size > 1:
        raise Unsupported(
            f"{event.kind} under {change.describe()}: the joint distribution of several norm estimates is not known",
            "Use Relation.ADD_OR_REMOVE and a group of 1",
        )
    # Given the public projections, a Gaussian whose shift is random and public, too (Bu et al. 2021).
    return DominatingPair.symmetric(ProjectedGaussianProfile(1 / event.noise_multiplier, event.projections))


@leaf_pair.register
def _(event: ev.LaplaceEvent, change: Change) -> DominatingPair:
    # The worst change of L1 norm s is along one axis: then the loss of the other axes is 0.
    return DominatingPair.symmetric(LaplaceProfile(change.shift / event.scale))


@leaf_pair.register
def _(event: ev.DiscreteGaussianEvent, change: Change) -> DominatingPair:
    shift = change.shift * event.sensitivity
    # The tables of tails hold 60 sigma and the shift; beyond, epsilon is in the millions.
    if not shift <= 4000 * event.sigma:
        raise Unsupported(
            f"{event.kind} under {change.describe()}: there is almost no noise for so large a change", "Use more noise"
        )
    return DominatingPair.symmetric(DiscreteGaussianProfile(event.sigma, shift))


@leaf_pair.register
def _(event: ev.DiscreteLaplaceEvent, change: Change) -> DominatingPair:
    # Integer noise has its own profile, which is symmetric, as the noise is.
    return DominatingPair.symmetric(DiscreteLaplaceProfile(event.scale, change.shift * event.sensitivity))


@leaf_pair.register
def _(event: ev.ExponentialMechanismEvent, change: Change) -> DominatingPair:
    require_claim_on_one(event, change)
    # Dong, Durfee & Rogers 2020: the pointwise worst of all mechanisms of this range.
    return DominatingPair.symmetric(BoundedRangeProfile(event.epsilon))


@leaf_pair.register
def _(event: ev.RandomizedResponseEvent, change: Change) -> DominatingPair:
    if change.relation is not Relation.REPLACE or not change.claimed:
        raise Unsupported(
            f"randomized-response under the relation {change.relation.value!r}: removing a person also removes their "
            "report, which reveals the removal",
            "Use Relation.REPLACE, under which every person reports",
        )
    return DominatingPair.symmetric(RandomizedResponseProfile(event.epsilon, event.num_values))


@leaf_pair.register
def _(event: ev.ApproximateDPEvent, change: Change) -> DominatingPair:
    require_claim_on_one(event, change)
    # Every (epsilon, delta)-DP mechanism is dominated by this one (Kairouz, Oh & Viswanath 2015, Theorem 3.2).
    return DominatingPair.symmetric(RandomizedResponseProfile(event.epsilon, failure=event.delta))


@leaf_pair.register
def _(event: ev.PoissonSampledEvent, change: Change) -> DominatingPair:
    if event.sampling_rate == 1:
        # All records are in the sample: nothing is amplified.
        return _single_pair(event, change)
    # A curve alone does not determine these mixtures. They need the distributions, which are known for Gaussians.
    if change.direction is Direction.REPLACE or change.size > 1:
        return _sampled_gaussian(event, change)
    # With P the mechanism with the record and Q without it, the sample is the mixture (1 - q) Q + q P.
    base = _single_pair(event, replace(change, direction=Direction.REMOVE))
    rate = event.sampling_rate
    return change.orient(DominatingPair(SampledRemoval(base.forward, rate), SampledAddition(base.backward, rate)))


@leaf_pair.register
def _(event: ev.FixedSizeSampledEvent, change: Change) -> DominatingPair:
    if change.direction is not Direction.REPLACE or not change.claimed or change.size > 1:
        raise Unsupported(
            f"fixed-size-sampled under {change.describe()}: its amplification is proven for one replaced record",
            "Use Relation.REPLACE, or PoissonSampledEvent",
        )
    base = _single_pair(event, change)
    rate = event.batch_size / event.dataset_size
    if rate == 1:
        return base
    # Zhu, Dong & Wang 2022, Proposition 30: the sampled curve for e^eps >= 1, and its mirror image below 1.
    return DominatingPair(SampledRemoval(base.forward, rate), SampledRemoval(base.backward, rate))


@leaf_pair.register
def _(event: ev.BallsInBinsEvent, change: Change) -> DominatingPair:
    base = event.event
    if not isinstance(base, ev.GaussianEvent):
        raise Unsupported(
            f"balls-in-bins {base.kind}: a dominating pair is known for a Gaussian only",
            "Use one Gaussian on each batch, or PoissonSampledEvent",
        )
    if change.direction is Direction.REPLACE or change.size > 1:
        raise Unsupported(
            f"balls-in-bins gaussian under {change.describe()}: no dominating pair is proven",
            "Use Relation.ADD_OR_REMOVE and a group of 1, or PoissonSampledEvent",
        )
    sigma, bins = base.noise_multiplier, event.num_bins
    if bins == 1 or sigma < MIN_NOISE:
        # The profile is jointly convex, so a mixture is no easier to distinguish than its components.
        return DominatingPair.symmetric(GaussianProfile(1 / sigma))
    return change.orient(DominatingPair(AllocationProfile(sigma, bins), AllocationProfile(sigma, bins, reverse=True)))


def _sampled_gaussian(event: ev.PoissonSampledEvent, change: Change) -> DominatingPair:
    """Return the pair of a Poisson-sampled Gaussian for a replacement or a group."""
    base = event.event
    if not isinstance(base, ev.GaussianEvent):
        raise Unsupported(
            f"poisson-sampled {base.kind} under {change.describe()}: no dominating pair is proven",
            "Use Relation.ADD_OR_REMOVE and a group of 1, or a Gaussian",
        )
    if change.direction is Direction.REPLACE:
        if change.size > 1:
            raise Unsupported(
                f"poisson-sampled gaussian under {change.describe()}: no dominating pair is proven",
                "Use Relation.ADD_OR_REMOVE",
            )
        return DominatingPair.symmetric(ReplacedSample(base.noise_multiplier, event.sampling_rate))
    sigma, rate, size = base.noise_multiplier, event.sampling_rate, change.size
    return change.orient(DominatingPair(SampledGroup(sigma, rate, size), SampledGroup(sigma, rate, size, reverse=True)))


def _single_pair(event: ev.PoissonSampledEvent | ev.FixedSizeSampledEvent, change: Change) -> DominatingPair:
    """Return the pair of the mechanism that runs on the sample. It must be a single mechanism."""
    if isinstance(event.event, ev.GroupEvent):
        raise Unsupported(
            f"{event.kind} group: it does not say whether records or whole groups are sampled",
            "Put GroupEvent outside; if whole groups are sampled, divide the noise multiplier by the group size",
        )
    options = alternatives(event.event, change)
    parts = merge_gaussians(options[0]) if len(options) == 1 else []
    if len(parts) != 1 or parts[0][1] != 1:
        raise Unsupported(
            f"{event.kind} {event.event.kind}: several mechanisms on the same sample",
            "Draw a new sample for each mechanism, or describe them as one Gaussian",
        )
    return parts[0][0]


def merge_gaussians(option: Alternative) -> list[CountedPair]:
    """Replace all unsampled Gaussians by one, exactly: mu^2 adds up (Dong, Roth & Su 2022, Corollary 3.3)."""
    squares, parts = 0.0, []
    for pair, count in option.items():
        if isinstance(pair.forward, GaussianProfile):
            squares += count * pair.forward.mu**2
        elif count:
            parts.append((pair, count))
    if squares > 0:
        # One ulp up, as the square root must not round the guarantee down.
        parts.insert(0, (DominatingPair.symmetric(GaussianProfile(math.nextafter(math.sqrt(squares), math.inf))), 1))
    return parts


def all_sums(first: Sequence[Alternative], second: Sequence[Alternative], event: ev.Event) -> list[Alternative]:
    """Return the compositions of every alternative of ``first`` with every alternative of ``second``."""
    if len(first) == 1 and len(second) == 1:
        # The usual case, without building sets.
        return [first[0] + second[0]]
    return _limited(_distinct(left + right for left in first for right in second), event)


def _worst(options: Sequence[Alternative]) -> list[Alternative]:
    """Return the distinct alternatives, or a single pointwise-worst pair if each is a single mechanism."""
    # A maximum of profiles is a profile, so single mechanisms merge into one pair, and the number of cases stays small.
    distinct = _distinct(options)
    if len(distinct) == 1 or any(sum(option.values()) != 1 for option in distinct):
        return distinct
    pairs = [next(iter(option)) for option in distinct]
    forward, backward = ([getattr(pair, side) for pair in pairs] for side in ("forward", "backward"))
    return [Counter({DominatingPair(PointwiseMax(tuple(forward)), PointwiseMax(tuple(backward))): 1})]


def _distinct(options: Iterable[Alternative]) -> list[Alternative]:
    """Return the alternatives without repetitions, in order."""
    return [Counter(dict(items)) for items in dict.fromkeys(frozenset(option.items()) for option in options)]


def _limited(options: list[Alternative], event: ev.Event) -> list[Alternative]:
    """Refuse an event that unfolds into too many alternatives."""
    if len(options) > _MAX_ALTERNATIVES:
        raise Unsupported(
            f"{event.kind}: it unfolds into more than {_MAX_ALTERNATIVES} cases",
            "Use the same event for all parts of a parallel composition",
        )
    return options
