"""Loops and models that move data past the clipping: each is refused, or its guarantee is withdrawn.

Every attack here once ended with a small epsilon and a model that had learnt, or stored, what examples contain. An
attack is a whole run; `outcome` says how it ended. Keys are fixed, so chance has no part.
"""

from __future__ import annotations

import collections
import copy
import math
import pickle
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import ConcatDataset, Subset, TensorDataset

from hush.errors import HushError
from hush.estimators import PrivateClassifier
from hush.randomness import TestSource
from hush.training import PrivateTraining, clipped_sum, privatize
from training.loops import start

SIZE, CLASSES = 24, 3


def examples() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(SIZE, 6, generator=generator), torch.arange(SIZE) % CLASSES


def small_run(model: nn.Module, data: Any = None, **settings: Any) -> PrivateTraining:
    return start(model, examples() if data is None else data, **({"num_steps": 12} | settings))


def plain_losses(private: PrivateTraining, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(private.model(x), y, reduction="none")


Losses = Callable[[PrivateTraining, Tensor, Tensor], Tensor]


def outcome(private: PrivateTraining, losses: Losses = plain_losses) -> str:
    """Train to the end. Return "refused", "withdrawn", or "unseen" if a finite epsilon is stated."""
    try:
        for x, y in private.loader:
            private.step(losses(private, x, y))
    except HushError:
        return "refused"
    return "withdrawn" if private.guarantee().epsilon == math.inf else "unseen"


class WithHead(nn.Module):
    """A classifier whose subclasses do something with their input first."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, CLASSES)

    def before(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.before(x))


class KeepsInput(WithHead):
    def before(self, x: Tensor) -> Tensor:
        self.last_input = x
        return x


class KeepsInDeque(WithHead):
    def __init__(self) -> None:
        super().__init__()
        self.memory: Any = collections.deque(maxlen=3)

    def before(self, x: Tensor) -> Tensor:
        self.memory.append(x.detach()[:2])
        return x


class KeepsDeep(WithHead):
    """A queue of plain objects, in a dictionary."""

    class Slot:
        value: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.state = {"slots": [KeepsDeep.Slot()]}

    def before(self, x: Tensor) -> Tensor:
        self.state["slots"][0].value = x[0].clone()
        return x


class WritesInPlace(WithHead):
    def __init__(self) -> None:
        super().__init__()
        self.memory = [torch.zeros(6)]

    def before(self, x: Tensor) -> Tensor:
        self.memory[0].copy_(x.detach()[0])
        return x


class KeepsNumbers(WithHead):
    """No tensor: a list of Python's numbers."""

    def before(self, x: Tensor) -> Tensor:
        self.first = x[0].tolist()
        return x


class Revives(WithHead):
    """A codebook whose unused entries are replaced by inputs, as in vector quantisation."""

    def __init__(self, through: str) -> None:
        super().__init__()
        self.codes, self.through = nn.Embedding(4, 6), through

    def before(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            if self.through == "data":
                self.codes.weight.data[0] = x[0]
            elif self.through == "new storage":
                self.codes.weight.data = torch.cat([x[:1], self.codes.weight.data[1:]])
            else:
                self.codes.weight[0] = x[0]
        return x + self.codes(torch.zeros(len(x), dtype=torch.long))


class RunningMean(WithHead):
    def __init__(self) -> None:
        super().__init__()
        self.mean: Any = 0.0

    def before(self, x: Tensor) -> Tensor:
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return x - self.mean


class Stateful(nn.Module):
    """A recurrent layer that starts where the last batch ended."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head, self.hidden = nn.GRU(6, 4, batch_first=True), nn.Linear(4, CLASSES), None

    def forward(self, x: Tensor) -> Tensor:
        hidden = None if self.hidden is None else self.hidden.mean(1, keepdim=True).expand(1, len(x), 4).contiguous()
        outputs, state = self.layer(x[:, None], hidden)
        self.hidden = state.detach()
        return self.head(outputs[:, 0])


STORES: dict[str, Callable[[], nn.Module]] = {
    "an input": KeepsInput,
    "a deque": KeepsInDeque,
    "a plain object": KeepsDeep,
    "in place": WritesInPlace,
    "numbers": KeepsNumbers,
    "a trained weight": lambda: Revives("place"),
    "a trained weight, through .data": lambda: Revives("data"),
    "a trained weight, by another storage": lambda: Revives("new storage"),
    "a running mean": RunningMean,
    "a recurrent state": Stateful,
}


@pytest.mark.parametrize("store", STORES)
def test_a_forward_that_stores_data_is_refused(store: str) -> None:
    private = small_run(STORES[store]())
    assert outcome(private) == "refused"
    assert private.guarantee().epsilon == math.inf, "the data are in the model already"


class Remembers:
    """A hook that is pickled with its module."""

    def __init__(self) -> None:
        self.rows: list[Tensor] = []

    def __call__(self, _: nn.Module, inputs: tuple[Tensor], __: Tensor) -> None:
        self.rows.append(inputs[0].detach().clone())


def test_a_hook_that_stores_data_is_refused() -> None:
    model = WithHead()
    model.register_forward_hook(Remembers())
    private = small_run(model)
    assert outcome(private) == "refused"
    assert private.guarantee().epsilon == math.inf
    model(examples()[0])  # the module still works


class Mixup(WithHead):
    def before(self, x: Tensor) -> Tensor:
        return 0.6 * x + 0.4 * x[torch.randperm(len(x))]


class DetachedMean(WithHead):
    def before(self, x: Tensor) -> Tensor:
        return x - x.detach().mean(0)


class AnyOfBatch(WithHead):
    """A branch of Python that one example decides for all."""

    def before(self, x: Tensor) -> Tensor:
        return 5 * x if bool((x > 1.8).any()) else x


class AnyAsTensor(WithHead):
    def before(self, x: Tensor) -> Tensor:
        return x * (1 + 4 * (x > 1.8).any())


class Capacity(nn.Module):
    """Experts that take a limited number of examples, and drop the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.experts, self.head = nn.ModuleList([nn.Linear(6, 4) for _ in range(2)]), nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        first = x[:, 0] > x[:, 1]
        total: Any = 0.0
        for chosen, expert in zip((first, ~first), self.experts, strict=True):
            places = chosen.cumsum(0) <= len(x) // 4
            total = total + expert(x) * (chosen & places)[:, None]
        return self.head(total)


class MixesUnderItsNoise(WithHead):
    """Its noise comes from a generator of its own, so that two runs differ anyway."""

    def __init__(self, generator: Any) -> None:
        super().__init__()
        self.generator = generator

    def before(self, x: Tensor) -> Tensor:
        if isinstance(self.generator, torch.Generator):
            noise = torch.randn(x.shape, generator=self.generator)
        else:
            noise = torch.from_numpy(self.generator.normal(size=tuple(x.shape))).float()
        return (5 * x if bool((x > 1.8).any()) else x) + 0.1 * noise


MIXES: dict[str, Callable[[], nn.Module]] = {
    "mixup": Mixup,
    "a detached mean": DetachedMean,
    "any, in Python": AnyOfBatch,
    "any, as a tensor": AnyAsTensor,
    "capacity": Capacity,
    "any, under noise": lambda: MixesUnderItsNoise(torch.Generator()),
    "any, under noise of NumPy": lambda: MixesUnderItsNoise(np.random.default_rng(1)),
}


@pytest.mark.parametrize("mix", MIXES)
def test_a_forward_that_mixes_examples_is_refused(mix: str) -> None:
    assert outcome(small_run(MIXES[mix]())) == "refused"


class Encoder(nn.Module):
    """Called by another method than forward, as ``model.encode(x)``."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(6, 4), nn.Linear(4, CLASSES)

    def encode(self, x: Tensor) -> Tensor:
        features = self.inner(x)
        return self.head(features - 5 * features.detach().mean(0))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.inner(x))


def class_weights(private: PrivateTraining, x: Tensor, y: Tensor) -> Tensor:
    counts = torch.bincount(y, minlength=CLASSES).float()
    return F.cross_entropy(private.model(x), y, weight=len(y) / (1 + counts), reduction="none")


def mixed_up(private: PrivateTraining, x: Tensor, y: Tensor) -> Tensor:
    order = torch.randperm(len(x))
    outputs = private.model(0.7 * x + 0.3 * x[order])
    return 0.7 * F.cross_entropy(outputs, y, reduction="none") + 0.3 * F.cross_entropy(
        outputs, y[order], reduction="none"
    )


def mixed_targets(private: PrivateTraining, x: Tensor, y: Tensor) -> Tensor:
    outputs = private.model(x)
    return 0.7 * F.cross_entropy(outputs, y, reduction="none") + 0.3 * F.cross_entropy(
        outputs, y[torch.randperm(len(x))], reduction="none"
    )


def divided(private: PrivateTraining, x: Tensor, y: Tensor) -> Tensor:
    losses = plain_losses(private, x, y)
    return losses / losses.detach().mean()


def hooked(private: PrivateTraining, x: Tensor, y: Tensor) -> Tensor:
    outputs = private.model(x)
    if outputs.requires_grad:
        outputs.register_hook(lambda gradient: gradient / gradient.norm())
    return F.cross_entropy(outputs, y, reduction="none")


def divided_under_noise(private: PrivateTraining, x: Tensor, y: Tensor) -> Tensor:
    """Augment with a generator of the loop's own."""
    losses = plain_losses(private, x + 0.1 * torch.randn(x.shape, generator=OWN), y)
    return losses / losses.detach().mean()


OWN = torch.Generator().manual_seed(1)

LOOPS: dict[str, Losses] = {
    "encode": lambda private, x, y: F.cross_entropy(private.model.encode(x), y, reduction="none"),  # type: ignore[operator]
    "class weights": class_weights,
    "mixup": mixed_up,
    "mixed targets": mixed_targets,
    "divided by the mean": divided,
    "divided by the mean, under noise": divided_under_noise,
    "a hook on gradients": hooked,
}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_that_mixes_examples_is_refused(loop: str) -> None:
    private = small_run(Encoder() if loop == "encode" else nn.Linear(6, CLASSES))
    assert outcome(private, LOOPS[loop]) == "refused"


def test_a_loss_that_couples_later_is_refused() -> None:
    """Contrastive in all steps but the first, the last, and those whose number is a power of two."""

    def contrastive(private: PrivateTraining, x: Tensor, y: Tensor) -> Tensor:
        outputs, step = private.model(x), private.steps_taken
        if (step & (step - 1)) == 0 or step == 39:
            return F.cross_entropy(outputs, y, reduction="none")
        return torch.logsumexp(outputs @ outputs.T, 1)

    private = small_run(nn.Linear(6, CLASSES), num_steps=40)
    assert outcome(private, contrastive) == "refused"
    assert private.steps_taken == 3, "the losses are another kind of graph"
    assert private.guarantee().epsilon == math.inf, "step 2 was not checked in full: its kind was known"


def contrastive_from(first: int) -> Losses:
    """Return losses that couple from a step on, below a reshape, whose graph differs where a batch is recorded."""

    def losses(private: PrivateTraining, x: Tensor, y: Tensor) -> Tensor:
        outputs = private.model(x)
        if private.steps_taken >= first:
            outputs = outputs + outputs.detach() * 0 + outputs.mean(0) * 3
        return F.cross_entropy(outputs.t().reshape(CLASSES, -1).t(), y, reduction="none")

    return losses


def test_a_coupling_that_every_released_step_was_checked_for_leaves_the_guarantee() -> None:
    private = small_run(nn.Linear(6, CLASSES), num_steps=40)
    assert outcome(private, contrastive_from(1)) == "refused"
    assert private.steps_taken == 1
    assert math.isfinite(private.guarantee().epsilon)


def test_a_coupling_after_steps_that_were_not_checked_withdraws() -> None:
    """Also one whose kind of losses is new at that moment, such as under the tape of a secret step."""
    private = small_run(nn.Linear(6, CLASSES), num_steps=40)
    assert outcome(private, contrastive_from(5)) == "refused"
    assert private.guarantee().epsilon == math.inf


def test_a_coupling_found_after_a_resumption_withdraws() -> None:
    private = small_run(nn.Linear(6, CLASSES), num_steps=40)
    for x, y in private.loader:
        if private.step(plain_losses(private, x, y)).number == 3:
            break
    again = small_run(nn.Linear(6, CLASSES), num_steps=40)
    again.load_state_dict(private.state_dict())
    assert outcome(again, contrastive_from(0)) == "refused"
    assert again.guarantee().epsilon == math.inf


def test_a_detached_coupling_that_comes_later_is_found_at_a_secret_step() -> None:
    """Its graph is that of an ordinary product with a constant."""

    def weighted(private: PrivateTraining, x: Tensor, y: Tensor) -> Tensor:
        losses, step = plain_losses(private, x, y), private.steps_taken
        return losses * (losses.detach().mean() if 0 < step < 59 else torch.tensor(1.0))

    private = small_run(nn.Linear(6, CLASSES), num_steps=60)
    assert outcome(private, weighted) == "refused"
    assert 0 < private.steps_taken < 59
    assert private.guarantee().epsilon == math.inf
    assert "another example" in private.guarantee().assumptions[0]
    again = small_run(nn.Linear(6, CLASSES), num_steps=60)
    again.load_state_dict(private.state_dict())
    assert again.guarantee().epsilon == math.inf, "a state keeps the reason"


def ordinary_step(model: nn.Module, how: str, optimizer: torch.optim.Optimizer) -> None:
    x, y = examples()
    F.cross_entropy(model(x), y).backward()
    if how == "optimizer":
        optimizer.step()
    with torch.no_grad():
        for param in model.parameters():
            if how == "place":
                param -= 0.1 * param.grad
            elif how == "storage":
                param.data = param.data - 0.1 * param.grad
            elif how == "data":
                param.data -= 0.1 * param.grad
    model.zero_grad()


@pytest.mark.parametrize(
    ("taken", "how"),
    [
        (taken, how)
        for taken in (0, 2, 12)
        for how in ("optimizer", "place", "storage", "data")
        if (taken, how) != (2, "data")
    ],
)
def test_ordinary_steps_withdraw_the_guarantee(taken: int, how: str) -> None:
    model = nn.Linear(6, CLASSES)
    private = small_run(model)
    for x, y in private.loader if taken else ():
        if private.step(plain_losses(private, x, y)).number == taken:
            break
    assert math.isfinite(private.guarantee().epsilon)
    ordinary_step(model, how, private.optimizer)
    stated = private.guarantee()
    assert stated.epsilon == math.inf
    assert any("outside of a private step" in reason for reason in stated.assumptions)


@pytest.mark.parametrize("how", ["optimizer", "place", "storage"])
def test_ordinary_steps_between_private_ones_are_refused(how: str) -> None:
    private = small_run(nn.Linear(6, CLASSES))

    def train_in_turns() -> None:
        for x, y in private.loader:
            if private.step(plain_losses(private, x, y)).number == 5:
                ordinary_step(private.model, how, private.optimizer)

    with pytest.raises(HushError, match="outside of a private step"):
        train_in_turns()
    assert private.steps_taken == 5
    assert private.guarantee().epsilon == math.inf


def test_steps_that_torch_does_not_count_are_found_at_a_check() -> None:
    private = small_run(nn.Linear(6, CLASSES))

    def train_in_turns() -> None:
        for x, y in private.loader:
            private.step(plain_losses(private, x, y))
            ordinary_step(private.model, "data", private.optimizer)

    with pytest.raises(HushError, match="outside of a private step"):
        train_in_turns()
    assert private.guarantee().epsilon == math.inf


class WithBuffer(WithHead):
    """Its buffer is written in evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))

    def before(self, x: Tensor) -> Tensor:
        if not self.training:
            self.mean = x.mean(0)
        return x


class KeepsGradients(WithHead):
    """It stores what the backward pass computes, which is not clipped."""

    def forward(self, x: Tensor) -> Tensor:
        outputs = super().forward(x)
        if outputs.requires_grad:
            outputs.register_hook(lambda gradient: setattr(self, "gradient", gradient.detach().clone()))
        return outputs


def write_between(private: PrivateTraining, x: Tensor, where: str) -> None:
    """Put rows into the model, or into the optimizer, after a step."""
    model: Any = private.model
    if where == "attribute":
        model.memory = x
    elif where == "buffer":
        model.mean.copy_(x[0])
    elif where == "evaluation":
        model.eval()
        model(x)
        model.train()
    elif where == "optimizer":
        private.optimizer.state[model.head.weight]["exp_avg"].copy_(x[:3])  # type: ignore[union-attr]


@pytest.mark.parametrize("where", ["attribute", "buffer", "evaluation", "optimizer", "backward", "nowhere"])
@pytest.mark.parametrize("last", [False, True])
def test_what_is_written_between_steps_withdraws(where: str, *, last: bool) -> None:
    model = KeepsGradients() if where == "backward" else WithBuffer()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    settings: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-5, "source": TestSource(1)}
    private = privatize(model, optimizer, examples(), num_steps=3, **settings)

    def train_all() -> None:
        for x, y in private.loader:
            number = private.step(plain_losses(private, x, y)).number
            if number == (3 if last else 1):
                write_between(private, x, where)

    if where == "nowhere":
        train_all()
        assert math.isfinite(private.guarantee().epsilon)
    else:
        with nullcontext() if last and where != "backward" else pytest.raises(HushError, match="outside of a"):
            train_all()
        assert private.guarantee().epsilon == math.inf


def test_a_gradient_stored_in_the_last_backward_pass_withdraws() -> None:
    private = small_run(KeepsGradients(), num_steps=1)
    assert outcome(private) == "withdrawn"


@pytest.mark.parametrize("what", ["weights", "gradients", "state", "nothing"])
def test_hooks_of_an_optimizer_that_change_something_withdraw(what: str) -> None:
    model, row = nn.Linear(6, CLASSES), examples()[0][0]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    settings: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-5, "source": TestSource(1)}
    private = privatize(model, optimizer, examples(), num_steps=3, **settings)

    def before(*_: Any) -> None:
        if what == "gradients":
            model.weight.grad.data[0] = row  # type: ignore[union-attr]

    def after(*_: Any) -> None:
        if what == "weights":
            model.weight.data[0] += row
        elif what == "state":
            optimizer.state[model.weight]["exp_avg"].data[0] = row

    optimizer.register_step_pre_hook(before)
    optimizer.register_step_post_hook(after)
    assert outcome(private) == ("unseen" if what == "nothing" else "refused")
    assert (private.guarantee().epsilon == math.inf) == (what != "nothing")


def test_a_write_between_the_loader_and_the_step_is_refused() -> None:
    def losses(private: PrivateTraining, x: Tensor, y: Tensor) -> Tensor:
        values = plain_losses(private, x, y)
        if private.steps_taken == 5:
            with torch.no_grad():
                private.model.weight[0] += x.mean(0)  # type: ignore[operator]
        return values

    private = small_run(nn.Linear(6, CLASSES))
    assert outcome(private, losses) == "refused"
    assert private.guarantee().epsilon == math.inf


def test_another_step_of_the_optimizer_repeats_nothing() -> None:
    torch.manual_seed(0)
    model = nn.Linear(6, CLASSES)
    twin = copy.deepcopy(model)
    for module, repeats in ((model, 0), (twin, 3)):
        private = small_run(module, source=TestSource(2))
        for x, y in private.loader:
            private.step(plain_losses(private, x, y))
            for _ in range(repeats):
                private.optimizer.step()
    assert torch.equal(model.weight, twin.weight)
    assert math.isfinite(private.guarantee().epsilon)


def test_scaled_losses_are_refused() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    private = small_run(nn.Linear(6, CLASSES))
    assert outcome(private, lambda private, x, y: scaler.scale(plain_losses(private, x, y))) == "refused"


class Centres(nn.Module):
    """The centre loss: a criterion with parameters of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.centres = nn.Parameter(torch.randn(CLASSES, CLASSES))

    def forward(self, outputs: Tensor, y: Tensor) -> Tensor:
        return (outputs - self.centres[y]).square().sum(1)


def test_parameters_of_a_criterion_are_refused() -> None:
    criterion = Centres()
    private = small_run(nn.Linear(6, CLASSES))
    assert outcome(private, lambda private, x, y: criterion(private.model(x), y)) == "refused"


@pytest.mark.parametrize("kind", ["subset", "nested", "concatenated"])
def test_one_record_many_times_is_refused(kind: str) -> None:
    plain = TensorDataset(*examples())
    data = {
        "subset": lambda: Subset(plain, [5] * 200),
        "nested": lambda: Subset(Subset(plain, list(range(20))), [1, 2, 3, 1]),
        "concatenated": lambda: ConcatDataset([plain, plain]),
    }[kind]()
    with pytest.raises(HushError, match="more than once"):
        small_run(nn.Linear(6, CLASSES), data)
    small_run(nn.Linear(6, CLASSES), Subset(plain, [3, 4, 5]))


@pytest.mark.parametrize("wrong", ["loss", "loss, detached", "stored", "criterion"])
def test_clipped_sum_refuses_what_the_loop_refuses(wrong: str) -> None:
    x, _ = examples()
    model: nn.Module = KeepsInput() if wrong == "stored" else nn.Linear(6, CLASSES)
    scale = nn.Parameter(torch.ones(()))

    def loss(module: nn.Module, batch: Tensor) -> Tensor:
        losses = module(batch).square().sum(1)
        if wrong == "criterion":
            return losses * scale
        return {"loss": lambda: losses - losses.mean(), "loss, detached": lambda: losses / losses.detach().mean()}.get(
            wrong, lambda: losses
        )()

    with pytest.raises(HushError):
        clipped_sum(model, x, loss, clip_norm=1.0)


def test_a_released_model_holds_no_rows() -> None:
    """Whatever is pickled, the rows of the data are not among its numbers."""
    model = KeepsInput()
    private = small_run(model)
    assert outcome(private) == "refused"
    model = KeepsInput()
    private = small_run(model)
    for x, _ in private.loader:
        model(x)
        break
    with pytest.raises(HushError, match="last_input"):
        private.close()
    assert b"last_input" not in pickle.dumps(private.close())


class Keeps(nn.Linear):
    when = (True, False)  # in training mode, or in evaluation mode

    def forward(self, x: Tensor) -> Tensor:
        if self.training in self.when:
            self.last_input = x
        return super().forward(x)


class KeepsLater(Keeps):
    when = (False,)


def test_an_estimator_does_not_keep_rows() -> None:
    x, y = examples()
    settings: dict[str, Any] = {"epsilon": 5.0, "delta": 1e-3, "data_norm": 1.0, "classes": range(CLASSES), "epochs": 1}
    with pytest.raises(HushError, match="last_input"):
        PrivateClassifier(Keeps, **settings).fit(x.numpy(), y.numpy())
    estimator = PrivateClassifier(KeepsLater, **settings).fit(x.numpy(), y.numpy())
    assert 0 <= estimator.score(x.numpy(), y.numpy()) <= 1
    assert b"last_input" not in pickle.dumps(estimator.module_)


def test_the_size_of_a_batch_is_constant() -> None:
    """So losses that are divided by it tell nothing about other examples, though samples have random sizes."""
    sizes = set()
    private = small_run(nn.Linear(6, CLASSES), num_steps=40, batch_size=8)
    for x, y in private.loader:
        sizes.add((len(x), len(y)))
        private.step(plain_losses(private, x, y) / len(x))
    assert sizes == {(private.plan.physical_batch_size,) * 2}
    assert len({int(batch.weights.sum()) for step in range(40) for batch in private._batches(step)}) > 3


READS: dict[str, Callable[[Tensor], Any]] = {
    "item": lambda x: x.mean().item(),
    "float": lambda x: float(x.detach().max()),
    "numpy": lambda x: x.detach().numpy().mean(),
    "tolist": lambda x: x.tolist()[0][0],
    "bool": lambda x: 1.0 if x.mean() > 0 else 2.0,
    "nothing": lambda _: 1.0,
    "of a constant": lambda _: torch.ones(2).sum().item(),
}


@pytest.mark.parametrize("read", READS)
def test_numbers_that_leave_the_tape_are_an_assumption(read: str) -> None:
    """Whether losses depend on them is not seen; loops read losses to print them, too."""
    private = small_run(nn.Linear(6, CLASSES), num_steps=3)
    assert outcome(private, lambda private, x, y: plain_losses(private, x, y) * (1 + READS[read](x) ** 2)) == "unseen"
    stated = any("reads from a batch" in line for line in private.guarantee().assumptions)
    assert stated == (read not in ("nothing", "of a constant"))


def test_what_the_model_itself_reads_is_run_again_and_no_assumption() -> None:
    class Logs(WithHead):
        def before(self, x: Tensor) -> Tensor:
            x.sum().item()
            return x

    private = small_run(Logs(), num_steps=3)
    assert outcome(private) == "unseen"
    assert not any("reads from a batch" in line for line in private.guarantee().assumptions)


def test_noise_from_a_generator_of_the_loop_is_not_suspected() -> None:
    generator, twin = torch.Generator().manual_seed(2), torch.Generator().manual_seed(2)
    private = small_run(nn.Linear(6, CLASSES), num_steps=3)
    assert outcome(private, lambda private, x, y: plain_losses(private, noisy(x, generator), y)) == "unseen"
    for _ in range(3):
        noisy(examples()[0], twin)
    assert torch.equal(generator.get_state(), twin.get_state()), "checks draw nothing from it"


def noisy(x: Tensor, generator: torch.Generator) -> Tensor:
    return x + 0.1 * torch.randn(x.shape, generator=generator)


def test_ordinary_runs_are_not_suspected() -> None:
    """Models and loops of everyday: dropout, a mask, changed learning rates, an evaluation between the steps."""
    model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(), nn.ReLU(inplace=True), nn.Linear(8, CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    private = privatize(
        model, optimizer, examples(), noise_multiplier=1.0, delta=1e-5, num_steps=12, batch_size=8,
        physical_batch_size=5, source=TestSource(4),
    )  # fmt: skip
    seen = []
    for x, y in private.loader:
        optimizer.zero_grad()
        mask = torch.rand(len(x), 6) < 0.9
        losses = F.cross_entropy(private.model(x * mask), y, reduction="none", label_smoothing=0.1)
        seen.append(losses.mean().item())
        if private.step(losses).complete:
            schedule.step()
            model.eval()
            with torch.no_grad():
                model(x)
            model.train()
    assert len(seen) > 12
    assert math.isfinite(private.guarantee().epsilon)
