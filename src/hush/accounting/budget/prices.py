"""What an event costs under each rule: its divergence, its epsilon, its price in Gaussian noise, and its deltas."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from hush.accounting import events as ev
from hush.accounting.accountants.classic_theorems import claims
from hush.accounting.accountants.pld import PldAccountant
from hush.accounting.accountants.rdp import renyi_bound
from hush.accounting.accountants.selection import SelectionAccountant
from hush.accounting.budget.cost import DELTA_STEPS, LOSS_STEPS, Cost, in_steps
from hush.accounting.filters import exactly
from hush.accounting.gaussian_rule import GaussianRule
from hush.accounting.losses.pairs import changes
from hush.errors import Unsupported
from hush.guarantee import Relation, Unit

_MOST_CLAIMED = 1e3  # a claim of a larger epsilon protects nothing
# Of delta, for a private selection: all of it where there is nothing beside it, nine tenths by default in `hush tune`.
_SELECTION_SHARES = (1.0, 0.99, 0.95, 0.9, 0.8, 0.5)


@lru_cache(maxsize=4096)
def event_cost(
    event: ev.Event, relation: Relation, unit: Unit, order: float | None, rule: GaussianRule, most_renyi: int
) -> Cost:
    """Return the cost of an event at a Renyi order, or without one, and by a Gaussian rule."""
    plain, _ = ev.plain_event(event, relation, unit)
    # A claim with a delta is a pure claim, except on an event of that probability, which is charged as delta.
    without_deltas, failure = _without_deltas(plain, relation)
    pure = _pure(without_deltas, relation)
    gaussian, smoothed = rule.price(without_deltas, relation)
    divergence = None if order is None else _divergence(without_deltas, relation, order)
    if divergence is None and pure is None and not 0 < gaussian <= rule.most:
        has_delta = order is not None or rule.most >= 0
        why = (
            "it exceeds the whole budget"
            if has_delta
            else "it has no epsilon at delta 0, and the budget has no delta to spare"
        )
        raise Unsupported(f"{plain.kind}: {why}", "Use Laplace noise, more noise, or a budget with a delta")
    if not failure < 1:
        raise Unsupported(f"{plain.kind}: its deltas add up to 1, so it protects nothing", "Use smaller deltas")
    return Cost(
        renyi=0 if order is None else min(most_renyi, most_renyi if divergence is None else divergence),
        pure=0 if pure is None else in_steps(pure, LOSS_STEPS),
        unbounded=int(pure is None),
        delta=math.ceil(failure * DELTA_STEPS),
        gaussian=gaussian,
        smoothed=smoothed,
    )


def claimed_cost(
    plain: ev.Event,
    relation: Relation,
    unit: Unit,
    order: float | None,
    rule: GaussianRule,
    most_renyi: int,
    delta: float,
) -> Cost:
    """Return the cost of the claim (epsilon, delta), where epsilon comes from the privacy loss distribution."""
    epsilon = _claimed_epsilon(plain, relation, unit, delta)
    if not epsilon < _MOST_CLAIMED:
        raise Unsupported(f"{plain.kind}: it protects nothing at delta = {delta:.3g}", "Use more noise")
    return event_cost(ev.ApproximateDPEvent(max(epsilon, 1e-6), delta), relation, unit, order, rule, most_renyi)


def _claimed_epsilon(event: ev.Event, relation: Relation, unit: Unit, delta: float) -> float:
    """Return the smallest epsilon that is known for an event at a delta."""
    return min(
        PldAccountant(relation=relation, unit=unit).compose(known).epsilon(delta)
        for known in with_claimed_selections(event, relation, delta)
    )


@lru_cache(maxsize=64)
def with_claimed_selections(event: ev.Event, relation: Relation, delta: float) -> tuple[ev.Event, ...]:
    """Return an event with private selections as claims, each at a share of delta, for several shares.

    A selection has no privacy loss distribution. The rest of delta is for what is beside it. An event without
    selections is returned as it is.
    """
    selections = _selections(event)
    if not selections:
        return (event,)
    events = []
    for share in _SELECTION_SHARES:
        epsilons = {
            selection: SelectionAccountant(relation=relation).compose(selection).epsilon(delta * share)
            for selection in selections
        }
        if all(epsilon < _MOST_CLAIMED for epsilon in epsilons.values()):
            claims_at_share = {
                selection: ev.ApproximateDPEvent(max(epsilon, 1e-6), delta * share)
                for selection, epsilon in epsilons.items()
            }
            events.append(_replaced(event, claims_at_share))
    if not events:
        raise Unsupported("a private selection that protects nothing", "Use more noise")
    return tuple(events)


def _selections(event: ev.Event) -> set[ev.Event]:
    """Return the private selections in a composition; none where they are in anything else, such as a sample."""
    if isinstance(event, ev.RepeatNegativeBinomialEvent):
        return {event}
    if isinstance(event, (ev.ComposedEvent, ev.ParallelByIndexEvent)):
        return {selection for part in event.events for selection in _selections(part)}
    return set()


def _replaced(event: ev.Event, stated: dict[ev.Event, ev.ApproximateDPEvent]) -> ev.Event:
    """Return an event with its private selections as claims."""
    if isinstance(event, (ev.ComposedEvent, ev.ParallelByIndexEvent)):
        return replace(event, events=tuple(_replaced(part, stated) for part in event.events))
    return stated.get(event, event)


def priced_parts(event: ev.Event) -> list[ev.Event]:
    """Return the parts of which a composed event's price in Gaussian noise is the sum."""
    if not isinstance(event, ev.ComposedEvent):
        return [event]
    return [leaf for part in event.events for leaf in priced_parts(part)]


