"""Autograd functions: outputs and input gradients are those of the layers, and taps bring out per-example gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from hush.errors import Unsupported
from hush.training.per_example.autograd import Affine, Convolution, LinearFunction, Lookup
from hush.training.per_example.convolution import ConvShape

SIZE = 3


def random(*shape: int, requires_grad: bool = False) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_(requires_grad)


def tap(*shape: int) -> Tensor:
    return torch.zeros((), dtype=torch.float64).expand(SIZE, *shape).requires_grad_()


def looped(layer: Any, x: Tensor, g: Tensor, *params: Tensor) -> list[Tensor]:
    """The gradients of each example by each parameter, one at a time."""
    rows = []
    for index in range(SIZE):
        y = layer(x[index : index + 1], *params)
        rows.append(torch.autograd.grad((y * g[index : index + 1]).sum(), params))
    return [torch.stack(gradients) for gradients in zip(*rows, strict=True)]


@pytest.mark.parametrize("middle", [(), (4,), (2, 4)])
def test_linear(middle: tuple[int, ...]) -> None:
    x, g = random(SIZE, *middle, 5, requires_grad=True), random(SIZE, *middle, 2)
    weight, bias = random(2, 5, requires_grad=True), random(2, requires_grad=True)
    positions = int(torch.tensor(middle).prod()) if middle else 1
    taps = tap(positions, 5), tap(positions, 2), tap(2, 5), tap(2)
    y = LinearFunction.apply("layer", x, weight.detach(), bias.detach(), *taps)
    assert torch.equal(y, F.linear(x, weight, bias))
    of_x, tap_x, tap_g, dense, of_bias = torch.autograd.grad((y * g).sum(), (x, *taps))
    assert torch.allclose(of_x, g @ weight)
    of_weight, expected_bias = looped(F.linear, x.detach(), g, weight, bias)
    assert torch.allclose(dense, of_weight)
    assert torch.allclose(torch.einsum("btp,btd->bpd", tap_g, tap_x), of_weight)
    assert torch.allclose(of_bias.double(), expected_bias, rtol=1e-5)


def test_convolution() -> None:
    shape = ConvShape((2, 1), (1, 0), (1, 1), 1, (2, 3, 2, 2))
    x, weight, bias = random(SIZE, 3, 5, 6, requires_grad=True), random(2, 3, 2, 2), random(2)
    weight, bias = weight.requires_grad_(), bias.requires_grad_()

    def layer(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.conv2d(x, weight, bias, shape.stride, shape.padding)

    expected = layer(x, weight, bias)
    g = random(*expected.shape)
    taps = tap(3, 5, 6), tap(*expected.shape[1:]), tap(2, 3, 2, 2), tap(2)
    y = Convolution.apply("layer", shape, x, weight.detach(), bias.detach(), *taps)
    assert torch.equal(y, expected)
    of_x, tap_x, tap_g, dense, of_bias = torch.autograd.grad((y * g).sum(), (x, *taps))
    assert torch.allclose(of_x, torch.autograd.grad((expected * g).sum(), x)[0])
    assert torch.equal(tap_x, x)
    assert torch.equal(tap_g, g)
    of_weight, expected_bias = looped(layer, x.detach(), g, weight, bias)
    assert torch.allclose(dense, of_weight)
    assert torch.allclose(of_bias.double(), expected_bias, rtol=1e-5)


@pytest.mark.parametrize("has_weight", [True, False])
@pytest.mark.parametrize("has_bias", [True, False])
def test_affine(has_weight: bool, has_bias: bool) -> None:
    x, g = random(SIZE, 4, 5, requires_grad=True), random(SIZE, 4, 5)
    weight, bias = (random(5, requires_grad=True) if has else None for has in (has_weight, has_bias))
    taps = [tap(5) if has else None for has in (has_weight, has_bias)]
    plain = [None if param is None else param.detach() for param in (weight, bias)]
    y = Affine.apply("layer", (1,), x, *plain, *taps)
    expected = x if weight is None else x * weight
    expected = expected if bias is None else expected + bias
    assert torch.equal(y, expected)
    wanted = [value for value in (x, *taps) if value is not None]
    of_x, *of_params = torch.autograd.grad((y * g).sum(), wanted)
    assert torch.allclose(of_x, g if weight is None else g * weight)
    by_hand = [(g * x).sum(1)] * has_weight + [g.sum(1)] * has_bias
    for gradient, reference in zip(of_params, by_hand, strict=True):
        assert torch.allclose(gradient.double(), reference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("padding", [None, 2])
def test_lookup(padding: int | None) -> None:
    indices = torch.tensor([[1, 2, 2], [0, 0, 0], [2, 3, 1]])
    weight, g = random(4, 5), random(SIZE, 3, 5)
    taps = tap(3), tap(3, 5)
    rows = Lookup.apply("layer", indices, weight, padding, *taps)
    assert torch.equal(rows, weight[indices])
    tap_indices, tap_g = torch.autograd.grad((rows * g).sum(), taps)
    assert torch.equal(tap_indices.long(), indices)
    expected = g if padding is None else g.masked_fill((indices == padding).unsqueeze(-1), 0.0)
    assert torch.equal(tap_g, expected)


def test_parameters_get_no_gradient() -> None:
    x, weight = random(SIZE, 5, requires_grad=True), random(2, 5, requires_grad=True)
    y = LinearFunction.apply("layer", x, weight, None, None, None, tap(2, 5), None)
    assert torch.autograd.grad(y.sum(), weight, allow_unused=True) == (None,)


def test_gradients_of_gradients_are_refused() -> None:
    x, weight = random(SIZE, 5, requires_grad=True), random(2, 5)
    y = LinearFunction.apply("layer", x, weight, None, None, None, tap(2, 5), None)
    with pytest.raises(Unsupported, match="^layer: gradients of gradients"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


def test_inputs_changed_in_place_are_refused() -> None:
    x, weight = random(SIZE, 5, requires_grad=True) * 1, random(2, 5)
    y = LinearFunction.apply("layer", x, weight, None, None, None, tap(2, 5), None)
    x += 1
    with pytest.raises(Unsupported, match="^layer: its input was changed in place"):
        y.sum().backward()
