"""Checks of optimizers: they must cover all trained parameters of the model, and no others."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from hush.errors import InvalidArgument, Unsupported, check_instance
from hush.training.plan.training_plan import TrainingPlan

_SHOWN_NAMES = 8  # parameters that a message names


def check_optimizers(model: nn.Module, optimizers: Sequence[Optimizer], plan: TrainingPlan) -> None:
    """Refuse optimizers that cannot train a model under a plan."""
    for optimizer in optimizers:
        check_instance("optimizer", optimizer, Optimizer, "Such as torch.optim.SGD(model.parameters(), lr=0.1)")
        check_optimizer(model, optimizer)
    _refuse_untrained(model, optimizers)
    for optimizer in optimizers:
        if plan.correlated is not None and hasattr(optimizer, "noise_stddev"):
            raise Unsupported(f"{type(optimizer).__name__} with correlated noise, whose size changes from step to step")


def check_optimizer(model: nn.Module, optimizer: Optimizer) -> None:
    """Refuse an optimizer that would change something without noise, or evaluate a loss again."""
    params = {id(param) for param in model.parameters()}
    for group in optimizer.param_groups:
        if any(id(param) not in params for param in group["params"]):
            raise InvalidArgument(
                "optimizer", type(optimizer).__name__, "an optimizer over the model's own parameters only"
            )
    if isinstance(optimizer, torch.optim.LBFGS):
        raise Unsupported("LBFGS evaluates the loss several times per step", "Use SGD or AdamW")
    if not any(param.requires_grad for param in model.parameters()):
        raise InvalidArgument("model", type(model).__name__, "at least one parameter that requires a gradient")


def refuse_later_parameters(params: Sequence[Tensor], optimizers: Sequence[Optimizer]) -> None:
    """Refuse parameters that came after the run began: the optimizers would use their gradients without noise.

    Args:
        params: The model's parameters when the run began.
        optimizers: The optimizers.
    """
    known = {id(param) for param in params}
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    if any(id(param) not in known for group in groups for param in group["params"]):
        raise Unsupported(
            "an optimizer over parameters that the model did not have when the run began",
            "Complete the model before privatize; to begin with fewer parameters, freeze the others",
        )


def _refuse_untrained(model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
    """Refuse parameters that require a gradient but have no optimizer: they would be paid for and never change."""
    optimized = {id(param) for optimizer in optimizers for group in optimizer.param_groups for param in group["params"]}
    missing = [name for name, param in model.named_parameters() if param.requires_grad and id(param) not in optimized]
    if missing:
        raise InvalidArgument(
            "optimizer",
            ", ".join(missing[:_SHOWN_NAMES]) + (", ..." if len(missing) > _SHOWN_NAMES else ""),
            "an optimizer for every parameter that requires a gradient",
            "Freeze the others, or build the optimizer after the model is complete",
        )
