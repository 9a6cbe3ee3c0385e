"""Convolutions of any dimension, stride, dilation and number of groups: every example's gradient of their weight."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hush.training.per_example.gradients import Gradient
from hush.training.per_example.norms import masked, times

_CACHED = 1 << 18  # numbers of patches to copy at once: 1 MiB
_COPIED = 1 << 25  # numbers of patches to copy at once on a GPU


@dataclass(frozen=True, slots=True)
class ConvShape:
    """What a convolution does: stride, padding, dilation, groups, and its weight's shape."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    weight: tuple[int, ...]

    def backward(self, g: Tensor, x: Tensor, weight: Tensor, *, of_input: bool) -> Tensor:
        """Return the gradient of the input, or of the weight."""
        zeros = [0] * len(self.stride)
        found = torch.ops.aten.convolution_backward(
            g,
            x,
            weight,
            None,
            self.stride,
            self.padding,
            self.dilation,
            False,
            zeros,
            self.groups,
            [of_input, not of_input, False],
        )
        result: Tensor = found[0 if of_input else 1]
        return result

    def output(self, x: Tensor) -> tuple[int, ...]:
        """Return the size of the output."""
        return tuple(
            (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
            for size, padding, dilation, kernel, stride in zip(
                x.shape[2:], self.padding, self.dilation, self.weight[2:], self.stride, strict=True
            )
        )

    def patches(self, x: Tensor) -> Tensor:
        """Return what each position saw: [B, groups, d, T]."""
        if len(self.stride) == 1:
            return replace(self, **self._flattened()).patches(x.unsqueeze(2))
        view = self._view(x).permute(0, 1, 4, 5, 6, 2, 3)
        return view.reshape(len(x), self.groups, -1, math.prod(self.output(x)))

    def _view(self, x: Tensor) -> Tensor:
        """Return the same without a copy: [B, groups, height, width, inputs, kernel height, kernel width]."""
        view = F.pad(x, (self.padding[1], self.padding[1], self.padding[0], self.padding[0]))
        for dim in range(2):
            extent = self.dilation[dim] * (self.weight[2 + dim] - 1) + 1
            view = view.unfold(2 + dim, extent, self.stride[dim])[..., :: self.dilation[dim]]
        view = view.reshape(len(view), self.groups, -1, *view.shape[2:])  # a view: channels are split in two
        return view.permute(0, 1, 3, 4, 2, 5, 6)

    def _flattened(self) -> dict[str, Any]:
        return {
            "stride": (1, *self.stride),
            "padding": (0, *self.padding),
            "dilation": (1, *self.dilation),
            "weight": (*self.weight[:2], 1, *self.weight[2:]),
        }

    def per_example(self, x: Tensor, g: Tensor) -> Tensor:
        """Return each example's gradient of the weight: [B, *shape]."""
        if len(self.stride) == 3:
            return self._grouped(x, g)
        if len(self.stride) == 1:
            return replace(self, **self._flattened()).per_example(x.unsqueeze(2), g.unsqueeze(2)).squeeze(3)
        if not g.is_cuda:
            return self._unfolded(x, g)
        positions = math.prod(g.shape[2:])
        some = max(_COPIED // (self.groups * positions * math.prod(self.weight[1:])), 1)
        parts = []
        for start in range(0, len(x), some):
            x_part, g_part = x[start : start + some], g[start : start + some]
            patches = self.patches(x_part).flatten(0, 1)
            parts.append(torch.bmm(g_part.reshape(len(patches), -1, positions), patches.mT))
        return torch.cat(parts).view(len(x), *self.weight)

    def _unfolded(self, x: Tensor, g: Tensor) -> Tensor:
        """Multiply the patches that each output saw with its gradient.

        Patches are a view; they are copied for so many examples at a time that they stay in the cache.
        """
        size, outputs, height, width = g.shape
        groups, features = self.groups, math.prod(self.weight[1:])
        patches = self._view(x)
        positions = height * width
        some = max(_CACHED // max(groups * positions * features, 1), 1)
        found = g.new_empty(size * groups, outputs // groups, features)
        gradients = g.reshape(size * groups, outputs // groups, positions)
        for start in range(0, size, some):
            here = slice(start * groups, min(start + some, size) * groups)
            copied = patches[start : start + some].reshape(-1, positions, features)
            torch.bmm(gradients[here], copied, out=found[here])
        return found.view(size, *self.weight)

    def _grouped(self, x: Tensor, g: Tensor) -> Tensor:
        """Treat the examples as groups of one large convolution."""
        size = len(g)
        many = replace(self, groups=size * self.groups)
        weight = x.new_empty(size * self.weight[0], *self.weight[1:])
        merged = x.reshape(1, -1, *x.shape[2:]), g.reshape(1, -1, *g.shape[2:])
        return many.backward(merged[1], merged[0], weight, of_input=False).view(size, *self.weight)


@dataclass(frozen=True, slots=True)
class Patches(Gradient):
    """A convolution's products of patches of x and gradients g, left undone."""

    x: Tensor
    g: Tensor
    shape: ConvShape

    def product(self) -> tuple[Tensor, Tensor]:
        patches = self.shape.patches(self.x).flatten(0, 1).mT  # [B groups, T, d]
        return patches, self.g.reshape(len(patches), -1, patches.shape[1]).mT

    def whole(self) -> Tensor:
        return self.shape.per_example(self.x, self.g)

    def weighted_sum(self, factors: Tensor) -> Tensor:
        scaled = times(self.g, factors)
        x = times(self.x, factors > 0) if self.x.is_cuda else self.x.to(scaled.dtype)
        return self.shape.backward(scaled, x, scaled.new_empty(self.shape.weight), of_input=False).float()

    def without(self, bad: Tensor) -> Patches:
        return replace(self, x=masked(self.x, bad), g=masked(self.g, bad))
