"""`hush account`: the epsilon of a computation, by every accountant side by side.

    arguments or a file of phases  ->  one event  ->  each accountant: a bound, an estimate or a refusal

The JSON object has one entry for each accountant: ``epsilon`` (null if it is unbounded or refused), ``method``, and
``bound`` (upper or estimate) or ``refused``; for ``pld`` a certified ``lower`` end, for ``rdp`` the best ``order``.
``basic`` and ``advanced`` need one (epsilon, delta) for each step. Where a step has a whole curve of them, as in
DP-SGD, the best pairs are chosen, and ``per_step`` lists them.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

from hush.accounting import (
    Accountant,
    BasicAccountant,
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PldAccountant,
    PoissonSampledEvent,
    RdpAccountant,
    SelfComposedEvent,
    choose_claims,
)
from hush.accounting.events import decode_event
from hush.cli.json_values import plain
from hush.cli.options import add_relation
from hush.cli.terminal import suggest, table, wrapped
from hush.cli.words import ACCOUNTANTS
from hush.errors import InvalidArgument, Unsupported, check_count, check_delta
from hush.guarantee import Bound
from hush.strict_json import parse

_PHASE_KEYS = {"noise_multiplier", "laplace_scale", "sampling_rate", "num_steps"}


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "account",
        help="compute epsilon with every accountant",
        description="Compute the epsilon of a computation, with every accountant side by side.",
        epilog='A file of phases looks like [{"noise_multiplier": 1.1, "sampling_rate": 0.01, "num_steps": 1000}, '
        '{"laplace_scale": 10, "num_steps": 5}]; a phase may also be any event as Event.to_json writes it.',
    )
    phase = parser.add_mutually_exclusive_group(required=True)
    phase.add_argument(
        "--noise-multiplier",
        type=float,
        metavar="SIGMA",
        help="stddev of Gaussian noise, over the clip norm",
    )
    phase.add_argument("--laplace-scale", type=float, metavar="B", help="scale of Laplace noise, over the sensitivity")
    phase.add_argument("--events", type=Path, metavar="FILE", help="a JSON file with a list of phases")
    parser.add_argument("--sampling-rate", type=float, metavar="Q", help="Poisson sampling rate (default: 1)")
    parser.add_argument("--num-steps", type=int, metavar="T", help="number of steps (default: 1)")
    parser.add_argument("--delta", type=float, required=True, help="the delta of the guarantee")
    add_relation(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Analyse the events and print the results."""
    delta = check_delta("delta", options.delta)
    event = _event(options)
    results = {name: _analyse(kind(relation=options.relation), event, delta) for name, kind in ACCOUNTANTS.items()}
    print(
        json.dumps(results, allow_nan=False) if options.json else wrapped(_as_text(results, delta), stream=sys.stdout)
    )
    if not options.json:
        suggest(
            "hush plan --help    # noise for the epsilon of a training",
            "hush ledger --help  # a budget for all releases",
        )


def _analyse(empty: Accountant, event: Event, delta: float) -> dict[str, Any]:
    """Return the result of one accountant for an event, or the reason for its refusal."""
    try:
        if isinstance(empty, BasicAccountant) and not empty.supports(event):
            return _by_chosen_pairs(empty, event, delta)
        accountant = empty.compose(event)
    except Unsupported as error:
        # Without the advice to use another class of Python: the table shows all accountants.
        return {"epsilon": None, "method": empty.method, "refused": error.what}
    epsilon = accountant.epsilon(delta)
    result: dict[str, Any] = {"epsilon": plain(epsilon), "method": empty.method, "bound": accountant.bound().value}
    if not math.isfinite(epsilon):
        result["unbounded"] = True
    if isinstance(accountant, PldAccountant):
        result["lower"] = plain(accountant.interval(delta)[0])
    if isinstance(accountant, RdpAccountant) and delta > 0:
        result["order"] = accountant.best_order(delta)
    return result


