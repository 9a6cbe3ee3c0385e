"""The dominating pair of a single mechanism. To add a mechanism, register a `leaf_pair`."""

from __future__ import annotations

from functools import singledispatch

from hush.accounting import events as ev
from hush.accounting.losses.mixture_profiles import GaussianMixture
from hush.accounting.losses.noise_profiles import (
    BoundedRangeProfile,
    DiscreteGaussianProfile,
    DiscreteLaplaceProfile,
    GaussianProfile,
    LaplaceProfile,
    RandomizedResponseProfile,
)
from hush.accounting.losses.pairs.change import Change, Direction, one_change, require_claim, require_claim_on_one
from hush.accounting.losses.profile import DominatingPair
from hush.accounting.losses.projected_profile import ProjectedGaussianProfile
from hush.errors import Unsupported
from hush.guarantee import Relation


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
def _(event: ev.NoisyMaxEvent, change: Change) -> DominatingPair:
    """The pair of Laplace noise on one number, for any number of candidates; two of them attain it.

    Let S be a set of candidates, A the largest noisy score within S, B the largest outside, and g(s) = P(A - B > s).
    Only differences count, so all scores rise, by at most epsilon. At worst those outside S rise by all of it, and S
    has probability g(0) before and at least g(epsilon) afterwards.

    The density f and the distribution function F of the noise satisfy f <= 1 - F. A maximum keeps that: with v_i the
    probability that term i exceeds t, its density is at most the sum of v_i prod_(j != i) (1 - v_j), the probability
    that exactly one term exceeds t. So -g'(s), the integral of f_A(t + s) f_B(t), is at most P(A - B > s), and for the
    same reason P(A - B < s): at most min(g, 1 - g). For Laplace noise L, G(s) = P(L > s) has -G' = min(G, 1 - G), so
    G^-1(g(s)) grows by at most epsilon from 0 to epsilon: S obeys the trade-off of Laplace noise on a number that moves
    by epsilon.

    A group of k is a chain of k changes: scores move k times as far.
    """
    require_claim(event, change)
    return DominatingPair.symmetric(LaplaceProfile(change.size * event.epsilon))


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
