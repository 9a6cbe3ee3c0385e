"""Group commit: threads that wait for the disk at the same time share one fsync."""

from __future__ import annotations

import os
import threading

from hush.ledger.storage.errors import LedgerUnavailable


class Disk:
    """Flushes a file to disk for the threads of one process.

    While one thread waits in fsync, others queue up. The next fsync serves all of them.

    The file stays open and a failure is permanent: after a failed fsync, the kernel may drop the dirty pages and report
    success the next time (Rebello et al. 2020, "Can Applications Recover from fsync Failures?").
    """

    _close_file = staticmethod(os.close)  # for `__del__`: when Python ends, the names of modules go first

    def __init__(self) -> None:
        """Start without a file. `sync` opens it."""
        self._changed = threading.Condition()
        self._requested = self._flushed = 0  # how many calls of `sync` came in, and how many are on disk
        self._waiting = False
        self._failure: OSError | None = None
        self._file: int | None = None

    def sync(self, path: str) -> None:
        """Return once everything written to the file before this call is on disk.

        Raises:
            LedgerUnavailable: If the disk has failed, now or in an earlier call.
        """
        with self._changed:
            self._requested += 1
            ticket = self._requested
            while self._waiting and self._flushed < ticket:
                self._changed.wait()
            self._raise_failure()
            if self._flushed >= ticket:
                return
            self._waiting, last_ticket = True, self._requested
        done = False
        try:
            os.fsync(self._opened(path))
            done = True
        except OSError as error:
            self._failure = error
        finally:  # after an interrupt, too: the outcome is unknown, so the next thread flushes again
            with self._changed:
                self._waiting = False
                if done:
                    self._flushed = max(self._flushed, last_ticket)
                self._changed.notify_all()
        self._raise_failure()

    def __del__(self) -> None:
        """Close the file if `close` was not called."""
        self._forget_file()

    def close(self) -> None:
        """Close the file."""
        with self._changed:
            self._forget_file()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise LedgerUnavailable(
                f"The disk failed ({self._failure.strerror}) and may have lost writes. Nothing was released. "
                "Check the disk, run `hush ledger verify`, then open the ledger again."
            )

    def _opened(self, path: str) -> int:
        if self._file is not None and not os.path.samestat(os.fstat(self._file), os.stat(path)):
            self._forget_file()  # the log was removed when the last user closed the ledger; a new one exists
        if self._file is None:
            self._file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
            try:
                os.fsync(folder)  # a new file survives a crash only if its directory entry is on disk
            finally:
                os.close(folder)
        return self._file

    def _forget_file(self) -> None:
        if self._file is not None:
            self._close_file(self._file)
            self._file = None
