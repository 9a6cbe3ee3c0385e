"""Activation checkpoints: in a private pass, they are switched off.

A checkpoint runs layers without keeping their activations, and once more in the backward pass. There they would ask for
taps again. So they run once, and activations are kept; a smaller ``physical_batch_size`` saves memory instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch.utils.checkpoint as torch_checkpoints

_NAMES = ("CheckpointFunction", "_checkpoint_without_reentrant_generator")


class Checkpoints:
    """Switches off checkpoints, and notes whether there were any.

    Attributes:
        were_used: Whether a pass has asked for any.
    """

    def __init__(self) -> None:
        """Start without any."""
        self.were_used = False

    @contextmanager
    def switched_off(self) -> Iterator[None]:
        """Run layers under checkpoints once, until the end of the block."""
        originals = {name: getattr(torch_checkpoints, name) for name in _NAMES}
        # Both ways in which `checkpoint` calls a function look up one of these; callers hold `checkpoint` itself.
        torch_checkpoints.CheckpointFunction = self  # type: ignore[misc, assignment]
        torch_checkpoints._checkpoint_without_reentrant_generator = self._nothing  # type: ignore[assignment]
        try:
            yield
        finally:
            for name, original in originals.items():
                setattr(torch_checkpoints, name, original)

    def apply(self, function: Callable[..., Any], preserve: bool, *args: Any) -> Any:
        """Call the function, as an ordinary call."""
        self.were_used = True
        return function(*args)

    def _nothing(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Iterator[None]:
        """Do nothing before and after the call."""
        self.were_used = True
        yield
