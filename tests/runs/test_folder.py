"""A run's folder: what is in it, when, for whom, and that it is never written over."""

from __future__ import annotations

import copy
import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from hush import runs
from hush.cli import main
from hush.errors import InvalidArgument
from hush.report import publishable, render
from hush.runs import job, outcome
from hush.runs.folder import Folder
from hush.runs.settings import Settings, default_delta
from report.pages import check
from runs import files


@pytest.fixture
def finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    source = files.write_csv(tmp_path / "t.csv")
    files.train(capsys, source, "--target", "y", *files.DECLARED, "--epsilon", 3, "--output", tmp_path / "run")
    return tmp_path / "run"


def test_what_is_there_when_it_is_finished(finished: Path) -> None:
    assert {each.name for each in finished.iterdir()} - {"schema.json"} == files.FILES
    curve = files.rows(finished / "metrics.jsonl")
    assert [row["step"] for row in curve] == [1, 2, 3, 4, 5]
    spent = [row["epsilon"] for row in curve]
    assert spent == sorted(spent)
    assert spent[-1] <= 3
    assert all(row["private"] is True and 0 <= row["low"] <= row["high"] <= 1 for row in curve)


def test_the_model_is_built_again(finished: Path) -> None:
    trained = runs.load(finished)
    x = np.array([[-2.0, 0.0], [2.0, 0.0]])
    files.write_rows(finished.parent / "new.csv", "b,a", [f"{b},{a}" for a, b in x])  # another order, no target
    # In 20 runs, their log-odds were -15.8 +- 0.7 and 15.7 +- 0.5: 22 standard deviations from 0.
    assert trained.predict(finished.parent / "new.csv") == ["0", "1"]
    assert trained.guarantee.epsilon <= 3
    assert not trained.network.training


def test_an_unfinished_run_has_no_model(finished: Path, tmp_path: Path) -> None:
    """A model whose guarantee is not written yet is not handed out without one."""
    (finished / "guarantee.json").unlink()
    for place in (finished, tmp_path, tmp_path / "nothing"):
        with pytest.raises(InvalidArgument, match="the folder of a finished run"):
            runs.load(place)


def test_a_file_of_weights_says_what_it_is(finished: Path) -> None:
    with safe_open(finished / "model.safetensors", framework="pt") as file:
        assert "private" in file.metadata()["hush"]


