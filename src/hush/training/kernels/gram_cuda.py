"""The Triton kernel behind `gram`: one program for each example and each pair of tiles of positions.

A program computes two tiles of inner products, <x_s, x_t> and <g_s, g_t>, and adds up their products. The result is
symmetric in s and t, so only tiles with s >= t are computed, and those off the diagonal count twice.

Names: i and j are the positions of a tile's rows and columns; *stride* is a distance between elements in memory.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from hush.training.kernels.constants import constant
from hush.training.kernels.sums_cuda import KINDS, table


def gram(pairs: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    """Do the same as `hush.training.kernels.gram.gram`; all layers must have the same number of examples.

    Layers of the same shape share one launch.
    """
    size, device = len(pairs[0][0]), pairs[0][0].device
    layers = [_in_one_type(x, g) for x, g in pairs]
    max_tiles = max(triton.cdiv(x.shape[1], _tile_size(x.shape[1])) for x, _ in layers)
    # Zeros, because a layer with fewer tiles than the largest one leaves the others as they are.
    products = torch.zeros(2, len(layers), size, max_tiles * (max_tiles + 1) // 2, device=device)
    lengths = torch.zeros(2, len(layers), size, max_tiles, device=device)
    launches: dict[Any, list[int]] = {}
    for number, (x, g) in enumerate(layers):
        aligned = (x.data_ptr() | g.data_ptr()) % 16 == 0
        launches.setdefault((x.shape, x.stride(), g.shape, g.stride(), x.dtype, aligned), []).append(number)
    with torch.cuda.device(device):
        for (shape, x_strides, g_shape, g_strides, dtype, aligned), numbers in launches.items():
            tile = _tile_size(shape[1])
            num_tiles = triton.cdiv(shape[1], tile)
            is_half = dtype in (torch.bfloat16, torch.float16)
            rows = tuple((layers[number][0].data_ptr(), layers[number][1].data_ptr(), number) for number in numbers)
            _gram_kernel[(num_tiles * (num_tiles + 1) // 2 * size, len(numbers))](
                table(rows, device),
                *products,
                *lengths,
                size,
                products.shape[3],
                max_tiles,
                shape[1],
                shape[2],
                g_shape[2],
                *x_strides,
                *g_strides,
                KIND=KINDS[dtype],
                ALIGNED=aligned,
                TILE=tile,
                DEPTH=64 if is_half else 32,
                # Three TensorFloat32 products make one of about fp32's precision.
                PRECISION="tf32" if is_half else "tf32x3",
                num_warps=8 if tile == 128 else 4,
                num_stages=3,
            )
    squares, x_gram_squares = products.sum(3, dtype=torch.float64)
    largest, g_squares = lengths.sum(3, dtype=torch.float64)
    # Products below fp32's smallest number, 2^-149, vanish. Their number is known, so the loss can be bounded from
    # what is left of the other factor. Callers take 2^-16 of `largest` as doubt, so the bound is scaled up by 2^16.
    shapes = tuple((x.shape[1], x.shape[2], g.shape[2]) for x, g in layers)
    positions, inputs, outputs = constant(shapes, torch.float64, device).T.unsqueeze(2)
    lost = (g_squares * positions * inputs + (positions * x_gram_squares).sqrt() * positions * outputs) * 2.0**-148
    return squares, largest.square() + lost * 2.0**16, g_squares * x_gram_squares.sqrt()


def _in_one_type(x: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Return both in one type that the kernel reads."""
    if x.dtype == g.dtype and x.dtype in KINDS:
        return x, g
    return x.float(), g.float()


def _tile_size(positions: int) -> int:
    return 32 if positions <= 32 else 64 if positions <= 64 else 128


@triton.jit
def _inner_products(
    start, i, j, depth, position_stride, feature_stride, positions,
    TILE: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Return the inner products of positions i with positions j: [TILE, TILE]."""
    k = tl.arange(0, DEPTH)
    total = tl.zeros((TILE, TILE), tl.float32)
    for first in range(0, depth, DEPTH):
        inside = first + k < depth
        offset = (first + k) * feature_stride
        left = tl.load(
            start + i[:, None].to(tl.int64) * position_stride + offset[None, :],
            mask=(i[:, None] < positions) & inside[None, :],
            other=0.0,
        )
        right = tl.load(
            start + j[None, :].to(tl.int64) * position_stride + offset[:, None],
            mask=(j[None, :] < positions) & inside[:, None],
            other=0.0,
        )
        total = tl.dot(left, right, total, input_precision=PRECISION)
    return total


@triton.jit
def _gram_kernel(
    pointers,
    products,
    x_gram_squares,
    lengths,
    g_squares,
    size,
    max_pairs,
    max_tiles,
    positions,
    inputs,
    outputs,
    x_example,
    x_position,
    x_feature,
    g_example,
    g_position,
    g_feature,
    KIND: tl.constexpr,
    ALIGNED: tl.constexpr,
    TILE: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    pair = tl.program_id(0) // size
    example = (tl.program_id(0) % size).to(tl.int64)
    entry = pointers + tl.program_id(1) * 3
    x = tl.load(entry).to(tl.pointer_type(KIND))
    g = tl.load(entry + 1).to(tl.pointer_type(KIND))
    if ALIGNED:  # the compiler knows nothing about a pointer from a table, and would read two bytes at a time
        x = tl.multiple_of(x, 16)
        g = tl.multiple_of(g, 16)
    output_row = tl.load(entry + 2) * size + example
    # Pair number n is the tile (row, column) with row (row + 1) / 2 + column = n; the root may be off by one.
    row = ((tl.sqrt(8.0 * pair + 1.0) - 1.0) * 0.5).to(tl.int32)
    row = tl.where(row * (row + 1) // 2 > pair, row - 1, row)
    row = tl.where((row + 1) * (row + 2) // 2 <= pair, row + 1, row)
    column = pair - row * (row + 1) // 2
    i = row * TILE + tl.arange(0, TILE)
    j = column * TILE + tl.arange(0, TILE)
    x_start, g_start = x + example * x_example, g + example * g_example
    x_products = _inner_products(x_start, i, j, inputs, x_position, x_feature, positions, TILE, DEPTH, PRECISION)
    g_products = _inner_products(g_start, i, j, outputs, g_position, g_feature, positions, TILE, DEPTH, PRECISION)
    # The tile (column, row) is this one's transpose, so its products have the same sum.
    times = tl.where(row == column, 1.0, 2.0)
    tl.store(products + output_row * max_pairs + pair, tl.sum(x_products * g_products) * times)
    tl.store(x_gram_squares + output_row * max_pairs + pair, tl.sum(x_products * x_products) * times)
    if row == column:  # the diagonal holds |x_t|^2 and |g_t|^2
        diagonal = i[:, None] == j[None, :]
        # A square that is put together from TensorFloat32 parts may come out below 0, and would have no root.
        x_products = tl.where(diagonal, tl.maximum(x_products, 0.0), 0.0)
        g_products = tl.where(diagonal, tl.maximum(g_products, 0.0), 0.0)
        # sum_t |x_t| |g_t| is at least the gradient's norm, by the triangle inequality; it scales the rounding error.
        tl.store(lengths + output_row * max_tiles + row, tl.sum(tl.sqrt(x_products) * tl.sqrt(g_products)))
        tl.store(g_squares + output_row * max_tiles + row, tl.sum(g_products))
