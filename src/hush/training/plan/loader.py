"""The loader: from the units sampled for a step to the batches that your loop iterates over.

    sampled units > rows of contributions > physical batches > fetched tensors > your loop

A step's *logical* batch is everything that is sampled for it; it is cut into *physical* batches of one size that fit
into memory. `physical_batches` does the cutting and padding, `fetcher` reads examples from a dataset, and `Loader`
serves the result and makes sure that every batch is answered by one call of ``private.step``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import ConcatDataset, Subset, TensorDataset, default_collate

from hush.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class PhysicalBatch:
    """A physical batch. All contributions have the same number of rows, next to each other.

    Attributes:
        indices: The example in each row.
        real: Whether a row is an example; the others are padding.
        weights: Whether a contribution counts; the others are padding.
        step: The step that the batch belongs to.
        position: The batch's position within the step, from 0.
        ends: Whether it is the last batch of the step.
    """

    indices: NDArray[np.int64]
    real: NDArray[np.bool_]
    weights: NDArray[np.bool_]
    step: int
    position: int
    ends: bool


def physical_batches(
    indices: NDArray[np.int64],
    size: int,
    step: int = 0,
    limit: int | None = None,
    real: NDArray[np.bool_] | None = None,
) -> list[PhysicalBatch]:
    """Cut the contributions of a step into physical batches.

    The last batch is padded with contributions of weight 0. An empty sample still gives one batch of padding: the step
    takes place, with its noise, or the number of noisy steps would reveal that the sample was empty.

    Args:
        indices: The examples of each contribution, a row per contribution; or one example per contribution.
        size: The largest number of examples in a physical batch.
        step: The number of the step.
        limit: The largest number of contributions in the step, which the sampling sees to. Every step has the number of
            batches that the limit fills.
        real: Which entries of ``indices`` are examples; by default all. The others are padding.
    """
    rows = indices if indices.ndim > 1 else indices.reshape(-1, 1)
    is_example = np.ones(rows.shape, dtype=np.bool_) if real is None else real
    width = rows.shape[1]
    per_batch = max(size // width, 1)  # contributions
    num_batches = max(-(-(len(rows) if limit is None else limit) // per_batch), 1)
    padded_rows = np.zeros((num_batches * per_batch, width), dtype=np.int64)
    padded_real = np.zeros((num_batches * per_batch, width), dtype=np.bool_)
    padded_rows[: len(rows)], padded_real[: len(rows)] = rows, is_example
    batches = []
    for position in range(num_batches):
        part = slice(position * per_batch, (position + 1) * per_batch)
        batches.append(
            PhysicalBatch(
                indices=padded_rows[part].reshape(-1),
                real=padded_real[part].reshape(-1),
                weights=padded_real[part].max(1),
                step=step,
                position=position,
                ends=position == num_batches - 1,
            )
        )
    return batches


def to_device(values: NDArray[Any], device: torch.device) -> Tensor:
    """Copy a small array to a device, without waiting for the device's pending work."""
    tensor = torch.from_numpy(values)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def fetcher(data: Any) -> tuple[int, Callable[[NDArray[np.int64]], Any]]:
    """Return the number of examples of a dataset, and a function that collates the examples at given indices.

    Args:
        data: A tuple of tensors or arrays of one length, a TensorDataset, a mapping from names to columns (of which
            the numeric ones are fetched), or an object with ``__len__`` and ``__getitem__``.
    """
    if isinstance(data, TensorDataset):
        data = data.tensors
    if isinstance(data, tuple) and data and all(isinstance(part, (Tensor, np.ndarray)) for part in data):
        tensors = tuple(torch.as_tensor(part) for part in data)
        if len({len(part) for part in tensors}) != 1:
            raise InvalidArgument("data", [len(part) for part in tensors], "tensors of the same length")

        def rows(indices: NDArray[np.int64]) -> tuple[Tensor, ...]:
            by_device = {device: to_device(indices, device) for device in {part.device for part in tensors}}
            return tuple(part[by_device[part.device]] for part in tensors)

        return len(tensors[0]), rows
    if isinstance(data, Mapping):
        columns = {name: column for name, column in data.items() if _is_numeric(column)}
        if not columns:
            raise InvalidArgument("data", sorted(map(str, data)), "at least one column of numbers")
        num_examples, fetch_columns = fetcher(tuple(columns.values()))
        return num_examples, lambda indices: dict(zip(columns, fetch_columns(indices), strict=True))
    if not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise InvalidArgument("data", type(data).__name__, "tensors, or a Dataset with a length")
    return len(data), lambda indices: default_collate([data[int(index)] for index in indices])


