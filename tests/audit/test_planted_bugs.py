"""hush audits its own training step: as it is, nothing is found; with a bug planted in it, the same audit finds it.

Each audit calls a true claim violated with a probability of at most 1e-4, whatever the setting, so that all of them
together raise a false alarm with at most the number of cases times that, 0.2 %; and with fixed seeds, always or never.
"""

from __future__ import annotations

import pytest

from audit.step_setups import BUGS, CASES, Case
from hush.audit import Comparison
from hush.audit.training import compare_claim, observe
from hush.errors import Unsupported
from hush.randomness import TestSource
from hush.training import _session

CONFIDENCE = 1 - 1e-4


def audited(case: Case) -> Comparison:
    found = observe(case.setup, observations=case.observations, steps=case.steps, source=TestSource(7))
    return compare_claim(found, confidence=CONFIDENCE)


QUICK = {case for case, _ in BUGS.values()} | {"by layer", "users"}


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[] if each in QUICK else pytest.mark.slow) for each in CASES]
)
def test_the_step_as_it_is_is_consistent_with_its_claim(name: str) -> None:
    assert not audited(CASES[name]).violated


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, plant = BUGS[name]
    plant(monkeypatch)
    assert audited(CASES[case]).violated


@pytest.mark.parametrize("name", ["inverted clip", "tied weights counted once"])
def test_the_engine_refuses_some_bugs_by_itself(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, plant = BUGS[name]
    checked = _session.check_calls
    plant(monkeypatch)
    monkeypatch.setattr(_session, "check_calls", checked)
    with pytest.raises(Unsupported, match="loop over the examples"):
        audited(CASES[case])
