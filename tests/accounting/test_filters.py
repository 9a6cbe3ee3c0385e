"""Filters and odometers: never overspent, whatever is charged and in whatever order."""

from __future__ import annotations

import copy
import math
import os
import pickle
import sys
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.accounting import (
    ApproximateDPEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PldAccountant,
    PoissonSampledEvent,
    PrivacyFilter,
    PureFilter,
    RdpAccountant,
    RdpFilter,
    RdpOdometer,
    SelfComposedEvent,
    ZcdpAccountant,
    ZcdpFilter,
    ZeroConcentratedDPEvent,
)
from hush.accounting.events import RandomizedResponseEvent
from hush.errors import BudgetExceeded, InvalidArgument, Unsupported
from hush.guarantee import Bound, Relation, Unit

FILTERS: dict[str, Callable[..., PrivacyFilter]] = {
    "pure": lambda epsilon=2.0, relation=Relation.ADD_OR_REMOVE: PureFilter(
        epsilon=epsilon, delta=1e-6, relation=relation
    ),
    "zcdp": lambda epsilon=2.0, relation=Relation.ADD_OR_REMOVE: ZcdpFilter(
        epsilon=epsilon, delta=1e-6, relation=relation
    ),
    "rdp": lambda epsilon=2.0, relation=Relation.ADD_OR_REMOVE: RdpFilter(
        epsilon=epsilon, delta=1e-6, order=16.0, relation=relation
    ),
}
EVERY_FILTER = pytest.mark.parametrize("make", FILTERS.values(), ids=FILTERS)

LAST_BIT = 1 + Fraction(1, 10**15)  # numbers count as they are printed: ten charges of 0.1 are 1

pure_events = st.one_of(
    st.builds(LaplaceEvent, st.floats(1, 500)),
    st.builds(ApproximateDPEvent, st.just(0.0) | st.floats(1e-6, 0.5)),
    st.builds(SelfComposedEvent, st.builds(LaplaceEvent, st.floats(5, 500)), st.integers(0, 5)),
)


@EVERY_FILTER
@settings(max_examples=20)
@given(events=st.lists(pure_events, max_size=40))
def test_never_overspent_and_a_refusal_changes_nothing(make: Callable[..., PrivacyFilter], events: list[Event]) -> None:
    budget = make()
    accepted: list[Event] = []
    for event in events:
        before = budget.spent
        fits = budget.can_spend(event)
        assert budget.spent == before, "asking is free"
        try:
            budget.spend(event)
        except BudgetExceeded:
            assert not fits
            assert budget.spent == before
        else:
            assert fits
            accepted.append(event)
            assert before <= budget.spent <= budget.limit
    # The exact sum of the charges is within the budget, in the filter's own unit ...
    assert sum(Fraction(budget.cost(event)) for event in accepted) <= Fraction(budget.limit) * LAST_BIT
    # ... and as fixed events they are (epsilon, delta)-DP, too.
    assert PldAccountant().compose(ComposedEvent(tuple(accepted))).epsilon(1e-6) <= 2.0 * (1 + 1e-9)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.just(0.0) | st.floats(1e-6, 0.3), st.floats(0, 3e-7)), max_size=40))
def test_the_pure_filter_never_overspends_delta(claims: list[tuple[float, float]]) -> None:
    budget = PureFilter(epsilon=2.0, delta=1e-6)
    accepted = []
    for epsilon, delta in claims:
        before = budget.spent
        try:
            budget.spend(ApproximateDPEvent(epsilon, delta))
            accepted.append((epsilon, delta))
        except BudgetExceeded:
            assert budget.spent == before
    assert sum(Fraction(epsilon) for epsilon, _ in accepted) <= 2 * LAST_BIT
    assert sum(Fraction(delta) for _, delta in accepted) <= Fraction(1e-6) * LAST_BIT


