"""Clipping: contributions as long as the papers say, never longer than the clip norm; adaptive clip norms in a run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hush.errors import InvalidArgument
from hush.randomness import TestSource
from hush.training import (
    Adaptive,
    Automatic,
    ByName,
    Clipping,
    Flat,
    Global,
    Normalized,
    PerLayer,
    PrivateTraining,
    clipped_sum,
    privatize,
)
from hush.training.noise.integer_gaussian import integer_gaussian
from hush.training.per_example.clipped_sum import ClippedSum
from hush.training.per_example.engine import GradientEngine
from hush.training.plan.clipping import MovedGroups, Together
from training.loops import noisy_gradients
from training.models import BATCH, MODELS, losses

CLIPPINGS: dict[str, Any] = {
    "flat": Flat,
    "adaptive": Adaptive,
    "automatic": Automatic,
    "normalized": Normalized,
    "global": Global,
    "global, scaled": lambda clip_norm, groups: Global(clip_norm, groups, threshold=7 * clip_norm),
}
GROUPS: dict[str, Any] = {
    "together": Together(),
    "per layer": PerLayer(),
    "per layer, by size": PerLayer(by_size=True),
}
LAYERS = ["mlp", "conv2d", "embedding", "layer-norm", "tied", "four-times", "raw-parameter", "lstm", "attention-cross"]


def flat(gradients: dict[str, Tensor]) -> Tensor:
    return torch.cat([gradient.double().flatten() for gradient in gradients.values()])


def contribution(engine: GradientEngine, x: Tensor, clipping: Clipping, example: int) -> tuple[Tensor, float]:
    """Return an example's share of the sum, measured by leaving it out, and its norm before clipping."""
    sums = []
    for weights in (torch.ones(BATCH), torch.arange(BATCH) != example):
        with engine.batch(BATCH):
            engine.backward(losses(engine.model, x))
            clipped = engine.clipped_sum(clipping, weights.float())
            sums.append(flat(clipped.gradients))
    return sums[0] - sums[1], float(clipped.norms[example])


@pytest.mark.parametrize(("kind", "groups", "name"), list(product(CLIPPINGS, GROUPS, LAYERS)))
@pytest.mark.quick_cases(50)
def test_no_example_contributes_more_than_the_clip_norm(kind: str, groups: str, name: str) -> None:
    torch.manual_seed(4)
    model, x = MODELS[name]()
    engine = GradientEngine(model)
    for clip_norm in (0.05, 20.0):
        clipping = CLIPPINGS[kind](clip_norm, GROUPS[groups])
        assert float(contribution(engine, x, clipping, 2)[0].norm()) <= clip_norm


def expected_length(kind: str, norm: float, clip_norm: float) -> float:
    return {
        "flat": min(norm, clip_norm),
        "adaptive": min(norm, clip_norm),
        "automatic": norm * clip_norm / (norm + 0.01),
        "normalized": clip_norm,
        "global": norm if norm <= clip_norm else 0.0,
        "global, scaled": norm / 7 if norm <= 7 * clip_norm else 0.0,
    }[kind]


@pytest.mark.parametrize("kind", CLIPPINGS)
def test_contributions_are_as_long_as_the_papers_say(kind: str) -> None:
    model = nn.Linear(6, 3)
    with torch.no_grad():  # no random numbers: a norm must not happen to be a clip norm
        for param in model.parameters():
            param.copy_(torch.sin(torch.arange(1.0, param.numel() + 1)).view_as(param))
    x = torch.cos(torch.arange(6.0 * BATCH)).view(BATCH, 6) * torch.tensor([1e-4, 0.1, 1.0, 3.0, 100.0]).unsqueeze(1)
    engine = GradientEngine(model)
    for example, clip_norm in product(range(BATCH), (1.0, 3.0)):
        share, norm = contribution(engine, x, CLIPPINGS[kind](clip_norm, Together()), example)
        assert float(share.norm()) == pytest.approx(expected_length(kind, norm, clip_norm), rel=2e-3, abs=2e-3)


