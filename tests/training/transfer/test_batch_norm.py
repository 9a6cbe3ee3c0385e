"""Batch norms become group norms that keep their weights, and what comes after them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hush.errors import Unsupported
from hush.training import check, replace_batchnorm
from training.loops import linear_run, run, train


class NormAndActivation(nn.BatchNorm2d):
    """A batch norm that goes on with dropout and an activation, as timm writes them."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.drop, self.act = nn.Dropout(0.5), nn.SiLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.drop(super().forward(x)))


class Hidden(nn.BatchNorm2d):
    """A batch norm with an activation that is no layer."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).relu()


def replaced(*layers: nn.Module) -> Any:
    return replace_batchnorm(nn.Sequential(*layers))


def test_batch_norms_are_replaced_and_keep_their_weights() -> None:
    norm = nn.BatchNorm2d(48)
    model = replaced(nn.Conv2d(3, 48, 3), norm, nn.Sequential(nn.BatchNorm2d(48, affine=False).eval()))
    assert isinstance(model[1], nn.GroupNorm)
    assert model[1].weight is norm.weight
    assert not model[2][0].training
    run(
        model=nn.Sequential(
            nn.Unflatten(1, (3, 2, 1)), nn.Conv2d(3, 8, 1), replace_batchnorm(nn.BatchNorm2d(8)), nn.Flatten()
        )
    )


@pytest.mark.parametrize(
    ("channels", "groups"), [(1, 1), (8, 1), (17, 1), (32, 2), (48, 3), (40, 2), (512, 32), (2048, 32)]
)
def test_groups_have_16_channels_or_all_of_them(channels: int, groups: int) -> None:
    assert replace_batchnorm(nn.BatchNorm2d(channels)).num_groups == groups


@torch.no_grad()
def test_maps_of_one_pixel_say_something() -> None:
    """One channel per group, which a broken twin has, would leave only the bias."""
    norm, x = replace_batchnorm(nn.BatchNorm2d(32)), torch.randn(4, 32, 1, 1)
    assert float(norm(x).std(0).min()) > 0
    twin = nn.GroupNorm(32, 32)
    assert float(twin(x).abs().max()) < 1e-4


def test_batch_norm_of_vectors_becomes_one_group() -> None:
    model = replaced(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    assert model[1].num_groups == 1
    train(linear_run(model=model))


def test_what_comes_after_a_norm_stays() -> None:
    norm = NormAndActivation(16)
    nn.init.zeros_(norm.weight)  # as residual networks start, where an activation cannot be seen
    model = replaced(nn.Conv2d(3, 16, 3), norm)
    assert [type(layer) for layer in model[1]] == [nn.GroupNorm, nn.Dropout, nn.SiLU]
    nn.init.ones_(norm.weight)
    model.eval()
    x = torch.randn(3, 3, 6, 6)
    assert torch.allclose(model(x), nn.functional.silu(nn.functional.group_norm(model[0](x), 1)), atol=1e-5)
    check(model, x, lambda model, x: model(x).square().sum((1, 2, 3)))


def test_a_norm_that_does_more_is_refused_before_anything_is_replaced() -> None:
    norm = Hidden(8)
    nn.init.zeros_(norm.weight)
    model = nn.Sequential(nn.BatchNorm2d(8), nn.Sequential(norm))
    with pytest.raises(Unsupported, match=r"^1\.0 \(Hidden\): "):
        replace_batchnorm(model)
    assert type(model[0]) is nn.BatchNorm2d


def test_a_shared_norm_stays_shared() -> None:
    """A broken twin that visited each module once would leave the second name."""
    norm = nn.BatchNorm2d(8)
    model = replaced(norm, nn.Sequential(norm))
    assert model[0] is model[1][0]
    assert isinstance(model[0], nn.GroupNorm)


@pytest.mark.parametrize("affine", [True, False])
def test_lazy_norms_become_lazy_group_norms(affine: bool) -> None:
    model = replaced(nn.LazyConv2d(32, 1), nn.LazyBatchNorm2d(affine=affine), nn.Flatten(), nn.LazyBatchNorm1d())
    x = torch.randn(3, 2, 4, 4)
    model(x)
    assert [type(model[1]), type(model[3])] == [nn.GroupNorm, nn.GroupNorm]
    assert [model[1].num_groups, model[3].num_groups] == [2, 1]
    assert (model[1].weight is not None) is affine
    check(model, x, lambda model, x: model(x).square().sum(1))
