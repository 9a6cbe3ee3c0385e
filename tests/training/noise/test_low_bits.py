"""Attacks on the low bits of noisy sums: they tell two sums apart if fp32 noise meets an fp32 sum, and not on the grid.

fp32 noise of scale s is a sum of four numbers of about that size, so nearly all small values of it are multiples of
L, about s / 2^26. The attacker knows both sums that may have been noised, and asks how many small differences from each
are such multiples. All tests share one limit: whatever the attacker does, one Gaussian release of sensitivity 1 lets
them be right with probability Phi(1 / (2 sigma)) at most. How often they are right in n runs is compared with the
binomial law: a false alarm with probability 1e-8 in each of the tests, of which there are fewer than 50.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from scipy.stats import binom, norm
from torch import Tensor, nn

from hush.guarantee import Relation
from hush.randomness.source import system_source
from hush.training import privatize
from hush.training.loop.update import Updater
from hush.training.noise.noise_grid import NoiseGrid
from training.loops import noisy_gradients

DIVISOR = 64.0
FALSE_ALARM = 1e-8
Reader = Callable[[Tensor, float], Tensor]  # from weights after a step from zero, and L, to gradients


def fp32_noise(size: int, scale: float) -> Tensor:
    """Box-Muller in single precision, four draws to a value: what training added until grids came."""
    columns = -(-size // 8)
    seed = system_source().word() % 2**63
    uniform = torch.rand(2, 4, columns, generator=torch.Generator().manual_seed(seed))
    radii = (1 - uniform[0]).log_().mul_(-0.5).sqrt_().mul_(scale)
    angles = uniform[1] * (2 * math.pi)
    a, b, c, d = (torch.stack([angles.cos(), angles.sin()]) * radii).unbind(1)
    mixed = torch.stack([a + b + c + d, a + b - c - d, a - b + c - d, a - b - c + d])
    return mixed.view(-1)[:size]


def noisy_in_floats(self: NoiseGrid, values: Tensor | None, noise: Tensor, divisor: float, out: Tensor) -> Tensor:
    """The broken twin of `NoiseGrid.noisy`: fp32 noise on an fp32 sum."""
    out.copy_(fp32_noise(len(out), self.stddev * self.spacing / divisor))
    return out if values is None else out.add_(values.float(), alpha=1 / divisor)


def lattice(scale: float) -> float:
    """L: the distance of small values of fp32 noise."""
    return 2.0 ** (math.floor(math.log2(scale)) - 26)


def share_on_lattice(rest: Tensor, unit: float) -> float:
    """The share of these numbers that are nearly multiples of a unit; a half if there are none."""
    places = rest / unit
    return float(((places - places.round()).abs() < 0.2).double().mean()) if len(rest) else 0.5


@dataclass(frozen=True, kw_only=True)
class Attack:
    """How the weights after one step from zero are read.

    Attributes:
        sigma: The noise multiplier.
        size: The number of weights.
        others: Whether other examples contribute to all weights, too.
        lr: The learning rate.
        adam: Whether the optimizer is Adam, and not SGD.
        dtype: The type of the weights.
        limit: How small the values are that are looked at: in L, or None for a 16th of the noise.
        more_runs: How many runs are added to those that suffice if the attacker is nearly always right.
    """

    sigma: float
    size: int = 20_000
    others: bool = True
    lr: float = 1.0
    adam: bool = False
    dtype: torch.dtype = torch.float32
    limit: float | None = None
    more_runs: int = 0

    @property
    def unit(self) -> float:
        """L, for the noise on the mean gradient."""
        return lattice(self.sigma / DIVISOR)

    def sums(self) -> tuple[Tensor, Tensor]:
        """Two fp32 sums at distance 1: without and with one more contribution."""
        generator = torch.Generator().manual_seed(3)
        contribution = torch.randn(self.size, generator=generator)
        base = torch.randn(self.size, generator=generator) * (0.1 if self.others else 0.0)
        return base, base + contribution / contribution.norm()

    def observed(self, total: Tensor) -> Tensor:
        """The gradient that the attacker computes from the weights after a step with fresh noise."""
        weight = nn.Parameter(torch.zeros(self.size, dtype=self.dtype))
        model = nn.ParameterDict({"weight": weight})
        epsilon = 1024 * self.unit
        kind: Any = torch.optim.Adam if self.adam else torch.optim.SGD
        optimizer = kind([weight], lr=self.lr, **({"eps": epsilon} if self.adam else {}))
        grid = NoiseGrid.of_sum(clip_norm=1.0, stddev=self.sigma, size=self.size)
        key = system_source().words(4).tobytes()
        Updater(model, [optimizer])(key, 0, {"weight": total}, grid, DIVISOR)
        step = -weight.detach().double() / self.lr
        return epsilon * step / (1 - step.abs()) if self.adam else step  # Adam's first step is g / (|g| + eps)

    def guess(self, gradient: Tensor, sums: tuple[Tensor, Tensor]) -> bool:
        """Whether the second sum looks more likely."""
        if self.limit is not None:
            small = torch.nonzero(gradient.abs() < self.limit * self.unit).view(-1)
            gradient, sums = gradient[small], (sums[0][small], sums[1][small])
        shares = []
        for total in sums:
            rest = gradient - total.double() / DIVISOR
            shares.append(share_on_lattice(rest[rest.abs() < self.sigma / DIVISOR / 16], self.unit))
        return shares[1] > shares[0]


def is_broken(right: int, runs: int, chance: float) -> bool:
    """Whether so many right guesses are too many, if each is right with this probability at most."""
    return right > binom.isf(FALSE_ALARM, runs, chance)


def attack_succeeds(attack: Attack) -> bool:
    chance = float(norm.cdf(1 / (2 * attack.sigma)))
    # A third more runs than it takes for a success to be possible, and a few.
    runs = 2 * (math.ceil(math.log(FALSE_ALARM) / math.log(chance) * 2 / 3) + 8) + attack.more_runs
    sums = attack.sums()
    right = sum(attack.guess(attack.observed(sums[run % 2]), sums) == bool(run % 2) for run in range(runs))
    return is_broken(right, runs, chance)


QUICK = {
    "sigma 10": Attack(sigma=10.0),
    "sigma 100, lr 0.1": Attack(sigma=100.0, lr=0.1),
    "sigma 1, lr 2^-7": Attack(sigma=1.0, lr=2.0**-7),
    "one row": Attack(sigma=10.0, size=768, others=False),
}
SLOW = {
    "sigma 0.3, lr 0.1": Attack(sigma=0.3, size=8_000, lr=0.1),
    "sigma 3, lr 2^-20": Attack(sigma=3.0, lr=2.0**-20),
    "sigma 30, one row, lr 0.1": Attack(sigma=30.0, size=768, others=False, lr=0.1),
    "Adam's first step": Attack(sigma=10.0, size=200_000, adam=True, lr=1e-3, limit=8192.0),
    # bf16 shows the low bits of values below 100 L only: of five weights of four million. The attacker is right in
    # 86 of 100 runs (120 of 140, measured), and needs 157 of 220: a miss with probability 1e-8.
    "bf16": Attack(sigma=8.0, size=4_000_000, others=False, dtype=torch.bfloat16, limit=96.0, more_runs=164),
}


def check(attack: Attack, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not attack_succeeds(attack)
    monkeypatch.setattr(NoiseGrid, "noisy", noisy_in_floats)
    assert attack_succeeds(attack), "the broken twin is caught"


@pytest.mark.parametrize("name", QUICK)
def test_low_bits_say_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(QUICK[name], monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_low_bits_say_nothing_in_other_types_and_optimizers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(SLOW[name], monkeypatch)


class TiedRows(nn.Module):
    """An embedding whose rows are looked up twice under two names."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.first = nn.Embedding(2, size)
        self.second = nn.Embedding(2, size)
        self.second.weight = self.first.weight
        nn.init.zeros_(self.first.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        return torch.as_tensor(self.first(tokens) + self.second(tokens))


class Rows(TiedRows):
    """An embedding."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        del self.second

    def forward(self, tokens: Tensor) -> Tensor:
        return torch.as_tensor(self.first(tokens))


def run_on_tokens(kind: type[TiedRows], tokens: Tensor, direction: Tensor) -> tuple[Tensor, Tensor, float]:
    """One step from zero: the weights, the noisy gradient, and the probability of a right guess that is allowed."""
    model = kind(len(direction))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    settings: dict[str, Any] = {"noise_multiplier": 10.0, "delta": 1e-5, "num_steps": 1}
    private = privatize(model, optimizer, (tokens,), relation=Relation.REPLACE, **settings)
    steps = noisy_gradients(optimizer)
    for (batch,) in private.loader:
        private.step((private.model(batch) * direction).sum(-1))
    guarantee = private.guarantee()
    allowed = math.exp(guarantee.epsilon) / (1 + math.exp(guarantee.epsilon)) + guarantee.delta
    return model.first.weight.detach()[1].double(), steps[0][0][1].double(), allowed


def token_attack_succeeds(kind: type[TiedRows], read: str) -> bool:
    """End to end, by the public API only: does one record's token occur? By what no one else's gradient touches."""
    direction = torch.randn(768, generator=torch.Generator().manual_seed(0))
    tokens = torch.zeros(64, dtype=torch.long)
    unit, scale = lattice(10.0 / DIVISOR), 10.0 / DIVISOR
    right, runs, allowed = 0, 80, 1.0
    for number in range(runs):
        tokens[-1] = number % 2
        weights, gradient, allowed = run_on_tokens(kind, tokens, direction)
        seen = gradient if read == "grad" else -weights
        is_absent = share_on_lattice(seen[seen.abs() < scale / 8], unit) > 0.77
        right += is_absent != bool(number % 2)
    return is_broken(right, runs, allowed)


@pytest.mark.slow
@pytest.mark.parametrize("read", ["weights", "grad"])
@pytest.mark.parametrize("kind", [Rows, TiedRows])
def test_a_row_of_one_record_says_nothing(kind: type[TiedRows], read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an attacker would: against epsilon 0.726, with rows that only one record uses. 80 runs of 30 ms."""
    assert not token_attack_succeeds(kind, read)
    monkeypatch.setattr(NoiseGrid, "noisy", noisy_in_floats)
    assert token_attack_succeeds(kind, read), "the broken twin is caught"
