"""One contract for every mechanism, enrolled by the table of `mechanism_tables`."""

from __future__ import annotations

import dataclasses
import inspect
import math
import pickle
from typing import Any

import numpy as np
import pytest

from hush import mechanisms
from hush.accounting import Event, PldAccountant, RdpAccountant
from hush.errors import HushError, InvalidArgument
from hush.guarantee import Relation, Unit
from hush.mechanisms import Gaussian, Laplace, Mechanism, compose
from hush.randomness import SystemSource, TestSource
from mechanism_tables import ROWS, Row

EACH = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)


def test_every_mechanism_is_enrolled() -> None:
    public = {getattr(mechanisms, name) for name in mechanisms.__all__}
    concrete = {x for x in public if isinstance(x, type) and issubclass(x, Mechanism) and not inspect.isabstract(x)}
    assert concrete <= {type(row.mechanism) for row in ROWS.values()}


@EACH
def test_a_release_costs_what_the_event_says(row: Row) -> None:
    mechanism, claim = row.mechanism, row.mechanism.guarantee()
    assert claim.relation is mechanism.relation
    for kind in (PldAccountant, RdpAccountant):
        accountant = kind(relation=mechanism.relation)
        if accountant.supports(mechanism.event):
            epsilon = accountant.compose(mechanism.event).epsilon(claim.delta)
            assert epsilon <= claim.epsilon * (1 + 1e-9) or kind is RdpAccountant
            assert epsilon >= 0.4 * claim.epsilon, "an event far below the claim would be suspicious"
            break
    else:
        raise AssertionError("no accountant takes the event")


@EACH
def test_events_and_mechanisms_are_values(row: Row) -> None:
    assert Event.from_json(row.mechanism.event.to_json()) == row.mechanism.event
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.mechanism.epsilon = 9.0  # type: ignore[attr-defined]
    if not hasattr(row.mechanism, "function"):
        assert pickle.loads(pickle.dumps(row.mechanism)) == row.mechanism


@EACH
def test_test_randomness_repeats_and_is_marked(row: Row) -> None:
    results = [row.run(row.mechanism, row.data, TestSource(5)) for _ in range(2)]
    assert repr(results[0]) == repr(results[1])
    assert "test randomness" in row.mechanism.guarantee(TestSource(5)).assumptions
    assert "test randomness" not in row.mechanism.guarantee(SystemSource()).assumptions
    assert "test randomness" not in row.mechanism.guarantee().assumptions


@EACH
def test_system_randomness_does_not_repeat(row: Row) -> None:
    results = {repr(row.run(row.mechanism, row.data, None)) for _ in range(80)}
    assert len(results) > 1 or type(row.mechanism) is mechanisms.StableValue


@EACH
def test_hostile_data_are_answered(row: Row) -> None:
    for data in row.hostile:
        result = row.run(row.mechanism, data, None)
        if isinstance(result, (float, np.ndarray)):
            assert np.all(np.isfinite(result))


@EACH
@pytest.mark.parametrize("epsilon", [0, -1.0, math.nan, math.inf, "1", True, None])
def test_epsilons_that_promise_nothing_are_refused(row: Row, epsilon: Any) -> None:
    if any(field.name == "epsilon" for field in dataclasses.fields(row.mechanism)):
        with pytest.raises(InvalidArgument, match="^epsilon="):
            dataclasses.replace(row.mechanism, epsilon=epsilon)


@EACH
@pytest.mark.parametrize("source", [np.random.default_rng(1), 5, "system"])
def test_predictable_generators_are_refused(row: Row, source: Any) -> None:
    with pytest.raises(InvalidArgument, match="^source="):
        row.run(row.mechanism, row.data, source)


SECRET = 48_151_623.42


@EACH
@pytest.mark.parametrize(
    "data", [[[SECRET, 1.0], [2.0]], ["48151623.42"], [[[SECRET]] * 2] * 2, {"a": SECRET}, b"48151623", [None, SECRET]]
)
def test_no_message_tells_the_data(row: Row, data: Any) -> None:
    try:
        row.run(row.mechanism, data, None)
    except (HushError, TypeError, ValueError) as error:
        text = " ".join(str(part) for part in (error, error.__cause__ or "", *getattr(error, "__notes__", ())))
        assert "48151623" not in text


def test_composition_refuses_different_neighbours_and_units() -> None:
    one = Laplace(epsilon=1.0, sensitivity=1.0)
    event = compose(one, one.release(3.0), Gaussian(epsilon=1.0, delta=1e-6, sensitivity=1.0))
    assert len(event.events) == 3
    for other in ({"relation": Relation.REPLACE}, {"unit": Unit.user()}):
        with pytest.raises(HushError, match="^parts"):
            compose(one, Laplace(epsilon=1.0, sensitivity=1.0, **other))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="^parts="):
        compose(one, 3)  # type: ignore[arg-type]
