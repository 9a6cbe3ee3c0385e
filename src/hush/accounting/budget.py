"""Budgets: the cost of a release, and whether it fits under a cap on everything ever released.

    event         a description of the next release
    Cost          six integers: the cost of the event under each rule (`Cap.cost`)
    total         costs add up, exactly, in any database
    Cap           one (epsilon, delta) guarantee for all releases from some data; `Cap.fits` checks a total

A `Cap` holds even if choices depend on earlier answers: the next query, its parameters, and when to stop. Costs are
integers, rounded up, so a database can add them exactly and enforce the cap by a constraint.

**Three rules, side by side.** A total fits if the deltas of claims are within their share, and one of three rules
accepts everything that was charged: the Renyi divergence at one fixed order, the sum of epsilons, or the comparison
with Gaussian noise (`hush.accounting.gaussian_rule`). Each has a share of delta that is fixed in advance.

*Why this is valid.* Take the Renyi and the Gaussian rule, valid for (epsilon, d_1) and (epsilon, d_2). Let M be what an
analyst gets who stops when neither accepts more, and M_1 and M_2 the same analyst, stopped by one rule alone. Sort each
outcome by the rule that accepts all of it, by the first if both do. On outcomes of the first kind M and M_1 are the
same, and on the others M and M_2, so for any set S of outcomes

    P(M in S) = P(M_1 in S_1) + P(M_2 in S_2) <= e^epsilon (P'(M_1 in S_1) + P'(M_2 in S_2)) + d_1 + d_2

and the sum in brackets is P'(M in S). The sum of epsilons needs no share: on outcomes that only it accepts, the privacy
loss never exceeds epsilon. A claim with a delta is a pure claim, except on an event of that probability (Kairouz, Oh &
Viswanath 2015): these probabilities add up to at most the claims' share. A share that could be moved after
seeing outcomes would not be covered by this: K choices can cost up to K times as much.

*Renyi.* Let L be the privacy loss of everything released, and R the divergence charged at order a. At a fixed order,
exp((a - 1)(L - R)) is a supermartingale, whatever is run next (Feldman & Zrnic 2021), and (1 - e^(epsilon - L))_+ is at
most c e^((a - 1)(L - epsilon)) for the constant c of the conversion.

**The first event** of an untouched budget may be larger than any rule's share of delta allows, and still within the
cap. Then it is charged all of delta (`Cap.first_cost`), and only the Gaussian rule goes on, with what is left beside
it. That is valid because the choice is made from the event's public parameters, before anything is released.

It is refunded only while nothing else was charged: if a later answer decided whether it is run, delta would be spent
twice, once on outcomes with it and once on those without.

**A box** (`hush.accounting.box`) is declared with the budget, and paid with it: its composed privacy loss distribution.

**Runs that stop early** may do so because of what they showed. Renyi divergences and epsilons add up step by step, so
what was not run is refunded. The price in Gaussian noise is that of the whole run, and less than the sum of its steps'
prices: it is refunded by whole parts of a composed event only (`Cap.part_cost`).

**Large runs** can cost too much under every rule and still fit by their privacy loss distribution. Then the whole run
is charged as one claim (`Cap.claimed_cost`). That is valid because none of its output was seen before; for the same
reason, no part of the charge can be refunded.

`Budget` and `Reservation` are the protocol through which everything below the ledger charges: `Charge` is the request.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np

from hush.accounting import events as ev
from hush.accounting.accountants.classic_theorems import claims
from hush.accounting.accountants.pld import PldAccountant
from hush.accounting.accountants.rdp import RdpAccountant, renyi_bound
from hush.accounting.box import Box as Box
from hush.accounting.filters import exactly
from hush.accounting.gaussian_rule import MU_STEPS, Options, prepaid_options
from hush.accounting.gaussian_rule import GaussianRule as GaussianRule
from hush.accounting.losses.pairs import alternatives, changes
from hush.accounting.smoothed_price import gaussian_share
from hush.errors import (
    BudgetExceeded,
    HushError,
    InvalidArgument,
    Unsupported,
    check_delta,
    check_instance,
    check_positive,
)
from hush.guarantee import Guarantee, Relation, Unit

LOSS_STEPS = 10**12
"""The number of steps in an epsilon, or in a Renyi divergence, of 1."""

DELTA_STEPS = 10**18
"""The number of steps in a delta of 1."""

CLAIMS_SHARE = Fraction(1, 20)
"""The default share of a cap's delta for events that have a delta of their own."""

