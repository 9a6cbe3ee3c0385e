"""Who pays for privacy: accuracy by group, and what each group loses by private training.

- `disparate_impact`: accuracies, losses and gaps of two models on the same examples, with simultaneous intervals.
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

__all__ = ["ConfidenceInterval", "DisparateImpact", "GroupImpact", "disparate_impact"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceInterval:
    """An estimate between the ends of its confidence interval."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.1%} [{self.low:.1%}, {self.high:.1%}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupImpact:
    """One group: how accurate both models are, and what it loses.

    Attributes:
        count: How many examples it has.
        plain: Accuracy of the model without privacy.
        private: Accuracy of the private one.
        loss: The difference, plain less private, on the same examples.
    """

    count: int
    plain: ConfidenceInterval
    private: ConfidenceInterval
    loss: ConfidenceInterval


@dataclass(frozen=True, slots=True, kw_only=True)
class DisparateImpact:
    """Accuracy by group; all intervals hold together with the stated confidence.

    Attributes:
        groups: By name.
        plain_gap: Best less worst accuracy of the groups, without privacy.
        private_gap: The same of the private model.
        loss_gap: Largest less smallest loss of accuracy by private training.
        confidence: With which all intervals hold at once.
    """

    groups: Mapping[Any, GroupImpact]
    plain_gap: ConfidenceInterval
    private_gap: ConfidenceInterval
    loss_gap: ConfidenceInterval
    confidence: float

    @property
    def is_disparate(self) -> bool:
        """Whether private training is shown to cost some group more accuracy than another."""
        return self.loss_gap.low > 0

    def __str__(self) -> str:
        worst = max(self.groups, key=lambda name: self.groups[name].loss.estimate)
        shown = "is shown" if self.is_disparate else "is not shown"
        return (
            f"Group {worst!r} loses most accuracy by private training, {self.groups[worst].loss}; that groups lose "
            f"unequally {shown} at {self.confidence:.0%} confidence (largest less smallest loss {self.loss_gap})."
        )


def disparate_impact(
    plain_correct: ArrayLike, private_correct: ArrayLike, groups: ArrayLike, *, confidence: float = 0.95
) -> DisparateImpact:
    """Compare two models, one trained privately, on the same held-out examples, group by group.

    Accuracies have Clopper-Pearson intervals. A loss is a difference of two models on one example; it has the interval
    that follows from those of its two kinds of change (right to wrong, wrong to right). The confidence is shared
    equally by all intervals of all groups (Bonferroni), and gaps follow from them: their interval holds wherever those
    of the groups do, whichever groups turn out to be the best and the worst.

    Args:
        plain_correct: Whether the model without privacy is right, for each example.
        private_correct: Whether the private one is.
        groups: The group of each example, such as its class.
        confidence: With which all intervals are to hold at once.

    Guarantee:
        All intervals cover the true accuracies, losses and gaps of *these two models* together, with probability
        ``confidence`` at least, whatever the numbers of examples; not those of other trainings by the same recipe.

    Assumes:
        Examples are drawn independently, and neither model was trained on them (the caller's duty); groups were chosen
        before looking at the results (the caller's duty). The figures are not private: they are about the examples as
        they are (the caller's duty, where those are people).

    References:
        Bagdasaryan, Poursaeed & Shmatikov 2019, "Differential privacy has disparate impact on model accuracy"; Clopper
        & Pearson 1934.

    >>> found = disparate_impact([1] * 80, [1] * 40 + [0] * 40, ["often"] * 40 + ["rare"] * 40)
    >>> found.is_disparate, round(found.groups["rare"].loss.low, 2)
    (True, 0.73)
    """
    plain, private, names = _aligned(plain_correct, private_correct, groups)
    level = check_confidence(confidence)
    each = np.unique(names)
    # Per group: two accuracies, and two kinds of change which make up the loss.
    significance = (1 - level) / (4 * len(each))
    found = {one.item(): _impact(plain[names == one], private[names == one], significance) for one in each}
    return DisparateImpact(
        groups=found,
        plain_gap=_gap([one.plain for one in found.values()]),
        private_gap=_gap([one.private for one in found.values()]),
        loss_gap=_gap([one.loss for one in found.values()]),
        confidence=level,
    )


def _aligned(plain: ArrayLike, private: ArrayLike, groups: ArrayLike) -> tuple[Bools, Bools, np.ndarray]:
    names = np.asarray(groups)
    if names.ndim != 1 or not names.size or names.dtype.kind not in "biuUS":
        raise InvalidArgument("groups", (names.dtype.name, names.shape), "one name or integer for each example")
    return mask("plain_correct", plain, names.shape), mask("private_correct", private, names.shape), names


def _impact(plain: Bools, private: Bools, significance: float) -> GroupImpact:
    count = len(plain)
    lost = _share(int((plain & ~private).sum()), count, significance)
    won = _share(int((~plain & private).sum()), count, significance)
    return GroupImpact(
        count=count,
        plain=_share(int(plain.sum()), count, significance),
        private=_share(int(private.sum()), count, significance),
        loss=ConfidenceInterval(
            estimate=lost.estimate - won.estimate, low=lost.low - won.high, high=lost.high - won.low
        ),
    )


def _share(successes: int, count: int, significance: float) -> ConfidenceInterval:
    """Return the two-sided Clopper-Pearson interval."""
    low, high = (float(clopper_pearson(successes, count, significance / 2, side)) for side in (Side.LOWER, Side.UPPER))
    return ConfidenceInterval(estimate=successes / count, low=low, high=high)


def _gap(parts: list[ConfidenceInterval]) -> ConfidenceInterval:
    estimates, lows, highs = ([getattr(one, end) for one in parts] for end in ("estimate", "low", "high"))
    low = max(0.0, max(lows) - min(highs))
    high = max(highs) - min(lows) if len(parts) > 1 else 0.0
    return ConfidenceInterval(estimate=max(estimates) - min(estimates), low=low, high=high)
