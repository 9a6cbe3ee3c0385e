"""`hush train`: what it prints, where, and what it refuses in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.terminals import Terminal
from hush.cli import main
from runs import files

pytest.importorskip("torch", reason="trains")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fixed_key: None) -> Path:
    """A small file. Noise could hide its classes or the accuracy; with a fixed key, chance has no part."""
    monkeypatch.chdir(tmp_path)  # runs without a name go there
    return files.write_csv(tmp_path / "t.csv")


def test_one_object_in_the_last_line(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", str(source), "--target", "y", *files.DECLARED, "--epsilon", "3", "--num-steps", "5"]
    assert main([*command, "--output", str(tmp_path / "run"), "--json"]) == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out.splitlines()[-1])
    assert set(result) == {"accuracy", "epsilon", "delta", "noise_multiplier", "run"}
    assert 0 <= result["accuracy"] <= 1
    assert 0 < result["epsilon"] <= 3
    assert result["delta"] == 1e-5
    assert result["noise_multiplier"] > 0
    assert result["run"] == str(tmp_path / "run")
    assert "training" in printed.err  # scripts read standard output only
    assert "\r" not in printed.err  # no bar without a terminal


def test_for_a_person(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", str(source), "--target", "y", *files.CLASSES, "--epsilon", "9", "--num-steps", "3"]
    assert main([*command, "--output", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr()
    assert "Held-out accuracy: " in printed.out
    assert printed.out.count("\n") <= 20
    assert "epsilon <= 9" in printed.out
    assert str(tmp_path / "run/report.html") in printed.out
    assert "Not declared, so learned privately with 10% of the budget" in printed.err
    assert "bounds of column 'a'" in printed.err


def test_quiet(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", str(source), "--target", "y", *files.CLASSES, "--epsilon", "9", "--num-steps", "3", "--quiet"]
    assert main([*command, "--output", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().err == ""


Refusal = tuple[tuple[object, ...], str]
REFUSED: dict[str, Refusal] = {
    "no data": ((), "DATA: expected"),
    "epsilon of 0": (("t.csv", "--target", "y", "--epsilon", 0), "epsilon 0"),
    "epsilon below 0": (("t.csv", "--target", "y", "--epsilon", -1), "epsilon -1"),
    "epsilon is no number": (("t.csv", "--target", "y", "--epsilon", "nan"), "epsilon nan"),
    "epsilon without end": (("t.csv", "--target", "y", "--epsilon", "inf"), "epsilon inf"),
    "delta of 0": (("t.csv", "--target", "y", "--epsilon", 3, "--delta", 0), "delta 0"),
    "delta too large": (("t.csv", "--target", "y", "--epsilon", 3, *files.DECLARED, "--delta", 0.1), "delta 0.1"),
    "delta is no number": (("t.csv", "--target", "y", "--epsilon", 3, "--delta", "nan"), "delta nan"),
    "one class": (("t.csv", "--target", "y", "--epsilon", 3, "--classes", "1"), "at least two classes"),
    "no class stands out": (("one.csv", "--target", "y", *files.CLASSES, "--epsilon", 3), "at least two classes"),
    "a batch too large": (
        ("t.csv", "--target", "y", "--epsilon", 3, *files.DECLARED, "--batch-size", 401), "--batch-size 401",
    ),
    "no batch": (("t.csv", "--target", "y", "--epsilon", 3, "--batch-size", 0), "--batch-size 0"),
    "no steps": (("t.csv", "--target", "y", "--epsilon", 3, "--num-steps", 0), "--num-steps 0"),
    "steps and epochs": (("t.csv", "--target", "y", "--epsilon", 3, "--num-steps", 5, "--epochs", 2), "epochs 2"),
    "learning rate is no number": (
        ("t.csv", "--target", "y", "--epsilon", 3, "--learning-rate", "nan"), "--learning-rate nan",
    ),
    "momentum is no number": (("t.csv", "--target", "y", "--epsilon", 3, "--momentum", "nan"), "momentum nan"),
    "all held out": (("t.csv", "--target", "y", "--epsilon", 3, "--holdout", 1), "holdout 1"),
    "unknown model": (("t.csv", "--target", "y", "--epsilon", 3, "--model", "forest"), "softmax, mlp, cnn, scattering"),
    "no such factory": (
        ("t.csv", "--target", "y", "--epsilon", 3, *files.DECLARED, "--model", "json:no"), "model json:no",
    ),
    "no such module": (
        ("t.csv", "--target", "y", "--epsilon", 3, *files.DECLARED, "--model", "no_such:f"), "model no_such:f",
    ),
    "a factory that fails": (
        ("t.csv", "--target", "y", "--epsilon", 3, *files.DECLARED, "--model", "os:getcwd"), "model os:getcwd",
    ),
    "a module that fails": (
        ("t.csv", "--target", "y", "--epsilon", 3, *files.DECLARED, "--model", ".json:loads"), "model .json:loads",
    ),
    "a seed too long": (("t.csv", "--target", "y", "--epsilon", 3, "--seed", 10**20), "seed 100000000000000000000"),
    "learning rate beyond numbers": (
        ("t.csv", "--target", "y", "--epsilon", 3, "--learning-rate", 1e39), "--learning-rate 1e+39",
    ),
    "cnn of a table": (("t.csv", "--target", "y", "--epsilon", 3, *files.DECLARED, "--model", "cnn"), "not images"),
    "no such file": (("missing.csv", "--target", "y", "--epsilon", 3), "There is no such file"),
    "another format": (("t.docx", "--target", "y", "--epsilon", 3), "a .csv, .xlsx, .parquet or .npz file"),
    "damaged": (("broken.parquet", "--target", "y", "--epsilon", 3), "DATA "),
    "not text": (("binary.csv", "--target", "y", "--epsilon", 3), "DATA "),
    "no rows": (("empty.csv", "--target", "y", "--epsilon", 3, *files.DECLARED), "at least one row"),
    "an empty folder": (("nothing", "--epsilon", 3), "DATA nothing"),
    "no such device": (
        ("t.csv", "--target", "y", "--epsilon", 3, *files.DECLARED, "--device", "nowhere"), "device nowhere",
    ),
    "a device without numbers": (
        ("t.csv", "--target", "y", "--epsilon", 3, *files.DECLARED, "--device", "meta"), "device meta",
    ),
    "bounds without numbers": (("t.csv", "--target", "y", "--epsilon", 3, "--bounds", "a=x:1"), "bounds a=x:1"),
    "bounds that are infinite": (("t.csv", "--target", "y", "--epsilon", 3, "--bounds", "a=0:inf"), "bounds "),
    "bounds the wrong way": (("t.csv", "--target", "y", "--epsilon", 3, "--bounds", "a=1:0"), "upper 0"),
    "bounds of no column": (("t.csv", "--target", "y", "--epsilon", 3, "--bounds", "0:1"), "COLUMN=LOW:HIGH"),
    "an empty category": (("t.csv", "--target", "y", "--epsilon", 3, "--category", "a=x,,y"), "category a=x,,y"),
    "no such vocabulary": (("t.csv", "--target", "y", "--epsilon", 3, "--vocabulary", "a=no.txt"), "vocabulary "),
    "no such schema": (("t.csv", "--target", "y", "--epsilon", 3, "--schema", "no.json"), "schema no.json"),
    "a broken schema": (("t.csv", "--target", "y", "--epsilon", 3, "--schema", "t.csv"), ""),
    "unit and target": (("t.csv", "--target", "y", "--unit", "y", "--epsilon", 3, *files.DECLARED), "unit y"),
    "columns of images": (("digits", "--target", "a", "--epsilon", 3), "Images have labels"),
    "not downloaded": (("mnist", "--epsilon", 3, "--no-download", "--data-dir", "nothing"), "DATA mnist"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_are_one_line_that_you_can_act_on(
    case: str, source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = source.parent
    monkeypatch.chdir(folder)
    monkeypatch.delenv("HUSH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    files.write_rows(folder / "one.csv", "a,b,y", ["0.5,0.5,1"] * 1500)
    files.write_rows(folder / "empty.csv", "a,b,y", [])
    (folder / "binary.csv").write_bytes(bytes(range(128, 256)) * 10)
    for name in ("broken.parquet", "t.docx"):
        (folder / name).write_bytes(b"PAR1 and then something else")
    (folder / "nothing").mkdir()
    arguments, message = REFUSED[case]
    assert message in files.refused(capsys, *arguments)
    assert not (folder / "runs").exists() or not any((folder / "runs").iterdir())


ASKED: dict[str, Refusal] = {
    "nothing but data": ((), "2 things to settle"),
    "no epsilon": (("--target", "y", *files.DECLARED), "--epsilon, the privacy budget, is missing"),
    "no target": (("--epsilon", 3), "the target is missing"),
    "no such column": (("--target", "z", "--epsilon", 3), "one of the columns a, b, y"),
    "no such unit": (("--target", "y", "--unit", "who", "--epsilon", 3), "--unit names 'who', which is no column"),
    "no such group": (("--target", "y", "--group", "sex", "--epsilon", 3), "--group names 'sex'"),
    "bounds of nothing": (("--target", "y", "--bounds", "q=0:1", "--epsilon", 3), "a declaration names 'q'"),
    "what the numbers are": (("--target", "y", "--epsilon", 3), "--task regression"),
}


@pytest.mark.parametrize("case", ASKED)
def test_what_is_missing_is_asked_with_a_command(
    case: str, source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(source.parent)
    arguments, message = ASKED[case]
    assert main(["train", str(source), *map(str, arguments)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.splitlines()[-1].partition(": ")[2].startswith("hush train ")
    assert not (source.parent / "runs").exists() or not any((source.parent / "runs").iterdir())


@pytest.mark.skipif("__import__('torch').cuda.is_available()", reason="there is a GPU")
def test_a_gpu_that_is_not_there(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = (source, "--target", "y", "--epsilon", 3, *files.DECLARED, "--device", "cuda")
    assert "device cuda" in files.refused(capsys, *command)


@pytest.mark.parametrize("missing", ["torch", "safetensors"])
@pytest.mark.quick_cases(1)
def test_packages_that_are_missing(missing: str, source: Path) -> None:
    """In another process, where the package cannot be imported: one line, before anything is read."""
    code = f"import sys; sys.modules[{missing!r}] = None\nfrom hush.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "train", str(source), "--target", "y", "--epsilon", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=source.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert f"training needs {missing}" in done.stderr
    assert "pip install" in done.stderr


def test_duckdb_is_missing(source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.chdir(source.parent)
    assert "DuckDB" in files.refused(capsys, source, "--target", "y", "--epsilon", 3)


def test_a_bar_on_a_terminal(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal: Any = Terminal(-1)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", terminal)
        command = ["train", str(source), "--target", "y", *files.DECLARED, "--epsilon", "3", "--num-steps", "5"]
        assert main([*command, "--output", str(tmp_path / "run")]) == 0
    assert "\rtraining" in terminal.text
    assert "5/5" in terminal.text
    assert "epsilon" in terminal.text


def test_tensorboard(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The scalars are those of metrics.jsonl, and nothing else."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = tmp_path / "run"
    flags = ("--target", "y", *files.DECLARED, "--epsilon", 3, "--output", run, "--tensorboard")
    files.train(capsys, source, *flags)
    events = accumulator.EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    rows = files.rows(run / "metrics.jsonl")
    assert sorted(events.Tags()["scalars"]) == ["accuracy", "epsilon"]
    assert [event.step for event in events.Scalars("epsilon")] == [row["step"] for row in rows]
    for name in ("epsilon", "accuracy"):
        values = [row[name] for row in rows if row[name] is not None]
        assert [event.value for event in events.Scalars(name)] == pytest.approx(values, rel=1e-6)


def test_too_few_held_out_examples_to_measure(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from hush.runs.figures import Measurer

    withheld = {"value": None, "low": 0.0, "high": 1.0}
    monkeypatch.setattr(Measurer, "_accuracy", lambda self, counts, part="final", tables=1: withheld)
    command = ["train", str(source), "--target", "y", *files.DECLARED, "--epsilon", "3", "--num-steps", "2"]
    assert main([*command, "--output", str(tmp_path / "run"), "--quiet"]) == 0
    expected = "Held-out accuracy: withheld. Too few held-out examples per class to measure through the noise."
    assert capsys.readouterr().out.splitlines()[0] == expected
