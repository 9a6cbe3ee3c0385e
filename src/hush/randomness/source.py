"""Sources of random bits: a ChaCha20 counter stream, keyed by the operating system.

Numbers are read from a buffer of keystream. When it is used up a new key comes from the operating system, so no key
outlives 32 KiB of small draws or one bulk draw, and there is no stream to rewind. What could still replay one:

- *fork*: the child would inherit buffer and key. Both are dropped in the child by a fork hook, and, for a fork that
  runs no Python hooks, by comparing process ids.
- *pickle, copy*: a copied system source is a new one with a new key; a test source refuses to be copied.
- *threads*: a lock makes every draw take its own part of the stream.
"""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from abc import ABC, abstractmethod
from typing import Any, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

from hush.errors import InvalidArgument, Unsupported, check_count, check_instance

Words = NDArray[np.uint64]

_BUFFER = 1 << 15
_ZEROS = bytes(1 << 20)
_live: weakref.WeakSet[RandomSource] = weakref.WeakSet()


def chacha20(key: bytes, nonce: int = 0) -> CipherContext:
    """Return the keystream of a key from counter 0 on, what it adds to zeros; another one for every nonce."""
    return Cipher(ChaCha20(key, bytes(4) + nonce.to_bytes(12, "little")), mode=None).encryptor()


class RandomSource(ABC):
    """Uniform random bits, each given out once."""

    def __init__(self) -> None:
        """Start an empty buffer."""
        self._lock = threading.Lock()
        self._buffer = bytearray()
        self._position = 0
        self._process = os.getpid()
        _live.add(self)

    def words(self, count: int) -> Words:
        """Return ``count`` uniform 64-bit words."""
        check_count("count", count, minimum=0)
        result = np.empty(count, dtype=np.uint64)
        with self._lock:
            self._check_process()
            self._fill(result.data.cast("B"))
        return result

    def word(self) -> int:
        """Return one uniform 64-bit word."""
        with self._lock:
            self._check_process()
            start = self._position
            if start + 8 > len(self._buffer):
                block = bytearray(8)
                self._fill(memoryview(block))
                return int.from_bytes(block, "little")
            self._position = start + 8
            return int.from_bytes(self._buffer[start : start + 8], "little")

    @abstractmethod
    def _stream(self, count: int) -> CipherContext:
        """Return the keystream that the next ``count`` bytes come from."""

    def _forked(self) -> None:
        """Make sure that a child process repeats nothing: forget the buffer, and a lock that nobody may hold here."""
        self._lock = threading.Lock()
        self._buffer, self._position = bytearray(), 0
        self._process = os.getpid()

    def _check_process(self) -> None:
        if self._process != os.getpid():
            self._forked()

    def _fill(self, target: memoryview) -> None:
        """Write the next bytes of the stream: what the buffer has, then fresh ones."""
        ready = min(len(target), len(self._buffer) - self._position)
        target[:ready] = memoryview(self._buffer)[self._position : self._position + ready]
        self._position += ready
        rest = target[ready:]
        if 0 < len(rest) < _BUFFER:
            # Only a buffer that is full of keystream replaces the old one: whatever interrupts this, no zeros are left.
            fresh = bytearray(_BUFFER)
            _write(self._stream(_BUFFER), memoryview(fresh))
            self._buffer, self._position = fresh, len(rest)
            rest[:] = memoryview(fresh)[: len(rest)]
        elif rest:
            _write(self._stream(len(rest)), rest)


def _write(stream: CipherContext, target: memoryview) -> None:
    for start in range(0, len(target), len(_ZEROS)):
        part = target[start : start + len(_ZEROS)]
        stream.update_into(memoryview(_ZEROS)[: len(part)], part)


def _after_fork() -> None:
    for source in list(_live):
        source._forked()


os.register_at_fork(after_in_child=_after_fork)


