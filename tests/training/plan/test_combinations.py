"""Combinations of a plan that have no proof are refused, by name and at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hush.errors import Unsupported
from hush.guarantee import Relation
from hush.training import (
    Adaptive,
    BufferedToeplitz,
    FixedSize,
    InOrder,
    Poisson,
    Projected,
    UserGroups,
)
from training.loops import LINEAR_COUNT, linear_run


def test_adaptive_clipping_is_not_correlated() -> None:
    with pytest.raises(Unsupported, match="^Adaptive"):
        linear_run(sampling=InOrder(10), clipping=Adaptive(), correlated=BufferedToeplitz())


@pytest.mark.parametrize(
    "settings",
    [
        {"sampling": FixedSize(5), "contribution": Projected(6)},
        {"sampling": Poisson(5), "contribution": Projected(6), "relation": Relation.REPLACE},
        {"sampling": Poisson(5), "unit": UserGroups(np.arange(LINEAR_COUNT) // 2, 2), "relation": Relation.REPLACE},
    ],
)
def test_combinations_without_an_analysis_are_refused_at_once(settings: dict[str, Any]) -> None:
    with pytest.raises(Unsupported):
        linear_run(**settings)
