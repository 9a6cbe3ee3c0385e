"""From samples to physical batches, and the loader that serves them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import TensorDataset, default_collate

from hush.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Micro:
    """A physical batch: which examples, which of them are real, which contributions count; and where it stands.

    Each contribution has the same number of rows, one after the other.
    """

    indices: NDArray[np.int64]
    real: NDArray[np.bool_]
    weights: NDArray[np.bool_]
    step: int
    position: int
    ends: bool


def micro_batches(
    indices: NDArray[np.int64],
    size: int,
    step: int = 0,
    limit: int | None = None,
    real: NDArray[np.bool_] | None = None,
) -> list[Micro]:
    """Cut contributions, each a row of ``indices`` (or one index), into batches of ``size`` examples at most.

    The last batch is filled up with contributions of weight 0, as a contribution is with examples that are not
    ``real``. An empty sample is one batch of padding: its step takes place, and takes its noise. With a limit, what
    exceeds it is dropped, and there are always as many batches as the limit fills.
    """
    rows = indices if indices.ndim > 1 else indices.reshape(-1, 1)
    filled = np.ones(rows.shape, dtype=np.bool_) if real is None else real
    width = rows.shape[1]
    some = max(size // width, 1)
    count = max(-(-(len(rows) if limit is None else limit) // some), 1)
    rows, filled = rows[:limit], filled[:limit]
    padded = np.zeros((count * some, width), dtype=np.int64)
    known = np.zeros((count * some, width), dtype=np.bool_)
    padded[: len(rows)], known[: len(rows)] = rows, filled
    return [
        Micro(padded[part].reshape(-1), known[part].reshape(-1), known[part].max(1), step, i, i == count - 1)
        for i, part in enumerate(slice(start, start + some) for start in range(0, count * some, some))
    ]


def moved(values: NDArray[Any], device: torch.device) -> Tensor:
    """Bring something small to a device, without waiting for what that is doing."""
    there = torch.from_numpy(values)
    return there.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else there.to(device)


def fetcher(dataset: Any) -> tuple[int, Callable[[NDArray[np.int64]], Any]]:
    """Return the number of examples and a function that collates some of them."""
    if isinstance(dataset, TensorDataset):
        dataset = dataset.tensors
    if isinstance(dataset, tuple) and dataset and all(isinstance(part, (Tensor, np.ndarray)) for part in dataset):
        tensors = tuple(torch.as_tensor(part) for part in dataset)
        if len({len(part) for part in tensors}) != 1:
            raise InvalidArgument("dataset", [len(part) for part in tensors], "tensors of one length")

        def rows(indices: NDArray[np.int64]) -> tuple[Tensor, ...]:
            there = {device: moved(indices, device) for device in {part.device for part in tensors}}
            return tuple(part[there[part.device]] for part in tensors)

        return len(tensors[0]), rows
    if isinstance(dataset, Mapping):
        columns = {name: column for name, column in dataset.items() if _is_numbers(column)}
        if not columns:
            raise InvalidArgument("dataset", sorted(map(str, dataset)), "at least one column of numbers")
        count, values = fetcher(tuple(columns.values()))
        return count, lambda indices: dict(zip(columns, values(indices), strict=True))
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise InvalidArgument("dataset", type(dataset).__name__, "tensors, or a Dataset with a length")
    return len(dataset), lambda indices: default_collate([dataset[int(i)] for i in indices])


def _is_numbers(column: Any) -> bool:
    return isinstance(column, Tensor) or (isinstance(column, np.ndarray) and column.dtype.kind in "biuf")


def _blank(fetched: Any, batch: Micro) -> Any:
    """Put zeros where a batch is filled up: nobody's data, whatever a caller does with the batch's order."""
    if batch.real.all():
        return fetched
    first = int(np.argmin(batch.real))
    tail = not batch.real[first:].any()
    places: Any = slice(first, None) if tail else torch.from_numpy(np.flatnonzero(~batch.real))
    for value in torch.utils._pytree.tree_leaves(fetched):
        if isinstance(value, Tensor) and value.dim() and len(value) == len(batch.real):
            value[places] = 0  # in place: whatever was fetched was made for this batch
    return fetched


class Loader:
    """The physical batches of all steps that are left, each of one size.

    ``len`` is exact: how many batches are left to serve, before the budget or the plan ends.
    """

    def __init__(
        self,
        fetch: Callable[[NDArray[np.int64]], Any],
        batches: Callable[[int], Sequence[Micro]],
        next_step: Callable[[], int],
        num_steps: int,
        serve: Callable[[Micro], None],
        change: Callable[[Any], Any],
        count: Callable[[int], int],
        generation: Callable[[], int],
    ) -> None:
        """Take what it needs to know of the training run."""
        self._fetch, self._batches, self._change, self._count = fetch, batches, change, count
        self._next_step, self._num_steps, self._serve = next_step, num_steps, serve
        self._generation = generation

    def __len__(self) -> int:
        """Count the batches of the steps that are left; where their number varies, by drawing samples."""
        return sum(self._count(step) for step in range(self._next_step(), self._num_steps))

    def __iter__(self) -> Iterator[Any]:
        """Serve them; each must be answered by a step."""
        generation = self._generation()
        while (step := self._next_step()) < self._num_steps:
            for batch in self._batches(step):
                fetched = self._change(_blank(self._fetch(batch.indices), batch))
                if self._generation() != generation:
                    raise InvalidArgument("loader", "an old loop", "a new loop after load_state_dict")
                self._serve(batch)
                yield fetched
            if self._next_step() != step + 1:
                raise InvalidArgument("step", "not called", "one private.step(losses) for every batch of the loader")
