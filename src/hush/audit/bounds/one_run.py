"""Bounds from one run with many canaries: `OneRun` and `OneRunFDP`.

Each canary was included by a fair coin. The audit guesses the coins from the scores (`guesses.py`); under an (epsilon,
delta) guarantee, too many correct guesses are unlikely. `one_run_epsilon` inverts that probability. The classes decide
which guesses to make, and correct for choosing their number.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtrc, expit, gammaln

from hush.audit.bounds.gaussian import gdp_epsilon
from hush.audit.bounds.guesses import check_guesses, count_correct, numbers_of_guesses
from hush.audit.bounds.method import BoundMethod, Level, MethodBound
from hush.audit.bounds.one_run_fdp import contradicts, one_run_fdp_mu
from hush.audit.bounds.sample import Sample
from hush.errors import InvalidArgument, Unsupported, check_count, check_delta

COINS = "Each canary was included by an independent fair coin, and the scores depend on it only through the result"

# If the number of guesses depends on the result, the two terms of the tail bound are tested separately. This share of
# the error goes to the delta term, which is usually tiny.
_DELTA_SHARE = 0.1
_PRECISION = 1e-12


def one_run_epsilon(
    num_canaries: int, num_guesses: int, num_correct: int, *, significance: float, delta: float = 0.0
) -> float:
    """Return the largest epsilon that this many correct guesses contradict.

    Let m = ``num_canaries``, r = ``num_guesses``, v = ``num_correct`` and W ~ Binomial(r, e^epsilon / (1 + e^epsilon)).
    Under (epsilon, delta)-privacy, the probability of v or more correct guesses is at most

        P[W >= v] + 2 m delta max_i P[v - i <= W < v] / i.

    Every epsilon for which this is at most ``significance`` is refuted. The number of guesses must be fixed beforehand.

    >>> round(one_run_epsilon(1000, 100, 95, significance=0.05, delta=1e-5), 6)
    2.165176

    Args:
        num_canaries: The number of canaries, included or not.
        num_guesses: The number of guesses. You may abstain from the other canaries.
        num_correct: The number of correct guesses.
        significance: The probability with which the bound may fail.
        delta: The delta at which epsilon is bounded.

    Returns:
        The lower bound on epsilon, rounded down; 0 if no epsilon is contradicted.

    Guarantee:
        With probability 1 - ``significance`` the true epsilon at ``delta`` is at least this.

    Assumes:
        Fair, independent coins, and guesses made from the result alone (the caller's duty). The number of guesses was
        fixed beforehand (the caller's duty).

    References:
        Steinke, Nasr & Jagielski 2023, Theorem 5.2 and Corollary 5.4.
    """
    size, guesses = check_count("num_canaries", num_canaries), check_count("num_guesses", num_guesses, minimum=0)
    correct = check_count("num_correct", num_correct, minimum=0)
    if not correct <= guesses <= size:
        raise InvalidArgument("num_correct", num_correct, "num_correct <= num_guesses <= num_canaries")
    if not 0 < significance < 1:
        raise InvalidArgument("significance", significance, "a number in (0, 1)")
    tail = _TailBound(size, guesses, correct, check_delta("delta", delta))
    return _largest_rejected(lambda epsilon: tail.fixed_guesses(epsilon) <= significance)


class _TailBound:
    """Bounds on the probability of this many correct guesses, as functions of epsilon.

    Symbols of the theorem: r = ``guesses``, v = ``correct``, and ``delta_factor`` = 2 m delta.
    """

    def __init__(self, num_canaries: int, guesses: int, correct: int, delta: float) -> None:
        self.guesses, self.correct, self.delta_factor = guesses, correct, 2 * num_canaries * delta
        self.values = np.arange(correct - 1, -1, -1)  # v - 1, v - 2, ..., 0
        if self.delta_factor > 0:
            log_factorials = gammaln(np.arange(guesses + 2).astype(np.float64))
            # ln binom(r, w) for w = v - 1, v - 2, ..., 0.
            self.log_binomials = (
                log_factorials[-1] - log_factorials[self.values + 1] - log_factorials[guesses - self.values + 1]
            )

    def fixed_guesses(self, epsilon: float) -> float:
        """Return the bound for a number of guesses that was fixed beforehand."""
        # Theorem 5.2: P[v or more correct] <= P[W >= v] + 2 m delta max_i P[v - i <= W < v] / i.
        return min(self._binomial_tail(epsilon) + self._delta_term(epsilon), 1.0)

    def random_guesses(self, epsilon: float) -> float:
        """Return a p-value that stays valid if the result decides the number of guesses.

        By Theorem 5.2, given the result, the number of correct guesses is at most W + F, where F has mean 2 m delta
        over all results. Reject at level a only if P[W >= v] <= (1 - s) a *and* the delta term is <= s a. The two
        failure probabilities then add up to at most a for each number of guesses, and so for a random one, too.
        """
        if self.delta_factor == 0:
            return self._binomial_tail(epsilon)
        # Each term rejects at its own share of the level, so their failure probabilities add up to it.
        by_tail = self._binomial_tail(epsilon) / (1 - _DELTA_SHARE)
        by_delta = self._delta_term(epsilon) / _DELTA_SHARE
        return min(max(by_tail, by_delta), 1.0)

    def _binomial_tail(self, epsilon: float) -> float:
        """Return P[W >= v]."""
        # Given all other coins, a guess is correct with probability at most e^epsilon / (1 + e^epsilon).
        return float(bdtrc(self.correct - 1, self.guesses, expit(epsilon))) if self.correct > 0 else 1.0

    def _delta_term(self, epsilon: float) -> float:
        """Return 2 m delta max_i P[v - i <= W < v] / i."""
        if self.delta_factor == 0 or self.correct == 0:
            return 0.0
        # ln q and ln(1 - q) for q = e^epsilon / (1 + e^epsilon), without cancellation.
        log_q, log_p = -np.logaddexp(0.0, -epsilon), -np.logaddexp(0.0, epsilon)
        log_masses = self.log_binomials + self.values * log_q + (self.guesses - self.values) * log_p
        cumulated = np.cumsum(np.exp(log_masses))  # entry i - 1 is P[v - i <= W < v]
        return self.delta_factor * float(np.max(cumulated / np.arange(1, self.correct + 1)))


def _largest_rejected(rejects: Callable[[float], bool]) -> float:
    """Return the largest epsilon that a monotone test rejects, rounded down; 0 if it rejects none."""
    # Not even epsilon = 0 is contradicted, so nothing was shown.
    if not rejects(0.0):
        return 0.0
    # The test is monotone in epsilon, so doubling brackets the answer and bisection finds it.
    low, high = 0.0, 1.0
    # Invariant: low is rejected and high is not, so low never exceeds the answer.
    while rejects(high):
        low, high = high, 2 * high
    while high - low > _PRECISION * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rejects(middle) else (low, middle)
    return low


class GuessMethod(BoundMethod):
    """A method that guesses coins from the ranking of all canaries."""

    num_guesses: int | None
    num_out_guesses: int
    assumptions: tuple[str, ...] = (COINS,)

    @abstractmethod
    def bound_from_guesses(self, sample: Sample, guesses: int, correct: int, level: Level) -> MethodBound:
        """Bound epsilon from a number of guesses that was fixed beforehand."""

    @abstractmethod
    def can_beat(self, best: MethodBound, guesses: int, correct: int, level: Level) -> bool:
        """Whether these guesses show more than the best bound so far."""

    def bound_without_rule(self, sample: Sample, level: Level) -> MethodBound:
        """Make a fixed number of guesses: "in" for the highest scores, "out" for the lowest."""
        if self.num_guesses is None:
            raise InvalidArgument("num_guesses", None, "a number of guesses, or a threshold rule")
        total_guesses = self.num_guesses + self.num_out_guesses
        if total_guesses > sample.num_in + sample.num_out:
            raise InvalidArgument("num_guesses", total_guesses, "at most as many guesses as canaries")
        correct = count_correct(sample, self.num_guesses, self.num_out_guesses)
        return self.bound_from_guesses(sample, total_guesses, correct, level)

    def bound_at_best(self, sample: Sample, level: Level) -> MethodBound:
        """Make "in" guesses only, with the best number of guesses from a ladder that does not depend on the scores."""
        rungs = numbers_of_guesses(sample.num_in + sample.num_out, level.error)
        # Bonferroni over the rungs, which depend on the number of canaries and the error only.
        rung_level = Level(level.error / len(rungs), level.delta)
        best: MethodBound | None = None
        guesses_and_correct = [(rung, count_correct(sample, rung, 0)) for rung in rungs]
        # The most accurate guesses first: most other rungs are then ruled out by one cheap evaluation.
        for guesses, correct in sorted(guesses_and_correct, key=lambda pair: -pair[1] / pair[0]):
            if best is None or self.can_beat(best, guesses, correct, rung_level):
                bound = self.bound_from_guesses(sample, guesses, correct, rung_level)
                best = bound if best is None or bound.lower > best.lower else best
        assert best is not None
        return best

    def choose_threshold(self, sample: Sample, level: Level) -> float:
        """Return the lowest score that the best number of guesses includes."""
        guesses = int(self.bound_at_best(sample, level).details["num_guesses"])
        return float(sample.ranked[-guesses])

    def split(self, sample: Sample, fraction: float, rng: np.random.Generator) -> tuple[Sample, Sample]:
        """Split without looking at the coins, so that the coins of the second part stay fair."""
        # Split by position only: a split that looked at coins would leave the rest unfair.
        first, second = sample.pooled(fraction, rng)
        if not (first.num_in + first.num_out and second.num_in + second.num_out):
            raise InvalidArgument("fraction", fraction, "a fraction that leaves canaries in both parts")
        return first, second


@dataclass(frozen=True, slots=True)
class OneRun(GuessMethod):
    """Guess which canaries one run included. Valid for every mechanism.

    >>> import numpy as np
    >>> from hush.audit import audit_scores
    >>> result = audit_scores(np.ones(100), np.zeros(100), method=OneRun(num_guesses=50))
    >>> result.details["num_correct"], round(result.epsilon_lower, 3)
    (50, 2.785)

    Guarantee:
        A lower confidence bound on epsilon at any delta, for every mechanism, from a single run.

    Assumes:
        An independent fair coin decided whether each canary was included (the caller's duty). ``num_guesses``, if you
        pass it, was fixed beforehand (the caller's duty); otherwise the choice is corrected for (checked here).

    References:
        Steinke, Nasr & Jagielski 2023, Theorem 5.2. Ties at the last guess are broken in the worst way.

    Attributes:
        num_guesses: How many of the highest scores are guessed to be members. None leaves it to a threshold rule.
        num_out_guesses: How many of the lowest scores are guessed to be non-members.
    """

    num_guesses: int | None = None
    num_out_guesses: int = 0
    description = "one run"

    def __post_init__(self) -> None:
        check_guesses(self.num_guesses, self.num_out_guesses)

    def bound_from_guesses(self, sample: Sample, guesses: int, correct: int, level: Level) -> MethodBound:
        """Bound epsilon from a fixed number of guesses."""
        size = sample.num_in + sample.num_out
        lower = one_run_epsilon(size, guesses, correct, significance=level.error, delta=level.delta)
        return _method_bound(sample, guesses, correct, lower)

    def can_beat(self, best: MethodBound, guesses: int, correct: int, level: Level) -> bool:
        """Whether the best epsilon is contradicted, first at delta = 0, which is a cheap necessary condition."""
        size = best.num_in + best.num_out
        # The tail bound grows with delta, so a bound that fails at delta = 0 fails at any delta.
        return all(
            _TailBound(size, guesses, correct, delta).fixed_guesses(best.lower) <= level.error
            for delta in (0.0, level.delta)
        )

    def bound_at(self, sample: Sample, threshold: float, level: Level) -> MethodBound:
        """Guess "in" for all scores at or above the threshold. Their number is random, and the bound allows for it."""
        tp, fp = sample.counts(threshold)
        # The scores decide how many reach the threshold, so the number of guesses is random.
        tail = _TailBound(sample.num_in + sample.num_out, int(tp + fp), int(tp), level.delta)
        lower = _largest_rejected(lambda epsilon: tail.random_guesses(epsilon) <= level.error)
        return _method_bound(sample, int(tp + fp), int(tp), lower, threshold)


@dataclass(frozen=True, slots=True)
class OneRunFDP(GuessMethod):
    """The guesses of `OneRun`, tested against the whole trade-off curve of Gaussian noise: about twice the bound.

    >>> import numpy as np
    >>> from hush.audit import audit_scores
    >>> settings = {"delta": 1e-5, "method": OneRunFDP(num_guesses=50)}
    >>> result = audit_scores(np.ones(100), np.zeros(100), **settings)
    >>> round(result.mu_lower, 2), round(result.epsilon_lower, 1)
    (1.14, 5.1)

    Guarantee:
        A lower confidence bound on mu of Gaussian differential privacy, and through it on epsilon at a positive delta.

    Assumes:
        A Gaussian trade-off curve (the caller's duty). Fair, independent coins (the caller's duty). The number of
        guesses is fixed beforehand, or on a ladder that is corrected for (checked here). A threshold would make the
        number of guesses random, for which no proof is known; it is refused.

    References:
        Mahloujifar, Melis & Chaudhuri 2024, Algorithm 3 (audit_rh_with_cap).

    Attributes:
        num_guesses: How many of the highest scores are guessed to be members. None leaves it to `Bonferroni`.
        num_out_guesses: How many of the lowest scores are guessed to be non-members.
    """

    num_guesses: int | None = None
    num_out_guesses: int = 0
    description = "one run, f-DP of Gaussian noise"
    assumptions = (COINS, "The mechanism's trade-off curve is that of Gaussian noise")

    def __post_init__(self) -> None:
        check_guesses(self.num_guesses, self.num_out_guesses)

    def bound_from_guesses(self, sample: Sample, guesses: int, correct: int, level: Level) -> MethodBound:
        """Bound mu from a fixed number of guesses. The point estimate is the bound at even odds."""
        size = sample.num_in + sample.num_out
        mu = one_run_fdp_mu(size, guesses, correct, significance=level.error)
        # The point estimate: too high or too low with even odds.
        median_mu = one_run_fdp_mu(size, guesses, correct, significance=max(0.5, level.error))
        lower, point = gdp_epsilon(mu, level.delta), gdp_epsilon(median_mu, level.delta)
        return _method_bound(sample, guesses, correct, lower, mu=mu, point=point)

    def can_beat(self, best: MethodBound, guesses: int, correct: int, level: Level) -> bool:
        """Whether the best mu is contradicted."""
        return contradicts(best.num_in + best.num_out, guesses, correct, level.error, best.mu_lower or 0.0)

    def bound_at(self, sample: Sample, threshold: float, level: Level) -> MethodBound:
        """Refuse: a threshold makes the number of guesses random."""
        raise Unsupported(
            "OneRunFDP at a threshold: the number of guesses would be random, and no proof is known for that",
            "Use OneRunFDP(num_guesses=...), or Bonferroni()",
        )


def _method_bound(
    sample: Sample,
    guesses: int,
    correct: int,
    lower: float,
    threshold: float | None = None,
    mu: float | None = None,
    point: float | None = None,
) -> MethodBound:
    wrong = guesses - correct
    # The odds of a correct guess are e^epsilon at most, so their observed logarithm is the point estimate.
    log_odds = math.inf if wrong == 0 and correct else max(math.log(correct / wrong), 0.0) if correct else 0.0
    details: dict[str, float | int | str] = {"num_guesses": guesses, "num_correct": correct}
    if threshold is not None:
        details["threshold"] = threshold
    return MethodBound(
        lower=lower,
        point=log_odds if point is None else point,
        num_in=sample.num_in,
        num_out=sample.num_out,
        mu_lower=mu,
        details={"num_canaries": sample.num_in + sample.num_out, **details},
    )
