"""Norms and weighted sums of many parameters' gradients in one pass each, on a GPU.

Tensors [B, n] of any number and size are read by address: one kernel for all of them instead of some for each.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import math
from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from hush.training.kernels.graphs import filled_later, is_recording, kept

_WIDTH = 2048  # numbers of a row that a program takes at once
_TIMES = 8  # and how often, to square them
_COLUMNS = 1024  # numbers of all rows that a program sums
_ROWS = 8  # of how many examples at once
_BUSY = 1024  # programs that keep the device busy

KINDS = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}


def _tiles(sizes: tuple[int, ...], width: int, device: torch.device) -> Tensor:
    return kept(_tiles_of(sizes, width, device))


@lru_cache(maxsize=64)
def _tiles_of(sizes: tuple[int, ...], width: int, device: torch.device) -> Tensor:
    """Return, for each tile: whose it is, where in a row it begins, and where among the rows of all."""
    tiles, before = [], 0
    for number, size in enumerate(sizes):
        tiles += [(number, start, before + start) for start in range(0, size, width)]
        before += size
    return torch.tensor(tiles, dtype=torch.int64, device=device)


def table(rows: tuple[tuple[int, ...], ...], device: torch.device) -> Tensor:
    """Return addresses and sizes on the device."""
    if is_recording():
        return filled_later(torch.tensor(rows, dtype=torch.int64))
    return _table(rows, device)


@lru_cache(maxsize=64)
def _table(rows: tuple[tuple[int, ...], ...], device: torch.device) -> Tensor:
    """The allocator mostly gives the same addresses again."""
    return torch.tensor(rows, dtype=torch.int64).pin_memory().to(device, non_blocking=True)


def _pointers(tensors: list[Tensor], places: list[int]) -> Tensor:
    """Return, for each tensor [B, n]: its address, n, the distance of its rows, and its group."""
    rows = zip(tensors, places, strict=True)
    return table(
        tuple((each.data_ptr(), each.shape[1], each.stride(0), place) for each, place in rows), tensors[0].device
    )


@lru_cache(maxsize=64)
def _groups_of_tiles(sizes: tuple[int, ...], places: tuple[int, ...], width: int, device: torch.device) -> Tensor:
    """Return the group of each tile."""
    counts = [-(-size // width) for size in sizes]
    return torch.tensor(places).repeat_interleave(torch.tensor(counts)).to(device)


def _in_order(each: Tensor) -> Tensor:
    """Return the rows as they lie in memory, [B, n], without a copy if each is a block of its own in any order."""
    shape, stride = each.shape, each.stride()
    if not _is_block(shape[1:], stride[1:]):
        return each.contiguous().view(len(each), -1)
    return each.as_strided((shape[0], math.prod(shape[1:])), (stride[0], 1))


@lru_cache(maxsize=4096)
def _is_block(shape: tuple[int, ...], stride: tuple[int, ...]) -> bool:
    """Say whether such a tensor lies in memory without gaps."""
    expected = 1
    for step, size in sorted(zip(stride, shape, strict=True)):
        if size > 1 and step != expected:
            return False
        expected *= size
    return True


def _by_kind(tensors: list[Tensor]) -> list[tuple[torch.dtype, bool, list[int]]]:
    """Return tensors [B, n] by their type and by whether their rows can be read 16 numbers at a time."""
    kinds: dict[tuple[torch.dtype, bool], list[int]] = {}
    for number, each in enumerate(tensors):
        aligned = (each.data_ptr() | each.shape[1] | each.stride(0)) % 16 == 0
        kinds.setdefault((each.dtype, aligned), []).append(number)
    return [(kind, aligned, numbers) for (kind, aligned), numbers in kinds.items()]


def squares(tensors: list[Tensor], places: list[int], count: int) -> Tensor:
    """Return the sums of the squares of each example's parts, by group, in fp64: [groups, B]."""
    size, device = len(tensors[0]), tensors[0].device
    total = torch.zeros(count, size, device=device, dtype=torch.float64)
    rows = [_in_order(each) for each in tensors]
    for kind, aligned, numbers in _by_kind(rows):
        some, own = [rows[number] for number in numbers], [places[number] for number in numbers]
        sizes = tuple(each.shape[1] for each in some)
        tiles = _tiles(sizes, _WIDTH * _TIMES, device)
        parts = torch.empty(len(tiles), size, device=device)
        with torch.cuda.device(device):
            _squares[(len(tiles) * size,)](
                tiles, _pointers(some, own), parts, size, KINDS[kind], ALIGNED=aligned, WIDTH=_WIDTH, TIMES=_TIMES
            )
        if count == 1:
            total += parts.sum(0, dtype=torch.float64)
        else:
            groups = kept(_groups_of_tiles(sizes, tuple(own), _WIDTH * _TIMES, device))
            total.index_add_(0, groups, parts.double())
    return total


