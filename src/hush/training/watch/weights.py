"""Parameters that change outside of private steps, such as by an ordinary step of an optimizer."""

from __future__ import annotations

from torch import Tensor, nn


class WeightWatch:
    """Compares the versions and addresses of a model's parameters with those after the last private step.

    >>> import torch
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
        self.remember()

    def remember(self) -> None:
        """Take the parameters as they are now for unchanged."""
        self._states = {name: _state(param) for name, param in self._params.items()}

    def changed(self) -> list[str]:
        """Return the names of the parameters that have changed.

        A write through ``.data`` at the same address is not seen here.
        """
        return [name for name, param in self._params.items() if _state(param) != self._states[name]]


def _state(param: Tensor) -> tuple[int, int]:
    """Return torch's count of writes in place, and the address, which ``param.data = ...`` changes."""
    return param._version, param.data_ptr()
