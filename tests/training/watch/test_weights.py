"""Changed parameters: by their versions, by their addresses, and by their contents."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from hush.training.watch.weights import WeightWatch, content_sums


@pytest.mark.parametrize("contents", [False, True])
@pytest.mark.parametrize("how", ["place", "storage", "data"])
def test_changes_are_noticed(how: str, *, contents: bool) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    watch = WeightWatch(model)
    watch.remember(contents=contents)
    assert watch.changed() == []
    weight = model.get_parameter("1.weight")
    if how == "storage":
        weight.data = weight.data + 1
    else:
        with torch.no_grad():
            (weight.data if how == "data" else weight).add_(1)
    assert watch.changed() == (["1.weight"] if contents or how != "data" else [])
    watch.remember(contents=contents)
    assert watch.changed() == []


def test_nan_is_no_change() -> None:
    model = nn.Linear(2, 2)
    with torch.no_grad():
        model.weight.fill_(torch.nan)
    assert WeightWatch(model).changed() == []


def test_sums_of_complex_numbers_include_imaginary_parts() -> None:
    values = torch.ones(2, dtype=torch.complex64)
    assert not torch.equal(content_sums(values), content_sums(values + 1j))
