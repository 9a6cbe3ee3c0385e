"""Every public function and event refuses NaN, negative, infinite and wrong-typed inputs, in one grammar."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from contracts.naming import naming
from hush import accounting as hush
from hush.accounting import GaussianEvent, PldAccountant, RdpAccountant, events
from hush.errors import InvalidArgument
from hush.guarantee import Relation
from hush.lab import composition

GRAMMAR = re.compile(r"(?P<name>[a-z_]+)=(?P<value>.+): expected (?P<what>.+?)\.( .+[.!?:])?", re.DOTALL)

NO_NUMBER = [math.nan, -1, -1e-300, math.inf, -math.inf, "1", b"1", "", True, None, 1j, [1.0], (1,), {}, object()]
NO_NUMBER += [np.array([0.5, 0.5]), np.array(0.5), np.float64("nan"), np.float64("inf"), 10**400, GaussianEvent(1.0)]
NO_COUNT = [*(bad for bad in NO_NUMBER if not isinstance(bad, int) or bad < 2), 1.5, 2.0, np.float64(3.0), "3"]
NO_EVENT = [None, 1, "gaussian", GaussianEvent, {"kind": "gaussian"}, [GaussianEvent(1.0)], PldAccountant()]
NO_EVENTS = [None, 1, "ab", GaussianEvent(1.0), [1], [GaussianEvent], [None], ["gaussian"]]
NO_RELATION = ["replace", None, 1, Relation]
BAD = {"number": NO_NUMBER, "count": NO_COUNT, "event": NO_EVENT, "events": NO_EVENTS, "relation": NO_RELATION}


@dataclass(frozen=True)
class Call:
    """A public callable, arguments that it accepts, and the kind of value that each of them is."""

    call: Callable[..., Any]
    good: dict[str, Any]
    kinds: dict[str, str]
    also_bad: dict[str, list[Any]] = field(default_factory=dict)


TARGET = {"epsilon": 1.0, "delta": 1e-5}
TARGET_KINDS = {"epsilon": "number", "delta": "number"}
STARTED = PldAccountant().compose(GaussianEvent(2.0))
RENYI = RdpAccountant().compose(GaussianEvent(2.0))

CALLS: dict[str, Call] = {
    "GaussianEvent": Call(
        hush.GaussianEvent,
        {"noise_multiplier": 1.0},
        {"noise_multiplier": "number"},
        {"noise_multiplier": [0, 1e-9, 1e9]},
    ),
    "LaplaceEvent": Call(hush.LaplaceEvent, {"scale": 1.0}, {"scale": "number"}, {"scale": [0, 1e-9, 1e9]}),
    "ProjectedGaussianEvent": Call(
        events.ProjectedGaussianEvent,
        {"noise_multiplier": 1.0, "projections": 20},
        {"noise_multiplier": "number", "projections": "count"},
        {"noise_multiplier": [0, 1e-9, 1e9], "projections": [0, 10**7]},
    ),
    "DiscreteGaussianEvent": Call(
        events.DiscreteGaussianEvent,
        {"sigma": 1.0, "sensitivity": 1},
        {"sigma": "number", "sensitivity": "count"},
        {"sigma": [0], "sensitivity": [0]},
    ),
    "DiscreteLaplaceEvent": Call(
        events.DiscreteLaplaceEvent,
        {"scale": 1.0, "sensitivity": 1},
        {"scale": "number", "sensitivity": "count"},
        {"scale": [0], "sensitivity": [0]},
    ),
    "NoisyMaxEvent": Call(events.NoisyMaxEvent, {"epsilon": 1.0}, {"epsilon": "number"}, {"epsilon": [0, 1e9]}),
    "ExponentialMechanismEvent": Call(
        events.ExponentialMechanismEvent, {"epsilon": 1.0}, {"epsilon": "number"}, {"epsilon": [0, 1e9]}
    ),
    "RandomizedResponseEvent": Call(
        events.RandomizedResponseEvent,
        {"epsilon": 1.0, "num_values": 2},
        {"epsilon": "number", "num_values": "count"},
        {"epsilon": [0], "num_values": [0, 1]},
    ),
    "ApproximateDPEvent": Call(
        hush.ApproximateDPEvent, {"epsilon": 1.0, "delta": 1e-5}, TARGET_KINDS, {"epsilon": [1e9], "delta": [1, 1.5]}
    ),
    "ZeroConcentratedDPEvent": Call(hush.ZeroConcentratedDPEvent, {"rho": 1.0}, {"rho": "number"}),
    "PoissonSampledEvent": Call(
        hush.PoissonSampledEvent,
        {"event": GaussianEvent(1.0), "sampling_rate": 0.1},
        {"event": "event", "sampling_rate": "number"},
        {"sampling_rate": [0, 1.0001, 1e-300]},
    ),
    "FixedSizeSampledEvent": Call(
        hush.FixedSizeSampledEvent,
        {"event": GaussianEvent(1.0), "batch_size": 2, "dataset_size": 9},
        {"event": "event", "batch_size": "count", "dataset_size": "count"},
        {"batch_size": [0, 10], "dataset_size": [0, 1]},
    ),
    "BallsInBinsEvent": Call(
        hush.BallsInBinsEvent,
        {"event": GaussianEvent(1.0), "num_bins": 9},
        {"event": "event", "num_bins": "count"},
        {"num_bins": [0, 10**7]},
    ),
    "AllocatedEvent": Call(
        hush.AllocatedEvent,
        {"event": GaussianEvent(1.0), "num_steps": 9, "times": 2},
        {"event": "event", "num_steps": "count", "times": "count"},
        {"num_steps": [0, 10**7], "times": [0, 10]},
    ),
    "ShuffledEvent": Call(
        hush.ShuffledEvent,
        {"event": GaussianEvent(1.0), "num_reports": 9},
        {"event": "event", "num_reports": "count"},
        {"num_reports": [0, 10**10]},
    ),
    "ComposedEvent": Call(hush.ComposedEvent, {"events": (GaussianEvent(1.0),)}, {"events": "events"}),
    "SelfComposedEvent": Call(
        hush.SelfComposedEvent, {"event": GaussianEvent(1.0), "count": 2}, {"event": "event", "count": "count"}
    ),
    "ParallelEvent": Call(
        hush.ParallelEvent, {"events": (GaussianEvent(1.0),)}, {"events": "events"}, {"events": [()]}
    ),
    "ParallelByIndexEvent": Call(
        hush.ParallelByIndexEvent, {"events": (GaussianEvent(1.0),)}, {"events": "events"}, {"events": [()]}
    ),
    "GroupEvent": Call(
        hush.GroupEvent, {"event": GaussianEvent(1.0), "size": 2}, {"event": "event", "size": "count"}, {"size": [0]}
    ),
    "RepeatNegativeBinomialEvent": Call(
        events.RepeatNegativeBinomialEvent,
        {"event": GaussianEvent(1.0), "gamma": 0.1, "shape": 1.0},
        {"event": "event", "gamma": "number", "shape": "number"},
        {"gamma": [0, 1, 2]},
    ),
    "RepeatPoissonEvent": Call(
        events.RepeatPoissonEvent,
        {"event": GaussianEvent(1.0), "mean": 2.0},
        {"event": "event", "mean": "number"},
        {"mean": [0]},
    ),
    "epsilon": Call(
        hush.epsilon,
        {"noise_multiplier": 1.0, "sampling_rate": 0.1, "num_steps": 3, "delta": 1e-5, "relation": Relation.REPLACE},
        {
            "noise_multiplier": "number",
            "sampling_rate": "number",
            "num_steps": "count",
            "delta": "number",
            "relation": "relation",
        },
        {"delta": [1, 2.0], "sampling_rate": [0, 1.5]},
    ),
    "calibrate_noise": Call(
        hush.calibrate_noise,
        {**TARGET, "sampling_rate": 0.1, "num_steps": 3, "relation": Relation.ADD_OR_REMOVE},
        {**TARGET_KINDS, "sampling_rate": "number", "num_steps": "count", "relation": "relation"},
        {"epsilon": [0], "delta": [1], "num_steps": [0], "accountant": ["pld", None, PldAccountant(), int]},
    ),
    "calibrate_steps": Call(
        hush.calibrate_steps,
        {**TARGET, "noise_multiplier": 3.0, "sampling_rate": 0.1, "relation": Relation.ADD_OR_REMOVE},
        {**TARGET_KINDS, "noise_multiplier": "number", "sampling_rate": "number", "relation": "relation"},
        {"epsilon": [0], "delta": [1], "accountant": ["pld", None, int]},
    ),
    "calibrate_release_epsilon": Call(
        hush.calibrate_release_epsilon,
        {**TARGET, "count": 10, "relation": Relation.ADD_OR_REMOVE},
        {**TARGET_KINDS, "count": "count", "relation": "relation"},
        {"epsilon": [0], "delta": [1], "count": [0], "accountant": ["pld", None, int]},
    ),
    "calibrate_sampling_rate": Call(
        hush.calibrate_sampling_rate,
        {**TARGET, "noise_multiplier": 3.0, "num_steps": 10, "relation": Relation.ADD_OR_REMOVE},
        {**TARGET_KINDS, "noise_multiplier": "number", "num_steps": "count", "relation": "relation"},
        {"epsilon": [0], "delta": [1], "accountant": ["pld", None, int]},
    ),
    "calibrate_count": Call(
        lambda **arguments: hush.calibrate_count(
            template=lambda n: hush.SelfComposedEvent(GaussianEvent(9.0), n), **arguments
        ),
        {**TARGET, "maximum": 8, "relation": Relation.ADD_OR_REMOVE},
        {**TARGET_KINDS, "maximum": "count", "relation": "relation"},
    ),
    "basic_composition": Call(
        composition.basic_composition, {**TARGET, "count": 3}, {**TARGET_KINDS, "count": "count"}, {"delta": [1]}
    ),
    "advanced_composition": Call(
        composition.advanced_composition,
        {**TARGET, "count": 3, "slack": 1e-6},
        {**TARGET_KINDS, "count": "count", "slack": "number"},
        {"slack": [0, 1]},
    ),
    "optimal_composition": Call(
        composition.optimal_composition,
        {**TARGET, "count": 3, "total_delta": 1e-3},
        {**TARGET_KINDS, "count": "count", "total_delta": "number"},
        {"total_delta": [1]},
    ),
    "sampling_amplification": Call(
        composition.sampling_amplification,
        {**TARGET, "sampling_rate": 0.1},
        {**TARGET_KINDS, "sampling_rate": "number"},
        {"sampling_rate": [0, 1.5]},
    ),
    "parallel_composition": Call(
        composition.parallel_composition,
        {"claims": [(0.1, 0.0)], "relation": Relation.REPLACE},
        {"relation": "relation"},
        {"claims": [[], None, 3, [1.0], [(0.1,)], "ab", [(math.nan, 0.0)], [(0.1, 1.0)], [(0.1, "0")], [None]]},
    ),
    "Box": Call(
        hush.Box,
        {"kinds": {GaussianEvent(25.0): 40}},
        {},
        {
            "kinds": [
                *(None, 3, {}, (), "ab", [(GaussianEvent(1.0), 1)], (1, 2), {3: 1}),
                *({GaussianEvent(1.0): number} for number in (0, -1, 1.5, True, math.nan, None, "1", 10**12)),
            ]
        },
    ),
    "PureFilter": Call(
        hush.PureFilter,
        {**TARGET, "relation": Relation.REPLACE},
        {**TARGET_KINDS, "relation": "relation"},
        {"delta": [1], "unit": ["user", 3]},
    ),
    "ZcdpFilter": Call(
        hush.ZcdpFilter,
        {**TARGET, "relation": Relation.REPLACE},
        {**TARGET_KINDS, "relation": "relation"},
        {"delta": [0, 1], "unit": ["user", 3]},
    ),
    "RdpFilter": Call(
        hush.RdpFilter,
        {**TARGET, "order": 20.0, "relation": Relation.REPLACE},
        {**TARGET_KINDS, "order": "number", "relation": "relation"},
        {"delta": [0, 1], "order": [0, 1, 1.0], "unit": ["user", 3]},
    ),
    "RdpOdometer": Call(
        hush.RdpOdometer,
        {"delta": 1e-5, "relation": Relation.REPLACE},
        {"delta": "number", "relation": "relation"},
        {"delta": [0, 1]},
    ),
    "PldAccountant": Call(
        hush.PldAccountant,
        {"relation": Relation.REPLACE, "accuracy": 1e-5},
        {"relation": "relation", "accuracy": "number"},
        {"accuracy": [0, 1.0, 1e-30], "unit": ["user", 3]},
    ),
    "RdpAccountant": Call(
        hush.RdpAccountant, {"relation": Relation.REPLACE}, {"relation": "relation"}, {"unit": ["user", 3]}
    ),
    "compose": Call(STARTED.compose, {"event": GaussianEvent(1.0), "count": 2}, {"event": "event", "count": "count"}),
    "supports": Call(STARTED.supports, {"event": GaussianEvent(1.0)}, {"event": "event"}),
    "accountant.epsilon": Call(STARTED.epsilon, {"delta": 1e-5}, {"delta": "number"}, {"delta": [1, 1.5]}),
    "accountant.delta": Call(STARTED.delta, {"epsilon": 1.0}, {"epsilon": "number"}),
    "accountant.guarantee": Call(STARTED.guarantee, {"delta": 1e-5}, {"delta": "number"}, {"delta": [1, 1.5]}),
    "interval": Call(STARTED.interval, {"delta": 1e-5}, {"delta": "number"}, {"delta": [1]}),
    "delta_interval": Call(STARTED.delta_interval, {"epsilon": 1.0}, {"epsilon": "number"}),
    "renyi": Call(RENYI.renyi, {"order": 2.0}, {"order": "number"}, {"order": [0, 1, 0.5]}),
    "best_order": Call(RENYI.best_order, {"delta": 1e-5}, {"delta": "number"}, {"delta": [0, 1]}),
    "accountant.max_tpr": Call(STARTED.max_tpr, {"fpr": 0.1}, {"fpr": "number"}, {"fpr": [1.5]}),
}
FIELDS = [
    pytest.param(
        call, name, [*BAD.get(call.kinds.get(name, ""), []), *call.also_bad.get(name, [])], id=f"{which}-{name}"
    )
    for which, call in CALLS.items()
    for name in dict.fromkeys([*call.kinds, *call.also_bad])
]


def refusal_of(call: Callable[[], Any], value: Any) -> str:
    """Return the message about a wrong value."""
    with naming(value), pytest.raises(InvalidArgument) as refusal:
        call()
    return str(refusal.value)


def test_every_public_name_is_enrolled() -> None:
    abstract = {"Accountant", "Event"}
    same_constructor = {"ZcdpAccountant", "GdpAccountant", "BasicAccountant", "AdvancedAccountant"}
    assert set(hush.__all__) - abstract - same_constructor <= set(CALLS)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_good_arguments_are_good(call: Call) -> None:
    call.call(**call.good)


@pytest.mark.parametrize(("call", "name", "values"), FIELDS)
def test_refused(call: Call, name: str, values: list[Any]) -> None:
    for value in values:
        message = refusal_of(lambda value=value: call.call(**{**call.good, name: value}), value)
        assert GRAMMAR.fullmatch(message), (value, message)


@pytest.mark.parametrize("kind", [hush.PureFilter, hush.ZcdpFilter])
def test_only_events_are_spent(kind: Any) -> None:
    budget = kind(epsilon=1.0, delta=1e-5)
    for value in NO_EVENT:
        for spend in (budget.spend, budget.can_spend, hush.RdpOdometer(delta=1e-5).spend):
            message = refusal_of(lambda value=value, spend=spend: spend(value), value)
            assert message.startswith("event="), (value, message)
