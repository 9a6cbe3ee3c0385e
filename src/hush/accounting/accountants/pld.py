"""The privacy loss distribution accountant: the default, and the tightest.

events         unfold into dominating pairs, for each change of the data (`losses.pairs`)
alternatives   if a record can be in one of several parts, one composition per case; the worst one counts
losses         each alternative's pairs, composed numerically (`losses.solver.ComposedLoss`)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from typing import Self

from hush.accounting.accountants.accountant import Accountant
from hush.accounting.accountants.zcdp import ZcdpAccountant
from hush.accounting.events import ComposedEvent, Event, ExponentialMechanismEvent, parts_of
from hush.accounting.losses.pairs import Alternative, Change, all_sums, alternatives, changes, merge_gaussians
from hush.accounting.losses.saddle_point import CountedPair
from hush.accounting.losses.solver import DEFAULT_ACCURACY, ComposedLoss
from hush.accounting.losses.substitutes import attained, without_bins
from hush.errors import InvalidArgument, Unsupported, check_delta, check_epsilon, check_positive
from hush.guarantee import Relation, Unit


class PldAccountant(Accountant):
    """Composes privacy loss distributions numerically, with certified bounds on both sides.

    Every event has a dominating pair of distributions. Their privacy losses are put on a lattice, once from above and
    once from below, and composed in the frequency domain under an exponential tilt, which makes rounding errors
    relative to delta. The bounds account for rounding, wrap-around and truncation. ``accuracy`` determines how fine the
    lattice is.

    >>> from hush.accounting import GaussianEvent, PoissonSampledEvent
    >>> accountant = PldAccountant().compose(PoissonSampledEvent(GaussianEvent(1.0), 0.01), 1000)
    >>> lower, upper = accountant.interval(delta=1e-5)
    >>> round(upper, 3), upper <= lower * (1 + 1e-4)
    (1.828, True)

    Args:
        relation: How neighbouring datasets differ.
        unit: The privacy unit; by default an example.
        accuracy: The relative error of epsilon to aim for, between 1e-8 and 0.1.

    Guarantee:
        `epsilon` and `delta` are upper bounds. `interval` also gives a lower bound, so the gap bounds the error; its
        docstring says of what.

    Assumes:
        Noise was drawn as the events say (the caller's duty). The events were fixed in advance: outcomes may decide
        what is computed next, but not its privacy parameters (the caller's duty; for parameters chosen adaptively use
        `RdpFilter` or `ZcdpFilter`). Each event's dominating pair is proven for the relation (checked here: others are
        refused).

    References:
        Sommer, Meiser & Mohammadi 2019 (privacy loss distributions); Koskela, Jaelkoe & Honkela 2020 (FFT); Doroshenko
        et al. 2022 (connecting the dots: our upper lattice); Zhu, Dong & Wang 2022, Theorem 10 (dominating pairs
        compose, also adaptively); Cesar & Rogers 2021 (exponential mechanisms, where that is the smaller bound). The
        lower lattice, the tilt and the certificate are this package's own: ``losses/lattice.py`` and
        ``losses/composition.py`` derive them.
    """

    method = "privacy loss distribution"

    def __init__(
        self,
        *,
        relation: Relation = Relation.ADD_OR_REMOVE,
        unit: Unit | None = None,
        accuracy: float = DEFAULT_ACCURACY,
    ) -> None:
        """Start without events."""
        super().__init__(relation=relation, unit=unit)
        # Below 1e-8 rounding errors, not the grid, limit the accuracy.
        if not 1e-8 <= check_positive("accuracy", accuracy) <= 0.1:
            raise InvalidArgument("accuracy", accuracy, "between 1e-8 and 0.1")
        self._accuracy = float(accuracy)
        self._options: dict[Change, list[Alternative]] = {change: [Counter()] for change in changes(relation)}

    def interval(self, delta: float) -> tuple[float, float]:
        """Return certified bounds (lower, upper) on epsilon.

        The upper one holds for all mechanisms that the events describe. The lower one is what the composed dominating
        pairs lose, and so what some mechanisms lose, if there are any with these pairs. For exponential mechanisms,
        there are none: the lower bound is what mechanisms of two outcomes lose instead. Some pairs are bounds
        themselves, so that no mechanism may lose as much as the lower bound: that of balls-in-bins sampling, which is
        computed from above (by about 1e-5 of epsilon), those of steps that are allocated several times and of shuffled
        reports, and those of exponential mechanisms on samples and of different events on disjoint parts, if there are
        several.
        """
        check_delta("delta", delta)
        intervals = [loss.epsilon_interval(delta, self._accuracy) for loss in self._losses]
        upper = min(max((high for _, high in intervals), default=0.0), self._other_epsilon(delta))
        lower = 0.0
        for (low, _), losses in zip(intervals, self._attained, strict=True):
            lower = max(lower, max((loss.epsilon_interval(delta, self._accuracy)[0] for loss in losses), default=low))
        return min(lower, upper), upper

    def delta_interval(self, epsilon: float) -> tuple[float, float]:
        """Return certified bounds (lower, upper) on delta, as `interval` does."""
        check_epsilon("epsilon", epsilon)
        upper = self._delta(epsilon)
        # The truth is the maximum over all losses, so any lower bound of one of them holds for it.
        lower = 0.0
        for composed, losses in zip(self._losses, self._attained, strict=True):
            lower = max(lower, *(loss.delta_lower(epsilon, self._accuracy) for loss in losses or [composed]))
        return min(lower, upper), upper

    def compose(self, event: Event, count: int = 1) -> Self:
        """Return an accountant with ``event`` appended ``count`` times."""
        result = super().compose(event, count)
        appended = result.events[-1]
        # Alternatives multiply with every event, so they are kept per change and merged where they are equal.
        result._options = {
            change: all_sums(options, alternatives(appended, change), appended)
            for change, options in self._options.items()
        }
        return result

    def _settings(self) -> dict[str, object]:
        return {"_accuracy": self._accuracy}

    def _check(self, event: Event) -> None:
        for change in changes(self.relation):
            alternatives(event, change)

    @cached_property
    def _losses(self) -> list[ComposedLoss]:
        """The composed loss of every change and alternative. The worst of them counts."""
        # Gaussians without sampling compose in closed form, and need no lattice.
        return [ComposedLoss(parts) for parts in self._compositions]

    @cached_property
    def _compositions(self) -> list[tuple[CountedPair, ...]]:
        merged = [tuple(merge_gaussians(option)) for options in self._options.values() for option in options]
        return list(dict.fromkeys(merged))

    @cached_property
    def _attained(self) -> list[list[ComposedLoss]]:
        """For each composed loss, the losses of mechanisms that exist where it has exponential mechanisms."""
        return [[ComposedLoss(parts) for parts in attained(composition)] for composition in self._compositions]

    @cached_property
    def _without_bins(self) -> list[ComposedLoss]:
        """Each composed loss, with a plain Gaussian in place of each balls-in-bins sampling."""
        merged = [tuple(merge_gaussians(without_bins(parts))) for parts in self._compositions]
        return [ComposedLoss(parts) for parts in dict.fromkeys(merged)]

    def _epsilon(self, delta: float) -> float:
        worst = 0.0
        for loss in self._losses:
            # A rough bound often shows that this one is not the worst.
            if worst > 0 and loss.epsilon_upper(delta, math.sqrt(self._accuracy)) <= worst:
                continue
            worst = max(worst, loss.epsilon_upper(delta, self._accuracy))
        return min(worst, self._other_epsilon(delta))

    def _other_epsilon(self, delta: float) -> float:
        """Return what proves less than the composed pairs in some cases, else infinity."""
        other = self._concentrated(lambda accountant: accountant.epsilon(delta))
        if any(loss.is_truncated(delta) for loss in self._losses):
            other = min(other, max(loss.epsilon_upper(delta, self._accuracy) for loss in self._without_bins))
        return other

    def _delta(self, epsilon: float) -> float:
        # The neighbours that are easiest to tell apart decide.
        worst = max((loss.delta_upper(epsilon, self._accuracy) for loss in self._losses), default=0.0)
        if any(loss.is_truncated(worst) for loss in self._losses):
            worst = min(worst, max(loss.delta_upper(epsilon, self._accuracy) for loss in self._without_bins))
        return min(worst, self._concentrated(lambda accountant: accountant.delta(epsilon)))

    def _concentrated(self, bound: Callable[[ZcdpAccountant], float]) -> float:
        """Return a bound by concentrated differential privacy where it may be the smaller one, else infinity.

        No pair of distributions has the curve of all mechanisms of bounded range: the largest of their curves at each
        epsilon is no mechanism's own. So its composition exceeds that of epsilon^2 / 8-zCDP if there are many.
        """
        if not any(map(_has_bounded_range, self.events)):
            return math.inf
        accountant = ZcdpAccountant(relation=self.relation, unit=self.unit)
        try:
            accountant._check(ComposedEvent(self.events))
        except Unsupported:
            return math.inf
        accountant.events = self.events
        return bound(accountant)


def _has_bounded_range(event: Event) -> bool:
    """Return whether an event is an exponential mechanism, or has one inside."""
    return isinstance(event, ExponentialMechanismEvent) or any(map(_has_bounded_range, parts_of(event)))
