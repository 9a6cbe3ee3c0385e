"""What people who had not written it found in the breadth of training, each as a test."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset

import hush
from hush.accounting import PldAccountant
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Relation, Unit
from hush.randomness import TestSource
from hush.training import (
    Adaptive,
    Augmented,
    BufferedToeplitz,
    FixedSize,
    Full,
    InOrder,
    LinearCurve,
    MovingAverage,
    PiecewiseCurve,
    Poisson,
    Projected,
    Schedule,
    ShuffledEpochs,
    UserGroups,
    Users,
    add_lora,
    freeze_except,
    replace_batchnorm,
)
from hush.training.per_example.projected import ProjectedClipping

COUNT = 60


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(COUNT, 4, generator=generator), torch.randint(0, 2, (COUNT,), generator=generator)


def run(dataset: Any = None, model: nn.Module | None = None, **settings: Any) -> hush.training.PrivateTraining:
    network = nn.Linear(4, 2) if model is None else model
    settings = {"noise_multiplier": 1.0, "delta": 1e-3, "num_steps": 4, "batch_size": 12} | settings
    if "sampling" in settings:
        del settings["batch_size"]
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    return hush.privatize(network, optimizer, data() if dataset is None else dataset, **settings)


def train(private: Any) -> Any:
    for x, y in private.loader:
        private.step(F.cross_entropy(private.model(x), y, reduction="none"))
    return private


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e25])
def test_nothing_in_the_first_examples_ends_a_run(value: float) -> None:
    x, y = data()
    x[0] = value
    private = train(run((x, y), sampling=Full()))
    assert all(bool(param.isfinite().all()) for param in private.model.parameters())


def test_noise_of_a_count_can_be_chosen_with_an_epsilon() -> None:
    private = run(noise_multiplier=None, epsilon=2.0, clipping=Adaptive(count_noise=5.0))
    assert private.plan.clipping == Adaptive(count_noise=5.0)
    assert 1.99 < private.plan.guarantee().epsilon <= 2.0
    with pytest.raises(InvalidArgument, match="^count_noise"):
        run(clipping=Adaptive(count_noise=1.0), schedule=Schedule(noise_multiplier=PiecewiseCurve({0: 1.0, 2: 3.0})))


class Named(Dataset[dict[str, Any]]):
    """Examples that are mappings."""

    def __init__(self, repeat: int) -> None:
        self.x, self.y = data()
        self.repeat = repeat

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": self.x[index], "y": self.y[index], "user_id": index // self.repeat}


def test_fit_takes_columns_projections_and_names_what_it_lacks() -> None:
    x, y = data()
    users = torch.arange(COUNT) // 3
    settings: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-3, "num_steps": 2, "progress": False}
    columns = {"x": x, "y": y, "user": users}
    done = hush.fit(nn.Linear(4, 2), columns, inputs="x", target="y", unit="user", batch_size=5, **settings)
    assert done.plan.num_units == 20
    hush.fit(nn.Linear(4, 2), (x, y), contribution=Projected(6), batch_size=12, **settings)
    with pytest.raises(InvalidArgument, match="^inputs=None: expected one of the columns x, y"):
        hush.fit(nn.Linear(4, 2), columns, unit="user", batch_size=5, **settings)
    with pytest.raises(InvalidArgument, match="^dataset='tuple': expected examples and targets"):
        hush.fit(nn.Linear(4, 2), (x, y, y), batch_size=5, **settings)
    with pytest.raises(InvalidArgument, match="^dataset='tuple'"):
        hush.fit(nn.Linear(4, 2), (x,), batch_size=5, **settings)
    hush.fit(nn.Linear(4, 2), (x.numpy(), y.numpy()), batch_size=5, **settings)

    def shared(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, targets, reduction="none") / len(targets)

    with pytest.raises(Unsupported, match="^loss: that of an example depends on the others"):
        hush.fit(nn.Linear(4, 2), (x, y), loss=shared, batch_size=5, **settings)


@pytest.mark.parametrize("name", ["userId", "UserID", "user id", "uid", "subject", "patient-number", "email"])
@pytest.mark.parametrize("kind", ["integers", "column", "floats", "words"])
def test_repeated_ids_are_noticed(name: str, kind: str) -> None:
    x, y = data()
    ids: Any = torch.arange(COUNT) // 3
    ids = {"integers": ids, "column": ids.view(-1, 1), "floats": ids.double(), "words": ids.numpy().astype(str)}[kind]
    with pytest.raises(InvalidArgument, match="^unit=None"):
        run({"x": x, "y": y, name: ids})
    assert run({"x": x, "y": y, name: ids}, unit=name, batch_size=4).plan.num_units == 20


def test_examples_that_are_mappings_have_columns() -> None:
    with pytest.raises(InvalidArgument, match="user_id"):
        run(Named(3))
    assert run(Named(3), unit="user_id", batch_size=4).plan.num_units == 20
    run(Named(1))


def test_parameters_without_an_optimizer_are_refused() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    add_lora(model, rank=2, targets=["0"])
    with pytest.raises(InvalidArgument, match="^optimizer=.*lora"):
        hush.privatize(model, optimizer, data(), noise_multiplier=1.0, delta=1e-3, num_steps=1)


def test_a_run_goes_on_with_another_transform_object() -> None:
    first = run(contribution=Augmented(2, lambda batch: batch), source=TestSource(1))
    second = run(contribution=Augmented(2, lambda batch: batch), source=TestSource(1))
    second.load_state_dict(first.state_dict())


def test_what_a_transform_returns_is_not_written_to() -> None:
    kept = torch.ones(1000, 4)
    private = run(contribution=Augmented(2, lambda batch: (kept[: len(batch[0])], batch[1])))
    train(private)
    assert bool((kept == 1).all())


@pytest.mark.parametrize("sampling", [FixedSize(7), Full(), ShuffledEpochs(7), InOrder(7), Poisson(7, 40), Poisson(7)])
@pytest.mark.parametrize("physical", [3, 7, 100])
def test_len_is_honest_for_every_sampling(sampling: Any, physical: int) -> None:
    private = run(sampling=sampling, physical_batch_size=physical, num_steps=12)
    assert len(private.loader) == sum(len(private._batches(step)) for step in range(12))


def test_fixed_samples_are_uniform_and_quick() -> None:
    taken = np.zeros(30)
    for step in range(20_000):
        sample = FixedSize(3).sample(lambda step: bytes(32), step, 30, 3)
        assert len(set(sample.tolist())) == 3
        taken[sample] += 1
    # False alarms: 3.3e-9, for 30 binomial counts.
    assert np.abs(taken - 2000).max() < 6.5 * np.sqrt(20_000 * 0.1 * 0.9)
    assert len(FixedSize(500).sample(lambda step: bytes(32), 0, 10_000_000, 500)) == 500


def test_users_with_few_examples_take_few_rows() -> None:
    x, y = data()
    private = run((x, y), unit=Users(np.arange(COUNT), rows_per_unit=50), batch_size=10, physical_batch_size=1000)
    assert {len(batch.indices) for step in range(4) for batch in private._batches(step)} == {20}


def test_ramps_have_few_stairs() -> None:
    curve = LinearCurve(1.0, 2.0, 1000)
    values = [curve.at(step) for step in range(1500)]
    assert len(set(values)) <= 65
    assert values == sorted(values)
    assert (values[0], values[-1]) == (1.0, 2.0)


def test_times_may_be_datetimes() -> None:
    x, y = data()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    times = [start + timedelta(minutes=30 * number) for number in range(COUNT)]
    ids = np.zeros(COUNT, dtype=int)
    private = run((x, y), unit=Users(ids, 4, times, timedelta(days=1)), batch_size=1, num_steps=1, delta=1e-2)
    assert private.plan.num_units == 2
    with pytest.raises(InvalidArgument, match="^times="):
        run((x, y), unit=Users(ids, 4, ["now"] * COUNT, timedelta(hours=10)))
    with pytest.raises(InvalidArgument, match="^window=10"):
        Users(ids, 4, times, 10)  # type: ignore[arg-type]
    for missing in (None, float("nan")):
        with pytest.raises(InvalidArgument, match="^unit='missing'"):
            run((x, y), unit=Users([missing, *["a"] * (COUNT - 1)]), batch_size=1)


def test_events_of_runs_are_for_their_unit_and_relation() -> None:
    event = run(unit=Users(np.arange(COUNT) // 2), batch_size=5).plan.event()
    PldAccountant(unit=Unit.user()).compose(event)
    with pytest.raises(Unsupported, match="per user"):
        PldAccountant().compose(event)


def test_delta_is_less_than_one_over_the_number() -> None:
    with pytest.raises(InvalidArgument, match="^delta=0.5"):
        run(delta=0.5)


def test_a_run_that_was_ended_early_says_what_that_assumes() -> None:
    private = run()
    for x, y in private.loader:
        private.step(F.cross_entropy(private.model(x), y, reduction="none"))
        break
    assert "the run was not ended because of what it had learned" in private.guarantee().assumptions
    assert "the run was not ended because of what it had learned" not in train(run()).guarantee().assumptions


def test_a_parameter_frozen_between_forward_and_step_stays() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    private = run(model=model)
    x, y = next(iter(private.loader))
    losses = F.cross_entropy(private.model(x), y, reduction="none")
    model[0].weight.requires_grad_(False)
    before = model[0].weight.clone()
    private.step(losses)
    assert torch.equal(before, model[0].weight)


def test_batch_norm_of_vectors_becomes_one_group() -> None:
    model = replace_batchnorm(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)))
    assert model[1].num_groups == 1
    train(run(model=model))


def test_few_projections_cannot_meet_an_epsilon() -> None:
    with pytest.raises(InvalidArgument, match="^projections=2"):
        run(contribution=Projected(2), noise_multiplier=None, epsilon=3.0)


def test_wrong_types_are_refused() -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(InvalidArgument, match="^patterns"):
        freeze_except(model, ["weight"])  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="^decay"):
        MovingAverage(model, decay="a")  # type: ignore[arg-type]


# What is compared with a loop at the first batch


class Centred(nn.Module):
    """Mixes examples, where only some inputs can go."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.layer, self.table, self.way = nn.Linear(4, 2), nn.Embedding(3, 4), way

    def forward(self, x: Tensor) -> Tensor:
        z = {"log": x.log, "table": lambda: self.table(x[:, 0].long()), "plain": x.clone}[self.way]()
        return self.layer(z - z.mean(0))