def _divergence(event: ev.Event, relation: Relation, order: float) -> int | None:
    """Return an event's Renyi divergence in steps; None if it has none, or more than any budget."""
    try:
        return in_steps(_renyi(event, relation, order), LOSS_STEPS)
    except Unsupported:
        return None


def _renyi(event: ev.Event, relation: Relation, order: float) -> float:
    """Return the event's Renyi divergence at the order, over the worst change."""
    return max(float(renyi_bound(event, change, np.array([order]))[0]) for change in changes(relation))


def _pure(event: ev.Event, relation: Relation) -> float | None:
    """Return the event's epsilon at delta = 0, or None if it has none."""
    try:
        claims_by_change = [claims(event, change) for change in changes(relation)]
    except Unsupported:
        return None
    if any(claim[1] > 0 for parts in claims_by_change for claim, _ in parts):
        return None  # a claim whose delta was not split off, such as one on a sample
    return max(math.fsum(count * claim[0] for claim, count in parts) for parts in claims_by_change)


def _without_deltas(event: ev.Event, relation: Relation) -> tuple[ev.Event, Fraction]:
    """Split an event into one whose claims have no deltas, and the probability that one of these claims fails."""
    if isinstance(event, ev.ApproximateDPEvent):
        return ev.ApproximateDPEvent(event.epsilon), exactly(event.delta)
    if isinstance(event, ev.SelfComposedEvent):
        inner, delta = _without_deltas(event.event, relation)
        return replace(event, event=inner), delta * event.count
    if isinstance(event, (ev.ComposedEvent, ev.ParallelEvent, ev.ParallelByIndexEvent)):
        parts = [_without_deltas(part, relation) for part in event.events]
        deltas = sorted((delta for _, delta in parts), reverse=True)
        # A replaced record may leave one part and enter another. An added or removed record is in one part only.
        counted = deltas if isinstance(event, ev.ComposedEvent) else deltas[: 2 if relation is Relation.REPLACE else 1]
        return replace(event, events=tuple(part for part, _ in parts)), sum(counted, Fraction(0))
    return event, Fraction(0)
