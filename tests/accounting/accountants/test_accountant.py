"""The base class: composition, refusals and guarantees. `tests/contracts` runs the contract for every accountant."""

from __future__ import annotations

import pytest

from hush.accounting import (
    Accountant,
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PldAccountant,
    RdpAccountant,
    SelfComposedEvent,
    ZcdpAccountant,
    events,
)
from hush.accounting.accountants.accountant import check_accountant
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
