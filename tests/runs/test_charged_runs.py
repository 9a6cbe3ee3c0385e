"""Runs that are charged to a ledger: reserved before anything is learned, committed before anything is published, once.

Each attack gave something away for nothing before.
"""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy")
pytest.importorskip("torch", reason="trains")

from cases import first_quick
from hush import runs
from hush.accounting.budget import BudgetExceeded
from hush.cli import main
from hush.cli.terminal import TerminalProgress
from hush.data import Numeric, Schema
from hush.data.preparation import prepared_data
from hush.errors import HushError, InvalidArgument
from hush.ledger import Ledger, LedgerBudget
from hush.runs import folder as folder_module
from hush.runs import job
from runs import files
from runs.files import parked

SCHEMA = Schema(columns={name: Numeric(lower=-3, upper=3) for name in "ab"}, classes=("0", "1"))


class Killed(BaseException):
    """Ends a run as a crash does; nothing catches it."""


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(f"sqlite:///{tmp_path}/budgets.db") as opened:
        opened.budget("people", epsilon=9, delta=1e-4, unit="row")
        yield opened


@pytest.fixture
def budget(ledger: Ledger) -> LedgerBudget:
    return ledger.budget("people")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return files.write_csv(tmp_path / "t.csv")


def settings(source: Path, **changes: Any) -> runs.Settings:
    return runs.Settings(
        data=str(source), **{"target": "y", "task": "classification", "epsilon": 6.0, "num_steps": 4, **changes}
    )


def when_written(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], None], *, time: int = 1) -> None:
    """Call a function after a file or a line of this name is written for the given time."""
    seen = []
    for method in ("write", "append"):
        original = getattr(folder_module.Folder, method)

        def changed(self: Any, written: str, *rest: Any, original: Any = original, **options: Any) -> None:
            original(self, written, *rest, **options)
            if written == name:
                seen.append(written)
                if len(seen) == time:
                    act()

        monkeypatch.setattr(folder_module.Folder, method, changed)


def kill() -> None:
    raise Killed


def killed_run(
    source: Path, run: Path, budget: LedgerBudget, monkeypatch: pytest.MonkeyPatch, name: str, *, time: int = 1
) -> None:
    """Start a run, and kill it after it has written a file."""
    with monkeypatch.context() as patched:
        when_written(patched, name, kill, time=time)
        with pytest.raises(Killed):
            runs.train(settings(source), run, budget=budget)


def published(*folders: Path) -> list[Path]:
    """Return the folders that have anything of a model, or a guarantee."""
    names = ("model.safetensors", "figures.json", "guarantee.json", "report.html")
    return [folder for folder in folders if any((folder / name).exists() for name in names)]


def write_one_class(path: Path) -> Path:
    return files.write_rows(path, "a,b,y", [f"{number % 7},{number % 5},1" for number in range(400)])


TASKS: dict[str, Callable[[runs.Settings, Path, LedgerBudget], Any]] = {
    "train": lambda options, run, budget: runs.train(options, run, budget=budget),
    "tune": lambda options, run, budget: runs.tune(options, {"learning_rate": [0.5]}, run, budget=budget),
}


# Reserve before learning


