"""Selection: the exponential mechanism, permute-and-flip, report-noisy-max and top-k.

    scores     one number for each candidate; NaN counts as the worst, infinity as the largest number
    deficits   how far each score is below the best, in units of the noise (``_rate`` is one over the noise scale)
    ranking    real-valued noise and exact comparisons (`hush.randomness.rank`)
    release    the index of the winner, or the indices of the k best

The best score itself is never released.
"""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting import events, selection_epsilon
from hush.errors import InvalidArgument, check_confidence, check_count, check_delta, check_positive
from hush.guarantee import Guarantee
from hush.mechanisms.mechanism import Mechanism, Release, SensitivityType
from hush.mechanisms.sensitivity import Monotone, score_assumption, score_moves
from hush.numerics import as_floats, quiet_numpy, round_down
from hush.randomness import Grid, Noise, RandomSource, flip_exp, gap, rank, source_or_default, uniform_below

_LARGEST = sys.float_info.max


@dataclass(frozen=True, kw_only=True)
class _ScoredChoice(Mechanism):
    """Base of the mechanisms that choose among candidates by their scores; a higher score is better.

    Attributes:
        epsilon: The cost of one release.
        sensitivity: How far each score can move between neighbours: a number, or `Monotone` where all scores move in
            the same direction, as counts do when a record is added, which halves the noise.
    """

    sensitivity_type = SensitivityType.LINF

    epsilon: float
    sensitivity: float | Monotone = 1.0
    _rate: float = field(init=False, repr=False, compare=False)  # one over the noise scale

    def _prepare(self) -> None:
        check_positive("epsilon", self.epsilon)
        largest_change, directions = score_moves(self.sensitivity, self.relation)
        choice_epsilon = self._choice_epsilon()
        events.ExponentialMechanismEvent(choice_epsilon)  # refuses an epsilon outside the accountants' range
        # Two scores can move towards each other by the sensitivity each, unless all move in one direction.
        rate = round_down(choice_epsilon / largest_change) / directions
        # Outside, the products of rate and score that the ranking compares would over- or underflow.
        if not 1e-190 < rate < 1e190:
            raise InvalidArgument(
                "sensitivity", largest_change, "between 1e-180 and 1e180", "Measure the scores in a different unit"
            )
        self._set(_rate=rate)

    def _choice_epsilon(self) -> float:
        """Return the share of epsilon that one choice gets."""
        return self.epsilon

    def _promise(self) -> Guarantee:
        return self._claim(self.epsilon, 0.0, self._method(), score_assumption("score", self.sensitivity))

    @abstractmethod
    def _method(self) -> str:
        """Return the mechanism's name."""

    def _describe(self) -> events.Event:
        return events.ApproximateDPEvent(self.epsilon)

    def accuracy(self, num_candidates: int, confidence: float = 0.95) -> float:
        """Return a bound on the regret.

        With this confidence, no candidate that was left out has a score higher than a chosen one's by more than this.
        """
        # A union bound over the candidates, each with probability e^-t at the distance t / rate.
        error_rate = 1 - check_confidence("confidence", confidence)
        return math.log(check_count("num_candidates", num_candidates) / error_rate) / self._rate * self._noise_terms()

    def _noise_terms(self) -> float:
        """Return how many times the largest noise can enter the regret."""
        return 1.0

    def _scores(self, scores: Any) -> NDArray[np.float64]:
        """Return the scores as finite floats: NaN as the worst possible score, infinity as the largest number."""
        array = as_floats("scores", scores)
        if array.ndim != 1 or array.size == 0:
            raise InvalidArgument("scores.shape", array.shape, "a list of at least one score")
        if not (np.isfinite(array.min()) and np.isfinite(array.max())):
            # Whether a score is usable depends on the data, so it must not raise: an exception is an answer.
            array = np.nan_to_num(array, nan=-_LARGEST, posinf=_LARGEST, neginf=-_LARGEST)
        return array


