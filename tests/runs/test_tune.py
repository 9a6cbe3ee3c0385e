"""`hush tune`: the best of a secret number of runs, within the budget of everything together."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hush.accounting import PldAccountant
from hush.cli import main
from hush.errors import InvalidArgument
from hush.randomness import TestSource
from hush.runs import Settings, load, tune

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


def test_the_whole_search_stays_within_epsilon(table: Path, tmp_path: Path) -> None:
    asked = settings(table)
    found = tune(asked, {"learning_rate": [0.5, 5.0]}, tmp_path / "run", mean_runs=2.0, source=TestSource(3))
    assert found.guarantee.epsilon <= EPSILON
    assert found.guarantee.delta == 1e-5
    assert "test randomness" in found.guarantee.assumptions
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"model.safetensors", "model.json", "guarantee.json", "figures.json", "report.html", "run.json"} <= names
    assert not [name for name in names if "secret" in name]
    assert set(load(tmp_path / "run").predict(table)) <= {"0", "1"}


def test_what_is_learned_and_the_figures_are_part_of_it(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parts, recomputed from their events, add up to no more than what is stated."""
    from hush.runs import tuning

    seen = {}
    together = tuning._together

    def spy(best, budget, plan, delta, spared):  # type: ignore[no-untyped-def]
        seen.update(best=best, budget=budget, delta=delta, spared=spared, unit=plan.unit)
        return together(best, budget, plan, delta, spared)

    monkeypatch.setattr(tuning, "_together", spy)
    found = tune(settings(table), {"learning_rate": [0.5]}, tmp_path / "run", mean_runs=2.0, source=TestSource(4))
    best, budget, spared = seen["best"], seen["budget"], seen["spared"]
    assert budget.learned is not None
    assert budget.figures is not None
    assert best.guarantee.delta + seen["delta"] * spared <= found.guarantee.delta * (1 + 1e-12)
    for part in (budget.learned, budget.figures):
        cost = PldAccountant(unit=seen["unit"]).compose(part).epsilon(seen["delta"] * spared)
        assert best.guarantee.epsilon + cost <= found.guarantee.epsilon * (1 + 1e-9)


def test_a_cost_of_learning_beyond_its_share_is_taken_from_the_search(table: Path, tmp_path: Path) -> None:
    asked = settings(table, delta=1e-9)
    found = tune(asked, {"learning_rate": [0.5]}, tmp_path / "run", mean_runs=2.0, source=TestSource(5))
    assert found.guarantee.epsilon <= EPSILON
    assert found.guarantee.delta == 1e-9


def test_the_command(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--target", "label", "--unit", "user", "--epsilon", "8", "--steps", "4", "--runs", "1.5"]
    search = ["--search", "learning-rate=0.5,2", "--search", "model=softmax,mlp"]
    status = main(["tune", str(table), *flags, *search, "--output", str(tmp_path / "run"), "--json", "--quiet"])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    assert printed.err == ""
    last = json.loads(printed.out.splitlines()[-1])
    assert set(last) == {"accuracy", "epsilon", "delta", "noise_multiplier", "run"}
    assert last["epsilon"] <= EPSILON


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--search", "learning-rate"], "search="),
        (["--search", "learning-rate=a,b"], "search="),
        (["--search", "colour=1,2"], "search="),
        (["--runs", "0"], "mean="),
        (["--holdout", "0"], "holdout="),
        (["--device", "nowhere"], "device="),
    ],
)
def test_mistakes_are_told_in_one_line(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], said: str
) -> None:
    fixed = ["--target", "label", "--epsilon", "1", "--steps", "2", "--output", str(tmp_path / "run"), "--quiet"]
    assert main(["tune", str(table), *fixed, *flags]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert len(printed.err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_search_never_writes_over_a_run(table: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").write_text("kept")
    with pytest.raises(InvalidArgument, match="output="):
        tune(settings(table), {}, tmp_path / "run")
    assert (tmp_path / "run" / "mine").read_text() == "kept"
