"""Correlated noise, step by step: y = C^-1 z, with z drawn again from (key, step) and never stored.

`NoiseStream` runs a recursion (`hush.training.noise.recursions`) over the steps of a run.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hush.errors import InvalidArgument, Unsupported, check_count, check_instance, check_positive
from hush.training.noise.integer_gaussian import integer_gaussian
from hush.training.noise.recursions import Recursion


class NoiseStream:
    """Correlated noise on a grid, as a function of the keys and the step: ``stream(step)``, in spacings.

    With a `Window`, each step draws the independent noise of as many steps again, and nothing is kept. With another
    recursion, a step draws once and keeps a few vectors of the noise's size in memory: the last y, or the buffers. They
    are never stored. A step out of turn, such as the first one after a run was resumed, draws all earlier steps again.
    On the same kind of device the result is the same to the last bit.

    Keys may change during a run. With ``((0, first), (100, second))``, the independent noise of the steps from 100 on
    is drawn under the second key. Earlier independent noise, which the new noise is correlated with, stays under the
    first. So a resumed run gets fresh noise, and its mechanism is that of a run that was never interrupted. If two runs
    continue from one state under two new keys, all independent noise since then is independent: together they are as
    private as their common steps and both continuations, composed.

    Assumes:
        A step's noise is used for one sum only (the caller's duty: count the step before you use its noise). Keys are
        secret, random, and used for nothing else (the caller's duty).
    """

    def __init__(
        self,
        recursion: Recursion,
        keys: bytes | Sequence[tuple[int, bytes]],
        size: int,
        *,
        num_steps: int,
        stddev: float,
        device: torch.device | None = None,
    ) -> None:
        """Prepare a stream; nothing is drawn yet.

        Args:
            recursion: How the noise is correlated: ``factor.recursion``.
            keys: One key for all steps, or pairs of a first step and the key that holds from there on.
            size: The number of elements of the noise.
            num_steps: The number of steps that are accounted for; later ones are refused.
            stddev: The standard deviation of independent noise, in spacings of the grid: ``grid.stddev``.
            device: Where to draw the noise; a CPU, if omitted.
        """
        check_instance("recursion", recursion, Recursion, "Pass factor.recursion")
        self._keys = [(0, keys)] if isinstance(keys, bytes) else sorted(keys, key=lambda pair: pair[0])
        if not self._keys or self._keys[0][0] != 0 or len({first for first, _ in self._keys}) != len(self._keys):
            raise InvalidArgument(
                "keys", [first for first, _ in self._keys], "one key from step 0 on, and at most one for any later step"
            )
        self.recursion, self._size, self._device = recursion, check_count("size", size), device
        self._num_steps = check_count("num_steps", num_steps)
        self._stddev = check_positive("stddev", stddev) * recursion.gain
        if not stddev <= recursion.largest_stddev:
            raise Unsupported(
                f"correlated noise of {stddev:.3g} spacings with {type(recursion).__name__}: double precision is too "
                "coarse for it",
                "Use fewer steps or less memory of earlier ones, such as Banded with few bands",
            )
        self._memory: list[Tensor] = []
        self._next = 0  # the step that the memory is ready for

    def __call__(self, step: int) -> Tensor:
        """Return y_t for t = ``step``: integers in double precision, in memory that you may overwrite."""
        check_count("step", step, minimum=0)
        if not step < self._num_steps:
            raise InvalidArgument(
                "step", step, f"less than {self._num_steps}, the number of steps that are accounted for"
            )
        begin, self._next = self._next, 0  # if a draw fails, the next call starts over
        if not self.recursion.remembers:
            return self.recursion.follow(step, self._draw, [])
        if begin == 0 or step < begin:
            self._memory, begin = [], 0
        # Memory is a function of all earlier steps, so those that were skipped are run again, with the same z.
        for skipped in range(begin, step):
            self.recursion.follow(skipped, self._draw, self._memory)
        result = self.recursion.follow(step, self._draw, self._memory)
        self._next = step + 1
        return result

    def _draw(self, step: int) -> Tensor:
        # The key of the step that z belongs to, not of the step that uses it: all later steps use the same z.
        key = next(key for first, key in reversed(self._keys) if first <= step)
        return integer_gaussian(key, step, self._size, stddev=self._stddev, device=self._device).double()