def test_a_refused_delta_leaves_both_budgets_alone() -> None:
    budget = PureFilter(epsilon=1.0, delta=1e-6)
    with pytest.raises(BudgetExceeded):
        budget.spend(ApproximateDPEvent(0.1, 2e-6))
    with pytest.raises(BudgetExceeded):
        budget.spend(ApproximateDPEvent(2.0, 1e-7))
    assert budget.spent == 0
    budget.spend(ApproximateDPEvent(1.0, 1e-6))  # all of both is still there


def test_ten_tenths_are_one() -> None:
    budget = PureFilter(epsilon=1.0)
    for _ in range(10):
        budget.spend(ApproximateDPEvent(0.1))
    assert not budget.can_spend(ApproximateDPEvent(1e-6))


@EVERY_FILTER
def test_the_last_step_is_refused_before_it_is_run(make: Callable[..., PrivacyFilter]) -> None:
    budget = make()
    event = LaplaceEvent(4.0)
    count = 0
    while budget.can_spend(event):
        budget.spend(event)
        count += 1
    assert count > 0
    assert budget.spent <= budget.limit < budget.spent + budget.cost(event) * (1 + 1e-9)
    with pytest.raises(BudgetExceeded, match="laplace"):
        budget.spend(event)


@EVERY_FILTER
def test_too_large_a_first_step_is_refused(make: Callable[..., PrivacyFilter]) -> None:
    budget = make()
    with pytest.raises(BudgetExceeded):
        budget.spend(LaplaceEvent(0.01))
    assert budget.spent == 0
    budget.spend(LaplaceEvent(100.0))


@EVERY_FILTER
def test_nothing_is_free(make: Callable[..., PrivacyFilter]) -> None:
    budget = make()
    for nothing in (ComposedEvent(()), SelfComposedEvent(LaplaceEvent(1.0), 0)):
        budget.spend(nothing)
    assert budget.spent == 0


@pytest.mark.parametrize("epsilon", [1.0, 0.7, 2.0, 10.0])
def test_a_budget_can_be_spent_to_the_last_bit(epsilon: float) -> None:
    budget = PureFilter(epsilon=epsilon)
    budget.spend(ApproximateDPEvent(epsilon))  # exactly the budget: nothing is rounded
    assert not budget.can_spend(ApproximateDPEvent(1e-6))


def test_tiny_charges_cannot_slip_through() -> None:
    budget = ZcdpFilter(epsilon=1.0, delta=1e-6)
    budget.spend(ZeroConcentratedDPEvent(math.nextafter(budget.limit, 0)))
    tiny = ZeroConcentratedDPEvent(budget.limit * 2.0**-60)  # lost when added to almost the limit in double precision
    accepted = 0
    while budget.can_spend(tiny) and accepted < 10_000:
        budget.spend(tiny)
        accepted += 1
    assert accepted <= 2**9


def test_tiny_deltas_cannot_slip_through() -> None:
    budget = PureFilter(epsilon=1.0, delta=1e-5)
    budget.spend(ApproximateDPEvent(0.1, 1e-5))  # all of the delta
    assert not budget.can_spend(ApproximateDPEvent(0.0, 1e-22))
    with pytest.raises(BudgetExceeded):
        budget.spend(ApproximateDPEvent(0.1, 1e-22))
    almost = PureFilter(epsilon=1.0, delta=0.5)
    almost.spend(ApproximateDPEvent(0.0, 0.5 - 2.0**-50))
    accepted = 0
    while almost.can_spend(ApproximateDPEvent(0.0, 2.0**-60)) and accepted < 5000:
        almost.spend(ApproximateDPEvent(0.0, 2.0**-60))
        accepted += 1
    assert accepted <= 1.05 * 2**10  # within the last printed digit of what was left


