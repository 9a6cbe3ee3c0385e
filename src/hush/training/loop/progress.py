"""The progress bar of `hush.fit`."""

from __future__ import annotations

import math
import sys
import time

import torch
from torch import Tensor

from hush.training.loop.session import PrivateTraining
from hush.training.per_example.invented_calls import Modes

_BAR_WIDTH = 24
_NUM_UPDATES = 40  # during a run


class ProgressBar:
    """A line on the error stream with the progress, the accuracy on public data and the epsilon so far."""

    def __init__(self, private: PrivateTraining, test: tuple[Tensor, Tensor] | None) -> None:
        """Take the run, and public examples and targets, if there are any."""
        self._private, self._test = private, test
        self._started = time.monotonic()
        self._steps_per_update = max(private.plan.num_steps // _NUM_UPDATES, 1)
        self._is_terminal = sys.stderr.isatty()

    def update(self) -> None:
        """Show the progress after a step, if it is time to."""
        taken = self._private.steps_taken
        if taken % self._steps_per_update == 0 or taken == self._private.plan.num_steps:
            self.show(taken / self._private.plan.num_steps)

    def show(self, fraction: float) -> None:
        """Write the line over the previous one; if that is impossible, only at the beginning and the end."""
        if not self._is_terminal and 0 < fraction < 1:
            return
        filled = math.floor(_BAR_WIDTH * fraction)
        bar = "#" * filled + "." * (_BAR_WIDTH - filled)
        parts = [f"[{bar}] {self._private.steps_taken}/{self._private.plan.num_steps}"]
        if self._test is not None:
            parts.append(f"accuracy {self._accuracy(*self._test):.1%}")
        parts.append(f"epsilon {self._private.guarantee().epsilon:.2f}")
        parts.append(f"{time.monotonic() - self._started:.0f} s")
        end = "" if self._is_terminal else "\n"
        sys.stderr.write(("\r" if self._is_terminal else "") + "  ".join(parts) + "   " + end)
        sys.stderr.flush()

    def close(self) -> None:
        """End the line."""
        if self._is_terminal:
            sys.stderr.write("\n")

    def _accuracy(self, x: Tensor, y: Tensor) -> float:
        model = self._private.model
        modes = Modes(model)
        model.eval()
        with torch.no_grad():
            accuracy = (model(x).argmax(-1) == y).float().mean()
        modes.restore()
        return float(accuracy)
