"""Budgets: the cost of a release, and whether it fits under a cap on everything ever released.

    event         a description of the next release
    Cost          four integers: Renyi divergence, epsilon, events without an epsilon, delta (`Cap.cost`)
    total         costs add up, exactly, in any database
    Cap           one (epsilon, delta) guarantee for all releases from some data; `Cap.fits` checks a total

A `Cap` holds even if choices depend on earlier answers: the next query, its parameters, and when to stop. Costs are
integers, rounded up, so a database can add them exactly and enforce the cap by a constraint.

**Why two rules can be combined.** A total fits if the Renyi divergence at one fixed order is within its limit, *or* if
every event has an epsilon and these add up to at most the cap's. Let L be the privacy loss of everything released, and
R the Renyi divergence charged at order a. At a fixed order, exp((a - 1)(L - R)) is a supermartingale, whatever is run
next (Feldman & Zrnic 2021), and (1 - e^(epsilon - L))_+ is at most c e^((a - 1)(L - epsilon)) for the constant c of the
conversion. So on outcomes where R ends within its limit, the expected excess is at most the delta of that rule. On
outcomes where only the sum of epsilons is within the cap, L never exceeds epsilon, and the excess is 0. A claim with a
delta is a pure claim, except on an event of that probability (Kairouz, Oh & Viswanath 2015). These probabilities add up
to at most the claims' own share of delta. The share is fixed in advance: one that could be moved after seeing outcomes
would cost up to twice as much.

**Large runs** can cost too much at the cap's order and still fit by their privacy loss distribution. Then the whole run
is charged as one claim (`Cap.claimed_cost`). That is valid because none of its output was seen before; for the same
reason, no part of the charge can be refunded.

`Budget` and `Reservation` are the protocol through which everything below the ledger charges: `Charge` is the request.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np

from hush.accounting import events as ev
from hush.accounting.accountants.classic_theorems import claims
from hush.accounting.accountants.pld import PldAccountant
from hush.accounting.accountants.rdp import renyi_bound
from hush.accounting.filters import exactly
from hush.accounting.losses.pairs import changes
from hush.errors import BudgetExceeded, InvalidArgument, Unsupported, check_delta, check_instance, check_positive
from hush.guarantee import Guarantee, Relation, Unit

LOSS_STEPS = 10**12
"""The number of steps in an epsilon, or in a Renyi divergence, of 1."""

DELTA_STEPS = 10**18
"""The number of steps in a delta of 1."""

CLAIMS_SHARE = Fraction(1, 10)
"""The default share of a cap's delta for events that have a delta of their own."""

