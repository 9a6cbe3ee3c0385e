"""Choosing the best of many candidates: exponential mechanism, permute-and-flip, report noisy max, top k."""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting import calibrate_noise, events
from hush.errors import InvalidArgument, check_count, check_delta, check_positive
from hush.guarantee import Guarantee
from hush.mechanisms.mechanism import Mechanism, Release, SensitivityType
from hush.mechanisms.noise import check_confidence, check_monotone
from hush.numerics import down, numbers, silent
from hush.randomness import Grid, Noise, RandomSource, flip_exp, gap, rank, source_or_default, uniform_below

_LARGEST = sys.float_info.max


@dataclass(frozen=True, kw_only=True)
class _Selection(Mechanism):
    """A choice among candidates by their scores; higher is better.

    Attributes:
        epsilon: What one choice costs.
        sensitivity: How far every single score may move between neighbours.
        monotone: Whether all scores move the same way (as counts do when a record is added): half the noise.
    """

    sensitivity_type = SensitivityType.LINF

    epsilon: float
    sensitivity: float = 1.0
    monotone: bool = False
    _rate: float = field(init=False, repr=False, compare=False)  # deficits in units of the noise

    def _prepare(self) -> None:
        check_positive("epsilon", self.epsilon)
        check_positive("sensitivity", self.sensitivity)
        check_monotone(self.monotone, self.relation)
        events.ExponentialMechanismEvent(self._epsilon_each())
        rate = down(self._epsilon_each() / self.sensitivity) * (1.0 if self.monotone else 0.5)
        if not 1e-190 < rate < 1e190:
            raise InvalidArgument("sensitivity", self.sensitivity, "between 1e-180 and 1e180", "Use another unit")
        self._set(_rate=rate)

    def _epsilon_each(self) -> float:
        return self.epsilon

    def _promise(self) -> Guarantee:
        moves = "by at most" if not self.monotone else "in one direction by at most"
        return self._claim(
            self.epsilon, 0.0, self._method(), f"between neighbours every score moves {moves} {self.sensitivity:.6g}"
        )

    @abstractmethod
    def _method(self) -> str:
        """Return the mechanism's name."""

    def _describe(self) -> events.Event:
        return events.ApproximateDPEvent(self.epsilon)

    def accuracy(self, num_candidates: int, confidence: float = 0.95) -> float:
        """Return what, with this confidence, no candidate left out is better by than a chosen one."""
        wrong = check_confidence(confidence)
        return math.log(check_count("num_candidates", num_candidates) / wrong) / self._rate * self._reach()

    def _reach(self) -> float:
        return 1.0

    def _scores(self, scores: Any) -> NDArray[np.float64]:
        """Return finite scores: NaN counts as the worst possible one, infinity as the largest number."""
        array = numbers("scores", scores)
        if array.ndim != 1 or array.size == 0:
            raise InvalidArgument("scores.shape", array.shape, "a list of at least one score")
        if not (np.isfinite(array.min()) and np.isfinite(array.max())):
            array = np.nan_to_num(array, nan=-_LARGEST, posinf=_LARGEST, neginf=-_LARGEST)
        return array


@dataclass(frozen=True, kw_only=True)
class ExponentialMechanism(_Selection):
    """Choose candidate i with probability proportional to e^(epsilon score_i / (2 sensitivity)), exactly.

    By the Gumbel trick in log space, so that nothing overflows; comparisons that rounding could turn are made exactly.
    With ``monotone`` scores the weight is e^(epsilon score_i / sensitivity).

    >>> ExponentialMechanism(epsilon=50.0).release([1.0, 9.0, 3.0]).value
    1

    Guarantee:
        epsilon-differential privacy, and bounded range epsilon, which composes better (its event says so).

    Assumes:
        Every score moves by at most ``sensitivity`` between neighbours (the caller's duty), for ``monotone`` all of
        them in the same direction (the caller's duty).

    References:
        McSherry & Talwar 2007, Theorem 6; Dong, Durfee & Rogers 2020 (bounded range); utility: McSherry & Talwar 2007,
        Theorem 8.
    """

    @silent
    def release(self, scores: Any, source: RandomSource | None = None) -> Release[int]:
        """Return the index of the chosen candidate."""
        chosen = source_or_default(source)
        return self._released(rank(chosen, Noise.GUMBEL, self._scores(scores), self._rate, 1)[0].index, chosen)

    def _method(self) -> str:
        return "exponential mechanism"

    def _describe(self) -> events.Event:
        return events.ExponentialMechanismEvent(self.epsilon)


