"""Layers as autograd functions whose backward pass returns per-example gradients instead of weight gradients.

Parameters take no part in autograd. Instead, a function takes *taps*: expanded zeros that require a gradient. In the
backward pass it returns, as the "gradient" of a tap, what the clipped sum needs. That is either every example's
gradient, or the layer's input x and the gradient g of its output, from which norms and sums follow (as in ghost
clipping, Li et al. 2022, and book-keeping, Bu et al. 2023). Nothing is stored by side effect, so torch.compile sees one
graph.

A tap is None if it is not needed: the parameter is frozen, or another tap serves it.

Shapes: B examples, T positions, d inputs, p outputs.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from hush.errors import Unsupported
from hush.training.kernels.recurrence import Steps, Weights, run_steps
from hush.training.per_example.convolution import ConvShape

Gradients = tuple[Tensor | None, ...]


def _saved(ctx: Any) -> tuple[Tensor, ...]:
    """Return the tensors that the forward saved, or raise an error that explains why they cannot be used."""
    if torch.compiler.is_compiling():
        return tuple(ctx.saved_tensors)
    # A gradient of the gradient would need per-example second derivatives, which the taps do not carry.
    if torch.is_grad_enabled():
        raise Unsupported(
            f"{ctx.layer}: gradients of gradients (create_graph=True)",
            "Penalties on gradients cannot be trained privately yet",
        )
    try:
        return tuple(ctx.saved_tensors)
    except RuntimeError as error:
        if "inplace" not in str(error):
            raise
        raise Unsupported(
            f"{ctx.layer}: its input was changed in place afterwards", "Write x = x + y instead of x += y"
        ) from error


class LinearFunction(Function):
    """A linear layer y = x W^T + b, with any number of positions between the batch and the features.

    The gradient of W for an example is the sum over its positions of g^T x; that of b is the sum of g.
    """

    @staticmethod
    def forward(
        ctx: Any,
        layer: str,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        tap_x: Tensor | None,
        tap_g: Tensor | None,
        tap_dense: Tensor | None,
        tap_bias: Tensor | None,
    ) -> Tensor:
        """Take taps for x and g or for the gradients of W, and for those of b."""
        ctx.layer = layer
        ctx.save_for_backward(x, weight)
        ctx.wanted = (tap_x is not None, tap_dense is not None, tap_bias is not None)
        y = F.linear(x, weight, bias)
        # Of three dimensions, torch returns a view, which nobody could change in place.
        return y if torch.compiler.is_compiling() or not y._is_view() else y.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        """Return the gradient of x, and those of the taps."""
        x, weight = _saved(ctx)
        size = len(x)
        # y = x W^T + b gives dL/dx = g W.
        of_input = g @ weight if ctx.needs_input_grad[1] else None
        wants_products, wants_dense, wants_bias = ctx.wanted
        # [B, T, p] and [B, T, d], whatever lies between the batch and the features.
        g = g.reshape(size, -1, g.shape[-1])
        x = x.reshape(size, -1, x.shape[-1])
        return (
            None,
            of_input,
            None,
            None,
            x if wants_products else None,
            g if wants_products else None,
            torch.bmm(g.mT, x) if wants_dense else None,
            g.sum(1, dtype=_wide(g)) if wants_bias else None,
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
        tap_dense: Tensor | None,
        tap_bias: Tensor | None,
    ) -> Tensor:
        """Take taps for x and g or for the gradients of the weight, and for those of the bias."""
        ctx.layer, ctx.shape = layer, shape
        ctx.save_for_backward(x, weight)
        ctx.wanted = (tap_x is not None, tap_dense is not None, tap_bias is not None)
        convolve = (F.conv1d, F.conv2d, F.conv3d)[len(shape.stride) - 1]
        y: Tensor = convolve(x, weight, bias, shape.stride, shape.padding, shape.dilation, shape.groups)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        """Return the gradient of x, and those of the taps."""
        x, weight = _saved(ctx)
        shape: ConvShape = ctx.shape
        wants_products, wants_dense, wants_bias = ctx.wanted
        return (
            None,
            None,
            # The transposed convolution of g.
            shape.backward(g, x, weight, of_input=True) if ctx.needs_input_grad[2] else None,
            None,
            None,
            x if wants_products else None,
            g if wants_products else None,
            # Each example's own weight gradient, which torch would only give summed.
            shape.per_example(x, g) if wants_dense else None,
            g.flatten(2).sum(2, dtype=_wide(g)) if wants_bias else None,
        )


class Affine(Function):
    """The affine part of a norm layer: y = x w + b, with w and b along some dimensions of the normalised x.

    The gradients of w and b for an example are the sums of g x and of g over the other dimensions.
    """

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
        """Take the dimensions, after the batch, over which w and b are shared; and taps for their gradients."""
        ctx.layer, ctx.dims = layer, dims
        ctx.save_for_backward(*(tensor for tensor in (x, weight) if tensor is not None))
        ctx.wanted = (tap_weight is not None, tap_bias is not None)
        # Convert only where it is needed: torch 2.11's dynamo loses the gradient of an output that is a conversion to
        # its own type.
        y = x * weight if weight is not None else x.clone() if bias is None else x
        y = y if bias is None else y + bias
        return y if y.dtype is x.dtype else y.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        """Return the gradient of x, and those of the taps."""
        x, *weight = _saved(ctx)
        # y = x w + b, elementwise: dL/dx = g w, dL/dw = sum of g x, dL/db = sum of g.
        of_input = (g * weight[0] if weight else g).to(x.dtype) if ctx.needs_input_grad[2] else None
        g = g.to(_wide(g))
        of_weight = _summed(g * x, ctx.dims) if ctx.wanted[0] else None
        return None, None, of_input, None, None, of_weight, _summed(g, ctx.dims) if ctx.wanted[1] else None


def _wide(g: Tensor) -> torch.dtype:
    """Return the type of sums over positions: fp32 at least, as half precision would be too coarse."""
    return torch.float64 if g.dtype is torch.float64 else torch.float32


def _summed(values: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return [B, n]: the sums over these dimensions, flattened."""
    return (values.sum(dims) if dims else values).flatten(1)


