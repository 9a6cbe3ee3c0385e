"""`hush predict`, `hush report` and `hush export` on the folder of a finished run."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cases import first_quick
from hush import runs
from hush.cli import main
from hush.cli.commands.finished import predict
from hush.data import Date, Numeric, Schema, open_data, transform
from runs import files
from runs.tables import write_table

pytest.importorskip("torch", reason="trains")

TARGETS = {
    "a number": ("sensors", ()),
    "classes": ("customers", ("--unit", "customer")),
    "labels": ("tickets", ()),
}


@pytest.fixture(params=first_quick(TARGETS, 1))
def finished(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str], fixed_key: None
) -> tuple[Path, Path, str]:
    """A run, its data, and what it predicts."""
    name, flags = TARGETS[request.param]
    file, target = write_table(name, tmp_path)
    files.train(capsys, file, "--target", target, *flags, "--epsilon", 8, "--output", tmp_path / "run")
    return tmp_path / "run", file, request.param


def test_predictions_are_those_of_the_model(
    finished: tuple[Path, Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, file, kind = finished
    capsys.readouterr()
    assert main(["predict", str(run), str(file)]) == 0
    header, *lines = csv.reader(capsys.readouterr().out.splitlines())
    expected = runs.load(run).predict(file)
    assert len(lines) == len(expected) > 1000
    if kind == "labels":
        assert header == ["is_delivery", "is_money", "is_praise"]
        assert [[name for name, cell in zip(header, line, strict=True) if cell == "1"] for line in lines] == [
            list(labels) for labels in expected
        ]
    elif kind == "classes":
        assert header == ["predicted churned"]
        assert [line[0] for line in lines] == expected
    else:
        assert [float(line[0]) for line in lines] == pytest.approx(expected, rel=1e-5)


def test_the_publishable_report(finished: tuple[Path, Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    run, _, _ = finished
    assert main(["report", str(run)]) == 0
    assert "parts that are not private" in capsys.readouterr().out
    assert main(["report", str(run), "--publishable"]) == 0
    page = (run / "report-publishable.html").read_text()
    assert "Not private: do not publish" in (run / "report.html").read_text()
    assert "Not private: do not publish" not in page
    assert main(["report", str(run), "--publishable"]) == 2  # nothing is overwritten
    assert "a file that does not exist" in capsys.readouterr().err


def test_onnx_files_compute_the_same(finished: tuple[Path, Path, str]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    run, file, kind = finished
    assert main(["export", str(run), "--onnx"]) == 0
    session = onnxruntime.InferenceSession(run / "model.onnx", providers=["CPUExecutionProvider"])
    trained = runs.load(run)
    inputs = transform(trained.schema, open_data(file))
    for rows in (1, 7, len(inputs)):  # any number of rows
        (outputs,) = session.run(None, {session.get_inputs()[0].name: inputs[:rows]})
        assert outputs.shape == (rows, max(len(trained.classes), 1))
    if kind == "classes":
        assert [trained.classes[index] for index in outputs.argmax(1)] == trained.predict(file)
    elif kind == "labels":
        assert np.allclose(1 / (1 + np.exp(-outputs)), trained.probabilities(file), atol=1e-5)
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["hush.guarantee"])["epsilon"] <= 8
    assert json.loads(metadata["hush.classes"]) == list(trained.classes)


@pytest.mark.parametrize(
    "command", [["predict", "nowhere", "t.csv"], ["report", "nowhere"], ["export", "nowhere", "--onnx"]]
)
def test_folders_without_a_run(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "the folder of a finished run" in printed.err
    assert printed.err.count("\n") == 1


def test_a_format_has_to_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(tmp_path)]) == 2
    assert "--onnx" in capsys.readouterr().err


def test_predicted_dates_are_dates() -> None:
    for target_range, expected in ((Date(lower=0, upper=9e4), "2021-04-12 21:36"), (Numeric(lower=0), "18729.9")):
        schema = Schema(target="visit", target_range=target_range)
        trained = SimpleNamespace(schema=schema, predict=lambda data: [18729.9])
        assert predict._lines(trained, None, with_probabilities=False) == [["predicted visit"], [expected]]
