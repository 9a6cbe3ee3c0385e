"""Randomness in tests: reproducible by default, real with ``--real-randomness``.

Each test starts from bits that follow from its name: those of the operating system, which key hush's sources, and those
of the global generators of Python, NumPy and torch. So its outcome depends neither on luck nor on which tests ran
before it in the same worker. Child processes draw real randomness, as forked sources must not repeat themselves.

``--repeat N`` runs every test that draws real randomness, or starts a process that may, N times. What a test draws from
a global generator counts, unless the test has seeded it. A fixture of a module is set up once: what it draws, such as
a run that the tests of one file share, is not drawn again.
"""

from __future__ import annotations

import gc
import hashlib
import itertools
import multiprocessing.util
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest
from _pytest.runner import runtestprotocol

from hush.randomness.source import system_source

_DREW = pytest.StashKey[list[str]]()
_GENERATORS = pytest.StashKey[list["_GlobalGenerator"]]()
_PATCH = pytest.StashKey[pytest.MonkeyPatch]()
_PROCESS = os.getpid()
_real = os.urandom

# A forked child has the objects of earlier tests, but not the threads that some belong to: collecting them crashes.
os.register_at_fork(after_in_child=gc.disable)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("chance")
    group.addoption("--real-randomness", action="store_true", help="draw from the operating system in every test")
    group.addoption("--repeat", type=int, default=1, help="how often to run tests that draw real randomness")


def stream(name: str) -> Callable[[int], bytes]:
    """Return a stand-in for os.urandom: the same bytes for the same name, real ones in child processes."""
    numbers = itertools.count()

    def urandom(size: int) -> bytes:
        if os.getpid() != _PROCESS:
            return _real(size)
        return hashlib.shake_256(f"{name} {next(numbers)}".encode()).digest(size)

    return urandom


@contextmanager
def fixed_randomness(name: str) -> Iterator[None]:
    """Draw what follows from a name, even with ``--real-randomness``: for what cannot be given a `TestSource`."""
    urandom = stream(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", urandom)
        patch.setattr(random, "_urandom", urandom)
        system_source()._reset_after_fork()
        for generator in _global_generators():
            getattr(*generator.seeding)(int.from_bytes(urandom(4), "little"))
        yield
    system_source()._reset_after_fork()


@pytest.fixture
def fixed_key(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give a test fixed randomness, where its outcome depends on what is drawn and no rate can be derived."""
    with fixed_randomness(request.node.nodeid):
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give a test, and the fixtures that are set up for it, randomness of their own."""
    drew = item.stash.setdefault(_DREW, [])
    urandom = _real if item.config.getoption("--real-randomness") else stream(item.nodeid)
    start, fork, spawn = subprocess.Popen.__init__, os.fork, multiprocessing.util.spawnv_passfds

    def noted(size: int) -> bytes:
        drew.append("random bytes")
        return urandom(size)

    def started(process: Any, *args: Any, **given: Any) -> None:
        drew.append("a process")
        start(process, *args, **given)

    def spawned(*args: Any) -> int:
        drew.append("a process")
        return spawn(*args)

    def forked() -> int:
        drew.append("a process")
        return fork()

    patch = item.stash[_PATCH] = pytest.MonkeyPatch()
    patch.setattr(os, "urandom", noted)
    patch.setattr(random, "_urandom", noted)  # which the module `secrets` draws from
    patch.setattr(subprocess.Popen, "__init__", started)
    patch.setattr(os, "fork", forked)  # which `multiprocessing` calls
    patch.setattr(multiprocessing.util, "spawnv_passfds", spawned)  # or this, for processes that do not fork
    system_source()._reset_after_fork()  # drops what other tests left in its buffer
    seed = int.from_bytes(urandom(4), "little")
    item.stash[_GENERATORS] = list(_global_generators())
    for generator in item.stash[_GENERATORS]:  # so that tests are isolated from each other
        generator.watch(seed, patch)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Take it back, after fixtures have been torn down."""
    try:
        return (yield)
    finally:
        if any(generator.drew() for generator in item.stash[_GENERATORS]):
            item.stash[_DREW].append("a global generator")
        item.stash[_PATCH].undo()
        system_source()._reset_after_fork()


@dataclass
class _GlobalGenerator:
    """A global generator of Python, NumPy or torch: seeded for a test, and watched while it runs.

    Attributes:
        state: Returns its state, as something that can be compared.
        seeding, restoring: The functions that set its state, as modules and names of attributes.
        quick_seeding: What sets its state as `seeding` does, in less time.
    """

    state: Callable[[], object]
    seeding: tuple[Any, str]
    restoring: tuple[Any, str]
    quick_seeding: Callable[[int], object] | None = None
    start: object = None  # None while all that comes follows from a seed of the test's own
    has_drawn: bool = False

    def drew(self) -> bool:
        """Return whether the test drew what it did not choose."""
        return self.has_drawn or (self.start is not None and self.state() != self.start)

    def watch(self, seed: int, patch: pytest.MonkeyPatch) -> None:
        """Seed it, and notice when the test does so itself."""
        set_seed, set_state = getattr(*self.seeding), getattr(*self.restoring)
        (self.quick_seeding or set_seed)(seed)
        self.start = self.state()

        def reseed(*args: Any, **given: Any) -> Any:
            self.has_drawn, self.start = self.drew(), None
            return set_seed(*args, **given)

        def restore(*args: Any, **given: Any) -> None:  # as hypothesis does, and torch at the end of `fork_rng`
            self.has_drawn = self.drew()
            set_state(*args, **given)
            self.start = self.state()

        patch.setattr(*self.seeding, reseed)
        patch.setattr(*self.restoring, restore)


def _global_generators() -> Iterator[_GlobalGenerator]:
    yield _GlobalGenerator(random.getstate, (random, "seed"), (random, "setstate"))
    yield _GlobalGenerator(_numpy_state, (np.random, "seed"), (np.random, "set_state"))
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        yield _GlobalGenerator(
            lambda: torch.get_rng_state().numpy().tobytes(),
            (torch, "manual_seed"),
            (torch.random, "set_rng_state"),
            # Without a GPU this is the same, and three times as fast: `manual_seed` formats the stack for each device.
            None if torch.cuda.is_available() else torch.default_generator.manual_seed,
        )


def _numpy_state() -> tuple[object, ...]:
    _, words, *rest = np.random.get_state(legacy=True)  # noqa: NPY002 - scikit-learn's checks draw from it
    return (words.tobytes(), *rest)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Repeat a test that draws randomness until it fails or has run often enough."""
    times = item.config.getoption("--repeat")
    if times == 1:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    names = dict(item.dtest.globs) if isinstance(item, pytest.DoctestItem) else {}
    for _ in range(times):
        if isinstance(item, pytest.DoctestItem):
            item.dtest.globs.update(names)  # which a run empties
        # Its parent comes "next", so that the fixtures of the test alone are torn down.
        reports = runtestprotocol(item, nextitem=cast(Any, item.parent), log=False)
        if any(report.failed for report in reports) or not item.stash.get(_DREW, None):
            break
    item.session._setupstate.teardown_exact(nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
