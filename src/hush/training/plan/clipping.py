"""Ways to clip: how an example's gradient is scaled, so that no contribution is larger than the clip norm.

Whatever the way, the norm of a contribution is at most ``clip_norm``; that is the sensitivity of the sum when an
example comes or goes, and what the noise is a multiple of. Ways differ in what they do below it, and in what is clipped
together: all parameters, or groups of them, each to its share of the clip norm.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hush.errors import InvalidArgument, check_instance, check_positive, check_probability


class Groups(ABC):
    """Which parameters are clipped together, and to what share of the clip norm.

    Shares are of its square: gradients of groups are orthogonal, so that their squared norms add up.
    """

    @abstractmethod
    def of(self, sizes: Mapping[str, int]) -> tuple[list[int], list[float]]:
        """Return each parameter's group, and each group's clip norm in multiples of the whole one."""


@dataclass(frozen=True, slots=True)
class Together(Groups):
    """All parameters in one group."""

    def of(self, sizes: Mapping[str, int]) -> tuple[list[int], list[float]]:
        return [0] * len(sizes), [1.0]


@dataclass(frozen=True, slots=True)
class PerLayer(Groups):
    """The parameters of each module are a group.

    Attributes:
        by_size: Whether a group's squared share is its share of the parameters; else, all groups' are equal.
    """

    by_size: bool = False

    def of(self, sizes: Mapping[str, int]) -> tuple[list[int], list[float]]:
        layers: dict[str, int] = {}
        places = [layers.setdefault(name.rpartition(".")[0], len(layers)) for name in sizes]
        weights = [0.0] * len(layers)
        for place, size in zip(places, sizes.values(), strict=True):
            weights[place] += size if self.by_size else 0
        return places, _shares(weights if self.by_size else [1.0] * len(layers))


@dataclass(frozen=True, slots=True)
class ByName(Groups):
    """Groups by the beginnings of parameters' names, each with a weight: its share of the squared clip norm.

    A parameter belongs to the longest beginning that fits; ``""`` fits all.
    """

    weights: tuple[tuple[str, float], ...]

    def __init__(self, weights: Mapping[str, float] | Sequence[tuple[str, float]]) -> None:
        """Take weights by beginnings, such as ``{"encoder.": 1, "": 3}``."""
        pairs = weights.items() if isinstance(weights, Mapping) else weights
        object.__setattr__(self, "weights", tuple((str(name), check_positive(name, weight)) for name, weight in pairs))
        if not self.weights:
            raise InvalidArgument("weights", weights, "at least one group")

    def of(self, sizes: Mapping[str, int]) -> tuple[list[int], list[float]]:
        places: list[int] = []
        used: dict[str, int] = {}
        for name in sizes:
            fitting = [beginning for beginning, _ in self.weights if name.startswith(beginning)]
            if not fitting:
                raise InvalidArgument("groups", name, "a group for every parameter", 'A group named "" takes the rest')
            places.append(used.setdefault(max(fitting, key=len), len(used)))
        weights = dict(self.weights)
        return places, _shares([weights[beginning] for beginning in used])


def _shares(weights: list[float]) -> list[float]:
    """Return norms whose squares are in the proportion of the weights, and add up to 1 at most."""
    total = sum(weights)
    return [math.sqrt(weight / total) * (1 - 1e-12) for weight in weights]


@dataclass(frozen=True, slots=True)
class Clipping(ABC):
    """A way to clip.

    Attributes:
        clip_norm: The largest norm of an example's contribution.
        groups: What is clipped together.
    """

    clip_norm: float = 1.0
    groups: Groups = Together()

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_positive("clip_norm", self.clip_norm)
        if not 1e-12 <= self.clip_norm <= 1e12:
            raise InvalidArgument("clip_norm", self.clip_norm, "between 1e-12 and 1e12", "Scale the loss instead")
        check_instance("groups", self.groups, Groups, "Such as PerLayer()")

    @abstractmethod
    def factors(self, norms: Tensor, targets: Tensor) -> Tensor:
        """Return what gradients of these norms are multiplied with, so that none is larger than its target."""


@dataclass(frozen=True, slots=True)
class Flat(Clipping):
    """Gradients beyond the clip norm are shortened to it; others stay (Abadi et al. 2016)."""

    def factors(self, norms: Tensor, targets: Tensor) -> Tensor:
        """Return min(1, C / norm)."""
        return torch.clamp(targets / norms.clamp_min(1e-300), max=1.0)


@dataclass(frozen=True, slots=True)
class Automatic(Clipping):
    """All gradients are brought to about the clip norm; small ones stay smaller (AUTO-S; Bu et al. 2022).

    The clip norm then only scales the learning rate: there is nothing to tune.

    Attributes:
        stability: Added to norms: gradients much smaller than this stay small.
    """

    stability: float = 0.01

    def __post_init__(self) -> None:
        """Check the numbers."""
        Clipping.__post_init__(self)
        check_positive("stability", self.stability)

    def factors(self, norms: Tensor, targets: Tensor) -> Tensor:
        """Return C / (norm + stability)."""
        return targets / (norms + self.stability)


@dataclass(frozen=True, slots=True)
class Normalized(Clipping):
    """All gradients are brought to the clip norm, however small (AUTO-V; Bu et al. 2022, Das et al. 2021)."""

    def factors(self, norms: Tensor, targets: Tensor) -> Tensor:
        """Return C / norm; a gradient of 0 stays 0."""
        return torch.where(norms > 0, targets / norms.clamp_min(1e-300), 0.0)


@dataclass(frozen=True, slots=True)
class Global(Clipping):
    """All gradients are scaled alike, by C over a threshold; those beyond the threshold count nothing (Bu et al. 2021).

    Directions of the sum stay those of gradient descent on fewer examples.

    Attributes:
        threshold: Up to which norm gradients count; without it, the clip norm, and nothing is scaled.
    """

    threshold: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        Clipping.__post_init__(self)
        if self.threshold is not None:
            check_positive("threshold", self.threshold)

    def factors(self, norms: Tensor, targets: Tensor) -> Tensor:
        """Return C / Z up to Z, and 0 beyond; Z is split among groups as C is."""
        share = 1.0 if self.threshold is None else self.threshold / self.clip_norm
        return torch.where(norms <= targets * share, 1.0 / share, 0.0)


@dataclass(frozen=True, slots=True)
class Adaptive(Clipping):
    """Flat clipping whose norm follows a quantile of the gradients' norms (Andrew et al. 2021, Algorithm 1).

    After each step the clip norm is multiplied with exp(-rate (b - quantile)), where b is the share of examples that
    were not clipped, with noise: the number of those, less half of all, changes by 1/2 when an example comes or goes.
    The plan's noise multiplier z is that of both releases together: the sum gets (z^-2 - (2 s)^-2)^(-1/2) for noise of
    standard deviation s on the number (Theorem 1 there).

    Attributes:
        clip_norm: With which to begin.
        quantile: What share of the examples should not be clipped.
        rate: How fast the clip norm moves.
        count_noise: The standard deviation s; without it, a twentieth of the batch, or twice z if that is more.
    """

    quantile: float = 0.5
    rate: float = 0.2
    count_noise: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        Clipping.__post_init__(self)
        check_probability("quantile", self.quantile)
        check_positive("rate", self.rate)
        if self.count_noise is not None:
            check_positive("count_noise", self.count_noise)

    def factors(self, norms: Tensor, targets: Tensor) -> Tensor:
        """Return min(1, C / norm)."""
        return torch.clamp(targets / norms.clamp_min(1e-300), max=1.0)

    def noise_on_count(self, noise_multiplier: float, batch_size: int) -> float:
        """Return the standard deviation of the noise on the number of examples."""
        return max(batch_size / 20, 2 * noise_multiplier) if self.count_noise is None else self.count_noise

    def noise_on_sum(self, noise_multiplier: float, batch_size: int) -> float:
        """Return the noise multiplier that is left for the sum."""
        count = self.noise_on_count(noise_multiplier, batch_size)
        left = noise_multiplier**-2 - (2 * count) ** -2
        if not left > 0:
            raise InvalidArgument(
                "count_noise",
                count,
                f"more than {noise_multiplier / 2:.4g}",
                "Half the noise multiplier is all there is",
            )
        return float(left**-0.5)

    def moved(self, share: float) -> Adaptive:
        """Return the way to clip after a step in which about this share of the examples was not clipped."""
        clip_norm = self.clip_norm * math.exp(-self.rate * (min(max(share, -2.0), 3.0) - self.quantile))
        return replace(self, clip_norm=min(max(clip_norm, 1e-12), 1e12))
