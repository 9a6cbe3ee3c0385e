"""`Guarantee.explain`: the right figures, honest sentences, never an exception."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given

from hush.guarantee import Bound, Guarantee, Relation, Unit
from strategies import guarantees


def explain(**fields: Any) -> str:
    """Explain a guarantee on one line, so that tests can look for sentences despite the wrapping."""
    return " ".join(Guarantee(**{"epsilon": 1.0, "delta": 1e-5, **fields}).explain().split())


@given(guarantees())
def test_never_raises_and_never_says_nan(claim: Guarantee) -> None:
    text = claim.explain()
    assert text.startswith(str(claim))
    # The method and the assumptions are the caller's own words, which may say anything.
    if not any("nan" in words.lower() for words in (claim.method, *claim.assumptions)):
        assert "nan" not in text.lower()


def test_figures_at_epsilon_one() -> None:
    text = explain()
    assert "at most 2.72 to 1" in text
    assert "at most 73.2 % likely" in text  # 0.7311, rounded up
    assert "at most 0.273 % of the members if it may wrongly accuse 0.1 % of the non-members" in text
    assert "at most 2.72 % if it may wrongly accuse 1 %" in text
    assert "at most 46.3 percentage points" in text  # 0.4621, rounded up
    assert "at most 172 % more likely" in text  # 1.7183, rounded up
    assert "1e-05 is slack" in text


def test_delta_is_not_a_failure_probability() -> None:
    assert "It is not the probability that the guarantee fails" in explain()
    assert "slack" not in explain(delta=0)
    assert "zero, so these limits hold without exception" in explain(delta=0)


def test_a_large_delta_is_called_large() -> None:
    warning = "publishing each record outright with this probability would satisfy it"
    assert warning in explain(delta=0.01)
    assert warning not in explain(delta=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "likelihood"),
    [
        (0, "0 % more likely"),
        (0.01, "1.01 % more likely"),
        (2, "639 % more likely"),
        (3, "20.1 times as likely"),
        (1000, "10^435 times as likely"),
    ],
)
def test_risk_is_a_percentage_while_the_factor_is_small(epsilon: float, likelihood: str) -> None:
    assert f"including your data makes any consequence at most {likelihood}." in explain(epsilon=epsilon)


@pytest.mark.parametrize(
    ("relation", "words"),
    [
        (Relation.REPLACE, "Risk: using the group's data instead of something else in its place makes"),
        (Relation.ZERO_OUT, "Risk: using the group's data instead of blanking it out makes"),
    ],
)
def test_risk_compares_with_the_neighbouring_dataset(relation: Relation, words: str) -> None:
    assert words in explain(relation=relation, unit=Unit.user().group(2))


@pytest.mark.parametrize(
    ("epsilon", "verdict"),
    [(3, None), (5, None), (6, "a weak guarantee"), (10, "a weak guarantee"), (10.1, "very weak guarantee")],
)
def test_weak_promises_are_called_weak(epsilon: float, verdict: str | None) -> None:
    text = explain(epsilon=epsilon)
    assert [word for word in ("a weak guarantee", "very weak guarantee") if word in text] == [verdict] * (
        verdict is not None
    )


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        (Unit.example(), "It protects each single example: the result hides whether that example was used."),
        (Unit.user(), "It protects each single user: the result hides whether that user's data was used."),
        (
            Unit.user_window(timedelta(days=7)),
            "It protects each single user within one of the windows of 7 days from 1970-01-01: the result hides "
            "whether that user's data from that period",
        ),
        (Unit.example().group(3), "It protects each group of 3 examples: the result hides whether that group was"),
        (Unit.user().group(3), "It protects each group of 3 users: the result hides whether those users' data was"),
        (
            Unit.user_window(timedelta(hours=1)).group(2),
            "It protects each group of 2 user windows, each one of the windows of 1 hour from 1970-01-01: the result "
            "hides whether the data from those windows",
        ),
    ],
)
def test_the_unit_is_named(unit: Unit, words: str) -> None:
    assert words in explain(unit=unit)


@pytest.mark.parametrize(
    ("relation", "words"),
    [
        (Relation.ADD_OR_REMOVE, "whether that example was used."),
        (Relation.REPLACE, "whether that example was used or replaced by something else."),
        (Relation.ZERO_OUT, "whether that example was used or blanked out."),
    ],
)
def test_the_relation_is_named(relation: Relation, words: str) -> None:
    assert words in explain(relation=relation)


def test_related_records_are_not_covered() -> None:
    assert "it does not cover what related records reveal" in explain()


def test_what_is_true_of_everyone_is_not_hidden() -> None:
    assert "What is true of the population can still be learnt about you" in explain()
    assert "population" not in explain(bound=Bound.LOWER)


def test_an_estimate_is_not_a_guarantee() -> None:
    assert "This is an estimate, not a guarantee" in explain(bound=Bound.ESTIMATE)


def test_a_lower_bound_proves_leakage_and_promises_nothing() -> None:
    text = explain(bound=Bound.LOWER)
    assert "it proves leakage and promises nothing" in text
    assert "at least 2.71 to 1" in text  # rounded down
    assert "becomes at least 73.1 %." in text
    assert "at most" not in text


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        (Unit.example(), "can reveal whether a single example was used."),
        (Unit.user().group(3), "can reveal whether the data of a group of 3 users was used."),
    ],
)
def test_a_lower_bound_says_what_can_leak(unit: Unit, words: str) -> None:
    assert words in explain(unit=unit, bound=Bound.LOWER)


def test_a_lower_bound_of_zero_proves_nothing() -> None:
    assert "no leakage was proven" in explain(epsilon=0, bound=Bound.LOWER)


def test_an_unbounded_epsilon_promises_nothing() -> None:
    text = explain(epsilon=math.inf)
    assert "this promises nothing" in text
    assert "at most" not in text


def test_assumptions_are_listed() -> None:
    text = explain(assumptions=("Sampling is Poisson.", "Noise is fresh."))
    assert text.endswith("It rests on these assumptions: - Sampling is Poisson. - Noise is fresh.")
    assert "assumptions" not in explain()


def test_fits_a_terminal() -> None:
    assert max(map(len, Guarantee(epsilon=20, delta=0.01).explain().splitlines())) <= 100
