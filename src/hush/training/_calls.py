"""Calls: what one use of a layer's parameters needs to find per-example gradients, exactly, from one backward.

A call remembers the layer's input; in the backward pass it receives the gradient of the layer's output. Its parameters
are not part of autograd's graph, so that no weight gradient is computed to be thrown away. From the two it knows, for
every example i in the batch (always the first dimension):

- ``square_norms``: the squared norm of example i's gradient, usually without computing that gradient;
- ``clipped_sum``: the sum over i of factor_i times gradient i;
- ``per_example``: the gradients themselves, for parameters that are used more than once, where norms do not add up.

Shapes: B examples, T positions (of a sequence or an image), d inputs, p outputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from hush.errors import Unsupported

_CANCELLED = 1e-4  # of its largest possible size: a smaller squared norm is left to the gradients themselves
_CACHED = 1 << 18  # numbers of patches to copy at once: 1 MiB


class Call(ABC):
    """One use of a layer's parameters on a batch."""

    def __init__(self, name: str, params: dict[str, Tensor]) -> None:
        """Take the layer's name and those of its parameters that are trained."""
        self.name = name
        self.params = params
        self.gradient: Tensor | None = None
        self.pending: Tensor | None = None  # the output, until it is in autograd's graph
        self.like: Tensor | None = None  # its shape and dtype, without memory
        self._kept: list[tuple[Tensor, int]] = []
        self.result: Tensor | None = None  # the output in autograd's graph

    def keep(self, x: Tensor) -> Tensor:
        """Remember an input, and which version of it."""
        kept = x.detach()
        self._kept.append((kept, kept._version))
        return kept

    def refuse_if_overwritten(self) -> None:
        """Refuse inputs that were changed in place since: gradients would be those of other numbers."""
        if any(tensor._version != version for tensor, version in self._kept):
            raise Unsupported(f"{self.name}: its input was changed in place afterwards", "Write x = x + y, not x += y")

    @property
    def g(self) -> Tensor:
        """The gradient of the output; zero if the output had no part in the losses."""
        if self.gradient is None:
            assert self.like is not None
            return torch.zeros_like(self.like)
        return self.gradient

    @abstractmethod
    def input_gradient(self, g: Tensor) -> Tensor:
        """Return the gradient of the input, from that of the output."""

    @abstractmethod
    def square_norms(self) -> Tensor:
        """Return the squared norm of each example's gradient over this call's parameters, in fp32."""

    @abstractmethod
    def per_example(self) -> dict[str, Tensor]:
        """Return each example's gradient of each parameter: [B, *shape]."""

    @abstractmethod
    def clipped_sum(self, factors: Tensor) -> dict[str, Tensor]:
        """Return the sum of the examples' gradients, each times its factor."""

    def drop(self, bad: Tensor) -> None:
        """Forget everything about examples whose gradient is not finite: 0 times NaN is not 0."""
        if self.gradient is not None:
            self.gradient = self.gradient.masked_fill(_over(bad, self.gradient), 0.0)


def _over(rows: Tensor, like: Tensor) -> Tensor:
    return rows.view(-1, *([1] * (like.dim() - 1)))


class Trap(torch.autograd.Function):
    """The identity on a layer's output, which hands the gradient to the call; `probe` keeps it in the graph."""

    @staticmethod
    def forward(ctx: Any, probe: Tensor, call: Call, x: Tensor) -> Tensor:
        """Return the output that was computed without autograd; it is no view, and may be changed in place."""
        ctx.call = call
        output, call.pending = call.pending, None  # kept, it would keep the graph that leads to it, and that the call
        assert output is not None
        return output

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        """Store the gradient of the output; return that of the input."""
        call: Call = ctx.call
        call.gradient = g
        return g.new_zeros(()), None, call.input_gradient(g) if ctx.needs_input_grad[2] else None


