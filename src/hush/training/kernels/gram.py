"""Norms of sums of outer products, from the T x T products of their factors.

The squared norm of the sum over t of g_t x_t^T is the sum over s and t of <x_s, x_t> <g_s, g_t>. On a GPU a Triton
kernel keeps both products in registers, computes one half of the symmetric matrix, and writes nothing but partial sums.
"""

from __future__ import annotations

import torch
from torch import Tensor


def gram(pairs: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    """Return three squares for each layer's pair x [B, T, d], g [B, T, p] and each example, in fp64: [layers, B].

    The norm itself; the largest that it could be, if no position cancelled another: the sum of |x_t| |g_t|; and what
    bounds the norm of a sum in which every g_t is replaced by something smaller in all its elements, that is |g| times
    the largest singular value of x, which is at most the fourth root of the sum over s and t of <x_s, x_t>^2.
    """
    if pairs[0][0].is_cuda:
        from hush.training.kernels.gram_cuda import gram as on_gpu

        return on_gpu(pairs)
    found = [_plain(x.double(), g.double()) for x, g in pairs]
    squares, largest, spread = (torch.stack(part) for part in zip(*found, strict=True))
    return squares, largest, spread


def _plain(x: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    of_x, of_g = torch.bmm(x, x.mT), torch.bmm(g, g.mT)
    lengths = [product.diagonal(dim1=1, dim2=2).clamp_min(0) for product in (of_x, of_g)]
    largest = (lengths[0].sqrt() * lengths[1].sqrt()).sum(1).square()
    squares = (of_x * of_g).sum((1, 2))
    far = (lengths[0] > 1e60).any(1)  # see `gradients.FAR`
    return squares.masked_fill(far, torch.inf), largest, lengths[1].sum(1) * of_x.square().sum((1, 2)).sqrt()
