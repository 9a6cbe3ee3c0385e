"""How many charges per second does a ledger take, how long do reading what is spent and voiding take, as it grows?

Every charge is on the disk when it returns, so that the disk's own time for one wait is printed beside. Threads,
processes and connections that charge at the same time share these waits. Writes benchmarks/results/ledger.json.

    make benchmark-ledger                 # or: python benchmarks/ledger.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from hush.accounting import Event, GaussianEvent, LaplaceEvent, PoissonSampledEvent, SelfComposedEvent
from hush.accounting.budget import Charge
from hush.ledger import Ledger, LedgerBudget

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "ledger.json"
CHARGES_BAR, READ_OUT_BAR, VOID_BAR = 500.0, 0.050, 0.010
MIXED: tuple[Event, ...] = (
    LaplaceEvent(1e4),
    LaplaceEvent(2e4),
    GaussianEvent(1e4),
    SelfComposedEvent(PoissonSampledEvent(GaussianEvent(50.0), 0.001), 10),
)


def fsync_ms(folder: Path) -> float:
    """Return the median time of one wait for the disk."""
    times = []
    with (folder / "waits").open("wb", buffering=0) as file:
        for _ in range(100):
            file.write(b"x" * 8192)
            begin = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def opened(url: str) -> LedgerBudget:
    """Return a budget that is never used up."""
    return Ledger(url).budget("patients", epsilon=1e3, delta=1e-6, unit="patient")


def charge(data: LedgerBudget, count: int) -> None:
    """Charge events of several kinds."""
    for number in range(count):
        data.charge(MIXED[number % len(MIXED)], purpose="a benchmark")


def pairs(data: LedgerBudget, count: int) -> None:
    """Reserve and commit."""
    for number in range(count):
        data.reserve(Charge(event=MIXED[number % len(MIXED)], purpose="a benchmark")).commit()


def by_threads(url: str, work: Callable[[LedgerBudget, int], None], workers: int, count: int) -> float:
    """Return charges per second from threads of one process."""
    data = opened(url)
    threads = [threading.Thread(target=work, args=(data, count // workers)) for _ in range(workers)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = count / (time.perf_counter() - begin)
    data.store.close()
    return rate


def _process(url: str, work: Callable[[LedgerBudget, int], None], count: int, barrier: Any) -> None:
    data = opened(url)
    work(data, 2)
    barrier.wait()
    work(data, count)


def by_processes(url: str, work: Callable[[LedgerBudget, int], None], workers: int, count: int) -> float:
    """Return charges per second from several processes."""
    opened(url).store.close()
    context = multiprocessing.get_context("forkserver")  # which has imported everything once
    context.set_forkserver_preload(["hush.ledger", "hush.accounting.budget", "psycopg"])
    barrier = context.Barrier(workers + 1)
    processes = [context.Process(target=_process, args=(url, work, count // workers, barrier)) for _ in range(workers)]
    for process in processes:
        process.start()
    barrier.wait()
    begin = time.perf_counter()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise RuntimeError("a process failed")
    return count / (time.perf_counter() - begin)


def grow(url: str, sizes: list[int]) -> list[dict[str, float]]:
    """Return how a charge, the read-out and a void behave in ledgers with more and more rows."""
    data, rows, lines = opened(url), 0, []
    for size in sizes:
        charge_unwaited(data, size - rows)
        rows = size
        begin, cpu_begin = time.perf_counter(), time.process_time()
        charge(data, 200)
        rows += 200
        per_second, cpu = 200 / (time.perf_counter() - begin), (time.process_time() - cpu_begin) / 200
        reads, voids = [], []
        for _ in range(21):
            begin = time.perf_counter()
            _ = data.spent
            reads.append(time.perf_counter() - begin)
            reserved = data.reserve(Charge(event=MIXED[0], purpose="a benchmark"))
            begin = time.perf_counter()
            reserved.void()
            voids.append(time.perf_counter() - begin)
            rows += 2
        lines.append(
            {
                "rows": size,
                "charges per second": per_second,
                "CPU ms per charge": cpu * 1e3,
                "read-out ms": statistics.median(reads) * 1e3,
                "void ms": statistics.median(voids) * 1e3,
            }
        )
    data.store.close()
    return lines


def charge_unwaited(data: LedgerBudget, count: int) -> None:
    """Fill a ledger fast, many rows to a transaction: not what is measured."""
    for begin in range(0, count, 1000):
        with data.store.writing() as connection:
            for number in range(begin, min(begin + 1000, count)):
                event = MIXED[number % len(MIXED)]
                row = data.row("committed", Charge(event=event, purpose="filling"), data.cost(event))  # type: ignore[arg-type]
                data.store._append(connection, row)


def measure(quick: bool) -> dict[str, Any]:
    """Return all figures."""
    sizes, count = ([1000, 3000], 320) if quick else ([1000, 10_000, 100_000], 3200)
    results: dict[str, Any] = {"charges per second": {}, "growth": {}}
    rates = results["charges per second"]
    with tempfile.TemporaryDirectory(dir=ROOT) as name:
        folder = Path(name)
        results["fsync ms"] = fsync_ms(folder)
        for what, work in (("charge", charge), ("reserve and commit", pairs)):
            for workers in (1, 8, 32):
                url = f"sqlite:///{folder}/threads{workers}{work.__name__}.db"
                rates[f"SQLite, {what}, one process, {workers} threads"] = by_threads(url, work, workers, count)
            url = f"sqlite:///{folder}/processes{work.__name__}.db"
            rates[f"SQLite, {what}, 16 processes"] = by_processes(url, work, 16, count)
        results["growth"]["SQLite"] = grow(f"sqlite:///{folder}/grown.db", sizes)
    postgres(results, sizes, count)
    return results


def postgres(results: dict[str, Any], sizes: list[int], count: int) -> None:
    """Measure on a server of its own, which waits for the disk."""
    sys.path.insert(0, str(ROOT / "tests"))
    import services

    services._POSTGRES_SETTINGS = {**services._POSTGRES_SETTINGS, "fsync": "on"}
    with services._folder("pg") as folder, services._server(services._binaries(folder), folder) as server:
        address = sa.make_url(server)
        engine = sa.create_engine(address.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")

        def database(name: str) -> str:
            with engine.connect() as connection:
                connection.exec_driver_sql(f"CREATE DATABASE {name}")
            return address.set(database=name).render_as_string(hide_password=False)

        rates = results["charges per second"]
        for what, work in (("charge", charge), ("reserve and commit", pairs)):
            name = f"{work.__name__}_by"
            rates[f"PostgreSQL, {what}, 1 connection"] = by_threads(database(f"{name}_1"), work, 1, count // 4)
            rates[f"PostgreSQL, {what}, 16 connections"] = by_threads(database(f"{name}_16"), work, 16, count)
            rates[f"PostgreSQL, {what}, 16 processes"] = by_processes(database(f"{name}_p"), work, 16, count)
        results["growth"]["PostgreSQL"] = grow(database("grown"), sizes)
        engine.dispose()


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer charges, and nothing is written")
    quick = parser.parse_args().quick
    results = measure(quick)
    print(f"one wait for the disk: {results['fsync ms']:.2f} ms")
    for name, rate in results["charges per second"].items():
        print(f"{name:55} {rate:8.0f} / s")
    for database, lines in results["growth"].items():
        for line in lines:
            print(
                f"{database:12} {line['rows']:8} rows {line['charges per second']:8.0f} charges / s, "
                f"{line['CPU ms per charge']:.2f} ms of CPU each, "
                f"{line['read-out ms']:8.2f} ms to read what is spent {line['void ms']:8.2f} ms to void"
            )
    rates = results["charges per second"]
    for database, words in (("SQLite", "charge, one process"), ("PostgreSQL", "charge, 16 connections")):
        best = max(rate for name, rate in rates.items() if name.startswith(f"{database}, {words}"))
        print(f"{database}: {best:.0f} / s, bar {CHARGES_BAR:.0f}: {'met' if best >= CHARGES_BAR else 'MISSED'}")
    for what, bar in (("read-out", READ_OUT_BAR * 1e3), ("void", VOID_BAR * 1e3)):
        slowest = max(line[f"{what} ms"] for lines in results["growth"].values() for line in lines)
        print(f"{what}: {slowest:.2f} ms, bar {bar:.0f}: {'met' if slowest < bar else 'MISSED'}")
    if quick:
        return
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    about = {
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "sqlalchemy": sa.__version__,
        "processors": os.cpu_count(),
    }
    RESULTS.write_text(json.dumps({**about, **results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
