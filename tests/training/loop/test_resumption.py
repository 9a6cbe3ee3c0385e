"""Resumed runs: exact in tests, under new keys otherwise, and never with less than was spent."""

from __future__ import annotations

import copy
import io
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import hush
from hush.errors import InvalidArgument
from hush.randomness import TestSource
from hush.training import BallsInBins, Banded, BufferedToeplitz, InOrder, PrivateTraining, ShuffledEpochs, Users
from training.loops import (
    LINEAR_COUNT,
    batch_run,
    linear_data,
    linear_run,
    noisy_gradients,
    quiet_run,
    run,
    train,
    weights,
)
from training.sums import COUNT as SUMS_COUNT
from training.sums import data as sums_data
from training.sums import model as sums_model


@pytest.mark.parametrize("after", [1, 3, 5])
def test_a_resumed_run_is_exact(after: int) -> None:
    uninterrupted = train(run(physical_batch_size=16))
    first = train(run(physical_batch_size=16), after)
    stored = io.BytesIO()
    torch.save(first.state_dict(), stored)
    stored.seek(0)
    second = run(seed=99, physical_batch_size=16)
    second.load_state_dict(torch.load(stored, weights_only=False))
    train(second)
    assert torch.equal(weights(second), weights(uninterrupted))
    assert second.guarantee() == uninterrupted.guarantee()


def test_a_run_interrupted_within_a_step_repeats_that_step() -> None:
    uninterrupted = train(run(physical_batch_size=5))
    private = run(physical_batch_size=5)
    iterator = iter(private.loader)
    for _ in range(3):
        x, y = next(iterator)
        private.step(F.cross_entropy(private.model(x), y, reduction="none"))
    assert private.steps_taken == 0
    resumed = run(seed=99, physical_batch_size=5)
    resumed.load_state_dict(private.state_dict())
    assert torch.equal(weights(train(resumed)), weights(uninterrupted))


def test_steps_cannot_be_taken_back() -> None:
    private = run()
    early = copy.deepcopy(private.state_dict())
    train(private, 2)
    with pytest.raises(InvalidArgument, match="^steps_taken=0"):
        private.load_state_dict(early)
    with pytest.raises(InvalidArgument, match="^plan="):
        run(clip_norm=2.0).load_state_dict(private.state_dict())


def zeroed() -> nn.Module:
    model = nn.Linear(3, 1, bias=False)
    nn.init.zeros_(model.weight)
    return model


def step_all(private: PrivateTraining, count: int) -> None:
    for (x,) in private.loader:
        if private.step(private.model(x).squeeze(1)).complete and private.steps_taken >= count:
            break


def test_a_state_is_a_copy() -> None:
    """Weights of step 3 under the count of step 1 would understate what was spent."""
    private = quiet_run(zeroed(), (torch.randn(20, 3),))
    step_all(private, 1)
    state = private.state_dict()
    before = state["model"]["weight"].clone()
    step_all(private, 3)
    assert torch.equal(state["model"]["weight"], before)


def test_two_runs_from_one_state_have_different_noise() -> None:
    data = (torch.randn(20, 3),)
    origin = quiet_run(zeroed(), data, noise_multiplier=5.0, source=None)
    state = origin.state_dict()
    gradients = []
    for rate in (0.1, 0.5):
        model = zeroed()
        fork = quiet_run(model, data, noise_multiplier=5.0, source=None, lr=rate)
        fork.load_state_dict(copy.deepcopy(state))
        steps = noisy_gradients(fork.optimizer)
        step_all(fork, 1)
        gradients.append(steps[0][0])
    # Three values of noise with standard deviation 5 / 20: they are this close with probability 1.2e-8.
    assert not torch.allclose(gradients[0], gradients[1], atol=1e-3)


def test_resumption_includes_dropout() -> None:
    def start() -> PrivateTraining:
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        return quiet_run(model, (torch.arange(60.0).view(20, 3),), num_steps=4)

    uninterrupted = start()
    step_all(uninterrupted, 4)
    first = start()
    step_all(first, 2)
    state = first.state_dict()
    second = start()
    second.load_state_dict(state)
    step_all(second, 4)
    assert torch.equal(weights(uninterrupted), weights(second))


def test_two_runs_from_one_state_have_different_samples() -> None:
    data = torch.randn(60, 6), torch.randint(0, 3, (60,))
    state = batch_run(nn.Linear(6, 3), data).state_dict() | {"assumptions": ()}
    samples = []
    for _ in range(2):
        fork = batch_run(nn.Linear(6, 3), data)
        fork.load_state_dict(state)
        samples.append(fork._batches.sample(0).tolist())
    assert samples[0] != samples[1]  # 60 coins of 1 / 3 fall the same with probability (5 / 9)^60


