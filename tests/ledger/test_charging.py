"""Everything charges one budget: queries, statistics of arrays, training, searches, runs, and the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hush
from hush import statistics
from hush.accounting import GaussianEvent
from hush.cli import main
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import CalendarWindow, UserWindow
from hush.ledger import EntryKind, Ledger, LedgerBudget, LedgerUnavailable, OverBudget
from hush.sql.engines.duckdb import DuckDBEngine
from hush.training import BallsInBins, Candidate
from hush.training.tuning.scores import PublicScore

QUESTION = "SELECT sex, COUNT(*) AS n, AVG(age) AS age FROM people GROUP BY sex"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(f"sqlite:///{tmp_path}/privacy.db")
    yield made
    made.close()


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.parquet"
    duckdb.sql(
        "COPY (SELECT i AS who, i % 2 AS sex, i % 70 AS age, DATE '2026-09-01' + CAST(i % 60 AS INT) AS visit "
        f"FROM range(2000) t(i)) TO '{path}'"
    )
    return path


def asked_of(path: Path, unit: Any = "who") -> Any:
    declared = {"bounds": {"age": (0, 100)}, "keys": {"sex": [0, 1]}, "rows_per_unit": 1, "groups_per_unit": 1}
    return hush.table(path, unit=unit, **declared)


def test_a_query_is_charged_once(ledger: Ledger, people: Path) -> None:
    data = ledger.budget("people", epsilon=1, delta=1e-6, unit="patient", table=asked_of(people))
    first = data.sql(QUESTION, epsilon=0.25)
    assert data.spent == 0.25
    with mock.patch.object(DuckDBEngine, "run", side_effect=AssertionError("the engine was asked")):
        again = data.sql(QUESTION, epsilon=0.25)
    assert again == first
    assert data.spent == 0.25
    other = data.sql(QUESTION, epsilon=0.25, new_data=True)
    assert other.rows != first.rows
    assert data.spent == 0.5
    asked_of(people).sql(QUESTION, epsilon=0.25, budget=data)  # another handle, the same question
    assert data.spent == 0.5
    asked_of(people).sql(QUESTION, epsilon=0.125, budget=data)  # another question
    assert data.spent == 0.625


def test_what_does_not_fit_is_not_asked(ledger: Ledger, people: Path) -> None:
    data = ledger.budget("people", epsilon=1, delta=1e-6, unit="patient", table=asked_of(people))
    with (
        mock.patch.object(DuckDBEngine, "run", side_effect=AssertionError("the engine was asked")),
        pytest.raises(OverBudget),
    ):
        data.sql(QUESTION, epsilon=1.5)
    assert not data.pending()


def test_no_answer_leaves_that_is_not_written(ledger: Ledger, people: Path) -> None:
    data = ledger.budget("people", epsilon=1, delta=1e-6, unit="patient", table=asked_of(people))
    whole, calls = data.store.append, []

    def fails_to_commit(row: Any, effect: Any = None) -> Any:
        calls.append(row.kind)
        if row.kind == EntryKind.COMMITTED:
            raise LedgerUnavailable("lost")
        return whole(row, effect)

    with mock.patch.object(data.store, "append", fails_to_commit), pytest.raises(LedgerUnavailable):
        data.sql(QUESTION, epsilon=0.25)
    assert calls == [EntryKind.RESERVED, EntryKind.COMMITTED]
    assert data.spent == 0.25
    assert len(data.pending()) == 1
    data.sql(QUESTION, epsilon=0.25)  # goes on with what is reserved
    assert data.spent == 0.25
    assert not data.pending()


def test_private_groups_have_their_delta_charged(ledger: Ledger, people: Path) -> None:
    # A limit on groups that is chosen may be so large, one in 1,000 times, that a group's share of delta is refused.
    table = hush.table(people, unit="who", bounds={"age": (0, 100)}, rows_per_unit=1, groups_per_unit=1)
    data = ledger.budget("people", epsilon=1, delta=1e-6, unit="patient", table=table)
    data.sql(QUESTION, epsilon=0.25, delta=5e-8)
    with pytest.raises(OverBudget):
        data.sql(QUESTION, epsilon=0.25, delta=8e-8)


def test_a_query_sees_its_blocks_only(ledger: Ledger, people: Path) -> None:
    table = asked_of(people, UserWindow("who", time="visit", window=CalendarWindow.MONTH))
    data = ledger.budget(
        "visits",
        epsilon=100,
        delta=1e-6,
        unit="patient-month",
        blocks=["2026-09"],
        table=table,
        block_column="visit",
    )
    # Discrete Laplace noise of scale 1/50, then 1/40: beyond 2 with probability below 2 exp(-120).
    september = data.at("2026-09").sql("SELECT COUNT(*) AS n FROM people", epsilon=50.0).rows[0][0]
    assert september == pytest.approx(1010, abs=2)  # of 2000, those before October
    data.add_block("2026-10")
    both = data.sql("SELECT COUNT(*) AS n FROM people", epsilon=40.0).rows[0][0]
    assert both == pytest.approx(2000, abs=2)
    assert [round(status.cost.pure / 1e12) for status in data.status()] == [90, 40]
    data.retire("2026-09")
    october = data.sql("SELECT COUNT(*) AS n FROM people", epsilon=30.0).rows[0][0]
    assert october == pytest.approx(990, abs=2)


def test_people_in_several_months_have_no_blocks_by_month(ledger: Ledger, people: Path) -> None:
    data = ledger.budget(
        "visits",
        epsilon=1,
        unit="patient-month",
        blocks=["2026-09", "2026-10"],
        table=asked_of(people),
        block_column="visit",
    )
    with pytest.raises(Unsupported, match="in several of them"):
        data.sql(QUESTION, epsilon=0.1)
    assert data.spent == 0


def test_statistics_of_arrays_are_charged(ledger: Ledger) -> None:
    data = ledger.budget("people", epsilon=2, delta=1e-6, unit="patient")
    values, users = np.arange(500.0), np.arange(500)
    common: dict[str, Any] = {"units": users, "epsilon": 0.25, "budget": data}
    statistics.count(values, **common)
    statistics.mean(values, bounds=(0, 500), **common)
    statistics.describe(values, bounds=(0, 500), **common)
    statistics.median(values, bounds=(0, 500), **common)
    assert data.spent == 1.0
    statistics.top_k(values % 5, 2, keys=[0, 1, 2, 3, 4], **common)
    assert data.spent == 1.25
    with pytest.raises(Unsupported, match="stated under"):
        statistics.count(values, units=statistics.EachRow(), epsilon=0.25, budget=data)
    with pytest.raises(OverBudget):
        statistics.count(values, **{**common, "epsilon": 1.0})
    assert data.spent == 1.25


# Training


def begun(budget: Any, **settings: Any) -> hush.training.PrivateTraining:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(200, 4, generator=generator), torch.randint(0, 2, (200,), generator=generator)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    given = {"epsilon": 1.0, "delta": 1e-5, "num_steps": 10, "batch_size": 50, **settings}
    return hush.privatize(model, optimizer, (x, y), budget=budget, **given)


def taken(private: hush.training.PrivateTraining, steps: int) -> None:
    for x, y in private.loader:
        private.step(F.cross_entropy(private.model(x), y, reduction="none"))
        if private.steps_taken == steps:
            break


@pytest.fixture
def rows(ledger: Ledger) -> LedgerBudget:
    return ledger.budget("rows", epsilon=3, delta=1e-5, unit="row")


def test_a_run_is_reserved_whole_and_committed_at_its_end(rows: LedgerBudget) -> None:
    private = begun(rows)
    reserved = rows.status()[0].cost
    assert reserved == rows.cost(private.plan.event())
    assert len(rows.pending()) == 1
    taken(private, 10)
    assert not rows.pending()
    assert rows.status()[0].cost == reserved


def test_an_early_end_is_charged_for_the_steps_taken(rows: LedgerBudget) -> None:
    private = begun(rows)
    taken(private, 4)
    private.close()
    # In Gaussian noise, all steps have one price: when to end may follow from what the first ones showed.
    whole = rows.cost(private.plan.event(private.plan.num_steps))
    expected = replace(rows.cost(private.plan.event(4)), gaussian=whole.gaussian)
    assert rows.status()[0].cost == expected
    assert expected.renyi < whole.renyi
    with pytest.raises(InvalidArgument, match="no more steps"):
        taken(private, 5)
    private.close()
    begun(rows).close()  # no part was run
    assert rows.status()[0].cost == expected


def test_what_is_not_stopped_step_by_step_is_charged_whole(rows: LedgerBudget) -> None:
    private = begun(rows, sampling=BallsInBins(50), batch_size=None, delta=4e-7)
    reserved = rows.status()[0].cost
    taken(private, 4)
    private.close()
    assert rows.status()[0].cost == reserved


def test_a_run_that_does_not_fit_does_not_begin(rows: LedgerBudget) -> None:
    with pytest.raises(OverBudget):
        begun(rows, epsilon=6.0)
    assert rows.spent == 0


def test_an_interrupted_run_goes_on_with_what_it_has_paid(rows: LedgerBudget) -> None:
    private = begun(rows.for_run("first try"))
    taken(private, 4)
    state = private.state_dict()
    del private  # a crash
    reserved = rows.status()[0].cost
    again = begun(rows.for_run("first try"))
    with pytest.raises(InvalidArgument, match="load_state_dict"):
        taken(again, 1)  # from the start: that would be a second run for one price
    again.load_state_dict(state)
    taken(again, 10)
    assert rows.status()[0].cost == reserved
    assert not rows.pending()


def test_a_resumed_run_is_not_given_back(rows: LedgerBudget) -> None:
    """It may have released steps before it was interrupted, whatever its state says."""
    private = begun(rows.for_run("r"))
    beginning = private.state_dict()
    taken(private, 5)
    del private  # a crash
    reserved = rows.status()[0].cost
    again = begun(rows.for_run("r"))
    again.load_state_dict(beginning)
    assert any("continued from one of its states only" in sentence for sentence in again.guarantee().assumptions)
    again.close()
    assert rows.status()[0].cost == reserved


def test_a_run_whose_reservation_is_voided_stops(rows: LedgerBudget) -> None:
    private = begun(rows)
    taken(private, 1)
    rows.pending()[0].void(force=True)
    with pytest.raises(InvalidArgument, match="no more steps"):
        taken(private, 10)
    assert private.steps_taken <= 2


def test_a_query_with_a_budget_in_blocks_is_asked_of_its_blocks(ledger: Ledger, people: Path) -> None:
    data = ledger.budget("visits", epsilon=3, delta=1e-6, unit="patient-month", blocks=["2026-09"])
    table = asked_of(people, UserWindow("who", time="visit", window=CalendarWindow.MONTH))
    with pytest.raises(InvalidArgument, match="^budget="):
        table.sql(QUESTION, epsilon=0.1, budget=data)  # it would look at October, too
    table.only("visit", ["2026-09"]).sql(QUESTION, epsilon=0.1, budget=data)


def test_a_search_is_reserved_before_it_begins(rows: LedgerBudget) -> None:
    seen: list[int] = []

    def train(settings: dict[str, Any], noise: float) -> Candidate:
        seen.append(len(rows.pending()))
        return Candidate(score=1.0, result=0)

    common: dict[str, Any] = {
        "cost": lambda settings, noise: GaussianEvent(noise),
        "delta": 1e-6,
        "score": PublicScore("a book"),
        "progress": False,
        "budget": rows,
    }
    best = hush.tune(train, {"guess": [1, 2]}, epsilon=1.0, **common)
    assert set(seen) == {1}
    assert rows.status()[0].cost == rows.cost(best.event)
    with pytest.raises(OverBudget):
        hush.tune(train, {"guess": [1, 2]}, epsilon=9.0, **common)


def test_a_search_that_is_running_is_not_voided_and_one_that_failed_only_by_force(rows: LedgerBudget) -> None:
    def train(settings: dict[str, Any], noise: float) -> Candidate:
        (pending,) = rows.pending()
        assert pending.held_for() is not None
        with pytest.raises(InvalidArgument, match="^reservation=.*one that no process is working on"):
            pending.void()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hush.tune(
            train,
            {"guess": [1, 2]},
            epsilon=1.0,
            delta=1e-6,
            cost=lambda settings, noise: GaussianEvent(noise),
            score=PublicScore("a book"),
            progress=False,
            budget=rows,
        )
    (pending,) = rows.pending()
    assert pending.held_for() is None
    with pytest.raises(InvalidArgument, match="The release was begun"):
        pending.void()
    pending.void(force=True)


# The command line


def test_the_command_line_tells_months_apart(tmp_path: Path, people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same question about another file of the same name got the answer about the first file, without a word."""
    url = f"sqlite:///{tmp_path}/budgets.db"
    budget = Ledger(url).budget("people", epsilon=3, delta=1e-6, unit="patient")
    february = tmp_path / "february" / people.name
    february.parent.mkdir()
    duckdb.sql(f"COPY (SELECT * FROM '{people}' WHERE age > 3) TO '{february}'")

    def query(path: Path, *more: str) -> int | None:
        words = ["query", str(path), "SELECT COUNT(*) AS n FROM people", "--unit", "who", "--rows-per-unit", "1"]
        return main([*words, "--epsilon", "1", "--budget", "people", "--db", url, *more])

    assert query(people) in (0, None)
    capsys.readouterr()
    assert query(february) == 2
    printed = capsys.readouterr()
    assert not printed.out
    assert f"{people}, changed 20" in printed.err
    assert f"{february}, changed 20" in printed.err
    assert "pass --new-data" in printed.err
    assert budget.spent == 1.0
    assert query(february, "--new-data") in (0, None)
    assert budget.spent == 2.0
    capsys.readouterr()
    assert query(people) in (0, None)
    assert "The ledger already had this answer, from 20" in capsys.readouterr().err
    (tmp_path / "key").write_bytes(bytes(range(32)))
    keyed = ("--content-key", str(tmp_path / "key"))
    assert query(people, *keyed) == 2
    assert query(people, *keyed, "--new-data") in (0, None)
    copied = tmp_path / "copy" / people.name
    copied.parent.mkdir()
    copied.write_bytes(people.read_bytes())
    assert query(copied, *keyed) in (0, None)
    assert budget.spent == 3.0


