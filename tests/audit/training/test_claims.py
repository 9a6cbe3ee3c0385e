"""Audits of a claim: it is contradicted where it is false, and observations that are too few are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from audit.training.step_setups import simulated
from hush.audit.training import audit_claim, compare_claim
from hush.audit.training.observed_steps import Observations
from hush.errors import InvalidArgument

CONFIDENCE = 1 - 1e-7


def test_a_mechanism_with_less_privacy_than_claimed_is_caught(observed: Observations) -> None:
    # Over 200 seeds epsilon is 2.9 above the claim, with a standard deviation of 0.2.
    assert compare_claim(simulated(5.0, observed, 0)).violated
    assert not compare_claim(simulated(0.0, observed, 0), confidence=CONFIDENCE).violated


def test_a_claim_needs_enough_observations(observed: Observations) -> None:
    with pytest.raises(InvalidArgument, match="at least 20"):
        audit_claim(replace(observed, scores_in=observed.scores_in[:5]))
