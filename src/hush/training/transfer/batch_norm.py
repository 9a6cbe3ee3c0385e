"""A replacement for batch norm, which mixes the examples of a batch and so cannot be trained privately."""

from __future__ import annotations

from collections import OrderedDict
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _LazyNormBase
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from hush.errors import Unsupported

# Wu & He 2018, "Group Normalization", Table 3: 32 groups, or groups of 16 channels. One channel per group is far worse:
# where maps have shrunk to 1 x 1, it leaves nothing of the input at all.
_MAX_GROUPS = 32
_MIN_CHANNELS = 16


def replace_batchnorm(model: nn.Module) -> nn.Module:
    """Replace every BatchNorm by a GroupNorm with its affine weights, and return the model.

    Batch norm mixes the examples of a batch, so it cannot be trained privately. A group has at least 16 channels, and
    there are at most 32 groups; fewer channels, and those of `nn.BatchNorm1d`, make one group. A norm that goes on with
    an activation, as timm's do, becomes the GroupNorm followed by that activation. A lazy norm becomes a lazy one. The
    running statistics of batch norm are lost.

    >>> model = replace_batchnorm(nn.Sequential(nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64)))
    >>> type(model[1]).__name__, model[1].num_groups
    ('GroupNorm', 4)
    """
    norms = [(name, module) for name, module in model.named_modules() if isinstance(module, _BatchNorm)]
    # All are looked at before one is replaced: a refusal leaves the model as it was.
    layers_after = {id(norm): _layers_after(norm, name or "the model") for name, norm in norms}
    replacements = {id(norm): _replacement(norm, layers_after[id(norm)]) for _, norm in norms}
    for module in list(model.modules()):
        # Not `named_children`, which leaves out a norm's second name.
        for key, child in module._modules.items():
            if child is not None:
                module._modules[key] = replacements.get(id(child), child)
    return replacements.get(id(model), model)


def _replacement(norm: _BatchNorm, after: dict[str, nn.Module]) -> nn.Module:
    """Return a group norm, and these layers after it."""
    if not after:
        return _group_norm(norm)
    return nn.Sequential(OrderedDict(norm=_group_norm(norm), **after)).train(norm.training)


def _layers_after(norm: _BatchNorm, name: str) -> dict[str, nn.Module]:
    """Return the layers through which a batch norm passes its result, such as an activation.

    What the forward of a class from elsewhere does is not known, so it is tried out.
    """
    if type(norm).__module__.startswith("torch.nn."):
        return {}
    layers: dict[str, nn.Module] = dict(norm.named_children())
    for after in (layers, {}):
        if _does(norm, after):
            return after
    raise Unsupported(
        f"{name} ({type(norm).__name__}): it does more than to normalise and to pass the result through its layers",
        "Replace it by a norm of your own",
    )


@torch.no_grad()
def _does(norm: _BatchNorm, after: dict[str, nn.Module]) -> bool:
    """Return whether a norm in evaluation mode does what torch's does, and then what these layers do."""
    norm = deepcopy(norm).cpu().float().eval()
    layers = [norm._modules[key] for key in after]
    # Weights of 0, with which residual networks start, would hide what comes after them.
    for values, start in ((norm.weight, 1.0), (norm.bias, 0.0), (norm.running_mean, 0.0), (norm.running_var, 1.0)):
        if values is not None:
            values.fill_(start)
    for dims in (2, 1, 3, 0):
        shape = (3, norm.num_features, *[4] * dims)
        x = torch.randn(shape, generator=torch.Generator().manual_seed(dims))
        try:
            output = norm(x.clone())
            expected: Tensor = _BatchNorm.forward(norm, x)
            for layer in layers:
                assert layer is not None
                expected = layer(expected)
        except (ValueError, TypeError, RuntimeError, AssertionError, NotImplementedError):
            continue  # not for inputs of so many dimensions
        return output.shape == expected.shape and torch.allclose(output, expected, rtol=1e-4, atol=1e-5)
    return False


def _num_groups(channels: int) -> int:
    most = max(min(_MAX_GROUPS, channels // _MIN_CHANNELS), 1)
    return max(count for count in range(1, most + 1) if channels % count == 0)


def _group_norm(norm: _BatchNorm) -> nn.GroupNorm:
    # Vectors have no positions beside their entries, so they make one group.
    is_flat = isinstance(norm, (nn.BatchNorm1d, nn.LazyBatchNorm1d))
    if isinstance(norm, _LazyNormBase) and norm.num_features == 0:
        return _LazyGroupNorm(norm, is_flat=is_flat).train(norm.training)
    channels = norm.num_features
    device = norm.weight.device if norm.affine else None
    groups = 1 if is_flat else _num_groups(channels)
    replacement = nn.GroupNorm(groups, channels, eps=norm.eps, affine=norm.affine, device=device)
    if norm.affine:
        replacement.weight, replacement.bias = norm.weight, norm.bias
    return replacement.train(norm.training)


class _LazyGroupNorm(LazyModuleMixin, nn.GroupNorm):
    """A group norm that learns its number of channels from its first input, and then is an ordinary one."""

    cls_to_become = nn.GroupNorm
    weight: UninitializedParameter  # type: ignore[assignment]
    bias: UninitializedParameter  # type: ignore[assignment]

    def __init__(self, norm: Any, *, is_flat: bool) -> None:
        """Take the options of a lazy batch norm."""
        super().__init__(1, 0, eps=norm.eps, affine=False)
        self.affine, self._is_flat = norm.affine, is_flat
        if norm.affine:
            self.weight, self.bias = norm.weight, norm.bias

    def reset_parameters(self) -> None:
        """Start from 1 and 0, once there are channels."""
        if self.num_channels:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # noqa: A002
        """Take the channels of an input."""
        self.num_channels = input.shape[1]
        self.num_groups = 1 if self._is_flat else _num_groups(self.num_channels)
        if self.affine:
            for parameter in (self.weight, self.bias):
                if isinstance(parameter, (UninitializedParameter, UninitializedBuffer)):
                    parameter.materialize((self.num_channels,))
            self.reset_parameters()