def test_the_command_line_charges(tmp_path: Path, people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/budgets.db"
    Ledger(url).budget("people", epsilon=1, delta=1e-6, unit="patient")
    query = ["query", str(people), QUESTION, "--unit", "who", "--bounds", "age=0:100", "--keys", "sex=0,1"]
    charged = [*query, "--epsilon", "0.5", "--budget", "people", "--db", url, "--format", "json"]
    assert main(charged) in (0, None)
    first = json.loads(capsys.readouterr().out)
    assert main(charged) in (0, None)
    again = json.loads(capsys.readouterr().out)
    assert (first["charged"]["epsilon"], again["charged"]["epsilon"]) == (0.5, 0.0)
    assert again == {**first, "replayed": True, "charged": {**first["charged"], "epsilon": 0.0}}
    assert Ledger(url).budget("people").spent == 0.5
    assert main([*query, "--epsilon", "0.8", "--budget", "people", "--db", url]) not in (0, None)
    assert "largest charge that fits" in capsys.readouterr().err
    assert main([*query, "--epsilon", "0.1", "--db", url]) not in (0, None)
    assert main([*query, "--epsilon", "0.1", "--budget", "nobody", "--db", url]) not in (0, None)


def test_runs_charge(tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    from hush import runs

    data = ledger.budget("digits", epsilon=5, delta=1e-4, unit="row")
    settings = runs.Settings(data="digits", epsilon=2.0, model="softmax", num_steps=5, batch_size=400)
    outcome = runs.train(settings, tmp_path / "run", budget=data)
    assert outcome.guarantee.epsilon <= 2.0
    assert not data.pending()
    reserved = next(row for row in data.entries() if row.kind == EntryKind.RESERVED)
    event = hush.accounting.Event.from_json(reserved.event or "")
    told = hush.accounting.PldAccountant().compose(event).epsilon(outcome.guarantee.delta)
    assert told == pytest.approx(outcome.guarantee.epsilon, rel=1e-6)
    spent = data.spent
    with pytest.raises(OverBudget):
        runs.train(settings.replace(epsilon=6.0), tmp_path / "another", budget=data)
    assert not (tmp_path / "another").exists()
    assert data.spent == spent
    assert (tmp_path / "run" / "report.html").exists()


def test_an_interrupted_run_of_a_folder_keeps_its_reservation(tmp_path: Path, ledger: Ledger) -> None:
    from hush import runs
    from hush.runs import steps as steps_module

    data = ledger.budget("digits", epsilon=5, delta=1e-4, unit="row")
    settings = runs.Settings(data="digits", epsilon=2.0, model="softmax", num_steps=20, batch_size=400)
    stop: Callable[..., Any] = mock.Mock(side_effect=KeyboardInterrupt)
    with (
        mock.patch.object(steps_module.TrainingLoop, "_store_and_measure", stop),
        pytest.raises(hush.HushError, match="interrupted"),
    ):
        runs.train(settings, tmp_path / "run", budget=data)
    (pending,) = data.pending()
    with pytest.raises(InvalidArgument, match="^budget="):
        runs.resume(tmp_path / "run")
    runs.resume(tmp_path / "run", budget=data)
    assert not data.pending()
    assert [row.id for row in data.entries() if row.kind == EntryKind.RESERVED] == [pending.id]
