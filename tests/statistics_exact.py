"""What a statistic would release without noise, and whether neighbours are further apart than its event says."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from hush.accounting import Event, events
from hush.randomness import RandomSource, TestSource
from hush.statistics import NoisePlan
from hush.statistics.noise import selection as selection


class NoChoice(TestSource):
    """All words are 0: of a user's rows and groups the first ones are kept, which depend on nobody else.

    With real randomness neighbours are compared choice by choice; this is one choice, and rows in another order are
    another one.
    """

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.zeros(count, dtype=np.uint64)

    def word(self) -> int:
        return 0


@dataclass(frozen=True)
class Exact:
    """Totals by key, and the noise that they were to get."""

    totals: dict[Any, NDArray[np.int64]]
    plan: NoisePlan
    event: Event


def exact(ask: Callable[[RandomSource], Any]) -> Exact:
    """Run a statistic without noise; of private groups, all are told."""
    seen: list[tuple[NoisePlan, NDArray[np.int64]]] = []

    def release(plan: NoisePlan, totals: NDArray[np.int64], source: RandomSource) -> NDArray[np.int64]:
        seen.append((plan, totals.copy()))
        return totals.copy()

    def everything(plan: Any, num_users: NDArray[np.int64], source: RandomSource) -> NDArray[np.bool_]:
        return num_users > 0

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(NoisePlan, "release", release))
        for kind in (selection._Probabilities, selection._Threshold):
            stack.enter_context(mock.patch.object(kind, "choose", everything))
        for module in ("moments", "vectors"):  # intervals take time and are not what is measured
            stack.enter_context(mock.patch(f"hush.statistics.{module}.quotients", _no_interval))
        result = ask(NoChoice(0))
    result = next(iter(result.values())) if isinstance(result, dict) else result
    rows = np.concatenate([totals for _, totals in seen])
    keys = getattr(result, "keys", None)
    keys = range(len(rows)) if keys is None else keys
    event = result.event.event
    # 1, 1.0 and True are different groups.
    return Exact(dict(zip([(type(key), key) for key in keys], rows, strict=True)), seen[0][0], event)


def excess(first: Exact, second: Exact) -> float:
    """Return by how much neighbours are further apart than the event says, relative to what it says; <= 0 if not."""
    empty = np.zeros(len(first.plan.scales), dtype=np.int64)
    keys = {*first.totals, *second.totals}
    moves = [first.totals.get(key, empty).astype(object) - second.totals.get(key, empty).astype(object) for key in keys]
    change = np.array(moves, dtype=np.float64).reshape(len(keys), len(empty)) / first.plan.scales
    noises = _noises(first.event)
    if isinstance(noises[0], events.GaussianEvent):
        return float(np.sqrt(np.square(change).sum())) * noises[0].noise_multiplier - 1
    # Every part of a Laplace event is a block, with its own scale.
    result, column = -math.inf, 0
    for part, block in zip(noises, first.plan.blocks, strict=True):
        moved = float(np.abs(change[:, column : column + block.columns]).sum())
        scale = part.scale if isinstance(part, events.LaplaceEvent) else part.scale / part.sensitivity
        result, column = max(result, moved * scale - 1), column + block.columns
    return result


def _noises(event: Event) -> list[Any]:
    """Return the events of blocks; the choice of groups is not among them."""
    if isinstance(event, events.ComposedEvent):
        return [part for one in event.events for part in _noises(one)]
    return [] if isinstance(event, events.ApproximateDPEvent) else [event]


def _no_interval(tail: Any, noisy: NDArray[np.float64], *rest: Any, **more: Any) -> tuple[Any, Any]:
    return np.zeros(len(noisy)), np.ones(len(noisy))
