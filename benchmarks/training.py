"""How much longer does a private training step take than an ordinary one? hush and Opacus, in one run.

Every contender trains the same model on batches of the same expected size with SGD and momentum; steps take turns, so
that a busy machine slows all alike. hush is timed with everything: drawing the Poisson sample, fetching it, secure
noise. Opacus (hooks; ghost clipping) gets a batch of the exact size, and ordinary noise. Writes
benchmarks/results/training.json.

    make benchmark-training                # or: python benchmarks/training.py [--quick]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import hush

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "training.json"
EXAMPLES = 12_000
Stepper = Callable[[], None]


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )


def mlp(depth: int = 1) -> nn.Module:
    hidden = [layer for _ in range(depth - 1) for layer in (nn.Linear(1000, 1000), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 1000), nn.ReLU(), *hidden, nn.Linear(1000, 10))


def softmax() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


WORKLOADS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "MNIST CNN, B 256": (cnn, 256),
    "MNIST CNN, B 1024": (cnn, 1024),
    "MLP 784-1000-10, B 600": (mlp, 600),
    "softmax regression, B 6000": (softmax, 6000),
}
BAR, AGAINST_OPACUS = 1.6, 2.0


def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(EXAMPLES, 1, 28, 28, generator=generator)
    return images, torch.randint(0, 10, (EXAMPLES,), generator=generator)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def plain(make: Callable[[], nn.Module], batch: int, x: torch.Tensor, y: torch.Tensor) -> Stepper:
    model = make()
    optimizer = sgd(model)

    def step() -> None:
        chosen = torch.randint(0, len(x), (batch,))
        optimizer.zero_grad()
        F.cross_entropy(model(x[chosen]), y[chosen]).backward()
        optimizer.step()

    return step


def ours(make: Callable[[], nn.Module], batch: int, x: torch.Tensor, y: torch.Tensor) -> Stepper:
    model = make()
    private = hush.privatize(
        model, sgd(model), (x, y), noise_multiplier=1.0, delta=1e-5, num_steps=10_000, batch_size=batch
    )
    batches = iter(private.loader)

    def step() -> None:
        complete = False
        while not complete:
            inputs, targets = next(batches)
            losses = F.cross_entropy(private.model(inputs), targets, reduction="none")
            complete = private.step(losses).complete

    return step


def opacus(mode: str) -> Callable[..., Stepper]:
    def build(make: Callable[[], nn.Module], batch: int, x: torch.Tensor, y: torch.Tensor) -> Stepper:
        from opacus import PrivacyEngine

        model = make()
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=batch)
        settings: dict[str, Any] = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "poisson_sampling": False}
        made = PrivacyEngine().make_private(
            module=model, optimizer=sgd(model), data_loader=loader, grad_sample_mode=mode, **settings
        )
        module, optimizer = made[0], made[1]
        criterion = made[2] if mode == "ghost" else nn.CrossEntropyLoss()

        def step() -> None:
            chosen = torch.randint(0, len(x), (batch,))
            optimizer.zero_grad()
            criterion(module(x[chosen]), y[chosen]).backward()
            optimizer.step()

        return step

    return build


CONTENDERS: dict[str, Callable[..., Stepper]] = {
    "not private": plain,
    "hush": ours,
    "Opacus hooks": opacus("hooks"),
    "Opacus ghost": opacus("ghost"),
}


def measure(
    builders: dict[str, Callable[..., Stepper]], make: Any, batch: int, repetitions: int
) -> dict[str, list[float]]:
    """Return milliseconds per step for each contender."""
    x, y = data()
    return in_turns({name: build(make, batch, x, y) for name, build in builders.items()}, repetitions)


def in_turns(steppers: dict[str, Stepper], repetitions: int) -> dict[str, list[float]]:
    """Return milliseconds per step for each, after two steps of warming up, taking turns."""
    times: dict[str, list[float]] = {name: [] for name in steppers}
    for turn in range(repetitions + 2):
        for name, step in steppers.items():
            start = time.perf_counter()
            step()
            if turn >= 2:
                times[name].append((time.perf_counter() - start) * 1e3)
    return times


def growth(repetitions: int) -> dict[str, dict[str, float]]:
    """Return hush's milliseconds per step as the batch and the depth grow."""
    only = {"hush": ours}
    batches = {str(b): measure(only, cnn, b, repetitions)["hush"] for b in (128, 256, 512, 1024, 2048)}
    depths = {str(d): measure(only, lambda d=d: mlp(d), 256, repetitions)["hush"] for d in (1, 2, 4, 8)}
    return {
        "CNN, by batch": {key: statistics.median(value) for key, value in batches.items()},
        "MLP at B 256, by hidden layers": {key: statistics.median(value) for key, value in depths.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=25)
    parser.add_argument("--quick", action="store_true", help="few repetitions, nothing written")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(2)
    repetitions = 5 if options.quick else options.repetitions
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    rows: dict[str, Any] = {}
    print(f"{'':30}" + "".join(f"{name:>26}" for name in CONTENDERS))
    for workload, (make, batch) in WORKLOADS.items():
        print(f"  {workload} ...", file=sys.stderr, flush=True)
        times = measure(CONTENDERS, make, batch, repetitions)
        medians = {name: statistics.median(values) for name, values in times.items()}
        base = medians["not private"]
        cells = [f"{medians[name]:.1f} ms ({medians[name] / base:.2f}x)" for name in CONTENDERS]
        print(f"{workload:30}" + "".join(f"{cell:>26}" for cell in cells), flush=True)
        best = min(medians[name] for name in CONTENDERS if name.startswith("Opacus"))
        rows[workload] = {
            "milliseconds": {
                name: {"median": medians[name], "min": min(values), "max": max(values)}
                for name, values in times.items()
            },
            "over_not_private": {name: medians[name] / base for name in CONTENDERS},
            "opacus_best_over_hush": best / medians["hush"],
            "at most 1.6x": medians["hush"] / base <= BAR,
            "at least 2x faster than Opacus": best / medians["hush"] >= AGAINST_OPACUS,
        }
    print("  growth ...", file=sys.stderr, flush=True)
    grown = growth(3 if options.quick else 9)
    for title, values in grown.items():
        print(f"hush, {title}: " + ", ".join(f"{key}: {value:.1f} ms" for key, value in values.items()))
    if options.quick:
        return
    versions = {name: importlib.metadata.version(name) for name in ("torch", "numpy", "opacus", "cryptography")}
    report = {
        "commit": commit,
        "machine": {"cpu": platform.processor() or platform.machine(), "threads": torch.get_num_threads()},
        "versions": {"python": platform.python_version(), **versions},
        "repetitions": repetitions,
        "workloads": rows,
        "growth_milliseconds": grown,
    }
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")
    print(f"Written to {RESULTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
