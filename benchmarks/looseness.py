"""How much larger than the truth must a ledger's cap be, so that it accepts a history of releases?

For six histories at delta 1e-6, each charged one release after the other to a ledger, as an adaptive analyst would:
once with nothing declared, and once with a box that declares the history's kinds and numbers. The truth is the epsilon
of the composed privacy loss distribution; for the history with a sweep, which has none, that of the best Renyi order.
Prints a table and writes benchmarks/results/looseness.json.

    make benchmark-looseness              # or: python benchmarks/looseness.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

from hush.accounting import (
    ApproximateDPEvent,
    Box,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PldAccountant,
    PoissonSampledEvent,
    RdpAccountant,
    RepeatPoissonEvent,
    SelfComposedEvent,
)
from hush.errors import HushError
from hush.guarantee import Unit
from hush.ledger import TestLedger

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "looseness.json"
DELTA = 1e-6
PRECISION = 1e-3  # relative, of a cap
# From the issue: the largest ratio without a declaration, and with one.
BARS = {"40 Gaussian, sigma 25": 1.04}
BAR, BOX_BAR = 1.12, 1.05

History = tuple[tuple[Event, int], ...]


def trained(noise_multiplier: float, sampling_rate: float, num_steps: int) -> Event:
    """Return the event of a training."""
    return SelfComposedEvent(PoissonSampledEvent(GaussianEvent(noise_multiplier), sampling_rate), num_steps)


HISTORIES: dict[str, History] = {
    "40 Laplace, epsilon .05": ((LaplaceEvent(20.0), 40),),
    "40 Gaussian, sigma 25": ((GaussianEvent(25.0), 40),),
    "40 Laplace, 2 trainings": ((LaplaceEvent(50.0), 40), (trained(1.0, 0.01, 2000), 2)),
    "queries, 2 trainings, a sweep": (
        (GaussianEvent(40.0), 20),
        (LaplaceEvent(50.0), 20),
        (trained(1.5, 0.02, 1000), 2),
        (RepeatPoissonEvent(event=trained(4.0, 0.02, 500), mean=8.0), 1),
    ),
    "a sigma .8 training, 40 Gaussian": ((trained(0.8, 0.005, 3000), 1), (GaussianEvent(50.0), 40)),
    "300 Gaussian, 5 claims": ((GaussianEvent(60.0), 300), (ApproximateDPEvent(0.1, 1e-9), 5)),
}


def truth(history: History) -> float:
    """Return the epsilon of a history that was fixed in advance."""
    for kind in (PldAccountant, RdpAccountant):
        accountant = kind(unit=Unit.user())
        if all(accountant.supports(event) for event, _ in history):
            for event, number in history:
                accountant = accountant.compose(event, number)
            return accountant.epsilon(DELTA)
    raise ValueError("no accountant supports the history")


def accepts(epsilon: float, history: History, *, boxed: bool) -> bool:
    """Return whether a ledger's budget accepts all releases of a history, one after the other."""
    with TestLedger() as ledger:
        try:
            box = Box(dict(history)) if boxed else None
            budget = ledger.budget("people", epsilon=epsilon, delta=DELTA, unit="person", box=box)
            for event, number in history:
                for _ in range(number):
                    budget.charge(event, purpose="a release")
        except HushError:
            return False
    return True


def least_cap(history: History, start: float, *, boxed: bool) -> float:
    """Return the least epsilon of a cap that accepts a history, from the truth on."""
    low, high = start * (1 - PRECISION), start * (1 + PRECISION)
    while not accepts(high, history, boxed=boxed):
        low, high = high, high * 1.04
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        low, high = (low, middle) if accepts(middle, history, boxed=boxed) else (middle, high)
    return high


def measure(names: list[str]) -> list[dict[str, Any]]:
    """Return a row for each history."""
    rows = []
    for name in names:
        epsilon = truth(HISTORIES[name])
        adaptive, boxed = (least_cap(HISTORIES[name], epsilon, boxed=boxed) / epsilon for boxed in (False, True))
        rows.append({"history": name, "truth": epsilon, "adaptive": adaptive, "boxed": boxed})
        print(f"{name:34} truth {epsilon:.4f}  adaptive {adaptive:.3f}  boxed {boxed:.3f}", flush=True)
    return rows


def met(row: dict[str, Any]) -> bool:
    """Return whether a row is within the issue's limits."""
    return bool(row["adaptive"] <= BARS.get(row["history"], BAR) and row["boxed"] <= BOX_BAR)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two histories, and nothing is written")
    options = parser.parse_args()
    rows = measure(list(HISTORIES)[: 2 if options.quick else None])
    missed = [row["history"] for row in rows if not met(row)]
    print("All within the limits." if not missed else f"Missed: {', '.join(missed)}")
    if options.quick:
        return
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    content = {"commit": commit.stdout.strip(), "delta": DELTA, "precision": PRECISION, "histories": rows}
    RESULTS.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
