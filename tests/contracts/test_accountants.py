"""The contract of every accountant, for every event and relation. The tables in `accounting_tables` enrol them.

Each test takes all events of one accountant and relation. A failure names the event.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
import pickle
from functools import cache
from typing import Any

import pytest

from accounting_tables import ACCOUNTANTS, CASES, EVENTS, NOTHING, RELATIONS, parts, supported
from contracts.naming import naming
from hush import accounting
from hush.accounting import (
    Accountant,
    ComposedEvent,
    Event,
    FixedSizeSampledEvent,
    GaussianEvent,
    LaplaceEvent,
    ParallelEvent,
    PldAccountant,
    PoissonSampledEvent,
    SelfComposedEvent,
    events,
)
from hush.accounting.accountants.accountant import is_composition
from hush.errors import Unsupported
from hush.guarantee import Bound, Relation, Unit

DELTA = 1e-5
SUPPORTED = supported()
Cases = dict[str, tuple[Accountant, Event]]


def by_accountant(cases: Cases) -> dict[str, Cases]:
    """Return the cases grouped by accountant and relation."""
    groups: dict[str, Cases] = {}
    for name, (accountant, event) in cases.items():
        groups.setdefault(f"{type(accountant).__name__} {accountant.relation.value}", {})[name] = accountant, event
    return groups


def quick() -> Cases:
    """Return every accountant and event under the first relation that supports it, and one event of each other."""
    selected: Cases = {}
    seen: set[Any] = set()
    for name, (accountant, event) in SUPPORTED.items():
        kind = type(accountant)
        if (kind, event) not in seen or (kind, accountant.relation) not in seen:
            selected[name] = accountant, event
        seen |= {(kind, event), (kind, accountant.relation)}
    return selected


def every(cases: Cases, *marks: pytest.MarkDecorator) -> list[Any]:
    return [pytest.param(part, id=name, marks=marks) for name, part in by_accountant(cases).items()]


QUICK = quick()
SLOW = {name: case for name, case in SUPPORTED.items() if name not in QUICK}
EVERY_CASE = pytest.mark.parametrize("cases", every(CASES))
EVERY_SUPPORTED = pytest.mark.parametrize("cases", every(QUICK) + every(SLOW, pytest.mark.slow))
EVERY_ACCOUNTANT = pytest.mark.parametrize(
    "accountant",
    [kind(relation=relation) for kind in ACCOUNTANTS.values() for relation in RELATIONS.values()],
    ids=[f"{name}-{relation}" for name in ACCOUNTANTS for relation in RELATIONS],
)


@cache
def composed(kind: type[Accountant], relation: Relation, event: Event) -> Accountant:
    return kind(relation=relation).compose(event)


@cache
def epsilon(kind: type[Accountant], relation: Relation, event: Event, delta: float = DELTA) -> float:
    return composed(kind, relation, event).epsilon(delta)


def alone(accountant: Accountant, event: Event) -> Accountant:
    """Return the accountant with this event. All tests share it, and what it has computed."""
    return composed(type(accountant), accountant.relation, event)


def once(accountant: Accountant, event: Event, delta: float = DELTA) -> float:
    return epsilon(type(accountant), accountant.relation, event, delta)


def is_sampled(event: Event) -> bool:
    """Return whether some part runs on a true sample, at a rate below 1."""
    for part in parts(event):
        if isinstance(part, PoissonSampledEvent) and part.sampling_rate < 1:
            return True
        if isinstance(part, FixedSizeSampledEvent) and part.batch_size < part.dataset_size:
            return True
    return False


def test_every_accountant_is_enrolled() -> None:
    public = [value for value in vars(accounting).values() if inspect.isclass(value)]
    accountants = {value for value in public if issubclass(value, Accountant) and value is not Accountant}
    assert accountants == set(ACCOUNTANTS.values())


def test_every_event_is_enrolled() -> None:
    named = [value for value in vars(events).values() if inspect.isclass(value)]
    kinds = {value.kind for value in named if issubclass(value, Event) and value is not Event}
    kinds -= {events.QualifiedEvent.kind}  # its contracts are in tests/accounting/events
    assert kinds == {part.kind for event in EVENTS.values() for part in parts(event)}


def test_every_event_and_accountant_is_supported_somewhere() -> None:
    assert {type(accountant) for accountant, _ in SUPPORTED.values()} == set(ACCOUNTANTS.values())
    unused = {name for name, event in EVENTS.items() if event not in [supported for _, supported in SUPPORTED.values()]}
    # Several mechanisms on one sample, bins and steps without Gaussians, groups over bins, and shuffled reports with a
    # delta are refused by all, on purpose.
    assert unused == {
        "poisson-two-mechanisms",
        "balls-in-bins-laplace",
        "group-balls-in-bins",
        "allocated-laplace",
        "shuffled-gaussian",
    }


# What each accountant must support, at least: one that always refuses would pass every other test.
@pytest.mark.parametrize(
    ("name", "relation", "events"),
    [
        ("pld", "add-or-remove", ["gaussian", "laplace", "discrete-gaussian", "poisson-gaussian", "poisson-laplace"]),
        ("pld", "add-or-remove", ["poisson-discrete-gaussian", "poisson-discrete-laplace", "composed-sampled"]),
        ("pld", "add-or-remove", ["projected-gaussian", "poisson-projected-gaussian"]),
        ("pld", "add-or-remove", ["balls-in-bins", "balls-in-one-bin", "balls-in-bins-sampled", "allocated"]),
        ("pld", "replace", ["randomized-response", "poisson-gaussian", "fixed-gaussian", "parallel", "gaussian"]),
        ("pld", "replace", ["shuffled-randomized-response", "shuffled-pure-dp"]),
        ("rdp", "add-or-remove", ["poisson-gaussian", "poisson-laplace", "repeat-poisson", "repeat-geometric", "zcdp"]),
        ("rdp", "add-or-remove", ["poisson-discrete-gaussian", "poisson-discrete-laplace", "discrete-laplace"]),
        ("rdp", "replace", ["randomized-response", "parallel", "fixed-gaussian"]),
        ("zcdp", "add-or-remove", ["gaussian", "discrete-gaussian", "zcdp", "exponential-mechanism", "group-zcdp"]),
        ("gdp", "add-or-remove", ["gaussian", "poisson-gaussian", "group-gaussian"]),
        ("gdp", "replace", ["gaussian", "fixed-gaussian"]),
        ("basic", "add-or-remove", ["laplace", "approximate-dp", "poisson-laplace", "parallel-by-index"][:3]),
        ("advanced", "replace", ["randomized-response", "fixed-laplace"]),
    ],
)
def test_known_theory_is_supported(name: str, relation: str, events: list[str]) -> None:
    for event in events:
        accountant = ACCOUNTANTS[name](relation=RELATIONS[relation])
        assert accountant.supports(EVENTS[event]), event
        assert accountant.compose(EVENTS[event]).epsilon(DELTA) < math.inf, event


@EVERY_CASE
def test_supports_is_what_compose_does(cases: Cases) -> None:
    for name, (accountant, event) in cases.items():
        with naming(name):
            if accountant.supports(event):
                assert accountant.compose(event).events == (event,)
                continue
            with pytest.raises(Unsupported) as refusal:
                accountant.compose(event)
            assert any(part.kind in str(refusal.value) for part in parts(event)), "the message names no part of it"
            assert accountant.events == ()


@EVERY_SUPPORTED
def test_what_is_composed_can_be_answered(cases: Cases) -> None:
    # A count or a second event must not turn an accepted event into one that only `epsilon` refuses.
    for (name, (accountant, event)), count in itertools.product(cases.items(), (2, 300)):
        with naming(f"{name} {count} times"):
            if not accountant.supports(SelfComposedEvent(event, count)):
                with pytest.raises(Unsupported):
                    accountant.compose(event, count)


def test_events_that_fit_one_by_one_are_refused_when_composed_not_when_asked() -> None:
    parallel = ParallelEvent(
        (ComposedEvent((GaussianEvent(2.0), LaplaceEvent(3.0))), ComposedEvent((GaussianEvent(1.0), LaplaceEvent(9.0))))
    )
    accountant = PldAccountant()
    for _ in range(300):
        try:
            accountant = accountant.compose(parallel)
        except Unsupported:
            return
    assert accountant.epsilon(DELTA) > 0  # a wrong answer would be an Unsupported here, after the fact


@EVERY_SUPPORTED
def test_compose_appends_and_leaves_the_old_one_alone(cases: Cases) -> None:
    for name, (accountant, event) in cases.items():
        with naming(name):
            first = accountant.compose(event)
            second = first.compose(event, 3)
            assert accountant.events == ()
            assert first.events == (event,)
            assert second.events == (event, SelfComposedEvent(event, 3))
            assert type(second) is type(accountant)
            assert second.relation is accountant.relation
            assert second.unit == accountant.unit


@EVERY_SUPPORTED
def test_n_copies_are_one_event_n_times(cases: Cases) -> None:
    for name, (accountant, event) in cases.items():
        with naming(name):
            assert accountant.compose(event, 3).events == accountant.compose(SelfComposedEvent(event, 3)).events
            spellings = {
                "composed one by one": accountant.compose(event).compose(event).compose(event),
                "with a count": accountant.compose(event, 3),
                "in pieces": accountant.compose(
                    ComposedEvent((SelfComposedEvent(event, 2), SelfComposedEvent(ComposedEvent((event,)), 1)))
                ),
            }
            values = {name: spelling.epsilon(DELTA) for name, spelling in spellings.items()}
            single = once(accountant, event)
            assert max(values.values()) == pytest.approx(min(values.values()), rel=1e-9), values
            assert min(values.values()) > single or single in (0, math.inf), "the count was ignored"


@EVERY_SUPPORTED
def test_order_does_not_matter(cases: Cases) -> None:
    for name, (accountant, event) in cases.items():
        with naming(name):
            other = next(other for other in (GaussianEvent(3.0), LaplaceEvent(5.0)) if accountant.supports(other))
            first, last = accountant.compose(event).compose(other), accountant.compose(other).compose(event)
            value = first.epsilon(DELTA)
            assert value == pytest.approx(last.epsilon(DELTA), rel=1e-6)
            assert value >= once(accountant, event) * (1 - 1e-6)


@EVERY_SUPPORTED
def test_more_delta_means_less_epsilon(cases: Cases) -> None:
    for name, (accountant, event) in cases.items():
        with naming(name):
            values = [once(accountant, event, delta) for delta in (1e-18, 1e-5, 1e-3)]
            assert all(0 <= later <= earlier * (1 + 5e-6) for earlier, later in itertools.pairwise(values)), values


@EVERY_SUPPORTED
def test_no_delta_is_the_worst_of_all(cases: Cases) -> None:
    for name, (accountant, event) in cases.items():
        with naming(name):
            assert once(accountant, event, 0.0) >= once(accountant, event, 1e-18) * (1 - 1e-9)


@EVERY_SUPPORTED
def test_epsilon_and_delta_are_inverse(cases: Cases) -> None:
    for name, (accountant, event) in cases.items():
        with naming(name):
            value = once(accountant, event)
            if value == math.inf:
                continue
            # Both searches over orders end about 1e-5 from the best; far out, delta changes fast with epsilon.
            delta = alone(accountant, event).delta(value * (1 + 1e-5))
            assert 0 <= delta <= DELTA * (1 + 2e-3)
            if 0 < delta < 1:
                again = alone(accountant, event).epsilon(delta)
                assert value * (1 - 1e-5) <= again  # infinite if only failures are left: no epsilon has a smaller delta


@EVERY_SUPPORTED
def test_more_epsilon_means_less_delta(cases: Cases) -> None:
    for name, (accountant, event) in cases.items():
        with naming(name):
            values = [alone(accountant, event).delta(epsilon) for epsilon in (0.1, 0.5, 4.0)]
            assert all(0 <= later <= earlier * (1 + 1e-4) <= 1.01 for earlier, later in itertools.pairwise(values))


@pytest.mark.parametrize("name", ["composed-sampled", "parallel-composed", "self-composed"])
def test_delta_at_zero_and_far_out(name: str) -> None:
    accountant = alone(PldAccountant(relation=Relation.ADD_OR_REMOVE), EVENTS[name])
    assert 1e-3 < accountant.delta(0.0) < 1
    assert 0 <= accountant.delta(50.0) < 1e-20


SAMPLED_CLAIMS = ("poisson-exponential", "poisson-approximate", "poisson-per-change", "truncated-poisson")


@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_zero_out_is_accounted_for_like_add_or_remove(name: str) -> None:
    accountants = [ACCOUNTANTS[name](relation=relation) for relation in (Relation.ZERO_OUT, Relation.ADD_OR_REMOVE)]
    for event_name, event in EVENTS.items():
        with naming(event_name):
            zero_out, add_or_remove = (accountant.supports(event) for accountant in accountants)
            # A claim about a record that is zeroed out says nothing about a sample without it.
            assert zero_out == (add_or_remove and event_name not in SAMPLED_CLAIMS)
            if zero_out:
                assert once(accountants[0], event) == once(accountants[1], event)


@EVERY_SUPPORTED
def test_the_guarantee_says_what_was_computed(cases: Cases) -> None:
    for name, (accountant, event) in cases.items():
        with naming(name):
            claim = type(accountant)(relation=accountant.relation, unit=Unit.user()).compose(event).guarantee(DELTA)
            assert (claim.epsilon, claim.delta) == (once(accountant, event), DELTA)
            assert (claim.relation, claim.unit) == (accountant.relation, Unit.user())
            fixed = (accountant.fixed,) if is_composition(event) else ()
            stated = tuple(dict.fromkeys(sentence for part in parts(event) for sentence in part.assumes))
            assert (claim.method, claim.assumptions) == (accountant.method, (*stated, *fixed))
            estimated = isinstance(accountant, accounting.GdpAccountant) and is_sampled(event)
            assert claim.bound is (Bound.ESTIMATE if estimated else Bound.UPPER)


@EVERY_SUPPORTED
def test_an_accountant_survives_pickling(cases: Cases) -> None:
    for name, (accountant, event) in cases.items():
        with naming(name):
            expected = once(accountant, event)  # caches are pickled, or computed again
            again = pickle.loads(pickle.dumps(alone(accountant, event)))
            assert again.events == (event,)
            assert again.epsilon(DELTA) == expected
            assert again.compose(event).events == (event, event)


@EVERY_ACCOUNTANT
def test_nothing_costs_nothing(accountant: Accountant) -> None:
    for delta in (0.0, 1e-18, 1e-15, 1e-5, 0.5):
        assert accountant.epsilon(delta) == 0, delta
        for name, nothing in NOTHING.items():
            if accountant.supports(nothing):
                assert accountant.compose(nothing).epsilon(delta) == 0, (name, delta)
                assert accountant.compose(nothing).delta(0.5) == 0, name


@EVERY_ACCOUNTANT
def test_nothing_adds_nothing(accountant: Accountant) -> None:
    something = next(event for event in (GaussianEvent(2.0), LaplaceEvent(2.0)) if accountant.supports(event))
    for name, nothing in NOTHING.items():
        if accountant.supports(nothing):
            both = accountant.compose(nothing).compose(something)
            assert both.epsilon(DELTA) == once(accountant, something), name


@EVERY_SUPPORTED
def test_zero_times_is_free_beside_something(cases: Cases) -> None:
    for name, (accountant, event) in cases.items():
        with naming(name):
            something = next(other for other in (GaussianEvent(2.0), LaplaceEvent(2.0)) if accountant.supports(other))
            both = accountant.compose(event, 0).compose(something)
            assert both.epsilon(DELTA) == pytest.approx(once(accountant, something), rel=1e-12)


class TestEvents:
    def test_json_and_pickle_round_trips(self) -> None:
        for name, event in EVENTS.items():
            for again in (Event.from_json(event.to_json()), pickle.loads(pickle.dumps(event))):
                assert again == event, name
                assert hash(again) == hash(event), name
                assert type(again) is type(event), name
                assert again.to_json() == event.to_json(), name

    def test_equal_only_to_itself(self) -> None:
        for name, event in EVENTS.items():
            assert [other for other in EVENTS.values() if other == event] == [event], name
            assert event != event.kind, name

    def test_never_changed(self) -> None:
        for name, event in EVENTS.items():
            with naming(name):
                for field in dataclasses.fields(event):  # type: ignore[arg-type]
                    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
                        setattr(event, field.name, getattr(event, field.name))
                    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
                        delattr(event, field.name)
                with pytest.raises((AttributeError, TypeError)):
                    event.extra = 1  # type: ignore[attr-defined]

    def test_its_numbers_are_plain(self) -> None:
        for name, event in EVENTS.items():
            for part in parts(event):
                for field in dataclasses.fields(part):  # type: ignore[arg-type]
                    value: Any = getattr(part, field.name)
                    assert isinstance(value, Event | tuple) or type(value) in (int, float), (name, field.name)


@pytest.mark.parametrize("kind", [PldAccountant, accounting.RdpAccountant, accounting.ZcdpAccountant])
def test_nothing_overflows_far_out(kind: type[Accountant]) -> None:
    assert kind().compose(GaussianEvent(1.5), 3).delta(1.7e308) < 1e-280


@pytest.mark.slow
@EVERY_SUPPORTED
def test_delta_is_a_probability_however_far_out(cases: Cases) -> None:
    for name, (accountant, event) in cases.items():
        if "parallel-composed" in name or "group-poisson" in name:
            continue  # several compositions each: seconds, and nothing new
        with naming(name):
            deltas = [alone(accountant, event).delta(epsilon) for epsilon in (1e6, 1e16, 1.7e308)]
            assert deltas == sorted(deltas, reverse=True)
            assert 0 <= deltas[-1] <= deltas[0] <= 1
