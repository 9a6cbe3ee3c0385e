"""From events to dominating pairs: each is the pair that the mechanism defines, or a refusal that says why."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from accounting.losses.cases import EVERY_KNOWN_CASE, Case, directions
from hush.accounting import (
    Accountant,
    BallsInBinsEvent,
    BasicAccountant,
    ComposedEvent,
    Event,
    FixedSizeSampledEvent,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    ParallelByIndexEvent,
    ParallelEvent,
    PldAccountant,
    PoissonSampledEvent,
    RdpAccountant,
    SelfComposedEvent,
    ZcdpAccountant,
)
from hush.accounting.events import ExponentialMechanismEvent, RandomizedResponseEvent
from hush.accounting.losses.noise_profiles import GaussianProfile, LaplaceProfile
from hush.accounting.losses.pairs import (
    Change,
    Direction,
    all_sums,
    alternatives,
    changes,
    leaf_pair,
    merge_gaussians,
    parts_that_differ,
)
from hush.accounting.losses.profile import DominatingPair, PointwiseMax
from hush.errors import Unsupported
from hush.guarantee import Relation

REMOVE, ADD = changes(Relation.ADD_OR_REMOVE)
(REPLACE,) = changes(Relation.REPLACE)


@EVERY_KNOWN_CASE
def test_the_profile_is_the_integral_that_defines_it(case: Case) -> None:
    assert case.truth is not None
    for pair, swapped in directions(case):
        for epsilon in (0.0, 1e-3, 0.05, 0.3, 0.77, 1.0, 2.0, 3.5, 6.0):
            for profile, other in ((pair.forward, swapped), (pair.backward, not swapped)):
                truth = case.truth.delta(epsilon, swapped=other)
                value = float(profile.delta(np.array([epsilon]))[0])
                assert value == pytest.approx(truth, rel=1e-5, abs=1e-13), (epsilon, other)


def test_changes_and_their_shifts() -> None:
    assert (REMOVE.direction, ADD.direction, REPLACE.direction) == tuple(Direction)
    assert [change.shift for change in (REMOVE, ADD, REPLACE)] == [1, 1, 2]
    assert Change(Direction.REPLACE, Relation.REPLACE, size=3).shift == 6
    assert changes(Relation.ZERO_OUT)[0].direction is Direction.REMOVE


def test_addition_swaps_the_pair_of_a_removal() -> None:
    event = PoissonSampledEvent(GaussianEvent(1.0), 0.1)
    assert leaf_pair(event, ADD) == leaf_pair(event, REMOVE).swapped()


def test_compositions_unfold_into_multisets() -> None:
    event = ComposedEvent((GaussianEvent(2.0), SelfComposedEvent(LaplaceEvent(3.0), 4), GaussianEvent(2.0)))
    (option,) = alternatives(event, REMOVE)
    assert sorted(option.values()) == [2, 4]
    (replaced,) = alternatives(event, REPLACE)
    assert {type(pair.forward) for pair in replaced} == {GaussianProfile, LaplaceProfile}
    assert max(pair.forward.mu for pair in replaced if isinstance(pair.forward, GaussianProfile)) == 1.0


def test_gaussians_merge_by_their_squares() -> None:
    (option,) = alternatives(ComposedEvent((GaussianEvent(1 / 3), GaussianEvent(1 / 4), LaplaceEvent(2.0))), REMOVE)
    (gaussian, count), (laplace, _) = merge_gaussians(option)
    assert count == 1
    assert isinstance(gaussian.forward, GaussianProfile)
    assert 5.0 <= gaussian.forward.mu <= 5.0 * (1 + 1e-15), "rounded up, never down"
    assert isinstance(laplace.forward, LaplaceProfile)
    assert merge_gaussians(Counter()) == []


def test_parts_of_single_mechanisms_become_one_worst_pair() -> None:
    for kind in (ParallelEvent, ParallelByIndexEvent):
        (option,) = alternatives(kind((GaussianEvent(1.0), LaplaceEvent(2.0))), REMOVE)
        ((pair, count),) = option.items()
        assert isinstance(pair.forward, PointwiseMax)
        assert count == 1
    assert len(alternatives(ParallelEvent((GaussianEvent(1.0), GaussianEvent(1.0))), REMOVE)) == 1


def test_a_replaced_record_may_move_between_parts() -> None:
    options = alternatives(ParallelEvent((GaussianEvent(1.0), LaplaceEvent(2.0))), REPLACE)
    # It stays in either part, or leaves one and enters the other, in both directions.
    assert sorted(option.total() for option in options) == [1, 1, 2]


def test_sums_of_alternatives() -> None:
    first, second = (DominatingPair.symmetric(GaussianProfile(mu)) for mu in (0.1, 0.2))
    options = all_sums([Counter({first: 1}), Counter({second: 1})], [Counter({first: 1})], GaussianEvent(1.0))
    assert options == [Counter({first: 2}), Counter({second: 1, first: 1})]


@pytest.mark.parametrize(
    ("event", "change", "words"),
    [
        (RandomizedResponseEvent(1.0), REMOVE, "removing a person also removes their report"),
        (FixedSizeSampledEvent(GaussianEvent(1.0), 1, 9), REMOVE, "proven for one replaced record"),
        (PoissonSampledEvent(LaplaceEvent(1.0), 0.1), REPLACE, "no dominating pair is proven"),
        (GroupEvent(ExponentialMechanismEvent(1.0), 2), REMOVE, "the claim covers one record"),
        (GroupEvent(ParallelEvent((GaussianEvent(1.0),)), 2), REMOVE, "may be in several parts"),
        (
            PoissonSampledEvent(ComposedEvent((GaussianEvent(1.0), LaplaceEvent(1.0))), 0.1),
            REMOVE,
            "several mechanisms on the same sample",
        ),
        (PoissonSampledEvent(GroupEvent(GaussianEvent(1.0), 2), 0.1), REMOVE, "records or whole groups"),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_refusals_say_why(event: Event, change: Change, words: str) -> None:
    with pytest.raises(Unsupported, match=words):
        alternatives(event, change)


def test_too_many_alternatives_are_refused() -> None:
    part = ParallelEvent(
        (ComposedEvent((GaussianEvent(2.0), LaplaceEvent(3.0))), ComposedEvent((GaussianEvent(1.0), LaplaceEvent(9.0))))
    )
    assert len(alternatives(SelfComposedEvent(part, 100), REMOVE)) == 101
    with pytest.raises(Unsupported, match="more than 200 cases|too many cases"):
        alternatives(SelfComposedEvent(part, 300), REMOVE)


def test_unsampled_and_single_binned_events_are_the_mechanism_itself() -> None:
    exact = leaf_pair(GaussianEvent(1.5), REMOVE)
    for event in (PoissonSampledEvent(GaussianEvent(1.5), 1.0), BallsInBinsEvent(GaussianEvent(1.5), 1)):
        profile = leaf_pair(event, REMOVE).forward
        assert isinstance(profile, GaussianProfile)
        assert 1 / 1.5 <= profile.mu <= 1 / 1.5 * (1 + 1e-15)
    assert float(exact.forward.delta(np.zeros(1))[0]) == pytest.approx(math.erf(1 / (2 * math.sqrt(2) * 1.5)))


def test_equal_parts_are_counted_once() -> None:
    """Three thousand parts that are alike took 211 s and 4 GB: nine million pairs of a part left and a part entered."""
    many = ParallelEvent((LaplaceEvent(2.0),) * 3000)
    few = ParallelEvent((LaplaceEvent(2.0),) * 2)
    assert alternatives(many, REPLACE) == alternatives(few, REPLACE)
    assert len(alternatives(many, REPLACE)) == 2
    assert len(parts_that_differ(ParallelEvent((LaplaceEvent(2.0), LaplaceEvent(3.0), LaplaceEvent(2.0))))) == 3
    (alone,) = alternatives(ParallelEvent((LaplaceEvent(2.0),)), REPLACE)
    assert alone.total() == 1, "there is no other part to enter"


@pytest.mark.parametrize("kind", [PldAccountant, RdpAccountant, ZcdpAccountant, BasicAccountant])
def test_all_pairs_of_parts_are_covered(kind: type[Accountant]) -> None:
    """The costliest pair decides: the cost is that of its two parts, and of all the others there is no trace."""
    scales = [5.0, 2.0, 9.0, 5.0, 2.5]
    accountant = kind(relation=Relation.REPLACE)
    together = accountant.compose(ParallelEvent(tuple(map(LaplaceEvent, scales)))).epsilon(1e-6)
    costliest = accountant.compose(ParallelEvent((LaplaceEvent(2.0), LaplaceEvent(2.5)))).epsilon(1e-6)
    twice = accountant.compose(ParallelEvent((LaplaceEvent(9.0),) * 3 + (LaplaceEvent(30.0),))).epsilon(1e-6)
    assert together == pytest.approx(costliest, rel=1e-5)
    alike = accountant.compose(ParallelEvent((LaplaceEvent(9.0), LaplaceEvent(9.0)))).epsilon(1e-6)
    assert twice == pytest.approx(alike, rel=1e-5)


def test_many_distinct_parts_merge_into_the_worst() -> None:
    parts = tuple(LaplaceEvent(2.0 + index / 8) for index in range(60))
    accountant = PldAccountant(relation=Relation.REPLACE)
    merged = accountant.compose(ParallelEvent(parts)).epsilon(1e-6)
    exact = accountant.compose(ParallelEvent(parts[:2])).epsilon(1e-6)
    assert exact <= merged <= 1.0 < 1.07 * exact


def test_sampled_groups_have_a_limit() -> None:
    with pytest.raises(Unsupported, match="groups of up to 20000"):
        alternatives(GroupEvent(PoissonSampledEvent(GaussianEvent(9.0), 0.1), 20_001), REMOVE)
