"""The training to audit, with a canary as its first unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from hush.errors import InvalidArgument, Unsupported
from hush.training import Adaptive, Clipping

CANARY = 0  # the canary's number among the units
Loss = Callable[..., Tensor]  # a function of the model and the columns of a batch: one loss per example


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The training to audit: a model, data whose first unit is the canary, a loss, and settings of `hush.privatize`.

    Choose a worst-case canary: an example with a large gradient, orthogonal or opposite to those of all others. The
    attacker knows the other examples.

    >>> import torch
    >>> from torch import nn
    >>> examples = torch.eye(4)
    >>> examples[0] *= 10.0  # the canary
    >>> setup = Setup(
    ...     model=lambda: nn.Linear(4, 1, bias=False),
    ...     data=(examples,),
    ...     loss=lambda model, x: model(x).squeeze(1),
    ...     settings={"noise_multiplier": 1.0, "clip_norm": 1.0},
    ... )

    Attributes:
        model: A function that returns the model, the same each time.
        data: Tensors of equal length. The canary is the first unit; its first row is row 0.
        loss: A function of the model and the columns of a batch that returns one loss per example.
        settings: The other arguments of `hush.privatize`, without the number of steps and the source.
    """

    model: Callable[[], nn.Module]
    data: tuple[Tensor, ...]
    loss: Loss
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse settings that change from step to step: the observations would not be outputs of one mechanism."""
        for name in ("num_steps", "epochs", "source"):
            if name in self.settings:
                raise InvalidArgument("settings", name, "no argument that the audit sets itself")
        if self.settings.get("schedule") is not None or self.settings.get("correlated") is not None:
            raise Unsupported(
                "an audit of steps that differ, by a schedule or correlated noise", "Audit each setting separately"
            )
        if isinstance(self.settings.get("clipping"), Adaptive):
            raise Unsupported("an audit of steps with a changing clip norm", "Audit Flat clipping at a few clip norms")


def canary_direction(model: nn.Module, setup: Setup, canary: Tensor, clipping: Clipping) -> Tensor:
    """Return the unit vector along the canary's clipped gradient, computed by plain autograd."""
    params = {name: param for name, param in model.named_parameters() if param.requires_grad}
    losses = setup.loss(model, *(column[canary] for column in setup.data))
    raw_grads = torch.autograd.grad(losses.sum(), list(params.values()), allow_unused=True, materialize_grads=True)
    grads = [grad.double().flatten() for grad in raw_grads]
    group_of_param, shares = clipping.groups.of({name: param.numel() for name, param in params.items()})
    squares = torch.zeros(len(shares), dtype=torch.float64)
    for group, grad in zip(group_of_param, grads, strict=True):
        squares[group] += grad.square().sum()
    targets = torch.tensor(shares, dtype=torch.float64) * clipping.clip_norm
    factors = clipping.factors(squares.sqrt().unsqueeze(1), targets.unsqueeze(1)).squeeze(1)
    if not bool((factors * squares).sum() > 0):  # clipping drops the canary: look along its raw gradient instead
        factors = torch.ones_like(factors)
    clipped = torch.cat([grad * factors[group] for group, grad in zip(group_of_param, grads, strict=True)])
    norm: Tensor = torch.linalg.vector_norm(clipped)
    if not bool(norm > 0) or not bool(torch.isfinite(norm)):
        raise InvalidArgument("data", "the first unit", "a canary whose gradient is finite and not zero")
    direction: Tensor = clipped / norm
    return direction
