"""The base class: composition, refusals and guarantees. `tests/contracts` runs the contract for every accountant."""

from __future__ import annotations

import math

import pytest

from accounting_tables import ACCOUNTANTS
from hush.accounting import (
    Accountant,
    AdvancedAccountant,
    BasicAccountant,
    ComposedEvent,
    Event,
    GaussianEvent,
    GdpAccountant,
    GroupEvent,
    LaplaceEvent,
    ParallelByIndexEvent,
    PldAccountant,
    RdpAccountant,
    SelfComposedEvent,
    ZcdpAccountant,
    events,
)
from hush.accounting.accountants.accountant import FIXED_IN_ADVANCE, check_accountant
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Bound, Relation, Unit


class FlatRate(Accountant):
    """Charges epsilon 0.5 for every event but Laplace noise, which it refuses."""

    method = "a flat rate"

    def _check(self, event: Event) -> None:
        if isinstance(event, LaplaceEvent):
            raise Unsupported("laplace: no flat rate")
        if isinstance(event, SelfComposedEvent) and event.count == 10**12:
            raise OverflowError

    def _epsilon(self, delta: float) -> float:
        if len(self.events) > 3:
            raise OverflowError
        return 0.5 * len(self.events)

    def _delta(self, epsilon: float) -> float:
        return 0.0 if epsilon >= self._epsilon(0.0) else 1.0


def qualified(assumption: str, relation: Relation = Relation.ADD_OR_REMOVE) -> Event:
    return events.QualifiedEvent(GaussianEvent(2.0), relation, Unit.example(), (assumption,))


def test_compose_returns_a_new_accountant() -> None:
    empty = FlatRate()
    once = empty.compose(GaussianEvent(1.0))
    assert (empty.events, once.events) == ((), (GaussianEvent(1.0),))
    assert once.compose(GaussianEvent(1.0), 5).events[-1] == SelfComposedEvent(GaussianEvent(1.0), 5)
    assert repr(once) == "FlatRate(relation='add-or-remove', events=1)"


def test_the_guarantee_carries_everything() -> None:
    accountant = FlatRate(relation=Relation.REPLACE, unit=Unit.user()).compose(GaussianEvent(1.0))
    claim = accountant.guarantee(1e-6)
    assert (claim.epsilon, claim.delta, claim.unit, claim.relation) == (0.5, 1e-6, Unit.user(), Relation.REPLACE)
    assert (claim.bound, claim.method) == (Bound.UPPER, "a flat rate")


def test_assumptions_of_qualified_events_are_collected_once() -> None:
    accountant = FlatRate().compose(qualified("a")).compose(ComposedEvent((qualified("b"), qualified("a"))))
    assert accountant.assumptions == ("a", "b")
    assert accountant.events[0] == GaussianEvent(2.0), "qualifications are removed"
    assert FlatRate().assumptions == ()


LAPLACE = LaplaceEvent(10.0)


@pytest.mark.parametrize("kind", [PldAccountant, RdpAccountant, ZcdpAccountant])
def test_compositions_assume_that_parameters_were_fixed_in_advance(kind: type[Accountant]) -> None:
    """If a first outcome decides how much the second mechanism costs, what was run is no bound: 1.179 for 1."""
    for event in (LAPLACE, ComposedEvent((LAPLACE,)), SelfComposedEvent(LAPLACE, 1), GroupEvent(LAPLACE, 2)):
        assert FIXED_IN_ADVANCE not in kind().compose(event).guarantee(1e-6).assumptions
    for event in (
        ComposedEvent((LAPLACE, LAPLACE)),
        SelfComposedEvent(LAPLACE, 2),
        GroupEvent(ComposedEvent((LAPLACE, LaplaceEvent(9.0))), 2),
        ParallelByIndexEvent((LAPLACE, SelfComposedEvent(LAPLACE, 3))),
    ):
        assert kind().compose(event).guarantee(1e-6).assumptions == (FIXED_IN_ADVANCE,)
    assert kind().compose(LAPLACE).compose(LAPLACE).guarantee(1e-6).assumptions == (FIXED_IN_ADVANCE,)


def test_sums_of_claims_assume_a_limit() -> None:
    """After one outcome of a first report the second costs 0.1, after the other 2: the sum of the first path is 0.2."""
    first, cheap, dear = (1 / (1 + math.exp(-epsilon)) for epsilon in (0.1, 0.1, 2.0))  # the truth is reported
    outcomes = {"cheap": ((1 - first) * cheap, first * (1 - cheap)), "dear": (first * dear, (1 - first) * (1 - dear))}
    assert BasicAccountant().compose(LAPLACE, 2).epsilon(0.0) == pytest.approx(0.2)
    assert max(math.log(p / q) for p, q in outcomes.values()) == pytest.approx(2.1)
    (assumption,) = BasicAccountant().compose(LAPLACE, 3).guarantee(0.0).assumptions
    assert assumption == "the sum of all epsilons, and that of all deltas, was limited to this in advance"
    (assumption,) = AdvancedAccountant().compose(LAPLACE, 3).guarantee(1e-6).assumptions
    assert "fixed in advance" in assumption
    assert AdvancedAccountant().compose(LAPLACE).guarantee(1e-6).assumptions == ()