@dataclass(frozen=True, kw_only=True)
class PermuteAndFlip(_Selection):
    """Go through the candidates in random order; take each with probability e^(-epsilon deficit / (2 sensitivity)).

    Never worse in expectation than the exponential mechanism, up to twice as good. The same as report noisy max with
    exponential noise. Here all coins are flipped, and one that came up is taken at random: the same law.

    Guarantee:
        epsilon-differential privacy, delta = 0.

    Assumes:
        Every score moves by at most ``sensitivity`` between neighbours, for ``monotone`` all of them in the same
        direction (the caller's duty).

    References:
        McKenna & Sheldon 2020, Theorems 1 and 2; Ding et al. 2021 (the equivalence).
    """

    @silent
    def release(self, scores: Any, source: RandomSource | None = None) -> Release[int]:
        """Return the index of the chosen candidate."""
        chosen = source_or_default(source)
        array, rate = self._scores(scores), self._rate
        best = float(array.max())
        deficits = best - array
        deficits *= rate

        def exact(index: int) -> Fraction:
            return (Fraction(best) - Fraction(float(array[index]))) * Fraction(rate)

        taken = np.flatnonzero(flip_exp(chosen, deficits, exact))
        return self._released(int(taken[uniform_below(chosen, taken.size, 1)[0]]), chosen)

    def _method(self) -> str:
        return "permute-and-flip"


@dataclass(frozen=True, kw_only=True)
class ReportNoisyMax(_Selection):
    """Add Laplace noise of scale 2 sensitivity / epsilon to every score, and tell which one is largest: only that.

    The noisy maximum itself is not released: it would cost more (see MATHS: an attack shows 0.248 for a claimed 0.1).

    Guarantee:
        epsilon-differential privacy, delta = 0.

    Assumes:
        Every score moves by at most ``sensitivity`` between neighbours, for ``monotone`` all of them in the same
        direction (the caller's duty).

    References:
        Dwork & Roth 2014, Claim 3.9 (monotone counts, scale 1 / epsilon); Ding, Wang, Zhang & Kifer 2019, Theorem 2.
    """

    @silent
    def release(self, scores: Any, source: RandomSource | None = None) -> Release[int]:
        """Return the index of the candidate with the largest noisy score."""
        chosen = source_or_default(source)
        return self._released(rank(chosen, Noise.LAPLACE, self._scores(scores), self._rate, 1)[0].index, chosen)

    def _method(self) -> str:
        return "report noisy max"

    def _reach(self) -> float:
        return 2.0  # the best may lose, and another one gain, the largest of all noises


@dataclass(frozen=True, kw_only=True)
class ReportNoisyMaxWithGap(ReportNoisyMax):
    """`ReportNoisyMax`, and for the same epsilon by how much the noisy winner beats the noisy runner-up.

    The gap is the floor of a real number on a grid that follows from epsilon and the sensitivity.

    Guarantee:
        epsilon-differential privacy, delta = 0, for index and gap together.

    Assumes:
        As for `ReportNoisyMax` (the caller's duty). There are at least two candidates (checked here).

    References:
        Ding, Wang, Zhang & Kifer 2019, Theorem 2 (free gap information), with k = 1.
    """

    @silent
    def release(self, scores: Any, source: RandomSource | None = None) -> Release[Any]:
        """Return (index, gap): the winner, and its noisy lead."""
        chosen = source_or_default(source)
        array = self._scores(scores)
        if len(array) < 2:
            raise InvalidArgument("scores.shape", array.shape, "at least two scores", "One has no runner-up")
        first, second = rank(chosen, Noise.LAPLACE, array, self._rate, 2)
        grid = Grid.for_scale(1 / self._rate)
        lead = gap(first, second, 1 / (Fraction(self._rate) * Fraction(grid.spacing)))
        return self._released((first.index, float(min(lead * Fraction(grid.spacing), Fraction(_LARGEST)))), chosen)

    def gap_accuracy(self, num_candidates: int, confidence: float = 0.95) -> float:
        """Return what, with this confidence, the gap is off the difference of the two candidates' scores by at most."""
        return self.accuracy(num_candidates, confidence)  # each of the two noises is below half of that

    def _method(self) -> str:
        return "report noisy max with gap"


