"""Observed steps: scores in clip norms, the recorder, and both ways to observe."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from audit.training.step_setups import setup
from hush.audit.training import observe
from hush.audit.training.observed_steps import Observations, Recorder
from hush.randomness import TestSource


def test_scores_are_in_clip_norms(observed: Observations) -> None:
    # Six standard deviations each: false alarms 4e-9.
    shift = observed.scores_in[:, 0].mean() - observed.scores_out[:, 0].mean()
    assert shift == pytest.approx(1.0, abs=6 * np.sqrt(2 / 600))
    assert observed.scores_out[:, 0].std() == pytest.approx(1.0, abs=6 * np.sqrt(0.5 / 600))


def test_the_size_of_the_rest_has_both_signs(observed: Observations) -> None:
    assert np.array_equal(observed.scores_in[:, 1], -observed.scores_in[:, 2])
    # 31 coordinates of unit noise, one of which the other five examples shift by 5 / 4 clip norms. Mean 31 + 1.25^2,
    # standard deviation sqrt((2 * 31 + 4 * 1.25^2) / 1200) = 0.24. Six of them: false alarms 2e-9.
    rest = np.concatenate([observed.scores_in[:, 2], observed.scores_out[:, 2]])
    assert rest.mean() == pytest.approx(31 + 1.25**2, abs=6 * 0.24)


def test_one_run_and_two_runs_have_the_same_numbers_of_observations() -> None:
    for runs in (1, 2):
        observations = observe(setup(), observations=7, num_steps=2, runs=runs, source=TestSource(2))
        assert observations.scores_in.shape == observations.scores_out.shape == (7, 3)
        assert observations.num_steps == 2


def test_the_recorder_leaves_weights_unchanged() -> None:
    model = nn.Linear(2, 1)
    recorder = Recorder(model.parameters())
    before = [param.clone() for param in model.parameters()]
    model(torch.ones(1, 2)).sum().backward()
    recorder.step()
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
    assert recorder.recorded[0].tolist() == [1.0, 1.0, 1.0]
