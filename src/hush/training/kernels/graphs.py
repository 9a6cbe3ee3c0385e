"""CUDA graphs for clipping: kernels are recorded once, and replayed when the same tensors lie at the same addresses.

After the backward pass, a step runs about a hundred small kernels. Starting them takes the host longer than the device
needs to run them. A CUDA graph starts all of them with one call, but it reads fixed addresses. An allocator that sees
the same requests in every step mostly returns the same addresses. So a step goes through three stages:

seen      its addresses and settings are looked up; they must have come up a few times before they are worth a graph
recorded  the kernels are captured, with the addresses as they are
replayed  the graph runs

Where no graph fits, the kernels are started one by one. The result is the same either way.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

_MAX_GRAPHS = 4  # the allocator may alternate between a few sets of addresses; each graph owns memory for its sums
_SIGHTINGS = 2  # how often addresses must have come up before they are recorded
_TABLE_CAPACITY = 1 << 17  # int64 numbers: one megabyte
_MAX_REMEMBERED = 256  # sets of addresses that were seen but not recorded

Result = tuple[list[Tensor], Tensor]


@dataclass(slots=True)
class Recording:
    """Memory that a graph reads in addition to its inputs. It lives as long as the graph.

    Attributes:
        tables: Memory for tables of addresses, which are known only while recording. It is allocated outside the
            graph: a copy within the graph would be repeated in every replay.
        constants: Constant tensors that the graph reads.
        pending: Parts of ``tables``, each with the numbers to write into it once the recording is over.
    """

    tables: Tensor
    constants: list[Tensor] = field(default_factory=list)
    pending: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def reserve(self, values: Tensor) -> Tensor:
        """Return a part of ``tables`` that will hold these numbers."""
        used = sum(numbers.numel() for _, numbers in self.pending)
        if used + values.numel() > len(self.tables):
            raise RuntimeError("more tables than there is memory for")
        part = self.tables[used : used + values.numel()].view(values.shape)
        self.pending.append((part, values))
        return part


_recording: Recording | None = None


def retain(tensor: Tensor) -> Tensor:
    """Return a constant tensor; a graph that is being recorded keeps it alive, whatever becomes of its cache."""
    if _recording is not None:
        _recording.constants.append(tensor)
    return tensor


def is_recording() -> bool:
    """Return whether kernels are being recorded rather than run."""
    return _recording is not None


def reserve_table(values: Tensor) -> Tensor:
    """Return memory that will hold these numbers by the time the graph runs; call it while recording."""
    assert _recording is not None
    return _recording.reserve(values)


@dataclass(frozen=True, slots=True)
class _Graph:
    """A recorded graph, where it reads ``chosen`` and writes its results, and whatever it must keep alive."""

    graph: torch.cuda.CUDAGraph
    chosen: Tensor
    sums: list[Tensor]
    norms: Tensor
    retained: list[object]


class GraphReplay:
    """Runs a computation, or replays it from a graph.

    Without a GPU, or where the computation has to wait for the device, it simply runs.
    """

    def __init__(self) -> None:
        """Start with nothing recorded."""
        self._graphs: dict[Hashable, _Graph] = {}
        self._sightings: dict[Hashable, int] = {}
        self._pool: Any = None
        self._can_record = True

    def __call__(
        self,
        terms: Hashable,
        values: list[Tensor],
        chosen: Tensor,
        run: Callable[[Tensor], Result],
        retained: list[object],
    ) -> Result:
        """Return ``run(chosen)``. The next call may overwrite the sums.

        Args:
            terms: Everything other than tensors that decides what is computed.
            values: All tensors that ``run`` reads, except ``chosen``.
            chosen: One more tensor, which may lie anywhere: it is copied to where the graph reads it.
            run: The computation. It must not wait for the device.
            retained: Objects that ``terms`` identifies by their ``id``. They are kept alive, so that no other object
                gets the same id.
        """
        if not self._can_record:
            return run(chosen)
        key = terms, chosen.shape, chosen.dtype, tuple(_memory_layout(value) for value in values)
        graph = self._graphs.get(key)
        if graph is None:
            graph = self._record(chosen, run, retained) if self._is_frequent(key) else None
            if graph is None:
                return run(chosen)
            self._graphs[key] = graph
        graph.chosen.copy_(chosen)
        graph.graph.replay()
        return graph.sums, graph.norms.clone()

    def _is_frequent(self, key: Hashable) -> bool:
        """Return whether to record this: it came up before, and another graph is affordable."""
        if len(self._graphs) >= _MAX_GRAPHS:
            return False
        if len(self._sightings) >= _MAX_REMEMBERED:
            self._sightings.clear()
        self._sightings[key] = self._sightings.get(key, 0) + 1
        return self._sightings[key] > _SIGHTINGS

    def _record(self, chosen: Tensor, run: Callable[[Tensor], Result], retained: list[object]) -> _Graph | None:
        """Return the graph of ``run``, or None if it cannot be recorded; then nothing is recorded from now on."""
        global _recording
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        static_chosen, graph = chosen.clone(), torch.cuda.CUDAGraph()
        recording = Recording(torch.zeros(_TABLE_CAPACITY, dtype=torch.int64, device=chosen.device))
        stream = torch.cuda.Stream(chosen.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(chosen.device))
        was_collecting = gc.isenabled()
        gc.disable()  # freeing a tensor may call the device, which would end the recording
        _recording = recording
        try:
            with torch.cuda.stream(stream):
                graph.capture_begin(pool=self._pool, capture_error_mode="relaxed")
                try:
                    sums, norms = run(static_chosen)
                finally:
                    graph.capture_end()
        except RuntimeError:  # something in it has to wait for the device
            self._can_record = False
            return None
        finally:
            _recording = None
            if was_collecting:
                gc.enable()
        for part, numbers in recording.pending:
            part.copy_(numbers)
        torch.cuda.current_stream(chosen.device).wait_stream(stream)
        return _Graph(graph, static_chosen, sums, norms, [recording, *retained])


def _memory_layout(tensor: Tensor) -> Hashable:
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
