"""The answer to every charge says what it cost and what is left; what is no budget is refused in one grammar."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import hush
from hush import Guarantee, statistics
from hush.accounting import GaussianEvent, LaplaceEvent
from hush.accounting.budget import Charge, Cost
from hush.accounting.receipts import Receipt
from hush.errors import InvalidArgument
from hush.guarantee import Relation
from hush.ledger import Ledger, LedgerBudget
from hush.ledger.accounts.terms.standard_query import standard_query
from hush.stability import ReusableHoldout

ROWS = np.linspace(-1, 1, 60).reshape(30, 2)
TRAINED_ON, HELD_OUT = (np.zeros(20_000),), (np.zeros(20_000),)
COUNT = "SELECT COUNT(*) AS n FROM people"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(f"sqlite:///{tmp_path}/privacy.db") as opened:
        yield opened


def people(tmp_path: Path) -> Any:
    path = tmp_path / "people.parquet"
    if not path.exists():
        duckdb.sql(f"COPY (SELECT i AS who FROM range(500) t(i)) TO '{path}'")
    return hush.table(path, unit="who", rows_per_unit=1)


def linear(budget: Any) -> Any:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(2, 2)
    data = torch.tensor(ROWS, dtype=torch.float32), torch.zeros(30, dtype=torch.long)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return hush.privatize(model, optimizer, data, epsilon=0.1, delta=1e-6, num_steps=1, budget=budget)


def searched(budget: Any) -> Any:
    pytest.importorskip("torch")
    from hush.training import Candidate, Score

    return hush.tune(
        lambda settings, noise: Candidate(score=1.0, result=0),
        {"guess": [1, 2]},
        cost=lambda settings, noise: GaussianEvent(noise),
        epsilon=0.5,
        delta=1e-6,
        score=Score.public("a book"),
        progress=False,
        budget=budget,
    )


def is_of(receipt: Receipt | None, budget: LedgerBudget, epsilon: float) -> None:
    """Check a receipt against the ledger."""
    assert receipt is not None
    (row,) = (row for row in budget.entries() if row.id == receipt.row)
    assert (receipt.budget, receipt.hash) == (budget.name, row.hash)
    assert (receipt.so_far, receipt.left, receipt.cap) == (budget.spent, budget.left, budget.cap.epsilon)
    assert receipt.epsilon == pytest.approx(epsilon, rel=1e-3)
    assert json.loads(json.dumps(receipt.to_dict()))["row"] == row.id


def test_an_answer_says_what_it_cost_and_a_replay_that_it_is_free(ledger: Ledger, tmp_path: Path) -> None:
    budget = ledger.budget("people", epsilon=2, delta=1e-6, unit="person")
    first = people(tmp_path).sql(COUNT, epsilon=0.25, budget=budget)
    is_of(first.receipt, budget, 0.25)
    assert re.search(
        r"Charged to people \(row 2\): epsilon 0\.25\. So far epsilon <= 0\.25 of 2; \d+ of 100", str(first)
    )
    again = people(tmp_path).sql(COUNT, epsilon=0.25, budget=budget)
    is_of(again.receipt, budget, 0.0)
    assert "nothing was charged for it now" in str(again)
    assert "So far epsilon <= 0.25 of 2" in str(again)
    assert "Charged to" not in str(again)
    assert str(again.receipt).startswith("Nothing was charged to people.")
    assert people(tmp_path).sql(COUNT, epsilon=0.25).receipt is None


def test_statistics_and_holdouts_say_it_too(tmp_path: Path) -> None:
    with Ledger(f"sqlite:///{tmp_path}/privacy.db") as ledger:
        budget = ledger.budget("people", epsilon=9, delta=1e-4, unit="person")
        count = statistics.count(
            ["a", "b"], units=[1, 2], groups=["a", "b"], keys=["a", "b"], epsilon=0.5, budget=budget
        )
        is_of(count.receipt, budget, 0.5)
        assert count["a"].receipt == count.receipt
        both = statistics.describe([1, 2], units=[1, 2], bounds=(0, 3), epsilon=0.25, delta=1e-6, budget=budget)
        is_of(both["mean"].receipt, budget, 0.25)
        assert both["std"].receipt == both["mean"].receipt
        assert statistics.count([1], units=[1], epsilon=0.5).receipt is None
        swapped = ledger.budget("rows", epsilon=9, unit="row", relation=Relation.REPLACE)
        holdout = ReusableHoldout(TRAINED_ON, HELD_OUT, epsilon=1.0, max_overfits=1, tolerance=0.1, budget=swapped)
        is_of(holdout.receipt, swapped, 1.0)


def test_estimators_trainings_and_searches_say_it_too(ledger: Ledger) -> None:
    from hush.estimators import PrivateStandardScaler

    budget = ledger.budget("people", epsilon=9, delta=1e-4, unit="row")
    scaler = PrivateStandardScaler(epsilon=0.5, bounds=(-1, 1), budget=budget).fit(ROWS)
    is_of(scaler.receipt_, budget, 0.5)
    private = linear(budget)
    assert private.receipt is None  # it is not settled yet
    for x, y in private.loader:
        private.step(private.model(x).square().sum(1) + 0 * y)
    private.close()
    is_of(private.receipt, budget, 0.1)
    tuned = searched(budget)
    is_of(tuned.receipt, budget, tuned.guarantee.epsilon)


def test_a_run_names_its_row_and_the_page_links_back(ledger: Ledger, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from hush import runs
    from runs import files

    budget, folder = ledger.budget("people", epsilon=9, delta=1e-4, unit="row"), tmp_path / "run"
    settings = runs.Settings(
        data=str(files.write_csv(tmp_path / "t.csv")), target="y", task="classification", epsilon=6.0, num_steps=4
    )
    outcome = runs.train(settings, folder, budget=budget)
    is_of(outcome.receipt, budget, outcome.guarantee.epsilon)
    reserved = next(row for row in budget.entries() if row.kind == "reserved")
    expected = {"budget": "people", "row": reserved.id, "hash": reserved.hash}
    assert json.loads((folder / "run.json").read_text())["charged_by"] == expected
    assert json.loads((folder / "guarantee.json").read_text())["charged"] == expected
    stored = Guarantee.from_json((folder / "guarantee.json").read_text())
    assert stored.charged is not None
    assert (stored.charged.row, stored) == (reserved.id, outcome.guarantee)
    ledger.export(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert f'href="{folder.resolve().as_uri()}"' in page
    assert ledger.verify().ok


def test_what_a_row_says_of_a_folder_is_no_script(ledger: Ledger, tmp_path: Path) -> None:
    budget = ledger.budget("people", epsilon=9, delta=1e-4, unit="row")
    for number, folder in enumerate(("javascript:alert(1)", "https://example.org", "a/../b", '"><script>')):
        budget.reserve(Charge(event=LaplaceEvent(9.0), purpose=f"run {number}", folder=folder))
    ledger.export(tmp_path / "report.html")
    assert set(re.findall(r'href="([^"#]*)', (tmp_path / "report.html").read_text())) <= {""}
    assert "<script>" not in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_a_budget_pays_for_a_hundred_standard_queries(ledger: Ledger, delta: float) -> None:
    budget = ledger.budget("people", epsilon=3, delta=delta, unit="person")
    query = standard_query(budget.cap)
    assert budget.left == 100
    for number in range(1, 101):
        budget.charge(query.event, purpose=f"query {number}")
        if number in (1, 2, 50, 99):
            assert budget.left == 100 - number
            assert budget.cap.fits(budget.status()[0].cost)
    assert budget.left == 0
    with pytest.raises(hush.ledger.OverBudget, match="and 0 of 100 standard queries are left"):
        budget.charge(query.event, purpose="one too many")


def test_no_charge_leaves_more_than_before(ledger: Ledger) -> None:
    cap = ledger.budget("people", epsilon=3, delta=1e-6, unit="person").cap
    query, spent, left = standard_query(cap), Cost(), [100]
    for event in (LaplaceEvent(5.0), GaussianEvent(20.0), GaussianEvent(9.0), LaplaceEvent(3.0)):
        spent = spent + cap.cost(event)
        left.append(query.left(spent))
    assert left == sorted(left, reverse=True)
    assert left[-1] < left[0]


RELEASES: dict[str, Callable[[Any, Path], Any]] = {
    "sql": lambda budget, path: people(path).sql(COUNT, epsilon=0.1, budget=budget),
    "statistics": lambda budget, path: statistics.count([1, 2], units=["a", "b"], epsilon=0.1, budget=budget),
    "privatize": lambda budget, path: linear(budget),
    "tune": lambda budget, path: searched(budget),
    "holdout": lambda budget, path: hush.stability.ReusableHoldout(
        TRAINED_ON, HELD_OUT, epsilon=0.1, max_overfits=2, tolerance=0.1, budget=budget
    ),
    "mechanism": lambda budget, path: hush.mechanisms.Laplace(sensitivity=1.0, epsilon=0.1, budget=budget),
    "estimator": lambda budget, path: hush.estimators.PrivateStandardScaler(epsilon=1.0, bounds=(-1, 1), budget=budget),
    "runs.train": lambda budget, path: hush.runs.train(
        hush.runs.Settings(data="digits", epsilon=1.0), path / "run", budget=budget
    ),
    "runs.tune": lambda budget, path: hush.runs.tune(
        hush.runs.Settings(data="digits", epsilon=1.0), {}, path / "run", budget=budget
    ),
}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("budget", [3, 0.5, "people", LedgerBudget])
def test_a_number_is_no_budget(release: str, budget: Any, tmp_path: Path) -> None:
    """A number says what a release may cost, which is epsilon."""
    if release in ("privatize", "tune", "runs.train", "runs.tune"):
        pytest.importorskip("torch")
    shown = re.escape(repr(budget) if not isinstance(budget, type) else "'type'")
    with pytest.raises(InvalidArgument, match=rf"^budget={shown}: expected a budget to charge, .*Write epsilon="):
        RELEASES[release](budget, tmp_path)
    assert not (tmp_path / "run").exists()
