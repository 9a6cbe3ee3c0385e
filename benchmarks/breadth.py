"""What does each way to clip, sample, share and correlate cost, over flat clipping of each example's own gradient?

Each way trains the same model on batches of the same expected size, its steps and those of flat clipping taking turns,
so that a busy machine slows both alike; "flat" against itself shows what chance does. And norms from random projections
against exact ones, on an LSTM and a CNN: time, memory, and epsilon at equal noise. Writes
benchmarks/results/breadth.json.

    make benchmark-breadth                # or: python benchmarks/breadth.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import hush
from hush.training import (
    Adaptive,
    Augmented,
    Automatic,
    BallsInBins,
    Banded,
    BufferedToeplitz,
    CyclicPoisson,
    FixedSize,
    Flat,
    Global,
    InOrder,
    Microbatches,
    Normalized,
    PerLayer,
    Projected,
    ShuffledEpochs,
    Users,
)
from training import EXAMPLES, WORKLOADS, Stepper, cnn, data, in_turns, sgd  # beside this file

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "breadth.json"
BASE = "flat"
CLIPPING_BAR = 1.05

CLIPPINGS: dict[str, Any] = {
    "flat, large threshold": {"clipping": Flat(1e6)},
    "flat, per layer": {"clipping": Flat(groups=PerLayer())},
    "automatic": {"clipping": Automatic()},
    "automatic, per layer": {"clipping": Automatic(groups=PerLayer())},
    "normalized": {"clipping": Normalized()},
    "global": {"clipping": Global(threshold=10.0)},
    "adaptive": {"clipping": Adaptive()},
}


def ways(batch: int) -> dict[str, dict[str, Any]]:
    """Return settings by name: every clipping style, sampling, contribution and noise, on one expected batch size."""
    return {
        BASE: {"batch_size": batch},
        **{name: {"batch_size": batch} | settings for name, settings in CLIPPINGS.items()},
        "fixed size": {"sampling": FixedSize(batch)},
        "shuffled epochs": {"sampling": ShuffledEpochs(batch)},
        "in order": {"sampling": InOrder(batch)},
        "balls in bins": {"sampling": BallsInBins(batch)},
        "users of 4 examples": {"batch_size": batch // 4, "unit": Users(torch.arange(EXAMPLES) // 4, rows_per_unit=4)},
        "micro-batches of 8": {"sampling": FixedSize(batch), "contribution": Microbatches(8)},
        "augmented, 4 times": {"batch_size": batch // 4, "contribution": Augmented(4)},
        "projected, 5": {"batch_size": batch, "contribution": Projected(5)},
        "banded noise, 4": {
            "sampling": CyclicPoisson(min(batch, EXAMPLES // 4), parts=4),
            "correlated": Banded(bands=4),
        },
        "buffered noise": {"sampling": InOrder(batch), "correlated": BufferedToeplitz()},
    }


def stepper(make: Callable[[], nn.Module], examples: tuple[Tensor, Tensor], settings: dict[str, Any]) -> Stepper:
    """Return what takes one step in a run with these settings."""
    model = make()
    private = hush.privatize(model, sgd(model), examples, noise_multiplier=1.0, delta=1e-5, num_steps=400, **settings)
    batches = iter(private.loader)
    projected = isinstance(private.plan.contribution, Projected)

    def step() -> None:
        complete = False
        while not complete:
            x, y = next(batches)

            def losses(x: Tensor = x, y: Tensor = y) -> Tensor:
                return F.cross_entropy(private.model(x), y, reduction="none")

            complete = private.step(losses if projected else losses()).complete

    return step


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


class Lstm(nn.Module):
    """Rows of an image, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(28, 64, batch_first=True), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x.squeeze(1))[0][:, -1])


NETWORKS: dict[str, Callable[[], nn.Module]] = {"CNN": cnn, "LSTM": Lstm}


def variants(batch: int = 1024) -> dict[str, dict[str, Any]]:
    """Return settings by name: exact norms, and estimated ones."""
    few_projections = {f"{count} projections": {"contribution": Projected(count)} for count in (1, 5, 20)}
    return {name: {"batch_size": batch} | settings for name, settings in ({"exact": {}} | few_projections).items()}


def projections(repetitions: int) -> dict[str, Any]:
    """Return time, memory and epsilon of projected norms against exact ones, at equal noise."""
    examples, rows = data(), {}
    for title, make in NETWORKS.items():
        turns = in_turns(
            {name: stepper(make, examples, settings) for name, settings in variants().items()}, repetitions
        )
        rows[title] = {}
        for name, settings in variants().items():
            model = make()
            plan = hush.privatize(
                model, sgd(model), examples, noise_multiplier=1.0, delta=1e-5, num_steps=1000, **settings
            ).plan
            rows[title][name] = {
                "milliseconds": spread(turns[name]),
                "over_exact": statistics.median(turns[name]) / statistics.median(turns["exact"]),
                "epsilon of 1000 steps": f"{plan.guarantee().epsilon:.4g}",
                "peak MiB of steps": peak(title, name),
            }
    return rows


def peak(title: str, name: str) -> float:
    """Return how much more memory a process has at most, in MiB, once it takes steps: measured in one of its own."""
    command = [sys.executable, __file__, "--peak", title, name]
    completed = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(completed.stdout.split()[-1])


def measure_peak(title: str, name: str) -> float:
    """Return that of this process."""
    step = stepper(NETWORKS[title], data(), variants()[name])
    before = high_water()
    for _ in range(3):
        step()
    return high_water() - before


def high_water() -> float:
    """Return the most memory that this process has had, in MiB (Linux; else 0)."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="few repetitions, nothing written")
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        print(measure_peak(*options.peak))
        return
    warnings.simplefilter("ignore")
    torch.set_num_threads(2)
    repetitions = 3 if options.quick else options.repetitions
    report: dict[str, Any] = {}
    for title, (make, batch) in WORKLOADS.items():
        print(f"  {title} ...", file=sys.stderr, flush=True)
        examples = data()
        report[title] = {}
        print(f"{title}:", flush=True)
        flat = ways(batch)[BASE]
        for name, settings in ways(batch).items():
            other = "again" if name == BASE else name  # what two equal ways differ by
            times = in_turns(
                {BASE: stepper(make, examples, flat), other: stepper(make, examples, settings)}, repetitions
            )
            ratio = statistics.median(times[other]) / statistics.median(times[BASE])
            report[title][name] = {
                "milliseconds": spread(times[other]),
                "flat": spread(times[BASE]),
                "over_flat": ratio,
            }
            bar = f" (must {CLIPPING_BAR})" if name in CLIPPINGS else ""
            print(f"    {name:26} {statistics.median(times[other]):7.1f} ms {ratio:5.2f}x{bar}", flush=True)
    print("  projections ...", file=sys.stderr, flush=True)
    against = projections(min(repetitions, 5))
    for title, rows in against.items():
        for name, row in rows.items():
            memory, epsilon = row["peak MiB of steps"], row["epsilon of 1000 steps"]
            print(f"{title}, {name}: {row['over_exact']:.2f}x, {memory:.0f} MiB, epsilon {epsilon}", flush=True)
    if options.quick:
        return
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    results = {
        "commit": commit,
        "machine": {"cpu": platform.processor() or platform.machine(), "threads": torch.get_num_threads()},
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "repetitions": repetitions,
        "workloads": report,
        "projections": against,
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(f"Written to {RESULTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
