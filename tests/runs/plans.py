"""A short run that is planned but not started, for tests of plans and of steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from hush.data import Numeric, Schema, open_data, prepare
from hush.data.preparation.prepared_data import Prepared
from hush.runs import Settings
from hush.runs.dataset import plan_for
from hush.runs.run_plan import RunPlan
from runs.files import write_csv


def make_data(folder: Path) -> Prepared:
    """Prepare 400 rows, of which none is held out."""
    schema = Schema(columns={name: Numeric(lower=-3, upper=3) for name in "ab"}, classes=("0", "1"))
    source = open_data(write_csv(folder / "t.csv"))
    return prepare(source, target="y", schema=schema, holdout=0.0, key=bytes(32))


def make_plan(folder: Path, **changes: Any) -> RunPlan:
    """Plan a short run on these rows."""
    values = {"data": str(folder / "t.csv"), "epsilon": 1.0, "num_steps": 10, "batch_size": 100, **changes}
    return plan_for(make_data(folder).outline, Settings(**values), device="cpu")


def tensors(data: Prepared) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what is trained on."""
    return torch.from_numpy(data.train.inputs), torch.from_numpy(data.train.targets)
