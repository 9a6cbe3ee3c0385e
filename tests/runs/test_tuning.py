"""`hush tune`: the best of a secret number of runs, within the budget of everything together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hush.accounting import PldAccountant
from hush.cli import main
from hush.errors import InvalidArgument
from hush.randomness import TestSource
from hush.runs import Settings, load, steps, tune, tuning
from hush.training import TrainingPlan

NUM_ROWS = 6000
EPSILON = 8.0


@pytest.fixture
def table(tmp_path: Path) -> Path:
    generator = np.random.default_rng(1)
    x = generator.normal(size=(NUM_ROWS, 2))
    y = (x[:, 0] > 0).astype(int)
    lines = [
        "user,a,b,label",
        *(f"{row // 3},{a:.4f},{b:.4f},{label}" for row, ((a, b), label) in enumerate(zip(x, y, strict=True))),
    ]
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def settings(path: Path, **changes: object) -> Settings:
    values = {"target": "label", "epsilon": EPSILON, "num_steps": 6, "unit": "user", **changes}
    return Settings(data=str(path), **values)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_whole_search_stays_within_epsilon(table: Path, tmp_path: Path) -> None:
    outcome = tune(
        settings(table), {"learning_rate": [0.5, 5.0]}, tmp_path / "run", mean_runs=2.0, source=TestSource(3)
    )
    assert outcome.guarantee.epsilon <= EPSILON
    assert outcome.guarantee.delta == 1e-5
    assert "test randomness" in outcome.guarantee.assumptions
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"model.safetensors", "model.json", "guarantee.json", "figures.json", "report.html", "run.json"} <= names
    assert not [name for name in names if "secret" in name]
    assert set(load(tmp_path / "run").predict(table)) <= {"0", "1"}


def test_learning_and_metrics_are_part_of_the_guarantee(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parts, recomputed from their events, add up to no more than the guarantee states."""
    recorded: dict[str, Any] = {}
    total = tuning._total

    def spy(best: Any, plan: Any, reserve: Any) -> Any:
        recorded.update(best=best, plan=plan, reserve=reserve)
        return total(best, plan, reserve)

    monkeypatch.setattr(tuning, "_total", spy)
    outcome = tune(settings(table), {"learning_rate": [0.5]}, tmp_path / "run", mean_runs=2.0, source=TestSource(4))
    search, plan = recorded["best"].guarantee, recorded["plan"]
    rest_delta = recorded["reserve"].delta * recorded["reserve"].share
    assert search.delta + rest_delta <= outcome.guarantee.delta * (1 + 1e-12)
    for part in (plan.learning, plan.evaluation):
        assert part is not None
        cost = PldAccountant(unit=plan.training.unit).compose(part).epsilon(rest_delta)
        assert search.epsilon + cost <= outcome.guarantee.epsilon * (1 + 1e-9)


@pytest.mark.slow
def test_runs_draw_the_noise_that_the_search_accounts_for(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs: list[TrainingPlan] = []
    started: list[TrainingPlan] = []
    plan_tuning, start = tuning.plan_tuning, steps.start_training

    def recorded_plan(space: Any, *, cost: Any, **options: Any) -> Any:
        def recorded_cost(choice: Any, noise_multiplier: float) -> TrainingPlan:
            costs.append(cost(choice, noise_multiplier))
            return costs[-1]

        return plan_tuning(space, cost=recorded_cost, **options)

    def recorded_start(plan: TrainingPlan, *arguments: Any, **options: Any) -> Any:
        started.append(plan)
        return start(plan, *arguments, **options)

    monkeypatch.setattr(tuning, "plan_tuning", recorded_plan)
    monkeypatch.setattr(steps, "start_training", recorded_start)
    space = {"batch_size": [400, 900]}
    outcome = tune(settings(table), space, tmp_path / "run", mean_runs=2.0, source=TestSource(6))
    assert started
    assert all(plan in costs for plan in started)
    assert outcome.noise_multiplier in {plan.noise_multiplier for plan in started}


def test_settings_that_can_be_searched() -> None:
    assert tuning.searchable() == {
        "model": "model",
        "epochs": "epochs",
        "num_steps": "num-steps",
        "batch_size": "batch-size",
        "learning_rate": "learning-rate",
        "momentum": "momentum",
        "clip_norm": "clip-norm",
    }


def test_combinations_of_all_values() -> None:
    space = {"model": ["softmax", "mlp"], "momentum": [0.0, 0.5]}
    choices = tuning._combinations(space)
    assert len(choices) == 4
    assert {tuning._name(choice) for choice in choices} == {
        tuning._name({"momentum": momentum, "model": model}) for model in space["model"] for momentum in (0.0, 0.5)
    }


@pytest.mark.slow
def test_a_cost_of_learning_beyond_its_share_is_taken_from_the_search(table: Path, tmp_path: Path) -> None:
    outcome = tune(
        settings(table, delta=1e-9), {"learning_rate": [0.5]}, tmp_path / "run", mean_runs=2.0, source=TestSource(5)
    )
    assert outcome.guarantee.epsilon <= EPSILON
    assert outcome.guarantee.delta == 1e-9


def test_the_command(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--target", "label", "--unit", "user", "--epsilon", "8", "--num-steps", "4", "--runs", "1.5"]
    search = ["--search", "learning-rate=0.5,2", "--search", "model=softmax,mlp"]
    status = main(["tune", str(table), *flags, *search, "--output", str(tmp_path / "run"), "--json", "--quiet"])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    assert printed.err == ""
    last = json.loads(printed.out.splitlines()[-1])
    assert set(last) == {"accuracy", "epsilon", "delta", "noise_multiplier", "run"}
    assert last["epsilon"] <= EPSILON


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--search", "learning-rate"], "--search "),
        (["--search", "learning-rate=a,b"], "--search "),
        (["--search", "colour=1,2"], "--search "),
        (["--runs", "0"], "mean "),
        (["--holdout", "0"], "--holdout "),
        (["--device", "nowhere"], "--device "),
    ],
)
def test_mistakes_are_refused_in_one_line(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    arguments = [
        "--target",
        "label",
        "--epsilon",
        "1",
        "--num-steps",
        "2",
        "--output",
        str(tmp_path / "run"),
        "--quiet",
    ]
    assert main(["tune", str(table), *arguments, *flags]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert len(printed.err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_search_never_overwrites_a_run(table: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "letter").write_text("mine")
    with pytest.raises(InvalidArgument, match="output="):
        tune(settings(table), {}, tmp_path / "run")
    assert (tmp_path / "run" / "letter").read_text() == "mine"
