"""Many at once, and killed at any moment: no more is released than the cap allows, no charge is lost or doubled."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from hush.accounting import LaplaceEvent
from hush.accounting.budget import Charge, run_sealed
from hush.errors import BudgetExceeded, InvalidArgument
from hush.ledger import EntryKind, Ledger, NotAllowed
from hush.ledger import LedgerBudget as Budget

SCALES = (50.0, 80.0, 130.0)
COSTS = ("renyi", "pure", "unbounded", "delta")


def agree(ledger: Ledger) -> None:
    """Recompute the chain, the budgets and the shares from the rows, by nothing but the rows."""
    previous, spent, reserved, settled = "0" * 64, {}, {}, set()
    rows = ledger.entries()
    for number, row in enumerate(rows, start=1):
        assert (row.id, row.previous, row.hash) == (number, previous, row.computed_hash())
        previous = row.hash
        if row.kind == EntryKind.RESERVED:
            reserved[row.id] = row
        if row.kind not in (EntryKind.RESERVED, EntryKind.COMMITTED, EntryKind.VOIDED):
            continue
        if row.charge is not None:
            assert row.charge in reserved
            assert row.charge not in settled
            settled.add(row.charge)
        for block in json.loads(row.block) if row.block else [""]:
            total = spent.setdefault((row.budget, block), dict.fromkeys(COSTS, 0))
            for name in COSTS:
                total[name] += getattr(row, name)
    requests = [(row.budget, row.request) for row in rows if row.request is not None]
    assert len(set(requests)) == len(requests)
    with ledger.store.reading() as connection:
        budgets = connection.execute(sa.text("SELECT * FROM hush_budgets")).all()
        assert connection.execute(sa.text("SELECT id, hash FROM hush_head")).one() == (len(rows), previous)
    for budget in budgets:
        kept = {name: getattr(budget, name) for name in COSTS}
        assert kept == spent.get((budget.dataset, budget.block), dict.fromkeys(COSTS, 0))
    for data in ledger.budgets():
        assert all(data.cap.fits(status.cost) for status in data.status())


def clean_processes() -> Any:
    """Return a way to start processes from one that runs this file's imports only.

    A fork of the tests' own process has the memory, but not the threads, of whatever other tests have loaded, and has
    crashed while collecting that garbage.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["hush.ledger", "hush.accounting", "psycopg"])
    return context


class Log:
    """What a worker was allowed, written before it goes on: what it would have released."""

    def __init__(self, path: Path) -> None:
        self.folder = path.parent
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def say(self, **what: Any) -> None:
        os.write(self._file, (json.dumps(what) + "\n").encode())


def work(url: str, folder: str, number: int, count: int, seed: int) -> None:
    """Work, and leave behind what went wrong."""
    try:
        _work(url, folder, number, count, seed)
    except BaseException:
        (Path(folder) / f"{number}-{seed}.failed").write_text(traceback.format_exc())
        raise


def _work(url: str, folder: str, number: int, count: int, seed: int) -> None:
    """Charge in every way, until done or killed or nothing fits."""
    draw, log, ledger = random.Random(seed), Log(Path(folder) / f"{number}-{seed}.log"), Ledger(url)
    data, months = ledger.budget("patients"), ledger.budget("visits")
    for turn in range(count):
        event, key = LaplaceEvent(draw.choice(SCALES)), f"{number} {seed} {turn}"
        try:
            WAYS[draw.randrange(len(WAYS))](data, months, log, draw, event, key)
        except BudgetExceeded:
            log.say(refused=key)
    ledger.close()


def _charge(data: Budget, _: Budget, log: Log, draw: random.Random, event: LaplaceEvent, key: str) -> None:
    rows = {data.charge(event, purpose="at once", request=key).id for _ in range(draw.choice((1, 2)))}
    (row,) = rows  # a retry is the same charge
    log.say(row=row, scale=event.scale)


def _same_request(data: Budget, _: Budget, log: Log, draw: random.Random, __: LaplaceEvent, ___: str) -> None:
    key = f"shared {draw.randrange(40)}"
    log.say(row=data.charge(LaplaceEvent(60.0), purpose="of all", request=key).id, scale=60.0)


def _reserve(data: Budget, _: Budget, log: Log, draw: random.Random, event: LaplaceEvent, key: str) -> None:
    reserved = data.reserve(Charge(event=event, purpose="training", request=key))
    if draw.random() < 0.4:
        reserved.void()
        log.say(voided=reserved.id)
        return
    log.say(row=reserved.id, scale=event.scale)
    part = event if draw.random() < 0.5 else LaplaceEvent(event.scale * 2)
    reserved.commit(part)


