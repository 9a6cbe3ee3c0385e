"""Runs that do not depend on each other: a job is a script's name and arguments, and gives what JSON can hold.

Scripts with many runs list them (``jobs``), run one (``work``), and make rows and figures of all that is there
(``report``). ``run_jobs.py`` spreads jobs over the cores and the GPU of a larger machine; ``run_here`` runs them one
after another.
"""

from __future__ import annotations

import importlib
import json
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from common import Settings

JOB_SCRIPTS = ("abadi_sweeps", "cifar10", "membership", "sweeps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One piece of work.

    Attributes:
        script: The module beside this one whose ``work`` does it.
        name: The name of its result, unique within the script.
        arguments: What ``work`` is called with.
        rank: Jobs of a lower rank go first; the others are left out where time runs out.
        large: Whether a GPU does it faster than one core.
    """

    script: str
    name: str
    arguments: dict[str, Any]
    rank: int
    large: bool = False

    @property
    def key(self) -> str:
        """What tells it from all other jobs."""
        return f"{self.script}/{self.name}"

    def run(self, settings: Settings, device: str) -> dict[str, Any]:
        """Do the work, and return its record."""
        start = time.perf_counter()
        result = importlib.import_module(self.script).work(settings, device, **self.arguments)
        seconds = round(time.perf_counter() - start, 2)
        return {"job": self.key, "device": device, "seconds": seconds, "quick": settings.quick, "result": result}


@dataclass(slots=True)
class Results:
    """What jobs have given.

    Attributes:
        machine: Versions and processors where they ran.
        records: Each job's record, by its key.
    """

    machine: dict[str, str]
    records: dict[str, dict[str, Any]] = field(default_factory=dict)

    def of(self, job: Job) -> dict[str, Any] | None:
        """Return a job's result, if it has run."""
        record = self.records.get(job.key)
        return None if record is None else record["result"]

    def several(self, jobs: Iterable[Job]) -> list[dict[str, Any]]:
        """Return the results of those that have run."""
        return [result for job in jobs if (result := self.of(job)) is not None]

    def seconds(self, jobs: Iterable[Job]) -> float:
        """Return what one of these took, on average."""
        times = [self.records[job.key]["seconds"] for job in jobs if job.key in self.records]
        return statistics.fmean(times) if times else 0.0

    def speeds(self, jobs: Iterable[Job], field_name: str = "step_ms") -> dict[str, list[float]]:
        """Return the milliseconds of a step by device."""
        by_device: dict[str, list[float]] = {}
        for job in jobs:
            record = self.records.get(job.key)
            if record is not None and record["result"].get(field_name) is not None:
                by_device.setdefault(record["device"], []).append(record["result"][field_name])
        return by_device


def run_here(jobs: Sequence[Job], settings: Settings, machine: dict[str, str]) -> Results:
    """Run jobs one after another, with one thread: the models are so small that several only wait for each other."""
    results, threads = Results(machine), torch.get_num_threads()
    torch.set_num_threads(1)
    for job in jobs:
        results.records[job.key] = job.run(settings, "cpu")
        print(job.key, f"{results.records[job.key]['seconds']:.1f} s", flush=True)
    torch.set_num_threads(threads)
    return results


def read(paths: Sequence[Path]) -> Results:
    """Read files of ``run_jobs.py``: a line on the machine, then one for each job; a torn last line is left out.

    Where several files have a job, the first one counts, as does its machine.
    """
    results = Results({})
    for path in paths:
        lines = path.read_text().splitlines()
        machine = json.loads(lines[0])
        results.machine = results.machine or machine
        for record in _whole(lines[1:]):
            results.records.setdefault(record["job"], record | {"cpu": machine.get("cpu", "")})
    return results


def _whole(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Give the records of jobs that have a result."""
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if "result" in record:
            yield record


def missing(jobs: Sequence[Job], results: Results) -> str:
    """Say which jobs were not run; nothing, if all were."""
    names = [job.name for job in jobs if job.key not in results.records]
    if not names:
        return ""
    shown = "; ".join(names[:6]) + (f"; and {len(names) - 6} more" if len(names) > 6 else "")
    return f"Not run, for want of time, {len(names)} of {len(jobs)} jobs: {shown}."


def elsewhere(jobs: Sequence[Job], results: Results) -> str:
    """Say which jobs ran on another machine than the page names; nothing, if none did."""
    cpu = results.machine.get("cpu", "")
    names = [job.name for job in jobs if results.records.get(job.key, {"cpu": cpu}).get("cpu", cpu) != cpu]
    return f"Run on the CPU of another machine: {'; '.join(names)}." if names else ""


def speed_remark(jobs: Sequence[Job], results: Results, words: str) -> str:
    """Say how long a step took on each kind of device; nothing, if no job has run."""
    parts = []
    for device, times in sorted(results.speeds(jobs).items()):
        kind = "GPU" if device.startswith("cuda") else "CPU core"
        parts.append(f"{statistics.median(times):.1f} ms per step on a {kind} ({len(times)} runs)")
    return f"Time, {words}, with other runs beside it: {'; '.join(parts)}." if parts else ""
