"""What do private answers cost? hush against plain DuckDB, OpenDP, PipelineDP, SmartNoise and Tumult, in one run.

COUNT, SUM and MEAN by group of a Parquet file: 200,000 users, 50 public groups, one million and ten million rows. A
user's rows are limited to 5 groups and 3 rows in each, values to [0, 100]; all of it costs epsilon 1 at delta 1e-6.

Every contender is a script in benchmarks/statistics_peers, run in processes of its own, peers in environments of their
own. Time is from the file to the answer, the median of the repetitions with its spread; imports and Spark's start are
not in it. CPU seconds compare hush with plain DuckDB, whoever else uses the machine; Spark's are not counted. *Cold* is
a new `hush.table` and its first question, *warm* a further one over the view that the first left, *planning* is
`price`, which looks at no data. Memory is the peak above what is resident after imports, with children. Peers that take
minutes for ten million rows get one million only, and the table says so.

Errors are root mean squares over all groups and repetitions, on a smaller table whose users are within all limits, so
that they are noise and nothing else. Where a peer has two kinds of noise, the smaller of its errors counts. Values are
whole numbers, for the sake of OpenDP, whose sums of floats have more noise. A file of this name would hide the standard
library's module from its neighbours; it gives them that one. Writes benchmarks/results/statistics.json.

    make benchmark-statistics          # or: python benchmarks/statistics.py [--quick] [--alone]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import multiprocessing
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_SPEC = importlib.util.spec_from_file_location("statistics", Path(sysconfig.get_path("stdlib")) / "statistics.py")
if __name__ == "statistics" and _SPEC is not None and _SPEC.loader is not None:
    sys.modules[__name__] = _MODULE = importlib.util.module_from_spec(_SPEC)
    _SPEC.loader.exec_module(_MODULE)

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "benchmarks" / "statistics_peers"
RESULTS = ROOT / "benchmarks" / "results" / "statistics.json"
QUESTION: dict[str, Any] = {
    "epsilon": 1.0,
    "delta": 1e-6,
    "groups": 50,
    "low": 0,
    "high": 100,
    "groups_per_unit": 5,
    "rows_per_unit": 3,
}
MILLION = 1_000_000
USERS = 200_000
LIMIT = 3600  # seconds for one script; long, since others may use the machine
AGGREGATES = ("COUNT", "SUM", "MEAN")


@dataclass(frozen=True)
class Contender:
    """A script, the environment that it runs in, and how much it is asked."""

    script: str
    environment: str | None = None  # that of this process
    variants: tuple[str, ...] = ("",)
    most_rows: int = 10 * MILLION
    repetitions: int = 2
    error_repetitions: int = 20


PLAIN = Contender("plain_duckdb", repetitions=5)
COLD = Contender("hush_duckdb", variants=("cold",), repetitions=3)
WARM = Contender("hush_duckdb", variants=("warm",), repetitions=15, error_repetitions=200)
PEERS = {
    "OpenDP": Contender("opendp_polars", "opendp", error_repetitions=10),
    "PipelineDP": Contender("pipelinedp", "pipelinedp", ("laplace", "gaussian"), most_rows=MILLION),
    "SmartNoise": Contender("smartnoise", "smartnoise"),
    "Tumult": Contender("tumult", "tumult", most_rows=MILLION, repetitions=1, error_repetitions=3),
}


@dataclass
class Measured:
    """What one contender took, or why there is nothing."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    answers: list[list[list[float]]] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    charged: str = ""
    failure: str | None = None

    def add(self, reply: dict[str, Any]) -> None:
        self.failure = self.failure or reply.get("failure")
        self.seconds += reply.get("seconds", [])
        self.cpu_seconds += reply.get("cpu_seconds", [])
        self.memory += [reply["memory_bytes"]] if "memory_bytes" in reply else []
        self.answers += reply.get("answers", [])
        self.versions = reply.get("versions", self.versions)
        self.charged = reply.get("charged", self.charged)

    @property
    def median(self) -> float | None:
        return _median(self.seconds)

    def row(self) -> dict[str, Any]:
        return {
            "median_seconds": self.median,
            "spread_seconds": _spread(self.seconds),
            "median_cpu_seconds": _median(self.cpu_seconds),
            "spread_cpu_seconds": _spread(self.cpu_seconds),
            "repetitions": len(self.seconds),
            "peak_memory_bytes": _median(self.memory),
            "spread_memory_bytes": _spread(self.memory),
            "failure": self.failure,
        }


