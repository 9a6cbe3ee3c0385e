"""Filters and odometers: budgets for parameters that are chosen adaptively.

An accountant's theorem needs events that are fixed in advance. If the parameters of the next event depend on earlier
outcomes, ask a filter before each event: it refuses *before* the budget is overspent. An odometer has no limit; it
reports how much has been spent at any time.

Charges add up exactly, as printed decimals: ten charges of 0.1 are 1. Threads may share a filter: each charge is
checked and booked at once. A copy would be a second budget for the same data, so filters cannot be copied, and a
forked process cannot charge them.
"""

from __future__ import annotations

import math
import os
import threading
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import NoReturn

import numpy as np

from hush.accounting.accountants.classic_theorems import claims
from hush.accounting.accountants.rdp import renyi_bound
from hush.accounting.accountants.zcdp import epsilon_to_rho, rho_bound
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
_ODOMETER_ORDERS = 1 + 2.0 ** np.arange(-4, 14.5, 0.5)  # between two of them, the best bound is 2 % smaller at most


class _Live:
    """Base of what counts charges: one lock, one process, and no copies."""

    def __init__(self) -> None:
        """Make the lock."""
        self._lock = threading.RLock()  # one that a subclass may hold while it calls its base class
        self._process = os.getpid()

    def __reduce__(self) -> NoReturn:
        """Refuse to copy or to pickle: the copy would not see what is charged to this one."""
        raise self._second_budget()

    def _check_process(self) -> None:
        """Refuse to charge in a forked process, whose charges the original does not see."""
        if os.getpid() != self._process:
            raise self._second_budget()

    def _second_budget(self) -> Unsupported:
        return Unsupported(
            f"a copy of a {type(self).__name__} would be a second budget for the same data",
            "Share the object itself, also between threads; for several processes use hush.Ledger",
        )


class PrivacyFilter(_Live, ABC):
    """Base class of filters: a budget to which events are charged before they are run.

    ``spend(event)`` charges the event, or raises `BudgetExceeded` and charges nothing. The guarantee holds from the
    start, however the budget is spent.
    """

    method: str

    def __init__(self, *, epsilon: float, delta: float, relation: Relation, unit: Unit | None) -> None:
        """Store the budget."""
        super().__init__()
        self.epsilon = check_epsilon("epsilon", epsilon)
        self.delta = check_delta("delta", delta)
        check_instance("relation", relation, Relation)
        self.relation = relation
        self.unit = Unit.example() if unit is None else unit
        check_instance("unit", self.unit, Unit)
        # A fraction, not a float: a float stops growing when charges are tiny, and the filter would never refuse.
        self._spent = Fraction(0)
        self._assumed: tuple[str, ...] = ()

    @property
    def spent(self) -> float:
        """The total charged so far, in the filter's own unit."""
        return float(self._spent)

    @property
    @abstractmethod
    def limit(self) -> float:
        """The budget, in the same unit as ``spent``."""

    @abstractmethod
    def cost(self, event: Event) -> float:
        """Return the cost of an event in the filter's own unit."""

    def can_spend(self, event: Event) -> bool:
        """Return whether `spend` would accept the event now."""
        after = self._after(event)
        return after is not None and after <= exactly(self.limit)

    def spend(self, event: Event) -> None:
        """Charge an event that is about to be run, or refuse it."""
        self._check_process()
        with self._lock:  # another thread may charge between a check and its booking
            after = self._after(event)
            # A filter halts before the sum exceeds the limit (Rogers, Roth, Ullman & Vadhan 2016): an event that was
            # run cannot be taken back.
            if after is None or not after <= exactly(self.limit):
                raise BudgetExceeded(
                    f"{event.kind} does not fit: {self.spent:.3g} of {self.limit:.3g} ({self.method}) is spent already",
                    "Nothing was charged; stop here, or use more noise",
                )
            # Only now: a refused event leaves no trace, so the filter can be asked for a smaller one.
            self._spent = after
            self._assumed = tuple(dict.fromkeys((*self._assumed, *plain_event(event, self.relation, self.unit)[1])))

    def guarantee(self) -> Guarantee:
        """Return the guarantee that holds however the budget is spent."""
        # The whole budget, not what is spent: the rest may still be, depending on the outcomes so far.
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            unit=self.unit,
            relation=self.relation,
            method=f"{self.method} filter",
            assumptions=(_ADAPTIVE, *self._assumed),
        )

    def _after(self, event: Event) -> Fraction | None:
        """Return the exact total after a charge, or None if it would be infinite."""
        check_instance("event", event, Event)
        cost = self.cost(plain_event(event, self.relation, self.unit)[0])
        # NaN fails this, too. A negative cost would give budget back.
        if not cost >= 0:
            raise InvalidArgument("event", event, "a cost >= 0")
        return self._spent + exactly(cost) if cost < math.inf else None