@dataclass(frozen=True, kw_only=True)
class OneShotTopK(_Selection):
    """Add Laplace noise of scale 2 k sensitivity / epsilon once, and tell the k largest, in order.

    For pure epsilon. With a delta, `IteratedTopK` needs less noise from a handful of candidates on.

    Guarantee:
        epsilon-differential privacy, delta = 0.

    Assumes:
        Every score moves by at most ``sensitivity`` between neighbours, for ``monotone`` all of them in the same
        direction (the caller's duty).

    References:
        Ding, Wang, Zhang & Kifer 2019, Theorem 2; Qiao, Su & Zhang 2021 (one-shot noise).
    """

    k: int

    def _epsilon_each(self) -> float:
        return check_positive("epsilon", self.epsilon) / check_count("k", self.k)

    @silent
    def release(self, scores: Any, source: RandomSource | None = None) -> Release[list[int]]:
        """Return the indices of the k best candidates, best first; all, if there are fewer."""
        chosen = source_or_default(source)
        found = rank(chosen, Noise.LAPLACE, self._scores(scores), self._rate, self.k)
        return self._released([key.index for key in found], chosen)

    def _method(self) -> str:
        return "one-shot top k"

    def _reach(self) -> float:
        return 2.0


@dataclass(frozen=True, kw_only=True)
class IteratedTopK(_Selection):
    """The exponential mechanism k times, each time without those already chosen; for (epsilon, delta) in all.

    Done in one pass: Gumbel noise added once, and the k largest taken in order, has the same law.

    Guarantee:
        (epsilon, delta)-differential privacy for all k together, by the composition of bounded range mechanisms.

    Assumes:
        Every score moves by at most ``sensitivity`` between neighbours, for ``monotone`` all of them in the same
        direction (the caller's duty).

    References:
        Durfee & Rogers 2019, Lemma 4.2 (the one pass); Dong, Durfee & Rogers 2020 (optimal composition).
    """

    k: int
    delta: float = 0.0
    _each: float = field(init=False, repr=False, compare=False)

    def _epsilon_each(self) -> float:
        epsilon, k = check_positive("epsilon", self.epsilon), check_count("k", self.k)
        each = _epsilon_each(float(epsilon), check_delta("delta", self.delta), k)
        self._set(_each=each)
        return each

    def _promise(self) -> Guarantee:
        stated = super()._promise()
        return self._claim(self.epsilon, self.delta, self._method(), *stated.assumptions)

    def _describe(self) -> events.Event:
        return events.SelfComposedEvent(events.ExponentialMechanismEvent(self._each), self.k)

    @silent
    def release(self, scores: Any, source: RandomSource | None = None) -> Release[list[int]]:
        """Return the indices of the k best candidates, best first; all, if there are fewer."""
        chosen = source_or_default(source)
        found = rank(chosen, Noise.GUMBEL, self._scores(scores), self._rate, self.k)
        return self._released([key.index for key in found], chosen)

    def _method(self) -> str:
        return "iterated exponential mechanism"

    def accuracy(self, num_candidates: int, confidence: float = 0.95) -> float:
        """Return what, with this confidence, no candidate left out is better by than a chosen one."""
        wrong = check_confidence(confidence)
        return math.log(check_count("num_candidates", num_candidates) * self.k / wrong) / self._rate


@lru_cache(maxsize=256)
def _epsilon_each(epsilon: float, delta: float, k: int) -> float:
    if delta == 0 or k == 1:
        return down(epsilon / k)

    def template(noise: float) -> events.Event:
        return events.SelfComposedEvent(events.ExponentialMechanismEvent(1 / noise), k)

    return max(1 / calibrate_noise(epsilon=epsilon, delta=delta, template=template), down(epsilon / k))