def test_a_second_run_changes_nothing(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files.listing(finished)
    source = finished.parent / "t.csv"
    told = files.refused(capsys, source, "--target", "y", *files.DECLARED, "--epsilon", 3, "--output", finished)
    assert "never writes over" in told
    assert files.listing(finished) == before


@pytest.mark.parametrize("content", ["something", None])
def test_other_peoples_folders_are_left_alone(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, place = files.write_csv(tmp_path / "t.csv"), tmp_path / "place"
    if content is None:
        place.write_text("a file")
    else:
        place.mkdir()
        (place / "letter.txt").write_text(content)
    files.refused(capsys, source, "--target", "y", *files.DECLARED, "--epsilon", 3, "--output", place)
    assert place.is_file() if content is None else (place / "letter.txt").read_text() == content


def test_an_empty_folder_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = files.write_csv(tmp_path / "t.csv")
    (tmp_path / "run").mkdir()
    files.train(capsys, source, "--target", "y", *files.DECLARED, "--epsilon", 3, "--output", tmp_path / "run")
    assert {each.name for each in (tmp_path / "run").iterdir()} - {"schema.json"} == files.FILES


def test_names_count_up(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    source = files.write_csv(tmp_path / "people.2024.csv")
    monkeypatch.chdir(tmp_path)
    command = (source, "--target", "y", *files.DECLARED, "--epsilon", 3)
    assert [files.train(capsys, *command)["run"] for _ in range(2)] == ["runs/people-1", "runs/people-2"]
    files.refused(capsys, *command, "--model", "cnn")  # what comes to nothing leaves nothing
    assert sorted(each.name for each in (tmp_path / "runs").iterdir()) == ["people-1", "people-2"]


@pytest.mark.parametrize(
    "wrong",
    [
        ("--batch-size", "100000"),
        ("--delta", "0.1"),
        ("--model", "cnn"),
        ("--model", "no_such_module:make"),
        ("--train-only", "nothing"),
        ("--device", "nowhere"),
        ("--target", "z"),
    ],
)
def test_what_is_refused_leaves_nothing(
    wrong: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = files.write_csv(tmp_path / "t.csv")
    command = (source, "--target", "y", *files.DECLARED, "--epsilon", 3, "--output", tmp_path / "run")
    files.refused(capsys, *command, *wrong)
    assert not (tmp_path / "run").exists()


class Seen(BaseException):
    """What a test has thrown; nothing catches it."""


def test_secrets_are_for_their_owner(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"

    def stop(*_: Any, **__: Any) -> None:
        raise Seen

    monkeypatch.setattr(job, "publish", stop)
    with pytest.raises(Seen):
        files.train(capsys, source, "--target", "y", *files.DECLARED, "--epsilon", 3, "--output", run)
    secret = run / files.SECRET
    assert secret.stat().st_mode & 0o777 == 0o700
    assert {each.name for each in secret.iterdir()} == {"key.json", "data.json", "state.pt", "lock"}
    assert all(each.stat().st_mode & 0o077 == 0 for each in secret.iterdir() if each.name != "lock")
    key = json.loads((secret / "key.json").read_text())["key"]
    assert len(bytes.fromhex(key)) == 32
    plain = {name: content for name, content in files.listing(run).items() if not name.startswith(files.SECRET)}
    assert not any(key.encode() in content for content in plain.values())


def test_a_crash_within_the_removal_of_secrets(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder was moved out of the way and the machine stopped: secrets must not stay for ever."""
    left = finished / f".{files.SECRET}"
    left.mkdir()
    (left / "key.json").write_text("{}")
    assert "not finished" in files.refused(capsys, "--resume", finished)
    assert not left.exists()


def test_the_report_stands_alone_and_can_be_published(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not private is in the report, framed; the published page is a function of everything else."""
    records: list[dict[str, Any]] = []

    def noted(record: dict[str, Any]) -> str:
        records.append(record)
        return render(record)

    monkeypatch.setattr(outcome, "render", noted)
    source = files.write_csv(tmp_path / "t.csv")
    files.train(capsys, source, "--target", "y", *files.DECLARED, "--epsilon", 3, "--output", tmp_path / "run")
    html = (tmp_path / "run/report.html").read_text()
    assert "Not private" in check(html).text
    told = files.rows(tmp_path / "run/not-private.jsonl")
    assert records[0]["not_private"]["loss"] == [{"step": row["step"], "value": row["loss"]} for row in told]
    other = copy.deepcopy(records[0])
    for part in other["not_private"].values():
        for row in part:
            row.update({name: value / 7 + 0.123 for name, value in row.items() if name != "step"})
    assert render(other) != html
    assert publishable(render(other)) == publishable(html)
    check(publishable(html))


def test_the_report_says_what_was_done(finished: Path) -> None:
    page = check((finished / "report.html").read_text()).text
    promised = json.loads((finished / "guarantee.json").read_text())
    for stated in promised["assumptions"]:
        assert stated.split(":")[0].strip(".")[:40].lower() in page.lower()
    assert "noise multiplier" in page
    assert "hush train" in page


SETTINGS = [
    Settings(data="my data.csv", epsilon=1.23456789, target="y", seed=12345678, delta=3e-7, holdout=0.12345678),
    Settings(data="t.csv", epsilon=3.0, groups=("g h",), train_only=("0", "*.bias"), num_steps=10, averaging=False),
    Settings(data="t.csv", epsilon=0.1, start="w.safetensors", public="it's public", replace_head=True, lora=2),
    Settings(data="t.csv", epsilon=1e-3, learning_rate=1 / 3, clip_norm=0.1, momentum=0.0, rows_per_unit=1000000),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=range(len(SETTINGS)))
def test_the_command_means_the_same_settings(settings: Settings) -> None:
    from hush.cli import _parser
    from hush.cli.commands.train import settings_of

    words = shlex.split(outcome.command(settings, Path("run")))
    assert words[0] == "hush"
    assert settings_of(_parser().parse_args(words[1:])) == settings


def test_settings_survive_being_written(tmp_path: Path) -> None:
    for settings in SETTINGS:
        assert Settings.from_json(json.loads(json.dumps(settings.to_json()))) == settings


def test_delta_is_small_against_the_number_of_people() -> None:
    assert default_delta(100) == 1e-5
    assert default_delta(99_999) == 1e-5
    for people in (10**5, 123_456, 10**6, 10**7 + 1):
        assert default_delta(people) * people < 1
        assert default_delta(people) >= 0.01 / people


def test_half_a_line(tmp_path: Path) -> None:
    folder = Folder.create(tmp_path / "run")
    folder.append("metrics.jsonl", {"step": 1})
    with (tmp_path / "run/metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 2, "acc')
    assert folder.rows("metrics.jsonl") == [{"step": 1}]
    folder.append("metrics.jsonl", {"step": 3})
    assert folder.rows("metrics.jsonl") == [{"step": 1}, {"step": 3}]
    (tmp_path / "run/other.jsonl").write_bytes(b'{"st')  # the very first line
    folder.append("other.jsonl", {"step": 1})
    assert folder.rows("other.jsonl") == [{"step": 1}]


def test_what_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "run.json" in files.refused(capsys, "--resume", tmp_path)
    assert main(["train", "--resume", str(tmp_path / "nothing"), "--quiet"]) == 2