def factors(
    squares: Tensor, doubts: Tensor | None, roundings: Tensor | None, chosen: Tensor, target: float, scale: float
) -> tuple[Tensor, Tensor]:
    """Return by what each example's gradient is multiplied, [1, B], and its norm: NaN where that is not finite."""
    size, device = len(chosen), chosen.device
    found, norms = torch.empty(1, size, device=device), torch.empty(size, device=device)
    with torch.cuda.device(device):
        _factors[(triton.cdiv(size, 128),)](
            squares,
            squares if doubts is None else doubts,
            squares if roundings is None else roundings,
            chosen,
            found,
            norms,
            target,
            scale,
            size,
            DOUBTS=doubts is not None,
            ROUNDINGS=roundings is not None,
        )
    return found, norms


def weighted_sums(tensors: list[Tensor], places: list[int], factors: Tensor) -> list[Tensor]:
    """Return the sum over examples of factor times row, for each tensor, in fp32; rows of factor 0 are passed over."""
    sums: list[Tensor] = [factors] * len(tensors)
    size, device, factors = factors.shape[1], factors.device, factors.contiguous()
    rows = [_in_order(each) for each in tensors]
    for kind, aligned, numbers in _by_kind(rows):
        some = [rows[number] for number in numbers]
        sizes = tuple(each.shape[1] for each in some)
        tiles = _tiles(sizes, _COLUMNS, device)
        splits = max(min(_BUSY // len(tiles), size // 8), 1)
        parts = torch.empty(splits, sum(sizes), device=device)
        with torch.cuda.device(device):
            _weighted_sums[(len(tiles), splits)](
                tiles,
                _pointers(some, [places[number] for number in numbers]),
                factors,
                parts,
                parts.stride(0),
                size,
                triton.cdiv(size, splits),
                KIND=KINDS[kind],
                ALIGNED=aligned,
                COLUMNS=_COLUMNS,
                ROWS=_ROWS,
            )
        total = parts[0] if splits == 1 else parts.sum(0)
        for number, each, value in zip(numbers, some, total.split(sizes), strict=True):
            one = tensors[number][0]
            same = each.data_ptr() == tensors[number].data_ptr()
            sums[number] = value.as_strided(one.shape, one.stride()) if same else value.view(one.shape)
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
    square = tl.maximum(tl.load(squares + at, mask=inside, other=0.0), 0.0, propagate_nan=tl.PropagateNan.ALL)
    bound = square
    if DOUBTS:
        bound += tl.load(doubts + at, mask=inside, other=0.0)
    bound = tl.sqrt(bound)
    if ROUNDINGS:
        bound += tl.sqrt(tl.load(roundings + at, mask=inside, other=0.0))
    finite = bound / scale < 1e30  # and no NaN; beyond, factors would be rounded coarsely
    weight = tl.load(chosen + at, mask=inside, other=0.0)
    factor = tl.minimum(target * scale / tl.maximum(bound, 1e-300), 1.0) / scale
    tl.store(factors + at, tl.where(finite & (weight > 0), factor, 0.0).to(tl.float32), mask=inside)
    tl.store(norms + at, tl.where(finite, tl.sqrt(square) / scale, float("nan")).to(tl.float32), mask=inside)


def scaled(tensors: list[Tensor], places: list[int], factors: Tensor) -> list[Tensor]:
    """Return tensors [B, ...] times factors, multiplied in fp32, each in its own type; one kernel for each size."""
    results: list[Tensor] = [factors] * len(tensors)
    groups: dict[tuple[int, torch.dtype], list[int]] = {}
    for number, each in enumerate(tensors):
        groups.setdefault((each[0].numel(), each.dtype), []).append(number)
    size, device, factors = factors.shape[1], factors.device, factors.contiguous()
    for (length, kind), numbers in groups.items():
        some = [tensors[number].contiguous() for number in numbers]
        found = torch.empty(len(some), size, length, device=device, dtype=kind)
        with torch.cuda.device(device):
            _scaled[(triton.cdiv(length, _WIDTH) * size, len(some))](
                _pointers([each.view(size, length) for each in some], [places[number] for number in numbers]),
                factors,
                found,
                size,
                length,
                KIND=KINDS[kind],
                ALIGNED=all(each.data_ptr() % 16 == 0 for each in some),
                WIDTH=_WIDTH,
            )
        for number, each, result in zip(numbers, some, found, strict=True):
            results[number] = result.view(each.shape)
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
    product = tl.where(factor > 0.0, product, 0.0)  # whatever is there
    tl.store(result + (layer * size + example) * length + at, product.to(KIND), mask=inside)


@triton.jit
def _start(pointers, place, KIND: tl.constexpr, ALIGNED: tl.constexpr, WIDTH: tl.constexpr):
    """Return a tile's tensor: its row of the table, address, length, distance of rows; and where the tile begins."""
    row = pointers + tl.load(place) * 4
    values = tl.load(row).to(tl.pointer_type(KIND))
    length = tl.load(row + 1)
    step = tl.load(row + 2)
    if ALIGNED:  # numbers from a table do not tell, and memory would be read one element at a time
        values = tl.multiple_of(values, 16)
        length = tl.multiple_of(length, 16)
        step = tl.multiple_of(step, 16)
    return row, values, length, step, tl.multiple_of(tl.load(place + 1), WIDTH)


@triton.jit
def _squares(
    tiles, pointers, parts, size, KIND: tl.constexpr, ALIGNED: tl.constexpr, WIDTH: tl.constexpr, TIMES: tl.constexpr
):
    tile = (tl.program_id(0) // size).to(tl.int64)
    example = (tl.program_id(0) % size).to(tl.int64)
    _, values, length, step, start = _start(pointers, tiles + tile * 3, KIND, ALIGNED, WIDTH)
    total = tl.zeros((WIDTH,), tl.float32)
    for turn in tl.static_range(TIMES):
        at = start + turn * WIDTH + tl.arange(0, WIDTH)
        value = tl.load(values + example * step + at, mask=at < length, other=0.0).to(tl.float32)
        total += value * value
    tl.store(parts + tile * size + example, tl.sum(total))


@triton.jit
def _weighted_sums(
    tiles,
    pointers,
    factors,
    parts,
    stride,
    size,
    some,
    KIND: tl.constexpr,
    ALIGNED: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
):
    place = tiles + tl.program_id(0).to(tl.int64) * 3
    row, values, length, step, start = _start(pointers, place, KIND, ALIGNED, COLUMNS)
    own = factors + tl.load(row + 3) * size
    at = start + tl.arange(0, COLUMNS)
    inside = at < length
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    first = tl.program_id(1) * some
    last = tl.minimum(first + some, size)
    for begin in range(first, last, ROWS):
        example = begin + tl.arange(0, ROWS)
        factor = tl.load(own + example, mask=example < last, other=0.0)
        wanted = inside[None, :] & (factor > 0)[:, None]
        where = values + example[:, None].to(tl.int64) * step + at[None, :]
        total += factor[:, None] * tl.load(where, mask=wanted, other=0.0).to(tl.float32)
    out = parts + tl.program_id(1).to(tl.int64) * stride + tl.load(place + 2) + tl.arange(0, COLUMNS)
    tl.store(out, tl.sum(total, 0), mask=inside)
