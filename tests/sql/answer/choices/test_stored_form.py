"""What is not a choice of hush's own is refused when it is read."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from hush.sql.answer.choices.bounds import BINS, LearnedBounds, bounds_from_json, bounds_to_json
from hush.sql.answer.choices.limits import Measure, limits_from_json, limits_to_json
from hush.statistics.noise import ChosenLimit

BOUNDS = LearnedBounds(low=-1.0, high=8.0, learned=True, beyond=1.5, beyond_error=2.0, excess=0, excess_error=3.0)


def test_choices_are_read_as_they_were_written() -> None:
    limits = {
        Measure.ROWS: ChosenLimit(limit=4, beyond=0.5, beyond_error=1.0),
        Measure.GROUPS: ChosenLimit(limit=1, beyond=0.0, beyond_error=1.0),
    }
    assert limits_from_json(limits_to_json(limits)) == limits
    assert bounds_from_json(bounds_to_json(BOUNDS)) == BOUNDS


@pytest.mark.parametrize(
    "changes",
    [{"low": 9.0}, {"high": 4.0 * float(BINS.edges[-1])}, {"learned": 1}, {"low": "0"}, {"beyond": None}, {"more": 1}],
)
def test_other_bounds_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="choice|bounds"):
        bounds_from_json(json.dumps(asdict(BOUNDS) | changes))
