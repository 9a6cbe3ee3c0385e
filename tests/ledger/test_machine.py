"""Any order of reserving, committing, voiding, crashing and asking again, against a model that just adds up."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from hush.accounting import Event, GaussianEvent, LaplaceEvent, PoissonSampledEvent, SelfComposedEvent
from hush.accounting.budget import Cap, Charge, Cost
from hush.errors import BudgetExceeded, InvalidArgument
from hush.guarantee import Unit
from hush.ledger import Ledger, LedgerBudget

STEP = PoissonSampledEvent(GaussianEvent(3.0), 0.01)
EVENTS = st.sampled_from(
    [
        LaplaceEvent(2.0),
        LaplaceEvent(8.0),
        LaplaceEvent(40.0),
        GaussianEvent(8.0),
        GaussianEvent(30.0),
        SelfComposedEvent(STEP, 40),
    ]
)
BLOCKS = ("a", "b")
CHOSEN = st.sampled_from([("a",), ("b",), ("a", "b")])
KEYS = st.sampled_from(["k1", "k2", "k3"])


@dataclass
class Held:
    """A reservation, as the model knows it."""

    id: int
    event: Event
    cost: Cost
    blocks: tuple[str, ...]
    question: str = ""
    state: str = "open"
    answer: str | None = None


@dataclass
class Model:
    """Sums, and what was asked before."""

    cap: Cap = field(default_factory=lambda: Cap(epsilon=1.0, delta=1e-6, unit=Unit.user(), claims_delta=0.0))
    spent: dict[str, Cost] = field(default_factory=lambda: {block: Cost() for block in BLOCKS})
    retired: set[str] = field(default_factory=set)
    requests: dict[str, tuple[Event, tuple[str, ...], int]] = field(default_factory=dict)
    held: list[Held] = field(default_factory=list)
    rows: int = 1

    def fits(self, cost: Cost, blocks: tuple[str, ...]) -> bool:
        return all(self.cap.fits(self.spent[block] + cost) for block in blocks)

    def add(self, cost: Cost, blocks: tuple[str, ...]) -> None:
        self.rows += 1
        for block in blocks:
            self.spent[block] += cost


class Machine(RuleBasedStateMachine):
    """Two handles on one ledger, and a model."""

    place: Iterator[str]
    reservations: Any = Bundle("reservations")

    @initialize()
    def create(self) -> None:
        self.url, self.model = next(self.place), Model()
        self.ledgers = [Ledger(self.url), Ledger(self.url)]
        cap = self.model.cap
        self.ledgers[0].budget(
            "d", epsilon=1.0, delta=1e-6, unit="row", blocks=list(BLOCKS), order=cap.order, claims_delta=0.0
        )

    def data(self, handle: int) -> LedgerBudget:
        return self.ledgers[handle].budget("d")

    def expect(self, cost: Cost, blocks: tuple[str, ...], act: Any) -> Any:
        """Do something that charges; it has to be refused exactly where the model says so."""
        if self.model.retired & set(blocks):
            with pytest.raises((InvalidArgument, BudgetExceeded)):  # which of the blocks is looked at first is open
                act()
            return None
        if not self.model.fits(cost, blocks):
            with pytest.raises(BudgetExceeded):
                act()
            return None
        done = act()
        self.model.add(cost, blocks)
        assert done.id == self.model.rows
        return done

    @rule(handle=st.integers(0, 1), event=EVENTS, blocks=CHOSEN)
    def charge(self, handle: int, event: Event, blocks: tuple[str, ...]) -> None:
        data = self.data(handle).at(*blocks)
        self.expect(data.cost(event), blocks, lambda: data.charge(event, purpose="x"))

    @rule(handle=st.integers(0, 1), event=EVENTS, blocks=CHOSEN, key=KEYS)
    def charge_with_a_key(self, handle: int, event: Event, blocks: tuple[str, ...], key: str) -> None:
        data = self.data(handle).at(*blocks)

        def act() -> Any:
            return data.charge(event, purpose="x", request=key)

        if key not in self.model.requests:
            done = self.expect(data.cost(event), blocks, act)
            if done is not None:
                self.model.requests[key] = (event, blocks, done.id)
            return
        before, where, row = self.model.requests[key]
        if before == event and sorted(where) == sorted(blocks):  # whatever has become of the budget since
            assert act().id == row
            return
        with pytest.raises(InvalidArgument, match="another"):
            act()

    @rule(target=reservations, handle=st.integers(0, 1), event=EVENTS, blocks=CHOSEN)
    def reserve(self, handle: int, event: Event, blocks: tuple[str, ...]) -> Any:
        data = self.data(handle).at(*blocks)
        cost = data.cost(event)
        done = self.expect(cost, blocks, lambda: data.reserve(Charge(event=event, purpose="x")))
        return multiple() if done is None else self._held(Held(done.id, event, cost, blocks))

    def _held(self, held: Held) -> Held:
        self.model.held.append(held)
        return held

    @rule(target=reservations, handle=st.integers(0, 1), blocks=CHOSEN, question=KEYS)
    def ask(self, handle: int, blocks: tuple[str, ...], question: str) -> Any:
        data, charge = (
            self.data(handle).at(*blocks),
            Charge(event=LaplaceEvent(8.0), purpose="x", question=question, sealed=True),
        )
        for held in self.model.held:
            if held.question == question and held.blocks == blocks and held.state in ("open", "committed"):
                again = data.reserve(charge)
                assert (again.id, again.answer) == (held.id, held.answer)
                return multiple()
        done = self.expect(data.cost(charge.event), blocks, lambda: data.reserve(charge))
        if done is None:
            return multiple()
        return self._held(Held(done.id, charge.event, done.row.cost, blocks, question))

    def reserved(self, handle: int, held: Held) -> Any:
        """Find a reservation as another process would: nothing in memory is needed."""
        return next((each for each in self.data(handle).pending() if each.id == held.id), None)

    @rule(handle=st.integers(0, 1), held=reservations, part=st.booleans(), answer=st.sampled_from(["x", "y"]))
    def commit(self, handle: int, held: Held, part: bool, answer: str) -> None:
        found = self.reserved(handle, held)
        assert (found is not None) == (held.state == "open")
        if found is None:
            return
        event: Event | None = (
            SelfComposedEvent(STEP, 10) if part and isinstance(held.event, SelfComposedEvent) else None
        )
        told = answer if held.question else None
        assert found.commit(event, answer=told) == told
        held.state, held.answer = "committed", told
        cost = held.cost if event is None else self.model.cap.part_cost(event, held.event, held.cost)
        self.model.add(cost + -held.cost, held.blocks)
        with pytest.raises(InvalidArgument):
            found.void()

    @rule(handle=st.integers(0, 1), held=reservations)
    def void(self, handle: int, held: Held) -> None:
        found = self.reserved(handle, held)
        if found is None:
            return
        found.void()
        held.state = "voided"
        self.model.add(-held.cost, held.blocks)

    @rule(handle=st.integers(0, 1))
    def crash(self, handle: int) -> None:
        self.ledgers[handle].close()
        self.ledgers[handle] = Ledger(self.url)

    @rule(block=st.sampled_from(BLOCKS), really=st.integers(0, 4))
    def retire(self, block: str, really: int) -> None:
        if really:  # seldom: nothing happens there afterwards
            return
        self.data(0).retire(block)
        self.model.retired.add(block)
        self.model.rows += 1

    @invariant()
    def adds_up(self) -> None:
        if not hasattr(self, "ledgers"):
            return
        for ledger in self.ledgers:
            stands = ledger.budget("d").status()
            assert {status.block: status.cost for status in stands} == self.model.spent
            assert {status.block for status in stands if status.retired} == self.model.retired
        assert len(self.ledgers[0].entries()) == self.model.rows
        open_ones = {held.id for held in self.model.held if held.state == "open"}
        assert {each.id for each in self.data(1).pending()} == open_ones

    def teardown(self) -> None:
        for ledger in getattr(self, "ledgers", ()):
            ledger.close()


def run(place: Iterator[str], examples: int) -> None:
    machine = type("Placed", (Machine,), {"place": place})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_on_a_file(tmp_path: Path) -> None:
    run((f"sqlite:///{tempfile.mkdtemp(dir=tmp_path)}/privacy.db" for _ in itertools.count()), 10)


@pytest.mark.postgres
def test_on_postgresql(postgres_ledger_url: str) -> None:
    server = sa.make_url(postgres_ledger_url)
    engine = sa.create_engine(server.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")

    def schemas() -> Iterator[str]:
        for number in itertools.count():
            with engine.connect() as connection:
                connection.exec_driver_sql(f"CREATE SCHEMA machine_{number}")
            path = {"options": f"-c search_path=machine_{number}"}
            yield server.update_query_dict(path).render_as_string(hide_password=False)

    run(schemas(), 3)
    engine.dispose()


@pytest.mark.slow
def test_on_a_file_for_long(tmp_path: Path) -> None:
    run((f"sqlite:///{tempfile.mkdtemp(dir=tmp_path)}/privacy.db" for _ in itertools.count()), 300)
