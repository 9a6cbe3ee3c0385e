"""Ways to choose who takes part in a step, each with its event.

A *unit* is what the guarantee protects: an example, or all of a user's. Every choice is a function of a secret key and
the number of the step, so that a run can be resumed. An event says what a way releases, for noise multipliers and batch
sizes that may differ from step to step.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hush.accounting import (
    BallsInBinsEvent,
    ComposedEvent,
    Event,
    FixedSizeSampledEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
)
from hush.errors import InvalidArgument, Unsupported, check_count
from hush.guarantee import Relation
from hush.randomness import KeyedSource, geometric, uniform_below
from hush.training.noise.correlated import Once, Participation, PoissonTurns, Separated

Indices = NDArray[np.int64]
Mechanism = Callable[[float], Event]  # from a noise multiplier to what is done with a sample
Setting = tuple[float, int]  # a step's noise multiplier and batch size
Keys = Callable[[int], bytes]  # from a step to the key that holds for it


class Sampling(ABC):
    """How the units of a step are chosen."""

    relations: ClassVar[tuple[Relation, ...]] = (Relation.ADD_OR_REMOVE, Relation.ZERO_OUT, Relation.REPLACE)
    how: ClassVar[str] = "DP-SGD"
    assumption: ClassVar[str] = "the sampling rate was chosen without looking at the data"
    varies: ClassVar[bool] = False  # whether batch sizes may follow a schedule
    keeps_places: ClassVar[bool] = False  # whether a unit's value has no influence on where others are

    @abstractmethod
    def size(self, num_units: int) -> int:
        """Return how many units a batch has, on average."""

    @abstractmethod
    def sample(self, keys: Keys, step: int, num_units: int, batch_size: int) -> Indices:
        """Return the units of a step.

        Keys may change when a run is resumed. What must stay the same for some steps, such as an epoch's order, is
        drawn under the key of the first of them.
        """

    @abstractmethod
    def event(self, settings: Sequence[Setting], num_units: int, mechanism: Mechanism) -> Event:
        """Return the event of steps with these noise multipliers and batch sizes."""

    def participation(self, num_units: int, num_steps: int) -> Participation:
        """Return in which steps a unit may take part, for correlated noise; refuse where nothing is proven."""
        raise Unsupported(
            f"correlated noise with {type(self).__name__}: a unit may take part in any step",
            "Use InOrder, or CyclicPoisson with Banded noise",
        )

    def check(self, num_units: int) -> None:
        """Refuse batches that are larger than the data."""
        if not self.size(num_units) <= num_units:
            raise InvalidArgument("batch_size", self.size(num_units), f"at most the {num_units} that there are")

    def steps(self, epochs: float, num_units: int) -> int:
        """Return how many steps see each unit so many times, on average."""
        return max(math.ceil(epochs * num_units / self.size(num_units) - 1e-9), 1)

    def room(self, num_units: int) -> int:
        """Return a size that nearly always holds a whole batch."""
        return min(self.size(num_units), num_units)

    def count(self, step: int, num_units: int, batch_size: int) -> int | None:
        """Return how many units a step has, if that is known without drawing them."""
        return None


def _in_turns(settings: Sequence[Setting], count: int) -> list[float]:
    """Return the least noise of every so many steps: a unit that takes part in one of them may take part in that."""
    turns = range(0, len(settings), count)
    return [min(noise for noise, _ in settings[start : start + count]) for start in turns]


def composed(parts: Sequence[Event]) -> Event:
    """Return events one after the other, equal neighbours as one."""
    runs = [SelfComposedEvent(event, len(list(same))) for event, same in groupby(parts)]
    return runs[0] if len(runs) == 1 else ComposedEvent(tuple(runs))


@dataclass(frozen=True, slots=True)
class _Sized(Sampling):
    """Batches of one size, on average."""

    batch_size: int

    def __post_init__(self) -> None:
        """Check the size."""
        check_count("batch_size", self.batch_size)

    def size(self, num_units: int) -> int:
        return self.batch_size


@dataclass(frozen=True, slots=True)
class Poisson(_Sized):
    """Each unit takes part by itself, with the same probability in every step.

    With a ``max_batch_size`` no more units than that take part in a step, so that all steps have one shape; the rest
    of a larger sample is dropped. The plan adds what that costs to delta.
    """

    varies: ClassVar[bool] = True
    max_batch_size: int | None = None

    def __post_init__(self) -> None:
        """Check the sizes."""
        _Sized.__post_init__(self)
        if self.max_batch_size is not None:
            check_count("max_batch_size", self.max_batch_size)

    def sample(self, keys: Keys, step: int, num_units: int, batch_size: int) -> Indices:
        return poisson_sample(keys(step), step, num_units, min(batch_size / num_units, 1.0))

    def event(self, settings: Sequence[Setting], num_units: int, mechanism: Mechanism) -> Event:
        return composed([poisson_event(mechanism(noise), size / num_units) for noise, size in settings])

    def room(self, num_units: int) -> int:
        if self.max_batch_size is not None:
            return self.max_batch_size
        spread = math.sqrt(self.batch_size * max(1 - self.batch_size / num_units, 0.0))
        return min(math.ceil(self.batch_size + 2 * spread), num_units)


def poisson_event(event: Event, rate: float) -> Event:
    """Return an event on a Poisson sample."""
    return event if rate >= 1 else PoissonSampledEvent(event, rate)


def poisson_sample(key: bytes, step: int, num_units: int, sampling_rate: float) -> Indices:
    """Return the indices of the units that take part in a step: each by itself, with the same probability.

    Gaps between them are geometric, sampled exactly; the rate is rounded down, by less than 1e-15 of itself.
    """
    if sampling_rate == 1:
        return np.arange(num_units)
    source = KeyedSource(key, step)
    scale = -1 / math.log1p(-sampling_rate) * (1 + 2.0**-50)
    parts: list[Indices] = []
    last = -1
    while last < num_units:
        expected = (num_units - last) * sampling_rate
        gaps = geometric(source, scale, math.ceil(expected + 4 * math.sqrt(expected)) + 16)
        parts.append(last + np.cumsum(gaps + 1))
        last = int(parts[-1][-1])
    indices = np.concatenate(parts)
    return indices[indices < num_units]


@dataclass(frozen=True, slots=True)
class Full(Sampling):
    """All units take part in every step (DP-GD)."""

    how: ClassVar[str] = "DP-GD"
    assumption: ClassVar[str] = "the number by which sums are divided was chosen without looking at the data"
    keeps_places: ClassVar[bool] = True

    def size(self, num_units: int) -> int:
        return num_units

    def sample(self, keys: Keys, step: int, num_units: int, batch_size: int) -> Indices:
        return np.arange(num_units)

    def count(self, step: int, num_units: int, batch_size: int) -> int:
        return num_units

    def event(self, settings: Sequence[Setting], num_units: int, mechanism: Mechanism) -> Event:
        return composed([mechanism(noise) for noise, _ in settings])


@dataclass(frozen=True, slots=True)
class FixedSize(_Sized):
    """Exactly ``batch_size`` units, drawn without replacement, afresh in every step.

    How many units there are is public; neighbours differ by one that is replaced.
    """

    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE,)
    how: ClassVar[str] = "DP-SGD on batches of a fixed size"
    assumption: ClassVar[str] = "how many units there are is public"
    varies: ClassVar[bool] = True
    keeps_places: ClassVar[bool] = True

    def sample(self, keys: Keys, step: int, num_units: int, batch_size: int) -> Indices:
        return _distinct(KeyedSource(keys(step), step), num_units, batch_size)

    def count(self, step: int, num_units: int, batch_size: int) -> int:
        return batch_size

    def event(self, settings: Sequence[Setting], num_units: int, mechanism: Mechanism) -> Event:
        return composed([FixedSizeSampledEvent(mechanism(noise), size, num_units) for noise, size in settings])


@dataclass(frozen=True, slots=True)
class _Epochs(_Sized):
    """Batches of one size, one after the other, through an order of all units, over and over.

    A unit takes part in one batch of an epoch. Which one is not counted as secret: without amplification, an epoch
    costs what one step on all units costs. Neighbours keep all units' places: one is left empty, or replaced.
    """

    relations: ClassVar[tuple[Relation, ...]] = (Relation.ZERO_OUT, Relation.REPLACE)
    assumption: ClassVar[str] = "how many units there are is public"
    keeps_places: ClassVar[bool] = True

    def per_epoch(self, num_units: int) -> int:
        """Return how many steps an epoch has; the last batch may be smaller."""
        return -(-num_units // self.batch_size)

    def steps(self, epochs: float, num_units: int) -> int:
        return max(math.ceil(epochs * self.per_epoch(num_units) - 1e-9), 1)

    def sample(self, keys: Keys, step: int, num_units: int, batch_size: int) -> Indices:
        epoch, place = divmod(step, self.per_epoch(num_units))
        return self._order(keys(step - place), epoch, num_units)[place * batch_size : (place + 1) * batch_size]

    def count(self, step: int, num_units: int, batch_size: int) -> int:
        place = step % self.per_epoch(num_units)
        return min(batch_size, num_units - place * batch_size)

    @abstractmethod
    def _order(self, key: bytes, epoch: int, num_units: int) -> Indices:
        """Return all units in the order of this epoch."""

    def event(self, settings: Sequence[Setting], num_units: int, mechanism: Mechanism) -> Event:
        return composed([mechanism(noise) for noise in _in_turns(settings, self.per_epoch(num_units))])


@dataclass(frozen=True, slots=True)
class ShuffledEpochs(_Epochs):
    """Every epoch goes through all units in a new random order, as ordinary training does.

    Accounted without amplification by the shuffling.
    """

    how: ClassVar[str] = "DP-SGD on shuffled epochs, not amplified by sampling"

    def _order(self, key: bytes, epoch: int, num_units: int) -> Indices:
        return _order_of(key, epoch, num_units)


@dataclass(frozen=True, slots=True)
class InOrder(_Epochs):
    """Batches in the order of arrival: one pass over a stream, or several."""

    how: ClassVar[str] = "DP-SGD in the order of arrival"
    assumption: ClassVar[str] = "how many units there are, and their order, is public"

    def participation(self, num_units: int, num_steps: int) -> Participation:
        turn = self.per_epoch(num_units)
        return Once() if num_steps <= turn else Separated(separation=turn, times=-(-num_steps // turn))

    def _order(self, key: bytes, epoch: int, num_units: int) -> Indices:
        return np.arange(num_units)


@dataclass(frozen=True, slots=True)
class BallsInBins(_Sized):
    """In every epoch each unit goes, by itself, to one of the epoch's batches (Chua et al. 2025).

    Every unit is seen once per epoch, and yet the batch that it is in stays hidden: epochs like shuffled ones, at a
    cost like that of Poisson samples.
    """

    relations: ClassVar[tuple[Relation, ...]] = (Relation.ADD_OR_REMOVE, Relation.ZERO_OUT)
    how: ClassVar[str] = "DP-SGD on balls in bins"
    assumption: ClassVar[str] = "the number of batches was chosen without looking at the data"

    def bins(self, num_units: int) -> int:
        """Return how many batches an epoch has."""
        return max(round(num_units / self.batch_size), 1)

    def steps(self, epochs: float, num_units: int) -> int:
        return max(math.ceil(epochs * self.bins(num_units) - 1e-9), 1)

    def sample(self, keys: Keys, step: int, num_units: int, batch_size: int) -> Indices:
        epoch, place = divmod(step, self.bins(num_units))
        return np.flatnonzero(_bins_of(keys(step - place), epoch, num_units, self.bins(num_units)) == place)

    def event(self, settings: Sequence[Setting], num_units: int, mechanism: Mechanism) -> Event:
        bins = self.bins(num_units)
        return composed([BallsInBinsEvent(mechanism(noise), bins) for noise in _in_turns(settings, bins)])

    def room(self, num_units: int) -> int:
        return Poisson(self.batch_size).room(num_units)


@dataclass(frozen=True, slots=True)
class CyclicPoisson(_Sized):
    """Units are dealt out, each by itself, to ``parts`` parts; steps take Poisson samples of one part after another.

    What noise that is correlated over ``parts`` steps needs, so that a unit never meets the same noise twice
    (Choquette-Choo et al. 2023, Algorithm 2).
    """

    relations: ClassVar[tuple[Relation, ...]] = (Relation.ADD_OR_REMOVE, Relation.ZERO_OUT)
    how: ClassVar[str] = "DP-SGD on Poisson samples of parts in turn"
    parts: int

    def __post_init__(self) -> None:
        """Check the numbers."""
        _Sized.__post_init__(self)
        check_count("parts", self.parts)

    def rate(self, num_units: int) -> float:
        """Return the probability with which a unit takes part, when it is its part's turn."""
        return min(self.batch_size * self.parts / num_units, 1.0)

    def participation(self, num_units: int, num_steps: int) -> Participation:
        return PoissonTurns(num_parts=self.parts, sampling_rate=self.rate(num_units))

    def check(self, num_units: int) -> None:
        if not self.batch_size * self.parts <= num_units:
            raise InvalidArgument(
                "batch_size", self.batch_size, f"at most a part, {num_units // self.parts} units", "Use fewer parts"
            )

    def sample(self, keys: Keys, step: int, num_units: int, batch_size: int) -> Indices:
        own = np.flatnonzero(_bins_of(keys(0), 1 << 64, num_units, self.parts) == step % self.parts)
        return own[poisson_sample(keys(step), step, len(own), self.rate(num_units))]

    def event(self, settings: Sequence[Setting], num_units: int, mechanism: Mechanism) -> Event:
        rate = self.rate(num_units)
        return composed([poisson_event(mechanism(noise), rate) for noise in _in_turns(settings, self.parts)])

    def room(self, num_units: int) -> int:
        return Poisson(self.batch_size).room(num_units)


def _distinct(source: KeyedSource, count: int, some: int) -> Indices:
    """Return so many different ones of so many, in a random order: drawn one by one, and again if they were before."""
    if 2 * some >= count:
        return _shuffled(source, count)[:some]
    drawn = np.zeros(0, dtype=np.int64)
    while True:
        drawn = np.concatenate([drawn, uniform_below(source, count, 2 * some)])
        first = np.sort(np.unique(drawn, return_index=True)[1])
        if len(first) >= some:
            return drawn[first[:some]]


def _shuffled(source: KeyedSource, count: int) -> Indices:
    """Return a uniform order of so many: by random words, drawn again in the event that two are equal."""
    while True:
        words = source.words(count)
        order = np.argsort(words, kind="stable")
        if not np.any(np.diff(words[order]) == 0):
            return order


@lru_cache(maxsize=2)
def _order_of(key: bytes, epoch: int, count: int) -> Indices:
    return _shuffled(KeyedSource(key, epoch), count)


@lru_cache(maxsize=2)
def _bins_of(key: bytes, epoch: int, count: int, bins: int) -> Indices:
    return uniform_below(KeyedSource(key, epoch), bins, count)