def test_groups_are_clipped_each_to_its_share() -> None:
    torch.manual_seed(6)
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))
    x = torch.randn(BATCH, 6) * 100
    engine = GradientEngine(model)
    expected_shares = {
        PerLayer(): (math.sqrt(0.5), math.sqrt(0.5)),
        PerLayer(by_size=True): (math.sqrt(28 / 43), math.sqrt(15 / 43)),
        ByName({"0.": 1, "": 3}): (0.5, math.sqrt(0.75)),
    }
    for groups, shares in expected_shares.items():
        with engine.batch(BATCH):
            engine.backward(losses(model, x) * 1e3)
            sums = engine.clipped_sum(Normalized(2.0, groups), (torch.arange(BATCH) == 1).float()).gradients
        for layer, share in zip(("0", "2"), shares, strict=True):
            norm = flat({key: gradient for key, gradient in sums.items() if key.startswith(layer)}).norm()
            assert float(norm) == pytest.approx(2 * share, rel=1e-3)


@pytest.mark.parametrize("kind", CLIPPINGS)
@pytest.mark.parametrize("groups", GROUPS)
def test_an_example_that_is_not_finite_contributes_nothing(kind: str, groups: str) -> None:
    torch.manual_seed(6)
    model, x = MODELS["transformer"]()
    factors = torch.ones(BATCH)
    factors[1] = torch.nan
    engine = GradientEngine(model)
    sums = []
    for loss_factors in (factors, torch.ones(BATCH)):
        with engine.batch(BATCH):
            engine.backward(losses(model, x) * loss_factors)
            weights = (torch.arange(BATCH) != 1).float() if loss_factors is not factors else None
            sums.append(flat(engine.clipped_sum(CLIPPINGS[kind](1.0, GROUPS[groups]), weights).gradients))
    assert torch.allclose(sums[0], sums[1], atol=1e-6)


@pytest.mark.parametrize("kind", CLIPPINGS)
def test_a_run_with_each_clipping(kind: str) -> None:
    torch.manual_seed(7)
    data = torch.randn(100, 6), torch.randint(0, 3, (100,))
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    settings: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-5, "num_steps": 3, "batch_size": 20}
    clipping = CLIPPINGS[kind](0.5, PerLayer())
    private = privatize(model, optimizer, data, clipping=clipping, source=TestSource(1), **settings)
    for x, y in private.loader:
        private.step(nn.functional.cross_entropy(private.model(x), y, reduction="none"))
    assert private.guarantee().epsilon > 0
    other = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))
    resumed = privatize(other, torch.optim.SGD(other.parameters(), lr=0.1), data, clip_norm=0.5, **settings)
    with pytest.raises(InvalidArgument, match="^plan="):
        resumed.load_state_dict(private.state_dict())


def adaptive_data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(8)
    return torch.randn(400, 6, generator=generator), torch.randint(0, 3, (400,), generator=generator)


def adaptive_run(seed: int, **settings: Any) -> PrivateTraining:
    torch.manual_seed(8)
    data = adaptive_data()
    model = nn.Linear(6, 3)
    chosen: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-5, "num_steps": 60, "batch_size": 100} | settings
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    return privatize(model, optimizer, data, source=TestSource(seed), **chosen)


def train(private: PrivateTraining, until: int = 10**9) -> list[float]:
    norms = []
    for x, y in private.loader:
        if private.step(nn.functional.cross_entropy(private.model(x), y, reduction="none")).complete:
            norms.append(private.clipping.clip_norm)
            if private.steps_taken >= until:
                break
    return norms


@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.9])
def test_the_clip_norm_finds_the_quantile(quantile: float) -> None:
    """The middle one of the last 40. With 30 other data, models and noises, its share is off by 0.02 at most, +- 0.015.

    That is 6.5 standard deviations or more from the threshold.
    """
    private = adaptive_run(3, clipping=Adaptive(0.5, quantile=quantile))
    clip_norm = statistics.median(train(private)[-40:])
    norms = clipped_sum(
        private.close(),
        adaptive_data(),
        lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none"),
        clip_norm=1.0,
    ).norms
    assert abs(float((norms <= clip_norm).float().mean()) - quantile) < 0.12


