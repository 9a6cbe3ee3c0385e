"""Guarantees of metric privacy: laws, conversions, and that nothing else mistakes them for ordinary ones."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.accounting import PldAccountant, PureFilter
from hush.accounting.budget import Charge
from hush.errors import HushError, InvalidArgument, Unsupported
from hush.guarantee import Guarantee, Relation
from hush.mechanisms import compose
from hush.randomness import TestSource
from hush.stability import MetricLaplace
from hush.stability.metric_guarantee import MetricGuarantee

distances = st.floats(0, 1e6)
rates = st.floats(1e-6, 1e3)


def claim(epsilon: float, **terms: Any) -> MetricGuarantee:
    return MetricGuarantee(**{"epsilon_per_unit": epsilon, "metric": "Euclidean distance", **terms})


@given(rates, distances, distances)
def test_the_loss_is_a_metric_bound_rounded_up(epsilon: float, near: float, far: float) -> None:
    stated = claim(epsilon)
    assert stated.loss(near) >= epsilon * near
    assert stated.loss(near) + stated.loss(far) >= stated.loss(near + far) * (1 - 1e-12)
    assert 0 <= stated.max_difference(near) <= 1
    assert stated.max_difference(near) <= stated.loss(near) / 2 * (1 + 1e-12)


@given(rates, rates, st.floats(0, 1), st.floats(0, 1), distances)
def test_composition_adds_up(a: float, b: float, rough: float, fine: float, distance: float) -> None:
    both = claim(a, resolution=rough).compose(claim(b, resolution=fine))
    assert both.loss(distance) >= claim(a, resolution=rough).loss(distance) + claim(b, resolution=fine).loss(
        distance
    ) * (1 - 1e-12) - 1e-12 * both.loss(distance)


def test_other_metrics_and_other_guarantees_do_not_compose() -> None:
    for other in (claim(1.0, unit="km"), claim(1.0, metric="Hamming distance")):
        with pytest.raises(Unsupported, match="two metrics"):
            claim(1.0, unit="m").compose(other)
    with pytest.raises(InvalidArgument, match="other kinds"):
        claim(1.0).compose(Guarantee(epsilon=1.0, delta=0))  # type: ignore[arg-type]


def test_within_a_diameter_it_is_local_differential_privacy() -> None:
    stated = claim(0.01, unit="m").within(300)
    assert stated.epsilon == pytest.approx(3.0)
    assert stated.epsilon >= 3.0
    assert stated.relation is Relation.REPLACE
    assert "300 m apart" in stated.assumptions[-1]


def test_what_is_accounted_elsewhere_refuses_it(tmp_path: Path) -> None:
    from hush.ledger import TestLedger

    release = MetricLaplace(epsilon_per_unit=1.0).release([[0.0, 0.0]], TestSource(1))
    budget = TestLedger(f"sqlite:///{tmp_path}/budget.db").budget("people", epsilon=9, unit="example")
    misreadings: list[Any] = [
        lambda: PldAccountant().compose(release.guarantee),
        lambda: PureFilter(epsilon=9.0).spend(release.guarantee),
        lambda: compose(release),
        lambda: budget.reserve(Charge(event=release.guarantee, purpose="a place")),
        lambda: Guarantee.from_json(str(release.guarantee)),
    ]
    for misread in misreadings:
        with pytest.raises((HushError, AttributeError)):
            misread()
    assert budget.spent == 0
    for name in ("epsilon", "delta", "relation", "event", "to_json"):
        assert not hasattr(release.guarantee, name)


def test_test_randomness_is_called_so() -> None:
    release = MetricLaplace(epsilon_per_unit=1.0).release([[0.0, 0.0]], TestSource(1))
    assert str(release.guarantee).startswith("NOT PRIVATE")
    assert "test randomness" in release.guarantee.within(1.0).assumptions


@pytest.mark.parametrize(
    "terms",
    [{"epsilon_per_unit": 0.0}, {"epsilon_per_unit": math.nan}, {"resolution": -1.0}, {"metric": " "}, {"unit": "\n"}],
)
def test_wrong_terms_are_refused(terms: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        claim(1.0, **terms) if "epsilon_per_unit" not in terms else claim(terms["epsilon_per_unit"])
    with pytest.raises(InvalidArgument):
        claim(1.0).loss(math.nan)
