"""Clipping on a GPU, told to the device once: a CUDA graph, replayed when the same tensors lie in the same places.

What follows the backward pass is some hundred small kernels, and starting them takes the host longer than the device
needs to run them. An allocator that sees the same requests in every step mostly gives the same addresses; so those of a
step are compared with what was recorded, and where all agree, one call starts everything. Where they do not, the
kernels are started one by one, as ever: what is computed never depends on it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

_MOST = 4  # graphs to keep: addresses may take turns; each keeps its sums
_OFTEN = 2  # times that addresses must have been seen before they are recorded
_TABLES = 1 << 17  # numbers: a megabyte
_FORGET = 256  # addresses to remember that were not seen again

Result = tuple[list[Tensor], Tensor]


@dataclass(slots=True)
class Recording:
    """What a graph reads besides its inputs: kept as long as the graph is.

    Attributes:
        tables: Memory for numbers that are known only now. It is not the graph's own: what the graph lays there before
            would lie there again in every replay.
        kept: Constants that it reads.
        pending: What is to be written into the tables afterwards.
    """

    tables: Tensor
    kept: list[Tensor] = field(default_factory=list)
    pending: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def table(self, values: Tensor) -> Tensor:
        """Return a place for these numbers."""
        taken = sum(numbers.numel() for _, numbers in self.pending)
        if taken + values.numel() > len(self.tables):
            raise RuntimeError("more tables than there is memory for")
        place = self.tables[taken : taken + values.numel()].view(values.shape)
        self.pending.append((place, values))
        return place


_recording: Recording | None = None


def kept(made: Tensor) -> Tensor:
    """Return a constant on the device; one that a recorded graph reads stays there, whatever becomes of its cache."""
    if _recording is not None:
        _recording.kept.append(made)
    return made


def is_recording() -> bool:
    """Say whether kernels are recorded now, and not run."""
    return _recording is not None


def filled_later(values: Tensor) -> Tensor:
    """Return memory for numbers that a graph reads: a copy within it would be repeated by every replay."""
    assert _recording is not None
    return _recording.table(values)


@dataclass(frozen=True, slots=True)
class _Graph:
    graph: torch.cuda.CUDAGraph
    chosen: Tensor
    sums: list[Tensor]
    norms: Tensor
    kept: list[object]


class GraphReplay:
    """Runs a computation, or replays it."""

    def __init__(self) -> None:
        """Begin with nothing recorded."""
        self._graphs: dict[Hashable, _Graph] = {}
        self._seen: dict[Hashable, int] = {}
        self._pool: Any = None
        self._possible = True

    def __call__(
        self,
        terms: Hashable,
        values: list[Tensor],
        chosen: Tensor,
        run: Callable[[Tensor], Result],
        kept: list[object],
    ) -> Result:
        """Return what ``run(chosen)`` does; sums are overwritten by the next call.

        Args:
            terms: All that decides what is computed, except for tensors.
            values: All tensors that ``run`` reads.
            chosen: One more, which may lie anywhere.
            run: What to do, without waiting for the device.
            kept: What ``terms`` names by its place in memory: another thing must not take its place.
        """
        if not self._possible:
            return run(chosen)
        key = terms, chosen.shape, chosen.dtype, tuple(_place(each) for each in values)
        graph = self._graphs.get(key)
        if graph is None:
            graph = self._record(chosen, run, kept) if self._is_frequent(key) else None
            if graph is None:
                return run(chosen)
            self._graphs[key] = graph
        graph.chosen.copy_(chosen)
        graph.graph.replay()
        return graph.sums, graph.norms.clone()

    def _is_frequent(self, key: Hashable) -> bool:
        """Say whether to record this: it was there before, and there is a place for it."""
        if len(self._graphs) >= _MOST:
            return False
        if len(self._seen) >= _FORGET:
            self._seen.clear()
        self._seen[key] = self._seen.get(key, 0) + 1
        return self._seen[key] > _OFTEN

    def _record(self, chosen: Tensor, run: Callable[[Tensor], Result], kept: list[object]) -> _Graph | None:
        global _recording
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        static, graph = chosen.clone(), torch.cuda.CUDAGraph()
        made = Recording(torch.zeros(_TABLES, dtype=torch.int64, device=chosen.device))
        stream = torch.cuda.Stream(chosen.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(chosen.device))
        collecting = gc.isenabled()
        gc.disable()  # what is freed meanwhile may tell the device so, which ends a recording
        _recording = made
        try:
            with torch.cuda.stream(stream):
                graph.capture_begin(pool=self._pool, capture_error_mode="relaxed")
                try:
                    sums, norms = run(static)
                finally:
                    graph.capture_end()
        except RuntimeError:  # something in it has to wait for the device
            self._possible = False
            return None
        finally:
            _recording = None
            if collecting:
                gc.enable()
        for place, numbers in made.pending:
            place.copy_(numbers)
        torch.cuda.current_stream(chosen.device).wait_stream(stream)
        return _Graph(graph, static, sums, norms, [made, *kept])


def _place(each: Tensor) -> Hashable:
    return each.data_ptr(), each.shape, each.stride(), each.dtype
