"""Several processes of torch.distributed are refused: two ranks ended with two models and one epsilon."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from hush.errors import Unsupported
from hush.training import privatize

distributed: Any = torch.distributed  # some of its names are not typed as exported
pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without distributed")


def train(model: nn.Module) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return privatize(model, optimizer, (torch.randn(20, 4),), noise_multiplier=1.0, delta=1e-3, num_steps=2)


class Group:
    """A process group of this process alone, in memory."""

    def __enter__(self) -> None:
        torch.distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)

    def __exit__(self, *_: object) -> None:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("wrap", [nn.DataParallel, nn.Sequential])
def test_a_model_on_several_devices_is_refused(wrap: Any) -> None:
    with pytest.raises(Unsupported, match="DataParallel spreads the model over processes or devices. Pass the model"):
        train(wrap(nn.DataParallel(nn.Linear(4, 1))))


def test_a_model_of_several_processes_is_refused() -> None:
    with Group(), pytest.raises(Unsupported, match="DistributedDataParallel spreads the model"):
        train(nn.parallel.DistributedDataParallel(nn.Linear(4, 1)))


def test_a_sharded_model_is_refused() -> None:
    from torch.distributed.fsdp import fully_shard

    with Group():
        mesh = distributed.init_device_mesh("cpu", (1,))
        model = fully_shard(nn.Linear(4, 1), mesh=mesh)
        with pytest.raises(Unsupported, match="FSDPLinear spreads the model"):
            train(model)  # type: ignore[arg-type]


def test_a_world_of_one_process_is_accepted() -> None:
    with Group():
        private = train(nn.Linear(4, 1))
        for (x,) in private.loader:
            private.step(private.model(x).square().sum(1))
        assert private.steps_taken == 2


def test_one_of_two_processes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with Group():
        private = train(nn.Linear(4, 1))
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
        with pytest.raises(Unsupported, match="private training on 2 processes: each would draw its own sample"):
            train(nn.Linear(4, 1))
        with pytest.raises(Unsupported, match="private training on 2 processes"):
            next(iter(private.loader))
