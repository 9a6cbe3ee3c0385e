"""Filters and odometers: budgets for parameters that are chosen on the way.

An accountant's theorem needs the events fixed in advance. When the next event's parameters depend on earlier outcomes,
ask a filter before each step: it says no *before* the budget would be overspent. An odometer instead tells at any
moment what has been spent.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction

import numpy as np

from hush.accounting.accountants.accountant import Accountant, check_accountant
from hush.accounting.accountants.classic import BasicAccountant, claims
from hush.accounting.accountants.pld import PldAccountant
from hush.accounting.accountants.rdp import RdpAccountant, renyi_bound
from hush.accounting.accountants.zcdp import ZcdpAccountant, epsilon_to_rho, rho_bound
from hush.accounting.events import Event, plain_event
from hush.accounting.losses.pairs import changes
from hush.errors import (
    BudgetExceeded,
    InvalidArgument,
    Unsupported,
    check_delta,
    check_epsilon,
    check_instance,
    check_positive,
)
from hush.guarantee import Guarantee, Relation, Unit

_ADAPTIVE = "each event is charged before it is run"


class PrivacyFilter(ABC):
    """A budget that events are charged to before they are run.

    ``spend(event)`` charges, or raises `BudgetExceeded` and charges nothing. The guarantee holds from the start,
    whatever is spent later.
    """

    method: str

    def __init__(self, *, epsilon: float, delta: float, relation: Relation, unit: Unit | None) -> None:
        """Store the budget."""
        self.epsilon = check_epsilon("epsilon", epsilon)
        self.delta = check_delta("delta", delta)
        check_instance("relation", relation, Relation)
        self.relation = relation
        self.unit = Unit.example() if unit is None else unit
        check_instance("unit", self.unit, Unit)
        self._spent = Fraction(0)
        self._assumed: tuple[str, ...] = ()

    @property
    def spent(self) -> float:
        """What was charged so far, in the filter's own currency."""
        return float(self._spent)

    @property
    @abstractmethod
    def limit(self) -> float:
        """The budget in the filter's own currency, as ``spent`` is."""

    @abstractmethod
    def cost(self, event: Event) -> float:
        """Return what an event costs in the filter's own currency."""

    def can_spend(self, event: Event) -> bool:
        """Say whether `spend` would accept the event now."""
        after = self._after(event)
        return after is not None and after <= exactly(self.limit)

    def spend(self, event: Event) -> None:
        """Charge an event that is about to be run, or refuse it."""
        after = self._after(event)
        if after is None or not after <= exactly(self.limit):
            raise BudgetExceeded(
                f"{event.kind} does not fit: {self.spent:.3g} of {self.limit:.3g} ({self.method}) is spent already",
                "Nothing was charged; stop here, or use more noise",
            )
        self._spent = after
        self._assumed = tuple(dict.fromkeys((*self._assumed, *plain_event(event, self.relation, self.unit)[1])))

    def guarantee(self) -> Guarantee:
        """Return what holds however the budget is spent."""
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            unit=self.unit,
            relation=self.relation,
            method=f"{self.method} filter",
            assumptions=(_ADAPTIVE, *self._assumed),
        )

    def _after(self, event: Event) -> Fraction | None:
        """Return the exact total after a charge, or None where that would be infinite."""
        check_instance("event", event, Event)
        cost = self.cost(plain_event(event, self.relation, self.unit)[0])
        if not cost >= 0:
            raise InvalidArgument("event", event, "a cost >= 0")
        return self._spent + exactly(cost) if cost < math.inf else None


def exactly(number: float) -> Fraction:
    """Return the decimal number that a float prints as: ten charges of 0.1 are 1, and no small one is lost."""
    return Fraction(repr(float(number)))


