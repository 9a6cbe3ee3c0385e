"""Restores a ledger from a backup: a new file that continues where the backup ends, and records this in a row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from hush.errors import InvalidArgument, Unsupported
from hush.ledger.accounts.people import Person, Role
from hush.ledger.history.anchors import AnchorFile
from hush.ledger.history.verification import Verification
from hush.ledger.storage import backup, reader
from hush.ledger.storage.entry import Entry, EntryKind
from hush.ledger.storage.errors import LedgerDamaged
from hush.ledger.storage.sqlite import SqliteStore

if TYPE_CHECKING:
    from hush.ledger.storage.store import Store


def write_backup(store: Store, path: Path) -> None:
    """Write a backup of a ledger's file."""
    if not isinstance(store, SqliteStore):
        raise Unsupported("a backup of a ledger in PostgreSQL by hush", "Use the server's: pg_dump, or its archive")
    backup.write_backup(store.path, path)


def restore(
    store: Store,
    person: Person,
    path: Path,
    result: Verification,
    *,
    is_last: bool,
    force: bool,
    anchors: AnchorFile | None = None,
) -> None:
    """Write a ledger from the backup in ``store``.

    Args:
        store: The backup.
        person: Who restores it.
        path: The new file.
        result: The verification of the backup.
        is_last: Whether a head that was kept, or the last anchor, is of the backup's last row.
        force: Restore even if charges may have been made after the backup.
        anchors: Where to anchor the row that records it.
    """
    person.require(Role.OWNER)
    if not isinstance(store, SqliteStore) or not store.is_backup:
        raise InvalidArgument("db", "...", "a file that `hush ledger backup` has written")
    if not result.ok:
        raise LedgerDamaged("The backup is damaged. Nothing was restored. Run `hush ledger verify` on it.")
    if not is_last and not force:
        raise InvalidArgument(
            "head",
            "...",
            "the head of the ledger when it was lost, and a backup of that row",
            "What was charged after the backup would be lost, and could be spent again",
            "Pass --head or --anchors, or --force (force=True) if nothing was charged since",
        )
    with backup.new_file(path) as unfinished:
        backup.copy(store.path, unfinished, f"DROP TRIGGER {reader.BACKUP}")
        made = SqliteStore(sa.URL.create("sqlite", database=unfinished))
        try:
            details = json.dumps({"rows": result.rows, "was_last": is_last})
            row = made.append(Entry(kind=EntryKind.RESTORED, author=person.name, details=details))
        finally:
            made.close()
    if anchors is not None:  # not before the file is in its place: nobody could continue from this anchor otherwise
        anchors(SqliteStore(sa.URL.create("sqlite", database=str(path))), row)
