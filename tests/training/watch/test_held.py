"""Plain attributes: tensors are found wherever they are held, and what a check changes is set back."""

from __future__ import annotations

import collections
import functools
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


class Recorder:
    """A hook that is an object, or one of its methods."""

    def __init__(self) -> None:
        self.rows = [torch.zeros(2)]

    def __call__(self, *_: Any) -> None:
        """Do nothing."""

    def method(self, *_: Any) -> None:
        """Do nothing."""


def test_tensors_are_found_wherever_pickle_finds_them() -> None:
    module: Any = nn.Linear(2, 2)
    module.register_forward_hook(Recorder())
    module.register_full_backward_hook(Recorder().method)
    module.weight.note = torch.zeros(3)
    module.normal = torch.distributions.Normal(torch.zeros(2), 1.0)
    module.partial = functools.partial(torch.add, torch.zeros(2), other=torch.zeros(2))
    module.iterator = iter([torch.zeros(2)])
    assert {name for name, _ in held_tensors([("", module)])} >= {
        "_forward_hooks.0.rows.0",
        "_backward_hooks.0.self.rows.0",
        "weight.note",
        "normal.loc",
        "partial.args.0",
        "partial.keywords.other",
        "iterator.0",
    }
    assert next(module.iterator) is not None, "looking does not use it up"


def test_objects_are_entered_unless_their_package_is_known() -> None:
    """A package whose name begins as torch's does is another one."""
    module: Any = nn.Linear(2, 2)
    module.memory = type("Memory", (), {"__module__": "torch_geometric.data"})()
    module.memory.rows = torch.zeros(2)
    assert [name for name, _ in held_tensors([("", module)])] == ["memory.rows"]


def test_bytes_and_numbers_of_numpy_are_values() -> None:
    module: Any = nn.Linear(2, 2)
    module.text, module.mean = bytearray(b"ab"), np.float32(0.5)
    before = held_values([("", module)])
    module.text[0], module.mean = 0, np.float32(0.6)
    assert set(differing(before, held_values([("", module)]))) == {"text", "mean"}
