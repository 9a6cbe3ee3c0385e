"""Leaks: a finished run and its messages depend on public numbers and on what was paid for, and on nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hush import data, runs
from hush.cli import main
from hush.errors import HushError
from hush.randomness import TestSource
from runs import files

pytest.importorskip("torch", reason="trains")


class Lines:
    """Keeps the lines that a run says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def show(self, stage: str, done: int, total: int, note: str = "") -> None:
        self.lines.append(stage)


COLUMNS = {name: data.Numeric(lower=-3, upper=3) for name in "ab"}
SCHEMA = data.Schema(columns=COLUMNS, target="y", classes=("0", "1"))


def trained(source: Path, run: Path, schema: data.Schema | None = SCHEMA, **more: object) -> list[str]:
    """Do a run with the same coins and the same noise each time; return the lines that it said."""
    progress = Lines()
    values = {"target": "y", "task": "classification", "schema": schema, "num_steps": 3, **more}
    settings = runs.Settings(data=str(source), epsilon=6.0, **values)  # type: ignore[arg-type]
    runs.train(settings, run, progress=progress, source=TestSource("leaks"))
    return progress.lines


def test_values_change_only_what_has_noise(tmp_path: Path) -> None:
    """Other values in every row, and everything that has no noise stays the same to the last byte."""
    lines_of_runs = []
    for name, sign in (("one", 1), ("two", -1)):
        (tmp_path / name).mkdir()
        x, y = files.numbers()
        lines = [f"{sign * a},{b / 2},{label}" for (a, b), label in zip(x.tolist(), y.tolist(), strict=True)]
        files.write_rows(tmp_path / name / "t.csv", "a,b,y", lines)
        lines_of_runs.append(trained(tmp_path / name / "t.csv", tmp_path / name / "run"))
    one, two = (files.listing(tmp_path / name / "run") for name in ("one", "two"))
    assert lines_of_runs[0] == lines_of_runs[1]
    assert one.keys() == two.keys() == files.FILES | {"schema.json"}
    same = {name for name in one if one[name] == two[name]}
    assert {"guarantee.json", "model.json"} <= same
    assert "model.safetensors" not in same
    assert one["run.json"].replace(b"/one/", b"/two/") == two["run.json"]
    assert len(one["model.safetensors"]) == len(two["model.safetensors"])


HOSTILE = [
    "nan,0.5,1", "inf,-inf,0", "1e308,-1e308,1", "abc,0.1,1", ",,1", "1e-320,0,0", '"0.5",0.5,1', "0.5;0.5;1",
    "0.5,0.5,", "0.5,0.5,2", "0.5,0.5,1,7,8", "", "\ufeff,\u202e,1", "0.5,0.5,\x00", '"0.5\n0.5",0.5,1', "NULL,None,NA",
]  # fmt: skip


def check_hostile(records: list[str], schema: data.Schema | None, folder: Path) -> None:
    """Check that records raise nothing, warn of nothing and appear nowhere, whatever they hold."""
    x, y = files.numbers(1200)
    lines = [f"{a},{b},{label}" for (a, b), label in zip(x.tolist(), y.tolist(), strict=True)]
    source = files.write_rows(folder / "t.csv", "a,b,y", [*lines[:600], *records, *lines[600:]])
    text = "\n".join(trained(source, folder / "run", schema))
    assert files.names(folder / "run") == files.FILES
    assert not any(record in text for record in records if record)
    assert np.isfinite(runs.load(folder / "run").probabilities(source)).all()


@pytest.mark.parametrize("schema", [SCHEMA, None], ids=["declared", "learned"])
def test_hostile_records_end_no_run(schema: data.Schema | None, tmp_path: Path) -> None:
    check_hostile(HOSTILE, schema, tmp_path)


def test_a_run_on_records_that_cannot_be_told_apart_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A quote that is not closed takes all other records with it. The refusal quotes none of them."""
    x, y = files.numbers()
    lines = [f"{a},{b},{label}" for (a, b), label in zip(x.tolist(), y.tolist(), strict=True)]
    source = files.write_rows(tmp_path / "t.csv", "a,b,y", [*lines[:200], '0.5,"0.5,1', *lines[200:]])
    message = files.refused(capsys, source, "--target", "y", "--epsilon", 3, "--output", tmp_path / "run")
    assert "cannot be told apart" in message
    assert "0.5" not in message
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("record", HOSTILE)
@pytest.mark.parametrize("schema", [SCHEMA, None], ids=["declared", "learned"])
def test_one_record_ends_no_run(record: str, schema: data.Schema | None, tmp_path: Path) -> None:
    check_hostile([record], schema, tmp_path)


def test_values_of_a_single_person_appear_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A class, a category, a group, a name of a unit and words that only one person has."""
    x, y = files.numbers(1500)
    rest = [f"u{n},{'fm'[n % 2]},{a},{b},{label},ordinary words" for n, ((a, b), label) in
            enumerate(zip(x.tolist(), y.tolist(), strict=True))]  # fmt: skip
    odd = [f"zebra-unit,zebra-sex,0.5,0.5,{label},zebra words" for label in ("zebra-class", "1")]
    source = files.write_rows(tmp_path / "t.csv", "who,sex,a,b,y,note", [*rest, *odd])
    (tmp_path / "words.txt").write_text("ordinary\nwords\n")
    flags = (
        "--target",
        "y",
        *files.CLASSES,
        "--unit",
        "who",
        "--vocabulary",
        f"note={tmp_path / 'words.txt'}",
        "--epsilon",
        8,
    )
    run = tmp_path / "run"
    capsys.readouterr()
    command = ["train", source, *flags, "--category", "sex", "--group", "sex", "--output", run, "--num-steps", "3"]
    assert main([str(word) for word in command]) == 0
    printed = capsys.readouterr()
    assert "zebra" not in printed.out + printed.err
    for name, content in files.listing(run).items():
        assert b"zebra" not in content, name
    assert runs.load(run).classes == ("0", "1")


