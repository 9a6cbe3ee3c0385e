"""How tight and how fast are accountants? hush against the released packages of its peers, in one run.

Every problem has a truth, known to about 1e-11 (tests/golden/accounting_reference.json: contour integration, checked
with 34 digits). For each accountant the table shows how long one answer takes (median of the repetitions; spread in
the results file), and how far it is off. Calibrations likewise. Accountants take turns, so that a busy machine slows
all alike; each answer has a time limit. Writes benchmarks/results/accounting.json.

    make benchmark                     # or: python benchmarks/accounting.py [--quick] [--repetitions N]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import multiprocessing
import platform
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "tests" / "golden" / "accounting_reference.json"
RESULTS = ROOT / "benchmarks" / "results" / "accounting.json"
LIMIT_SECONDS = 45.0

Phase = list[Any]


@dataclass(frozen=True)
class Problem:
    """Epsilon of composed phases at a delta; phases as in the reference file."""

    name: str
    phases: list[Phase]
    delta: float
    truth: float


@dataclass(frozen=True)
class Calibration:
    """The noise multiplier for a target."""

    name: str
    sampling_rate: float
    num_steps: int
    epsilon: float
    delta: float
    truth: float


def problems() -> list[Problem]:
    """Return the eighteen problems: the file's nine, and nine of its grid."""
    data = json.loads(REFERENCE.read_text())
    named = [Problem(p["id"], p["phases"], p["delta"], p["eps"]) for p in data["problems"]]
    grid = data["grid_subsampled_gaussian"]
    picked = [grid[round(index * (len(grid) - 1) / 8)] for index in range(9)]
    return named + [
        Problem(
            f"q={g['q']:g} sigma={g['sigma']:g} T={g['T']}", [["sg", g["q"], g["sigma"], g["T"]]], g["delta"], g["eps"]
        )
        for g in picked
    ]


def calibrations() -> list[Calibration]:
    """Return the file's three calibrations and two of a plain Gaussian."""
    data = json.loads(REFERENCE.read_text())
    sampled = [
        Calibration(f"q={c['q']:.4g} T={c['T']} eps={c['eps']:g}", c["q"], c["T"], c["eps"], c["delta"], c["sigma"])
        for c in data["calibration"]
    ]
    plain = [
        Calibration(f"gaussian eps={c['eps']:g} delta={c['delta']:g}", 1.0, 1, c["eps"], c["delta"], c["sigma"])
        for c in data["gaussian_analytic_sigma"][:2]
    ]
    return sampled + plain


# ---- accountants: each a function of (phases, delta) -> epsilon; None where the package has no such event


def hush_pld(phases: list[Phase], delta: float) -> float:
    from hush import Relation
    from hush import accounting as acc

    _forget()
    relation = Relation.REPLACE if phases[0][0] == "rr" else Relation.ADD_OR_REMOVE
    return acc.PldAccountant(relation=relation).compose(_hush_event(phases)).epsilon(delta)


def hush_rdp(phases: list[Phase], delta: float) -> float:
    from hush import Relation
    from hush import accounting as acc

    _forget()
    relation = Relation.REPLACE if phases[0][0] == "rr" else Relation.ADD_OR_REMOVE
    return acc.RdpAccountant(relation=relation).compose(_hush_event(phases)).epsilon(delta)


def _forget() -> None:
    """Let every repetition start afresh."""
    from hush.accounting.losses import renyi, solver

    renyi.renyi_curve.cache_clear()
    solver._solution.cache_clear()


def _hush_event(phases: list[Phase]) -> Any:
    from hush import accounting as acc
    from hush.mechanisms import RandomizedResponse

    make: dict[str, Callable[..., Any]] = {
        "sg": lambda q, sigma: acc.PoissonSampledEvent(acc.GaussianEvent(sigma), q),
        "lap": acc.LaplaceEvent,
        "sublap": lambda q, scale: acc.PoissonSampledEvent(acc.LaplaceEvent(scale), q),
        "rr": lambda epsilon: RandomizedResponse(epsilon=epsilon).event,
    }
    return acc.ComposedEvent(tuple(acc.SelfComposedEvent(make[kind](*rest[:-1]), rest[-1]) for kind, *rest in phases))


