"""hush audits its own training step: the audit passes as it is, and fails with a bug planted in it.

False alarms: each audit calls a true claim violated with probability at most 1e-7, whatever the setting. Bugs are found
reliably: over eight seeds, the epsilon that is shown lies at least 6 standard deviations above the claim.
"""

from __future__ import annotations

import pytest

from audit.training.step_setups import BUGS, CASES, Case
from cases import first_quick
from hush.audit.bounds.result import Comparison
from hush.audit.training import compare_claim, observe
from hush.errors import Unsupported
from hush.randomness import TestSource
from hush.training.loop import batch_sums

CONFIDENCE = 1 - 1e-7
QUICK_OBSERVATIONS = 300  # more of them take seconds


def audit(case: Case, num_observations: int) -> Comparison:
    observations = observe(case.setup, observations=num_observations, num_steps=case.steps, source=TestSource(7))
    return compare_claim(observations, confidence=CONFIDENCE)


@pytest.mark.parametrize("name", first_quick(["full", "two steps", "small", "poisson", "by layer", "users"], 2))
@pytest.mark.quick_cases(1)
def test_the_step_is_consistent_with_its_claim(name: str) -> None:
    assert not audit(CASES[name], 100).violated


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_step_is_consistent_with_its_claim_in_many_observations(name: str) -> None:
    num_observations = [400, *(bug.observations for bug in BUGS.values() if bug.case == name)]
    assert not audit(CASES[name], max(num_observations)).violated


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if bug.observations <= QUICK_OBSERVATIONS else pytest.mark.slow)
        for name, bug in BUGS.items()
    ],
)
@pytest.mark.quick_cases(1)
def test_a_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = BUGS[name]
    bug.plant(monkeypatch)
    assert audit(CASES[bug.case], bug.observations).violated


@pytest.mark.parametrize("name", ["inverted clip", "tied weights counted once"])
def test_the_engine_refuses_some_bugs_by_itself(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = BUGS[name]
    check_calls = batch_sums.check_calls
    bug.plant(monkeypatch)
    monkeypatch.setattr(batch_sums, "check_calls", check_calls)
    with pytest.raises(Unsupported, match="loop over the examples"):
        audit(CASES[bug.case], bug.observations)