@pytest.mark.parametrize(("way", "contribution"), [("log", None), ("plain", None), ("plain", Projected(6))])
def test_examples_that_are_mixed_before_the_layers_are_noticed(way: str, contribution: Any) -> None:
    x, y = data()
    model = Centred(way)
    model.table.weight.requires_grad_(False)
    private = run((x.abs() + 0.1, y), model=model, sampling=Full(), contribution=contribution)
    inputs, targets = next(iter(private.loader))

    def losses() -> Tensor:
        return F.cross_entropy(private.model(inputs), targets, reduction="none")

    with pytest.raises(Unsupported):
        private.step(losses() if contribution is None else losses)


class Recurrent(nn.Module):
    """Returns its hidden state, whose first dimension is that of layers."""

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
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.two(x if self.training and float(torch.rand(())) < 0.5 else x + self.one(x))


@pytest.mark.parametrize("kind", [lambda: Recurrent(1), lambda: Recurrent(2), *[Dropped] * 6])
def test_ordinary_models_are_not_refused(kind: Any) -> None:
    private = run(model=kind())
    for x, y in private.loader:
        outputs = private.model(x)
        logits = outputs[0] if isinstance(outputs, tuple) else outputs
        private.step(F.cross_entropy(logits, y, reduction="none"))


def test_fit_takes_ordinary_losses() -> None:
    x, y = data()
    settings: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-3, "num_steps": 2, "progress": False}
    settings["batch_size"] = 12
    sigmoid = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid(), nn.Flatten(0))
    hush.fit(sigmoid, (x, y.float()), loss=nn.BCELoss(reduction="none"), **settings)

    def squeezed(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(outputs.squeeze(), targets, reduction="none")

    hush.fit(nn.Linear(4, 1), (x, y.float()), loss=squeezed, **settings)

    def noisy(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.squeeze(1) - targets - 0.1 * torch.randn_like(targets)).square()

    hush.fit(nn.Linear(4, 1), (x, y.float()), loss=noisy, **settings)

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"logits": self.layer(x)}

    def shared(outputs: dict[str, Tensor], targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs["logits"], targets, reduction="none") / (targets != -100).sum()

    with pytest.raises(Unsupported, match="^loss"):
        hush.fit(Named(), (x, y), loss=shared, **settings)


