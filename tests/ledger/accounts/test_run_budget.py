"""A run that is resumed continues with its reservation."""

from __future__ import annotations

from pathlib import Path

import pytest

from hush.accounting import GaussianEvent, LaplaceEvent
from hush.accounting.budget import Charge
from hush.errors import InvalidArgument
from ledger.ledgers import on_file


def test_a_resumed_run_is_charged_once(tmp_path: Path) -> None:
    ledger = on_file(tmp_path)
    data = ledger.budget("patients", epsilon=3, delta=1e-6, unit="patient")
    charge = Charge(event=GaussianEvent(10.0), purpose="training")
    first = data.for_run("run 1").reserve(charge)
    again = data.for_run("run 1").reserve(charge)
    assert (first.resumed, again.resumed) == (False, True)
    assert again.id == first.id
    assert len(data.pending()) == 1
    assert data.for_run("run 2").reserve(charge).id != first.id
    ledger.close()


def test_a_name_is_for_one_event(tmp_path: Path) -> None:
    ledger = on_file(tmp_path)
    data = ledger.budget("patients", epsilon=3, delta=1e-6, unit="patient")
    data.for_run("run 1").reserve(Charge(event=GaussianEvent(10.0), purpose="training"))
    with pytest.raises(InvalidArgument, match="^request='run 1'"):
        data.for_run("run 1").reserve(Charge(event=LaplaceEvent(10.0), purpose="training"))
    ledger.close()
