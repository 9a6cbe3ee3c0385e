"""Correlated noise for training: DP-FTRL by matrix factorisation, and what it costs.

- `Banded`, `BufferedToeplitz`: how noise is correlated over the steps; each makes a `Factor` for a number of steps.
- `Once`, `Separated`, `PoissonTurns`: in which steps an example may take part; each knows its event.
- `NoiseStream` (in ``_noise_stream.py``): the noise itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from hush.accounting import ComposedEvent, Event, GaussianEvent, PoissonSampledEvent, SelfComposedEvent
from hush.errors import (
    InvalidArgument,
    Unsupported,
    check_count,
    check_delta,
    check_instance,
    check_positive,
    check_probability,
)
from hush.training.noise import factorisation as factorisation
from hush.training.noise.factorisation import Array, NoiseObjective
from hush.training.noise.stream import Bands, Buffers, Recursion, Window, single


@dataclass(frozen=True, slots=True, kw_only=True)
class Participation(ABC):
    """In which steps an example may take part. The steps of the others must not depend on it."""

    @abstractmethod
    def pattern(self, num_steps: int) -> tuple[int, int]:
        """Return how far apart the steps of an example are, and how many they are, where a factor is optimised."""

    def event(self, factor: Factor, noise_multiplier: float, num_steps: int) -> Event:
        """Return the event of the first steps: one Gaussian on C x, with the sensitivity that the pattern has."""
        sensitivity = factorisation.sensitivity(factor.column[:num_steps], *self.pattern(num_steps))
        return GaussianEvent(check_positive("noise_multiplier", noise_multiplier) / sensitivity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Once(Participation):
    """Each example in one step at most: a stream in order of arrival, or one epoch."""

    def pattern(self, num_steps: int) -> tuple[int, int]:
        """Return that there is one step."""
        return num_steps, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Separated(Participation):
    """Each example at most ``times`` times, at least ``separation`` steps apart, such as epochs in a fixed order.

    Epochs of n steps in an order that is drawn anew for each have a separation of 1.
    """

    separation: int
    times: int

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_count("separation", self.separation)
        check_count("times", self.times)

    def pattern(self, num_steps: int) -> tuple[int, int]:
        """Return what fits into so many steps."""
        separation = min(self.separation, num_steps)
        return separation, min(self.times, -(-num_steps // separation))


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonTurns(Participation):
    """Examples are in ``num_parts`` parts, which take turns; in its turn, each of a part's takes part by itself.

    Step t samples part t mod b for b parts, at the rate q = b * batch size / number of examples. For a factor with at
    most b bands, the steps in which an example may be sampled have columns without a common row, and nothing of the
    example is in the rows of other steps. So the rows fall into groups, one per turn, each a sampled Gaussian whose
    sensitivity is the norm of its column. Sums may depend on earlier releases.

    Guarantee:
        As private as ceil(T / b) Poisson-sampled Gaussians at rate q, whose noise is relative to the largest column.

    Assumes:
        C is lower triangular with at most b bands (checked here). An example's part does not depend on any data, nor
        its sampling on anything else (so in `CyclicPoisson`; the caller's duty elsewhere).

    References:
        Choquette-Choo et al. 2023, (Amplified) Banded Matrix Factorization, Theorem 4 and Algorithm 2, with Poisson
        samples of the parts.
    """

    num_parts: int
    sampling_rate: float

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_count("num_parts", self.num_parts)
        check_probability("sampling_rate", self.sampling_rate)

    def pattern(self, num_steps: int) -> tuple[int, int]:
        """Return that columns count one by one."""
        return num_steps, 1

    def event(self, factor: Factor, noise_multiplier: float, num_steps: int) -> Event:
        """Return the event of the first steps: one sampled Gaussian per turn of the first part."""
        bands = factor.recursion.bands
        if bands is None:
            raise Unsupported(
                f"amplification by sampling is not proven for {type(factor.recursion).__name__.lower()} of noise",
                "Use Banded, or account for Separated(separation=num_parts, times=...)",
            )
        if not bands <= self.num_parts:
            raise InvalidArgument("num_parts", self.num_parts, f"at least the {bands} bands", "Steps would overlap")
        step = Participation.event(self, factor, noise_multiplier, num_steps)
        sampled = step if self.sampling_rate == 1 else PoissonSampledEvent(step, self.sampling_rate)
        return SelfComposedEvent(sampled, -(-num_steps // self.num_parts))


@dataclass(frozen=True, slots=True)
class Factor:
    """A lower triangular Toeplitz matrix C, about normalised to columns of norm 1, and the noise C^-1 z that it makes.

    Attributes:
        recursion: How the noise is made; all that must stay the same when a run is resumed.
        num_steps: For how many steps.

    Guarantee:
        Let x_t be sums of vectors, each of norm at most C, in which an example takes part as ``participation`` says.
        The release of x_t + noise_multiplier * C * y_t for all t, with y from `NoiseStream`, is the event of `event`.
        Also if x_t depends on what was released before.

    Assumes:
        An example's steps are as ``participation`` says, and those of the others do not depend on it: where an example
        that is left out would let others move up, read the relation as zero-out (the caller's duty).

    References:
        Denisov et al. 2022, Theorem 2.1 (a triangular C stays private for sums that depend on earlier releases);
        Kalinin & Lampert 2024, Theorem 2 (the sensitivity of falling Toeplitz coefficients).
    """

    recursion: Recursion
    num_steps: int

    @property
    def column(self) -> Array:
        """The first column of C."""
        return self.recursion.column(self.num_steps)

    @property
    def inverse(self) -> Array:
        """The first column of C^-1."""
        return self.recursion.inverse(self.num_steps)

    def sensitivity(self, participation: Participation) -> float:
        """Return how far an example moves C x, in multiples of the largest contribution; rounded up."""
        return factorisation.sensitivity(self.column, *participation.pattern(self.num_steps))

    def event(self, noise_multiplier: float, participation: Participation, num_steps: int | None = None) -> Event:
        """Return the event of the first steps, or of all."""
        check_instance("participation", participation, Participation, "Such as Once()")
        steps = self.num_steps if num_steps is None else check_count("num_steps", num_steps, minimum=0)
        if not steps <= self.num_steps:
            raise InvalidArgument("num_steps", steps, f"at most the {self.num_steps} of the factor")
        return participation.event(self, noise_multiplier, steps) if steps else ComposedEvent(())

    def error(self, momentum: float = 0.0) -> float:
        """Return the root mean square of the noise of the weights, for noise and learning rate 1, over all steps."""
        return factorisation.mean_error(self.inverse, momentum)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelatedNoise(ABC):
    """A way to correlate noise over steps: later noise takes back a part of what earlier noise has done to the sums.

    Attributes:
        momentum: The optimizer's, which the noise is fitted to, at a constant learning rate. Utility, nothing else.
    """

    momentum: float = 0.0
    most_steps: ClassVar[int] = 100_000

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_delta("momentum", self.momentum)

    def factor(self, num_steps: int, participation: Participation) -> Factor:
        """Return the factor for so many steps, of least mean squared error among its kind; found once, then kept."""
        if not check_count("num_steps", num_steps) <= self.most_steps:
            raise InvalidArgument("num_steps", num_steps, f"at most {self.most_steps}")
        check_instance("participation", participation, Participation, "Such as Once()")
        return Factor(_recursion(self, num_steps, *participation.pattern(num_steps)), num_steps)

    def event(self, noise_multiplier: float, participation: Participation, num_steps: int) -> Event:
        """Return the event of so many steps."""
        return self.factor(num_steps, participation).event(noise_multiplier, participation)

    @abstractmethod
    def recursion(self, objective: NoiseObjective) -> Recursion:
        """Return the best recursion of its kind."""


@lru_cache(maxsize=64)
def _recursion(noise: CorrelatedNoise, num_steps: int, separation: int, times: int) -> Recursion:
    return noise.recursion(NoiseObjective(num_steps, separation, times, noise.momentum))


def _norm(recursion: Recursion, objective: NoiseObjective) -> float:
    """Return the largest norm of a column, by which to divide."""
    return single([float(np.linalg.norm(recursion.column(objective.length)))])[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Banded(CorrelatedNoise):
    """C has a few bands: the noise of steps further apart than that can be told apart, and sampling amplifies.

    With one band the noise is independent: DP-SGD. More bands mean less noise in the sums, but fewer examples in each
    of the parts that take turns (`PoissonTurns`), so less amplification.

    Attributes:
        bands: How many, with the diagonal. A run keeps one vector less than this in memory, none in checkpoints.

    References:
        Choquette-Choo et al. 2023; the Toeplitz variant, as in McKenna 2024, optimised for the mean squared error.
    """

    bands: int

    def __post_init__(self) -> None:
        """Check the numbers."""
        CorrelatedNoise.__post_init__(self)
        check_count("bands", self.bands)

    def recursion(self, objective: NoiseObjective) -> Recursion:
        """Return the best bands."""
        taps = single(factorisation.optimal_bands(self.bands, objective)[1:])
        return Bands(_norm(Bands(1.0, taps), objective), taps)


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferedToeplitz(CorrelatedNoise):
    """C's column is a sum of a few geometric series (BLT): near the best possible noise, from a few vectors in memory.

    Attributes:
        buffers: How many series. More than four gain less than a thousandth, up to ten thousand steps.
        window: Without one, a run keeps a vector per buffer in memory and draws one per step; after it was resumed, it
            draws all earlier steps again, once. With a window, the inverse is cut after so many coefficients, the
            mechanism is the one so defined, and every step draws so many vectors again and keeps none. For one epoch,
            the error of the sums is then larger by 6 % (1,000 steps, window 32), or by 31 % (10,000 steps).

    References:
        Dvijotham, McMahan, Pillutla, Steinke & Thakurta 2024; McMahan, Xu & Zhang 2024 (several participations, and the
        optimisation). Here the series have positive weights of sum at most c_0, and the mean squared error is
        optimised; the cut inverse is that of Kalinin, McKenna, Upadhyay & Lampert 2025 with other coefficients.
    """

    buffers: int = 4
    window: int | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        CorrelatedNoise.__post_init__(self)
        if not check_count("buffers", self.buffers) <= 20:
            raise InvalidArgument("buffers", self.buffers, "at most 20", "More than 5 gain nothing")
        if self.window is not None:
            check_count("window", self.window)

    def recursion(self, objective: NoiseObjective) -> Recursion:
        """Return the best series, or the best window."""
        window = None if self.window is None else min(self.window, objective.length)
        weights, decays = factorisation.optimal_buffers(self.buffers, objective, window)
        if window is None:
            heights, slopes = single(weights * decays), single(decays)
            return Buffers(_norm(Buffers(1.0, heights, slopes), objective), heights, slopes)
        taps = factorisation.inverse(factorisation.moments(weights, decays, window), window)
        gain, *rest = single(taps * _norm(Window(1.0, tuple(taps[1:])), objective))
        return Window(gain, tuple(rest))
