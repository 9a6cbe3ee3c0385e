"""Selection by repetition: run an event a random number of times and release the best outcome."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from hush.accounting.events.event import Event
from hush.errors import InvalidArgument, check_epsilon, check_instance, check_positive, check_probability


@dataclass(frozen=True, slots=True)
class RepeatNegativeBinomialEvent(Event):
    """Run ``event`` a random number K of times and release only the best outcome. K is truncated negative binomial.

    P(K = k) is proportional to (1 - gamma)^k * binomial(k + shape - 1, k) for k >= 1 (Papernot & Steinke 2022,
    Definition 1). Shape 1 is the geometric distribution, shape 0 the logarithmic one.

    >>> from hush.accounting import GaussianEvent
    >>> event = RepeatNegativeBinomialEvent(GaussianEvent(5.0), gamma=0.1, shape=1.0)
    >>> round(event.mean, 3)
    10.0
    """

    kind: ClassVar[str] = "repeat-negative-binomial"
    event: Event
    gamma: float
    shape: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_instance("event", self.event, Event)
        gamma = check_probability("gamma", self.gamma)
        # K must be random: the best of a fixed number K of runs can cost K times as much (Liu & Talwar 2019).
        if not gamma < 1:
            raise InvalidArgument(
                "gamma", gamma, "a number in (0, 1)", "With 1 there is a single run, and nothing to select"
            )
        shape = check_epsilon("shape", self.shape, "1 is the geometric distribution, 0 the logarithmic one")
        self._set(gamma=gamma, shape=shape)

    @property
    def mean(self) -> float:
        """The expected number of runs."""
        log_gamma = math.log(self.gamma)
        if self.shape < 1e-9:  # the limit at shape 0, near which the quotient below loses its digits
            return (1 - 1 / self.gamma) / log_gamma
        # E K = shape (1 - gamma) / (gamma (1 - gamma^shape)) (Papernot & Steinke 2022, Definition 1). expm1 keeps the
        # digits of 1 - gamma^shape.
        return self.shape * (1 - self.gamma) / (self.gamma * -math.expm1(self.shape * log_gamma))


@dataclass(frozen=True, slots=True)
class RepeatPoissonEvent(Event):
    """Run ``event`` K times, with K ~ Poisson(``mean``), and release only the best outcome, or nothing if K is 0.

    >>> from hush.accounting import GaussianEvent, RdpAccountant
    >>> best = RepeatPoissonEvent(GaussianEvent(5.0), mean=20.0)
    >>> RdpAccountant().compose(best).epsilon(1e-6) < 4 * RdpAccountant().compose(best.event).epsilon(1e-6)
    True
    """

    kind: ClassVar[str] = "repeat-poisson"
    event: Event
    mean: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_instance("event", self.event, Event)
        # Papernot & Steinke 2022, Theorem 6: the Renyi cost grows by mean * delta' + ln(mean) / (order - 1).
        self._set(mean=check_positive("mean", self.mean))
