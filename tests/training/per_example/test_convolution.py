"""Per-example gradients of convolutions, against autograd on one example at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from hush.training.per_example import convolution
from hush.training.per_example.convolution import ConvPatches, ConvShape

CONVOLVE = (F.conv1d, F.conv2d, F.conv3d)
SIZE = 3
# Stride, padding, dilation, groups, weight; and the input's size.
CASES: dict[str, tuple[ConvShape, tuple[int, ...]]] = {
    "1d": (ConvShape((1,), (0,), (1,), 1, (4, 3, 2)), (7,)),
    "1d, everything": (ConvShape((2,), (3,), (2,), 2, (4, 2, 3)), (11,)),
    "2d": (ConvShape((1, 1), (0, 0), (1, 1), 1, (4, 3, 2, 2)), (5, 6)),
    "2d, everything": (ConvShape((2, 1), (1, 2), (2, 1), 2, (6, 2, 2, 3)), (9, 8)),
    "2d, depthwise": (ConvShape((1, 1), (1, 1), (1, 1), 4, (8, 1, 3, 3)), (5, 5)),
    "3d": (ConvShape((1, 2, 1), (0, 1, 0), (1, 1, 2), 2, (4, 2, 2, 2, 2)), (4, 5, 6)),
}
every_case = pytest.mark.parametrize("name", CASES)


def example(name: str) -> tuple[ConvShape, Tensor, Tensor]:
    shape, size = CASES[name]
    generator = torch.Generator().manual_seed(len(name))
    x = torch.randn(SIZE, shape.weight[1] * shape.groups, *size, generator=generator, dtype=torch.float64)
    g = torch.randn(SIZE, shape.weight[0], *shape.output(x), generator=generator, dtype=torch.float64)
    return shape, x, g


def convolve(shape: ConvShape, x: Tensor, weight: Tensor) -> Tensor:
    operation: Any = CONVOLVE[len(shape.stride) - 1]
    y: Tensor = operation(x, weight, None, shape.stride, shape.padding, shape.dilation, shape.groups)
    return y


def looped(shape: ConvShape, x: Tensor, g: Tensor) -> Tensor:
    weight = torch.zeros(shape.weight, dtype=x.dtype, requires_grad=True)
    rows = []
    for index in range(len(x)):
        y = convolve(shape, x[index : index + 1], weight)
        rows.append(torch.autograd.grad((y * g[index : index + 1]).sum(), weight)[0])
    return torch.stack(rows)


@every_case
def test_sizes_of_outputs(name: str) -> None:
    shape, x, _ = example(name)
    assert convolve(shape, x, torch.zeros(shape.weight, dtype=x.dtype)).shape[2:] == shape.output(x)


@every_case
def test_gradients_of_every_example(name: str) -> None:
    shape, x, g = example(name)
    assert torch.allclose(shape.per_example(x, g), looped(shape, x, g))


@every_case
def test_gradients_of_inputs_and_of_the_summed_weight(name: str) -> None:
    shape, x, g = example(name)
    weight = torch.randn(shape.weight, dtype=x.dtype, requires_grad=True)
    x = x.requires_grad_()
    of_x, of_weight = torch.autograd.grad((convolve(shape, x, weight) * g).sum(), (x, weight))
    x, weight = x.detach(), weight.detach()
    assert torch.allclose(shape.backward(g, x, weight, of_input=True), of_x)
    assert torch.allclose(shape.backward(g, x, weight, of_input=False), of_weight)


def test_patches_are_those_of_unfold() -> None:
    shape, x, _ = example("2d, everything")
    unfolded = F.unfold(x, shape.weight[2:], shape.dilation, shape.padding, shape.stride)
    assert torch.equal(shape.patches(x).flatten(1, 2), unfolded)


def test_examples_are_copied_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    shape, x, g = example("2d, everything")
    expected = shape.per_example(x, g)
    monkeypatch.setattr(convolution, "_MAX_COPIED", 1)
    assert torch.allclose(shape.per_example(x, g), expected)


@pytest.mark.parametrize("name", [name for name in CASES if name != "3d"])  # which has no patches
def test_patches_left_undone(name: str) -> None:
    """Norms from inner products, and sums without patches, are those of the gradients."""
    shape, x, g = example(name)
    form, expected = ConvPatches(x, g, shape), looped(shape, x, g)
    assert torch.allclose(form.materialize(), expected)
    patches, gradients = form.product()
    squares = torch.einsum("bsd,btd,bsp,btp->b", patches, patches, gradients, gradients)
    assert torch.allclose(squares.view(SIZE, -1).sum(1), expected.flatten(1).square().sum(1))
    factors = torch.tensor([0.5, 0.0, 2.0], dtype=torch.float64)
    total = torch.einsum("b,b...->...", factors, expected)
    assert torch.allclose(form.weighted_sum(factors), total)
    bad = torch.tensor([False, True, False])
    assert torch.allclose(form.without(bad).materialize(), expected.masked_fill(bad.view(-1, *[1] * (x.dim())), 0.0))
    joined = form.joined(3).materialize()
    assert torch.allclose(joined, expected.sum(0, keepdim=True))
