"""Elements of integer noise on edges, on a GPU: tested, and replaced where their points are above the curve.

The same integers as `hush.training.noise.integer_gaussian` draws on a CPU, from the same words. The host waits for the
device twice: for the number of edges, and for whether everything was settled here. Nearly always it is; otherwise
`drawn` returns None, and `integer_gaussian` draws the vector again and decides exactly.

quick    one integer per element, and a list of edges                                        (`noise_cuda`)
test     edges: their cells, places and heights, tested against the curve in double precision
fill     elements above the curve take the accepted candidates beyond the vector's end, in order
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from hush.training.kernels.noise_cuda import Edges, quick, words

_UNSURE = tl.constexpr(2.0**-36)  # as in `integer_gaussian`
_UNIT = tl.constexpr(2.0**-53)


@dataclass(frozen=True, slots=True)
class BoxTables:
    """A histogram's tables, on the device.

    Attributes:
        middles: The middle of each box's cell; 0 for edges.
        shift: A cell has 2^shift integers.
        num_full: The number of boxes that are not edges.
        cumulative: The cumulative parts of the cells' edges.
        bases: For each cell, how many full boxes it has; NaN for the tail.
        rooms: For each cell, the height of its edge.
        curve: The curve's highest point, in boxes, and its standard deviation, in cells.
    """

    middles: Tensor
    shift: int
    num_full: int
    cumulative: Tensor
    bases: Tensor
    rooms: Tensor
    curve: Tensor


def drawn(key: bytes, numbers: tuple[int, int], size: int, num_candidates: int, tables: BoxTables) -> Tensor | None:
    """Return the first ``size`` of the candidates, with those above the curve replaced; None if that is not certain.

    Args:
        key: The key.
        numbers: The numbers of the streams that boxes and edges are read from.
        size: How many integers.
        num_candidates: How many candidates to draw.
        tables: The histogram.
    """
    candidates, edges = quick(key, numbers[0], num_candidates, tables.middles, tables.shift, tables.num_full)
    ends = edges.counts.cumsum(0, dtype=torch.int64)
    num_edges, most = torch.stack([ends[-1], edges.counts.max()]).tolist() if len(ends) else (0, 0)
    if most > edges.places.shape[1]:
        return None
    if not num_edges:
        return candidates[:size]
    elements, rejected, unsure = _test(
        candidates, edges, ends, words(key, numbers[1], 3 * num_edges, ends.device), tables
    )
    num_missing = _fill(candidates, elements, rejected, size)
    if torch.stack([unsure.sum(), num_missing]).max().item() > 0:
        return None
    return candidates[:size]


def _test(
    candidates: Tensor, edges: Edges, ends: Tensor, drawn_words: Tensor, tables: BoxTables
) -> tuple[Tensor, Tensor, Tensor]:
    """Write the integers of elements on edges; return the elements, which are above the curve, and unsure counts."""
    num_edges = len(drawn_words) // 3
    elements = torch.empty(num_edges, dtype=torch.int64, device=ends.device)
    rejected = torch.empty(num_edges, dtype=torch.bool, device=ends.device)
    unsure = torch.empty(len(ends), dtype=torch.int64, device=ends.device)
    with torch.cuda.device(ends.device):
        _test_edges[(len(ends),)](
            candidates,
            edges.places,
            edges.counts,
            ends,
            drawn_words,
            num_edges,
            tables.cumulative,
            tables.bases,
            tables.rooms,
            tables.curve,
            tables.shift,
            elements,
            rejected,
            unsure,
            TILE=edges.tile,
            ROOM=edges.places.shape[1],
            LENGTH=len(tables.cumulative),
            BITS=len(tables.cumulative).bit_length(),
        )
    return elements, rejected, unsure


def _fill(candidates: Tensor, elements: Tensor, rejected: Tensor, size: int) -> Tensor:
    """Replace rejected elements by spare candidates, in order; return how many spare ones are missing, at least.

    Lengths do not depend on what was drawn, so nothing waits for the device: what is not needed goes to a dummy place.
    """
    num_spare = len(candidates) - size
    is_beyond = elements >= size
    is_spare = torch.ones(num_spare + 1, dtype=torch.bool, device=elements.device)
    is_spare[torch.where(rejected & is_beyond, elements - size, num_spare)] = False
    is_spare = is_spare[:num_spare]
    places = torch.where(is_spare, is_spare.cumsum(0) - 1, num_spare)
    spare = torch.empty(num_spare + 1, dtype=torch.int64, device=elements.device)
    spare[places] = candidates[size:]
    is_vacant = rejected & ~is_beyond
    rank = is_vacant.cumsum(0)
    # Spare candidates have been copied, so the last of them may be overwritten.
    targets = torch.where(is_vacant, elements, len(candidates) - 1)
    candidates[targets] = spare[(rank - 1).clamp(0, num_spare)]
    return rank[-1] - is_spare.sum()


@triton.jit(do_not_specialize=["num_edges", "shift"])
def _test_edges(
    candidates,
    places,
    counts,
    ends,
    drawn_words,
    num_edges,
    cumulative,
    bases,
    rooms,
    curve,
    shift,
    elements,
    rejected,
    unsure,
    TILE: tl.constexpr,
    ROOM: tl.constexpr,
    LENGTH: tl.constexpr,
    BITS: tl.constexpr,
):
    tile = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, ROOM)
    count = tl.load(counts + tile)
    inside = lane < count
    element = tile * TILE + tl.load(places + tile * ROOM + lane, mask=inside, other=0).to(tl.int64)
    at = tl.load(ends + tile) - count + lane
    first = tl.load(drawn_words + at, mask=inside, other=0)
    second = tl.load(drawn_words + num_edges + at, mask=inside, other=0).to(tl.uint64, bitcast=True)
    third = tl.load(drawn_words + 2 * num_edges.to(tl.int64) + at, mask=inside, other=0).to(tl.uint64, bitcast=True)
    # The number of cumulative parts up to the first word's upper 63 bits, by bisection.
    part = (first.to(tl.uint64, bitcast=True) >> 1).to(tl.int64, bitcast=True)
    cell = tl.zeros((ROOM,), tl.int32)
    for power in tl.static_range(0, BITS):
        probe = cell + (1 << (BITS - 1 - power))
        is_part = probe <= LENGTH
        bound = tl.load(cumulative + probe - 1, mask=inside & is_part, other=0)
        cell = tl.where(is_part & (bound <= part), probe, cell)
    place = (second >> 11).to(tl.int64).to(tl.float64) * _UNIT
    level = (third >> 11).to(tl.int64).to(tl.float64) * _UNIT
    x = (cell.to(tl.float64) + place) / tl.load(curve + 1)
    height = tl.load(curve) * tl.exp(x * x * -0.5)
    base = tl.load(bases + cell, mask=inside, other=0.0)
    room = tl.load(rooms + cell, mask=inside, other=0.0)
    excess = base + room * level - height
    is_certain = tl.abs(excess) > _UNSURE * (height + room)  # not for NaN, which is the tail's
    value = (cell.to(tl.int64) << shift) + (second >> (64 - shift)).to(tl.int64, bitcast=True)
    tl.store(candidates + element, value ^ -(first & 1), mask=inside)
    tl.store(elements + at, element, mask=inside)
    tl.store(rejected + at, ~(excess < 0), mask=inside)
    tl.store(unsure + tile, tl.sum((inside & ~is_certain).to(tl.int64), 0))
