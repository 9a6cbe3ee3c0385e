"""Audit results: guarantee, comparison with a claim, JSON and text."""

from __future__ import annotations

import json
import math
import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush import Guarantee, Relation, Unit
from hush.audit import AuditResult, epsilon_from_counts
from hush.audit.bounds.result import Verdict, floored
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Bound
from hush.strict_json import parse


def result(**changes: Any) -> AuditResult:
    values: dict[str, Any] = {
        "epsilon": 2.5,
        "epsilon_lower": 2.0,
        "confidence": 0.95,
        "method": "Clopper-Pearson",
        "threshold_rule": "threshold fixed beforehand",
        "num_in": 100,
        "num_out": 90,
        "delta": 1e-5,
        "details": {"tp": 50, "fp": 3, "threshold": -math.inf},
        "assumptions": ("Scores are independent",),
    }
    return AuditResult(**{**values, **changes})


def test_the_guarantee_is_a_lower_bound() -> None:
    claim = result().guarantee
    assert (claim.epsilon, claim.delta, claim.bound) == (2.0, 1e-5, Bound.LOWER)
    assert "Clopper-Pearson" in claim.method
    assert claim.assumptions[0] == "Scores are independent"
    assert "95 % confidence" in claim.assumptions[-1]
    assert Guarantee.from_json(claim.to_json()) == claim


def test_verdicts() -> None:
    violated = result().compare(1.9)
    assert violated.verdict is Verdict.VIOLATED
    assert violated.violated
    assert str(violated).startswith("Violated: the attack shows epsilon >= 2")
    consistent = result().compare(2.0)
    assert consistent.verdict == "consistent"
    assert not consistent.violated
    assert result().compare(math.inf).verdict is Verdict.CONSISTENT


def test_a_claim_at_a_smaller_delta_is_compared() -> None:
    assert result().compare(Guarantee(epsilon=1.0, delta=1e-6)).violated
    assert result().compare(Guarantee(epsilon=1.0, delta=0.0)).violated
    assert not result().compare(Guarantee(epsilon=3.0, delta=0.0)).violated


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (Guarantee(epsilon=1.0, delta=1e-4), "delta"),
        (Guarantee(epsilon=1.0, delta=1e-5, unit=Unit.user()), "per user"),
        (Guarantee(epsilon=1.0, delta=1e-5, unit=Unit.user_window(timedelta(days=1))), "per user within"),
        (Guarantee(epsilon=1.0, delta=1e-5, unit=Unit.example().group(2)), "group of 2"),
        (Guarantee(epsilon=1.0, delta=1e-5, relation=Relation.REPLACE), "replace"),
        (Guarantee(epsilon=1.0, delta=1e-5, bound=Bound.LOWER), "two lower bounds"),
    ],
)
def test_incomparable_claims_are_refused(claim: Guarantee, message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        result().compare(claim)
    with pytest.raises(InvalidArgument):
        result().compare(math.nan)


def test_json_is_strict() -> None:
    document = parse(result(epsilon=math.inf).to_json())
    assert document["format"] == "hush.audit/1"
    assert document["epsilon"] == "unbounded"
    assert document["details"] == {"tp": 50, "fp": 3, "threshold": "-unbounded"}
    assert (document["epsilon_lower"], document["confidence"], document["method"]) == (2.0, 0.95, "Clopper-Pearson")
    assert set(document) >= {"num_in", "num_out", "delta", "mu_lower", "threshold_rule", "assumptions", "bound"}
    assert json.loads(epsilon_from_counts(3, 5, 1, 5).to_json())["num_in"] == 5


def test_a_result_prints_as_one_line() -> None:
    assert str(result(epsilon_lower=1.9999)) == (
        "epsilon >= 1.99 at delta = 1e-05 (95 % confidence; point estimate 2.5), by Clopper-Pearson, "
        "threshold fixed beforehand, 100 members and 90 non-members"
    )


@given(st.floats(1e-300, 1e6))
def test_a_lower_bound_is_never_printed_higher(value: float) -> None:
    assert float(floored(value)) <= value * (1 + 1e-12)
    assert float(floored(value)) >= value * 0.98 - 1e-300


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": math.nan},
        {"epsilon": -1.0},
        {"epsilon_lower": math.inf},
        {"epsilon_lower": math.nan},
        {"confidence": 1.0},
        {"delta": 1.0},
        {"bound": Bound.UPPER},
        {"bound": "lower"},
    ],
)
def test_invalid_results_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        result(**changes)


def test_details_cannot_be_changed() -> None:
    counts = {"tp": 1}
    frozen = result(details=counts)
    counts["tp"] = 2
    assert frozen.details["tp"] == 1
    with pytest.raises(TypeError):
        frozen.details["tp"] = 3  # type: ignore[index]


def test_the_printed_numbers_agree_with_the_verdict() -> None:
    audit = epsilon_from_counts(900, 1000, 300, 1000)
    for claimed in (audit.epsilon_lower - 1e-7, audit.epsilon_lower + 1e-7, audit.epsilon_lower, 1.0, 2.0):
        comparison = audit.compare(claimed)
        shown, stated = (float(text) for text in re.findall(r"(?:>=|claimed) ([0-9.]+) at", comparison.sentence))
        assert (shown > stated) is comparison.violated
        assert shown <= audit.epsilon_lower
    assert "more than the claimed 1 at" in audit.compare(1.0).sentence
