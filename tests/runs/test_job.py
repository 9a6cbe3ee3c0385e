"""Runs from beginning to end: crashes and interruptions lose nothing, spend nothing twice and publish nothing twice."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hush import runs
from hush.cli import main
from hush.errors import InvalidArgument
from hush.guarantee import Guarantee
from hush.runs import folder as folder_module
from hush.runs import job
from hush.runs.run_plan import RunPlan
from runs import files
from runs.files import command, parked, resume


class Killed(BaseException):
    """Ends a run as a crash does; nothing catches it."""


def kill() -> None:
    raise Killed


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return the data and the guarantee of a run without interruptions."""
    folder = tmp_path_factory.mktemp("finished")
    source = files.write_csv(folder / "t.csv")
    assert main([*command(source, folder / "run"), "--quiet"]) == 0
    return source, json.loads((folder / "run/guarantee.json").read_text())


def check_finished(run: Path, expected: dict[str, Any], steps: int = 3) -> None:
    """Check that the folder is complete, and states what an uninterrupted run does."""
    assert files.names(run) == files.FILES
    guarantee = json.loads((run / "guarantee.json").read_text())
    # Coins decide how many units are held out, and with it the noise; but both are calibrated to the same epsilon.
    assert guarantee["epsilon"] == pytest.approx(expected["epsilon"], rel=1e-4)
    assert guarantee["epsilon"] <= 6
    assumptions = [sentence for sentence in guarantee["assumptions"] if "was continued from" not in sentence]
    assert {**guarantee, "assumptions": assumptions, "epsilon": 0} == {**expected, "epsilon": 0}
    for name in ("metrics.jsonl", "not-private.jsonl"):
        points = [row["step"] for row in files.rows(run / name)]
        assert points == sorted(set(points))
        assert set(points) <= set(range(1, steps + 1))
    runs.load(run)


def writes(monkeypatch: pytest.MonkeyPatch, before: Callable[[str], None], after: Callable[[str], None]) -> None:
    """Call a function before, and another one after, each file or line is written."""
    for method in ("write", "append"):
        original = getattr(folder_module.Folder, method)

        def changed(self: Any, name: str, *rest: Any, original: Any = original, **options: Any) -> None:
            before(name)
            original(self, name, *rest, **options)
            after(name)

        monkeypatch.setattr(folder_module.Folder, method, changed)


FAST = [("data.json", 1), ("state.pt", 1), ("metrics.jsonl", 3), ("figures.json", 1)]
SLOW = [
    ("metrics.jsonl", 1), ("not-private.jsonl", 2), ("state.pt", 3), ("model.safetensors", 1), ("model.json", 1),
    ("guarantee.json", 1), ("report.html", 1),
]  # fmt: skip
POINTS = [*FAST, *(pytest.param(*point, marks=pytest.mark.slow) for point in SLOW)]


