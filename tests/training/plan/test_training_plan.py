"""Plans: their cost, their events, and what they assume."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import hush
from hush.accounting import PldAccountant
from hush.accounting import epsilon as accounted
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Unit
from hush.training import (
    Users,
)
from training.loops import LINEAR_COUNT, linear_run, run, start, train


def test_full_batches_are_gradient_descent() -> None:
    private = train(run(batch_size=None))
    assert "DP-GD" in private.guarantee().method
    expected = accounted(noise_multiplier=1.0, sampling_rate=1.0, num_steps=6, delta=1e-5)
    assert private.guarantee().epsilon == pytest.approx(expected)


def test_a_unit_without_ids_is_assumed_to_have_one_example() -> None:
    assert "each user has one example" in run(unit=hush.Unit.user()).guarantee().assumptions
    with pytest.raises(InvalidArgument, match="^unit="):
        run(unit=hush.Unit.example().group(5))


@pytest.mark.parametrize("noise", [1e-6, 1e9])
def test_noise_beyond_the_accountant_is_refused_at_once(noise: float) -> None:
    with pytest.raises(InvalidArgument, match="^noise_multiplier="):
        start(nn.Linear(3, 1), (torch.ones(8, 3),), noise_multiplier=noise)


def test_events_are_for_their_unit_and_relation() -> None:
    event = linear_run(unit=Users(np.arange(LINEAR_COUNT) // 2), batch_size=5).plan.event()
    PldAccountant(unit=Unit.user()).compose(event)
    with pytest.raises(Unsupported, match="per user"):
        PldAccountant().compose(event)