_MAX_STEPS = 10**17  # of one charge: ten such charges still fit into 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of an event under a cap, in steps. Costs add up, event by event.

    >>> Cost(renyi=3, pure=2) + Cost(renyi=1, unbounded=1)
    Cost(renyi=4, pure=2, unbounded=1, delta=0)

    Attributes:
        renyi: The Renyi divergence at the cap's order, not counting outcomes that ``delta`` covers.
        pure: The sum of the epsilons of events that have one at delta = 0.
        unbounded: The number of events that have none, such as a Gaussian.
        delta: The sum of the deltas of claims. A claim may fail completely with probability delta.
    """

    renyi: int = 0
    pure: int = 0
    unbounded: int = 0
    delta: int = 0

    def __add__(self, other: Cost) -> Cost:
        """Return the sum of two costs."""
        return Cost(
            renyi=self.renyi + other.renyi,
            pure=self.pure + other.pure,
            unbounded=self.unbounded + other.unbounded,
            delta=self.delta + other.delta,
        )

    def __neg__(self) -> Cost:
        """Return the negative cost, as a refund."""
        return Cost(renyi=-self.renyi, pure=-self.pure, unbounded=-self.unbounded, delta=-self.delta)

    def __le__(self, other: Cost) -> bool:
        """Return whether no component exceeds the other's."""
        return (
            self.renyi <= other.renyi
            and self.pure <= other.pure
            and self.unbounded <= other.unbounded
            and self.delta <= other.delta
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """A limit on everything ever released. Each choice may depend on earlier releases.

    A total cost fits if the deltas of claims are within their share, and one of two rules holds. Either the Renyi
    divergence, at an order fixed in advance, is within what the rest of delta allows. Or every event has an epsilon,
    and these add up to at most that of the cap. The module's docstring proves that the two rules can be combined.

    >>> cap = Cap(epsilon=1.0, delta=1e-6, unit=Unit.user())
    >>> spent = Cost()
    >>> for _ in range(9):
    ...     spent = spent + cap.cost(ev.LaplaceEvent(scale=10.0))  # epsilon 0.1 each
    >>> cap.fits(spent), round(cap.spent_epsilon(spent), 3), cap.largest_epsilon(spent)
    (True, 0.9, 0.1)

    Guarantee:
        (epsilon, delta)-DP for any sequence of events chosen adaptively, including their parameters and when to stop,
        even if several run at the same time.

    Assumes:
        Each event is charged before it is run (the caller's duty). The order and the share of claims are chosen before
        anything is released (the caller's duty; a ledger stores them with the cap).

    References:
        Feldman & Zrnic 2021, Theorem 3.1, and Lecuyer 2021, Theorem 1 (filter at a fixed order); Rogers et al. 2016
        (sums of epsilons); Kairouz, Oh & Viswanath 2015, Theorem 3.2 (an (epsilon, delta) claim fails with probability
        delta and is a pure claim otherwise); Haney et al. 2023 (filters for mechanisms that run concurrently). The two
        rules can be combined because the second leaves no loss above epsilon: the module's docstring has the argument.

    Attributes:
        epsilon: The epsilon of the guarantee.
        delta: The delta of the guarantee.
        unit: The privacy unit.
        relation: How neighbouring datasets differ.
        order: The Renyi order. By default the lowest one that allows nearly as many small Gaussian releases as the
            best: at high orders, sampled releases with little noise cost too much. None if delta is 0: then only the
            sum of epsilons counts.
        claims_delta: The share of delta for events that have a delta of their own, by default a tenth.
    """

    epsilon: float
    delta: float
    unit: Unit
    relation: Relation = Relation.ADD_OR_REMOVE
    order: float | None = None
    claims_delta: float | None = None

    def __post_init__(self) -> None:
        """Check the arguments and fill in the defaults."""
        epsilon, delta = check_positive("epsilon", self.epsilon, maximum=1e4), check_delta("delta", self.delta)
        check_instance("unit", self.unit, Unit, "Such as Unit.user()")
        check_instance("relation", self.relation, Relation)
        claims_delta = float(exactly(delta) * CLAIMS_SHARE) if self.claims_delta is None else self.claims_delta
        if not check_delta("claims_delta", claims_delta) <= delta:
            raise InvalidArgument("claims_delta", claims_delta, "at most delta", "It is a share of delta")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)
        object.__setattr__(self, "claims_delta", float(claims_delta))
        object.__setattr__(self, "order", self._checked_order())

    def _checked_order(self) -> float | None:
        """Return the order, or the default for this epsilon and delta."""
        if not self.renyi_delta > 0:
            if self.order is not None:
                raise InvalidArgument("order", self.order, "None, without a delta", "Renyi divergence needs a delta")
            return None
        if self.order is None:
            return _best_order(self.epsilon, self.renyi_delta)
        if not check_positive("order", self.order, maximum=1e6) > 1:
            raise InvalidArgument("order", self.order, "a number > 1")
        return float(self.order)

    @property
    def renyi_delta(self) -> float:
        """The part of delta that is not reserved for claims, rounded down."""
        rest = exactly(self.delta) - exactly(self.claims_delta or 0.0)
        return math.nextafter(float(rest), 0.0) if rest > 0 else 0.0

    @property
    def limit(self) -> Cost:
        """The limit of each component of a cost. ``renyi`` is -1 if that rule allows nothing."""
        renyi = -1
        if self.order is not None:
            renyi = math.floor((exactly(self.epsilon) - exactly(_slack(self.order, self.renyi_delta))) * LOSS_STEPS)
        return Cost(
            renyi=max(renyi, -1),
            pure=math.floor(exactly(self.epsilon) * LOSS_STEPS),
            delta=math.floor(exactly(self.claims_delta or 0.0) * DELTA_STEPS),
        )

    def fits(self, spent: Cost) -> bool:
        """Return whether a total cost fits, so that the guarantee holds."""
        limit = self.limit
        pure_fits = spent.unbounded == 0 and spent.pure <= limit.pure
        return spent.delta <= limit.delta and (spent.renyi <= limit.renyi or pure_fits)

    def spent_epsilon(self, spent: Cost) -> float:
        """Return the smallest epsilon for which a cap of this delta, order and share would have allowed this cost."""
        if spent == Cost():
            return 0.0
        epsilons = [spent.pure / LOSS_STEPS] if spent.unbounded == 0 else []
        if self.order is not None:
            epsilons.append(max(spent.renyi / LOSS_STEPS + _slack(self.order, self.renyi_delta), 0.0))
        return min(epsilons, default=math.inf)

    def used(self, spent: Cost) -> float:
        """Return the fraction of the budget that is used, by the rule that leaves more."""
        limit = self.limit
        fractions = [spent.pure / limit.pure] if spent.unbounded == 0 else []
        if limit.renyi > 0:
            fractions.append(spent.renyi / limit.renyi)
        return max(min(fractions, default=0.0), spent.delta / limit.delta if spent.delta else 0.0)

    def alone(self, event: ev.Event, cost: Cost) -> float:
        """Return the epsilon of an event on its own, at the cap's delta."""
        try:
            accountant = PldAccountant(relation=self.relation, unit=self.unit).compose(event)
            return min(accountant.epsilon(self.delta), self.spent_epsilon(cost))
        except Unsupported:
            return self.spent_epsilon(cost)

    def cost(self, event: ev.Event) -> Cost:
        """Return the cost of an event. Events without a Renyi divergence are refused: see `claimed_cost`."""
        check_instance("event", event, ev.Event)
        return _cost(event, self.relation, self.unit, self.order)

    def claimed_cost(self, event: ev.Event, *, delta: float) -> Cost:
        """Return the cost of an event as one claim: the epsilon of its privacy loss distribution at ``delta``.

        The claim is proven only if the whole event is fixed, and reserved, before any of its output is seen. For many
        parts, or large ones, it can cost less than the sum of the parts' costs.
        """
        plain, _ = ev.plain_event(event, self.relation, self.unit)
        return _claimed(
            plain, self.relation, self.unit, self.order, check_positive("delta", check_delta("delta", delta))
        )

    def largest_epsilon(self, spent: Cost) -> float:
        """Return the largest epsilon, rounded down to three digits, of a pure release that still fits."""
        low, high = 0.0, float(self.epsilon)
        for _ in range(60):
            middle = (low + high) / 2
            if middle < 1e-6 or self.fits(spent + self.cost(ev.ApproximateDPEvent(middle))):
                low = middle
            else:
                high = middle
        largest = _three_digits_down(low)
        return largest if largest >= 1e-5 else 0.0

    def least_noise(self, spent: Cost) -> float:
        """Return the smallest noise multiplier, rounded up, of a Gaussian release that still fits, or infinity."""
        remaining = self.limit.renyi - spent.renyi
        if self.order is None or remaining <= 0:
            return math.inf
        return _three_digits_up(math.sqrt(self.cost(ev.GaussianEvent(1.0)).renyi / remaining))

    def guarantee(self) -> Guarantee:
        """Return the guarantee, which holds however the budget is spent."""
        rule = "basic composition" if self.order is None else f"a privacy filter at Renyi order {self.order:.4g}"
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            unit=self.unit,
            relation=self.relation,
            method=f"{rule}, with adaptive choices",
            assumptions=("everything that is released from these data is charged to this budget, before it is run",),
        )


