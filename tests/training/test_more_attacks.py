"""Attacks on the taps, on compiled steps and on the first check that once worked, and models once refused in error."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch._dynamo
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from hush.errors import InvalidArgument, Unsupported
from hush.randomness import TestSource
from hush.training import Flat, PrivateTraining, clipped_sum, privatize
from hush.training.per_example.engine import GradientEngine

TORCHS_OWN = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
SETTINGS: dict[str, Any] = {"delta": 1e-5, "noise_multiplier": 1.0, "num_steps": 3, "batch_size": 20}


def run(model: nn.Module, data: Any = None, source: Any = None, **settings: Any) -> PrivateTraining:
    data = (torch.randn(60, 6), torch.randint(0, 3, (60,))) if data is None else data
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return privatize(model, optimizer, data, source=source or TestSource(1), **(SETTINGS | settings))


def train(private: PrivateTraining) -> PrivateTraining:
    for x, y in private.loader:
        private.step(F.cross_entropy(private.model(x), y, reduction="none"))
    return private


def size_of(gradients: dict[str, Tensor]) -> float:
    return float(torch.sqrt(sum((each.double().square().sum() for each in gradients.values()), torch.zeros(()))))


@pytest.mark.parametrize(("x", "scale"), [(1e100, 1e-100), (1e39, 1e-39), (1e50, 1.0)])
def test_models_in_fp64_do_not_overflow_in_sums(x: float, scale: float) -> None:
    model = nn.Linear(1, 1, bias=False).double()
    batch = torch.tensor([[1.0], [x]], dtype=torch.float64), torch.tensor([1.0, scale], dtype=torch.float64)
    found = clipped_sum(model, batch, lambda module, pair: module(pair[0])[:, 0] * pair[1], clip_norm=1.0)
    assert 0.99 <= size_of(found.gradients) <= 2


def test_sums_over_physical_batches_are_not_in_single_precision() -> None:
    """An example could push a sum in fp32 to where thousands of others are rounded away (Casacuberta et al. 2022)."""
    private = run(nn.Linear(6, 3), physical_batch_size=3, batch_size=None)
    for served, (x, y) in enumerate(private.loader):
        private.step(F.cross_entropy(private.model(x), y, reduction="none"))
        if served == 2:
            break
    assert {total.dtype for total in private._totals.values()} == {torch.float64}


class Raw(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        return (self.values * x).sum(-1)


def test_norms_of_many_equal_numbers_are_not_too_small() -> None:
    found = clipped_sum(Raw(4_000_000), torch.full((1, 1), 1.3), lambda model, x: model(x).view(1), clip_norm=1.0)
    assert size_of(found.gradients) <= 1


@pytest.mark.parametrize(("positions", "x", "g", "clip_norm"), [(1, 5e18, 1e18, 5e-9), (2, 4.47e37, 1.0, 8e-7)])
def test_factors_are_not_rounded_up(positions: int, x: float, g: float, clip_norm: float) -> None:
    model = nn.Linear(2, 1, bias=False)
    nn.init.zeros_(model.weight)
    values = torch.full((1, positions, 2), x)
    found = clipped_sum(model, values, lambda module, batch: (module(batch) * g).sum((1, 2)), clip_norm=clip_norm)
    assert size_of(found.gradients) <= clip_norm


class Keeper(nn.Module):
    """Keeps something of the data, in one of three ways."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.layer = how, nn.Linear(6, 3)
        self.register_buffer("kept", torch.zeros(6))
        self.frozen = nn.Linear(6, 3)
        self.frozen.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "assigned":
            self.kept = 0.9 * self.kept + 0.1 * x.detach().mean(0)  # type: ignore[has-type]
        if self.how == "data":
            self.kept.data.mul_(0.9).add_(x.detach().mean(0))
        if self.how == "frozen":
            self.frozen.weight.data.add_(x.detach().mean(0))
        return self.layer(x) + self.frozen(x)


