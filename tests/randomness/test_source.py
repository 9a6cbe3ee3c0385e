"""Random sources: every word is given out once, whatever happens to the process, the object or the threads."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.errors import InvalidArgument, Unsupported
from hush.randomness import KeyedSource, RandomSource, TestSource, assumptions_of, source_or_default
from hush.randomness.source import SystemSource, system_source

BUFFER = 1 << 12  # words

# Before the fork: nothing drawn, a few words, a used-up buffer, a bulk draw.
USED = (0, 1, 5, BUFFER - 1, BUFFER, 3 * BUFFER + 1)


def in_child(action: Callable[[], bytes]) -> bytes:
    """Return what an action returns in a forked child."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():  # from Python 3.12 on: other threads of the test run may exist
        warnings.filterwarnings("ignore", "This process", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.write(writer, action())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as result:
        content = result.read()
    os.waitpid(child, 0)
    return content


def draw_words(source: RandomSource) -> bytes:
    return b"".join(source.word().to_bytes(8, "little") for _ in range(4)) + source.words(60).tobytes()


def parts(*streams: bytes) -> list[bytes]:
    return [stream[i : i + 8] for stream in streams for i in range(0, len(stream), 8)]


def all_different(*streams: bytes) -> bool:
    """Return whether no 64-bit word occurs twice. Among 704, the most in this file, chance repeats one with 1e-14."""
    words = parts(*streams)
    return len(words) == 64 * len(streams) and len(set(words)) == len(words)


@pytest.mark.parametrize("used", USED)
def test_a_fork_shares_no_words(used: int) -> None:
    source = SystemSource()
    source.words(used)
    children = [in_child(lambda: draw_words(source)) for _ in range(2)]
    assert all_different(*children, draw_words(source))


def test_the_processes_own_source_survives_a_fork() -> None:
    system_source().word()
    children = [in_child(lambda: draw_words(system_source())) for _ in range(2)]
    assert all_different(*children, draw_words(system_source()))


def test_a_grandchild_shares_no_words() -> None:
    source = SystemSource()
    source.word()

    def child() -> bytes:
        return in_child(lambda: draw_words(source)) + draw_words(source)

    family = in_child(child)
    assert all_different(family[: len(family) // 2], family[len(family) // 2 :], draw_words(source))


def test_a_fork_without_hooks_shares_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    # As when C code forks: all that has changed is the process id.
    source = SystemSource()
    source.word()
    ahead = bytes(source._buffer[source._position :])
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert not set(parts(draw_words(source))) & set(parts(ahead))


def test_a_fork_while_a_thread_holds_the_lock() -> None:
    source = SystemSource()
    source.word()
    with source._lock:
        child = in_child(lambda: draw_words(source))
    assert all_different(child, draw_words(source))


def send_words(source: RandomSource, connection: Any) -> None:
    connection.send(draw_words(source))
    connection.close()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_workers_of_multiprocessing_share_no_words() -> None:
    context = multiprocessing.get_context("fork")
    source = SystemSource()
    source.words(7)
    streams = []
    for _ in range(2):
        receiver, sender = context.Pipe(duplex=False)
        worker = context.Process(target=send_words, args=(source, sender))
        worker.start()
        streams.append(receiver.recv())
        worker.join()
    assert all_different(*streams, draw_words(source))


@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda source: pickle.loads(pickle.dumps(source))],
    ids=["copy", "deepcopy", "pickle"],
)
@pytest.mark.parametrize("used", USED)
def test_a_copied_system_source_is_another_one(duplicate: Callable[[RandomSource], RandomSource], used: int) -> None:
    source = SystemSource()
    source.words(used)
    other = duplicate(source)
    assert other is not source
    assert all_different(draw_words(source), draw_words(other))


def test_a_pickle_holds_no_state() -> None:
    source = SystemSource()
    before = pickle.dumps(source)
    source.words(100)
    assert pickle.dumps(source) == before
    assert repr(source) == "SystemSource()"


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda f: f.__name__)
def test_a_test_source_refuses_to_be_copied(duplicate: Callable[[RandomSource], Any]) -> None:
    source = TestSource(1)
    source.word()
    for holder in (source, [source], {"a": source}):
        if holder is source or duplicate is not copy.copy:
            with pytest.raises(Unsupported, match="copied or pickled"):
                duplicate(holder)  # type: ignore[arg-type]


