"""What guarantee.json says is what the parts of a run cost, composed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hush.accounting import (
    ApproximateDPEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    PldAccountant,
    PoissonSampledEvent,
    SelfComposedEvent,
)
from hush.runs import job
from hush.runs import steps as steps_module
from runs import files


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """Note what each run was ready for, and the training that it did."""
    found: list[Any] = []
    begin, publish = steps_module.begin, job.publish

    def noted_begin(*given: Any) -> Any:
        private, average = begin(*given)
        found.append(private)
        return private, average

    def noted_publish(folder: Any, settings: Any, ready: Any, *rest: Any, **options: Any) -> Any:
        found[-1] = ready, found[-1]
        return publish(folder, settings, ready, *rest, **options)

    monkeypatch.setattr(steps_module, "begin", noted_begin)
    monkeypatch.setattr(job, "publish", noted_publish)
    return found


def epsilon(event: Event, delta: float) -> float:
    return PldAccountant().compose(event).epsilon(delta)


CASES = {
    "learned": ((1500,), (), 0.1),
    "less to learn with": ((1500,), (*files.BOUNDS, "--learn-share", "0.05"), 0.05),
    "declared": ((1500,), files.DECLARED, 0.0),
    "full batches": ((250,), files.DECLARED, 0.0),
}


@pytest.mark.parametrize("case", CASES)
def test_the_promise_is_the_composition(
    case: str, seen: list[tuple[Any, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (rows,), flags, share = CASES[case]
    source, run = files.write_csv(tmp_path / "t.csv", rows), tmp_path / "run"
    batches = () if case == "full batches" else ("--batch-size", 256)
    found = files.train(capsys, source, "--target", "y", *flags, *batches, "--epsilon", 5, "--output", run)
    ((ready, private),) = seen
    promised = json.loads((run / "guarantee.json").read_text())
    # By hand, from public numbers.
    noise, num_units = found["noise_multiplier"], len(ready.prepared.train)
    step: Event = GaussianEvent(noise)
    if case != "full batches":
        step = PoissonSampledEvent(step, 256 / num_units)
    steps = SelfComposedEvent(step, 5)
    trained: Event = steps
    if share:
        learned = ready.prepared.event
        assert isinstance(learned, ComposedEvent)
        gaussian, rare = learned.events
        assert isinstance(gaussian, GaussianEvent)
        assert rare == ApproximateDPEvent(0.0, 1e-9)
        assert share * 5 * 0.99 <= epsilon(gaussian, 1e-5) <= share * 5
        trained = ComposedEvent((gaussian, rare, steps))
    own = epsilon(trained, 1e-5)
    assert promised["epsilon"] == pytest.approx(own, rel=1e-5) or promised["epsilon"] >= own
    assert promised["epsilon"] >= own * (1 - 1e-9)
    assert promised["epsilon"] >= epsilon(ready.budget.figures, 1e-5) * (1 - 1e-9)
    assert promised["epsilon"] <= 5
    assert promised["delta"] == 1e-5
    # What was trained is what was planned.
    assert private.plan.event() == ready.plan.event()
    assert private.plan.noise_multiplier == noise
    assert private.steps_taken == 5
    spent = [row["epsilon"] for row in files.rows(run / "metrics.jsonl")]
    assert spent[-1] == pytest.approx(own, rel=1e-5)


def test_users_are_planned_as_they_are_trained(
    seen: list[tuple[Any, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, run = files.write_users(tmp_path / "u.csv"), tmp_path / "run"
    flags = ("--target", "y", "--unit", "who", *files.DECLARED, "--rows-per-unit", 2, "--batch-size", 50)
    files.train(capsys, source, *flags, "--epsilon", 2, "--output", run)
    ((ready, private),) = seen
    assert private.plan.event() == ready.plan.event()
    assert private.plan.unit == ready.plan.unit
    assert private.plan.rows_per_unit == 2
    units = set(ready.prepared.train.units.tolist())
    assert ready.plan.num_units == len(units)
    assert not units & set(ready.prepared.test.units.tolist())


def test_parts_are_in_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, run = files.write_csv(tmp_path / "t.csv", 1500), tmp_path / "run"
    files.train(capsys, source, "--target", "y", "--epsilon", 5, "--output", run)
    report = (run / "report.html").read_text()
    for what in ("learning what was not declared", "training", "figures about those held out"):
        assert what in report


def test_no_share_to_learn_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = files.write_csv(tmp_path / "t.csv")
    told = files.refused(capsys, source, "--target", "y", *files.BOUNDS, "--epsilon", 5, "--learn-share", 0)
    assert "classes of the target" in told