def _question(data: Budget, _: Budget, log: Log, draw: random.Random, __: LaplaceEvent, key: str) -> None:
    asked = f"question {draw.randrange(40)}"
    charge = Charge(event=LaplaceEvent(70.0), purpose="statistics", question=asked)
    log.say(question=asked, answer=run_sealed(data, charge, lambda: key))


def _blocks(_: Budget, months: Budget, log: Log, draw: random.Random, event: LaplaceEvent, key: str) -> None:
    names = draw.sample(["a", "b", "c"], draw.randrange(1, 4))
    row = months.at(*names).charge(event, purpose="months", request=key)
    log.say(row=row.id, scale=event.scale)


def _run(data: Budget, _: Budget, log: Log, draw: random.Random, __: LaplaceEvent, key: str) -> None:
    """Begin a run, or continue one that was killed: from its last state, or from a copy that may be too old."""
    name = f"run {draw.randrange(40)}"
    reserved = data.for_run(name).reserve(Charge(event=LaplaceEvent(90.0), purpose="a run"))
    if reserved.answer is None:
        stored = log.folder / f"{name}.states"
        states = int(stored.read_text() or 0) if stored.exists() else 0
        try:
            reserved.hold(max(states - draw.randrange(2), 0))
        except InvalidArgument as refusal:  # another process works on it, or it has stored more than this copy has
            log.say(refused=f"{name}: {refusal}")
            return
        for number in range(states + 1, states + 4):
            stored.with_suffix(f".{key}").write_text(str(number))
            stored.with_suffix(f".{key}").replace(stored)
            reserved.hold(number)
    log.say(run=name, row=reserved.id, scale=90.0, answer=reserved.answer or reserved.commit(answer=key))


WAYS: list[Callable[[Budget, Budget, Log, random.Random, LaplaceEvent, str], None]] = [
    _charge,
    _same_request,
    _reserve,
    _question,
    _blocks,
    _run,
]


def written(folder: Path) -> int:
    """Return how much workers have said: so far they have come, on however slow a machine."""
    return sum(path.stat().st_size for path in folder.glob("*.log"))


def copy_and_restore(url: str, folder: Path, draw: random.Random, number: int) -> None:
    """Back up a ledger while others write to it, and restore it: the copy has a beginning of what the ledger has.

    Copies take no charges. Ledgers made from them do, and change nothing in the one that was copied.
    """
    copy, again = folder / f"copy {number}.db", folder / f"again {number}.db"
    with Ledger(url) as ledger:
        ledger.backup(copy)
    with Ledger(url) as ledger, Ledger(f"sqlite:///{copy}") as backup:
        before = backup.entries()
        with pytest.raises(NotAllowed):
            backup.budget("patients").charge(LaplaceEvent(50.0), purpose="in a copy")
        backup.restore(again, head=before[-1].hash)
        head = before[draw.randrange(len(before))].hash
        assert backup.verify(head).ok
        assert ledger.verify(before[-1].hash).ok
    with Ledger(f"sqlite:///{again}") as restored:
        with suppress(BudgetExceeded):
            restored.budget("patients").charge(LaplaceEvent(50.0), purpose="in another ledger")
        assert restored.entries()[: len(before)] == before
        agree(restored)