GAUSSIAN_SHARE = Fraction(11, 19)
"""The default share of the rest of delta for the comparison with Gaussian noise. Renyi divergence has what remains."""

FIRST = 10**12
"""How many events without an epsilon a first event counts as that took all of delta."""

NO_GAUSSIAN = GaussianRule(delta=0.0, most=-1, reserve=0, rate=0.0)
"""The terms of budgets that have no comparison with Gaussian noise, such as those of older ledgers."""

_UNIT_NOISE = ev.GaussianEvent(1.0)
_MAX_STEPS = 10**17  # of one charge: ten such charges still fit into 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of an event under a cap, in steps. Costs add up, event by event.

    >>> Cost(renyi=3, pure=2) + Cost(renyi=1, unbounded=1)
    Cost(renyi=4, pure=2, unbounded=1, delta=0, gaussian=0, smoothed=0)

    Attributes:
        renyi: The Renyi divergence at the cap's order, not counting outcomes that ``delta`` covers.
        pure: The sum of the epsilons of events that have one at delta = 0.
        unbounded: The number of events that have none, such as a Gaussian.
        delta: The sum of the deltas of claims. A claim may fail completely with probability delta.
        gaussian: The price in units of Gaussian noise, mu^2.
        smoothed: The number of events that are no Gaussians. In a limit: the largest ``gaussian`` if there are any.
    """

    renyi: int = 0
    pure: int = 0
    unbounded: int = 0
    delta: int = 0
    gaussian: int = 0
    smoothed: int = 0

    def __add__(self, other: Cost) -> Cost:
        """Return the sum of two costs."""
        return Cost(
            renyi=self.renyi + other.renyi,
            pure=self.pure + other.pure,
            unbounded=self.unbounded + other.unbounded,
            delta=self.delta + other.delta,
            gaussian=self.gaussian + other.gaussian,
            smoothed=self.smoothed + other.smoothed,
        )

    def __neg__(self) -> Cost:
        """Return the negative cost, as a refund."""
        return self.times(-1)

    def __le__(self, other: Cost) -> bool:
        """Return whether no component exceeds the other's."""
        return (
            self.renyi <= other.renyi
            and self.pure <= other.pure
            and self.unbounded <= other.unbounded
            and self.delta <= other.delta
            and self.gaussian <= other.gaussian
            and self.smoothed <= other.smoothed
        )

    def times(self, number: int) -> Cost:
        """Return the cost of a number of events like this one."""
        return Cost(
            renyi=number * self.renyi,
            pure=number * self.pure,
            unbounded=number * self.unbounded,
            delta=number * self.delta,
            gaussian=number * self.gaussian,
            smoothed=number * self.smoothed,
        )

    def within(self, limit: Cost) -> bool:
        """Return whether a total fits into a limit. The ledger's databases have the same condition as a constraint."""
        by_epsilons = self.unbounded == 0 and self.pure <= limit.pure
        by_gaussian = self.gaussian <= (limit.gaussian if self.smoothed == 0 else limit.smoothed)
        return self.delta <= limit.delta and (self.renyi <= limit.renyi or by_epsilons or by_gaussian)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """A limit on everything ever released. Each choice may depend on earlier releases.

    A total cost fits if the deltas of claims are within their share, and one of three rules accepts all of it: the
    Renyi divergence at an order fixed in advance, the sum of epsilons, or the comparison with Gaussian noise. The
    module's docstring proves that rules can be combined.

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
        Each event is charged before it is run (the caller's duty). The order, the shares and the box are chosen before
        anything is released (the caller's duty; a ledger stores them with the cap). A first event, charged by
        `first_cost`, comes first (the caller's duty; checked by a ledger).

    References:
        Feldman & Zrnic 2021, Theorem 3.1, and Lecuyer 2021, Theorem 1 (filter at a fixed order); Rogers et al. 2016
        (sums of epsilons); Smith & Thakurta 2022 and Koskela, Tobaben & Honkela 2023 (filters for Gaussians; ours holds
        for other losses by a reserve, `hush.accounting.smoothed_price`); Kairouz, Oh & Viswanath 2015, Theorem 3.2
        (an (epsilon, delta) claim fails with probability delta and is a pure claim otherwise); Haney et al. 2023
        (filters for mechanisms that run concurrently). The combination of rules is this package's own: see the
        module's docstring.

    Attributes:
        epsilon: The epsilon of the guarantee.
        delta: The delta of the guarantee.
        unit: The privacy unit.
        relation: How neighbouring datasets differ.
        order: The Renyi order. By default one that allows nearly as many small Gaussian releases as the best. None if
            Renyi divergence has no share of delta.
        claims_delta: The share of delta for events that have a delta of their own; by default a twentieth, and nothing
            beside a box.
        gaussian: The terms of the comparison with Gaussian noise; by default they follow from the others.
        box: Releases that are paid with the budget itself.
    """

    epsilon: float
    delta: float
    unit: Unit
    relation: Relation = Relation.ADD_OR_REMOVE
    order: float | None = None
    claims_delta: float | None = None
    gaussian: GaussianRule | None = None
    box: Box | None = None

    def __post_init__(self) -> None:
        """Check the arguments and fill in the defaults."""
        epsilon, delta = check_positive("epsilon", self.epsilon, maximum=1e4), check_delta("delta", self.delta)
        check_instance("unit", self.unit, Unit, "Such as Unit.user()")
        check_instance("relation", self.relation, Relation)
        share = CLAIMS_SHARE if self.box is None else 0
        claims_delta = float(exactly(delta) * share) if self.claims_delta is None else self.claims_delta
        if not check_delta("claims_delta", claims_delta) <= delta:
            raise InvalidArgument("claims_delta", claims_delta, "at most delta", "It is a share of delta")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)
        object.__setattr__(self, "claims_delta", float(claims_delta))
        if self.gaussian is None:
            object.__setattr__(self, "gaussian", self._chosen_gaussian())
        if not exactly(self.gaussian_rule.delta) + exactly(claims_delta) <= exactly(delta):
            raise InvalidArgument("gaussian", self.gaussian_rule.delta, "a share of delta, beside that of claims")
        object.__setattr__(self, "order", self._checked_order())
        if self.box is not None and not Cost().within(self.limit):
            raise InvalidArgument(
                "box",
                f"{sum(self.box.numbers)} releases",
                f"releases within epsilon = {epsilon:.4g}, delta = {delta:.3g}",
                "Declare fewer releases or more noise",
            )

    def _chosen_gaussian(self) -> GaussianRule:
        """Return the default terms of the comparison with Gaussian noise."""
        rest = self.delta if self.claims_delta == 0 else _below(exactly(self.delta) - exactly(self.claims_delta or 0.0))
        if self.box is None:
            return GaussianRule.chosen(epsilon=self.epsilon, delta=float(exactly(rest) * GAUSSIAN_SHARE))
        prepaid = self._prepaid()
        # What only a Renyi divergence describes is composed by the Renyi rule, with all of delta.
        return GaussianRule.chosen(epsilon=self.epsilon, delta=0.0 if prepaid is None else rest, prepaid=prepaid or ())

    def _prepaid(self) -> Options | None:
        """Return the composed losses of the box, which may be none; None if it has no privacy loss distribution."""
        return () if self.box is None else _prepaid(self.box, self.relation, self.unit)

    def _checked_order(self) -> float | None:
        """Return the order, or the default for this epsilon and delta."""
        if not self.renyi_delta > 0:
            if self.order is not None:
                raise InvalidArgument("order", self.order, "None, without a delta", "Renyi divergence needs a delta")
            return None
        if self.order is None and self.box is not None:
            # At this order the box costs least.
            accountant = RdpAccountant(relation=self.relation, unit=self.unit).compose(self.box.event)
            return float(accountant.best_order(self.renyi_delta))
        if self.order is None:
            return _best_order(self.epsilon, self.renyi_delta)
        if not check_positive("order", self.order, maximum=1e6) > 1:
            raise InvalidArgument("order", self.order, "a number > 1")
        return float(self.order)

    @property
    def gaussian_rule(self) -> GaussianRule:
        """The terms of the comparison with Gaussian noise."""
        assert self.gaussian is not None  # `__post_init__` has filled them in
        return self.gaussian

    @property
    def renyi_delta(self) -> float:
        """The part of delta that is reserved for Renyi divergence, rounded down."""
        if self.box is not None and self.gaussian_rule.delta > 0:
            return 0.0
        return _below(exactly(self.delta) - exactly(self.claims_delta or 0.0) - exactly(self.gaussian_rule.delta))

    @property
    def limit(self) -> Cost:
        """The limit of each component of a cost. It is -1 for a rule that allows nothing."""
        return _limit(self)

    @property
    def boxed(self) -> Cost:
        """What the box costs under the rules on epsilons and on Renyi divergence."""
        if self.box is None or self.gaussian_rule.delta > 0:
            return Cost()
        return _cost(self.box.event, self.relation, self.unit, self.order, NO_GAUSSIAN, self._most_renyi)

    @property
    def _most_renyi(self) -> int:
        """A divergence that exceeds the cap by far. Larger ones count as this, so that sums stay within 64 bits."""
        return min(100 * math.ceil(self.epsilon) * LOSS_STEPS, _MAX_STEPS)

    def proves_terms(self) -> bool:
        """Return whether the stored terms of the comparison with Gaussian noise prove the guarantee."""
        rule, prepaid = self.gaussian_rule, self._prepaid()
        # Processors may round the last digit of epsilon differently.
        return rule.most < 0 or (
            rule.rate >= 0
            and rule.reserve >= 0
            and prepaid is not None
            and rule.holds(self.epsilon * (1 + 1e-9), rule.most, prepaid)
        )

    def fits(self, spent: Cost) -> bool:
        """Return whether a total cost fits, so that the guarantee holds."""
        return spent.within(self.limit)

    def spent_epsilon(self, spent: Cost) -> float:
        """Return the smallest epsilon for which a cap of this delta, order and shares would have allowed this cost.

        After a first event that took all of delta it is the cap's.
        """
        if spent == Cost() and self.box is None:
            return 0.0
        if spent.unbounded >= FIRST:
            return self.epsilon if self.fits(spent) else math.inf
        rule, epsilons = self.gaussian_rule, [math.inf]
        if spent.unbounded == 0 and self.limit.pure >= 0:
            epsilons.append((spent.pure + self.boxed.pure) / LOSS_STEPS)
        if self.order is not None and spent.renyi < self._most_renyi:
            renyi = (spent.renyi + self.boxed.renyi) / LOSS_STEPS
            epsilons.append(max(renyi + _slack(self.order, self.renyi_delta), 0.0))
        if rule.most >= 0 and spent.gaussian <= rule.most:
            prepaid = self._prepaid() or ()
            epsilons.append(rule.epsilon(spent.gaussian, smoothed=spent.smoothed > 0, prepaid=prepaid))
        return min(min(epsilons), self.epsilon if self.fits(spent) else math.inf)

    def used(self, spent: Cost) -> float:
        """Return the fraction of the budget that is used, by the rule that leaves more."""
        limit = self.limit
        fractions = [spent.pure / limit.pure] if spent.unbounded == 0 and limit.pure > 0 else []
        if limit.renyi > 0:
            fractions.append(spent.renyi / limit.renyi)
        most = limit.gaussian if spent.smoothed == 0 else limit.smoothed
        if most > 0:
            fractions.append(spent.gaussian / most)
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
        return _cost(event, self.relation, self.unit, self.order, self.gaussian_rule, self._most_renyi)

    def part_cost(self, event: ev.Event, whole: ev.Event, reserved: Cost) -> Cost:
        """Return the cost of an event that was run as a part of one that was reserved.

        How far it came may depend on what it showed. A price in Gaussian noise proves nothing about that, unless parts
        that were priced one by one were left out, or Gaussians, or the whole exceeds what that rule ever allows.
        """
        cost = self.cost(event)
        if not reserved.smoothed or reserved.gaussian > self.gaussian_rule.most or self._is_part(event, whole):
            return cost
        return replace(cost, gaussian=reserved.gaussian, smoothed=reserved.smoothed)

    def _is_part(self, event: ev.Event, whole: ev.Event) -> bool:
        run, reserved = (
            Counter(_parts(ev.plain_event(described, self.relation, self.unit)[0])) for described in (event, whole)
        )
        return run <= reserved

    def covers(self, reserved: ev.Event, event: ev.Event) -> bool:
        """Return whether a price for one event as a whole also pays for another: for the same one, or a part of it."""
        run, whole = (ev.plain_event(described, self.relation, self.unit)[0] for described in (event, reserved))
        return ev.is_part(run, whole)

    def first_cost(self, event: ev.Event) -> Cost:
        """Return the cost of an event that comes first and takes all of delta: it is compared with the cap itself.

        Afterwards the other rules allow nothing, and the comparison with Gaussian noise what is left beside the event.
        """
        rule, limit = self.gaussian_rule, self.limit
        if self.box is not None or rule.most < 0:
            raise Unsupported("a first event, for a budget without the comparison with Gaussian noise")
        room = replace(rule, delta=self.delta).room(self.epsilon, self._first(event))
        if room is None:
            raise Unsupported("a first event that exceeds the budget", "Use more noise")
        return self._first_cost(limit.gaussian - min(room, limit.gaussian))

    def proves_first(self, event: ev.Event, cost: Cost) -> bool:
        """Return whether a cost like that of `first_cost` is enough for an event."""
        rule, limit = self.gaussian_rule, self.limit
        room = limit.gaussian - cost.gaussian
        if self.box is not None or rule.most < 0 or room < 0 or cost != self._first_cost(cost.gaussian):
            return False
        # Processors may round the last digit of epsilon differently.
        return replace(rule, delta=self.delta).holds(self.epsilon * (1 + 1e-9), room, self._first(event))

    def _first_cost(self, gaussian: int) -> Cost:
        limit = self.limit
        return Cost(renyi=limit.renyi + 1, unbounded=FIRST, delta=limit.delta, gaussian=gaussian)

    def _first(self, event: ev.Event) -> Options:
        plain, _ = ev.plain_event(event, self.relation, self.unit)
        options = [alternatives(plain, change) for change in changes(self.relation)]
        if any(len(cases) > 1 for cases in options):
            # Other releases may come between, and which case it is may follow their answers.
            raise Unsupported(f"{plain.kind} of several cases, as a first event")
        return prepaid_options(tuple(option for cases in options for option in cases))

    def claimed_cost(self, event: ev.Event, *, delta: float) -> Cost:
        """Return the cost of an event as one claim: the epsilon of its privacy loss distribution at ``delta``.

        The claim is proven only if the whole event is fixed, and reserved, before any of its output is seen. For many
        parts, or large ones, it can cost less than the sum of the parts' costs.
        """
        plain, _ = ev.plain_event(event, self.relation, self.unit)
        return _claimed(
            plain,
            self.relation,
            self.unit,
            self.order,
            self.gaussian_rule,
            self._most_renyi,
            check_positive("delta", check_delta("delta", delta)),
        )

    def largest_epsilon(self, spent: Cost) -> float:
        """Return the largest epsilon, rounded down to three digits, of a pure release that still fits."""
        limit, low = self.limit, 0.0
        if spent.unbounded == 0 and spent.delta <= limit.delta:
            low = max(limit.pure - spent.pure, 0) / LOSS_STEPS  # exactly, by the sum of epsilons
        high = float(self.epsilon)
        while high - low > 2e-4 * high and high > 1e-5:
            middle = (low + high) / 2
            fits = self.fits(spent + self.cost(ev.ApproximateDPEvent(middle)))
            low, high = (middle, high) if fits else (low, middle)
        largest = _three_digits_down(low)
        return largest if largest >= 1e-5 else 0.0

    def least_noise(self, spent: Cost) -> float:
        """Return the smallest noise multiplier, rounded up, of a Gaussian release that still fits, or infinity."""
        limit, needed = self.limit, [math.inf]
        if self.order is not None and limit.renyi > spent.renyi:
            one = self.cost(ev.GaussianEvent(100.0)).renyi  # of little noise it would be more than any budget
            needed.append(100.0 * math.sqrt(one / (limit.renyi - spent.renyi)))
        room = (limit.gaussian if spent.smoothed == 0 else limit.smoothed) - spent.gaussian
        if room > 0:
            options = [option for change in changes(self.relation) for option in alternatives(_UNIT_NOISE, change)]
            needed.append(math.sqrt(max(gaussian_share(option) for option in options) * MU_STEPS / room))
        least = min(needed)
        # Costs are rounded up, so that the exact root may not fit.
        return _three_digits_up(least * (1 + 1e-6)) if least < math.inf else math.inf

    def guarantee(self) -> Guarantee:
        """Return the guarantee, which holds however the budget is spent."""
        rules = [] if self.order is None else [f"Renyi order {self.order:.4g}"]
        rules += ["Gaussian noise"] if self.gaussian_rule.most >= 0 else []
        rule = f"a privacy filter ({' or '.join(rules)})" if rules else "basic composition"
        boxed = "" if self.box is None else f", beside {sum(self.box.numbers)} declared releases"
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            unit=self.unit,
            relation=self.relation,
            method=f"{rule}{boxed}, with adaptive choices",
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
    except BaseException:
        with suppress(HushError):  # another process asks the same
            reservation.hold(1)  # the caller learns of the failure: only --force voids the reservation from now on
            reservation.release()
        raise
    stored = reservation.commit(answer=answer)
    assert stored is not None
    note(reservation)
    return stored