def ask(who: Contender, path: Path, repetitions: int, variant: str | None = None) -> dict[str, Any]:
    """Run a contender's script once; what goes wrong is its answer."""
    python = Path(sys.executable)
    if who.environment is not None:
        python = ROOT / f".venv-{who.environment}" / "bin" / "python"
    if not python.exists():
        return {"failure": f"there is no .venv-{who.environment}: `make benchmark-statistics` installs it"}
    question = {**QUESTION, "path": str(path), "variant": who.variants[0] if variant is None else variant}
    command = [str(python), str(SCRIPTS / f"{who.script}.py"), json.dumps(question), "--repetitions", str(repetitions)]
    try:
        # Spark leaves things where it is started.
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT, cwd=path.parent)
    except subprocess.TimeoutExpired:
        return {"failure": f"took more than {LIMIT} seconds"}
    if done.returncode != 0:
        return {"failure": " ".join(done.stderr.split())[-200:] or f"ended with {done.returncode}"}
    reply: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return reply


# ---- tables


def make_table(path: Path, rows: int) -> None:
    """Write rows of users drawn at random, each in any group."""
    _write(
        path,
        f"SELECT CAST(hash(3 * i) % {USERS} AS BIGINT) AS user_id, "
        f"CAST(hash(3 * i + 1) % {QUESTION['groups']} AS INTEGER) AS g, "
        f"CAST(hash(3 * i + 2) % {QUESTION['high'] + 1} AS DOUBLE) AS value FROM range({rows}) AS t(i)",
    )


def make_error_table(path: Path, users: int) -> None:
    """Write users of four groups each, with one to three rows there: OpenDP 0.16 keeps a group less than it may."""
    groups, values = QUESTION["groups"], QUESTION["high"] + 1
    _write(
        path,
        f"SELECT u AS user_id, CAST((hash(u) + 11 * k) % {groups} AS INTEGER) AS g, "
        f"CAST(hash(u, k, r) % {values} AS DOUBLE) AS value "
        "FROM range(" + str(users) + ") AS a(u), range(4) AS b(k), range(3) AS c(r) WHERE hash(u, k) % 3 >= r",
    )


def _write(path: Path, query: str) -> None:
    import duckdb

    duckdb.connect().execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")


# ---- measuring


def measure_speed(path: Path, rows: int, quick: bool) -> dict[str, Any]:
    """Time everybody on one table. Plain DuckDB is asked before, between and after, as others may use the machine."""
    measured = {who: Measured() for who in ("plain DuckDB", "hush cold", "hush warm", *PEERS)}

    def again(name: str, who: Contender) -> None:
        measured[name].add(ask(who, path, 1 if quick else who.repetitions))

    for name, who in (("hush cold", COLD), ("hush warm", WARM)):
        again("plain DuckDB", PLAIN)
        again(name, who)
    again("plain DuckDB", PLAIN)
    for name, who in PEERS.items():
        _say(f"{rows:,} rows: {name}")
        if rows > who.most_rows:
            measured[name].failure = f"takes minutes: asked for {who.most_rows:,} rows only"
        else:
            again(name, who)
    again("hush cold", COLD)
    again("plain DuckDB", PLAIN)
    _remeasure_memory(measured, path, 1 if quick else 3)
    plain, cold = measured["plain DuckDB"].median, measured["hush cold"].median
    plain_cpu = _median(measured["plain DuckDB"].cpu_seconds)
    speeds = {}
    for name, one in measured.items():
        ratios = {"times_plain": _ratio(one.median, plain), "times_hush_cold": _ratio(one.median, cold)}
        ratios["times_plain_cpu"] = _ratio(_median(one.cpu_seconds), plain_cpu)
        speeds[name] = {**one.row(), **ratios}
    return {"rows": rows, "contenders": speeds}


def _remeasure_memory(measured: dict[str, Measured], path: Path, times: int) -> None:
    """Ask once in each of some processes, so that what an earlier question left is not in it."""
    for name, who in (("plain DuckDB", PLAIN), ("hush cold", COLD)):
        replies = [ask(who, path, 1) for _ in range(times)]
        measured[name].memory = [one["memory_bytes"] for one in replies if "memory_bytes" in one]


