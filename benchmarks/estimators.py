"""Which private estimator for what? All of hush's on the same tasks, against diffprivlib at the same true epsilon.

Digits, breast cancer, diabetes, a synthetic generalised linear model and MNIST's principal components; epsilon 0.1 to
10; delta 0 where the method can, 1e-5 where it needs one; 5 to 20 seeds, which draw the split and the noise.
Non-private scikit-learn is the ceiling, the commonest class or the mean the floor. Rows of the table are in
benchmarks/estimators_peers: `hush_rows.py` (a line for each), `plain_rows.py` and `diffprivlib_rows.py`, which says
what diffprivlib's true epsilon is and how that was found. All know the same: bounds are applied beforehand.

Two worker processes at a time, of one thread each, diffprivlib's in .venv-diffprivlib: it needs an older scikit-learn.
MNIST is looked for in --data, $HUSH_DATA and ../shared/data, and left out with a notice without it. Single rows or
tasks can be measured again; what is found replaces those cells of benchmarks/results/estimators.json, and tables and
plot of docs/estimators.md are written from that file.

    make benchmark-estimators        # or: python benchmarks/estimators.py [--row TEXT] [--task NAME] [--page-only]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "benchmarks" / "estimators_peers"
sys.path.insert(0, str(SCRIPTS))

import page  # noqa: E402
import tasks  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "estimators.json"
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
SEEDS = {"digits": 10, "breast cancer": 20, "diabetes": 20}  # small sets need more
FEW_SEEDS = 5
PROCESSES = 2


@dataclass(frozen=True)
class Library:
    """A script, and the interpreter that runs it."""

    name: str
    script: str
    python: Path


def libraries(diffprivlib: Path) -> list[Library]:
    """Return who takes part."""
    return [
        Library("scikit-learn", "plain_rows.py", Path(sys.executable)),
        Library("hush", "hush_rows.py", Path(sys.executable)),
        Library("diffprivlib", "diffprivlib_rows.py", diffprivlib),
    ]


class Worker:
    """A process that fits; it tells its rows first, then answers one question after another."""

    def __init__(self, library: Library) -> None:
        command = [str(library.python), str(SCRIPTS / library.script)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the one that asks
        )
        self.hello = self._read()

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._process.args} ended: run it by itself to see why")
        message: dict[str, Any] = json.loads(line)
        return message

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@dataclass(frozen=True)
class Job:
    """A cell of the table, all its seeds."""

    library: Library
    row: str
    task: str
    epsilon: float | None
    seeds: int
    about: dict[str, Any]


def jobs(library: Library, rows: dict[str, Any], options: argparse.Namespace) -> list[Job]:
    """Return the cells asked for."""
    listed = []
    for row, about in rows.items():
        if options.row and not any(text.lower() in row.lower() for text in options.row):
            continue
        for task in about["tasks"]:
            if options.task and task not in options.task:
                continue
            seeds = FEW_SEEDS if about["slow"] else SEEDS.get(task, FEW_SEEDS)
            if not about["private"]:
                listed.append(Job(library, row, task, None, 1 if task == "mnist" else seeds, about))
                continue
            listed += [Job(library, row, task, epsilon, seeds, about) for epsilon in EPSILONS]
    return listed


def measure(job: Job, worker: Worker, path: Path) -> dict[str, Any]:
    """Fit with every seed; a fit that takes too long is the last one of its cell."""
    values, seconds, failures = [], [], []
    for seed in range(job.seeds):
        reply = worker.ask({"row": job.row, "path": str(path), "epsilon": job.epsilon, "seed": seed})
        if "failure" in reply:
            failures.append(reply["failure"])
            if reply["failure"].startswith("TimeoutError"):
                break
            continue
        values.append(reply["value"])
        seconds.append(reply["seconds"])
    about = {name: job.about[name] for name in ("family", "kind", "delta", "true", "sound", "private")}
    return {
        "library": job.library.name,
        "row": job.row,
        "task": job.task,
        "epsilon": job.epsilon,
        **about,
        "values": [float(f"{value:.6g}") for value in values],
        "median_seconds": round(statistics.median(seconds), 4) if seconds else None,
        "failure": failures[0] if failures else None,
        "failures": len(failures),
    }


def run(options: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, Any], bool]:
    """Measure all cells asked for, with two workers at a time; after Ctrl-C, those that were begun."""
    versions: dict[str, Any] = {}
    waiting: queue.Queue[Job] = queue.Queue()
    todo: list[Job] = []
    for library in libraries(options.diffprivlib):
        if not library.python.exists():
            print(f"{library.name} is left out: there is no {library.python}. `make benchmark-estimators` installs it.")
            continue
        worker = Worker(library)
        if library.name != "scikit-learn":
            versions |= {f"{library.name}: {name}": one for name, one in worker.hello["versions"].items()}
        todo += jobs(library, worker.hello["rows"], options)
        worker.close()
    with tempfile.TemporaryDirectory() as folder:
        paths = _write_tasks(sorted({job.task for job in todo}), Path(folder), options.data)
        # Tasks one after another: workers keep what they have read last.
        todo = sorted(
            (job for job in todo if job.task in paths), key=lambda job: (tasks.NAMES.index(job.task), job.row)
        )
        for job in todo:
            waiting.put(job)
        bar, cells = Bar(sum(job.seeds for job in todo)), list[dict[str, Any]]()
        threads = [threading.Thread(target=_work, args=(waiting, paths, cells, bar)) for _ in range(PROCESSES)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            print("\nThe cells that were begun are the last ones.", file=sys.stderr)
            while not waiting.empty():
                waiting.get()
            for thread in threads:
                thread.join()
        bar.close()
    return cells, versions, len(cells) == len(todo)


def _work(waiting: queue.Queue[Job], paths: dict[str, Path], cells: list[dict[str, Any]], bar: Bar) -> None:
    workers: dict[str, Worker] = {}
    while True:
        try:
            job = waiting.get_nowait()
        except queue.Empty:
            break
        if job.library.name not in workers:
            workers[job.library.name] = Worker(job.library)
        cells.append(measure(job, workers[job.library.name], paths[job.task]))
        bar.advance(job.seeds, f"{job.task}: {job.row}")
    for worker in workers.values():
        worker.close()


def _write_tasks(names: list[str], folder: Path, data: Path | None) -> dict[str, Path]:
    paths = {}
    for name in names:
        task = tasks.make(name, data)
        if task is None:
            print(f"{name} is left out: its files are not in --data, $HUSH_DATA or ../shared/data.", file=sys.stderr)
            continue
        paths[name] = folder / f"{name}.npz"
        task.save(paths[name])
    return paths


class Bar:
    """A line that says how far things are, on a terminal; a line now and then, elsewhere."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._start = total, 0, time.perf_counter()
        self._lock, self._shown = threading.Lock(), -1

    def advance(self, steps: int, what: str) -> None:
        with self._lock:
            self._done += steps
            share, passed = self._done / max(self._total, 1), time.perf_counter() - self._start
            filled = "#" * round(30 * share)
            line = f"[{filled:30}] {share:4.0%}  {passed:4.0f} s, {passed * (1 / share - 1):4.0f} s left  {what}"
            if sys.stderr.isatty():
                print(f"\r{line:110.110}", end="", file=sys.stderr, flush=True)
            elif int(20 * share) > self._shown:
                self._shown = int(20 * share)
                print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        if sys.stderr.isatty():
            print(file=sys.stderr)


