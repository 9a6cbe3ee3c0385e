"""Parameters outside of modules with rules: norms and sums of whole programs against a loop over the examples."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import Tensor, nn

from cases import first_quick
from hush.errors import Unsupported
from hush.training import Flat, check, looped_sum, privatize
from hush.training.operations import following
from hush.training.operations.layouts import Layout
from hush.training.per_example.clipped_sum import ClippedSum
from hush.training.per_example.engine import GradientEngine
from training.per_example.program_models import BATCH, PROGRAMS, WIDTH, Block, linear, losses, rand, real

# torch warns about its own code where a graph breaks.
pytestmark = pytest.mark.filterwarnings(r"ignore:::torch\..*")
every_program = pytest.mark.parametrize("name", PROGRAMS)
UNCLIPPED = 1e12  # a norm that no gradient reaches: clipping to it shows every error


def program(name: str, count: int = BATCH, dtype: torch.dtype = torch.float64) -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(3)
    model, (x, *others) = PROGRAMS[name]()
    batch = (x[:count], *others)
    return model.to(dtype), tuple(part.to(dtype) if part.is_floating_point() else part for part in batch)


def recorded(model: nn.Module, batch: tuple[Tensor, ...], backend: str | None = None, passes: int = 2) -> ClippedSum:
    """Return the sum of the last of several passes: the first one learns, the others follow."""
    engine = GradientEngine(model, backend=backend)
    try:
        for _ in range(passes):
            with engine.batch(len(batch[0])):
                engine.backward(losses(model, batch))
                total = engine.clipped_sum(Flat(UNCLIPPED))
        return total
    finally:
        engine.detach()


def looped(model: nn.Module, batch: tuple[Tensor, ...]) -> ClippedSum:
    first, *shared = batch
    return looped_sum(model, first, lambda module, x: losses(module, (x, *shared)), clip_norm=UNCLIPPED)


def error(fast: ClippedSum, plain: ClippedSum) -> float:
    """Return the largest difference of sums and norms, relative to the largest gradient and to each norm."""
    largest = max(float(gradient.abs().max()) for gradient in plain.gradients.values())
    zero = torch.zeros(())
    of_sums = [
        float((fast.gradients.get(key, zero) - gradient).abs().max()) / largest
        for key, gradient in plain.gradients.items()
    ]
    return max(*of_sums, 0.0, float((fast.norms / plain.norms - 1).abs().max()))


@every_program
@pytest.mark.parametrize("passes", [1, 2])
def test_sums_and_norms_are_those_of_a_loop(name: str, passes: int) -> None:
    model, batch = program(name)
    assert error(recorded(model, batch, passes=passes), looped(model, batch)) < 1e-10


@every_program
def test_in_single_precision(name: str) -> None:
    model, batch = program(name, dtype=torch.float32)
    assert error(recorded(model, batch), looped(model, batch)) < 1e-5


@every_program
@pytest.mark.parametrize("count", [1, 2])
def test_small_batches(name: str, count: int) -> None:
    """One example has no dimension of its own anywhere; two examples look like many pairs."""
    model, batch = program(name, count)
    assert error(recorded(model, batch), looped(model, batch)) < 1e-10


@pytest.mark.parametrize("name", first_quick(["vit", *(name for name in PROGRAMS if name != "vit")], 1))
def test_traced_passes(name: str) -> None:
    """As dynamo and AOTAutograd trace them: in one graph."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model, batch = program(name)
    assert error(recorded(model, batch, "aot_eager"), looped(model, batch)) < 1e-10
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 1
    assert not torch._dynamo.utils.counters["graph_break"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vit", "rms-norm", "windows", "prompt", "chain"])
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a compiler")
def test_compiled_passes(name: str) -> None:
    torch._dynamo.reset()
    model, batch = program(name, dtype=torch.float32)
    assert error(recorded(model, batch, "inductor"), looped(model, batch)) < 1e-5


@pytest.mark.parametrize("name", first_quick(["vit", "experts", "latents", "windows", "twice"], 2))
def test_private_runs(name: str) -> None:
    """The checks of a run compare two invented examples with a loop."""
    model, batch = program(name, dtype=torch.float32)
    x = torch.cat([batch[0]] * 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    private = privatize(
        model, optimizer, (x, torch.zeros(len(x))), noise_multiplier=1.0, delta=1e-5, num_steps=2, batch_size=8
    )
    for rows, _ in private.loader:
        private.step(losses(private.model, (rows,)))
    assert private.steps_taken == 2


def test_modules_stay_as_they_are() -> None:
    """A module under two names once lost its parameters."""
    model, batch = program("twice")
    before = dict(model.named_parameters(remove_duplicate=False))
    expected = model(*batch)
    recorded(model, batch)
    assert {name: id(param) for name, param in before.items()} == {
        name: id(param) for name, param in model.named_parameters(remove_duplicate=False)
    }
    assert torch.equal(model(*batch), expected)
    assert not any("_hush_tag" in part.__dict__ for part in (*batch, *model.parameters()))


@pytest.mark.parametrize("name", ["windows", "heads"])
def test_a_wrong_order_within_a_dimension_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken twin takes B k rows for k B rows."""
    honest = following.reshaped

    def confused(layout: Layout, before: Any, after: Any, size: int) -> Layout:
        right = honest(layout, before, after, size)
        inner = after[right.dim] // size // right.inner if right.dim >= 0 else 1
        return Layout(right.dim, inner, right.owners, right.inputs)

    monkeypatch.setattr(following, "reshaped", confused)
    model, batch = program(name)
    try:
        wrong = error(recorded(model, batch), looped(model, batch))
    except Unsupported:
        return
    assert wrong > 1e-3


def refused(forward: Any, match: str, **parts: Any) -> None:
    model = Block(forward, **parts)
    with pytest.raises(Unsupported, match=match):
        recorded(model, (real(),))


def test_what_mixes_examples_is_refused_by_name() -> None:
    """A parameter after a sum over the batch, batch statistics, and a layer across examples."""
    refused(lambda m, x: x + x.sum(0) * m.scale, "cannot be told apart, perhaps since sum", scale=rand(WIDTH))
    refused(
        lambda m, x: nn.functional.batch_norm(x.mT, None, None, m.scale, training=True), "scale: batch", scale=rand(6)
    )
    refused(lambda m, x: (x.movedim(0, -1) @ m.mix).movedim(-1, 0), "mix: a linear layer that adds up", mix=rand(4, 4))
    refused(lambda m, x: x * m.scale.view(-1, 1, 1), "scale: its entries are used by one example", scale=rand(BATCH))


def test_a_parameter_that_meets_no_batch_is_refused() -> None:
    model = Block(lambda m, x: m.layer(x), layer=linear(), scale=rand(WIDTH))
    with pytest.raises(Unsupported, match="^scale: used outside"):
        check(model, real(), lambda module, x: module(x).flatten(1).sum(1) * module.scale.sum())


def test_data_may_choose_other_experts_in_each_pass() -> None:
    model, (x,) = program("experts")
    engine = GradientEngine(model)
    for scale in (1.0, -2.0, 0.1):
        with engine.batch(BATCH):
            engine.backward(losses(model, (x * scale,)))
            total = engine.clipped_sum(Flat(UNCLIPPED))
        assert error(total, looped(model, (x * scale,))) < 1e-10
    engine.detach()


def test_dropout_draws_the_same_after_a_restart() -> None:
    """A pass that starts again must not be another random function than the ordinary one."""
    model = nn.Sequential(PROGRAMS["positions-expanded"]()[0], nn.Dropout(0.5))
    x = torch.randint(0, 11, (BATCH, BATCH))
    torch.manual_seed(5)
    expected = model(x)
    engine = GradientEngine(model)
    with engine.batch(BATCH):
        torch.manual_seed(5)
        assert torch.allclose(model(x), expected)
    engine.detach()


def second_pass(model: nn.Module, change: Any, x: Tensor, backend: str | None = None) -> float:
    """Return the error of a pass that follows another one, after a change to the model."""
    torch._dynamo.reset()
    engine = GradientEngine(model, backend=backend)
    for number in range(3):
        if number == 2:
            change(model)
        with engine.batch(len(x)):
            engine.backward(losses(model, (x,)))
            total = engine.clipped_sum(Flat(UNCLIPPED))
    engine.detach()
    return error(total, looped(model, (x,)))


def turn_mask(model: Any) -> None:
    model.mask = 1 - model.mask


def next_task(model: Any) -> None:
    model.task = 1


CHANGING: dict[str, tuple[Any, Any]] = {
    "number": (lambda m, x: x @ (m.first * (1.0 + m.task)), next_task),
    "mask": (lambda m, x: x @ (m.first * m.mask), turn_mask),
    "parameter": (lambda m, x: x @ (m.first, m.second)[m.task], next_task),
    "factor": (lambda m, x: x * (m.first, m.second)[m.task][0], next_task),
    "row": (lambda m, x: x * m.first[m.task], next_task),
    "slice": (lambda m, x: x[..., :2] @ m.first[m.task : m.task + 2], next_task),
    "positions": (lambda m, x: x + m.first[torch.arange(m.task, m.task + 1)], next_task),
}


@pytest.mark.parametrize("name", CHANGING)
@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_a_later_pass_may_use_other_functions_of_other_parameters(name: str, backend: str | None) -> None:
    """Once, it was led back as in the first pass, to the first pass's parameters."""
    torch.manual_seed(4)
    run, change = CHANGING[name]
    model = Block(run, first=rand(WIDTH, WIDTH), second=rand(WIDTH, WIDTH)).double()
    model.task, model.mask = 0, (torch.rand(WIDTH, WIDTH) < 0.5).double()  # type: ignore[assignment]
    assert second_pass(model, change, real().double(), backend) < 1e-10


def test_a_mask_may_cover_other_examples_in_a_later_pass() -> None:
    """Once, the first batch's owners were kept: one example's entries passed for those of all."""

    def run(m: Any, x: Tensor) -> Tensor:
        y = x.clone()
        y[x > 1] = m.token
        return y

    model = Block(run, token=rand(1)).double()
    engine = GradientEngine(model)
    first, later = torch.zeros(4, 4).double(), torch.zeros(4, 4).double()
    first[:, 0], later[0] = 2.0, 2.0
    for x in (first, later):
        with engine.batch(4):
            engine.backward(model(x).sum(1))
            total = engine.clipped_sum(Flat(1.0))
    engine.detach()
    assert total.norms.tolist() == [4.0, 0.0, 0.0, 0.0]
    assert float(total.gradients["token"].norm()) <= 1.0


def test_the_result_of_a_linear_layer_may_be_changed_in_place() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, 4), nn.ReLU(inplace=True)).double()
    x = torch.randn(BATCH, 3, WIDTH).double()
    assert error(recorded(model, (x,)), looped(model, (x,))) < 1e-10


def test_a_view_of_a_function_of_parameters_is_not_written() -> None:
    def run(m: Any, x: Tensor) -> Tensor:
        weight = m.weight.clone()
        weight.diagonal().mul_(3.0)
        return nn.functional.linear(x, weight)

    refused(run, "weight: .* in place through a view", weight=rand(WIDTH, WIDTH))


@pytest.mark.parametrize("number", range(4))
def test_arguments_by_name_and_writes_in_place(number: int) -> None:
    runs: list[Any] = [
        lambda m, x: nn.functional.linear(input=x, weight=m.weight),
        lambda m, x: torch.matmul(x, other=m.weight),
        lambda m, x: x @ m.weight.clone().fill_diagonal_(0.0),
        lambda m, x: x @ torch.empty_like(m.weight).copy_(m.weight),
    ]
    model = Block(runs[number], weight=rand(WIDTH, WIDTH)).double()
    x = real().double()
    assert error(recorded(model, (x,)), looped(model, (x,))) < 1e-10