@lru_cache(maxsize=1024)
def _limit(cap: Cap) -> Cost:
    rule, boxed, renyi, pure = cap.gaussian_rule, cap.boxed, -1, -1
    if cap.order is not None:
        slack = exactly(_slack(cap.order, cap.renyi_delta))
        renyi = math.floor((exactly(cap.epsilon) - slack) * LOSS_STEPS) - boxed.renyi
    if cap.box is None or cap.delta == 0:  # beside a box, a loss that never exceeds epsilon is no longer free
        pure = math.floor(exactly(cap.epsilon) * LOSS_STEPS) - boxed.pure
    return Cost(
        renyi=max(renyi, -1),
        pure=max(pure, -1),
        delta=max(math.floor(exactly(cap.claims_delta or 0.0) * DELTA_STEPS) - boxed.delta, -1),
        gaussian=rule.most,
        smoothed=rule.most_smoothed,
    )


@lru_cache(maxsize=256)
def _prepaid(box: Box, relation: Relation, unit: Unit) -> Options | None:
    try:
        return prepaid_options(box.options(relation, unit))
    except Unsupported:
        return None


@lru_cache(maxsize=4096)
def _cost(
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
            "it exceeds all that the budget has"
            if has_delta
            else "it has no epsilon at delta 0, and the budget has no delta to spare"
        )
        raise Unsupported(f"{plain.kind}: {why}", "Use Laplace noise, more noise, or a budget with a delta")
    if not failure < 1:
        raise Unsupported(f"{plain.kind}: its deltas add up to 1, so it protects nothing", "Use smaller deltas")
    return Cost(
        renyi=0 if order is None else min(most_renyi, most_renyi if divergence is None else divergence),
        pure=0 if pure is None else _steps(pure, LOSS_STEPS),
        unbounded=int(pure is None),
        delta=math.ceil(failure * DELTA_STEPS),
        gaussian=gaussian,
        smoothed=smoothed,
    )