def measure_planning(path: Path, processes: int) -> dict[str, Any]:
    """Time planning: the first of a process, and later ones."""
    runs = [ask(COLD, path, 20, "planning").get("seconds", []) for _ in range(processes)]
    first, later = [run[0] for run in runs if run], [one for run in runs for one in run[1:]]
    return {
        "first_median_seconds": _median(first),
        "first_spread_seconds": _spread(first),
        "later_median_seconds": _median(later),
        "later_spread_seconds": _spread(later),
    }


def measure_errors(path: Path, quick: bool) -> dict[str, Any]:
    """Return everybody's errors at equal epsilon against the exact values; hush draws new noise over one view."""
    exact = {int(row[0]): row[1:] for row in ask(PLAIN, path, 1)["answers"][0]}
    errors = {}
    for name, who in {"hush": WARM, **PEERS}.items():
        _say(f"errors: {name}")
        one: dict[str, Any] = {"failure": None, "variants": {}}
        for variant in who.variants:
            reply = ask(who, path, 2 if quick else who.error_repetitions, variant)
            if "failure" in reply:
                one["failure"] = reply["failure"]
                continue
            one["variants"][variant or "only"] = _errors(reply["answers"], exact)
            one |= {"charged": reply.get("charged", ""), "versions": reply["versions"]}
        by_variant = one["variants"].values()
        for aggregate in AGGREGATES:
            one[aggregate] = min((result[aggregate] for result in by_variant), key=lambda e: e["rmse"], default=None)
        errors[name] = one
    return errors


def _errors(answers: list[list[list[float]]], exact: dict[int, list[float]]) -> dict[str, Any]:
    errors = {}
    for index, aggregate in enumerate(AGGREGATES):
        squares = [(row[1 + index] - exact[int(row[0])][index]) ** 2 for answer in answers for row in answer]
        mean = sum(squares) / len(squares)
        spread = math.sqrt(sum((one - mean) ** 2 for one in squares) / len(squares) ** 2)
        # of the root, by the delta method
        errors[aggregate] = {
            "rmse": math.sqrt(mean),
            "standard_error": spread / (2 * math.sqrt(mean)),
            "of": len(squares),
        }
    return errors


def bars(speeds: list[dict[str, Any]], planning: dict[str, Any], errors: dict[str, Any]) -> list[dict[str, Any]]:
    """Compare with what was promised. Of errors, two standard errors above are no more than chance."""
    checks = []

    def bar(what: str, value: float | None, limit: float, least: bool = False) -> None:
        passed = None if value is None else (value >= limit if least else value <= limit)
        checks.append({"what": what, "at_least" if least else "at_most": limit, "value": value, "passed": passed})

    for speed in speeds:
        rows, all_of_them = f"{speed['rows']:,} rows: ", speed["contenders"]
        # A million rows take plain DuckDB a hundredth of a second, which planning alone exceeds.
        bar(
            rows + "hush cold / plain, CPU",
            all_of_them["hush cold"]["times_plain_cpu"],
            50 if speed["rows"] <= MILLION else 30,
        )
        bar(rows + "hush warm / plain, CPU", all_of_them["hush warm"]["times_plain_cpu"], 2)
        memory = [all_of_them[who]["peak_memory_bytes"] for who in ("hush cold", "plain DuckDB")]
        bar(rows + "hush's memory / plain's", _ratio(*memory), 2)
        for who in PEERS:
            bar(rows + f"{who} / hush cold", all_of_them[who]["times_hush_cold"], 5, least=True)
    bar("planning, first of a process, ms", _ratio(planning["first_median_seconds"], 1e-3), 50)
    bar("planning, later, ms", _ratio(planning["later_median_seconds"], 1e-3), 50)
    for aggregate in AGGREGATES:
        mine = errors["hush"][aggregate]
        for who in PEERS:
            theirs = errors[who][aggregate]
            if mine is None or theirs is None:
                bar(f"{aggregate}: hush's error / {who}'s", None, 1)
                continue
            doubt = math.hypot(mine["standard_error"] / mine["rmse"], theirs["standard_error"] / theirs["rmse"])
            bar(f"{aggregate}: hush's error / {who}'s", mine["rmse"] / theirs["rmse"], round(1 + 2 * doubt, 3))
    return checks


