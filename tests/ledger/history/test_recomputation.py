"""`Ledger.recompute`: a better accountant tightens old ledgers, and `verify` follows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hush.accounting import (
    ApproximateDPEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    SelfComposedEvent,
)
from hush.accounting.budget import Cap, Charge, Cost
from hush.errors import InvalidArgument
from hush.ledger import EntryKind, Ledger, LedgerDamaged, NotAllowed
from ledger.ledgers import in_blocks, on_file, rehashed, spend, tampering, with_people

BACKENDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=BACKENDS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    made = on_file(tmp_path) if request.param == "sqlite" else Ledger(request.getfixturevalue("postgres_ledger_url"))
    yield made
    made.close()


def another_accountant(patch: pytest.MonkeyPatch, numerator: int, denominator: int) -> None:
    """Until it is undone, events cost so many times what they cost."""
    exact = Cap.cost

    def cost(self: Cap, event: Event) -> Cost:
        found = exact(self, event)
        parts = {name: getattr(found, name) * numerator // denominator for name in ("renyi", "pure", "gaussian")}
        return replace(found, **parts)

    patch.setattr(Cap, "cost", cost)


def exact_cost(ledger: Ledger, budget: str, *events: Event) -> Cost:
    cap = ledger.budget(budget).cap
    return sum((cap.cost(event) for event in events), Cost())


def test_nothing_changes_by_the_same_accountant(ledger: Ledger) -> None:
    spend(ledger)
    in_blocks(ledger)
    rows = len(ledger.entries())
    result = ledger.recompute("patients")
    assert all(block.change == Cost() and block.before == block.after for block in result.blocks)
    assert [block.block for block in ledger.recompute("visits").blocks] == ["a", "b", "c"]
    assert len(ledger.entries()) == rows


def test_a_better_accountant_tightens(ledger: Ledger) -> None:
    with pytest.MonkeyPatch.context() as patch:
        another_accountant(patch, 2, 1)
        visits = in_blocks(ledger)
        patients = spend(ledger)
    assert "recompute" in " ".join(ledger.verify().notes)
    assert ledger.verify().ok
    spent = visits.spent
    result = ledger.recompute("visits")
    assert result.blocks[0].after < result.blocks[0].before == spent
    status = {status.block: status.cost for status in visits.status()}
    assert status["a"] == exact_cost(ledger, "visits", GaussianEvent(20.0), LaplaceEvent(4.0))
    assert status["b"] == exact_cost(ledger, "visits", GaussianEvent(20.0))
    assert [row.block for row in ledger.entries() if row.kind == EntryKind.RECOMPUTED] == ['["a"]', '["b"]']
    assert ledger.verify().ok, ledger.verify()
    assert ledger.recompute("patients").blocks[0].change.pure < 0
    assert ledger.verify().ok, ledger.verify()
    assert not any("recompute" in note for note in ledger.verify().notes)
    assert patients.charge(LaplaceEvent(30.0), purpose="it goes on").id == len(ledger.entries())


def test_a_reservation_keeps_what_voiding_gives_back(ledger: Ledger) -> None:
    """Else a void after recomputing would give back more than counts, and make other charges cheaper."""
    with pytest.MonkeyPatch.context() as patch:
        another_accountant(patch, 2, 1)
        patients = spend(ledger)
    ledger.recompute("patients")
    (open_one,) = patients.pending()
    open_one.void()
    exact = exact_cost(
        ledger, "patients", LaplaceEvent(10.0), ApproximateDPEvent(0.2, 1e-8), SelfComposedEvent(GaussianEvent(30.0), 5)
    )
    (status,) = patients.status()
    assert exact <= status.cost
    ledger.recompute("patients")
    (status,) = patients.status()
    assert status.cost == exact
    assert ledger.verify().ok, ledger.verify()


def test_a_correction_may_be_larger(ledger: Ledger) -> None:
    with pytest.MonkeyPatch.context() as patch:
        another_accountant(patch, 1, 2)
        patients = spend(ledger)
    assert {finding.about for finding in ledger.verify().findings} == {"cost"}
    (block,) = ledger.recompute("patients").blocks
    assert block.after > block.before
    assert ledger.verify().ok, ledger.verify()
    (open_one,) = patients.pending()
    open_one.commit()
    assert ledger.verify().ok, ledger.verify()


def test_more_than_the_cap_allows_is_said_and_the_budget_is_used_up(ledger: Ledger) -> None:
    patients = ledger.budget("patients", epsilon=3, delta=1e-6, unit="patient")
    with pytest.MonkeyPatch.context() as patch:
        another_accountant(patch, 1, 10)
        for _ in range(10):
            patients.charge(GaussianEvent(2.0), purpose="too cheap")
        pending = patients.reserve(Charge(event=GaussianEvent(2.0), purpose="too cheap, too"))
    (block,) = ledger.recompute("patients").blocks
    assert block.exceeds
    # Reserved before, and voided after: what it gives back is no room.
    pending.void()
    assert not patients.price(GaussianEvent(1000.0)).fits
    with pytest.raises(InvalidArgument, match="retired"):
        patients.charge(GaussianEvent(1000.0), purpose="one more")
    corrected = [row.id for row in ledger.entries() if row.kind == EntryKind.RECOMPUTED]
    assert [(finding.row, finding.about) for finding in ledger.verify().findings] == [(corrected[0], "cap")]


def test_pure_budgets_are_used_up_too(tmp_path: Path) -> None:
    ledger = on_file(tmp_path)
    patients = ledger.budget("patients", epsilon=1, unit="patient")
    with pytest.MonkeyPatch.context() as patch:
        another_accountant(patch, 1, 10)
        for _ in range(9):
            patients.charge(LaplaceEvent(1.0), purpose="too cheap")
    (block,) = ledger.recompute("patients").blocks
    assert block.exceeds
    assert patients.left == 0
    assert {finding.about for finding in ledger.verify().findings} == {"cap"}


def test_shares_are_corrected_too(tmp_path: Path) -> None:
    ledger = on_file(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        another_accountant(patch, 2, 1)
        spend(ledger)
        owner, analyst = with_people(ledger)
    url = str(ledger.store.url)
    with pytest.raises(NotAllowed):
        Ledger(url, token=analyst).recompute("patients")
    Ledger(url, token=owner).recompute("patients")
    assert ledger.verify().ok, ledger.verify()
    with tampering(ledger) as connection:
        (pure,) = connection.execute("SELECT pure FROM hush_shares WHERE name='anna'").fetchone()
    assert pure == Ledger(url, token=owner).budget("patients").cap.cost(LaplaceEvent(20.0)).pure


@pytest.mark.postgres
def test_shares_are_corrected_by_postgres(postgres_ledger_url: str) -> None:
    import sqlalchemy as sa

    from hush.ledger import Role

    ledger = Ledger(postgres_ledger_url)
    patients = ledger.budget("patients", epsilon=3, delta=1e-6, unit="patient")
    ledger.admit(name := f"anna_{ledger.store.url.database}"[:40], Role.ANALYST)
    patients.share(name, percent=50)
    with pytest.MonkeyPatch.context() as patch, ledger.store.engine.begin() as connection:
        another_accountant(patch, 2, 1)
        connection.execute(sa.text(f"SET SESSION AUTHORIZATION {name}"))
        ledger.store._append(connection, patients.row(EntryKind.COMMITTED, _asked(), patients.cost(LaplaceEvent(20.0))))
        connection.execute(sa.text("RESET SESSION AUTHORIZATION"))
    assert ledger.verify().ok, ledger.verify()
    ledger.recompute("patients")
    assert ledger.verify().ok, ledger.verify()
    with ledger.store.reading() as connection:
        assert connection.execute(sa.text("SELECT pure FROM hush_shares")).scalar_one() == 5 * 10**10
    ledger.close()


def _asked() -> Charge:
    return Charge(event=LaplaceEvent(20.0), purpose="hers")


@pytest.mark.postgres
@pytest.mark.parametrize("broken", [{"event": LaplaceEvent(1.0).to_json()}, {"block": '["x"]'}, {"unit": "example"}])
def test_postgres_takes_only_corrections_of_a_budget(postgres_ledger_url: str, broken: dict[str, str]) -> None:
    ledger = Ledger(postgres_ledger_url)
    row = spend(ledger).row(EntryKind.RECOMPUTED, None, Cost())
    with pytest.raises(NotAllowed):
        ledger.store.append(replace(row, **broken))  # type: ignore[arg-type]
    ledger.close()


def test_a_correction_that_is_too_small_is_found(tmp_path: Path) -> None:
    ledger = on_file(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        another_accountant(patch, 2, 1)
        spend(ledger)
    ledger.recompute("patients")
    last = len(ledger.entries())
    with tampering(ledger) as connection:
        connection.execute("UPDATE hush_entries SET pure=pure-100000000 WHERE id=?", (last,))
        connection.execute("UPDATE hush_budgets SET pure=pure-100000000")
        rehashed(ledger, connection)
    assert [(finding.row, finding.about) for finding in ledger.verify().findings] == [(last, "cost"), (None, "cost")]


def test_a_damaged_ledger_is_not_recomputed(tmp_path: Path) -> None:
    ledger = on_file(tmp_path)
    spend(ledger)
    with tampering(ledger) as connection:
        connection.execute("UPDATE hush_budgets SET pure=0")
    with pytest.raises(LedgerDamaged, match="Nothing was changed"):
        ledger.recompute("patients")
