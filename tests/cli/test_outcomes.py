"""What a finished run prints, and where it is written."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hush.cli.outcomes import output_folder, print_outcome
from hush.guarantee import Guarantee
from runs import files


def printed(
    capsys: pytest.CaptureFixture[str], path: Path, accuracy: float | None, *, quiet: bool = True, as_json: bool = False
) -> str:
    guarantee = Guarantee(epsilon=3.0, delta=1e-5)
    outcome: Any = SimpleNamespace(
        path=path, accuracy=accuracy, guarantee=guarantee, noise_multiplier=1.25, receipt=None
    )
    print_outcome(outcome, argparse.Namespace(quiet=quiet, json=as_json))
    return capsys.readouterr().out


def test_the_result_for_people(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lines = printed(capsys, tmp_path, 0.9321).splitlines()
    assert lines[0] == "Held-out accuracy: 93.2%"
    assert lines[1].startswith("epsilon <= 3")
    assert lines[2] == f"Written to {tmp_path}: open {tmp_path / 'report.html'}"
    assert "membership attack" in printed(capsys, tmp_path, 0.9, quiet=False)


def test_an_accuracy_that_is_withheld(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "Held-out" not in printed(capsys, tmp_path, None)  # nothing was held out
    (tmp_path / "figures.json").write_text("{}")
    sentence = "Held-out accuracy: withheld. Too few held-out examples per class to measure through the noise."
    assert printed(capsys, tmp_path, None).splitlines()[0] == sentence


@pytest.mark.parametrize("root", [None, 26.33])
def test_an_error_says_what_targets_it_is_of(
    root: float | None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Errors are measured on clamped targets. An error that does not say so would look smaller than the model's."""
    error = {"value": 23.953797648762936, "low": 22.38, "high": 25.53, "root_mean_square": root, "baseline": 26.6}
    (tmp_path / "figures.json").write_text(json.dumps({"error": {**error, "clamped_to": [4.0, 75.4]}}))
    (line,) = (line for line in printed(capsys, tmp_path, None).splitlines() if line.startswith("Held-out"))
    assert line.startswith("Held-out mean absolute error: 23.95 (22.38 to 25.53), of targets clamped to [4, 75.4]; ")
    assert line.endswith("; the clamped targets' standard deviation: 26.6")
    (tmp_path / "figures.json").write_text(json.dumps({"error": error}))  # of an earlier version
    assert "Held-out mean absolute error: 23.95 (22.38 to 25.53); " in printed(capsys, tmp_path, None)


def test_files_that_must_not_be_shared_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A copied folder published exact quantiles of losses and gradients, and nothing had warned of it."""
    for name in ("report.html", "not-private.jsonl", "model.json", "report-publishable.html"):
        (tmp_path / name).write_text("{}")
    line = "The guarantee covers all files there but not-private.jsonl and report.html: do not share those."
    for quiet in (False, True):
        assert line in printed(capsys, tmp_path, 0.9, quiet=quiet).splitlines()


def test_the_error_of_numbers_for_scripts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    error = {"value": 2.5, "low": 2.0, "high": 3.0, "root_mean_square": 4.0, "baseline": 5.0, "confidence": 0.95}
    (tmp_path / "figures.json").write_text(json.dumps({"error": error}))
    content = json.loads(printed(capsys, tmp_path, None, as_json=True))
    assert (content["accuracy"], content["error"]) == (None, error)


def test_the_result_for_scripts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert json.loads(printed(capsys, tmp_path, None, as_json=True)) == {
        "accuracy": None,
        "epsilon": 3.0,
        "delta": 1e-5,
        "noise_multiplier": 1.25,
        "run": str(tmp_path),
    }


def test_folders_are_named_after_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert output_folder("mine", "people.csv") == Path("mine")
    assert output_folder(None, "data/people.2024.csv") == Path("runs/people-1")
    Path("runs/people-1").mkdir(parents=True)
    assert output_folder(None, "people.csv") == Path("runs/people-2")
    assert output_folder(None, ".") == Path("runs/run-1")


def test_numbers_count_up(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="trains")
    source = files.write_csv(tmp_path / "people.2024.csv")
    monkeypatch.chdir(tmp_path)
    command = (source, "--target", "y", *files.DECLARED, "--epsilon", 3)
    assert [files.train(capsys, *command)["run"] for _ in range(2)] == ["runs/people-1", "runs/people-2"]
    files.refused(capsys, *command, "--model", "cnn")  # a refused run leaves nothing
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["people-1", "people-2"]
