"""Public phases: they need a reason, and a resumed run has the same one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from hush.errors import InvalidArgument
from hush.training import PrivateTraining, PublicPhase, privatize
from training.towers import Tower, data, train


def test_a_run_resumes_only_with_the_same_public_phase() -> None:
    private = train(Tower(fc=nn.Linear(8, 2)), starts_from=PublicPhase("weights from elsewhere"))
    settings: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-5, "num_steps": 3, "batch_size": 30}

    def start(starts_from: PublicPhase | None) -> PrivateTraining:
        model = Tower(fc=nn.Linear(8, 2))
        return privatize(
            model, torch.optim.SGD(model.parameters(), lr=0.5), data(), starts_from=starts_from, **settings
        )

    with pytest.raises(InvalidArgument, match="^plan="):
        start(None).load_state_dict(private.state_dict())
    resumed = start(PublicPhase("weights from elsewhere"))
    resumed.load_state_dict(private.state_dict())
    assert resumed.guarantee() == private.guarantee()


def test_a_plan_takes_a_public_phase_only() -> None:
    with pytest.raises(InvalidArgument, match="^starts_from="):
        train(Tower(fc=nn.Linear(8, 2)), starts_from="public")
