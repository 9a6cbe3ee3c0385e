"""Waiting for the disk, together: one who waits does it for all who wrote before."""

from __future__ import annotations

import os
import threading

from hush.ledger.storage.errors import LedgerUnavailable


class Disk:
    """Brings a file to the disk, for the threads of one process.

    A thread that asks while another waits for the disk is served by the next wait, with all others that asked by then.

    The file is kept open, and a failure is remembered: after one, the system may forget what it could not write and
    report success the next time (Rebello et al. 2020, "Can Applications Recover from fsync Failures?").
    """

    def __init__(self) -> None:
        """Begin with no file."""
        self._changed = threading.Condition()
        self._asked = self._served = 0
        self._waiting = False
        self._failure: OSError | None = None
        self._file: int | None = None

    def sync(self, path: str) -> None:
        """Return when all that was written to the file before this call is on the disk; raise if it is not."""
        with self._changed:
            self._asked += 1
            mine = self._asked
            while self._waiting and self._served < mine:
                self._changed.wait()
            self._raise_failure()
            if self._served >= mine:
                return
            self._waiting, serves = True, self._asked
        done = False
        try:
            os.fsync(self._opened(path))
            done = True
        except OSError as error:
            self._failure = error
        finally:  # also after an interrupt: then nothing is known, and the next waits itself
            with self._changed:
                self._waiting = False
                if done:
                    self._served = max(self._served, serves)
                self._changed.notify_all()
        self._raise_failure()

    def __del__(self) -> None:
        """Close the file, if nobody called `close`."""
        self._forget_file()

    def close(self) -> None:
        """Close the file."""
        with self._changed:
            self._forget_file()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise LedgerUnavailable(
                f"The disk has failed ({self._failure.strerror}), and may have lost what was written. Nothing was "
                "released. Check the disk, then `hush ledger verify`, then open the ledger again."
            )

    def _opened(self, path: str) -> int:
        if self._file is not None and not os.path.samestat(os.fstat(self._file), os.stat(path)):
            self._forget_file()  # the last to close the ledger removes its log; another was begun since
        if self._file is None:
            self._file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
            try:
                os.fsync(folder)  # a new file is lost if its folder is
            finally:
                os.close(folder)
        return self._file

    def _forget_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