def _dp_event(phases: list[Phase]) -> Any:
    from dp_accounting import dp_event as dpe

    make: dict[str, Callable[..., Any]] = {
        "sg": lambda q, sigma: dpe.PoissonSampledDpEvent(q, dpe.GaussianDpEvent(sigma)),
        "lap": dpe.LaplaceDpEvent,
        "sublap": lambda q, scale: dpe.PoissonSampledDpEvent(q, dpe.LaplaceDpEvent(scale)),
        "rr": lambda epsilon: dpe.RandomizedResponseDpEvent(2 / (1 + math.exp(epsilon)), 2),
    }
    return dpe.ComposedDpEvent([dpe.SelfComposedDpEvent(make[kind](*rest[:-1]), rest[-1]) for kind, *rest in phases])


def dp_accounting_pld(phases: list[Phase], delta: float) -> float:
    from dp_accounting import privacy_accountant
    from dp_accounting.pld import PLDAccountant

    relation = privacy_accountant.NeighboringRelation
    chosen = relation.REPLACE_ONE if phases[0][0] == "rr" else relation.ADD_OR_REMOVE_ONE
    return float(PLDAccountant(chosen).compose(_dp_event(phases)).get_epsilon(delta))


def dp_accounting_rdp(phases: list[Phase], delta: float) -> float:
    from dp_accounting import privacy_accountant
    from dp_accounting.rdp import RdpAccountant

    relation = privacy_accountant.NeighboringRelation
    chosen = relation.REPLACE_ONE if phases[0][0] == "rr" else relation.ADD_OR_REMOVE_ONE
    return float(RdpAccountant(neighboring_relation=chosen).compose(_dp_event(phases)).get_epsilon(delta))


def opacus_prv(phases: list[Phase], delta: float) -> float:
    from opacus.accountants import PRVAccountant

    _only_sampled_gaussians(phases)
    accountant = PRVAccountant()
    accountant.history = [(sigma, q, steps) for _, q, sigma, steps in phases]
    return float(accountant.get_epsilon(delta))


def prv_accountant(phases: list[Phase], delta: float) -> float:
    from prv_accountant import LaplaceMechanism, PoissonSubsampledGaussianMechanism, PRVAccountant

    make: dict[str, Callable[..., Any]] = {
        "sg": lambda q, sigma: PoissonSubsampledGaussianMechanism(q, sigma),
        "lap": lambda scale: LaplaceMechanism(mu=1 / scale),
    }
    if any(kind not in make for kind, *_ in phases):
        raise NotImplementedError("no such mechanism")
    counts = [phase[-1] for phase in phases]
    accountant = PRVAccountant(
        prvs=[make[kind](*rest[:-1]) for kind, *rest in phases],
        max_self_compositions=counts,
        eps_error=0.01,
        delta_error=delta / 1000,
    )
    return float(accountant.compute_epsilon(delta, counts)[2])


def autodp_rdp(phases: list[Phase], delta: float) -> float:
    from autodp import rdp_acct, rdp_bank

    _only_sampled_gaussians(phases)
    accountant = rdp_acct.anaRDPacct()
    for _, q, sigma, steps in phases:
        function = lambda order, sigma=sigma: rdp_bank.RDP_gaussian({"sigma": sigma}, order)  # noqa: E731
        if q == 1:
            accountant.compose_mechanism(function, coeff=steps)
        else:
            accountant.compose_poisson_subsampled_mechanisms(function, q, coeff=steps)
    return float(accountant.get_eps(delta))


def _only_sampled_gaussians(phases: list[Phase]) -> None:
    if any(kind != "sg" for kind, *_ in phases):
        raise NotImplementedError("no such mechanism")


ACCOUNTANTS: dict[str, Callable[[list[Phase], float], float]] = {
    "hush PLD": hush_pld,
    "dp-accounting PLD": dp_accounting_pld,
    "Opacus PRV": opacus_prv,
    "prv-accountant": prv_accountant,
    "hush RDP": hush_rdp,
    "dp-accounting RDP": dp_accounting_rdp,
    "autodp RDP": autodp_rdp,
}


# ---- calibrators


def hush_noise(c: Calibration) -> float:
    from hush import accounting as acc

    _forget()
    return acc.calibrate_noise(epsilon=c.epsilon, delta=c.delta, sampling_rate=c.sampling_rate, num_steps=c.num_steps)


def dp_accounting_noise(c: Calibration) -> float:
    from dp_accounting import dp_event as dpe
    from dp_accounting.mechanism_calibration import calibrate_dp_mechanism
    from dp_accounting.pld import PLDAccountant

    def event(sigma: float) -> Any:
        return dpe.SelfComposedDpEvent(
            dpe.PoissonSampledDpEvent(c.sampling_rate, dpe.GaussianDpEvent(sigma)), c.num_steps
        )

    return float(calibrate_dp_mechanism(PLDAccountant, event, c.epsilon, c.delta))