def run(quick: bool) -> dict[str, Any]:
    """Measure everything."""
    environment = _environment()
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "errors.parquet"
        make_error_table(small, 3000)
        errors = measure_errors(small, quick)
        planning = measure_planning(small, 2 if quick else 5)
        speeds = []
        for rows in (MILLION // 10,) if quick else (MILLION, 10 * MILLION):
            path = Path(folder) / f"rows{rows}.parquet"
            make_table(path, rows)
            _say(f"{rows:,} rows: plain DuckDB and hush")
            speeds.append(measure_speed(path, rows, quick))
            path.unlink()
    environment["load_after"] = round(os.getloadavg()[0], 2)
    context = {"environment": environment, "question": {**QUESTION, "users": USERS}}
    return {**context, "speed": speeds, "planning": planning, "errors": errors, "bars": bars(speeds, planning, errors)}


def _environment() -> dict[str, Any]:
    changed = _git("status", "--porcelain", "--", "src", "benchmarks")
    return {
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted": [line.split()[-1] for line in changed.splitlines()],
        "python": platform.python_version(),
        "cpu": _cpu(),
        "cores": multiprocessing.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
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


def _median(values: list[Any]) -> Any:
    ranked = sorted(values)
    middle = len(ranked) // 2
    return None if not ranked else ranked[middle] if len(ranked) % 2 else (ranked[middle - 1] + ranked[middle]) / 2


def _spread(values: list[Any]) -> list[Any] | None:
    return [min(values), max(values)] if values else None


def _ratio(over: float | None, under: float | None) -> float | None:
    return None if over is None or not under else over / under


# ---- telling

_BEGAN = time.perf_counter()


def _say(what: str) -> None:
    print(f"  {time.perf_counter() - _BEGAN:5.0f} s  {what} ...", file=sys.stderr, flush=True)


def tell(results: dict[str, Any]) -> None:
    """Print the tables."""
    for speed in results["speed"]:
        title = f"{speed['rows']:,} rows"
        print(f"\n{title:20}{'seconds':>10}{'min .. max':>20}{'times plain':>13}{'times cold':>12}{'MB':>9}")
        for who, one in speed["contenders"].items():
            print(f"  {who:18}{_cells(one)}")
    planning = results["planning"]
    print("\nplanning, ms", *[f"{when} {_number(_ratio(planning[f'{when}_median_seconds'], 1e-3))}" for when in _WHEN])
    print(f"\n{'error at epsilon 1':20}" + "".join(f"{aggregate:>20}" for aggregate in AGGREGATES))
    for who, one in results["errors"].items():
        cells = [one[aggregate] for aggregate in AGGREGATES]
        texts = [f"{cell['rmse']:.4g} +- {cell['standard_error']:.2g}" if cell else "missing" for cell in cells]
        print(f"  {who:18}" + "".join(f"{cell:>20}" for cell in texts) + f"   {one.get('charged') or one['failure']}")
    print()
    for bar in results["bars"]:
        limit = f"at least {bar['at_least']:g}" if "at_least" in bar else f"at most {bar['at_most']:g}"
        verdict = {None: "unknown", True: "pass", False: "FAIL"}[bar["passed"]]
        print(f"  {bar['what']:44}{_number(bar['value']):>10}   {limit:16}{verdict}")
    print()
    for who, one in results["errors"].items():
        print(f"{who:12}" + ", ".join(f"{name} {version}" for name, version in one.get("versions", {}).items()))


_WHEN = ("first", "later")


def _cells(one: dict[str, Any]) -> str:
    if one["median_seconds"] is None:
        return f"  {one['failure']}"
    spread = "{:.4g} .. {:.4g}".format(*one["spread_seconds"])
    ratios = f"{_number(one['times_plain']):>13}{_number(one['times_hush_cold']):>12}"
    memory = one["peak_memory_bytes"]
    return f"{one['median_seconds']:>10.4g}{spread:>20}{ratios}{_number(_ratio(memory, 1e6)):>9}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def main() -> None:
    """Run, tell, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small table, few repetitions, nothing written")
    parser.add_argument("--alone", action="store_true", help="hush and plain DuckDB only, nothing written")
    options = parser.parse_args()
    if options.alone:
        PEERS.clear()
    results = run(options.quick)
    tell(results)
    if options.quick or options.alone:
        why = "A quick run: too little for the bars to mean much." if options.quick else "Without the peers."
        print(f"\n{why} Nothing written.")
        return
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nWritten to {RESULTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