@pytest.mark.parametrize("how", ["assigned", "data", "frozen"])
def test_data_kept_in_the_model_is_refused(how: str) -> None:
    with pytest.raises(Unsupported, match="writes something of the data"):
        train(run(Keeper(how)))


def test_forks_do_not_share_samples() -> None:
    data = torch.randn(60, 6), torch.randint(0, 3, (60,))
    state = run(nn.Linear(6, 3), data).state_dict() | {"assumptions": ()}
    samples = []
    for _ in range(2):
        fork = run(nn.Linear(6, 3), data)
        fork.load_state_dict(state)
        samples.append(fork._batches.sample(0).tolist())
    assert samples[0] != samples[1]  # by chance, 60 coins of 1 / 3 fall the same in (5 / 9)^60 of the times


def test_a_state_that_fails_to_load_is_counted() -> None:
    trained = train(run(nn.Linear(6, 3)))
    state = trained.state_dict()
    state["optimizers"][0]["param_groups"][0]["params"] = [0]
    other = run(nn.Linear(6, 3))
    with pytest.raises(ValueError, match="size"):
        other.load_state_dict(state)
    assert other.guarantee() == trained.guarantee()


def test_padding_is_nobodys_data() -> None:
    private = run(nn.Linear(6, 3), (torch.full((60, 6), 7.0), torch.full((60,), 2)), physical_batch_size=50)
    x, y = next(iter(private.loader))
    real = len(private._batches.sample(0))
    assert bool((x[:real] == 7).all())
    assert bool((y[:real] == 2).all())
    assert not x[real:].any()
    assert not y[real:].any()


