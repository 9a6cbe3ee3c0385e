"""What a finished run and its messages may depend on: public numbers, and what was paid for."""

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


class Lines:
    """Keeps what a run says."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)

    def show(self, stage: str, done: int, total: int, note: str = "") -> None:
        self.said.append(stage)


COLUMNS = {name: data.Numeric(lower=-3, upper=3) for name in "ab"}
SCHEMA = data.Schema(columns=COLUMNS, target="y", classes=("0", "1"))


def trained(source: Path, run: Path, schema: data.Schema | None = SCHEMA, **more: object) -> list[str]:
    """Do a run in which all coins and all noise are the same each time; return what it said."""
    lines = Lines()
    settings = runs.Settings(data=str(source), epsilon=6.0, target="y", schema=schema, num_steps=3, **more)  # type: ignore[arg-type]
    runs.train(settings, run, progress=lines, source=TestSource("leaks"))
    return lines.said


def test_values_change_only_what_has_noise(tmp_path: Path) -> None:
    """Other values in every row, and everything that has no noise stays the same to the last byte."""
    told = []
    for place, sign in (("one", 1), ("two", -1)):
        (tmp_path / place).mkdir()
        x, y = files.numbers()
        lines = [f"{sign * a},{b / 2},{label}" for (a, b), label in zip(x.tolist(), y.tolist(), strict=True)]
        files.write_rows(tmp_path / place / "t.csv", "a,b,y", lines)
        told.append(trained(tmp_path / place / "t.csv", tmp_path / place / "run"))
    one, two = (files.listing(tmp_path / place / "run") for place in ("one", "two"))
    assert told[0] == told[1]
    assert one.keys() == two.keys() == files.FILES | {"schema.json"}
    same = {name for name in one if one[name] == two[name]}
    assert {"guarantee.json", "model.json"} <= same
    assert "model.safetensors" not in same
    assert one["run.json"].replace(b"/one/", b"/two/") == two["run.json"]
    assert len(one["model.safetensors"]) == len(two["model.safetensors"])


HOSTILE = [
    "nan,0.5,1", "inf,-inf,0", "1e308,-1e308,1", "abc,0.1,1", ",,1", "1e-320,0,0", '"0.5",0.5,1', "0.5;0.5;1",
    "0.5,0.5,", "0.5,0.5,2", "0.5,0.5,1,7,8", "", "\ufeff,\u202e,1", "0.5,0.5,\x00", '0.5,"0.5,1', "NULL,None,NA",
]  # fmt: skip


def check_hostile(records: list[str], schema: data.Schema | None, place: Path) -> None:
    """Records of any content raise nothing, warn of nothing and appear nowhere."""
    x, y = files.numbers(1200)
    lines = [f"{a},{b},{label}" for (a, b), label in zip(x.tolist(), y.tolist(), strict=True)]
    source = files.write_rows(place / "t.csv", "a,b,y", [*lines[:600], *records, *lines[600:]])
    said = "\n".join(trained(source, place / "run", schema))
    assert {each.name for each in (place / "run").iterdir()} - {"schema.json"} == files.FILES
    assert not any(record in said for record in records if record)
    assert np.isfinite(runs.load(place / "run").probabilities(source)).all()


@pytest.mark.parametrize("schema", [SCHEMA, None], ids=["declared", "learned"])
def test_hostile_records_end_no_run(schema: data.Schema | None, tmp_path: Path) -> None:
    check_hostile(HOSTILE, schema, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("record", HOSTILE)
@pytest.mark.parametrize("schema", [SCHEMA, None], ids=["declared", "learned"])
def test_one_record_ends_no_run(record: str, schema: data.Schema | None, tmp_path: Path) -> None:
    check_hostile([record], schema, tmp_path)


def test_what_one_person_has_appears_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A class, a category, a group, a name of a unit and words that only one person has."""
    x, y = files.numbers(1500)
    rest = [f"u{n},{'fm'[n % 2]},{a},{b},{label},ordinary words" for n, ((a, b), label) in
            enumerate(zip(x.tolist(), y.tolist(), strict=True))]  # fmt: skip
    odd = [f"zebra-unit,zebra-sex,0.5,0.5,{label},zebra words" for label in ("zebra-class", "1")]
    source = files.write_rows(tmp_path / "t.csv", "who,sex,a,b,y,note", [*rest, *odd])
    (tmp_path / "words.txt").write_text("ordinary\nwords\n")
    flags = ("--target", "y", "--unit", "who", "--vocabulary", f"note={tmp_path / 'words.txt'}", "--epsilon", 8)
    run = tmp_path / "run"
    capsys.readouterr()
    command = ["train", source, *flags, "--category", "sex", "--group", "sex", "--output", run, "--steps", "3"]
    assert main([str(word) for word in command]) == 0
    printed = capsys.readouterr()
    assert "zebra" not in printed.out + printed.err
    for name, content in files.listing(run).items():
        assert b"zebra" not in content, name
    assert runs.load(run).classes == ("0", "1")


