"""What all mechanisms share: public configuration, one event, one guarantee, and releases that carry both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from enum import Enum
from numbers import Integral, Real
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from hush.accounting import Composed, Event, events
from hush.errors import InvalidArgument, Unsupported, check_instance
from hush.guarantee import Guarantee, Relation, Unit, UnitKind
from hush.randomness import Source, assumptions_of, source_or_default

T_co = TypeVar("T_co", covariant=True)

# NumPy's warnings would depend on the data: releases are silent.
silent = np.errstate(all="ignore")
_EXACT = 1 << 53


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
        return events.Qualified(self._event, self.relation.value, str(self.unit), assumptions)

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
        assumptions = assumptions_of(source_or_default(source))
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


def compose(*parts: Any) -> Composed:
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
    return Composed(each)


def numbers(name: str, values: object, shape: tuple[int, ...] | None = None) -> NDArray[np.float64]:
    """Return values as floats, whatever they are; messages tell their type and shape, never the values.

    Integers beyond 2^53 count as 2^53: rounding them to floats would move neighbours apart, clamping does not.
    """
    array = _as_array(name, values)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        array = np.clip(array, -_EXACT if array.dtype.kind == "i" else 0, _EXACT)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise InvalidArgument(f"{name}.dtype", str(array.dtype), "real numbers of at most 64 bits")
    if shape is not None and array.shape != shape:
        raise InvalidArgument(f"{name}.shape", array.shape, str(shape), "Shapes are public: they come with the query")
    return array.astype(np.float64, copy=False)  # never written to


def integers(name: str, values: object) -> NDArray[np.int64]:
    """Return whole numbers as 64-bit integers, those beyond 2^61 as 2^61."""
    limit = 1 << 61
    array = _as_array(name, values, whole=limit)
    if array.dtype.kind not in "biu":
        raise InvalidArgument(
            f"{name}.dtype", str(array.dtype), "integers", "For real numbers take Laplace or Gaussian"
        )
    if array.dtype.kind == "b":
        return array.astype(np.int64)
    clamped: NDArray[np.int64] = np.clip(array, 0 if array.dtype.kind == "u" else -limit, limit).astype(np.int64)
    return clamped


def _as_array(name: str, values: object, whole: int | None = None) -> NDArray[Any]:
    """Return an array; lists that NumPy would take for objects or round (large integers, None) number by number.

    With ``whole``, lists of integers are clamped to it in size, and None counts as 0; else as NaN.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidArgument(name, "a masked array", "an ordinary one", "Fill it: what is masked would be used")
    try:
        array = np.asarray(values)
        if isinstance(values, (list, tuple)) and array.dtype.kind == "f" and bool((np.abs(array) >= _EXACT).any()):
            array = np.asarray(values, dtype=object)  # integers may have been rounded to floats
    except ValueError:  # ragged lists
        raise InvalidArgument(name, type(values).__name__, "numbers in a regular shape") from None
    if array.dtype.kind != "O":
        return array
    flat = array.ravel().tolist()
    if whole is not None and all(one is None or isinstance(one, Integral) for one in flat):
        clamped = [0 if one is None else max(min(int(one), whole), -whole) for one in flat]
        return np.array(clamped, dtype=np.int64).reshape(array.shape)
    if not all(one is None or isinstance(one, Real) for one in flat):
        raise InvalidArgument(f"{name}.dtype", "object", "real numbers")
    return np.array([_as_float(one) for one in flat], dtype=np.float64).reshape(array.shape)


def _as_float(value: Any) -> float:
    if value is None:
        return float("nan")
    if isinstance(value, Integral):
        return float(max(min(int(value), _EXACT), -_EXACT))
    try:
        return float(value)
    except OverflowError:  # a fraction beyond the range of floats
        return float("inf") if value > 0 else float("-inf")


def down(value: float) -> float:
    """Return a slightly smaller number: what a few roundings could have added is gone."""
    return value * (1 - 2.0**-50)


def up(value: float) -> float:
    """Return a slightly larger number: what a few roundings could have taken away is back."""
    return value * (1 + 2.0**-50)
