"""Models and losses that would leak past clipping are refused by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from hush.errors import Unsupported
from hush.training import Full, Projected, check, clipped_sum
from training.loops import batch_run, linear_data, linear_run, quiet_run, train


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(9, 4), nn.Embedding(40, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.tokens(x) + self.positions(torch.arange(x.shape[1]))


def test_positions_are_not_taken_for_examples() -> None:
    """As many positions as examples: the first dimension alone does not tell them apart."""
    tokens = torch.randint(0, 9, (64, 7))
    private = quiet_run(Positions(), (tokens,), physical_batch_size=7)
    (x,) = next(iter(private.loader))
    private.step(private.model(x).sum((1, 2)))
    check(private.close(), x, lambda module, batch: module(batch).sum((1, 2)))


@pytest.mark.parametrize("pair", [(1, 2), (3, 4)])
def test_couplings_between_any_two_examples_are_found(pair: tuple[int, int]) -> None:
    private = quiet_run(nn.Linear(3, 1), (torch.randn(8, 3),))
    (x,) = next(iter(private.loader))
    outputs = private.model(x).squeeze(1)
    losses = outputs.clone()
    losses[pair[0]] = outputs[pair[0]] * outputs[pair[1]]
    with pytest.raises(Unsupported, match="depends on another example"):
        private.step(losses)


def test_buffers_that_collect_data_are_refused() -> None:
    class Running(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))
            self.layer = nn.Linear(3, 1)

        def forward(self, x: Tensor) -> Tensor:
            self.mean.lerp_(x.mean(0), 0.1)  # type: ignore[operator]
            return self.layer(x)

    private = quiet_run(Running(), (torch.randn(8, 3),))
    (x,) = next(iter(private.loader))
    with pytest.raises(Unsupported, match="^mean: .*buffers"):
        private.step(private.model(x).squeeze(1))


def test_in_place_operations_may_follow_layers() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(8, 2))
    clipped_sum(model, torch.randn(3, 1, 4, 4), lambda module, batch: module(batch).square().sum(1), clip_norm=1.0)


def test_inputs_changed_in_place_are_refused() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            x = self.a(x) * 1.0
            x += self.b(x)
            return x

    with pytest.raises(Unsupported, match="^b: .*in place"):
        clipped_sum(Residual(), torch.randn(3, 3), lambda module, batch: module(batch).sum(1), clip_norm=1.0)


class Keeper(nn.Module):
    """Stores a statistic of the data, in one of three ways."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.layer = how, nn.Linear(6, 3)
        self.register_buffer("mean", torch.zeros(6))
        self.frozen = nn.Linear(6, 3)
        self.frozen.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "assigned":
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)  # type: ignore[has-type]
        if self.how == "data":
            self.mean.data.mul_(0.9).add_(x.detach().mean(0))
        if self.how == "frozen":
            self.frozen.weight.data.add_(x.detach().mean(0))
        return self.layer(x) + self.frozen(x)


@pytest.mark.parametrize("how", ["assigned", "data", "frozen"])
def test_statistics_stored_in_the_model_are_refused(how: str) -> None:
    with pytest.raises(Unsupported, match="stores something about the data"):
        train(batch_run(Keeper(how)))


class InTraining(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(F.batch_norm(x, None, None, training=True) if self.training else x)


class Centred(nn.Module):
    """A hand-written batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6))

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(0)) * self.weight


@pytest.mark.parametrize("model", [InTraining, lambda: nn.Sequential(Centred(), nn.Linear(6, 3))])
def test_models_that_mix_examples_are_refused(model: Any) -> None:
    with pytest.raises(Unsupported, match="the model: it|cannot be told apart, perhaps since mean"):
        train(batch_run(model()))


class Phases(nn.Module):
    """A model with complex weights."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6, dtype=torch.complex64))

    def forward(self, x: Tensor) -> Tensor:
        return (x.to(torch.complex64) @ self.weight).abs()


@pytest.mark.parametrize("contribution", [None, Projected(6)])
def test_complex_parameters_are_refused(contribution: Any) -> None:
    with pytest.raises(Unsupported, match=r"^weight \(torch.complex64\): gradients of this type are not clipped"):
        batch_run(Phases(), **({} if contribution is None else {"contribution": contribution}))


def test_frozen_complex_parameters_are_no_obstacle() -> None:
    model = nn.Sequential(nn.Linear(6, 3))
    model.register_parameter("phases", nn.Parameter(torch.ones(2, dtype=torch.complex64), requires_grad=False))
    assert train(batch_run(model)).steps_taken == 3


def test_gradients_of_gradients_are_refused() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1))

    def penalty(module: nn.Module, x: Tensor) -> Tensor:
        x = x.requires_grad_()
        (slope,) = torch.autograd.grad(module(x).sum(), x, create_graph=True)
        return slope.norm(dim=1)

    with pytest.raises(Unsupported, match="gradients of gradients"):
        clipped_sum(model, torch.randn(4, 6), penalty, clip_norm=1.0)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_are_switched_off(reentrant: bool) -> None:
    """In the backward pass, layers would ask for taps again."""

    class Again(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Any:
            return checkpoint(self.layer, x, use_reentrant=reentrant)

    assert train(batch_run(Again())).steps_taken == 3


class CentredInputs(nn.Module):
    """Mixes examples, and works on some inputs only."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.layer, self.table, self.way = nn.Linear(4, 2), nn.Embedding(3, 4), way

    def forward(self, x: Tensor) -> Tensor:
        z = {"log": x.log, "table": lambda: self.table(x[:, 0].long()), "plain": x.clone}[self.way]()
        return self.layer(z - z.mean(0))


@pytest.mark.parametrize(("way", "contribution"), [("log", None), ("plain", None), ("plain", Projected(6))])
def test_examples_mixed_before_the_first_layer_are_noticed(way: str, contribution: Any) -> None:
    x, y = linear_data()
    model = CentredInputs(way)
    model.table.weight.requires_grad_(False)
    private = linear_run((x.abs() + 0.1, y), model=model, sampling=Full(), contribution=contribution)
    inputs, targets = next(iter(private.loader))

    def losses() -> Tensor:
        return F.cross_entropy(private.model(inputs), targets, reduction="none")

    with pytest.raises(Unsupported):
        private.step(losses() if contribution is None else losses)
