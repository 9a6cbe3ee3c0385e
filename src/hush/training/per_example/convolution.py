"""Per-example gradients of convolutions, of any dimension, stride, dilation and number of groups.

A convolution is a linear layer that is applied to patches of its input: the gradient of its weight is the sum over
positions of outer products of patches and output gradients, for each of its groups. `ConvShape` knows how to cut
patches and how to multiply them. `ConvPatches` is the form of gradient that leaves the products undone.

Shapes: B examples, T output positions, d = inputs per group times kernel size, p outputs per group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hush.training.per_example.gradients import Gradient
from hush.training.per_example.norms import CANCELLATION, scale_examples, zero_examples

_MAX_COPIED = 1 << 18  # elements of patches to copy at once on a CPU: 1 MiB stays in the cache
_MAX_COPIED_GPU = 1 << 25  # elements of patches to copy at once on a GPU


@dataclass(frozen=True, slots=True)
class ConvShape:
    """The shape of a convolution: everything that defines it, except the values of its weight.

    Attributes:
        stride, padding, dilation: One number for each spatial dimension. Padding is with zeros.
        groups: The number of groups.
        weight: The weight's shape.
    """

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    weight: tuple[int, ...]

    def backward(self, g: Tensor, x: Tensor, weight: Tensor, *, of_input: bool) -> Tensor:
        """Return the gradient of the input, or of the weight, summed over the examples."""
        # Only transposed convolutions pad their outputs.
        no_output_padding = [0] * len(self.stride)
        gradients = torch.ops.aten.convolution_backward(
            g,
            x,
            weight,
            None,
            self.stride,
            self.padding,
            self.dilation,
            False,
            no_output_padding,
            self.groups,
            [of_input, not of_input, False],
        )
        result: Tensor = gradients[0 if of_input else 1]
        return result

    def output(self, x: Tensor) -> tuple[int, ...]:
        """Return the spatial size of the output for an input [B, channels, *size]."""
        return tuple(
            # The last patch begins where it still fits: begin + dilation (kernel - 1) < size + 2 padding.
            (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
            for size, padding, dilation, kernel, stride in zip(
                x.shape[2:], self.padding, self.dilation, self.weight[2:], self.stride, strict=True
            )
        )

    def patches(self, x: Tensor) -> Tensor:
        """Return the part of the input that each output position depends on: [B, groups, d, T]."""
        if len(self.stride) == 1:
            return replace(self, **self._as_2d()).patches(x.unsqueeze(2))
        view = self._patch_view(x).permute(0, 1, 4, 5, 6, 2, 3)
        return view.reshape(len(x), self.groups, -1, math.prod(self.output(x)))

    def _patch_view(self, x: Tensor) -> Tensor:
        """Return the patches without a copy: [B, groups, height, width, inputs, kernel height, kernel width]."""
        view = F.pad(x, (self.padding[1], self.padding[1], self.padding[0], self.padding[0]))
        for dim in range(2):
            # A dilated kernel spans this many pixels, of which every dilation-th counts.
            extent = self.dilation[dim] * (self.weight[2 + dim] - 1) + 1
            view = view.unfold(2 + dim, extent, self.stride[dim])[..., :: self.dilation[dim]]
        view = view.reshape(len(view), self.groups, -1, *view.shape[2:])  # splits channels in two: still a view
        return view.permute(0, 1, 3, 4, 2, 5, 6)

    def _as_2d(self) -> dict[str, Any]:
        """Return the fields of a one-dimensional convolution as one of images of height 1."""
        return {
            "stride": (1, *self.stride),
            "padding": (0, *self.padding),
            "dilation": (1, *self.dilation),
            "weight": (*self.weight[:2], 1, *self.weight[2:]),
        }

    def per_example(self, x: Tensor, g: Tensor) -> Tensor:
        """Return each example's gradient of the weight: [B, *shape]."""
        if len(self.stride) == 3:
            return self._by_groups(x, g)
        if len(self.stride) == 1:
            return replace(self, **self._as_2d()).per_example(x.unsqueeze(2), g.unsqueeze(2)).squeeze(3)
        if not g.is_cuda:
            return self._by_patches(x, g)
        positions = math.prod(g.shape[2:])
        chunk_size = max(_MAX_COPIED_GPU // (self.groups * positions * math.prod(self.weight[1:])), 1)
        parts = []
        for start in range(0, len(x), chunk_size):
            x_part, g_part = x[start : start + chunk_size], g[start : start + chunk_size]
            patches = self.patches(x_part).flatten(0, 1)
            # [p, T] times [T, d], for each pair of example and group.
            parts.append(torch.bmm(g_part.reshape(len(patches), -1, positions), patches.mT))
        return torch.cat(parts).view(len(x), *self.weight)

    def _by_patches(self, x: Tensor, g: Tensor) -> Tensor:
        """Multiply each output's gradient with its patch, on a CPU.

        Patches are a view. They are copied for a few examples at a time, so that the copies stay in the cache.
        """
        size, outputs, height, width = g.shape
        groups, features = self.groups, math.prod(self.weight[1:])
        patches = self._patch_view(x)
        positions = height * width
        chunk_size = max(_MAX_COPIED // max(groups * positions * features, 1), 1)
        gradients = g.new_empty(size * groups, outputs // groups, features)
        output_gradients = g.reshape(size * groups, outputs // groups, positions)
        for start in range(0, size, chunk_size):
            rows = slice(start * groups, min(start + chunk_size, size) * groups)
            copied = patches[start : start + chunk_size].reshape(-1, positions, features)
            torch.bmm(output_gradients[rows], copied, out=gradients[rows])
        return gradients.view(size, *self.weight)

    def _by_groups(self, x: Tensor, g: Tensor) -> Tensor:
        """Treat the examples as groups of one large convolution, whose weight gradient keeps them apart."""
        size = len(g)
        # The gradient of a grouped convolution's weight has a block for each group, and each block sees its group only.
        grouped = replace(self, groups=size * self.groups)
        weight = x.new_empty(size * self.weight[0], *self.weight[1:])
        x, g = x.reshape(1, -1, *x.shape[2:]), g.reshape(1, -1, *g.shape[2:])
        return grouped.backward(g, x, weight, of_input=False).view(size, *self.weight)


@dataclass(frozen=True, slots=True)
class ConvPatches(Gradient):
    """The gradients of a convolution: products of patches and output gradients, left undone.

    Attributes:
        x: The inputs, [B, channels, *size].
        g: The gradients of the outputs.
        shape: The convolution.
    """

    x: Tensor
    g: Tensor
    shape: ConvShape

    @property
    def terms(self) -> float:
        return len(self.g) * math.prod(self.g.shape[2:]) * CANCELLATION

    def product(self) -> tuple[Tensor, Tensor]:
        patches = self.shape.patches(self.x).flatten(0, 1).mT  # [B groups, T, d]
        return patches, self.g.reshape(len(patches), -1, patches.shape[1]).mT

    def materialize(self) -> Tensor:
        return self.shape.per_example(self.x, self.g)

    def weighted_sum(self, factors: Tensor) -> Tensor:
        # The weighted sum is the ordinary weight gradient for scaled output gradients: no patches are needed.
        scaled = scale_examples(self.g, factors)
        x = scale_examples(self.x, factors > 0) if self.x.is_cuda else self.x.double()
        return self.shape.backward(scaled, x, scaled.new_empty(self.shape.weight), of_input=False)

    def without(self, bad: Tensor) -> ConvPatches:
        return replace(self, x=zero_examples(self.x, bad), g=zero_examples(self.g, bad))
