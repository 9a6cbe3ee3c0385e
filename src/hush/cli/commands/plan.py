"""`hush plan`: how much noise a private training needs, and what epsilon that gives, epoch by epoch.

No data are read. The training is T steps of the Gaussian mechanism on Poisson samples of rate B/N, as in
`hush.training` with ``Poisson`` sampling; for users, a step counts for a group of as many examples as a user may have.
With a target epsilon, the noise multiplier is the least that meets it; with a noise multiplier, epsilon is computed.

The JSON object (``hush.plan/1``) has ``noise_multiplier``, ``num_steps``, ``sampling_rate``, ``epsilon``, ``delta``,
``rdp`` (what Renyi accounting states), ``epochs`` (a list of rows) and ``guarantee``; infinite values are null.
"""

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
from hush.cli.options import add_relation, add_unit, unit_of
from hush.cli.plot import check_plot_path, plot_plan
from hush.cli.terminal import bar, progress, table
from hush.errors import InvalidArgument, check_count, check_delta, check_positive
from hush.guarantee import Guarantee, Relation, Unit

_ROWS_SHOWN = 20
_BAR_WIDTH = 30
_MAX_EPOCHS = 1000  # rows of the curve; longer trainings show every second epoch, or every third, ...
_MANY_EPOCHS, _COARSE_ACCURACY = 200, 1e-4  # a longer curve is computed more coarsely
_MOST_EXAMPLES, _MOST_STEPS = 10**15, 1e12

AnyAccountant = type[PldAccountant] | type[RdpAccountant]


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "plan",
        help="find the noise for a private training, or the epsilon of a given noise",
        description="Find the noise multiplier of a private training (DP-SGD with Poisson sampling), and show how "
        "epsilon grows with the epochs.",
    )
    parser.add_argument(
        "--examples", type=int, required=True, metavar="N", help="the size of the dataset, which is taken as public"
    )
    parser.add_argument("--batch-size", type=int, required=True, metavar="B", help="the expected size of a batch")
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--epochs", type=float, metavar="E", help="passes over the data, on average")
    length.add_argument("--steps", type=int, metavar="T", help="number of steps")
    aim = parser.add_mutually_exclusive_group(required=True)
    aim.add_argument("--epsilon", type=float, help="the target; hush finds the noise")
    aim.add_argument("--noise-multiplier", type=float, metavar="SIGMA", help="the noise; hush computes epsilon")
    parser.add_argument("--delta", type=float, help="the delta of the guarantee; if omitted, 0.1/N, at most 1e-5")
    add_unit(parser)
    add_relation(parser)
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw epsilon over the epochs")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTraining:
    """A private training, and what it costs epoch by epoch.

    Attributes:
        num_examples, batch_size, num_steps, noise_multiplier: What is trained.
        target_epsilon: The epsilon that was asked for; None if the noise was.
        guarantee: What the training guarantees, by privacy loss distributions.
        rdp_epsilon: The epsilon that Renyi accounting states for it.
        rdp_noise_multiplier: The noise that the target needs by Renyi accounting; None without a target.
        epochs: Rows with ``epoch``, ``step``, ``epsilon`` and ``rdp_epsilon``.
    """

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
        """The probability that an example is in a batch."""
        return self.batch_size / self.num_examples


def run(options: argparse.Namespace) -> None:
    """Make the plan, draw it, and print it."""
    if options.plot is not None:
        check_plot_path(options.plot)
    plan = make_plan(options)
    if options.plot is not None:
        plot_plan(plan.epochs, plan.guarantee, options.plot)
    print(_as_json(plan) if options.json else _as_text(plan, options.plot))


def make_plan(options: argparse.Namespace) -> PlannedTraining:
    """Compute what is missing: the noise or the epsilon."""
    num_examples = check_count("examples", options.examples)
    if not num_examples <= _MOST_EXAMPLES:
        raise InvalidArgument("examples", num_examples, f"at most {_MOST_EXAMPLES:.0e}")
    batch_size = check_count("batch_size", options.batch_size)
    if not batch_size <= num_examples:
        raise InvalidArgument(
            "batch_size", batch_size, f"at most examples={num_examples}", "The largest batch is the whole dataset"
        )
    delta = min(1e-5, 0.1 / num_examples) if options.delta is None else check_delta("delta", options.delta)
    unit, rows_per_unit = unit_of(options)
    steps_per_epoch = num_examples / batch_size
    num_steps = _num_steps(options, steps_per_epoch)
    setting = _Setting(
        batch_size / num_examples, num_steps, check_count("rows_per_unit", rows_per_unit), delta, options.relation, unit
    )
    noise = options.noise_multiplier
    if noise is None:
        noise = setting.noise_for(check_positive("epsilon", options.epsilon), PldAccountant)
    accountant = PldAccountant(relation=options.relation, unit=unit).compose(setting.step(noise), num_steps)
    return PlannedTraining(
        num_examples=num_examples,
        batch_size=batch_size,
        num_steps=num_steps,
        noise_multiplier=noise,
        target_epsilon=options.epsilon,
        guarantee=accountant.guarantee(delta),
        rdp_epsilon=setting.epsilon(noise, num_steps, RdpAccountant),
        rdp_noise_multiplier=None if options.epsilon is None else setting.noise_for(options.epsilon, RdpAccountant),
        epochs=setting.curve(noise, steps_per_epoch),
    )


