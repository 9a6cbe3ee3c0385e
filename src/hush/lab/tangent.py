"""Tools for `hush.lab.ntk`: a model on a batch, in float64, as functions of its parameters.

Parameters, buffers and data are copied to float64 once, and the model runs on the copies by ``torch.func``. The model
itself stays as it is.

`Tangent`           outputs, and their Jacobian J with respect to each parameter
`TangentObjective`  with a loss: residuals u, the mean loss, and the mean of the (clipped) gradients
`factors`           the clip factors of per-example gradients, as training would compute them

Shapes: n examples, k outputs per example.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, vmap

from hush.errors import InvalidArgument, Unsupported, check_instance
from hush.training import Clipping

# From outputs and targets, with the batch as first dimension, to one loss per example.
Loss = Callable[[Tensor, Tensor], Tensor]
Params = dict[str, Tensor]

_ADVICE = "Call model.eval() first: dropout and batch statistics are fixed then"


class Tangent:
    """The outputs of a model on a batch, and how they change with its parameters.

    Attributes:
        params: Copies of the trained parameters.
        x: A copy of the examples.
    """

    def __init__(self, model: nn.Module, x: Tensor) -> None:
        """Copy the model's parameters and buffers as they are now, and refuse a model that mixes examples."""
        check_instance("model", model, nn.Module)
        check_instance("x", x, Tensor)
        if not (x.dim() and len(x)):
            raise InvalidArgument("x.shape", tuple(x.shape), "at least one example", "The batch comes first")
        named = dict(model.named_parameters())
        self.params = {name: precise(param) for name, param in named.items() if param.requires_grad}
        if not self.params:
            raise InvalidArgument("model", type(model).__name__, "a model with trainable parameters")
        frozen = {name: param for name, param in named.items() if not param.requires_grad}
        self._constants = {name: precise(value) for name, value in (frozen | dict(model.named_buffers())).items()}
        self._model, self.x = model, precise(x)
        self._refuse_mixing()

    def _refuse_mixing(self) -> None:
        """Refuse a model whose output for an example on its own differs from its output in the batch."""
        try:
            alone = vmap(lambda x: self.outputs(self.params, x.unsqueeze(0)).squeeze(0))(self.x)
        except (RuntimeError, ValueError) as error:  # such as random numbers, or batch statistics of one example
            if isinstance(error, InvalidArgument):
                raise
            raise Unsupported(f"the model: it does not run on each example by itself ({error})", _ADVICE) from error
        if not torch.allclose(alone, self.outputs(self.params, self.x), rtol=1e-6, atol=1e-9, equal_nan=True):
            raise Unsupported("the model: its output for an example depends on the rest of the batch", _ADVICE)

    def outputs(self, params: Params, x: Tensor) -> Tensor:
        """Return the model's outputs with these parameters: [n, ...]."""
        outputs: Any = functional_call(self._model, {**params, **self._constants}, (x,))
        if not (isinstance(outputs, Tensor) and outputs.dim() and len(outputs) == len(x)):
            raise InvalidArgument("model", type(self._model).__name__, "one tensor as output, whose batch comes first")
        return outputs

    def jacobian(self) -> Params:
        """Return the derivatives of the outputs with respect to each parameter: [n, k, *shape]."""

        def flat_outputs(params: Params, x: Tensor) -> Tensor:
            return self.outputs(params, x.unsqueeze(0)).flatten()

        jacobians: Params = vmap(jacrev(flat_outputs), in_dims=(None, 0))(self.params, self.x)
        return {name: value.detach() for name, value in jacobians.items()}


class TangentObjective(Tangent):
    """A `Tangent` with targets and a loss for each example."""

    def __init__(self, model: nn.Module, x: Tensor, y: Tensor, loss: Loss) -> None:
        """Copy the model, the examples and their targets."""
        super().__init__(model, x)
        check_instance("y", y, Tensor)
        if y.shape[:1] != x.shape[:1]:
            raise InvalidArgument("y.shape", tuple(y.shape), "a target for each example", "The batch comes first")
        self._y, self._loss = precise(y), loss

    def _losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        losses: Any = self._loss(outputs, y)
        if not (isinstance(losses, Tensor) and losses.shape == outputs.shape[:1]):
            raise InvalidArgument("loss", self._loss, "one loss per example", 'For example with reduction="none"')
        return losses

    def mean_loss(self, params: Params) -> Tensor:
        """Return the mean of the examples' losses."""
        return self._losses(self.outputs(params, self.x), self._y).mean()

    def residual(self) -> Tensor:
        """Return the gradient of each example's loss with respect to its own outputs: [n, k]."""
        outputs = self.outputs(self.params, self.x)
        residual: Tensor = grad(lambda values: self._losses(values, self._y).sum())(outputs).detach()
        return residual.reshape(len(residual), -1)

    def mean_gradient(self, params: Params, clipping: Clipping | None = None) -> Params:
        """Return the mean of the examples' (clipped) gradients.

        It is computed by autograd, not from the Jacobian, so that tests can compare the two.
        """
        if clipping is None:
            unclipped: Params = grad(self.mean_loss)(params)
            return unclipped

        def example_loss(params: Params, x: Tensor, y: Tensor) -> Tensor:
            return self._losses(self.outputs(params, x.unsqueeze(0)), y.unsqueeze(0)).sum()

        gradients: Params = vmap(grad(example_loss), in_dims=(None, 0, 0))(params, self.x, self._y)
        clip_factors, groups = factors(gradients, clipping)
        return {
            name: torch.einsum("n,n...->...", clip_factors[group], value) / len(value)
            for (name, value), group in zip(gradients.items(), groups, strict=True)
        }


def factors(gradients: Params, clipping: Clipping | None) -> tuple[Tensor, list[int]]:
    """Return clip factors, [groups, n], and the group of each parameter.

    Args:
        gradients: Per-example gradients of every parameter: [n, *shape].
        clipping: How to clip; all factors are 1 without it.
    """
    first = next(iter(gradients.values()))
    if clipping is None:
        return first.new_ones(1, len(first)), [0] * len(gradients)
    check_instance("clipping", clipping, Clipping, "For example Flat(1.0)")
    groups, shares = clipping.groups.of({name: value[0].numel() for name, value in gradients.items()})
    squares = first.new_zeros(len(shares), len(first))
    for group, value in zip(groups, gradients.values(), strict=True):
        squares[group] += value.reshape(len(value), -1).square().sum(1)
    # Training lowers the clip norm by a margin for rounding in fp32; in float64 there is no need.
    targets = clipping.clip_norm * first.new_tensor(shares).unsqueeze(1)
    return clipping.factors(squares.sqrt(), targets).to(first), groups


def precise(value: Tensor) -> Tensor:
    """Return a copy outside of autograd: in float64, or as it is if its numbers are integers."""
    return value.detach().to(torch.float64 if value.is_floating_point() else value.dtype, copy=True)
