"""How fast are exact mechanisms? hush against NumPy's plain generator, OpenDP, diffprivlib and PyDP, in one run.

Vectors of noisy numbers, single releases, bulk noise for training, and noisy max. Time is per value (of a single
release: per call), the median of the repetitions with its spread; ratios are of medians. Everybody gets the input form
that it handles fastest, and takes turns, so that a busy machine slows all alike; each warms up first. NumPy's generator
is not private, only a floor. Where a peer is slow, it gets fewer values, and the table says how many. OpenDP's noisy
max (permute-and-flip) stops at the first candidate that it takes, so its time depends on the scores: hence two kinds.

diffprivlib needs an older scikit-learn, so a worker runs it in .venv-diffprivlib. A peer that is not installed is
reported as missing. Writes benchmarks/results/mechanisms.json.

    make benchmark-mechanisms          # or: python benchmarks/mechanisms.py [--quick] [--repetitions N]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "mechanisms.json"
WORKER_PYTHON = Path(".venv-diffprivlib") / "bin" / "python"
BUILD = "`make benchmark-mechanisms` installs it"

EPSILON, DELTA = 1.0, 1e-6
SIGMA = 4.2247  # the analytic Gaussian mechanism's at this epsilon and delta, for peers that want a scale
MILLION = 1_000_000
FEW = 20_000  # for peers that a million would keep for more than 20 seconds, and for loops over single releases
CALLS = 1_000

Call = Callable[[], Any]


@dataclass(frozen=True)
class Workload:
    """What is done, how many values each peer gets, and how many times the repetitions asked for."""

    name: str
    form: str  # vector, scalar, bulk, max
    noise: str
    counts: dict[str, int]
    rounds: int = 1

    @property
    def count(self) -> int:
        """How many values are asked for; a peer with fewer is scaled."""
        return max(self.counts.values())


def workloads() -> list[Workload]:
    """Return what is measured."""
    loops = {"diffprivlib": FEW, "PyDP": FEW, "NumPy": MILLION}
    real = {"hush": MILLION, "OpenDP": FEW, "OpenDP k=-40": FEW, **loops}
    full_size = {"hush": MILLION, "OpenDP": MILLION, **loops}
    single = dict.fromkeys(("hush", "OpenDP", "diffprivlib", "PyDP", "NumPy"), CALLS)
    single_real = dict.fromkeys(("hush", "OpenDP", "OpenDP k=-40", "diffprivlib", "PyDP", "NumPy"), CALLS)
    ranked = dict.fromkeys(("hush", "hush PermuteAndFlip", "OpenDP", "NumPy"), MILLION)
    return [
        Workload("vector: Laplace on floats", "vector", "laplace", real),
        Workload("vector: Gaussian on floats", "vector", "gaussian", real),
        Workload("vector: discrete Laplace on integers", "vector", "discrete laplace", full_size),
        Workload("vector: discrete Gaussian on integers", "vector", "discrete gaussian", full_size),
        Workload("bulk float32 Gaussian, 1e6", "bulk", "gaussian", {"hush": MILLION, "NumPy": MILLION}, 5),
        Workload("bulk float32 Gaussian, 1e7", "bulk", "gaussian", {"hush": 10 * MILLION, "NumPy": 10 * MILLION}, 3),
        Workload("noisy max: scores that differ", "max", "differ", ranked, 3),
        Workload("noisy max: scores all equal", "max", "equal", ranked, 3),
        Workload("scalar: Laplace", "scalar", "laplace", single_real, 3),
        Workload("scalar: Gaussian", "scalar", "gaussian", single_real, 3),
        Workload("scalar: discrete Laplace", "scalar", "discrete laplace", single, 3),
    ]


@cache
def values(noise: str, count: int) -> Any:
    """Return the input of a vector or max workload."""
    if noise == "differ":
        return np.random.default_rng(1).normal(scale=10.0, size=count)
    return np.zeros(count, dtype=np.int64 if noise.startswith("discrete") else np.float64)


def repeated(function: Callable[[Any], Any], noise: str, count: int) -> Call:
    """Return a loop over single releases."""
    value: float = 0 if noise.startswith("discrete") else 0.0
    return lambda: [function(value) for _ in range(count)]


# ---- peers: each returns, for a form, a noise and a count, what is to be timed


def hush_call(form: str, noise: str, count: int) -> Call:
    from hush import mechanisms
    from hush.randomness import standard_normal
    from hush.randomness.source import SystemSource

    if form == "bulk":
        source = SystemSource()
        return lambda: standard_normal(source, count)
    if form == "max":
        return _hush_max(mechanisms.ReportNoisyMax(epsilon=EPSILON, sensitivity=1.0), noise, count)
    size = count if form == "vector" else 1
    make: dict[str, Callable[[], Any]] = {
        "laplace": lambda: mechanisms.Laplace(epsilon=EPSILON, sensitivity=1.0, size=size),
        "gaussian": lambda: mechanisms.Gaussian(epsilon=EPSILON, delta=DELTA, sensitivity=1.0, size=size),
        "discrete laplace": lambda: mechanisms.DiscreteLaplace(epsilon=EPSILON, sensitivity=1, size=size),
        "discrete gaussian": lambda: mechanisms.DiscreteGaussian(
            epsilon=EPSILON, delta=DELTA, sensitivity=1, size=size
        ),
    }
    mechanism = make[noise]()
    if form == "scalar":
        return repeated(lambda value: mechanism.release(value).value, noise, count)
    vector = values(noise, count)
    return lambda: mechanism.release(vector).value


def hush_flip_call(form: str, noise: str, count: int) -> Call:
    """Not report noisy max with Laplace noise, but what OpenDP's make_noisy_max does."""
    from hush import mechanisms

    return _hush_max(mechanisms.PermuteAndFlip(epsilon=EPSILON, sensitivity=1.0), noise, count)