@pytest.mark.parametrize("draw", [lambda s: s.words(3), lambda s: s.word(), lambda s: s.words(10**5)])
@pytest.mark.parametrize("used", USED)
@pytest.mark.quick_cases(7)
def test_a_test_source_stops_in_a_child(draw: Callable[[RandomSource], Any], used: int) -> None:
    source = TestSource(1)
    source.words(used)

    def child() -> bytes:
        try:
            draw(source)
        except Unsupported as refusal:
            return str(refusal).encode()
        return b"drawn"

    assert b"forked process" in in_child(child)
    # The parent goes on where it was.
    reference = TestSource(1)
    reference.words(used)
    assert draw_words(source) == draw_words(reference)


def test_a_spawned_source_serves_a_child() -> None:
    expected = draw_words(TestSource(1).spawn())

    def child() -> bytes:
        return draw_words(TestSource(1).spawn())

    assert in_child(child) == expected


@pytest.mark.parametrize("make", [SystemSource, lambda: TestSource("threads")], ids=["system", "test"])
def test_threads_never_get_the_same_words(make: Callable[[], RandomSource]) -> None:
    source = make()
    drawn: list[list[bytes]] = [[] for _ in range(8)]
    start = threading.Barrier(8)

    def work(words: list[bytes]) -> None:
        start.wait()
        for i in range(60):
            words.append(source.word().to_bytes(8, "little"))
            words.extend(parts(source.words(1 + 37 * i % 200).tobytes()))

    threads = [threading.Thread(target=work, args=(words,)) for words in drawn]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # False alarms: of 49,680 words two are equal with 49680^2 / 2^65 = 7e-11.
    words = [word for words in drawn for word in words]
    assert len(set(words)) == len(words) == 8 * sum(2 + 37 * i % 200 for i in range(60))


@given(st.lists(st.one_of(st.just(-1), st.integers(0, 40), st.integers(BUFFER - 2, 2 * BUFFER + 2)), max_size=12))
def test_a_seed_repeats_however_it_is_read(chunks: list[int]) -> None:
    # -1 stands for a single word.
    source = TestSource("chunks")
    pieces = [np.array([source.word()], np.uint64) if chunk < 0 else source.words(chunk) for chunk in chunks]
    together = np.concatenate([np.empty(0, np.uint64), *pieces])
    assert np.array_equal(together, TestSource("chunks").words(len(together)))


def test_seeds_and_spawns_give_different_streams() -> None:
    parent = TestSource(1)
    sources = [parent, TestSource("1"), TestSource(2), TestSource(-1), TestSource(""), TestSource(2**80)]
    first, second = parent.spawn(), parent.spawn()
    sources += [first, second, first.spawn(), second.spawn(), TestSource(2).spawn()]
    assert all_different(*(draw_words(source) for source in sources))


def test_spawns_repeat_and_do_not_disturb_the_parent() -> None:
    fresh, used = TestSource(5), TestSource(5)
    used.words(1000)
    assert draw_words(fresh.spawn()) == draw_words(used.spawn())
    assert draw_words(fresh) == draw_words(TestSource(5))


@pytest.mark.parametrize("make", [SystemSource, lambda: TestSource("sizes")], ids=["system", "test"])
def test_any_number_of_words(make: Callable[[], RandomSource]) -> None:
    source = make()
    for count in (0, 1, 2, 3, 7, 4095, 4096, 4097, np.int64(5), 0, 300_001):
        words = source.words(count)
        assert words.dtype == np.uint64
        assert words.shape == (count,)
        assert words.flags.writeable
    assert len(np.unique(words)) == len(words)  # false alarms: 300001^2 / 2^65 = 2e-9
    assert type(source.word()) is int
    assert all(0 <= source.word() < 1 << 64 for _ in range(100))


