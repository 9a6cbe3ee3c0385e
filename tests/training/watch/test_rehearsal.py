"""Rehearsals: what they cost, what they must not suspect, and what they would miss without extremes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo
import torch.nn.functional as F
from torch import Tensor, nn

from hush.errors import Unsupported
from hush.guarantee import Relation
from hush.training import Augmented, FixedSize, Microbatches, Projected, Users
from hush.training.watch import rows
from training.loops import batch_run, run, train

TORCHS_OWN = pytest.mark.filterwarnings(r"ignore:::torch\..*")


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.dropout, self.calls = nn.Linear(6, 3), nn.Dropout(0.1), [0]

    def forward(self, x: Tensor) -> Tensor:
        COUNTS.append(len(x))
        return self.dropout(self.layer(x))


COUNTS: list[int] = []


@pytest.mark.parametrize("num_steps", [40, pytest.param(900, marks=pytest.mark.slow)])
def test_checks_cost_few_forwards(num_steps: int) -> None:
    """The run's own forwards, two for each recurring check, and those of the first batch, which compares examples."""
    COUNTS.clear()
    private = train(run(model=Counted(), num_steps=num_steps, sampling=FixedSize(40), batch_size=None))
    size = private.plan.physical_batch_size
    whole = sum(count == size for count in COUNTS)
    recurring = max(num_steps // 300, 2)
    assert whole == num_steps + 2 * recurring + 2 * 2, "two pairs of batches at the first step"
    # The tape computes two forwards more. All four together, and two backward passes of half a batch each, which take
    # at most twice as long as a forward: eight forwards, where a step takes three.
    assert recurring * 8 / 3 <= max(0.01 * num_steps, 2 * 8 / 3)


class NewAdapter(nn.Module):
    """Dropout before weights of zero: random, though outputs do not show it. So are new LoRA adapters."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.down, self.up = nn.Linear(6, 3), nn.Linear(6, 2, bias=False), nn.Linear(2, 3, bias=False)
        self.dropout = nn.Dropout(0.5)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(self.dropout(x)))


class TwoTowers(nn.Module):
    """As CLIP does, it returns similarities of all pairs, which a loss of one pair does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(6, 4), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        left, right = self.left(x), self.right(x)
        return {"all pairs": left @ right.T, "pair": (left * right).sum(1)}


class Caches(nn.Module):
    """Its mask depends on the shape only, and was made before the run; its counters do not depend on data."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.mask, self.calls, self.shapes = nn.Linear(6, 3), None, 0, {}
        self(torch.zeros(2, 6))

    def forward(self, x: Tensor) -> Tensor:
        if self.mask is None:
            self.mask = torch.ones(6)
        self.calls += 1
        self.shapes[tuple(x.shape[1:])] = "seen"
        return self.layer(x * self.mask)


def of_pairs(outputs: dict[str, Tensor], y: Tensor) -> Tensor:
    return -outputs["pair"] * (1 + y)


def of_classes(outputs: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(outputs, y, reduction="none")


MICRO = {"contribution": Microbatches(2), "sampling": FixedSize(20), "batch_size": None, "relation": Relation.REPLACE}
HARMLESS: dict[str, tuple[Callable[[], nn.Module], Callable[[Any, Tensor], Tensor], dict[str, Any]]] = {
    "a new adapter": (NewAdapter, of_classes, {}),
    "two towers": (TwoTowers, of_pairs, {}),
    "caches": (Caches, of_classes, {}),
    "copies": (lambda: nn.Linear(6, 3), of_classes, {"contribution": Augmented(2)}),
    "micro-batches": (lambda: nn.Linear(6, 3), of_classes, MICRO),
    "users": (lambda: nn.Linear(6, 3), of_classes, {"unit": Users(torch.arange(60) // 3, rows_per_unit=2)}),
    "several batches": (NewAdapter, of_classes, {"physical_batch_size": 7}),
    "one row": (lambda: nn.Linear(6, 3), of_classes, {"physical_batch_size": 1}),
}


def train_with(private: Any, loss: Callable[[Any, Tensor], Tensor]) -> None:
    for x, y in private.loader:
        private.step(loss(private.model(x), y))


@pytest.mark.parametrize("kind", HARMLESS)
def test_harmless_models_are_not_suspected(kind: str) -> None:
    model, loss, settings = HARMLESS[kind]
    private = batch_run(model(), **settings)
    train_with(private, loss)
    assert private.steps_taken == 3


def test_similarities_of_all_pairs_are_refused_where_they_are_used() -> None:
    private = batch_run(TwoTowers())
    with pytest.raises(Unsupported, match="another example"):
        train_with(private, lambda outputs, y: torch.logsumexp(outputs["all pairs"], 1))


class Loudest(nn.Module):
    """Whether any example is large decides for all."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x * 3 if bool((x > 1.9).any()) else x)


def bounded() -> tuple[Tensor, Tensor]:
    """Uniform numbers in [-2.4, 2.4], so that the middle half of a range ends below 1.9."""
    generator = torch.Generator().manual_seed(0)
    return 4.8 * torch.rand(60, 6, generator=generator) - 2.4, torch.arange(60) % 3


@TORCHS_OWN
@pytest.mark.parametrize("compile", [False, "aot_eager"])
def test_mixing_is_refused_with_and_without_compilation(compile: bool | str) -> None:  # noqa: A002
    torch._dynamo.reset()
    torch.manual_seed(0)
    with pytest.raises(Unsupported, match="another example"):
        train(batch_run(Loudest(), bounded(), compile=compile))


def test_a_twin_without_extremes_misses_what_one_large_value_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken twin: all invented rows lie in the middle."""
    torch.manual_seed(0)
    monkeypatch.setattr(rows, "_KINDS", (lambda position: 0.25 + 0.5 * position,) * 2)
    train(batch_run(Loudest(), bounded()))


def test_losses_that_a_function_computes_are_rehearsed() -> None:
    def mixed(private: Any, x: Tensor, y: Tensor) -> Tensor:
        outputs = private.model(x)
        return of_classes(outputs, y) / outputs.detach().std()

    def train_all(loss: Callable[[Any, Tensor, Tensor], Tensor]) -> None:
        private = batch_run(nn.Linear(6, 3), contribution=Projected(4))
        for x, y in private.loader:
            private.step(lambda x=x, y=y: loss(private, x, y))

    train_all(lambda private, x, y: of_classes(private.model(x), y))
    with pytest.raises(Unsupported, match="another example"):
        train_all(mixed)


@TORCHS_OWN
def test_a_compiled_criterion_may_be_used() -> None:
    torch._dynamo.reset()
    criterion = torch.compile(of_classes, backend="aot_eager")
    private = batch_run(nn.Linear(6, 3))
    train_with(private, criterion)
    assert private.steps_taken == 3


def test_a_loop_that_is_left_records_no_more() -> None:
    private = batch_run(nn.Linear(6, 3))
    for _ in private.loader:
        break
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None
    train(private)
    assert private.steps_taken == 3
