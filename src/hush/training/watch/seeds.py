"""The same random numbers, again: torch's, NumPy's and Python's."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class SeededGenerators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Seeds each generator of torch that an operation gets, when it gets it first. They continue as they were.

    >>> generator = torch.Generator().manual_seed(1)
    >>> def drawn() -> torch.Tensor:
    ...     with SeededGenerators(7):
    ...         return torch.rand(2, generator=generator)
    >>> bool((drawn() == drawn()).all())
    True
    """

    def __init__(self, seed: int) -> None:
        """Take the seed."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._seed = seed
        self._states: dict[torch.Generator, torch.Tensor] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation."""
        kwargs = kwargs or {}
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, torch.Generator) and leaf not in self._states:
                self._states[leaf] = leaf.get_state()
                leaf.manual_seed(self._seed)
        return func(*args, **kwargs)

    def __exit__(self, *error: Any) -> None:
        """Let the generators continue."""
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        for generator, state in self._states.items():
            generator.set_state(state)
        self._states = {}


@contextmanager
def same_seeds(seed: int) -> Iterator[None]:
    """Seed torch's generators for a while, and let all of them continue as if nothing had been drawn.

    The caller's own generators of torch are seeded, too (`SeededGenerators`). The global ones of NumPy and Python,
    which nothing seeds, are in the same state each time.

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
            with SeededGenerators(seed):
                yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)  # noqa: NPY002