class LinearCall(Call):
    """y = x W^T + b, with any number of positions between the batch and the features.

    ``rows`` says which rows of a larger parameter W or b are (`nn.MultiheadAttention`); ``transposed`` that W is stored
    as [d, p] (Hugging Face's Conv1D).
    """

    def __init__(
        self,
        name: str,
        params: dict[str, Tensor],
        x: Tensor,
        weight: Tensor,
        *,
        rows: dict[str, tuple[int, int]] | None = None,
        transposed: bool = False,
    ) -> None:
        super().__init__(name, params)
        self.x, self.weight, self.transposed = self.keep(x), weight.detach(), transposed
        self.rows = rows or {}
        self._whole: Tensor | None = None

    def input_gradient(self, g: Tensor) -> Tensor:
        return g @ (self.weight.T if self.transposed else self.weight).to(g.dtype)

    def _folded(self) -> tuple[Tensor, Tensor]:
        """Return x [B, T, d] and g [B, T, p]."""
        x, g = self.x, self.g
        size = len(x)
        return x.reshape(size, -1, x.shape[-1]).to(g.dtype), g.reshape(size, -1, g.shape[-1])

    def square_norms(self) -> Tensor:
        x, g = self._folded()
        total = torch.zeros(len(g), device=g.device, dtype=torch.float64)
        positions, inputs, outputs = x.shape[1], x.shape[2], g.shape[2]
        if "weight" in self.params:
            if positions == 1:
                total += _squares(x) * _squares(g)
            else:
                squares = self._by_gram(x, g) if 2 * positions * positions <= inputs * outputs else None
                if squares is None:
                    self._whole = torch.bmm(g.mT, x)  # [B, p, d]
                    squares = _squares(self._whole)
                total += squares
        if "bias" in self.params:
            total += _squares(g.sum(1, dtype=torch.float32))
        return total

    def _by_gram(self, x: Tensor, g: Tensor) -> Tensor | None:
        """Return squared norms from T x T products; None where some example's positions cancel.

        Then the products are larger than what they add up to: their rounding would decide. And the clipped sum, which
        adds up positions of all examples in one go, would lose the others' share beside them. The gradients themselves,
        added up per example first, are as they are.
        """
        x, g = x.double(), g.double()
        squares = (torch.bmm(x, x.mT) * torch.bmm(g, g.mT)).sum((1, 2))
        largest = (torch.linalg.vector_norm(x, dim=2) * torch.linalg.vector_norm(g, dim=2)).sum(1).square()
        return squares if bool((squares >= _CANCELLED * largest).all()) else None

    def _gradients(self) -> Tensor:
        x, g = self._folded()
        whole = self._whole if self._whole is not None else torch.bmm(g.mT, x)
        return whole.mT if self.transposed else whole

    def per_example(self) -> dict[str, Tensor]:
        found = {}
        if "weight" in self.params:
            found["weight"] = self._gradients()
        if "bias" in self.params:
            found["bias"] = self._folded()[1].sum(1)
        return {key: self._in_place(key, value) for key, value in found.items()}

    def clipped_sum(self, factors: Tensor) -> dict[str, Tensor]:
        x, g = self._folded()
        found = {}
        if self._whole is not None:
            weight = weighted_sum(factors, self._whole)
            found["weight"] = weight.mT if self.transposed else weight
        if "weight" in self.params and self._whole is None:
            scaled = g.float() * factors.view(-1, 1, 1)
            flat_x, flat_g = x.flatten(0, 1).float(), scaled.flatten(0, 1)
            found["weight"] = flat_x.T @ flat_g if self.transposed else flat_g.T @ flat_x
        if "bias" in self.params:
            found["bias"] = weighted_sum(factors, g.sum(1, dtype=torch.float32))
        return {key: self._in_place(key, value[None])[0] for key, value in found.items()}

    def _in_place(self, key: str, values: Tensor) -> Tensor:
        """Put the gradient of some rows where they are in the whole parameter."""
        if key not in self.rows:
            return values
        whole = values.new_zeros(len(values), *self.params[key].shape)
        whole[:, self.rows[key][0] : self.rows[key][1]] = values
        return whole

    def drop(self, bad: Tensor) -> None:
        super().drop(bad)
        self.x = self.x.masked_fill(_over(bad, self.x), 0.0)
        if self._whole is not None:
            self._whole = self._whole.masked_fill(_over(bad, self._whole), 0.0)


def _squares(values: Tensor) -> Tensor:
    """Return the squared norm of each example's part, in fp64.

    Found in fp32, and again in fp64 for examples so small or large that squares vanish or overflow.
    """
    flat = values.flatten(1)
    kind = None if flat.dtype is torch.float64 else torch.float32
    norms: Tensor = torch.linalg.vector_norm(flat, dim=1, dtype=kind).double()
    odd = ~((norms > 1e-15) & (norms < 1e15))
    if bool(odd.any()):
        norms[odd] = torch.linalg.vector_norm(flat[odd].double(), dim=1)
    return norms.square()


