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
from hush.accounting.budget.cost import DELTA_STEPS, LOSS_STEPS, Cost, in_steps
from hush.accounting.filters import exactly
from hush.accounting.gaussian_rule import GaussianRule
from hush.accounting.losses.pairs import changes
from hush.errors import Unsupported
from hush.guarantee import Relation, Unit


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
    epsilon = PldAccountant(relation=relation, unit=unit).compose(plain).epsilon(delta)
    if not epsilon < 1e3:
        raise Unsupported(f"{plain.kind}: it protects nothing at delta = {delta:.3g}", "Use more noise")
    return event_cost(ev.ApproximateDPEvent(max(epsilon, 1e-6), delta), relation, unit, order, rule, most_renyi)


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