# ---- results


def merged(before: dict[str, Any], cells: list[dict[str, Any]], about: dict[str, Any]) -> dict[str, Any]:
    """Return results in which new cells have taken the place of old ones; each cell names the run that it is from."""
    runs = [*before.get("runs", []), about]
    fresh = {_key(cell): {**cell, "run": len(runs) - 1} for cell in cells}
    by_key = {_key(cell): cell for cell in before.get("cells", [])} | fresh
    used = sorted({cell["run"] for cell in by_key.values()})
    renumbered = [{**cell, "run": used.index(cell["run"])} for cell in by_key.values()]
    ordered = sorted(
        renumbered, key=lambda c: (tasks.NAMES.index(c["task"]), c["kind"], c["library"], c["row"], c["epsilon"] or 0)
    )
    return {"epsilons": EPSILONS, "delta": 1e-5, "runs": [runs[run_number] for run_number in used], "cells": ordered}


def _key(cell: dict[str, Any]) -> tuple[Any, ...]:
    return cell["library"], cell["row"], cell["task"], cell["epsilon"]


def _environment() -> dict[str, Any]:
    changed = _git("status", "--porcelain", "--", "src", "benchmarks")
    return {
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted": [line.split()[-1] for line in changed.splitlines()],
        "python": platform.python_version(),
        "cores": multiprocessing.cpu_count(),
        "processes": PROCESSES,
        "load_before": round(os.getloadavg()[0], 2),
    }


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def main() -> None:
    """Measure, merge, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", action="append", help="only rows with this in their name; may be repeated")
    parser.add_argument("--task", action="append", choices=tasks.NAMES, help="only this task; may be repeated")
    parser.add_argument("--data", type=Path, help="the folder that has mnist/")
    parser.add_argument("--page-only", action="store_true", help="measure nothing; write tables and plot again")
    parser.add_argument("--diffprivlib", type=Path, default=ROOT / ".venv-diffprivlib" / "bin" / "python")
    options = parser.parse_args()
    if not options.page_only:
        about, start = _environment(), time.perf_counter()
        cells, versions, complete = run(options)
        about |= {"versions": versions, "seconds": round(time.perf_counter() - start)}
        # A whole run of everything starts anew: rows that are no more do not linger.
        keep = (options.row or options.task or not complete) and RESULTS.exists()
        results = merged(json.loads(RESULTS.read_text()) if keep else {}, cells, about)
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(page.dumped(results))
    results = json.loads(RESULTS.read_text())
    print(page.worse(results))
    for path in page.write(results, ROOT / "docs"):
        print(f"Written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
