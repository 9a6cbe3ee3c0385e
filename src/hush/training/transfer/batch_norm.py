"""A replacement for batch norm, which mixes the examples of a batch and so cannot be trained privately."""

from __future__ import annotations

from torch import nn

_MAX_GROUPS = 32  # the number of groups in Wu & He 2018, "Group Normalization"


def replace_batchnorm(model: nn.Module) -> nn.Module:
    """Replace every BatchNorm by a GroupNorm with its affine weights, and return the model.

    Batch norm mixes the examples of a batch, so it cannot be trained privately. The number of groups is the largest
    divisor of the channels up to 32; after `nn.BatchNorm1d`, where a group would have only a few entries, it is 1. The
    running statistics of batch norm are lost.

    >>> model = replace_batchnorm(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)))
    >>> type(model[1]).__name__, model[1].num_groups
    ('GroupNorm', 8)
    """
    if isinstance(model, nn.modules.batchnorm._BatchNorm):
        return _group_norm(model)
    for name, child in model.named_children():
        setattr(model, name, replace_batchnorm(child))
    return model


def _group_norm(norm: nn.modules.batchnorm._BatchNorm) -> nn.GroupNorm:
    channels = norm.num_features
    is_flat = isinstance(norm, nn.BatchNorm1d)
    groups = 1 if is_flat else max(count for count in range(1, _MAX_GROUPS + 1) if channels % count == 0)
    device = norm.weight.device if norm.affine else None
    replacement = nn.GroupNorm(groups, channels, eps=norm.eps, affine=norm.affine, device=device)
    if norm.affine:
        replacement.weight, replacement.bias = norm.weight, norm.bias
    return replacement.train(norm.training)
