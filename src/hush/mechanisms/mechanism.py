"""The interface of all mechanisms: public configuration in, releases with an event and a guarantee out.

configure   a frozen dataclass of public numbers, checked when it is built (`Mechanism._prepare`)
describe    its guarantee (`Mechanism._promise`) and its accounting event (`Mechanism._describe`), known in advance
release     data and a random source in, a `Release` out: value, guarantee, mechanism
compose     the events of several releases, for an accountant
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import wraps
from inspect import signature
from typing import Any, ClassVar, Generic, TypeVar

from hush.accounting import ComposedEvent, Event, events
from hush.accounting.budget import Budget, Charge
from hush.accounting.receipts import check_budget
from hush.errors import InvalidArgument, Unsupported, check_instance
from hush.guarantee import Guarantee, Relation, Unit, UnitKind
from hush.randomness import RandomSource, assumptions_of, source_or_default

T_co = TypeVar("T_co", covariant=True)
Result = TypeVar("Result")


class SensitivityType(Enum):
    """The quantity that must be bounded between neighbouring datasets for a mechanism's guarantee to hold.

    >>> from hush.mechanisms import Gaussian
    >>> Gaussian.sensitivity_type.name
    'L2'
    """

    L1 = "the L1 norm of the change of the value"
    L2 = "the L2 norm of the change of the value"
    LINF = "the change of every single score"
    SMOOTH = "a smooth bound on the local sensitivity"
    LOCAL = "how far the data are from where the value is unstable, or the local sensitivity itself"
    RECORD = "nothing: every record is perturbed separately"
    CLIPPED = "nothing: every record is clipped here"


# The guarantees of these hold for one record at a time, whatever the unit is.
_BY_RECORD = (SensitivityType.RECORD, SensitivityType.CLIPPED, SensitivityType.SMOOTH)


@dataclass(frozen=True, slots=True)
class Release(Generic[T_co]):
    """A private result, its guarantee, and the mechanism that made it.

    Post-processing by `map` keeps the guarantee.

    >>> from hush.mechanisms import Laplace
    >>> release = Laplace(epsilon=0.5, sensitivity=1.0).release(100.0)
    >>> print(release.guarantee)
    epsilon <= 0.5, delta = 0 per example (add-or-remove), by Laplace mechanism

    Attributes:
        value: The private result.
        guarantee: The guarantee of the release.
        mechanism: The mechanism, with its public configuration.
        is_processed: Whether the value is what `map` made of the released one.
    """

    value: T_co
    guarantee: Guarantee
    mechanism: Mechanism
    is_processed: bool = False

    def map(self, function: Callable[[T_co], Result]) -> Release[Result]:
        """Return a function of the released value, with the same guarantee (closure under post-processing).

        >>> from hush.mechanisms import Laplace
        >>> release = Laplace(epsilon=0.5, sensitivity=1.0).release(100.0).map(lambda count: max(round(count), 0))
        >>> type(release.value), release.guarantee.epsilon
        (<class 'int'>, 0.5)

        Nothing is charged again. For an accountant, the result is the same release: compose one of the two.

        Assumes:
            The function reads no private data apart from the released value (the caller's duty).

        References:
            Dwork & Roth 2014, Proposition 2.1.
        """
        return Release(function(self.value), self.guarantee, self.mechanism, is_processed=True)

    @property
    def event(self) -> Event:
        """The event for an accountant, with the assumptions of its guarantee."""
        return self.mechanism.qualified(self.guarantee.assumptions)


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """Base class of all mechanisms: immutable values, configured with public numbers only.

    Data are arguments of `release`.

    A subclass implements `_prepare`, `_promise` and `_describe`, and a ``release`` method.

    >>> from hush.accounting import PldAccountant
    >>> from hush.mechanisms import Laplace
    >>> mechanism = Laplace(epsilon=0.5, sensitivity=1.0)
    >>> round(PldAccountant().compose(mechanism.event).epsilon(delta=0), 3)
    0.5

    Attributes:
        relation: How neighbouring datasets differ. The sensitivity refers to this relation.
        unit: The privacy unit.
        budget: Every release is charged to it, such as ``hush.Ledger(...).budget(...)``, before noise is drawn; a
            session is charged when it starts. With None, nothing is charged.
        event: The event of one release, for an accountant of the same relation.
    """

    sensitivity_type: ClassVar[SensitivityType]

    relation: Relation = Relation.ADD_OR_REMOVE
    unit: Unit = Unit.example()
    budget: Budget | None = field(default=None, repr=False, compare=False)
    event: Event = field(init=False, repr=False, compare=False)
    _guarantee: Guarantee = field(init=False, repr=False, compare=False)
    _event: Event = field(init=False, repr=False, compare=False)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let the class's own ``release`` or ``start`` charge the budget."""
        super().__init_subclass__(**kwargs)
        for name in ("release", "start"):
            if name in vars(cls):
                setattr(cls, name, charged(vars(cls)[name]))

    def __post_init__(self) -> None:
        """Check the common arguments, let the subclass check its own, and store guarantee and event."""
        check_instance("relation", self.relation, Relation)
        check_instance("unit", self.unit, Unit)
        check_budget(self.budget)
        if self.sensitivity_type in _BY_RECORD and self.unit.group_size > 1:
            raise InvalidArgument(
                "unit",
                str(self.unit),
                "one example or user",
                "This mechanism treats each record separately: use Guarantee.for_group",
            )
        self._prepare()
        guarantee = self._promise()
        if self.sensitivity_type in _BY_RECORD and self.unit.kind is not UnitKind.EXAMPLE:
            guarantee = replace(guarantee, assumptions=(*guarantee.assumptions, f"each {self.unit} has one record"))
        self._set(_guarantee=guarantee, _event=self._describe())
        self._set(event=self.qualified(guarantee.assumptions))

    def qualified(self, assumptions: tuple[str, ...]) -> Event:
        """Return the event of one release, qualified by relation, unit and these assumptions."""
        return events.QualifiedEvent(self._event, self.relation, self.unit, assumptions)

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
        """Return the guarantee of one release with noise from ``source``, by default the process's own source."""
        assumptions = assumptions_of(source_or_default(source))
        guarantee = self._guarantee
        return replace(guarantee, assumptions=guarantee.assumptions + assumptions) if assumptions else guarantee

    def _released(self, value: Any, source: RandomSource) -> Release[Any]:
        """Return the release of a value whose noise came from ``source``."""
        return Release(value, self.guarantee(source), self)

    def _claim(self, epsilon: float, delta: float, method: str, *assumptions: str) -> Guarantee:
        """Return an upper bound for this unit and relation."""
        return Guarantee(
            epsilon=epsilon,
            delta=delta,
            unit=self.unit,
            relation=self.relation,
            method=method,
            assumptions=assumptions,
        )

    def _set(self, **values: object) -> None:
        """Store derived values. Only for use while the mechanism is being built: it is frozen afterwards."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


def charged(release: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method that draws noise, so that it charges the mechanism's budget, if there is one.

    A release that fails is charged, too: the failure itself may reveal something.
    """
    parameters = signature(release)

    @wraps(release)
    def charging(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.budget is None:
            return release(self, *args, **kwargs)
        source = parameters.bind(self, *args, **kwargs).arguments.get("source")
        guarantee = self.guarantee(source)
        purpose = f"{release.__name__} of {type(self).__name__}"
        event = self.qualified(guarantee.assumptions)
        reservation = self.budget.reserve(Charge(event=event, purpose=purpose, delta=guarantee.delta or None))
        try:
            return release(self, *args, **kwargs)
        finally:
            reservation.commit()

    return charging


def compose(*parts: Any) -> ComposedEvent:
    """Return the event of several mechanisms on the same data, for an accountant.

    The event carries the relation and all assumptions, such as test randomness, into the accountant's guarantee.

    >>> from hush.accounting import PldAccountant
    >>> from hush.mechanisms import Gaussian, Laplace
    >>> event = compose(Laplace(epsilon=0.5, sensitivity=1), Gaussian(epsilon=0.5, delta=1e-6, sensitivity=1))
    >>> round(PldAccountant().compose(event).epsilon(1e-6), 3)
    0.981

    Args:
        *parts: Mechanisms, or their releases or sessions. All must have the same relation and unit.
    """
    mechanisms = [getattr(part, "mechanism", part) for part in parts]
    for mechanism in mechanisms:
        check_instance("parts", mechanism, Mechanism)
    if len({(mechanism.relation, mechanism.unit) for mechanism in mechanisms}) != 1:
        raise Unsupported(
            "parts: they have different units or relations, so their costs do not add up",
            "Configure all of them with one relation and one unit",
        )
    return ComposedEvent(
        tuple(
            part.event if isinstance(part, Mechanism) else part.mechanism.qualified(part.guarantee.assumptions)
            for part in parts
        )
    )