def storm(url: str, folder: Path, *, workers: int, charges: int, kills: int, copies: int = 0) -> None:
    """Run workers at once, kill some of them at random moments of their work, begin others in their place.

    Meanwhile, so often, the ledger is backed up and restored.
    """
    context, draw = clean_processes(), random.Random(7)
    each, due = charges // workers, 0

    def begin(number: int) -> Any:
        process = context.Process(target=work, args=(url, str(folder), number, each, draw.randrange(10**6)))
        process.start()
        return process

    running = [begin(number) for number in range(workers)]
    ended: list[Any] = []
    deadline = time.monotonic() + 600 + charges  # one that is reached is a deadlock, on however busy a machine
    try:
        for turn in range(kills):
            if copies and not turn % (kills // copies):
                copy_and_restore(url, folder, draw, turn)
            due += draw.randrange(40 * charges // kills)  # bytes in logs, of which a charge has about 30
            while written(folder) < due and any(process.is_alive() for process in running):
                time.sleep(0.001)
            victim = draw.randrange(workers)
            if running[victim].is_alive():
                os.kill(running[victim].pid, signal.SIGKILL)
            ended.append(running[victim])
            running[victim] = begin(victim)
        for process in (*running, *ended):
            process.join(max(deadline - time.monotonic(), 0.1))
            assert process.exitcode is not None, "a deadlock"
        assert not [path.read_text() for path in folder.glob("*.failed")]
        assert all(process.exitcode == 0 for process in running)
        assert all(process.exitcode in (0, -signal.SIGKILL) for process in ended)
    finally:
        for process in (*running, *ended):
            process.kill()
            process.join()
            process.close()


def compare(url: str, folder: Path) -> int:
    """Compare what workers were allowed with what the ledger says; return how many rows charge."""
    ledger = Ledger(url)
    agree(ledger)
    rows = {row.id: row for row in ledger.entries()}
    settled = {row.charge: row for row in rows.values() if row.charge is not None}
    answers: dict[str, set[str]] = {}
    published: dict[str, set[str]] = {}
    for path in folder.glob("*.log"):
        for line in path.read_text().splitlines():
            said = json.loads(line)
            if "row" in said:  # it was released: it is charged for good
                row = rows[said["row"]]
                assert row.kind in (EntryKind.RESERVED, EntryKind.COMMITTED)
                assert json.loads(row.event or "")["scale"] == said["scale"]
                assert said["row"] not in settled or settled[said["row"]].kind == EntryKind.COMMITTED
            if "voided" in said:
                assert settled[said["voided"]].kind == EntryKind.VOIDED
            if "run" in said:
                published.setdefault(said["run"], set()).add(said["answer"])
            if "question" in said:
                answers.setdefault(said["question"], set()).add(said["answer"])
    for name, given in published.items():  # one reservation, one result, whoever continued the run
        (reserved,) = [row for row in rows.values() if row.request == name]
        assert given == {settled[reserved.id].answer}
    data = ledger.budget("patients")
    for question, given in answers.items():  # all who asked were told the same, and it is the one that is stored
        asked = data.answered(Charge(event=LaplaceEvent(70.0), purpose="statistics", question=question, sealed=True))
        assert asked is not None
        assert given == {asked.answer}
    ledger.close()
    return len(rows) - 2


def create(url: str, epsilon: float) -> None:
    ledger = Ledger(url)
    ledger.budget("patients", epsilon=epsilon, delta=1e-6, unit="patient")
    ledger.budget("visits", epsilon=epsilon, delta=1e-6, unit="row", blocks=["a", "b", "c"])
    ledger.close()


@pytest.mark.parametrize("epsilon", [0.5, 50.0], ids=["soon spent", "never spent"])
def test_many_charge_one_budget_and_are_killed(url: str, tmp_path: Path, epsilon: float) -> None:
    create(url, epsilon)
    storm(url, tmp_path, workers=12, charges=144, kills=8, copies=2 if url.startswith("sqlite") else 0)
    assert compare(url, tmp_path) > 20  # no charge costs more than a 25th of the smaller budget


@pytest.mark.slow
def test_ten_thousand_charges(url: str, tmp_path: Path) -> None:
    create(url, 12.0)
    is_file = url.startswith("sqlite")
    storm(url, tmp_path, workers=16 if is_file else 64, charges=10_000, kills=100, copies=20 if is_file else 0)
    assert compare(url, tmp_path) > 1000


def _open(url: str) -> None:
    Ledger(url).close()


def test_many_create_one_ledger_at_once(url: str) -> None:
    context = clean_processes()
    workers = [context.Process(target=_open, args=(url,)) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(600)
        assert worker.exitcode == 0
        worker.close()
    ledger = Ledger(url)
    assert ledger.entries() == []
    ledger.close()


def test_the_oracle_finds_what_does_not_agree(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/privacy.db"
    create(url, 3.0)
    ledger = Ledger(url)
    ledger.budget("patients").charge(LaplaceEvent(1.0), purpose="x")
    agree(ledger)
    with ledger.store.writing() as connection:
        connection.exec_driver_sql("UPDATE hush_budgets SET pure = pure - 1 WHERE pure > 0")
    with pytest.raises(AssertionError):
        agree(ledger)
    ledger.close()


def test_threads_of_one_process(url: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    create(url, 1.0)
    ledger = Ledger(url)
    data = ledger.budget("patients")

    def charge(number: int) -> int:
        try:
            return data.charge(LaplaceEvent(40.0), purpose="thread", request=str(number // 2)).id
        except BudgetExceeded:
            return 0

    with ThreadPoolExecutor(24) as pool:
        allowed = list(pool.map(charge, range(160)))
    agree(ledger)
    charged = {row.id for row in data.entries() if row.kind == EntryKind.COMMITTED}
    assert set(allowed) - {0} == charged
    ledger.close()
