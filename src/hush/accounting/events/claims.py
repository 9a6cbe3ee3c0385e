"""Claims: mechanisms described by what was proven about them.

A claim must hold for the relation of the accountant that you pass it to: that is your duty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hush.accounting.events.event import Event
from hush.accounting.events.ranges import check_loss, check_size
from hush.errors import check_delta, check_epsilon


@dataclass(frozen=True, slots=True)
class ExponentialMechanismEvent(Event):
    """A mechanism of bounded range: between neighbours, log-probabilities change within an interval of ``epsilon``.

    The exponential mechanism with weights e^(epsilon * score / 2), for scores of sensitivity 1, has bounded range; for
    monotone scores also with weights e^(epsilon * score). Bounded range implies epsilon-DP, and composes better.

    >>> from hush.accounting import PldAccountant
    >>> def cost(event):
    ...     return round(PldAccountant().compose(event, 20).epsilon(delta=1e-6), 2)
    >>> cost(ExponentialMechanismEvent(epsilon=0.1)), cost(ApproximateDPEvent(epsilon=0.1))
    (1.01, 1.79)
    """

    kind: ClassVar[str] = "exponential-mechanism"
    epsilon: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        # Here epsilon is the range: max - min over outcomes y of ln(P(y) / Q(y)) (Durfee & Rogers 2019). Losses are in
        # some interval [t - epsilon, t] with 0 <= t <= epsilon; pure DP allows all of [-epsilon, epsilon].
        self._set(epsilon=check_loss("epsilon", self.epsilon))


@dataclass(frozen=True, slots=True)
class NoisyMaxEvent(Event):
    """The index of the largest noisy score: permute-and-flip, or report noisy max.

    Differences of scores move by at most ``epsilon`` between neighbours, in units of the noise. The noise is
    exponential (which is permute-and-flip), Laplace or Gumbel; only the index is released. It costs what Laplace noise
    on one number costs, for any number of candidates: less than a claim of epsilon-DP.

    >>> from hush.accounting import PldAccountant
    >>> def cost(event):
    ...     return round(PldAccountant().compose(event, 100).epsilon(delta=1e-6))
    >>> cost(NoisyMaxEvent(epsilon=1.0)), cost(ApproximateDPEvent(epsilon=1.0)), cost(ExponentialMechanismEvent(1.0))
    (72, 84, 37)
    """

    kind: ClassVar[str] = "noisy-max"
    epsilon: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        self._set(epsilon=check_loss("epsilon", self.epsilon))


@dataclass(frozen=True, slots=True)
class RandomizedResponseEvent(Event):
    """Each person reports one of ``num_values`` values; the true one is e^epsilon times as likely as any other.

    >>> from hush.accounting import PldAccountant
    >>> from hush.guarantee import Relation
    >>> accountant = PldAccountant(relation=Relation.REPLACE).compose(RandomizedResponseEvent(epsilon=1.0))
    >>> round(accountant.epsilon(delta=0), 3)
    1.0
    """

    kind: ClassVar[str] = "randomized-response"
    epsilon: float
    num_values: int = 2

    def __post_init__(self) -> None:
        """Check the arguments."""
        # P(true value) = e^epsilon / (e^epsilon + k - 1) for k values (Warner 1965 for k = 2).
        self._set(
            epsilon=check_loss("epsilon", self.epsilon),
            num_values=check_size("num_values", self.num_values, minimum=2),
        )


@dataclass(frozen=True, slots=True)
class ApproximateDPEvent(Event):
    """Any mechanism that you know only to be (epsilon, delta)-differentially private.

    >>> from hush.accounting import PldAccountant
    >>> accountant = PldAccountant().compose(ApproximateDPEvent(epsilon=0.1, delta=1e-8), 100)
    >>> round(accountant.epsilon(delta=1e-5), 3)  # the sum would be 10
    4.33
    """

    kind: ClassVar[str] = "approximate-dp"
    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        """Check the arguments."""
        epsilon = check_epsilon("epsilon", self.epsilon)
        # (0, delta) is a meaningful claim, a total variation of delta; so 0 is accepted though it is below the range.
        if epsilon > 0:
            check_loss("epsilon", epsilon)
        self._set(epsilon=epsilon, delta=check_delta("delta", self.delta))


@dataclass(frozen=True, slots=True)
class ZeroConcentratedDPEvent(Event):
    """Any mechanism that you know only to be rho-zCDP (Bun & Steinke 2016).

    >>> from hush.accounting import ZcdpAccountant
    >>> ZcdpAccountant().compose(ZeroConcentratedDPEvent(rho=0.01), 5).rho
    0.05
    """

    kind: ClassVar[str] = "zcdp"
    rho: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        # D_a(P || Q) <= rho a at every order a > 1 (Bun & Steinke 2016, Definition 1.1).
        self._set(rho=check_epsilon("rho", self.rho))
