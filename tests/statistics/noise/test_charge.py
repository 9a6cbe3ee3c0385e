"""A budget is charged before a result leaves, once for each release, and by what the release says it costs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import hush.statistics as hs
from hush.accounting.budget import Charge
from hush.errors import BudgetExceeded
from hush.statistics.noise.charge import released


class Purse:
    """A budget that records charges, or refuses them."""

    def __init__(self, *, empty: bool = False) -> None:
        self.empty = empty
        self.charges: list[Charge] = []
        self.commits = 0

    def reserve(self, charge: Charge) -> Purse:
        if self.empty:
            raise BudgetExceeded("nothing is left")
        self.charges.append(charge)
        return self

    def commit(self) -> None:
        self.commits += 1


def test_a_release_is_charged_once_with_its_event() -> None:
    purse: Any = Purse()
    result = hs.mean([1, 2], units=[1, 2], bounds=(0, 3), epsilon=0.5, budget=purse)
    (charge,) = purse.charges
    assert (charge.event, charge.purpose, charge.delta, purse.commits) == (result.event, "mean", None, 1)


def test_several_estimates_of_one_release_are_one_charge() -> None:
    purse: Any = Purse()
    results = hs.describe([1, 2], units=[1, 2], bounds=(0, 3), epsilon=0.5, delta=1e-6, budget=purse)
    assert [charge.event for charge in purse.charges] == [results["std"].event]


def test_tables_are_charged_once_although_they_count() -> None:
    purse: Any = Purse()
    hs.histogram([1, 2], [0, 1, 2], units=[1, 2], epsilon=0.5, budget=purse)
    hs.contingency_table([[1, 2]], [[1, 2]], units=[1, 2], epsilon=0.5, budget=purse)
    assert [charge.purpose for charge in purse.charges] == ["histogram", "contingency_table"]


def test_a_refused_release_does_not_leave() -> None:
    purse: Any = Purse(empty=True)
    with pytest.raises(BudgetExceeded):
        hs.count([1], units=[1], epsilon=0.5, budget=purse)
    assert purse.commits == 0


def test_warnings_that_depend_on_data_are_silenced() -> None:
    @released
    def ratio(values: Any) -> Any:
        return 1 / np.asarray(values)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isinf(ratio([0.0, 1.0])[0])