def _hush_max(mechanism: Any, noise: str, count: int) -> Call:
    scores = values(noise, count)
    return lambda: mechanism.release(scores).value


def opendp_call(form: str, noise: str, count: int, k: int | None = None) -> Call:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    kind = "i64" if noise.startswith("discrete") else "f64"
    atoms = dp.atom_domain(T="i64") if kind == "i64" else dp.atom_domain(T="f64", nan=False)
    if form == "max":
        space = dp.vector_domain(atoms), dp.linf_distance(T="f64")
        noisy_max = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=2 / EPSILON)
        if not math.isclose(noisy_max.map(1.0), EPSILON):
            raise AssertionError("the scale does not belong to this epsilon")
        scores = values(noise, count)
        return lambda: noisy_max(scores)
    make, scale = (dp.m.make_laplace, 1 / EPSILON) if noise.endswith("laplace") else (dp.m.make_gaussian, SIGMA)
    if form == "scalar":
        metric = dp.absolute_distance(T=kind if noise.endswith("laplace") else "f64")
        return repeated(make(atoms, metric, scale, k=k), noise, count)
    metric = dp.l1_distance(T=kind) if noise.endswith("laplace") else dp.l2_distance(T="f64")
    # A k of one's own needs the size to be known.
    mechanism = make(dp.vector_domain(atoms, size=count), metric, scale, k=k)
    vector = values(noise, count)
    return lambda: mechanism(vector)


def opendp_coarse_call(form: str, noise: str, count: int) -> Call:
    """Not the default: noise on multiples of 2^-40, about as fine as hush's."""
    return opendp_call(form, noise, count, k=-40)


def pydp_call(form: str, noise: str, count: int) -> Call:
    """Return loops over single releases; its integers are rounded Laplace or Gaussian noise."""
    from pydp._pydp import _mechanisms as pydp

    laplace = noise.endswith("laplace")
    mechanism = pydp.LaplaceMechanism(EPSILON, 1.0) if laplace else pydp.GaussianMechanism(EPSILON, DELTA, 1.0)
    return repeated(mechanism.add_noise, noise, count)


def numpy_call(form: str, noise: str, count: int) -> Call:
    """Return what one would write without privacy in mind."""
    rng = np.random.default_rng()
    if form == "bulk":
        return lambda: rng.standard_normal(count, dtype=np.float32)
    if form == "max":
        scores = values(noise, count)
        return lambda: int(np.argmax(scores + rng.exponential(2 / EPSILON, count)))
    share = 1 - math.exp(-EPSILON)
    draw: dict[str, Callable[[int | None], Any]] = {
        "laplace": lambda size: rng.laplace(0.0, 1 / EPSILON, size),
        "gaussian": lambda size: rng.normal(0.0, SIGMA, size),
        "discrete laplace": lambda size: rng.geometric(share, size) - rng.geometric(share, size),
        "discrete gaussian": lambda size: np.rint(rng.normal(0.0, SIGMA, size)).astype(np.int64),
    }
    chosen = draw[noise]
    if form == "scalar":
        return repeated(lambda value: value + chosen(None), noise, count)
    vector = values(noise, count)
    return lambda: vector + chosen(count)


