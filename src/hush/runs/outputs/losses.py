"""Losses and predictions by the kind of target: classes are integers, numbers floats, and labels have columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from hush.runs.networks import class_probabilities, outputs


def row_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the loss of each example; one without a target contributes a zero gradient.

    Cross-entropy for classes, half of the squared error for numbers, and the mean of the labels' cross-entropies.

    >>> row_losses(torch.tensor([[0.5], [3.0]]), torch.tensor([1.0, torch.nan])).tolist()
    [0.125, 0.0]
    """
    if targets.is_floating_point():
        is_known = ~torch.isnan(targets)
        errors = torch.where(is_known, logits[:, 0] - torch.where(is_known, targets, 0.0), 0.0)
        return errors.square() / 2
    if targets.ndim == 1:
        return F.cross_entropy(logits, targets, reduction="none", ignore_index=-1)
    is_known = targets >= 0
    losses = F.binary_cross_entropy_with_logits(logits, targets.clamp(min=0).to(logits.dtype), reduction="none")
    return torch.where(is_known, losses, 0.0).mean(1)


@torch.no_grad()
def predictions(module: nn.Module, inputs: Tensor, targets: NDArray[Any]) -> NDArray[np.float64]:
    """Return what a module predicts for such targets: probabilities, [inputs, classes], or numbers, [inputs]."""
    if targets.dtype.kind == "f":
        return outputs(module, inputs)[:, 0]
    if targets.ndim == 1:
        return class_probabilities(module, inputs)
    values = outputs(module, inputs)
    # Weights that overflowed give NaN; a warning would depend on a row.
    with np.errstate(all="ignore"):
        return np.asarray(1 / (1 + np.exp(-values)), dtype=np.float64)
