"""Silence: a private search must not reveal anything about its runs while it is running.

How many runs there are is secret, and so is everything they print, warn or log. A line that changes with time, not with
progress, shows that the search is running.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from types import TracebackType
from typing import TextIO

_SECONDS_PER_MOVE = 0.2
_WIDTH = 24
_TEXT = "searching (progress is secret)"


@contextmanager
def silenced() -> Iterator[None]:
    """Discard everything that Python code prints, warns or logs, in the whole process.

    It cannot discard what native code writes directly, nor what is written to files.
    """
    disabled_before = logging.root.manager.disable
    with (
        open(os.devnull, "w", encoding="utf-8") as devnull,
        redirect_stdout(devnull),
        redirect_stderr(devnull),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        _disable_logging(sys.maxsize)
        try:
            yield
        finally:
            _disable_logging(disabled_before)


def _disable_logging(level: int) -> None:
    """Discard messages up to a level. If they are discarded already, do nothing: each change visits all loggers."""
    if logging.root.manager.disable != level:
        logging.disable(level)


class SearchIndicator:
    """A line on the error stream while a search is running. It changes with time only, so it reveals no progress."""

    def __init__(self, *, show: bool) -> None:
        """Remember the error stream as it is now, before it is silenced."""
        self._stream: TextIO | None = sys.stderr if show else None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        """Write the line; on a terminal, keep it moving."""
        if self._stream is None:
            return
        if not self._stream.isatty():
            self._stream.write(f"{_TEXT}\n")
            self._stream.flush()
            return
        self._thread = threading.Thread(target=self._move, args=(self._stream,), daemon=True)
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Erase the line on a terminal."""
        self._stop.set()
        if self._thread is not None and self._stream is not None:
            self._thread.join()
            self._stream.write("\r" + " " * (_WIDTH + 50) + "\r")
            self._stream.flush()

    def _move(self, stream: TextIO) -> None:
        position = 0
        while not self._stop.wait(_SECONDS_PER_MOVE):
            bar = "." * position + "###" + "." * (_WIDTH - 3 - position)
            stream.write(f"\r[{bar}] {_TEXT}")
            stream.flush()
            position = (position + 1) % (_WIDTH - 2)