def diffprivlib_call(form: str, noise: str, count: int) -> Call:
    """Return loops over single releases: it has no others."""
    from diffprivlib import mechanisms

    make: dict[str, Callable[[], Any]] = {
        "laplace": lambda: mechanisms.Laplace(epsilon=EPSILON, sensitivity=1.0),
        "gaussian": lambda: mechanisms.GaussianAnalytic(epsilon=EPSILON, delta=DELTA, sensitivity=1.0),
        "discrete laplace": lambda: mechanisms.Geometric(epsilon=EPSILON, sensitivity=1),
        "discrete gaussian": lambda: mechanisms.GaussianDiscrete(epsilon=EPSILON, delta=DELTA, sensitivity=1),
    }
    return repeated(make[noise]().randomise, noise, count)


# ---- measuring


class Missing(Exception):
    """The peer is not installed."""


class Peer(Protocol):
    """Whoever can be timed."""

    versions: dict[str, str]

    def warm_up(self, form: str, noise: str, count: int) -> float | None:
        """Run once, untimed; return the standard deviation of the noise, to see that all do the same."""

    def seconds(self, form: str, noise: str, count: int) -> float:
        """Return the time of one run."""


class Here:
    """A peer in this process."""

    def __init__(self, make: Callable[[str, str, int], Call], *packages: str) -> None:
        self._make = cache(make)
        try:
            self.versions = {name: importlib.metadata.version(name) for name in packages}
        except importlib.metadata.PackageNotFoundError as error:
            raise Missing(f"{error.name} is not installed: {BUILD}") from None

    def warm_up(self, form: str, noise: str, count: int) -> float | None:
        result = self._make(form, noise, count)()
        return None if form == "max" else float(np.std(result))

    def seconds(self, form: str, noise: str, count: int) -> float:
        call = self._make(form, noise, count)
        start = time.perf_counter()
        call()
        return time.perf_counter() - start


