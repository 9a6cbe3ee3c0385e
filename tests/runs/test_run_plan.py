"""The plan of a run: guarantee.json states what the parts cost, composed, under the plan that draws the noise."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cases import first_quick
from hush.accounting import (
    ApproximateDPEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    ParallelByIndexEvent,
    PldAccountant,
    PoissonSampledEvent,
    SelfComposedEvent,
)
from hush.accounting.events import QualifiedEvent
from hush.cli import main
from hush.cli.commands import plan as plan_command
from hush.data import Numeric, Schema, open_data, prepare
from hush.data.preparation.prepared_data import Prepared
from hush.errors import InvalidArgument
from hush.guarantee import Relation, Unit
from hush.runs import Settings, job
from hush.runs import steps as steps_module
from hush.runs.dataset import plan_for
from hush.runs.draft import draft_plan
from hush.runs.networks import network_arguments
from hush.runs.run_plan import RunPlan, shortened_event
from hush.training import PrivateTraining, TrainingPlan
from hush.training.loop.update import Updater
from hush.training.noise.noise_grid import NoiseGrid
from runs import files
from runs.plans import make_data, make_plan

DELTA = 1e-5


@dataclass
class Recorder:
    """What a run did: the plan and the data that it published, its training, and the noise of each step.

    The noise is in clip norms.
    """

    plans: list[RunPlan] = field(default_factory=list)
    datasets: list[Prepared] = field(default_factory=list)
    trainings: list[PrivateTraining] = field(default_factory=list)
    noise_multipliers: list[float] = field(default_factory=list)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    record = Recorder()
    start, publish, update = steps_module.start_training, job.publish, Updater.__call__

    def recorded_start(*arguments: Any, **options: Any) -> PrivateTraining:
        record.trainings.append(start(*arguments, **options))
        return record.trainings[-1]

    def recorded_publish(
        folder: Any, settings: Any, plan: RunPlan, data: Prepared, network: Any, **options: Any
    ) -> Any:
        record.plans.append(plan)
        record.datasets.append(data)
        return publish(folder, settings, plan, data, network, **options)

    def recorded_update(self: Any, key: Any, step: int, totals: Any, grid: NoiseGrid, *arguments: Any) -> None:
        noise = grid.stddev * grid.spacing
        record.noise_multipliers.append(noise / record.trainings[-1].plan.clipping.clip_norm)
        update(self, key, step, totals, grid, *arguments)

    monkeypatch.setattr(steps_module, "start_training", recorded_start)
    monkeypatch.setattr(job, "publish", recorded_publish)
    monkeypatch.setattr(Updater, "__call__", recorded_update)
    return record


def epsilon(event: Event) -> float:
    return PldAccountant().compose(event).epsilon(DELTA)


CASES = {
    "learned": (1500, (), 0.1),
    "less to learn with": (1500, (*files.BOUNDS, "--learn-share", "0.05"), 0.05),
    "declared": (1500, files.DECLARED, 0.0),
    "full batches": (250, files.DECLARED, 0.0),
}


@pytest.mark.parametrize("case", CASES)
def test_the_guarantee_is_the_composition_of_the_parts(
    case: str, recorder: Recorder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, flags, share = CASES[case]
    source, run = files.write_csv(tmp_path / "t.csv", rows), tmp_path / "run"
    batches = () if case == "full batches" else ("--batch-size", 256)
    printed = files.train(
        capsys, source, "--target", "y", *files.CLASSES, *flags, *batches, "--epsilon", 5, "--output", run
    )
    (plan,), (data,), (private,) = recorder.plans, recorder.datasets, recorder.trainings
    guarantee = json.loads((run / "guarantee.json").read_text())
    # By hand, from public numbers.
    step: Event = GaussianEvent(printed["noise_multiplier"])
    if case != "full batches":
        step = PoissonSampledEvent(step, 256 / len(data.train))
    steps = SelfComposedEvent(step, 5)
    trained: Event = steps
    if share:
        learned = data.event
        assert learned is plan.learning
        assert isinstance(learned, ComposedEvent)
        gaussian, rare = learned.events
        assert isinstance(gaussian, GaussianEvent)
        assert rare == ApproximateDPEvent(0.0, 1e-9)
        assert share * 5 * 0.99 <= epsilon(gaussian) <= share * 5
        trained = ComposedEvent((gaussian, rare, steps))
    expected = epsilon(trained)
    assert guarantee["epsilon"] == pytest.approx(expected, rel=1e-5) or guarantee["epsilon"] >= expected
    assert guarantee["epsilon"] >= expected * (1 - 1e-9)
    assert plan.evaluation is not None
    assert guarantee["epsilon"] >= epsilon(plan.evaluation) * (1 - 1e-9)
    assert guarantee["epsilon"] <= 5
    assert guarantee["delta"] == DELTA
    assert private.steps_taken == 5
    spent = [row["epsilon"] for row in files.rows(run / "metrics.jsonl")]
    assert spent[-1] == pytest.approx(expected, rel=1e-5)


def test_users_are_planned_as_they_are_trained(
    recorder: Recorder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, run = files.write_users(tmp_path / "u.csv"), tmp_path / "run"
    flags = ("--target", "y", "--unit", "who", *files.DECLARED, "--rows-per-unit", 2, "--batch-size", 50)
    files.train(capsys, source, *flags, "--epsilon", 2, "--output", run)
    (data,), (private,) = recorder.datasets, recorder.trainings
    assert private.plan.rows_per_unit == 2
    assert str(private.plan.unit) == "user"
    assert data.train.units is not None
    assert data.test.units is not None
    units = set(data.train.units.tolist())
    assert private.plan.num_units == len(units)
    assert not units & set(data.test.units.tolist())


def test_parts_are_in_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, run = files.write_csv(tmp_path / "t.csv", 1500), tmp_path / "run"
    files.train(capsys, source, "--target", "y", *files.CLASSES, "--epsilon", 5, "--output", run)
    report = (run / "report.html").read_text()
    for part in ("learning bounds, values and classes", "training", "held-out metrics"):
        assert part in report


# One plan: the guarantee is about the noise that was drawn


def train_declared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Train with everything declared and nothing held out, so that the steps alone cost something."""
    source = files.write_csv(tmp_path / "t.csv", 1500)
    flags = ("--target", "y", *files.DECLARED, "--holdout", 0, "--batch-size", 256, "--epsilon", 2)
    files.train(capsys, source, *flags, "--output", tmp_path / "run")
    return dict(json.loads((tmp_path / "run/guarantee.json").read_text()))


