"""Fifteen tables as people have them: which run as they are, and which with the command that one message names."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from hush.cli import main
from runs.tables import TABLES, write_table

# What has to be settled, in words of the message; nothing where the plain command works.
ASKED: dict[str, tuple[str, ...]] = {
    "flights": ("--task regression",),
    "penguins": ("--classes A,B",),
    "adult": (),
    "patients": ("--unit patient_id", "--task classification"),
    "wine": ("--task regression",),
    "reviews": ("--ignore review_id",),
    "sales": ("--ignore column1", "--task regression"),
    "sensors": (),
    "customers": ("--unit customer",),
    "letters": (),
    "tickets": (),
    "titanic": ("--unit PassengerId", "--ignore Name", "--task classification"),
    "houses": ("--task regression",),
    "survey": ("--classes A,B",),
    "german": (),
}
CLASSES = {"penguins": "Adelie,Chinstrap,Gentoo", "survey": "yes,no"}
QUICK = ("patients", "sensors", "tickets")


def questions(capsys: pytest.CaptureFixture[str], words: list[str]) -> tuple[str, list[str]]:
    """Run a command that asks; return its message, and the command that it names."""
    capsys.readouterr()
    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    settled = re.search(r"This command settles (?:it|them): hush (.*)\n$", printed.err)
    assert settled is not None
    return printed.err, shlex.split(settled[1])


def run_table(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run `hush train` on a table, with the command that a first message names where there is one."""
    pytest.importorskip("torch", reason="trains")
    file, target = write_table(name, folder)
    words = ["train", str(file), "--target", target, "--epsilon", "3", "--output", str(folder / "run")]
    if ASKED[name]:
        message, words = questions(capsys, words)
        assert all(answer in message for answer in ASKED[name])
        assert message.count("\n  - ") == len(ASKED[name])  # no more than these
        assert not (folder / "run").exists()
        words = [CLASSES[name] if word == "A,B" else word for word in words]
    assert main([*words, "--num-steps", "3"]) == 0
    assert (folder / "run" / "report.html").exists()
    return capsys.readouterr().err


@pytest.mark.parametrize("name", QUICK)
def test_a_table_runs_at_the_second_attempt(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], fixed_key: None
) -> None:
    run_table(name, tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TABLES if name not in QUICK])
def test_every_table_runs_at_the_second_attempt(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], fixed_key: None
) -> None:
    run_table(name, tmp_path, capsys)


def test_typos_are_refused_with_the_closest_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt --ignore once trained on the ids of patients, and printed their range."""
    pytest.importorskip("torch", reason="the command needs it")
    file, _ = write_table("patients", tmp_path)
    words = ["train", str(file), "--target", "readmited", "--epsilon", "3", "--ignore", "patientid"]
    words += ["--bounds", "sistolic=80:200", "--group", "zzz", "--unit", "row"]
    message, command = questions(capsys, words)
    assert "'patientid', which is no column: did you mean 'patient_id'?" in message
    assert command[2:] == [
        *("--target", "readmitted", "--epsilon", "3", "--ignore", "patient_id"),
        *("--bounds", "systolic=80:200", "--unit", "row", "--task", "classification"),
    ]
    assert main([*command, "--num-steps", "2", "--output", str(tmp_path / "run")]) == 0


def test_warnings_stand_before_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], fixed_key: None) -> None:
    pytest.importorskip("torch", reason="trains")
    file, target = write_table("survey", tmp_path)
    words = ["train", str(file), "--target", target, "--epsilon", "12", "--classes", "yes,no", "--num-steps", "2"]
    assert main([*words, "--output", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().err
    start = printed.index("Training softmax")
    for warning in ("fewer than 1,000 units", "--unit COLUMN", "held-out units", "epsilon"):
        assert 0 <= printed.index(warning, printed.index("Note: ")) < start
