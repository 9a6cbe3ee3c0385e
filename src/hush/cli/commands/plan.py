"""`hush plan`: how much noise a private training needs, and what that buys."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hush.accounting import (
    Event,
    GaussianEvent,
    GroupEvent,
    PldAccountant,
    PoissonSampledEvent,
    RdpAccountant,
    SelfComposedEvent,
    calibrate_noise,
)
from hush.accounting.losses.solver import ACCURACY
from hush.cli.options import add_relation, add_unit, unit_of
from hush.cli.terminal import bar, progress, table
from hush.errors import InvalidArgument, check_count, check_delta, check_positive
from hush.guarantee import Guarantee, Relation, Unit

_ROWS_SHOWN = 20
_MAX_EPOCHS = 1000


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "plan",
        help="how much noise a private training needs",
        description="Find the noise multiplier for a private training (DP-SGD, Poisson-sampled) and show what it buys.",
    )
    parser.add_argument(
        "--examples", type=int, required=True, metavar="N", help="size of the data set (taken as public)"
    )
    parser.add_argument("--batch-size", type=int, required=True, metavar="B", help="expected size of a batch")
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--epochs", type=float, metavar="E", help="passes over the data, on average")
    length.add_argument("--steps", type=int, metavar="T", help="number of steps")
    aim = parser.add_mutually_exclusive_group(required=True)
    aim.add_argument("--epsilon", type=float, help="target; the noise is found")
    aim.add_argument("--noise-multiplier", type=float, metavar="SIGMA", help="noise; epsilon is found")
    parser.add_argument("--delta", type=float, help="default: a tenth of 1/N, at most 1e-5")
    add_unit(parser)
    add_relation(parser)
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw epsilon over the epochs")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTraining:
    """A private training, and what it costs epoch by epoch."""

    num_examples: int
    batch_size: int
    num_steps: int
    noise_multiplier: float
    target_epsilon: float | None
    guarantee: Guarantee
    rdp_epsilon: float
    rdp_noise_multiplier: float | None
    epochs: list[dict[str, float]]

    @property
    def sampling_rate(self) -> float:
        """Probability of each example to be in a batch."""
        return self.batch_size / self.num_examples


def run(options: argparse.Namespace) -> None:
    """Make the plan and print it."""
    plan = make_plan(options)
    if options.plot is not None:
        from hush.cli.plot import plot_plan  # matplotlib takes a second to import

        plot_plan(plan.epochs, plan.guarantee, options.plot)
    print(_as_json(plan) if options.json else _as_text(plan, options.plot))


def make_plan(options: argparse.Namespace) -> PlannedTraining:
    """Find what is missing: the noise or the epsilon."""
    examples = check_count("examples", options.examples)
    if not examples <= 10**15:
        raise InvalidArgument("examples", examples, "at most 1e+15")
    batch = check_count("batch_size", options.batch_size)
    if not batch <= examples:
        raise InvalidArgument(
            "batch_size", batch, f"at most examples={examples}", "The whole data set is the largest batch"
        )
    delta = min(1e-5, 0.1 / examples) if options.delta is None else check_delta("delta", options.delta)
    unit, size = unit_of(options)
    steps = _num_steps(options, examples / batch)
    search = _Question(batch / examples, steps, check_count("rows_per_unit", size), delta, options.relation, unit)
    noise = options.noise_multiplier
    if noise is None:
        noise = search.noise(check_positive("epsilon", options.epsilon), PldAccountant)
    return PlannedTraining(
        num_examples=examples,
        batch_size=batch,
        num_steps=steps,
        noise_multiplier=noise,
        target_epsilon=options.epsilon,
        guarantee=PldAccountant(relation=options.relation, unit=unit)
        .compose(search.step(noise), steps)
        .guarantee(delta),
        rdp_epsilon=search.epsilon(noise, steps, RdpAccountant),
        rdp_noise_multiplier=None if options.epsilon is None else search.noise(options.epsilon, RdpAccountant),
        epochs=search.curve(noise, examples / batch),
    )


def _num_steps(options: argparse.Namespace, per_epoch: float) -> int:
    if options.steps is not None:
        return check_count("steps", options.steps)
    # Rounded down: never more passes than were asked for.
    steps = check_positive("epochs", options.epochs) * per_epoch
    if not steps <= 1e12:
        raise InvalidArgument("epochs", options.epochs, "at most 1e+12 steps in all")
    return max(1, math.floor(steps + 1e-9))


@dataclass(frozen=True, slots=True)
class _Question:
    """What is fixed while the noise is looked for."""

    sampling_rate: float
    num_steps: int
    group_size: int
    delta: float
    relation: Relation
    unit: Unit

    def step(self, noise: float) -> Event:
        event = PoissonSampledEvent(GaussianEvent(noise), self.sampling_rate)
        return event if self.group_size == 1 else GroupEvent(event, self.group_size)

    def epsilon(self, noise: float, steps: int, kind: type[PldAccountant] | type[RdpAccountant]) -> float:
        return kind(relation=self.relation).compose(self.step(noise), steps).epsilon(self.delta)

    def noise(self, epsilon: float, kind: type[PldAccountant] | type[RdpAccountant]) -> float:
        return calibrate_noise(
            epsilon=epsilon,
            delta=self.delta,
            relation=self.relation,
            accountant=kind,
            template=lambda noise: SelfComposedEvent(self.step(noise), self.num_steps),
        )

    def curve(self, noise: float, per_epoch: float) -> list[dict[str, float]]:
        """Return epsilon by both accountants after every epoch, and at the end."""
        last = math.floor(self.num_steps / per_epoch)
        stride = -(-last // _MAX_EPOCHS) or 1  # beyond, the curve is drawn through as many of them
        ends = [math.floor(epoch * per_epoch) for epoch in range(stride, last + 1, stride)]
        ends = sorted({max(end, 1) for end in ends if end < self.num_steps} | {self.num_steps})
        accountant = PldAccountant(relation=self.relation, accuracy=ACCURACY if len(ends) <= 200 else 1e-4)
        return [
            {
                "epoch": round(steps / per_epoch, 2),
                "step": steps,
                "epsilon": accountant.compose(self.step(noise), steps).epsilon(self.delta),
                "rdp_epsilon": self.epsilon(noise, steps, RdpAccountant),
            }
            for steps in progress(ends, "epochs")
        ]


def _as_json(plan: PlannedTraining) -> str:
    return json.dumps(
        {
            "schema": "hush.plan/1",
            "noise_multiplier": plan.noise_multiplier,
            "num_steps": plan.num_steps,
            "sampling_rate": plan.sampling_rate,
            "epsilon": _finite(plan.guarantee.epsilon),
            "delta": plan.guarantee.delta,
            "rdp": {"epsilon": _finite(plan.rdp_epsilon), "noise_multiplier": plan.rdp_noise_multiplier},
            "epochs": [{name: _finite(value) for name, value in row.items()} for row in plan.epochs],
            "guarantee": json.loads(plan.guarantee.to_json()),
        },
        allow_nan=False,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _as_text(plan: PlannedTraining, plot: Path | None) -> str:
    facts = table(
        ("", "", ""),
        [
            ("noise multiplier", f"{plan.noise_multiplier:.6g}", "standard deviation of the noise, over the clip norm"),
            ("sampling rate", f"{plan.sampling_rate:.6g}", "each example, by itself, in each step"),
            ("steps", f"{plan.num_steps:,}", ""),
        ],
    ).lstrip("\n ")
    lines = [
        f"Private training on {plan.num_examples:,} examples, in batches of about {plan.batch_size:,}",
        "",
        "  " + facts,
        "",
        f"Epsilon as training goes on, at delta = {plan.guarantee.delta:.3g}",
        "",
        _epoch_table(plan),
        "",
        _comparison(plan),
        "",
        plan.guarantee.explain(),
    ]
    return "\n".join(lines if plot is None else [*lines, "", f"Plot written to {plot}"])


def _epoch_table(plan: PlannedTraining) -> str:
    rows = plan.epochs
    stride = -(-len(rows) // _ROWS_SHOWN)
    shown = [row for index, row in enumerate(rows) if (len(rows) - 1 - index) % stride == 0]
    largest = max((row["epsilon"] for row in shown if math.isfinite(row["epsilon"])), default=1.0)
    return table(
        ("epoch", "epsilon", "by RDP", ""),
        [
            (
                f"{row['epoch']:g}",
                f"{row['epsilon']:.4f}",
                f"{row['rdp_epsilon']:.4f}",
                bar(row["epsilon"] / largest, 30) if largest > 0 else "",
            )
            for row in shown
        ],
    )


def _comparison(plan: PlannedTraining) -> str:
    spent = plan.guarantee.epsilon
    text = f"Renyi accounting (RDP) would state epsilon = {plan.rdp_epsilon:.4f} for the same training"
    if plan.rdp_noise_multiplier is None or not spent > 0:
        return text + "."
    more = plan.rdp_noise_multiplier / plan.noise_multiplier - 1
    needed = f"noise multiplier {plan.rdp_noise_multiplier:.4f} ({more:+.1%})"
    return f"{text};\nto promise epsilon = {plan.target_epsilon:g} it would need {needed}."
