"""The outcome of a run: a model that can be rebuilt, a report that can be published, and a command to repeat it."""

from __future__ import annotations

import copy
import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from hush import data, runs
from hush.cli import build_parser, main
from hush.cli.settings import settings_of
from hush.errors import HushError, InvalidArgument
from hush.report import publishable, render
from hush.runs import Settings, outcome
from report.pages import check
from runs import files


@pytest.fixture
def finished(tmp_path: Path, capsys: pytest.CaptureFixture[str], fixed_key: None) -> Path:
    source = files.write_csv(tmp_path / "t.csv")
    files.train(capsys, source, "--target", "y", *files.DECLARED, "--epsilon", 3, "--output", tmp_path / "run")
    return tmp_path / "run"


def test_the_model_is_rebuilt(finished: Path) -> None:
    trained = runs.load(finished)
    x = np.array([[-2.0, 0.0], [2.0, 0.0]])
    files.write_rows(finished.parent / "new.csv", "b,a", [f"{b},{a}" for a, b in x])  # another order, no target
    # Fixed key: no chance. With 20 others, their log-odds were -15.8 +- 0.7 and 15.7 +- 0.5.
    assert trained.predict(finished.parent / "new.csv") == ["0", "1"]
    assert trained.guarantee.epsilon <= 3
    assert not trained.network.training


def test_an_unfinished_run_has_no_model(finished: Path, tmp_path: Path) -> None:
    """A model is not handed out before its guarantee is written."""
    (finished / "guarantee.json").unlink()
    for folder in (finished, tmp_path, tmp_path / "nothing"):
        with pytest.raises(InvalidArgument, match="the folder of a finished run"):
            runs.load(folder)


def test_a_model_of_another_format_is_refused(finished: Path) -> None:
    content = json.loads((finished / "model.json").read_text())
    (finished / "model.json").write_text(json.dumps({**content, "format": "hush.model/0"}))
    with pytest.raises(InvalidArgument, match="hush.model/1"):
        runs.load(finished)


