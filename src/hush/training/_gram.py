"""Norms of sums of outer products, from the T x T products of their factors.

The squared norm of the sum over t of g_t x_t^T is the sum over s and t of <x_s, x_t> <g_s, g_t>. On a GPU a Triton
kernel keeps both products in registers, computes one half of the symmetric matrix, and writes nothing but partial sums.
"""

from __future__ import annotations

import torch
from torch import Tensor


def gram(x: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return three squares for each example, in fp64: [B].

    The norm itself; the largest that it could be, if no position cancelled another: the sum of |x_t| |g_t|; and what
    bounds the norm of a sum in which every g_t is replaced by something smaller in all its elements, that is |g| times
    the largest singular value of x, which is at most the fourth root of the sum over s and t of <x_s, x_t>^2.
    """
    if x.is_cuda:
        found: tuple[Tensor, Tensor, Tensor] = torch.ops.hush.gram(x, g)
        return found
    return _plain(x, g)


def _plain(x: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    x, g = x.double(), g.double()
    of_x, of_g = torch.bmm(x, x.mT), torch.bmm(g, g.mT)
    lengths = [product.diagonal(dim1=1, dim2=2).clamp_min(0) for product in (of_x, of_g)]
    largest = (lengths[0].sqrt() * lengths[1].sqrt()).sum(1).square()
    return (of_x * of_g).sum((1, 2)), largest, lengths[1].sum(1) * of_x.square().sum((1, 2)).sqrt()


@torch.library.custom_op("hush::gram", mutates_args=())
def _gram(x: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if not x.is_cuda:
        return _plain(x, g)
    from hush.training._gram_cuda import gram as on_gpu

    return on_gpu(x, g)


@_gram.register_fake
def _(x: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    like = x.new_empty(len(x), dtype=torch.float64)
    return like, torch.empty_like(like), torch.empty_like(like)
