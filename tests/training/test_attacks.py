"""Attacks on training that once worked: too large contributions, noise used twice, releases without noise."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from hush.errors import InvalidArgument, Unsupported
from hush.randomness import TestSource
from hush.training import PrivateTraining, clipped_sum, privatize
from hush.training.noise.gaussian import gaussian


def run(model: nn.Module, data: Any, **settings: Any) -> PrivateTraining:
    optimizer = torch.optim.SGD(model.parameters(), lr=settings.pop("lr", 1.0))
    chosen: dict[str, Any] = {"delta": 1e-5, "noise_multiplier": 1e-3, "num_steps": 3, "source": TestSource(1)}
    return privatize(model, optimizer, data, **(chosen | settings))


def size_of(gradients: dict[str, Tensor]) -> float:
    return float(torch.sqrt(sum((each.double().square().sum() for each in gradients.values()), torch.zeros(()))))


def zeroed() -> nn.Module:
    model = nn.Linear(3, 1, bias=False)
    nn.init.zeros_(model.weight)
    return model


def test_a_batch_that_was_left_half_way_is_not_counted_twice() -> None:
    """A new loop began the step anew on top of the sums of the old one."""
    model = zeroed()
    private = run(model, (torch.full((8, 3), 100.0),), physical_batch_size=2)
    for served, (x,) in enumerate(private.loader, 1):
        private.step(private.model(x).squeeze(1))
        if served == 3:
            break
    for (x,) in private.loader:
        if private.step(private.model(x).squeeze(1)).complete:
            break
    assert isinstance(model.weight, Tensor)
    assert model.weight.grad is not None
    assert float(model.weight.grad.norm()) * 8 <= 8.1  # noise of 1e-3 has no part in that


def test_two_loops_at_once_are_refused() -> None:
    private = run(zeroed(), (torch.full((8, 3), 100.0),), physical_batch_size=4)
    first, second = iter(private.loader), iter(private.loader)
    (x,) = next(first)
    private.step(private.model(x).squeeze(1))
    next(second)
    with pytest.raises(InvalidArgument, match="^step=.*one loop"):
        next(first)


class Difference(nn.Module):
    """Positions that nearly cancel: the gradient is far smaller than the products that it is made of."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.layer(x)
        return (hidden[:, 0] - hidden[:, 1]).sum(1)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("width", "large", "small"), [(16, 1e4, 0.7), (64, 300.0, 0.05)])
def test_positions_that_cancel_do_not_hide_a_gradient(seed: int, width: int, large: float, small: float) -> None:
    torch.manual_seed(seed)
    base = torch.randn(1, width) * large
    x = torch.stack([base + small * torch.randn(1, width), base], 1)
    found = clipped_sum(Difference(width), x, lambda module, batch: module(batch), clip_norm=0.1)
    assert size_of(found.gradients) <= 0.1
    assert torch.isfinite(found.norms).all()


@pytest.mark.parametrize("kind", ["weight", "bias", "embedding"])
def test_an_example_of_no_norm_does_not_wipe_out_the_others(kind: str) -> None:
    """Its positions, 1e12 and -1e12, cancel; added one by one they absorbed what the others had contributed."""
    torch.manual_seed(1)

    class Summed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Embedding(3, 4) if kind == "embedding" else nn.Linear(4, 4, bias=kind == "bias")

        def forward(self, batch: tuple[Tensor, Tensor]) -> Tensor:
            x, scale = batch
            hidden = self.layer(torch.ones(x.shape[:2], dtype=torch.long) if kind == "embedding" else x)
            return (hidden * scale.unsqueeze(-1)).sum((1, 2))

    x, scale = torch.ones(64, 2, 4), torch.ones(64, 2)
    scale[63] = torch.tensor([1e12, -1e12])
    without = scale.clone()
    without[63] = 0
    model = Summed()
    if kind == "bias":
        model.layer.weight.requires_grad_(False)
    sums = [
        clipped_sum(model, (x, one), lambda module, batch: module(batch), clip_norm=1.0).gradients
        for one in (scale, without)
    ]
    assert size_of({key: sums[0][key] - sums[1][key] for key in sums[0]}) <= 1.0


def test_squares_that_vanish_are_no_norm_of_zero() -> None:
    model = nn.Linear(150_528, 1, bias=False)
    x = torch.full((1, 150_528), 2.5e-23)
    found = clipped_sum(model, x, lambda module, batch: module(batch).squeeze(1) * 1.8e19, clip_norm=0.1)
    assert size_of(found.gradients) <= 0.1
    with pytest.raises(InvalidArgument, match="^clip_norm="):
        run(zeroed(), (torch.ones(8, 3),), clip_norm=1e-26)


def test_half_precision_models_stay_within_the_clip_norm() -> None:
    torch.manual_seed(2)
    model = nn.Linear(64, 64, bias=False).half()
    x = torch.randn(4, 64).half()
    for scale in (1.0, 1e3):

        def scaled(module: nn.Module, batch: Tensor, by: float = scale) -> Tensor:
            total: Tensor = module(batch).float().sum(1) * by
            return total

        assert size_of(clipped_sum(model, x, scaled, clip_norm=1e-3).gradients) <= 4e-3


def step_all(private: PrivateTraining, count: int) -> None:
    for (x,) in private.loader:
        if private.step(private.model(x).squeeze(1)).complete and private.steps_taken >= count:
            break


