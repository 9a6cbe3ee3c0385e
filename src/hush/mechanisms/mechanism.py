"""What all mechanisms share: public configuration, one event, one guarantee, and releases that carry both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

from hush.accounting import ComposedEvent, Event, events
from hush.errors import InvalidArgument, Unsupported, check_instance
from hush.guarantee import Guarantee, Relation, Unit, UnitKind
from hush.randomness import RandomSource, assumptions_of, source_or_default

T_co = TypeVar("T_co", covariant=True)


class SensitivityType(Enum):
    """What is bounded between neighbours for a mechanism's guarantee to hold."""

    L1 = "the L1 norm of the change of the value"
    L2 = "the L2 norm of the change of the value"
    LINF = "the change of every single score"
    SMOOTH = "a smooth bound on the local sensitivity"
    LOCAL = "how far the data are from where the value is unstable, or the local sensitivity itself"
    RECORD = "nothing: every record is perturbed by itself"
    CLIPPED = "nothing: every record is clipped here"


_BY_RECORD = (SensitivityType.RECORD, SensitivityType.CLIPPED, SensitivityType.SMOOTH)


@dataclass(frozen=True, slots=True)
class Release(Generic[T_co]):
    """A private result, what it costs, and the mechanism that made it."""

    value: T_co
    guarantee: Guarantee
    mechanism: Mechanism

    @property
    def event(self) -> Event:
        """What an accountant is told: what was done, and what its guarantee rests on."""
        return self.mechanism.qualified(self.guarantee.assumptions)


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """Base of all mechanisms: values, configured with public numbers only. Data are arguments of `release`.

    Attributes:
        relation: What a neighbouring dataset is; the sensitivity is meant under it.
        unit: What is protected.
        event: What an accountant of the same relation is told about one release.
    """

    sensitivity_type: ClassVar[SensitivityType]

    relation: Relation = Relation.ADD_OR_REMOVE
    unit: Unit = Unit.example()
    event: Event = field(init=False, repr=False, compare=False)
    _guarantee: Guarantee = field(init=False, repr=False, compare=False)
    _event: Event = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check what all mechanisms have; each then checks and derives its own."""
        check_instance("relation", self.relation, Relation)
        check_instance("unit", self.unit, Unit)
        if self.sensitivity_type in _BY_RECORD and self.unit.group_size > 1:
            raise InvalidArgument(
                "unit",
                str(self.unit),
                "one example or user",
                "Records are treated one by one: see Guarantee.for_group",
            )
        self._prepare()
        stated = self._promise()
        if self.sensitivity_type in _BY_RECORD and self.unit.kind is not UnitKind.EXAMPLE:
            stated = replace(stated, assumptions=(*stated.assumptions, f"each {self.unit} has one record"))
        self._set(_guarantee=stated, _event=self._describe())
        self._set(event=self.qualified(stated.assumptions))

    def qualified(self, assumptions: tuple[str, ...]) -> Event:
        """Return the event of one release that rests on these assumptions."""
        return events.QualifiedEvent(self._event, self.relation.value, str(self.unit), assumptions)

    @abstractmethod
    def _prepare(self) -> None:
        """Check the configuration and derive scales from it."""

    @abstractmethod
    def _promise(self) -> Guarantee:
        """Return the guarantee of one release."""

    @abstractmethod
    def _describe(self) -> Event:
        """Return the event of one release."""

    def guarantee(self, source: RandomSource | None = None) -> Guarantee:
        """Return what one release with noise from this source costs."""
        assumptions = assumptions_of(source_or_default(source))
        stated = self._guarantee
        return replace(stated, assumptions=stated.assumptions + assumptions) if assumptions else stated

    def _released(self, value: Any, source: RandomSource) -> Release[Any]:
        return Release(value, self.guarantee(source), self)

    def _claim(self, epsilon: float, delta: float, method: str, *assumptions: str) -> Guarantee:
        return Guarantee(
            epsilon=epsilon,
            delta=delta,
            unit=self.unit,
            relation=self.relation,
            method=method,
            assumptions=assumptions,
        )

    def _set(self, **values: object) -> None:
        """Store derived values; only while the mechanism is being made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


def compose(*parts: Any) -> ComposedEvent:
    """Return the event of several mechanisms, or of their releases or sessions, on the same data, for an accountant.

    It says under which relation it holds, and whether test randomness was used: the accountant's guarantee repeats it.

    >>> from hush.accounting import PldAccountant
    >>> from hush.mechanisms import Gaussian, Laplace
    >>> event = compose(Laplace(epsilon=0.5, sensitivity=1), Gaussian(epsilon=0.5, delta=1e-6, sensitivity=1))
    >>> round(PldAccountant().compose(event).epsilon(1e-6), 3)
    0.981
    """
    mechanisms = [getattr(part, "mechanism", part) for part in parts]
    for mechanism in mechanisms:
        check_instance("parts", mechanism, Mechanism)
    if len({(mechanism.relation, mechanism.unit) for mechanism in mechanisms}) != 1:
        raise Unsupported(
            "parts: they protect different units or know different neighbours, and do not add up",
            "Configure all of them with one relation and one unit",
        )
    each = tuple(
        part.event if isinstance(part, Mechanism) else part.mechanism.qualified(part.guarantee.assumptions)
        for part in parts
    )
    return ComposedEvent(each)
