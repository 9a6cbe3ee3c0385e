"""People in a table, and a budget for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hush.ledger import Ledger, LedgerBudget
    from hush.sql import Table


@pytest.fixture(scope="module")
def data() -> Any:
    from sql.answer.charged_people import connected

    return connected()


@pytest.fixture
def people(data: Any) -> Table:
    from sql.answer.charged_people import people_in

    return people_in(data)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    from hush.ledger import Ledger

    with closing(Ledger(f"sqlite:///{tmp_path}/privacy.db")) as ledger:
        yield ledger


@pytest.fixture
def budget(ledger: Ledger) -> LedgerBudget:
    return ledger.budget("people", epsilon=50, delta=1e-5, unit="user")
