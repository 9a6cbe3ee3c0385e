"""Squared norms, clip factors and weighted sums of per-example gradients on a GPU, one pass each for all parameters.

A model has hundreds of parameters, most of them small; a kernel launch for each would cost more than the work. Here a
kernel gets a *table of addresses* of tensors [B, n], and a *list of tiles* that says which part of which tensor each
program handles.

    squares        sum of squares of each example's gradient, by clipping group      [groups, B]
    factors        clip factors and norms from these squares                         [1, B], [B]
    weighted_sums  sum over examples of factor times gradient, for each tensor       [n] each
    scaled         gradients times their factors, for products that are formed later

Examples with a factor of 0 may hold infinite numbers or NaN; no kernel lets these reach a sum.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import math
from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from hush.training.kernels.graphs import is_recording, reserve_table, retain

_WIDTH = 2048  # elements of a row that a program reads at once
_TIMES = 8  # how often it does so to square them
_COLUMNS = 1024  # columns that a program sums over the examples
_ROWS = 8  # examples that it reads at once
_BUSY = 1024  # programs that keep the device busy

KINDS = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}


def _tiles(sizes: tuple[int, ...], width: int, device: torch.device) -> Tensor:
    return retain(_cached_tiles(sizes, width, device))


@lru_cache(maxsize=64)
def _cached_tiles(sizes: tuple[int, ...], width: int, device: torch.device) -> Tensor:
    """Return a row for each tile: its tensor's number, its start in that tensor, and its start in all of them."""
    tiles, total = [], 0
    for number, size in enumerate(sizes):
        tiles += [(number, start, total + start) for start in range(0, size, width)]
        total += size
    return torch.tensor(tiles, dtype=torch.int64, device=device)


def table(rows: tuple[tuple[int, ...], ...], device: torch.device) -> Tensor:
    """Return addresses and sizes as a tensor on the device."""
    if is_recording():
        return reserve_table(torch.tensor(rows, dtype=torch.int64))
    return _cached_table(rows, device)


@lru_cache(maxsize=64)
def _cached_table(rows: tuple[tuple[int, ...], ...], device: torch.device) -> Tensor:
    """Cached, as the allocator mostly returns the same addresses in every step."""
    return torch.tensor(rows, dtype=torch.int64).pin_memory().to(device, non_blocking=True)


def _pointers(tensors: list[Tensor], groups: list[int]) -> Tensor:
    """Return a row for each tensor [B, n]: its address, n, the stride between its rows, and its clipping group."""
    rows = zip(tensors, groups, strict=True)
    return table(
        tuple((tensor.data_ptr(), tensor.shape[1], tensor.stride(0), group) for tensor, group in rows),
        tensors[0].device,
    )


