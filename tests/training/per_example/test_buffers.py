"""Changed buffers are noticed: as another tensor, as another version, and by their content."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from hush.errors import Unsupported
from hush.training.per_example.buffers import BufferWatch, refuse_buffers
from hush.training.watch.held import StoredData


def model() -> nn.Module:
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    module.register_buffer("mean", torch.zeros(2))
    module[1].register_buffer("count", torch.tensor(0))
    module[1].register_buffer("unset", None)
    module.register_buffer("phases", torch.ones(2, dtype=torch.complex64))
    module[0].requires_grad_(False)
    return module


def replace_buffer(module: nn.Module) -> None:
    module.mean = module.mean + 1


def write_buffer(module: nn.Module) -> None:
    module.mean.add_(1)  # type: ignore[operator]


def write_integer(module: nn.Module) -> None:
    module.get_submodule("1").count += 1


def write_data(module: nn.Module) -> None:
    module.mean.data.add_(1)  # type: ignore[union-attr]


def write_imaginary(module: nn.Module) -> None:
    module.phases.data.add_(1j)  # type: ignore[union-attr]


def write_frozen(module: nn.Module) -> None:
    module.get_parameter("0.weight").data.add_(1)


CHANGES: dict[str, tuple[Callable[[nn.Module], None], str, bool]] = {
    # what is done; the name in the message; whether comparing contents is needed to notice
    "replaced": (replace_buffer, "mean", False),
    "in place": (write_buffer, "mean", False),
    "an integer": (write_integer, "1.count", False),
    "through data": (write_data, "mean", True),
    "an imaginary part": (write_imaginary, "phases", True),
    "a frozen parameter": (write_frozen, "0.weight", True),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_noticed(change: str) -> None:
    apply, name, needs_contents = CHANGES[change]
    module = model()
    watch = BufferWatch(module)
    watch.start()
    watch.refuse_changes()
    apply(module)
    with pytest.raises(Unsupported, match=f"^{name}: .*buffers"):
        watch.refuse_changes()
    # A change that was there at the start of the batch is not the batch's.
    watch.start()
    watch.refuse_changes()
    watch.compare_contents(on=False)
    watch.start()
    apply(module)
    if needs_contents:
        watch.refuse_changes()
    else:
        with pytest.raises(Unsupported, match=f"^{name}: "):
            watch.refuse_changes()


def test_nan_is_no_change() -> None:
    module = model()
    module.mean.fill_(torch.nan)  # type: ignore[operator]
    watch = BufferWatch(module)
    watch.start()
    watch.refuse_changes()


def write_trained(module: nn.Module) -> None:
    with torch.no_grad():
        module.get_parameter("1.weight").add_(1)


def move_trained(module: nn.Module) -> None:
    module.get_parameter("1.weight").data = torch.ones(2, 2)


def assign_trained(module: nn.Module) -> None:
    module.get_submodule("1").weight = nn.Parameter(torch.ones(2, 2))


@pytest.mark.parametrize("change", [write_trained, move_trained, assign_trained])
def test_trained_parameters_are_not_written_by_a_forward(change: Callable[[nn.Module], None]) -> None:
    """As a codebook does that takes inputs for its unused entries."""
    module = model()
    watch = BufferWatch(module)
    watch.compare_contents(on=False)
    watch.start()
    change(module)
    with pytest.raises(StoredData, match=r"^1\.weight: "):
        watch.refuse_changes()


def test_plain_attributes_are_compared_and_removed() -> None:
    module = model()
    module.cache, module.steps = {"rows": [torch.zeros(2)]}, 0  # type: ignore[assignment]
    watch = BufferWatch(module)
    watch.start_held()
    module.steps = 1  # type: ignore[assignment]  # numbers are compared at checks
    watch.refuse_held()
    module.get_submodule("1").last = torch.ones(2)
    with pytest.raises(StoredData, match=r"^1\.last: "):
        watch.refuse_held()
    assert not hasattr(module.get_submodule("1"), "last")
    module.cache["rows"][0].add_(1)  # type: ignore[index, operator]
    with pytest.raises(StoredData, match=r"^cache\.rows\.0: "):
        watch.refuse_held()


def test_nothing_to_refuse() -> None:
    refuse_buffers([])
    with pytest.raises(Unsupported, match="^a, b: "):
        refuse_buffers(["a", "b"])