def _by_chosen_pairs(empty: BasicAccountant, event: Event, delta: float) -> dict[str, Any]:
    """Return the result of a classic theorem for steps without a single (epsilon, delta)."""
    choice = choose_claims(empty, event, delta)
    result: dict[str, Any] = {
        "epsilon": plain(choice.epsilon),
        "method": empty.method,
        "bound": empty.bound().value,
        "per_step": [{"epsilon": epsilon, "delta": step_delta} for epsilon, step_delta in choice.per_step],
    }
    return result if math.isfinite(choice.epsilon) else {**result, "unbounded": True}


def _event(options: argparse.Namespace) -> Event:
    """Return the event that the arguments describe, or the composition of a file's phases."""
    if options.events is None:
        phase = {name: getattr(options, name) for name in _PHASE_KEYS}
        return phase_event({name: value for name, value in phase.items() if value is not None})
    for name in ("sampling_rate", "num_steps"):
        if getattr(options, name) is not None:
            raise InvalidArgument(name, getattr(options, name), "either the flag or --events", "State it in each phase")
    try:
        text = options.events.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument("events", str(options.events), "a readable file", str(error)) from None
    data = parse(text)
    phases = data if isinstance(data, list) else [data]
    if not phases:
        raise InvalidArgument("events", str(options.events), "at least one phase")
    return ComposedEvent(tuple(phase_event(phase) for phase in phases))


def phase_event(phase: Any) -> Event:
    """Return the event of a phase: a few numbers, or any event as `Event.to_json` writes it.

    >>> phase_event({"noise_multiplier": 1.1, "sampling_rate": 0.01, "num_steps": 9})
    SelfComposedEvent(event=PoissonSampledEvent(event=GaussianEvent(noise_multiplier=1.1), ...), count=9)
    """
    if not isinstance(phase, dict):
        raise InvalidArgument("phase", phase, "a JSON object", 'Such as {"noise_multiplier": 1.1, "num_steps": 100}')
    if "kind" in phase:
        fields = {name: value for name, value in phase.items() if name not in {"format", "schema", "num_steps"}}
        return _repeated(decode_event(fields), phase.get("num_steps", 1))
    for name in phase:
        if name not in _PHASE_KEYS:
            raise InvalidArgument(name, phase[name], f"a key of a phase: {', '.join(sorted(_PHASE_KEYS))}")
    if ("noise_multiplier" in phase) == ("laplace_scale" in phase):
        raise InvalidArgument("phase", phase, "either noise_multiplier or laplace_scale")
    event: Event = (
        GaussianEvent(phase["noise_multiplier"])
        if "noise_multiplier" in phase
        else LaplaceEvent(phase["laplace_scale"])
    )
    if "sampling_rate" in phase:
        event = PoissonSampledEvent(event, phase["sampling_rate"])
    return _repeated(event, phase.get("num_steps", 1))


def _repeated(event: Event, num_steps: Any) -> Event:
    """Return an event that happens a number of times."""
    count = check_count("num_steps", num_steps)
    return event if count == 1 else SelfComposedEvent(event, count)


def _as_text(results: dict[str, dict[str, Any]], delta: float) -> str:
    """Lay the results out for people."""
    rows, refusals = [], []
    for name, result in results.items():
        if "refused" in result:
            rows.append((name, "-", "refused (see below)"))
            refusals.append(f"  {name}: {result['refused']}")
        else:
            epsilon = "unbounded" if result["epsilon"] is None else f"{result['epsilon']:.6g}"
            rows.append((name, epsilon, _remark(result)))
    text = f"Epsilon at delta = {delta:.3g}\n\n" + table(("accountant", "epsilon", "remark"), rows)
    return text if not refusals else text + "\n\nRefused:\n" + "\n".join(refusals)


def _remark(result: dict[str, Any]) -> str:
    """Say what kind of bound a result is."""
    if result["bound"] == Bound.ESTIMATE:
        return f"{result['method']}: an ESTIMATE, not a guarantee"
    if "lower" in result and result["lower"] is not None:
        return f"{result['method']}: certified; the exact value is at least {result['lower']:.6g}"
    if result.get("per_step"):
        pairs = ", ".join(f"({pair['epsilon']:.3g}, {pair['delta']:.3g})" for pair in result["per_step"])
        return f"{result['method']}: of the best (epsilon, delta) for each step, {pairs}"
    if "order" in result:
        return f"{result['method']}: at order {result['order']:.4g}"
    return str(result["method"])
