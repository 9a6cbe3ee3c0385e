"""A model on a batch in float64, as functions of its parameters: what the laboratory `hush.lab.ntk` works with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, vmap

from hush.errors import InvalidArgument, Unsupported, check_instance
from hush.training.plan.clipping import Clipping

# From outputs and targets, with the batch as first dimension, to one loss per example.
Loss = Callable[[Tensor, Tensor], Tensor]
Params = dict[str, Tensor]

_ADVICE = "Dropout and batch statistics are at rest after model.eval()"


class Tangent:
    """What a model says of a batch, and how that changes with its parameters."""

    def __init__(self, model: nn.Module, x: Tensor) -> None:
        """Take the model's parameters and buffers as they are now; what is done here leaves them alone."""
        check_instance("model", model, nn.Module)
        check_instance("x", x, Tensor)
        if not (x.dim() and len(x)):
            raise InvalidArgument("x.shape", tuple(x.shape), "at least one example", "The batch comes first")
        named = dict(model.named_parameters())
        self.params = {name: precise(one) for name, one in named.items() if one.requires_grad}
        if not self.params:
            raise InvalidArgument("model", type(model).__name__, "a model with parameters that are trained")
        frozen = {name: one for name, one in named.items() if not one.requires_grad}
        self._constants = {name: precise(one) for name, one in (frozen | dict(model.named_buffers())).items()}
        self._model, self.x = model, precise(x)
        self._check()

    def _check(self) -> None:
        """Refuse a model that says something else of an example by itself than of the same one in the batch."""
        try:
            alone = vmap(lambda x: self.outputs(self.params, x.unsqueeze(0)).squeeze(0))(self.x)
        except (RuntimeError, ValueError) as error:  # such as random numbers, or batch statistics of one example
            if isinstance(error, InvalidArgument):
                raise
            raise Unsupported(f"the model: it does not run on each example by itself ({error})", _ADVICE) from error
        if not torch.allclose(alone, self.outputs(self.params, self.x), rtol=1e-6, atol=1e-9, equal_nan=True):
            raise Unsupported("the model: it says something else of an example alone than of a batch", _ADVICE)

    def outputs(self, params: Params, x: Tensor) -> Tensor:
        """Return what the model says with these parameters: [n, ...]."""
        found: Any = functional_call(self._model, {**params, **self._constants}, (x,))
        if not (isinstance(found, Tensor) and found.dim() and len(found) == len(x)):
            raise InvalidArgument("model", type(self._model).__name__, "one tensor as output, whose batch comes first")
        return found

    def jacobian(self) -> Params:
        """Return the outputs' derivatives by each parameter: [n, k, *shape]."""

        def one(params: Params, x: Tensor) -> Tensor:
            return self.outputs(params, x.unsqueeze(0)).flatten()

        found: Params = vmap(jacrev(one), in_dims=(None, 0))(self.params, self.x)
        return {name: each.detach() for name, each in found.items()}


class TangentObjective(Tangent):
    """The same, with a loss for each example."""

    def __init__(self, model: nn.Module, x: Tensor, y: Tensor, loss: Loss) -> None:
        """Take targets, and what compares outputs with them, too."""
        super().__init__(model, x)
        check_instance("y", y, Tensor)
        if y.shape[:1] != x.shape[:1]:
            raise InvalidArgument("y.shape", tuple(y.shape), "a target for each example", "The batch comes first")
        self._y, self._loss = precise(y), loss

    def _losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        found: Any = self._loss(outputs, y)
        if not (isinstance(found, Tensor) and found.shape == outputs.shape[:1]):
            raise InvalidArgument("loss", self._loss, "one loss per example", 'Such as with reduction="none"')
        return found

    def mean_loss(self, params: Params) -> Tensor:
        """Return the mean of the examples' losses."""
        return self._losses(self.outputs(params, self.x), self._y).mean()

    def residual(self) -> Tensor:
        """Return the gradient of each example's loss by its own outputs: [n, k]."""
        outputs = self.outputs(self.params, self.x)
        found: Tensor = grad(lambda values: self._losses(values, self._y).sum())(outputs).detach()
        return found.reshape(len(found), -1)

    def mean_gradient(self, params: Params, clipping: Clipping | None = None) -> Params:
        """Return the mean of the examples' (clipped) gradients, by autograd: it does not rest on the Jacobian."""
        if clipping is None:
            whole: Params = grad(self.mean_loss)(params)
            return whole

        def one(params: Params, x: Tensor, y: Tensor) -> Tensor:
            return self._losses(self.outputs(params, x.unsqueeze(0)), y.unsqueeze(0)).sum()

        each: Params = vmap(grad(one), in_dims=(None, 0, 0))(params, self.x, self._y)
        found, places = factors(each, clipping)
        return {
            name: torch.einsum("n,n...->...", found[place], value) / len(value)
            for (name, value), place in zip(each.items(), places, strict=True)
        }


def factors(each: Params, clipping: Clipping | None) -> tuple[Tensor, list[int]]:
    """Return factors, [groups, n], for gradients [n, *shape] of every parameter, and the parameters' groups."""
    first = next(iter(each.values()))
    if clipping is None:
        return first.new_ones(1, len(first)), [0] * len(each)
    check_instance("clipping", clipping, Clipping, "Such as Flat(1.0)")
    places, shares = clipping.groups.of({name: value[0].numel() for name, value in each.items()})
    squares = first.new_zeros(len(shares), len(first))
    for place, value in zip(places, each.values(), strict=True):
        squares[place] += value.reshape(len(value), -1).square().sum(1)
    # In training, the clip norm is lowered by a margin for rounding; here, it is what it says.
    targets = clipping.clip_norm * first.new_tensor(shares).unsqueeze(1)
    return clipping.factors(squares.sqrt(), targets).to(first), places


def precise(value: Tensor) -> Tensor:
    """Return a copy of the numbers, out of autograd, in float64 if they are no integers."""
    return value.detach().to(torch.float64 if value.is_floating_point() else value.dtype, copy=True)
