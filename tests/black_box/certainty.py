"""One setting for all tests that audit: how rarely one of them may fail by chance."""

from __future__ import annotations

from typing import Any

from hush.audit import AuditResult
from hush.audit.testers import audit_mechanism
from hush.randomness import Source

CONFIDENCE = 1 - 1e-6


def audit(mechanism: Any, first: Any, second: Any, *, samples: int, source: Source, **settings: Any) -> AuditResult:
    """Audit with a confidence that leaves one false alarm in a million tests."""
    return audit_mechanism(mechanism, first, second, samples=samples, confidence=CONFIDENCE, source=source, **settings)


def refuted(mechanism: Any, first: Any, second: Any, *, epsilon: float, **settings: Any) -> bool:
    """Whether a claim is contradicted."""
    return audit(mechanism, first, second, **settings).compare(epsilon).violated