class InTraining(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(F.batch_norm(x, None, None, training=True) if self.training else x)


class Centred(nn.Module):
    """A batch norm of one's own: by vmap it would see batches of one."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6))

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(0)) * self.weight


@pytest.mark.parametrize("model", [InTraining, lambda: nn.Sequential(Centred(), nn.Linear(6, 3))])
def test_models_that_mix_examples_are_refused(model: Any) -> None:
    with pytest.raises(Unsupported, match="the model: it"):
        train(run(model()))


def test_groups_added_later_are_checked() -> None:
    model = nn.Linear(6, 3)
    private = run(model)
    assert isinstance(private.optimizer, torch.optim.Optimizer)
    private.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
    with pytest.raises(InvalidArgument, match="^optimizer="):
        train(private)
    assert private.steps_taken == 0


class Switch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.use = nn.Linear(6, 6), nn.Linear(6, 6), "a"

    def forward(self, x: Tensor) -> Tensor:
        return getattr(self, self.use)(x)


def sums_of(engine: GradientEngine, losses: Any) -> dict[str, Tensor]:
    with engine.batch(4):
        engine.backward(losses())
        return engine.clipped_sum(Flat(1.0)).gradients


@TORCHS_OWN
def test_compiled_models_may_change_their_mind() -> None:
    torch._dynamo.reset()
    model, x = Switch(), torch.randn(4, 6)
    engine = GradientEngine(model, backend="aot_eager")
    for use in ("a", "a", "b", "b", "a"):
        model.use = use
        assert {name[0] for name in sums_of(engine, lambda: model(x).sum(1))} == {use}


@TORCHS_OWN
def test_compiled_models_may_be_called_twice_on_other_shapes() -> None:
    torch._dynamo.reset()
    torch.manual_seed(2)
    model = nn.Linear(6, 2)
    x, y = torch.randn(4, 6), [torch.randn(4, length, 6) for length in (3, 5, 3, 5)]
    engine, plain = GradientEngine(model, backend="aot_eager"), copy.deepcopy(model)
    eager = GradientEngine(plain)
    for each in y:
        one, two = (
            sums_of(way, lambda m=own, z=each: m(z).sum((1, 2)) + m(x).sum(1))
            for way, own in ((engine, model), (eager, plain))
        )
        assert all(torch.allclose(one[key], two[key], atol=1e-5) for key in two)


def test_gradients_of_gradients_are_refused() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1))

    def penalty(module: nn.Module, x: Tensor) -> Tensor:
        x = x.requires_grad_()
        (slope,) = torch.autograd.grad(module(x).sum(), x, create_graph=True)
        return slope.norm(dim=1)

    with pytest.raises(Unsupported, match="gradients of gradients"):
        clipped_sum(model, torch.randn(4, 6), penalty, clip_norm=1.0)


def test_checkpointing_is_refused() -> None:
    class Again(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Any:
            return checkpoint(self.layer, x, use_reentrant=False)

    with pytest.raises(Unsupported, match="checkpointing"):
        train(run(Again()))


@dataclass
class Output:
    logits: Tensor


class Sampled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x + torch.randn_like(x))


class InDataclass(Sampled):
    def forward(self, x: Tensor) -> Any:
        return Output(self.layer(x))


class Token(nn.Module):
    """A parameter of the root's own, with attention below it."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 1, 6))
        self.layer = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        sequence = torch.cat([self.token.expand(len(x), -1, -1), x.unsqueeze(1)], 1)
        return self.head(self.layer(sequence)[:, 0])


class Fixed(nn.Module):
    """A batch norm that stays in evaluation mode, such as a pretrained one."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.layer = nn.BatchNorm1d(6).eval(), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.norm(x))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", [Sampled, InDataclass, Token, Fixed])
def test_models_that_are_all_right(kind: Any) -> None:
    private = run(kind())
    for x, y in private.loader:
        outputs = private.model(x)
        private.step(F.cross_entropy(outputs.logits if kind is InDataclass else outputs, y, reduction="none"))
    assert private.steps_taken == 3


def test_a_fixed_batch_norm_stays_fixed() -> None:
    model = Fixed()
    private = run(model)
    model.train()
    with pytest.raises(Unsupported, match="^norm: batch statistics"):
        train(private)


def test_a_shared_first_argument() -> None:
    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, matrix: Tensor, x: Tensor) -> Tensor:
            return self.layer(x @ matrix)

    private = run(Graph())
    for x, y in private.loader:
        private.step(F.cross_entropy(private.model(torch.eye(6), x), y, reduction="none"))
    assert private.steps_taken == 3


@pytest.mark.parametrize("stop", [1, 2, 3, 4, 5])
def test_resumption_within_a_step_includes_dropout(stop: int) -> None:
    data = torch.randn(60, 6), torch.randint(0, 3, (60,))

    def start() -> PrivateTraining:
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3))
        return run(model, data, physical_batch_size=7)

    whole = train(start())
    first = start()
    for served, (x, y) in enumerate(first.loader, 1):
        first.step(F.cross_entropy(first.model(x), y, reduction="none"))
        if served == stop:
            break
    state = first.state_dict()
    second = start()
    second.load_state_dict(state)
    train(second)
    for one, two in zip(second.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(one, two)


def test_another_default_type() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        for kind in (torch.float32, torch.float64):
            data = torch.randn(60, 6, dtype=kind), torch.randint(0, 3, (60,))
            model = nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4), nn.Linear(4, 3)).to(kind)
            assert train(run(model, data)).steps_taken == 3
    finally:
        torch.set_default_dtype(torch.float32)


def test_runs_are_not_copied() -> None:
    private = run(nn.Linear(6, 3))
    with pytest.raises(Unsupported, match="noise twice"):
        copy.deepcopy(private)
    with pytest.raises(Unsupported, match="noise twice"):
        pickle.dumps(private)


def test_unknown_backends_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="^compile='nonsense'"):
        run(nn.Linear(6, 3), compile="nonsense")


def test_a_list_of_examples_is_no_list_of_columns() -> None:
    examples = [(torch.randn(6), 1) for _ in range(50)]
    assert run(nn.Linear(6, 3), examples)._num_examples == 50