def weighted_sum(factors: Tensor, each: Tensor) -> Tensor:
    """Return the sum over examples of factor times gradient.

    In fp32: a sum that is rounded more coarsely would change by its own rounding, too, when an example comes or goes.
    """
    return (factors @ each.flatten(1).float()).view(each.shape[1:])


class InstantiatedCall(Call):
    """A call that computes every example's gradient at once, because those are small."""

    def __init__(self, name: str, params: dict[str, Tensor]) -> None:
        super().__init__(name, params)
        self._found: dict[str, Tensor] | None = None

    @abstractmethod
    def _instantiate(self) -> dict[str, Tensor]:
        """Return each example's gradient of each parameter."""

    def per_example(self) -> dict[str, Tensor]:
        if self._found is None:
            self._found = self._instantiate()
        return self._found

    def square_norms(self) -> Tensor:
        found = self.per_example()
        first = next(iter(found.values()))
        zero = torch.zeros(len(first), device=first.device, dtype=torch.float64)
        return sum((_squares(each) for each in found.values()), zero)

    def clipped_sum(self, factors: Tensor) -> dict[str, Tensor]:
        return {key: weighted_sum(factors, each) for key, each in self.per_example().items()}

    def drop(self, bad: Tensor) -> None:
        super().drop(bad)
        found = self.per_example()
        self._found = {key: each.masked_fill(_over(bad, each), 0.0) for key, each in found.items()}