class Repeat(Enum):
    """What to do if a question was asked before. If the data are the same, the stored answer is returned.

    >>> Charge(event=ev.LaplaceEvent(scale=2.0), purpose="count of users").repeat is Repeat.REFUSED_ON_OTHER_DATA
    True
    """

    REFUSED_ON_OTHER_DATA = "refused on other data"
    CHARGED_ON_OTHER_DATA = "charged on other data"
    CHARGED = "charged"  # also where the data look the same: a database does not say when its tables changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """A request to charge a budget for a release.

    >>> Charge(event=ev.LaplaceEvent(scale=2.0), purpose="count of users").sealed
    False

    Attributes:
        event: The event that will be run; less may be run, but not more.
        purpose: The purpose in a few words.
        question: A text that identifies the question, so that a repeated question is recognised. Empty if there is
            none.
        data: A text that identifies the data. A stored answer is returned only if it was computed from the same data.
        repeat: What to do if the question was asked before.
        delta: The delta at which to state the event if it has to be charged as a claim.
        sealed: Whether the result leaves only after `Reservation.commit`. Then it can be run again after a crash.
        request: Your own key. A second charge with the same key is the same charge.
        folder: Where the result will be written, if it is a folder: a ledger's report links to it.
        resumes: Whether it may continue with what the same request reserved but did not settle: an interrupted run.
        parts: The blocks of the data that it reads, if known. A budget with blocks refuses the charge if it is not
            charged to exactly these blocks.
    """

    event: ev.Event
    purpose: str
    question: str = ""
    data: str = ""
    repeat: Repeat = Repeat.REFUSED_ON_OTHER_DATA
    delta: float | None = None
    sealed: bool = False
    request: str | None = None
    folder: str = ""
    resumes: bool = False
    parts: tuple[str, ...] | None = None


class Reservation(Protocol):
    """A part of a budget that is set aside. It counts as spent unless it is voided."""

    @property
    def answer(self) -> str | None:
        """The stored answer, if the same question was answered before. In that case there is nothing to run."""

    @property
    def resumed(self) -> bool:
        """Whether it continues an interrupted run, which must then continue from its stored state."""

    def is_open(self) -> bool:
        """Return whether it is pending: neither committed nor voided."""

    def hold(self, states: int) -> None:
        """Keep other processes from continuing this run, and record how many states it has stored."""

    def release(self, *, wait: bool = True) -> None:
        """Let another process continue this run. The reservation stays pending. ``wait``: return when it is done."""

    def commit(self, event: ev.Event | None = None, *, answer: str | None = None) -> str | None:
        """Record that the event was run, or only a part of it; store the answer, and return the stored one."""

    def void(self) -> None:
        """Record that nothing was released."""


class Budget(Protocol):
    """Anything that events can be charged to before they are run, such as a ledger's budget."""

    def reserve(self, charge: Charge) -> Reservation:
        """Set aside the cost of a charge, or raise `BudgetExceeded` and change nothing."""


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer that a budget has stored, which was charged when it was released.

    >>> StoredAnswer(ev.LaplaceEvent(scale=2.0), "42").text
    '42'

    Attributes:
        event: What it was charged for.
        text: The answer.
    """

    event: ev.Event
    text: str


@runtime_checkable
class AnswerStore(Protocol):
    """A budget whose stored answers can be looked up. What was released is public: to read it again costs nothing."""

    def answered(self, charge: Charge) -> Reservation | None:
        """Return the earlier reservation of the same question or request, if it can be continued. Charge nothing."""

    def answers(self, question: str, data: str) -> Sequence[StoredAnswer]:
        """Return the answers to a question about the same data, whatever their noise is, the last one first."""


def run_sealed(
    budget: Budget, charge: Charge, run: Callable[[], str], settled: Callable[[Reservation], None] | None = None
) -> str:
    """Run a computation whose result leaves only after it is charged, and return the answer that the budget stored.

    If ``run`` raises, the reservation stays, since the failure itself may reveal something. Asking the same question
    again continues with the reservation and costs nothing more. The reservation is voided only if a further charge
    inside ``run`` is refused, because budgets refuse before data are read.

    Args:
        budget: The budget to charge.
        charge: The request.
        run: Computes the answer.
        settled: Called with the reservation once the answer may be released.
    """
    reservation = budget.reserve(replace(charge, sealed=True))
    note = settled or (lambda _: None)
    if reservation.answer is not None:
        note(reservation)
        return reservation.answer
    try:
        answer = run()
    except BudgetExceeded:
        reservation.void()
        raise
    stored = reservation.commit(answer=answer)
    assert stored is not None
    note(reservation)
    return stored


@lru_cache(maxsize=4096)
def _cost(event: ev.Event, relation: Relation, unit: Unit, order: float | None) -> Cost:
    """Return the cost of an event at a Renyi order, or without one."""
    plain, _ = ev.plain_event(event, relation, unit)
    # A claim with a delta is a pure claim, except on an event of that probability, which is charged as delta.
    without_deltas, failure = _without_deltas(plain, relation)
    pure = _pure(without_deltas, relation)
    divergence = 0.0 if order is None else _renyi(without_deltas, relation, order)
    if order is None and pure is None:
        raise Unsupported(
            f"{plain.kind}: it has no epsilon at delta 0, and the budget has no delta to spare",
            "Use Laplace noise, or a budget with a delta",
        )
    if not failure < 1:
        raise Unsupported(f"{plain.kind}: its deltas add up to 1, so it protects nothing", "Use smaller deltas")
    return Cost(
        renyi=_steps(divergence, LOSS_STEPS),
        pure=0 if pure is None else _steps(pure, LOSS_STEPS),
        unbounded=int(pure is None),
        delta=math.ceil(failure * DELTA_STEPS),
    )


def _claimed(plain: ev.Event, relation: Relation, unit: Unit, order: float | None, delta: float) -> Cost:
    """Return the cost of the claim (epsilon, delta), where epsilon comes from the privacy loss distribution."""
    epsilon = PldAccountant(relation=relation, unit=unit).compose(plain).epsilon(delta)
    if not epsilon < 1e3:
        raise Unsupported(f"{plain.kind}: it protects nothing at delta = {delta:.3g}", "Use more noise")
    return _cost(ev.ApproximateDPEvent(max(epsilon, 1e-6), delta), relation, unit, order)


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


def _steps(number: float, per_unit: int) -> int:
    """Return a loss in steps, rounded up."""
    steps = math.ceil(exactly(number) * per_unit) if number < math.inf else _MAX_STEPS + 1
    if not 0 <= steps <= _MAX_STEPS:
        raise Unsupported("the event costs more than any budget has", "Use more noise")
    return steps


def _slack(order: float, delta: float) -> float:
    """Return the conversion's additive term at an order (Canonne, Kamath & Steinke 2020, Prop. 12), rounded up."""
    slack = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
    return math.nextafter(slack + abs(slack) * 1e-15, math.inf)


def _best_order(epsilon: float, delta: float) -> float:
    """Return the lowest order that allows 99 % of the number of small Gaussian releases that the best one allows."""
    orders = 1 + np.geomspace(1e-3, 1e5, 4000)
    slack = np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    fitting = (epsilon - slack) / orders  # the number of releases: each costs in proportion to the order
    return float(np.round(orders[int(np.argmax(fitting >= 0.99 * fitting.max()))], 4))


def _three_digits_down(number: float) -> float:
    if not number > 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(number)) - 2)
    return float(f"{math.floor(number / unit) * unit:.3g}")


def _three_digits_up(number: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(number)) - 2)
    return float(f"{math.ceil(number / unit) * unit:.3g}")
