"""Anchors: signed heads of a ledger, kept in a file elsewhere.

Anyone who can write to a ledger can replace it by an older copy, or rewrite the whole chain with all hashes. The result
then contradicts the anchors: each says which hash a row had, and the signature (Ed25519) cannot be made without the
key.

A line is a JSON object: ``ledger`` (the hash of the first row, which identifies the ledger), ``rows``, ``head``,
``time`` (microseconds since 1970, by the signer's clock) and ``signature``. All but the last are signed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from hush.errors import HushError, InvalidArgument
from hush.ledger.history.records import Finding
from hush.ledger.storage import schema as schema
from hush.ledger.storage.entry import Entry
from hush.ledger.storage.errors import LedgerDamaged, LedgerUnavailable

if TYPE_CHECKING:
    from hush.ledger.storage.store import Store

_PURPOSE = b"hush ledger anchor 1\n"  # a signature over any other text cannot pass as an anchor
_LONGEST = 4096
"""Bytes that hold more than one line."""

_FIELDS = {"ledger": str, "rows": int, "head": str, "time": int}


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A signed statement: a ledger had this many rows, and the last one had this hash."""

    ledger: str
    rows: int
    head: str
    time: int

    def signed_bytes(self) -> bytes:
        """Return the bytes that are signed."""
        content = {name: getattr(self, name) for name in _FIELDS}
        return _PURPOSE + json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def new_key(path: Path) -> str:
    """Write a new private key that only its owner may read, and return the public key, as 64 hexadecimal digits."""
    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise InvalidArgument("key", str(path), "a new file", "A key is never overwritten") from None
    except OSError as error:
        raise InvalidArgument("key", str(path), f"a file that can be written ({error.strerror})") from None
    with os.fdopen(handle, "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(handle)
    return _hexadecimal(key.public_key())


class AnchorFile:
    """A file of anchors, to which a process appends with its private key.

    It follows one chain. A second file that continues the same ledger, such as a copy or a second restored backup, is
    refused as soon as the other one has anchored a row that this one lacks. Copies for other processes read the key
    again from its file.
    """

    def __init__(self, path: str | Path, key: str | Path) -> None:
        """Read the key."""
        self._path, self._key_path = Path(path).absolute(), Path(key).absolute()
        self._key = _private_key(self._key_path)

    def __call__(self, store: Store, row: Entry) -> None:
        """Anchor a new row of a ledger."""
        (first,) = store.rows(schema.entries.c.id == 1)
        self.append(first.hash, row, lambda number: store.rows(schema.entries.c.id == number))

    def append(self, ledger: str, row: Entry, numbered: Callable[[int], list[Entry]]) -> Anchor:
        """Sign a row as the head, and append the signature. It is on disk when this returns.

        ``numbered`` returns the ledger's row of a number, if there is one.
        """
        anchor = Anchor(ledger=ledger, rows=row.id, head=row.hash, time=time.time_ns() // 1000)
        signature = self._key.sign(anchor.signed_bytes()).hex()
        content = {name: getattr(anchor, name) for name in _FIELDS}
        line = json.dumps({**content, "signature": signature}).encode() + b"\n"
        try:
            with _locked(self._path) as handle:
                self._refuse_other(handle, ledger)
                self._refuse_fork(handle, numbered)
                # A crash may have left half a line. It stays, and ends here.
                os.write(handle, line if _is_complete(handle) else b"\n" + line)
                os.fsync(handle)
        except OSError as error:
            raise LedgerUnavailable(
                f"The anchor cannot be written ({error.strerror}). Nothing was released. The charge counts."
            ) from None
        return anchor

    def _refuse_other(self, handle: int, ledger: str) -> None:
        """Refuse a file that belongs to another ledger; to compare, the first line is enough."""
        first = os.pread(handle, _LONGEST, 0).partition(b"\n")[0]
        read = _read(first)
        if read is not None and read[0].ledger != ledger:
            raise InvalidArgument("anchors", str(self._path), "a file for this ledger", "It has another one's anchors")

    def _refuse_fork(self, handle: int, numbered: Callable[[int], list[Entry]]) -> None:
        """Refuse a ledger without the row of the last anchor: another file has continued the same ledger."""
        end = os.pread(handle, _LONGEST, max(0, os.fstat(handle).st_size - _LONGEST))
        for line in reversed(end.split(b"\n")):
            read = _read(line)
            if read is None:
                continue
            if [row.hash for row in numbered(read[0].rows)] != [read[0].head]:
                raise LedgerDamaged(
                    f"The last anchor is of a row {read[0].rows} that this ledger does not have: an older copy, or "
                    "another copy was used. Nothing was released. Continue with the copy that has it"
                )
            return

    def __eq__(self, other: object) -> bool:
        """Return whether both append to the same file with the same key."""
        return isinstance(other, AnchorFile) and self._paths == other._paths

    def __hash__(self) -> int:
        """Return a hash of the two paths."""
        return hash(self._paths)

    def __reduce__(self) -> tuple[Any, ...]:
        """Let another process of this machine append, too. The key is not written down, only where it is."""
        return AnchorFile, self._paths

    @property
    def _paths(self) -> tuple[Path, Path]:
        return self._path, self._key_path


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorCheck:
    """The result of comparing a ledger with its anchors, and how many were confirmed."""

    confirmed: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]


def check_anchors(rows: list[Entry], path: Path, public_key: str) -> AnchorCheck:
    """Compare a ledger's rows with the anchors in a file."""
    key, confirmed = _public_key(public_key), 0
    findings, notes = [], []
    for number, line in _lines(path):
        read = _read(line)
        if read is None:
            notes.append(f"Line {number} of the anchors is incomplete, as after a crash.")
            continue
        problem = _problem(rows, *read, key)
        if problem:
            findings.append(Finding(row=None, about="anchor", what=f"Anchor {number}: {problem}."))
        confirmed += not problem
    if not confirmed and not findings:
        findings.append(Finding(row=None, about="anchor", what="The file has no anchors of this ledger."))
    return AnchorCheck(confirmed=confirmed, findings=tuple(findings), notes=tuple(notes))


def last_head(path: Path, public_key: str) -> str:
    """Return the head of the anchor with most rows; empty if none was signed with this key."""
    key = _public_key(public_key)
    anchors = [read[0] for _, line in _lines(path) if (read := _read(line)) is not None and _is_signed(*read, key)]
    return max(anchors, key=lambda anchor: anchor.rows).head if anchors else ""


def _lines(path: Path) -> list[tuple[int, bytes]]:
    """Return the lines of a file that are not empty, with their numbers."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InvalidArgument("anchors", str(path), f"a file that can be read ({error.strerror})") from None
    return [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]


def _is_signed(anchor: Anchor, signature: bytes, key: Ed25519PublicKey) -> bool:
    try:
        key.verify(signature, anchor.signed_bytes())
    except InvalidSignature:
        return False
    return True


def _problem(rows: list[Entry], anchor: Anchor, signature: bytes, key: Ed25519PublicKey) -> str:
    """Return how a ledger contradicts an anchor; empty if it does not."""
    if not _is_signed(anchor, signature, key):
        return "it was not signed with this key"
    if not rows or rows[0].hash != anchor.ledger:
        return "it is of another ledger, or this one was rewritten from its first row"
    if len(rows) < anchor.rows:
        return f"there were {anchor.rows:,} rows, and now there are {len(rows):,}: rows were removed from the end"
    if rows[anchor.rows - 1].hash != anchor.head:
        return f"row {anchor.rows:,} is not the row that was signed: the ledger was rewritten"
    return ""


def _read(line: bytes) -> tuple[Anchor, bytes] | None:
    """Return the anchor in a line, and its signature; None if the line is none."""
    try:
        content: Any = json.loads(line)
        fields = {name: content[name] for name in _FIELDS}
        signature = bytes.fromhex(content["signature"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if any(type(fields[name]) is not kind for name, kind in _FIELDS.items()) or fields["rows"] < 1:
        return None
    return Anchor(**fields), signature


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Open a file for appending, and keep other processes of this machine from doing the same."""
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        if sys.platform != "win32":
            import fcntl

            with suppress(OSError):  # some file systems have no locks; then a line can come after half a line
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _is_complete(handle: int) -> bool:
    size = os.fstat(handle).st_size
    return size == 0 or os.pread(handle, 1, size - 1) == b"\n"


def _private_key(path: Path) -> Ed25519PrivateKey:
    try:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise InvalidArgument("key", str(path), "a file that only you can read", "Run chmod 600, or make a new key")
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except HushError:
        raise
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
        raise InvalidArgument("key", str(path), "a private key, as `hush ledger key` writes it") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidArgument("key", str(path), "a private key for Ed25519, as `hush ledger key` writes it")
    return key


def _public_key(text: str) -> Ed25519PublicKey:
    try:
        return Ed25519PublicKey.from_public_bytes(bytes.fromhex(text.strip()))
    except (ValueError, TypeError, AttributeError):
        raise InvalidArgument("public_key", text, "64 hexadecimal digits, as `hush ledger key` printed them") from None


def _hexadecimal(key: Ed25519PublicKey) -> str:
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()
