"""Noise added to sums, relative to the contribution bound of one record.

A sum of vectors of norm at most C, with Gaussian noise of standard deviation sigma * C, is ``GaussianEvent(sigma)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hush.accounting.events.event import Event
from hush.accounting.events.ranges import check_noise, check_size
from hush.errors import check_positive


@dataclass(frozen=True, slots=True)
class GaussianEvent(Event):
    """Gaussian noise of standard deviation ``noise_multiplier * C`` on a sum whose terms have L2 norm at most C.

    >>> from hush.accounting import PldAccountant
    >>> round(PldAccountant().compose(GaussianEvent(noise_multiplier=4.0)).epsilon(delta=1e-5), 3)
    0.926
    """

    kind: ClassVar[str] = "gaussian"
    noise_multiplier: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        # The worst pair is N(1 / sigma, 1) against N(0, 1), in any dimension (Balle & Wang 2018, Theorem 8).
        self._set(noise_multiplier=check_noise("noise_multiplier", self.noise_multiplier))


@dataclass(frozen=True, slots=True)
class ProjectedGaussianEvent(Event):
    """Gaussian noise of standard deviation ``noise_multiplier * C`` on a sum of terms clipped by estimated norms.

    The norm of a term g is estimated as ``M = sqrt(mean_j <g, v_j>^2)``. The r = ``projections`` vectors v_j are
    public, have independent standard normal entries, are the same for all terms, and are redrawn for each sum. The
    clipped term g * min(1, C / M) can have a norm above C, but at most C sqrt(r / X), where X has a chi-square
    distribution with r degrees of freedom (Bu et al. 2021, "Fast and memory efficient differentially private SGD via JL
    projections").

    >>> ProjectedGaussianEvent(noise_multiplier=1.0, projections=100).kind
    'projected-gaussian'
    """

    kind: ClassVar[str] = "projected-gaussian"
    noise_multiplier: float
    projections: int

    def __post_init__(self) -> None:
        """Check the arguments."""
        # By the law of large numbers X / r -> 1, so many projections cost as little as exact norms.
        self._set(
            noise_multiplier=check_noise("noise_multiplier", self.noise_multiplier),
            projections=check_size("projections", self.projections, maximum=1_000_000),
        )


@dataclass(frozen=True, slots=True)
class LaplaceEvent(Event):
    """Laplace noise of scale ``scale * C`` on a sum whose terms have L1 norm at most C.

    >>> from hush.accounting import PldAccountant
    >>> round(PldAccountant().compose(LaplaceEvent(scale=2.0)).epsilon(delta=0), 3)
    0.5
    """

    kind: ClassVar[str] = "laplace"
    scale: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        # epsilon = 1 / scale: a shift of C changes the density e^(-|x| / (C scale)) by the factor e^(1 / scale) at most
        # (Dwork, McSherry, Nissim & Smith 2006).
        self._set(scale=check_noise("scale", self.scale))


@dataclass(frozen=True, slots=True)
class DiscreteGaussianEvent(Event):
    """Integer noise, P(x) proportional to e^(-x^2 / (2 sigma^2)), on a sum of integers of at most ``sensitivity``.

    >>> from hush.accounting import PldAccountant
    >>> round(PldAccountant().compose(DiscreteGaussianEvent(sigma=4.0)).epsilon(delta=1e-5), 3)
    0.927
    """

    kind: ClassVar[str] = "discrete-gaussian"
    sigma: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        """Check the arguments."""
        # Integers up to 2^53 are exact in doubles; 2^50 leaves three bits for small multiples of it.
        sensitivity = check_size("sensitivity", self.sensitivity, maximum=1 << 50)
        sigma = check_positive("sigma", self.sigma)
        # rho = sensitivity^2 / (2 sigma^2), as for continuous noise (Canonne, Kamath & Steinke 2020, Theorem 4): only
        # the ratio has to be in range.
        check_noise("sigma / sensitivity", sigma / sensitivity)
        self._set(sigma=sigma, sensitivity=sensitivity)


@dataclass(frozen=True, slots=True)
class DiscreteLaplaceEvent(Event):
    """Integer noise, P(x) proportional to e^(-|x| / scale), on a sum of integers of at most ``sensitivity``.

    >>> from hush.accounting import PldAccountant
    >>> round(PldAccountant().compose(DiscreteLaplaceEvent(scale=4.0, sensitivity=2)).epsilon(delta=0), 3)
    0.5
    """

    kind: ClassVar[str] = "discrete-laplace"
    scale: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        """Check the arguments."""
        sensitivity = check_size("sensitivity", self.sensitivity, maximum=1 << 50)
        scale = check_positive("scale", self.scale)
        # epsilon = sensitivity / scale (Ghosh, Roughgarden & Sundararajan 2009).
        check_noise("scale / sensitivity", scale / sensitivity)
        self._set(scale=scale, sensitivity=sensitivity)