@pytest.mark.parametrize("kind", [PldAccountant, RdpAccountant, ZcdpAccountant, GdpAccountant])
def test_a_delta_that_underflows_is_not_0(kind: type[Accountant]) -> None:
    accountant = kind().compose(GaussianEvent(1.0), 100)
    assert 0 < accountant.delta(700.0) < 1e-300
    assert 0 < accountant.delta(1e300) < 1e-300


def test_a_delta_of_0_is_0() -> None:
    for kind in (PldAccountant, RdpAccountant, BasicAccountant):
        delta = kind().compose(LAPLACE, 10).delta(1.5)
        assert (delta, math.copysign(1.0, delta)) == (0.0, 1.0)


@pytest.mark.parametrize("name", ["pld", "rdp", "zcdp", "gdp", "basic"])
def test_a_unit_that_is_a_group_costs_as_much_as_a_group(name: str) -> None:
    """An event is about one record. For a group of five the same epsilon was stated: 2.0 where 12 is the truth."""
    kind, unit = ACCOUNTANTS[name], Unit.user().group(5)
    event: Event = LaplaceEvent(10.0) if name == "basic" else GaussianEvent(10.0)
    grouped = kind(unit=unit).compose(event)
    by_hand = kind(unit=Unit.user()).compose(GroupEvent(event, 5))
    assert grouped.epsilon(1e-6) == pytest.approx(by_hand.epsilon(1e-6), rel=1e-12)
    assert grouped.guarantee(1e-6).unit == unit
    assert grouped.epsilon(1e-6) > 4 * kind().compose(event).epsilon(1e-6)


def test_what_a_mechanism_states_for_a_group_is_not_scaled_again() -> None:
    unit = Unit.user().group(5)
    stated = events.QualifiedEvent(GaussianEvent(2.0), Relation.ADD_OR_REMOVE, unit)
    assert FlatRate(unit=unit).compose(stated).events == (GaussianEvent(2.0),)
    both = FlatRate(unit=unit).compose(SelfComposedEvent(ComposedEvent((stated, GaussianEvent(3.0))), 2))
    inner = ComposedEvent((GaussianEvent(2.0), GroupEvent(GaussianEvent(3.0), 5)))
    assert both.events == (SelfComposedEvent(inner, 2),)
    with pytest.raises(Unsupported, match="stated per group of 5 users, within samples or parts"):
        FlatRate(unit=unit).compose(ParallelByIndexEvent((stated, SelfComposedEvent(stated, 2))))
    with pytest.raises(Unsupported, match="some of its parts are stated for a group of 5"):
        FlatRate(unit=unit).compose(ParallelByIndexEvent((stated, GaussianEvent(2.0))))
    with pytest.raises(Unsupported, match="stated under add-or-remove per user"):
        FlatRate(unit=unit).compose(events.QualifiedEvent(GaussianEvent(2.0), Relation.ADD_OR_REMOVE, Unit.user()))


def test_events_of_another_relation_are_refused() -> None:
    assert not FlatRate().supports(qualified("a", Relation.REPLACE))
    with pytest.raises(Unsupported, match="stated under replace per example, but this accounts for add-or-remove"):
        FlatRate().compose(qualified("a", Relation.REPLACE))


def test_supports_does_not_raise() -> None:
    assert FlatRate().supports(GaussianEvent(1.0))
    assert not FlatRate().supports(LaplaceEvent(1.0))


def test_overflows_are_refusals() -> None:
    with pytest.raises(Unsupported, match="overflow"):
        FlatRate().compose(GaussianEvent(1.0), 10**12)
    accountant = FlatRate()
    for _ in range(4):
        accountant = accountant.compose(GaussianEvent(1.0))
    with pytest.raises(Unsupported, match="overflow"):
        accountant.epsilon(1e-6)
    with pytest.raises(Unsupported, match="overflow"):
        accountant.delta(1.0)


@pytest.mark.parametrize("delta", [1e-300, 5e-324])
def test_deltas_that_underflow_are_refused(delta: float) -> None:
    with pytest.raises(InvalidArgument, match="^delta="):
        FlatRate().epsilon(delta)


def test_classes_of_accountants_are_recognised() -> None:
    for kind in (PldAccountant, RdpAccountant, ZcdpAccountant, FlatRate):
        check_accountant("accountant", kind)
    for wrong in (PldAccountant(), "pld", int, None):
        with pytest.raises(InvalidArgument, match="^accountant="):
            check_accountant("accountant", wrong)
