"""How fast are audits? hush against jax-privacy, from the same scores to a bound on epsilon, in one run.

A hundred thousand canaries of one run, ten million scores for bounds on rates, and a mechanism that is run ten million
times on each of two neighbours: drawing is part of that time, and nobody else is compared with. Times are from arrays
to the bound, sorting included; medians of the repetitions with their spread, taken in turns. Both bounds are written
down beside the times. They differ in how the best threshold is paid for: jax-privacy's Bonferroni divides by the
vertices of the ROC's hull, whose number the scores decide, and tests/audit/bounds/test_calibration.py shows that such a
one-run bound fails more often than it says. privacy-meter as released (1.0.1) has no bound on epsilon, so there is
nothing to compare with.

    make benchmark-audit          # or: python benchmarks/audit.py [--quick] [--repetitions N]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hush import audit
from hush.audit import testers
from hush.randomness import RandomSource, TestSource

try:
    from jax_privacy import auditing
except ImportError:
    auditing = None

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "audit.json"
ERROR, DELTA = 0.05, 1e-6
CANARIES, SCORES = 100_000, 10_000_000
RUNS, QUICK_RUNS = 10_000_000, 100_000  # of a mechanism, on each input
LIMIT = 5.0  # seconds, for hush

Bound = Callable[[], float]


@dataclass(frozen=True)
class Workload:
    """One question to both."""

    name: str
    count: int
    method: Any
    rule: Any
    peer: Callable[[Any], float] | None

    def ours(self, inside: Any, outside: Any) -> float:
        return audit.audit_scores(inside, outside, delta=DELTA, method=self.method, threshold=self.rule).epsilon_lower

    def theirs(self, inside: Any, outside: Any) -> float:
        assert self.peer is not None
        return float(self.peer(auditing.CanaryScoreAuditor(inside, outside)))


def workloads() -> list[Workload]:
    clopper, gaussian, plain, full_profile = (
        audit.ClopperPearson(),
        audit.GaussianDP(),
        audit.OneRun(),
        audit.OneRunFDP(),
    )
    best, fixed = audit.Bonferroni(), audit.Explicit(1.5)
    at = None if auditing is None else auditing.Explicit(1.5)
    return [
        Workload(
            "one run, threshold fixed",
            CANARIES,
            plain,
            fixed,
            lambda scores: scores.epsilon_one_run(ERROR, DELTA, threshold_strategy=at),
        ),
        Workload("one run, best threshold", CANARIES, plain, best, lambda scores: scores.epsilon_one_run(ERROR, DELTA)),
        Workload(
            "one run f-DP, best threshold",
            CANARIES,
            full_profile,
            best,
            lambda scores: scores.epsilon_one_run_fdp(ERROR, DELTA),
        ),
        Workload(
            "Clopper-Pearson, best threshold",
            SCORES,
            clopper,
            best,
            lambda scores: scores.epsilon_clopper_pearson(ERROR, DELTA, one_sided=False),
        ),
        Workload(
            "Gaussian, best threshold", SCORES, gaussian, best, lambda scores: scores.epsilon_from_gdp(ERROR, DELTA)
        ),
    ]


def laplace(shift: float, source: RandomSource, count: int) -> Any:
    """A mechanism of epsilon 1, drawn by NumPy: what is timed is the tester."""
    return shift + np.random.default_rng(source.words(4)).laplace(size=count)


def tester(count: int, attack: testers.Attack) -> Bound:
    def bound() -> float:
        result = testers.audit_mechanism(
            testers.Batched(laplace), 0.0, 1.0, samples=count, attack=attack, source=TestSource(1)
        )
        return result.epsilon_lower

    return bound


def measure_tester(attack: testers.Attack, count: int, repetitions: int) -> dict[str, Any]:
    call = tester(count, attack)
    runs = [timed(call) for _ in range(repetitions + 1)][1:]
    seconds = spread([elapsed for elapsed, _ in runs])
    within = {"seconds": LIMIT, "met": seconds["median"] <= LIMIT}
    return {"scores": count, "hush": {"seconds": seconds, "epsilon_lower": runs[-1][1]}, "within": within}


def scores(count: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    members = rng.random(count) < 0.5
    values = members + rng.normal(size=count)
    return values[members], values[~members]


def timed(call: Bound) -> tuple[float, float]:
    start = time.perf_counter()
    value = call()
    return time.perf_counter() - start, value


def measure(workload: Workload, repetitions: int) -> dict[str, Any]:
    inside, outside = scores(workload.count)
    calls: dict[str, Bound] = {"hush": lambda: workload.ours(inside, outside)}
    if auditing is not None:
        calls["jax-privacy"] = lambda: workload.theirs(inside, outside)
    times: dict[str, list[float]] = {who: [] for who in calls}
    bounds: dict[str, float] = {}
    for turn in range(repetitions + 1):
        for who, call in calls.items():
            seconds, bounds[who] = timed(call)
            if turn:  # the first is for warming up
                times[who].append(seconds)
    results: dict[str, Any] = {
        who: {"seconds": spread(values), "epsilon_lower": bounds[who]} for who, values in times.items()
    }
    if "jax-privacy" in times:
        results["jax-privacy / hush"] = statistics.median(times["jax-privacy"]) / statistics.median(times["hush"])
    results["within"] = {"seconds": LIMIT, "met": statistics.median(times["hush"]) <= LIMIT}
    return {"scores": workload.count, **results}


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def environment(repetitions: int) -> dict[str, Any]:
    names = ["numpy", "scipy", *(["jax-privacy"] if auditing is not None else [])]
    return {
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted": [line.split()[-1] for line in _git("status", "--porcelain", "--", "src").splitlines()],
        "versions": {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in names}},
        "missing": [] if auditing is not None else ["jax-privacy: `make benchmark-audit` installs it"],
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "repetitions": repetitions,
    }


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one repetition, nothing written")
    options = parser.parse_args()
    repetitions = 1 if options.quick else options.repetitions
    results: dict[str, Any] = {"environment": environment(repetitions), "workloads": {}}
    measured: list[tuple[str, Callable[[], dict[str, Any]]]] = [
        (workload.name, partial(measure, workload, repetitions)) for workload in workloads()
    ]
    runs = QUICK_RUNS if options.quick else RUNS
    for attack in (testers.EventSearch(), testers.ClassifierAttack(), testers.HockeyStick(epsilon=0.5)):
        measured.append((f"tester, {attack.title}", partial(measure_tester, attack, runs, repetitions)))
    for name, measuring in measured:
        row = results["workloads"][name] = measuring()
        print(f"{name}, {row['scores']:,} scores:")
        for who in ("hush", "jax-privacy"):
            if who in row:
                seconds, shown = row[who]["seconds"]["median"], row[who]["epsilon_lower"]
                print(f"    {who:12} {seconds:8.3f} s, epsilon >= {shown:.3f}")
        if "jax-privacy / hush" in row:
            print(f"    {'ratio':12} {row['jax-privacy / hush']:8.2f}x", flush=True)
    if not options.quick:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        print(f"Written to {RESULTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