def test_words_are_uniform() -> None:
    # Each of the 64 bits of 200,000 words is one half of the time 1, to six and a half standard deviations: of 128 such
    # comparisons one fails with probability 1e-8.
    for source in (SystemSource(), TestSource("bits")):
        bits = np.unpackbits(source.words(200_000).view(np.uint8)).reshape(200_000, 64).mean(axis=0)
        assert np.abs(bits - 0.5).max() < 6.5 * 0.5 / np.sqrt(200_000)


@pytest.mark.parametrize("count", [-1, 1.0, 2.5, True, "3", None, float("nan")])
def test_what_is_no_count_is_refused(count: Any) -> None:
    with pytest.raises(InvalidArgument, match="^count="):
        SystemSource().words(count)


@pytest.mark.parametrize("seed", [True, 1.0, None, b"1", (1,), np.random.default_rng(1)])
def test_what_is_no_seed_is_refused(seed: Any) -> None:
    with pytest.raises(InvalidArgument, match="^seed="):
        TestSource(seed)


KEY = bytes(range(32))


def test_a_keyed_source_is_a_function_of_key_and_number() -> None:
    assert draw_words(KeyedSource(KEY, 3)) == draw_words(KeyedSource(KEY, 3))
    other_key = bytes([1, *KEY[1:]])
    sources = [KeyedSource(KEY, 0), KeyedSource(KEY, 1), KeyedSource(KEY, (1 << 96) - 1), KeyedSource(other_key, 0)]
    assert all_different(*(draw_words(source) for source in sources))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda f: f.__name__)
def test_a_keyed_source_refuses_to_be_copied(duplicate: Callable[[RandomSource], Any]) -> None:
    with pytest.raises(Unsupported, match="copied or pickled"):
        duplicate(KeyedSource(KEY, 3))


def test_a_keyed_source_stops_in_a_child() -> None:
    source = KeyedSource(KEY, 3)
    source.word()

    def child() -> bytes:
        try:
            source.word()
        except Unsupported as refusal:
            return str(refusal).encode()
        return b"drawn"

    assert b"forked process" in in_child(child)


@pytest.mark.parametrize("key", [None, "a" * 32, bytes(31), bytes(33), bytearray(32), 7])
def test_wrong_keys_are_refused_and_not_shown(key: Any) -> None:
    with pytest.raises(InvalidArgument, match="^key=.*32 secret bytes") as refusal:
        KeyedSource(key, 0)
    assert "aaaa" not in str(refusal.value)


@pytest.mark.parametrize("number", [-1, 1.0, True, None, 1 << 96])
def test_wrong_numbers_are_refused(number: Any) -> None:
    with pytest.raises(InvalidArgument, match="^number="):
        KeyedSource(KEY, number)


def test_only_test_sources_qualify_a_guarantee() -> None:
    assert assumptions_of(SystemSource()) == ()
    assert assumptions_of(TestSource(1)) == ("test randomness",)
    assert assumptions_of(KeyedSource(KEY, 1)) == (
        "keyed randomness: the key is secret, and no number of it is used twice",
    )
    assert assumptions_of(type("Own", (SystemSource,), {})()) == ("unverified randomness",)
    assert source_or_default(None) is system_source()
    for generator in (np.random.default_rng(1), 7, "seed", SystemSource):
        with pytest.raises(InvalidArgument, match="^source="):
            source_or_default(generator)  # type: ignore[arg-type]


def test_an_interrupted_refill_leaves_no_zeros() -> None:
    """A timeout within a draw left a buffer of zeros, which the next draws took for random."""

    class Interrupted(SystemSource):
        calls = 0

        def _stream(self, count: int) -> Any:
            self.calls += 1
            if self.calls == 1:
                raise TimeoutError
            return super()._stream(count)

    source = Interrupted()
    with pytest.raises(TimeoutError):
        source.words(6)
    assert np.count_nonzero(source.words(6)) == 6
