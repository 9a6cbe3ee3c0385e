"""Predictions of a network with a noise layer: expected scores, with confidence bounds, and a certified radius.

input > clean layer, once > noisy copies > the rest of the network > scores > bounds on expected scores > radius
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from hush.errors import InvalidArgument, check_confidence, check_count, check_instance
from hush.stability.noise_layer import NoiseLayer
from hush.stability.radius import gaussian_radius
from hush.stability.smoothing import Certificate, Radius

_BATCH = 500  # noisy copies at once
_MAX_RATIO = 2.0**20  # of inputs to noise: beyond this, double precision loses what the bounds need
_ROUNDING = 1e-6  # of the noise: taken off a radius for the layer's rounding


class NoisyNetwork(nn.Module):
    """A network with a noise layer in front: its expected scores cannot change much with a small change of an input.

    The prediction is the class of the largest expected softmax score. `certify` bounds expected scores by a sample and
    computes how far an attacker may move the input. Compared with `SmoothedClassifier`, which asks for the class and
    counts votes, scores use more of what the network says, and the noise may be in the norm of the attack.

    >>> _ = torch.manual_seed(0)
    >>> first = nn.Linear(2, 2, bias=False)
    >>> _ = first.weight.data.copy_(torch.eye(2))
    >>> rest = nn.Linear(2, 2, bias=False)
    >>> _ = rest.weight.data.copy_(torch.tensor([[-100.0, 0.0], [100.0, 0.0]]))
    >>> network = NoisyNetwork(NoiseLayer(first, noise_stddev=0.5), rest).eval()
    >>> certificate = network.certify(torch.tensor([1.0, 0.0]), num_samples=10_000)
    >>> certificate.label, 0.85 < certificate.radius < 1.0  # the true radius is 1
    (1, True)

    Args:
        noise: The noise layer.
        rest: The rest of the network, from the noise layer's output to one logit per class.

    Guarantee:
        With the stated confidence, for each input separately: the class of the largest expected score is the same for
        all inputs within the radius, in the norm of the noise layer.

    Assumes:
        ``rest`` treats the copies of a batch separately (the caller's duty; it is in eval mode, checked here). Inputs
        are at most 2^20 times the noise (checked here).

    References:
        Lecuyer et al. 2019 (PixelDP: expected scores are stable), with the largest radius that Gaussian noise proves
        for functions with values in [0, 1] (Cohen, Rosenfeld & Kolter 2019; Salman et al. 2019, Lemma 2). Bounds on
        expected scores: Hoeffding 1963 and Maurer & Pontil 2009, Theorem 4.
    """

    def __init__(self, noise: NoiseLayer, rest: nn.Module) -> None:
        super().__init__()
        check_instance("noise", noise, NoiseLayer)
        check_instance("rest", rest, nn.Module)
        self.noise, self.rest = noise, rest

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits, with noise drawn for each input."""
        logits: Tensor = self.rest(self.noise(inputs))
        return logits

    @torch.no_grad()
    def scores(self, example: Tensor, num_samples: int) -> Tensor:
        """Return softmax scores of noisy copies of one input: one row per copy, in double precision."""
        if any(module.training for module in self.modules()):
            raise InvalidArgument("network.training", True, "False", "Copies must not affect each other", "Call eval()")
        within = (example.double().abs() <= self.noise.noise_stddev * _MAX_RATIO).all()
        if not (example.is_floating_point() and bool(within)):
            raise InvalidArgument("example", "a tensor", "finite floats, at most 2^20 times the noise")
        clean = self.noise.clean(example.unsqueeze(0))
        drawn = [
            self.rest(self.noise.noisy(clean.expand(size, *clean.shape[1:])).to(example.dtype)).double().softmax(1)
            for size in _batch_sizes(check_count("num_samples", num_samples))
        ]
        scores = torch.cat(drawn)
        if not bool(scores.isfinite().all()):
            raise InvalidArgument("rest", "its logits", "finite numbers")
        return scores

    def predict(self, example: Tensor, *, num_samples: int = 100) -> int:
        """Return the class of the largest mean score, without a certificate."""
        return int(self.scores(example, num_samples).mean(0).argmax())

    def certify(
        self,
        example: Tensor,
        *,
        num_samples: int = 1000,
        num_guesses: int = 100,
        confidence: float = 0.999,
        radius: Radius = gaussian_radius,
    ) -> Certificate:
        """Predict the class of one input, and certify a radius.

        Args:
            example: One input, without a batch dimension.
            num_samples: The number of noisy copies for the bounds.
            num_guesses: The number of other noisy copies, which choose the class.
            confidence: The confidence of the certificate.
            radius: `gaussian_radius`, or `hush.lab.radius.pixeldp_radius` for comparison.

        Returns:
            The certificate. Its label is None if no class is certain to have the largest expected score.
        """
        error = 1 - check_confidence("confidence", confidence)
        label = self.predict(example, num_samples=num_guesses)
        scores = self.scores(example, check_count("num_samples", num_samples, minimum=2))
        others = torch.cat([scores[:, :label], scores[:, label + 1 :]], dim=1)
        # One bound for the class, and one for each other: together they fail with probability `error`.
        lower = 1 - float(upper_bound(1 - scores[:, label : label + 1], error / 2).max())
        upper = float(upper_bound(others, error / 2 / max(others.shape[1], 1)).max()) if others.shape[1] else 0.0
        proven = radius(lower, upper, self.noise.noise_stddev) if lower > upper else 0.0
        return Certificate(
            label=label if lower > upper else None,
            radius=max((proven - _ROUNDING * self.noise.noise_stddev) * (1 - _ROUNDING), 0.0),
            lower=lower,
            confidence=confidence,
            norm=self.noise.norm,
        )


def upper_bound(scores: Tensor, error: float) -> Tensor:
    """Return an upper bound on each column's expectation, for scores in [0, 1]; each fails with probability ``error``.

    The smaller of Hoeffding's and of Maurer and Pontil's (2009, Theorem 4), which each have half of the error.
    """
    count = len(scores)
    mean, variance = scores.mean(0), scores.var(0)
    hoeffding = math.sqrt(math.log(2 / error) / (2 * count))
    logarithm = math.log(4 / error)
    bernstein = (2 * variance * logarithm / count).sqrt() + 7 * logarithm / (3 * (count - 1))
    return (mean + bernstein.clamp_max(hoeffding)).clamp(0.0, 1.0)


def _batch_sizes(total: int) -> Iterator[int]:
    yield from (min(_BATCH, total - start) for start in range(0, total, _BATCH))
