"""One record moves a sum of thousands by its own gradient, and does not change how the others are rounded.

The attack: with the victim, the sum in single precision passes a power of two. From there on its last bit counts twice
as much, and thousands of tiny gradients, just above half of that bit, are rounded up. Without the victim each is exact.
The stated epsilon is that of a shift of one clip norm.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import hush
from hush.errors import Unsupported
from hush.randomness import TestSource
from hush.training import Adaptive, Banded, Flat, Full, InOrder, Microbatches, PerLayer, Projected, Users
from hush.training.noise.noise_grid import NoiseGrid
from hush.training.per_example import convolution, gradients, norms, projected_clipping

VICTIM = 0.985
Case = tuple[Callable[[], nn.Module], Callable[[Tensor], Tensor]]


def attack(rounds: int = 1, power: float = 4096.0) -> Tensor:
    """The victim; large gradients, which reach the power of two with its help; and many tiny ones.

    In each further round, negative gradients bring the sum back to the power of two, exactly, and the gap between both
    worlds doubles.
    """
    count = int((power - VICTIM) // 0.9375)
    last_bit = power * 2.0**-23
    values, gap = [VICTIM, *[0.9375] * count, power - VICTIM - count * 0.9375], VICTIM
    for number in range(rounds):
        tiny = int(gap / (last_bit / 2)) - 2
        values += [last_bit / 2 * (1 + 2.0**-8)] * tiny
        if number + 1 < rounds:
            down = int(tiny * last_bit // 0.9375)
            values += [-0.9375] * down + [-(tiny * last_bit - down * 0.9375)]
        gap *= 2
    return torch.tensor(values)


class Lookups(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        rows: Tensor = self.table(torch.zeros(len(x), dtype=torch.long))
        return rows * x


class OwnParameter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x


class FirstOutput(nn.Module):
    """A layer whose loss is its first output at the first position."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layer(x)
        return output.flatten(1)[:, :1]


def column(values: Tensor) -> Tensor:
    return values.unsqueeze(1)


def padded(*shape: int) -> Callable[[Tensor], Tensor]:
    """Inputs of this shape whose first number is the value; the others are 0."""

    def inputs(values: Tensor) -> Tensor:
        result = torch.zeros(len(values), *shape)
        result.flatten(1)[:, 0] = values
        return result

    return inputs


LAYERS: dict[str, Case] = {
    "linear": (lambda: nn.Linear(1, 1, bias=False), column),
    "inner products": (lambda: FirstOutput(nn.Linear(4, 4, bias=False)), padded(2, 4)),
    "dense": (lambda: FirstOutput(nn.Linear(2, 1, bias=False)), padded(3, 2)),
    "convolution": (lambda: FirstOutput(nn.Conv1d(4, 4, 1, bias=False)), padded(4, 1)),
    "embedding": (Lookups, column),
    "own parameter": (OwnParameter, column),
}
COUNT = len(attack())
SETTINGS: dict[str, dict[str, Any]] = {
    "physical batches": {"physical_batch_size": 1000},
    "adaptive": {"clipping": Adaptive(1.0), "clip_norm": None},
    "layers": {"groups": PerLayer()},
    "in order": {"sampling": InOrder(COUNT)},
    "correlated": {"sampling": InOrder(COUNT), "correlated": Banded(bands=2), "num_steps": 2},
    "users": {"unit": Users(torch.arange(COUNT))},
}


def total(case: Case, values: Tensor, **changes: Any) -> Tensor:
    """Return the sum of the first step, as the noise meets it."""
    make, inputs = case
    model = make()
    with torch.no_grad():
        for param in model.parameters():
            param.zero_()
    settings: dict[str, Any] = {"sampling": Full(), "clip_norm": 1.0, "num_steps": 1} | changes
    groups = settings.pop("groups", None)
    if groups is not None:
        settings["clipping"], settings["clip_norm"] = Flat(1.0, groups), None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    x = inputs(values)
    private = hush.privatize(model, optimizer, (x,), noise_multiplier=4.0, delta=1e-5, source=TestSource(0), **settings)
    recorded: list[Tensor] = []

    def record(key: bytes, step: int, totals: dict[str, Tensor], grid: NoiseGrid, divisor: float, stream: Any) -> None:
        recorded.append(torch.cat([value.double().flatten() for value in totals.values()]))

    private._updater = record  # type: ignore[assignment]
    for (batch,) in private.loader:

        def losses(batch: Tensor = batch) -> Tensor:
            output: Tensor = private.model(batch)
            return output[:, 0]

        private.step(losses if isinstance(private.plan.contribution, Projected) else losses())
    return recorded[0]


