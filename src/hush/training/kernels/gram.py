"""Norms of sums of outer products, from the T x T inner products of their factors.

A linear layer that is applied at T positions has the per-example gradient G = sum over t of g_t x_t^T, for its inputs
x_t and the gradients g_t of its outputs. The norm of G does not need G itself:

    |G|^2 = sum over s and t of <x_s, x_t> <g_s, g_t>.

For few positions and wide layers that is far cheaper than computing G for every example ("ghost norms"). On a GPU a
Triton kernel (`gram_cuda`) keeps both matrices of inner products in registers, computes one half of the symmetric
result, and writes nothing but partial sums.
"""

from __future__ import annotations

import torch
from torch import Tensor

_CONVERTED = 1 << 20  # elements to convert to fp64 at once: the output of a large vocabulary is not copied as a whole
_LARGEST_SQUARE = 1e60  # the square of `norms._LARGEST_INPUT`: an input beyond it makes its example count as infinite


def gram(pairs: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    """Return three squared norms for each layer and each example, in fp64.

    Args:
        pairs: For each layer, its inputs x [B, T, d] and the gradients g [B, T, p] of its outputs.

    Returns:
        Three tensors [layers, B].

        - ``squares``: |G|^2, the squared norm of the gradient.
        - ``largest``: (sum over t of |x_t| |g_t|)^2, the squared norm if no position cancelled another. Rounding
          errors are relative to this number, not to the first.
        - ``spread``: |g|^2 |x^T x|_F. It bounds the squared norm of a sum in which every element of g is replaced by
          a smaller one: that norm is at most |g| times the largest singular value of x, and the fourth power of this
          singular value is at most the sum over s and t of <x_s, x_t>^2.
    """
    if pairs[0][0].is_cuda:
        from hush.training.kernels.gram_cuda import gram as gram_on_gpu

        return gram_on_gpu(pairs)
    results = [_gram_on_cpu(x, g) for x, g in pairs]
    squares, largest, spread = (torch.stack(parts) for parts in zip(*results, strict=True))
    return squares, largest, spread


def _gram_on_cpu(x: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    x_products, g_products = _inner_products(x), _inner_products(g)
    x_squares, g_squares = (products.diagonal(dim1=1, dim2=2).clamp_min(0) for products in (x_products, g_products))
    largest = (x_squares.sqrt() * g_squares.sqrt()).sum(1).square()
    squares = (x_products * g_products).sum((1, 2))
    too_large = (x_squares > _LARGEST_SQUARE).any(1)
    spread = g_squares.sum(1) * x_products.square().sum((1, 2)).sqrt()
    return squares.masked_fill(too_large, torch.inf), largest, spread


def _inner_products(values: Tensor) -> Tensor:
    """Return the inner products of all pairs of positions, [B, T, T], for values [B, T, d]; in fp64."""
    size, positions, width = values.shape
    step = max(_CONVERTED // max(size * positions, 1), 1)
    products = values.new_zeros(size, positions, positions, dtype=torch.float64)
    for start in range(0, width, step):
        part = values[:, :, start : start + step].double()
        products.baddbmm_(part, part.mT)
    return products
