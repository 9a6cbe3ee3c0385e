"""The same random numbers, again: torch's, NumPy's and Python's."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def same_seeds(seed: int) -> Iterator[None]:
    """Seed torch's generators for a while, and let all of them continue as if nothing had been drawn.

    So those of NumPy and Python, which nothing seeds, are in the same state each time, too.

    >>> with same_seeds(1):
    ...     first = torch.rand(2)
    >>> with same_seeds(1):
    ...     bool((first == torch.rand(2)).all())
    True
    """
    of_python, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    try:
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed)
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)  # noqa: NPY002
