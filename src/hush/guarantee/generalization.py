"""What a guarantee says about the population that the data are a sample of: bounds on overfitting.

    query         a function of one record with values in [0, 1], chosen by looking at private releases
    gap           its mean over the records of the data, less its mean over the population
    expected      a bound on the mean of the gap: stability on average is generalisation
    width         a bound on the gap that fails with a small probability
    information   records tell a release little, so what holds for fresh records nearly holds for these (delta = 0)
    posterior     a release changes the belief about a record little, and a released answer is close to that belief

Everything here is about neighbours that replace one record. All bounds are rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hush.guarantee import limits
from hush.guarantee.rounding import rounded
from hush.guarantee.terms import Bound

_ROUNDING = 1 + 1e-9  # far above the rounding errors of the formulas below
_GRID = tuple(10 ** (-power / 4) for power in range(1, 25))  # probabilities to try, from 0.56 to 1e-6
_SHARES = (0.5, 0.9, 0.99)  # of the probability of failure, to try
_FACTORS = (0.5, 0.7, 1.0, 1.4)  # of the best epsilon of an imagined answer, to try


@dataclass(frozen=True, slots=True, kw_only=True)
class Generalization:
    """How far what was found in the data can be from the population. `Guarantee.generalization` returns it.

    All figures are in units of the range of a query or a loss: multiply them by the range if it is not 1.

    >>> from hush.guarantee import Guarantee, Relation
    >>> claim = Guarantee(epsilon=0.1, delta=0, relation=Relation.REPLACE)
    >>> print(claim.generalization(10_000))
    on average at most 0.025 from the population (stability on average); at most 0.0589 with confidence 0.95, by max-\