def opacus_noise(c: Calibration) -> float:
    from opacus.accountants.utils import get_noise_multiplier

    return float(
        get_noise_multiplier(
            target_epsilon=c.epsilon,
            target_delta=c.delta,
            sample_rate=c.sampling_rate,
            steps=c.num_steps,
            accountant="prv",
        )
    )


def prv_noise(c: Calibration) -> float:
    from prv_accountant.dpsgd import find_noise_multiplier

    return float(
        find_noise_multiplier(
            sampling_probability=c.sampling_rate,
            num_steps=c.num_steps,
            target_epsilon=c.epsilon,
            target_delta=c.delta,
            eps_error=0.01,
        )
    )


CALIBRATORS: dict[str, Callable[[Calibration], float]] = {
    "hush PLD": hush_noise,
    "dp-accounting PLD": dp_accounting_noise,
    "Opacus PRV": opacus_noise,
    "prv-accountant": prv_noise,
}


# ---- measuring


@dataclass(frozen=True)
class Answer:
    """One accountant's answer to one question."""

    value: float | None
    seconds: list[float]
    megabytes: float
    failure: str | None

    @property
    def median(self) -> float:
        """Median time of the repetitions."""
        return statistics.median(self.seconds) if self.seconds else math.nan


def measure(function: Callable[..., float], arguments: tuple[Any, ...], repetitions: int) -> Answer:
    """Ask in a process of its own, so that time and memory can be limited and told apart."""
    receive, send = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=_ask, args=(send, function, arguments, repetitions))
    process.start()
    send.close()
    answer = Answer(None, [], math.nan, f"more than {LIMIT_SECONDS:g} s")
    try:
        if receive.poll(LIMIT_SECONDS):
            answer = receive.recv()
    except EOFError:
        answer = Answer(None, [], math.nan, "the process died")
    process.kill()
    process.join()
    return answer


def _ask(send: Any, function: Callable[..., float], arguments: tuple[Any, ...], repetitions: int) -> None:
    warnings.simplefilter("ignore")
    _warm_up(function)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds: list[float] = []
    value: float | None = None
    failure = None
    try:
        for _ in range(repetitions):
            start = time.perf_counter()
            value = function(*arguments)
            seconds.append(time.perf_counter() - start)
            if sum(seconds) > LIMIT_SECONDS / 4:
                break
    except Exception as error:  # a peer may raise anything: that is its answer
        failure = f"{type(error).__name__}: {error}"[:120]
        value = None
    used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    send.send(Answer(value, seconds, used, failure))


def _warm_up(function: Callable[..., float]) -> None:
    """Import what the function imports, and let it allocate what it keeps, outside of the measurement."""
    try:
        if function in CALIBRATORS.values():
            function(Calibration("", 0.1, 2, 1.0, 1e-5, 0.0))
        else:
            function([["sg", 0.1, 2.0, 2]], 1e-5)
    except Exception:
        return


def relative(answer: Answer, truth: float) -> float:
    """Return how far the answer is off, relatively."""
    return math.nan if answer.value is None else answer.value / truth - 1


def schedule() -> list[Phase]:
    """Return the schedule: a hundred sigmas, a hundred steps each."""
    return [["sg", 0.01, 2.0 * 0.4 ** (index / 99), 100] for index in range(100)]


def run(repetitions: int, quick: bool) -> dict[str, Any]:
    """Ask everybody everything."""
    chosen = problems()[:: 3 if quick else 1]
    results: dict[str, Any] = {"environment": _environment(repetitions), "problems": [], "calibrations": []}
    for problem in chosen:
        row = _row(problem.name, problem.truth, ACCOUNTANTS, (problem.phases, problem.delta), repetitions)
        results["problems"].append(row)
    for calibration in calibrations()[: 2 if quick else None]:
        row = _row(calibration.name, calibration.truth, CALIBRATORS, (calibration,), 1 if quick else repetitions)
        results["calibrations"].append(row)
    both = {name: ACCOUNTANTS[name] for name in ("hush PLD", "dp-accounting PLD")}
    results["schedule"] = _row("100 sigmas x 100 steps", math.nan, both, (schedule(), 1e-5), 1)
    tiny = [["sg", 0.01, 1.0, 1000]]
    few = {name: function for name, function in ACCOUNTANTS.items() if "RDP" not in name}
    results["small deltas"] = [_row(f"delta={d:g}", math.nan, few, (tiny, d), 1) for d in (1e-15, 1e-18)]
    return results


