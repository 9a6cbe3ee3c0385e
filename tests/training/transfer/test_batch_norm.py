"""Batch norms become group norms that keep their weights."""

from __future__ import annotations

from torch import nn

from hush.training import replace_batchnorm
from training.loops import linear_run, run, train


def test_batch_norms_are_replaced_and_keep_their_weights() -> None:
    model = nn.Sequential(nn.Conv2d(3, 48, 3), nn.BatchNorm2d(48), nn.Sequential(nn.BatchNorm2d(48, affine=False)))
    weight = model[1].weight
    replaced = replace_batchnorm(model)
    assert isinstance(replaced[1], nn.GroupNorm)  # type: ignore[index]
    assert replaced[1].weight is weight  # type: ignore[index]
    assert replaced[1].num_groups == 24  # type: ignore[index]
    run(
        model=nn.Sequential(
            nn.Unflatten(1, (3, 2, 1)), nn.Conv2d(3, 8, 1), replace_batchnorm(nn.BatchNorm2d(8)), nn.Flatten()
        )
    )


def test_batch_norm_of_vectors_becomes_one_group() -> None:
    model = replace_batchnorm(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)))
    assert model[1].num_groups == 1
    train(linear_run(model=model))
