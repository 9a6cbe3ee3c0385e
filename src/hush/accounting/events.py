"""Events: immutable descriptions of what was run on the data, for accountants to analyse.

An event never says how private it is; it says what was done. Noise is stated relative to what one record can
contribute: a sum of vectors of norm at most C, with Gaussian noise of standard deviation sigma * C, is
``GaussianEvent(sigma)``. Under the add-or-remove and the zero-out relation such a sum moves by at most C, under replacement
by up to 2 C; the accountant knows, the event is the same.

Claims (`ApproximateDPEvent`, `ZeroConcentratedDPEvent`, `ExponentialMechanismEvent`, `RandomizedResponseEvent`) hold for the neighbouring
relation of the accountant that they are given to: that is the caller's duty.
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
    """Gaussian noise of standard deviation ``noise_multiplier * C`` on a sum whose terms have L2 norm at most C."""

    kind: ClassVar[str] = "gaussian"
    noise_multiplier: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        self._set(noise_multiplier=_check_noise("noise_multiplier", self.noise_multiplier))


@dataclass(frozen=True, slots=True)
class ProjectedGaussianEvent(Event):
    """Gaussian noise of standard deviation ``noise_multiplier * C`` on a sum, clipped by estimated norms.

    The norm of a term g is estimated as ``M = sqrt(mean_j <g, v_j>^2)`` from ``projections`` public vectors v_j of
    independent standard normals, the same for all terms and fresh each time; the term is g * min(1, C / M). Its norm
    may exceed C: it is at most C sqrt(r / X), for an X that has the chi-square law with r = ``projections`` degrees of
    freedom (Bu et al. 2021, "Fast and memory efficient differentially private SGD via JL projections").
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
    """Laplace noise of scale ``scale * C`` on a sum whose terms have L1 norm at most C."""

    kind: ClassVar[str] = "laplace"
    scale: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        self._set(scale=_check_noise("scale", self.scale))


@dataclass(frozen=True, slots=True)
class DiscreteGaussianEvent(Event):
    """Noise on the integers, P(x) ~ e^(-x^2 / 2 sigma^2), on an integer sum whose terms are at most ``sensitivity``."""

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
    """Noise on the integers, P(x) ~ e^(-|x| / scale) (geometric), on integer sums of terms at most ``sensitivity``."""

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
    """A mechanism whose log-probabilities range over at most ``epsilon`` between neighbours (bounded range).

    The exponential mechanism with weights e^(epsilon * score / 2) for scores of sensitivity 1 is one; for monotone
    scores, with weights e^(epsilon * score), too. Such a mechanism is epsilon-DP, and composes better than that says.
    """

    kind: ClassVar[str] = "exponential-mechanism"
    epsilon: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        self._set(epsilon=_check_loss("epsilon", self.epsilon))


@dataclass(frozen=True, slots=True)
class RandomizedResponseEvent(Event):
    """Each person tells one of ``num_values`` values: the true one with e^epsilon times the chance of each other."""

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
    """Any mechanism that is known to be (epsilon, delta)-differentially private, and nothing else is known of it."""

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
    """Any mechanism that is known to be rho-zCDP (Bun & Steinke 2016)."""

    kind: ClassVar[str] = "zcdp"
    rho: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        self._set(rho=check_epsilon("rho", self.rho))


@dataclass(frozen=True, slots=True)
class PoissonSampledEvent(Event):
    """``event`` on a random sample, in which each record is by itself with probability ``sampling_rate``."""

    kind: ClassVar[str] = "poisson-sampled"
    event: Event
    sampling_rate: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_instance("event", self.event, Event)
        rate = check_probability("sampling_rate", self.sampling_rate)
        if not rate >= 1e-12:
            raise InvalidArgument("sampling_rate", rate, "at least 1e-12", "Smaller ones drown in rounding")
        self._set(sampling_rate=rate)


@dataclass(frozen=True, slots=True)
class FixedSizeSampledEvent(Event):
    """``event`` on ``batch_size`` records drawn without replacement from ``dataset_size``, which is public."""

    kind: ClassVar[str] = "fixed-size-sampled"
    event: Event
    batch_size: int
    dataset_size: int

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_instance("event", self.event, Event)
        batch, whole = _check_size("batch_size", self.batch_size), _check_size("dataset_size", self.dataset_size)
        if not batch <= whole:
            raise InvalidArgument(
                "batch_size", batch, f"at most dataset_size={whole}", "It is drawn without replacement"
            )
        self._set(batch_size=batch, dataset_size=whole)


