"""Sums of linear layers' gradients over examples on a GPU, from inputs and scaled output gradients in half precision.

One program computes one tile of sum_i g_i^T x_i. An example's product is added up in fp32, by tensor cores: it is a
function of that example alone. The examples' products are added up in fp64, in registers, because in single precision
one example could change how all others are rounded (`hush.training.per_example.norms.rounding_slack`). Where there
is a Tensor Memory Accelerator (Hopper and later), it loads the blocks and pads them with zeros.

Names: i is an example, t a position; p and d are outputs and inputs.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

try:
    from triton.tools.tensor_descriptor import TensorDescriptor
except ImportError:  # Triton before 3.3
    TensorDescriptor = None

_ROWS, _COLUMNS = 128, 128  # of a tile
_DEPTH = 64  # positions at a time
_BUSY = 512  # programs that keep the device busy


def product_sum(g: Tensor, x: Tensor) -> Tensor:
    """Return the sum over examples of g_i^T x_i, in fp64: [p, d].

    Args:
        g: Scaled output gradients [B, T, p], in bf16 or fp16; 0 for examples that are left out.
        x: Inputs [B, T, d] of the same type; 0 for examples that are left out.
    """
    g, x = g.contiguous(), x.contiguous()
    size, positions, outputs = g.shape
    inputs, device = x.shape[2], x.device
    num_tiles = triton.cdiv(outputs, _ROWS) * triton.cdiv(inputs, _COLUMNS)
    has_tma = _has_tma(g, x)
    # A small matrix would leave most of the device idle: then the examples are split among programs, too.
    splits = _splits(num_tiles, size, device) if has_tma else max(min(triton.cdiv(_BUSY, num_tiles), size), 1)
    parts = torch.empty(splits, outputs, inputs, device=device, dtype=torch.float64)
    kernel: Any = _product_sum
    arguments: list[Any] = [g, x]
    if has_tma:
        kernel = _product_sum_tma
        arguments = [
            TensorDescriptor.from_tensor(tensor, [1, _DEPTH, width]) for tensor, width in ((g, _ROWS), (x, _COLUMNS))
        ]
    with torch.cuda.device(device):
        kernel[(num_tiles, splits)](
            *arguments,
            parts,
            size,
            triton.cdiv(size, splits),
            positions,
            outputs,
            inputs,
            ROWS=_ROWS,
            COLUMNS=_COLUMNS,
            DEPTH=_DEPTH,
            num_warps=8,
            num_stages=3,
        )
    return parts[0] if splits == 1 else parts.sum(0)


def _has_tma(g: Tensor, x: Tensor) -> bool:
    """Return whether tensor descriptors can read both: they need rows and addresses that are multiples of 16 bytes."""
    if TensorDescriptor is None or not g.numel() or not x.numel() or torch.cuda.get_device_capability(x.device)[0] < 9:
        return False
    return all(tensor.data_ptr() % 16 == 0 and tensor.shape[2] % 8 == 0 for tensor in (g, x))


def _splits(num_tiles: int, size: int, device: torch.device) -> int:
    """Return into how many parts to split the examples, so that few processors are idle at the end.

    One program fills a processor. More parts take more memory, which counts a hundredth each.
    """
    processors = torch.cuda.get_device_properties(device).multi_processor_count

    def cost(splits: int) -> float:
        rounds, examples = -(-num_tiles * splits // processors), -(-size // splits)
        return rounds * examples * (1 + 0.01 * splits)

    few = range(1, 1 + max(1, min(size, max(8, processors // num_tiles))))
    return min(few, key=cost)


@triton.jit
def _product_sum(
    g,
    x,
    parts,
    size,
    split_size,
    positions,
    outputs,
    inputs,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    columns = tl.cdiv(inputs, COLUMNS)
    p = tl.program_id(0) // columns * ROWS + tl.arange(0, ROWS)
    d = tl.program_id(0) % columns * COLUMNS + tl.arange(0, COLUMNS)
    first = tl.program_id(1) * split_size
    num_examples = tl.maximum(tl.minimum(first + split_size, size) - first, 0)
    blocks = tl.cdiv(positions, DEPTH)
    product = tl.zeros((ROWS, COLUMNS), tl.float32)
    total = tl.zeros((ROWS, COLUMNS), tl.float64)
    # One loop over all blocks of all examples, so that the next example's first block is loaded ahead.
    for step in range(num_examples * blocks):
        t = step % blocks * DEPTH + tl.arange(0, DEPTH)
        row = (first + step // blocks).to(tl.int64) * positions + t
        g_block = tl.load(
            g + row[:, None] * outputs + p[None, :],
            mask=(t[:, None] < positions) & (p[None, :] < outputs),
            other=0.0,
        )
        x_block = tl.load(
            x + row[:, None] * inputs + d[None, :],
            mask=(t[:, None] < positions) & (d[None, :] < inputs),
            other=0.0,
        )
        product = tl.dot(tl.trans(g_block), x_block, product)
        if step % blocks == blocks - 1:
            total += product.to(tl.float64)
            product = tl.zeros((ROWS, COLUMNS), tl.float32)
    out = parts + tl.program_id(1).to(tl.int64) * outputs * inputs + p[:, None].to(tl.int64) * inputs + d[None, :]
    tl.store(out, total, mask=(p[:, None] < outputs) & (d[None, :] < inputs))


@triton.jit
def _product_sum_tma(
    g,
    x,
    parts,
    size,
    split_size,
    positions,
    outputs,
    inputs,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """Do the same with descriptors of [B, T, p] and [B, T, d]: what lies beyond an example's end is 0."""
    columns, rows = tl.cdiv(inputs, COLUMNS), tl.cdiv(outputs, ROWS)
    # Eight rows of tiles at a time, whose blocks then stay in the second cache.
    number, band = tl.program_id(0), 8 * columns
    first_row = number // band * 8
    height = tl.minimum(rows - first_row, 8)
    p = (first_row + number % band % height) * ROWS
    d = number % band // height * COLUMNS
    first = tl.program_id(1) * split_size
    num_examples = tl.maximum(tl.minimum(first + split_size, size) - first, 0)
    blocks = tl.cdiv(positions, DEPTH)
    product = tl.zeros((ROWS, COLUMNS), tl.float32)
    total = tl.zeros((ROWS, COLUMNS), tl.float64)
    for step in range(num_examples * blocks):
        example, t = first + step // blocks, step % blocks * DEPTH
        g_block = g.load([example, t, p]).reshape(DEPTH, ROWS)
        x_block = x.load([example, t, d]).reshape(DEPTH, COLUMNS)
        product = tl.dot(tl.trans(g_block), x_block, product)
        if step % blocks == blocks - 1:
            total += product.to(tl.float64)
            product = tl.zeros((ROWS, COLUMNS), tl.float32)
    row, column = p + tl.arange(0, ROWS), d + tl.arange(0, COLUMNS)
    out = (
        parts + tl.program_id(1).to(tl.int64) * outputs * inputs + row[:, None].to(tl.int64) * inputs + column[None, :]
    )
    tl.store(out, total, mask=(row[:, None] < outputs) & (column[None, :] < inputs))
