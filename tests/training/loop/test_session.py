"""A private run, step by step: its cost, its noise, what it refuses, and what it leaves behind."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hush.accounting import epsilon as accounted
from hush.errors import Unsupported
from hush.training import Full, PrivateTraining, looped_sum, privatize
from hush.training.noise.integer_gaussian import integer_gaussian
from training.loops import (
    batch_run,
    data,
    linear_data,
    linear_run,
    network,
    noisy_gradients,
    quiet_run,
    run,
    train,
    weights,
)


def test_a_run_costs_as_much_as_the_accountant_says() -> None:
    private = train(run())
    expected = accounted(noise_multiplier=1.0, sampling_rate=40 / 300, num_steps=6, delta=1e-5)
    assert private.guarantee().epsilon == pytest.approx(expected)
    assert private.steps_taken == 6
    assert "test randomness" in private.guarantee().assumptions


def test_a_run_meets_its_target_and_stops() -> None:
    private = train(run(noise_multiplier=None, epsilon=2.0, epochs=3, num_steps=None))
    assert 1.999 < private.guarantee().epsilon <= 2.0
    assert list(private.loader) == []


def test_a_run_stops_before_it_overspends() -> None:
    private = train(run(epsilon=4.0, noise_multiplier=1.0, num_steps=1000))
    assert private.guarantee().epsilon <= 4
    more = accounted(noise_multiplier=1.0, sampling_rate=40 / 300, num_steps=private.steps_taken + 1, delta=1e-5)
    assert more > 4


def test_nothing_is_spent_before_the_first_step() -> None:
    assert run().guarantee().epsilon == 0


@pytest.mark.parametrize("physical", [7, 16, 64, 300])
def test_the_physical_batch_changes_nothing(physical: int) -> None:
    reference = weights(train(run(physical_batch_size=40)))
    assert torch.allclose(weights(train(run(physical_batch_size=physical))), reference, atol=1e-5)


def test_the_update_is_the_noisy_clipped_sum_over_the_expected_batch() -> None:
    """One step by hand. The divisor is the expected batch size, whatever the sample's size."""
    # Of eight runs, the first whose sample is not of the expected size. A sample is of that size with probability 7 %.
    runs = (run(seed, num_steps=1, clip_norm=0.3, batch_size=40) for seed in range(8))
    private = next(candidate for candidate in runs if len(candidate._batches.sample(0)) != 40)
    before = weights(private)
    sample = private._batches.sample(0)
    x, y = data()
    expected = looped_sum(
        copy.deepcopy(private.model),
        (x[sample], y[sample]),
        lambda module, batch: F.cross_entropy(module(batch[0]), batch[1], reduction="none"),
        clip_norm=0.3,
    )
    grid = private._grid(0, 0.3)
    noise = grid.spacing * integer_gaussian(private._key_for("noise"), 0, before.numel(), stddev=grid.stddev)
    total = torch.cat([gradient.flatten() for gradient in expected.gradients.values()]) + noise
    train(private)
    assert len(sample) != 40
    assert torch.allclose(weights(private), (before - 0.1 * total / 40).float(), atol=1e-4)


def test_an_empty_sample_still_gets_noise() -> None:
    private = run(num_steps=40, batch_size=1, count=300, physical_batch_size=20)
    sizes = [len(private._batches.sample(step)) for step in range(40)]
    # No sample of 40 is empty with probability (1 - 1 / e)^40 = 1.1e-8; one exceeds 20 with at most 40 * 1e-20.
    assert 0 in sizes
    before = weights(private)
    for number, (x, y) in enumerate(private.loader):
        private.step(F.cross_entropy(private.model(x), y, reduction="none"))
        if sizes[number] == 0:
            assert not torch.equal(weights(private), before)
        before = weights(private)


def test_evaluation_and_copies_are_ordinary() -> None:
    private = run()
    x, y = next(iter(private.loader))
    with torch.no_grad():
        plain = private.model(x)
    outputs = private.model(x)
    assert torch.allclose(plain, outputs)
    twin = copy.deepcopy(private.model)
    restored = pickle.loads(pickle.dumps(private.model))
    for model in (twin, restored):
        F.cross_entropy(model(x), y).backward()
        assert all(param.grad is not None for param in model.parameters()), "autograd's own gradients"
    private.step(F.cross_entropy(outputs, y, reduction="none"))
    assert type(private.model) is nn.Sequential
    assert type(private.model[0]) is nn.Linear
    assert set(private.model.state_dict()) == set(network().state_dict())


def test_closing_detaches_the_model() -> None:
    private = train(run())
    model = private.close()
    assert "forward" not in model[0].__dict__  # type: ignore[index]
    again = privatize(
        model, torch.optim.SGD(model.parameters(), lr=0.1), data(), noise_multiplier=1.0, delta=1e-5, num_steps=1
    )
    train(again)


def test_a_model_is_privatized_once() -> None:
    private = run()
    with pytest.raises(Unsupported, match="once"):
        run(model=private.model)