information (Dwork et al. 2015)

    Attributes:
        expected: A bound on the mean of the gap between the data and the population, for one query.
        expected_theorem: The theorem that proves ``expected``.
        width: A bound on the gaps of all queries together; 1 if none is proven.
        theorem: The theorem that proves ``width``.
        confidence: The confidence of ``width``.
    """

    expected: float
    expected_theorem: str
    width: float
    theorem: str
    confidence: float

    @property
    def vacuous(self) -> bool:
        """Whether ``width`` says nothing: a gap cannot exceed 1 anyway."""
        return not self.width < 1

    def __str__(self) -> str:
        mean = f"on average at most {_up(self.expected)} from the population ({self.expected_theorem})"
        if not self.expected < 1:
            mean = "the bound on the mean gap is vacuous"
        if self.vacuous:
            return f"{mean}; the bound with confidence {self.confidence:g} is vacuous"
        return f"{mean}; at most {_up(self.width)} with confidence {self.confidence:g}, by {self.theorem}"


def generalization(
    epsilon: float, delta: float, num_records: int, num_queries: int, confidence: float
) -> Generalization:
    """Return the bounds for (epsilon, delta)-DP under replacement of one of ``num_records`` independent records."""
    failure = 1 - confidence
    candidates = [(_posterior_width(epsilon, delta, num_records, failure / num_queries), POSTERIOR)]
    if delta == 0:
        candidates.append((_information_width(epsilon, num_records, num_queries, failure), INFORMATION))
    width, theorem = min(candidates)
    return Generalization(
        expected=expected_gap(epsilon, delta),
        expected_theorem=ON_AVERAGE,
        width=width,
        theorem=theorem,
        confidence=confidence,
    )


ON_AVERAGE = "stability on average"
POSTERIOR = "posterior sensitivity (Jung et al. 2020)"
INFORMATION = "max-information (Dwork et al. 2015)"


def expected_gap(epsilon: float, delta: float) -> float:
    """Return a bound on the mean gap of a query with values in [0, 1]: the change of belief about one record.

    The mean gap is the mean of f(M(S), x_i) less that of f(M(S), x) for a fresh record x (Bousquet & Elisseeff
    2002, Lemma 7), so it is at most the statistical distance between (M(S), x_i) and (M(S), x).
    """
    return min(1.0, belief_shift(epsilon, delta) * _ROUNDING)


def belief_shift(epsilon: float, delta: float) -> float:
    """Return how far the belief that a record has a property can move, on average for delta > 0.

    For delta = 0, Bayes' rule multiplies the odds by at most e^epsilon. The largest difference of a posterior and its
    prior p is at p = 1 / (1 + e^(epsilon / 2)): tanh(epsilon / 4). For delta > 0 it is the largest statistical distance
    of releases from neighbouring data.
    """
    return math.tanh(epsilon / 4) if delta == 0 else limits.advantage(epsilon, delta)


def transfer_width(epsilon: float, delta: float, failure: float, sample_width: Callable[[float], float]) -> float:
    """Return how far released answers in [0, 1] are from the population, except with probability ``failure``.

    Jung et al. 2020, Theorem 3.5, with two changes. They bound the change of belief by e^epsilon - 1 + 2 d, except with
    probability delta / d. Here it is `belief_shift` for delta = 0, and else that at delta' = 2 delta / failure'. Proof:
    P is the set of results whose belief is too high by more than t, and p its probability. The mean of q over results
    in P and the records is A, over results in P and the population B. So A - B > t p. Applied to q and to 1 - q,
    (epsilon, delta)-DP gives A <= e^epsilon B + delta and p - B <= e^epsilon (p - A) + delta. Both together give
    A - B <= p tanh(epsilon / 2) + 2 delta / (e^epsilon + 1). So p < delta / delta' for
    t = tanh(epsilon / 2) + 2 delta' / (e^epsilon + 1), and as much for beliefs that are too low.

    Args:
        epsilon: The epsilon of everything released together, under replacement of a record.
        delta: The delta of everything released together.
        failure: The probability with which the bound may fail.
        sample_width: Returns how far all answers are from the data's means, except with a given probability.
    """
    widths = [
        shift + chance + sample_width(share * failure * chance)
        for share, shift in _shifts(epsilon, delta, failure)
        for chance in _GRID
    ]
    return min([1.0, *(width * _ROUNDING for width in widths)])


def mutual_information_bounds(rho: float, num_records: int, num_queries: int, confidence: float) -> Generalization:
    """Return the bounds for rho-zCDP, whose mutual information with n independent records is at most n rho nats.

    By the chain rule, each record adds at most the largest Kullback-Leibler divergence of neighbouring releases, which
    is at most rho (Bun & Steinke 2016, Proposition 1.10).
    """
    nats = num_records * rho
    # P ln(1 / P') <= I + ln 2 for an event of probability P, and P' for fresh data: 2 queries e^(-2 n t^2).
    log_events = (nats + math.log(2)) / (1 - confidence) + math.log(2) + math.log(num_queries)
    return Generalization(
        expected=min(1.0, math.sqrt(rho / 2) * _ROUNDING),  # sqrt(I / (2 n)) for values in [0, 1]
        expected_theorem="mutual information (Xu & Raginsky 2017)",
        width=min(1.0, math.sqrt(log_events / (2 * num_records)) * _ROUNDING),
        theorem="mutual information (Bassily et al. 2018)",
        confidence=confidence,
    )


def _shifts(epsilon: float, delta: float, failure: float) -> Iterator[tuple[float, float]]:
    """Yield shares of the failure that remain for the answers, each with a bound on the change of belief."""
    if delta == 0:
        yield 1.0, belief_shift(epsilon, 0.0)
        return
    for share in _SHARES:
        per_result = 2 * delta / ((1 - share) * failure)
        if per_result < 1:
            yield share, limits.advantage(epsilon, per_result)


def _posterior_width(epsilon: float, delta: float, num_records: int, failure: float) -> float:
    """Return a bound on the gap of one query whose mean was not released.

    Imagine that its mean is released as well, with Laplace noise at a small epsilon. The transfer theorem holds for
    that answer. It is within ``margin`` of the data's mean, too, which gives a second ``margin``.
    """
    widths = [1.0]
    for chance in _GRID:
        # The answer fails with probability tail for itself, and tail / chance for the belief: `failure` together.
        tail = failure * chance / (1 + chance)
        best = math.sqrt(8 * math.log(1 / tail) / num_records)
        for imagined in (factor * best for factor in _FACTORS):
            # P[|Lap(1 / (n e))| > t] = e^(-n e t).
            for share, shift in _shifts(epsilon + imagined, delta, failure):
                margin = -math.log(tail * share) / (num_records * imagined)
                widths.append((shift + chance + 2 * margin) * _ROUNDING)
    return min(widths)


def _information_width(epsilon: float, num_records: int, num_queries: int, failure: float) -> float:
    """Return a bound on the gaps of several queries, for delta = 0.

    Dwork et al. 2015, Theorem 20: except with probability b, an event is at most e^k times as likely for a release
    and its own data as for a release and fresh data, k = n epsilon^2 / 2 + epsilon sqrt(n ln(2 / b) / 2). For fresh
    data, the event is that one of the queries has a gap above t: 2 queries e^(-2 n t^2) (Hoeffding 1963).
    """
    widths = [1.0]
    for share in _SHARES:
        slack, event = (1 - share) * failure, share * failure
        k = num_records * epsilon * epsilon / 2 + epsilon * math.sqrt(num_records * math.log(2 / slack) / 2)
        log_events = math.log(2) + math.log(num_queries) - math.log(event)
        widths.append(math.sqrt((k + log_events) / (2 * num_records)) * _ROUNDING)
    return min(widths)


def _up(value: float) -> str:
    """Format a bound with three digits, rounded up."""
    return rounded(value, Bound.UPPER)
