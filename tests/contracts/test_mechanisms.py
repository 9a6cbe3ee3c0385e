"""The contract of every mechanism. The table in `mechanism_tables` enrols them."""

from __future__ import annotations

import dataclasses
import inspect
import math
import pickle

import numpy as np
import pytest

from contracts.naming import naming
from hush import mechanisms
from hush.accounting import Event, PldAccountant, RdpAccountant, ZcdpFilter
from hush.errors import HushError, InvalidArgument
from hush.guarantee import Relation, Unit
from hush.mechanisms import Mechanism
from hush.randomness import TestSource
from hush.randomness.source import SystemSource
from mechanism_tables import ROWS, Row

EVERY_ROW = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)


def test_every_mechanism_is_enrolled() -> None:
    public = {getattr(mechanisms, name) for name in mechanisms.__all__}
    concrete = {x for x in public if isinstance(x, type) and issubclass(x, Mechanism) and not inspect.isabstract(x)}
    assert concrete <= {type(row.mechanism) for row in ROWS.values()}


@EVERY_ROW
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


@EVERY_ROW
def test_events_and_mechanisms_are_values(row: Row) -> None:
    assert Event.from_json(row.mechanism.event.to_json()) == row.mechanism.event
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.mechanism.epsilon = 9.0  # type: ignore[attr-defined]
    if not hasattr(row.mechanism, "function"):
        assert pickle.loads(pickle.dumps(row.mechanism)) == row.mechanism


@EVERY_ROW
def test_test_randomness_repeats_and_is_marked(row: Row) -> None:
    results = [row.run(row.mechanism, row.data, TestSource(5)) for _ in range(2)]
    assert repr(results[0]) == repr(results[1])
    assert "test randomness" in row.mechanism.guarantee(TestSource(5)).assumptions
    assert "test randomness" not in row.mechanism.guarantee(SystemSource()).assumptions
    assert "test randomness" not in row.mechanism.guarantee().assumptions


@EVERY_ROW
def test_system_randomness_does_not_repeat(row: Row) -> None:
    # The most likely result has probability 0.64 (the monotone exponential mechanism): 80 equal results, 5e-16.
    results = {repr(row.run(row.mechanism, row.data, None)) for _ in range(80)}
    assert len(results) > 1 or type(row.mechanism) is mechanisms.StableValue


@EVERY_ROW
def test_hostile_data_are_answered(row: Row) -> None:
    for data in row.hostile:
        result = row.run(row.mechanism, data, None)
        if isinstance(result, (float, np.ndarray)):
            assert np.all(np.isfinite(result))


@EVERY_ROW
def test_invalid_epsilons_are_refused(row: Row) -> None:
    if any(field.name == "epsilon" for field in dataclasses.fields(row.mechanism)):
        for epsilon in (0, -1.0, math.nan, math.inf, "1", True, None):
            with naming(epsilon), pytest.raises(InvalidArgument, match="^epsilon="):
                dataclasses.replace(row.mechanism, epsilon=epsilon)


@EVERY_ROW
def test_predictable_generators_are_refused(row: Row) -> None:
    for source in (np.random.default_rng(1), 5, "system"):
        with naming(source), pytest.raises(InvalidArgument, match="^source="):
            row.run(row.mechanism, row.data, source)


SECRET = 48_151_623.42


SECRETS = [[SECRET, 1.0], [2.0]], ["48151623.42"], [[[SECRET]] * 2] * 2, {"a": SECRET}, b"48151623", [None, SECRET]


@EVERY_ROW
def test_no_message_contains_data(row: Row) -> None:
    for data in SECRETS:
        try:
            row.run(row.mechanism, data, None)
        except (HushError, TypeError, ValueError) as error:
            text = " ".join(str(part) for part in (error, error.__cause__ or "", *getattr(error, "__notes__", ())))
            assert "48151623" not in text, data


@EVERY_ROW
def test_accountants_of_another_relation_refuse(row: Row) -> None:
    """Another relation would halve the cost, or turn a claim into one about other neighbours."""
    for relation in set(Relation) - {row.mechanism.relation}:
        assert not PldAccountant(relation=relation).supports(row.mechanism.event)
        with pytest.raises(HushError, match="stated under"):
            RdpAccountant(relation=relation).compose(row.mechanism.event)
        with pytest.raises(HushError, match="stated under"):
            ZcdpFilter(epsilon=9.0, delta=1e-6, relation=relation).spend(row.mechanism.event)
    other = PldAccountant(relation=row.mechanism.relation, unit=Unit.user())
    assert not other.supports(row.mechanism.event), "a claim about examples is none about users"


@EVERY_ROW
def test_units_other_than_records_are_refused_or_qualified(row: Row) -> None:
    if row.mechanism.sensitivity_type.name not in ("RECORD", "CLIPPED", "SMOOTH"):
        return
    with pytest.raises(InvalidArgument, match="^unit="):
        dataclasses.replace(row.mechanism, unit=Unit.example().group(50))
    assert "each user has one record" in dataclasses.replace(row.mechanism, unit=Unit.user()).guarantee().assumptions


@EVERY_ROW
def test_numpy_settings_do_not_make_releases_raise(row: Row) -> None:
    with np.errstate(all="raise"):
        for data in (row.data, *row.hostile):
            row.run(row.mechanism, data, None)
