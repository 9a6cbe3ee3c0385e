"""Buffers that a forward pass changes: they are part of the model, and would be released without noise.

Batch statistics, caches and counters live in buffers. Frozen parameters could store data as well. A change is detected
in three ways:

object   the buffer is a different tensor than before
version  torch counts writes in place
content  sums of the values differ: for writes that torch does not count, such as through ``.data``
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from hush.errors import Unsupported


def refuse_buffers(changed: list[str]) -> None:
    """Refuse a model if a forward pass has changed any of its buffers."""
    if changed:
        raise Unsupported(
            f"{', '.join(changed)}: the forward pass stores something about the data in these buffers",
            "Buffers are part of the model and get no noise: switch off the statistics that they hold. If their "
            "content does not depend on data, run the model once before you make it private",
        )


class BufferWatch:
    """Detects changes of a model's buffers and frozen parameters during a forward pass."""

    def __init__(self, model: nn.Module) -> None:
        """Take the model; its modules are those that it has now."""
        # `model.named_buffers()` would walk the module tree in every step.
        self._modules = list(model.named_modules())
        self._params = dict(model.named_parameters())
        self._compares_contents = True
        self._versions: dict[str, tuple[Tensor, int]] = {}
        self._contents: dict[str, Tensor] = {}

    def start(self) -> None:
        """Remember the buffers as they are now."""
        self._versions = {name: (buffer, buffer._version) for name, buffer in self._named_buffers()}
        self._contents = self._checksums() if self._compares_contents else {}

    def stop_comparing_contents(self) -> None:
        """From now on, compare objects and versions only: reading all buffers in every step would cost time."""
        self._compares_contents = False

    def refuse_changes(self) -> None:
        """Refuse a model whose buffers have changed since `start`."""
        changed = []
        for name, buffer in self._named_buffers():
            before, version = self._versions.get(name, (None, 0))
            # A new tensor in place of the old one has a version of its own, so identity is compared, too.
            if before is not buffer or version != buffer._version:
                changed.append(name)
        if self._compares_contents:
            now = self._checksums()
            for name, checksum in self._contents.items():
                if name not in now or name in changed:
                    continue
                # NaN is not equal to itself.
                if not torch.equal(checksum.nan_to_num(), now[name].nan_to_num()):
                    changed.append(name)
        refuse_buffers(changed)

    def _checksums(self) -> dict[str, Tensor]:
        """Return the sum of the values and of their squares, for each buffer and each frozen parameter."""
        frozen = [(name, param) for name, param in self._params.items() if not param.requires_grad]
        # Two sums in double precision are cheap. A write that preserves both cannot be an accident.
        with torch.no_grad():
            flat = [
                (name, _real(value.detach()).double().flatten()) for name, value in (*self._named_buffers(), *frozen)
            ]
            return {name: torch.stack([values.sum(), values.square().sum()]) for name, values in flat}

    def _named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        for prefix, module in self._modules:
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    yield f"{prefix}.{name}" if prefix else name, buffer


def _real(values: Tensor) -> Tensor:
    """Return complex numbers as pairs of real ones: as doubles, they would lose their imaginary parts."""
    return torch.view_as_real(values.resolve_conj()) if values.is_complex() else values
