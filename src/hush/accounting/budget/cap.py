"""A cap: one guarantee for all releases from some data, however each is chosen."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from hush.accounting import events as ev
from hush.accounting.accountants.pld import PldAccountant
from hush.accounting.accountants.rdp import RdpAccountant
from hush.accounting.box import Box
from hush.accounting.budget.cost import DELTA_STEPS, LOSS_STEPS, MAX_STEPS, Cost
from hush.accounting.budget.prices import claimed_cost, event_cost, priced_parts, with_claimed_selections
from hush.accounting.filters import exactly
from hush.accounting.gaussian_rule import MU_STEPS, GaussianRule, Options, prepaid_options
from hush.accounting.losses.pairs import Alternative, alternatives, changes
from hush.accounting.smoothed_price import gaussian_share
from hush.errors import InvalidArgument, Unsupported, check_delta, check_instance, check_positive
from hush.guarantee import Guarantee, Relation, Unit

CLAIMS_SHARE = Fraction(1, 20)
"""The default share of a cap's delta for events that have a delta of their own."""

GAUSSIAN_SHARE = Fraction(11, 19)
"""The default share of the rest of delta for the comparison with Gaussian noise. Renyi divergence has what remains."""

FIRST = 10**12
"""How many events without an epsilon a first event counts as that took all of delta."""

NO_GAUSSIAN = GaussianRule(delta=0.0, most=-1, reserve=0, rate=0.0)
"""The terms of budgets that have no comparison with Gaussian noise, such as those of older ledgers."""

_INDICES = "earlier answers do not decide which part of the data somebody is in, such as who is held out"