class Elsewhere:
    """A peer in a process of its own, with another Python environment. It takes the time itself."""

    def __init__(self, python: Path) -> None:
        if not (ROOT / python).exists():
            raise Missing(f"there is no {python}: {BUILD}")
        command = [str(ROOT / python), str(Path(__file__).resolve()), "--worker"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        hello = self._read()
        if "missing" in hello:
            self.close()
            raise Missing(f"{hello['missing']} (in {python.parts[0]})")
        self.versions: dict[str, str] = hello["versions"]

    def warm_up(self, form: str, noise: str, count: int) -> float | None:
        return self._ask("warm_up", form, noise, count)

    def seconds(self, form: str, noise: str, count: int) -> float:
        return float(self._ask("seconds", form, noise, count))

    def close(self) -> None:
        """End the worker: it stops when nothing more can be asked."""
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait()

    def _ask(self, *question: Any) -> Any:
        if self._process.stdin is None:
            raise RuntimeError("the worker has no input")
        print(json.dumps(question), file=self._process.stdin, flush=True)
        reply = self._read()
        if "failure" in reply:
            raise RuntimeError(reply["failure"])
        return reply["answer"]

    def _read(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise RuntimeError("the worker died")
        return json.loads(line)


def work() -> None:
    """Answer questions from the standard input, as the worker."""
    try:
        peer = Here(diffprivlib_call, "diffprivlib", "scikit-learn", "numpy", "scipy")
        diffprivlib_call("scalar", "laplace", 1)
    except (Missing, ImportError) as error:
        print(json.dumps({"missing": f"{error}"}), flush=True)
        return
    print(json.dumps({"versions": peer.versions}), flush=True)
    for line in sys.stdin:
        what, *arguments = json.loads(line)
        try:
            reply = {"answer": getattr(peer, what)(*arguments)}
        except Exception as error:  # a peer may raise anything: that is its answer
            reply = {"failure": _said(error)}
        print(json.dumps(reply), flush=True)


def _said(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:160]


PEERS: dict[str, Callable[[], Peer]] = {
    "hush": lambda: Here(hush_call, "hush", "cryptography"),
    "hush PermuteAndFlip": lambda: Here(hush_flip_call, "hush", "cryptography"),
    "OpenDP": lambda: Here(opendp_call, "opendp"),
    "OpenDP k=-40": lambda: Here(opendp_coarse_call, "opendp"),
    "diffprivlib": lambda: Elsewhere(WORKER_PYTHON),
    "PyDP": lambda: Here(pydp_call, "python-dp"),
    "NumPy": lambda: Here(numpy_call, "numpy"),
}


@dataclass
class Answer:
    """One peer's times for one workload, per value."""

    count: int
    seconds: list[float] = field(default_factory=list)
    deviation: float | None = None
    failure: str | None = None
    missing: bool = False

    @property
    def median(self) -> float:
        """Median of the repetitions."""
        return statistics.median(self.seconds)


def ask(workload: Workload, peers: dict[str, Peer | Missing], repetitions: int, quick: bool) -> dict[str, Answer]:
    """Let the peers take turns."""
    counts = {who: max(count // 50, CALLS) if quick else count for who, count in workload.counts.items()}
    answers = {who: Answer(count) for who, count in counts.items()}
    for turn in range(-1, repetitions):
        for who, answer in answers.items():
            peer = peers[who]
            if isinstance(peer, Missing):
                answer.failure, answer.missing = str(peer), True
            if answer.failure or isinstance(peer, Missing):
                continue
            try:
                if turn < 0:
                    # The slowest warms up on less.
                    enough = min(answer.count, FEW) if who.startswith("OpenDP") else answer.count
                    answer.deviation = peer.warm_up(workload.form, workload.noise, enough)
                else:
                    taken = peer.seconds(workload.form, workload.noise, answer.count)
                    answer.seconds.append(taken / answer.count)
            except Exception as error:  # a peer may raise anything: that is its answer
                answer.failure = _said(error)
                answer.seconds.clear()
    return answers


def run(repetitions: int, quick: bool) -> dict[str, Any]:
    """Ask everybody everything."""
    peers: dict[str, Peer | Missing] = {}
    for who, start in PEERS.items():
        try:
            peers[who] = start()
        except (Missing, RuntimeError) as error:
            peers[who] = Missing(str(error))
            print(f"  {who}: missing: {error}", file=sys.stderr, flush=True)
    environment = _environment(repetitions, peers)  # before anything can change
    began = time.perf_counter()
    rows = []
    for workload in workloads():
        print(f"  {time.perf_counter() - began:5.0f} s  {workload.name} ...", file=sys.stderr, flush=True)
        rounds = repetitions if quick else repetitions * workload.rounds
        rows.append(_row(workload, ask(workload, peers, rounds, quick)))
        values.cache_clear()
    print(f"  {time.perf_counter() - began:5.0f} s  done", file=sys.stderr, flush=True)
    environment["load_after"] = round(os.getloadavg()[0], 2)
    for peer in peers.values():
        if isinstance(peer, Elsewhere):
            peer.close()
    return {"environment": environment, "workloads": rows, "bars": bars({row["name"]: row for row in rows})}


def _row(workload: Workload, answers: dict[str, Answer]) -> dict[str, Any]:
    most, mine = max(answer.count for answer in answers.values()), answers["hush"]
    return {
        "name": workload.name,
        "count": most,
        "answers": {
            who: {
                "count": answer.count,
                "scaled": answer.count < most,
                "median_seconds_per_value": answer.median if answer.seconds else None,
                "spread_seconds_per_value": [min(answer.seconds), max(answer.seconds)] if answer.seconds else None,
                "repetitions": len(answer.seconds),
                "times_hush": answer.median / mine.median if answer.seconds and mine.seconds else None,
                "times_hush_by_turn": _turns(answer, mine),
                "noise_deviation": answer.deviation,
                "missing": answer.missing,
                "failure": answer.failure,
            }
            for who, answer in answers.items()
        },
    }


def _turns(answer: Answer, mine: Answer) -> list[float] | None:
    """Return the smallest and the largest ratio of one turn."""
    if not answer.seconds or not mine.seconds:
        return None
    ratios = [theirs / ours for theirs, ours in zip(answer.seconds, mine.seconds, strict=True)]
    return [min(ratios), max(ratios)]


def bars(rows: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what hush wants to reach, and whether it does; None where somebody is missing."""

    def ratio(name: str, who: str) -> float | None:
        measured: float | None = rows[name]["answers"][who]["times_hush"]
        return measured

    def bar(name: str, what: str, value: float | None, limit: float, least: bool, goal: bool = False) -> dict[str, Any]:
        passed = None if value is None else bool(value >= limit if least else value <= limit)
        return {
            "workload": name,
            "what": what,
            "at_least" if least else "at_most": limit,
            "value": value,
            "passed": passed,
            "goal_only": goal,
        }

    measured = []
    for name in rows:
        if name.startswith("vector"):
            measured.append(bar(name, "OpenDP's time / hush's", ratio(name, "OpenDP"), 20, True))
            measured.append(bar(name, "OpenDP's time / hush's", ratio(name, "OpenDP"), 100, True, goal=True))
            measured.append(bar(name, "diffprivlib's time / hush's", ratio(name, "diffprivlib"), 8, True))
        elif name.startswith("scalar"):
            median = rows[name]["answers"]["hush"]["median_seconds_per_value"]
            measured.append(bar(name, "hush's microseconds", None if median is None else 1e6 * median, 60, False))
        else:
            who, limit = ("NumPy", 4.0) if name.startswith("bulk") else ("OpenDP", 0.2)
            theirs = ratio(name, who)
            measured.append(bar(name, f"hush's time / {who}'s", None if theirs is None else 1 / theirs, limit, False))
    return measured


def _environment(repetitions: int, peers: dict[str, Peer | Missing]) -> dict[str, Any]:
    changed = _git("status", "--porcelain", "--", "src", "benchmarks/mechanisms.py")
    return {
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted": [line.split()[-1] for line in changed.splitlines()],
        "versions": {who: None if isinstance(peer, Missing) else peer.versions for who, peer in peers.items()},
        "missing": {who: str(peer) for who, peer in peers.items() if isinstance(peer, Missing)},
        "python": platform.python_version(),
        "cpu": _cpu(),
        "cores": multiprocessing.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "repetitions": repetitions,
    }


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


# ---- telling


def tell(results: dict[str, Any]) -> None:
    """Print the tables."""
    print(f"\n{'':40}{'values':>12}{'us per value':>14}{'min .. max':>24}{'times hush':>12}")
    for row in results["workloads"]:
        print(f"\n{row['name']}, {row['count']:,}")
        for who, answer in row["answers"].items():
            print(f"    {who + (' (not private)' if who == 'NumPy' else ''):36}{_cells(answer)}")
    print(f"\n{'bars':72}{'value':>12}")
    for bar in results["bars"]:
        limit = f"at least {bar['at_least']:g}" if "at_least" in bar else f"at most {bar['at_most']:g}"
        value = "missing" if bar["value"] is None else f"{bar['value']:.3g}"
        verdict = {None: "unknown", True: "pass", False: "FAIL"}[bar["passed"]]
        if bar["goal_only"]:
            verdict = {None: "unknown", True: "goal reached", False: "goal not reached"}[bar["passed"]]
        print(f"  {bar['workload']:40}{bar['what']:30}{value:>12}   {limit:16}{verdict}")
    print()
    for who, version in results["environment"]["versions"].items():
        reason = results["environment"]["missing"].get(who, "")
        print(f"{who:21}" + (", ".join(f"{n} {v}" for n, v in version.items()) if version else f"missing: {reason}"))


def _cells(answer: dict[str, Any]) -> str:
    if answer["failure"]:
        return f"{'missing' if answer['missing'] else 'failed'}: {answer['failure']}"
    low, high = (1e6 * one for one in answer["spread_seconds_per_value"])
    median, times = 1e6 * answer["median_seconds_per_value"], answer["times_hush"]
    ratio = "-" if times is None else f"{times:.3g}"
    spread = f"{low:.4g} .. {high:.4g}"
    note = "  (per value, from fewer)" if answer["scaled"] else ""
    return f"{answer['count']:>12,}{median:>14.4g}{spread:>24}{ratio:>12}{note}"


def main() -> None:
    """Run, tell, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5, help="some workloads take a multiple of it")
    parser.add_argument("--quick", action="store_true", help="fewer values and repetitions, nothing written")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work()
        return
    results = run(2 if options.quick else options.repetitions, options.quick)
    tell(results)
    if options.quick:
        print("\nA quick run: too few values for the bars to mean much. Nothing written.")
        return
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nWritten to {RESULTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
