"""Sources of random bits: ChaCha20 keystreams, under keys from the operating system.

Words are read from a buffer of keystream. When the buffer is used up, a new key comes from the operating system. So no
key outlives 32 KiB of small draws or one bulk draw, and there is no stream to rewind. Three things could still make a
source repeat itself and so reveal the noise:

- *fork*: the child process would inherit the buffer and the key. A fork hook drops both in the child. For a fork that
  runs no Python hooks, every draw compares process ids.
- *pickle and copy*: a copy of a system source is a new source with a new key. A test source refuses to be copied.
- *threads*: a lock ensures that no two draws get the same part of the stream.
"""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

from hush.errors import InvalidArgument, Unsupported, check_count, check_instance

Words = NDArray[np.uint64]

TEST_RANDOMNESS = "test randomness"
KEYED_RANDOMNESS = "keyed randomness: the key is secret, and no number of it is used twice"
UNVERIFIED_RANDOMNESS = "unverified randomness"
"""The assumption of guarantees made with a `TestSource`. They protect no one."""

_ZEROS = bytes(1 << 20)  # encrypting zeros gives the keystream itself
_live: weakref.WeakSet[RandomSource] = weakref.WeakSet()  # for the fork hook


def chacha20(key: bytes, nonce: int = 0, *, block: int = 0) -> CipherContext:
    """Return the keystream of a key and a nonce, from this block of 64 bytes on."""
    return Cipher(ChaCha20(key, block.to_bytes(4, "little") + nonce.to_bytes(12, "little")), mode=None).encryptor()


class RandomSource(ABC):
    """A stream of uniform random bits. Each bit is used only once.

    Pass one as ``source`` to anything in hush that draws noise. You rarely need to: without it, hush uses
    `system_source`. You can write your own subclass, but guarantees made with it say "unverified randomness".

    >>> source = TestSource(seed=1)
    >>> source.words(2).dtype, 0 <= source.word() < 2**64
    (dtype('uint64'), True)
    """

    _buffer_size: ClassVar[int] = 1 << 15  # bytes

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

    def _reset_after_fork(self) -> None:
        """Drop the buffer, which the parent process has too, and a lock whose holder may not exist in this process."""
        self._lock = threading.Lock()
        self._buffer, self._position = bytearray(), 0
        self._process = os.getpid()

    def _check_process(self) -> None:
        if self._process != os.getpid():
            self._reset_after_fork()

    def _fill(self, target: memoryview) -> None:
        """Write the next bytes of the stream to ``target``: first from the buffer, then from fresh keystream."""
        ready = min(len(target), len(self._buffer) - self._position)
        target[:ready] = memoryview(self._buffer)[self._position : self._position + ready]
        self._position += ready
        rest = target[ready:]
        # Larger draws bypass the buffer, and are written straight to their target.
        if 0 < len(rest) < self._buffer_size:
            # The old buffer is replaced once the new one is full. An interrupt in between must not leave zeros behind.
            fresh = bytearray(self._buffer_size)
            _write(self._stream(len(fresh)), memoryview(fresh))
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
        source._reset_after_fork()


os.register_at_fork(after_in_child=_after_fork)


class SystemSource(RandomSource):
    """Unpredictable bits: ChaCha20 under keys from the operating system's entropy.

    It survives forks, threads, copies and pickles without repeating a bit.

    >>> import copy
    >>> source = SystemSource()
    >>> source.word() != copy.copy(source).word()
    True
    """

    def _stream(self, count: int) -> CipherContext:
        # A fresh key for every buffer: a key that leaks reveals 32 KiB, or one bulk draw.
        return chacha20(os.urandom(32))

    def __reduce__(self) -> tuple[Any, ...]:
        """Turn copies and pickles into new sources."""
        return SystemSource, ()

    def __repr__(self) -> str:
        """Return a string without any of the state."""
        return "SystemSource()"