@lru_cache(maxsize=64)
def _groups_of_tiles(sizes: tuple[int, ...], groups: tuple[int, ...], width: int, device: torch.device) -> Tensor:
    """Return the clipping group of each tile."""
    counts = [-(-size // width) for size in sizes]
    return torch.tensor(groups).repeat_interleave(torch.tensor(counts)).to(device)


def _as_rows(tensor: Tensor) -> Tensor:
    """Return a tensor [B, ...] as [B, n], in memory order: without a copy if each example is one block of memory.

    The order of elements does not matter for norms, and `weighted_sums` restores it by strides.
    """
    shape, stride = tensor.shape, tensor.stride()
    if not _is_block(shape[1:], stride[1:]):
        return tensor.contiguous().view(len(tensor), -1)
    return tensor.as_strided((shape[0], math.prod(shape[1:])), (stride[0], 1))


@lru_cache(maxsize=4096)
def _is_block(shape: tuple[int, ...], stride: tuple[int, ...]) -> bool:
    """Return whether a tensor of this shape and stride fills its memory without gaps, in any order."""
    expected = 1
    for step, size in sorted(zip(stride, shape, strict=True)):
        if size > 1 and step != expected:
            return False
        expected *= size
    return True


def _launches(tensors: list[Tensor]) -> list[tuple[torch.dtype, bool, list[int]]]:
    """Return the numbers of the tensors [B, n] that share a launch: same type, and rows 16-element aligned or not."""
    launches: dict[tuple[torch.dtype, bool], list[int]] = {}
    for number, tensor in enumerate(tensors):
        # One unaligned row would make a launch read all of its rows one element at a time.
        aligned = (tensor.data_ptr() | tensor.shape[1] | tensor.stride(0)) % 16 == 0
        launches.setdefault((tensor.dtype, aligned), []).append(number)
    return [(dtype, aligned, numbers) for (dtype, aligned), numbers in launches.items()]


def squares(tensors: list[Tensor], groups: list[int], num_groups: int) -> Tensor:
    """Return each example's sum of squares over all tensors of a clipping group, in fp64: [num_groups, B].

    Args:
        tensors: Gradients [B, ...].
        groups: The clipping group of each.
        num_groups: How many groups there are.
    """
    size, device = len(tensors[0]), tensors[0].device
    total = torch.zeros(num_groups, size, device=device, dtype=torch.float64)
    all_rows = [_as_rows(tensor) for tensor in tensors]
    for dtype, aligned, numbers in _launches(all_rows):
        rows, row_groups = [all_rows[number] for number in numbers], [groups[number] for number in numbers]
        sizes = tuple(row.shape[1] for row in rows)
        tiles = _tiles(sizes, _WIDTH * _TIMES, device)
        parts = torch.empty(len(tiles), size, device=device)
        with torch.cuda.device(device):
            _squares[(len(tiles) * size,)](
                tiles,
                _pointers(rows, row_groups),
                parts,
                size,
                KINDS[dtype],
                ALIGNED=aligned,
                WIDTH=_WIDTH,
                TIMES=_TIMES,
            )
        # fp32 within a tile of 2^14 elements and fp64 over the tiles: the rounding error does not grow with the model.
        if num_groups == 1:
            total += parts.sum(0, dtype=torch.float64)
        else:
            tile_groups = retain(_groups_of_tiles(sizes, tuple(row_groups), _WIDTH * _TIMES, device))
            total.index_add_(0, tile_groups, parts.double())
    return total


def factors(
    squares: Tensor, doubts: Tensor | None, roundings: Tensor | None, chosen: Tensor, target: float, scale: float
) -> tuple[Tensor, Tensor]:
    """Return clip factors [1, B] and norms [B] for flat clipping in one group; see `norms.clip_factors`.

    The norm is NaN, and the factor 0, where a gradient is not finite.
    """
    size, device = len(chosen), chosen.device
    clip_factors, norms = torch.empty(1, size, device=device), torch.empty(size, device=device)
    with torch.cuda.device(device):
        _factors[(triton.cdiv(size, 128),)](
            squares,
            squares if doubts is None else doubts,
            squares if roundings is None else roundings,
            chosen,
            clip_factors,
            norms,
            target,
            scale,
            size,
            DOUBTS=doubts is not None,
            ROUNDINGS=roundings is not None,
        )
    return clip_factors, norms


def weighted_sums(tensors: list[Tensor], groups: list[int], factors: Tensor) -> list[Tensor]:
    """Return the sum over examples of factor times gradient, for each tensor, in fp64.

    Args:
        tensors: Gradients [B, ...].
        groups: The clipping group of each.
        factors: Clip factors [num_groups, B]; an example with factor 0 is not even read.
    """
    sums: list[Tensor] = [factors] * len(tensors)
    size, device = factors.shape[1], factors.device
    factors = factors.float().contiguous()  # clipping by groups returns fp64
    all_rows = [_as_rows(tensor) for tensor in tensors]
    for dtype, aligned, numbers in _launches(all_rows):
        rows = [all_rows[number] for number in numbers]
        sizes = tuple(row.shape[1] for row in rows)
        tiles = _tiles(sizes, _COLUMNS, device)
        # Few columns would leave most of the device idle: then the examples are split among programs, too.
        splits = max(min(_BUSY // len(tiles), size // 8), 1)
        parts = torch.empty(splits, sum(sizes), device=device, dtype=torch.float64)
        with torch.cuda.device(device):
            _weighted_sums[(len(tiles), splits)](
                tiles,
                _pointers(rows, [groups[number] for number in numbers]),
                factors,
                parts,
                parts.stride(0),
                size,
                triton.cdiv(size, splits),
                KIND=KINDS[dtype],
                ALIGNED=aligned,
                COLUMNS=_COLUMNS,
                ROWS=_ROWS,
            )
        total = parts[0] if splits == 1 else parts.sum(0)
        for number, row, value in zip(numbers, rows, total.split(sizes), strict=True):
            example = tensors[number][0]
            is_view = row.data_ptr() == tensors[number].data_ptr()
            sums[number] = value.as_strided(example.shape, example.stride()) if is_view else value.view(example.shape)
    return sums


@triton.jit
def _factors(
    squares,
    doubts,
    roundings,
    chosen,
    factors,
    norms,
    target,
    scale,
    size,
    DOUBTS: tl.constexpr,
    ROUNDINGS: tl.constexpr,
):
    at = tl.program_id(0) * 128 + tl.arange(0, 128)
    inside = at < size
    # A sum of products may round to below 0. NaN has to stay NaN, because it gets factor 0 below.
    square = tl.maximum(tl.load(squares + at, mask=inside, other=0.0), 0.0, propagate_nan=tl.PropagateNan.ALL)
    # The most that the true norm can be. A norm that is taken too large clips more than it must, which is safe.
    bound = square
    if DOUBTS:
        bound += tl.load(doubts + at, mask=inside, other=0.0)
    bound = tl.sqrt(bound)
    if ROUNDINGS:
        bound += tl.sqrt(tl.load(roundings + at, mask=inside, other=0.0))
    finite = bound / scale < 1e30  # false for NaN; beyond, fp32 would round the factor coarsely
    weight = tl.load(chosen + at, mask=inside, other=0.0)
    # 1e-300 only keeps 0 / 0 away: an example of norm 0 has factor 1.
    factor = tl.minimum(target * scale / tl.maximum(bound, 1e-300), 1.0) / scale
    tl.store(factors + at, tl.where(finite & (weight > 0), factor, 0.0).to(tl.float32), mask=inside)
    tl.store(norms + at, tl.where(finite, tl.sqrt(square) / scale, float("nan")).to(tl.float32), mask=inside)


def scaled(tensors: list[Tensor], groups: list[int], factors: Tensor) -> list[Tensor]:
    """Return tensors [B, ...] times their factors, multiplied in fp32 and rounded to each tensor's own type.

    Args:
        tensors: Gradients or inputs [B, ...]. Tensors of the same size and type share a launch.
        groups: The clipping group of each.
        factors: Clip factors [num_groups, B]; where one is 0 the result is 0, whatever the tensor holds.
    """
    results: list[Tensor] = [factors] * len(tensors)
    launches: dict[tuple[int, torch.dtype], list[int]] = {}
    for number, tensor in enumerate(tensors):
        launches.setdefault((tensor[0].numel(), tensor.dtype), []).append(number)
    size, device, factors = factors.shape[1], factors.device, factors.contiguous()
    for (length, dtype), numbers in launches.items():
        batch = [tensors[number].contiguous() for number in numbers]
        products = torch.empty(len(batch), size, length, device=device, dtype=dtype)
        with torch.cuda.device(device):
            _scaled[(triton.cdiv(length, _WIDTH) * size, len(batch))](
                _pointers([tensor.view(size, length) for tensor in batch], [groups[number] for number in numbers]),
                factors,
                products,
                size,
                length,
                KIND=KINDS[dtype],
                ALIGNED=all(tensor.data_ptr() % 16 == 0 for tensor in batch),
                WIDTH=_WIDTH,
            )
        for number, tensor, product in zip(numbers, batch, products, strict=True):
            results[number] = product.view(tensor.shape)
    return results


@triton.jit
def _scaled(pointers, factors, result, size, length, KIND: tl.constexpr, ALIGNED: tl.constexpr, WIDTH: tl.constexpr):
    layer = tl.program_id(1).to(tl.int64)
    example = (tl.program_id(0) % size).to(tl.int64)
    at = (tl.program_id(0) // size) * WIDTH + tl.arange(0, WIDTH)
    inside = at < length
    values = tl.load(pointers + layer * 4).to(tl.pointer_type(KIND))
    if ALIGNED:
        values = tl.multiple_of(values, 16)
    factor = tl.load(factors + tl.load(pointers + layer * 4 + 3) * size + example)
    product = tl.load(values + example * length + at, mask=inside, other=0.0).to(tl.float32) * factor
    product = tl.where(factor > 0.0, product, 0.0)  # 0 times infinity is NaN
    tl.store(result + (layer * size + example) * length + at, product.to(KIND), mask=inside)


@triton.jit
def _tile_start(pointers, tile, KIND: tl.constexpr, ALIGNED: tl.constexpr, WIDTH: tl.constexpr):
    """Return a tile's tensor (its row of the table, address, length, stride between rows) and the tile's start."""
    row = pointers + tl.load(tile) * 4
    values = tl.load(row).to(tl.pointer_type(KIND))
    length = tl.load(row + 1)
    stride = tl.load(row + 2)
    if ALIGNED:  # the compiler knows nothing about numbers from a table, and would read one element at a time
        values = tl.multiple_of(values, 16)
        length = tl.multiple_of(length, 16)
        stride = tl.multiple_of(stride, 16)
    return row, values, length, stride, tl.multiple_of(tl.load(tile + 1), WIDTH)


@triton.jit
def _squares(
    tiles, pointers, parts, size, KIND: tl.constexpr, ALIGNED: tl.constexpr, WIDTH: tl.constexpr, TIMES: tl.constexpr
):
    tile = (tl.program_id(0) // size).to(tl.int64)
    example = (tl.program_id(0) % size).to(tl.int64)
    _, values, length, stride, start = _tile_start(pointers, tiles + tile * 3, KIND, ALIGNED, WIDTH)
    total = tl.zeros((WIDTH,), tl.float32)
    for turn in tl.static_range(TIMES):
        at = start + turn * WIDTH + tl.arange(0, WIDTH)
        value = tl.load(values + example * stride + at, mask=at < length, other=0.0).to(tl.float32)
        # Each lane adds up TIMES squares and the lanes are added as a tree: few roundings for many elements.
        total += value * value
    tl.store(parts + tile * size + example, tl.sum(total))


@triton.jit
def _weighted_sums(
    tiles,
    pointers,
    factors,
    parts,
    parts_stride,
    size,
    split_size,
    KIND: tl.constexpr,
    ALIGNED: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
):
    tile = tiles + tl.program_id(0).to(tl.int64) * 3
    row, values, length, stride, start = _tile_start(pointers, tile, KIND, ALIGNED, COLUMNS)
    group_factors = factors + tl.load(row + 3) * size
    at = start + tl.arange(0, COLUMNS)
    inside = at < length
    total = tl.zeros((ROWS, COLUMNS), tl.float64)  # `norms.rounding_slack` says why
    first = tl.program_id(1) * split_size
    last = tl.minimum(first + split_size, size)
    for begin in range(first, last, ROWS):
        example = begin + tl.arange(0, ROWS)
        factor = tl.load(group_factors + example, mask=example < last, other=0.0)
        # Rows of factor 0 are left out, not multiplied by it: 0 times infinity is NaN.
        needed = inside[None, :] & (factor > 0)[:, None]
        # In 64 bits: examples times elements exceed 2^31.
        where = values + example[:, None].to(tl.int64) * stride + at[None, :]
        total += factor[:, None].to(tl.float64) * tl.load(where, mask=needed, other=0.0).to(tl.float64)
    out = parts + tl.program_id(1).to(tl.int64) * parts_stride + tl.load(tile + 2) + tl.arange(0, COLUMNS)
    tl.store(out, tl.sum(total, 0), mask=inside)
