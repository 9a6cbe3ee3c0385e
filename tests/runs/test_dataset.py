"""The dataset of a run: what is learned and at what cost, what is held out, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hush.accounting import PldAccountant
from hush.cli import main
from hush.data import Category, Numeric, OpenQuestions, Schema
from hush.errors import InvalidArgument
from hush.runs import Settings
from hush.runs.dataset import assumptions_of, group_values, plan_for, read_dataset
from hush.runs.draft import learning_noise
from hush.runs.progress import Silence
from runs import files

COLUMNS = {name: Numeric(lower=-3, upper=3) for name in "ab"}
DECLARED = Schema(columns=COLUMNS, classes=("0", "1"))


class Lines(Silence):
    """Keeps the lines that a run says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def read(path: Path, progress: Silence | None = None, **settings: Any) -> Any:
    values = {"data": str(path), "epsilon": 3.0, "target": "y", **settings}
    return read_dataset(Settings(**values), bytes(32), 1e-5, progress or Silence())


def test_nothing_is_learned_if_all_is_declared(tmp_path: Path) -> None:
    lines = Lines()
    data = read(files.write_csv(tmp_path / "t.csv"), lines, schema=DECLARED, holdout=0.25)
    assert data.event is None
    assert lines.lines == []
    assert len(data.train) + len(data.test) == 400
    # Binomial(400, 1/4): 100 +- 8.7, so 4 deviations of a fixed key.
    assert 65 < len(data.test) < 135


def test_learning_stays_within_its_share(tmp_path: Path) -> None:
    lines = Lines()
    data = read(files.write_csv(tmp_path / "t.csv", 1500), lines, learn_share=0.2, task="classification")
    assert "may not be found" in lines.lines[0]  # a class that few have
    assert lines.lines[-1].startswith("Not declared, so learned privately with 20% of the budget: bounds of column 'a'")
    assert 0.5 < PldAccountant().compose(data.event).epsilon(1e-5) <= 0.6 * 1.05  # and rare values, at delta 1e-9


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 2.0])
def test_the_noise_of_learning(epsilon: float) -> None:
    noise = learning_noise(epsilon, 1e-5)
    event = noise.bounds_event()
    assert 0.99 * epsilon < PldAccountant().compose(event).epsilon(1e-5) <= epsilon
    assert noise.delta == pytest.approx(1e-9)


def test_without_a_share_nothing_can_be_learned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="trains")
    source = files.write_csv(tmp_path / "t.csv")
    command = ["train", str(source), "--target", "y", *files.CLASSES, *files.BOUNDS, "--epsilon", "5"]
    assert main([*command, "--learn-share", "0", "--quiet"]) == 2
    assert "--classes A,B" in capsys.readouterr().err
    assert "bounds of the target" not in files.refused(
        capsys, source, "--target", "y", "--task", "regression", *files.BOUNDS, "--epsilon", 5, "--learn-share", 0
    )


def test_long_lists_are_cut(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(9)]
    source = files.write_rows(tmp_path / "t.csv", ",".join([*names, "y"]), [",".join(["1"] * 10)])
    with pytest.raises(InvalidArgument, match="and 4 more"):  # nine columns and the target
        read(source, learn_share=0.0, task="regression")


def write_groups(path: Path) -> Path:
    x, y = files.numbers()
    rows = zip(x.tolist(), y.tolist(), strict=True)
    lines = [f"{a},{b},{'fm'[number % 2]},{label}" for number, ((a, b), label) in enumerate(rows)]
    return files.write_rows(path, "a,b,sex,y", lines)


def test_groups_that_are_not_declared_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="trains")
    source = write_groups(tmp_path / "t.csv")
    command = (source, "--target", "y", *files.DECLARED, "--epsilon", 3, "--output", tmp_path / "run", "--group", "sex")
    assert main(["train", *map(str, command)]) == 2
    assert "before anything is spent" in (message := capsys.readouterr().err)
    assert "--category sex=A,B" in message
    assert not (tmp_path / "run").exists()
    files.train(capsys, *command, "--category", "sex=f,m")


def test_groups_are_refused_before_a_budget_is_charged(tmp_path: Path) -> None:
    """Bounds are learned here: the refusal came after that had been charged."""
    settings = Settings(data=str(write_groups(tmp_path / "t.csv")), target="y", epsilon=3.0, groups=("sex",))
    charged: list[object] = []
    with pytest.raises(OpenQuestions, match="--category sex=A,B"):
        read_dataset(
            settings.replace(task="classification"), bytes(32), 1e-5, Silence(), before_learning=charged.append
        )
    assert charged == []


def test_declared_groups_need_no_assumption(tmp_path: Path) -> None:
    """hush.data warns that undeclared groups are shown by name; a run refuses those."""
    schema = Schema(columns={**COLUMNS, "sex": Category(values=("f", "m"))}, classes=("0", "1"))
    data = read(write_groups(tmp_path / "t.csv"), schema=schema, groups=("sex",))
    assert group_values(data) == {"sex": ("f", "m")}
    assert any("group" in sentence for sentence in data.assumptions)
    assert not any("group" in sentence for sentence in assumptions_of(data.outline))
    assert set(assumptions_of(data.outline)) < set(data.assumptions)


def test_a_column_named_like_a_group_keeps_its_assumption(tmp_path: Path) -> None:
    """What a column is called must not decide what guarantee.json states."""
    path = files.write_users(tmp_path / "u.csv")
    path.write_text(path.read_text().replace("who", "person_group", 1))
    data = read(path, schema=DECLARED, unit="person_group")
    assert data.group_assumption is None
    assert assumptions_of(data.outline) == data.assumptions
    assert any("'person_group' holds the privacy unit" in sentence for sentence in assumptions_of(data.outline))


def test_a_column_named_public_is_not_taken_as_public(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="hush.runs.outcome needs it")
    from hush.runs.outcome import _public

    path = files.write_users(tmp_path / "u.csv")
    path.write_text(path.read_text().replace("who", "public_id", 1))
    data = read(path, schema=DECLARED, unit="public_id")
    settings = Settings(data=str(path), epsilon=3.0, target="y", unit="public_id")
    sentences = _public(settings, plan_for(data.outline, settings, device="cpu"), data)
    assert sentences == list(data.public_facts)
    assert set(sentences) < set(data.assumptions)


def test_the_target_is_no_group(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="a column other than the target"):
        read(files.write_csv(tmp_path / "t.csv"), schema=DECLARED, groups=("y",))


def test_units_are_counted_once(tmp_path: Path) -> None:
    data = read(files.write_users(tmp_path / "u.csv"), schema=DECLARED, unit="who")
    assert data.outline.num_units + data.outline.num_held_out == 300
    assert data.train.units is not None
    assert len(data.train) > data.outline.num_units == len(set(data.train.units.tolist()))
    rows = read(files.write_csv(tmp_path / "t.csv"), schema=DECLARED)
    assert (rows.outline.num_units, rows.outline.num_held_out) == (len(rows.train), len(rows.test))
