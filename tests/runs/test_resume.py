"""Ctrl-C and crashes: a run goes on, spends nothing twice and tells nothing twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hush import runs
from hush.cli import main
from hush.runs import folder as folder_module
from hush.runs import job
from hush.runs import steps as steps_module
from runs import files
from runs.files import command, go_on


class Killed(BaseException):
    """Ends a run as a crash does: nothing catches it."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return data, and what a run without interruptions promises."""
    place = tmp_path_factory.mktemp("whole")
    source = files.write_csv(place / "t.csv")
    assert main([*command(source, place / "run"), "--quiet"]) == 0
    return source, json.loads((place / "run/guarantee.json").read_text())


def check_finished(run: Path, promised: dict[str, Any], steps: int = 3) -> None:
    """See that the folder is complete, and promises what an uninterrupted run does."""
    assert {each.name for each in run.iterdir()} - {"schema.json"} == files.FILES
    own = json.loads((run / "guarantee.json").read_text())
    # How many are held out is left to coins, and the noise with it; but both are calibrated to the same epsilon.
    assert own["epsilon"] == pytest.approx(promised["epsilon"], rel=1e-4)
    assert own["epsilon"] <= 6
    own["assumptions"] = [each for each in own["assumptions"] if "only one was gone on from" not in each]
    assert {name: own[name] for name in own if name != "epsilon"} == {
        name: promised[name] for name in promised if name != "epsilon"
    }
    for name in ("metrics.jsonl", "not-private.jsonl"):
        told = [row["step"] for row in files.rows(run / name)]
        assert told == sorted(set(told))
        assert set(told) <= set(range(1, steps + 1))
    runs.load(run)


