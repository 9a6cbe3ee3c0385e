"""Poisson samples, as a function of a key and the number of the step, and the loader that serves them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import TensorDataset, default_collate

from hush.errors import InvalidArgument
from hush.randomness import KeyedSource, geometric


def poisson_sample(key: bytes, step: int, num_examples: int, sampling_rate: float) -> NDArray[np.int64]:
    """Return the indices of the examples that take part in a step: each by itself, with the same probability.

    Gaps between them are geometric, sampled exactly; the rate is rounded down, by less than 1e-15 of itself.
    """
    if sampling_rate == 1:
        return np.arange(num_examples)
    source = KeyedSource(key, step)
    scale = -1 / math.log1p(-sampling_rate) * (1 + 2.0**-50)
    parts: list[NDArray[np.int64]] = []
    last = -1
    while last < num_examples:
        expected = (num_examples - last) * sampling_rate
        gaps = geometric(source, scale, math.ceil(expected + 4 * math.sqrt(expected)) + 16)
        parts.append(last + np.cumsum(gaps + 1))
        last = int(parts[-1][-1])
    indices = np.concatenate(parts)
    return indices[indices < num_examples]


@dataclass(frozen=True, slots=True)
class Micro:
    """A physical batch: which examples, which of them count, and where it stands in which logical batch."""

    indices: NDArray[np.int64]
    weights: NDArray[np.bool_]
    step: int
    position: int
    ends: bool


def micro_batches(sample: NDArray[np.int64], size: int, step: int = 0, limit: int | None = None) -> list[Micro]:
    """Cut a sample into batches of one size; the last one is filled up with places of weight 0.

    An empty sample is one batch of padding: its step takes place, and takes its noise. With a limit, what exceeds it is
    dropped, and there are always as many batches as the limit fills.
    """
    count = max(-(-(len(sample) if limit is None else limit) // size), 1)
    sample = sample[:limit]
    padded = np.zeros(count * size, dtype=np.int64)
    padded[: len(sample)] = sample
    weights = np.arange(count * size) < len(sample)
    return [
        Micro(padded[i * size : (i + 1) * size], weights[i * size : (i + 1) * size], step, i, i == count - 1)
        for i in range(count)
    ]


def moved(values: NDArray[Any], device: torch.device) -> Tensor:
    """Bring something small to a device, without waiting for what that is doing."""
    there = torch.from_numpy(values)
    return there.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else there.to(device)


def fetcher(dataset: Any) -> tuple[int, Callable[[NDArray[np.int64]], Any]]:
    """Return the number of examples and a function that collates some of them."""
    if isinstance(dataset, TensorDataset):
        dataset = dataset.tensors
    if isinstance(dataset, tuple) and dataset and all(isinstance(part, Tensor) for part in dataset):
        tensors = tuple(dataset)
        if len({len(part) for part in tensors}) != 1:
            raise InvalidArgument("dataset", [len(part) for part in tensors], "tensors of one length")

        def rows(indices: NDArray[np.int64]) -> tuple[Tensor, ...]:
            there = {device: moved(indices, device) for device in {part.device for part in tensors}}
            return tuple(part[there[part.device]] for part in tensors)

        return len(tensors[0]), rows
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise InvalidArgument("dataset", type(dataset).__name__, "tensors, or a Dataset with a length")
    return len(dataset), lambda indices: default_collate([dataset[int(i)] for i in indices])


def _blank(fetched: Any, batch: Micro) -> Any:
    """Put zeros where a batch is filled up: nobody's data, whatever a caller does with the batch's order."""
    real = int(batch.weights.sum())  # they come first
    for value in torch.utils._pytree.tree_leaves(fetched):
        if isinstance(value, Tensor) and value.dim() and len(value) == len(batch.weights):
            value[real:] = 0  # in place: whatever was fetched was made for this batch
    return fetched


class Loader:
    """The physical batches of all steps that are left, each of one size.

    ``len`` is exact: how many batches are left to serve, before the budget or the plan ends.
    """

    def __init__(
        self,
        fetch: Callable[[NDArray[np.int64]], Any],
        sample: Callable[[int], NDArray[np.int64]],
        size: int,
        limit: int | None,
        next_step: Callable[[], int],
        num_steps: int,
        serve: Callable[[Micro], None],
    ) -> None:
        """Take what it needs to know of the training run."""
        self._fetch, self._sample, self._size, self._limit = fetch, sample, size, limit
        self._next_step, self._num_steps, self._serve = next_step, num_steps, serve

    def __len__(self) -> int:
        """Count the batches of the steps that are left, by drawing their samples, where their sizes vary."""
        steps = range(self._next_step(), self._num_steps)
        if self._limit is not None:
            return len(steps) * -(-self._limit // self._size)
        return sum(max(-(-len(self._sample(step)) // self._size), 1) for step in steps)

    def __iter__(self) -> Iterator[Any]:
        """Serve them; each must be answered by a step."""
        while (step := self._next_step()) < self._num_steps:
            batches: Sequence[Micro] = micro_batches(self._sample(step), self._size, step, self._limit)
            for batch in batches:
                fetched = _blank(self._fetch(batch.indices), batch)
                self._serve(batch)
                yield fetched
            if self._next_step() != step + 1:
                raise InvalidArgument("step", "not called", "one private.step(losses) for every batch of the loader")
