"""Events: immutable descriptions of what was run on the data, for accountants to analyse.

An event does not say how private a computation is, only what was computed. Noise is stated relative to the contribution
bound of one record. A sum of vectors of norm at most C, with Gaussian noise of standard deviation sigma * C, is
``GaussianEvent(sigma)``. Under the add-or-remove and zero-out relations such a sum moves by at most C, under
replacement by up to 2 C. The accountant knows the relation; the event is the same.

*Claims* (`ApproximateDPEvent`, `ZeroConcentratedDPEvent`, `ExponentialMechanismEvent`, `RandomizedResponseEvent`)
describe a mechanism by what was proven about it. They must hold for the relation of the accountant that you pass them
to: that is your duty.

In this file: noise on sums; claims; sampling; composition; groups; selection by repetition; `QualifiedEvent`, which
ties an event to a relation and a unit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from hush.accounting.event import Event as Event
from hush.accounting.event import decode_event as decode_event
from hush.errors import (
    InvalidArgument,
    Unsupported,
    check_count,
    check_delta,
    check_epsilon,
    check_instance,
    check_positive,
    check_probability,
)
from hush.guarantee import Relation, Unit


@dataclass(frozen=True, slots=True)
class GaussianEvent(Event):
    """Gaussian noise of standard deviation ``noise_multiplier * C`` on a sum whose terms have L2 norm at most C.

    >>> from hush.accounting import PldAccountant
    >>> round(PldAccountant().compose(GaussianEvent(noise_multiplier=4.0)).epsilon(delta=1e-5), 3)
    0.926
    """

    kind: ClassVar[str] = "gaussian"
    noise_multiplier: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        self._set(noise_multiplier=_check_noise("noise_multiplier", self.noise_multiplier))


@dataclass(frozen=True, slots=True)
class ProjectedGaussianEvent(Event):
    """Gaussian noise of standard deviation ``noise_multiplier * C`` on a sum of terms clipped by estimated norms.

    The norm of a term g is estimated as ``M = sqrt(mean_j <g, v_j>^2)``. The r = ``projections`` vectors v_j are
    public, have independent standard normal entries, are the same for all terms, and are drawn anew for each sum. The
    clipped term g * min(1, C / M) can have a norm above C, but at most C sqrt(r / X), where X has a chi-square
    distribution with r degrees of freedom (Bu et al. 2021, "Fast and memory efficient differentially private SGD via JL
    projections").

    >>> ProjectedGaussianEvent(noise_multiplier=1.0, projections=100).kind
    'projected-gaussian'
    """

    kind: ClassVar[str] = "projected-gaussian"
    noise_multiplier: float
    projections: int

    def __post_init__(self) -> None:
        """Check the arguments."""
        self._set(
            noise_multiplier=_check_noise("noise_multiplier", self.noise_multiplier),
            projections=_check_size("projections", self.projections, maximum=1_000_000),
        )


@dataclass(frozen=True, slots=True)
class LaplaceEvent(Event):
    """Laplace noise of scale ``scale * C`` on a sum whose terms have L1 norm at most C.

    >>> from hush.accounting import PldAccountant
    >>> round(PldAccountant().compose(LaplaceEvent(scale=2.0)).epsilon(delta=0), 3)
    0.5
    """

    kind: ClassVar[str] = "laplace"
    scale: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        self._set(scale=_check_noise("scale", self.scale))


@dataclass(frozen=True, slots=True)
class DiscreteGaussianEvent(Event):
    """Integer noise, P(x) proportional to e^(-x^2 / (2 sigma^2)), on a sum of integers of at most ``sensitivity``.

    >>> from hush.accounting import PldAccountant
    >>> round(PldAccountant().compose(DiscreteGaussianEvent(sigma=4.0)).epsilon(delta=1e-5), 3)
    0.927
    """

    kind: ClassVar[str] = "discrete-gaussian"
    sigma: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        """Check the arguments."""
        sensitivity = _check_size("sensitivity", self.sensitivity, maximum=1 << 50)
        sigma = check_positive("sigma", self.sigma)
        _check_noise("sigma / sensitivity", sigma / sensitivity)
        self._set(sigma=sigma, sensitivity=sensitivity)


@dataclass(frozen=True, slots=True)
class DiscreteLaplaceEvent(Event):
    """Integer noise, P(x) proportional to e^(-|x| / scale), on a sum of integers of at most ``sensitivity``.

    >>> from hush.accounting import PldAccountant
    >>> round(PldAccountant().compose(DiscreteLaplaceEvent(scale=4.0, sensitivity=2)).epsilon(delta=0), 3)
    0.5
    """

    kind: ClassVar[str] = "discrete-laplace"
    scale: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        """Check the arguments."""
        sensitivity = _check_size("sensitivity", self.sensitivity, maximum=1 << 50)
        scale = check_positive("scale", self.scale)
        _check_noise("scale / sensitivity", scale / sensitivity)
        self._set(scale=scale, sensitivity=sensitivity)


@dataclass(frozen=True, slots=True)
class ExponentialMechanismEvent(Event):
    """A mechanism of bounded range: between neighbours its log-probabilities change within an interval of ``epsilon``.

    The exponential mechanism with weights e^(epsilon * score / 2), for scores of sensitivity 1, has bounded range; for
    monotone scores also with weights e^(epsilon * score). Bounded range implies epsilon-DP, and composes better.

    >>> from hush.accounting import PldAccountant, ApproximateDPEvent
    >>> def cost(event):
    ...     return round(PldAccountant().compose(event, 20).epsilon(delta=1e-6), 2)
    >>> cost(ExponentialMechanismEvent(epsilon=0.1)), cost(ApproximateDPEvent(epsilon=0.1))
    (1.05, 1.79)
    """

    kind: ClassVar[str] = "exponential-mechanism"
    epsilon: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        self._set(epsilon=_check_loss("epsilon", self.epsilon))


@dataclass(frozen=True, slots=True)
class RandomizedResponseEvent(Event):
    """Each person reports one of ``num_values`` values; the true one is e^epsilon times as likely as any other.

    >>> from hush.accounting import PldAccountant
    >>> accountant = PldAccountant(relation=Relation.REPLACE).compose(RandomizedResponseEvent(epsilon=1.0))
    >>> round(accountant.epsilon(delta=0), 3)
    1.0
    """

    kind: ClassVar[str] = "randomized-response"
    epsilon: float
    num_values: int = 2

    def __post_init__(self) -> None:
        """Check the arguments."""
        self._set(
            epsilon=_check_loss("epsilon", self.epsilon),
            num_values=_check_size("num_values", self.num_values, minimum=2),
        )


@dataclass(frozen=True, slots=True)
class ApproximateDPEvent(Event):
    """Any mechanism of which you know only that it is (epsilon, delta)-differentially private.

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
        if epsilon > 0:
            _check_loss("epsilon", epsilon)
        self._set(epsilon=epsilon, delta=check_delta("delta", self.delta))


@dataclass(frozen=True, slots=True)
class ZeroConcentratedDPEvent(Event):
    """Any mechanism of which you know only that it is rho-zCDP (Bun & Steinke 2016).

    >>> from hush.accounting import ZcdpAccountant
    >>> ZcdpAccountant().compose(ZeroConcentratedDPEvent(rho=0.01), 5).rho
    0.05
    """

    kind: ClassVar[str] = "zcdp"
    rho: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        self._set(rho=check_epsilon("rho", self.rho))


@dataclass(frozen=True, slots=True)
class PoissonSampledEvent(Event):
    """``event`` on a Poisson sample: each record is in it independently, with probability ``sampling_rate``.

    >>> from hush.accounting import PldAccountant
    >>> step = PoissonSampledEvent(GaussianEvent(1.0), sampling_rate=0.01)
    >>> round(PldAccountant().compose(step, 1000).epsilon(delta=1e-5), 3)
    1.828
    """

    kind: ClassVar[str] = "poisson-sampled"
    event: Event
    sampling_rate: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_instance("event", self.event, Event)
        rate = check_probability("sampling_rate", self.sampling_rate)
        if not rate >= 1e-12:
            raise InvalidArgument("sampling_rate", rate, "at least 1e-12", "Rounding errors dominate below")
        self._set(sampling_rate=rate)


@dataclass(frozen=True, slots=True)
class FixedSizeSampledEvent(Event):
    """``event`` on ``batch_size`` records drawn without replacement from ``dataset_size``, which is public.

    >>> from hush.accounting import PldAccountant
    >>> step = FixedSizeSampledEvent(GaussianEvent(2.0), batch_size=100, dataset_size=10_000)
    >>> round(PldAccountant(relation=Relation.REPLACE).compose(step, 1000).epsilon(delta=1e-5), 3)
    2.199
    """

    kind: ClassVar[str] = "fixed-size-sampled"
    event: Event
    batch_size: int
    dataset_size: int

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_instance("event", self.event, Event)
        batch, total = _check_size("batch_size", self.batch_size), _check_size("dataset_size", self.dataset_size)
        if not batch <= total:
            raise InvalidArgument(
                "batch_size", batch, f"at most dataset_size={total}", "A batch is drawn without replacement"
            )
        self._set(batch_size=batch, dataset_size=total)


@dataclass(frozen=True, slots=True)
class BallsInBinsEvent(Event):
    """One epoch: each record goes into one of ``num_bins`` batches at random, and ``event`` runs on every batch.

    Records are assigned independently, all batches are equally likely, and their sizes, which vary, are not released.
    Shuffling, which cuts a random order into batches of equal size, is a different event. Several epochs with new
    assignments are a `SelfComposedEvent` of this one.

    >>> from hush.accounting import PldAccountant
    >>> epoch = BallsInBinsEvent(GaussianEvent(1.0), num_bins=100)
    >>> round(PldAccountant().compose(epoch).epsilon(delta=1e-5), 3)
    0.621
    """

    kind: ClassVar[str] = "balls-in-bins"
    event: Event
    num_bins: int

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_instance("event", self.event, Event)
        self._set(num_bins=_check_size("num_bins", self.num_bins, maximum=10**6))


@dataclass(frozen=True, slots=True)
class ComposedEvent(Event):
    """Several events on the same data. Each may depend on earlier outcomes, but its parameters may not.

    >>> from hush.accounting import PldAccountant
    >>> event = ComposedEvent((GaussianEvent(4.0), LaplaceEvent(10.0)))
    >>> round(PldAccountant().compose(event).epsilon(delta=1e-5), 3)
    0.986
    """

    kind: ClassVar[str] = "composed"
    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        """Check the arguments."""
        self._set(events=_check_events(self.events, minimum=0))


@dataclass(frozen=True, slots=True)
class SelfComposedEvent(Event):
    """``event``, run ``count`` times on the same data.

    >>> from hush.accounting import PldAccountant
    >>> round(PldAccountant().compose(SelfComposedEvent(GaussianEvent(8.0), 4)).epsilon(delta=1e-5), 3)
    0.926
    """

    kind: ClassVar[str] = "self-composed"
    event: Event
    count: int

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_instance("event", self.event, Event)
        self._set(count=_check_size("count", self.count, minimum=0))


@dataclass(frozen=True, slots=True)
class ParallelEvent(Event):
    """One event on each of several disjoint parts, where a record's value decides its part, as in GROUP BY.

    A record that is replaced may leave one part and enter another.

    >>> from hush.accounting import PldAccountant
    >>> parts = ParallelEvent((LaplaceEvent(2.0), LaplaceEvent(1.0)))
    >>> round(PldAccountant().compose(parts).epsilon(delta=0), 3)
    1.0
    >>> round(PldAccountant(relation=Relation.REPLACE).compose(parts).epsilon(delta=0), 3)
    2.0
    """

    kind: ClassVar[str] = "parallel"
    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        """Check the arguments."""
        self._set(events=_check_events(self.events, minimum=1))


@dataclass(frozen=True, slots=True)
class ParallelByIndexEvent(Event):
    """One event on each of several disjoint parts, where a public index decides a record's part.

    A record that is replaced stays in its part.

    >>> from hush.accounting import PldAccountant
    >>> parts = ParallelByIndexEvent((LaplaceEvent(2.0), LaplaceEvent(1.0)))
    >>> round(PldAccountant().compose(parts).epsilon(delta=0), 3)
    1.0
    """

    kind: ClassVar[str] = "parallel-by-index"
    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        """Check the arguments."""
        self._set(events=_check_events(self.events, minimum=1))


@dataclass(frozen=True, slots=True)
class GroupEvent(Event):
    """``event``, accounted for a group of ``size`` records that may all change at once.

    >>> from hush.accounting import PldAccountant
    >>> round(PldAccountant().compose(GroupEvent(GaussianEvent(12.0), size=3)).epsilon(delta=1e-5), 3)
    0.926
    """

    kind: ClassVar[str] = "group"
    event: Event
    size: int

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_instance("event", self.event, Event)
        self._set(size=_check_size("size", self.size, maximum=1000))


@dataclass(frozen=True, slots=True)
class RepeatNegativeBinomialEvent(Event):
    """Run ``event`` a random number K of times and release only the best outcome. K is truncated negative binomial.

    P(K = k) is proportional to (1 - gamma)^k * binomial(k + shape - 1, k) for k >= 1 (Papernot & Steinke 2022,
    Definition 1). Shape 1 is the geometric distribution, shape 0 the logarithmic one.

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
        return self.shape * (1 - self.gamma) / (self.gamma * -math.expm1(self.shape * log_gamma))


@dataclass(frozen=True, slots=True)
class RepeatPoissonEvent(Event):
    """Run ``event`` K times, with K ~ Poisson(``mean``), and release only the best outcome, or nothing if K is 0.

    >>> from hush.accounting import RdpAccountant
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
        self._set(mean=check_positive("mean", self.mean))


@dataclass(frozen=True, slots=True)
class QualifiedEvent(Event):
    """``event``, tied to a relation and a unit, with assumptions that every guarantee about it must repeat.

    Mechanisms produce these events, since a sensitivity holds for one relation and unit. An accountant for another one
    refuses them.
    """

    kind: ClassVar[str] = "qualified"
    event: Event
    relation: str
    unit: str
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_instance("event", self.event, Event)
        names = [relation.value for relation in Relation]
        if self.relation not in names:
            raise InvalidArgument("relation", self.relation, " or ".join(names))
        check_instance("unit", self.unit, str, "As Unit prints: example, user, ...")
        check_instance("assumptions", self.assumptions, tuple, "Pass a tuple of sentences, or () for none")
        for sentence in self.assumptions:
            check_instance("assumptions", sentence, str)


def plain_event(event: Event, relation: Relation, unit: Unit) -> tuple[Event, tuple[str, ...]]:
    """Return an event without its qualifications, and their assumptions. Refuse those of another relation or unit."""
    if isinstance(event, QualifiedEvent):
        if (event.relation, event.unit) != (relation.value, str(unit)):
            raise Unsupported(
                f"{event.event.kind}: stated under {event.relation} per {event.unit}, but this accounts for "
                f"{relation.value} per {unit}",
                "Configure the mechanism and the accountant with the same relation and unit",
            )
        inner, assumptions = plain_event(event.event, relation, unit)
        return inner, (*event.assumptions, *assumptions)
    changed: dict[str, Any] = {}
    collected: tuple[str, ...] = ()
    for field in fields(event):  # type: ignore[arg-type]
        value = getattr(event, field.name)
        if isinstance(value, Event):
            changed[field.name], assumptions = plain_event(value, relation, unit)
            collected += assumptions
        elif isinstance(value, tuple) and value and isinstance(value[0], Event):
            pairs = [plain_event(part, relation, unit) for part in value]
            changed[field.name] = tuple(part for part, _ in pairs)
            collected += tuple(sentence for _, assumptions in pairs for sentence in assumptions)
    same = all(getattr(event, name) is value or getattr(event, name) == value for name, value in changed.items())
    return (event if same else replace(event, **changed)), tuple(dict.fromkeys(collected))  # type: ignore[type-var]


def _check_noise(name: str, value: float) -> float:
    """Return a ratio of noise to sensitivity within the range that accountants can analyse."""
    number = check_positive(name, value)
    if not _MIN_NOISE <= number <= _MAX_NOISE:
        raise InvalidArgument(name, value, f"between {_MIN_NOISE:.3g} and {_MAX_NOISE:.3g}", _ROUNDING)
    return number


def _check_size(name: str, value: int, *, minimum: int = 1, maximum: int = 10**12) -> int:
    number = check_count(name, value, minimum=minimum)
    if not number <= maximum:
        raise InvalidArgument(name, value, f"an integer <= {maximum:.3g}", _ROUNDING)
    return number


def _check_loss(name: str, value: float) -> float:
    """Return an epsilon within the range that accountants can analyse."""
    number = check_positive(name, value)
    if not 1 / _MAX_NOISE <= number <= 1 / _MIN_NOISE:
        limits = f"between {1 / _MAX_NOISE:.3g} and {1 / _MIN_NOISE:.3g}"
        raise InvalidArgument(
            name, value, limits, "A smaller one drowns in rounding errors, a larger one protects nothing"
        )
    return number


def _check_events(events: Iterable[Event], *, minimum: int) -> tuple[Event, ...]:
    """Return the events as a tuple of at least ``minimum``."""
    if isinstance(events, Event) or not isinstance(events, Iterable):
        raise InvalidArgument("events", events, "a sequence of events")
    result = tuple(events)
    for event in result:
        check_instance("events", event, Event)
    if not len(result) >= minimum:
        raise InvalidArgument("events", result, f"at least {minimum} event")
    return result


# The smallest and largest ratio of noise to sensitivity that can be analysed in double precision.
_MIN_NOISE, _MAX_NOISE = 1e-3, 1e6
_ROUNDING = "Outside, rounding errors dominate"
