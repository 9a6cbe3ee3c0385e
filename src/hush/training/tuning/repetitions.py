"""The number of runs in a private search: random, and secret.

Releasing the best of exactly k runs may cost k times as much as one run. The best of K runs costs far less if K is
drawn from one of the distributions below and never revealed (Papernot & Steinke 2022). With a mean of 10 and Gaussian
runs of noise 1 to 32, the search costs between 1.5 and 2.3 times the epsilon of one run, at delta 1e-5.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache
from typing import ClassVar

from hush.accounting import Event, GaussianEvent, RepeatNegativeBinomialEvent, RepeatPoissonEvent
from hush.errors import InvalidArgument, check_epsilon, check_positive
from hush.randomness import RandomSource

MAX_MEAN = 1e5
"""The largest mean number of runs; more would take too long."""

_EXACT = Context(prec=100)
_NEGLIGIBLE = Decimal("1e-90")
_ANY_RUN = GaussianEvent(1.0)  # the mean of an event's K does not depend on the run


@dataclass(frozen=True, slots=True)
class Repetitions(ABC):
    """A distribution of the number K of runs: `logarithmic`, `negative_binomial` or `poisson`.

    >>> Repetitions.logarithmic(mean=10).mean
    10.0

    Attributes:
        mean: The mean number of runs. It is public; K is not.
    """

    name: ClassVar[str]
    mean: float

    @staticmethod
    def logarithmic(mean: float) -> Repetitions:
        """Return the cheapest distribution. P(k) ~ (1 - gamma)^k / k for k >= 1, where the mean determines gamma.

        It is spread out. With a mean of 10, one search in four is a single run, and one in ten has more than 25 runs.

        >>> from hush.randomness import TestSource
        >>> [Repetitions.logarithmic(mean=10).draw(TestSource(seed)) for seed in range(6)]
        [1, 6, 1, 6, 11, 13]
        """
        return LogarithmicRepetitions(mean)

    @staticmethod
    def negative_binomial(mean: float, *, shape: float = 1.0) -> Repetitions:
        """Return P(k) ~ (1 - gamma)^k binomial(k + shape - 1, k) for k >= 1; with shape 1, the geometric distribution.

        For the same mean, a smaller shape costs less, and K is 1 more often.
        """
        return NegativeBinomialRepetitions(mean, shape)

    @staticmethod
    def poisson(mean: float) -> Repetitions:
        """Return the Poisson distribution. With probability e^-mean there is no run, and the search returns nothing.

        K is close to its mean. For Gaussian runs of noise 2, and 10 runs on average, epsilon is 3.99 at delta 1e-5. The
        geometric distribution costs 3.76, the logarithmic one 3.30.
        """
        return PoissonRepetitions(mean)

    @abstractmethod
    def event(self, run: Event) -> Event:
        """Return the event of K runs, each of which costs ``run``, if only the best is released."""

    def draw(self, source: RandomSource) -> int:
        """Draw K by inversion of its cumulative distribution, with 256 random bits and 100 digits.

        The distribution is within 2^-200 of the theorem's in total variation.
        """
        bits = int.from_bytes(source.words(4).tobytes(), "little")
        uniform = _EXACT.divide(Decimal(bits), Decimal(1 << 256))
        k, probability = self._first()
        cumulative = probability
        while uniform >= cumulative:
            probability = _EXACT.multiply(probability, self._ratio(k))
            cumulative = _EXACT.add(cumulative, probability)
            k += 1
            if k > self.mean and probability < _NEGLIGIBLE:  # rounding may leave the sum just below 1
                break
        return k

    @abstractmethod
    def _first(self) -> tuple[int, Decimal]:
        """Return the smallest K and its probability."""

    @abstractmethod
    def _ratio(self, k: int) -> Decimal:
        """Return P(K = k + 1) / P(K = k)."""


@dataclass(frozen=True, slots=True)
class NegativeBinomialRepetitions(Repetitions):
    """K >= 1 has the truncated negative binomial distribution: P(k) ~ (1 - gamma)^k binomial(k + shape - 1, k).

    With shape 1 it is the geometric distribution. For the same mean, a smaller shape costs less, and K is 1 more often.

    Attributes:
        mean: The mean number of runs, which determines gamma.
        shape: 0, or between 1e-3 and 1e3.

    References:
        Papernot & Steinke 2022, "Hyperparameter Tuning with Renyi Differential Privacy", Definition 1 and Theorem 2,
        for shapes >= 0 (eta in the paper).

    >>> geometric = NegativeBinomialRepetitions(mean=10)
    >>> round(geometric.gamma, 6)
    0.1
    """

    name: ClassVar[str] = "truncated negative binomial"
    shape: float = 1.0

    def __post_init__(self) -> None:
        """Check the mean and the shape."""
        shape = check_epsilon("shape", self.shape, "1 is geometric, 0 is logarithmic")
        if not (shape == 0 or 1e-3 <= shape <= 1e3):
            raise InvalidArgument("shape", shape, "0, or between 1e-3 and 1e3")
        mean = check_positive("mean", self.mean, maximum=MAX_MEAN)
        if not mean >= 1.01:
            raise InvalidArgument("mean", mean, "at least 1.01 runs", "A single run needs no search")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "shape", shape)
        self.gamma  # noqa: B018 - refuses a mean that is impossible with this shape

    @property
    def gamma(self) -> float:
        """The parameter that gives the mean."""
        return _gamma(self.mean, self.shape)

    def event(self, run: Event) -> Event:
        return RepeatNegativeBinomialEvent(run, self.gamma, self.shape)

    def _first(self) -> tuple[int, Decimal]:
        gamma, shape = Decimal(self.gamma), Decimal(self.shape)
        log_gamma = _EXACT.ln(gamma)
        stay = _EXACT.subtract(Decimal(1), gamma)
        if self.shape == 0:  # the limit: P(k) = (1 - gamma)^k / (k ln(1 / gamma))
            return 1, _EXACT.divide(stay, -log_gamma)
        # P(1) = (1 - gamma) shape / (gamma^-shape - 1)
        normaliser = _EXACT.subtract(_EXACT.exp(_EXACT.multiply(-shape, log_gamma)), Decimal(1))
        return 1, _EXACT.divide(_EXACT.multiply(stay, shape), normaliser)

    def _ratio(self, k: int) -> Decimal:
        # binomial(k + shape, k + 1) / binomial(k + shape - 1, k) = (k + shape) / (k + 1)
        stay = _EXACT.subtract(Decimal(1), Decimal(self.gamma))
        return _EXACT.divide(_EXACT.multiply(stay, _EXACT.add(Decimal(self.shape), k)), Decimal(k + 1))


@dataclass(frozen=True, slots=True)
class LogarithmicRepetitions(NegativeBinomialRepetitions):
    """K >= 1 has the logarithmic distribution: P(k) ~ (1 - gamma)^k / k. It is the cheapest of the family.

    Attributes:
        mean: The mean number of runs, which determines gamma.
        shape: Always 0.

    References:
        Papernot & Steinke 2022, Definition 1 and Theorem 2 with eta = 0.
    """

    name: ClassVar[str] = "logarithmic"
    shape: float = 0.0

    def __post_init__(self) -> None:
        """Check the mean, and that the shape is 0."""
        if not self.shape == 0:
            raise InvalidArgument("shape", self.shape, "0", "Use Repetitions.negative_binomial for other shapes")
        NegativeBinomialRepetitions.__post_init__(self)


@dataclass(frozen=True, slots=True)
class PoissonRepetitions(Repetitions):
    """K has the Poisson distribution. With probability e^-mean there is no run, and the search returns nothing.

    Attributes:
        mean: The mean number of runs.

    References:
        Papernot & Steinke 2022, Theorem 6.

    >>> PoissonRepetitions(mean=10).event(GaussianEvent(2.0))
    RepeatPoissonEvent(event=GaussianEvent(noise_multiplier=2.0), mean=10.0)
    """

    name: ClassVar[str] = "Poisson"

    def __post_init__(self) -> None:
        """Check the mean."""
        object.__setattr__(self, "mean", check_positive("mean", self.mean, maximum=MAX_MEAN))

    def event(self, run: Event) -> Event:
        return RepeatPoissonEvent(run, self.mean)

    def _first(self) -> tuple[int, Decimal]:
        return 0, _EXACT.exp(-Decimal(self.mean))

    def _ratio(self, k: int) -> Decimal:
        return _EXACT.divide(Decimal(self.mean), Decimal(k + 1))  # mean^(k + 1) / (k + 1)! over mean^k / k!


@lru_cache(maxsize=64)
def _gamma(mean: float, shape: float) -> float:
    """Return the gamma of a mean by bisection. The mean falls from infinity to 1 as gamma grows from 0 to 1."""

    def mean_of(gamma: float) -> float:
        return RepeatNegativeBinomialEvent(_ANY_RUN, gamma, shape).mean

    low, high = 1e-12, 1 - 1e-9
    if not mean_of(low) > mean > mean_of(high):
        raise InvalidArgument("mean", mean, "a mean number of runs that is possible with this shape")
    for _ in range(200):
        # Small gammas differ in magnitude, so bisect their logarithms.
        middle = (low * high) ** 0.5 if high < 0.1 else 0.5 * (low + high)
        low, high = (middle, high) if mean_of(middle) > mean else (low, middle)
    return high
