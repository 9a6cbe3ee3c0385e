"""Randomness in tests: reproducible by default, real with ``--real-randomness``.

Each test starts from bits that follow from its name: those of the operating system, which key hush's sources, and those
of the global generators of Python, NumPy and torch. So its outcome depends neither on luck nor on which tests ran
before it in the same worker. Child processes draw real randomness, as forked sources must not repeat themselves.

``--repeat N`` runs every test that draws real randomness, or starts a process that may, N times.
"""

from __future__ import annotations

import gc
import hashlib
import itertools
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pytest
from _pytest.runner import runtestprotocol

from hush.randomness import system_source

_DREW = pytest.StashKey[list[str]]()
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


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give a test, and the fixtures that are set up for it, randomness of their own."""
    drew = item.stash.setdefault(_DREW, [])
    urandom = _real if item.config.getoption("--real-randomness") else stream(item.nodeid)
    start = subprocess.Popen.__init__

    def noted(size: int) -> bytes:
        drew.append("random bytes")
        return urandom(size)

    def started(process: Any, *args: Any, **given: Any) -> None:
        drew.append("a process")
        start(process, *args, **given)

    patch = item.stash[_PATCH] = pytest.MonkeyPatch()
    patch.setattr(os, "urandom", noted)
    patch.setattr(random, "_urandom", noted)  # which the module `secrets` draws from
    patch.setattr(subprocess.Popen, "__init__", started)
    system_source()._reset_after_fork()  # drops what other tests left in its buffer
    _seed_globals(int.from_bytes(urandom(4), "little"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Take it back, after fixtures have been torn down."""
    try:
        return (yield)
    finally:
        item.stash[_PATCH].undo()
        system_source()._reset_after_fork()


def _seed_globals(seed: int) -> None:
    random.seed(seed)  # noqa: TID251 - isolates tests from each other
    np.random.seed(seed)  # noqa: NPY002, TID251 - as above; scikit-learn's checks draw from it
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Repeat a test that draws randomness until it fails or has run often enough."""
    times = item.config.getoption("--repeat")
    if times == 1:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for _ in range(times):
        # Its parent comes "next", so that the fixtures of the test alone are torn down.
        reports = runtestprotocol(item, nextitem=cast(Any, item.parent), log=False)
        if any(report.failed for report in reports) or not item.stash.get(_DREW, None):
            break
    item.session._setupstate.teardown_exact(nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
