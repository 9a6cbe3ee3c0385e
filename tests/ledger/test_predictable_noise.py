"""Predictable noise never charges a real budget: whoever knows the seed can subtract it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hush
from hush import statistics
from hush.accounting import GaussianEvent
from hush.accounting.budget import Charge
from hush.accounting.events import QualifiedEvent
from hush.errors import InvalidArgument
from hush.ledger import Ledger, LedgerBudget, TestLedger
from hush.randomness import KeyedSource, RandomSource, TestSource
from hush.randomness.source import SystemSource
from hush.sql import table
from hush.training import Candidate, Score

REFUSED = "source='a TestSource': expected an unpredictable source, for a budget of a ledger"
ROWS = np.linspace(-1, 1, 60).reshape(30, 2)


def asked(budget: Any) -> None:
    import pyarrow as pa

    people = table(pa.table({"who": list(range(50))}), unit="who", name="people")
    people.sql("SELECT COUNT(*) AS n FROM people", epsilon=0.1, budget=budget, source=TestSource(1))


def counted(budget: Any) -> None:
    statistics.count([1, 2], units=["a", "b"], epsilon=0.1, budget=budget, source=TestSource(1))


def fitted(budget: Any) -> None:
    from hush.estimators import PrivateStandardScaler

    PrivateStandardScaler(epsilon=0.1, bounds=(-1, 1), budget=budget, source=TestSource(1)).fit(ROWS)


def held_out(budget: Any) -> None:
    from hush.stability import ReusableHoldout

    settings: dict[str, Any] = {"epsilon": 0.1, "max_overfits": 5, "tolerance": 0.1, "source": TestSource(1)}
    training, held_out = (np.zeros(20_000),), (np.zeros(20_000),)
    ReusableHoldout(training, held_out, budget=budget, **settings)


def linear(budget: Any) -> Any:
    import torch
    from torch import nn

    model = nn.Linear(2, 2)
    data = torch.tensor(ROWS, dtype=torch.float32), torch.zeros(30, dtype=torch.long)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    settings: dict[str, Any] = {"epsilon": 0.1, "delta": 1e-6, "num_steps": 1, "source": TestSource(1)}
    return hush.privatize(model, optimizer, data, budget=budget, **settings)


def networked(budget: Any) -> None:
    from torch import nn

    from hush.estimators import PrivateClassifier

    settings: dict[str, Any] = {"epsilon": 0.1, "delta": 1e-6, "classes": [0, 1], "source": TestSource(1)}
    model = PrivateClassifier(nn.Linear, data_norm=2.0, budget=budget, epochs=1, **settings)
    model.fit(ROWS, np.arange(30) % 2)


def searched(budget: Any) -> None:
    def train(settings: dict[str, Any], noise: float) -> Candidate:
        return Candidate(score=1.0, result=0)

    hush.tune(
        train,
        {"guess": [1, 2]},
        cost=lambda settings, noise: GaussianEvent(noise),
        epsilon=0.5,
        delta=1e-6,
        score=Score.public("a book"),
        progress=False,
        budget=budget,
        source=TestSource(1),
    )


ASKING_FOR_USERS = [asked, counted]
ASKING_FOR_ROWS = [fitted, linear, networked, searched]


@pytest.mark.parametrize("release", [*ASKING_FOR_USERS, *ASKING_FOR_ROWS, held_out])
def test_it_is_refused_by_a_real_budget_and_taken_by_one_for_tests(
    release: Callable[[Any], Any], tmp_path: Path
) -> None:
    if release not in ASKING_FOR_USERS and release is not held_out:
        pytest.importorskip("torch")
    terms: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-5, "unit": "row"}
    if release in ASKING_FOR_USERS:
        terms["unit"] = "person"
    if release is held_out:
        terms |= {"relation": hush.Relation.REPLACE, "delta": 0.0}
    with Ledger(f"sqlite:///{tmp_path}/privacy.db") as ledger:
        real = ledger.budget("people", **terms)
        with pytest.raises(InvalidArgument, match=REFUSED):
            release(real)
        assert real.spent == 0
        assert len(real.entries()) == 1
    with TestLedger() as tests:
        budget = tests.budget("people", **terms)
        release(budget)
        assert budget.spent > 0


def predictable(noise: float) -> QualifiedEvent:
    return QualifiedEvent(GaussianEvent(noise), hush.Relation.ADD_OR_REMOVE, hush.Unit.user(), ("test randomness",))


@pytest.mark.parametrize(
    "charge",
    [
        lambda budget: budget.charge(predictable(9.0), purpose="x"),
        lambda budget: budget.reserve(Charge(event=predictable(9.0), purpose="x")),
        lambda budget: budget.reserve(Charge(event=GaussianEvent(9.0), purpose="x")).commit(predictable(9.0)),
        lambda budget: budget.plan([predictable(9.0)], delta=1e-8, purpose="x"),
        lambda budget: budget.plan([GaussianEvent(9.0)], delta=1e-8, purpose="x").reserve(
            Charge(event=predictable(9.0), purpose="x")
        ),
        lambda budget: budget.for_run("x").reserve(Charge(event=predictable(9.0), purpose="x")),
    ],
)
def test_no_way_of_charging_takes_it(charge: Callable[[LedgerBudget], Any], tmp_path: Path) -> None:
    with Ledger(f"sqlite:///{tmp_path}/privacy.db") as ledger, pytest.raises(InvalidArgument, match=REFUSED):
        charge(ledger.budget("people", epsilon=3, delta=1e-6, unit="user"))
    with TestLedger() as tests:
        charge(tests.budget("people", epsilon=3, delta=1e-6, unit="user"))


def test_a_ledger_for_tests_is_one_for_ever(tmp_path: Path) -> None:
    url, real_url = f"sqlite:///{tmp_path}/tests.db", f"sqlite:///{tmp_path}/real.db"
    with TestLedger(url) as tests:
        tests.budget("people", epsilon=3, delta=1e-6, unit="person")
    with Ledger(url) as opened:
        people = opened.budget("people")
        counted(people)  # whoever opens it
        assert people.for_tests
        assert str(people.guarantee()).startswith("NOT PRIVATE, made with test randomness: ")
        assert people.guarantee().explain().startswith("NOT PRIVATE")
        with pytest.raises(InvalidArgument, match="a ledger for real data"):
            opened.budget("patients", epsilon=1, unit="person")
        assert opened.verify().ok, opened.verify()
    with Ledger(real_url) as real:
        real.budget("people", epsilon=3, delta=1e-6, unit="person")
    with TestLedger(real_url) as tests:
        with pytest.raises(InvalidArgument, match="a ledger for tests"):
            tests.budget("people")
        with pytest.raises(InvalidArgument, match="a ledger for tests"):
            tests.budget("others", epsilon=3, unit="person")
    with Ledger(real_url) as real, pytest.raises(InvalidArgument, match=REFUSED):
        counted(real.budget("people"))


def test_a_ledger_for_tests_leaves_nothing_behind() -> None:
    tests = TestLedger()
    folder = Path(str(tests.store.url.database)).parent
    assert folder.is_dir()
    tests.close()
    assert not folder.exists()


def test_json_and_pages_say_it_first(tmp_path: Path) -> None:
    with TestLedger(f"sqlite:///{tmp_path}/tests.db") as tests:
        budget = tests.budget("people", epsilon=3, delta=1e-6, unit="person")
        counted(budget)
        tests.export(tmp_path / "report.html")
    assert "NOT PRIVATE" in (tmp_path / "report.html").read_text().split("</header>")[0]
    document = json.loads(budget.guarantee().to_json())
    assert next(iter(document.items())) == ("not_private", "made with test randomness")
    assert hush.Guarantee.from_json(budget.guarantee().to_json()) == budget.guarantee()
    for document["not_private"], document["assumptions"] in (
        ("x", ["test randomness"]),
        ("made with test randomness", []),
    ):
        with pytest.raises(InvalidArgument):
            hush.Guarantee.from_json(json.dumps(document))
    del document["not_private"]
    document["assumptions"] = ["test randomness"]
    assert str(hush.Guarantee.from_json(json.dumps(document))).startswith("NOT PRIVATE")  # of an older version


class OfOnesOwn(SystemSource):
    """Could return anything."""


@pytest.mark.parametrize("source", [KeyedSource(bytes(32), 0), OfOnesOwn()])
def test_a_key_that_may_be_known_is_refused(source: RandomSource, tmp_path: Path) -> None:
    with Ledger(f"sqlite:///{tmp_path}/privacy.db") as ledger:
        people = ledger.budget("people", epsilon=3, unit="person")
        with pytest.raises(InvalidArgument, match="an unpredictable source"):
            statistics.count([1, 2], units=["a", "b"], epsilon=0.1, budget=people, source=source)
        assert people.spent == 0
