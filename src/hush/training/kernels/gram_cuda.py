"""The kernel of `_gram`: for each example and each pair of tiles of positions, two products, one sum."""

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
    """Return what `_gram.gram` says, of layers with equally many examples: one kernel for layers of one shape."""
    size, device = len(pairs[0][0]), pairs[0][0].device
    ready = [_alike(x, g) for x, g in pairs]
    most = max(triton.cdiv(x.shape[1], _tile(x.shape[1])) for x, _ in ready)
    products = torch.zeros(2, len(ready), size, most * (most + 1) // 2, device=device)
    lengths = torch.zeros(2, len(ready), size, most, device=device)
    groups: dict[Any, list[int]] = {}
    for layer, (x, g) in enumerate(ready):
        aligned = (x.data_ptr() | g.data_ptr()) % 16 == 0
        groups.setdefault((x.shape, x.stride(), g.shape, g.stride(), x.dtype, aligned), []).append(layer)
    with torch.cuda.device(device):
        for (shape, x_stride, g_shape, g_stride, kind, aligned), layers in groups.items():
            tile = _tile(shape[1])
            tiles = triton.cdiv(shape[1], tile)
            half = kind in (torch.bfloat16, torch.float16)
            rows = tuple((ready[layer][0].data_ptr(), ready[layer][1].data_ptr(), layer) for layer in layers)
            _gram_kernel[(tiles * (tiles + 1) // 2 * size, len(layers))](
                table(rows, device),
                *products,
                *lengths,
                size,
                products.shape[3],
                most,
                shape[1],
                shape[2],
                g_shape[2],
                *x_stride,
                *g_stride,
                KIND=KINDS[kind],
                ALIGNED=aligned,
                TILE=tile,
                DEPTH=64 if half else 32,
                PRECISION="tf32" if half else "tf32x3",
                num_warps=8 if tile == 128 else 4,
                num_stages=3,
            )
    squares, of_x = products.sum(3, dtype=torch.float64)
    largest, of_g = lengths.sum(3, dtype=torch.float64)
    # Squares below 1e-45 vanish: at most so many, beside what is there of the other factor.
    counts = tuple((x.shape[1], x.shape[2], g.shape[2]) for x, g in ready)
    positions, inputs, outputs = constant(counts, torch.float64, device).T.unsqueeze(2)
    lost = (of_g * positions * inputs + (positions * of_x).sqrt() * positions * outputs) * 2.0**-148
    return squares, largest.square() + lost * 2.0**16, of_g * of_x.sqrt()


def _alike(x: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Return both in one type that the kernel knows."""
    if x.dtype == g.dtype and x.dtype in KINDS:
        return x, g
    return x.float(), g.float()


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
    pointers,
    products,
    squares_of_x,
    lengths,
    lengths_of_g,
    size,
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
    KIND: tl.constexpr,
    ALIGNED: tl.constexpr,
    TILE: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    pair = tl.program_id(0) // size
    example = (tl.program_id(0) % size).to(tl.int64)
    place = pointers + tl.program_id(1) * 3
    x = tl.load(place).to(tl.pointer_type(KIND))
    g = tl.load(place + 1).to(tl.pointer_type(KIND))
    if ALIGNED:  # a pointer from a table does not tell, and would be read two bytes at a time
        x = tl.multiple_of(x, 16)
        g = tl.multiple_of(g, 16)
    row_of_layer = tl.load(place + 2) * size + example
    row = ((tl.sqrt(8.0 * pair + 1.0) - 1.0) * 0.5).to(tl.int32)
    row = tl.where(row * (row + 1) // 2 > pair, row - 1, row)
    row = tl.where((row + 1) * (row + 2) // 2 <= pair, row + 1, row)
    column = pair - row * (row + 1) // 2
    i = row * TILE + tl.arange(0, TILE)
    j = column * TILE + tl.arange(0, TILE)
    of_x = _product(x + example * x_example, i, j, inputs, x_position, x_feature, positions, TILE, DEPTH, PRECISION)
    of_g = _product(g + example * g_example, i, j, outputs, g_position, g_feature, positions, TILE, DEPTH, PRECISION)
    twice = tl.where(row == column, 1.0, 2.0)
    tl.store(products + row_of_layer * room + pair, tl.sum(of_x * of_g) * twice)
    tl.store(squares_of_x + row_of_layer * room + pair, tl.sum(of_x * of_x) * twice)
    if row == column:
        own = i[:, None] == j[None, :]
        of_x = tl.where(own, tl.maximum(of_x, 0.0), 0.0)
        of_g = tl.where(own, tl.maximum(of_g, 0.0), 0.0)
        tl.store(lengths + row_of_layer * room_of_lengths + row, tl.sum(tl.sqrt(of_x) * tl.sqrt(of_g)))
        tl.store(lengths_of_g + row_of_layer * room_of_lengths + row, tl.sum(of_g))
