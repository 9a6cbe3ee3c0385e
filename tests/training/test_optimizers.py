"""Optimizers under noise, learning-rate schedulers, and averages of weights."""

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
from hush.training import (
    AdamBC,
    Adaptive,
    Flat,
    Lamb,
    MovingAverage,
    PrivateTraining,
    TailAverage,
    freeze_except,
    privatize,
)

# Standard deviations of a mean of 9,000 or more averages of squares of noise. No such mean is more skewed than one of
# chi-squared law with 9,000 degrees of freedom, which is so far off in 3e-9 of the times. Broken twins are more than 20
# standard deviations off.
FALSE_ALARM = 6.0


def network(width: int = 8) -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 3))


def data(count: int = 300) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    x = torch.randn(count, 6)
    return x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long()


def run(model: nn.Module, optimizer: Any, seed: int = 5, **settings: Any) -> PrivateTraining:
    chosen = {"noise_multiplier": 1.0, "delta": 1e-5, "num_steps": 6, "batch_size": 40} | settings
    return privatize(model, optimizer, data(), source=TestSource(seed), **chosen)


def train(
    private: PrivateTraining, after_step: Callable[[], None] = lambda: None, steps: int | None = None
) -> PrivateTraining:
    for x, y in private.loader:
        if private.step(F.cross_entropy(private.model(x), y, reduction="none")).complete:
            after_step()
        if steps is not None and private.steps_taken >= steps:
            break
    return private


def weights(model: nn.Module) -> Tensor:
    return torch.cat([param.detach().flatten() for param in model.parameters()])


def on_noise(told: float, true: float = 0.3, steps: int = 30) -> float:
    """Return the mean of the corrected second moment on nothing but noise, in standard deviations."""
    noise = np.random.default_rng(4)
    param = nn.Parameter(torch.zeros(20_000))
    optimizer = AdamBC([param], lr=0.1, betas=(0.9, 0.9))
    optimizer.noise_stddev = told
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
    assert abs(on_noise(told=0.3)) < FALSE_ALARM


@pytest.mark.parametrize("told", [0.0, 0.3 * 0.97, 0.3 * 1.03])
def test_a_broken_twin_is_refuted(told: float) -> None:
    """Adam, which corrects nothing; and corrections of 3 % too little and too much."""
    assert abs(on_noise(told=told)) > FALSE_ALARM


@pytest.mark.parametrize("clipping", [Flat(0.7), Adaptive(0.7)])
def test_a_private_run_tells_the_noise_that_there_is(clipping: Any) -> None:
    """Examples without gradients: what the optimizer sees is noise, and of the level that it was told."""
    model = nn.Linear(6, 1500)
    optimizer = AdamBC(model.parameters(), lr=1e-3, betas=(0.9, 0.9))
    private = run(model, optimizer, clipping=clipping, num_steps=10)
    told = []
    for x, _ in private.loader:
        private.step(model(x).sum(1) * 0)
        told.append(optimizer.noise_stddev)
    if isinstance(clipping, Flat):
        assert set(told) == {0.7 * 1.0 / 40}
    else:
        assert len(set(told)) == 10
    state, size = optimizer.state[model.weight], model.weight.numel()
    scale = max(each for each in told if each is not None) ** 2 * spread(0.9, 10) / math.sqrt(size)
    assert abs(corrected(optimizer, model.weight, 0.9)) < FALSE_ALARM * scale
    uncorrected = float(state["exp_avg_sq"].mean()) / (1 - 0.9**10)
    assert uncorrected > FALSE_ALARM * scale, "the broken twin"


def reference_adambc(
    grads: list[NDArray[Any]], noise: list[float], lr: float, betas: tuple[float, float], eps: float, floor: float
) -> NDArray[Any]:
    first, second = betas
    w, m, v, n = np.ones_like(grads[0]), 0.0, 0.0, 0.0
    for step, (g, s) in enumerate(zip(grads, noise, strict=True), 1):
        m, v, n = (b * old + (1 - b) * new for b, old, new in ((first, m, g), (second, v, g**2), (second, n, s**2)))
        level = n / (1 - second**step)
        least = max(eps**2, floor**2 * level * spread(second, step))
        w = w - lr * m / (1 - first**step) / np.sqrt(np.maximum(v / (1 - second**step) - level, least))
    return np.asarray(w)


@pytest.mark.parametrize("floor", [0.0, 1.0, 3.0])
def test_adambc_is_the_papers(floor: float) -> None:
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
    """But for eps, which is a least divisor here, and an addend there; and AdamW where weights decay."""
    models = [network(), network()]
    ours = AdamBC(models[0].parameters(), lr=0.01, weight_decay=0.1)
    ours.noise_stddev = 0.0
    for model, optimizer in zip(models, (ours, torch.optim.AdamW(models[1].parameters(), 0.01, weight_decay=0.1))):  # noqa: B905
        for _ in range(5):
            optimizer.zero_grad()
            F.cross_entropy(model(data()[0]), data()[1]).backward()
            optimizer.step()
    assert torch.allclose(weights(models[0]), weights(models[1]), atol=1e-5)


