"""Follows a batch through one operation: from the layouts of the arguments to those of the results.

Operations fall into a few kinds: views, products, reductions, joins, look-ups, and those that work entry by entry. What
is none of these is tried out on tensors without content: the dimension whose length follows that of the batch is the
one that holds it. A result whose examples cannot be told apart is `NOWHERE`: refused once it meets a parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from hush.training.operations.layouts import ANYWHERE, NOWHERE, Layout, owners_of, regular, reshaped
from hush.training.operations.lookups import indexed
from hush.training.operations.names import (
    ALONG,
    CONSTANTS,
    LIKE_ANOTHER,
    PRODUCTS,
    REDUCTIONS,
    RESHAPES,
    SAME_DIM,
    SAME_SHAPE,
    VIEWS,
    WRITES,
    is_pointwise,
)

Batched = tuple[Tensor, Layout]
LayoutOf = Callable[[Any], Layout | None]


class Conflict(Exception):
    """Two arguments hold their examples in different dimensions of a result."""

    def __init__(self, layouts: Sequence[Layout]) -> None:
        super().__init__()
        self.layouts = layouts


class AllPairs(Conflict):
    """Rows for examples meet columns for examples: the result has an entry for each pair."""


class Follower:
    """Follows a batch of one size.

    Attributes:
        size: B.
        layout_of: Returns the layout of a tensor; None, if it does not depend on the batch.
        is_decided_by_data: Whether values in tensors have decided where any result holds the examples.
    """

    def __init__(self, size: int, layout_of: LayoutOf) -> None:
        """Take the size of the batch, and what is known of tensors."""
        self.size, self.layout_of = size, layout_of
        self.is_decided_by_data = False

    def results(self, func: Any, name: str, args: Any, kwargs: Any, batched: list[Tensor], out: Any) -> Any:
        """Return the layout of each result, in the structure of the results.

        Args:
            func: The operation.
            name: Its name.
            args: Its positional arguments.
            kwargs: Its keyword arguments.
            batched: The tensors among them that depend on the batch.
            out: What it has returned.
        """
        if name in LIKE_ANOTHER:
            batched = [x for x in batched if x is args[0]]
            if not batched:
                return tree_map_only(Tensor, lambda _: None, out)
        layouts = [layout for x in batched if (layout := self.layout_of(x)) is not None]
        inputs = frozenset().union(*(layout.inputs for layout in layouts))
        if all(layout.dim == ANYWHERE for layout in layouts):
            return tree_map_only(Tensor, lambda _: layouts[0], out)
        if name in CONSTANTS and len(batched) == 1:
            return tree_map_only(Tensor, lambda _: None, out)
        if name in WRITES and (target := self.layout_of(args[0])) is not None:
            return target  # indices say where within it, and values are those of the same examples
        if name in ("pack_padded_sequence", "pad_packed_sequence"):
            return self._packed(name, args, layouts[0])
        if any(layout.dim == NOWHERE for layout in layouts) and name not in ("getitem", "index_select", "embedding"):
            return self._nowhere(out, inputs, layouts, batched)
        result = self._by_kind(func, name, args, kwargs, batched, layouts, out)
        return self._nowhere(out, inputs, layouts, batched) if result is None else result

    @staticmethod
    def _packed(name: str, args: Any, layout: Layout) -> Any:
        """Return the layouts of packed sequences, which remember the order of the examples, and of padded ones."""
        dim = 0 if args[2] else 1
        if name == "pad_packed_sequence":
            return layout.at(dim), None
        return (layout.at(NOWHERE) if layout.dim == dim else Layout(NOWHERE, 0, None, layout.inputs)), None

    def _nowhere(self, out: Any, inputs: frozenset[int], layouts: list[Layout], batched: list[Tensor]) -> Any:
        return tree_map_only(Tensor, lambda _: Layout(NOWHERE, inputs=inputs), out)

    def _by_kind(
        self, func: Any, name: str, args: Any, kwargs: Any, batched: list[Tensor], layouts: list[Layout], out: Any
    ) -> Any:
        x, layout = batched[0], layouts[0]
        if name in RESHAPES and isinstance(out, Tensor) and len(layouts) == 1:
            return reshaped(layout, tuple(x.shape), tuple(out.shape), self.size)
        if name in VIEWS:
            return self._viewed(func, args, kwargs, x, layout)
        if name in ("getitem", "index_select"):
            return indexed(self, args, out)
        if name in ("repeat", "tile", "repeat_interleave"):
            return self._repeated(name, args, kwargs, x, layout, out)
        if name in ("cat", "concat", "concatenate", "stack"):
            return self._joined(name, args, kwargs, out)
        if name in PRODUCTS:
            return self._product_sum(name, args, kwargs, out)
        if name == "linear":
            return self._product([args[0]], out)
        if name == "einsum":
            return self._einsum(args, out)
        if name in ("embedding", "gather", "one_hot"):
            index = args[0] if name != "gather" else args[2] if len(args) > 2 else kwargs["index"]
            of_index = self.layout_of(index)
            return of_index if of_index is not None else self._same_dim(batched, layouts, out)
        if name in ALONG and layout.dim in _dims_of(name, args, kwargs, x.dim()):
            return self._along(name, x, layout, out)
        if name == "scaled_dot_product_attention":
            return self._one([(b, known) for b, known in zip(batched, layouts, strict=True)], out)
        if name in REDUCTIONS and not (len(args) > 1 and isinstance(args[1], Tensor)):
            return tree_map_only(Tensor, lambda part: self._reduced(name, args, kwargs, x, layout, part), out)
        if is_pointwise(name) or (name in SAME_SHAPE and isinstance(out, Tensor)):
            return self._one(list(zip(batched, layouts, strict=True)), out)
        if name in SAME_DIM or name in SAME_SHAPE:
            return self._same_dim(batched, layouts, out)
        return self._tried(func, args, kwargs, batched, layouts, out)

    def _one(self, batched: list[Batched], out: Any) -> Any:
        """Return the layout of arguments that are broadcast to the result's shape."""
        if not isinstance(out, Tensor):
            return None
        chosen: Layout | None = None
        for x, layout in batched:
            moved = layout.at(layout.dim - x.dim() + out.dim())
            if moved.dim < 0 or moved.dim >= out.dim() or out.shape[moved.dim] != x.shape[layout.dim]:
                return None
            if chosen is not None and not (chosen.dim == moved.dim and chosen.agrees(moved)):
                raise Conflict([chosen, moved])
            chosen = moved if chosen is None else self._with_inputs(chosen, moved)
        return chosen

    @staticmethod
    def _with_inputs(layout: Layout, other: Layout) -> Layout:
        if other.inputs <= layout.inputs:
            return layout
        return Layout(layout.dim, layout.inner, layout.owners, layout.inputs | other.inputs)

    def _viewed(self, func: Any, args: Any, kwargs: Any, x: Tensor, layout: Layout) -> Any:
        """Run the view on a tensor that holds the number of the entry along the batch's dimension."""
        length = x.shape[layout.dim]
        shape = [1] * x.dim()
        shape[layout.dim] = length
        places = torch.arange(length).view(shape).expand(x.shape)
        # Other dimensions have stride 0, so a stride says where the batch is now.
        viewed = func(*(places if arg is x else arg for arg in args), **kwargs)
        return tree_map_only(Tensor, lambda part: self._found(part, layout, length), viewed)

    def _found(self, places: Tensor, layout: Layout, length: int) -> Layout:
        for dim, stride in enumerate(places.stride()):
            if stride and places.shape[dim] > 1:
                if places.shape[dim] == length and stride == 1:
                    return layout.at(dim)
                values = places[tuple(slice(None) if d == dim else 0 for d in range(places.dim()))]
                owners = owners_of(
                    layout, length, self.size, values.device if layout.owners is None else layout.owners.device
                )
                return regular(dim, owners[values.to(owners.device)], self.size, layout.inputs)
        return Layout(NOWHERE, inputs=layout.inputs)

    def _repeated(self, name: str, args: Any, kwargs: Any, x: Tensor, layout: Layout, out: Tensor) -> Any:
        moved = layout.at(layout.dim - x.dim() + out.dim())
        if name == "repeat_interleave":
            times = args[1] if len(args) > 1 else kwargs.get("repeats")
            dim = args[2] if len(args) > 2 else kwargs.get("dim")
            if not isinstance(times, int) or dim is None:
                return None
            if dim % x.dim() == layout.dim:
                if layout.owners is not None:
                    return Layout(layout.dim, 1, layout.owners.repeat_interleave(times), layout.inputs)
                return Layout(layout.dim, layout.inner * times, None, layout.inputs)
            return layout
        if layout.owners is not None and out.shape[moved.dim] != x.shape[layout.dim]:
            times = out.shape[moved.dim] // x.shape[layout.dim]
            return Layout(moved.dim, 1, layout.owners.repeat(times), layout.inputs)
        return moved  # repeated as a whole: (outer, B, inner) becomes (times outer, B, inner)

    def _joined(self, name: str, args: Any, kwargs: Any, out: Tensor) -> Any:
        parts = args[0]
        dim = kwargs.get("dim", kwargs.get("axis", args[1] if len(args) > 1 else 0)) % out.dim()
        layouts = [self.layout_of(part) for part in parts]
        known = [layout for layout in layouts if layout is not None]
        moved = [layout.at(layout.dim + (layout.dim >= dim)) for layout in known] if name == "stack" else known
        if any(layout.dim != moved[0].dim for layout in moved):
            raise Conflict(moved)
        if name != "stack" and moved[0].dim == dim:
            if len(known) < len(parts):
                return None
            owners = [
                owners_of(
                    layout,
                    part.shape[dim],
                    self.size,
                    part.device if layout.owners is not None else torch.device("cpu"),
                )
                for part, layout in zip(parts, known, strict=True)
            ]
            inputs = frozenset().union(*(layout.inputs for layout in known))
            return regular(dim, torch.cat([part.to(owners[0].device) for part in owners]), self.size, inputs)
        if not all(layout.agrees(moved[0]) for layout in moved):
            raise Conflict(moved)
        first = moved[0]
        for layout in moved[1:]:
            first = self._with_inputs(first, layout)
        return first

    def _product(self, factors: Sequence[Any], out: Tensor) -> Any:
        """Return the layout of a matrix product, or of a linear layer, whose weight counts as nothing."""
        chosen: Layout | None = None
        for side, x in enumerate(factors):
            layout = self.layout_of(x)
            if layout is None:
                continue
            dim = self._product_dim(side, x, layout, factors, out)
            if dim is None:
                return None
            moved = layout.at(dim)
            if chosen is not None and not (chosen.dim == dim and chosen.agrees(moved)):
                raise (AllPairs if out.dim() == 2 else Conflict)([chosen, moved])
            chosen = moved if chosen is None else self._with_inputs(chosen, moved)
        return chosen

    def _product_sum(self, name: str, args: Any, kwargs: Any, out: Tensor) -> Any:
        """Return the layout of a matrix product, to which something may be added."""
        values = [*args, *(value for key, value in kwargs.items() if key not in ("beta", "alpha", "out"))]
        if name not in ("addmm", "baddbmm"):
            return self._product(values[:2], out)
        product = self._product(values[1:], out)
        known = self.layout_of(values[0])
        if known is None:
            return product
        if product is None and any(self.layout_of(factor) is not None for factor in values[1:]):
            return None
        parts = [(values[0], known)] if product is None else [(out, product), (values[0], known)]
        return self._one(parts, out)

    @staticmethod
    def _product_dim(side: int, x: Tensor, layout: Layout, factors: Sequence[Any], out: Tensor) -> int | None:
        from_end = x.dim() - layout.dim  # 1 is the last dimension
        if len(factors) == 1:
            return None if from_end == 1 else layout.dim
        other = factors[1 - side]
        if x.dim() == 1 or from_end == (1 if side == 0 else 2):
            return None  # a sum over the batch
        if from_end <= 2:  # the rows of the left factor, or the columns of the right one
            if side == 0:
                return out.dim() - (1 if other.dim() == 1 else 2)
            return out.dim() - 1
        dim = out.dim() - from_end + (1 if other.dim() == 1 else 0)
        return dim if dim >= 0 else None

    def _einsum(self, args: Any, out: Tensor) -> Any:
        if not isinstance(args[0], str):
            return None
        operands = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
        terms, arrow, result = args[0].replace(" ", "").partition("->")
        if not arrow or "." in terms:
            return None
        chosen: Layout | None = None
        for term, x in zip(terms.split(","), operands, strict=True):
            layout = self.layout_of(x)
            if layout is None:
                continue
            letter = term[layout.dim]
            if letter not in result:
                return None
            moved = layout.at(result.index(letter))
            if chosen is not None and not (chosen.dim == moved.dim and chosen.agrees(moved)):
                raise Conflict([chosen, moved])
            chosen = moved if chosen is None else self._with_inputs(chosen, moved)
        return chosen

    def _reduced(self, name: str, args: Any, kwargs: Any, x: Tensor, layout: Layout, out: Tensor) -> Layout:
        position = 2 if name in ("norm", "vector_norm") else 1
        dims = kwargs.get("dim", kwargs.get("axis", args[position] if len(args) > position else None))
        if isinstance(dims, bool):
            dims = None
        if dims is None or dims == () or dims == []:
            return Layout(NOWHERE, inputs=layout.inputs)
        reduced = {dim % x.dim() for dim in ([dims] if isinstance(dims, int) else dims)}
        if layout.dim in reduced:
            return Layout(NOWHERE, inputs=layout.inputs)
        return layout if out.dim() == x.dim() else layout.at(layout.dim - sum(dim < layout.dim for dim in reduced))

    def _along(self, name: str, x: Tensor, layout: Layout, out: Any) -> Any:
        """Return the layouts of results that are sorted, or added up, along the dimension of the batch."""
        if name == "sort" and x.dim() == 1:
            order = out[1]
            self.is_decided_by_data = True
            owners = owners_of(layout, len(order), self.size, order.device)[order]
            return tree_map_only(Tensor, lambda _: Layout(0, 1, owners, layout.inputs), out)
        if name == "flip" or (name == "argsort" and x.dim() == 1):
            length = x.shape[layout.dim]
            order = torch.arange(length - 1, -1, -1) if name == "flip" else out
            owners = owners_of(layout, length, self.size, order.device)
            self.is_decided_by_data = self.is_decided_by_data or name == "argsort"
            return regular(layout.dim, owners[order.to(owners.device)], self.size, layout.inputs)
        return None

    def _same_dim(self, batched: list[Tensor], layouts: list[Layout], out: Any) -> Any:
        def of_part(part: Tensor) -> Layout:
            for x, layout in zip(batched, layouts, strict=True):
                if part.dim() > layout.dim and part.shape[layout.dim] == x.shape[layout.dim]:
                    return layout
            return Layout(NOWHERE, inputs=layouts[0].inputs)

        return tree_map_only(Tensor, of_part, out)

    def _tried(self, func: Any, args: Any, kwargs: Any, batched: list[Tensor], layouts: list[Layout], out: Any) -> Any:
        """Run an unknown operation on tensors without content, and on those of a larger batch."""
        if any(layout.owners is not None or not layout.agrees(layouts[0]) for layout in layouts):
            return None
        shapes = []
        for more in (0, 1):

            def empty(x: Tensor, more: int = more) -> Tensor:
                shape = list(x.shape)
                for b, layout in zip(batched, layouts, strict=True):
                    if b is x:
                        shape[layout.dim] += more * shape[layout.dim] // self.size
                return torch.empty(shape, dtype=x.dtype, device="meta")

            try:
                tried = func(*tree_map_only(Tensor, empty, args), **tree_map_only(Tensor, empty, kwargs))
            except Exception:  # an operation may raise anything here; then shapes must do
                return tree_map_only(Tensor, lambda part: self._guessed(part, layouts[0], batched[0]), out)
            shapes.append(tree_map_only(Tensor, lambda part: _Shape(part.shape), tried))
        return torch.utils._pytree.tree_map(lambda a, b: self._changed(a, b, layouts[0], batched[0]), *shapes)

    @staticmethod
    def _guessed(part: Tensor, layout: Layout, x: Tensor) -> Layout:
        """Return the first dimension, if it is the only one that is as long as the batch's."""
        length = x.shape[layout.dim]
        dims = [dim for dim, other in enumerate(part.shape) if other == length]
        return layout if layout.dim == 0 and dims == [0] else Layout(NOWHERE, inputs=layout.inputs)

    @staticmethod
    def _changed(before: Any, after: Any, layout: Layout, x: Tensor) -> Any:
        if not isinstance(before, _Shape):
            return None
        dims = [dim for dim, (a, b) in enumerate(zip(before.sizes, after.sizes, strict=True)) if a != b]
        if len(dims) != 1 or before.sizes[dims[0]] != x.shape[layout.dim]:
            return Layout(NOWHERE, inputs=layout.inputs)
        return layout.at(dims[0])


def _dims_of(name: str, args: Any, kwargs: Any, dims: int) -> set[int]:
    """Return the dimensions along which an operation sorts, adds up or turns around."""
    position = 2 if name in ("topk", "roll") else 1
    chosen = kwargs.get("dim", kwargs.get("dims", args[position] if len(args) > position else -1))
    if isinstance(chosen, bool) or chosen is None:
        chosen = -1
    return {dim % dims for dim in ([chosen] if isinstance(chosen, int) else chosen)}


class _Shape:
    """A shape, as a leaf of a structure."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
