"""Tokens, roles and shares in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from hush.accounting import LaplaceEvent
from hush.accounting.budget import Charge
from hush.errors import InvalidArgument
from hush.ledger import Ledger, NotAllowed, OverBudget, Role
from ledger.ledgers import patients


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/privacy.db"


def test_tokens_decide_and_are_stored_as_hashes(file: str, tmp_path: Path) -> None:
    ledger = Ledger(file)
    with pytest.raises(InvalidArgument, match="for the first person"):
        ledger.admit("ann", Role.ANALYST)
    before = patients(ledger)
    owner = ledger.admit("olga", Role.OWNER)
    ann = Ledger(file, token=owner).admit("ann", Role.ANALYST)
    for token in (None, "", "guessed", owner[:-1]):
        with pytest.raises(NotAllowed):
            Ledger(file, token=token).budget("patients")
    with pytest.raises(NotAllowed, match="requires a token"):  # a handle from before the first was admitted
        before.charge(LaplaceEvent(10.0), purpose="as nobody")
    with pytest.raises(NotAllowed):
        ledger.admit("eve", Role.OWNER)
    assert Ledger(file, token=ann).person.name == "ann"
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert not any(token.encode() in stored for token in (owner, ann))


def test_shares_are_enforced_and_add_up(file: str) -> None:
    owner = Ledger(file, token=(token := Ledger(file).admit("olga", Role.OWNER)))
    data = patients(owner)
    tokens = {name: owner.admit(name, Role.ANALYST) for name in ("ann", "bob")}
    auditor = Ledger(file, token=owner.admit("aud", Role.AUDITOR)).budget("patients")
    ann = Ledger(file, token=tokens["ann"]).budget("patients")
    with pytest.raises(NotAllowed, match="no share"):
        ann.charge(LaplaceEvent(10.0), purpose="without a share")
    data.share("ann", percent=60)
    with pytest.raises(InvalidArgument, match="at most 100"):
        data.share("bob", percent=41)
    data.share("bob", percent=40)
    ann.charge(LaplaceEvent(1 / 1.5), purpose="within 60 percent of 3")
    with pytest.raises(NotAllowed, match="exceeds your share"):
        ann.charge(LaplaceEvent(1.0), purpose="beyond")
    for act in (
        lambda: auditor.charge(LaplaceEvent(10.0), purpose="no"),
        lambda: auditor.reserve(Charge(event=LaplaceEvent(10.0), purpose="no")),
        lambda: ann.share("ann", percent=100),
        lambda: Ledger(file, token=tokens["ann"]).admit("x", Role.OWNER),
        lambda: Ledger(file, token=tokens["ann"]).budget("new", epsilon=1, unit="row"),
    ):
        with pytest.raises(NotAllowed):
            act()
    assert data.spent == auditor.spent == 1.5
    assert Ledger(file, token=token).person.role is Role.OWNER


def test_nobody_settles_what_another_has_reserved(file: str) -> None:
    owner = Ledger(file, token=Ledger(file).admit("olga", Role.OWNER))
    data = patients(owner)
    handles = {}
    for name, role in (("ann", Role.ANALYST), ("bob", Role.ANALYST), ("aud", Role.AUDITOR)):
        handles[name] = Ledger(file, token=owner.admit(name, role)).budget("patients")
        if role is Role.ANALYST:
            data.share(name, percent=50)
    handles["ann"].reserve(Charge(event=LaplaceEvent(1.0), purpose="hers"))
    for name in ("bob", "aud"):
        (pending,) = handles[name].pending()
        for settle in (pending.void, pending.commit):
            with pytest.raises(NotAllowed):
                settle()
    assert data.spent == 1.0
    (pending,) = data.pending()
    pending.void()  # an owner may
    assert data.spent == 0


def test_an_analyst_is_refused_by_the_cap_too(file: str) -> None:
    owner = Ledger(file, token=Ledger(file).admit("olga", Role.OWNER))
    data = patients(owner)
    ann = Ledger(file, token=owner.admit("ann", Role.ANALYST)).budget("patients")
    data.share("ann", percent=50)
    data.charge(LaplaceEvent(0.4), purpose="the owner spends most")
    with pytest.raises(OverBudget):
        ann.charge(LaplaceEvent(1.0), purpose="within her share, not within the cap")