def test_a_folder_cannot_run_code(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends a folder could name anything that Python can import and call, such as subprocess:Popen."""
    copied = tmp_path / "copied"
    shutil.copytree(finished, copied)
    content = json.loads((copied / "model.json").read_text())
    content["network"]["model"] = "somebodys_module:make"
    (copied / "model.json").write_text(json.dumps(content))
    (tmp_path / "somebodys_module.py").write_text("raise SystemExit('it was imported')")
    monkeypatch.syspath_prepend(tmp_path)
    for factory in (None, "another_module:make", "softmax"):
        with pytest.raises(InvalidArgument, match="'somebodys_module:make', if you trust it"):
            runs.load(copied, factory=factory)
    with pytest.raises(SystemExit):
        runs.load(copied, factory="somebodys_module:make")
    with pytest.raises(InvalidArgument, match="the model is softmax"):
        runs.load(finished, factory="somebodys_module:make")


NETWORK = {"model": "softmax", "shape": [2], "num_classes": 2, "seed": 0}


@pytest.mark.parametrize(
    "change",
    [
        *("[]", "5", "null", "{}", "{"),
        *({"network": value} for value in (None, [], {}, {**NETWORK, "more": 1}, {**NETWORK, "shape": "x"})),
        *({"network": {**NETWORK, "shape": shape}} for shape in ([10**6, 10**6], [10**30], [-1], [2.5])),
        *({"network": {**NETWORK, "model": model}} for model in (5, ["softmax"], {})),
        *({"schema": value} for value in (None, 5, {"columns": 3})),
        {"classes": 5},
    ],
    ids=lambda change: str(change)[:60],
)
@pytest.mark.quick_cases(6)
def test_a_damaged_folder_is_our_error(change: str | dict[str, Any], finished: Path) -> None:
    content = json.loads((finished / "model.json").read_text())
    text = change if isinstance(change, str) else json.dumps({**content, **change})
    (finished / "model.json").write_text(text)
    with pytest.raises(HushError):
        runs.load(finished)


def test_a_file_of_weights_says_that_it_is_private(finished: Path) -> None:
    with safe_open(finished / "model.safetensors", framework="pt") as file:
        assert "private" in file.metadata()["hush"]


def test_the_report_stands_alone_and_can_be_published(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report frames what is not private; the published page is a function of everything else."""
    records: list[dict[str, Any]] = []

    def recorded(record: dict[str, Any]) -> str:
        records.append(record)
        return render(record)

    monkeypatch.setattr(outcome, "render", recorded)
    source = files.write_csv(tmp_path / "t.csv")
    files.train(capsys, source, "--target", "y", *files.DECLARED, "--epsilon", 3, "--output", tmp_path / "run")
    html = (tmp_path / "run/report.html").read_text()
    assert "Not private" in check(html).text
    diagnostics = files.rows(tmp_path / "run/not-private.jsonl")
    losses = [{"step": row["step"], "value": row["loss"]} for row in diagnostics]
    assert records[0]["not_private"]["loss"] == losses
    changed = copy.deepcopy(records[0])
    for part in changed["not_private"].values():
        for row in part:
            row.update({name: value / 7 + 0.123 for name, value in row.items() if name != "step"})
    assert render(changed) != html
    assert publishable(render(changed)) == publishable(html)
    check(publishable(html))


def test_the_report_says_what_was_done(finished: Path) -> None:
    page = check((finished / "report.html").read_text()).text
    guarantee = json.loads((finished / "guarantee.json").read_text())
    for assumption in guarantee["assumptions"]:
        assert assumption.split(":")[0].strip(".")[:40].lower() in page.lower()
    for row in ("noise multiplier", "learning rate", "privacy unit", "expected batch size", "clipping", "hush train"):
        assert row in page


def test_the_report_warns(finished: Path) -> None:
    page = check((finished / "report.html").read_text()).text
    assert "fewer than 1,000 units" in page
    assert "--unit COLUMN" in page


SETTINGS = [
    Settings(data="my data.csv", epsilon=1.23456789, target="y", seed=12345678, delta=3e-7, holdout=0.12345678),
    Settings(data="t.csv", epsilon=3.0, groups=("g h",), train_only=("0", "*.bias"), num_steps=10, averaging=False),
    Settings(data="t.csv", epsilon=0.1, start="w.safetensors", public="it's public", replace_head=True, lora=2),
    Settings(data="t.csv", epsilon=1e-3, learning_rate=1 / 3, clip_norm=0.1, momentum=0.0, rows_per_unit=1000000),
    Settings(data="mnist", epsilon=2.0, download=False, data_dir="a folder", tensorboard=True, device="cpu"),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=range(len(SETTINGS)))
@pytest.mark.parametrize("command", ["train", "tune"])
def test_the_command_means_the_same_settings(settings: Settings, command: str) -> None:
    words = shlex.split(outcome.repeat_command(settings, Path("run"), command))
    assert words[:2] == ["hush", command]
    expected = settings if command == "train" else settings.replace(tensorboard=False)  # which only train has
    assert settings_of(build_parser().parse_args(words[1:])) == expected


def test_the_command_reads_the_declarations_of_the_run(tmp_path: Path) -> None:
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"
    flags = [str(source), "--target", "y", *files.DECLARED, "--epsilon", "3", *files.SHORT, "--output", str(run)]
    assert main(["train", *flags]) == 0
    assert data.Schema.load(run / "schema.json").classes == ("0", "1")
    assert f"--schema {run / 'schema.json'}" in (run / "report.html").read_text()


def test_a_model_with_other_classes_than_outputs_is_refused(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "changed")
    content = json.loads((finished / "model.json").read_text())
    (tmp_path / "changed" / "model.json").write_text(json.dumps({**content, "classes": content["classes"][:1]}))
    with pytest.raises(InvalidArgument, match="a model that can be rebuilt"):
        outcome.load(tmp_path / "changed")


def test_a_model_predicts_for_data_frames() -> None:
    """The same rows as a frame of pandas and as one of Polars, whose values never decide a column's type."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    from hush.data import Numeric, Schema
    from hush.guarantee import Guarantee
    from hush.runs import Trained
    from hush.runs.networks import build_network

    schema = Schema(columns={"age": Numeric(lower=0, upper=100)}, classes=("healthy", "ill"))
    trained = Trained(build_network("softmax", (1,), 2), schema, schema.classes or (), Guarantee(epsilon=1, delta=0))
    columns = {"name": ["a", "b", "c"], "age": [1.0, None, 99.0]}
    first, second = (trained.predict(make(columns)) for make in (pandas.DataFrame, polars.DataFrame))
    assert first == second
    assert set(first) <= {"healthy", "ill"}
    assert "healthy" in trained._repr_html_()
    assert len(repr(trained)) < 200
