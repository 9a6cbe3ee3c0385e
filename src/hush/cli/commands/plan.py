"""`hush plan`: the noise that `hush train` would use, and how epsilon grows epoch by epoch.

No data are read. The plan is the one that a run with the same settings makes (`hush.runs.draft_plan`): T steps of the
Gaussian mechanism on Poisson samples of rate B/N, what is learned before them, and the held-out metrics. With a target
epsilon, the noise multiplier is the least that meets it; with a noise multiplier, epsilon is computed.

The JSON object (``hush.plan/1``) has ``noise_multiplier``, ``num_steps``, ``sampling_rate``, ``epsilon``, ``delta``,
``rdp`` (what Renyi accounting states), ``epochs`` (a list of rows), ``guarantee`` and ``advice`` (sentences on the
choice of epsilon, delta and method); infinite values are null.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hush.accounting import PldAccountant, RdpAccountant
from hush.cli.advice import advice
from hush.cli.json_values import plain
from hush.cli.options import add_relation, add_unit_kind, unit_of
from hush.cli.plot import check_plot_path, plot_plan
from hush.cli.settings import add_settings, settings_of
from hush.cli.terminal import bar, progress, suggest, table, wrapped
from hush.errors import InvalidArgument, Unsupported, check_count
from hush.guarantee import Guarantee, Unit
from hush.runs import Settings, Undeclared, draft_plan

if TYPE_CHECKING:
    from hush.runs import RunPlan

_ROWS_SHOWN = 20
_BAR_WIDTH = 30
_MAX_EPOCHS = 1000  # rows of the curve; longer trainings show every second epoch, or every third, ...
_MANY_EPOCHS, _COARSE_ACCURACY = 200, 1e-4  # a longer curve is computed more coarsely
_MOST_UNITS, _MOST_STEPS = 10**15, 10**7


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "plan",
        help="find the noise for private training, or the epsilon of a given noise",
        description="Find the noise multiplier that `hush train` would use with the same settings, and show how "
        "epsilon grows with the epochs. No data are read.",
        epilog="Example: hush plan --num-units 60000 --batch-size 256 --epochs 15 --epsilon 3",
    )
    groups = add_settings(parser, "plan")
    parser.add_argument(
        "--noise-multiplier",
        type=float,
        metavar="SIGMA",
        help="the noise, instead of --epsilon: epsilon is then computed",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw epsilon over the epochs")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    protection = groups["what is protected"]
    add_unit_kind(protection)
    protection.add_argument(
        "--group-size",
        type=int,
        default=1,
        metavar="K",
        help="the most examples that one user has, if training samples examples rather than users. You must enforce "
        "this bound. N and B then count examples",
    )
    add_relation(protection)
    data = parser.add_argument_group("the data, which are not read")
    data.add_argument(
        "--num-units",
        type=int,
        required=True,
        metavar="N",
        help="the number of privacy units to train on; treated as public",
    )
    data.add_argument(
        "--num-held-out",
        type=int,
        default=0,
        metavar="M",
        help="the number of additional units held out for private metrics",
    )
    data.add_argument(
        "--learn",
        type=Undeclared,
        choices=list(Undeclared),
        metavar="WHAT",
        help="what has to be learned because it is not declared: bounds; or values (of categories or the target) as "
        "well as bounds",
    )
    parser.set_defaults(run=run)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTraining:
    """A private training, and what it costs epoch by epoch.

    Attributes:
        run: The plan of the run.
        target_epsilon: The requested epsilon; None if the noise was given.
        guarantee: The guarantee of the run, by privacy loss distributions.
        rdp_epsilon: The epsilon that Renyi accounting states for it; infinite if it states none.
        rdp_noise_multiplier: The noise that the target needs by Renyi accounting; None if there is no target.
        epochs: Rows with ``epoch``, ``step``, ``epsilon`` and ``rdp_epsilon``.
        advice: Sentences on the choice of epsilon, of delta and of the method.
    """

    run: RunPlan
    target_epsilon: float | None
    guarantee: Guarantee
    rdp_epsilon: float
    rdp_noise_multiplier: float | None
    epochs: list[dict[str, float]]
    advice: list[str]


def run(options: argparse.Namespace) -> None:
    """Make the plan, draw it, and print it."""
    if options.plot is not None:
        check_plot_path(options.plot)
    plan = planned_training(options)
    if options.plot is not None:
        plot_plan(plan.epochs, plan.guarantee, options.plot)
    print(_as_json(plan) if options.json else wrapped(_as_text(plan, options.plot), stream=sys.stdout))
    if not options.json:
        epsilon = f"{plan.guarantee.epsilon:.4g}"
        suggest(f"hush train FILE --target COLUMN --epsilon {epsilon}")


def planned_training(options: argparse.Namespace) -> PlannedTraining:
    """Compute whichever is missing: the noise or the epsilon."""
    draft, noise_multiplier = _draft(options), options.noise_multiplier
    plan = draft.calibrated() if noise_multiplier is None else draft.with_noise(noise_multiplier)
    return PlannedTraining(
        run=plan,
        target_epsilon=options.epsilon,
        guarantee=plan.guarantee(),
        rdp_epsilon=_rdp_epsilon(plan),
        rdp_noise_multiplier=None if options.epsilon is None else _rdp_noise(plan, options.epsilon),
        epochs=_curve(plan),
        advice=_advice(plan),
    )


def _advice(plan: RunPlan) -> list[str]:
    """Return sentences on the choices that the plan rests on."""
    accountant = PldAccountant(relation=plan.training.relation, unit=plan.training.unit, accuracy=_COARSE_ACCURACY)
    num_units = plan.training.num_units
    return advice(
        epsilon=plan.guarantee().epsilon,
        delta=plan.training.delta,
        num_units=num_units,
        epsilon_at_square=accountant.compose(plan.charged_event()).epsilon(num_units**-2.0) if num_units > 1 else 0.0,
    )


def _draft(options: argparse.Namespace) -> RunPlan:
    """Return the plan of the run, with a noise multiplier of 1."""
    if (options.epsilon is None) == (options.noise_multiplier is None):
        raise InvalidArgument(
            "epsilon", options.epsilon, "either --epsilon or --noise-multiplier", "Give exactly one of them"
        )
    if options.epsilon is None and (options.learn is not None or options.num_held_out):
        raise InvalidArgument(
            "epsilon", None, "a number with --learn or --num-held-out", "Their noise follows from epsilon"
        )
    if not check_count("num_units", options.num_units) <= _MOST_UNITS:
        raise InvalidArgument("num_units", options.num_units, f"at most {_MOST_UNITS:.0e}")
    # Without a target, nothing that the plan needs follows from epsilon.
    settings = settings_of(options, data="", epsilon=options.epsilon or 1.0)
    _check_length(settings, options.num_units)
    return draft_plan(
        settings,
        num_units=options.num_units,
        num_held_out=check_count("num_held_out", options.num_held_out, minimum=0),
        undeclared=options.learn,
        unit=unit_of(options),
        relation=options.relation,
        group_size=_group_size(options),
    )


def _check_length(settings: Settings, num_units: int) -> None:
    """Refuse absurd numbers of steps, because each step takes memory in a plan."""
    steps = settings.num_steps or (settings.epochs or 0.0) * num_units / (settings.batch_size or num_units)
    if not steps <= _MOST_STEPS:
        name, value = ("epochs", settings.epochs) if settings.num_steps is None else ("num_steps", settings.num_steps)
        raise InvalidArgument(name, value, f"at most {_MOST_STEPS:.0e} steps in all")


def _group_size(options: argparse.Namespace) -> int:
    """Return how many sampled examples a user stands for."""
    if options.group_size != 1 and options.unit_kind == "example":
        raise InvalidArgument("group_size", options.group_size, "1 for --unit-kind example", "Use --unit-kind user")
    return check_count("group_size", options.group_size)


def _rdp_epsilon(plan: RunPlan, num_steps: int | None = None) -> float:
    """Return the epsilon that Renyi accounting states; infinity if it has no bound, as for learned values."""
    try:
        return plan.epsilon(num_steps, RdpAccountant(relation=plan.training.relation, unit=plan.training.unit))
    except Unsupported:
        return math.inf


def _rdp_noise(plan: RunPlan, epsilon: float) -> float | None:
    """Return the noise that an epsilon needs by Renyi accounting; None if it has no bound."""
    try:
        return plan.noise_for(epsilon, RdpAccountant)
    except Unsupported:
        return None


def _curve(plan: RunPlan) -> list[dict[str, float]]:
    """Return epsilon by both accountants after every epoch, and at the end."""
    training = plan.training
    steps_per_epoch = training.num_units / training.batch_size
    last_epoch = math.floor(training.num_steps / steps_per_epoch)
    stride = -(-last_epoch // _MAX_EPOCHS) or 1
    ends = [math.ceil(epoch * steps_per_epoch) for epoch in range(stride, last_epoch + 1, stride)]
    ends = sorted({end for end in ends if end < training.num_steps} | {training.num_steps})
    accountant = PldAccountant(relation=training.relation, unit=training.unit)
    if len(ends) > _MANY_EPOCHS:
        accountant = PldAccountant(relation=training.relation, unit=training.unit, accuracy=_COARSE_ACCURACY)
    return [
        {
            "epoch": round(steps / steps_per_epoch, 2),
            "step": steps,
            "epsilon": plan.epsilon(steps, accountant),
            "rdp_epsilon": _rdp_epsilon(plan, steps),
        }
        for steps in progress(ends, "epochs")
    ]


def _as_json(plan: PlannedTraining) -> str:
    """Write the plan for scripts."""
    training = plan.run.training
    return json.dumps(
        {
            "format": "hush.plan/1",
            "noise_multiplier": training.noise_multiplier,
            "num_steps": training.num_steps,
            "sampling_rate": training.sampling_rate,
            "epsilon": plain(plan.guarantee.epsilon),
            "delta": plan.guarantee.delta,
            "rdp": {"epsilon": plain(plan.rdp_epsilon), "noise_multiplier": plan.rdp_noise_multiplier},
            "epochs": plain(plan.epochs),
            "guarantee": json.loads(plan.guarantee.to_json()),
            "advice": plan.advice,
        },
        allow_nan=False,
    )


def _as_text(plan: PlannedTraining, plot: Path | None) -> str:
    """Write the plan for people."""
    training = plan.run.training
    units = "examples" if training.group_size > 1 or training.unit == Unit.example() else "users"
    facts = table(
        ("", "", ""),
        [
            (
                "noise multiplier",
                f"{training.noise_multiplier:.6g}",
                "standard deviation of the noise, over the clip norm",
            ),
            ("sampling rate", f"{training.sampling_rate:.6g}", "of each unit in each step, independently"),
            ("steps", f"{training.num_steps:,}", ""),
        ],
    ).lstrip("\n ")
    lines = [
        f"Private training on {training.num_units:,} {units}, in batches of about {training.batch_size:,}",
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
        "",
        "Your choices (reasons: docs/choosing.md)",
        *(f"  {line}" for line in plan.advice),
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
                f"{row['rdp_epsilon']:.4f}" if math.isfinite(row["rdp_epsilon"]) else "-",
                bar(row["epsilon"] / largest, _BAR_WIDTH) if largest > 0 else "",
            )
            for row in shown
        ],
    )


def _comparison(plan: PlannedTraining) -> str:
    """Compare with the result of Renyi accounting for the same training."""
    if not math.isfinite(plan.rdp_epsilon):
        return "Renyi accounting (RDP) states no epsilon for this run."
    text = f"Renyi accounting (RDP) would state epsilon = {plan.rdp_epsilon:.4f} for the same run"
    if plan.rdp_noise_multiplier is None or not plan.guarantee.epsilon > 0:
        return text + "."
    more = plan.rdp_noise_multiplier / plan.run.training.noise_multiplier - 1
    needed = f"noise multiplier {plan.rdp_noise_multiplier:.4f} ({more:+.1%})"
    return f"{text};\nfor epsilon = {plan.target_epsilon:g} it would need {needed}."