def refuse_repeated_records(data: Any) -> None:
    """Refuse a `Subset` or a `ConcatDataset` that holds an example more than once: each time would count as a unit.

    >>> from torch.utils.data import Subset
    >>> refuse_repeated_records(Subset(TensorDataset(torch.zeros(3)), [0, 1, 0]))
    Traceback (most recent call last):
        ...
    hush.errors.InvalidArgument: data='Subset': expected each example once. It holds some more than once, so that ...
    """
    records = _records(data) if isinstance(data, (Subset, ConcatDataset)) else []
    if len(set(records)) < len(records):
        raise InvalidArgument(
            "data",
            type(data).__name__,
            "each example once",
            "It holds some more than once, so that one example would count as several units",
            "Remove the copies, or pass unit=Users(ids) with an id for each example",
        )


def _records(data: Any) -> list[tuple[int, int]]:
    """Return which example of which dataset each example is."""
    if isinstance(data, Subset):
        inner = _records(data.dataset)
        return [inner[int(index)] for index in data.indices]
    if isinstance(data, ConcatDataset):
        return [record for part in data.datasets for record in _records(part)]
    return [(id(data), index) for index in range(len(data))]


def _is_numeric(column: Any) -> bool:
    return isinstance(column, Tensor) or (isinstance(column, np.ndarray) and column.dtype.kind in "biuf")


def _blank_padding(fetched: Any, batch: PhysicalBatch) -> Any:
    """Overwrite the padding rows of a fetched batch with zeros.

    Padding is fetched as example 0. Those rows must not contain data: a loop that reorders a batch, say, would
    otherwise let example 0 contribute in another example's place.
    """
    if batch.real.all():
        return fetched
    first = int(np.argmin(batch.real))
    is_tail = not batch.real[first:].any()
    padding: Any = slice(first, None) if is_tail else torch.from_numpy(np.flatnonzero(~batch.real))
    for value in torch.utils._pytree.tree_leaves(fetched):
        if isinstance(value, Tensor) and value.dim() and len(value) == len(batch.real):
            value[padding] = 0  # in place is safe: indexing and collating have made a copy for this batch
    return fetched


class Loader:
    """The physical batches of all remaining steps. Iterate over it once, and answer each batch with ``private.step``.

    `privatize` builds it, as ``private.loader``. All batches have the same size. ``len`` is the exact number of batches
    that remain.

    >>> from hush.randomness import TestSource
    >>> from hush.training import privatize
    >>> model = torch.nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> private = privatize(model, optimizer, (torch.randn(100, 4),), noise_multiplier=1.0, delta=1e-3, num_steps=3,
    ...                     physical_batch_size=50, source=TestSource(0))
    >>> len(private.loader)  # 3 steps on all examples, in two physical batches each
    6
    """

    def __init__(
        self,
        fetch: Callable[[NDArray[np.int64]], Any],
        batches: Callable[[int], Sequence[PhysicalBatch]],
        next_step: Callable[[], int],
        num_steps: int,
        serve: Callable[[PhysicalBatch, Any], AbstractContextManager[Any]],
        change: Callable[[Any], Any],
        count: Callable[[int], int],
        generation: Callable[[], int],
    ) -> None:
        """Connect to a run.

        Args:
            fetch: From indices to collated examples.
            batches: From a step to its physical batches.
            next_step: Returns the number of the next step.
            num_steps: The number of steps of the run.
            serve: Tells the run that a batch is about to be served, and what the loop gets; returns a context for the
                time that the loop has it.
            change: Transforms a fetched batch; see `Contribution.change`.
            count: From a step to its number of physical batches.
            generation: Returns a number that changes when the run is resumed, which ends earlier loops.
        """
        self._fetch, self._batches, self._change, self._count = fetch, batches, change, count
        self._next_step, self._num_steps, self._serve = next_step, num_steps, serve
        self._generation = generation

    def __len__(self) -> int:
        """Count the batches of the remaining steps. Where their number varies, this draws the samples."""
        return sum(self._count(step) for step in range(self._next_step(), self._num_steps))

    def __iter__(self) -> Iterator[Any]:
        """Serve the remaining batches."""
        generation = self._generation()
        while (step := self._next_step()) < self._num_steps:
            for batch in self._batches(step):
                fetched = self._change(_blank_padding(self._fetch(batch.indices), batch))
                if self._generation() != generation:
                    raise InvalidArgument("loader", "an old loop", "a new loop after load_state_dict")
                with self._serve(batch, fetched):
                    yield fetched
            if self._next_step() != step + 1:
                raise InvalidArgument("step", "not called", "one private.step(losses) for every batch of the loader")
