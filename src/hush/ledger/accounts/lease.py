"""Leases record which process is working on a pending reservation.

A long run reserves once, may be interrupted, and continues later, perhaps from a copy of its folder. One reservation
pays for one run. So a process holds the reservation while it works on it, says every few seconds that it is alive, and
notes how many states it has stored. Another process may take over once the first one is gone, from a state that is not
older than the last one that was noted: anything published so far belongs to that state.

A lease keeps honest processes apart. It is not part of the hash chain, and changes no budget.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from hush.errors import HushError, InvalidArgument
from hush.ledger.storage import schema as schema
from hush.ledger.storage.store import AlreadyThere

if TYPE_CHECKING:
    from hush.ledger.storage.store import Store

DURATION = 120.0
"""Seconds after its last sign of life for which a process holds a lease; it is counted as dead then."""

_INTERVAL = DURATION / 6
_MICROSECONDS = 1_000_000
_LETTING_GO: set[threading.Thread] = set()
"""Threads of leases that were not waited for. The next lease of this process does so."""


class Lease:
    """The hold of this process on one reservation.

    A separate thread renews it until `release` is called or the process ends.
    """

    def __init__(self, store: Store, charge: int, states: int) -> None:
        """Take the lease of a reservation for a run that has stored so many states."""
        self._store, self._charge, self._states = store, charge, states
        self._holder = f"{_machine()} {os.getpid()} {_started(os.getpid())} {os.urandom(8).hex()}"
        self._ended = threading.Event()
        for ending in list(_LETTING_GO):
            ending.join()
        try:
            with store.writing() as connection:
                self._take(connection)
        except AlreadyThere:  # PostgreSQL: another process took it at the same moment
            raise _held("just now") from None
        self._thread = threading.Thread(target=self._live, name=f"hush-lease-{charge}", daemon=True)
        self._thread.start()

    def note(self, states: int) -> None:
        """Record how many states are stored. Raise if another process has taken over."""
        if states < self._states:
            raise _older(states, self._states)
        self._states = states
        with self._store.writing() as connection:
            self.check(connection)
            self._write(connection, schema.leases.update().where(schema.leases.c.charge == self._charge))

    def check(self, connection: sa.Connection) -> None:
        """Raise, inside a transaction, if another process has taken over."""
        row = _row(connection, self._charge, lock=True)
        if row is None or row.holder != self._holder:
            raise InvalidArgument(
                "reservation",
                self._charge,
                "a reservation that this process holds",
                "Another process has continued this run, so this one publishes nothing",
            )

    def release(self, *, wait: bool = True) -> None:
        """Release the reservation, so that another process can take it at once.

        The lease's thread does it. Dropping a run must not block: the garbage collector may run in
        the middle of a transaction, whose lock the thread needs.
        """
        if not wait and self._thread.is_alive():
            _LETTING_GO.add(self._thread)
        self._ended.set()
        if wait:
            self._thread.join()  # a transaction that is still open would lose its connection when the ledger is closed

    def _take(self, connection: sa.Connection) -> None:
        """Write the lease, unless another process holds it or has stored a later state."""
        row = _row(connection, self._charge, lock=True)
        if row is None:
            self._write(connection, schema.leases.insert())
            return
        seconds = idle_seconds(self._store, connection, self._charge)
        if seconds is not None:
            raise _held(f"{seconds:.0f} seconds ago")
        if self._states < row.states:
            raise _older(self._states, row.states)
        self._write(connection, schema.leases.update().where(schema.leases.c.charge == self._charge))

    def _write(self, connection: sa.Connection, statement: sa.Insert | sa.Update) -> None:
        now = self._store.now(connection)
        values = {"charge": self._charge, "holder": self._holder, "beat": now, "states": self._states}
        connection.execute(statement.values(**values))

    def _live(self) -> None:
        """Say every few seconds that this process is alive, until the lease ends; then let go of the reservation."""
        while not self._ended.wait(_INTERVAL):
            with suppress(HushError):  # a database that is away for a minute ends no run; `note` and commit will tell
                self.note(self._states)
        table = schema.leases
        mine = (table.c.charge == self._charge, table.c.holder == self._holder)
        with suppress(HushError), self._store.writing() as connection:
            connection.execute(table.update().where(*mine).values(holder=""))
        _LETTING_GO.discard(threading.current_thread())


def idle_seconds(store: Store, connection: sa.Connection, charge: int) -> float | None:
    """Return how long ago the process that works on a reservation was alive; None if there is no such process."""
    row = _row(connection, charge)
    if row is None or not row.holder or _is_dead(row.holder):
        return None
    # A time in the future comes from a clock that was wrong. It must not block the run forever.
    seconds: float = abs(store.now(connection) - row.beat) / _MICROSECONDS
    return seconds if seconds < DURATION else None


def stored_states(connection: sa.Connection, charge: int) -> int:
    """Return how many states the run of a reservation has stored, and so may have measured and published."""
    row = _row(connection, charge)
    return 0 if row is None else int(row.states)


def _row(connection: sa.Connection, charge: int, *, lock: bool = False) -> sa.Row[tuple[int, str, int, int]] | None:
    """Return the lease of a reservation; locked until the end of the transaction, where the database has such locks."""
    query = sa.select(schema.leases).where(schema.leases.c.charge == charge)
    row: sa.Row[tuple[int, str, int, int]] | None
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    return row


def _older(states: int, latest: int) -> InvalidArgument:
    return InvalidArgument(
        "resume",
        f"a run with {states} stored states",
        f"the run's own folder, with {latest}",
        "This is an older copy, or the run was continued from this state before",
        "What was released since would not be paid for. To start anew, commit the reservation",
    )


def _held(when: str) -> InvalidArgument:
    return InvalidArgument(
        "resume",
        "...",
        "a run that no other process is working on",
        f"One was active {when}",
        f"If it is dead, try again in {DURATION:.0f} seconds",
    )


def _is_dead(holder: str) -> bool:
    """Return whether a lease's process is known to have ended: it ran here, and is gone."""
    match = re.fullmatch(r"(\S+) ([0-9]{1,10}) (\S*) [0-9a-f]+", holder)  # another text is of another program
    return match is not None and match[1] == _machine() and _started(int(match[2])) != match[3]


def _machine() -> str:
    """Return a name of the machine or container whose process numbers these are."""
    parts = [socket.gethostname()]
    with suppress(OSError):  # Linux only
        parts += [Path("/proc/sys/kernel/random/boot_id").read_text().strip(), os.readlink("/proc/self/ns/pid")]
    return "/".join(parts).replace(" ", "_")


def _started(process: int) -> str:
    """Return when a process was started, in the system's units; empty if it does not run, ``?`` if unknown."""
    try:
        # The name, in brackets, may hold spaces. Field 22 is the start; 20 fields after the name.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except FileNotFoundError:
        return "" if Path("/proc/self/stat").exists() else _running(process)
    except OSError:
        return "?"


def _running(process: int) -> str:
    """Return ``?`` if a process runs, where the system does not say since when; otherwise an empty text."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        return "?"
    return "?"
