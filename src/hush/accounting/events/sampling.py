"""Sampling: an event that runs on a random part of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hush.accounting.events.event import Event
from hush.accounting.events.ranges import check_size
from hush.errors import InvalidArgument, check_instance, check_probability


@dataclass(frozen=True, slots=True)
class PoissonSampledEvent(Event):
    """``event`` on a Poisson sample: each record is in it independently, with probability ``sampling_rate``.

    >>> from hush.accounting import GaussianEvent, PldAccountant
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
        # The loss is ln(1 + q (e^x - 1)), about q (e^x - 1): at q near 2^-53, nothing of it is left after adding the 1.
        if not rate >= 1e-12:
            raise InvalidArgument("sampling_rate", rate, "at least 1e-12", "Rounding errors dominate below")
        self._set(sampling_rate=rate)


@dataclass(frozen=True, slots=True)
class TruncatedPoissonSampledEvent(Event):
    """`PoissonSampledEvent`, of whose sample at most ``max_batch_size`` records are kept, uniformly at random.

    So batches have a static shape, and what is dropped costs next to nothing.

    >>> from hush.accounting import GaussianEvent, PldAccountant
    >>> step = TruncatedPoissonSampledEvent(GaussianEvent(1.0), 0.01, max_batch_size=160, dataset_size=10_000)
    >>> round(PldAccountant().compose(step, 1000).epsilon(delta=1e-5), 3)
    1.828

    Attributes:
        event: What runs on the sample.
        sampling_rate: The probability with which a record is sampled.
        max_batch_size: The largest number of records that are kept.
        dataset_size: The largest number of records that a dataset may have.
    """

    kind: ClassVar[str] = "truncated-poisson-sampled"
    event: Event
    sampling_rate: float
    max_batch_size: int
    dataset_size: int

    def __post_init__(self) -> None:
        """Check the arguments."""
        # A record that is sampled although the sample is full takes the place of another one: it moves a sum by up to
        # twice its contribution.
        self._set(
            sampling_rate=PoissonSampledEvent(self.event, self.sampling_rate).sampling_rate,
            max_batch_size=check_size("max_batch_size", self.max_batch_size),
            dataset_size=check_size("dataset_size", self.dataset_size),
        )


@dataclass(frozen=True, slots=True)
class FixedSizeSampledEvent(Event):
    """``event`` on ``batch_size`` records drawn without replacement from ``dataset_size``, which is public.

    >>> from hush.accounting import GaussianEvent, PldAccountant
    >>> from hush.guarantee import Relation
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
        batch, total = check_size("batch_size", self.batch_size), check_size("dataset_size", self.dataset_size)
        # A record is in the batch with probability q = batch / total, but not independently of the others (Balle,
        # Barthe & Gaboardi 2018, Theorem 9). The size of the dataset is public, so records are replaced, not added.
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

    >>> from hush.accounting import GaussianEvent, PldAccountant
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
        # With T bins, P = (1/T) sum over t of N(e_t, sigma^2 I) against Q = N(0, sigma^2 I) (Chua et al. 2025). The
        # epoch is analysed as a whole: its batches are dependent, because a record is in exactly one of them.
        self._set(num_bins=check_size("num_bins", self.num_bins, maximum=10**6))


@dataclass(frozen=True, slots=True)
class AllocatedEvent(Event):
    """``num_steps`` steps, of which each record takes part in exactly ``times``, drawn uniformly at random.

    All choices of so many steps are equally likely, and records choose independently. ``event`` runs on every step's
    records. How many these are varies and is not released.

    >>> from hush.accounting import GaussianEvent, PldAccountant
    >>> run = AllocatedEvent(GaussianEvent(1.0), num_steps=300, times=3)
    >>> round(PldAccountant().compose(run).epsilon(delta=1e-5), 3)
    0.954
    """

    kind: ClassVar[str] = "allocated"
    event: Event
    num_steps: int
    times: int

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_instance("event", self.event, Event)
        steps, times = check_size("num_steps", self.num_steps, maximum=10**6), check_size("times", self.times)
        if not times <= steps:
            raise InvalidArgument("times", times, f"at most num_steps={steps}", "A record is in a step once or not")
        self._set(num_steps=steps, times=times)