@EVERY_FILTER
def test_what_has_no_price_is_refused_and_not_charged(make: Callable[..., PrivacyFilter]) -> None:
    budget = make()
    unpriced = ApproximateDPEvent(0.1, 1e-7) if not isinstance(budget, PureFilter) else GaussianEvent(1.0)
    with pytest.raises(Unsupported):
        budget.spend(unpriced)
    with pytest.raises(Unsupported):
        budget.can_spend(unpriced)
    assert budget.spent == 0


@EVERY_FILTER
@pytest.mark.parametrize("event", ["laplace", None, 1.0, LaplaceEvent])
def test_only_events_are_charged(make: Callable[..., PrivacyFilter], event: object) -> None:
    with pytest.raises(InvalidArgument, match="^event="):
        make().spend(event)  # type: ignore[arg-type]


@EVERY_FILTER
def test_replacement_costs_more(make: Callable[..., PrivacyFilter]) -> None:
    event = LaplaceEvent(50.0)
    assert make(relation=Relation.REPLACE).cost(event) > 1.9 * make().cost(event)


@EVERY_FILTER
def test_the_guarantee_holds_from_the_start(make: Callable[..., PrivacyFilter]) -> None:
    budget = make(relation=Relation.REPLACE)
    before = budget.guarantee()
    budget.spend(LaplaceEvent(100.0))
    assert budget.guarantee() == before
    assert (before.epsilon, before.delta, before.relation, before.bound) == (2.0, 1e-6, Relation.REPLACE, Bound.UPPER)
    assert "charged before" in before.assumptions[0]


@settings(max_examples=20)
@given(st.floats(0.05, 20), st.floats(-12, -2))
def test_the_zcdp_budget_is_the_epsilon(epsilon: float, power: float) -> None:
    delta = 10.0**power
    limit = ZcdpFilter(epsilon=epsilon, delta=delta).limit
    assert ZcdpAccountant().compose(ZeroConcentratedDPEvent(limit)).epsilon(delta) <= epsilon
    assert ZcdpAccountant().compose(ZeroConcentratedDPEvent(limit * (1 + 1e-6))).epsilon(delta) > epsilon


@settings(max_examples=20)
@given(st.floats(0.5, 20), st.floats(4, 60))
def test_the_renyi_budget_is_the_epsilon(epsilon: float, order: float) -> None:
    try:
        budget = RdpFilter(epsilon=epsilon, delta=1e-6, order=order)
    except InvalidArgument:
        return
    # A Gaussian that uses all of the budget at this order costs exactly epsilon, converted at this order.
    sigma = math.sqrt(order / (2 * budget.limit))
    assert budget.cost(GaussianEvent(sigma)) == pytest.approx(budget.limit)
    converted = budget.limit + math.log1p(-1 / order) - math.log(1e-6 * order) / (order - 1)
    assert converted == pytest.approx(epsilon, rel=1e-12)
    assert RdpAccountant().compose(GaussianEvent(sigma)).epsilon(1e-6) <= epsilon * (1 + 1e-12)


def test_sampled_gaussians_have_a_renyi_filter() -> None:
    step = PoissonSampledEvent(GaussianEvent(1.0), 0.01)
    order = RdpAccountant().compose(step, 1000).best_order(1e-6)
    budget = RdpFilter(epsilon=2.0, delta=1e-6, order=order)
    count = 0
    while budget.can_spend(step):
        budget.spend(step)
        count += 1
    assert RdpAccountant().compose(step, count).epsilon(1e-6) <= 2.0
    assert count > 500


def test_an_order_at_which_nothing_is_allowed_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="^order="):
        RdpFilter(epsilon=0.1, delta=1e-9, order=2.0)