@dataclass(frozen=True, slots=True)
class BallsInBinsEvent(Event):
    """One epoch: ``event`` on each of ``num_bins`` batches, into one of which each record is put, by itself, at random.

    All batches are equally likely. Their sizes vary and are not released. An epoch of shuffling, which cuts a random
    order into batches of one size, is not described by this. Several epochs, each with new batches, are `SelfComposedEvent`.
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
    """Several events on the same data; each may depend on the outcomes (not the parameters) of those before it."""

    kind: ClassVar[str] = "composed"
    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        """Check the arguments."""
        self._set(events=_check_events(self.events, minimum=0))


@dataclass(frozen=True, slots=True)
class SelfComposedEvent(Event):
    """``event``, ``count`` times over on the same data."""

    kind: ClassVar[str] = "self-composed"
    event: Event
    count: int

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_instance("event", self.event, Event)
        self._set(count=_check_size("count", self.count, minimum=0))


@dataclass(frozen=True, slots=True)
class ParallelEvent(Event):
    """One event on each of several disjoint parts, where a record's part is decided by its value (as in GROUP BY).

    A record that is replaced may leave one part and enter another.
    """

    kind: ClassVar[str] = "parallel"
    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        """Check the arguments."""
        self._set(events=_check_events(self.events, minimum=1))


@dataclass(frozen=True, slots=True)
class ParallelByIndexEvent(Event):
    """One event on each of several disjoint parts, where a record's part is fixed by a public index.

    A record that is replaced stays in its part.
    """

    kind: ClassVar[str] = "parallel-by-index"
    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        """Check the arguments."""
        self._set(events=_check_events(self.events, minimum=1))


@dataclass(frozen=True, slots=True)
class GroupEvent(Event):
    """``event`` seen from a group of ``size`` records, all of which may change at once."""

    kind: ClassVar[str] = "group"
    event: Event
    size: int

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_instance("event", self.event, Event)
        self._set(size=_check_size("size", self.size, maximum=1000))


@dataclass(frozen=True, slots=True)
class RepeatNegativeBinomialEvent(Event):
    """Run ``event`` a random number K of times and release only the best outcome; K is truncated negative binomial.

    P(K = k) ~ (1 - gamma)^k * binomial(k + shape - 1, k) for k >= 1 (Papernot & Steinke 2022, Definition 1). Shape 1
    is the geometric distribution, shape 0 the logarithmic one.
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
            raise InvalidArgument("gamma", gamma, "a number in (0, 1)", "With 1 there is nothing to select from")
        shape = check_epsilon("shape", self.shape, "1 is the geometric distribution, 0 the logarithmic one")
        self._set(gamma=gamma, shape=shape)

    @property
    def mean(self) -> float:
        """Expected number of runs."""
        log_gamma = math.log(self.gamma)
        if self.shape < 1e-9:  # the limit; closer, the quotient below loses its digits
            return (1 - 1 / self.gamma) / log_gamma
        return self.shape * (1 - self.gamma) / (self.gamma * -math.expm1(self.shape * log_gamma))


@dataclass(frozen=True, slots=True)
class RepeatPoissonEvent(Event):
    """Run ``event`` K ~ Poisson(``mean``) times and release only the best outcome (nothing if K is 0)."""

    kind: ClassVar[str] = "repeat-poisson"
    event: Event
    mean: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_instance("event", self.event, Event)
        self._set(mean=check_positive("mean", self.mean))


@dataclass(frozen=True, slots=True)
class QualifiedEvent(Event):
    """``event``, stated for one neighbouring relation and unit, with assumptions that guarantees about it must repeat.

    Mechanisms make these: their sensitivity is meant so, and an accountant of another relation or unit refuses.
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
    """Return an event without qualifications, and what they assume; refuse one of another relation or unit."""
    if isinstance(event, QualifiedEvent):
        if (event.relation, event.unit) != (relation.value, str(unit)):
            raise Unsupported(
                f"{event.event.kind}: stated under {event.relation} per {event.unit}, and this accounts for "
                f"{relation.value} per {unit}",
                "Configure the mechanism, or the accountant, with the other's relation and unit",
            )
        inner, assumptions = plain_event(event.event, relation, unit)
        return inner, (*event.assumptions, *assumptions)
    changed: dict[str, Any] = {}
    found: tuple[str, ...] = ()
    for field in fields(event):  # type: ignore[arg-type]
        value = getattr(event, field.name)
        if isinstance(value, Event):
            changed[field.name], more = plain_event(value, relation, unit)
            found += more
        elif isinstance(value, tuple) and value and isinstance(value[0], Event):
            pairs = [plain_event(part, relation, unit) for part in value]
            changed[field.name] = tuple(part for part, _ in pairs)
            found += tuple(one for _, more in pairs for one in more)
    same = all(getattr(event, name) is value or getattr(event, name) == value for name, value in changed.items())
    return (event if same else replace(event, **changed)), tuple(dict.fromkeys(found))  # type: ignore[type-var]


def _check_noise(name: str, value: float) -> float:
    number = check_positive(name, value)
    if not _MIN_NOISE <= number <= _MAX_NOISE:
        raise InvalidArgument(name, value, f"between {_MIN_NOISE:.3g} and {_MAX_NOISE:.3g}", "Beyond, rounding decides")
    return number


def _check_size(name: str, value: int, *, minimum: int = 1, maximum: int = 10**12) -> int:
    number = check_count(name, value, minimum=minimum)
    if not number <= maximum:
        raise InvalidArgument(name, value, f"an integer <= {maximum:.3g}", "Beyond, rounding decides")
    return number


def _check_loss(name: str, value: float) -> float:
    number = check_positive(name, value)
    if not 1 / _MAX_NOISE <= number <= 1 / _MIN_NOISE:
        limits = f"between {1 / _MAX_NOISE:.3g} and {1 / _MIN_NOISE:.3g}"
        raise InvalidArgument(name, value, limits, "Below, rounding decides; beyond, nothing is promised")
    return number


def _check_events(events: Iterable[Event], *, minimum: int) -> tuple[Event, ...]:
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