def test_who_was_not_told_refuses() -> None:
    model = network()
    optimizer = AdamBC(model.parameters())
    F.cross_entropy(model(data()[0]), data()[1]).backward()
    with pytest.raises(InvalidArgument, match="^noise_stddev=None"):
        optimizer.step()
    optimizer.noise_stddev = math.nan
    with pytest.raises(InvalidArgument, match="^noise_stddev=nan"):
        optimizer.step()
    optimizer.noise_stddev = 0.1
    optimizer.step()
    with pytest.raises(InvalidArgument, match="^noise_stddev=None"):
        copy.deepcopy(optimizer).step()


@pytest.mark.parametrize("kind", [AdamBC, Lamb])
@pytest.mark.parametrize("wrong", [{"lr": -1.0}, {"betas": (0.9, 1.0)}, {"eps": 0.0}, {"weight_decay": math.nan}])
def test_settings_are_checked(kind: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=f"^{next(iter(wrong))}="):
        kind(network().parameters(), **wrong)


def reference_lamb(w: NDArray[Any], grads: list[NDArray[Any]], lr: float, decay: float) -> NDArray[Any]:
    m, v = np.zeros_like(w), np.zeros_like(w)
    for step, g in enumerate(grads, 1):
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g**2
        r = m / (1 - 0.9**step) / (np.sqrt(v / (1 - 0.99**step)) + 1e-6) + decay * w
        own, other = np.linalg.norm(w), np.linalg.norm(r)
        w = w - lr * (own / other if own > 0 and other > 0 else 1.0) * r
    return w


@pytest.mark.parametrize("start", [0.0, 1.5])
def test_lamb_is_the_papers(start: float) -> None:
    rng = np.random.default_rng(2)
    grads = [rng.normal(0.1, 0.2, (5, 4)) for _ in range(6)]
    param = nn.Parameter(torch.full((5, 4), start, dtype=torch.float64))
    optimizer = Lamb([param], lr=0.05, betas=(0.9, 0.99), weight_decay=0.02)
    for grad in grads:
        param.grad = torch.from_numpy(grad)
        optimizer.step()
    expected = reference_lamb(np.full((5, 4), start), grads, 0.05, 0.02)
    assert np.allclose(param.detach().numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("kind", [AdamBC, Lamb])
def test_a_run_with_these_goes_on_exactly(kind: Any) -> None:
    def begin(seed: int) -> PrivateTraining:
        model = network()
        return run(model, kind(model.parameters(), lr=0.01), seed)

    whole = train(begin(5))
    stored = io.BytesIO()
    torch.save(train(begin(5), steps=3).state_dict(), stored)
    stored.seek(0)
    second = begin(99)
    second.load_state_dict(torch.load(stored, weights_only=False))
    assert torch.equal(weights(train(second).model), weights(whole.model))


@pytest.mark.parametrize("kind", [AdamBC, Lamb])
def test_they_learn(kind: Any) -> None:
    """From 30 other starts, and with other noise, the loss falls to 0.08 +- 0.02 (AdamBC) or 0.17 +- 0.05 of it (Lamb).

    That is 11 standard deviations or more from the threshold.
    """
    model = network(width=32)
    private = run(model, kind(model.parameters(), lr=0.05), num_steps=60, noise_multiplier=0.5, batch_size=100)
    x, y = data()
    with torch.no_grad():
        before = F.cross_entropy(model(x), y).item()
    train(private)
    with torch.no_grad():
        assert F.cross_entropy(model(x), y).item() < 0.75 * before


def test_momentum_is_torchs_on_the_noisy_sums() -> None:
    """The noisy gradients that SGD saw, through the recursion by hand."""
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


@pytest.mark.parametrize("kind", [torch.optim.SGD, AdamBC, Lamb])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_schedulers_do_what_they_do_elsewhere(kind: Any, scheduler: str) -> None:
    """The same learning rates as without hush; and steps are as large as they say."""
    rates = []
    for is_private in (False, True):
        model = network()
        optimizer = kind(model.parameters(), lr=0.1)
        schedule, used = SCHEDULERS[scheduler](optimizer), []
        if is_private:
            private = run(model, optimizer)
            train(private, lambda: (used.append(optimizer.param_groups[0]["lr"]), schedule.step()))  # type: ignore[func-returns-value]  # noqa: B023
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


def test_a_rate_of_zero_leaves_weights_where_they_are() -> None:
    model = network()
    optimizer = AdamBC(model.parameters(), lr=0.1)
    schedule = lr_scheduler.StepLR(optimizer, 3, gamma=0.0)
    private, kept = run(model, optimizer), []
    train(private, lambda: (schedule.step(), kept.append(weights(model))))  # type: ignore[func-returns-value]
    assert not torch.equal(kept[1], kept[2])
    assert torch.equal(kept[2], kept[5])


def averaged(average: Any) -> Tensor:
    return weights(average.copy())


def test_the_moving_average_is_the_one_by_hand() -> None:
    model = network()
    average, seen = MovingAverage(model, decay=0.8), []
    assert torch.equal(averaged(average), weights(model)), "before the first step: the weights"

    def after_step() -> None:
        average.update()
        seen.append(weights(model).double())

    train(run(model, torch.optim.SGD(model.parameters(), lr=0.5)), after_step)
    shares = 0.2 * 0.8 ** np.arange(5, -1, -1) / (1 - 0.8**6)
    assert sum(shares) == pytest.approx(1)
    expected = sum(float(share) * each for share, each in zip(shares, seen, strict=True))
    assert torch.allclose(averaged(average).double(), expected, atol=1e-6)  # type: ignore[arg-type]
    assert torch.equal(weights(model).double(), seen[-1]), "the model itself goes on as it is"


def test_the_tail_average_is_the_one_by_hand() -> None:
    model = network()
    average, seen = TailAverage(model, since=2), []

    def after_step() -> None:
        average.update()
        seen.append(weights(model))
        if len(seen) <= 2:
            assert torch.equal(averaged(average), seen[-1])

    train(run(model, torch.optim.SGD(model.parameters(), lr=0.5)), after_step)
    expected = torch.stack(seen[2:]).mean(0)
    assert torch.allclose(averaged(average), expected, atol=1e-6)
    average.apply()
    assert torch.equal(weights(model), averaged(average))


def test_a_copy_is_an_ordinary_model_with_the_buffers_of_now() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8).eval(), nn.Linear(8, 3)).eval()
    freeze_except(model, "0", "2")
    average = MovingAverage(model, decay=0.9)
    train(run(model, torch.optim.SGD(model.parameters(), lr=0.5)), average.update)
    model[1].running_mean.fill_(7.0)  # type: ignore[union-attr, operator]
    twin = average.copy()
    assert float(twin[1].running_mean[0]) == 7.0  # type: ignore[index]
    assert not twin.training
    F.cross_entropy(twin(data()[0]), data()[1]).backward()
    assert twin[0].weight.grad is not None  # type: ignore[index]