def test_a_state_that_fails_to_load_is_still_accounted_for() -> None:
    trained = train(batch_run(nn.Linear(6, 3)))
    state = trained.state_dict()
    state["optimizers"][0]["param_groups"][0]["params"] = [0]
    other = batch_run(nn.Linear(6, 3))
    with pytest.raises(ValueError, match="size"):
        other.load_state_dict(state)
    assert other.guarantee() == trained.guarantee()


@pytest.mark.parametrize("stop", [1, 2, 3, 4, 5])
def test_resumption_within_a_step_includes_dropout(stop: int) -> None:
    data = torch.randn(60, 6), torch.randint(0, 3, (60,))

    def start() -> PrivateTraining:
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3))
        return batch_run(model, data, physical_batch_size=7)

    uninterrupted = train(start())
    first = start()
    for served, (x, y) in enumerate(first.loader, 1):
        first.step(F.cross_entropy(first.model(x), y, reduction="none"))
        if served == stop:
            break
    state = first.state_dict()
    second = start()
    second.load_state_dict(state)
    train(second)
    assert torch.equal(weights(second), weights(uninterrupted))


def test_a_run_resumes_with_other_physical_batches() -> None:
    first, second = (
        linear_run(physical_batch_size=7, source=TestSource(1)),
        linear_run(physical_batch_size=20, source=TestSource(1)),
    )
    second.load_state_dict(first.state_dict())


def test_a_run_resumes_only_with_the_same_owners() -> None:
    x, y = linear_data()
    first = linear_run((x, y), unit=Users(np.arange(LINEAR_COUNT) // 2), batch_size=5)
    second = linear_run((x, y), unit=Users(np.arange(LINEAR_COUNT) % (LINEAR_COUNT // 2)), batch_size=5)
    with pytest.raises(InvalidArgument, match="^owners="):
        second.load_state_dict(first.state_dict())


@pytest.mark.parametrize("correlated", [Banded(bands=3), BufferedToeplitz(buffers=2), BufferedToeplitz(window=3)])
def test_correlated_noise_continues(correlated: Any) -> None:
    """Also under a new key: the noise of earlier steps is still subtracted."""
    x, y = sums_data()

    def start(source: Any) -> PrivateTraining:
        network = sums_model()
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        return hush.privatize(
            network,
            optimizer,
            (x, y),
            sampling=InOrder(8),
            correlated=correlated,
            noise_multiplier=2.0,
            delta=1e-3,
            num_steps=9,
            source=source,
        )

    def train_until(private: PrivateTraining, until: int) -> None:
        for inputs, targets in private.loader:
            private.step(nn.functional.cross_entropy(private.model(inputs), targets, reduction="none"))
            if private.steps_taken == until:
                return

    uninterrupted, first, second = start(TestSource(7)), start(TestSource(7)), start(TestSource(8))
    train_until(uninterrupted, 9)
    train_until(first, 4)
    second.load_state_dict(first.state_dict())
    train_until(second, 9)
    assert torch.allclose(weights(uninterrupted), weights(second), atol=1e-5)
    secret = start(None)
    train_until(secret, 4)
    resumed = start(None)
    resumed.load_state_dict(secret.state_dict())
    train_until(resumed, 5)
    assert [first for first, _ in resumed._keys.pairs] == [0, 4]
    old, new = secret._noise_stream(), resumed._noise_stream()
    assert old is not None
    assert new is not None
    assert torch.equal(old(3), new(3))
    assert not torch.equal(old(5), new(5))


@pytest.mark.parametrize("sampling", [ShuffledEpochs(8), BallsInBins(8)], ids=repr)
def test_an_epoch_keeps_its_order_under_a_new_key(sampling: Any) -> None:
    x, y = sums_data()

    def start() -> PrivateTraining:
        network = sums_model()
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        settings: dict[str, Any] = {"sampling": sampling, "noise_multiplier": 1.0, "delta": 1e-3, "num_steps": 10}
        return hush.privatize(network, optimizer, (x, y), **settings)

    private = start()
    seen = [private._batches.sample(step) for step in range(3)]
    for inputs, targets in private.loader:
        private.step(nn.functional.cross_entropy(private.model(inputs), targets, reduction="none"))
        if private.steps_taken == 3:
            break
    resumed = start()
    resumed.load_state_dict(private.state_dict())
    seen += [resumed._batches.sample(step) for step in range(3, 5)]
    assert sorted(np.concatenate(seen).tolist()) == list(range(SUMS_COUNT))
    assert [first for first, _ in resumed._keys.pairs] == [0, 3]
    # All 40 are in the same batches by chance with probability 8!^5 / 40! = 1e-25, or 5^-40.
    later = [[session._batches.sample(step) for step in range(5, 10)] for session in (resumed, private)]
    same = [np.array_equal(*samples) for samples in zip(*later, strict=True)]
    assert not all(same), "the next epoch is a new one"