def test_missing_ids_of_mappings_are_refused() -> None:
    x, y = data()
    rows = [{"x": x[i], "y": y[i], "user": "ann" if i % 2 else float("nan")} for i in range(COUNT)]
    with pytest.raises(InvalidArgument, match="^unit='missing'"):
        run(rows, unit="user", batch_size=1)


@pytest.mark.parametrize("name", ["label_id", "class_id", "input_ids", "label", "category_no"])
def test_numbers_of_things_are_no_people(name: str) -> None:
    x, y = data()
    run({"x": x, "y": y, name: torch.arange(COUNT) // 3})


@pytest.mark.parametrize("name", ["customerid", "patientno", "Employee Number", "ssn", "phone", "IDs", "pid"])
def test_people_by_other_names(name: str) -> None:
    x, y = data()
    with pytest.raises(InvalidArgument, match="^unit=None"):
        run({"x": x, "y": y, name: torch.arange(COUNT) // 3})


def test_a_run_goes_on_with_other_physical_batches() -> None:
    first, second = run(physical_batch_size=7, source=TestSource(1)), run(physical_batch_size=20, source=TestSource(1))
    second.load_state_dict(first.state_dict())


# Losses


def test_a_gan_whose_critic_is_private() -> None:
    """Only the critic sees data; the generator learns from the private critic."""
    real, _ = data()
    critic = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    generator = nn.Linear(3, 4)
    learns = torch.optim.SGD(generator.parameters(), lr=0.1)
    private = run((real,), model=critic)
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


def test_several_tasks_with_labels_that_some_examples_lack() -> None:
    x, _ = data()
    classes = torch.randint(0, 3, (COUNT,))
    classes[::3] = -100
    values = torch.randn(COUNT)

    def losses(model: nn.Module, batch: Any) -> Tensor:
        logits, found = model(batch[0])
        return F.cross_entropy(logits, batch[1], reduction="none") + 0.5 * (found - batch[2]).square()

    hush.training.check(TwoHeads(), (x[:5], classes[:5], values[:5]), losses)
    private = run((x, classes, values), model=TwoHeads())
    for batch in private.loader:
        private.step(losses(private.model, batch))
    assert private.steps_taken == 4


def test_contrastive_losses_need_a_decomposition() -> None:
    """Among the examples of a batch they are refused; each with negatives of its own they are not."""
    x, _ = data()
    pairs = torch.stack([x, x + 0.1 * torch.randn_like(x)], 1)
    negatives = torch.randn(COUNT, 5, 4)
    private = run((pairs, negatives), model=nn.Linear(4, 8))
    batch, _ = next(iter(private.loader))
    codes = private.model(batch)
    scores = codes[:, 0] @ codes[:, 1].T
    with pytest.raises(Unsupported, match="depends on another one"):
        private.step(F.cross_entropy(scores, torch.arange(len(batch)), reduction="none"))
    private = run((pairs, negatives), model=nn.Linear(4, 8))
    for batch, others in private.loader:
        codes = private.model(torch.cat([batch, others], 1))
        scores = (codes[:, :1] * codes[:, 1:]).sum(-1)
        private.step(F.cross_entropy(scores, torch.zeros(len(batch), dtype=torch.long), reduction="none"))
    assert private.steps_taken == 4


# Guarantees


def test_adaptive_clipping_is_not_correlated() -> None:
    with pytest.raises(Unsupported, match="^Adaptive"):
        run(sampling=InOrder(10), clipping=Adaptive(), correlated=BufferedToeplitz())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # from Python 3.12 on: other threads of the test run may exist
def test_a_forked_process_does_not_go_on() -> None:
    private = run(sampling=Full())
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            next(iter(private.loader))
            os.write(write, b"went on")
        except Unsupported as error:
            os.write(write, str(error).encode()[:9])
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    told = os.read(read, 100)
    os.close(read)
    assert told == b"a run in "


def test_users_come_in_the_order_of_their_first_example_and_stay_there() -> None:
    x, y = data()
    ids = np.array([f"u{number // 2:03}" for number in range(COUNT)])
    renamed = ids.copy()
    renamed[:2] = "zzz"
    owned = [Users(each).rows(None, COUNT) for each in (ids, renamed)]
    assert all(np.array_equal(one, two) for one, two in zip(*owned, strict=True))
    with pytest.raises(Unsupported, match="InOrder with users"):
        run((x, y), unit=Users(ids), sampling=InOrder(5), relation=Relation.REPLACE)


@pytest.mark.parametrize(
    "ids",
    [
        np.array([1.0, np.nan, 2.0, 1.0], dtype=object),
        ["a", float("nan"), "b", "a"],
        np.array([2.0**25, 1, 2, 3], dtype=np.float32),
        np.array([0.5, 1, 2, 3]),
        np.ma.masked_array([1, 2, 3, 4], mask=[0, 1, 0, 0]),
        [("a", 1), "b", "c", "d"],
        [True, 1, 1, 0],
        ["3", 3, 4, 5],
    ],
)
def test_ids_that_would_split_or_merge_people_are_refused(ids: Any) -> None:
    with pytest.raises(InvalidArgument, match="^unit="):
        Users(ids).rows(None, 4)


def test_large_ids_stay_apart() -> None:
    assert len(Users([2**63, 2**63 + 1, -1, 2**63]).rows(None, 4)) == 3
    assert len(Users(["a", "a\0", "b", "a"]).rows(None, 4)) == 3
    assert len(Users([*np.array(["ann", "bob"]), "ann", "bob"]).rows(None, 4)) == 2


def test_a_named_unit_does_not_excuse_repeated_ids() -> None:
    x, y = data()
    with pytest.raises(InvalidArgument, match="user.id"):
        run({"x": x, "y": y, "user.id": torch.arange(COUNT) // 2}, unit=Unit.user())


def test_a_hook_on_one_row_is_noticed_among_many() -> None:
    """Clipping by projected norms, with a backward that is not that of the forward, for one example of thousands."""

    class Larger(torch.autograd.Function):
        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.set_materialize_grads(True)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return torch.cat([15 * g[:1], g[1:]])

        @staticmethod
        def jvp(ctx: Any, tangent: Tensor) -> Tensor:
            return tangent.clone()

    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    clip = ProjectedClipping(model, projections=3, key=bytes(32))
    x, y = torch.randn(5000, 4), torch.randint(0, 2, (5000,))

    def losses() -> Tensor:
        return F.cross_entropy(Larger.apply(model(x)), y, reduction="none")

    # A step's vector is nearly orthogonal to that gradient in 0.7 % of the times; five are in 2e-11.
    for step in range(5):
        clip(losses, clip_norm=0.1, weights=torch.ones(5000), step=step)
    assert clip.way == "double backward", "which measures what the backward does"


def test_projected_losses_are_looked_at_again() -> None:
    x, y = data()
    private = run((x, y), sampling=Full(), contribution=Projected(6))

    def go() -> None:
        for inputs, targets in private.loader:

            def losses(inputs: Tensor = inputs, targets: Tensor = targets) -> Tensor:
                found = F.cross_entropy(private.model(inputs), targets, reduction="none")
                return found if private.steps_taken < 1 else found + found.mean()

            private.step(losses)

    with pytest.raises(Unsupported, match="depends on another one"):
        go()


def test_a_loop_that_was_begun_before_a_state_was_loaded_is_over() -> None:
    private, other = (
        run(sampling=FixedSize(5), physical_batch_size=2),
        run(sampling=FixedSize(5), physical_batch_size=2),
    )
    batches = iter(private.loader)
    x, y = next(batches)
    private.step(F.cross_entropy(private.model(x), y, reduction="none"))
    private.load_state_dict(other.state_dict())
    with pytest.raises(InvalidArgument, match="an old loop"):
        next(batches)


def test_a_resumed_run_has_the_same_owners() -> None:
    x, y = data()
    first = run((x, y), unit=Users(np.arange(COUNT) // 2), batch_size=5)
    second = run((x, y), unit=Users(np.arange(COUNT) % (COUNT // 2)), batch_size=5)
    with pytest.raises(InvalidArgument, match="^owners="):
        second.load_state_dict(first.state_dict())


@pytest.mark.parametrize(
    "settings",
    [
        {"sampling": FixedSize(5), "contribution": Projected(6)},
        {"sampling": Poisson(5), "contribution": Projected(6), "relation": Relation.REPLACE},
        {"sampling": Poisson(5), "unit": UserGroups(np.arange(COUNT) // 2, 2), "relation": Relation.REPLACE},
    ],
)
def test_what_has_no_analysis_is_refused_at_once(settings: dict[str, Any]) -> None:
    with pytest.raises(Unsupported):
        run(**settings)
