"""The interface of bound methods, and how threshold rules drive it.

A `BoundMethod` turns a `Sample` into a `MethodBound` at a given error level. The threshold rule (`thresholds.py`)
decides which of its methods `apply_rule` calls. `audit.py` wraps the outcome in an `AuditResult`.
"""

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
    """The error level of a bound.

    Attributes:
        error: The probability with which the bound may fail.
        delta: The delta at which epsilon is bounded.
    """

    error: float
    delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodBound:
    """A bound on epsilon and the numbers behind it.

    Attributes:
        lower: The lower bound.
        point: The point estimate: the bound if the observed rates were exact.
        num_in: Members that the bound used.
        num_out: Non-members that the bound used.
        mu_lower: A lower bound on mu of Gaussian differential privacy, if the method has one.
        details: Counts and thresholds, for the result.
    """

    lower: float
    point: float
    num_in: int
    num_out: int
    mu_lower: float | None = None
    details: Mapping[str, float | int | str] = field(default_factory=dict)


class BoundMethod(ABC):
    """Base class of the methods that bound epsilon. Pass an instance to `hush.audit.audit_scores`.

    >>> from hush.audit import ClopperPearson, audit_scores
    >>> isinstance(ClopperPearson(), BoundMethod)
    True
    >>> audit_scores([1.0] * 50, [0.0] * 50, method=ClopperPearson()).method
    'Clopper-Pearson'

    Attributes:
        description: The method in a few words, for the result.
        assumptions: Assumptions that are not checked, one sentence each.
        bound: `Bound.LOWER` for a confidence bound, `Bound.ESTIMATE` for anything weaker.
        default_rule: The threshold rule that applies if you pass none.
    """

    description: str
    assumptions: tuple[str, ...]
    bound = Bound.LOWER
    default_rule: ThresholdRule | None = Bonferroni()

    @abstractmethod
    def bound_at(self, sample: Sample, threshold: float, level: Level) -> MethodBound:
        """Bound epsilon at a threshold that does not depend on the sample."""

    @abstractmethod
    def bound_at_best(self, sample: Sample, level: Level) -> MethodBound:
        """Bound epsilon at the best threshold, corrected for the search."""

    @abstractmethod
    def choose_threshold(self, sample: Sample, level: Level) -> float:
        """Return the threshold that looks best on a sample. Its bound on the same sample would not be valid."""

    def split(self, sample: Sample, fraction: float, rng: np.random.Generator) -> tuple[Sample, Sample]:
        """Split a sample into a part that chooses the threshold and a part that the bound uses."""
        return sample.stratified(fraction, rng)

    def bound_without_rule(self, sample: Sample, level: Level) -> MethodBound:
        """Bound epsilon if the method itself fixes the guesses."""
        raise InvalidArgument("threshold", None, "a threshold rule", f"{type(self).__name__} has no default")


@singledispatch
def apply_rule(rule: ThresholdRule | None, method: BoundMethod, sample: Sample, level: Level) -> MethodBound:
    """Bound epsilon by a method under a threshold rule, or under the method's own fixed guesses if the rule is None."""
    # Only registered rules are known to correct for their choice.
    if rule is not None:
        raise Unsupported(f"{type(rule).__name__}: not a threshold rule of hush.audit", "Use e.g. Bonferroni()")
    return method.bound_without_rule(sample, level)


@apply_rule.register
def _(rule: Explicit, method: BoundMethod, sample: Sample, level: Level) -> MethodBound:
    return method.bound_at(sample, rule.threshold, level)


@apply_rule.register
def _(rule: Bonferroni, method: BoundMethod, sample: Sample, level: Level) -> MethodBound:
    return method.bound_at_best(sample, level)


@apply_rule.register
def _(rule: SplitScores, method: BoundMethod, sample: Sample, level: Level) -> MethodBound:
    return _bound_by_split(rule.fraction, np.random.default_rng(rule.rng), method, sample, level)


@apply_rule.register
def _(rule: MultiSplit, method: BoundMethod, sample: Sample, level: Level) -> MethodBound:
    # At half the error, half of the splits fail together with probability at most level.error (see `MultiSplit`).
    rng, half_level = np.random.default_rng(rule.rng), Level(level.error / 2, level.delta)
    bounds = [_bound_by_split(rule.fraction, rng, method, sample, half_level) for _ in range(rule.num_splits)]
    # At least half of the splits reach the median bound; for an even number of splits, take the upper median.
    bounds.sort(key=lambda bound: -bound.lower)
    return bounds[math.ceil(len(bounds) / 2) - 1]


def _bound_by_split(
    fraction: float, rng: np.random.Generator, method: BoundMethod, sample: Sample, level: Level
) -> MethodBound:
    # The threshold is a function of the first part only.
    first, second = method.split(sample, fraction, rng)
    return method.bound_at(second, method.choose_threshold(first, level), level)