class SystemSource(RandomSource):
    """Bits that nobody can predict: ChaCha20 under keys from the operating system's entropy."""

    def _stream(self, count: int) -> CipherContext:
        return chacha20(os.urandom(32))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as a new source."""
        return SystemSource, ()

    def __repr__(self) -> str:
        """Show nothing of the state."""
        return "SystemSource()"


class TestSource(RandomSource):
    """The same bits for the same seed: for tests only. Every guarantee made with it says ``test randomness``.

    Whoever knows the seed can subtract the noise. A test source cannot be pickled or copied, and stops working in a
    forked child, where it would repeat itself: give each process a seed of its own.
    """

    __test__ = False  # its name is not that of a test case

    def __init__(self, seed: int | str) -> None:
        """Start the stream that belongs to the seed."""
        check_instance("seed", seed, (int, str))
        if isinstance(seed, bool):
            raise InvalidArgument("seed", seed, "an integer or text")
        kind = "text" if isinstance(seed, str) else "integer"
        self._key = hashlib.sha256(f"hush test randomness {kind} {seed}".encode()).digest()
        self._keystream = chacha20(self._key)
        self._dead = False
        self._children = 0
        super().__init__()

    def spawn(self) -> TestSource:
        """Return a source with a stream of its own, which depends on the seed and on how many were spawned before."""
        with self._lock:
            self._check_process()
            self._refuse_if_dead()
            self._children += 1
            return TestSource(f"{self._key.hex()} {self._children}")

    def _refuse_if_dead(self) -> None:
        if self._dead:
            raise Unsupported("a test source in a forked process: it would repeat its stream", "Give it its own seed")

    def _stream(self, count: int) -> CipherContext:
        self._refuse_if_dead()
        return self._keystream

    def _forked(self) -> None:
        super()._forked()
        self._dead = True

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled: a copy would repeat the stream."""
        raise Unsupported("a test source cannot be copied or pickled: a copy would repeat its stream", "Use spawn()")

    def __repr__(self) -> str:
        """Say what it is, not where it stands."""
        return "TestSource(...)"


class KeyedSource(RandomSource):
    """The stream of a secret key and a public number, the same whenever it is asked for.

    For computations that must be resumed exactly: noise is a function of (key, number of the step). Two uses of one
    number would repeat it; whoever counts must never count back, other than to redo the very same step.
    """

    def __init__(self, key: bytes, number: int) -> None:
        """Start the stream of a 32-byte key and a number from 0 to 2^96 - 1."""
        if not isinstance(key, bytes):  # a message must not show it
            raise InvalidArgument("key", type(key).__name__, "32 secret bytes")
        if len(key) != 32:
            raise InvalidArgument("key", f"{len(key)} bytes", "32 secret bytes")
        if not check_count("number", number, minimum=0) < 1 << 96:
            raise InvalidArgument("number", number, "less than 2^96")
        self._keystream = chacha20(key, number)
        self._dead = False
        super().__init__()

    def _stream(self, count: int) -> CipherContext:
        if self._dead:
            raise Unsupported("a keyed stream in a forked process: it would be repeated", "Draw where it was made")
        return self._keystream

    def _forked(self) -> None:
        super()._forked()
        self._dead = True

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled."""
        raise Unsupported("a keyed stream cannot be copied or pickled: a copy would repeat it")


_system = SystemSource()


def system_source() -> RandomSource:
    """Return this process's source, which everything uses that is not given another one."""
    return _system


def assumptions_of(source: RandomSource) -> tuple[str, ...]:
    """Return what a guarantee that rests on this source must say; decided by its class, so nobody can take it off."""
    if type(source) is SystemSource:
        return ()
    if isinstance(source, TestSource):
        return ("test randomness",)
    if type(source) is KeyedSource:
        return ("keyed randomness: the key is secret, and no number of it is used twice",)
    return ("unverified randomness",)


def source_or_default(source: RandomSource | None) -> RandomSource:
    """Return the given source or the system's; refuse anything else, such as a NumPy generator."""
    if source is None:
        return _system
    check_instance("source", source, RandomSource, "NumPy's generators are predictable: use SystemSource()")
    return source
