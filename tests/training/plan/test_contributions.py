"""Contributions: augmented copies, micro-batches, and what they do to a sum."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hush
from hush.accounting import GaussianEvent
from hush.accounting.events import ProjectedGaussianEvent
from hush.errors import InvalidArgument
from hush.guarantee import Relation
from hush.randomness import TestSource
from hush.training import Augmented, Full, Microbatches, PerExample, Projected
from training.loops import linear_run, train
from training.sums import COUNT, data, model, run, sums


def test_a_micro_batch_can_move_a_sum_by_two_clip_norms() -> None:
    """The clipped mean turns around. So a broken twin that adds noise for one clip norm would be wrong."""
    x = torch.tensor([[1.0], [1.0], [1.0], [-30.0]])
    sums_of_weight = []
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
        record = totals.append
        private._updater = lambda key, step, totals, *rest, record=record: record(totals["weight"])  # type: ignore[assignment,misc]
        for (batch,) in private.loader:
            private.step(private.model(batch).sum(1))
        sums_of_weight.append(float(totals[0]))
    assert abs(sums_of_weight[0] - sums_of_weight[1]) > 1.9 * 0.1
    assert private.plan.noise_on_sum(0) == 2.0


def test_augmented_examples_are_averaged_before_they_are_clipped() -> None:
    x, y = data()

    def mirrored(batch: Any) -> Any:
        signs = torch.where(torch.arange(len(batch[0])) % 2 == 0, 1.0, -1.0).unsqueeze(1)
        return batch[0] * signs, batch[1]

    total, _, _ = sums(run(x, y, sampling=Full(), clip_norm=0.3, contribution=Augmented(2, mirrored)))[0]
    network = model()
    expected = torch.zeros_like(total)
    for index in range(COUNT):
        versions = torch.stack([x[index], -x[index]])
        loss = nn.functional.cross_entropy(network(versions), y[index].repeat(2))
        gradient = torch.cat(
            [part.flatten().double() for part in torch.autograd.grad(loss, list(network.parameters()))]
        )
        expected += gradient * min(1.0, 0.3 / float(gradient.norm()))
    assert torch.allclose(total, expected, rtol=1e-3, atol=1e-4)


def test_the_result_of_a_transform_is_not_overwritten() -> None:
    augmented = torch.ones(1000, 4)
    private = linear_run(contribution=Augmented(2, lambda batch: (augmented[: len(batch[0])], batch[1])))
    train(private)
    assert bool((augmented == 1).all())


def test_a_run_resumes_with_another_transform_object() -> None:
    first = linear_run(contribution=Augmented(2, lambda batch: batch), source=TestSource(1))
    second = linear_run(contribution=Augmented(2, lambda batch: batch), source=TestSource(1))
    second.load_state_dict(first.state_dict())


def test_each_kind_states_its_rows_its_sensitivity_and_its_event() -> None:
    expected = {
        PerExample(): (1, 1, 1.0),
        Augmented(3): (3, 1, 1.0),
        Microbatches(4): (1, 4, 2.0),
        Projected(5): (1, 1, 1.0),
    }
    for contribution, (copies, examples, sensitivity) in expected.items():
        assert (contribution.copies, contribution.examples) == (copies, examples)
        assert contribution.sensitivity(Relation.ADD_OR_REMOVE) == sensitivity
        assert contribution.sensitivity(Relation.REPLACE) == 1.0
        event = ProjectedGaussianEvent(2.0, 5) if isinstance(contribution, Projected) else GaussianEvent(2.0)
        assert contribution.mechanism(2.0) == event


@pytest.mark.parametrize(("kind", "name"), [(Augmented, "times"), (Microbatches, "size"), (Projected, "projections")])
@pytest.mark.parametrize("number", [0, -1, 2.0, True])
def test_numbers_are_checked(kind: Any, name: str, number: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"^{name}="):
        kind(number)
