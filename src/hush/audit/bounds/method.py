"""What every way to a bound can do, and how the threshold rules use it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import singledispatch

import numpy as np

from hush.audit.bounds.sample import Sample
from hush.audit.bounds.thresholds import Bonferroni, Explicit, MultiSplit, SplitScores, ThresholdRule
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Bound


@dataclass(frozen=True, slots=True)
class Level:
    """What may fail, and at which delta epsilon is meant."""

    error: float
    delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodBound:
    """A bound and what it came from."""

    lower: float
    point: float
    num_in: int
    num_out: int
    mu_lower: float | None = None
    details: Mapping[str, float | int | str] = field(default_factory=dict)


class BoundMethod(ABC):
    """A way to bound epsilon; its subclasses are values that `audit_scores` takes."""

    description: str
    assumptions: tuple[str, ...]
    bound = Bound.LOWER
    default: ThresholdRule | None = Bonferroni()

    @abstractmethod
    def at(self, sample: Sample, threshold: float, level: Level) -> MethodBound:
        """Bound epsilon by a threshold that does not depend on the sample."""

    @abstractmethod
    def everywhere(self, sample: Sample, level: Level) -> MethodBound:
        """Bound epsilon by the best threshold, corrected for the choice."""

    @abstractmethod
    def choose(self, sample: Sample, level: Level) -> float:
        """Return the threshold that looks best on a sample; no claim is made from it."""

    def split(self, sample: Sample, fraction: float, rng: np.random.Generator) -> tuple[Sample, Sample]:
        """Split the scores in two for a choice and a bound."""
        return sample.stratified(fraction, rng)

    def fixed(self, sample: Sample, level: Level) -> MethodBound:
        """Bound epsilon where the method itself says which guesses are made."""
        raise InvalidArgument("threshold", None, "a threshold rule", f"{type(self).__name__} has none of its own")


@singledispatch
def apply_rule(rule: ThresholdRule | None, method: BoundMethod, sample: Sample, level: Level) -> MethodBound:
    """Bound epsilon by a method under a threshold rule."""
    if rule is not None:
        raise Unsupported(f"{type(rule).__name__}: it is no threshold rule of hush.audit", "Use e.g. Bonferroni()")
    return method.fixed(sample, level)


@apply_rule.register
def _(rule: Explicit, method: BoundMethod, sample: Sample, level: Level) -> MethodBound:
    return method.at(sample, rule.threshold, level)


@apply_rule.register
def _(rule: Bonferroni, method: BoundMethod, sample: Sample, level: Level) -> MethodBound:
    return method.everywhere(sample, level)


@apply_rule.register
def _(rule: SplitScores, method: BoundMethod, sample: Sample, level: Level) -> MethodBound:
    return _one_split(rule.fraction, np.random.default_rng(rule.seed), method, sample, level)


@apply_rule.register
def _(rule: MultiSplit, method: BoundMethod, sample: Sample, level: Level) -> MethodBound:
    rng, half = np.random.default_rng(rule.seed), Level(level.error / 2, level.delta)
    found = [_one_split(rule.fraction, rng, method, sample, half) for _ in range(rule.num_splits)]
    # At least half of the splits reach the bound of the one in the middle (of an even number, the upper middle).
    found.sort(key=lambda finding: -finding.lower)
    return found[math.ceil(len(found) / 2) - 1]


def _one_split(
    fraction: float, rng: np.random.Generator, method: BoundMethod, sample: Sample, level: Level
) -> MethodBound:
    first, second = method.split(sample, fraction, rng)
    return method.at(second, method.choose(first, level), level)
