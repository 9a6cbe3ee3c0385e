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
from itertools import permutations, product

from scipy.special import betainc

from hush.accounting import events as ev
from hush.accounting.losses.allocation import MIN_NOISE, AllocationProfile
from hush.accounting.losses.mixture_profiles import GaussianMixture, PublicMixture, SampledGroup
from hush.accounting.losses.noise_profiles import (
    BoundedRangeProfile,
    DiscreteGaussianProfile,
    DiscreteLaplaceProfile,
    GaussianProfile,
    LaplaceProfile,
    RandomizedResponseProfile,
)
from hush.accounting.losses.profile import ULP, DominatingPair, PointwiseMax, Profile
from hush.accounting.losses.projected_profile import ProjectedGaussianProfile
from hush.accounting.losses.saddle_point import CountedPair
from hush.accounting.losses.sampled_profiles import ReplacedSample, SampledAddition, SampledRemoval
from hush.errors import Unsupported
from hush.guarantee import Relation

Alternative = Counter[DominatingPair]
_MAX_ALTERNATIVES = 200  # each one is composed separately
_MAX_MOVES = 150  # alternatives of a record that leaves one part and enters another, before they are merged into one
_MAX_SAMPLED_GROUP = 20_000  # one Gaussian for every number of its records that may be in the sample


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


def one_change(event: ev.PerChangeEvent, change: Change) -> Change:
    """Return the change whose shift is the distance that the event's noise is relative to."""
    require_claim(event, change)
    # A group of k is a chain of k changes: the distances add up. The noise is symmetric, so the direction is no matter.
    return replace(change, direction=Direction.REMOVE)


def removed_from_sample(change: Change) -> Change:
    """Return the removal that sampling compares: a record in the sample, and a sample without it."""
    # Only under add-or-remove is that what a claim is about. A contribution that is zeroed out is still in the sample.
    claimed = change.claimed and change.relation is Relation.ADD_OR_REMOVE
    return replace(change, direction=Direction.REMOVE, claimed=claimed)


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
        raise Unsupported(
            f"{event.kind} in a part or a sample that a record may be missing from: it is stated for the relation "
            f"{change.relation.value!r}, and says nothing about a record that leaves",
            "Use Relation.ADD_OR_REMOVE, or an event of noise on a sum, such as GaussianEvent",
        )


def require_claim_on_one(event: ev.Event, change: Change) -> None:
    """Refuse a change that a claim about a single record does not cover."""
    require_claim(event, change)
    if change.size > 1:
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
    stays = [option for part in dict.fromkeys(event.events) for option in alternatives(part, change)]
    if change.direction is not Direction.REPLACE:
        # A record that is added or removed is in one part only.
        return _worst(stays)
    stays = stays if len(stays) < _MAX_ALTERNATIVES - _MAX_MOVES else _worst(stays)
    return _limited(_distinct(stays + _moves(event, change)), event)


@alternatives.register
def _(event: ev.ParallelByIndexEvent, change: Change) -> list[Alternative]:
    refuse_group(event, change)
    return _worst([option for part in dict.fromkeys(event.events) for option in alternatives(part, change)])


@alternatives.register
def _(event: ev.GroupEvent, change: Change) -> list[Alternative]:
    # Groups of groups multiply. Each mechanism then knows what ``size`` records do to it.
    return alternatives(event.event, replace(change, size=change.size * event.size))


@alternatives.register
def _(event: ev.RandomizedResponseEvent, change: Change) -> list[Alternative]:
    # Local reports are independent, so a group of k people is k reports.
    return [Counter({leaf_pair(event, replace(change, size=1)): change.size})]


def parts_that_differ(event: ev.ParallelEvent) -> tuple[ev.Event, ...]:
    """Return the distinct parts, each at most twice: a record that moves is in two parts, which may be alike."""
    return tuple(part for part, count in Counter(event.events).items() for _ in range(min(count, 2)))