def test_noise_is_shared_between_sum_and_count() -> None:
    """Both together are one Gaussian release: squared distances over variances add up."""
    for count_noise in (None, 3.0, 0.6):
        plan = adaptive_run(1, clipping=Adaptive(2.0, count_noise=count_noise)).plan
        clipping = plan.clipping
        assert isinstance(clipping, Adaptive)
        count = clipping.noise_on_count(plan.noise_multiplier, plan.batch_size)
        assert plan.noise_on_sum(0) ** -2 + (0.5 / count) ** 2 == pytest.approx(plan.noise_multiplier**-2)
    with pytest.raises(InvalidArgument, match="^count_noise=0.5"):
        adaptive_run(1, clipping=Adaptive(2.0, count_noise=0.5))


def test_the_sum_gets_its_noise_at_the_clip_norm_of_the_step() -> None:
    private = adaptive_run(2, clipping=Adaptive(0.5, rate=1.0), num_steps=2)
    steps = noisy_gradients(private.optimizer)
    for x, _ in private.loader:
        clip_norm = private.clipping.clip_norm
        outputs = private.model(x)
        private.step((outputs * 0.0).sum(1))
        grid = private._grid(0, clip_norm)
        assert grid.stddev * grid.spacing == private.plan.noise_on_sum(0) * clip_norm
        noise = integer_gaussian(private._key_for("noise"), private.steps_taken - 1, 21, stddev=grid.stddev)
        expected_gradient = (noise * grid.spacing / 100).float()
        gradient = torch.cat([param_gradient.flatten() for param_gradient in steps[-1]])
        assert torch.allclose(gradient, expected_gradient, rtol=1e-4)
    # Of 100 +- 9 examples in each of both steps, counted with noise of 5, it would have to be half: 7 deviations less.
    assert private.clipping.clip_norm < 0.5, "nothing was clipped"


def test_adaptive_runs_resume() -> None:
    uninterrupted = adaptive_run(4, clipping=Adaptive(0.1), num_steps=8)
    norms = train(uninterrupted)
    first = adaptive_run(4, clipping=Adaptive(0.1), num_steps=8)
    train(first, 3)
    second = adaptive_run(9, clipping=Adaptive(0.1), num_steps=8)
    second.load_state_dict(first.state_dict())
    assert train(second) == norms[3:]


def sum_of(model: nn.Module, batch: tuple[Tensor, Tensor], clipping: Clipping) -> ClippedSum:
    engine = GradientEngine(model)
    engine.begin(len(batch[0]))
    engine.backward(nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none"))
    total = engine.clipped_sum(clipping)
    engine.detach()
    return total


def layered_run(seed: int, **settings: Any) -> PrivateTraining:
    """Two layers whose gradients differ in length by a factor of about 50."""
    torch.manual_seed(8)
    model = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3))
    with torch.no_grad():
        model[1].weight.mul_(0.02)
    chosen: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-5, "num_steps": 60, "batch_size": 200} | settings
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    return privatize(model, optimizer, adaptive_data(), source=TestSource(seed), **chosen)


def test_every_layer_finds_its_quantile() -> None:
    private = layered_run(3, clipping=Adaptive(0.5, PerLayer(), rate=0.4))
    history = []
    for x, y in private.loader:
        private.step(nn.functional.cross_entropy(private.model(x), y, reduction="none"))
        assert isinstance(private.clipping.groups, MovedGroups)
        history.append(private.clipping.groups.thresholds)
        # What a contribution is clipped to, and the noise is scaled to, is the length of all thresholds together.
        assert private.clipping.clip_norm == pytest.approx(math.hypot(*history[-1]))
    thresholds = [statistics.median(layer) for layer in zip(*history[-30:], strict=True)]
    assert thresholds[1] > 20 * thresholds[0]
    total = sum_of(private.close(), adaptive_data(), Flat(1.0, PerLayer()))
    assert total.group_norms is not None
    for norms, threshold in zip(total.group_norms, thresholds, strict=True):
        # Fixed key. The noise on a share is 0.07 in each of the 30 steps.
        assert abs(float((norms <= threshold).float().mean()) - 0.5) < 0.12


