"""Clipping: scales a per-example gradient so that its norm is at most the clip norm.

A `Clipping` turns the norms of a batch's gradients into factors between a gradient and its contribution to the sum.
`hush.training.per_example` measures the norms, multiplies and sums; this module only decides the factors.

Every kind of clipping bounds the norm of a contribution by ``clip_norm``. That is the sensitivity of the sum to adding
or removing an example, and the unit of the noise. So the kind of clipping changes utility, never the event.

Parameters may be clipped in `Groups`, each to its own share of the clip norm. Gradients of disjoint groups are
orthogonal, so squared norms add up, and the squared shares of all groups add up to 1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hush.errors import InvalidArgument, check_instance, check_positive, check_probability

if TYPE_CHECKING:  # a plan is made without torch, such as by `hush plan`
    from torch import Tensor


class Groups(ABC):
    """Which parameters are clipped together, and to which share of the clip norm."""

    @abstractmethod
    def of(self, sizes: Mapping[str, int]) -> tuple[list[int], list[float]]:
        """Assign parameters to groups.

        Args:
            sizes: The number of entries of each parameter, by name.

        Returns:
            The index of each parameter's group, in the order of ``sizes``, and each group's share of the clip norm. The
            squares of the shares add up to at most 1.
        """


@dataclass(frozen=True, slots=True)
class Together(Groups):
    """All parameters form one group. The default.

    >>> Together().of({"weight": 6, "bias": 2})
    ([0, 0], [1.0])
    """

    def of(self, sizes: Mapping[str, int]) -> tuple[list[int], list[float]]:
        return [0] * len(sizes), [1.0]


@dataclass(frozen=True, slots=True)
class PerLayer(Groups):
    """The parameters of each module form a group.

    Known as layer-wise clipping: the factor of a layer depends on the norm of its own gradient.

    Attributes:
        by_size: Whether the squared share of a group is proportional to its number of entries. By default all groups
            have the same share.

    >>> groups, shares = PerLayer(by_size=True).of({"0.weight": 6, "0.bias": 3, "1.weight": 3})
    >>> groups, [round(share**2, 6) for share in shares]
    ([0, 0, 1], [0.75, 0.25])
    """

    by_size: bool = False

    def of(self, sizes: Mapping[str, int]) -> tuple[list[int], list[float]]:
        layers: dict[str, int] = {}
        group_indices = [layers.setdefault(name.rpartition(".")[0], len(layers)) for name in sizes]
        weights = [0.0] * len(layers)
        for group, size in zip(group_indices, sizes.values(), strict=True):
            weights[group] += size if self.by_size else 0
        return group_indices, _shares(weights if self.by_size else [1.0] * len(layers))


@dataclass(frozen=True, slots=True)
class ByName(Groups):
    """Groups by prefixes of parameter names, each with a weight: its share of the squared clip norm.

    A parameter belongs to the longest prefix that fits. The prefix ``""`` fits all parameters.

    >>> groups, shares = ByName({"encoder.": 1, "": 3}).of({"encoder.weight": 6, "head.weight": 2})
    >>> groups, [round(share**2, 6) for share in shares]
    ([0, 1], [0.25, 0.75])
    """

    weights: tuple[tuple[str, float], ...]

    def __init__(self, weights: Mapping[str, float] | Sequence[tuple[str, float]]) -> None:
        """Take weights by prefix."""
        pairs = weights.items() if isinstance(weights, Mapping) else weights
        object.__setattr__(self, "weights", tuple((str(name), check_positive(name, weight)) for name, weight in pairs))
        if not self.weights:
            raise InvalidArgument("weights", weights, "at least one group")

    def of(self, sizes: Mapping[str, int]) -> tuple[list[int], list[float]]:
        group_indices: list[int] = []
        used: dict[str, int] = {}
        for name in sizes:
            fitting = [prefix for prefix, _ in self.weights if name.startswith(prefix)]
            if not fitting:
                raise InvalidArgument(
                    "groups", name, "a group for every parameter", 'The prefix "" takes all remaining parameters'
                )
            group_indices.append(used.setdefault(max(fitting, key=len), len(used)))
        weights = dict(self.weights)
        return group_indices, _shares([weights[prefix] for prefix in used])


@dataclass(frozen=True, slots=True)
class MovedGroups(Groups):
    """The groups of another rule, with thresholds of their own: those that `Adaptive` has moved.

    Attributes:
        base: The rule.
        thresholds: The largest norm of each group's part of a contribution.

    >>> groups, shares = MovedGroups(PerLayer(), (3.0, 4.0)).of({"0.weight": 6, "0.bias": 3, "1.weight": 3})
    >>> groups, [round(share, 6) for share in shares]
    ([0, 0, 1], [0.6, 0.8])
    """

    base: Groups
    thresholds: tuple[float, ...]

    def of(self, sizes: Mapping[str, int]) -> tuple[list[int], list[float]]:
        group_indices, shares = self.base.of(sizes)
        if len(shares) != len(self.thresholds):
            raise InvalidArgument(
                "groups", len(shares), f"{len(self.thresholds)} groups, as before", "Freeze no layer during the run"
            )
        return group_indices, _shares([threshold**2 for threshold in self.thresholds])


def _shares(weights: list[float]) -> list[float]:
    """Return shares whose squares are proportional to the weights and add up to at most 1."""
    total = sum(weights)
    # The factor absorbs the rounding of the square roots, which could otherwise take the sum just above 1.
    return [math.sqrt(weight / total) * (1 - 1e-12) for weight in weights]


@dataclass(frozen=True, slots=True)
class Clipping(ABC):
    """Base class: a bound on the norm of a contribution.

    Attributes:
        clip_norm: The largest norm of an example's contribution.
        groups: Which parameters are clipped together.

    >>> isinstance(Flat(1.0), Clipping), Flat(1.0).clip_norm
    (True, 1.0)
    """

    clip_norm: float = 1.0
    groups: Groups = Together()

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_positive("clip_norm", self.clip_norm)
        # Far from 1, squares of clipped entries would underflow or overflow in single precision.
        if not 1e-12 <= self.clip_norm <= 1e12:
            raise InvalidArgument("clip_norm", self.clip_norm, "between 1e-12 and 1e12", "Scale the loss instead")
        check_instance("groups", self.groups, Groups, "Such as PerLayer()")

    @abstractmethod
    def factors(self, norms: Tensor, targets: Tensor) -> Tensor:
        """Return the factor for each gradient, such that factor times norm is at most the target.

        Args:
            norms: The norms of gradients, per example and group.
            targets: The largest norms that they may have after clipping: the groups' shares of ``clip_norm``.
        """


@dataclass(frozen=True, slots=True)
class Flat(Clipping):
    """Gradients longer than the clip norm C are scaled down to it: factor min(1, C / norm). The default.

    Also called flat clipping, if all parameters form one group, and local clipping, since a gradient's factor depends
    on its own norm only.

    References:
        Abadi et al. 2016, "Deep Learning with Differential Privacy", Algorithm 1.

    >>> import torch
    >>> Flat(clip_norm=2.0).factors(torch.tensor([1.0, 8.0]), torch.tensor(2.0))
    tensor([1.0000, 0.2500])
    """

    def factors(self, norms: Tensor, targets: Tensor) -> Tensor:
        """Return min(1, C / norm)."""
        # A norm of 0 must give the factor 1, not 0 / 0 or C / 0.
        return (targets / norms.clamp_min(1e-300)).clamp(max=1.0)


@dataclass(frozen=True, slots=True)
class Automatic(Clipping):
    """All gradients are scaled to about the clip norm C: factor C / (norm + stability).

    The clip norm then acts as a factor on the learning rate, so you need not tune it.

    Attributes:
        stability: Gradients much shorter than this stay short.

    References:
        Bu et al. 2022, "Automatic Clipping: Differentially Private Deep Learning Made Easier and Stronger", AUTO-S.

    >>> import torch
    >>> Automatic(stability=0.5).factors(torch.tensor([0.5, 7.5]), torch.tensor(1.0))
    tensor([1.0000, 0.1250])
    """

    stability: float = 0.01

    def __post_init__(self) -> None:
        """Check the numbers."""
        Clipping.__post_init__(self)
        check_positive("stability", self.stability)

    def factors(self, norms: Tensor, targets: Tensor) -> Tensor:
        """Return C / (norm + stability)."""
        # norm * C / (norm + stability) < C for every norm, so this clips, too.
        return targets / (norms + self.stability)


@dataclass(frozen=True, slots=True)
class Normalized(Clipping):
    """All gradients are scaled to exactly the clip norm C, however short they are: factor C / norm.

    References:
        Bu et al. 2022 (AUTO-V); Das et al. 2021, "On the Convergence of Differentially Private Federated Learning".

    >>> import torch
    >>> Normalized().factors(torch.tensor([0.0, 0.5, 8.0]), torch.tensor(1.0))
    tensor([0.0000, 2.0000, 0.1250])
    """

    def factors(self, norms: Tensor, targets: Tensor) -> Tensor:
        """Return C / norm, and 0 for a gradient of 0."""
        return (targets / norms.clamp_min(1e-300)).where(norms > 0, 0.0)


@dataclass(frozen=True, slots=True)
class Global(Clipping):
    """All gradients are scaled alike, by C / Z; gradients longer than the threshold Z are dropped.

    The sum keeps the direction of the plain gradient on the examples that remain. Known as global clipping, with a
    public threshold: a factor that depended on the other gradients, such as on the largest norm of a batch, would have
    no bounded sensitivity.

    Attributes:
        threshold: Z. By default the clip norm C, so that nothing is scaled.

    References:
        Bu et al. 2021, "On the Convergence and Calibration of Deep Learning with Differential Privacy".

    >>> import torch
    >>> Global(threshold=4.0).factors(torch.tensor([1.0, 3.0, 5.0]), torch.tensor(1.0))
    tensor([0.2500, 0.2500, 0.0000])
    """

    threshold: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        Clipping.__post_init__(self)
        if self.threshold is not None:
            check_positive("threshold", self.threshold)

    def factors(self, norms: Tensor, targets: Tensor) -> Tensor:
        """Return C / Z up to Z, and 0 beyond. Z is split among groups as C is."""
        ratio = 1.0 if self.threshold is None else self.threshold / self.clip_norm  # Z / C, the same for all groups
        # What remains has a norm of at most Z, and Z C / Z = C.
        return (norms <= targets * ratio).float() * (1.0 / ratio)


@dataclass(frozen=True, slots=True)
class Adaptive(Clipping):
    """Flat clipping whose clip norm follows a quantile of the gradient norms; with groups, layer by layer.

    After each step the clip norm is multiplied by exp(-rate (b - quantile)), where b is a noisy fraction of the
    examples that were not clipped. To get b, the run releases the number of unclipped examples minus half of all
    examples. An example moves that number by 1/2, so noise of standard deviation s on it has noise multiplier 2 s.

    With K groups, such as `PerLayer`, each has a threshold that follows the quantile of its own norms. A contribution
    then has a norm of at most the root of the thresholds' squares, which is ``clip_norm``, and the noise of all
    parameters scales with it. An example moves all K counts, by a vector of length sqrt(K) / 2, so each gets noise of
    standard deviation sqrt(K) s: together they cost what a single one would. Thresholds are functions of noisy counts.

    The plan's noise multiplier z covers the clipped sum and these counts together: the sum gets
    (z^-2 - (2 s)^-2)^(-1/2).

    Attributes:
        clip_norm: The initial clip norm. Groups begin with their shares of it.
        quantile: The target fraction of examples that are not clipped.
        rate: How fast the clip norm moves.
        count_noise: The standard deviation s. By default a twentieth of the batch size, or 2 z if that is more.

    References:
        Andrew et al. 2021, "Differentially Private Learning with Adaptive Clipping", Algorithm 1 and Theorem 1, and for
        layers section 2.2, with the counts of all layers as one Gaussian release.

    >>> clipping = Adaptive(clip_norm=1.0, quantile=0.5, rate=0.2)
    >>> round(clipping.moved([1.0], [1.0]).clip_norm, 3)  # no example was clipped: the clip norm falls
    0.905
    >>> by_layer = Adaptive(clip_norm=1.0, groups=PerLayer()).moved([1.0, 0.0], [0.6, 0.8])
    >>> [round(threshold, 3) for threshold in by_layer.groups.thresholds], round(by_layer.clip_norm, 3)
    ([0.543, 0.884], 1.038)
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
        return (targets / norms.clamp_min(1e-300)).clamp(max=1.0)

    def noise_on_count(self, noise_multiplier: float, batch_size: int) -> float:
        """Return s, the standard deviation of the noise on the count of unclipped examples."""
        # A twentieth of the batch is Andrew et al.'s choice. With s >= 2 z, the count takes at most a 16th of z^-2.
        return max(batch_size / 20, 2 * noise_multiplier) if self.count_noise is None else self.count_noise

    def noise_on_sum(self, noise_multiplier: float, batch_size: int) -> float:
        """Return the noise multiplier of the clipped sum, such that sum and count together have the plan's."""
        count_noise = self.noise_on_count(noise_multiplier, batch_size)
        # Theorem 1: z^-2 = z_sum^-2 + (2 s)^-2.
        precision = noise_multiplier**-2 - (2 * count_noise) ** -2
        if not precision > 0:
            raise InvalidArgument(
                "count_noise",
                count_noise,
                f"more than {noise_multiplier / 2:.4g}",
                "At half the noise multiplier, the count alone would use up the whole budget",
            )
        return float(precision**-0.5)

    def moved(self, unclipped: Sequence[float], shares: Sequence[float]) -> Adaptive:
        """Return the clipping for the next step.

        Args:
            unclipped: For each group, a noisy fraction of the examples that were not clipped.
            shares: Each group's share of the clip norm in the step that is over.
        """
        thresholds = [self._moved(self.clip_norm * share, b) for share, b in zip(shares, unclipped, strict=True)]
        if len(thresholds) == 1:
            return replace(self, clip_norm=thresholds[0])
        base = self.groups.base if isinstance(self.groups, MovedGroups) else self.groups
        clip_norm = min(max(math.hypot(*thresholds), 1e-12), 1e12)
        return replace(self, clip_norm=clip_norm, groups=MovedGroups(base, tuple(thresholds)))

    def _moved(self, threshold: float, unclipped: float) -> float:
        # Noise can carry the fraction far outside [0, 1]. Bounding it keeps one unlucky draw from ruining the run.
        bounded = min(max(unclipped, -2.0), 3.0)
        # Geometric updates (Andrew et al. 2021): they reach any scale in few steps.
        return min(max(threshold * math.exp(-self.rate * (bounded - self.quantile)), 1e-12), 1e12)
