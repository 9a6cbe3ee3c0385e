"""Budgets: what a release asks for before it is run, what it costs, and what a cap allows.

A `Cap` is a promise made once, for everything that will ever be released from some data, whatever is asked next and
whatever the answers were. `Cap.cost` turns an event into a `Cost`; costs add up; `Cap.fits` says whether the promise
still holds. Costs are whole numbers of tiny steps, rounded up, so that a database can add them exactly.

`Budget` and `Reservation` are what layers below the ledger know of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np

from hush.accounting import events as ev
from hush.accounting.accountants.classic import claims
from hush.accounting.accountants.pld import PldAccountant
from hush.accounting.accountants.rdp import renyi_bound
from hush.accounting.filters import exactly
from hush.accounting.losses.pairs import changes
from hush.errors import InvalidArgument, Unsupported, check_delta, check_instance, check_positive
from hush.guarantee import Guarantee, Relation, Unit

LOSS_STEPS = 10**12
"""So many steps have an epsilon, or a Renyi divergence, of 1."""

DELTA_STEPS = 10**18
"""So many steps has a delta of 1."""

CLAIMS_SHARE = Fraction(1, 10)
"""The part of a cap's delta that is set aside for events with a delta of their own, unless said otherwise."""

_MOST = 10**17  # steps of one charge: ten of them still fit into 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What something costs under a cap, in steps; costs add up, event by event.

    Attributes:
        renyi: The Renyi divergence at the cap's order, without what the deltas below stand for.
        pure: The sum of epsilons, of those events that have one.
        unbounded: How many events have none: a Gaussian, for instance.
        delta: The deltas of events that may fail altogether with some probability.
    """

    renyi: int = 0
    pure: int = 0
    unbounded: int = 0
    delta: int = 0

    def __add__(self, other: Cost) -> Cost:
        """Return what both cost together."""
        return Cost(
            renyi=self.renyi + other.renyi,
            pure=self.pure + other.pure,
            unbounded=self.unbounded + other.unbounded,
            delta=self.delta + other.delta,
        )

    def __neg__(self) -> Cost:
        """Return what gives it back."""
        return Cost(renyi=-self.renyi, pure=-self.pure, unbounded=-self.unbounded, delta=-self.delta)

    def __le__(self, other: Cost) -> bool:
        """Say whether no part of it is more than the other's."""
        mine, others = (self.renyi, self.pure, self.unbounded, self.delta), other
        return all(
            a <= b for a, b in zip(mine, (others.renyi, others.pure, others.unbounded, others.delta), strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """A limit on everything that is ever released, for choices that depend on what was released before.

    What was spent fits if the deltas of claims are within their share, and either the Renyi divergence at one order,
    fixed in advance, is within what the rest of delta allows, or everything has an epsilon and these add up to no more
    than the cap's.

    Guarantee:
        (epsilon, delta)-DP for any sequence of events chosen adaptively, parameters and the time to stop included, also
        if several of them run at the same time.

    Assumes:
        Each event is charged before it is run (the caller's duty). The order and the share of claims are chosen before
        anything is released (the caller's duty; a ledger stores them with the cap).

    References:
        Feldman & Zrnic 2021, Theorem 3.1, and Lecuyer 2021, Theorem 1 (filter at a fixed order); Rogers et al. 2016
        (sums of epsilons); Kairouz, Oh & Viswanath 2015, Theorem 3.2 (an (epsilon, delta) claim is one that fails with
        probability delta and is a pure one else); Haney et al. 2023 (filters for mechanisms that run concurrently).
        The two rules may be taken together because the second leaves no loss above epsilon: what the first allows,
        its part of delta, is all that can exceed it, besides failed claims. ARCHITECTURE.md has the argument.

    Attributes:
        epsilon: Of the promise.
        delta: Of the promise.
        unit: What is protected.
        relation: What neighbours are.
        order: The Renyi order. Unless given, one that allows for nearly as many small Gaussian releases as the best,
            and is as low as that permits: at high orders, sampled releases with little noise cost too much. None if
            there is no delta: then only epsilons add up.
        claims_delta: The part of delta for events that have a delta of their own; a tenth, unless given.
    """

    epsilon: float
    delta: float
    unit: Unit
    relation: Relation = Relation.ADD_OR_REMOVE
    order: float | None = None
    claims_delta: float | None = None

    def __post_init__(self) -> None:
        """Check the arguments, and fill in what was left out."""
        epsilon, delta = check_positive("epsilon", self.epsilon, maximum=1e4), check_delta("delta", self.delta)
        check_instance("unit", self.unit, Unit, "Such as Unit.user()")
        check_instance("relation", self.relation, Relation)
        claims_delta = float(exactly(delta) * CLAIMS_SHARE) if self.claims_delta is None else self.claims_delta
        if not check_delta("claims_delta", claims_delta) <= delta:
            raise InvalidArgument("claims_delta", claims_delta, "at most delta", "It is a part of it")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)
        object.__setattr__(self, "claims_delta", float(claims_delta))
        object.__setattr__(self, "order", self._checked_order())

    def _checked_order(self) -> float | None:
        if not self.renyi_delta > 0:
            if self.order is not None:
                raise InvalidArgument("order", self.order, "None, without a delta", "Renyi divergence needs one")
            return None
        if self.order is None:
            return _best_order(self.epsilon, self.renyi_delta)
        if not check_positive("order", self.order, maximum=1e6) > 1:
            raise InvalidArgument("order", self.order, "a number > 1")
        return float(self.order)

    @property
    def renyi_delta(self) -> float:
        """The part of delta that is not for claims, rounded down."""
        left = exactly(self.delta) - exactly(self.claims_delta or 0.0)
        return math.nextafter(float(left), 0.0) if left > 0 else 0.0

    @property
    def limit(self) -> Cost:
        """What each part of a cost may be; ``renyi`` is -1 where that rule allows nothing, and nothing is unbounded."""
        most = -1
        if self.order is not None:
            most = math.floor((exactly(self.epsilon) - exactly(_slack(self.order, self.renyi_delta))) * LOSS_STEPS)
        return Cost(
            renyi=max(most, -1),
            pure=math.floor(exactly(self.epsilon) * LOSS_STEPS),
            delta=math.floor(exactly(self.claims_delta or 0.0) * DELTA_STEPS),
        )

    def fits(self, spent: Cost) -> bool:
        """Say whether the promise holds if this is spent."""
        most = self.limit
        pure = spent.unbounded == 0 and spent.pure <= most.pure
        return spent.delta <= most.delta and (spent.renyi <= most.renyi or pure)

    def spent_epsilon(self, spent: Cost) -> float:
        """Return the smallest epsilon for which a cap of this delta, order and share would have allowed that."""
        if spent == Cost():
            return 0.0
        ways = [spent.pure / LOSS_STEPS] if spent.unbounded == 0 else []
        if self.order is not None:
            ways.append(max(spent.renyi / LOSS_STEPS + _slack(self.order, self.renyi_delta), 0.0))
        return min(ways, default=math.inf)

    def used(self, spent: Cost) -> float:
        """Return which part of the budget is used up, by the rule that leaves the most."""
        most = self.limit
        ways = [spent.pure / most.pure] if spent.unbounded == 0 else []
        if most.renyi > 0:
            ways.append(spent.renyi / most.renyi)
        return max(min(ways, default=0.0), spent.delta / most.delta if spent.delta else 0.0)

    def alone(self, event: ev.Event, cost: Cost) -> float:
        """Return what an event would cost if it were all that is ever released, as an epsilon at the cap's delta."""
        try:
            accountant = PldAccountant(relation=self.relation, unit=self.unit).compose(event)
            return min(accountant.epsilon(self.delta), self.spent_epsilon(cost))
        except Unsupported:
            return self.spent_epsilon(cost)

    def cost(self, event: ev.Event) -> Cost:
        """Return what an event costs; one without a Renyi divergence is refused, see `claimed_cost`."""
        check_instance("event", event, ev.Event)
        return _cost(event, self.relation, self.unit, self.order)

    def claimed_cost(self, event: ev.Event, *, delta: float) -> Cost:
        """Return what an event costs as a claim: that of its privacy loss distribution at a delta.

        That is proven for what is fixed before any of its output is seen, and reserved whole. For many parts, or large
        ones, it may be less than what the filter adds up.
        """
        plain, _ = ev.plain_event(event, self.relation, self.unit)
        return _claimed(
            plain, self.relation, self.unit, self.order, check_positive("delta", check_delta("delta", delta))
        )

    def largest_epsilon(self, spent: Cost) -> float:
        """Return the largest epsilon of a pure release that still fits, rounded down to three digits."""
        low, high = 0.0, float(self.epsilon)
        for _ in range(60):
            middle = (low + high) / 2
            if middle < 1e-6 or self.fits(spent + self.cost(ev.ApproximateDPEvent(middle))):
                low = middle
            else:
                high = middle
        found = _three_digits_down(low)
        return found if found >= 1e-5 else 0.0

    def least_noise(self, spent: Cost) -> float:
        """Return the least noise multiplier of a Gaussian release that still fits, rounded up; infinite if none."""
        left = self.limit.renyi - spent.renyi
        if self.order is None or left <= 0:
            return math.inf
        return _three_digits_up(math.sqrt(self.cost(ev.GaussianEvent(1.0)).renyi / left))

    def guarantee(self) -> Guarantee:
        """Return what holds however the budget is spent."""
        rule = "sums of epsilons" if self.order is None else f"a filter at Renyi order {self.order:.4g}"
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            unit=self.unit,
            relation=self.relation,
            method=f"{rule}, for choices made on the way",
            assumptions=("everything that is released from these data is charged to this budget, before it is run",),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What somebody is about to run, for a budget to allow.

    Attributes:
        event: What will be run, at most.
        purpose: What for, in a few words.
        question: What identifies it: the same text asks for the same thing. Empty if that has no meaning.
        delta: The delta at which the event is stated, should it be charged as a claim.
        sealed: Whether its result leaves only after `Reservation.commit`. Then it may be run again after a crash.
        request: A key of the caller's own: a second charge with the same key is the same charge.
        resumes: Whether it may go on with what the same request has reserved and not settled: an interrupted run.
        parts: Of which parts of the data it is, where what charges knows: all blocks that it looks at, or none of them
            by name. A budget in blocks refuses it if these are not the blocks that are charged.
    """

    event: ev.Event
    purpose: str
    question: str = ""
    delta: float | None = None
    sealed: bool = False
    request: str | None = None
    resumes: bool = False
    parts: tuple[str, ...] | None = None


class Reservation(Protocol):
    """A part of a budget that is set aside; it counts as spent until it is voided, whatever happens."""

    @property
    def answer(self) -> str | None:
        """What the same question was answered before, if it was: there is nothing to run."""

    @property
    def resumed(self) -> bool:
        """Whether an interrupted run goes on with it: then it must go on from what it had."""

    def is_open(self) -> bool:
        """Say whether it still counts, and nobody has settled it."""

    def commit(self, event: ev.Event | None = None, *, answer: str | None = None) -> str | None:
        """Say that it was run, or a part of it, and store the answer; return the answer that is stored."""

    def void(self) -> None:
        """Say that nothing was released."""


class Budget(Protocol):
    """Something that events are charged to before they are run."""

    def reserve(self, charge: Charge) -> Reservation:
        """Set aside what a charge costs, or raise `BudgetExceeded` and change nothing."""


def run_sealed(budget: Budget, charge: Charge, run: Callable[[], str]) -> str:
    """Run something whose result leaves only after it is charged; return what the budget has stored.

    Whatever ends ``run`` early leaves the reservation as it is: that it failed may tell something, too. The same
    question, asked again, goes on with it and costs nothing more.
    """
    reservation = budget.reserve(replace(charge, sealed=True))
    if reservation.answer is not None:
        return reservation.answer
    stored = reservation.commit(answer=run())
    assert stored is not None
    return stored


@lru_cache(maxsize=4096)
def _cost(event: ev.Event, relation: Relation, unit: Unit, order: float | None) -> Cost:
    plain, _ = ev.plain_event(event, relation, unit)
    sure, failing = _without_deltas(plain, relation)
    pure = _pure(sure, relation)
    divergence = 0.0 if order is None else _renyi(sure, relation, order)
    if order is None and pure is None:
        raise Unsupported(
            f"{plain.kind}: it has no epsilon at delta 0, and the budget has no delta to spare",
            "Use Laplace noise, or a budget with a delta",
        )
    if not failing < 1:
        raise Unsupported(f"{plain.kind}: its deltas add up to 1, so that it promises nothing", "Use smaller ones")
    return Cost(
        renyi=_steps(divergence, LOSS_STEPS),
        pure=0 if pure is None else _steps(pure, LOSS_STEPS),
        unbounded=int(pure is None),
        delta=math.ceil(failing * DELTA_STEPS),
    )


def _claimed(plain: ev.Event, relation: Relation, unit: Unit, order: float | None, delta: float) -> Cost:
    epsilon = PldAccountant(relation=relation, unit=unit).compose(plain).epsilon(delta)
    if not epsilon < 1e3:
        raise Unsupported(f"{plain.kind}: it promises nothing at delta = {delta:.3g}", "Use more noise")
    return _cost(ev.ApproximateDPEvent(max(epsilon, 1e-6), delta), relation, unit, order)


def _renyi(event: ev.Event, relation: Relation, order: float) -> float:
    return max(float(renyi_bound(event, change, np.array([order]))[0]) for change in changes(relation))


def _pure(event: ev.Event, relation: Relation) -> float | None:
    try:
        each = [claims(event, change) for change in changes(relation)]
    except Unsupported:
        return None
    if any(claim[1] > 0 for parts in each for claim, _ in parts):
        return None  # a claim with a delta that is not counted, such as one on a sample
    return max(math.fsum(count * claim[0] for claim, count in parts) for parts in each)


def _without_deltas(event: ev.Event, relation: Relation) -> tuple[ev.Event, Fraction]:
    """Split an event into one without claims' deltas, and the probability that one of these claims fails."""
    if isinstance(event, ev.ApproximateDPEvent):
        return ev.ApproximateDPEvent(event.epsilon), exactly(event.delta)
    if isinstance(event, ev.SelfComposedEvent):
        inner, delta = _without_deltas(event.event, relation)
        return replace(event, event=inner), delta * event.count
    if isinstance(event, (ev.ComposedEvent, ev.ParallelEvent, ev.ParallelByIndexEvent)):
        parts = [_without_deltas(part, relation) for part in event.events]
        deltas = sorted((delta for _, delta in parts), reverse=True)
        # One who is replaced may leave one part and enter another; one who comes or goes is in one part only.
        counted = deltas if isinstance(event, ev.ComposedEvent) else deltas[: 2 if relation is Relation.REPLACE else 1]
        return replace(event, events=tuple(part for part, _ in parts)), sum(counted, Fraction(0))
    return event, Fraction(0)


def _steps(number: float, per_unit: int) -> int:
    steps = math.ceil(exactly(number) * per_unit) if number < math.inf else _MOST + 1
    if not 0 <= steps <= _MOST:
        raise Unsupported("the event costs more than any budget has", "Use more noise")
    return steps


def _slack(order: float, delta: float) -> float:
    """What the conversion at an order adds (Canonne, Kamath & Steinke 2020, Proposition 12), rounded up."""
    slack = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
    return math.nextafter(slack + abs(slack) * 1e-15, math.inf)


def _best_order(epsilon: float, delta: float) -> float:
    """Return the lowest order at which 99 % of the small Gaussian releases fit that fit at the best order."""
    orders = 1 + np.geomspace(1e-3, 1e5, 4000)
    slack = np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    fitting = (epsilon - slack) / orders  # each costs in proportion to the order
    return float(np.round(orders[int(np.argmax(fitting >= 0.99 * fitting.max()))], 4))


def _three_digits_down(number: float) -> float:
    if not number > 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(number)) - 2)
    return float(f"{math.floor(number / unit) * unit:.3g}")


def _three_digits_up(number: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(number)) - 2)
    return float(f"{math.ceil(number / unit) * unit:.3g}")