@pytest.mark.parametrize("task", first_quick(TASKS, 1))
def test_a_refusal_that_depends_on_what_was_learned_is_charged(task: str, budget: LedgerBudget, tmp_path: Path) -> None:
    """Without a charge, it tells two neighbouring tables apart as often as one likes."""
    source = write_one_class(tmp_path / "t.csv")
    with pytest.raises(InvalidArgument, match="at least two classes"):
        TASKS[task](settings(source), tmp_path / "run", budget)
    assert not budget.pending()
    assert 0.3 < budget.spent < 6  # learning has a fifth of epsilon, by the rule that proves most
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("task", first_quick(TASKS, 1))
def test_nothing_is_learned_that_is_not_paid_for(
    task: str, ledger: Ledger, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = ledger.budget("small", epsilon=1, delta=1e-4, unit="row")
    for name in ("read_numbers", "release", "log_histogram"):
        monkeypatch.setattr(prepared_data, name, lambda *_: kill())
    with pytest.raises(BudgetExceeded):
        TASKS[task](settings(source), tmp_path / "run", small)
    assert (small.spent, small.pending()) == (0, [])


def test_a_refusal_after_public_declarations_costs_nothing(budget: LedgerBudget, source: Path, tmp_path: Path) -> None:
    """Nothing was learned, so nothing was released."""
    with pytest.raises(HushError, match="no_such_module"):
        runs.train(settings(source, model="no_such_module:make", schema=SCHEMA), tmp_path / "run", budget=budget)
    assert (budget.spent, budget.pending()) == (0, [])


# Commit before publishing


def test_a_search_that_is_interrupted_before_it_is_paid_for_leaves_no_model(
    budget: LedgerBudget, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C gives the budget back. Once, the best run was left in the folder, among the secrets."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    when_written(monkeypatch, "figures.json", interrupt)
    with pytest.raises(KeyboardInterrupt):
        TASKS["tune"](settings(source), tmp_path / "run", budget)
    assert (budget.spent, budget.pending()) == (0, [])
    assert not list(tmp_path.rglob("*model*"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", first_quick(["metrics.jsonl", "figures.json"], 1))
def test_a_run_that_was_voided_publishes_no_model(
    name: str, ledger: Ledger, budget: LedgerBudget, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def void() -> None:
        (pending,) = ledger.budget("people").pending()
        with pytest.raises(InvalidArgument, match="no process is working on"):
            pending.void()
        pending.void(force=True)

    when_written(monkeypatch, name, void)
    with pytest.raises(InvalidArgument, match="voided before"):
        runs.train(settings(source), tmp_path / "run", budget=budget)
    assert budget.spent == 0
    assert not published(tmp_path / "run")


def test_metrics_that_were_published_are_not_given_back_by_mistake(
    budget: LedgerBudget, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_run(source, tmp_path / "run", budget, monkeypatch, "metrics.jsonl")
    (pending,) = budget.pending()
    assert pending.held_for() is None
    with pytest.raises(InvalidArgument, match="The release was begun"):
        pending.void()
    assert budget.spent > 0
    pending.void(force=True)
    assert budget.spent == 0


def test_what_was_learned_and_shown_is_not_given_back_by_mistake(
    budget: LedgerBudget, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """The terminal shows the classes before the first step. Killed there and voided, it cost nothing."""
    run, original = tmp_path / "run", job._TrainingJob._announce

    def announce(self: Any, *arguments: Any) -> None:
        original(self, *arguments)
        kill()

    with monkeypatch.context() as patched:
        patched.setattr(job._TrainingJob, "_announce", announce)
        with pytest.raises(Killed):
            runs.train(settings(source), run, budget=budget, progress=TerminalProgress(quiet=False))
    assert "2 classes (0, 1), learned privately" in capsys.readouterr().err
    (pending,) = budget.pending()
    with pytest.raises(InvalidArgument, match="Resume the run, commit the reservation"):
        pending.void()
    spent = budget.spent
    runs.resume(run, budget=budget)
    assert published(run)
    assert budget.spent == spent


def test_a_refused_run_that_was_killed_before_is_not_given_back_by_mistake(
    budget: LedgerBudget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What refuses the resumed run depends on the data. Voided, it tells two neighbours apart for nothing."""
    source = write_one_class(tmp_path / "t.csv")
    killed_run(source, tmp_path / "run", budget, monkeypatch, "learned.json")
    with pytest.raises(InvalidArgument, match="at least two classes"):
        runs.resume(tmp_path / "run", budget=budget)
    (pending,) = budget.pending()
    with pytest.raises(InvalidArgument, match="The release was begun"):
        pending.void()


@pytest.mark.parametrize("name", first_quick(["learned.json", "states.json", "data.json"], 1))
def test_one_table_is_learned_from(
    name: str, budget: LedgerBudget, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With other labels, counts get fresh noise, and the reservation pays for one release of them."""
    run, original = tmp_path / "run", source.read_text()
    killed_run(source, run, budget, monkeypatch, name)
    source.write_text(original.replace(",0\n", ",7\n", 60))  # other labels, and as many rows
    with monkeypatch.context() as patched:
        patched.setattr(prepared_data, "release", lambda *_: pytest.fail("it has learned"))
        with pytest.raises(InvalidArgument, match="that the run was started with"):
            runs.resume(run, budget=budget)
    source.write_text(original)
    runs.resume(run, budget=budget)
    assert published(run)


def test_a_copy_without_what_was_learned_learns_nothing(
    budget: LedgerBudget, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    killed_run(source, run, budget, monkeypatch, "learned.json")
    shutil.copytree(run, tmp_path / "copy")
    for file in (tmp_path / "copy").rglob("learned.json"):
        file.unlink()
    monkeypatch.setattr(job._TrainingJob, "_announce", lambda *_: kill())
    with pytest.raises(Killed):
        runs.resume(run, budget=budget)
    monkeypatch.setattr(prepared_data, "release", lambda *_: pytest.fail("it has learned"))
    with pytest.raises(InvalidArgument, match="This is an older copy"):
        runs.resume(tmp_path / "copy", budget=budget)


# One reservation, one model


@pytest.mark.parametrize(("name", "time"), first_quick([("data.json", 1), ("metrics.jsonl", 2)], 1))
def test_of_two_copies_one_publishes(
    name: str, time: int, budget: LedgerBudget, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, copy = tmp_path / "run", tmp_path / "copy"
    killed_run(source, run, budget, monkeypatch, name, time=time)
    shutil.copytree(run, copy)
    before = files.listing(run)
    runs.resume(copy, budget=budget)
    spent = budget.spent
    with pytest.raises(InvalidArgument, match="Another copy of this folder has published a model"):
        runs.resume(run, budget=budget)
    assert budget.spent == spent
    assert published(run, copy) == [copy]
    assert files.listing(run).get("metrics.jsonl") == before.get("metrics.jsonl")


def test_two_copies_cannot_run_at_the_same_time(
    ledger: Ledger, budget: LedgerBudget, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, copy = tmp_path / "run", tmp_path / "copy"
    killed_run(source, run, budget, monkeypatch, "data.json")
    shutil.copytree(run, copy)

    def resume_the_copy() -> None:
        with pytest.raises(InvalidArgument, match="no other process is working on"):
            runs.resume(copy, budget=ledger.budget("people"))

    when_written(monkeypatch, "metrics.jsonl", resume_the_copy)
    runs.resume(run, budget=budget)
    assert published(run, copy) == [run]


def test_an_older_copy_is_refused(
    budget: LedgerBudget, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the newer one has published on the way belongs to its state: the older copy would publish it again."""
    run, copy = tmp_path / "run", tmp_path / "copy"
    killed_run(source, run, budget, monkeypatch, "metrics.jsonl")
    shutil.copytree(run, copy)
    with monkeypatch.context() as patched:
        when_written(patched, "metrics.jsonl", kill)
        with pytest.raises(Killed):
            runs.resume(run, budget=budget)
    before = files.listing(copy)
    with pytest.raises(InvalidArgument, match="This is an older copy"):
        runs.resume(copy, budget=budget)
    assert files.listing(copy)["metrics.jsonl"] == before["metrics.jsonl"]
    runs.resume(run, budget=budget)
    assert published(run, copy) == [run]


@pytest.mark.parametrize("name", first_quick(["committed.json", "guarantee.json"], 1))
def test_a_crash_around_the_commit(
    name: str, budget: LedgerBudget, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model that was committed is the one that is published, whoever asks again."""
    run, copy = tmp_path / "run", tmp_path / "copy"
    killed_run(source, run, budget, monkeypatch, name)
    shutil.copytree(run, copy)
    spent = budget.spent
    for folder in (run, copy):
        runs.resume(folder, budget=budget)
        assert files.names(folder) == files.FILES
    for file in ("model.safetensors", "figures.json"):  # the same release twice is one release
        assert (run / file).read_bytes() == (copy / file).read_bytes()
    assert (budget.spent, budget.pending()) == (spent, [])


# Resume


def command(source: Path, run: Path, ledger: Ledger) -> list[str]:
    words = [
        "train",
        str(source),
        "--target",
        "y",
        *files.CLASSES,
        "--epsilon",
        "6",
        "--num-steps",
        "20",
        "--output",
        str(run),
    ]
    return [*words, "--budget", "people", "--db", str(ledger.store.url)]


@pytest.mark.parametrize(("name", "time"), first_quick([("data.json", 1), ("state.pt", 2)], 1))
def test_the_printed_command_continues_a_charged_run(
    name: str,
    time: int,
    ledger: Ledger,
    budget: LedgerBudget,
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        when_written(patched, name, interrupt, time=time)
        assert main(command(source, tmp_path / "run", ledger)) == 130
    spent = budget.spent
    assert spent > 5
    printed = capsys.readouterr().err.splitlines()[-1].rpartition("Continue with: hush ")[2]
    monkeypatch.chdir("/")  # also from another folder
    assert main([*printed.split(), "--quiet"]) == 0
    assert (budget.spent, budget.pending()) == (spent, [])
    assert published(tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "number"), [("metrics.jsonl", 3), pytest.param("data.json", 1, marks=pytest.mark.slow)]
)
def test_a_charged_run_survives_kill_nine(
    name: str, number: int, ledger: Ledger, budget: LedgerBudget, source: Path, tmp_path: Path
) -> None:
    """Its lease ends with the process: nobody has to wait until it expires."""
    run = tmp_path / "run"
    with parked(source, run, name, number, "--budget", "people", "--db", str(ledger.store.url)) as process:
        (pending,) = budget.pending()
        assert pending.held_for() is not None
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert pending.held_for() is None
    spent = budget.spent
    assert main(["train", "--resume", str(run), "--quiet"]) == 0
    assert files.names(run) == files.FILES
    assert [row["step"] for row in files.rows(run / "metrics.jsonl")] == list(range(1, 21))
    assert (budget.spent, budget.pending()) == (spent, [])


def test_a_folder_tells_where_it_is_charged_without_a_password(
    ledger: Ledger, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = command(source, tmp_path / "run", ledger)
    words[-1] = "sqlite:///budgets.db"
    assert main([*words, "--quiet"]) == 0
    content = json.loads((tmp_path / "run/run.json").read_text())
    assert content["budget"] == {"name": "people", "db": f"sqlite:///{tmp_path}/budgets.db"}
