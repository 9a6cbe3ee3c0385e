"""Selection by repetition: how often an event runs."""

from __future__ import annotations

import math

import pytest

from hush.accounting import GaussianEvent
from hush.accounting.events import RepeatNegativeBinomialEvent
from hush.guarantee import Relation

ADD_REMOVE = Relation.ADD_OR_REMOVE


def test_means_of_repetitions() -> None:
    assert RepeatNegativeBinomialEvent(GaussianEvent(1.0), 0.1, 1.0).mean == pytest.approx(10.0)
    assert RepeatNegativeBinomialEvent(GaussianEvent(1.0), 0.5, 0.0).mean == pytest.approx(1 / math.log(2))