_UNIT_NOISE = ev.GaussianEvent(1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """A limit on everything ever released. Each choice may depend on earlier releases.

    A total cost fits if the deltas of claims are within their share, and one of three rules accepts all of it: the
    Renyi divergence at an order fixed in advance, the sum of epsilons, or the comparison with Gaussian noise. The
    package's docstring proves that rules can be combined.

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
        anything is released (the caller's duty; a ledger stores them with the cap). Where a release of the box has
        parts by an index, earlier answers do not decide it (the caller's duty; `hush train` draws it by chance). A
        first event, charged by `first_cost`, comes first (the caller's duty; checked by a ledger).

    References:
        Feldman & Zrnic 2021, Theorem 3.1, and Lecuyer 2021, Theorem 1 (filter at a fixed order); Rogers et al. 2016
        (sums of epsilons); Smith & Thakurta 2022 and Koskela, Tobaben & Honkela 2023 (filters for Gaussians; ours holds
        for other losses by a reserve, `hush.accounting.smoothed_price`); Kairouz, Oh & Viswanath 2015, Theorem 3.2
        (an (epsilon, delta) claim fails with probability delta and is a pure claim otherwise); Haney et al. 2023
        (filters for mechanisms that run concurrently). The combination of rules is this package's own: see the
        package's docstring.

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
            raise InvalidArgument(
                "gaussian", self.gaussian_rule.delta, "a share of delta that leaves room for the share of claims"
            )
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
        return event_cost(self.box.event, self.relation, self.unit, self.order, NO_GAUSSIAN, self._most_renyi)

    @property
    def _most_renyi(self) -> int:
        """A divergence that exceeds the cap by far. Larger ones count as this, so that sums stay within 64 bits."""
        return min(100 * math.ceil(self.epsilon) * LOSS_STEPS, MAX_STEPS)

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
        return event_cost(event, self.relation, self.unit, self.order, self.gaussian_rule, self._most_renyi)

    def part_cost(self, event: ev.Event, whole: ev.Event, reserved: Cost) -> Cost:
        """Return the cost of an event that was run as a part of one that was reserved.

        How far it came may depend on what it showed. A price in Gaussian noise proves nothing about that, unless parts
        that were priced one by one were left out, or Gaussians. A whole that this rule could not allow was accepted by
        another one, and what was run of it is priced step by step: such prices add up, however many steps there are.
        """
        cost = self.cost(event)
        if not reserved.smoothed or self._is_part(event, whole):
            return cost
        whole_fits = reserved.gaussian <= self.gaussian_rule.most
        gaussian = reserved.gaussian if whole_fits else self._by_steps(event, whole)
        return replace(cost, gaussian=gaussian, smoothed=reserved.smoothed)

    def _by_steps(self, event: ev.Event, whole: ev.Event) -> int:
        """Return the sum of the prices of an event's steps; too much for the rule if the whole has other steps."""
        run, reserved = (
            ev.unrolled(ev.plain_event(described, self.relation, self.unit)[0]) for described in (event, whole)
        )
        too_much = self.gaussian_rule.most + 1
        if not run.keys() <= reserved.keys():
            return too_much
        return min(sum(number * self.cost(step).gaussian for step, number in run.items()), too_much)

    def _is_part(self, event: ev.Event, whole: ev.Event) -> bool:
        run, reserved = (
            Counter(priced_parts(ev.plain_event(described, self.relation, self.unit)[0]))
            for described in (event, whole)
        )
        return run <= reserved

    def covers(self, reserved: ev.Event, event: ev.Event) -> bool:
        """Return whether a price for one event as a whole also pays for another: for the same one, or a part of it."""
        run, whole = (ev.plain_event(described, self.relation, self.unit)[0] for described in (event, reserved))
        return ev.is_part(run, whole)

    def first_cost(self, event: ev.Event) -> Cost:
        """Return the cost of an event that comes first and takes all of delta: it is compared with the cap itself.

        Afterwards the other rules allow nothing, and the comparison with Gaussian noise what is left beside the event.
        Beside an event of several cases nothing is left: which case it is could follow the answers of other releases.
        """
        rule, limit = self.gaussian_rule, self.limit
        if self.box is not None or rule.most < 0:
            raise Unsupported("a first event, for a budget without the comparison with Gaussian noise")
        rule = replace(rule, delta=self.delta)
        rooms = [
            rule.room(self.epsilon, options) if fixed else 0 if rule.holds(self.epsilon, 0, options) else None
            for options, fixed in self._first(event)
        ]
        room = max((room for room in rooms if room is not None), default=None)
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
        rule = replace(rule, delta=self.delta)
        return any(
            (fixed or room == 0) and rule.holds(self.epsilon * (1 + 1e-9), room, options)
            for options, fixed in self._first(event)
        )

    def _first_cost(self, gaussian: int) -> Cost:
        limit = self.limit
        return Cost(renyi=limit.renyi + 1, unbounded=FIRST, delta=limit.delta, gaussian=gaussian)

    def _first(self, event: ev.Event) -> list[tuple[Options, bool]]:
        """Return a first event's loss distributions, and whether each change has one case, for each way to state it."""
        plain, _ = ev.plain_event(event, self.relation, self.unit)
        return [self._options(stated) for stated in with_claimed_selections(plain, self.relation, self.delta)]

    def _options(self, plain: ev.Event) -> tuple[Options, bool]:
        cases_by_change = [_costliest(alternatives(plain, change)) for change in changes(self.relation)]
        options = prepaid_options(tuple(option for cases in cases_by_change for option in cases))
        return options, all(len(cases) == 1 for cases in cases_by_change)

    def claimed_cost(self, event: ev.Event, *, delta: float) -> Cost:
        """Return the cost of an event as one claim: the epsilon of its privacy loss distribution at ``delta``.

        The claim is proven only if the whole event is fixed, and reserved, before any of its output is seen. For many
        parts, or large ones, it can cost less than the sum of the parts' costs.
        """
        plain, _ = ev.plain_event(event, self.relation, self.unit)
        return claimed_cost(
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
        indices = (_INDICES,) if self.box is not None and self.box.has_indices else ()
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            unit=self.unit,
            relation=self.relation,
            method=f"{rule}{boxed}, with adaptive choices",
            assumptions=(
                "everything that is released from these data is charged to this budget, before it is run",
                *indices,
            ),
        )


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


def _costliest(cases: list[Alternative]) -> list[Alternative]:
    """Return the cases that are not a part of another one, which costs more."""
    return [case for case in cases if not any(case < other for other in cases)]


@lru_cache(maxsize=256)
def _prepaid(box: Box, relation: Relation, unit: Unit) -> Options | None:
    try:
        return prepaid_options(box.options(relation, unit))
    except Unsupported:
        return None


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
