"""Many canaries in one run: each was included by a fair coin, and the audit counts how many coins it guesses."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtrc, expit, gammaln

from hush.audit.bounds.gaussian import gdp_epsilon
from hush.audit.bounds.guesses import check_guesses, numbers_of_guesses, right_guesses
from hush.audit.bounds.method import BoundMethod, Level, MethodBound
from hush.audit.bounds.one_run_fdp import one_run_fdp_mu, rejected
from hush.audit.bounds.sample import Sample
from hush.errors import InvalidArgument, Unsupported, check_count, check_delta

COINS = "Every canary was included by an independent fair coin, and the scores saw no coin but through the result"

# Where the number of guesses is itself a result, the two ways to fail are bounded apart; this share is for delta.
_DELTA_SHARE = 0.1
_PRECISION = 1e-12


def one_run_epsilon(
    num_canaries: int, num_guesses: int, num_correct: int, *, significance: float, delta: float = 0.0
) -> float:
    """Return the largest epsilon that ``num_correct`` right guesses contradict.

    With q = e^eps / (1 + e^eps) and W binomial of r guesses, the chance of v right ones is at most
    P[W >= v] + 2 m delta max_i P[v - i <= W < v] / i. The number of guesses must be fixed beforehand.

    >>> round(one_run_epsilon(1000, 100, 95, significance=0.05, delta=1e-5), 6)
    2.165176

    Args:
        num_canaries: m, included or not.
        num_guesses: r, of those that were not abstained from.
        num_correct: v.
        significance: With which probability the bound may fail.
        delta: At which epsilon is meant.

    Guarantee:
        With probability 1 - ``significance`` the true epsilon at ``delta`` is at least this.

    Assumes:
        Fair, independent coins, and guesses made from the result alone (the caller's duty). The number of guesses was
        fixed beforehand (the caller's duty).

    References:
        Steinke, Nasr & Jagielski 2023, Theorem 5.2 and Corollary 5.4.
    """
    size, guesses = check_count("num_canaries", num_canaries), check_count("num_guesses", num_guesses, minimum=0)
    right = check_count("num_correct", num_correct, minimum=0)
    if not right <= guesses <= size:
        raise InvalidArgument("num_correct", num_correct, "at most as many as guesses, and these at most as canaries")
    if not 0 < significance < 1:
        raise InvalidArgument("significance", significance, "a number in (0, 1)")
    chances = _Chances(size, guesses, right, check_delta("delta", delta))
    return _largest(lambda epsilon: chances.fixed(epsilon) <= significance)


class _Chances:
    """Bounds on the chance of so many right guesses, as functions of epsilon."""

    def __init__(self, size: int, guesses: int, right: int, delta: float) -> None:
        self.guesses, self.right, self.slips = guesses, right, 2 * size * delta
        self.values = np.arange(right - 1, -1, -1)
        logs = gammaln(np.arange(guesses + 2).astype(np.float64)) if self.slips > 0 else np.zeros(0)
        # ln of the binomial coefficients of v - 1, v - 2, ..., 0.
        self.choices = logs[-1] - logs[self.values + 1] - logs[guesses - self.values + 1] if self.slips > 0 else logs

    def fixed(self, epsilon: float) -> float:
        """Return the bound for a number of guesses that was fixed beforehand."""
        return min(self._luck(epsilon) + self._slip(epsilon), 1.0)

    def random(self, epsilon: float) -> float:
        """Return it for a number of guesses that the result decided.

        Given the result, right guesses are at most W + F, and F has mean 2 m delta over all results (Theorem 5.2).
        So chances to reject add up to at most (1 - s) a + s a if it takes P[W >= v] <= (1 - s) a *and* the other
        term <= s a: for each number of guesses apart, and so for a random one.
        """
        if self.slips == 0:
            return self._luck(epsilon)
        return min(max(self._luck(epsilon) / (1 - _DELTA_SHARE), self._slip(epsilon) / _DELTA_SHARE), 1.0)

    def _luck(self, epsilon: float) -> float:
        return float(bdtrc(self.right - 1, self.guesses, expit(epsilon))) if self.right > 0 else 1.0

    def _slip(self, epsilon: float) -> float:
        if self.slips == 0 or self.right == 0:
            return 0.0
        # ln q and ln (1 - q) without cancellation.
        q, p = -np.logaddexp(0.0, -epsilon), -np.logaddexp(0.0, epsilon)
        below = np.cumsum(np.exp(self.choices + self.values * q + (self.guesses - self.values) * p))
        return self.slips * float(np.max(below / np.arange(1, self.right + 1)))


def _largest(rejected: Callable[[float], bool]) -> float:
    """Return the largest epsilon that is rejected, from below; 0 if none is."""
    if not rejected(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while rejected(high):
        low, high = high, 2 * high
    while high - low > _PRECISION * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rejected(middle) else (low, middle)
    return low


class GuessMethod(BoundMethod):
    """Guesses from a ranking of all canaries."""

    num_guesses: int | None
    num_out_guesses: int
    assumptions: tuple[str, ...] = (COINS,)

    @abstractmethod
    def finding(self, sample: Sample, guesses: int, right: int, level: Level) -> MethodBound:
        """Bound epsilon by a number of guesses that was fixed beforehand."""

    @abstractmethod
    def beats(self, best: MethodBound, guesses: int, right: int, level: Level) -> bool:
        """Whether so many right guesses may show more than the best so far."""

    def fixed(self, sample: Sample, level: Level) -> MethodBound:
        """Guess the numbers asked for: the highest scores as members, the lowest as others."""
        if self.num_guesses is None:
            raise InvalidArgument("num_guesses", None, "a number of guesses, or a threshold rule")
        accused, cleared = self.num_guesses, self.num_out_guesses
        if accused + cleared > sample.num_in + sample.num_out:
            raise InvalidArgument("num_guesses", accused + cleared, "at most as many guesses as canaries")
        return self.finding(sample, accused + cleared, right_guesses(sample, accused, cleared), level)

    def everywhere(self, sample: Sample, level: Level) -> MethodBound:
        """Guess members only, as many as shows most of a ladder of numbers that the data has no part in."""
        size = sample.num_in + sample.num_out
        rungs = numbers_of_guesses(size, level.error)
        shared = Level(level.error / len(rungs), level.delta)
        best: MethodBound | None = None
        tried = [(rung, right_guesses(sample, rung, 0)) for rung in rungs]
        for rung, right in sorted(tried, key=lambda pair: -pair[1] / pair[0]):
            # Most rungs are passed over at the price of one evaluation.
            if best is None or self.beats(best, rung, right, shared):
                found = self.finding(sample, rung, right, shared)
                best = found if best is None or found.lower > best.lower else best
        assert best is not None
        return best

    def choose(self, sample: Sample, level: Level) -> float:
        """Return the score down to which guesses show most."""
        guesses = int(self.everywhere(sample, level).details["num_guesses"])
        return float(sample.ranked[-guesses])

    def split(self, sample: Sample, fraction: float, rng: np.random.Generator) -> tuple[Sample, Sample]:
        """Split without a look at the coins: those of the second part must stay fair."""
        first, second = sample.pooled(fraction, rng)
        if not (first.num_in + first.num_out and second.num_in + second.num_out):
            raise InvalidArgument("fraction", fraction, "a fraction that leaves canaries in both parts")
        return first, second


@dataclass(frozen=True, slots=True)
class OneRun(GuessMethod):
    """Guesses of who was included, from one run with many canaries.

    Guarantee:
        A lower bound on epsilon at any delta, for every mechanism, from a single run.

    Assumes:
        Each canary was included by a fair coin of its own (the caller's duty). With ``num_guesses``, that it was fixed
        beforehand (the caller's duty); without, the choice is corrected for (checked here).

    References:
        Steinke, Nasr & Jagielski 2023, Theorem 5.2. Ties at the last guess count as wrong as they can be.

    Attributes:
        num_guesses: How many of the highest scores are guessed to be members; None leaves it to a threshold rule.
        num_out_guesses: How many of the lowest are guessed not to be.
    """

    num_guesses: int | None = None
    num_out_guesses: int = 0
    description = "one run"

    def __post_init__(self) -> None:
        check_guesses(self.num_guesses, self.num_out_guesses)

    def finding(self, sample: Sample, guesses: int, right: int, level: Level) -> MethodBound:
        """Bound epsilon by a fixed number of guesses."""
        size = sample.num_in + sample.num_out
        lower = one_run_epsilon(size, guesses, right, significance=level.error, delta=level.delta)
        return _finding(sample, guesses, right, lower)

    def beats(self, best: MethodBound, guesses: int, right: int, level: Level) -> bool:
        """Whether it is contradicted, first with delta 0: that is cheap, and necessary."""
        size = best.num_in + best.num_out
        deltas = (0.0, level.delta)
        return all(_Chances(size, guesses, right, delta).fixed(best.lower) <= level.error for delta in deltas)

    def at(self, sample: Sample, threshold: float, level: Level) -> MethodBound:
        """Guess all at or above the threshold to be members: their number is random, and the bound is for that."""
        tp, fp = sample.counts(threshold)
        chances = _Chances(sample.num_in + sample.num_out, int(tp + fp), int(tp), level.delta)
        lower = _largest(lambda epsilon: chances.random(epsilon) <= level.error)
        return _finding(sample, int(tp + fp), int(tp), lower, threshold)


@dataclass(frozen=True, slots=True)
class OneRunFDP(GuessMethod):
    """The same guesses, held against the whole trade-off curve of Gaussian noise: about twice the bound.

    Guarantee:
        A lower bound on mu of Gaussian differential privacy, and by it on epsilon at a positive delta.

    Assumes:
        A Gaussian trade-off curve (the caller's duty). Fair, independent coins (the caller's duty). The number of
        guesses is fixed beforehand, or one of a ladder that is corrected for (checked here): with a threshold
        instead, which makes it random, no proof is known to us.

    References:
        Mahloujifar, Melis & Chaudhuri 2024, Algorithm 3 (audit_rh_with_cap).

    Attributes:
        num_guesses: How many of the highest scores are guessed to be members; None leaves it to `Bonferroni`.
        num_out_guesses: How many of the lowest are guessed not to be.
    """

    num_guesses: int | None = None
    num_out_guesses: int = 0
    description = "one run, f-DP of Gaussian noise"
    assumptions = (COINS, "The mechanism's trade-off curve is that of Gaussian noise")

    def __post_init__(self) -> None:
        check_guesses(self.num_guesses, self.num_out_guesses)

    def finding(self, sample: Sample, guesses: int, right: int, level: Level) -> MethodBound:
        """Bound mu by a fixed number of guesses; the point estimate is the bound at even odds."""
        size = sample.num_in + sample.num_out
        mu = one_run_fdp_mu(size, guesses, right, significance=level.error)
        even = one_run_fdp_mu(size, guesses, right, significance=max(0.5, level.error))
        return _finding(sample, guesses, right, gdp_epsilon(mu, level.delta), None, mu, gdp_epsilon(even, level.delta))

    def beats(self, best: MethodBound, guesses: int, right: int, level: Level) -> bool:
        """Whether the best mu is contradicted."""
        return rejected(best.num_in + best.num_out, guesses, right, level.error, best.mu_lower or 0.0)

    def at(self, sample: Sample, threshold: float, level: Level) -> MethodBound:
        """Refuse: the number of guesses would be random."""
        raise Unsupported(
            "OneRunFDP at a threshold: it makes the number of guesses random, and no proof is known for that",
            "Use OneRunFDP(num_guesses=...), or Bonferroni()",
        )


def _finding(
    sample: Sample,
    guesses: int,
    right: int,
    lower: float,
    threshold: float | None = None,
    mu: float | None = None,
    point: float | None = None,
) -> MethodBound:
    wrong = guesses - right
    observed = math.inf if wrong == 0 and right else max(math.log(right / wrong), 0.0) if right else 0.0
    details: dict[str, float | int | str] = {"num_guesses": guesses, "num_correct": right}
    if threshold is not None:
        details["threshold"] = threshold
    return MethodBound(
        lower=lower,
        point=observed if point is None else point,
        num_in=sample.num_in,
        num_out=sample.num_out,
        mu_lower=mu,
        details={"num_canaries": sample.num_in + sample.num_out, **details},
    )
