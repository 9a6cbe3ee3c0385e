"""The report for an auditor: it says everything, runs nothing, and shows hostile text as text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hush.accounting import LaplaceEvent
from hush.errors import InvalidArgument
from hush.ledger import Ledger
from hush.ledger.history.composition import composition
from hush.ledger.history.verification import read
from hush.report.page_parts import written_epsilon
from ledger.ledgers import in_blocks, on_file, spend, tampering, with_people
from report.pages import check, drawings

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</td></table><style>*{display:none}</style>",
    "<!-- hush: not private, begin -->",
    "&lt;b&gt; &amp; 'quotes' \"too\"",
    "محمد 数据 🧪",
]


def page_of(ledger: Ledger, folder: Path, budget: str | None = None) -> str:
    ledger.export(folder / "report.html", budget)
    return (folder / "report.html").read_text(encoding="utf-8")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = on_file(tmp_path)
    spend(made)
    in_blocks(made)
    with_people(made)
    return made


def test_it_says_everything(ledger: Ledger, tmp_path: Path) -> None:
    html = page_of(ledger, tmp_path)
    page = check(html)
    result = ledger.verify()
    for text in (
        "Guarantee: patients",
        "Laplace noise, scale 10 times the sensitivity",
        "5 times: Gaussian noise, multiplier 30",
        "a mechanism with epsilon 0.2 and delta 1e-08",
        "left by a crash",
        "voided: nothing was released",
        "both (a, b)",
        "Pending reservations: of running releases, or left by a crash.",
        "if all charges had been fixed in advance",
        "olga",
        "anna",
        "50 %",
        "no problems",
        "retired",
        result.head,
        f"from {result.rows:,} rows",
    ):
        assert text in page.text, text
    assert len(drawings(html)) == 3  # patients, and blocks a and b; nothing was charged to c
    assert all("cap" in "".join(svg.itertext()) for svg in drawings(html))
    # Every charge has its row: reservations with the row that settled them.
    assert {row.id for row in ledger.entries() if row.event is not None and row.charge is None} <= {
        int(first) for first in re.findall(r'<th scope="row">(\d+)', html)
    }


def test_what_composes_is_in_the_table(ledger: Ledger, tmp_path: Path) -> None:
    replay, _ = read(ledger.store)
    budget = replay.budgets["patients"]
    charges = [charge for charge in replay.charges.values() if charge.row.budget == "patients"]
    composed = composition(budget.cap, budget.blocks[""].budget.spent, charges)
    page = check(page_of(ledger, tmp_path, "patients"))
    assert f"Composition of {composed.charges} charges" in page.text
    assert composed.rdp.epsilon is None  # a claim with a delta is among them
    assert composed.rdp.why in page.text
    assert f"{written_epsilon(composed.pld.epsilon)}" in page.text
    assert "visits" not in page.text


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text(tmp_path: Path, text: str) -> None:
    ledger = on_file(tmp_path)
    data = ledger.budget(text, epsilon=2, delta=1e-6, unit="row", blocks=[text], fingerprint=text)
    data.charge(LaplaceEvent(4.0), purpose=text)
    page = check(page_of(ledger, tmp_path))
    assert page.text.count(" ".join(text.split())) >= 4
    assert not any(tag in ("script", "img") for tag, _ in page.elements)


def test_what_was_written_behind_its_back_is_text_too(ledger: Ledger, tmp_path: Path) -> None:
    """Names are checked when they are given; a damaged ledger may hold anything."""
    with tampering(ledger) as connection:
        connection.execute(
            "UPDATE hush_entries SET author=?, purpose=? WHERE id=2", ("<script>", "a\x00\x1b[2J\u202eb")
        )
        connection.execute("UPDATE hush_entries SET event='nonsense', time='<b>' WHERE id=3")
        connection.execute("UPDATE hush_entries SET details='[]' WHERE id=9")
    html = page_of(ledger, tmp_path)
    page = check(html)
    assert "DAMAGED" in page.text
    assert "Row 2: the row was edited" in page.text
    assert "\x1b" not in html
    assert "\u202e" not in html


def test_a_report_replaces_nothing(ledger: Ledger, tmp_path: Path) -> None:
    before = (tmp_path / "privacy.db").read_bytes()
    with pytest.raises(InvalidArgument, match="does not exist"):
        ledger.export(tmp_path / "privacy.db")
    assert (tmp_path / "privacy.db").read_bytes() == before
    with pytest.raises(InvalidArgument, match="writable path"):
        ledger.export(tmp_path / "nowhere" / "report.html")
    with pytest.raises(InvalidArgument, match="a budget of this ledger"):
        ledger.export(tmp_path / "report.html", "others")
    assert not (tmp_path / "report.html").exists()


def test_an_empty_ledger(tmp_path: Path) -> None:
    ledger = on_file(tmp_path)
    ledger.budget("patients", epsilon=1, unit="row")
    page = check(page_of(ledger, tmp_path))
    assert "Nothing was charged." in page.text
    assert "No one has been admitted yet" in page.text


def test_answers_are_not_in_it(tmp_path: Path) -> None:
    from hush.accounting.budget import Charge

    ledger = on_file(tmp_path)
    data = ledger.budget("patients", epsilon=1, unit="row")
    data.reserve(Charge(event=LaplaceEvent(9.0), purpose="a count", question="how many", sealed=True)).commit(
        answer="8675309"
    )
    assert "8675309" not in page_of(ledger, tmp_path)


def test_one_charge_is_one_and_all_of_it_is_on_a_narrow_screen(tmp_path: Path) -> None:
    """On 400 pixels, status and epsilon of each charge were beyond the edge."""
    ledger = on_file(tmp_path)
    ledger.budget("patients", epsilon=1, unit="row").charge(LaplaceEvent(9.0), purpose="a count")
    html = page_of(ledger, tmp_path)
    assert "Composition of 1 charge<" in html
    narrow = html.partition("@media (max-width: 640px)")[2].partition("@page")[0]
    assert ".charges.long tr { display: grid;" in narrow
    assert 'class="charges long"' in html
