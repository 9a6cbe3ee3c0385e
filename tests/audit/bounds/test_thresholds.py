"""Threshold rules: their settings, and that each finds a large leak under each method."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hush.audit import (
    Bonferroni,
    ClopperPearson,
    Explicit,
    GaussianDP,
    MultiSplit,
    OneRun,
    SplitScores,
    audit_one_run,
    audit_scores,
)
from hush.errors import InvalidArgument


@pytest.mark.parametrize("rule", [Bonferroni(), SplitScores(), MultiSplit(), Explicit(3.0)], ids=str)
@pytest.mark.parametrize("method", [ClopperPearson(), GaussianDP(), OneRun()], ids=str)
def test_every_rule_finds_a_large_leak(method: Any, rule: Any) -> None:
    rng = np.random.default_rng(5)
    inside, outside = rng.normal(6.0, 1.0, 500), rng.normal(0.0, 1.0, 500)
    if isinstance(method, OneRun):
        coins = rng.permutation(np.repeat([True, False], 500))
        scores = np.where(coins, rng.normal(6.0, 1.0, 1000), rng.normal(0.0, 1.0, 1000))
        result = audit_one_run(scores, coins, delta=1e-5, threshold=rule)
    else:
        result = audit_scores(inside, outside, delta=1e-5, method=method, threshold=rule)
    # Over 20 seeds at least 3.7 in each case; nearest, at 8 standard deviations, is a run at an explicit threshold.
    assert 2.5 < result.epsilon_lower <= result.epsilon
    assert 0 < result.num_in <= 500


def test_an_explicit_threshold_may_be_infinite() -> None:
    result = audit_scores([math.inf] * 30, [0.0] * 30, threshold=Explicit(math.inf))
    assert (result.details["tp"], result.details["fp"]) == (30, 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: Explicit(math.nan),
        lambda: Explicit(True),
        lambda: SplitScores(fraction=1.0),
        lambda: SplitScores(rng=-1),
        lambda: MultiSplit(num_splits=0),
        lambda: MultiSplit(rng=np.random.default_rng(0)),  # type: ignore[arg-type]
        lambda: MultiSplit(fraction=math.nan),
    ],
)
def test_invalid_settings_are_refused(call: Any) -> None:
    with pytest.raises(InvalidArgument):
        call()
