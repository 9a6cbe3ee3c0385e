"""The confidence of all tests that audit, which fixes their false-alarm rate.

A true claim is called violated with probability 1e-8 at most, whatever the sample. No test makes more than 40 audits.
That a broken twin is caught is no chance: every audit is given a `TestSource`, a fixed key. It is not a lucky one: over
12 others or more, the epsilon shown is at least 6 standard deviations above its claim. A comment states the margin
where it is less than ten of them.
"""

from __future__ import annotations

from typing import Any

from hush.audit import AuditResult
from hush.audit.testers import audit_mechanism
from hush.randomness import RandomSource

CONFIDENCE = 1 - 1e-8


def audit(
    mechanism: Any, first: Any, second: Any, *, samples: int, source: RandomSource, **settings: Any
) -> AuditResult:
    """Return an audit with a confidence that allows one false alarm in a hundred million audits."""
    return audit_mechanism(mechanism, first, second, samples=samples, confidence=CONFIDENCE, source=source, **settings)


def refuted(mechanism: Any, first: Any, second: Any, *, epsilon: float, **settings: Any) -> bool:
    """Return whether an audit contradicts the claimed epsilon."""
    return audit(mechanism, first, second, **settings).compare(epsilon).violated