class TestOdometer:
    @settings(max_examples=30)
    @given(st.lists(st.floats(-6, 1).map(lambda power: 10.0**power), min_size=1, max_size=20))
    def test_never_below_what_a_filter_would_have_allowed(self, rhos: list[float]) -> None:
        odometer = RdpOdometer(delta=1e-6)
        before = 0.0
        for index, rho in enumerate(rhos):
            odometer.spend(ZeroConcentratedDPEvent(rho))
            spent = ZeroConcentratedDPEvent(math.fsum(rhos[: index + 1]))
            assert odometer.epsilon >= ZcdpAccountant().compose(spent).epsilon(1e-6)
            assert odometer.epsilon > before
            before = odometer.epsilon

    @pytest.mark.parametrize("rho", [1e-4, 0.01, 0.5, 10.0])
    def test_not_absurdly_above(self, rho: float) -> None:
        odometer = RdpOdometer(delta=1e-6)
        odometer.spend(ZeroConcentratedDPEvent(rho))
        assert odometer.epsilon < 1.6 * ZcdpAccountant().compose(ZeroConcentratedDPEvent(rho)).epsilon(1e-6)

    def test_starts_at_zero_and_tiny_charges_count(self) -> None:
        odometer = RdpOdometer(delta=1e-6)
        assert odometer.epsilon == 0
        odometer.spend(ZeroConcentratedDPEvent(1.0))
        for _ in range(100):
            before = odometer._spent
            odometer.spend(ZeroConcentratedDPEvent(1e-20))
            assert (odometer._spent > before).all()

    def test_the_loss_stays_below_at_all_times(self) -> None:
        """The exact probability that 200 reports of epsilon 0.3 ever exceed the bound, and that they exceed a twin's.

        The twin's bound holds at each time, by the exact distribution, but not at all times together.
        """
        size, delta, times = 0.3, 0.02, 200
        odometer, bounds = RdpOdometer(delta=delta, relation=Relation.REPLACE), []
        for _ in range(times):
            odometer.spend(RandomizedResponseEvent(size))
            bounds.append(odometer.epsilon)
        assert crossed(size, bounds) <= delta
        at_each_time = [size * quantile(size, time, delta) for time in range(1, times + 1)]
        assert crossed(size, at_each_time) > 2 * delta

    def test_replacement_samples_and_what_has_no_divergence(self) -> None:
        removal, replacement = RdpOdometer(delta=1e-6), RdpOdometer(delta=1e-6, relation=Relation.REPLACE)
        removal.spend(GaussianEvent(5.0))
        replacement.spend(GaussianEvent(5.0))
        assert replacement._spent == pytest.approx(4 * removal._spent)
        sampled = RdpOdometer(delta=1e-6)
        sampled.spend(SelfComposedEvent(PoissonSampledEvent(GaussianEvent(1.0), 0.01), 1000))
        best = RdpAccountant().compose(PoissonSampledEvent(GaussianEvent(1.0), 0.01), 1000).epsilon(1e-6)
        assert best < sampled.epsilon < 1.6 * best
        with pytest.raises(Unsupported):
            removal.spend(ApproximateDPEvent(0.1, 1e-9))
        with pytest.raises(InvalidArgument, match="^event="):
            removal.spend("gaussian")  # type: ignore[arg-type]


def crossed(size: float, bounds: list[float]) -> float:
    """Return the probability that a sum of losses of randomized responses ever exceeds a bound, by its recursion."""
    truthful, crossings = 1 / (1 + math.exp(-size)), 0.0
    masses = {0: 1.0}  # of how many more reports are true than false, where no bound was exceeded so far
    for bound in bounds:
        after: dict[int, float] = {}
        for lead, mass in masses.items():
            for step, probability in ((1, truthful), (-1, 1 - truthful)):
                after[lead + step] = after.get(lead + step, 0.0) + mass * probability
        crossings += math.fsum(mass for lead, mass in after.items() if size * lead > bound + 1e-9)
        masses = {lead: mass for lead, mass in after.items() if size * lead <= bound + 1e-9}
    return crossings


def quantile(size: float, count: int, delta: float) -> int:
    """Return the smallest lead that so many reports exceed with a probability of at most delta."""
    truthful = 1 / (1 + math.exp(-size))
    tail, lead = 0.0, count
    for number in range(count, -1, -1):
        tail += math.comb(count, number) * truthful**number * (1 - truthful) ** (count - number)
        lead = 2 * number - count
        if tail > delta:
            break
    return lead


