"""Events: values of plain numbers, limits that floats can handle, and qualifications."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hush import accounting as hush
from hush.accounting import (
    ComposedEvent,
    Event,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    ParallelEvent,
    RepeatNegativeBinomialEvent,
    SelfComposedEvent,
    events,
)
from hush.accounting.events import QualifiedEvent, plain_event
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Relation, Unit

ADD_REMOVE = Relation.ADD_OR_REMOVE


def test_numpy_numbers_are_numbers() -> None:
    assert GaussianEvent(np.float32(2.0)) == GaussianEvent(2.0)
    assert hush.SelfComposedEvent(GaussianEvent(np.float64(2.0)), np.int64(3)) == hush.SelfComposedEvent(
        GaussianEvent(2.0), 3
    )
    assert Event.from_json(GaussianEvent(np.float64(2.0)).to_json()) == GaussianEvent(2.0)


def test_equal_numbers_in_different_events_are_different_events() -> None:
    assert (
        len(
            {
                hush.GaussianEvent(2.0),
                hush.LaplaceEvent(2.0),
                hush.ApproximateDPEvent(2.0),
                hush.ExponentialMechanismEvent(2.0),
            }
        )
        == 4
    )
    assert LaplaceEvent(2) == LaplaceEvent(2.0)


def qualified(*assumptions: str, unit: str = "example") -> QualifiedEvent:
    return QualifiedEvent(GaussianEvent(2.0), "add-or-remove", unit, assumptions)


def test_qualifications_are_removed_at_every_depth() -> None:
    nested = ComposedEvent(
        (SelfComposedEvent(qualified("a"), 3), ParallelEvent((qualified("b", "a"), LaplaceEvent(1.0))))
    )
    plain, assumptions = plain_event(nested, ADD_REMOVE, Unit.example())
    assert plain == ComposedEvent(
        (SelfComposedEvent(GaussianEvent(2.0), 3), ParallelEvent((GaussianEvent(2.0), LaplaceEvent(1.0))))
    )
    assert assumptions == ("a", "b")


def test_an_event_without_qualifications_is_itself() -> None:
    event = GroupEvent(ComposedEvent((GaussianEvent(1.0), LaplaceEvent(2.0))), 3)
    plain, assumptions = plain_event(event, ADD_REMOVE, Unit.user())
    assert plain is event
    assert assumptions == ()


@pytest.mark.parametrize(("relation", "unit"), [(Relation.REPLACE, Unit.example()), (ADD_REMOVE, Unit.user())])
def test_another_relation_or_unit_is_refused(relation: Relation, unit: Unit) -> None:
    with pytest.raises(Unsupported, match="^gaussian: stated under add-or-remove per example"):
        plain_event(SelfComposedEvent(qualified(), 2), relation, unit)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"relation": "swap"}, "relation"),
        ({"unit": 3}, "unit"),
        ({"assumptions": ["a"]}, "assumptions"),
        ({"assumptions": (1,)}, "assumptions"),
        ({"event": "gaussian"}, "event"),
    ],
)
def test_qualifications_are_checked(fields: dict[str, object], name: str) -> None:
    good = {"event": GaussianEvent(1.0), "relation": "replace", "unit": "example", "assumptions": ()}
    with pytest.raises(InvalidArgument, match=f"^{name}="):
        QualifiedEvent(**{**good, **fields})  # type: ignore[arg-type]


def test_noise_is_limited_to_what_floats_can_analyse() -> None:
    for noise in (1e-3, 1e6):
        assert GaussianEvent(noise).noise_multiplier == noise
    for noise in (math.nextafter(1e-3, 0), math.nextafter(1e6, math.inf)):
        with pytest.raises(InvalidArgument, match="rounding errors dominate"):
            GaussianEvent(noise)


def test_means_of_repetitions() -> None:
    assert RepeatNegativeBinomialEvent(GaussianEvent(1.0), 0.1, 1.0).mean == pytest.approx(10.0)
    assert RepeatNegativeBinomialEvent(GaussianEvent(1.0), 0.5, 0.0).mean == pytest.approx(1 / math.log(2))


def test_every_event_class_has_a_kind_of_its_own() -> None:
    classes = [value for value in vars(events).values() if isinstance(value, type) and issubclass(value, Event)]
    kinds = [cls.kind for cls in classes if cls is not Event]
    assert len(set(kinds)) == len(kinds) == 20