def test_a_parameter_frozen_during_a_run_stays() -> None:
    private = run()
    train(private, 3)
    frozen = private.model[0].weight  # type: ignore[index]
    frozen.requires_grad_(False)
    frozen.grad = None
    before = frozen.detach().clone()
    train(private)
    assert torch.equal(frozen, before)
    assert private.steps_taken == 6


def test_a_run_explains_itself() -> None:
    text = train(run()).guarantee().explain()
    assert "test randomness" in text
    assert "sampling rate" in text


def test_steps_free_their_memory() -> None:
    """A tap that stays alive keeps its graph alive, and with it the memory of every step."""
    private = run()
    gc.disable()
    try:
        for x, y in private.loader:
            losses = F.cross_entropy(private.model(x), y, reduction="none")
            taps = [weakref.ref(tap) for tap in private._sums.engine._recorder.layout.taps]
            assert taps
            private.step(losses)
            del losses
            assert all(tap() is None for tap in taps)
    finally:
        gc.enable()


def zeroed() -> nn.Module:
    model = nn.Linear(3, 1, bias=False)
    nn.init.zeros_(model.weight)
    return model


def step_all(private: PrivateTraining, count: int) -> None:
    for (x,) in private.loader:
        if private.step(private.model(x).squeeze(1)).complete and private.steps_taken >= count:
            break


def test_an_abandoned_step_is_not_counted_twice() -> None:
    """A new loop once repeated the step on top of the sums of the old one."""
    model = zeroed()
    private = quiet_run(model, (torch.full((8, 3), 100.0),), physical_batch_size=2)
    steps = noisy_gradients(private.optimizer)
    for served, (x,) in enumerate(private.loader, 1):
        private.step(private.model(x).squeeze(1))
        if served == 3:
            break
    for (x,) in private.loader:
        if private.step(private.model(x).squeeze(1)).complete:
            break
    assert float(steps[0][0].norm()) * 8 <= 8.1  # noise of 1e-3 is negligible


def test_old_gradients_are_not_applied() -> None:
    """An earlier gradient of a parameter that was then frozen once went through the optimizer without noise."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    model(torch.randn(9, 3)).sum().backward()
    frozen = model[0].weight
    frozen.requires_grad_(False)
    before = frozen.detach().clone()
    step_all(quiet_run(model, (torch.randn(20, 3),)), 1)
    assert torch.equal(frozen, before)


def test_another_backward_has_no_effect() -> None:
    torch.manual_seed(4)

    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 1), nn.Linear(3, 1)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return self.a(x).squeeze(1), self.b(x).squeeze(1)

    model = Branches()
    private = quiet_run(model, (torch.randn(8, 3),), lr=0.0)
    steps = noisy_gradients(private.optimizer)
    for number, (x,) in enumerate(private.loader):
        losses, other = private.model(x)
        if number:
            (other.sum() ** 2).backward()
        private.step(losses)
    assert float(steps[-1][2].abs().max()) < 1e-3, "noise only: of standard deviation 1e-3 / 8"


def test_sums_over_physical_batches_are_in_double_precision() -> None:
    """One example could push a sum in fp32 to where thousands of others are rounded away (Casacuberta et al. 2022)."""
    private = batch_run(nn.Linear(6, 3), physical_batch_size=3, batch_size=None)
    for served, (x, y) in enumerate(private.loader):
        private.step(F.cross_entropy(private.model(x), y, reduction="none"))
        if served == 2:
            break
    assert {total.dtype for total in private._totals.values()} == {torch.float64}


def test_runs_are_not_copied() -> None:
    private = batch_run(nn.Linear(6, 3))
    with pytest.raises(Unsupported, match="noise twice"):
        copy.deepcopy(private)
    with pytest.raises(Unsupported, match="noise twice"):
        pickle.dumps(private)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e25])
def test_extreme_values_do_not_stop_a_run(value: float) -> None:
    x, y = linear_data()
    x[0] = value
    private = train(linear_run((x, y), sampling=Full()))
    assert all(bool(param.isfinite().all()) for param in private.model.parameters())


def test_stopping_early_is_an_assumption() -> None:
    private = linear_run(sampling=Full())  # a Poisson sample may take two physical batches, and this stops after one
    for x, y in private.loader:
        private.step(F.cross_entropy(private.model(x), y, reduction="none"))
        break
    assumption = "the run was not stopped because of what it had learned"
    assert assumption in private.guarantee().assumptions
    assert assumption not in train(linear_run()).guarantee().assumptions


def test_a_parameter_frozen_between_forward_and_step_stays() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    private = linear_run(model=model)
    x, y = next(iter(private.loader))
    losses = F.cross_entropy(private.model(x), y, reduction="none")
    model[0].weight.requires_grad_(False)
    before = model[0].weight.clone()
    private.step(losses)
    assert torch.equal(before, model[0].weight)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # Python 3.12 and later: other threads may exist
def test_a_forked_process_cannot_continue() -> None:
    private = linear_run(sampling=Full())
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            next(iter(private.loader))
            os.write(write, b"continued")
        except Unsupported as error:
            os.write(write, str(error).encode()[:9])
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    message = os.read(read, 100)
    os.close(read)
    assert message == b"a run in "
