"""What the peers' scripts share: the question's arguments, time, memory and the form of the answer.

A script gives `serve` its packages and a function that prepares the question, untimed, and returns what answers it. The
time is from the file to the answer: imports, and the start of a session where there is one, are not in it. CPU seconds
are those of all threads, without child processes. Memory is the peak above what was resident after the imports.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Answer = dict[int, tuple[float, float, float]]  # of each group: count, sum, mean


@dataclass(frozen=True)
class Question:
    """COUNT, SUM and MEAN of a column by group, for all of it the privacy budget of one question."""

    path: str
    epsilon: float
    delta: float
    groups: int
    low: float
    high: float
    groups_per_unit: int
    rows_per_unit: int
    variant: str = ""  # which noise, where a peer has several; for hush: cold or warm

    @property
    def keys(self) -> list[int]:
        """The public keys."""
        return list(range(self.groups))


def serve(packages: list[str], prepare: Callable[[Question], tuple[Callable[[], Answer], dict[str, Any]]]) -> None:
    """Answer the question that the command line asks, and print what it took as one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("question", help="as JSON")
    parser.add_argument("--repetitions", type=int, default=1)
    options = parser.parse_args()
    question = Question(**json.loads(options.question))
    before = resident("VmRSS")
    forget_peak()
    seconds, cpu_seconds, answers = [], [], []
    for _ in range(options.repetitions):
        ask, notes = prepare(question)
        start, cpu_start = time.perf_counter(), time.process_time()
        answers.append(ask())
        seconds.append(time.perf_counter() - start)
        cpu_seconds.append(time.process_time() - cpu_start)
    print(
        json.dumps(
            {
                "seconds": seconds,
                "cpu_seconds": cpu_seconds,
                "memory_bytes": resident("VmHWM") - before,
                "answers": [[[int(key), *map(float, row)] for key, row in sorted(one.items())] for one in answers],
                "versions": {name: importlib.metadata.version(name) for name in packages},
                **notes,
            }
        ),
        flush=True,
    )


def forget_peak() -> None:
    """Let the highest use of memory so far start from what is used now, where Linux allows it."""
    for process in _family():
        try:
            Path(f"/proc/{process}/clear_refs").write_text("5")
        except OSError:
            continue


def resident(what: str) -> int:
    """Return the memory of this process and its children, such as Spark's: VmRSS now, VmHWM at most."""
    total = 0
    for process in _family():
        try:
            lines = Path(f"/proc/{process}/status").read_text().splitlines()
        except OSError:
            continue
        total += sum(1024 * int(line.split()[1]) for line in lines if line.startswith(what))
    return total


def _family() -> list[int]:
    processes, ahead = [], [os.getpid()]
    while ahead:
        process = ahead.pop()
        processes.append(process)
        try:
            threads = list(Path(f"/proc/{process}/task").iterdir())
            ahead += [int(child) for thread in threads for child in (thread / "children").read_text().split()]
        except OSError:
            continue
    return processes