def _num_steps(options: argparse.Namespace, steps_per_epoch: float) -> int:
    """Return the number of steps that were asked for, directly or in epochs."""
    if options.steps is not None:
        return check_count("steps", options.steps)
    steps = check_positive("epochs", options.epochs) * steps_per_epoch
    if not steps <= _MOST_STEPS:
        raise InvalidArgument("epochs", options.epochs, f"at most {_MOST_STEPS:.0e} steps in all")
    return max(1, math.floor(steps + 1e-9))  # rounded down, so that no more epochs are trained than asked for


@dataclass(frozen=True, slots=True)
class _Setting:
    """What stays the same while the noise is searched for."""

    sampling_rate: float
    num_steps: int
    group_size: int
    delta: float
    relation: Relation
    unit: Unit

    def step(self, noise: float) -> Event:
        """Return the event of one step, for a group of as many examples as a user may have."""
        event = PoissonSampledEvent(GaussianEvent(noise), self.sampling_rate)
        return event if self.group_size == 1 else GroupEvent(event, self.group_size)

    def epsilon(self, noise: float, steps: int, kind: AnyAccountant) -> float:
        """Return the epsilon of the first steps, by one kind of accountant."""
        return kind(relation=self.relation).compose(self.step(noise), steps).epsilon(self.delta)

    def noise_for(self, epsilon: float, kind: AnyAccountant) -> float:
        """Return the least noise with which all steps stay within epsilon."""
        return calibrate_noise(
            epsilon=epsilon,
            delta=self.delta,
            relation=self.relation,
            accountant=kind,
            template=lambda noise: SelfComposedEvent(self.step(noise), self.num_steps),
        )

    def curve(self, noise: float, steps_per_epoch: float) -> list[dict[str, float]]:
        """Return epsilon by both accountants after every epoch, and at the end."""
        last_epoch = math.floor(self.num_steps / steps_per_epoch)
        stride = -(-last_epoch // _MAX_EPOCHS) or 1
        ends = [math.floor(epoch * steps_per_epoch) for epoch in range(stride, last_epoch + 1, stride)]
        ends = sorted({max(end, 1) for end in ends if end < self.num_steps} | {self.num_steps})
        accountant = PldAccountant(relation=self.relation)
        if len(ends) > _MANY_EPOCHS:
            accountant = PldAccountant(relation=self.relation, accuracy=_COARSE_ACCURACY)
        return [
            {
                "epoch": round(steps / steps_per_epoch, 2),
                "step": steps,
                "epsilon": accountant.compose(self.step(noise), steps).epsilon(self.delta),
                "rdp_epsilon": self.epsilon(noise, steps, RdpAccountant),
            }
            for steps in progress(ends, "epochs")
        ]


def _as_json(plan: PlannedTraining) -> str:
    """Write the plan for scripts."""
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
    """Return a number for JSON, which has no infinity."""
    return value if math.isfinite(value) else None


def _as_text(plan: PlannedTraining, plot: Path | None) -> str:
    """Write the plan for people."""
    facts = table(
        ("", "", ""),
        [
            ("noise multiplier", f"{plan.noise_multiplier:.6g}", "standard deviation of the noise, over the clip norm"),
            ("sampling rate", f"{plan.sampling_rate:.6g}", "of each example in each step, independently"),
            ("steps", f"{plan.num_steps:,}", ""),
        ],
    ).lstrip("\n ")
    lines = [
        f"Private training on {plan.num_examples:,} examples, in batches of about {plan.batch_size:,}",
        "",
        "  " + facts,
        "",
        f"Epsilon during training, at delta = {plan.guarantee.delta:.3g}",
        "",
        _epoch_table(plan),
        "",
        _comparison(plan),
        "",
        plan.guarantee.explain(),
    ]
    return "\n".join(lines if plot is None else [*lines, "", f"Plot written to {plot}"])


def _epoch_table(plan: PlannedTraining) -> str:
    """Lay out epsilon after some epochs, with bars; the last epoch is always there."""
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
                bar(row["epsilon"] / largest, _BAR_WIDTH) if largest > 0 else "",
            )
            for row in shown
        ],
    )


def _comparison(plan: PlannedTraining) -> str:
    """Say what Renyi accounting would state for the same training."""
    text = f"Renyi accounting (RDP) would state epsilon = {plan.rdp_epsilon:.4f} for the same training"
    if plan.rdp_noise_multiplier is None or not plan.guarantee.epsilon > 0:
        return text + "."
    more = plan.rdp_noise_multiplier / plan.noise_multiplier - 1
    needed = f"noise multiplier {plan.rdp_noise_multiplier:.4f} ({more:+.1%})"
    return f"{text};\nfor epsilon = {plan.target_epsilon:g} it would need {needed}."