@dataclass(frozen=True, kw_only=True)
class ExponentialMechanism(_ScoredChoice):
    """Choose candidate i with probability proportional to e^(epsilon score_i / (2 sensitivity)), exactly.

    It adds Gumbel noise to the scores and takes the largest, which has this distribution and cannot overflow. With a
    `Monotone` sensitivity the weight is e^(epsilon score_i / sensitivity). Known as the exponential mechanism.

    >>> from hush.randomness import TestSource
    >>> ExponentialMechanism(epsilon=50.0).release([1.0, 9.0, 3.0], TestSource(1)).value
    1

    Guarantee:
        epsilon-differential privacy, and bounded range epsilon, which composes better (its event says so).

    Assumes:
        Every score moves by at most ``sensitivity`` between neighbours (the caller's duty). If it is `Monotone`, all
        scores move in the same direction (the caller's duty).

    References:
        McSherry & Talwar 2007, Theorem 6; Dong, Durfee & Rogers 2020 (bounded range); utility: McSherry & Talwar 2007,
        Theorem 8.
    """

    @quiet_numpy
    def release(self, scores: Any, source: RandomSource | None = None) -> Release[int]:
        """Return the index of the chosen candidate."""
        random_source = source_or_default(source)
        return self._released(
            # argmax_i (rate score_i + Gumbel_i) is i with probability proportional to e^(rate score_i).
            rank(random_source, Noise.GUMBEL, self._scores(scores), self._rate, 1)[0].index,
            random_source,
        )

    def _method(self) -> str:
        return "exponential mechanism"

    def _describe(self) -> events.Event:
        # Log-probabilities move within an interval of length epsilon (Dong, Durfee & Rogers 2020): bounded range, which
        # composes better than a claim of epsilon-DP.
        return events.ExponentialMechanismEvent(self.epsilon)


@dataclass(frozen=True, kw_only=True)
class PermuteAndFlip(_ScoredChoice):
    """Visit the candidates in random order; accept each with probability e^(-epsilon deficit / (2 sensitivity)).

    The deficit is the distance from the best score. In expectation it is never worse than the exponential mechanism,
    and up to twice as good. It equals report-noisy-max with exponential noise. The implementation flips all coins and
    picks one of the accepted candidates uniformly, which has the same distribution.

    >>> from hush.randomness import TestSource
    >>> PermuteAndFlip(epsilon=50.0).release([1.0, 9.0, 3.0], TestSource(1)).value
    1

    Guarantee:
        epsilon-differential privacy, delta = 0. It composes as Laplace noise on one number does (its event says so).

    Assumes:
        Every score moves by at most ``sensitivity`` between neighbours. If it is `Monotone`, all scores move in the
        same direction (the caller's duty).

    References:
        McKenna & Sheldon 2020, Theorems 1 and 2; Ding et al. 2021 (the equivalence).
    """

    @quiet_numpy
    def release(self, scores: Any, source: RandomSource | None = None) -> Release[int]:
        """Return the index of the chosen candidate."""
        random_source = source_or_default(source)
        array, rate = self._scores(scores), self._rate
        best = float(array.max())
        deficits = best - array
        deficits *= rate

        def exact_deficit(index: int) -> Fraction:
            return (Fraction(best) - Fraction(float(array[index]))) * Fraction(rate)

        accepted = np.flatnonzero(flip_exp(random_source, deficits, exact_deficit))  # the best candidate always is
        # The coins are independent of the order, so the first acceptance in a random order is uniform among all
        # acceptances.
        winner = accepted[uniform_below(random_source, accepted.size, 1)[0]]
        return self._released(int(winner), random_source)

    def _method(self) -> str:
        return "permute-and-flip"

    def _describe(self) -> events.Event:
        # The largest score with exponential noise, which costs no more than Laplace noise on one number.
        return events.NoisyMaxEvent(self.epsilon)