def writes(monkeypatch: pytest.MonkeyPatch, before: Callable[[str], None], after: Callable[[str], None]) -> None:
    """Call something before and after each file, or line, is written."""
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
def test_a_crash_after_any_file(
    name: str, time_: int, whole: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, promised = whole
    seen: list[str] = []

    def crash(written: str) -> None:
        seen.append(written)
        if written == name and seen.count(name) == time_:
            raise Killed

    with monkeypatch.context() as patched:
        writes(patched, lambda _: None, crash)
        with pytest.raises(Killed):
            main([*command(source, tmp_path / "run"), "--quiet"])
    kept = files.listing(tmp_path / "run")
    go_on(tmp_path / "run")
    check_finished(tmp_path / "run", promised)
    after = files.listing(tmp_path / "run")
    assert after["metrics.jsonl"].startswith(kept.get("metrics.jsonl", b""))  # what was told stays as it was
    if "figures.json" in kept:
        assert after["figures.json"] == kept["figures.json"]


def test_what_was_learned_is_not_learned_again(
    whole: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    source, _ = whole
    fixed = ["train", str(source), "--target", "y", "--epsilon", "9", "--steps", "2", "--output", str(tmp_path / "run")]

    def crash(written: str) -> None:
        if written == "metrics.jsonl":
            raise Killed

    with monkeypatch.context() as patched:
        writes(patched, lambda _: None, crash)
        with pytest.raises(Killed):
            main(fixed)
    told = [line for line in capsys.readouterr().err.splitlines() if "learned privately" in line]
    assert main(["train", "--resume", str(tmp_path / "run")]) == 0
    assert [line for line in capsys.readouterr().err.splitlines() if "learned privately" in line] == told


def test_steps_of_a_run_that_crashed_are_in_no_average(
    whole: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of 40 steps is stored at every second; what came after that is lost, and not part of what is told."""
    source, _ = whole
    taken: list[int] = []
    original = steps_module.after_step

    def crash(private: Any, *rest: Any) -> None:
        original(private, *rest)
        taken.append(private.steps_taken)
        if private.steps_taken == 5:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(steps_module, "after_step", crash)
        with pytest.raises(Killed):
            main([*command(source, tmp_path / "run", 40), "--quiet"])

    def count(private: Any, *rest: Any) -> None:
        original(private, *rest)
        taken.append(private.steps_taken)

    monkeypatch.setattr(steps_module, "after_step", count)
    go_on(tmp_path / "run")
    assert taken == [1, 2, 3, 4, 5, *range(5, 41)]
    assert [row["step"] for row in files.rows(tmp_path / "run/metrics.jsonl")] == list(range(2, 41, 2))


def test_the_learning_rate_goes_on(
    whole: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, _ = whole
    rates: list[list[float]] = [[], []]
    original = steps_module.after_step

    def noted(stop: int, into: list[float]) -> Callable[..., None]:
        def changed(private: Any, *rest: Any) -> None:
            into.append(private.optimizer.param_groups[0]["lr"])
            original(private, *rest)
            if private.steps_taken == stop:
                raise Killed

        return changed

    monkeypatch.setattr(steps_module, "after_step", noted(100, rates[0]))
    main([*command(source, tmp_path / "whole", 20), "--quiet"])
    monkeypatch.setattr(steps_module, "after_step", noted(15, rates[1]))
    with pytest.raises(Killed):
        main([*command(source, tmp_path / "run", 20), "--quiet"])
    monkeypatch.setattr(steps_module, "after_step", noted(100, rates[1]))
    go_on(tmp_path / "run")
    assert len(set(rates[0])) > 5
    assert rates[1][:15] + rates[1][16:] == pytest.approx(rates[0][:15] + rates[0][15:])


def broken_off(source: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(written: str) -> None:
        if written == "metrics.jsonl":
            raise Killed

    with monkeypatch.context() as patched:
        writes(patched, lambda _: None, crash)
        with pytest.raises(Killed):
            main([*command(source, run), "--quiet"])


def test_other_data_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"
    broken_off(source, run, monkeypatch)
    before, content = files.listing(run), source.read_text()
    lines = content.splitlines(keepends=True)
    for changed in (lines[:-1], [*lines, lines[-1]], [*lines[:-1], "0.5,0.5,1\n"]):
        source.write_text("".join(changed))
        assert "the data that the run began with" in files.refused(capsys, "--resume", run)
        assert files.listing(run) == before
    source.write_text(content)
    go_on(run)


@pytest.mark.parametrize(
    "more",
    [("--epsilon", 9), ("--seed", 0), ("--learn-share", 0), ("--no-averaging",), ("t.csv",), ("--bounds", "a=0:1")],
)
def test_nothing_else_may_be_said(more: tuple[object, ...], tmp_path: Path, capsys: Any) -> None:
    flag = "DATA" if more == ("t.csv",) else str(more[0])
    assert f"no {flag} beside it" in files.refused(capsys, "--resume", tmp_path, *more)


def test_two_processes_on_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"
    broken_off(source, run, monkeypatch)
    before = files.listing(run)
    with folder_module.Folder(run).locked():
        assert "no other process" in files.refused(capsys, "--resume", run)
    assert files.listing(run) == before
    go_on(run)
    assert "not finished" in files.refused(capsys, "--resume", run)


def test_what_a_killed_process_leaves_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"
    broken_off(source, run, monkeypatch)
    for name in ("metrics.jsonl", "not-private.jsonl"):
        with (run / name).open("ab") as file:
            file.write(b'{"step": 2, "eps')
    (run / files.SECRET / ".state.pt.partial").write_bytes(b"half")
    (run / files.SECRET / ".figures.json.partial").write_bytes(b"half")
    go_on(run)
    assert {each.name for each in run.iterdir()} - {"schema.json"} == files.FILES
    assert [row["step"] for row in files.rows(run / "metrics.jsonl")] == [1, 2, 3]


def test_ctrl_c_before_the_first_step(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "my run"

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(job, "calibrated", stop)
        assert main([*command(source, run), "--quiet"]) == 130
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert f"hush train --resume '{run}'" in told.err
    go_on(run)


def test_ctrl_c_in_this_process(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step is finished and stored; nothing of it is lost."""
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"
    original, taken = steps_module.after_step, []

    def stop(private: Any, *rest: Any) -> None:
        original(private, *rest)
        taken.append(private.steps_taken)
        if private.steps_taken == 7:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(steps_module, "after_step", stop)
    assert main([*command(source, run, 100), "--quiet"]) == 130
    assert signal.getsignal(signal.SIGINT) is before
    told = capsys.readouterr().err
    assert "interrupted after step 7 of 100" in told
    assert told.count("\n") == 1
    taken.clear()
    go_on(run)
    assert taken == list(range(8, 101))
    assert [row["step"] for row in files.rows(run / "metrics.jsonl")] == list(range(5, 101, 5))


PARKED = """
import sys
from hush.cli import main
from hush.runs import folder_module

seen = []


def parked(write, name, number):
    def changed(self, written, *rest, **options):
        write(self, written, *rest, **options)
        seen.append(written)
        if written == name and seen.count(name) == number:
            print("parked", flush=True)
            sys.stdin.readline()

    return changed


for method in ("write", "append"):
    setattr(folder_module.Folder, method, parked(getattr(folder_module.Folder, method), sys.argv[1], int(sys.argv[2])))
sys.exit(main(sys.argv[3:]))
"""


def parked(source: Path, run: Path, name: str, number: int) -> subprocess.Popen[str]:
    """Train in another process, until it has written a file so often: there it waits for a line, however long."""
    process = subprocess.Popen(
        [sys.executable, "-c", PARKED, name, str(number), *command(source, run, 20)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    if process.stdout.readline() != "parked\n":
        raise AssertionError(process.communicate()[1])
    return process


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("metrics.jsonl", 5),
        pytest.param("data.json", 1, marks=pytest.mark.slow),
        pytest.param("metrics.jsonl", 1, marks=pytest.mark.slow),
    ],
)
def test_kill_nine(name: str, number: int, tmp_path: Path) -> None:
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"
    with parked(source, run, name, number) as process:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    go_on(run)
    assert {each.name for each in run.iterdir()} - {"schema.json"} == files.FILES
    assert [row["step"] for row in files.rows(run / "metrics.jsonl")] == list(range(1, 21))


@pytest.mark.slow
def test_a_signal_from_outside(tmp_path: Path) -> None:
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"
    with parked(source, run, "metrics.jsonl", 3) as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate("go on\n", timeout=600)
    assert process.returncode == 130
    assert out == ""
    assert "interrupted after step 3 of 20" in err
    assert err.splitlines()[-1].endswith(f"Go on with: hush train --resume {run}")
    go_on(run)