def test_a_state_is_a_copy() -> None:
    """Weights of step 3 under the count of step 1 would understate what was spent."""
    private = run(zeroed(), (torch.randn(20, 3),))
    step_all(private, 1)
    state = private.state_dict()
    before = state["model"]["weight"].clone()
    step_all(private, 3)
    assert torch.equal(state["model"]["weight"], before)


def test_runs_that_fork_from_one_state_have_their_own_noise() -> None:
    data = (torch.randn(20, 3),)
    origin = run(zeroed(), data, noise_multiplier=5.0, source=None)
    state = origin.state_dict()
    gradients = []
    for rate in (0.1, 0.5):
        model = zeroed()
        fork = run(model, data, noise_multiplier=5.0, source=None, lr=rate)
        fork.load_state_dict(copy.deepcopy(state))
        step_all(fork, 1)
        gradients.append(model.weight.grad)
    # Noise of standard deviation 5 / 20, three times: so close by chance in 1.2e-8 of the times.
    assert not torch.allclose(gradients[0], gradients[1], atol=1e-3)


def test_old_gradients_are_not_applied() -> None:
    """A gradient from before, on a parameter that is frozen since, went through the optimizer without noise."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    model(torch.randn(9, 3)).sum().backward()
    frozen = model[0].weight
    frozen.requires_grad_(False)
    before = frozen.detach().clone()
    step_all(run(model, (torch.randn(20, 3),)), 1)
    assert torch.equal(frozen, before)


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(9, 4), nn.Embedding(40, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.tokens(x) + self.positions(torch.arange(x.shape[1]))


def test_positions_are_not_taken_for_examples() -> None:
    """As many positions as examples: the first dimension alone does not tell which it is."""
    tokens = torch.randint(0, 9, (64, 7))
    private = run(Positions(), (tokens,), physical_batch_size=7)
    (x,) = next(iter(private.loader))
    with pytest.raises(Unsupported, match="depends on another one, through positions"):
        private.step(private.model(x).sum((1, 2)))


@pytest.mark.parametrize("pair", [(1, 2), (3, 4)])
def test_couplings_between_any_two_examples_are_found(pair: tuple[int, int]) -> None:
    private = run(nn.Linear(3, 1), (torch.randn(8, 3),))
    (x,) = next(iter(private.loader))
    outputs = private.model(x).squeeze(1)
    losses = outputs.clone()
    losses[pair[0]] = outputs[pair[0]] * outputs[pair[1]]
    with pytest.raises(Unsupported, match="depends on another one"):
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

    private = run(Running(), (torch.randn(8, 3),))
    (x,) = next(iter(private.loader))
    with pytest.raises(Unsupported, match="^mean: .*buffers"):
        private.step(private.model(x).squeeze(1))


def test_another_backward_leaves_nothing_behind() -> None:
    torch.manual_seed(4)

    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 1), nn.Linear(3, 1)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return self.a(x).squeeze(1), self.b(x).squeeze(1)

    model = Branches()
    private = run(model, (torch.randn(8, 3),), lr=0.0)
    for number, (x,) in enumerate(private.loader):
        losses, other = private.model(x)
        if number:
            (other.sum() ** 2).backward()
        private.step(losses)
    assert model.b.weight.grad is not None
    assert float(model.b.weight.grad.abs().max()) < 1e-3, "noise only: of standard deviation 1e-3 / 8"


def test_layers_may_be_followed_by_steps_in_place() -> None:
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


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_layers_that_cannot_be_run_are_named() -> None:
    cell = nn.LSTMCell(3, 3)

    class Cell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = cell

        def forward(self, x: Tensor) -> Tensor:
            return self.cell(x)[0]

    with pytest.raises(Unsupported, match="^cell \\(LSTMCell\\)"):
        clipped_sum(Cell(), torch.randn(3, 3), lambda module, batch: module(batch).sum(1), clip_norm=1.0)
    hooked = torch.nn.utils.weight_norm(nn.Linear(3, 2))
    with pytest.raises(Unsupported, match="computed by a hook"):
        clipped_sum(hooked, torch.randn(3, 3), lambda module, batch: module(batch).sum(1), clip_norm=1.0)


def test_a_copy_of_a_private_model_can_be_privatized() -> None:
    private = run(zeroed(), (torch.randn(20, 3),))
    step_all(run(copy.deepcopy(private.model), (torch.randn(20, 3),)), 3)


def test_resumption_includes_dropout() -> None:
    def start() -> PrivateTraining:
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        return run(model, (torch.arange(60.0).view(20, 3),), num_steps=4)

    whole = start()
    step_all(whole, 4)
    first = start()
    step_all(first, 2)
    state = first.state_dict()
    second = start()
    second.load_state_dict(state)
    step_all(second, 4)
    ends = [torch.cat([p.detach().flatten() for p in one.model.parameters()]) for one in (whole, second)]
    assert torch.equal(*ends)


@pytest.mark.parametrize("noise", [1e-6, 1e9])
def test_noise_that_cannot_be_accounted_for_is_refused_at_once(noise: float) -> None:
    with pytest.raises(InvalidArgument, match="^noise_multiplier="):
        run(zeroed(), (torch.ones(8, 3),), noise_multiplier=noise)


def test_tails_of_the_noise_are_as_fine_as_its_middle() -> None:
    values = np.abs(gaussian(bytes(32), 1, 4_000_000).numpy())
    tail = values[values > 4.0]  # some 250, of numbers that are 5e-7 apart: 0.03 equal pairs are to be expected
    assert len(np.unique(tail)) > 0.9 * len(tail)