class PureFilter(PrivacyFilter):
    """A filter for (epsilon, delta) claims that adds them up.

    Guarantee:
        (epsilon, delta)-DP for any sequence of events chosen adaptively, parameters included.

    Assumes:
        Each event is charged before it is run (the caller's duty). Each has one epsilon and delta (checked here).

    References:
        Rogers, Roth, Ullman & Vadhan 2016, section 3 (basic composition is a valid filter).
    """

    method = "epsilon"

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float = 0.0,
        relation: Relation = Relation.ADD_OR_REMOVE,
        unit: Unit | None = None,
    ) -> None:
        """Set the budget."""
        super().__init__(epsilon=epsilon, delta=delta, relation=relation, unit=unit)
        self._spent_delta = Fraction(0)

    @property
    def limit(self) -> float:
        """The epsilon."""
        return self.epsilon

    def cost(self, event: Event) -> float:
        """Return the event's epsilon, infinite if its delta does not fit."""
        epsilon, delta = self._claim(event)
        return epsilon if self._spent_delta + exactly(delta) <= exactly(self.delta) else math.inf

    def spend(self, event: Event) -> None:
        """Charge epsilon and delta, or refuse."""
        super().spend(event)
        self._spent_delta += exactly(self._claim(event)[1])

    def _claim(self, event: Event) -> tuple[float, float]:
        plain = plain_event(event, self.relation, self.unit)[0]
        each = [claims(plain, change) for change in changes(self.relation)]
        epsilon = max(math.fsum(count * claim[0] for claim, count in parts) for parts in each)
        return epsilon, max(math.fsum(count * claim[1] for claim, count in parts) for parts in each)


class ZcdpFilter(PrivacyFilter):
    """A filter in rho: adaptivity is free, the bound is that of fixed parameters.

    Guarantee:
        (epsilon, delta)-DP for any sequence of events chosen adaptively, parameters included.

    Assumes:
        Each event is charged before it is run (the caller's duty). Each is zCDP (checked here).

    References:
        Whitehouse, Ramdas, Rogers & Wu 2023, Theorem 1 and Corollary 1; Feldman & Zrnic 2021, Theorem 3.1.
    """

    method = "rho"

    def __init__(
        self, *, epsilon: float, delta: float, relation: Relation = Relation.ADD_OR_REMOVE, unit: Unit | None = None
    ) -> None:
        """Set the budget; rho follows from it by the best conversion."""
        check_positive("delta", delta, "zCDP promises nothing at delta = 0")
        super().__init__(epsilon=epsilon, delta=delta, relation=relation, unit=unit)
        self._limit = epsilon_to_rho(self.epsilon, self.delta)

    @property
    def limit(self) -> float:
        """The rho that the budget allows."""
        return self._limit

    def cost(self, event: Event) -> float:
        """Return the event's rho."""
        return max(rho_bound(event, change) for change in changes(self.relation))


class RdpFilter(PrivacyFilter):
    """A filter at one Renyi order, fixed in advance.

    Guarantee:
        (epsilon, delta)-DP for any sequence of events chosen adaptively, parameters included.

    Assumes:
        Each event is charged before it is run (the caller's duty). Each has a Renyi divergence at the order (checked
        here). The order does not depend on outcomes (the caller's duty): choose it for what you expect to run, for
        instance with `RdpAccountant.best_order`.

    References:
        Feldman & Zrnic 2021, Theorem 3.1; Lecuyer 2021, Theorem 1.
    """

    method = "Renyi divergence"

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        order: float,
        relation: Relation = Relation.ADD_OR_REMOVE,
        unit: Unit | None = None,
    ) -> None:
        """Set the budget; the divergence allowed at the order follows from it."""
        check_positive("delta", delta, "Renyi differential privacy promises nothing at delta = 0")
        super().__init__(epsilon=epsilon, delta=delta, relation=relation, unit=unit)
        if not check_positive("order", order) > 1:
            raise InvalidArgument("order", order, "a number > 1")
        self._orders = np.array([float(order)])
        slack = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
        self._limit = self.epsilon - slack
        if not self._limit > 0:
            raise InvalidArgument(
                "order", order, "an order at which the budget allows anything", "Take a larger one, or a larger epsilon"
            )

    @property
    def limit(self) -> float:
        """The Renyi divergence that the budget allows at the order."""
        return self._limit

    def cost(self, event: Event) -> float:
        """Return the event's Renyi divergence at the order."""
        return max(float(renyi_bound(event, change, self._orders)[0]) for change in changes(self.relation))


