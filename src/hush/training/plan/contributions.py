"""What one contribution to the sum is: an example's gradient, the mean of some, or one clipped by an estimated norm.

Each way says by how much the sum moves when a unit comes, goes or changes, and what event a noisy sum is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from hush.accounting import Event, GaussianEvent, ProjectedGaussianEvent
from hush.errors import check_count
from hush.guarantee import Relation


class Contribution:
    """What is clipped and summed."""

    name: ClassVar[str] = ""

    @property
    def copies(self) -> int:
        """How often an example is in a batch."""
        return 1

    @property
    def examples(self) -> int:
        """How many sampled units share one contribution."""
        return 1

    def sensitivity(self, relation: Relation) -> float:
        """Return by what multiple of the clip norm the sum moves; for a replacement, half of that."""
        return 1.0

    def mechanism(self, noise_multiplier: float) -> Event:
        """Return the event of a sum with noise."""
        return GaussianEvent(noise_multiplier)

    def change(self, batch: Any) -> Any:
        """Return what a model is given, of what was fetched."""
        return batch


@dataclass(frozen=True, slots=True)
class PerExample(Contribution):
    """Each unit's own gradient: exact, and the default."""


@dataclass(frozen=True, slots=True)
class Augmented(Contribution):
    """The mean gradient of several versions of an example, clipped as one (augmentation multiplicity; De et al. 2022).

    A batch contains each example ``times`` times, its copies side by side; the caller's loop, or ``transform``, changes
    each. All copies are one person's: the contribution is clipped after averaging, and nothing more is given away.

    Attributes:
        times: How many versions.
        transform: From a fetched batch, with its copies, to what the model is given; it must treat rows one by one.
    """

    name: ClassVar[str] = "augmented"
    times: int
    transform: Callable[[Any], Any] | None = field(default=None, repr=False)  # a run may be resumed with another object

    def __post_init__(self) -> None:
        """Check the number."""
        check_count("times", self.times)

    @property
    def copies(self) -> int:
        return self.times

    def change(self, batch: Any) -> Any:
        return batch if self.transform is None else self.transform(batch)


@dataclass(frozen=True, slots=True)
class Microbatches(Contribution):
    """The mean gradient of ``size`` examples, clipped as one, as TF Privacy does for speed.

    An example's influence on a clipped mean is not its own clipped gradient: the mean may turn around, so that the sum
    moves by up to twice the clip norm. The noise is as much larger. It needs samples in which the place of each unit
    does not depend on others: positions decide who is averaged with whom.
    """

    name: ClassVar[str] = "micro-batches"
    size: int

    def __post_init__(self) -> None:
        """Check the number."""
        check_count("size", self.size)

    @property
    def examples(self) -> int:
        return self.size

    def sensitivity(self, relation: Relation) -> float:
        # A replaced example moves one clipped mean to another one: 2 C in all, which is what replacing means elsewhere.
        return 1.0 if relation is Relation.REPLACE else 2.0


@dataclass(frozen=True, slots=True)
class Projected(Contribution):
    """Each unit's gradient, clipped by a norm that is estimated from random projections (DP-SGD-JL; Bu et al. 2021).

    Works for any module, in the memory of ordinary training. Estimates err, so that a contribution may be larger than
    the clip norm: its size is random, and is accounted for as such. `PrivateTraining.step` then takes a function that
    computes the losses, since it runs forward several times.

    Attributes:
        projections: How many; the fewer, the more noise is needed for the same epsilon.
    """

    name: ClassVar[str] = "projected"
    projections: int

    def __post_init__(self) -> None:
        """Check the number."""
        check_count("projections", self.projections)

    def mechanism(self, noise_multiplier: float) -> Event:
        return ProjectedGaussianEvent(noise_multiplier, self.projections)