class TestSource(RandomSource):
    """Returns the same bits for the same seed; for tests only. Every guarantee made with it says "test randomness".

    Anyone who knows the seed can subtract the noise. A test source cannot be pickled or copied, and it stops working
    in a forked process, where it would repeat itself. Give each process its own seed, or `spawn` sources.

    >>> TestSource(seed=7).word() == TestSource(seed=7).word()
    True
    >>> assumptions_of(TestSource(seed=7))
    ('test randomness',)

    Args:
        seed: An integer or a text; 1 and "1" are different seeds.
    """

    __test__ = False  # its name is not that of a test case

    def __init__(self, seed: int | str) -> None:
        """Start the stream of this seed."""
        check_instance("seed", seed, (int, str))
        if isinstance(seed, bool):
            raise InvalidArgument("seed", seed, "an integer or text")
        kind = "text" if isinstance(seed, str) else "integer"
        # The kind is hashed, too, because 1 and "1" are different seeds.
        self._key = hashlib.sha256(f"hush test randomness {kind} {seed}".encode()).digest()
        self._keystream = chacha20(self._key)
        self._dead = False
        self._children = 0
        super().__init__()

    def spawn(self) -> TestSource:
        """Return an independent source. It depends on the seed and on how many sources were spawned before."""
        with self._lock:
            self._check_process()
            self._refuse_if_dead()
            self._children += 1
            return TestSource(f"{self._key.hex()} {self._children}")

    def _refuse_if_dead(self) -> None:
        if self._dead:
            raise Unsupported(
                "a test source in a forked process: it would repeat its stream", "Give each process its own seed"
            )

    def _stream(self, count: int) -> CipherContext:
        self._refuse_if_dead()
        return self._keystream

    def _reset_after_fork(self) -> None:
        super()._reset_after_fork()
        self._dead = True

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled: a copy would repeat the stream."""
        raise Unsupported("a test source cannot be copied or pickled: a copy would repeat its stream", "Use spawn()")

    def __repr__(self) -> str:
        """Return a string without the seed or the position."""
        return "TestSource(...)"


class KeyedSource(RandomSource):
    """Derives bits from a secret key and a public number, always the same ones.

    Use it for computations that must be resumed exactly: the noise of a training step is a function of (key, step).
    Using one number for two purposes would repeat the noise. Never go back to an earlier number, except to repeat
    exactly the same step.

    >>> key = bytes(range(32))
    >>> KeyedSource(key, 5).word() == KeyedSource(key, 5).word() != KeyedSource(key, 6).word()
    True

    Args:
        key: 32 secret bytes.
        number: From 0 to 2^96 - 1.
    """

    _buffer_size = 1 << 10  # most sources of a key are used for one small draw

    def __init__(self, key: bytes, number: int) -> None:
        """Start the stream of this key and number."""
        if not isinstance(key, bytes):  # the message must not show the key
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
            raise Unsupported(
                "a keyed source in a forked process: it would repeat its stream", "Create it in the process that draws"
            )
        return self._keystream

    def _reset_after_fork(self) -> None:
        super()._reset_after_fork()
        self._dead = True

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled."""
        raise Unsupported("a keyed source cannot be copied or pickled: a copy would repeat its stream")


_system = SystemSource()


def system_source() -> RandomSource:
    """Return this process's own source, the default for everything that draws noise.

    >>> system_source() is system_source()
    True
    """
    return _system


def assumptions_of(source: RandomSource) -> tuple[str, ...]:
    """Return the assumptions that a guarantee made with this source must state.

    This depends on the class, not on an attribute, so no instance can hide that it is meant for tests.
    """
    # A subclass could return anything, so only the exact class is trusted.
    if type(source) is SystemSource:
        return ()
    if isinstance(source, TestSource):
        return (TEST_RANDOMNESS,)
    if type(source) is KeyedSource:
        return (KEYED_RANDOMNESS,)
    return (UNVERIFIED_RANDOMNESS,)


def source_or_default(source: RandomSource | None) -> RandomSource:
    """Return ``source``, or the process's own if it is None; refuse anything else, such as a NumPy generator."""
    if source is None:
        return _system
    check_instance("source", source, RandomSource, "NumPy's generators are predictable: use SystemSource()")
    return source
