"""What the contenders' scripts share: rows of a table, and a loop that answers questions about them.

A script gives `serve` its packages and rows. Each line of standard input is a question (a row, a task's file, an
epsilon or none, a seed), each line of standard output its answer: the measure and the fit's seconds, or what failed.
"""

from __future__ import annotations

import importlib.metadata
import json
import signal
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from measures import KINDS, Fold
from tasks import Task

DELTA = 1e-5
LIMIT = 20  # seconds of computing for one fit


@dataclass(frozen=True)
class Row:
    """A contender: how it is made and fitted, in which view of the rows, and what its guarantee truly is.

    Attributes:
        family: What it is compared within, such as logistic.
        fit: From (fold, epsilon, seed) to what the kind measures.
        view: box or ball.
        delta: Of the guarantee; None if there is no guarantee to speak of.
        true: The true guarantee, and how it was found; "" where it is what was asked for.
        sound: Whether it has the guarantee of the column that it stands in.
        private: Whether there is an epsilon at all.
        skip: Tasks that it is not for.
        slow: Whether it gets fewer seeds.
    """

    family: str
    kind: str
    fit: Callable[[Fold, float, int], Any]
    view: str = "box"
    delta: float = 0.0
    true: str = ""
    sound: bool = True
    private: bool = True
    skip: tuple[str, ...] = ()
    slow: bool = False

    def told(self) -> dict[str, Any]:
        """Return what there is to know before a question is asked."""
        tasks = [name for name in KINDS[self.kind].tasks if name not in self.skip]
        names = ("family", "kind", "delta", "true", "sound", "private", "slow")
        return {"tasks": tasks, **{name: getattr(self, name) for name in names}}


@lru_cache(maxsize=2)
def _task(path: str) -> Task:
    return Task.load(Path(path))


def answer(rows: dict[str, Row], question: dict[str, Any]) -> dict[str, Any]:
    """Fit once and measure."""
    row, fold = rows[question["row"]], Fold(_task(question["path"]), question["seed"])
    start = time.process_time()  # a busy machine makes nothing too slow
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    model = row.fit(fold, question["epsilon"], question["seed"])
    signal.setitimer(signal.ITIMER_PROF, 0)
    seconds = time.process_time() - start
    return {"value": KINDS[row.kind].measure(model, fold, row.view), "seconds": seconds}


def _late(signum: int, frame: Any) -> None:
    raise TimeoutError(f"took more than {LIMIT} seconds")


def serve(packages: list[str], rows: dict[str, Row]) -> None:
    """Answer questions until there are no more."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, _late)
    versions = {name: importlib.metadata.version(name) for name in packages}
    print(json.dumps({"versions": versions, "rows": {name: row.told() for name, row in rows.items()}}), flush=True)
    for line in sys.stdin:
        try:
            reply = answer(rows, json.loads(line))
        except Exception as error:
            signal.setitimer(signal.ITIMER_PROF, 0)
            reply = {"failure": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(reply), flush=True)
