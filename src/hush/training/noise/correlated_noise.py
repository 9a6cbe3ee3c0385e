"""Correlated noise for training and its privacy cost: DP-FTRL by matrix factorisation.

Three things make a mechanism, and each is a type here:

- *How noise is correlated over the steps*: `Banded` or `BufferedToeplitz`. With a number of steps it becomes a
  `Factor`, a matrix C with known coefficients.
- *The steps in which an example may take part*: `Once`, `Separated` or `PoissonTurns`. This follows from the sampling
  (`hush.training.plan.samplers`).
- *What it costs*: `Factor.event`, one Gaussian event whose noise is relative to the sensitivity of C x for these steps,
  or a sampled one for each turn, or one with a random shift.

The noise itself is in `hush.training.noise.recursions` and `stream`, the numerical work in
`hush.training.noise.factorisation`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from hush.accounting import ComposedEvent, Event, GaussianEvent, PoissonSampledEvent, SelfComposedEvent
from hush.accounting.events import GaussianMixtureEvent
from hush.errors import (
    InvalidArgument,
    check_count,
    check_delta,
    check_instance,
    check_positive,
    check_probability,
)
from hush.training.noise import factorisation as factorisation
from hush.training.noise.factorisation import Array, NoiseObjective
from hush.training.noise.recursions import Bands, Buffers, Recursion, Window, single

_MAX_STEPS = 100_000
_MAX_BUFFERS = 20  # each is one more vector of the model's size in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Participation(ABC):
    """The steps in which an example may take part. They must not affect the steps of other examples."""

    @abstractmethod
    def pattern(self, num_steps: int) -> tuple[int, int]:
        """Return the smallest distance between two steps of an example, and how many steps it may take part in."""

    def fit(self, noise: CorrelatedNoise, num_steps: int) -> tuple[int, int]:
        """Return the pattern that noise is optimised for; it affects utility only."""
        return self.pattern(num_steps)

    def event(self, factor: Factor, noise_multiplier: float, num_steps: int) -> Event:
        """Return the event of the first ``num_steps`` steps: one Gaussian on C x, with this pattern's sensitivity."""
        # C is lower triangular, so the first n releases depend on its first n rows and columns only: the event of a run
        # that stopped early uses the top of the first column (Denisov et al. 2022, Theorem 2.1).
        sensitivity = factorisation.sensitivity(factor.column[:num_steps], *self.pattern(num_steps))
        return GaussianEvent(check_positive("noise_multiplier", noise_multiplier) / sensitivity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Once(Participation):
    """Each example takes part in at most one step: a stream in order of arrival, or one epoch."""

    def pattern(self, num_steps: int) -> tuple[int, int]:
        """Return (``num_steps``, 1)."""
        return num_steps, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Separated(Participation):
    """Each example takes part in at most ``times`` steps, at least ``separation`` steps apart.

    Epochs in a fixed order are an example: their separation is the number of steps of an epoch. Epochs in an order that
    is drawn anew for each have a separation of 1: an example may come last in one epoch and first in the next.

    Attributes:
        separation: The smallest distance between two steps of an example.
        times: The largest number of its steps.
    """

    separation: int
    times: int

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_count("separation", self.separation)
        check_count("times", self.times)

    def pattern(self, num_steps: int) -> tuple[int, int]:
        """Return separation and times, as far as they fit into ``num_steps`` steps."""
        separation = min(self.separation, num_steps)
        # At most ceil(n / b) steps of 0, b, 2 b, ... are below n.
        return separation, min(self.times, -(-num_steps // separation))


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonTurns(Participation):
    """Examples are divided into ``num_parts`` parts, which take turns; each turn is a Poisson sample of its part.

    Step t samples part t mod b, for b parts, at the rate q = b * batch size / number of examples.

    *At most b bands.* The columns of the steps in which an example may be sampled have no row in common, and no other
    row depends on the example. So the rows fall into groups, one for each turn, and each group is a sampled Gaussian
    whose sensitivity is the norm of its column. Sums may depend on earlier releases.

    *Other noise*, such as `BufferedToeplitz`. All that is used is that nobody sees how often an example took part.
    Given its turns S, the run is a Gaussian mechanism of sensitivity r_k at most, that of k = |S| turns. Let L_S be its
    likelihood ratio, as a function of the noise without the example. In the convex order, L_S is at most
    e^(r_k Z - r_k^2 / 2) for a normal Z, even if sums depend on earlier releases: add what is missing to r_k as one
    more noisy number. A mean of variables is at most that of comonotone ones with these distributions, in which all
    have the same Z. So the run is dominated by the mixture of N(r_k, 1) over the binomial k, against N(0, 1). This is
    less amplification than for bands, as it does not use that nobody sees in which turns the example took part.

    Attributes:
        num_parts: b, the number of parts.
        sampling_rate: q, the probability that an example is sampled in its part's turn.

    Guarantee:
        For at most b bands, as private as ceil(T / b) Poisson-sampled Gaussians at rate q, with noise relative to the
        largest column. For other noise, as one Gaussian with a random shift: the sensitivity of as many turns as a
        binomial number says.

    Assumes:
        C is lower triangular (checked here). An example's part does not depend on any data, nor its sampling on
        anything else (true for `CyclicPoisson`; the caller's duty elsewhere).

    References:
        Choquette-Choo et al. 2023, (Amplified) Banded Matrix Factorization, Theorem 4 and Algorithm 2, with Poisson
        samples of the parts; Choquette-Choo et al. 2024 (mixtures of Gaussians for other matrices; their stronger
        analysis, by conditional composition, is not implemented). The mixture over the number of turns is this
        package's own; comonotone sums: Dhaene et al. 2002, Theorem 7.
    """

    num_parts: int
    sampling_rate: float

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_count("num_parts", self.num_parts)
        check_probability("sampling_rate", self.sampling_rate)

    def pattern(self, num_steps: int) -> tuple[int, int]:
        """Return (``num_steps``, 1): each turn is accounted for separately, so columns do not add up."""
        return num_steps, 1

    def fit(self, noise: CorrelatedNoise, num_steps: int) -> tuple[int, int]:
        """Return a single turn for bands; for other noise, as many turns as an example has on average."""
        if isinstance(noise, Banded):
            return self.pattern(num_steps)
        turns = -(-num_steps // self.num_parts)
        return min(self.num_parts, num_steps), max(round(turns * self.sampling_rate), 1)

    def event(self, factor: Factor, noise_multiplier: float, num_steps: int) -> Event:
        """Return the event of the first ``num_steps`` steps, for the first part: it has the most turns."""
        bands = factor.recursion.bands
        if bands is None:
            return self._mixture(factor.column[:num_steps], check_positive("noise_multiplier", noise_multiplier))
        if not bands <= self.num_parts:
            raise InvalidArgument(
                "num_parts",
                self.num_parts,
                f"at least {bands}, the number of bands",
                "With fewer parts, the noise of an example's own steps would be correlated",
            )
        # One turn: a single column, with the norm of the first, which is the largest.
        turn = Participation.event(self, factor, noise_multiplier, num_steps)
        sampled = turn if self.sampling_rate == 1 else PoissonSampledEvent(turn, self.sampling_rate)
        # Part 0 has the most turns, ceil(T / b). Other parts have as many or one less, so they cost no more.
        return SelfComposedEvent(sampled, -(-num_steps // self.num_parts))

    def _mixture(self, column: Array, noise_multiplier: float) -> Event:
        """Return one Gaussian whose shift is the sensitivity of a binomial number of turns."""
        all_turns = Separated(separation=self.num_parts, times=len(column)).pattern(len(column))[1]
        numbers, probabilities = factorisation.binomial_above(all_turns, self.sampling_rate)
        shifts: dict[float, float] = {}
        shift = 0.0
        for number, probability in zip(numbers, probabilities, strict=True):
            if number:  # more turns move the sums further, which rounding must not reverse
                shift = max(shift, factorisation.sensitivity(column, self.num_parts, number))
            shifts[shift] = shifts.get(shift, 0.0) + probability
        if len(shifts) == 1:
            return GaussianEvent(noise_multiplier / next(iter(shifts)))
        return GaussianMixtureEvent(noise_multiplier, tuple(shifts), tuple(shifts.values()))


@dataclass(frozen=True, slots=True)
class Factor:
    """A lower triangular Toeplitz matrix C, scaled to columns of norm about 1, and the noise C^-1 z that it makes.

    Attributes:
        recursion: How the noise is made. It must stay the same when a run is resumed.
        num_steps: The number of rows.

    Guarantee:
        Let x_t be sums of vectors of norm at most ``clip_norm``, in which an example takes part as ``participation``
        says. The release of x_t + ``noise_multiplier`` * ``clip_norm`` * y_t for all t, with y from `NoiseStream`, is
        the event of `event`. This holds even if x_t depends on earlier releases.

    Assumes:
        An example's steps are as ``participation`` says, and those of other examples do not depend on it. Where
        removing an example would let others move up, read the relation as zero-out (the caller's duty).

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
        """Return how far an example moves C x at most, in multiples of the largest contribution; rounded up."""
        return factorisation.sensitivity(self.column, *participation.pattern(self.num_steps))

    def event(self, noise_multiplier: float, participation: Participation, num_steps: int | None = None) -> Event:
        """Return the event of the first ``num_steps`` steps; of all steps, if omitted."""
        check_instance("participation", participation, Participation, "For example Once()")
        steps = self.num_steps if num_steps is None else check_count("num_steps", num_steps, minimum=0)
        if not steps <= self.num_steps:
            raise InvalidArgument("num_steps", steps, f"at most {self.num_steps}, the number of steps of the factor")
        return participation.event(self, noise_multiplier, steps) if steps else ComposedEvent(())

    def error(self, momentum: float = 0.0) -> float:
        """Return the root mean squared noise of the weights over all steps, for noise and learning rate 1."""
        return factorisation.mean_error(self.inverse, momentum)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelatedNoise(ABC):
    """A way to correlate noise over steps: later noise cancels part of the effect of earlier noise on the weights.

    Pass one to `hush.privatize` as ``correlated=``. See `Banded` and `BufferedToeplitz`.

    Attributes:
        momentum: The optimizer's momentum, at a constant learning rate, that the noise is fitted to. It affects utility
            only.

    Example:
        One epoch of 100 steps, in order of arrival. With independent noise of equal privacy, the weights would be three
        times as noisy:

        >>> from hush.guarantee import Relation
        >>> from hush.training import BufferedToeplitz, Flat, InOrder, TrainingPlan
        >>> plan = TrainingPlan(
        ...     sampling=InOrder(10), num_units=1000, num_steps=100, relation=Relation.ZERO_OUT, delta=1e-5,
        ...     correlated=BufferedToeplitz(), noise_multiplier=2.0, clipping=Flat(1.0), physical_batch_size=10,
        ... )
        >>> print(f"{plan.factor().error():.1f} instead of {Banded(bands=1).factor(100, Once()).error():.1f}")
        2.3 instead of 7.1
    """

    momentum: float = 0.0
    max_steps: ClassVar[int] = _MAX_STEPS

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_delta("momentum", self.momentum)

    def factor(self, num_steps: int, participation: Participation) -> Factor:
        """Return the factor of least mean squared error for ``num_steps`` steps; it is optimised once, then cached."""
        if not check_count("num_steps", num_steps) <= self.max_steps:
            raise InvalidArgument("num_steps", num_steps, f"at most {self.max_steps}")
        check_instance("participation", participation, Participation, "For example Once()")
        return Factor(_recursion(self, num_steps, *participation.fit(self, num_steps)), num_steps)

    def event(self, noise_multiplier: float, participation: Participation, num_steps: int) -> Event:
        """Return the event of ``num_steps`` steps."""
        return self.factor(num_steps, participation).event(noise_multiplier, participation)

    @abstractmethod
    def recursion(self, objective: NoiseObjective) -> Recursion:
        """Return the recursion of this kind that has the least loss."""


@lru_cache(maxsize=64)
def _recursion(noise: CorrelatedNoise, num_steps: int, separation: int, times: int) -> Recursion:
    return noise.recursion(NoiseObjective(num_steps, separation, times, noise.momentum))


def _column_norm(recursion: Recursion, objective: NoiseObjective) -> float:
    """Return the norm of C's first column, the largest of all, in single precision: C is divided by it."""
    return single([float(np.linalg.norm(recursion.column(objective.length)))])[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Banded(CorrelatedNoise):
    """C has a few bands: distant steps of an example touch different rows of C x, so that sampling amplifies privacy.

    With one band the noise is independent: DP-SGD. More bands mean less noise in the weights, but they need as many
    parts that take turns (`CyclicPoisson`). Each part is then smaller and sampled at a higher rate, so that sampling
    amplifies less.

    Attributes:
        bands: The number of bands, with the diagonal. A run keeps one vector less than this in memory, and none in
            checkpoints.

    Example:
        >>> from hush.training import CyclicPoisson, Flat, TrainingPlan
        >>> plan = TrainingPlan(
        ...     sampling=CyclicPoisson(20, parts=2), num_units=1000, num_steps=50, delta=1e-5,
        ...     correlated=Banded(bands=2), noise_multiplier=1.0, clipping=Flat(1.0), physical_batch_size=20,
        ... )
        >>> print(f"epsilon {plan.guarantee().epsilon:.2f}")
        epsilon 1.75

    References:
        Choquette-Choo et al. 2023; the Toeplitz variant, as in McKenna 2024, optimised for the mean squared error.
    """

    bands: int

    def __post_init__(self) -> None:
        """Check the numbers."""
        CorrelatedNoise.__post_init__(self)
        check_count("bands", self.bands)

    def recursion(self, objective: NoiseObjective) -> Recursion:
        """Return the bands of least loss."""
        # Rounded before C is scaled: the norm, and later the sensitivity, are those of the numbers that are applied.
        taps = single(factorisation.optimal_bands(self.bands, objective)[1:])
        # A gain g divides C by g. With the norm of the first column as g, taking part once has sensitivity 1.
        return Bands(_column_norm(Bands(1.0, taps), objective), taps)


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferedToeplitz(CorrelatedNoise):
    """C's column is a sum of a few geometric series (BLT): near-optimal noise from a few vectors of memory.

    Attributes:
        buffers: The number of series. More than four gain less than a thousandth, up to ten thousand steps.
        window: Without one, a run keeps a vector per buffer in memory and draws one vector per step; after it was
            resumed, it draws all earlier steps again, once. With a window, the inverse of C is cut after so many
            coefficients, and the mechanism is the one so defined: every step draws so many vectors, and none is kept.
            For one epoch, the error of the weights is then larger by 6 % (1,000 steps, window 32) or by 31 % (10,000
            steps).

    Example:
        One epoch of any number of steps costs as much as a single Gaussian with the same noise multiplier:

        >>> from hush.guarantee import Relation
        >>> from hush.training import Flat, InOrder, TrainingPlan
        >>> plan = TrainingPlan(
        ...     sampling=InOrder(10), num_units=1000, num_steps=100, relation=Relation.ZERO_OUT, delta=1e-5,
        ...     correlated=BufferedToeplitz(), noise_multiplier=2.0, clipping=Flat(1.0), physical_batch_size=10,
        ... )
        >>> print(f"epsilon {plan.guarantee().epsilon:.2f}")
        epsilon 1.99

        With `CyclicPoisson`, an example pays for how often it takes part: 5 times of 20, on average. `Banded` with as
        many bands as parts gains more from sampling, at the price of memory.

        >>> from hush.training import CyclicPoisson
        >>> plan = TrainingPlan(
        ...     sampling=CyclicPoisson(50, parts=5), num_units=1000, num_steps=100, delta=1e-5,
        ...     correlated=BufferedToeplitz(), noise_multiplier=4.0, clipping=Flat(1.0), physical_batch_size=50,
        ... )
        >>> print(f"epsilon {plan.guarantee().epsilon:.2f}")
        epsilon 3.32

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
        if not check_count("buffers", self.buffers) <= _MAX_BUFFERS:
            raise InvalidArgument("buffers", self.buffers, f"at most {_MAX_BUFFERS}", "More than 5 gain nothing")
        if self.window is not None:
            check_count("window", self.window)

    def recursion(self, objective: NoiseObjective) -> Recursion:
        """Return the series, or the cut inverse, of least loss."""
        window = None if self.window is None else min(self.window, objective.length)
        weights, decays = factorisation.optimal_buffers(self.buffers, objective, window)
        if window is None:
            # c_k = sum_i p_i decays_i^k = sum_i (p_i decays_i) decays_i^(k-1), as `Buffers` has it.
            heights, slopes = single(weights * decays), single(decays)
            return Buffers(_column_norm(Buffers(1.0, heights, slopes), objective), heights, slopes)
        # The cut inverse is the mechanism; dividing C by its column's norm multiplies the inverse by it.
        taps = factorisation.inverse(factorisation.moments(weights, decays, window), window)
        gain, *rest = single(taps * _column_norm(Window(1.0, tuple(taps[1:])), objective))
        return Window(gain, tuple(rest))
