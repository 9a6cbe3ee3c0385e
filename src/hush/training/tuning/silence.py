"""Keeping quiet: what a private search must not tell while it runs, and the little that it may."""

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

_EVERY = 0.2
_WIDTH = 24


@contextmanager
def silenced() -> Iterator[None]:
    """Send to nowhere what is printed, warned of and logged by Python code, in the whole process.

    What native code writes by itself, and files, are beyond its reach.
    """
    before = logging.root.manager.disable
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        logging.disable(sys.maxsize)
        try:
            yield
        finally:
            logging.disable(before)


class Running:
    """A line that says that something is running. It moves with the clock, so that it counts nothing."""

    def __init__(self, *, show: bool) -> None:
        """Remember where to write: the error stream as it is now."""
        self._stream: TextIO | None = sys.stderr if show else None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        """Write the line; on a terminal, keep it moving."""
        if self._stream is None:
            return
        if not self._stream.isatty():
            self._stream.write("searching (how far it is, is secret)\n")
            self._stream.flush()
            return
        self._thread = threading.Thread(target=self._move, args=(self._stream,), daemon=True)
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the line away."""
        self._stop.set()
        if self._thread is not None and self._stream is not None:
            self._thread.join()
            self._stream.write("\r" + " " * (_WIDTH + 50) + "\r")
            self._stream.flush()

    def _move(self, stream: TextIO) -> None:
        place = 0
        while not self._stop.wait(_EVERY):
            bar = "." * place + "###" + "." * (_WIDTH - 3 - place)
            stream.write(f"\r[{bar}] searching (how far it is, is secret)")
            stream.flush()
            place = (place + 1) % (_WIDTH - 2)
