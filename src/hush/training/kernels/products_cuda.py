"""Sums of linear layers' gradients over examples on a GPU, from inputs and scaled output gradients in half precision.

One program computes one tile of sum_i g_i^T x_i. An example's product is added up in fp32, by tensor cores: it is a
function of that example alone. The examples' products are added up in fp64, in registers, because in single precision
one example could change how all others are rounded (`hush.training.per_example.norms.rounding_slack`).

Names: i is an example, t a position; p and d are outputs and inputs.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

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
    # A small matrix would leave most of the device idle: then the examples are split among programs, too.
    splits = max(min(triton.cdiv(_BUSY, num_tiles), size), 1)
    parts = torch.empty(splits, outputs, inputs, device=device, dtype=torch.float64)
    with torch.cuda.device(device):
        _product_sum[(num_tiles, splits)](
            g,
            x,
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