def shifts(case: Case, values: Tensor, *, removal: bool = True, **settings: Any) -> list[float]:
    """Return how far the sum moves if the victim's gradient is 0, and if the victim is not there."""
    zeroed = values.clone()
    zeroed[0] = 0
    neighbours = [zeroed, values[1:]] if removal else [zeroed]
    with_victim = total(case, values, **settings)
    return [float(torch.linalg.vector_norm(with_victim - total(case, other, **settings))) for other in neighbours]


def add_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken twin: one after the other, in fp32."""

    def added(values: Tensor, factors: Tensor) -> Tensor:
        terms = (values.float() * factors.float().view(-1, *[1] * (values.dim() - 1))).numpy()
        return torch.from_numpy(np.cumsum(terms, axis=0, dtype=np.float32)[-1].copy())

    for form in (gradients.OuterProducts, gradients.TableRows, convolution.ConvPatches):
        monkeypatch.setattr(form, "weighted_sum", lambda self, factors: added(self.materialize(), factors))
    monkeypatch.setattr(norms, "_dense_sum", added)
    monkeypatch.setattr(projected_clipping, "in_double_precision", lambda model: nullcontext())


@pytest.mark.parametrize("layer", LAYERS)
def test_a_record_moves_the_sum_by_no_more_than_its_gradient(layer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shifts(LAYERS[layer], attack()) == pytest.approx([VICTIM, VICTIM], abs=1e-6)
    add_in_single_precision(monkeypatch)
    assert min(shifts(LAYERS[layer], attack())) > 1.2


@pytest.mark.parametrize("setting", SETTINGS)
def test_nor_in_other_kinds_of_runs(setting: str) -> None:
    settings = SETTINGS[setting]
    removal = not {"in order", "correlated", "users"} & {setting}  # these have one row for each record
    measured = shifts(LAYERS["linear"], attack(), removal=removal, **settings)
    assert measured == pytest.approx([VICTIM] * (1 + removal), abs=1e-6)


def test_nor_by_projected_norms(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"contribution": Projected(5), "clip_norm": 100.0}
    assert shifts(LAYERS["linear"], attack()[:7900], **settings) == pytest.approx([VICTIM, VICTIM], abs=1e-6)
    add_in_single_precision(monkeypatch)
    assert min(shifts(LAYERS["linear"], attack()[:7900], **settings)) > 1.2


def test_nor_in_micro_batches() -> None:
    """Half of its gradient, as two records share a contribution."""
    settings: dict[str, Any] = {"sampling": InOrder(COUNT), "contribution": Microbatches(2)}
    assert shifts(LAYERS["linear"], attack(), removal=False, **settings) == pytest.approx([VICTIM / 2], abs=1e-6)


@pytest.mark.slow
def test_nor_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    values = attack(3)
    assert shifts(LAYERS["linear"], values) == pytest.approx([VICTIM, VICTIM], abs=1e-6)
    add_in_single_precision(monkeypatch)
    assert min(shifts(LAYERS["linear"], values)) > 7


@pytest.mark.slow
def test_nor_in_many_physical_batches_of_which_each_is_shifted_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twin in fp32 within physical batches: small errors, but in all of them."""
    values = torch.cat([attack(power=512.0)[:1024] for _ in range(64)])
    assert shifts(LAYERS["linear"], values, physical_batch_size=1024) == pytest.approx([VICTIM, VICTIM], abs=1e-6)
    add_in_single_precision(monkeypatch)
    assert shifts(LAYERS["linear"], values, physical_batch_size=1024)[1] > 1.5


def test_sums_of_too_many_terms_are_refused() -> None:
    """By Higham's bound, with all numbers public: fewer rows at once need fewer additions."""
    norms.refuse_too_many(1e6, 10**5)
    with pytest.raises(Unsupported, match="physical_batch_size"):
        norms.refuse_too_many(1e6, 10**7)