@dataclass(frozen=True, kw_only=True)
class ReportNoisyMax(_ScoredChoice):
    """Add Laplace noise of scale 2 sensitivity / epsilon to every score and return the index of the largest.

    The noisy maximum itself is not released. It would cost more: for a claimed epsilon of 0.1, an attack proves 0.248.
    Known as report noisy max. Some textbooks release the noisy maximum, too, which costs more.

    >>> from hush.randomness import TestSource
    >>> ReportNoisyMax(epsilon=50.0).release([1.0, 9.0, 3.0], TestSource(1)).value
    1

    Guarantee:
        epsilon-differential privacy, delta = 0. It composes as Laplace noise on one number does (its event says so).

    Assumes:
        Every score moves by at most ``sensitivity`` between neighbours. If it is `Monotone`, all scores move in the
        same direction (the caller's duty).

    References:
        Dwork & Roth 2014, Claim 3.9 (monotone counts, scale 1 / epsilon); Ding, Wang, Zhang & Kifer 2019, Theorem 2.
    """

    @quiet_numpy
    def release(self, scores: Any, source: RandomSource | None = None) -> Release[int]:
        """Return the index of the candidate with the largest noisy score."""
        random_source = source_or_default(source)
        return self._released(
            # In units of the noise: score_i rate + Lap(1), compared as real numbers.
            rank(random_source, Noise.LAPLACE, self._scores(scores), self._rate, 1)[0].index,
            random_source,
        )

    def _method(self) -> str:
        return "report noisy max"

    def _describe(self) -> events.Event:
        return events.NoisyMaxEvent(self.epsilon)

    def _noise_terms(self) -> float:
        return 2.0  # the best score can lose, and another one gain, the largest noise


@dataclass(frozen=True, kw_only=True)
class ReportNoisyMaxWithGap(ReportNoisyMax):
    """`ReportNoisyMax` that also returns, for the same epsilon, the gap between the noisy winner and runner-up.

    The gap is a real number, rounded down to a grid that follows from epsilon and the sensitivity.

    >>> from hush.randomness import TestSource
    >>> index, gap = ReportNoisyMaxWithGap(epsilon=50.0).release([1.0, 9.0, 3.0], TestSource(1)).value
    >>> index, 5 < gap < 7
    (1, True)

    Guarantee:
        epsilon-differential privacy, delta = 0, for index and gap together.

    Assumes:
        As for `ReportNoisyMax` (the caller's duty). There are at least two candidates (checked here).

    References:
        Ding, Wang, Zhang & Kifer 2019, Theorem 2 (free gap information), with k = 1.
    """

    @quiet_numpy
    def release(self, scores: Any, source: RandomSource | None = None) -> Release[Any]:
        """Return (index, gap): the winner and its noisy lead."""
        random_source = source_or_default(source)
        array = self._scores(scores)
        if len(array) < 2:
            raise InvalidArgument("scores.shape", array.shape, "at least two scores", "A single one has no runner-up")
        first, second = rank(random_source, Noise.LAPLACE, array, self._rate, 2)
        # The grid follows from public numbers. Rounding a real-valued gap to it is post-processing.
        grid = Grid.for_scale(1 / self._rate)
        lead = gap(first, second, 1 / (Fraction(self._rate) * Fraction(grid.spacing)))
        return self._released(
            (first.index, float(min(lead * Fraction(grid.spacing), Fraction(_LARGEST)))), random_source
        )

    def gap_accuracy(self, num_candidates: int, confidence: float = 0.95) -> float:
        """Return a bound that, with this confidence, the gap's distance from the true difference does not exceed."""
        return self.accuracy(num_candidates, confidence)  # each of the two noises is below half of it

    def _method(self) -> str:
        return "report noisy max with gap"

    def _describe(self) -> events.Event:
        return events.ApproximateDPEvent(self.epsilon)  # the gap is released, too: `NoisyMaxEvent` is about an index


