"""An upper bound on the operator norm of a convolution: how far its output moves per unit of the input, both in L2.

On an endless grid, a convolution acts on each frequency by a matrix, and its norm is the largest of theirs. Zeros for
padding and an output that ends can only make it smaller. The matrices are computed on a grid of frequencies. Between
its points they change little, because a kernel is short (Bernstein's inequality).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_SLACK = 0.1  # how much of the norm may lie between two frequencies of the grid


def convolution_norm(weight: Tensor, stride: tuple[int, int], dilation: tuple[int, int]) -> Tensor:
    """Return an upper bound on the operator norm of a convolution, with zeros for padding.

    Args:
        weight: The kernel, of shape (outputs, inputs, height, width), in double precision.
        stride: The strides.
        dilation: The dilations. They change the order of frequencies, not the matrices; with them, the stride is
            ignored, since to leave out outputs lengthens nothing.
    """
    phases = _phases(weight, stride if dilation == (1, 1) else (1, 1))
    degrees = [(size - 1) / 2 for size in phases.shape[2:]]  # after a shift, which changes no norm
    num_frequencies = max(math.ceil(math.pi * sum(degrees) / _SLACK), *phases.shape[2:])
    # Half of the frequencies: the matrices of the others are the conjugates of these.
    at_frequencies = torch.fft.rfft2(phases, s=(num_frequencies, num_frequencies)).permute(2, 3, 0, 1)
    if at_frequencies.shape[2] < at_frequencies.shape[3]:
        at_frequencies = at_frequencies.mT
    # M <= largest + M pi (d1 + d2) / N: each frequency is within pi / N of the grid in both directions.
    gap = math.pi * sum(degrees) / num_frequencies
    largest = torch.linalg.eigvalsh(at_frequencies.mH @ at_frequencies).max().clamp_min(0.0).sqrt()
    on_frequencies: Tensor = largest / (1 - gap)
    # Or a sum over the kernel's places of a matrix after a shift (triangle inequality).
    by_places = torch.linalg.matrix_norm(weight.flatten(2).permute(2, 0, 1), 2).sum()
    return torch.minimum(on_frequencies, by_places)


def _phases(weight: Tensor, stride: tuple[int, int]) -> Tensor:
    """Return the kernel of stride 1 that acts on the inputs' phases: every stride-th number, in each direction.

    Each number of the input is in one phase, so the norm is the same.
    """
    outputs, inputs, height, width = weight.shape
    down, across = stride
    rows, columns = -(-height // down), -(-width // across)
    padded = torch.nn.functional.pad(weight, (0, columns * across - width, 0, rows * down - height))
    split = padded.view(outputs, inputs, rows, down, columns, across)
    return split.permute(0, 1, 3, 5, 2, 4).reshape(outputs, inputs * down * across, rows, columns)
