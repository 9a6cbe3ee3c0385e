"""The base class: releases carry events and assumptions, and `compose` refuses what does not add up."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from hush.accounting import Event, PldAccountant, PureFilter
from hush.errors import HushError, InvalidArgument, Unsupported
from hush.guarantee import Relation, Unit
from hush.mechanisms import Gaussian, Laplace, Release, VectorMeanL1, compose
from hush.randomness import KeyedSource, RandomSource, TestSource
from hush.randomness.source import chacha20


def test_marks_survive_composition() -> None:
    release = Laplace(epsilon=1.0, sensitivity=1.0).release(3.0, TestSource(1))
    event = compose(release, Laplace(epsilon=1.0, sensitivity=1.0))
    for marked in (event, release.event):
        assert "test randomness" in PldAccountant().compose(marked).guarantee(0.0).assumptions
    budget = PureFilter(epsilon=9.0)
    budget.spend(Event.from_json(event.to_json()))
    assert "test randomness" in budget.guarantee().assumptions


def test_marks_cannot_be_taken_off() -> None:
    class Quiet(TestSource):
        assumptions: tuple[str, ...] = ()

    class Other(RandomSource):
        def _stream(self, count: int) -> Any:
            return chacha20(bytes(32))

    mechanism = Laplace(epsilon=1.0, sensitivity=1.0)
    assert "test randomness" in mechanism.release(1.0, Quiet(1)).guarantee.assumptions
    assert "unverified randomness" in mechanism.release(1.0, Other()).guarantee.assumptions
    assert any(
        "keyed" in sentence for sentence in mechanism.release(1.0, KeyedSource(bytes(32), 0)).guarantee.assumptions
    )


def test_composition_refuses_different_neighbours_and_units() -> None:
    laplace = Laplace(epsilon=1.0, sensitivity=1.0)
    event = compose(laplace, laplace.release(3.0), Gaussian(epsilon=1.0, delta=1e-6, sensitivity=1.0))
    assert len(event.events) == 3
    for other in ({"relation": Relation.REPLACE}, {"unit": Unit.user()}):
        with pytest.raises(HushError, match="^parts"):
            compose(laplace, Laplace(epsilon=1.0, sensitivity=1.0, **other))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="^parts="):
        compose(laplace, 3)  # type: ignore[arg-type]


def test_a_release_carries_its_guarantee_and_event() -> None:
    mechanism = Laplace(epsilon=0.5, sensitivity=1.0)
    release = mechanism.release(3.0)
    assert isinstance(release, Release)
    assert release.guarantee == mechanism.guarantee()
    assert release.event == mechanism.event
    marked = mechanism.release(3.0, TestSource(1))
    assert marked.event != mechanism.event
    assert marked.event == mechanism.qualified(marked.guarantee.assumptions)


def test_groups_are_refused_where_records_are_treated_one_by_one() -> None:
    with pytest.raises(InvalidArgument, match="^unit="):
        VectorMeanL1(epsilon=1.0, clip_norm=1.0, dimension=2, unit=Unit.user().group(2))
    users = VectorMeanL1(epsilon=1.0, clip_norm=1.0, dimension=2, unit=Unit.user())
    assert "each user has one record" in users.guarantee().assumptions


@pytest.mark.parametrize(("name", "value"), [("relation", "replace"), ("unit", "user"), ("relation", None)])
def test_relation_and_unit_are_checked(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"^{name}="):
        Laplace(epsilon=1.0, sensitivity=1.0, **{name: value})


def test_a_function_of_a_release_keeps_its_guarantee_and_its_event() -> None:
    mechanism = Laplace(epsilon=0.5, sensitivity=1.0)
    release = mechanism.release(41.7, TestSource(1))
    rounded = release.map(round)
    assert rounded.value == round(release.value)
    assert isinstance(rounded.value, int)
    assert (rounded.guarantee, rounded.event) == (release.guarantee, release.event)
    assert "test randomness" in rounded.map(str).guarantee.assumptions


def test_mapping_is_not_charged(tmp_path: Path) -> None:
    from hush.ledger import TestLedger

    budget = TestLedger(f"sqlite:///{tmp_path}/budget.db").budget("people", epsilon=1.0, unit="example")
    release = Laplace(epsilon=0.5, sensitivity=1.0, budget=budget).release(3.0, TestSource(1))
    spent = budget.spent
    release.map(math.sqrt if release.value > 0 else abs).map(str)
    assert budget.spent == spent


def test_the_interval_of_a_processed_release_is_refused() -> None:
    mechanism = Laplace(epsilon=0.5, sensitivity=1.0)
    release = mechanism.release(3.0, TestSource(1))
    assert mechanism.interval(release)[0] < release.value
    with pytest.raises(Unsupported, match="after map"):
        mechanism.interval(release.map(lambda value: value**2))
