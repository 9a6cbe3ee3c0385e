"""How many runs a private search has: a number that is drawn at random and kept secret.

The number of runs must be random. The best of exactly k runs may cost k times as much as one. The best of K runs, for a
K from one of these laws that nobody gets to know, costs less (Papernot & Steinke 2022): with a mean of 10 and Gaussian
runs of noise 1 to 32, between 1.5 and 2.5 times the epsilon of one at delta 1e-5.
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
"""The most runs that a search may have on average: beyond it, nobody could pay for them in time."""

_EXACT = Context(prec=100)
_NEGLIGIBLE = Decimal("1e-90")
_PLAIN = GaussianEvent(1.0)  # some event: means and gammas do not depend on it


@dataclass(frozen=True, slots=True)
class Repetitions(ABC):
    """A law of the number K of runs, by its mean.

    Attributes:
        mean: How many runs there are on average. It is public; K is not.
    """

    name: ClassVar[str]
    mean: float

    @abstractmethod
    def event(self, run: Event) -> Event:
        """Return the event of K runs, each of them like ``run``, of which only the best is released."""

    def draw(self, source: RandomSource) -> int:
        """Draw K by inversion: 256 random bits, and sums with 100 digits.

        The law is within 2^-200 of the theorem's in total variation.
        """
        bits = int.from_bytes(source.words(4).tobytes(), "little")
        uniform = _EXACT.divide(Decimal(bits), Decimal(1 << 256))
        k, chance = self._first()
        total = chance
        while uniform >= total:
            chance = _EXACT.multiply(chance, self._ratio(k))
            total = _EXACT.add(total, chance)
            k += 1
            if k > self.mean and chance < _NEGLIGIBLE:  # rounding may leave the whole just below 1
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
    """K >= 1 has the truncated negative binomial law: P(k) ~ (1 - gamma)^k binomial(k + shape - 1, k).

    With shape 1 it is geometric. A smaller shape costs less for the same mean, and its K is more often 1.

    References:
        Papernot & Steinke 2022, Definition 1 and Theorem 2, for shapes >= 0.
    """

    name: ClassVar[str] = "truncated negative binomial"
    shape: float = 1.0

    def __post_init__(self) -> None:
        """Check the mean and the shape."""
        shape = check_epsilon("shape", self.shape, "1 is the geometric law, 0 the logarithmic one")
        if not (shape == 0 or 1e-3 <= shape <= 1e3):
            raise InvalidArgument("shape", shape, "0, or between 1e-3 and 1e3")
        mean = check_positive("mean", self.mean, maximum=MAX_MEAN)
        if not mean >= 1.01:
            raise InvalidArgument("mean", mean, "at least 1.01 runs", "For a single run there is no search to pay for")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "shape", shape)
        self.gamma  # noqa: B018 - refuses now a mean that the shape cannot have

    @property
    def gamma(self) -> float:
        """The parameter that gives the mean."""
        return _gamma(self.mean, self.shape)

    def event(self, run: Event) -> Event:
        """Return the event of K runs of which only the best is released."""
        return RepeatNegativeBinomialEvent(run, self.gamma, self.shape)

    def _first(self) -> tuple[int, Decimal]:
        gamma, shape = Decimal(self.gamma), Decimal(self.shape)
        log = _EXACT.ln(gamma)
        stay = _EXACT.subtract(Decimal(1), gamma)
        if self.shape == 0:  # the limit: (1 - gamma)^k / (k ln(1 / gamma))
            return 1, _EXACT.divide(stay, -log)
        whole = _EXACT.subtract(_EXACT.exp(_EXACT.multiply(-shape, log)), Decimal(1))
        return 1, _EXACT.divide(_EXACT.multiply(stay, shape), whole)

    def _ratio(self, k: int) -> Decimal:
        stay = _EXACT.subtract(Decimal(1), Decimal(self.gamma))
        return _EXACT.divide(_EXACT.multiply(stay, _EXACT.add(Decimal(self.shape), k)), Decimal(k + 1))


@dataclass(frozen=True, slots=True)
class LogarithmicRepetitions(NegativeBinomialRepetitions):
    """K >= 1 has the logarithmic law: P(k) ~ (1 - gamma)^k / k. The cheapest of the negative binomial family here.

    It is spread out: with a mean of 10, every fourth search is a single run, and one in ten has more than 25.

    References:
        Papernot & Steinke 2022, Definition 1 and Theorem 2 with eta = 0.
    """

    name: ClassVar[str] = "logarithmic"
    shape: float = 0.0

    def __post_init__(self) -> None:
        """Check the mean; the shape is what makes it logarithmic."""
        if not self.shape == 0:
            raise InvalidArgument("shape", self.shape, "0", "Use NegativeBinomialRepetitions")
        NegativeBinomialRepetitions.__post_init__(self)


@dataclass(frozen=True, slots=True)
class PoissonRepetitions(Repetitions):
    """K has the Poisson law. It is 0 with probability e^-mean: then the search finds nothing, and releases that.

    K is close to its mean, and that has a price: for Gaussian runs of noise 2, 10 of them on average, epsilon is 4.91
    at delta 1e-5, where the geometric law costs 4.32 and the logarithmic one 3.64. The first two get closer with more
    noise.

    References:
        Papernot & Steinke 2022, Theorem 6.
    """

    name: ClassVar[str] = "Poisson"

    def __post_init__(self) -> None:
        """Check the mean."""
        object.__setattr__(self, "mean", check_positive("mean", self.mean, maximum=MAX_MEAN))

    def event(self, run: Event) -> Event:
        """Return the event of K runs of which only the best is released."""
        return RepeatPoissonEvent(run, self.mean)

    def _first(self) -> tuple[int, Decimal]:
        return 0, _EXACT.exp(-Decimal(self.mean))

    def _ratio(self, k: int) -> Decimal:
        return _EXACT.divide(Decimal(self.mean), Decimal(k + 1))


@lru_cache(maxsize=64)
def _gamma(mean: float, shape: float) -> float:
    """Return the gamma of a mean by bisection: the mean falls from infinity to 1 as gamma grows from 0 to 1."""
    low, high = 1e-12, 1 - 1e-9
    if (
        not RepeatNegativeBinomialEvent(_PLAIN, low, shape).mean
        > mean
        > RepeatNegativeBinomialEvent(_PLAIN, high, shape).mean
    ):
        raise InvalidArgument("mean", mean, "a number of runs that this shape can have on average")
    for _ in range(200):
        middle = (low * high) ** 0.5 if high < 0.1 else 0.5 * (low + high)
        above = RepeatNegativeBinomialEvent(_PLAIN, middle, shape).mean > mean
        low, high = (middle, high) if above else (low, middle)
    return high