@dataclass(frozen=True, kw_only=True)
class OneShotTopK(_ScoredChoice):
    """Add Laplace noise of scale 2 k sensitivity / epsilon once and return the indices of the k largest, in order.

    Use it for pure epsilon. If you can afford a delta, `IteratedTopK` needs less noise once k exceeds a handful.

    >>> from hush.randomness import TestSource
    >>> OneShotTopK(epsilon=100.0, k=2).release([1.0, 9.0, 5.0], TestSource(1)).value
    [1, 2]

    Guarantee:
        epsilon-differential privacy, delta = 0.

    Assumes:
        Every score moves by at most ``sensitivity`` between neighbours. If it is `Monotone`, all scores move in the
        same direction (the caller's duty).

    References:
        Ding, Wang, Zhang & Kifer 2019, Theorem 2; Qiao, Su & Zhang 2021 (one-shot noise).
    """

    k: int

    def _choice_epsilon(self) -> float:
        # k noisy scores decide the answer, so each may cost a k-th of epsilon (Ding et al. 2019, Theorem 2).
        return check_positive("epsilon", self.epsilon) / check_count("k", self.k)

    @quiet_numpy
    def release(self, scores: Any, source: RandomSource | None = None) -> Release[list[int]]:
        """Return the indices of the k best candidates, best first, or of all candidates if there are fewer."""
        random_source = source_or_default(source)
        best = rank(random_source, Noise.LAPLACE, self._scores(scores), self._rate, self.k)
        return self._released([key.index for key in best], random_source)

    def _method(self) -> str:
        return "one-shot top k"

    def _noise_terms(self) -> float:
        return 2.0


@dataclass(frozen=True, kw_only=True)
class IteratedTopK(_ScoredChoice):
    """Apply the exponential mechanism k times, each time without the candidates already chosen.

    The implementation adds Gumbel noise once and takes the k largest in order, which has the same distribution.
    ``epsilon`` and ``delta`` are for all k choices together.

    >>> from hush.randomness import TestSource
    >>> IteratedTopK(epsilon=100.0, k=2).release([1.0, 9.0, 5.0], TestSource(1)).value
    [1, 2]

    Guarantee:
        (epsilon, delta)-differential privacy for all k choices together, by composition of bounded range mechanisms.

    Assumes:
        Every score moves by at most ``sensitivity`` between neighbours. If it is `Monotone`, all scores move in the
        same direction (the caller's duty).

    References:
        Durfee & Rogers 2019, Lemma 4.2 (the one pass); Dong, Durfee & Rogers 2020 (optimal composition).
    """

    k: int
    delta: float = 0.0
    _per_choice: float = field(init=False, repr=False, compare=False)

    def _choice_epsilon(self) -> float:
        epsilon, k = check_positive("epsilon", self.epsilon), check_count("k", self.k)
        per_choice = selection_epsilon(float(epsilon), check_delta("delta", self.delta), k)
        self._set(_per_choice=per_choice)
        return per_choice

    def _promise(self) -> Guarantee:
        assumptions = super()._promise().assumptions
        return self._claim(self.epsilon, self.delta, self._method(), *assumptions)

    def _describe(self) -> events.Event:
        return events.SelfComposedEvent(events.ExponentialMechanismEvent(self._per_choice), self.k)

    @quiet_numpy
    def release(self, scores: Any, source: RandomSource | None = None) -> Release[list[int]]:
        """Return the indices of the k best candidates, best first, or of all candidates if there are fewer."""
        random_source = source_or_default(source)
        # The k largest of one set of Gumbel-noisy scores are k exponential mechanisms without replacement (Durfee &
        # Rogers 2019, Lemma 4.2).
        best = rank(random_source, Noise.GUMBEL, self._scores(scores), self._rate, self.k)
        return self._released([key.index for key in best], random_source)

    def _method(self) -> str:
        return "iterated exponential mechanism"

    def accuracy(self, num_candidates: int, confidence: float = 0.95) -> float:
        """Return a bound on the regret.

        With this confidence, no candidate that was left out has a score higher than a chosen one's by more than this.
        """
        error_rate = 1 - check_confidence("confidence", confidence)
        # A union bound over k choices among at most all candidates.
        return math.log(check_count("num_candidates", num_candidates) * self.k / error_rate) / self._rate