_FILTERS: dict[type[Accountant], type[PrivacyFilter]] = {BasicAccountant: PureFilter, ZcdpAccountant: ZcdpFilter}


def filter_for(
    accountant: type[Accountant],
    *,
    epsilon: float,
    delta: float,
    order: float | None = None,
    relation: Relation = Relation.ADD_OR_REMOVE,
    unit: Unit | None = None,
) -> PrivacyFilter:
    """Return the filter that goes with an accountant, or say why there is none.

    Guarantee:
        As the filter's.

    Assumes:
        As the filter's (checked here: a privacy loss distribution is refused).

    References:
        Feldman & Zrnic 2021; Whitehouse et al. 2023.
    """
    check_accountant("accountant", accountant)
    if issubclass(accountant, PldAccountant):
        raise Unsupported(
            "PldAccountant has no filter: it composes loss distributions fixed in advance, and its bound fails "
            "when outcomes choose the next one's parameters",
            "Use ZcdpFilter or RdpFilter, or fix the events in advance",
        )
    if issubclass(accountant, RdpAccountant):
        if order is None:
            raise InvalidArgument("order", order, "a Renyi order > 1", "It has to be fixed before anything is run")
        return RdpFilter(epsilon=epsilon, delta=delta, order=order, relation=relation, unit=unit)
    if accountant not in _FILTERS:
        raise Unsupported(f"{accountant.__name__} has no filter", "Use PureFilter, ZcdpFilter or RdpFilter")
    return _FILTERS[accountant](epsilon=epsilon, delta=delta, relation=relation, unit=unit)


class ZcdpOdometer:
    """Tells at any moment, for parameters chosen on the way, what has been spent.

    Guarantee:
        With probability 1 - delta over everything released, the privacy loss so far is at most the running epsilon
        at every moment at once. (That implies (epsilon, delta)-DP at any stopping time, also an adaptive one.)

    Assumes:
        Each event is charged before it is run (the caller's duty). Each is zCDP (checked here).

    References:
        Rogers et al. 2016 (odometers); Whitehouse et al. 2023, Theorem 1 and section 4: for a rho fixed in advance the
        loss stays below rho + 2 sqrt(rho ln(1/delta)) at all times at which at most rho is spent. Here for a ladder of
        rhos, each 2^(1/4) times the one before, with delta shared out as 6 / (pi^2 (1 + |i|)^2) / 2 over its rungs.
    """

    def __init__(self, *, delta: float, relation: Relation = Relation.ADD_OR_REMOVE, unit: Unit | None = None) -> None:
        """Start with nothing spent; ``delta`` is for the whole time."""
        self.unit = Unit.example() if unit is None else unit
        check_instance("unit", self.unit, Unit)
        self.delta = check_positive("delta", check_delta("delta", delta))
        check_instance("relation", relation, Relation)
        self.relation = relation
        self.rho = 0.0

    def spend(self, event: Event) -> None:
        """Record an event that is about to be run."""
        check_instance("event", event, Event)
        plain = plain_event(event, self.relation, self.unit)[0]
        cost = max(rho_bound(plain, change) for change in changes(self.relation))
        self.rho = math.nextafter(self.rho + cost, math.inf)

    @property
    def epsilon(self) -> float:
        """The running bound."""
        if self.rho == 0:
            return 0.0
        rung = math.ceil(4 * math.log2(self.rho) - 1e-12)
        while 2.0 ** (rung / 4) < self.rho:
            rung += 1
        rho = float(2.0 ** (rung / 4))
        log_share = math.log(math.pi**2 / 3) + 2 * math.log1p(abs(rung)) - math.log(self.delta)
        return rho + 2 * math.sqrt(rho * log_share)
