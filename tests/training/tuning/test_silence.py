"""Nothing of a search is revealed while it runs, nor the number of its runs afterwards."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from hush.randomness import TestSource
from hush.training import Candidate, Repetitions
from hush.training.tuning import silence
from training.searches import planned


def loud(settings: dict[str, Any], noise: float) -> Candidate:
    print("accuracy of run: 0.9")
    warnings.warn("loss is nan", stacklevel=1)
    logging.getLogger("training").error("run done")
    return Candidate(0.5)


class Log(logging.Handler):
    """Keeps what is logged. Pytest's own is switched off: it costs each of thousands of tests a third of its set-up."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@pytest.fixture
def log() -> Iterator[Log]:
    handler = Log()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


def test_nothing_of_a_run_is_shown(capfd: pytest.CaptureFixture[str], log: Log) -> None:
    plan = planned(Repetitions.negative_binomial(20.0))
    for progress in (False, True):
        shown = []
        for seed in range(4):  # different numbers of runs
            plan.run(loud, source=TestSource(seed), progress=progress)
            shown.append("".join(capfd.readouterr()))
        assert set(shown) == {"searching (progress is secret)\n" if progress else ""}
    assert not log.messages
    logging.getLogger("training").error("after")
    assert log.messages == ["after"]
    with pytest.warns(UserWarning, match="loss is nan"):
        loud({}, 1.0)  # outside a search, it is as loud as ever
    assert "accuracy" in capfd.readouterr().out


def test_a_terminal_shows_what_depends_on_the_clock_only(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    moved = threading.Event()

    class Terminal:
        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> None:
            written.append(text)
            moved.set() if len(written) > 3 else None

        def flush(self) -> None:
            pass

    monkeypatch.setattr("hush.training.tuning.silence._SECONDS_PER_MOVE", 0.01)
    monkeypatch.setattr("sys.stderr", Terminal())
    with silence.SearchIndicator(show=True):
        assert moved.wait(600), "the line stands still"
    assert all(set(text) <= set("\r[#.] searching (progress is secret)") for text in written)


def test_the_result_does_not_tell_the_number_of_runs() -> None:
    plan, results = planned(Repetitions.negative_binomial(20.0)), set()
    # Each number of runs has probability at most 1 / 20: at most two different ones with probability 1e-14.
    for seed in range(20):
        runs = []
        best = plan.run(lambda s, n, runs=runs: runs.append(0) or Candidate(1.0), source=TestSource(seed))  # type: ignore[misc, func-returns-value]
        results.add((len(runs), repr(best)))
    assert len({number for number, _ in results}) > 2
    assert len({text for _, text in results}) == 1
