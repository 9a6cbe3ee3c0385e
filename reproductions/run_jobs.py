"""Run the jobs of the long reproductions on a machine with many cores and a GPU, as many as a time limit allows.

    python reproductions/run_jobs.py --seconds 330 --output DIR [--cpu-workers 10] [--gpu-workers 5] [--quick]
        writes DIR/jobs.jsonl: a line on the machine, then a line for each job, as it ends
    python reproductions/run_jobs.py --after DIR/jobs.jsonl --output OTHER ...
        goes on with those that were not run
    python reproductions/run_all.py --jobs DIR/jobs.jsonl OTHER/jobs.jsonl
        makes results, figures and the page of them, anywhere

Each worker is a process with one thread, on the CPU or on the GPU; large jobs go to the GPU first. What needs only
plans and accountants is done afterwards, where the page is made. Nothing here needs scikit-learn or matplotlib.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import queue
import time
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from common import FOLDER, Settings, default_data, here
from jobs import JOB_SCRIPTS, Job, read


def main() -> None:
    given = options()
    start = time.monotonic()
    torch.set_num_threads(1)  # also here: a fork after a parallel region may hang
    settings = Settings(seeds=tuple(range(given.seeds)), data=given.data, output=given.output, quick=given.quick)
    jobs = all_jobs(settings, given.only, given.after)
    for script in {job.script for job in jobs}:
        import_module(script).prepare(settings)  # data, once for all workers
    print(f"{len(jobs)} jobs; data are read after {time.monotonic() - start:.0f} s", flush=True)
    given.output.mkdir(parents=True, exist_ok=True)
    done = spread(jobs, settings, given, start + given.seconds)
    print(f"{done} of {len(jobs)} jobs in {time.monotonic() - start:.0f} s: {given.output / 'jobs.jsonl'}")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    gpu = Path("/dev/nvidia0").exists()  # asking torch would start CUDA, and no fork may follow that
    cores = min(os.cpu_count() or 1, 16)  # of a large machine, mostly others' are counted too
    parser.add_argument("--seconds", type=float, default=330.0, help="when to stop, counted from the start")
    parser.add_argument("--cpu-workers", type=int, default=max(cores - 6, 1) if gpu else cores)
    parser.add_argument("--gpu-workers", type=int, default=5 if gpu else 0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--output", type=Path, default=Path(os.environ.get("OUT", FOLDER / "results")))
    parser.add_argument("--only", default=[""], nargs="+", help="jobs whose key begins so, such as abadi_sweeps/")
    parser.add_argument("--after", type=Path, nargs="*", default=[], help="files whose jobs are not run again")
    parser.add_argument("--quick", action="store_true", help="a few steps on a few images, to test the jobs")
    return parser.parse_args()


def all_jobs(settings: Settings, only: Sequence[str] = ("",), after: Sequence[Path] = ()) -> list[Job]:
    """Return every script's jobs that are still to be run, the most important first."""
    done = set(read(after).records) if after else set()
    jobs = [job for script in JOB_SCRIPTS for job in import_module(script).jobs(settings)]
    chosen = [job for job in jobs if job.key not in done and job.key.startswith(tuple(only))]
    return sorted(chosen, key=lambda job: job.rank)


def machine() -> dict[str, str]:
    """Return what the results were made with."""
    names = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return here() | {"cpu": names[0] if names else platform.machine(), "cores": str(os.cpu_count())}


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def spread(jobs: list[Job], settings: Settings, given: argparse.Namespace, end: float) -> int:
    """Give jobs to workers until all are done or the time is over; return how many are done."""
    devices = ["cuda"] * given.gpu_workers + ["cpu"] * given.cpu_workers
    answers: Any = multiprocessing.get_context("spawn").Queue()
    # A worker asks, so that jobs are handed out in order; each has a queue of its own for what it is to do.
    tasks: list[Any] = [multiprocessing.get_context("spawn").Queue() for _ in devices]
    workers = []
    for number, device in enumerate(devices):
        # CUDA wants a process that starts anew; a fork has the data already.
        context: Any = multiprocessing.get_context("spawn" if device == "cuda" else "fork")
        workers.append(context.Process(target=work, args=(number, settings, tasks[number], answers), daemon=True))
        workers[-1].start()
    waiting, done, busy = list(jobs), 0, len(devices)
    with (given.output / "jobs.jsonl").open("w") as out:
        out.write(
            json.dumps(machine() | {"devices": f"{given.gpu_workers} GPU, {given.cpu_workers} CPU workers"}) + "\n"
        )
        while busy and (left := end - time.monotonic()) > 0:
            try:
                number, record = answers.get(timeout=min(left, 5.0))
            except queue.Empty:
                continue
            if record is not None:
                done += "result" in record
                out.write(json.dumps(record) + "\n")
                out.flush()
                state = "" if "result" in record else "  FAILED: " + record["error"].strip().splitlines()[-1]
                print(f"{record['job']}  {record['device']}  {record['seconds']:.1f} s{state}", flush=True)
                if "error" in record and devices[number] == "cuda":  # whatever is wrong there: once more, on the CPU
                    devices[number] = "cpu"
                    waiting[:0] = [job for job in jobs if job.key == record["job"]]
            if waiting:
                tasks[number].put((next_job(waiting, devices[number]), devices[number]))
            else:
                busy -= 1
    for worker in workers:
        worker.kill()
    return done


def next_job(waiting: list[Job], device: str) -> Job:
    """Take the next job that suits the device: of those of the lowest rank, one of its size where there is one."""
    rank = waiting[0].rank
    suits = [job for job in waiting if job.rank == rank and job.large == (device == "cuda")]
    job = suits[0] if suits else waiting[0]
    waiting.remove(job)
    return job


def work(number: int, settings: Settings, tasks: Any, answers: Any) -> None:
    """Run jobs until the parent ends this process."""
    torch.set_num_threads(1)
    answers.put((number, None))
    while True:
        job, device = tasks.get()
        start = time.perf_counter()
        try:
            record = job.run(settings, device)
        except Exception:  # the other jobs go on, and the record says what went wrong
            seconds = round(time.perf_counter() - start, 2)
            record = {"job": job.key, "device": device, "seconds": seconds, "error": traceback.format_exc()}
        answers.put((number, record))


if __name__ == "__main__":
    main()
