"""What all mechanisms share: public configuration, one event, one guarantee, and releases that carry both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from hush.accounting import Composed, Event
from hush.errors import InvalidArgument, Unsupported, check_instance
from hush.guarantee import Guarantee, Relation, Unit
from hush.randomness import Source, source_or_default

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


@dataclass(frozen=True, slots=True)
class Release(Generic[T_co]):
    """A private result, what it costs, and the mechanism that made it."""

    value: T_co
    guarantee: Guarantee
    mechanism: Mechanism

    @property
    def event(self) -> Event:
        """What an accountant is told."""
        return self.mechanism.event


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

    def __post_init__(self) -> None:
        """Check what all mechanisms have; each then checks and derives its own."""
        check_instance("relation", self.relation, Relation)
        check_instance("unit", self.unit, Unit)
        self._prepare()
        self._set(_guarantee=self._promise(), event=self._describe())

    @abstractmethod
    def _prepare(self) -> None:
        """Check the configuration and derive scales from it."""

    @abstractmethod
    def _promise(self) -> Guarantee:
        """Return the guarantee of one release."""

    @abstractmethod
    def _describe(self) -> Event:
        """Return the event of one release."""

    def guarantee(self, source: Source | None = None) -> Guarantee:
        """Return what one release with noise from this source costs."""
        assumptions = source_or_default(source).assumptions
        stated = self._guarantee
        return replace(stated, assumptions=stated.assumptions + assumptions) if assumptions else stated

    def _released(self, value: Any, source: Source) -> Release[Any]:
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


def compose(*parts: Mechanism | Release[Any]) -> Composed:
    """Return the event of several mechanisms, or of their releases, on the same data, for an accountant.

    >>> from hush.accounting import PldAccountant
    >>> from hush.mechanisms import Gaussian, Laplace
    >>> event = compose(Laplace(epsilon=0.5, sensitivity=1), Gaussian(epsilon=0.5, delta=1e-6, sensitivity=1))
    >>> round(PldAccountant().compose(event).epsilon(1e-6), 3)
    0.981
    """
    mechanisms = [part.mechanism if isinstance(part, Release) else part for part in parts]
    for mechanism in mechanisms:
        check_instance("parts", mechanism, Mechanism)
    if len({(mechanism.relation, mechanism.unit) for mechanism in mechanisms}) > 1:
        raise Unsupported(
            "parts: they protect different units or know different neighbours, and do not add up",
            "Configure all of them with one relation and one unit",
        )
    return Composed(tuple(mechanism.event for mechanism in mechanisms))


def numbers(name: str, values: object, shape: tuple[int, ...] | None = None) -> NDArray[np.float64]:
    """Return values as floats, whatever they are; messages tell their type and shape, never the values."""
    if isinstance(values, int) and not isinstance(values, bool):
        values = float(max(min(values, 10**300), -(10**300)))
    try:
        array = np.asarray(values)
    except ValueError:  # ragged lists
        raise InvalidArgument(name, type(values).__name__, "numbers in a regular shape") from None
    if array.dtype.kind not in "biuf":
        raise InvalidArgument(f"{name}.dtype", str(array.dtype), "real numbers")
    if shape is not None and array.shape != shape:
        raise InvalidArgument(f"{name}.shape", array.shape, str(shape), "Shapes are public: they come with the query")
    return array.astype(np.float64, copy=False)  # never written to


def integers(name: str, values: object) -> NDArray[np.int64]:
    """Return whole numbers as 64-bit integers, those beyond 2^61 as 2^61."""
    limit = 1 << 61
    if isinstance(values, int) and not isinstance(values, bool):
        values = max(min(values, limit), -limit)
    array = np.asarray(values)
    if array.dtype.kind not in "biu":
        raise InvalidArgument(
            f"{name}.dtype", str(array.dtype), "integers", "For real numbers take Laplace or Gaussian"
        )
    return np.clip(array, -limit, limit).astype(np.int64) if array.dtype.kind != "b" else array.astype(np.int64)


def down(value: float) -> float:
    """Return a slightly smaller number: what a few roundings could have added is gone."""
    return value * (1 - 2.0**-50)


def up(value: float) -> float:
    """Return a slightly larger number: what a few roundings could have taken away is back."""
    return value * (1 + 2.0**-50)
