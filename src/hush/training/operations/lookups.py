"""Layouts of results of indexing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hush.training.operations.layouts import ANYWHERE, NOWHERE, Layout, owners_of, regular

if TYPE_CHECKING:
    from hush.training.operations.following import Follower


def indexed(follower: Follower, args: Any, out: Tensor) -> Layout | None:
    """Return the layout of ``x[index]``, for slices, numbers, masks and tensors of indices, or of ``index_select``."""
    x, index = args[0], args[1]
    if isinstance(index, int) and len(args) > 2:  # index_select(x, dim, index)
        index = (slice(None),) * (index % x.dim()) + (args[2],)
    parts = list(index) if isinstance(index, tuple) else [index]
    parts = [torch.tensor(part) if isinstance(part, list) else part for part in parts]
    layout = follower.layout_of(x)
    if layout is None:
        return _looked_up(follower, parts, x)
    return _taken(follower, parts, x, layout, out)


def _filled(parts: list[Any], dims: int) -> list[Any]:
    """Return the parts of an index with as many slices as the ellipsis stands for."""
    used = sum(_width(part) for part in parts)
    rest: list[Any] = [slice(None)] * (dims - used)
    places = [number for number, part in enumerate(parts) if part is Ellipsis]
    if not places:
        return parts + rest
    return parts[: places[0]] + rest + parts[places[0] + 1 :]


def _width(part: Any) -> int:
    """Return how many dimensions a part of an index takes up."""
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    return part.dim() if isinstance(part, Tensor) and part.dtype is torch.bool else 1


def _is_array(part: Any) -> bool:
    return isinstance(part, Tensor)


def _looked_up(follower: Follower, parts: list[Any], x: Tensor) -> Layout | None:
    """A table of all examples, at places that depend on the example."""
    parts = _filled(parts, x.dim())
    arrays = [part for part in parts if _is_array(part)]
    known = [(part, layout) for part in arrays if (layout := follower.layout_of(part)) is not None]
    if not known or any(part.dtype is torch.bool for part in arrays):
        return None
    part, layout = known[0]
    if layout.dim == NOWHERE:
        return None
    width = max(array.dim() for array in arrays)
    return layout.at(_place(parts) + layout.dim + width - part.dim())


def _place(parts: list[Any]) -> int:
    """Return the dimension of the result at which the dimensions of index tensors begin."""
    numbers = [number for number, part in enumerate(parts) if _is_array(part)]
    between = parts[numbers[0] : numbers[-1]]
    # As in NumPy, if slices come between index tensors, their dimensions come first. Numbers are taken before.
    if any(part is None or isinstance(part, slice) for part in between):
        return 0
    return _kept(parts[: numbers[0]])


def _kept(parts: list[Any]) -> int:
    """Return how many dimensions these parts of an index leave."""
    return sum(1 for part in parts if part is None or isinstance(part, slice))


def _taken(follower: Follower, parts: list[Any], x: Tensor, layout: Layout, out: Tensor) -> Layout | None:
    """Some entries of a batch."""
    if layout.dim in (NOWHERE, ANYWHERE):
        return layout
    parts = _filled(parts, x.dim())
    arrays = [part for part in parts if _is_array(part)]
    # The part of the index that belongs to the dimension of the batch.
    dim, number = 0, 0
    while True:
        width = _width(parts[number])
        if width and dim + width > layout.dim:
            break
        dim, number = dim + width, number + 1
    part = parts[number]
    length = x.shape[layout.dim]
    if isinstance(part, slice):
        before = _dims_before(parts, number)
        if part == slice(None):
            return layout.at(before)
        owners = owners_of(layout, length, follower.size, _device(layout))[part]
        return regular(before, owners, follower.size, layout.inputs) if len(owners) > 1 else None
    if not isinstance(part, Tensor):
        return None  # a single entry
    if follower.layout_of(part) is not None or not _counts_up(part, length):
        follower.is_decided_by_data = True
    if part.dtype is torch.bool:
        if part.dim() > 1 or len(arrays) > 1:
            return _masked(follower, parts, number, x, layout) if len(arrays) == 1 else None
        part = part.nonzero()[:, 0]
    if part.dim() != 1:
        return _by_arrays(part, arrays, parts, layout, length, follower)
    if any(array.dtype is torch.bool or array.dim() > 1 for array in arrays if array is not part) and len(arrays) > 1:
        return None
    owners = owners_of(layout, length, follower.size, _device(layout) if layout.owners is not None else part.device)
    return regular(_place(parts), owners[part], follower.size, layout.inputs)


def _counts_up(part: Tensor, length: int) -> bool:
    """Return whether an index is 0, 1, 2, ...: the only one that is taken to be the same in every pass."""
    if part.dtype is torch.bool or part.numel() != length:
        return False
    return torch.equal(part.flatten(), torch.arange(length, dtype=part.dtype, device=part.device))


def _masked(follower: Follower, parts: list[Any], number: int, x: Tensor, layout: Layout) -> Layout | None:
    """Entries of several dimensions where a mask is true: their owners are those of the places."""
    mask = parts[number]
    first = sum(_width(part) for part in parts[:number])
    if number or first:
        return None
    places = mask.nonzero()[:, layout.dim]
    owners = owners_of(layout, x.shape[layout.dim], follower.size, places.device)
    return regular(0, owners[places], follower.size, layout.inputs)


def _by_arrays(
    part: Tensor, arrays: list[Tensor], parts: list[Any], layout: Layout, length: int, follower: Follower
) -> Layout | None:
    """An index tensor with several dimensions of which one differs, such as arange(B)[:, None]."""
    owners = owners_of(layout, length, follower.size, part.device)[part]
    width = max(array.dim() for array in arrays)
    for dim in range(part.dim()):
        line = owners.movedim(dim, 0).reshape(owners.shape[dim], -1)
        if bool((line == line[:, :1]).all()) and part.shape[dim] > 1:
            return regular(_place(parts) + dim + width - part.dim(), line[:, 0], follower.size, layout.inputs)
    return None


def _dims_before(parts: list[Any], number: int) -> int:
    """Return the dimension of the result that a slice becomes."""
    arrays = [place for place, part in enumerate(parts) if _is_array(part)]
    before = _kept(parts[:number])
    if not arrays:
        return before
    width = max(1 if part.dtype is torch.bool else part.dim() for part in parts if _is_array(part))
    if any(part is None or isinstance(part, slice) for part in parts[arrays[0] : arrays[-1]]):
        return before + width
    return before + (width if arrays[0] < number else 0)


def _device(layout: Layout) -> torch.device:
    return torch.device("cpu") if layout.owners is None else layout.owners.device
