"""A short run that is planned but not started, for tests of plans and of steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from hush.data import Numeric, Schema, open_data, prepare
from hush.runs import Settings
from hush.runs.run_plan import RunPlan, draft_plan
from runs.files import write_csv


def make_plan(folder: Path, **changes: Any) -> RunPlan:
    """Plan a short run on 400 rows, of which none is held out."""
    source = write_csv(folder / "t.csv")
    schema = Schema(columns={name: Numeric(lower=-3, upper=3) for name in "ab"}, classes=("0", "1"))
    data = prepare(open_data(source), target="y", schema=schema, holdout=0.0, key=bytes(32))
    values = {"data": str(source), "epsilon": 1.0, "num_steps": 10, "batch_size": 100, **changes}
    return draft_plan(Settings(**values), data, device="cpu")


def tensors(plan: RunPlan) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what a plan trains on."""
    return torch.from_numpy(plan.data.train.inputs), torch.from_numpy(plan.data.train.targets)
