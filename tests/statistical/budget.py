"""The false-alarm rate of these tests: all of them together fail less than once in a million runs, for random seeds.

Seeds are fixed, so a passing test keeps passing. The rate says how much a failure means.
"""

from __future__ import annotations

FALSE_ALARMS = 1e-6

# The number of comparisons with a true hypothesis in each module, which asserts that it makes no more.
COMPARISONS = {"laws": 120, "independence": 60, "mechanisms": 20, "coverage": 40}
THRESHOLD = 4e-9


def test_budget() -> None:
    assert sum(COMPARISONS.values()) * THRESHOLD <= FALSE_ALARMS