def _row(
    name: str, truth: float, functions: dict[str, Any], arguments: tuple[Any, ...], repetitions: int
) -> dict[str, Any]:
    print(f"  {name} ...", file=sys.stderr, flush=True)
    answers = {who: measure(function, arguments, repetitions) for who, function in functions.items()}
    return {
        "name": name,
        "truth": None if math.isnan(truth) else truth,
        "answers": {
            who: {
                "value": _plain(answer.value),
                "relative_error": _plain(relative(answer, truth)),
                "median_seconds": _plain(answer.median),
                "spread_seconds": [min(answer.seconds), max(answer.seconds)] if answer.seconds else None,
                "extra_megabytes": _plain(answer.megabytes),
                "failure": answer.failure,
            }
            for who, answer in answers.items()
        },
    }


def _plain(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def _environment(repetitions: int) -> dict[str, Any]:
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    packages = ("hush", "dp-accounting", "prv-accountant", "opacus", "autodp", "torch", "numpy", "scipy")
    return {
        "commit": commit.stdout.strip(),
        "versions": {name: importlib.metadata.version(name) for name in packages},
        "python": platform.python_version(),
        "cpu": platform.processor() or platform.machine(),
        "cores": multiprocessing.cpu_count(),
        "repetitions": repetitions,
    }


# ---- telling


def tell(results: dict[str, Any]) -> None:
    """Print the tables."""
    _tell_rows("epsilon: milliseconds (relative error)", results["problems"], list(ACCOUNTANTS))
    _tell_rows("noise multiplier: milliseconds (relative error)", results["calibrations"], list(CALIBRATORS))
    _tell_rows("schedule: milliseconds", [results["schedule"]], ["hush PLD", "dp-accounting PLD"])
    _tell_rows("small deltas: milliseconds", results["small deltas"], [*list(ACCOUNTANTS)[:4]])
    for title, rows in (("epsilon", results["problems"]), ("calibration", results["calibrations"])):
        for who in rows[0]["answers"]:
            if who != "hush PLD":
                _tell_ratio(title, who, rows)
    mine = [row["answers"]["hush PLD"] for row in results["problems"]]
    errors = [one["relative_error"] for one in mine]
    print(f"\nhush PLD: relative error {min(errors):.1e} to {max(errors):.1e}, never negative: {min(errors) >= -1e-9}")
    print(f"hush PLD: extra memory at most {max(one['extra_megabytes'] for one in mine):.0f} MB")


def _tell_rows(title: str, rows: list[dict[str, Any]], names: list[str]) -> None:
    print(f"\n{title}\n\n{'':26}" + "".join(f"{name:>24}" for name in names))
    for row in rows:
        cells = "".join(f"{_cell(row['answers'].get(name)):>24}" for name in names)
        print(f"{row['name'][:25]:26}{cells}")


def _cell(answer: dict[str, Any] | None) -> str:
    if answer is None:
        return "-"
    if answer["value"] is None:
        return "refused" if "NotImpl" in (answer["failure"] or "") else ("failed" if answer["failure"] else "infinite")
    error = "" if answer["relative_error"] is None else f" ({answer['relative_error']:+.0e})"
    return f"{1e3 * answer['median_seconds']:.1f}{error}"


def _tell_ratio(title: str, who: str, rows: list[dict[str, Any]]) -> None:
    ratios = [
        row["answers"][who]["median_seconds"] / row["answers"]["hush PLD"]["median_seconds"]
        for row in rows
        if row["answers"][who]["median_seconds"] and row["answers"]["hush PLD"]["median_seconds"]
    ]
    if ratios:
        print(
            f"{title:12} {who:20} takes {statistics.median(ratios):8.1f} times as long as hush PLD "
            f"(median; {min(ratios):.1f} to {max(ratios):.1f})"
        )


def main() -> None:
    """Run, tell, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="fewer problems, fewer repetitions, nothing written")
    parser.add_argument("--without", nargs="*", default=[], metavar="NAME", help="accountants to leave out")
    options = parser.parse_args()
    for name in options.without:
        ACCOUNTANTS.pop(name, None)
        CALIBRATORS.pop(name, None)
    results = run(1 if options.quick else options.repetitions, options.quick)
    tell(results)
    if not options.quick:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        print(f"\nWritten to {RESULTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