class ConvCall(InstantiatedCall):
    """A convolution of any dimension, stride, dilation and number of groups, without padding modes of its own."""

    def __init__(
        self, name: str, params: dict[str, Tensor], x: Tensor, weight: Tensor, settings: tuple[Any, Any, Any, int]
    ) -> None:
        """Take the input and (stride, padding, dilation, groups)."""
        super().__init__(name, params)
        self.x, self.weight, self.settings = self.keep(x), weight.detach(), settings

    def input_gradient(self, g: Tensor) -> Tensor:
        return self._backward(g, self.x, self.weight, self.settings[3], (True, False, False))[0]

    def _backward(
        self, g: Tensor, x: Tensor, weight: Tensor, groups: int, mask: tuple[bool, bool, bool]
    ) -> tuple[Tensor, ...]:
        stride, padding, dilation, _ = self.settings
        zeros = [0] * len(stride)
        found: tuple[Tensor, ...] = torch.ops.aten.convolution_backward(
            g, x.to(g.dtype), weight.to(g.dtype), None, stride, padding, dilation, False, zeros, groups, list(mask)
        )
        return found

    def _instantiate(self) -> dict[str, Tensor]:
        g, found = self.g, {}
        if "weight" in self.params:
            found["weight"] = self._unfolded(g) if g.dim() <= 4 else self._grouped(g)
        if "bias" in self.params:
            found["bias"] = g.flatten(2).sum(2)
        return found

    def _unfolded(self, g: Tensor) -> Tensor:
        """Multiply the patches that each output saw with its gradient; for one and two dimensions.

        Patches are a view; they are copied for so many examples at a time that they stay in the cache.
        """
        stride, padding, dilation, groups = self.settings
        x, weight = self.x.to(g.dtype), self.weight
        if g.dim() == 3:
            x, g, weight = x.unsqueeze(2), g.unsqueeze(2), weight.unsqueeze(2)
            stride, padding, dilation = (1, *stride), (0, *padding), (1, *dilation)
        x = torch.nn.functional.pad(x, (padding[1], padding[1], padding[0], padding[0]))
        size, outputs, height, width = g.shape
        inputs, tall, wide = weight.shape[1:]
        rows, columns = x.stride(2), x.stride(3)
        patches = x.as_strided(
            (size, groups, height, width, inputs, tall, wide),
            (
                x.stride(0),
                inputs * x.stride(1),
                rows * stride[0],
                columns * stride[1],
                x.stride(1),
                rows * dilation[0],
                columns * dilation[1],
            ),
        )
        positions, features = height * width, inputs * tall * wide
        some = max(_CACHED // max(groups * positions * features, 1), 1)
        found = g.new_empty(size * groups, outputs // groups, features)
        gradients = g.reshape(size * groups, outputs // groups, positions)
        for start in range(0, size, some):
            here = slice(start * groups, min(start + some, size) * groups)
            copied = patches[start : start + some].reshape(-1, positions, features)
            torch.bmm(gradients[here], copied, out=found[here])
        return found.view(size, *self.weight.shape)

    def _grouped(self, g: Tensor) -> Tensor:
        """Treat the examples as groups of one large convolution."""
        size, groups = len(g), self.settings[3]
        x, outputs = self.x.reshape(1, -1, *self.x.shape[2:]), g.reshape(1, -1, *g.shape[2:])
        weight = self.weight.repeat(size, *([1] * (self.weight.dim() - 1)))
        found = self._backward(outputs, x, weight, size * groups, (False, True, False))[1]
        return found.view(size, *self.weight.shape)


class AffineCall(InstantiatedCall):
    """y = x w + b with w and b along some dimensions of x: what remains of a norm layer after normalising."""

    def __init__(self, name: str, params: dict[str, Tensor], x: Tensor, weight: Tensor, dims: tuple[int, ...]) -> None:
        """Take the normalised input and the dimensions (after the batch) over which w and b are shared."""
        super().__init__(name, params)
        self.x, self.weight, self.dims = self.keep(x), weight.detach(), dims

    def input_gradient(self, g: Tensor) -> Tensor:
        return (g * self.weight).to(self.x.dtype)

    def _instantiate(self) -> dict[str, Tensor]:
        g, found = self.g.float(), {}
        shape = next(iter(self.params.values())).shape
        if "weight" in self.params:
            found["weight"] = self._summed(g * self.x.float()).reshape(len(g), *shape)
        if "bias" in self.params:
            found["bias"] = self._summed(g).reshape(len(g), *shape)
        return found

    def _summed(self, values: Tensor) -> Tensor:
        return values.sum(self.dims) if self.dims else values


class EmbeddingCall(Call):
    """Rows of a table; the same row used twice by an example adds up before it is squared."""

    def __init__(
        self, name: str, params: dict[str, Tensor], indices: Tensor, num_rows: int, padding_idx: int | None
    ) -> None:
        """Take the indices [B, ...]."""
        super().__init__(name, params)
        self.indices, self.num_rows, self.padding_idx = indices.reshape(len(indices), -1), num_rows, padding_idx
        self._found: tuple[Tensor, Tensor] | None = None

    def input_gradient(self, g: Tensor) -> Tensor:
        raise AssertionError("indices have no gradient")

    def _folded(self) -> Tensor:
        g = self.g.reshape(*self.indices.shape, -1)
        if self.padding_idx is None:
            return g
        return g.masked_fill((self.indices == self.padding_idx).unsqueeze(-1), 0.0)

    def _rows(self) -> tuple[Tensor, Tensor]:
        """Return (example * rows of the table + row, gradient) for each row that an example uses, added up."""
        if self._found is None:
            g = self._folded().float()
            examples = torch.arange(len(g), device=g.device).unsqueeze(1)
            keys, where = torch.unique(examples * self.num_rows + self.indices, return_inverse=True)
            sums = g.new_zeros(len(keys), g.shape[2]).index_add_(0, where.flatten(), g.flatten(0, 1))
            self._found = keys, sums
        return self._found

    def square_norms(self) -> Tensor:
        keys, sums = self._rows()
        squares = _squares(sums)
        return squares.new_zeros(len(self.indices)).index_add_(0, keys // self.num_rows, squares)

    def per_example(self) -> dict[str, Tensor]:
        keys, sums = self._rows()
        found = sums.new_zeros(len(self.indices) * self.num_rows, sums.shape[1])
        found[keys] = sums
        return {"weight": found.view(len(self.indices), self.num_rows, -1)}

    def clipped_sum(self, factors: Tensor) -> dict[str, Tensor]:
        keys, sums = self._rows()
        found = sums.new_zeros(self.num_rows, sums.shape[1])
        scaled = sums * factors[keys // self.num_rows].unsqueeze(1)
        return {"weight": found.index_add_(0, keys % self.num_rows, scaled)}

    def drop(self, bad: Tensor) -> None:
        keys, sums = self._rows()
        self._found = keys, sums.masked_fill(bad[keys // self.num_rows].unsqueeze(1), 0.0)


class ExpandedCall(InstantiatedCall):
    """Any module, run by `vmap` with a copy of its parameters for every example; autograd finds their gradients."""

    def __init__(self, name: str, params: dict[str, Tensor], copies: dict[str, Tensor]) -> None:
        super().__init__(name, params)
        self.copies = copies
        self.gradients: dict[str, Tensor | None] = {}

    def input_gradient(self, g: Tensor) -> Tensor:
        raise AssertionError("autograd finds it")

    def _instantiate(self) -> dict[str, Tensor]:
        return {
            key: torch.zeros_like(copy) if (found := self.gradients.get(key)) is None else found
            for key, copy in self.copies.items()
        }
