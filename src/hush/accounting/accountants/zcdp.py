"""Zero-concentrated differential privacy (zCDP): one parameter, rho, which adds up under composition.

`rho_bound` has one rule for each event. rho bounds the Renyi divergence by rho * order at every order, so the
conversion to epsilon is that of `rdp`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import singledispatch

from hush.accounting import events as ev
from hush.accounting.accountants.accountant import Accountant
from hush.accounting.accountants.rdp import best_order, renyi_to_epsilon, renyi_to_log_delta
from hush.accounting.losses.pairs import (
    Change,
    Direction,
    changes,
    one_change,
    parts_that_differ,
    refuse_group,
    require_claim,
)
from hush.errors import Unsupported, check_epsilon
from hush.guarantee import Generalization, Relation, mutual_information_bounds

_DELTAS = tuple(10.0**-power for power in range(2, 13))  # at which generalization is tried


class ZcdpAccountant(Accountant):
    """Adds up rho and converts to epsilon at the best order.

    >>> from hush.accounting import GaussianEvent
    >>> accountant = ZcdpAccountant().compose(GaussianEvent(10.0), 4)
    >>> round(accountant.rho, 4), round(accountant.epsilon(delta=1e-6), 3)
    (0.02, 0.9)

    Guarantee:
        `epsilon` and `delta` are upper bounds; `rho` is the composed zCDP parameter.

    Assumes:
        Noise was drawn as the events say (the caller's duty). Each event is zCDP, which sampled events generally are
        not (checked here: others are refused).

    References:
        Bun & Steinke 2016 (definition, composition, Proposition 1.4: epsilon-DP is epsilon^2/2-zCDP, Proposition 1.9:
        groups); Cesar & Rogers 2021 (bounded range is epsilon^2/8-zCDP); Canonne, Kamath & Steinke 2020 (discrete
        Gaussian; conversion, Proposition 12, at the best real order).
    """

    method = "zero-concentrated differential privacy"

    @property
    def rho(self) -> float:
        """The composed parameter."""
        return max(rho_bound(ev.ComposedEvent(self.events), change) for change in changes(self.relation))

    def generalization(self, num_records: int, *, confidence: float = 0.95, num_queries: int = 1) -> Generalization:
        """Return `Guarantee.generalization` of what was composed, each of its figures by the best of all deltas or rho.

        >>> from hush.accounting import GaussianEvent
        >>> accountant = ZcdpAccountant(relation=Relation.REPLACE).compose(GaussianEvent(40.0), 4)
        >>> print(accountant.generalization(100_000))
        on average at most 0.0501 from the population (mutual information (Xu & Raginsky 2017)); \
at most 0.183 with confidence 0.95, by posterior sensitivity (Jung et al. 2020)

        References:
            rho-zCDP has mutual information of at most n rho nats with n independent records (Bun & Steinke 2016,
            Proposition 1.10). So the mean gap is at most sqrt(rho / 2) (Xu & Raginsky 2017, Theorem 1), and the gap
            exceeds t with a probability that Bassily, Moran, Nachum, Shafer & Yehudayoff 2018 bound.
        """
        by_delta = [
            self.guarantee(delta).generalization(num_records, confidence=confidence, num_queries=num_queries)
            for delta in _DELTAS
        ]
        by_rho = mutual_information_bounds(self.rho, num_records, num_queries, confidence)
        mean = min((by_rho, *by_delta), key=lambda bounds: bounds.expected)
        widest = min((*by_delta, by_rho), key=lambda bounds: bounds.width)
        return replace(widest, expected=mean.expected, expected_theorem=mean.expected_theorem)

    def _check(self, event: ev.Event) -> None:
        for change in changes(self.relation):
            rho_bound(event, change)

    def _epsilon(self, delta: float) -> float:
        return rho_to_epsilon(self.rho, delta)

    def _delta(self, epsilon: float) -> float:
        rho = self.rho
        if rho == 0:
            return 0.0
        return min(1.0, math.exp(best_order(lambda orders: renyi_to_log_delta(rho * orders, orders, epsilon))[1]))


def rho_to_epsilon(rho: float, delta: float) -> float:
    """Return the epsilon of rho-zCDP at a delta, by the best conversion over all orders."""
    if check_epsilon("rho", rho) == 0:
        return 0.0
    if delta == 0:
        return math.inf
    return best_order(lambda orders: renyi_to_epsilon(rho * orders, orders, delta))[1]


def epsilon_to_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho whose epsilon at ``delta`` is at most ``epsilon``, by bisection to the safe side."""
    # The invariant: ``low`` meets the target, ``high`` does not.
    low, high = 0.0, 1.0
    while rho_to_epsilon(high, delta) <= epsilon:
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if rho_to_epsilon(middle, delta) <= epsilon else (low, middle)
    return low


@singledispatch
def rho_bound(event: ev.Event, change: Change) -> float:
    """Return the smallest rho that an event is known to satisfy under one change."""
    raise Unsupported(f"{event.kind}: it is not known to be zCDP", "Use RdpAccountant or PldAccountant")


@rho_bound.register
def _(event: ev.ComposedEvent, change: Change) -> float:
    # Bun & Steinke 2016, Lemma 1.7: rho adds up.
    return math.fsum(rho_bound(part, change) for part in event.events)


@rho_bound.register
def _(event: ev.SelfComposedEvent, change: Change) -> float:
    return event.count * rho_bound(event.event, change)


@rho_bound.register
def _(event: ev.GaussianEvent, change: Change) -> float:
    return (change.shift / event.noise_multiplier) ** 2 / 2  # Bun & Steinke 2016, Proposition 1.6


@rho_bound.register
def _(event: ev.DiscreteGaussianEvent, change: Change) -> float:
    return (change.shift * event.sensitivity / event.sigma) ** 2 / 2  # Canonne, Kamath & Steinke 2020, Theorem 4


@rho_bound.register
def _(event: ev.LaplaceEvent, change: Change) -> float:
    return (change.shift / event.scale) ** 2 / 2  # epsilon-DP is epsilon^2 / 2-zCDP


@rho_bound.register
def _(event: ev.DiscreteLaplaceEvent, change: Change) -> float:
    return (change.shift * event.sensitivity / event.scale) ** 2 / 2


@rho_bound.register
def _(event: ev.PerChangeEvent, change: Change) -> float:
    return rho_bound(event.event, one_change(event, change))


@rho_bound.register
def _(event: ev.ExponentialMechanismEvent, change: Change) -> float:
    require_claim(event, change)
    return event.epsilon**2 / 8 * change.size**2  # Cesar & Rogers 2021; a group of k: k^2 rho


@rho_bound.register
def _(event: ev.NoisyMaxEvent, change: Change) -> float:
    require_claim(event, change)
    return (event.epsilon * change.size) ** 2 / 2  # as for Laplace noise


@rho_bound.register
def _(event: ev.RandomizedResponseEvent, change: Change) -> float:
    if change.relation is not Relation.REPLACE or not change.claimed:
        raise Unsupported(f"randomized-response under the relation {change.relation.value!r}", "Use Relation.REPLACE")
    return event.epsilon**2 / 2 * change.size  # the reports of a group are independent


@rho_bound.register
def _(event: ev.ApproximateDPEvent, change: Change) -> float:
    if event.delta > 0:
        raise Unsupported("approximate-dp with delta > 0: it is not zCDP", "Use PldAccountant")
    require_claim(event, change)
    # epsilon-DP is k epsilon-DP for a group of k, and epsilon^2 / 2-zCDP (Proposition 1.4).
    return (event.epsilon * change.size) ** 2 / 2


@rho_bound.register
def _(event: ev.ZeroConcentratedDPEvent, change: Change) -> float:
    require_claim(event, change)
    return event.rho * change.size**2  # Bun & Steinke 2016, Proposition 1.9


@rho_bound.register
def _(event: ev.ParallelByIndexEvent, change: Change) -> float:
    refuse_group(event, change)
    return max(rho_bound(part, change) for part in dict.fromkeys(event.events))


@rho_bound.register
def _(event: ev.ParallelEvent, change: Change) -> float:
    refuse_group(event, change)
    stays = max(rho_bound(part, change) for part in dict.fromkeys(event.events))
    if change.direction is not Direction.REPLACE or len(event.events) < 2:
        return stays
    # A replaced record may leave one part and enter another: the two largest rhos add up.
    moved = replace(change, direction=Direction.REMOVE, claimed=False)
    moves = sorted((rho_bound(part, moved) for part in parts_that_differ(event)), reverse=True)
    return max(stays, math.fsum(moves[:2]))


@rho_bound.register
def _(event: ev.GroupEvent, change: Change) -> float:
    return rho_bound(event.event, replace(change, size=change.size * event.size))