def test_groups_that_nobody_declared_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = files.numbers()
    lines = [f"{a},{b},{'fm'[n % 2]},{label}" for n, ((a, b), label) in enumerate(zip(x.tolist(), y, strict=True))]
    source = files.write_rows(tmp_path / "t.csv", "a,b,sex,y", lines)
    command = (source, "--target", "y", *files.DECLARED, "--epsilon", 3, "--output", tmp_path / "run", "--group", "sex")
    told = files.refused(capsys, *command)
    assert "--category sex=" in told
    assert not (tmp_path / "run").exists()
    files.train(capsys, *command, "--category", "sex=f,m")


def test_numbers_of_people_are_stated_as_public(tmp_path: Path) -> None:
    source = files.write_csv(tmp_path / "t.csv")
    trained(source, tmp_path / "run")
    stated = runs.load(tmp_path / "run").guarantee.assumptions
    assert any("how many rows and units are trained on, and how many are held out" in each for each in stated)
    assert "test randomness" in stated


@pytest.mark.parametrize(
    "more", [{"batch_size": 10**6}, {"model": "cnn"}, {"delta": 0.5}, {"train_only": ("q",)}], ids=str
)
def test_refusals_say_nothing_of_a_record(more: dict[str, object], tmp_path: Path) -> None:
    """The same refusal, word by word, whatever one record holds."""
    x, y = files.numbers()
    lines = [f"{a},{b},{label}" for (a, b), label in zip(x.tolist(), y.tolist(), strict=True)]
    told = set()
    for record in ("0.5,0.5,1", "nan,nan,", "9e99,x,0", "0.5,0.5,rare"):
        source = files.write_rows(tmp_path / "t.csv", "a,b,y", [*lines, record])
        with pytest.raises(HushError) as caught:
            trained(source, tmp_path / "run", **more)
        told.add(str(caught.value))
    assert len(told) == 1


def test_too_few_outputs_are_found_before_the_data_show_it(
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
        own = ("--target", "y", *files.DECLARED, "--epsilon", 3, "--model", f"narrow_of_a_test:{name}")
        assert "model='narrow_of_a_test" in files.refused(capsys, source, *own)


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
def test_a_model_that_remembers_does_not_tell_of_those_held_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, averaging: list[str]
) -> None:
    from safetensors.torch import load_file

    (tmp_path / "remembering_model.py").write_text(REMEMBERING)
    monkeypatch.chdir(tmp_path)
    source = files.write_csv(tmp_path / "t.csv")
    flags = [*files.DECLARED, "--model", "remembering_model:remembering", "--output", "run", *files.SHORT, *averaging]
    assert main(["train", str(source), "--target", "y", "--epsilon", "5", *flags]) == 0
    assert load_file("run/model.safetensors")["0.seen"].tolist() == [0, 0]


def test_extra_state_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    (tmp_path / "extra_model.py").write_text(REMEMBERING)
    monkeypatch.chdir(tmp_path)
    source = files.write_csv(tmp_path / "t.csv")
    flags = [*files.DECLARED, "--model", "extra_model:extra", "--output", "run", *files.SHORT]
    assert main(["train", str(source), "--target", "y", "--epsilon", "5", *flags]) == 2
    assert "extra state" in capsys.readouterr().err
