"""The composed cost of charges, four ways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hush.accounting import (
    ApproximateDPEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
    calibrate_noise,
)
from hush.accounting.budget import Charge
from hush.accounting.events import RepeatPoissonEvent
from hush.ledger import Ledger
from ledger.ledgers import on_file

BACKENDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=BACKENDS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    made = on_file(tmp_path) if request.param == "sqlite" else Ledger(request.getfixturevalue("postgres_ledger_url"))
    yield made
    made.close()


def test_the_table_of_one_budget_over_everything(tmp_path: Path) -> None:
    """40 counts, 10 group-bys and one training run: 7.87 by addition, at most 3.69 (RDP) and 3.46 (PLD).

    What is known of the run is that it is worth 1.87 alone: this is one such run.
    """
    ledger = on_file(tmp_path)
    patients = ledger.budget("patients", epsilon=4, delta=1e-6, unit="patient")
    group_by = GaussianEvent(calibrate_noise(epsilon=0.2, delta=1e-7))
    noise = calibrate_noise(epsilon=1.87, delta=1e-6, sampling_rate=0.01, num_steps=500)
    run = SelfComposedEvent(PoissonSampledEvent(GaussianEvent(noise), 0.01), 500)
    for number in range(40):
        patients.charge(LaplaceEvent(10.0), purpose=f"count {number}")
    for number in range(10):
        patients.reserve(Charge(event=group_by, delta=1e-7, purpose=f"group-by {number}")).commit()
    (before,) = ledger.recompute("patients").blocks
    assert before.composition.rdp.epsilon == pytest.approx(2.99, abs=0.005)
    assert before.composition.pld.epsilon == pytest.approx(2.83, abs=0.005)
    patients.reserve(Charge(event=run, delta=1e-6, purpose="training")).commit()
    (block,) = ledger.recompute("patients").blocks
    together = block.composition
    assert together.addition.epsilon == pytest.approx(7.87, abs=0.005)
    assert together.addition.delta == pytest.approx(2e-6)
    assert together.rdp.epsilon is not None
    assert together.rdp.epsilon <= 3.69
    assert together.pld.epsilon is not None
    assert together.pld.epsilon <= 3.46
    assert together.charges == 51
    # What enforces the cap is looser: it also holds for choices made on the way.
    assert together.filter.epsilon is not None
    assert together.rdp.epsilon < together.filter.epsilon <= 4


def test_whoever_refuses_says_so(tmp_path: Path) -> None:
    ledger = on_file(tmp_path)
    patients = ledger.budget("patients", epsilon=8, delta=1e-6, unit="patient")
    patients.charge(RepeatPoissonEvent(GaussianEvent(8.0), 3.0), purpose="a sweep")
    (block,) = ledger.recompute("patients").blocks
    assert block.composition.rdp.epsilon is not None
    assert block.composition.pld.epsilon is None
    assert "repeat-poisson" in block.composition.pld.why
    patients.charge(ApproximateDPEvent(0.1, 1e-9), purpose="a claim")
    (block,) = ledger.recompute("patients").blocks
    assert block.composition.rdp.epsilon is None
    assert block.composition.rdp.why