def _moves(event: ev.ParallelEvent, change: Change) -> list[Alternative]:
    """Return what a replaced record costs that leaves one part, and enters another."""
    if len(event.events) < 2:
        return []
    parts = parts_that_differ(event)
    leave, enter = (replace(change, direction=d, claimed=False) for d in (Direction.REMOVE, Direction.ADD))
    sources, targets = ([alternatives(part, way) for part in parts] for way in (leave, enter))
    if sum(map(len, sources)) * sum(map(len, targets)) > _MAX_MOVES:
        # Of so many parts, the worst to leave and the worst to enter at each epsilon, even if they are the same one.
        worst = [_worst([option for options in ways for option in options]) for ways in (sources, targets)]
        return [first + second for first, second in product(*worst)]
    pairs = permutations(range(len(parts)), 2)
    return [first + second for i, j in pairs for first, second in product(sources[i], targets[j])]


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
def _(event: ev.PerChangeEvent, change: Change) -> DominatingPair:
    return leaf_pair(event.event, one_change(event, change))


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
    base = _single_pair(event, removed_from_sample(change))
    rate = event.sampling_rate
    return change.orient(DominatingPair(SampledRemoval(base.forward, rate), SampledAddition(base.backward, rate)))


@leaf_pair.register
def _(event: ev.TruncatedPoissonSampledEvent, change: Change) -> DominatingPair:
    """The pair of a Poisson sample, or, where the sample may be full, of one in which a record replaces another.

    Let S be the sample of the other records, and x the one that changes. If S has fewer than B records, x is added to
    it. If not, x is kept with probability r = B / (|S| + 1) <= B / (B + 1), and takes the place of a random record y.
    Given S, y and the rest, the sum without x is N(y), and with it (1 - q r) N(y) + q r N(x), where x - y is at most 2.
    Profiles are jointly convex, so their mean over S, y and the rest bounds that of the mechanism. The larger of both
    pairs stands for a full sample, so that the mean grows with the number of records.
    """
    sampled = ev.PoissonSampledEvent(event.event, event.sampling_rate)
    if not isinstance(event.event, ev.GaussianEvent) or change.relation is Relation.ZERO_OUT or change.size > 1:
        raise Unsupported(
            f"truncated-poisson-sampled {event.event.kind} under {change.describe()}: no dominating pair is proven",
            "Use a Gaussian, Relation.ADD_OR_REMOVE or REPLACE, and a group of 1; or PoissonSampledEvent",
        )
    limit, size = event.max_batch_size, event.dataset_size
    free = leaf_pair(sampled, change)
    if size <= limit:
        return free
    # P(S >= B) for S ~ Binomial(n - 1, q), an incomplete beta function, with room for its rounding.
    probability = min(max(float(betainc(limit, size - limit, event.sampling_rate)) * (1 + 1e-9), 1e-300), 1.0)
    rate = event.sampling_rate * limit / (limit + 1) * (1 + 4 * ULP)
    full = leaf_pair(ev.PoissonSampledEvent(ev.GaussianEvent(event.event.noise_multiplier / 2), rate), change)
    return DominatingPair(
        _sometimes(probability, full.forward, free.forward), _sometimes(probability, full.backward, free.backward)
    )


def _sometimes(probability: float, rare: Profile, usual: Profile) -> Profile:
    """Return the mean of a usual profile and the larger of both, where everybody sees which of them applies."""
    return PublicMixture((PointwiseMax((rare, usual)), usual), (probability, max(1 - probability, 1e-300)))


@leaf_pair.register
def _(event: ev.GaussianMixtureEvent, change: Change) -> DominatingPair:
    if change.direction is Direction.REPLACE or change.size > 1:
        raise Unsupported(
            f"gaussian-mixture under {change.describe()}: no dominating pair is proven",
            "Use Relation.ADD_OR_REMOVE and a group of 1",
        )
    # Vectors of random norm are dominated by their norms on a line, and these by larger ones (Choquette-Choo et al.
    # 2024, "Privacy amplification for matrix mechanisms").
    mixture = event.noise_multiplier, event.shifts, event.probabilities
    return change.orient(DominatingPair(GaussianMixture(*mixture), GaussianMixture(*mixture, reverse=True)))


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
    if isinstance(base, ev.PerChangeEvent):
        require_claim(base, removed_from_sample(change))
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
    if size > _MAX_SAMPLED_GROUP:
        raise Unsupported(
            f"poisson-sampled gaussian under {change.describe()}: its profile is computed for groups of up to "
            f"{_MAX_SAMPLED_GROUP}",
            "Divide the noise multiplier by the group size, as if all records were in one sample",
        )
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
