"""Budgets: what they allow, what they refuse, and what they remember."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hush import Relation
from hush.accounting import (
    LaplaceEvent,
)
from hush.accounting.budget import Charge
from hush.errors import HushError, InvalidArgument
from hush.ledger import EntryKind, Ledger, LedgerBudget
from ledger.ledgers import patients

Opened = Callable[..., Ledger]
EVENT = LaplaceEvent(20.0)


FLU = "how many had the flu"


def test_charges_add_up_and_outlive_the_process(opened: Opened) -> None:
    data = patients(opened())
    for _ in range(10):
        data.charge(LaplaceEvent(10.0), purpose=FLU)
    assert data.spent == 1.0  # ten times 0.1, exactly
    again = opened().budget("patients")
    assert again.spent == 1.0
    assert again.cap == data.cap
    assert [row.kind for row in again.entries()] == [EntryKind.BUDGET, *[EntryKind.COMMITTED] * 10]


def test_terms_are_fixed_for_good(opened: Opened) -> None:
    ledger = opened()
    data = patients(ledger, fingerprint="hospital 7, 2026")
    assert patients(ledger).cap == data.cap
    for term, value in {
        "epsilon": 4.0,
        "delta": 1e-5,
        "unit": "row",
        "relation": Relation.REPLACE,
        "order": 5.0,
        "claims_delta": 1e-8,
        "fingerprint": "hospital 8",
    }.items():
        with pytest.raises(InvalidArgument, match=f"^{term}="):
            patients(ledger, **{term: value})
    with pytest.raises(InvalidArgument, match="fingerprint"):
        ledger.budget("the same under another name", epsilon=3, unit="row", fingerprint="hospital 7, 2026")
    with pytest.raises(InvalidArgument, match="To create one"):
        ledger.budget("unknown")


def test_a_file_is_its_own_fingerprint(opened: Opened, tmp_path: object) -> None:
    path = Path(str(tmp_path)) / "people.csv"
    path.write_text("a,b\n1,2\n")
    ledger = opened()
    ledger.budget("one", epsilon=1, unit="row", fingerprint=path)
    copied = path.rename(path.with_name("others.csv"))
    with pytest.raises(InvalidArgument, match="fingerprint"):
        ledger.budget("two", epsilon=1, unit="row", fingerprint=copied)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("name", value) for value in (5, None, "", "a\nb", "\ud800", "x" * 201)),
        *(("fingerprint", value) for value in (5, "", Path("/no/such/file"))),
        ("table", 5),
    ],
)
def test_terms_of_a_wrong_type_are_refused(opened: Opened, name: str, value: Any) -> None:
    terms = {"name": "people", "epsilon": 3, "unit": "row", name: value}
    with pytest.raises(InvalidArgument, match=f"^{name}="):
        opened().budget(**terms)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        *(
            (lambda data, text=text: data.charge(EVENT, purpose=text), "purpose")
            for text in (3, None, b"x", "", "\ud800")
        ),
        *((lambda data, key=key: data.charge(EVENT, purpose="x", request=key), "request") for key in (5, "", "\ud800")),
        (lambda data: data.for_run(5).reserve(Charge(event=EVENT, purpose="x")), "request"),
        (lambda data: data.plan(3, delta=1e-8, purpose="x"), "events"),
        (lambda data: data.plan([3], delta=1e-8, purpose="x"), "events"),
    ],
)
def test_charges_of_a_wrong_type_are_refused(
    opened: Opened, call: Callable[[LedgerBudget], object], argument: str
) -> None:
    data = patients(opened())
    with pytest.raises(InvalidArgument, match=f"^{argument}="):
        call(data)
    assert data.spent == 0


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "mysql://a@b/c", "no url", "sqlite:////no/such/folder/x.db"]
)
def test_bad_places_are_refused(url: str) -> None:
    with pytest.raises(HushError):
        Ledger(url)


def test_no_password_is_shown() -> None:
    with pytest.raises(HushError) as refused:
        Ledger("postgresql://somebody:hunter2@127.0.0.1:1/nowhere")
    assert "hunter2" not in str(refused.value)