def check_noise_is_stated(guarantee: dict[str, Any], drawn: list[float]) -> None:
    """Compare guarantee.json with the noise that the optimizer's steps really got, step by step."""
    steps = ComposedEvent(tuple(PoissonSampledEvent(GaussianEvent(noise), 256 / 1500) for noise in drawn))
    assert len(drawn) == 5
    assert guarantee["epsilon"] == pytest.approx(epsilon(steps), rel=1e-5)


def test_the_guarantee_is_about_the_very_plan_that_draws_the_noise(
    recorder: Recorder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    guarantee = train_declared(tmp_path, capsys)
    assert recorder.plans[0].training is recorder.trainings[0].plan
    check_noise_is_stated(guarantee, recorder.noise_multipliers)
    assert 1.99 < guarantee["epsilon"] <= 2


def weaken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start every training under another plan than the run's: with half of the noise."""
    start = steps_module.start_training

    def weak_start(plan: TrainingPlan, *arguments: Any, **options: Any) -> PrivateTraining:
        return start(replace(plan, noise_multiplier=plan.noise_multiplier / 2), *arguments, **options)

    monkeypatch.setattr(steps_module, "start_training", weak_start)


def test_training_under_another_plan_changes_the_guarantee(
    recorder: Recorder, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(monkeypatch)
    guarantee = train_declared(tmp_path, capsys)
    check_noise_is_stated(guarantee, recorder.noise_multipliers)
    assert guarantee["epsilon"] > 3  # not the 2 that the run had planned
    spent = [row["epsilon"] for row in files.rows(tmp_path / "run/metrics.jsonl")]
    assert spent[-1] == pytest.approx(guarantee["epsilon"])


def test_a_twin_with_two_plans_is_caught(
    recorder: Recorder, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin states the guarantee of the plan that the run made, and draws its noise under another one."""
    weaken(monkeypatch)
    monkeypatch.setattr(RunPlan, "with_training", lambda self, training: self)
    guarantee = train_declared(tmp_path, capsys)
    assert guarantee["epsilon"] <= 2
    with pytest.raises(AssertionError):
        check_noise_is_stated(guarantee, recorder.noise_multipliers)


# `hush plan` promises what `hush train` guarantees

FLAGS = {
    "declared": ("--epsilon", 2, "--batch-size", 256, "--num-steps", 5, *files.DECLARED),
    "all defaults": ("--epsilon", 3, *files.DECLARED),
    "epochs and delta": (
        "--epsilon",
        1,
        "--batch-size",
        256,
        "--epochs",
        3.3,
        "--delta",
        1e-6,
        *files.DECLARED,
    ),
    "learned classes": ("--epsilon", 5, "--batch-size", 300, "--num-steps", 5, "--learn-share", 0.05, *files.BOUNDS),
    "learned bounds": ("--epsilon", 5, "--batch-size", 300, "--num-steps", 5, "--classes", "0,1"),
    "nothing held out": ("--epsilon", 2, "--batch-size", 256, "--num-steps", 5, "--holdout", 0, *files.DECLARED),
    "users": ("--epsilon", 2, "--batch-size", 50, "--num-steps", 5, "--unit", "who", *files.DECLARED),
}
SAME_FLAGS = ("--epsilon", "--batch-size", "--num-steps", "--epochs", "--delta", "--learn-share")


def check_plan_is_kept(
    case: str, recorder: Recorder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> dict[str, Any]:
    """Run `hush train`, run `hush plan` with the same settings, and compare all numbers; return those of the plan."""
    write = files.write_users if case == "users" else lambda path: files.write_csv(path, 1500)
    flags, folder = [str(flag) for flag in FLAGS[case]], tmp_path / "run"
    train = ["train", str(write(tmp_path / "t.csv")), "--target", "y", *files.CLASSES, *flags, "--output", str(folder)]
    assert main([*train, "--quiet", "--json"]) == 0
    trained = json.loads(capsys.readouterr().out.splitlines()[-1])
    guarantee = json.loads((folder / "guarantee.json").read_text())
    (data,), (private,) = recorder.datasets, recorder.trainings
    about = ["--num-units", str(private.plan.num_units), "--num-held-out", str(data.outline.num_held_out)]
    if case.startswith("learned"):
        about += ["--learn", "values" if case == "learned classes" else "bounds"]
    if case == "users":
        about += ["--unit-kind", "user"]
    same = [word for flag, value in pairwise(flags) if flag in SAME_FLAGS for word in (flag, value)]
    assert main(["plan", *about, *same, "--json"]) == 0
    planned: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert planned["noise_multiplier"] == trained["noise_multiplier"] == private.plan.noise_multiplier
    assert planned["num_steps"] == private.steps_taken
    assert planned["sampling_rate"] == private.plan.sampling_rate
    assert (planned["epsilon"], planned["delta"]) == (guarantee["epsilon"], guarantee["delta"])
    for name in ("unit", "relation", "method"):
        assert planned["guarantee"][name] == guarantee[name]
    return planned


@pytest.mark.parametrize("case", first_quick(FLAGS, 3))
def test_a_plan_is_what_a_run_does(
    case: str, recorder: Recorder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_plan_is_kept(case, recorder, tmp_path, capsys)


def rounds_steps_down(settings: Settings, *, num_units: int, **about: Any) -> Any:
    steps = int((settings.epochs or 1) * num_units / (settings.batch_size or 1))
    return draft_plan(settings.replace(epochs=None, num_steps=steps), num_units=num_units, **about)


def forgets_learning(settings: Settings, *, undeclared: object, **about: Any) -> Any:
    return draft_plan(settings, **about)


def forgets_held_out_metrics(settings: Settings, *, num_held_out: int, **about: Any) -> Any:
    return draft_plan(settings, **about)


def samples_everyone(settings: Settings, *, num_units: int, **about: Any) -> Any:
    return draft_plan(settings.replace(batch_size=num_units), num_units=num_units, **about)


TWINS = {
    "epochs and delta": rounds_steps_down,
    "learned classes": forgets_learning,
    "learned bounds": forgets_held_out_metrics,
    "declared": samples_everyone,
}


@pytest.mark.parametrize("case", first_quick(TWINS, 2))
@pytest.mark.quick_cases(1)
def test_a_plan_of_its_own_is_caught(
    case: str,
    recorder: Recorder,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plan_command, "draft_plan", TWINS[case])
    with pytest.raises(AssertionError):
        check_plan_is_kept(case, recorder, tmp_path, capsys)


# The plan by itself


def test_a_draft_has_all_settings_filled_in(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, batch_size=None, num_steps=None)
    settings = plan.settings
    assert (settings.model, settings.batch_size, settings.num_steps) == ("softmax", 256, 63)  # 40 epochs
    assert (settings.delta, settings.device, settings.rows_per_unit, settings.learn_share) == (DELTA, "cpu", 1, 0.0)
    assert plan.training.noise_multiplier == 1
    arguments = network_arguments(plan.settings, make_data(tmp_path))
    assert arguments == {"model": "softmax", "shape": (2,), "num_classes": 2, "seed": 0}


@pytest.mark.parametrize("target", [0.3, 1.0, 8.0])
def test_calibrated_noise_is_the_least_that_stays_within_epsilon(tmp_path: Path, target: float) -> None:
    plan = make_plan(tmp_path, epsilon=target).calibrated()
    assert 0.999 * target < plan.epsilon() <= target
    assert plan.epsilon(5) < plan.epsilon()
    assert plan.guarantee().epsilon == plan.epsilon()


def test_units_on_two_sides_compose_in_parallel(tmp_path: Path) -> None:
    plan = make_plan(tmp_path).calibrated()
    held_out = GaussianEvent(0.5)  # costs more than training
    both = replace(plan, evaluation=held_out, assumptions=("a coin decides",))
    assert both.guarantee().epsilon == pytest.approx(epsilon(held_out), rel=1e-6)
    assert both.guarantee(("one more",)).assumptions[-2:] == ("a coin decides", "one more")
    charged = both.charged_event()
    assert isinstance(charged, QualifiedEvent)
    assert charged.event == ParallelByIndexEvent((plan.event(), held_out))
    assert [part["what"] for part in both.parts()] == ["training", "held-out metrics, for other units"]


def test_the_charge_assumes_what_the_guarantee_assumes(tmp_path: Path) -> None:
    changes = {"start": "public.safetensors", "public": "published photographs of cats", "epsilon": 2.0}
    plan = replace(make_plan(tmp_path, **changes), evaluation=GaussianEvent(2.0), assumptions=("counts are public",))
    charged, guarantee = plan.charged_event(), plan.guarantee()
    assert isinstance(charged, QualifiedEvent)
    assert charged.assumptions == guarantee.assumptions
    assert {*plan.training.guarantee().assumptions, "counts are public"} == set(charged.assumptions)
    assert any("published photographs of cats" in sentence for sentence in charged.assumptions)


def test_a_run_reserved_by_an_earlier_version_is_resumed(tmp_path: Path) -> None:
    """Charges used to leave out what training assumes. A ledger compares the rest of the event."""
    pytest.importorskip("sqlalchemy")
    from hush.ledger.accounts.earlier_charges import same_event

    plan = replace(make_plan(tmp_path), assumptions=("counts are public",))
    before = QualifiedEvent(plan.event(), Relation.ADD_OR_REMOVE, Unit.example(), plan.assumptions)
    assert before.to_json() != plan.charged_event().to_json()
    assert same_event(before.to_json(), plan.charged_event().to_json())


def test_one_unit_is_not_enough(tmp_path: Path) -> None:
    source = files.write_rows(tmp_path / "one.csv", "a,b,y", ["0.5,0.5,1"])
    schema = Schema(columns={name: Numeric(lower=-3, upper=3) for name in "ab"}, classes=("0", "1"))
    data = prepare(open_data(source), target="y", schema=schema, holdout=0.0, key=bytes(32))
    with pytest.raises(InvalidArgument, match="at least two units"):
        plan_for(data.outline, Settings(data="one.csv", epsilon=1.0), device="cpu")


def test_delta_has_to_protect_every_unit(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="delta=0.1"):
        make_plan(tmp_path, delta=0.1)


def test_long_events_are_shortened() -> None:
    event = ComposedEvent((GaussianEvent(1.5),) * 20)
    assert len(shortened_event(event)) == 160
    assert shortened_event(event).endswith("...")
    assert shortened_event(GaussianEvent(1.5)) == repr(GaussianEvent(1.5))
