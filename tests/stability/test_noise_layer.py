"""The noise layer: its sensitivity is at most 1 whatever its weights are, and its noise is as stated."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch import nn  # noqa: E402

from hush.errors import InvalidArgument, Unsupported  # noqa: E402
from hush.stability import InputNorm, NoiseLayer  # noqa: E402

SHAPE = (2, 6, 5)
CONVOLUTIONS: list[dict[str, Any]] = [
    {"kernel_size": 3},
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": (3, 2), "stride": 2, "padding": (2, 1)},
    {"kernel_size": 2, "stride": 3},
    {"kernel_size": 2, "dilation": 2, "padding": 1, "bias": False},
    {"kernel_size": 1},
]


def matrix(layer: NoiseLayer, shape: tuple[int, ...]) -> Any:
    """Return the scaled layer as a matrix, one column per input number."""
    size = math.prod(shape)
    zero = layer.clean(torch.zeros(1, *shape))
    return (layer.clean(torch.eye(size).view(size, *shape)) - zero).flatten(1).T.detach()


def moves(columns: Any, norm: InputNorm) -> float:
    """Return the largest L2 move of the output per unit of the input's norm; for Linf, the largest over many signs."""
    if norm is InputNorm.L1:
        return float(columns.norm(dim=0).max())
    if norm is InputNorm.L2:
        return float(torch.linalg.matrix_norm(columns, 2))
    signs = torch.randint(0, 2, (columns.shape[1], 300), generator=torch.Generator().manual_seed(1)).double() * 2 - 1
    for _ in range(20):  # improves each of them: the sign of what raises the output
        signs = (columns.T @ (columns @ signs)).sign()
    return float((columns @ signs).norm(dim=0).max())


@pytest.mark.parametrize("norm", list(InputNorm))
@pytest.mark.parametrize("settings", CONVOLUTIONS)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_convolutions_move_their_output_by_at_most_the_change(
    settings: dict[str, Any], norm: InputNorm, scale: float
) -> None:
    torch.manual_seed(2)
    convolution = nn.Conv2d(2, 3, **settings)
    convolution.weight.data *= scale
    largest = moves(matrix(NoiseLayer(convolution, noise_stddev=1.0, norm=norm), SHAPE), norm)
    assert largest <= 1
    assert largest > {InputNorm.L1: 0.4, InputNorm.L2: 0.6, InputNorm.LINF: 0.1}[norm]


@pytest.mark.parametrize("norm", list(InputNorm))
def test_linear_layers_move_their_output_by_at_most_the_change(norm: InputNorm) -> None:
    torch.manual_seed(3)
    largest = moves(matrix(NoiseLayer(nn.Linear(8, 5), noise_stddev=1.0, norm=norm), (8,)), norm)
    assert largest <= 1
    assert largest > (0.999 if norm is not InputNorm.LINF else 0.5)


@given(st.floats(1e-3, 1e3), st.integers(0, 1000))
def test_whatever_training_does_the_sensitivity_stays(scale: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    layer = NoiseLayer(nn.Linear(4, 3), noise_stddev=0.1, norm=InputNorm.L2)
    layer.layer.weight.data = scale * torch.randn(3, 4, generator=generator)
    first, second = torch.randn(2, 1, 4, generator=generator)
    distance = float((first.double() - second.double()).norm())
    moved = float((layer.clean(first) - layer.clean(second)).detach().norm())
    assert moved <= distance * (1 + 1e-12)


def test_the_weight_is_trained_through_the_scaling() -> None:
    layer = NoiseLayer(nn.Linear(3, 2), noise_stddev=1e-9)
    layer(torch.ones(5, 3)).sum().backward()
    assert layer.layer.weight.grad is not None
    assert bool((layer.layer.weight.grad.abs() > 0).all())


def test_the_noise_has_its_standard_deviation_and_is_fresh() -> None:
    torch.manual_seed(4)
    layer = NoiseLayer(nn.Linear(2, 1), noise_stddev=3.0)
    outputs = (layer(torch.zeros(40_000, 2)) - layer.clean(torch.zeros(1, 2))).detach()
    # The variance of 40,000 draws has a relative standard deviation of 0.007: 0.05 is 7 of them. Fixed seed.
    assert float(outputs.var()) == pytest.approx(9.0, rel=0.05)
    assert outputs.unique().numel() > 39_000


@pytest.mark.parametrize(
    "layer",
    [
        nn.ReLU(),
        nn.Conv1d(1, 1, 2),
        nn.Conv2d(2, 2, 3, groups=2),
        nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular"),
    ],
)
def test_layers_without_a_bound_are_refused(layer: Any) -> None:
    with pytest.raises(Unsupported, match="noise layer"):
        NoiseLayer(layer, noise_stddev=1.0)


def test_wrong_noise_and_weights_are_refused() -> None:
    for stddev in (0.0, math.nan, math.inf):
        with pytest.raises(InvalidArgument):
            NoiseLayer(nn.Linear(2, 2), noise_stddev=stddev)
    broken = NoiseLayer(nn.Linear(2, 2), noise_stddev=1.0)
    broken.layer.weight.data[0, 0] = math.nan
    with pytest.raises(InvalidArgument, match="finite"):
        broken(torch.zeros(1, 2))
