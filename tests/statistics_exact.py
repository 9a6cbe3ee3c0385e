"""Exact releases: what a statistic would release without noise, and how far apart neighbouring datasets are.

If they are further apart than the event of the release says, the statistic violates its guarantee.
"""

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
from hush.statistics.noise import NoisyTrees
from hush.statistics.noise import selection as selection
from tree_nodes import all_nodes


class NoChoice(TestSource):
    """A source whose words are all 0: the first rows and groups of each unit are kept, whatever other units have.

    With real randomness, neighbouring datasets are compared choice by choice. This is one choice; rows in another
    order are another one.
    """

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.zeros(count, dtype=np.uint64)

    def word(self) -> int:
        return 0


@dataclass(frozen=True)
class Exact:
    """Exact totals by key, and the noise that they were about to get."""

    totals: dict[Any, NDArray[np.int64]]
    plan: NoisePlan
    event: Event


def exact(ask: Callable[[RandomSource], Any]) -> Exact:
    """Run a statistic without noise. All private groups are revealed."""
    seen: list[tuple[NoisePlan, NDArray[np.int64]]] = []

    def release(plan: NoisePlan, totals: NDArray[np.int64], source: RandomSource) -> NDArray[np.int64]:
        seen.append((plan, totals.copy()))
        return totals.copy()

    def whole_trees(trees: NoisyTrees, *_: Any) -> tuple[NDArray[np.float64], ...]:
        seen.append((trees.plan, all_nodes(trees)))
        return (np.zeros(len(trees.members)),) * 3

    def reveal_all(plan: Any, num_units: NDArray[np.int64], source: RandomSource) -> NDArray[np.bool_]:
        return num_units > 0

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(NoisePlan, "release", release))
        stack.enter_context(mock.patch("hush.statistics.order_statistics.tree_quantiles", whole_trees))
        for kind in (selection._Probabilities, selection._Threshold):
            stack.enter_context(mock.patch.object(kind, "choose", reveal_all))
        for module in ("moments", "vectors"):  # intervals take time, and do not matter here
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
    """Return how much further apart neighbouring datasets are than the event says, relative to it; <= 0 if not."""
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
    """Return the events of the blocks, without that of the group selection."""
    if isinstance(event, events.ComposedEvent):
        return [part for inner in event.events for part in _noises(inner)]
    return [] if isinstance(event, events.ApproximateDPEvent) else [event]


def _no_interval(tail: Any, noisy: NDArray[np.float64], *rest: Any, **more: Any) -> tuple[Any, Any]:
    return np.zeros(len(noisy)), np.ones(len(noisy))