def exactly(number: float) -> Fraction:
    """Return a float as the decimal number it prints as, so that ten charges of 0.1 are 1 and no charge is lost."""
    # Python prints the shortest decimal that rounds to the float, at most half a unit in the last place from it.
    return Fraction(repr(float(number)))


class PureFilter(PrivacyFilter):
    """A filter that adds up epsilons and deltas.

    >>> from hush.accounting import LaplaceEvent
    >>> budget = PureFilter(epsilon=1.0)
    >>> budget.spend(LaplaceEvent(scale=2.0))
    >>> budget.spent, budget.can_spend(LaplaceEvent(scale=1.0))
    (0.5, False)

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
        # Basic composition: sum epsilon_i <= epsilon and sum delta_i <= delta (Rogers et al. 2016, section 3).
        epsilon, delta = self._claim(event)
        return epsilon if self._spent_delta + exactly(delta) <= exactly(self.delta) else math.inf

    def spend(self, event: Event) -> None:
        """Charge epsilon and delta, or refuse."""
        self._check_process()  # before the lock, which a forked process may never get
        with self._lock:
            super().spend(event)
            self._spent_delta += exactly(self._claim(plain_event(event, self.relation, self.unit)[0])[1])

    def _claim(self, plain: Event) -> tuple[float, float]:
        # A neighbour may have a record more or a record less. Each direction has claims of its own, and the filter must
        # cover both. The largest epsilon and the largest delta may come from different ones: that only overstates.
        claims_by_change = [claims(plain, change) for change in changes(self.relation)]
        epsilon = max(math.fsum(count * claim[0] for claim, count in parts) for parts in claims_by_change)
        return epsilon, max(math.fsum(count * claim[1] for claim, count in parts) for parts in claims_by_change)


class ZcdpFilter(PrivacyFilter):
    """A filter in rho, the parameter of zCDP. It allows as much as if all parameters had been fixed in advance.

    >>> from hush.accounting import GaussianEvent
    >>> budget = ZcdpFilter(epsilon=1.0, delta=1e-6)
    >>> budget.spend(GaussianEvent(noise_multiplier=20.0))
    >>> round(budget.spent / budget.limit, 3)
    0.051

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
        """Set the budget. Its rho follows by the best conversion."""
        check_positive("delta", delta, "zCDP guarantees nothing at delta = 0")
        super().__init__(epsilon=epsilon, delta=delta, relation=relation, unit=unit)
        # The largest rho with min over a of rho a + ln(1 - 1/a) - (ln delta + ln a) / (a - 1) <= epsilon, rounded down
        # (Canonne, Kamath & Steinke 2020, Proposition 12, with the Renyi divergence rho a at every order a).
        self._limit = epsilon_to_rho(self.epsilon, self.delta)

    @property
    def limit(self) -> float:
        """The rho that the budget allows."""
        return self._limit

    def cost(self, event: Event) -> float:
        """Return the event's rho."""
        # rho_i add up, even where earlier outcomes choose rho_i (Whitehouse, Ramdas, Rogers & Wu 2023, Theorem 1).
        return max(rho_bound(event, change) for change in changes(self.relation))


