"""AdamBC under noise, and torch's optimizers and learning-rate schedulers in a private run."""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import lr_scheduler

from hush.errors import InvalidArgument
from hush.randomness import TestSource
from hush.training import AdamBC, Adaptive, Flat, PrivateTraining, privatize
from training.loops import network, train, weights

# Standard deviations of a mean of 9,000 or more averages of squares of noise. Such a mean is at most as skewed as a
# chi-squared variable with 9,000 degrees of freedom, which deviates so far with probability 3e-9. Broken twins deviate
# by more than 20 standard deviations.
FALSE_ALARM = 6.0


def labelled_data(count: int = 300) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    x = torch.randn(count, 6)
    return x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long()


def run(model: nn.Module, optimizer: Any, seed: int = 5, **settings: Any) -> PrivateTraining:
    chosen = {"noise_multiplier": 1.0, "delta": 1e-5, "num_steps": 6, "batch_size": 40} | settings
    return privatize(model, optimizer, labelled_data(), source=TestSource(seed), **chosen)


def on_noise(assumed: float, true: float = 0.3, steps: int = 30) -> float:
    """Return the mean of the corrected second moment on pure noise, in standard deviations."""
    noise = np.random.default_rng(4)
    param = nn.Parameter(torch.zeros(20_000))
    optimizer = AdamBC([param], lr=0.1, betas=(0.9, 0.9))
    optimizer.noise_stddev = assumed
    for _ in range(steps):
        param.grad = torch.from_numpy(noise.normal(0, true, len(param))).float()
        optimizer.step()
    return corrected(optimizer, param, 0.9) / (true**2 * spread(0.9, steps) / math.sqrt(len(param)))


def corrected(optimizer: AdamBC, param: Tensor, beta: float) -> float:
    state = optimizer.state[param]
    return float((state["exp_avg_sq"].double() - state["noise_variance"]).mean()) / (1 - beta ** state["step"])


def spread(beta: float, steps: int) -> float:
    """The standard deviation of an average of squares of noise of variance 1, from its weights."""
    shares = (1 - beta) * beta ** np.arange(steps) / (1 - beta**steps)
    return math.sqrt(2 * float(np.square(shares).sum()))


def test_the_corrected_second_moment_of_noise_is_zero() -> None:
    assert abs(on_noise(assumed=0.3)) < FALSE_ALARM


@pytest.mark.parametrize("assumed", [0.0, 0.3 * 0.97, 0.3 * 1.03])
def test_a_wrong_correction_is_noticed(assumed: float) -> None:
    """Broken twins: Adam, which corrects nothing, and noise levels that are 3 % too small or too large."""
    assert abs(on_noise(assumed=assumed)) > FALSE_ALARM


@pytest.mark.parametrize("clipping", [Flat(0.7), Adaptive(0.7)])
def test_a_private_run_sets_the_noise_level(clipping: Any) -> None:
    """Examples without gradients: the optimizer sees pure noise, of the level that the run announces."""
    model = nn.Linear(6, 1500)
    optimizer = AdamBC(model.parameters(), lr=1e-3, betas=(0.9, 0.9))
    private = run(model, optimizer, clipping=clipping, num_steps=10)
    levels = []
    for x, _ in private.loader:
        private.step(model(x).sum(1) * 0)
        levels.append(optimizer.noise_stddev)
    if isinstance(clipping, Flat):
        assert set(levels) == {0.7 * 1.0 / 40}
    else:
        assert len(set(levels)) == 10
    state, size = optimizer.state[model.weight], model.weight.numel()
    scale = max(level for level in levels if level is not None) ** 2 * spread(0.9, 10) / math.sqrt(size)
    assert abs(corrected(optimizer, model.weight, 0.9)) < FALSE_ALARM * scale
    uncorrected = float(state["exp_avg_sq"].mean()) / (1 - 0.9**10)
    assert uncorrected > FALSE_ALARM * scale, "a broken twin, without correction"


def reference_adambc(
    grads: list[NDArray[Any]], noise: list[float], lr: float, betas: tuple[float, float], eps: float, floor: float
) -> NDArray[Any]:
    first, second = betas
    w, m, v, n = np.ones_like(grads[0]), 0.0, 0.0, 0.0
    for step, (g, s) in enumerate(zip(grads, noise, strict=True), 1):
        m, v, n = (b * old + (1 - b) * new for b, old, new in ((first, m, g), (second, v, g**2), (second, n, s**2)))
        level = n / (1 - second**step)
        smallest = max(eps**2, floor**2 * level * spread(second, step))
        w = w - lr * m / (1 - first**step) / np.sqrt(np.maximum(v / (1 - second**step) - level, smallest))
    return np.asarray(w)


@pytest.mark.parametrize("floor", [0.0, 1.0, 3.0])
def test_adambc_follows_the_paper(floor: float) -> None:
    rng = np.random.default_rng(1)
    grads = [rng.normal(0.1, 0.2, 50) for _ in range(8)]
    noise = [0.2, 0.2, 0.1, 0.1, 0.0, 0.3, 0.2, 0.2]
    param = nn.Parameter(torch.ones(50, dtype=torch.float64))
    optimizer = AdamBC([param], lr=0.01, betas=(0.8, 0.95), eps=1e-2, floor=floor)
    for grad, level in zip(grads, noise, strict=True):
        param.grad, optimizer.noise_stddev = torch.from_numpy(grad), level
        optimizer.step()
    expected = reference_adambc(grads, noise, 0.01, (0.8, 0.95), 1e-2, floor)
    assert np.allclose(param.detach().numpy(), expected, rtol=1e-10)


