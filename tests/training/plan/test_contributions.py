"""Contributions: augmented copies, micro-batches, and what they do to a sum."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hush
from hush.accounting import GaussianEvent, ProjectedGaussianEvent
from hush.errors import InvalidArgument
from hush.guarantee import Relation
from hush.training import Augmented, Full, Microbatches, PerExample, Projected
from training.loops import linear_run, train
from training.sums import COUNT, data, model, run, sums


def test_a_broken_twin_of_microbatches_is_caught() -> None:
    """The clipped mean turns around: nearly twice the clip norm, and not within one."""
    x = torch.tensor([[1.0], [1.0], [1.0], [-30.0]])
    found = []
    for inputs in (x, torch.cat([x[:3], torch.zeros(1, 1)])):
        network = nn.Linear(1, 1, bias=False)
        private = hush.privatize(
            network,
            torch.optim.SGD(network.parameters(), lr=0.0),
            (inputs,),
            sampling=Full(),
            contribution=Microbatches(4),
            relation=Relation.ZERO_OUT,
            clip_norm=0.1,
            noise_multiplier=1.0,
            delta=1e-3,
            num_steps=1,
        )
        totals: list[Tensor] = []
        keep = totals.append
        private._updater = lambda key, step, sums, *rest, keep=keep: keep(sums["weight"])  # type: ignore[assignment,misc]
        for (batch,) in private.loader:
            private.step(private.model(batch).sum(1))
        found.append(float(totals[0]))
    assert abs(found[0] - found[1]) > 1.9 * 0.1
    assert private.plan.noise_on_sum(0) == 2.0


def test_augmented_examples_are_averaged_before_they_are_clipped() -> None:
    x, y = data()

    def mirrored(batch: Any) -> Any:
        signs = torch.where(torch.arange(len(batch[0])) % 2 == 0, 1.0, -1.0).unsqueeze(1)
        return batch[0] * signs, batch[1]

    found, _, _ = sums(run(x, y, sampling=Full(), clip_norm=0.3, contribution=Augmented(2, mirrored)))[0]
    network = model()
    total = torch.zeros_like(found)
    for index in range(COUNT):
        both = torch.stack([x[index], -x[index]])
        loss = nn.functional.cross_entropy(network(both), y[index].repeat(2))
        gradient = torch.cat(
            [each.flatten().double() for each in torch.autograd.grad(loss, list(network.parameters()))]
        )
        total += gradient * min(1.0, 0.3 / float(gradient.norm()))
    assert torch.allclose(found, total, atol=1e-4)


def test_what_a_transform_returns_is_not_written_to() -> None:
    kept = torch.ones(1000, 4)
    private = run(contribution=Augmented(2, lambda batch: (kept[: len(batch[0])], batch[1])))
    train(private)
    assert bool((kept == 1).all())


def test_a_run_goes_on_with_another_transform_object() -> None:
    first = run(contribution=Augmented(2, lambda batch: batch), source=TestSource(1))
    second = run(contribution=Augmented(2, lambda batch: batch), source=TestSource(1))
    second.load_state_dict(first.state_dict())
