"""Norms by random projections (DP-SGD-JL, DP-Adam-JL; Bu et al. 2021) and micro-batches, against exact norms.

An LSTM that reads MNIST's images row by row, at one epsilon for all: time per step, memory beyond that of the data,
accuracy. Accounting is honest. An estimated norm may be too small, so that a contribution may exceed the clip norm:
its random size is part of the event, and needs more noise. A clipped mean of a micro-batch can be turned around by
one example: the sum moves by 2 C, and noise is added for that; as there are fewer terms in the sum, the noise on the
mean is as many times larger as a micro-batch has examples. "Naively" is the epsilon that the same noise is often said
to give: that of Poisson samples whose sum one example moves by C.

Micro-batches need samples of a fixed size, whose neighbours replace an example; so there is a row of DP-SGD for that,
too.

Steps are few, so that accuracies of one seed differ by several points by chance; private runs were not tuned.

    python reproductions/projections.py [--seeds 3] [--data DIR] [--quick]
"""

from __future__ import annotations

import ctypes
import gc
import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from common import DELTA, Images, Row, Settings, accuracy, figure, load, main, measure, sgd, train, train_plainly
from torch import Tensor, nn

from hush.accounting import GaussianEvent, PldAccountant, PoissonSampledEvent
from hush.training import FixedSize, Microbatches, Projected, TrainingPlan

EPSILON, BATCH, NUM_STEPS, CLIP_NORM = 2.0, 256, 150, 0.5
Optimizer = Callable[[nn.Module], torch.optim.Optimizer]


def with_sgd(model: nn.Module) -> torch.optim.Optimizer:
    return sgd(model, 1.0)


def with_adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.005)


WAYS: dict[str, tuple[Optimizer, dict[str, Any]]] = {
    "DP-SGD": (with_sgd, {"batch_size": BATCH}),
    "DP-SGD-JL, 5 projections": (with_sgd, {"batch_size": BATCH, "contribution": Projected(5)}),
    "DP-SGD-JL, 20 projections": (with_sgd, {"batch_size": BATCH, "contribution": Projected(20)}),
    "DP-Adam": (with_adam, {"batch_size": BATCH}),
    "DP-Adam-JL, 20 projections": (with_adam, {"batch_size": BATCH, "contribution": Projected(20)}),
    "DP-SGD, fixed size": (with_sgd, {"sampling": FixedSize(BATCH)}),
    "micro-batches of 8, fixed size": (with_sgd, {"sampling": FixedSize(BATCH), "contribution": Microbatches(8)}),
}


class RowReader(nn.Module):
    """An LSTM over the rows of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(28, 64, batch_first=True)
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x.unflatten(1, (28, 28)))[0][:, -1])


def run(settings: Settings) -> list[Row]:
    mnist = load("mnist", settings)
    rows, costs = [plainly(settings, mnist)], []
    for name, (optimizer, plan) in WAYS.items():
        if settings.quick and "5 projections" in name:
            continue  # its calibration alone takes long
        facts: dict[str, Any] = {}

        def once(
            optimizer: Optimizer = optimizer, plan: dict[str, Any] = plan, facts: dict[str, Any] = facts
        ) -> tuple[float, float]:
            model = RowReader()
            steps = 2 if settings.quick else NUM_STEPS
            with Memory() as memory:
                trained = train(
                    model,
                    (mnist.x, mnist.y),
                    optimizer(model),
                    epsilon=EPSILON,
                    clip_norm=CLIP_NORM,
                    num_steps=steps,
                    **plan,
                )
            facts.update(plan=trained.private.plan, step=trained.seconds / steps, memory=memory.peak)
            return accuracy(trained.model, mnist.x_test, mnist.y_test), trained.epsilon

        row = measure(settings, once, name, mnist.name)
        rows.append(replace(row, note=_note(facts)))
        costs.append((name, 1000 * facts["step"]))
    _draw(settings, dict(costs), rows[1:])
    return rows


def _draw(settings: Settings, costs: dict[str, float], rows: Sequence[Row]) -> None:
    with figure(settings, "projections", columns=2) as (left, right):
        left.barh(list(costs), list(costs.values()))
        left.set(xlabel="milliseconds per step")
        right.barh([row.experiment for row in rows], [row.mean for row in rows])
        right.set(xlabel="test accuracy, %", title=f"epsilon {EPSILON:g}", yticklabels=[])
        for axes in (left, right):
            axes.invert_yaxis()


def plainly(settings: Settings, mnist: Images) -> Row:
    facts: dict[str, Any] = {}

    def once() -> tuple[float, float]:
        model, steps = RowReader(), 2 if settings.quick else NUM_STEPS
        start = time.perf_counter()
        with Memory() as memory:
            train_plainly(model, (mnist.x, mnist.y), sgd(model, 0.3), batch_size=BATCH, num_steps=steps)
        facts.update(step=(time.perf_counter() - start) / steps, memory=memory.peak)
        return accuracy(model, mnist.x_test, mnist.y_test), math.inf

    row = measure(settings, once, "SGD, not private", mnist.name)
    return replace(row, note=_note(facts))


def naive_epsilon(plan: TrainingPlan) -> float:
    """Return what the noise would cost on a Poisson sample's sum, if one example moved it by C at most."""
    step = PoissonSampledEvent(GaussianEvent(plan.noise_on_sum(0)), plan.sampling_rate)
    return PldAccountant().compose(step, plan.num_steps).epsilon(DELTA)


def _note(facts: dict[str, Any]) -> str:
    words = [f"{1000 * facts['step']:.0f} ms per step"]
    if facts["memory"] is not None:
        words.append(f"{facts['memory']:.0f} MiB")
    if "plan" in facts:
        plan = facts["plan"]
        noise = plan.noise_on_sum(0)
        words.append(
            f"noise multiplier {noise:.3f} ({plan.relation.value}), {noise / plan.divisor(0):.4f} C on the mean"
        )
        words.append(f"naively epsilon {naive_epsilon(plan):.2f}")
    return ", ".join(words)


class Memory:
    """Measures by how much the process grows at most; None where the system does not say (it does on Linux)."""

    peak: float | None = None

    def __enter__(self) -> Memory:
        gc.collect()
        try:
            ctypes.CDLL(None).malloc_trim(0)  # give back what earlier runs have left, lest it hide what is used
            Path("/proc/self/clear_refs").write_text("5")  # begin the peak anew
            self._before: int | None = _kibibytes("VmRSS")
        except (OSError, AttributeError):
            self._before = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            self.peak = (_kibibytes("VmHWM") - self._before) / 1024


def _kibibytes(name: str) -> int:
    match = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if match is None:
        raise OSError(f"no {name}")
    return int(match[1])


if __name__ == "__main__":
    main(run, __doc__)
