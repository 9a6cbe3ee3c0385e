"""Parameters that change outside of private steps, such as by an ordinary step of an optimizer."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def content_sums(tensor: Tensor) -> Tensor:
    """Return the sum and the norm of a tensor's values. A write that preserves both cannot be an accident.

    >>> content_sums(torch.tensor([3, -4])).tolist()
    [-1.0, 5.0]
    """
    values = tensor.detach()
    # As doubles, complex numbers would lose their imaginary parts.
    values = torch.view_as_real(values.resolve_conj()) if values.is_complex() else values
    values = values if values.is_floating_point() else values.double()
    norm = torch.linalg.vector_norm(values, dtype=torch.float64)
    return torch.stack([values.sum(dtype=torch.float64), norm])


class WeightWatch:
    """Compares a model's parameters with those after the last private step.

    It compares versions and addresses, and, where they were remembered, contents, too: torch does not count a write
    through ``.data``.

    >>> model = nn.Linear(1, 1)
    >>> watch = WeightWatch(model)
    >>> with torch.no_grad():
    ...     _ = model.weight.add_(1.0)
    >>> watch.changed()
    ['weight']
    """

    def __init__(self, model: nn.Module) -> None:
        """Remember the parameters as they are now."""
        self._params = dict(model.named_parameters())
        self._states: dict[str, tuple[int, int]] = {}
        self._contents: dict[str, Tensor] = {}
        self.remember(contents=True)

    def remember(self, *, contents: bool) -> None:
        """Take the parameters as they are now for unchanged; with their contents, which reads all of them."""
        self._states = {name: _state(param) for name, param in self._params.items()}
        self._contents = {name: content_sums(param) for name, param in self._params.items()} if contents else {}

    def changed(self) -> list[str]:
        """Return the names of the parameters that have changed."""
        names = [name for name, param in self._params.items() if _state(param) != self._states[name]]
        for name, before in self._contents.items():
            now = content_sums(self._params[name]).to(before.device)
            if name not in names and not torch.equal(before.nan_to_num(), now.nan_to_num()):  # NaN is not NaN
                names.append(name)
        return names


def _state(param: Tensor) -> tuple[int, int]:
    """Return torch's count of writes in place, and the address, which ``param.data = ...`` changes."""
    return param._version, param.data_ptr()