def _divergence(event: ev.Event, relation: Relation, order: float) -> int | None:
    """Return an event's Renyi divergence in steps; None if it has none, or more than any budget."""
    try:
        return _steps(_renyi(event, relation, order), LOSS_STEPS)
    except Unsupported:
        return None


def _claimed(
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
    return _cost(ev.ApproximateDPEvent(max(epsilon, 1e-6), delta), relation, unit, order, rule, most_renyi)


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


def _parts(event: ev.Event) -> list[ev.Event]:
    """Return the parts of which a composed event's price in Gaussian noise is the sum."""
    if not isinstance(event, ev.ComposedEvent):
        return [event]
    return [leaf for part in event.events for leaf in _parts(part)]


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
    """Return the highest order that allows 99 % of the number of small Gaussian releases that the best one allows.

    Gaussians and sampled Gaussians usually cost less by the comparison with Gaussian noise. This order is for the
    others: bounded losses, which cost less at a high order than Gaussians do.
    """
    orders = 1 + np.geomspace(1e-3, 1e5, 4000)
    slack = np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    fitting = (epsilon - slack) / orders  # the number of releases: each costs in proportion to the order
    return float(np.round(orders[int(np.flatnonzero(fitting >= 0.99 * fitting.max())[-1])], 4))


def _below(number: Fraction) -> float:
    """Return a float below a number; 0 if it is not positive."""
    return math.nextafter(float(number), 0.0) if number > 0 else 0.0


def _three_digits_down(number: float) -> float:
    if not number > 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(number)) - 2)
    return float(f"{math.floor(number / unit) * unit:.3g}")


def _three_digits_up(number: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(number)) - 2)
    return float(f"{math.ceil(number / unit) * unit:.3g}")
