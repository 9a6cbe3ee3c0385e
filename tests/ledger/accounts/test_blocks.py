"""Blocks: disjoint parts of a dataset with budgets of their own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from hush import Relation, Unit
from hush.accounting import (
    LaplaceEvent,
)
from hush.accounting.budget import Charge
from hush.errors import InvalidArgument, Unsupported
from hush.ledger import Ledger, OverBudget

Opened = Callable[..., Ledger]


def test_blocks_have_budgets_of_their_own_all_or_nothing(opened: Opened) -> None:
    data = opened().budget("visits", epsilon=1, delta=1e-6, unit="patient-month", blocks=["2026-09", "2026-10"])
    data.at("2026-09").charge(LaplaceEvent(1.25), purpose="September")
    data.at("2026-10").charge(LaplaceEvent(2.0), purpose="October")
    assert {status.block: status.epsilon for status in data.status()} == {"2026-09": 0.8, "2026-10": 0.5}
    with pytest.raises(OverBudget):
        data.charge(LaplaceEvent(2.5), purpose="both: September has not enough, October is not charged either")
    assert {status.block: status.epsilon for status in data.status()} == {"2026-09": 0.8, "2026-10": 0.5}
    data.charge(LaplaceEvent(10.0), purpose="both")
    assert [round(status.epsilon, 9) for status in data.status()] == [0.9, 0.6]
    assert "each unit's rows are all in one block" in data.guarantee().assumptions
    with pytest.raises(InvalidArgument, match="a block of the budget"):
        data.at("2026-11")


def test_blocks_come_and_go(opened: Opened) -> None:
    data = opened().budget("visits", epsilon=1, delta=1e-6, unit="patient-month", blocks=["2026-09"])
    data.at("2026-09").charge(LaplaceEvent(1.0), purpose="all of it")
    data.add_block("2026-10")
    with pytest.raises(InvalidArgument, match="the budget has this block"):
        data.add_block("2026-10")
    assert data.retire_spent(least_epsilon=0.01) == ["2026-09"]
    assert data.price(LaplaceEvent(2.0)).fits  # of what is not retired
    assert not data.at("2026-09").price(LaplaceEvent(1e4)).fits
    data.charge(LaplaceEvent(2.0), purpose="what is not retired")
    assert {status.block: (status.epsilon, status.retired) for status in data.status()} == {
        "2026-09": (1.0, True),
        "2026-10": (0.5, False),
    }
    with pytest.raises(InvalidArgument, match="neither retired"):
        data.at("2026-09").charge(LaplaceEvent(1e4), purpose="too late")
    data.add_block("2026-08", expires=datetime.now(UTC) - timedelta(days=1))
    with pytest.raises(InvalidArgument, match="nor expired|has nor expired"):
        data.at("2026-08").charge(LaplaceEvent(1e4), purpose="too late")


def test_blocks_need_a_relation_under_which_nobody_moves(opened: Opened) -> None:
    with pytest.raises(Unsupported, match="replace"):
        opened().budget("x", epsilon=1, unit="row", relation=Relation.REPLACE, blocks=["a", "b"])
    data = opened().budget("y", epsilon=1, unit="row")
    with pytest.raises(InvalidArgument):
        data.add_block("a")


@pytest.mark.parametrize(
    ("unit", "blocks"),
    [
        ("patient", ["2026-09", "2026-10"]),
        ("patient", ["north", "south"]),
        ("patient-month", ["north", "south"]),
        ("patient-month", ["2026-09-01", "2026-09-02"]),
        ("patient-week", ["2026-09", "2026-10"]),
        ("patient-quarter", ["2026-09", "2026-10"]),
        ("patient-year", ["2026-09"]),
        ("patient-month", ["2026-09", "north"]),
        (Unit.user_window(timedelta(days=10)), ["2026"]),
    ],
)
def test_blocks_that_share_units_are_refused(opened: Opened, unit: Any, blocks: list[str]) -> None:
    """Twelve answers of epsilon 1 about twelve months of one patient were stated as epsilon <= 1 per user."""
    with pytest.raises(InvalidArgument, match="blocks=.*: expected parts that divide the privacy unit"):
        opened().budget("visits", epsilon=1, delta=1e-6, unit=unit, blocks=blocks)


@pytest.mark.parametrize(
    ("unit", "block"),
    [
        ("patient-month", "north"),
        ("patient-month", "2026-10-03"),
        ("patient-day", "autumn"),
        ("patient-month", "2026-13"),
        ("patient-month", "２０２６-09"),  # another name of a month that has a budget
    ],
)
def test_no_block_that_shares_units_can_be_added(opened: Opened, unit: str, block: str) -> None:
    data = opened().budget("visits", epsilon=1, delta=1e-6, unit=unit, blocks=["2026-09"])
    with pytest.raises(InvalidArgument, match="parts that divide the privacy unit"):
        data.add_block(block)


def test_a_ledger_of_an_older_version_states_what_its_blocks_protect(opened: Opened, tmp_path: Path) -> None:
    months = [f"2026-{month:02}" for month in range(1, 13)]
    ledger = opened()
    with mock.patch("hush.ledger.accounts.blocks.divide_units", return_value=True):  # as it was
        data = ledger.budget("visits", epsilon=1, delta=1e-6, unit="patient", blocks=months)
        for month in months:
            data.at(month).charge(LaplaceEvent(1.0), purpose=month)
    guarantee = data.guarantee()
    assert guarantee.epsilon >= 12
    assert guarantee.epsilon == pytest.approx(12)
    assert guarantee.delta == pytest.approx(12e-6)
    assert "each unit's rows are all in one block" not in guarantee.assumptions
    for charge in (data.at("2026-01"), data):
        with pytest.raises(InvalidArgument, match="parts that divide the privacy unit"):
            charge.charge(LaplaceEvent(1e4), purpose="one more")
        with pytest.raises(InvalidArgument, match="parts that divide the privacy unit"):
            charge.plan([LaplaceEvent(1e4)], delta=1e-9, purpose="one more")
    data.retire("2026-01")  # they can still be closed
    assert ledger.verify().ok
    ledger.export(tmp_path / "report.html")
    assert "12 blocks that share units" in str(guarantee)


@pytest.mark.parametrize("blocks", [5, "ab", [], [1, 2], [None], ["a", "a"], ["a\nb"], {"a", "b"}])
def test_blocks_are_a_list_of_names(opened: Opened, blocks: Any) -> None:
    with pytest.raises(InvalidArgument, match="^blocks?="):
        opened().budget("visits", epsilon=1, unit="row", blocks=blocks)


def test_a_key_is_for_its_own_blocks(opened: Opened) -> None:
    data = opened().budget("v", epsilon=3, delta=1e-6, unit="row", blocks=["a", "b"])
    data.at("a").charge(LaplaceEvent(1.0), purpose="x", request="k")
    with pytest.raises(InvalidArgument, match="used for another"):
        data.at("b").charge(LaplaceEvent(1.0), purpose="x", request="k")
    data.at("a").for_run("r").reserve(Charge(event=LaplaceEvent(2.0), purpose="x"))
    with pytest.raises(InvalidArgument, match="used for another"):
        data.at("b").for_run("r").reserve(Charge(event=LaplaceEvent(2.0), purpose="x"))


def test_a_question_about_more_blocks_is_another_one(opened: Opened) -> None:
    data = opened().budget("v", epsilon=3, delta=1e-6, unit="row", blocks=["a"])
    asked = Charge(event=LaplaceEvent(1.0), purpose="x", question="q", sealed=True)
    data.reserve(asked)
    data.add_block("b")
    data.reserve(asked)
    assert [status.epsilon for status in data.status()] == [2.0, 1.0]


def test_what_looks_at_other_blocks_than_it_pays_for_is_refused(opened: Opened) -> None:
    data = opened().budget("v", epsilon=3, delta=1e-6, unit="row", blocks=["a", "b"])
    for parts in ((), ("a",), ("b",)):
        with pytest.raises(InvalidArgument, match="^budget="):
            data.reserve(Charge(event=LaplaceEvent(1.0), purpose="x", parts=parts))
    data.reserve(Charge(event=LaplaceEvent(1.0), purpose="x", parts=("b", "a"))).commit()


def test_periods_that_contain_each_other_are_no_blocks(opened: Opened) -> None:
    ledger = opened()
    with pytest.raises(InvalidArgument, match="do not overlap"):
        ledger.budget("v", epsilon=1, unit="patient-day", blocks=["2026", "2026-11"])
    data = ledger.budget("w", epsilon=1, unit="patient-day", blocks=["2026-11"])
    for name in ("2026", "2026-11-03"):
        with pytest.raises(InvalidArgument, match="do not overlap"):
            data.add_block(name)