def test_without_noise_it_is_adam() -> None:
    """Or AdamW, with weight decay. Only eps differs: the smallest divisor here, an addend there."""
    models = [network(), network()]
    ours = AdamBC(models[0].parameters(), lr=0.01, weight_decay=0.1)
    ours.noise_stddev = 0.0
    for model, optimizer in zip(models, (ours, torch.optim.AdamW(models[1].parameters(), 0.01, weight_decay=0.1))):  # noqa: B905
        for _ in range(5):
            optimizer.zero_grad()
            F.cross_entropy(model(labelled_data()[0]), labelled_data()[1]).backward()
            optimizer.step()
    assert torch.allclose(weights(models[0]), weights(models[1]), atol=1e-5)


def test_an_unknown_noise_level_is_refused() -> None:
    model = network()
    optimizer = AdamBC(model.parameters())
    F.cross_entropy(model(labelled_data()[0]), labelled_data()[1]).backward()
    with pytest.raises(InvalidArgument, match="^noise_stddev=None"):
        optimizer.step()
    optimizer.noise_stddev = math.nan
    with pytest.raises(InvalidArgument, match="^noise_stddev=nan"):
        optimizer.step()
    optimizer.noise_stddev = 0.1
    optimizer.step()
    with pytest.raises(InvalidArgument, match="^noise_stddev=None"):
        copy.deepcopy(optimizer).step()


@pytest.mark.parametrize("wrong", [{"lr": -1.0}, {"betas": (0.9, 1.0)}, {"eps": 0.0}, {"weight_decay": math.nan}])
def test_settings_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=f"^{next(iter(wrong))}="):
        AdamBC(network().parameters(), **wrong)


def test_a_resumed_run_is_exact() -> None:
    def begin(seed: int) -> PrivateTraining:
        model = network()
        return run(model, AdamBC(model.parameters(), lr=0.01), seed)

    uninterrupted = train(begin(5))
    stored = io.BytesIO()
    torch.save(train(begin(5), steps=3).state_dict(), stored)
    stored.seek(0)
    second = begin(99)
    second.load_state_dict(torch.load(stored, weights_only=False))
    assert torch.equal(weights(train(second).model), weights(uninterrupted.model))


def test_adambc_learns() -> None:
    """From 30 other starts, and with other noise, the loss falls to 0.08 +- 0.02 of its first value.

    That is 30 standard deviations from the threshold.
    """
    model = network(width=32)
    private = run(model, AdamBC(model.parameters(), lr=0.05), num_steps=60, noise_multiplier=0.5, batch_size=100)
    x, y = labelled_data()
    with torch.no_grad():
        before = F.cross_entropy(model(x), y).item()
    train(private)
    with torch.no_grad():
        assert F.cross_entropy(model(x), y).item() < 0.75 * before


def test_momentum_is_torchs_on_noisy_gradients() -> None:
    """Apply the recursion by hand to the noisy gradients that SGD saw."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    seen: list[Tensor] = []
    start = weights(model)
    optimizer.register_step_pre_hook(
        lambda *_: seen.append(torch.cat([param.grad.flatten() for param in model.parameters()]))  # type: ignore[union-attr]
    )
    train(run(model, optimizer))
    velocity, expected = torch.zeros_like(start), start
    for grad in seen:
        velocity = 0.9 * velocity + grad
        expected = expected - 0.1 * (grad + 0.9 * velocity)
    assert len(seen) == 6
    assert torch.allclose(weights(model), expected, atol=1e-6)


SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "step": lambda optimizer: lr_scheduler.StepLR(optimizer, 2, gamma=0.3),
    "one cycle": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, max_lr=0.3, total_steps=8),
    "cosine": lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, T_max=6),
    "warm-up": lambda optimizer: lr_scheduler.SequentialLR(
        optimizer,
        [lr_scheduler.LinearLR(optimizer, 0.1, total_iters=2), lr_scheduler.ExponentialLR(optimizer, 0.9)],
        [2],
    ),
}


@pytest.mark.parametrize("kind", [torch.optim.SGD, AdamBC])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_schedulers_work_as_without_privacy(kind: Any, scheduler: str) -> None:
    """A private run uses the same learning rates as an ordinary loop."""
    rates = []
    for is_private in (False, True):
        model = network()
        optimizer = kind(model.parameters(), lr=0.1)
        schedule, used = SCHEDULERS[scheduler](optimizer), []
        if is_private:
            private = run(model, optimizer)
            train(private, after_step=lambda: (used.append(optimizer.param_groups[0]["lr"]), schedule.step()))  # type: ignore[func-returns-value]  # noqa: B023
        else:
            if isinstance(optimizer, AdamBC):
                optimizer.noise_stddev = 0.0
            for _ in range(6):
                optimizer.step()
                used.append(optimizer.param_groups[0]["lr"])
                schedule.step()
        rates.append(used)
    assert rates[0] == rates[1]
    assert len(set(rates[0])) > 1


def test_a_learning_rate_of_zero_changes_nothing() -> None:
    model = network()
    optimizer = AdamBC(model.parameters(), lr=0.1)
    schedule = lr_scheduler.StepLR(optimizer, 3, gamma=0.0)
    private, history = run(model, optimizer), []
    train(private, after_step=lambda: (schedule.step(), history.append(weights(model))))  # type: ignore[func-returns-value]
    assert not torch.equal(history[1], history[2])
    assert torch.equal(history[2], history[5])
