"""Layers as autograd functions whose backward brings every example's gradient out, and computes no weight gradient.

Parameters take no part in autograd. Instead, a function takes *taps*, expanded zeros that require a gradient; in the
backward pass it returns, as the "gradient" of a tap, what the clipped sum needs: every example's gradient, or the
layer's input and the gradient of its output, from which norms and sums can be found (as in ghost clipping, Li et al.
2022, and book-keeping, Bu et al. 2023). Nothing is stored by side effect, so that torch.compile sees one graph.

Shapes: B examples, T positions, d inputs, p outputs.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from hush.errors import Unsupported
from hush.training.per_example.convolution import ConvShape

Gradients = tuple[Tensor | None, ...]


def _saved(ctx: Any) -> tuple[Tensor, ...]:
    if torch.compiler.is_compiling():
        return tuple(ctx.saved_tensors)
    if torch.is_grad_enabled():
        raise Unsupported(
            f"{ctx.layer}: gradients of gradients (create_graph=True)", "Penalties on gradients have no private way yet"
        )
    try:
        return tuple(ctx.saved_tensors)
    except RuntimeError as error:
        if "inplace" not in str(error):
            raise
        raise Unsupported(
            f"{ctx.layer}: its input was changed in place afterwards", "Write x = x + y, not x += y"
        ) from error


class LinearFunction(Function):
    """y = x W^T + b, with any number of positions between the batch and the features."""

    @staticmethod
    def forward(
        ctx: Any,
        layer: str,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        tap_x: Tensor | None,
        tap_g: Tensor | None,
        tap_whole: Tensor | None,
        tap_bias: Tensor | None,
    ) -> Tensor:
        """Take taps for x and g, or for every example's gradient of W; and for those of b."""
        ctx.layer = layer
        ctx.save_for_backward(x, weight)
        ctx.wanted = (tap_x is not None, tap_whole is not None, tap_bias is not None)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        """Return the gradient of x, and what the taps take."""
        x, weight = _saved(ctx)
        size = len(x)
        of_input = g @ weight if ctx.needs_input_grad[1] else None
        products, whole, bias = ctx.wanted
        g = g.reshape(size, -1, g.shape[-1])
        x = x.reshape(size, -1, x.shape[-1])
        return (
            None,
            of_input,
            None,
            None,
            x if products else None,
            g if products else None,
            torch.bmm(g.mT, x) if whole else None,
            g.sum(1, dtype=torch.float32) if bias else None,
        )


class Convolution(Function):
    """A convolution of any dimension, stride, dilation and number of groups, padded with zeros."""

    @staticmethod
    def forward(
        ctx: Any,
        layer: str,
        shape: ConvShape,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        tap_x: Tensor | None,
        tap_g: Tensor | None,
        tap_whole: Tensor | None,
        tap_bias: Tensor | None,
    ) -> Tensor:
        """Take taps for x and g, or for every example's gradient of the weight; and for those of the bias."""
        ctx.layer, ctx.shape = layer, shape
        ctx.save_for_backward(x, weight)
        ctx.wanted = (tap_x is not None, tap_whole is not None, tap_bias is not None)
        convolve = (F.conv1d, F.conv2d, F.conv3d)[len(shape.stride) - 1]
        y: Tensor = convolve(x, weight, bias, shape.stride, shape.padding, shape.dilation, shape.groups)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        """Return the gradient of x, and what the taps take."""
        x, weight = _saved(ctx)
        shape: ConvShape = ctx.shape
        products, whole, bias = ctx.wanted
        return (
            None,
            None,
            shape.backward(g, x, weight, of_input=True) if ctx.needs_input_grad[2] else None,
            None,
            None,
            x if products else None,
            g if products else None,
            shape.per_example(x, g) if whole else None,
            g.flatten(2).sum(2, dtype=torch.float32) if bias else None,
        )


class Affine(Function):
    """y = x w + b with w and b along some dimensions of x: what remains of a norm layer after normalising."""

    @staticmethod
    def forward(
        ctx: Any,
        layer: str,
        dims: tuple[int, ...],
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        tap_weight: Tensor | None,
        tap_bias: Tensor | None,
    ) -> Tensor:
        """Take the dimensions (after the batch) over which w and b are shared, and taps for their gradients."""
        ctx.layer, ctx.dims = layer, dims
        ctx.save_for_backward(*(each for each in (x, weight) if each is not None))
        ctx.wanted = (tap_weight is not None, tap_bias is not None)
        # No conversion where none is needed: torch 2.11's dynamo loses the gradient of an output that is one.
        y = x * weight if weight is not None else x.clone() if bias is None else x
        y = y if bias is None else y + bias
        return y if y.dtype is x.dtype else y.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        """Return the gradient of x, and what the taps take."""
        x, *weight = _saved(ctx)
        of_input = (g * weight[0] if weight else g).to(x.dtype) if ctx.needs_input_grad[2] else None
        g = g.float()
        of_weight = _summed(g * x, ctx.dims) if ctx.wanted[0] else None
        return None, None, of_input, None, None, of_weight, _summed(g, ctx.dims) if ctx.wanted[1] else None


def _summed(values: Tensor, dims: tuple[int, ...]) -> Tensor:
    return (values.sum(dims) if dims else values).flatten(1)


class Lookup(Function):
    """Rows of a table."""

    @staticmethod
    def forward(ctx: Any, layer: str, indices: Tensor, weight: Tensor, padding: int | None, *taps: Tensor) -> Tensor:
        """Take taps for indices (as fp64, which holds them exactly) and for gradients of rows."""
        ctx.layer, ctx.padding = layer, padding
        ctx.save_for_backward(indices)
        return F.embedding(indices, weight)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        """Return what the taps take."""
        (indices,) = _saved(ctx)
        indices = indices.reshape(len(indices), -1)
        g = g.reshape(*indices.shape, -1)
        g = g if g.dtype is torch.float64 else g.float()
        if ctx.padding is not None:
            g = g.masked_fill((indices == ctx.padding).unsqueeze(-1), 0.0)
        return None, None, None, None, indices.double(), g
