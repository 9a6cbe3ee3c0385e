"""How often these tests raise a false alarm: less than once in a million runs of all of them, whatever the seeds.

Seeds are fixed, so that a test that passes goes on passing; the rate says how much a failure means.
"""

from __future__ import annotations

FALSE_ALARMS = 1e-6

# Comparisons with a true hypothesis, by module; each module asserts that it makes no more.
COMPARISONS = {"laws": 120, "independence": 60, "mechanisms": 20, "coverage": 40}
THRESHOLD = 4e-9


def test_budget() -> None:
    assert sum(COMPARISONS.values()) * THRESHOLD <= FALSE_ALARMS
