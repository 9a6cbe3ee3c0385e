"""Norms of convolutions: never below the truth, close to it on large images, and twins that are too small."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from hush.stability import convolution_norm as module  # noqa: E402
from hush.stability.convolution_norm import convolution_norm  # noqa: E402


def truth(weight: Any, size: int, **options: Any) -> float:
    """Return the spectral norm of the convolution of an image, as a matrix."""
    inputs = weight.shape[1] * size * size
    images = torch.eye(inputs, dtype=torch.float64).view(inputs, weight.shape[1], size, size)
    return float(torch.linalg.matrix_norm(torch.nn.functional.conv2d(images, weight, **options).flatten(1), 2))


@settings(max_examples=40)
@given(
    st.integers(0, 10**6),
    st.tuples(*[st.integers(1, 3)] * 2),
    st.tuples(*[st.integers(1, 4)] * 2),
    st.tuples(*[st.integers(1, 3)] * 2),
    st.integers(1, 2),
    st.integers(0, 2),
)
def test_it_is_never_below_the_truth(
    seed: int,
    channels: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: int,
    padding: int,
) -> None:
    weight = torch.randn(*channels, *kernel, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    bound = float(convolution_norm(weight, stride, (dilation, dilation)))
    assert truth(weight, 8, stride=stride, dilation=dilation, padding=padding) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_it_is_close_on_large_images(stride: int) -> None:
    weight = torch.randn(4, 1, 5, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    exact = truth(weight, 24, stride=stride, padding=2)
    assert exact <= float(convolution_norm(weight, (stride, stride), (1, 1))) < 1.2 * exact


def test_a_kernel_that_is_one_place_is_its_matrix() -> None:
    weight = torch.randn(3, 2, 1, 1, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    assert float(convolution_norm(weight, (1, 1), (1, 1))) == pytest.approx(
        float(torch.linalg.matrix_norm(weight[:, :, 0, 0], 2))
    )


def test_broken_twins_are_too_small() -> None:
    # All weights are equal, and so are all pixels: shifts add up. A kernel taken for a matrix misses that. A grid of
    # frequencies without its slack misses what lies between: here, the largest, at 2 pi / 16.
    equal = torch.ones(1, 1, 3, 3, dtype=torch.float64)
    exact = truth(equal, 20, padding=1)
    assert float(torch.linalg.matrix_norm(equal.flatten(1), 2)) < exact / 2.5
    assert exact <= float(convolution_norm(equal, (1, 1), (1, 1)))
    angles = torch.arange(8, dtype=torch.float64) * (2 * torch.pi / 16)
    wave = angles.cos().view(1, 1, 1, 8)
    coarse = float(torch.fft.fft2(wave, s=(8, 8)).abs().max())
    exact = truth(wave, 40)
    assert coarse < exact <= float(convolution_norm(wave, (1, 1), (1, 1)))


def test_phases_keep_every_weight() -> None:
    weight = torch.arange(1.0, 31.0, dtype=torch.float64).view(1, 1, 5, 6)
    phases = module._phases(weight, (2, 3))
    assert phases.shape == (1, 6, 3, 2)
    assert sorted(phases[phases > 0].tolist()) == weight.flatten().tolist()
