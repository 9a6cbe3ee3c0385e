"""How threshold rules drive a method."""

from __future__ import annotations

import numpy as np
import pytest

from hush.audit import Bonferroni, ClopperPearson, Explicit, MultiSplit, SplitScores
from hush.audit.bounds.method import BoundMethod, Level, MethodBound, apply_rule
from hush.audit.bounds.sample import Sample
from hush.audit.bounds.thresholds import ThresholdRule
from hush.errors import InvalidArgument, Unsupported

LEVEL = Level(0.1, 0.0)


class Recorder(BoundMethod):
    """A method whose bound is the mean member score, and which records what it was asked for."""

    description = "recorder"
    assumptions = ()

    def __init__(self) -> None:
        self.thresholds: list[float] = []
        self.errors: list[float] = []

    def bound_at(self, sample: Sample, threshold: float, level: Level) -> MethodBound:
        self.thresholds.append(threshold)
        self.errors.append(level.error)
        return MethodBound(lower=float(sample.inside.mean()), point=0.0, num_in=sample.num_in, num_out=sample.num_out)

    def bound_at_best(self, sample: Sample, level: Level) -> MethodBound:
        return self.bound_at(sample, -1.0, level)

    def choose_threshold(self, sample: Sample, level: Level) -> float:
        return float(sample.inside.max())


@pytest.fixture
def sample() -> Sample:
    return Sample.of(np.arange(20.0), np.arange(30.0))


def test_an_explicit_threshold_is_used_as_it_is(sample: Sample) -> None:
    method = Recorder()
    apply_rule(Explicit(2.5), method, sample, LEVEL)
    assert (method.thresholds, method.errors) == ([2.5], [0.1])


def test_bonferroni_leaves_the_search_to_the_method(sample: Sample) -> None:
    method = Recorder()
    apply_rule(Bonferroni(), method, sample, LEVEL)
    assert method.thresholds == [-1.0]


def test_a_split_chooses_on_one_part_and_bounds_on_the_other(sample: Sample) -> None:
    method = Recorder()
    bound = apply_rule(SplitScores(fraction=0.4, rng=3), method, sample, LEVEL)
    first, second = sample.stratified(0.4, np.random.default_rng(3))
    assert (bound.num_in, bound.num_out) == (12, 18)
    assert method.thresholds == [first.inside.max()]
    assert bound.lower == second.inside.mean()


@pytest.mark.parametrize("num_splits", [1, 4, 5])
def test_many_splits_give_the_median_at_half_the_error(sample: Sample, num_splits: int) -> None:
    method = Recorder()
    bound = apply_rule(MultiSplit(num_splits=num_splits), method, sample, LEVEL)
    assert method.errors == [0.05] * num_splits
    rng = np.random.default_rng(0)
    bounds = [sample.stratified(0.5, rng)[1].inside.mean() for _ in range(num_splits)]
    # At least half of the splits reach the bound, and no larger bound has that property.
    assert 2 * sum(value >= bound.lower for value in bounds) >= num_splits
    assert 2 * sum(value > bound.lower for value in bounds) < num_splits


def test_a_method_without_fixed_guesses_needs_a_rule(sample: Sample) -> None:
    with pytest.raises(InvalidArgument, match="^threshold=None"):
        apply_rule(None, ClopperPearson(), sample, LEVEL)


def test_unknown_rules_are_refused(sample: Sample) -> None:
    class Unknown(ThresholdRule):
        description = "unknown"

    with pytest.raises(Unsupported, match="Unknown"):
        apply_rule(Unknown(), Recorder(), sample, LEVEL)