class RdpFilter(PrivacyFilter):
    """A filter in the Renyi divergence at one order, fixed in advance.

    It is for adaptive composition: ask it before each step, since a step that is judged afterwards is already paid for.

    >>> from hush.accounting import GaussianEvent, PoissonSampledEvent
    >>> budget = RdpFilter(epsilon=1.0, delta=1e-6, order=20)
    >>> budget.can_spend(PoissonSampledEvent(GaussianEvent(2.0), 0.01))
    True

    Guarantee:
        (epsilon, delta)-DP for any sequence of events chosen adaptively, parameters included.

    Assumes:
        Each event is charged before it is run (the caller's duty). Each has a Renyi divergence at the order (checked
        here). The order does not depend on outcomes (the caller's duty): choose it for the events that you expect, for
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
        """Set the budget. The divergence that it allows at the order follows."""
        check_positive("delta", delta, "Renyi differential privacy guarantees nothing at delta = 0")
        super().__init__(epsilon=epsilon, delta=delta, relation=relation, unit=unit)
        if not check_positive("order", order) > 1:
            raise InvalidArgument("order", order, "a number > 1")
        self._orders = np.array([float(order)])
        # A divergence r at order a gives epsilon = r + ln(1 - 1/a) - (ln delta + ln a) / (a - 1), by Canonne, Kamath &
        # Steinke 2020, Proposition 12. Solved for r, this is the limit.
        slack = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
        self._limit = self.epsilon - slack
        # At a low order the conversion alone costs more than epsilon: about ln(1 / delta) / (a - 1).
        if not self._limit > 0:
            raise InvalidArgument(
                "order", order, "an order at which the budget allows anything", "Use a larger order or epsilon"
            )

    @property
    def limit(self) -> float:
        """The Renyi divergence that the budget allows at the order."""
        return self._limit

    def cost(self, event: Event) -> float:
        """Return the event's Renyi divergence at the order."""
        # At one order, divergences add up adaptively (Feldman & Zrnic 2021, Theorem 3.1). The best order, which an
        # accountant takes in the end, would depend on the outcomes: hence one order, fixed in advance.
        return max(float(renyi_bound(event, change, self._orders)[0]) for change in changes(self.relation))


class RdpOdometer(_Live):
    """Reports how much has been spent so far, for parameters chosen adaptively.

    >>> from hush.accounting import GaussianEvent, PoissonSampledEvent
    >>> odometer = RdpOdometer(delta=1e-6)
    >>> odometer.spend(GaussianEvent(noise_multiplier=20.0))
    >>> odometer.spend(PoissonSampledEvent(GaussianEvent(noise_multiplier=10.0), 0.01))
    >>> round(odometer.epsilon, 2)
    0.3

    Guarantee:
        With probability 1 - delta over everything released, the privacy loss so far is at most the running epsilon, at
        all times simultaneously. This implies (epsilon, delta)-DP at any stopping time, even an adaptive one.

    Assumes:
        Each event is charged before it is run (the caller's duty). Each has Renyi divergences (checked here).

    References:
        Rogers et al. 2016 (odometers); Feldman & Zrnic 2021, Theorem 3.1, and Lecuyer 2021 (Renyi divergences add up
        adaptively). With L the privacy loss so far and R the divergence spent at order a, e^((a - 1)(L - R)) is a
        supermartingale that starts at 1. By Ville's inequality L stays below R + ln(1 / share) / (a - 1) at all times,
        except with probability share. Each order on a fixed list has an equal share of delta.
    """

    def __init__(self, *, delta: float, relation: Relation = Relation.ADD_OR_REMOVE, unit: Unit | None = None) -> None:
        """Start with nothing spent. ``delta`` covers all times together."""
        super().__init__()
        self.unit = Unit.example() if unit is None else unit
        check_instance("unit", self.unit, Unit)
        self.delta = check_positive("delta", check_delta("delta", delta))
        check_instance("relation", relation, Relation)
        self.relation = relation
        self._spent = np.zeros_like(_ODOMETER_ORDERS)

    def spend(self, event: Event) -> None:
        """Record an event that is about to be run."""
        check_instance("event", event, Event)
        self._check_process()
        plain = plain_event(event, self.relation, self.unit)[0]
        bounds = [renyi_bound(plain, change, _ODOMETER_ORDERS) for change in changes(self.relation)]
        # The sum is rounded to the nearest float, which may be below it; the next float up is not.
        with self._lock:
            self._spent = np.nextafter(self._spent + np.max(bounds, axis=0), np.inf)

    @property
    def epsilon(self) -> float:
        """The running bound."""
        spent = self._spent
        if not spent.any():
            return 0.0
        log_share = math.log(len(_ODOMETER_ORDERS)) - math.log(self.delta)
        return float(np.min(spent + log_share / (_ODOMETER_ORDERS - 1)) * (1 + 1e-12))
