"""What a pass through a model has decided, and what makes it start again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hush.errors import Unsupported
from hush.training.per_example.taps import StaleLayout


@dataclass(slots=True)
class Plan:
    """What a pass decided.

    Attributes:
        decisions: The decisions, in order.
        promoted: Operations on parameters and constants whose results have a row for each example, and where.
        shared: The numbers of inputs that all examples share, although they are as long as the batch.
        is_static: Whether a later pass over other data decides alike.
        is_compilable: Whether Dynamo shows all of its operations.
        constants: Copies of the tensors that entered into functions of parameters.
        has_operations: Whether there is anything but modules with rules.
    """

    decisions: list[Any] = field(default_factory=list)
    promoted: dict[Any, tuple[Any, ...]] = field(default_factory=dict)
    shared: set[int] = field(default_factory=set)
    constants: list[Tensor] = field(default_factory=list)
    is_static: bool = True
    is_compilable: bool = True
    has_operations: bool = False

    def begin(self) -> None:
        """Forget the decisions of a pass that starts again, but not what it has found out."""
        self.decisions, self.constants, self.has_operations = [], [], False
        self.is_static = self.is_compilable = True

    def refresh(self, constants: list[Tensor]) -> None:
        """Bring the tensors in recipes up to date, where they are: clipping may be replayed from a CUDA graph."""
        if [(c.shape, c.dtype, c.device) for c in constants] != [(c.shape, c.dtype, c.device) for c in self.constants]:
            raise StaleLayout
        with torch.no_grad():
            for copy, value in zip(self.constants, constants, strict=True):
                copy.copy_(value)


class Restart(Exception):
    """The pass has to start again: a constant has turned out to have a row for each example, or an input none."""


class Refusal(Exception):
    """Carries an `Unsupported` through torch's operators, which take every `TypeError` for their own."""

    def __init__(self, reason: Unsupported) -> None:
        super().__init__(str(reason))
        self.reason = reason


class RandomStates:
    """The states of torch's random generators, so that a pass that starts again draws the same numbers."""

    def __init__(self) -> None:
        """Remember the states as they are now."""
        self._cpu = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]

    def restore(self) -> None:
        """Set the states as they were."""
        torch.set_rng_state(self._cpu)
        if self._cuda:
            torch.cuda.set_rng_state_all(self._cuda)
