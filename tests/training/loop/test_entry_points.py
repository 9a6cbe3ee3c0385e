"""Models, optimizers, losses and datasets of many kinds in private loops."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import hush
from hush.errors import InvalidArgument, Unsupported
from hush.randomness import TestSource
from hush.training import Flat, Poisson, TrainingPlan, UserGroups, Users, check, privatize, start_training
from training.loops import (
    LINEAR_COUNT,
    batch_run,
    data,
    linear_data,
    linear_run,
    network,
    run,
    train,
    weights,
)


def test_two_models_with_their_own_optimizers() -> None:
    first, second = run(seed=1), run(seed=2)
    for (x, y), (u, v) in zip(first.loader, second.loader, strict=False):
        first.step(F.cross_entropy(first.model(x), y, reduction="none"))
        second.step(F.cross_entropy(second.model(u), v, reduction="none"))
    assert first.steps_taken
    assert second.steps_taken


def test_one_model_with_two_optimizers() -> None:
    """Two optimizers for two halves do the same as one for all, and both are part of the state."""
    runs = []
    for halves in (False, True):
        model = network()
        first, last = list(model.parameters())[:2], list(model.parameters())[2:]
        kind = torch.optim.SGD
        optimizers = [kind(first, lr=0.1), kind(last, lr=0.1)] if halves else kind(model.parameters(), lr=0.1)
        settings: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-5, "num_steps": 4, "batch_size": 40}
        runs.append(train(privatize(model, optimizers, data(), source=TestSource(3), **settings)))
    assert torch.equal(*(weights(private) for private in runs))
    assert len(runs[1].state_dict()["optimizers"]) == 2


def test_a_private_discriminator_and_an_ordinary_generator() -> None:
    """Two losses on one model in a step, added up; and gradients through it to another model, between steps.

    With 30 other seeds, the generator moves by 2.59 +- 0.14: 11 standard deviations above the threshold.
    """
    torch.manual_seed(6)
    real = torch.randn(200, 6) + 3
    generator = nn.Linear(4, 6)
    generator_optimizer = torch.optim.SGD(generator.parameters(), lr=0.5)
    model = nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(), nn.Linear(8, 1))
    judge = torch.optim.SGD(model.parameters(), lr=0.5)
    settings: dict[str, Any] = {"noise_multiplier": 0.1, "delta": 1e-5, "num_steps": 40, "batch_size": 200}
    private = privatize(model, judge, (real,), source=TestSource(6), **settings)
    before = generator.bias.detach().clone()
    for (x,) in private.loader:
        fake = generator(torch.randn(len(x), 4)).detach()
        losses = F.softplus(-private.model(x)) + F.softplus(private.model(fake))
        with pytest.raises(InvalidArgument, match="shape"):
            private.step(losses)
        if private.step(losses.squeeze(1)).complete:
            with pytest.raises(InvalidArgument, match="out of turn"):
                private.step(losses.squeeze(1))
            generator_optimizer.zero_grad()
            F.softplus(-private.model(generator(torch.randn(50, 4)))).mean().backward()
            generator_optimizer.step()
    assert (generator.bias.detach() - before).mean() > 1, "it moves towards the data"


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad])
def test_torchs_optimizers(kind: Any) -> None:
    model = network()
    optimizer = kind(model.parameters(), lr=0.01)
    private = privatize(model, optimizer, data(), noise_multiplier=1.0, delta=1e-5, num_steps=3, batch_size=40)
    before = weights(private)
    train(private)
    assert not torch.equal(weights(private), before)


def test_a_copy_of_a_private_model_can_be_privatized() -> None:
    private = batch_run(nn.Linear(6, 3))
    assert train(batch_run(copy.deepcopy(private.model))).steps_taken == 3


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
    """A parameter of the model itself, with attention below it."""

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


@pytest.mark.filterwarnings(r"ignore:There is a performance drop:UserWarning:torch\..*")
@pytest.mark.parametrize("kind", [Sampled, InDataclass, Token, Fixed])
def test_unusual_models_are_accepted(kind: Any) -> None:
    private = batch_run(kind())
    for x, y in private.loader:
        outputs = private.model(x)
        private.step(F.cross_entropy(outputs.logits if kind is InDataclass else outputs, y, reduction="none"))
    assert private.steps_taken == 3


def test_batch_norm_must_stay_in_evaluation_mode() -> None:
    model = Fixed()
    private = batch_run(model)
    model.train()
    with pytest.raises(Unsupported, match="^norm: batch statistics"):
        train(private)


def test_an_argument_may_be_shared_by_all_examples() -> None:
    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, matrix: Tensor, x: Tensor) -> Tensor:
            return self.layer(x @ matrix)

    private = batch_run(Graph())
    for x, y in private.loader:
        private.step(F.cross_entropy(private.model(torch.eye(6), x), y, reduction="none"))
    assert private.steps_taken == 3


def test_other_default_types() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        for kind in (torch.float32, torch.float64):
            data = torch.randn(60, 6, dtype=kind), torch.randint(0, 3, (60,))
            model = nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4), nn.Linear(4, 3)).to(kind)
            assert train(batch_run(model, data)).steps_taken == 3
    finally:
        torch.set_default_dtype(torch.float32)


def test_unknown_backends_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="^compile='nonsense'"):
        batch_run(nn.Linear(6, 3), compile="nonsense")


class Recurrent(nn.Module):
    """Returns its hidden state, whose first dimension counts layers, not examples."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(4, 5, layers, batch_first=True), nn.Linear(5, 2)
        self.register_buffer("temperature", torch.ones(1, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        outputs, hidden = self.gru(x.unsqueeze(1))
        return self.head(outputs[:, -1]), hidden, self.temperature


class Dropped(nn.Module):
    """Flips one coin for the whole batch."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x if self.training and float(torch.rand(())) < 0.5 else x + self.skipped(x))


@pytest.mark.parametrize("kind", [lambda: Recurrent(1), lambda: Recurrent(2), *[Dropped] * 6])
def test_ordinary_models_are_accepted(kind: Any) -> None:
    private = linear_run(model=kind())
    for x, y in private.loader:
        outputs = private.model(x)
        logits = outputs[0] if isinstance(outputs, tuple) else outputs
        private.step(F.cross_entropy(logits, y, reduction="none"))


def test_a_gan_whose_critic_is_private() -> None:
    """Only the critic sees data; the generator learns from the private critic."""
    real, _ = linear_data()
    critic = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    generator = nn.Linear(3, 4)
    learns = torch.optim.SGD(generator.parameters(), lr=0.1)
    private = linear_run((real,), model=critic)
    before = generator.weight.clone()
    for (batch,) in private.loader:
        fake = generator(torch.randn(len(batch), 3)).detach()
        losses = F.softplus(-private.model(batch)).squeeze(1) + F.softplus(private.model(fake)).squeeze(1)
        private.step(losses)
        frozen = [param.requires_grad_(False) for param in critic.parameters()]
        learns.zero_grad()
        F.softplus(-critic(generator(torch.randn(16, 3)))).mean().backward()
        learns.step()
        for param in frozen:
            param.requires_grad_(True)
    assert private.steps_taken == 4
    assert not torch.equal(before, generator.weight)


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shared, self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 3), nn.Linear(6, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = torch.tanh(self.shared(x))
        return self.first(hidden), self.second(hidden).squeeze(-1)


def test_several_tasks_with_missing_labels() -> None:
    x, _ = linear_data()
    classes = torch.randint(0, 3, (LINEAR_COUNT,))
    classes[::3] = -100
    values = torch.randn(LINEAR_COUNT)

    def losses(model: nn.Module, batch: Any) -> Tensor:
        logits, predictions = model(batch[0])
        return F.cross_entropy(logits, batch[1], reduction="none") + 0.5 * (predictions - batch[2]).square()

    check(TwoHeads(), (x[:5], classes[:5], values[:5]), losses)
    private = linear_run((x, classes, values), model=TwoHeads())
    for batch in private.loader:
        private.step(losses(private.model, batch))
    assert private.steps_taken == 4


def test_contrastive_losses_need_a_decomposition() -> None:
    """A loss over the pairs of a batch is refused; one with its own negatives for each example is not."""
    x, _ = linear_data()
    pairs = torch.stack([x, x + 0.1 * torch.randn_like(x)], 1)
    negatives = torch.randn(LINEAR_COUNT, 5, 4)
    private = linear_run((pairs, negatives), model=nn.Linear(4, 8))
    batch, _ = next(iter(private.loader))
    codes = private.model(batch)
    scores = codes[:, 0] @ codes[:, 1].T
    with pytest.raises(Unsupported, match="depends on another example"):
        private.step(F.cross_entropy(scores, torch.arange(len(batch)), reduction="none"))
    private = linear_run((pairs, negatives), model=nn.Linear(4, 8))
    for batch, others in private.loader:
        codes = private.model(torch.cat([batch, others], 1))
        scores = (codes[:, :1] * codes[:, 1:]).sum(-1)
        private.step(F.cross_entropy(scores, torch.zeros(len(batch), dtype=torch.long), reduction="none"))
    assert private.steps_taken == 4


def test_clip_norm_and_clipping_are_not_given_together() -> None:
    with pytest.raises(InvalidArgument, match="^clip_norm=2.*Give clip_norm or clipping, not both"):
        run(clip_norm=2.0, clipping=Flat(1.0))
    assert run(clip_norm=2.0).plan.clipping == Flat(2.0)
    assert run().plan.clipping == Flat(1.0)


def plan(**settings: Any) -> TrainingPlan:
    usual: dict[str, Any] = {"sampling": Poisson(12), "num_units": LINEAR_COUNT, "num_steps": 4, "clipping": Flat(1.0)}
    usual |= {"noise_multiplier": 1.0, "delta": 1e-3, "physical_batch_size": 20}
    return TrainingPlan(**(usual | settings))


def test_a_run_can_start_under_a_given_plan() -> None:
    """It draws the same samples and noise as `privatize` under the plan that it makes."""
    made_before, models = plan(), [nn.Linear(4, 2) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizer = torch.optim.SGD(models[0].parameters(), lr=0.1)
    started = start_training(made_before, models[0], optimizer, linear_data(), source=TestSource(7))
    made = linear_run(model=models[1], source=TestSource(7), physical_batch_size=20)
    assert started.plan is made_before
    assert made.plan == made_before
    assert torch.equal(weights(train(started)), weights(train(made)))


@pytest.mark.parametrize(
    ("settings", "users", "name"),
    [
        ({"num_units": 59}, None, "num_units"),
        ({"labelled": True}, None, "labelled"),
        ({"num_units": 30}, Users(np.arange(60) // 2, rows_per_unit=2), "labelled"),
        ({"num_units": 30, "labelled": True}, Users(np.arange(60) // 2, rows_per_unit=2), "unit"),
        ({"num_units": 30, "labelled": True, "unit": hush.Unit.user()}, Users(np.arange(60) // 2, 2), "rows_per_unit"),
        ({"labelled": True, "unit": hush.Unit.user()}, UserGroups(np.arange(60) // 2, 2), "group_size"),
    ],
)
def test_a_plan_for_other_data_is_refused(settings: dict[str, Any], users: Any, name: str) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(InvalidArgument, match=f"^{name}="):
        start_training(plan(**settings), model, optimizer, linear_data(), users=users)
