"""`fit` without a loop, and models whose batch norm is replaced."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hush.errors import InvalidArgument, Unsupported
from hush.randomness import TestSource
from hush.training import Projected, fit, replace_batchnorm
from training.loops import LINEAR_COUNT, linear_data, linear_run, run, train


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


def test_batch_norms_are_replaced_and_keep_their_weights() -> None:
    model = nn.Sequential(nn.Conv2d(3, 48, 3), nn.BatchNorm2d(48), nn.Sequential(nn.BatchNorm2d(48, affine=False)))
    weight = model[1].weight
    replaced = replace_batchnorm(model)
    assert isinstance(replaced[1], nn.GroupNorm)  # type: ignore[index]
    assert replaced[1].weight is weight  # type: ignore[index]
    assert replaced[1].num_groups == 24  # type: ignore[index]
    run(
        model=nn.Sequential(
            nn.Unflatten(1, (3, 2, 1)), nn.Conv2d(3, 8, 1), replace_batchnorm(nn.BatchNorm2d(8)), nn.Flatten()
        )
    )


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
    with pytest.raises(InvalidArgument, match="^dataset='tuple': expected examples and targets"):
        fit(nn.Linear(4, 2), (x, y, y), batch_size=5, **settings)
    with pytest.raises(InvalidArgument, match="^dataset='tuple'"):
        fit(nn.Linear(4, 2), (x,), batch_size=5, **settings)
    fit(nn.Linear(4, 2), (x.numpy(), y.numpy()), batch_size=5, **settings)

    def shared(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, targets, reduction="none") / len(targets)

    with pytest.raises(Unsupported, match="^loss: that of an example depends on the others"):
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


def test_batch_norm_of_vectors_becomes_one_group() -> None:
    model = replace_batchnorm(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)))
    assert model[1].num_groups == 1
    train(linear_run(model=model))


def test_a_terminal_shows_one_line_that_is_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    settings: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-3, "num_steps": 4}
    fit(nn.Linear(4, 2), linear_data(), **settings)
    lines = stream.getvalue().rstrip("\n").split("\r")[1:]
    assert [line.split()[1] for line in lines] == ["0/4", "1/4", "2/4", "3/4", "4/4"]
    assert lines[-1].startswith("[" + "#" * 24 + "]")
    assert "accuracy" not in lines[-1]
    assert stream.getvalue().count("\n") == 1
