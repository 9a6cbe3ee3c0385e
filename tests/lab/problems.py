"""Problems on which clipping changes convergence, and the table of what it may change."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hush.lab import ntk
from hush.training import Adaptive, Automatic, ByName, Clipping, Flat, Global, Normalized, PerLayer


class TwoLayers(nn.Module):
    """A linear model whose weights are in two layers; zero at first."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(inputs, 1, bias=False), nn.Linear(inputs, 1, bias=False)
        nn.init.zeros_(self.left.weight)
        nn.init.zeros_(self.right.weight)

    def forward(self, x: Tensor) -> Tensor:
        left, right = x.chunk(2, 1)
        return self.left(left) + self.right(right)


def squared(outputs: Tensor, y: Tensor) -> Tensor:
    return 0.5 * (outputs - y).flatten(1).square().sum(1)


def cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs, y, reduction="none")


def worst_case() -> tuple[nn.Module, Tensor, Tensor, ntk.Loss]:
    """Return a problem, found among small integers, on which every line of the table differs from the one above.

    There are as many parameters as examples, and all can be fitted.
    """
    left = [[-2.0, 0], [3, 4], [-3, 3], [-2, -1]]
    right = [[-3.0, -4], [4, -1], [-2, -1], [-4, 2]]
    x = torch.cat([torch.tensor(left), torch.tensor(right)], 1)
    return TwoLayers(2), x, torch.tensor([[1.0], [7], [-1], [1]]), squared


def network() -> tuple[nn.Module, Tensor, Tensor, ntk.Loss]:
    """Return a small classifier, whose examples are of different sizes."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(7, 5, generator=generator) * torch.linspace(0.2, 3, 7).unsqueeze(1)
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    with torch.no_grad():
        for param in model.parameters():
            param.copy_(torch.randn(param.shape, generator=generator) * 0.7)
    return model, x, torch.arange(7) % 3, cross_entropy


# Clipping; whether M is symmetric, has no negative eigenvalue, and no negative quadratic form on `worst_case`.
TABLE: dict[str, tuple[Clipping | None, bool, bool, bool]] = {
    "none": (None, True, True, True),
    "large clip norm": (Flat(1e3), True, True, True),
    "large clip norm, per layer": (Flat(1e3, PerLayer()), True, True, True),
    "global": (Global(1.0, threshold=100.0), True, True, True),
    "global, per layer": (Global(1.0, PerLayer(), threshold=100.0), True, True, True),
    "global, one example beyond": (Global(1.0, threshold=20.0), False, True, False),
    "flat": (Flat(1.0), False, True, False),
    "adaptive": (Adaptive(1.0), False, True, False),
    "automatic": (Automatic(1.0), False, True, False),
    "normalized": (Normalized(1.0), False, True, False),
    "flat, per layer": (Flat(1.0, PerLayer()), False, False, False),
    "flat, by name": (Flat(1.0, ByName({"left": 1, "right": 1})), False, False, False),
    "automatic, per layer": (Automatic(1.0, PerLayer()), False, False, False),
    "normalized, per layer": (Normalized(1.0, PerLayer()), False, False, False),
}
CLIPPED = [name for name, row in TABLE.items() if row[0] is not None]
