"""What a forward pass changes in a model: it is part of the model, and would be released without noise.

Batch statistics, caches and counters live in buffers. Parameters, frozen or trained, could store data as well, and so
could plain attributes. A change is detected in three ways:

object   the tensor is a different one than before, or lies at a different address
version  torch counts writes in place
content  sums of the values differ: for writes that torch does not count, such as through ``.data``
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from hush.training.watch.held import OF_TORCH, StoredData, held_tensors
from hush.training.watch.weights import content_sums

_Version = tuple[Any, int, int]  # a tensor, torch's count of writes in place, and the address


def refuse_buffers(changed: list[str]) -> None:
    """Refuse a model if a forward pass has changed any of its buffers."""
    if changed:
        raise StoredData(
            f"{', '.join(changed)}: the forward pass stores something about the data in these buffers, parameters or "
            f"attributes",
            "They are part of the model, and get no noise from this: switch off the statistics that they hold, and use "
            "local variables. If their content does not depend on data, run the model once before you make it private",
        )


class BufferWatch:
    """Detects changes of a model's buffers, parameters and plain attributes during a forward pass."""

    def __init__(self, model: nn.Module) -> None:
        """Take the model; its modules are those that it has now."""
        # `model.named_buffers()` would walk the module tree in every step.
        self._modules = list(model.named_modules())
        self._compares_contents = True
        self._versions: dict[str, _Version] = {}
        self._held: dict[str, _Version] = {}
        self._contents: dict[str, Tensor] = {}

    def start(self) -> None:
        """Remember the tensors as they are now."""
        self._versions = dict(self._named_versions())
        self._held = dict(self._held_versions())
        self._contents = self._checksums() if self._compares_contents else {}

    def compare_contents(self, *, on: bool) -> None:
        """From the next batch on, compare contents, too, or not: reading all tensors in every step would cost time."""
        self._compares_contents = on

    def refuse_changes(self) -> None:
        """Refuse a model that has changed since `start`. New attributes are removed from it."""
        changed = [name for name, version in self._named_versions() if _differ(self._versions.get(name), version)]
        now = self._checksums() if self._contents else {}
        for name, checksum in self._contents.items():
            # NaN is not equal to itself.
            if name in now and name not in changed and not torch.equal(checksum.nan_to_num(), now[name].nan_to_num()):
                changed.append(name)
        refuse_buffers([*changed, *self._changed_attributes()])

    def start_held(self) -> None:
        """Remember the plain attributes only."""
        self._held = dict(self._held_versions())

    def refuse_held(self) -> None:
        """Refuse a model whose plain attributes have changed since `start_held`."""
        refuse_buffers(self._changed_attributes())

    def _changed_attributes(self) -> list[str]:
        held = [name for name, version in self._held_versions() if _differ(self._held.get(name), version)]
        self._drop(held)
        return held

    def forget(self) -> None:
        """Hold no tensor any longer."""
        self._versions, self._held, self._contents = {}, {}, {}

    def _drop(self, names: list[str]) -> None:
        """Remove attributes that hold data, so that a refused model does not hold them."""
        for prefix, module in self._modules:
            start = f"{prefix}." if prefix else ""
            keys = {name[len(start) :].split(".")[0] for name in names if name.startswith(start)}
            for key in (keys & set(vars(module))) - OF_TORCH:  # a module needs its hooks
                del module.__dict__[key]

    def _checksums(self) -> dict[str, Tensor]:
        """Return the `content_sums` of each buffer and each parameter."""
        with torch.no_grad():
            return {name: content_sums(tensor) for name, tensor in self._named_tensors()}

    def _named_versions(self) -> Iterator[tuple[str, _Version]]:
        for name, tensor in self._named_tensors():
            yield name, (tensor, tensor._version, _address(tensor))

    def _held_versions(self) -> Iterator[tuple[str, _Version]]:
        for name, held in held_tensors(self._modules):
            yield name, (held, held._version if isinstance(held, Tensor) else 0, 0)

    def _named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        for prefix, module in self._modules:
            for tensors in (module._buffers, module._parameters):
                for name, tensor in tensors.items():
                    if tensor is not None:
                        yield f"{prefix}.{name}" if prefix else name, tensor


def _differ(before: _Version | None, now: _Version) -> bool:
    # A new tensor in place of the old one has a version of its own, so identity is compared, too.
    return before is None or before[0] is not now[0] or before[1:] != now[1:]


def _address(tensor: Tensor) -> int:
    # Uninitialised parameters and subclasses without memory have none.
    return tensor.data_ptr() if type(tensor) in (Tensor, nn.Parameter) else 0
