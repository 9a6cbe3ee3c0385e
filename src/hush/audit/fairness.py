"""Fairness: accuracy by group, and how much accuracy each group loses to private training.

`disparate_impact` compares a private model with an ordinary one on the same examples. It returns a `DisparateImpact`: a
`GroupImpact` for each group, and gaps between groups, each a `ConfidenceInterval`. All intervals hold simultaneously.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hush.audit.bounds.counts import Side, clopper_pearson
from hush.audit.bounds.result import check_confidence
from hush.audit.membership.signals import Bools, mask
from hush.errors import InvalidArgument

__all__ = ["disparate_impact"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceInterval:
    """An estimate with its confidence interval.

    >>> print(ConfidenceInterval(estimate=0.5, low=0.4, high=0.6))
    50.0% [40.0%, 60.0%]

    Attributes:
        estimate: The point estimate.
        low: The lower end of the interval.
        high: The upper end.
    """

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.1%} [{self.low:.1%}, {self.high:.1%}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupImpact:
    """The accuracy of both models on one group.

    >>> group = disparate_impact([1, 1, 1, 0], [1, 0, 1, 0], ["a"] * 4).groups["a"]
    >>> group.count, group.plain.estimate, group.private.estimate, group.loss.estimate
    (4, 0.75, 0.5, 0.25)

    Attributes:
        count: The number of examples in the group.
        plain: The accuracy of the model without privacy.
        private: The accuracy of the private model.
        loss: The accuracy lost, plain minus private, on the same examples.
    """

    count: int
    plain: ConfidenceInterval
    private: ConfidenceInterval
    loss: ConfidenceInterval


@dataclass(frozen=True, slots=True, kw_only=True)
class DisparateImpact:
    """Accuracy by group. All intervals hold simultaneously with the stated confidence.

    >>> result = disparate_impact([1] * 80, [1] * 40 + [0] * 40, ["common"] * 40 + ["rare"] * 40)
    >>> print(result)
    Group 'rare' loses the most accuracy to private training, 100.0% [73.1%, 100.0%]. Unequal losses are shown at 95%
    confidence (largest minus smallest loss 100.0% [59.7%, 113.4%]).

    Attributes:
        groups: The groups by name.
        plain_gap: The best minus the worst group accuracy, without privacy.
        private_gap: The same for the private model.
        loss_gap: The largest minus the smallest loss of accuracy.
        confidence: The simultaneous confidence of all intervals.
    """

    groups: Mapping[Any, GroupImpact]
    plain_gap: ConfidenceInterval
    private_gap: ConfidenceInterval
    loss_gap: ConfidenceInterval
    confidence: float

    @property
    def is_disparate(self) -> bool:
        """Whether the data show that private training costs one group more accuracy than another."""
        return self.loss_gap.low > 0

    def __str__(self) -> str:
        worst = max(self.groups, key=lambda name: self.groups[name].loss.estimate)
        shown = "are shown" if self.is_disparate else "are not shown"
        return (
            f"Group {worst!r} loses the most accuracy to private training, {self.groups[worst].loss}. Unequal losses "
            f"{shown} at {self.confidence:.0%} confidence (largest minus smallest loss {self.loss_gap})."
        )


def disparate_impact(
    plain_correct: ArrayLike, private_correct: ArrayLike, groups: ArrayLike, *, confidence: float = 0.95
) -> DisparateImpact:
    """Compare a private model with an ordinary one on the same held-out examples, group by group.

    Accuracies have Clopper-Pearson intervals. The loss of a group is the rate of examples that only the ordinary model
    predicts correctly, minus the rate of those that only the private model does; its interval follows from those of the
    two rates. All intervals of all groups share the error equally (Bonferroni). Gaps are computed from the intervals of
    the groups, so they hold whichever groups turn out to be the best and the worst.

    >>> result = disparate_impact([1] * 80, [1] * 40 + [0] * 40, ["common"] * 40 + ["rare"] * 40)
    >>> result.is_disparate, round(result.groups["rare"].loss.low, 2)
    (True, 0.73)

    Args:
        plain_correct: Whether the ordinary model is correct on each example.
        private_correct: Whether the private model is.
        groups: The group of each example, such as its class.
        confidence: The simultaneous confidence of all intervals.

    Returns:
        Accuracies, losses and gaps.

    Guarantee:
        With probability at least ``confidence``, all intervals together contain the true accuracies, losses and gaps of
        *these two models*, for any number of examples. They say nothing about other models from the same training
        recipe.

    Assumes:
        Examples were drawn independently, and neither model was trained on them (the caller's duty). Groups were chosen
        before looking at the results (the caller's duty). The figures are not private: if the examples are people's
        data, protecting them is the caller's duty.

    References:
        Bagdasaryan, Poursaeed & Shmatikov 2019, "Differential privacy has disparate impact on model accuracy"; Clopper
        & Pearson 1934.
    """
    plain, private, group_of = _aligned(plain_correct, private_correct, groups)
    level = check_confidence(confidence)
    names = np.unique(group_of)
    # Four intervals for each group: two accuracies, and the two rates that make up the loss.
    significance = (1 - level) / (4 * len(names))
    impacts = {name.item(): _impact(plain[group_of == name], private[group_of == name], significance) for name in names}
    return DisparateImpact(
        groups=impacts,
        plain_gap=_gap([impact.plain for impact in impacts.values()]),
        private_gap=_gap([impact.private for impact in impacts.values()]),
        loss_gap=_gap([impact.loss for impact in impacts.values()]),
        confidence=level,
    )


def _aligned(plain: ArrayLike, private: ArrayLike, groups: ArrayLike) -> tuple[Bools, Bools, np.ndarray]:
    group_of = np.asarray(groups)
    if group_of.ndim != 1 or not group_of.size or group_of.dtype.kind not in "biuUS":
        raise InvalidArgument("groups", (group_of.dtype.name, group_of.shape), "one name or integer for each example")
    return mask("plain_correct", plain, group_of.shape), mask("private_correct", private, group_of.shape), group_of


def _impact(plain: Bools, private: Bools, significance: float) -> GroupImpact:
    count = len(plain)
    # Paired examples: what both models get right, or wrong, cancels in the difference of accuracies.
    only_plain = _rate(int((plain & ~private).sum()), count, significance)
    only_private = _rate(int((~plain & private).sum()), count, significance)
    return GroupImpact(
        count=count,
        plain=_rate(int(plain.sum()), count, significance),
        private=_rate(int(private.sum()), count, significance),
        loss=ConfidenceInterval(
            estimate=only_plain.estimate - only_private.estimate,
            low=only_plain.low - only_private.high,
            high=only_plain.high - only_private.low,
        ),
    )


def _rate(successes: int, count: int, significance: float) -> ConfidenceInterval:
    """Return the two-sided Clopper-Pearson interval of a rate."""
    low, high = (float(clopper_pearson(successes, count, significance / 2, side)) for side in (Side.LOWER, Side.UPPER))
    return ConfidenceInterval(estimate=successes / count, low=low, high=high)


def _gap(intervals: list[ConfidenceInterval]) -> ConfidenceInterval:
    """Return an interval for the largest minus the smallest of several values."""
    estimates, lows, highs = ([getattr(interval, end) for interval in intervals] for end in ("estimate", "low", "high"))
    # The largest value is at least every lower end, and the smallest at most every upper end.
    low = max(0.0, max(lows) - min(highs))
    high = max(highs) - min(lows) if len(intervals) > 1 else 0.0
    return ConfidenceInterval(estimate=max(estimates) - min(estimates), low=low, high=high)