class Lookup(Function):
    """An embedding: rows of a table. The gradient of padding rows is dropped."""

    @staticmethod
    def forward(ctx: Any, layer: str, indices: Tensor, weight: Tensor, padding: int | None, *taps: Tensor) -> Tensor:
        """Take taps for the indices, as fp64, which holds them exactly, and for the gradients of the rows."""
        ctx.layer, ctx.padding = layer, padding
        ctx.save_for_backward(indices)
        return F.embedding(indices, weight)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        """Return the gradients of the taps."""
        (indices,) = _saved(ctx)
        indices = indices.reshape(len(indices), -1)
        g = g.reshape(*indices.shape, -1)
        g = g if g.dtype is torch.float64 else g.float()  # lookups of one row are added up later, not in half precision
        # torch drops the gradient of the padding row; so does this.
        if ctx.padding is not None:
            g = g.masked_fill((indices == ctx.padding).unsqueeze(-1), 0.0)
        return None, None, None, None, indices.double(), g


class Recurrence(Function):
    """The steps of a recurrent layer in one direction, from the gates' inputs W x + b of all steps.

    The gradients of the recurrent weight and its bias for an example are the sums over its steps of g^T h and of g,
    with the gradient g of the step's gates and the hidden state h before the step. A projection is a linear layer.
    """

    @staticmethod
    def forward(
        ctx: Any,
        layer: str,
        mode: str,
        lengths: Tensor | None,
        inputs: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        projection: Tensor | None,
        hidden: Tensor,
        cell: Tensor | None,
        *taps: Tensor | None,
    ) -> tuple[Tensor, ...]:
        """Take taps for h and g or for the gradients of the weight, one for the bias, and three for the projection.

        Returns the outputs [B, T, p] and the final states.
        """
        ctx.layer, ctx.lengths = layer, lengths
        ctx.wanted = tuple(tap is not None for tap in taps)
        ctx.save_for_backward(weight, *(() if projection is None else (projection,)))
        start = (hidden,) if cell is None else (hidden, cell)
        with torch.autocast(inputs.device.type, enabled=False):
            ctx.steps = run_steps(mode, inputs.transpose(0, 1), Weights(weight, bias, projection), start, lengths)
        # Copies: nobody may write to what the backward pass reads.
        outputs = ctx.steps.hidden[1:].transpose(0, 1).clone(memory_format=torch.contiguous_format)
        return outputs, *(state.clone() for state in ctx.steps.final)

    @staticmethod
    def backward(ctx: Any, g: Tensor, *final: Tensor) -> Gradients:
        """Return the gradients of the gates' inputs, of the initial states, and those of the taps."""
        _saved(ctx)
        steps: Steps = ctx.steps
        with torch.autocast(g.device.type, enabled=False):
            gradients = steps.backward(g.transpose(0, 1), final)
        hidden = steps.hidden[:-1].transpose(0, 1)
        if ctx.lengths is not None:
            # Beyond an example's length there is no gradient, and states may be anything.
            positions = torch.arange(hidden.shape[1], device=g.device)
            hidden = hidden.masked_fill((positions >= ctx.lengths.to(g.device).unsqueeze(1)).unsqueeze(2), 0.0)
        taps = _weight_taps(hidden, gradients.recurrent.transpose(0, 1), ctx.wanted[:3])
        of_bias = gradients.recurrent.sum(0, dtype=_wide(g)) if ctx.wanted[3] else None
        of_projection: Gradients = (None, None, None)
        if steps.unprojected is not None and gradients.outputs is not None:
            unprojected, outputs = steps.unprojected.transpose(0, 1), gradients.outputs.transpose(0, 1)
            of_projection = _weight_taps(unprojected, outputs, ctx.wanted[4:])
        start = (*gradients.start, None)[:2]
        inputs = gradients.inputs.transpose(0, 1)
        return None, None, None, inputs, None, None, None, *start, *taps, of_bias, *of_projection


def _weight_taps(x: Tensor, g: Tensor, wanted: tuple[bool, ...]) -> Gradients:
    """Return x [B, T, d] and g [B, T, p], or every example's product [B, p, d] of them, as far as they are wanted."""
    wants_x, wants_g, wants_dense = wanted
    return x if wants_x else None, g if wants_g else None, torch.bmm(g.mT, x) if wants_dense else None