def test_the_number_of_units_is_stated_as_public(tmp_path: Path) -> None:
    source = files.write_csv(tmp_path / "t.csv")
    trained(source, tmp_path / "run")
    assumptions = runs.load(tmp_path / "run").guarantee.assumptions
    assert "how many rows and units are trained on, and how many are held out, is public" in assumptions
    assert "test randomness" in assumptions


@pytest.mark.parametrize(
    "more", [{"batch_size": 10**6}, {"model": "cnn"}, {"delta": 0.5}, {"train_only": ("q",)}], ids=str
)
def test_refusals_say_nothing_about_a_record(more: dict[str, object], tmp_path: Path) -> None:
    """The refusal is the same, word for word, whatever one record holds."""
    x, y = files.numbers()
    lines = [f"{a},{b},{label}" for (a, b), label in zip(x.tolist(), y.tolist(), strict=True)]
    messages = set()
    for record in ("0.5,0.5,1", "nan,nan,", "9e99,x,0", "0.5,0.5,rare"):
        source = files.write_rows(tmp_path / "t.csv", "a,b,y", [*lines, record])
        with pytest.raises(HushError) as caught:
            trained(source, tmp_path / "run", **more)
        messages.add(str(caught.value))
    assert len(messages) == 1


def test_too_few_outputs_are_refused_before_the_data_are_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model with one output for two classes would stop at the first person of the second class."""
    source = files.write_csv(tmp_path / "t.csv")
    (tmp_path / "narrow_of_a_test.py").write_text(
        "from torch import nn\n"
        "def one(shape, num_classes): return nn.Linear(shape[0], 1)\n"
        "def other(shape, num_classes): return nn.Linear(5, num_classes)\n"
        "def none(shape, num_classes): return None\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path), *__import__("sys").path])
    for name in ("one", "other", "none"):
        flags = ("--target", "y", *files.DECLARED, "--epsilon", 3, "--model", f"narrow_of_a_test:{name}")
        assert "--model narrow_of_a_test" in files.refused(capsys, source, *flags)


REMEMBERING = """
import torch
from torch import nn


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(2))

    def forward(self, x):
        if not self.training:
            self.seen.copy_(torch.maximum(self.seen, x.detach().abs().amax(0)))
        return x


class Extra(nn.Module):
    def get_extra_state(self):
        return torch.zeros(1)

    def set_extra_state(self, state):
        pass

    def forward(self, x):
        return x


def remembering(shape, classes):
    return nn.Sequential(Memory(), nn.Linear(shape[0], classes))


def extra(shape, classes):
    return nn.Sequential(Extra(), nn.Linear(shape[0], classes))
"""


@pytest.mark.parametrize("averaging", [[], ["--no-averaging"]])
def test_a_model_that_remembers_never_sees_held_out_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, averaging: list[str]
) -> None:
    from safetensors.torch import load_file

    (tmp_path / "remembering_model.py").write_text(REMEMBERING)
    monkeypatch.chdir(tmp_path)
    source = files.write_csv(tmp_path / "t.csv")
    flags = [*files.DECLARED, "--model", "remembering_model:remembering", "--output", "run", *files.SHORT, *averaging]
    assert main(["train", str(source), "--target", "y", *files.CLASSES, "--epsilon", "5", *flags]) == 0
    assert load_file("run/model.safetensors")["0.seen"].tolist() == [0, 0]


def test_extra_state_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    (tmp_path / "extra_model.py").write_text(REMEMBERING)
    monkeypatch.chdir(tmp_path)
    source = files.write_csv(tmp_path / "t.csv")
    flags = [*files.DECLARED, "--model", "extra_model:extra", "--output", "run", *files.SHORT]
    assert main(["train", str(source), "--target", "y", *files.CLASSES, "--epsilon", "5", *flags]) == 2
    assert "extra state" in capsys.readouterr().err
