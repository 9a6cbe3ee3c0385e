"""The explanation: right figures, honest words, never an exception."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given

from hush.guarantee import Bound, Guarantee, Relation, Unit
from strategies import guarantees


def explain(**fields: Any) -> str:
    """Explain a guarantee, on one line so that sentences can be found whatever the wrapping."""
    return " ".join(Guarantee(**{"epsilon": 1.0, "delta": 1e-5, **fields}).explain().split())


@given(guarantees())
def test_never_raises_and_never_says_nan(claim: Guarantee) -> None:
    text = claim.explain()
    assert text.startswith(str(claim))
    # The last sentences are the caller's own words, which may say anything.
    own_words = {claim.method, *claim.assumptions}
    if not any("nan" in words.lower() for words in own_words):
        assert "nan" not in text.lower()


def test_figures_at_epsilon_one() -> None:
    text = explain()
    assert "at most 2.72 to 1" in text
    assert "at most 73.2 % likely" in text  # 0.7311, rounded up
    assert "at most 0.273 % of the members if it may wrongly accuse 0.1 % of the others" in text
    assert "at most 2.72 % if it may wrongly accuse 1 %" in text
    assert "at most 46.3 percentage points" in text  # 0.4621, rounded up
    assert "grows by at most 172 %" in text  # 1.7183, rounded up
    assert "1e-05 is slack" in text


def test_delta_is_not_a_failure_probability() -> None:
    assert "It is not the chance that the promise fails" in explain()
    assert "slack" not in explain(delta=0)
    assert "zero, so that these limits hold without exception" in explain(delta=0)


def test_a_large_delta_is_called_large() -> None:
    warning = "publishing each record outright with this probability would satisfy it"
    assert warning in explain(delta=0.01)
    assert warning not in explain(delta=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "growth"),
    [
        (0, "by at most 0 %"),
        (0.01, "by at most 1.01 %"),
        (2, "by at most 639 %"),
        (3, "at most by a factor of 20.1"),
        (1000, "at most by a factor of 10^435"),
    ],
)
def test_risk_is_a_percentage_while_that_can_be_pictured(epsilon: float, growth: str) -> None:
    assert f"grows {growth}, compared with leaving it out" in explain(epsilon=epsilon)


@pytest.mark.parametrize(
    ("epsilon", "verdict"), [(3, None), (5, None), (6, "weak promise"), (10, "weak promise"), (10.1, "promises little")]
)
def test_weak_promises_are_called_weak(epsilon: float, verdict: str | None) -> None:
    text = explain(epsilon=epsilon)
    assert [word for word in ("weak promise", "promises little") if word in text] == [verdict] * (verdict is not None)


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        (Unit.example(), "Protected is any one example:"),
        (Unit.user(), "Protected is the data of any one user:"),
        (Unit.user_window(timedelta(days=7)), "Protected is the data of any one user within 7 days:"),
        (Unit.example().group(3), "Protected is any group of 3 examples:"),
    ],
)
def test_the_unit_is_named(unit: Unit, words: str) -> None:
    assert words in explain(unit=unit)


@pytest.mark.parametrize(
    ("relation", "words"),
    [
        (Relation.ADD_OR_REMOVE, "whether it was used or not"),
        (Relation.REPLACE, "whether it or something else in its place was used"),
        (Relation.ZERO_OUT, "whether it was used or blanked out"),
    ],
)
def test_the_relation_is_named(relation: Relation, words: str) -> None:
    assert words in explain(relation=relation)


def test_related_records_are_not_covered() -> None:
    assert "what related records give away is not covered" in explain()


def test_an_estimate_is_not_a_guarantee() -> None:
    assert "This is an estimate, not a guarantee" in explain(bound=Bound.ESTIMATE)


def test_a_lower_bound_proves_leakage_and_promises_nothing() -> None:
    text = explain(bound=Bound.LOWER)
    assert "it proves leakage and promises nothing" in text
    assert "at least 2.71 to 1" in text  # rounded down
    assert "at least 73.1 % likely" in text
    assert "at most" not in text


def test_a_lower_bound_of_zero_proves_nothing() -> None:
    assert "no leakage was proven" in explain(epsilon=0, bound=Bound.LOWER)


def test_an_unbounded_epsilon_promises_nothing() -> None:
    text = explain(epsilon=math.inf)
    assert "this promises nothing" in text
    assert "at most" not in text


def test_assumptions_are_listed() -> None:
    text = explain(assumptions=("Sampling is Poisson.", "Noise is fresh."))
    assert text.endswith("It stands on these assumptions: - Sampling is Poisson. - Noise is fresh.")
    assert "assumptions" not in explain()


def test_fits_a_terminal() -> None:
    assert max(map(len, Guarantee(epsilon=20, delta=0.01).explain().splitlines())) <= 100
