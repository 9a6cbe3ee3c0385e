"""The dominating pairs of mechanisms on samples."""

from __future__ import annotations

from collections import Counter

from scipy.special import betainc

from hush.accounting import events as ev
from hush.accounting.losses.allocation import MIN_NOISE, AllocationProfile
from hush.accounting.losses.mixture_profiles import PublicMixture, SampledGroup
from hush.accounting.losses.noise_profiles import GaussianProfile
from hush.accounting.losses.pairs.change import Change, Direction, removed_from_sample, require_claim
from hush.accounting.losses.pairs.single import leaf_pair
from hush.accounting.losses.pairs.unfolding import Alternative, alternatives, merge_gaussians
from hush.accounting.losses.profile import ULP, DominatingPair, PointwiseMax, Profile
from hush.accounting.losses.sampled_profiles import ReplacedSample, SampledAddition, SampledRemoval
from hush.errors import Unsupported
from hush.guarantee import Relation

_MAX_SAMPLED_GROUP = 20_000  # one Gaussian for every number of its records that may be in the sample


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
    return _one_of_steps(event, event.num_bins, change)


@alternatives.register
def _(event: ev.AllocatedEvent, change: Change) -> list[Alternative]:
    """The pairs of ``times`` blocks of steps, in each of which a record is once.

    A random partition of the steps into blocks, and a step drawn from each block, make a uniformly random choice of
    steps, whatever the sizes of the blocks. Whoever knows the partition, which does not depend on the data, sees more.
    Given it, the likelihood ratio is a product over the blocks of the mean of W_t, and so linear in each W_t: as for a
    single block (`losses.allocation`), independent W_t are the worst, also where steps depend on earlier outcomes of
    other blocks (Feldman & Shenfeld 2025, whose reduction to one step of each block this is).
    """
    size, larger = divmod(event.num_steps, event.times)
    blocks = Counter({_one_of_steps(event, size, change): event.times - larger})
    if larger:
        blocks[_one_of_steps(event, size + 1, change)] += larger
    return [blocks]


def _one_of_steps(event: ev.BallsInBinsEvent | ev.AllocatedEvent, steps: int, change: Change) -> DominatingPair:
    """Return the pair of so many steps, in one of which a record takes part."""
    base = event.event
    if not isinstance(base, ev.GaussianEvent):
        raise Unsupported(
            f"{event.kind} {base.kind}: a dominating pair is known for a Gaussian only",
            "Use one Gaussian on each batch, or PoissonSampledEvent",
        )
    if change.direction is Direction.REPLACE or change.size > 1:
        raise Unsupported(
            f"{event.kind} gaussian under {change.describe()}: no dominating pair is proven",
            "Use Relation.ADD_OR_REMOVE and a group of 1, or PoissonSampledEvent",
        )
    sigma = base.noise_multiplier
    if steps == 1 or sigma < MIN_NOISE:
        # The profile is jointly convex, so a mixture is no easier to distinguish than its components.
        return DominatingPair.symmetric(GaussianProfile(1 / sigma))
    return change.orient(DominatingPair(AllocationProfile(sigma, steps), AllocationProfile(sigma, steps, reverse=True)))


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
