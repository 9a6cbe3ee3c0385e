"""`fit`: private training without a loop."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hush.errors import InvalidArgument, Unsupported
from hush.randomness import TestSource
from hush.training import Projected, fit
from training.loops import LINEAR_COUNT, linear_data


def test_fit_learns_and_reports(capsys: pytest.CaptureFixture[str]) -> None:
    """With 30 other seeds, the accuracy is 0.991 +- 0.003: 28 standard deviations above the threshold."""
    torch.manual_seed(3)
    x = torch.randn(2000, 6)
    y = (x[:, 0] + x[:, 1] > 0).long()
    model = nn.Linear(6, 2)
    settings: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-5, "epochs": 5, "batch_size": 200}
    private = fit(model, (x, y), test=(x, y), source=TestSource(3), **settings)
    with torch.no_grad():
        assert float((model(x).argmax(1) == y).float().mean()) > 0.9
    shown = capsys.readouterr().err
    assert "accuracy" in shown
    assert "epsilon 3.00" in shown
    assert private.guarantee().epsilon <= 3


def test_fit_takes_columns_and_projections_and_names_missing_ones() -> None:
    x, y = linear_data()
    users = torch.arange(LINEAR_COUNT) // 3
    settings: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-3, "num_steps": 2, "progress": False}
    columns = {"x": x, "y": y, "user": users}
    done = fit(nn.Linear(4, 2), columns, inputs="x", target="y", unit="user", batch_size=5, **settings)
    assert done.plan.num_units == 20
    fit(nn.Linear(4, 2), (x, y), contribution=Projected(6), batch_size=12, **settings)
    with pytest.raises(InvalidArgument, match="^inputs=None: expected one of the columns x, y"):
        fit(nn.Linear(4, 2), columns, unit="user", batch_size=5, **settings)
    with pytest.raises(InvalidArgument, match="^data='tuple': expected examples and targets"):
        fit(nn.Linear(4, 2), (x, y, y), batch_size=5, **settings)
    with pytest.raises(InvalidArgument, match="^data='tuple'"):
        fit(nn.Linear(4, 2), (x,), batch_size=5, **settings)
    fit(nn.Linear(4, 2), (x.numpy(), y.numpy()), batch_size=5, **settings)

    def shared(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, targets, reduction="none") / len(targets)

    with pytest.raises(Unsupported, match="^loss: the loss of an example depends on other examples"):
        fit(nn.Linear(4, 2), (x, y), loss=shared, batch_size=5, **settings)


def test_fit_takes_ordinary_losses() -> None:
    x, y = linear_data()
    settings: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-3, "num_steps": 2, "progress": False}
    settings["batch_size"] = 12
    sigmoid = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid(), nn.Flatten(0))
    fit(sigmoid, (x, y.float()), loss=nn.BCELoss(reduction="none"), **settings)

    def squeezed(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(outputs.squeeze(), targets, reduction="none")

    fit(nn.Linear(4, 1), (x, y.float()), loss=squeezed, **settings)

    def noisy(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.squeeze(1) - targets - 0.1 * torch.randn_like(targets)).square()

    fit(nn.Linear(4, 1), (x, y.float()), loss=noisy, **settings)

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"logits": self.layer(x)}

    def shared(outputs: dict[str, Tensor], targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs["logits"], targets, reduction="none") / (targets != -100).sum()

    with pytest.raises(Unsupported, match="^loss"):
        fit(Named(), (x, y), loss=shared, **settings)
