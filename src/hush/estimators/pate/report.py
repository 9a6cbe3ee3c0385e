"""The one way in which a cost that depends on votes may leave: with noise by smooth sensitivity, and a margin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.accounting import ApproximateDPEvent, Event
from hush.accounting.accountants.rdp import to_epsilon
from hush.errors import InvalidArgument, check_count, check_positive, check_probability
from hush.estimators.pate.aggregators import VoteAggregator, VoteAnswers
from hush.estimators.pate.costs import RawCost, raw_cost
from hush.mechanisms import SmoothLaplace
from hush.randomness import RandomSource, source_or_default


@dataclass(frozen=True, slots=True, kw_only=True)
class DataDependentCost:
    """What answers gave away about one unit of *these* data, as far as it may be told.

    This is not a promise for all data, and no `hush.Guarantee`. Budgets are charged by the guarantee, which holds
    whatever the data are. What it says, with ``confidence``, for these data D and every neighbour D':

    - Where every query is answered (`LNMax`, `GNMax`): P[M(D) in S] <= e^epsilon P[M(D') in S] + delta for every set S
      of outputs, where M is the answers and this report.
    - Where outcomes decide what is asked next and paid for (`ConfidentGNMax`, `InteractiveGNMax`): the costs of what
      was asked add up to something random, which bounds no divergence. It bounds the loss of the answers o that came
      out (``ex_post``): ln P[o | D] / P[o | D'] <= epsilon less the report's, but for a chance of delta less the
      report's over the answers; the report adds its own (epsilon, delta).

    Attributes:
        epsilon: Of the answers and the report.
        delta: Of both.
        order: The Renyi order at which costs were added up.
        confidence: That the published cost is no lower than the true one.
        ex_post: Which of the two it is.
    """

    epsilon: float
    delta: float
    order: float
    confidence: float
    ex_post: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """Asks for the cost of the answers by the votes, and says what the report itself may cost.

    Teachers that agree hide each other: the cost on the data at hand is often far below the worst. It depends on the
    votes, so it is private; what is published is its sum at one Renyi order plus a multiple of a smooth bound on its
    sensitivity, with Laplace noise in proportion to that bound. The multiple is such that the result is too low with
    probability 1 - ``confidence`` at most. The worst case is never exceeded.

    Guarantee:
        (``epsilon``, ``delta``)-differential privacy of the published number, beside what the answers cost.

    Assumes:
        ``order`` was chosen without looking at votes (the caller's duty). A unit changes the vote of one teacher (the
        caller's duty; `PATEClassifier` splits so).

    References:
        Papernot et al. 2018, Theorem 6 and Proposition 10 (costs), Appendix B (their smooth sensitivity, which differs:
        here costs are tables, so that sensitivities are exact for what is released); Papernot et al. 2017, Theorem 3
        (`LNMax`); Nissim, Raskhodnikova & Smith 2007 (noise by smooth bounds). Papernot et al. add up the costs of
        queries that outcomes decided on as if these had been fixed; here the result is the loss after the fact (Rogers
        et al. 2016; Whitehouse et al. 2023), see `DataDependentCost`.

    Attributes:
        epsilon: Of the report, a part of the classifier's.
        delta: Of the report, a part of the classifier's.
        order: The Renyi order; 1 + 2 ln(1 / delta) / (the epsilon hoped for) is about best.
        confidence: With which the published cost is no lower than the true one.
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
        if not self._reach(mechanism) * math.expm1(mechanism.beta) < 0.9:
            raise InvalidArgument(
                "confidence", self.confidence, "less", "So sure a margin would move more than the noise hides"
            )

    @property
    def event(self) -> Event:
        """What an accountant is told about the report."""
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
        """Return the cost of answers to these counts at ``delta``, the report's own cost included.

        Args:
            counts: Votes, one row per query: private.
            answers: What the aggregator released for them.
            aggregator: That released it.
            num_teachers: How many there are: public.
            delta: Of the answers; the report's is added.
            source: Of randomness.
        """
        votes = np.asarray(counts, dtype=np.int64)
        check_count("num_teachers", num_teachers, minimum=2)
        settings = {"num_teachers": num_teachers, "order": self.order, "beta": self._mechanism(1.0).beta}
        found = raw_cost(votes, answers, aggregator, **settings)  # type: ignore[arg-type]
        divergence = self._published(found, source_or_default(source))
        return DataDependentCost(
            epsilon=converted(divergence, self.order, delta, ex_post=aggregator.adaptive) + self.epsilon,
            delta=delta + self.delta,
            order=self.order,
            confidence=self.confidence,
            ex_post=aggregator.adaptive,
        )

    def _published(self, found: RawCost, source: RandomSource) -> float:
        if found.worst == 0:
            return 0.0
        mechanism = self._mechanism(found.worst)
        growth = math.expm1(mechanism.beta)
        # The smooth bound moves by at most (e^beta - 1) times itself, and so the multiple of it that is added.
        multiple = self._reach(mechanism) / (1 - self._reach(mechanism) * growth)
        rounding = (self._reach(mechanism) + 4) * mechanism.bounds[1] * 2.0**-38
        noisy = mechanism.release(
            found.cost + multiple * found.smooth + rounding, found.smooth * (1 + multiple * growth), source
        ).value
        return min(max(noisy, 0.0), found.worst)

    def _reach(self, mechanism: SmoothLaplace) -> float:
        """Return what the noise falls below with probability 1 - confidence, over the smooth bound."""
        return mechanism.factor * -math.log(2 * (1 - self.confidence)) if self.confidence > 0.5 else 0.0

    def _mechanism(self, worst: float) -> SmoothLaplace:
        # Wide enough that the margin is never cut off: the margin's multiple is at most 10 times the reach.
        most = (2 + 10 * 2 / self.epsilon * -math.log(2 * (1 - self.confidence))) * worst
        return SmoothLaplace(epsilon=self.epsilon, delta=self.delta, bounds=(0.0, max(most, 2 * worst)))


def converted(divergence: float, order: float, delta: float, *, ex_post: bool) -> float:
    """Return the epsilon of costs at one order: of a divergence, or of the loss after the fact.

    E exp((order - 1)(loss - costs)) <= 1, step by step, whatever outcomes decide; Markov's inequality does the rest.
    The conversion of divergences is tighter, but is not about the loss itself.
    """
    if ex_post:
        return divergence - math.log(delta) / (order - 1)
    return float(to_epsilon(np.array([divergence]), np.array([order]), delta)[0])