@pytest.mark.parametrize(("name", "time_"), POINTS)
@pytest.mark.quick_cases(2)
def test_a_crash_after_any_file(
    name: str, time_: int, finished: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, expected = finished
    seen: list[str] = []

    def crash(written: str) -> None:
        seen.append(written)
        if written == name and seen.count(name) == time_:
            raise Killed

    with monkeypatch.context() as patched:
        writes(patched, lambda _: None, crash)
        with pytest.raises(Killed):
            main([*command(source, tmp_path / "run"), "--quiet"])
    before = files.listing(tmp_path / "run")
    resume(tmp_path / "run")
    check_finished(tmp_path / "run", expected)
    after = files.listing(tmp_path / "run")
    assert after["metrics.jsonl"].startswith(before.get("metrics.jsonl", b""))  # what was published stays
    if "figures.json" in before:
        assert after["figures.json"] == before["figures.json"]


def test_bounds_are_not_learned_again(
    finished: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    source, _ = finished
    flags = ["--target", "y", *files.CLASSES, "--epsilon", "9", "--num-steps", "2", "--output", str(tmp_path / "run")]

    def crash(written: str) -> None:
        if written == "metrics.jsonl":
            raise Killed

    with monkeypatch.context() as patched:
        writes(patched, lambda _: None, crash)
        with pytest.raises(Killed):
            main(["train", str(source), *flags])
    learned = [line for line in capsys.readouterr().err.splitlines() if "learned privately" in line]
    assert main(["train", "--resume", str(tmp_path / "run")]) == 0
    assert [line for line in capsys.readouterr().err.splitlines() if "learned privately" in line] == learned


def crash_after_first_point(source: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(written: str) -> None:
        if written == "metrics.jsonl":
            raise Killed

    with monkeypatch.context() as patched:
        writes(patched, lambda _: None, crash)
        with pytest.raises(Killed):
            main([*command(source, run), "--quiet"])


def test_other_data_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"
    crash_after_first_point(source, run, monkeypatch)
    before, content = files.listing(run), source.read_text()
    lines = content.splitlines(keepends=True)
    for changed in (lines[:-1], [*lines, lines[-1]], [*lines[:-1], "0.5,0.5,1\n"]):
        source.write_text("".join(changed))
        assert "the data that the run was started with" in files.refused(capsys, "--resume", run)
        assert files.listing(run) == before
    source.write_text(content)
    resume(run)


@pytest.mark.parametrize(
    "flags",
    [("--epsilon", 9), ("--seed", 0), ("--learn-share", 0), ("--no-averaging",), ("t.csv",), ("--bounds", "a=0:1")],
)
def test_settings_are_refused_with_resume(flags: tuple[object, ...], tmp_path: Path, capsys: Any) -> None:
    flag = "DATA" if flags == ("t.csv",) else str(flags[0])
    assert f"no {flag} with --resume" in files.refused(capsys, "--resume", tmp_path, *flags)


def test_a_foreign_folder_runs_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever sends a folder to be continued or audited could name anything that Python can import and call."""
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"
    (tmp_path / "somebodys_module.py").write_text("raise SystemExit('it was imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(job.TrainingLoop, "run", lambda _: kill())
        with pytest.raises(Killed):
            main([*command(source, run), "--quiet"])
    content = json.loads((run / "run.json").read_text())
    content["settings"]["model"] = "somebodys_module:make"
    (run / "run.json").write_text(json.dumps(content))
    for words in ((), ("--model", "another_module:make"), ("--model", "softmax")):
        assert "'somebodys_module:make', if you trust it" in files.refused(capsys, "--resume", run, *words)
    with pytest.raises(SystemExit):
        runs.resume(run, factory="somebodys_module:make")
    (run / files.SECRET).rename(tmp_path / "secrets")
    (run / "guarantee.json").write_text(Guarantee(epsilon=1.0, delta=0.0).to_json())
    with pytest.raises(InvalidArgument, match="'somebodys_module:make', if you trust it"):
        runs.audit(run)
    assert main(["audit", str(run), "--quiet"]) == 2
    with pytest.raises(SystemExit):
        main(["audit", str(run), "--quiet", "--model", "somebodys_module:make"])


def test_the_printed_command_names_a_model_of_your_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"
    (tmp_path / "own_model_to_resume.py").write_text(
        "from torch import nn\ndef make(shape, num_classes): return nn.Linear(shape[0], num_classes)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(job.TrainingLoop, "run", lambda _: interrupt())
        assert main([*command(source, run), "--model", "own_model_to_resume:make", "--quiet"]) == 130
    printed = capsys.readouterr().err.splitlines()[-1].rpartition("Continue with: hush ")[2]
    assert printed == f"train --resume {run} --model own_model_to_resume:make"
    assert main([*printed.split(), "--quiet"]) == 0
    assert files.names(run) == files.FILES


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(("run.json", content) for content in ("[]", "5", "null", "{}", "{", '{"settings": 5}', '{"settings": {}}')),
        *(("key.json", content) for content in ("[]", "{}", '{"key": 5, "assumption": null}', '{"key": "zz"}')),
        *(("state.pt", content) for content in ("", "no state", "cposix\nsystem\n(S'true'\ntR.")),
    ],
)
@pytest.mark.quick_cases(4)
def test_a_damaged_folder_is_our_error(
    name: str, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(job.TrainingLoop, "run", lambda _: kill())
        with pytest.raises(Killed):
            main([*command(source, run), "--quiet"])
    path = run / name if name == "run.json" else run / files.SECRET / name
    path.write_text(content)
    files.refused(capsys, "--resume", run)


def test_two_processes_on_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"
    crash_after_first_point(source, run, monkeypatch)
    before = files.listing(run)
    with folder_module.Folder(run).locked():
        assert "no other process" in files.refused(capsys, "--resume", run)
    assert files.listing(run) == before
    resume(run)
    assert "not finished" in files.refused(capsys, "--resume", run)


def test_half_written_files_of_a_killed_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"
    crash_after_first_point(source, run, monkeypatch)
    for name in ("metrics.jsonl", "not-private.jsonl"):
        with (run / name).open("ab") as file:
            file.write(b'{"step": 2, "eps')
    (run / files.SECRET / ".state.pt.partial").write_bytes(b"half")
    (run / files.SECRET / ".figures.json.partial").write_bytes(b"half")
    resume(run)
    assert files.names(run) == files.FILES
    assert [row["step"] for row in files.rows(run / "metrics.jsonl")] == [1, 2, 3]


def test_ctrl_c_before_the_first_step(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "my run"

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(RunPlan, "calibrated", stop)
        assert main([*command(source, run), "--quiet"]) == 130
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert f"hush train --resume '{run}'" in printed.err
    resume(run)


@pytest.mark.slow  # of a run that is charged, it is a quick test: see test_charged_runs.py
@pytest.mark.parametrize(("name", "number"), [("metrics.jsonl", 5), ("data.json", 1), ("metrics.jsonl", 1)])
def test_kill_nine(name: str, number: int, tmp_path: Path) -> None:
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"
    with parked(source, run, name, number) as process:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    resume(run)
    assert files.names(run) == files.FILES
    assert [row["step"] for row in files.rows(run / "metrics.jsonl")] == list(range(1, 21))


@pytest.mark.slow
def test_a_signal_from_outside(tmp_path: Path) -> None:
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"
    with parked(source, run, "metrics.jsonl", 3) as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate("continue\n", timeout=600)
    assert process.returncode == 130
    assert out == ""
    assert "interrupted after step 3 of 20" in err
    assert err.splitlines()[-1].endswith(f"Continue with: hush train --resume {run}")
    resume(run)


def test_a_charged_run_is_resumed_with_its_reservation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after a state was stored: the ledger has to see the same event again."""
    pytest.importorskip("sqlalchemy")
    from hush.ledger import Ledger

    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"
    budget = Ledger(f"sqlite:///{tmp_path}/budgets.db").budget("people", epsilon=9, delta=1e-4, unit="row")
    settings = runs.Settings(data=str(source), target="y", task="classification", epsilon=6.0, num_steps=4)

    def crash(written: str) -> None:
        if written == "metrics.jsonl":
            raise Killed

    with monkeypatch.context() as patched:
        writes(patched, lambda _: None, crash)
        with pytest.raises(Killed):
            runs.train(settings, run, budget=budget)
    assert (run / files.SECRET / "state.pt").exists()
    assert len(budget.pending()) == 1
    with pytest.raises(InvalidArgument, match="the budget that the run was started with"):
        runs.resume(run)
    spent = budget.spent
    # A later version may word what it assumes differently. That is no other run.
    monkeypatch.setattr(job, "COUNTS_ARE_PUBLIC", "the numbers of rows and units are public")
    outcome = runs.resume(run, budget=budget)
    assert budget.spent == spent
    assert not budget.pending()
    assert outcome.guarantee.epsilon <= 6
    assert any("was continued from" in sentence for sentence in outcome.guarantee.assumptions)


@pytest.mark.parametrize("name", ["nowhere", "meta"])
def test_a_device_that_cannot_compute(name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"device='{name}'"):
        job.device_named(name)
    assert job.device_named("cpu").type == "cpu"


def test_an_empty_run_is_removed_and_nothing_else(tmp_path: Path) -> None:
    folder = folder_module.Folder.create(tmp_path / "run")
    folder.write_json("run.json", {})
    folder.write_json("key.json", {}, secret=True)
    (tmp_path / "run/letter.txt").write_text("from somebody else")
    job.remove_empty(folder)
    assert files.names(tmp_path / "run") == {"letter.txt"}
    (tmp_path / "run/letter.txt").unlink()
    job.remove_empty(folder)
    assert not (tmp_path / "run").exists()
