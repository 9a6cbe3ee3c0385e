"""Mechanisms with a budget: reserved before noise is drawn, committed before a result leaves, never twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hush import Ledger
from hush.accounting.budget import Charge
from hush.errors import BudgetExceeded, InvalidArgument, Unsupported
from hush.guarantee import Relation, Unit
from hush.mechanisms import AboveThreshold, Gaussian, Laplace, SmoothCauchy
from hush.randomness import RandomSource, TestSource
from mechanism_tables import ROWS


class Purse:
    """A budget that notes what happens to it, in order."""

    def __init__(self, *, is_empty: bool = False) -> None:
        self.events: list[Any] = []
        self.is_empty = is_empty

    def reserve(self, charge: Charge) -> Purse:
        if self.is_empty:
            raise BudgetExceeded("nothing is left")
        self.events.append(charge)
        return self

    def commit(self) -> None:
        self.events.append("commit")


class NotedSource(TestSource):
    """A source that notes when it is read."""

    def __init__(self, purse: Purse) -> None:
        super().__init__(1)
        self.purse = purse

    def words(self, count: int) -> Any:
        self.purse.events.append("draw")
        return super().words(count)


def test_noise_is_drawn_between_the_reservation_and_the_commit() -> None:
    purse = Purse()
    mechanism = Gaussian(epsilon=1.0, delta=1e-6, sensitivity=1.0, size=100, unit=Unit.user(), budget=purse)
    source: RandomSource = NotedSource(purse)
    release = mechanism.release(np.zeros(100), source)
    charge, *draws, last = purse.events
    assert isinstance(charge, Charge)
    assert set(draws) == {"draw"}
    assert last == "commit"
    assert charge.event == release.event  # with its assumption, test randomness
    assert charge.delta == 1e-6


def test_a_refused_release_draws_nothing() -> None:
    purse = Purse(is_empty=True)
    with pytest.raises(BudgetExceeded):
        Laplace(epsilon=1.0, sensitivity=1.0, budget=purse).release(5.0, NotedSource(purse))
    assert purse.events == []


def test_a_release_that_fails_is_charged() -> None:
    """Whether it fails could be a question about the data, to be asked without limit."""
    purse = Purse()
    with pytest.raises(InvalidArgument):
        Laplace(epsilon=1.0, sensitivity=1.0, budget=purse).release("five")
    assert purse.events[-1] == "commit"


def test_a_session_is_charged_when_it_starts() -> None:
    purse = Purse()
    session = AboveThreshold(epsilon=1.0, sensitivity=1.0, budget=purse).start(3.0)
    assert purse.events[-1] == "commit"
    session.ask(1.0)
    assert len(purse.events) == 2


def test_a_mechanism_inside_another_one_is_not_charged() -> None:
    purse = Purse()
    settings: dict[str, Any] = {"epsilon": 1.0, "bounds": (0.0, 1.0), "relation": Relation.REPLACE}
    SmoothCauchy(**settings, budget=purse).median([0.1, 0.2, 0.9])
    assert len(purse.events) == 2


@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_mechanism_charges_once(name: str) -> None:
    row, purse = ROWS[name], Purse()
    row.run(replace(row.mechanism, budget=purse), row.data, None)
    (charge, commit) = purse.events
    assert isinstance(charge, Charge)
    assert charge.event == row.mechanism.event
    assert commit == "commit"


def test_a_budget_is_one() -> None:
    with pytest.raises(InvalidArgument, match="^budget="):
        Laplace(epsilon=1.0, sensitivity=1.0, budget=3)  # type: ignore[arg-type]


def test_a_ledger_refuses_another_unit_before_noise_is_drawn(tmp_path: Path) -> None:
    people = Ledger(f"sqlite:///{tmp_path}/privacy.db").budget("people", epsilon=1, delta=1e-6, unit="person")
    Laplace(epsilon=0.4, sensitivity=1.0, unit=Unit.user(), budget=people).release(5.0)
    assert people.spent == pytest.approx(0.4)
    with pytest.raises(Unsupported, match="stated under"):
        Laplace(epsilon=0.4, sensitivity=1.0, budget=people).release(5.0)
    with pytest.raises(BudgetExceeded):
        Laplace(epsilon=0.7, sensitivity=1.0, unit=Unit.user(), budget=people).release(5.0)
    assert people.spent == pytest.approx(0.4)
    assert not people.pending()
