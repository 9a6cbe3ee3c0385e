"""The kernel of `_gram`: for each example and each pair of tiles of positions, two products, one sum."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def gram(pairs: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `_gram.gram` says, of layers with equally many examples: one kernel for each, few for all."""
    size, device = len(pairs[0][0]), pairs[0][0].device
    tiles = [triton.cdiv(x.shape[1], _tile(x.shape[1])) for x, _ in pairs]
    most = max(tiles)
    products = torch.zeros(2, len(pairs), size, most * (most + 1) // 2, device=device)
    lengths = torch.zeros(2, len(pairs), size, most, device=device)
    with torch.cuda.device(device):
        for layer, (x, g) in enumerate(pairs):
            positions, inputs, outputs = *x.shape[1:], g.shape[2]
            tile = _tile(positions)
            half = x.dtype in (torch.bfloat16, torch.float16) and g.dtype == x.dtype
            if not half:
                x, g = x.float(), g.float()
            _gram_kernel[(tiles[layer] * (tiles[layer] + 1) // 2, size)](
                x,
                g,
                products[0, layer],
                products[1, layer],
                lengths[0, layer],
                lengths[1, layer],
                products.shape[3],
                most,
                positions,
                inputs,
                outputs,
                *x.stride(),
                *g.stride(),
                TILE=tile,
                DEPTH=64 if half else 32,
                PRECISION="tf32" if half else "tf32x3",
                num_warps=8 if tile == 128 else 4,
                num_stages=3,
            )
    squares, of_x = products.sum(3, dtype=torch.float64)
    largest, of_g = lengths.sum(3, dtype=torch.float64)
    return squares, largest.square(), of_g * of_x.sqrt()


def _tile(positions: int) -> int:
    return 32 if positions <= 32 else 64 if positions <= 64 else 128


@triton.jit
def _product(
    at, i, j, depth, step, stride, positions, TILE: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr
):
    """Return the inner products of positions i and j."""
    k = tl.arange(0, DEPTH)
    total = tl.zeros((TILE, TILE), tl.float32)
    for start in range(0, depth, DEPTH):
        inside = start + k < depth
        offset = (start + k) * stride
        left = tl.load(
            at + i[:, None].to(tl.int64) * step + offset[None, :],
            mask=(i[:, None] < positions) & inside[None, :],
            other=0.0,
        )
        right = tl.load(
            at + j[None, :].to(tl.int64) * step + offset[:, None],
            mask=(j[None, :] < positions) & inside[:, None],
            other=0.0,
        )
        total = tl.dot(left, right, total, input_precision=PRECISION)
    return total


@triton.jit
def _gram_kernel(
    x,
    g,
    products,
    squares_of_x,
    lengths,
    lengths_of_g,
    room,
    room_of_lengths,
    positions,
    inputs,
    outputs,
    x_example,
    x_position,
    x_feature,
    g_example,
    g_position,
    g_feature,
    TILE: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    pair = tl.program_id(0)
    example = tl.program_id(1).to(tl.int64)
    row = ((tl.sqrt(8.0 * pair + 1.0) - 1.0) * 0.5).to(tl.int32)
    row = tl.where(row * (row + 1) // 2 > pair, row - 1, row)
    row = tl.where((row + 1) * (row + 2) // 2 <= pair, row + 1, row)
    column = pair - row * (row + 1) // 2
    i = row * TILE + tl.arange(0, TILE)
    j = column * TILE + tl.arange(0, TILE)
    of_x = _product(x + example * x_example, i, j, inputs, x_position, x_feature, positions, TILE, DEPTH, PRECISION)
    of_g = _product(g + example * g_example, i, j, outputs, g_position, g_feature, positions, TILE, DEPTH, PRECISION)
    twice = tl.where(row == column, 1.0, 2.0)
    tl.store(products + example * room + pair, tl.sum(of_x * of_g) * twice)
    tl.store(squares_of_x + example * room + pair, tl.sum(of_x * of_x) * twice)
    if row == column:
        own = i[:, None] == j[None, :]
        of_x = tl.where(own, tl.maximum(of_x, 0.0), 0.0)
        of_g = tl.where(own, tl.maximum(of_g, 0.0), 0.0)
        tl.store(lengths + example * room_of_lengths + row, tl.sum(tl.sqrt(of_x) * tl.sqrt(of_g)))
        tl.store(lengths_of_g + example * room_of_lengths + row, tl.sum(of_g))
