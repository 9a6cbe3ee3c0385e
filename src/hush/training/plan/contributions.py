"""Contributions: the vectors that are clipped and added to the sum of a step.

By default a contribution is one unit's gradient. It can also be the mean gradient of several augmented copies, of
several examples, or a gradient whose norm is only estimated. Each kind states how far the sum moves between
neighbouring datasets, and which accounting event a noisy sum of such contributions is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from hush.accounting import Event, GaussianEvent, ProjectedGaussianEvent
from hush.errors import check_count
from hush.guarantee import Relation


class Contribution:
    """Base class, with the properties of one gradient per sampled unit."""

    name: ClassVar[str] = ""
    # The smallest sensitivity that the event counts, in clip norms. The noise's grid is so fine that rounding adds a
    # small share of it.
    smallest_share: ClassVar[float] = 1.0

    @property
    def copies(self) -> int:
        """How many times an example is in a batch."""
        return 1

    @property
    def examples(self) -> int:
        """How many sampled units share a contribution."""
        return 1

    def sensitivity(self, relation: Relation) -> float:
        """Return how far the sum moves between neighbours, in clip norms; for replacement, half of that distance."""
        return 1.0

    def mechanism(self, noise_multiplier: float) -> Event:
        """Return the event of a sum of contributions with noise."""
        return GaussianEvent(noise_multiplier)

    def change(self, batch: Any) -> Any:
        """Turn a fetched batch, with its copies, into the batch that your loop receives."""
        return batch


@dataclass(frozen=True, slots=True)
class PerExample(Contribution):
    """Each unit's own gradient, clipped exactly. The default.

    >>> PerExample().mechanism(1.5)
    GaussianEvent(noise_multiplier=1.5)
    """


@dataclass(frozen=True, slots=True)
class Augmented(Contribution):
    """The mean gradient of several augmented copies of an example, clipped as one (augmentation multiplicity).

    A batch contains each example ``times`` times, with its copies next to each other. Augment them in your loop, or
    with ``transform``. All copies belong to the same unit and are averaged before clipping, so the guarantee is the
    same as without augmentation.

    Attributes:
        times: The number of copies.
        transform: Augments a fetched batch. It must treat rows independently.

    References:
        De et al. 2022, "Unlocking High-Accuracy Differentially Private Image Classification through Scale".

    >>> Augmented(8).copies
    8
    """

    name: ClassVar[str] = "augmented"
    times: int
    # Not part of repr, which a resumed run compares: the transform may be another object then.
    transform: Callable[[Any], Any] | None = field(default=None, repr=False)

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
    """The mean gradient of ``size`` examples, clipped as one, as TensorFlow Privacy does for speed.

    Removing an example can reverse the direction of a clipped mean, so the sum moves by up to twice the clip norm, and
    the noise is doubled accordingly. Positions decide which examples are averaged together. So this needs a sampling in
    which a unit's position does not depend on the other units. Such micro-batches are faster to clip, but few: their
    noise is larger.

    Attributes:
        size: The number of examples in a micro-batch.

    >>> Microbatches(16).sensitivity(Relation.ZERO_OUT)
    2.0
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
        # Replacing an example moves one clipped mean to another, by at most 2 C. Replacement doubles the clip norm for
        # every kind of contribution, so the factor here is 1.
        return 1.0 if relation is Relation.REPLACE else 2.0


@dataclass(frozen=True, slots=True)
class Projected(Contribution):
    """Each unit's gradient, clipped by a norm that is estimated from random projections (DP-SGD-JL).

    This works for any module, in the memory of ordinary training. An estimate may be too small, so a contribution may
    exceed the clip norm; the event accounts for its random size. Pass `PrivateTraining.step` a function that computes
    the losses, because it runs the model several times.

    Attributes:
        projections: The number of projections. With fewer, the same epsilon needs more noise.

    References:
        Bu et al. 2021, "Fast and Memory Efficient Differentially Private-SGD via JL Projections".

    >>> Projected(20).mechanism(1.5)
    ProjectedGaussianEvent(noise_multiplier=1.5, projections=20)
    """

    name: ClassVar[str] = "projected"
    # |g| / M is below 2^-20 if a mean of r squared normals exceeds 2^40: with a probability below exp(-2^38 r).
    smallest_share: ClassVar[float] = 2.0**-20
    projections: int

    def __post_init__(self) -> None:
        """Check the number."""
        check_count("projections", self.projections)

    def mechanism(self, noise_multiplier: float) -> Event:
        # |g| / M is random, with M^2 / |g|^2 a mean of r squared normals. The event integrates over that ratio.
        return ProjectedGaussianEvent(noise_multiplier, self.projections)
