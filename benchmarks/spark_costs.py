"""What does Spark read, move and hold for one private question, per row? And so at a billion rows?

Asks `hush.table(frame).sql(...)` (COUNT, SUM, AVG by group, bounded per user), the same once more over the kept view,
and a plain GROUP BY, of synthetic tables on a local Spark with one core; reads each stage's own metrics from Spark's
event log. Every table has 5 rows per user and 50 groups, so that what is counted per row is the same at any size, and
partitions of a stated number of rows, so that a task's cost is. docs/spark_1e9.md is the reading of it. Writes
benchmarks/results/spark_costs.json.

    python benchmarks/spark_costs.py [--quick]      # in the environment of `make test`; some minutes
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import hush  # noqa: E402
from services import spark  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "spark_costs.json"
GROUPS, ROWS_PER_USER, MAX_GROUPS, MAX_ROWS = 50, 5, 3, 2
# Rows and partitions. What a task sends to another is a block: 32 x 32 blocks of a million rows have about a thousand
# rows each, as 1,000 x 1,000 blocks of a billion have. They compress less well than larger ones.
TABLES = [(100_000, 1), (1_000_000, 1), (1_000_000, 32), (3_000_000, 3)]
QUESTION = "SELECT grp, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS m FROM events GROUP BY grp"
EVENTS = (
    "SELECT pmod(xxhash64(id, 1), {users}) AS who, CAST(pmod(xxhash64(id, 2), {groups}) AS INT) AS grp, "
    "CAST(pmod(xxhash64(id, 3), 10000) AS DOUBLE) / 100 AS x FROM range(0, {rows}, 1, {partitions})"
)
SETTINGS = {
    "driver_memory": "3g",
    "driver_extraJavaOptions": "",
    "sql_codegen_wholeStage": "true",
    "sql_codegen_factoryMode": "FALLBACK",
    "eventLog_enabled": "true",
    "eventLog_compress": "false",
    "sql_files_maxPartitionBytes": "1g",  # a file is a partition,
    "sql_files_openCostInBytes": "1g",  # and none has two
    "sql_autoBroadcastJoinThreshold": "10m",
}
# What Spark calls each number, in a task's metrics, and what it is called here.
METRICS = {
    "cpu_s": ("Executor CPU Time", 1e-9),
    "run_s": ("Executor Run Time", 1e-3),
    "gc_s": ("JVM GC Time", 1e-3),
    "spilled_bytes": ("Disk Bytes Spilled", 1),
    "input_rows": ("Input Metrics/Records Read", 1),
    "shuffle_read_bytes": ("Shuffle Read Metrics/Local Bytes Read", 1),
    "shuffle_write_bytes": ("Shuffle Write Metrics/Shuffle Bytes Written", 1),
    "shuffle_write_rows": ("Shuffle Write Metrics/Shuffle Records Written", 1),
}

# The cluster on paper.
PAPER = {"rows": 10**9, "executors": 100, "cores": 4, "partition_rows": 10**6, "network_bytes_per_s": 1.25e9}


@contextmanager
def phase(session: Any, name: str) -> Iterator[None]:
    """Mark the jobs within, for the event log."""
    session.sparkContext.setLocalProperty("hush.phase", name)
    yield
    session.sparkContext.setLocalProperty("hush.phase", None)


def ask(session: Any, path: str, partitions: int, label: str) -> int:
    """Ask all three questions; return the bytes of the kept view."""
    session.conf.set("spark.sql.shuffle.partitions", str(partitions))
    frame = session.read.parquet(path)
    frame.createOrReplaceTempView("events")
    for turn in ("first", "again"):  # the first of each compiles its plan
        with phase(session, f"{label}/plain/{turn}"):
            session.sql(QUESTION).collect()
        people = hush.table(
            session, name="events", unit="who", bounds={"x": (0, 100)}, keys={"grp": list(range(GROUPS))}
        )
        for name in ("cold", "warm"):
            with phase(session, f"{label}/{name}/{turn}"):
                people.sql(QUESTION, epsilon=1.0, groups_per_unit=MAX_GROUPS, rows_per_unit=MAX_ROWS)
        views = session.sparkContext._jsc.sc().getRDDStorageInfo()  # those of earlier turns may still be there
        held = max((info.id(), info.memSize() + info.diskSize()) for info in views)[1]
        people.forget()
        session.sparkContext._jvm.System.gc()  # which lets Spark free the view
    return int(held)


def stages(log: Path) -> dict[str, list[dict[str, Any]]]:
    """Return, for each phase, its stages in order, with sums over their tasks and the most memory that one held."""
    phases: dict[int, str] = {}
    by_stage: dict[int, dict[str, Any]] = defaultdict(
        lambda: {"tasks": 0, "peak_task_bytes": 0, **dict.fromkeys(METRICS, 0)}
    )
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event["Event"] == "SparkListenerStageSubmitted":
            phases[event["Stage Info"]["Stage ID"]] = (event.get("Properties") or {}).get("hush.phase")
        elif event["Event"] == "SparkListenerTaskEnd":
            stage, metrics = by_stage[event["Stage ID"]], event["Task Metrics"]
            stage["tasks"] += 1
            stage["peak_task_bytes"] = max(stage["peak_task_bytes"], metrics["Peak Execution Memory"])
            for name, (path, scale) in METRICS.items():
                value: Any = metrics
                for part in path.split("/"):
                    value = value[part]
                stage[name] += value * scale
    grouped = defaultdict(list)
    for number in sorted(by_stage):
        if phases.get(number):
            grouped[phases[number]].append(by_stage[number])
    return dict(grouped)


def measure(tables: list[tuple[int, int]]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as scratch:
        logs = Path(scratch) / "logs"
        logs.mkdir()
        measured: list[dict[str, Any]] = []
        with spark(Path(scratch), eventLog_dir=logs.as_uri(), **SETTINGS) as session:
            for rows, partitions in tables:
                path, users = f"{scratch}/{rows}_{partitions}", rows // ROWS_PER_USER
                sizes = {"rows": rows, "partitions": partitions, "users": users, "groups": GROUPS}
                session.sql(EVENTS.format(**sizes)).write.parquet(path)
                held = ask(session, path, partitions, f"{rows}/{partitions}")
                # Spark's own count of bytes read misses those of local Parquet files.
                stored = sum(file.stat().st_size for file in Path(path).glob("*.parquet"))
                measured.append({**sizes, "table_bytes": stored, "view_bytes": held})
                print(f"measured {rows:,} rows in {partitions} partitions", flush=True)
        (log,) = [file for file in logs.rglob("*") if file.is_file() and "appstatus" not in file.name]
        by_phase = stages(log)
    for run in measured:
        for name in ("plain", "cold", "warm"):
            run[name] = by_phase[f"{run['rows']}/{run['partitions']}/{name}/again"]
    return measured


def on_paper(base: dict[str, Any], blocks: dict[str, Any]) -> dict[str, Any]:
    """Scale measured tables in proportion to rows: CPU from tasks, bytes shuffled from blocks, of the size there."""
    factor = PAPER["rows"] / base["rows"]
    cores, network = PAPER["executors"] * PAPER["cores"], PAPER["executors"] * PAPER["network_bytes_per_s"]
    costs: dict[str, Any] = {}
    for name in ("plain", "cold", "warm"):
        total = {metric: factor * sum(stage[metric] for stage in base[name]) for metric in METRICS}
        waves = (
            math.ceil(PAPER["rows"] / PAPER["partition_rows"] / cores) * cores * PAPER["partition_rows"] / PAPER["rows"]
        )
        for metric in ("shuffle_read_bytes", "shuffle_write_bytes"):
            total[metric] = PAPER["rows"] / blocks["rows"] * sum(stage[metric] for stage in blocks[name])
        costs[name] = {
            **total,
            "compute_s": total["cpu_s"] / cores * waves,  # the last wave of tasks is not full
            "network_s": total["shuffle_write_bytes"] / network,
            "peak_task_bytes": max(stage["peak_task_bytes"] for stage in base[name]),
        }
    costs["table_bytes"] = factor * base["table_bytes"]
    costs["view_bytes"] = factor * base["view_bytes"]
    costs["view_bytes_per_executor"] = costs["view_bytes"] / PAPER["executors"]
    return costs


def show(measured: list[dict[str, Any]], paper: dict[str, Any]) -> None:
    titles = [
        "rows",
        "partitions",
        "question",
        "stage",
        "tasks",
        "CPU us/row",
        "rows in/row",
        "shuffled B/row",
        "peak MiB",
    ]
    print(" | ".join(titles))
    for run in measured:
        for name in ("plain", "cold", "warm"):
            for number, stage in enumerate(run[name], 1):
                per = [stage[metric] / run["rows"] for metric in ("cpu_s", "input_rows", "shuffle_write_bytes")]
                numbers = f"{per[0] * 1e6:.3f} | {per[1]:.2f} | {per[2]:.2f} | {stage['peak_task_bytes'] / 2**20:.0f}"
                print(f"{run['rows']:,} | {run['partitions']} | {name} | {number} | {stage['tasks']} | {numbers}")
        for name in ("table", "view"):
            print(f"{run['rows']:,} | {run['partitions']} | {name} | {run[f'{name}_bytes'] / run['rows']:.1f} B/row")
    for name in ("plain", "cold", "warm"):
        expected = ", ".join(f"{metric} {value:.3g}" for metric, value in paper[name].items())
        print(f"{PAPER['rows']:.0e} rows, {name}: {expected}")
    print(f"view: {paper['view_bytes']:.3g} bytes, {paper['view_bytes_per_executor']:.3g} per executor")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the smallest table only; nothing is written")
    quick = parser.parse_args().quick
    measured = measure(TABLES[:1] if quick else TABLES)
    paper = on_paper(measured[-1], measured[0] if quick else measured[2])
    show(measured, paper)
    if quick:
        return
    import pyspark

    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    results = {
        "commit": commit,
        "versions": {"python": platform.python_version(), "pyspark": pyspark.__version__, "hush": hush.__version__},
        "question": QUESTION,
        "limits": {"groups_per_unit": MAX_GROUPS, "rows_per_unit": MAX_ROWS},
        "measured": measured,
        "on_paper": {"cluster": PAPER, **paper},
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
