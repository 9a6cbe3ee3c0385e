"""The privacy loss distribution accountant: the default, and the tightest.

events         unfold into dominating pairs, for each change of the data (`losses.pairs`)
alternatives   if a record can be in one of several parts, one composition per case; the worst one counts
losses         each alternative's pairs, composed numerically (`losses.solver.ComposedLoss`)
"""

from __future__ import annotations

import math
from collections import Counter
from functools import cached_property
from typing import Self

from hush.accounting.accountants.accountant import Accountant
from hush.accounting.events import Event
from hush.accounting.losses.pairs import Alternative, Change, all_sums, alternatives, changes, merge_gaussians
from hush.accounting.losses.solver import DEFAULT_ACCURACY, ComposedLoss
from hush.errors import InvalidArgument, check_delta, check_epsilon, check_positive
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
        `epsilon` and `delta` are upper bounds. `interval` also gives a lower bound on the epsilon of the composed
        dominating pairs, so the gap bounds the numerical error.

    Assumes:
        Noise was drawn as the events say (the caller's duty). The events were fixed in advance: outcomes may decide
        what is computed next, but not its privacy parameters (the caller's duty; for parameters chosen adaptively use
        `RdpFilter` or `ZcdpFilter`). Each event's dominating pair is proven for the relation (checked here: others are
        refused).

    References:
        Sommer, Meiser & Mohammadi 2019 (privacy loss distributions); Koskela, Jaelkoe & Honkela 2020 (FFT); Doroshenko
        et al. 2022 (connecting the dots: our upper lattice); Zhu, Dong & Wang 2022, Theorem 10 (dominating pairs
        compose, also adaptively). The lower lattice, the tilt and the certificate are this package's own:
        ``losses/lattice.py`` and ``losses/composition.py`` derive them.
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
        """Return certified bounds (lower, upper) on the epsilon of the composed dominating pairs."""
        check_delta("delta", delta)
        intervals = [loss.epsilon_interval(delta, self._accuracy) for loss in self._losses]
        return max((low for low, _ in intervals), default=0.0), max((high for _, high in intervals), default=0.0)

    def delta_interval(self, epsilon: float) -> tuple[float, float]:
        """Return certified bounds (lower, upper) on the delta of the composed dominating pairs."""
        check_epsilon("epsilon", epsilon)
        upper = self._delta(epsilon)
        # The truth is the maximum over all losses, so any lower bound of one of them holds for it.
        lower = max((loss.delta_lower(epsilon, self._accuracy) for loss in self._losses), default=0.0)
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
        merged = [tuple(merge_gaussians(option)) for options in self._options.values() for option in options]
        return [ComposedLoss(parts) for parts in dict.fromkeys(merged)]

    def _epsilon(self, delta: float) -> float:
        worst = 0.0
        for loss in self._losses:
            # A rough bound often shows that this one is not the worst.
            if worst > 0 and loss.epsilon_upper(delta, math.sqrt(self._accuracy)) <= worst:
                continue
            worst = max(worst, loss.epsilon_upper(delta, self._accuracy))
        return worst

    def _delta(self, epsilon: float) -> float:
        # The neighbours that are easiest to tell apart decide.
        return max((loss.delta_upper(epsilon, self._accuracy) for loss in self._losses), default=0.0)
