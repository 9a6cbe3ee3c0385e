"""Which groups are revealed: as often as (epsilon, delta) allows, and not more often."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest
from scipy.stats import binom

import hush.statistics as hs
from hush.accounting import ApproximateDPEvent, ComposedEvent, GaussianEvent, PldAccountant
from hush.guarantee import Unit
from hush.randomness import TestSource
from hush.statistics.noise import selection as selection

KINDS = [hs.Selection.truncated_geometric(), hs.Selection.laplace_threshold(), hs.Selection.gaussian_threshold()]


@pytest.mark.parametrize(
    ("epsilon", "delta", "groups"), [(1.0, 1e-5, 1), (0.1, 1e-3, 3), (3.0, 1e-9, 10), (8.0, 0.1, 2)]
)
def test_probabilities_are_private_and_as_large_as_can_be(epsilon: float, delta: float, groups: int) -> None:
    plan = hs.Selection.truncated_geometric().plan(groups_per_unit=groups, epsilon=epsilon, delta=delta)
    assert isinstance(plan, selection._Probabilities)
    units = np.arange(0, int(4 * groups / epsilon * math.log(1 / delta)) + 100)
    chance = plan.probability(units)
    per_group, part = -math.expm1(math.log1p(-delta) / groups), epsilon / groups
    before, after = chance[:-1], chance[1:]
    grows = np.minimum(math.exp(part) * before + per_group, 1 - math.exp(-part) * (1 - before - per_group))
    assert chance[0] == 0
    assert chance[-1] == 1
    assert (after >= before).all()
    assert (after <= np.minimum(grows, 1) + 1e-15).all()
    # And the other way round: that a group is missing reveals no more.
    assert (1 - before <= math.exp(part) * (1 - after) + per_group + 1e-15).all()
    assert (after >= np.minimum(grows, 1) * (1 - 1e-4)).all()


def test_a_known_value() -> None:
    # Desfontaines et al. 2022: the first unit of a group shows it with probability delta.
    plan = hs.Selection.truncated_geometric().plan(groups_per_unit=1, epsilon=1.0, delta=1e-5)
    assert isinstance(plan, selection._Probabilities)
    assert plan.probability(np.array([1]))[0] == pytest.approx(1e-5, rel=5e-5)
    assert plan.probability(np.array([2]))[0] == pytest.approx(1e-5 * (math.e + 1), rel=5e-5)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_a_group_of_one_unit_is_revealed_with_delta_at_most(kind: hs.Selection) -> None:
    delta, groups, trials = 0.02, 2, 100_000
    plan = kind.plan(groups_per_unit=groups, epsilon=1.0, delta=delta)
    revealed = int(plan.choose(np.ones(trials, dtype=np.int64), TestSource(1)).sum())
    part = 0.5 if isinstance(kind, selection.GaussianThreshold) else 1.0
    per_group = -math.expm1(math.log1p(-delta * part) / groups)
    assert revealed <= binom.isf(1e-8, trials, per_group)
    assert revealed >= binom.ppf(1e-8, trials, per_group) * 0.2  # thresholds are integers
    assert not plan.choose(np.zeros(1000, dtype=np.int64), TestSource(2)).any()
    assert plan.choose(np.full(1000, 200), TestSource(3)).all()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_the_event_stays_within_the_budget(kind: hs.Selection) -> None:
    plan = kind.plan(groups_per_unit=3, epsilon=0.5, delta=1e-6)
    assert PldAccountant().compose(plan.event).epsilon(1e-6) <= 0.5 * (1 + 1e-6)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_groups_of_many_units_are_revealed_others_are_not(kind: hs.Selection) -> None:
    groups = ["large"] * 500 + ["small"] * 3 + [f"lone {index}" for index in range(50)]
    units = [*range(500), *range(3), *range(50)]
    settings = {
        "units": units,
        "groups": groups,
        "selection": kind,
        "epsilon": 1.0,
        "delta": 1e-9,
        "groups_per_unit": 2,
    }
    result = hs.count(units, **settings, source=TestSource(4))
    # False alarms: of 50 lone units, each is revealed with 1e-9 at most; three together with a few times that.
    assert result.keys == ("large",)
    assert abs(result["large"].value - 500) < 120
    assert PldAccountant(unit=Unit.user()).compose(result.event).epsilon(1e-9) <= 1.0 + 1e-6
    with pytest.raises(KeyError):
        result["small"]


def test_the_optimal_selection_reveals_more_groups() -> None:
    sizes = np.repeat(np.arange(1, 60), 200)
    revealed = [
        kind.plan(groups_per_unit=1, epsilon=1.0, delta=1e-6).choose(sizes, TestSource(5)).sum() for kind in KINDS
    ]
    assert revealed[0] > max(revealed[1:])


def test_a_unit_in_many_groups_shows_few_of_them() -> None:
    groups, units = [f"mine {index}" for index in range(1000)], [1] * 1000
    with mock.patch.object(selection._Probabilities, "choose", lambda plan, num_units, source: num_units > 0):
        result = hs.count(units, units=units, groups=groups, groups_per_unit=3, epsilon=1.0, delta=1e-6)
    assert len(result.keys or ()) == 3


@pytest.mark.parametrize("steps", [1, 1024])
def test_a_threshold_for_a_given_multiplier(steps: int) -> None:
    delta, groups, trials = 0.02, 2, 100_000
    plan = selection.plan_threshold(noise_multiplier=0.5, groups_per_unit=groups, delta=delta, steps=steps)
    assert plan.event == ComposedEvent((GaussianEvent(0.5), ApproximateDPEvent(0.0, delta)))
    revealed = int(plan.choose(np.ones(trials, dtype=np.int64), TestSource(1)).sum())
    per_group = -math.expm1(math.log1p(-delta) / groups)
    # False alarms: 1e-8 on either side. With one step per count, the threshold is an integer.
    assert revealed <= binom.isf(1e-8, trials, per_group)
    assert revealed >= (binom.ppf(1e-8, trials, per_group) * 0.97 if steps > 1 else 0)
    assert not plan.choose(np.zeros(1000, dtype=np.int64), TestSource(2)).any()
    assert plan.choose(np.full(1000, 200), TestSource(3)).all()
