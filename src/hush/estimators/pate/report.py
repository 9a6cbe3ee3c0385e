"""Publishes a data-dependent cost, with noise scaled to smooth sensitivity and a safety margin.

Apart from the answers, this is the only number depending on the votes that PATE releases.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.accounting import ApproximateDPEvent, Event, renyi_to_epsilon
from hush.errors import InvalidArgument, check_count, check_positive, check_probability
from hush.estimators.pate.aggregators import VoteAggregator, VoteAnswers
from hush.estimators.pate.costs import RawCost, raw_cost
from hush.mechanisms import SmoothLaplace
from hush.randomness import RandomSource, source_or_default


@dataclass(frozen=True, slots=True, kw_only=True)
class DataDependentCost(ABC):
    """The publishable bound on the privacy loss of the answers, for one unit of *these* data.

    It is not a guarantee for all data, and not a `hush.Guarantee`. Budgets are charged by the guarantee, which holds
    for any data. Its exact meaning depends on the aggregator, so each meaning has its own type: `DivergenceCost`
    or `ExPostCost`.

    Attributes:
        epsilon: Epsilon of the answers and the report.
        delta: Delta of the answers and the report.
        order: Renyi order at which costs were added up.
        confidence: Probability with which the published cost is not below the true one.

    >>> from hush.estimators.pate.report import DivergenceCost, ExPostCost
    >>> [issubclass(kind, DataDependentCost) for kind in (DivergenceCost, ExPostCost)]
    [True, True]
    """

    epsilon: float
    delta: float
    order: float
    confidence: float

    @staticmethod
    @abstractmethod
    def epsilon_of(cost: float, order: float, delta: float) -> float:
        """Convert the sum of costs at one Renyi order to epsilon.

        Args:
            cost: Sum of the costs.
            order: Renyi order.
            delta: Delta of the answers.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceCost(DataDependentCost):
    """The cost if every query is answered (`LNMax`, `GNMax`): a bound on a divergence.

    With probability ``confidence``, for these data D and every neighbour D': P[M(D) in S] <= e^epsilon P[M(D') in S] +
    delta for every set S of outputs, where M is the answers and this report.

    Attributes:
        epsilon: Epsilon of the answers and the report.
        delta: Delta of the answers and the report.
        order: Renyi order at which costs were added up.
        confidence: Probability with which the published cost is not below the true one.

    >>> DivergenceCost(epsilon=0.8, delta=2e-6, order=20.0, confidence=0.99).epsilon
    0.8
    """

    @staticmethod
    def epsilon_of(cost: float, order: float, delta: float) -> float:
        # Canonne, Kamath & Steinke 2020, Proposition 12.
        return float(renyi_to_epsilon(np.array([cost]), np.array([order]), delta)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class ExPostCost(DataDependentCost):
    """The cost if outcomes decide what is asked, and paid for, next (`ConfidentGNMax`, `InteractiveGNMax`).

    The costs then add up to a random number, which bounds no divergence. With probability ``confidence``, it bounds the
    loss of the answers o that came out, for these data D and every neighbour D': ln P[o | D] / P[o | D'] <= epsilon
    minus that of the report, except with probability delta minus that of the report. The report adds its own (epsilon,
    delta).

    Attributes:
        epsilon: Epsilon of the answers and the report.
        delta: Delta of the answers and the report.
        order: Renyi order at which costs were added up.
        confidence: Probability with which the published cost is not below the true one.

    >>> ExPostCost(epsilon=0.8, delta=2e-6, order=20.0, confidence=0.99).epsilon
    0.8
    """

    @staticmethod
    def epsilon_of(cost: float, order: float, delta: float) -> float:
        # E exp((order - 1)(loss - costs)) <= 1 holds step by step, whatever outcomes decide. So by Markov's inequality
        # P(loss > costs + t) <= e^(-(order - 1) t) = delta. The conversion of divergences is tighter, but says nothing
        # about the ex-post loss.
        return cost - math.log(delta) / (order - 1)


def cost_type(aggregator: VoteAggregator) -> type[DataDependentCost]:
    """Return the type of data-dependent cost for answers of this aggregator."""
    return ExPostCost if aggregator.adaptive else DivergenceCost


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """A request to publish the data-dependent cost of the answers. The report has its own budget.

    Teachers that agree hide each other, so the cost on the data at hand is often far below the worst case. It depends
    on the votes, so it is private. The report publishes the sum of costs at one Renyi order, plus a multiple of a
    smooth bound on its sensitivity, with Laplace noise proportional to that bound. The multiple is chosen so that the
    result is too low with probability at most 1 - ``confidence``. It never exceeds the worst case.

    Attributes:
        epsilon: Epsilon of the report, a part of the classifier's.
        delta: Delta of the report, a part of the classifier's.
        order: Renyi order; about 1 + 2 ln(1 / delta) / (expected epsilon) is best.
        confidence: Probability with which the published cost is not below the true one.

    Guarantee:
        (``epsilon``, ``delta``)-differential privacy of the published number, in addition to the cost of the answers.

    Assumes:
        ``order`` was chosen without looking at votes (the caller's duty). A privacy unit changes the vote of one
        teacher (the caller's duty; `PATEClassifier` splits by unit).

    References:
        Papernot et al. 2018, Theorem 6 and Proposition 10 (costs), Appendix B (their smooth sensitivity differs: here
        costs are tables, so that sensitivities are exact for the released number); Papernot et al. 2017, Theorem 3
        (`LNMax`); Nissim, Raskhodnikova & Smith 2007 (noise by smooth sensitivity). Papernot et al. add up the costs of
        queries that outcomes decided on as if they had been fixed; here the result is the ex-post loss (Rogers et al.
        2016; Whitehouse et al. 2023), see `ExPostCost`.

    >>> import numpy as np
    >>> from fractions import Fraction
    >>> from hush.estimators.pate import GNMax
    >>> from hush.randomness import TestSource
    >>> votes = np.tile([[195, 5]], (50, 1))  # nearly unanimous
    >>> aggregator = GNMax(sigma=20.0)
    >>> answers = aggregator.answer(votes, TestSource(1), limit=Fraction(1))
    >>> report = CostReport(epsilon=0.5, delta=1e-6, order=20.0)
    >>> cost = report.release(votes, answers, aggregator, num_teachers=200, delta=1e-5, source=TestSource(2))
    >>> round(cost.epsilon, 2), type(cost).__name__  # the worst case is 1.99
    (1.43, 'DivergenceCost')
    """

    epsilon: float
    delta: float
    order: float = 20.0
    confidence: float = 0.99

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_positive("epsilon", self.epsilon)
        if not 1.01 <= check_positive("order", self.order) <= 1e4:
            raise InvalidArgument("order", self.order, "a number between 1.01 and 1e+04")
        if not 0.5 <= check_probability("confidence", self.confidence) < 1:
            raise InvalidArgument("confidence", self.confidence, "a number in [0.5, 1)")
        mechanism = self._mechanism(1.0)
        if not self._margin_factor(mechanism) * math.expm1(mechanism.beta) < 0.9:
            raise InvalidArgument(
                "confidence",
                self.confidence,
                "a lower value",
                "At this level, the margin itself is too sensitive for the noise",
            )

    @property
    def event(self) -> Event:
        """The cost of the report, for accountants."""
        return ApproximateDPEvent(self.epsilon, self.delta)

    def release(
        self,
        counts: Any,
        answers: VoteAnswers,
        aggregator: VoteAggregator,
        *,
        num_teachers: int,
        delta: float,
        source: RandomSource | None = None,
    ) -> DataDependentCost:
        """Publish the cost of answers to these counts, including the cost of the report.

        Args:
            counts: Votes, one row per query: private.
            answers: The released answers.
            aggregator: The aggregator that released them.
            num_teachers: Number of teachers: public.
            delta: Delta of the answers; that of the report is added.
            source: Random source.
        """
        votes = np.asarray(counts, dtype=np.int64)
        check_count("num_teachers", num_teachers, minimum=2)
        settings = {"num_teachers": num_teachers, "order": self.order, "beta": self._mechanism(1.0).beta}
        exact = raw_cost(votes, answers, aggregator, **settings)  # type: ignore[arg-type]
        noisy_cost = self._noisy_cost(exact, source_or_default(source))
        kind = cost_type(aggregator)
        return kind(
            epsilon=kind.epsilon_of(noisy_cost, self.order, delta) + self.epsilon,
            delta=delta + self.delta,
            order=self.order,
            confidence=self.confidence,
        )

    def _noisy_cost(self, exact: RawCost, source: RandomSource) -> float:
        """Add the margin and the noise to the exact cost."""
        if exact.worst == 0:
            return 0.0
        mechanism = self._mechanism(exact.worst)
        growth = math.expm1(mechanism.beta)
        # The smooth bound changes by at most (e^beta - 1) times itself, and so does the margin, a multiple of it.
        multiple = self._margin_factor(mechanism) / (1 - self._margin_factor(mechanism) * growth)
        # The mechanism rounds to a grid over its range. A few grid steps keep rounding from lowering the result.
        rounding = (self._margin_factor(mechanism) + 4) * mechanism.bounds[1] * 2.0**-38
        noisy = mechanism.release(
            exact.cost + multiple * exact.smooth + rounding, exact.smooth * (1 + multiple * growth), source
        ).value
        return min(max(noisy, 0.0), exact.worst)

    def _margin_factor(self, mechanism: SmoothLaplace) -> float:
        """Return the factor of the smooth bound that the noise falls below with probability 1 - confidence."""
        return mechanism.factor * -math.log(2 * (1 - self.confidence)) if self.confidence > 0.5 else 0.0

    def _mechanism(self, worst: float) -> SmoothLaplace:
        """Return the noise mechanism, for costs up to ``worst``."""
        # Wide enough that the margin is never clipped: its multiple is at most 10 times the margin factor.
        largest = (2 + 10 * 2 / self.epsilon * -math.log(2 * (1 - self.confidence))) * worst
        return SmoothLaplace(epsilon=self.epsilon, delta=self.delta, bounds=(0.0, max(largest, 2 * worst)))