LIVE = {**FILTERS, "odometer": lambda: RdpOdometer(delta=1e-6)}


def charged_by_threads(charge: Callable[[], None], *, threads: int, times: int) -> int:
    """Return how many of the charges of several threads were accepted."""
    accepted = [0] * threads

    def work(index: int) -> None:
        for _ in range(times):
            try:
                charge()
            except BudgetExceeded:
                continue
            accepted[index] += 1

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # as many switches between threads as there can be
    try:
        workers = [threading.Thread(target=work, args=(index,)) for index in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(switch)
    return sum(accepted)


class Interrupted(PureFilter):
    """A filter between whose first check and booking another thread charges, unless a lock keeps it out."""

    def __init__(self, *, epsilon: float) -> None:
        super().__init__(epsilon=epsilon)
        self.was_interrupted = False
        self.accepted = 0

    def _after(self, event: Event) -> Fraction | None:
        after = super()._after(event)
        if not self.was_interrupted:
            self.was_interrupted = True
            other = threading.Thread(target=self.charge_if_possible, args=(event,))
            other.start()
            other.join()
        return after

    def charge_if_possible(self, event: Event) -> None:
        if self._lock.acquire(blocking=False):
            self.spend(event)
            self._lock.release()

    def spend(self, event: Event) -> None:
        super().spend(event)
        self.accepted += 1


class Unlocked(Interrupted):
    """A broken twin: everybody gets the lock."""

    def __init__(self, *, epsilon: float) -> None:
        super().__init__(epsilon=epsilon)
        self._lock = MagicMock()


def test_a_check_and_its_booking_cannot_be_separated() -> None:
    """Two charges that do not both fit: without a lock, another thread charges between the check and the booking."""
    budget, unlocked = Interrupted(epsilon=1.0), Unlocked(epsilon=1.0)
    for limited in (budget, unlocked):
        limited.spend(LaplaceEvent(1.25))
    assert budget.accepted == 1
    assert unlocked.accepted == 2, "the twin accepts both"


def test_threads_share_one_budget() -> None:
    pure, zcdp, odometer = PureFilter(epsilon=1.0), ZcdpFilter(epsilon=1.0, delta=1e-6), RdpOdometer(delta=1e-6)
    assert charged_by_threads(lambda: pure.spend(LaplaceEvent(200.0)), threads=8, times=40) == 200
    event = ZeroConcentratedDPEvent(zcdp.limit / 100.5)
    assert charged_by_threads(lambda: zcdp.spend(event), threads=8, times=20) == 100
    assert charged_by_threads(lambda: odometer.spend(ZeroConcentratedDPEvent(0.01)), threads=8, times=20) == 160
    assert odometer._spent[8] == pytest.approx(1.6 * 2, rel=1e-12)  # at order 2


@pytest.mark.parametrize("make", LIVE.values(), ids=LIVE)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_there_are_no_copies(make: Callable[[], object], duplicate: Callable[[object], object]) -> None:
    with pytest.raises(Unsupported, match="would be a second budget for the same data"):
        duplicate(make())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("make", LIVE.values(), ids=LIVE)
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_cannot_charge(make: Callable[[], object]) -> None:
    live: Any = make()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            live.spend(ZeroConcentratedDPEvent(1e-9) if not isinstance(live, PureFilter) else LaplaceEvent(1e3))
            os.write(writer, b"charged")
        except Unsupported as refusal:
            os.write(writer, str(refusal).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        assert b"would be a second budget" in stream.read()


def test_a_group_is_charged_as_a_group() -> None:
    budget = PureFilter(epsilon=1.0, unit=Unit.user().group(5))
    budget.spend(LaplaceEvent(10.0))
    assert budget.spent == 0.5
    assert budget.guarantee().unit == Unit.user().group(5)
