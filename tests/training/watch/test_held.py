"""Plain attributes: tensors are found wherever they are held, and what a check changes is set back."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import torch
from torch import nn

from hush.training.watch.held import Attributes, differing, held_tensors, held_values


class Memory:
    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows = torch.zeros(2)


def holder() -> Any:
    module: Any = nn.Sequential(nn.Linear(2, 2), nn.LSTM(2, 2))
    module.queue = collections.deque([torch.zeros(1)])
    module.memory = Memory()
    module.table = {"a": ({"b": np.zeros(2)},), "same": module[0].weight}
    module.count, module.text, module.loose = 3, "a", [nn.Linear(1, 1, bias=False)]
    module.itself = module
    return module


def named(module: nn.Module) -> list[tuple[str, nn.Module]]:
    return list(module.named_modules())


def test_tensors_are_found_in_containers_and_objects() -> None:
    names = {name for name, _ in held_tensors(named(holder()))}
    assert names == {"queue.0", "memory.rows", "table.a.0.b", "loose.0._parameters.weight"}


def test_values_are_compared_by_content() -> None:
    module = holder()
    before = held_values(named(module))
    assert before["count"] == 3
    assert differing(before, held_values(named(module))) == []
    module.queue[0].add_(1)
    module.count = 4
    module.memory.rows = torch.full((2,), torch.nan)
    module.new = float("nan")
    after = held_values(named(module))
    assert set(differing(before, after)) == {"queue.0", "count", "memory.rows", "new"}
    assert differing(after, held_values(named(module))) == [], "NaN is no difference"


def test_attributes_are_set_back() -> None:
    module = holder()
    module.lines = [1, 2]
    before = Attributes(named(module))
    module.lines.append(3)
    module.queue.clear()
    module.table["x"] = torch.ones(1)
    module.new, module.count = torch.ones(1), 9
    before.restore()
    assert module.lines == [1, 2]
    assert len(module.queue) == 1
    assert set(module.table) == {"a", "same"}
    assert (module.count, hasattr(module, "new")) == (3, False)
