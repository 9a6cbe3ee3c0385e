"""Taps: tensors whose "gradients" are per-example gradients, and the uses of parameters that they belong to.

A tap is an expanded zero that requires a gradient. A layer passes its taps to an autograd function; as the "gradient"
of a tap, the backward pass returns every example's gradient, or factors of it. A *use* is one occurrence of a parameter
in a forward pass, with the taps that belong to it.

`TapRecorder` serves the layers of one batch. In an eager forward it makes taps as layers ask for them:

    layer asks for a tap  ->  a new tap            ->  layout.taps
    layer reports a use   ->  numbers of its taps  ->  layout.uses

In a compiled forward the taps are inputs of the graph, so they must be known before. The recorder then hands out those
of an earlier eager call in the same order. A call that asks for others raises `StaleLayout`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hush.training.per_example.clipped_sum import Use
from hush.training.per_example.gradients import Gradient


class StaleLayout(Exception):
    """A compiled call uses other layers than the eager call that recorded its taps."""


@dataclass(slots=True)
class TapLayout:
    """The taps of one or more calls of the model, and the uses of parameters that they belong to.

    Attributes:
        taps: The taps, in the order in which layers ask for them.
        inputs: The numbers of taps that bring out a layer's input, not a gradient.
        uses: The uses, in the order of the layers.
    """

    taps: list[Tensor] = field(default_factory=list)
    inputs: set[int] = field(default_factory=set)
    uses: list[Use] = field(default_factory=list)

    def detached(self) -> TapLayout:
        """Return the layout with taps that belong to no graph."""
        return TapLayout([tap.detach() for tap in self.taps], self.inputs, self.uses)

    def renewed(self) -> TapLayout:
        """Return the layout with new taps."""
        return TapLayout([tap.detach().requires_grad_() for tap in self.taps], self.inputs, self.uses)


@dataclass(frozen=True, slots=True)
class Mark:
    """A point in a recording: how many taps and uses there were."""

    taps: int
    uses: int


class TapRecorder:
    """Hands out the taps of a batch, and records the uses of parameters.

    Attributes:
        layout: The recording of the current batch.
    """

    def __init__(self) -> None:
        """Start with nothing recorded."""
        self.layout = TapLayout()
        self._next_tap = 0
        self._next_use = 0
        self._is_replaying = False

    def reset(self) -> None:
        """Forget the batch."""
        self.layout, self._next_tap, self._next_use, self._is_replaying = TapLayout(), 0, 0, False

    def tap(self, shape: tuple[int, ...], like: Tensor, *, of_input: bool, base: Tensor | None) -> Tensor:
        """Return the next tap.

        Args:
            shape: Its shape, with the batch as first dimension.
            like: A tensor of its type and device.
            of_input: Whether the backward pass brings out a layer's input through it.
            base: A parameter to repeat for every example, instead of zeros.
        """
        if not self._is_replaying:
            values = torch.zeros((), dtype=like.dtype, device=like.device) if base is None else base.detach()
            if of_input:
                self.layout.inputs.add(self._next_tap)
            self.layout.taps.append(values.expand(shape).requires_grad_())  # expanded: one element of memory
        # The compiled graph has exactly the taps of the eager call, so one too many means another path.
        elif self._next_tap >= len(self.layout.taps):
            raise StaleLayout
        elif base is not None:  # such a layer is not compiled, and its parameter may have moved in memory
            self.layout.taps[self._next_tap] = base.detach().expand(shape).requires_grad_()
        tap = self.layout.taps[self._next_tap]
        # A tap of another shape would bring out the gradient of another layer.
        if self._is_replaying and tuple(tap.shape) != tuple(shape):
            raise StaleLayout
        self._next_tap += 1
        return tap

    def expects_use(self, layer: str) -> bool:
        """Return whether this use is known from an earlier call, in which case it is ticked off."""
        if not self._is_replaying:
            return False
        if self._next_use >= len(self.layout.uses) or self.layout.uses[self._next_use].layer != layer:
            raise StaleLayout
        self._next_use += 1
        return True

    def record_use(
        self, layer: str, param: str, form: Callable[..., Gradient], num_taps: int, rows: tuple[int, int] | None
    ) -> None:
        """Record that the last ``num_taps`` taps belong to a use of this parameter."""
        self._next_use += 1
        # A layer asks for its taps first and reports the use at once, so they are the latest ones.
        taps = tuple(range(self._next_tap - num_taps, self._next_tap))
        self.layout.uses.append(Use(layer, param, taps, form, rows))

    def mark(self) -> Mark:
        """Return the present point, before a call of the model."""
        return Mark(len(self.layout.taps), len(self.layout.uses))

    def replay(self, known: TapLayout, call: Callable[[], Any]) -> tuple[bool, Any]:
        """Run a call that gets known taps. Return whether it used all of them, and its result.

        Args:
            known: The layout of an earlier, equal call.
            call: Runs the model, compiled.
        """
        first = self.mark().taps
        self.layout.taps.extend(known.taps)
        self.layout.inputs |= {first + tap for tap in known.inputs}
        # The model may be called several times for one batch: later calls continue the numbering.
        self.layout.uses.extend(use.moved(first) if first else use for use in known.uses)
        self._is_replaying = True
        try:
            result = call()
        except StaleLayout:
            return False, None
        finally:
            self._is_replaying = False
        # Fewer uses than known would leave gradients out of the clipped sum, without any error.
        used_all = (self._next_tap, self._next_use) == (len(self.layout.taps), len(self.layout.uses))
        return used_all, result

    def rewind(self, mark: Mark) -> None:
        """Forget everything since a mark."""
        del self.layout.taps[mark.taps :], self.layout.uses[mark.uses :]
        self.layout.inputs = {tap for tap in self.layout.inputs if tap < mark.taps}
        self._next_tap, self._next_use = mark.taps, mark.uses

    def since(self, mark: Mark) -> TapLayout:
        """Return the layout of the calls since a mark, for `replay`."""
        return TapLayout(
            self.layout.taps[mark.taps :],
            {tap - mark.taps for tap in self.layout.inputs if tap >= mark.taps},
            [use.moved(-mark.taps) for use in self.layout.uses[mark.uses :]],
        )
