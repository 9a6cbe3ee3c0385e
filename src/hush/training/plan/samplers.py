"""Sampling: decides which units take part in a step, and knows the accounting event of noisy sums over such samples.

The guarantee protects a *unit*: an example, or all examples of a user. A `Sampling` answers three questions:

- ``sample``: which units take part in a step? The answer is a function of a secret key and of the step's number, so a
  run can be resumed without storing samples.
- ``event``: what does a sequence of noisy sums over these samples release? Noise multipliers and batch sizes may differ
  from step to step.
- ``relations``: for which neighbouring datasets is that event proven?
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

import numpy as np

from hush.accounting import (
    BallsInBinsEvent,
    ComposedEvent,
    Event,
    FixedSizeSampledEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
)
from hush.accounting.events import TruncatedPoissonSampledEvent
from hush.errors import InvalidArgument, Unsupported, check_count
from hush.guarantee import Relation
from hush.randomness import KeyedSource
from hush.training.noise.correlated_noise import Once, Participation, PoissonTurns, Separated
from hush.training.plan.draws import Indices, bins_of_epoch, distinct_units, order_of_epoch, poisson_sample

EventTemplate = Callable[[float], Event]  # from a noise multiplier to the event of a noisy sum over one sample
Setting = tuple[float, int]  # a step's noise multiplier and batch size
Keys = Callable[[int], bytes]  # from a step to the key that is valid for it

_TRUNCATION = 1 << 80  # plus the step: the stream of a key that draws which units of a large sample are kept


class Sampling(ABC):
    """Base class: how the units of a step are chosen.

    Attributes:
        relations: The neighbouring relations for which the event is proven; the first one is the default.
        how: The sampling, for the ``method`` of a guarantee.
        assumption: The assumption of a guarantee about the sampling's parameters.
        varies: Whether batch sizes may follow a schedule.
        keeps_places: Whether a unit's position in a batch is independent of the other units' data.
    """

    relations: ClassVar[tuple[Relation, ...]] = (Relation.ADD_OR_REMOVE, Relation.ZERO_OUT, Relation.REPLACE)
    how: ClassVar[str] = "DP-SGD"
    assumption: ClassVar[str] = "the sampling rate was chosen without looking at the data"
    varies: ClassVar[bool] = False
    keeps_places: ClassVar[bool] = False

    @abstractmethod
    def size(self, num_units: int) -> int:
        """Return the expected number of units in a batch."""

    @abstractmethod
    def sample(self, keys: Keys, step: int, num_units: int, batch_size: int) -> Indices:
        """Return the units of a step.

        A resumed run has a new key. So a sampling that needs the same random numbers in several steps, such as an
        epoch's order, draws them under the key of the first of these steps.
        """

    @abstractmethod
    def event(self, settings: Sequence[Setting], num_units: int, mechanism: EventTemplate) -> Event:
        """Return the event of steps with these noise multipliers and batch sizes."""

    def participation(self, num_units: int, num_steps: int) -> Participation:
        """Return in which steps a unit may take part, for correlated noise. Refuse if nothing is proven."""
        raise Unsupported(
            f"correlated noise with {type(self).__name__}: a unit may take part in any step",
            "Use InOrder, or CyclicPoisson with Banded noise",
        )

    def check(self, num_units: int) -> None:
        """Refuse batches that are larger than the dataset."""
        if not self.size(num_units) <= num_units:
            raise InvalidArgument("batch_size", self.size(num_units), f"at most {num_units}, the number of units")

    def num_steps(self, epochs: float, num_units: int) -> int:
        """Return the number of steps in which each unit takes part ``epochs`` times, on average."""
        # The subtraction keeps rounding errors from adding a step.
        return max(math.ceil(epochs * num_units / self.size(num_units) - 1e-9), 1)

    def room(self, num_units: int) -> int:
        """Return a physical batch size that nearly always holds a whole batch."""
        return min(self.size(num_units), num_units)

    def count(self, step: int, num_units: int, batch_size: int) -> int | None:
        """Return the number of units of a step, or None if it is known only after drawing the sample."""
        return None


def composed(parts: Sequence[Event]) -> Event:
    """Return the composition of events, with equal neighbours joined."""
    runs = [SelfComposedEvent(event, len(list(same))) for event, same in groupby(parts)]
    return runs[0] if len(runs) == 1 else ComposedEvent(tuple(runs))


def composed_steps(settings: Sequence[Setting], step_event: Callable[[float, int], Event]) -> Event:
    """Return the composition of steps. Equal neighbours are joined before their event is made: plans can be long."""
    runs = [SelfComposedEvent(step_event(*setting), len(list(same))) for setting, same in groupby(settings)]
    return runs[0] if len(runs) == 1 else ComposedEvent(tuple(runs))


def _smallest_noises(settings: Sequence[Setting], length: int) -> list[float]:
    """Return the smallest noise multiplier of each ``length`` consecutive steps.

    A unit takes part in only one of them. The bound holds whichever one it is.
    """
    starts = range(0, len(settings), length)
    # Less noise means more privacy loss, whichever step the unit takes part in.
    return [min(noise for noise, _ in settings[start : start + length]) for start in starts]


@dataclass(frozen=True, slots=True)
class _Sized(Sampling):
    """Base class of samplings with a batch size, exact or expected."""

    batch_size: int

    def __post_init__(self) -> None:
        """Check the size."""
        check_count("batch_size", self.batch_size)

    def size(self, num_units: int) -> int:
        return self.batch_size


@dataclass(frozen=True, slots=True)
class Poisson(_Sized):
    """Each unit takes part independently, with probability batch_size / num_units, in every step. The default.

    Abadi et al. call such a sample a lot. Its size varies, and is private; the expected size is public.

    Attributes:
        batch_size: The expected number of units in a batch.
        max_batch_size: The largest number of units in a step, so that all steps have the same shape. A larger sample is
            cut to this size, uniformly at random. The event accounts for that
            (`hush.accounting.events.TruncatedPoissonSampledEvent`): the cost is negligible if the limit is at least
            five standard deviations above ``batch_size``.

    >>> Poisson(10).sample(lambda step: bytes(32), step=0, num_units=100, batch_size=10).tolist()
    [5, 23, 45, 48, 54, 69, 90, 97]
    """

    varies: ClassVar[bool] = True
    max_batch_size: int | None = None

    def __post_init__(self) -> None:
        """Check the sizes."""
        _Sized.__post_init__(self)
        if self.max_batch_size is not None:
            check_count("max_batch_size", self.max_batch_size)

    def sample(self, keys: Keys, step: int, num_units: int, batch_size: int) -> Indices:
        units = poisson_sample(keys(step), step, num_units, min(batch_size / num_units, 1.0))
        if self.max_batch_size is None or len(units) <= self.max_batch_size:
            return units
        # The proof needs a uniformly random part: with the first ones by number, a unit would push out a known other.
        source = KeyedSource(keys(step), _TRUNCATION + step)
        return np.sort(units[distinct_units(source, len(units), self.max_batch_size)])

    def event(self, settings: Sequence[Setting], num_units: int, mechanism: EventTemplate) -> Event:
        # Steps are independent given the past, so their events compose (Abadi et al. 2016, Algorithm 1).
        return composed_steps(settings, lambda noise, size: self._step_event(mechanism(noise), size, num_units))

    def _step_event(self, event: Event, size: int, num_units: int) -> Event:
        largest = num_units + 1  # the number of units of the larger of two neighbours
        if self.max_batch_size is None or self.max_batch_size >= largest:
            return poisson_event(event, size / num_units)
        rate = min(size / num_units, 1.0)
        return TruncatedPoissonSampledEvent(event, rate, max_batch_size=self.max_batch_size, dataset_size=largest)

    def room(self, num_units: int) -> int:
        if self.max_batch_size is not None:
            return self.max_batch_size
        # The size of a sample is binomial. Two standard deviations: one step in forty needs a second physical batch.
        stddev = math.sqrt(self.batch_size * max(1 - self.batch_size / num_units, 0.0))
        return min(math.ceil(self.batch_size + 2 * stddev), num_units)


def poisson_event(event: Event, rate: float) -> Event:
    """Return the event of a mechanism on a Poisson sample."""
    return event if rate >= 1 else PoissonSampledEvent(event, rate)


@dataclass(frozen=True, slots=True)
class Full(Sampling):
    """All units take part in every step: DP gradient descent.

    Lecture notes call it vanilla DP-GD.

    >>> Full().sample(lambda step: bytes(32), step=0, num_units=5, batch_size=5).tolist()
    [0, 1, 2, 3, 4]
    """

    how: ClassVar[str] = "DP-GD"
    assumption: ClassVar[str] = "the divisor of the sums was chosen without looking at the data"
    keeps_places: ClassVar[bool] = True

    def size(self, num_units: int) -> int:
        return num_units

    def sample(self, keys: Keys, step: int, num_units: int, batch_size: int) -> Indices:
        return np.arange(num_units)

    def count(self, step: int, num_units: int, batch_size: int) -> int:
        return num_units

    def event(self, settings: Sequence[Setting], num_units: int, mechanism: EventTemplate) -> Event:
        return composed_steps(settings, lambda noise, _: mechanism(noise))


@dataclass(frozen=True, slots=True)
class FixedSize(_Sized):
    """Exactly ``batch_size`` units, drawn without replacement, independently in every step.

    The number of units is public; neighbouring datasets differ in one replaced unit.

    >>> FixedSize(3).sample(lambda step: bytes(32), step=0, num_units=100, batch_size=3).tolist()
    [30, 28, 77]
    """

    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE,)
    how: ClassVar[str] = "DP-SGD on batches of a fixed size"
    assumption: ClassVar[str] = "the number of units is public"
    varies: ClassVar[bool] = True
    keeps_places: ClassVar[bool] = True

    def sample(self, keys: Keys, step: int, num_units: int, batch_size: int) -> Indices:
        return distinct_units(KeyedSource(keys(step), step), num_units, batch_size)

    def count(self, step: int, num_units: int, batch_size: int) -> int:
        return batch_size

    def event(self, settings: Sequence[Setting], num_units: int, mechanism: EventTemplate) -> Event:
        # The replaced unit is in a sample with probability size / num_units, whatever the others are.
        return composed_steps(settings, lambda noise, size: FixedSizeSampledEvent(mechanism(noise), size, num_units))


@dataclass(frozen=True, slots=True)
class _Epochs(_Sized):
    """Base class of samplings that pass over all units in some order, epoch after epoch.

    A unit takes part in one batch of an epoch. Which batch is not counted as secret, so there is no amplification: an
    epoch costs as much as one step on all units. Neighbouring datasets keep every unit's position; one unit's data is
    zeroed out or replaced.
    """

    relations: ClassVar[tuple[Relation, ...]] = (Relation.ZERO_OUT, Relation.REPLACE)
    assumption: ClassVar[str] = "the number of units is public"
    keeps_places: ClassVar[bool] = True

    def per_epoch(self, num_units: int) -> int:
        """Return the number of steps in an epoch. The last batch of an epoch may be smaller."""
        return -(-num_units // self.batch_size)

    def num_steps(self, epochs: float, num_units: int) -> int:
        return max(math.ceil(epochs * self.per_epoch(num_units) - 1e-9), 1)

    def sample(self, keys: Keys, step: int, num_units: int, batch_size: int) -> Indices:
        epoch, position = divmod(step, self.per_epoch(num_units))
        # Under the key of the epoch's first step: a run that is resumed in the middle finishes the epoch in its order.
        order = self._order(keys(step - position), epoch, num_units)
        return order[position * batch_size : (position + 1) * batch_size]

    def count(self, step: int, num_units: int, batch_size: int) -> int:
        position = step % self.per_epoch(num_units)
        return min(batch_size, num_units - position * batch_size)

    @abstractmethod
    def _order(self, key: bytes, epoch: int, num_units: int) -> Indices:
        """Return all units in the order of an epoch."""

    def event(self, settings: Sequence[Setting], num_units: int, mechanism: EventTemplate) -> Event:
        # Parallel composition within an epoch: a unit moves one of its sums. Sequential composition over the epochs.
        return composed([mechanism(noise) for noise in _smallest_noises(settings, self.per_epoch(num_units))])


@dataclass(frozen=True, slots=True)
class ShuffledEpochs(_Epochs):
    """Every epoch passes over all units in a new random order, as in ordinary training.

    No amplification by shuffling is claimed.

    >>> ShuffledEpochs(3).sample(lambda step: bytes(32), step=1, num_units=6, batch_size=3).tolist()
    [4, 0, 3]
    """

    how: ClassVar[str] = "DP-SGD on shuffled epochs, not amplified by sampling"

    def _order(self, key: bytes, epoch: int, num_units: int) -> Indices:
        return order_of_epoch(key, epoch, num_units)


@dataclass(frozen=True, slots=True)
class InOrder(_Epochs):
    """Batches in the order of arrival: one or more passes over a stream. It is meant for correlated noise.

    >>> InOrder(3).sample(lambda step: bytes(32), step=1, num_units=6, batch_size=3).tolist()
    [3, 4, 5]
    """

    how: ClassVar[str] = "DP-SGD in the order of arrival"
    assumption: ClassVar[str] = "the number of units and their order are public"

    def participation(self, num_units: int, num_steps: int) -> Participation:
        per_epoch = self.per_epoch(num_units)
        if num_steps <= per_epoch:
            return Once()
        # The order is the same in every epoch, so a unit's steps are exactly an epoch apart.
        return Separated(separation=per_epoch, times=-(-num_steps // per_epoch))

    def _order(self, key: bytes, epoch: int, num_units: int) -> Indices:
        return np.arange(num_units)


@dataclass(frozen=True, slots=True)
class BallsInBins(_Sized):
    """In every epoch, each unit independently falls into one of the epoch's batches.

    A unit is seen exactly once per epoch, as with shuffling, but its batch stays secret. So the cost is close to that
    of Poisson sampling.

    References:
        Chua et al. 2025, "Balls-and-Bins Sampling for DP-SGD".

    >>> BallsInBins(3).sample(lambda step: bytes(32), step=1, num_units=6, batch_size=3).tolist()
    [2, 5]
    """

    relations: ClassVar[tuple[Relation, ...]] = (Relation.ADD_OR_REMOVE, Relation.ZERO_OUT)
    how: ClassVar[str] = "DP-SGD on balls in bins"
    assumption: ClassVar[str] = "the number of batches was chosen without looking at the data"

    def bins(self, num_units: int) -> int:
        """Return the number of batches in an epoch."""
        return max(round(num_units / self.batch_size), 1)

    def num_steps(self, epochs: float, num_units: int) -> int:
        return max(math.ceil(epochs * self.bins(num_units) - 1e-9), 1)

    def sample(self, keys: Keys, step: int, num_units: int, batch_size: int) -> Indices:
        epoch, position = divmod(step, self.bins(num_units))
        return np.flatnonzero(bins_of_epoch(keys(step - position), epoch, num_units, self.bins(num_units)) == position)

    def event(self, settings: Sequence[Setting], num_units: int, mechanism: EventTemplate) -> Event:
        bins = self.bins(num_units)
        # An epoch that ends early still counts as a whole one: fewer steps reveal less.
        return composed([BallsInBinsEvent(mechanism(noise), bins) for noise in _smallest_noises(settings, bins)])

    def room(self, num_units: int) -> int:
        return Poisson(self.batch_size).room(num_units)


@dataclass(frozen=True, slots=True)
class CyclicPoisson(_Sized):
    """Units are split at random into ``parts`` parts; steps take Poisson samples from one part after the other.

    Noise that is correlated over ``parts`` steps (`Banded`) needs this: a unit then never takes part twice within the
    reach of the correlation.

    Attributes:
        batch_size: The expected number of units in a batch.
        parts: The number of parts.

    References:
        Choquette-Choo et al. 2023, "(Amplified) Banded Matrix Factorization", Algorithm 2.

    >>> sampling = CyclicPoisson(2, parts=3)
    >>> sampling.rate(12)
    0.5
    """

    relations: ClassVar[tuple[Relation, ...]] = (Relation.ADD_OR_REMOVE, Relation.ZERO_OUT)
    how: ClassVar[str] = "DP-SGD on Poisson samples of parts in turn"
    parts: int

    def __post_init__(self) -> None:
        """Check the numbers."""
        _Sized.__post_init__(self)
        check_count("parts", self.parts)

    def rate(self, num_units: int) -> float:
        """Return the probability with which a unit takes part in a step of its own part."""
        # A part has num_units / parts units on average, of which batch_size are expected in a sample.
        return min(self.batch_size * self.parts / num_units, 1.0)

    def participation(self, num_units: int, num_steps: int) -> Participation:
        return PoissonTurns(num_parts=self.parts, sampling_rate=self.rate(num_units))

    def check(self, num_units: int) -> None:
        if not self.batch_size * self.parts <= num_units:
            raise InvalidArgument(
                "batch_size",
                self.batch_size,
                f"at most {num_units // self.parts}, the number of units in a part",
                "Use fewer parts",
            )

    def sample(self, keys: Keys, step: int, num_units: int, batch_size: int) -> Indices:
        # The split into parts lasts for the whole run, so it is drawn under the key of step 0. The stream number 2^64
        # is beyond all numbers of steps, so its random numbers are used nowhere else.
        members = np.flatnonzero(bins_of_epoch(keys(0), 1 << 64, num_units, self.parts) == step % self.parts)
        return members[poisson_sample(keys(step), step, len(members), self.rate(num_units))]

    def event(self, settings: Sequence[Setting], num_units: int, mechanism: EventTemplate) -> Event:
        rate = self.rate(num_units)
        # A unit is sampled in one of every ``parts`` steps only, those of its part; over the others nothing is paid.
        return composed([poisson_event(mechanism(noise), rate) for noise in _smallest_noises(settings, self.parts)])

    def room(self, num_units: int) -> int:
        return Poisson(self.batch_size).room(num_units)