def test_moved_groups_resume() -> None:
    def thresholds(private: PrivateTraining, until: int = 99) -> list[Any]:
        train(private, until)
        return [private.clipping.clip_norm, private.clipping.groups]

    settings: dict[str, Any] = {"clipping": Adaptive(0.1, PerLayer()), "num_steps": 6}
    uninterrupted = thresholds(layered_run(4, **settings))
    first, second = layered_run(4, **settings), layered_run(9, **settings)
    thresholds(first, 3)
    second.load_state_dict(first.state_dict())
    assert thresholds(second) == uninterrupted


def test_layers_that_are_frozen_during_a_run_are_refused() -> None:
    private = layered_run(4, clipping=Adaptive(0.1, PerLayer()), num_steps=3)
    train(private, 1)
    private.model[0].requires_grad_(False)  # type: ignore[index]
    with pytest.raises(InvalidArgument, match="groups"):
        train(private)


@pytest.mark.parametrize("moved", [False, True])
def test_clipping_by_moved_groups_bounds_the_sum(*, moved: bool) -> None:
    clipping: Any = Adaptive(0.3, PerLayer())
    if moved:
        clipping = clipping.moved([0.0, 1.0], [0.6, 0.8]).moved([3.0, -2.0], [0.5, 0.8])
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3))
    for example in range(20):
        x, y = (tensor[example : example + 1] for tensor in adaptive_data())
        total = sum_of(model, (100 * x, y), clipping)
        length = torch.cat([value.flatten() for value in total.gradients.values()]).norm()
        assert float(length) <= clipping.clip_norm
        shares = clipping.groups.of({"0.weight": 24, "0.bias": 4, "1.weight": 12, "1.bias": 3})[1]
        for layer, share in enumerate(shares):
            parts = [value.flatten() for name, value in total.gradients.items() if name.startswith(str(layer))]
            assert float(torch.cat(parts).norm()) <= clipping.clip_norm * share


def test_numbers_are_checked() -> None:
    for wrong in (0.0, -1.0, math.nan, math.inf, 1e-13):
        with pytest.raises(InvalidArgument, match="^clip_norm="):
            Flat(wrong)
    with pytest.raises(InvalidArgument, match="^stability="):
        Automatic(stability=0.0)
    with pytest.raises(InvalidArgument, match="^threshold="):
        Global(threshold=-1.0)
    with pytest.raises(InvalidArgument, match="^groups="):
        Flat(groups="layers")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="^groups='0.weight'"):
        ByName({"1.": 1}).of({"0.weight": 3})
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    settings: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-5, "num_steps": 3}
    with pytest.raises(InvalidArgument, match="^clip_norm="):
        privatize(model, optimizer, (torch.randn(9, 3),), clip_norm=1.0, clipping=Flat(), **settings)


class Greedy(PerLayer):
    """A broken twin: every group is clipped to the whole clip norm."""

    def of(self, sizes: Mapping[str, int]) -> tuple[list[int], list[float]]:
        groups, shares = PerLayer().of(sizes)
        return groups, [1.0] * len(shares)


class Generous(Flat):
    """A broken twin: gradients keep a little more than the clip norm."""

    def factors(self, norms: Tensor, targets: Tensor) -> Tensor:
        return torch.clamp(1.01 * targets / norms.clamp_min(1e-300), max=1.0)


@pytest.mark.parametrize("clipping", [Flat(0.05, Greedy()), Generous(0.05)])
def test_broken_twins_are_caught(clipping: Clipping) -> None:
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))  # no layer's gradient is ever 0
    assert float(contribution(GradientEngine(model), torch.randn(BATCH, 6), clipping, 2)[0].norm()) > 0.0504
