"""The one release of a test: totals of rows, at most one row of each unit, with noise.

A test counts every unit once, by one random row of it. Rows of one person are not independent, and a test that took
them for independent would have a wrong level, private or not. Rows are drawn before groups are looked at: a random
group, or cell, of those that a person has rows in would make rare cells look frequent.

Every row adds weights that are at least 0 and add up to 1, so that one unit moves all totals together by at most 1 in
L1 norm, and in L2 norm: the cost is that of a single count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting import Event
from hush.accounting.budget import Budget, Charge
from hush.accounting.receipts import Receipt, check_budget, receipt_of
from hush.errors import InvalidArgument, check_confidence, check_count
from hush.guarantee import Guarantee
from hush.randomness import RandomSource
from hush.statistics.bounding import bounded
from hush.statistics.columns import MISSING, as_array
from hush.statistics.hypotheses.result import HypothesisResult
from hush.statistics.hypotheses.simulation import NoiseModel
from hush.statistics.limits import ContributionLimits
from hush.statistics.noise.release import Block, NoiseKind
from hush.statistics.request import StatisticRequest, checked_request

Floats = NDArray[np.float64]

_MAX_DRAWS = 10**7
_NUMBERS = (bool, int, float, Decimal, Fraction)
_TYPES_OF_KIND: dict[str, tuple[type, ...]] = {
    **dict.fromkeys("biuf", _NUMBERS),
    "U": (str,),
    "S": (bytes,),
    "m": (timedelta,),
    "M": (date,),  # and datetime, which is a subclass
}
_MORE_DRAWS = "Take more simulations, or a smaller confidence"


@dataclass(frozen=True, slots=True)
class NoisyTotals:
    """Noisy totals, their noise, and what they cost.

    Attributes:
        totals: An array (groups, columns), in rows.
        noise: The noise that they have.
        rng: The generator of simulations.
        draws: How many datasets to simulate for each setting of the nuisances.
        confidence: The confidence of intervals.
        guarantee: The guarantee.
        event: The event.
        receipt: The receipt; None without a ledger.
    """

    totals: Floats
    noise: NoiseModel
    rng: np.random.Generator
    draws: int
    confidence: float
    guarantee: Guarantee
    event: Event
    receipt: Receipt | None

    def result(
        self,
        hypothesis: str,
        p_value: float,
        statistic: float,
        *,
        is_hidden: bool,
        interval: tuple[float, float | None, float | None] | None = None,
    ) -> HypothesisResult:
        """Return the result of a test.

        Args:
            hypothesis: The null hypothesis, in words.
            p_value: The p-value.
            statistic: The statistic.
            is_hidden: Whether the noise hides the data.
            interval: The estimate, and the ends of its interval, if the test has them.
        """
        estimate, low, high = interval or (None, None, None)
        return HypothesisResult(
            hypothesis=hypothesis,
            p_value=1.0 if is_hidden else p_value,
            statistic=statistic,
            estimate=estimate,
            low=low,
            high=high,
            confidence=self.confidence,
            is_hidden=is_hidden,
            totals=self.totals,
            noise_scale=self.noise.plan.block_scales[0] * self.noise.unit,
            guarantee=self.guarantee,
            event=self.event,
            receipt=self.receipt,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseTerms:
    """What all tests take besides the data; the arguments are those of `compare_means`."""

    units: Any
    epsilon: float
    delta: float
    noise: NoiseKind | None
    confidence: float
    num_simulations: int
    source: RandomSource | None
    budget: Budget | None

    def request(self, values: Any, groups: Any = None, keys: Any = None) -> StatisticRequest:
        """Return the checked request: one row of each unit, in public groups."""
        check_budget(self.budget)
        if not 19 <= check_count("num_simulations", self.num_simulations) <= _MAX_DRAWS:
            raise InvalidArgument("num_simulations", self.num_simulations, f"a number from 19 to {_MAX_DRAWS}")
        wrong = 1 - check_confidence("confidence", self.confidence)
        if not wrong * (self.num_simulations + 1) >= 1 - 1e-9:  # the margin is for the rounding of 1 - confidence
            most = f"at most 1 - 1 / (num_simulations + 1) = {1 - 1 / (self.num_simulations + 1):.10g}"
            raise InvalidArgument("confidence", self.confidence, most, "Draws show no rarer events", _MORE_DRAWS)
        return checked_request(
            values,
            units=self.units,
            rows_per_unit=1,
            epsilon=self.epsilon,
            delta=self.delta,
            groups=groups,
            keys=keys,
            groups_per_unit=1,
            noise=self.noise,
            selection=None,
            confidence=self.confidence,
            source=self.source,
        )

    def release(
        self, request: StatisticRequest, present: NDArray[np.bool_], weights: NDArray[np.int64], steps: int, test: str
    ) -> NoisyTotals:
        """Charge the budget, and then return the noisy totals.

        Args:
            request: The request.
            present: The rows that can be used.
            weights: What each row adds: integers that are at least 0 and add up to ``steps``.
            steps: The integer that stands for one row; 1 for counts.
            test: The name of the test, for the ledger.
        """
        block = Block.disjoint(steps, columns=weights.shape[1], whole=steps == 1)
        plan = request.plan((block,))
        guarantee, event = plan.claim(request.source, unit=request.unit)
        reservation = None
        if self.budget is not None:
            charge = Charge(event=event, purpose=test, delta=guarantee.delta or None)
            reservation = self.budget.reserve(charge)
        contributions = request.bound(_one_row_of_each_unit(request, present))
        totals = contributions.totals(weights[contributions.rows])
        noisy = plan.noise.release(totals, request.source) / steps
        if reservation is not None:
            reservation.commit()  # before anyone sees a number; if anything fails above, the reservation stays
        return NoisyTotals(
            noisy,
            NoiseModel(plan.noise, 1 / steps),
            np.random.default_rng([int(word) for word in request.source.words(4)]),
            int(self.num_simulations),
            request.confidence,
            guarantee,
            event,
            None if reservation is None else receipt_of(reservation, guarantee),
        )


def check_key_types(name: str, column: Any, keys: Sequence[Any]) -> None:
    """Refuse an array whose type none of the keys has, before anything is charged: no row could be used.

    Only the type of an array is looked at, which is public. The types of a list's entries are data.
    """
    array = as_array(column)
    if array is not None and not any(isinstance(key, _TYPES_OF_KIND[array.dtype.kind]) for key in keys):
        advice = "No row could be used. Convert the column, or write the keys in its type"
        raise InvalidArgument(f"{name}.dtype", str(array.dtype), "a type that some key has", advice)


def _one_row_of_each_unit(request: StatisticRequest, present: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a mask with one random row of each unit, among its rows that can be used."""
    units = np.where(present & (request.groups >= 0), request.units, MISSING)
    one_group = np.zeros(len(units), dtype=np.int64)
    mask = np.zeros(len(units), dtype=np.bool_)
    mask[bounded(units, one_group, 1, limits=ContributionLimits(), source=request.source).rows] = True
    return mask