@pytest.mark.parametrize(
    "kind", [lambda model: MovingAverage(model, decay=0.7), lambda model: TailAverage(model, since=2)]
)
def test_averages_go_on_with_their_run(kind: Callable[[nn.Module], Any]) -> None:
    def begin(seed: int) -> tuple[PrivateTraining, Any]:
        model = network()
        return run(model, torch.optim.SGD(model.parameters(), lr=0.5), seed), kind(model)

    whole, average = begin(5)
    train(whole, average.update)
    first, early = begin(5)
    train(first, early.update, steps=3)
    stored = {"run": first.state_dict(), "average": early.state_dict()}
    train(first, early.update, steps=4)
    late = early.state_dict()
    second, resumed = begin(99)
    with pytest.raises(InvalidArgument, match="^weights="):
        resumed.load_state_dict(stored["average"])  # before the run
    second.load_state_dict(stored["run"])
    with pytest.raises(InvalidArgument, match="^weights="):
        resumed.load_state_dict(late)  # it saw a step that this run does not count
    resumed.load_state_dict(stored["average"])
    train(second, resumed.update)
    assert torch.equal(averaged(resumed), averaged(average))


def test_averages_refuse_what_they_do_not_know() -> None:
    model = network()
    for wrong in (0.0, 1.0, math.nan):
        with pytest.raises(InvalidArgument, match="^decay="):
            MovingAverage(model, decay=wrong)
    with pytest.raises(InvalidArgument, match="^since="):
        TailAverage(model, since=-1)
    with pytest.raises(InvalidArgument, match="^kind="):
        TailAverage(model).load_state_dict(MovingAverage(model, decay=0.5).state_dict())
    freeze_except(model, "2")
    average = TailAverage(model)
    model.requires_grad_(True)
    with pytest.raises(InvalidArgument, match=r"^model=.*0\.bias"):
        average.update()


def test_averages_of_half_precision_are_in_single_precision() -> None:
    model = nn.Linear(1, 1, bias=False, dtype=torch.bfloat16)
    average = MovingAverage(model, decay=0.999)
    for value in [1.0] * 500 + [2.0] * 100:
        nn.init.constant_(model.weight, value)
        average.update()
    share = (1 - 0.999**100) / (1 - 0.999**600)
    assert average.copy().weight.item() == pytest.approx(1 + share, rel=0.01)  # type: ignore[operator, union-attr]
