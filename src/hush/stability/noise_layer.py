"""A noise layer inside a network (PixelDP): the layer before the noise is scaled so that its sensitivity is 1.

weight > a bound on how far its output moves (L2) per unit that an input moves (L1, L2 or Linf) > weight / bound
input > scaled layer, in double precision > plus Gaussian noise > rounded once > the rest of the network
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hush.errors import InvalidArgument, Unsupported, check_instance, check_positive
from hush.stability.convolution_norm import convolution_norm
from hush.stability.radius import InputNorm

_MARGIN = 1 + 1e-6  # covers rounding of the bound and of the layer


class NoiseLayer(nn.Module):
    """A linear or convolutional layer whose sensitivity is 1 by construction, and Gaussian noise on its output.

    The weight is divided by a bound on its operator norm, from the norm of the attack to L2, in every pass. So whatever
    training does to it, an input that moves by r moves the output by at most r in L2 norm, and the noise hides it as
    `hush.accounting.GaussianEvent` of noise_stddev / r would. Train with the noise, too.

    >>> layer = NoiseLayer(nn.Linear(3, 2), noise_stddev=0.5, norm=InputNorm.L1)
    >>> layer(torch.zeros(4, 3)).shape
    torch.Size([4, 2])

    Args:
        layer: ``nn.Linear``, or ``nn.Conv2d`` without groups and with zeros for padding. It stays trainable.
        noise_stddev: The standard deviation of the noise, per unit of the attack's norm.
        norm: The norm of the attack. For Linf, a bound by L2 is used: sqrt(numbers per input) times as large.

    Guarantee:
        Between two inputs at a distance of r in ``norm``, the output before the noise moves by at most r in L2 norm.

    Assumes:
        The noise is Gaussian: torch's generator draws it in double precision (the caller's duty to keep it). It keeps
        no secret, so nothing here is private.

    References:
        Lecuyer, Atlidakis, Geambasu, Hsu & Jana 2019, section 3 (a noise layer after the first layer, its sensitivity
        from L1 or L2). For convolutions: `hush.stability.convolution_norm`.
    """

    def __init__(self, layer: nn.Module, *, noise_stddev: float, norm: InputNorm = InputNorm.L2) -> None:
        super().__init__()
        if type(layer) not in (nn.Linear, nn.Conv2d):  # a subclass may compute something else
            raise Unsupported(f"{type(layer).__name__} before a noise layer", "Use nn.Linear or nn.Conv2d")
        if isinstance(layer, nn.Conv2d) and (layer.groups != 1 or layer.padding_mode != "zeros"):
            raise Unsupported("a convolution with groups or padding other than zeros before a noise layer")
        check_instance("norm", norm, InputNorm, "Such as InputNorm.L2")
        self.layer, self.norm = layer, norm
        self.noise_stddev = check_positive("noise_stddev", noise_stddev)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the layer's output with noise."""
        return self.noisy(self.clean(inputs)).to(inputs.dtype)

    def clean(self, inputs: Tensor) -> Tensor:
        """Return the scaled layer's output without noise, in double precision."""
        weight, bias = self.layer.weight, self.layer.bias
        assert isinstance(weight, Tensor)
        scaled = weight.double() / self.bound(inputs[0].numel())
        shift = bias.double() if isinstance(bias, Tensor) else None
        if isinstance(self.layer, nn.Conv2d):
            layer = self.layer
            return F.conv2d(inputs.double(), scaled, shift, layer.stride, layer.padding, layer.dilation)
        return F.linear(inputs.double(), scaled, shift)

    def noisy(self, outputs: Tensor) -> Tensor:
        """Return outputs with fresh noise."""
        return outputs + self.noise_stddev * torch.randn_like(outputs)

    @torch.no_grad()
    def bound(self, num_inputs: int) -> Tensor:
        """Return an upper bound on how far the unscaled layer's output moves per unit of the attack's norm.

        Args:
            num_inputs: The numbers of one input.
        """
        weight = self.layer.weight
        assert isinstance(weight, Tensor)
        exact = weight.detach().double()
        if not bool(exact.isfinite().all()):
            raise InvalidArgument("layer.weight", "its numbers", "finite numbers")
        columns = exact.transpose(0, 1).flatten(1).norm(dim=1)  # each input number's own effect, and no more
        bound = columns.max() if self.norm is InputNorm.L1 else _spectral_bound(exact, self.layer)
        if self.norm is InputNorm.LINF:
            bound = bound * math.sqrt(num_inputs)
            if exact.dim() == 2:
                bound = torch.minimum(bound, columns.sum())
        positive: Tensor = bound.clamp_min(torch.finfo(torch.float64).tiny) * _MARGIN
        return positive


def _spectral_bound(weight: Tensor, layer: nn.Module) -> Tensor:
    """Return an upper bound on the spectral norm of a layer."""
    if isinstance(layer, nn.Conv2d):
        (down, across), (dilated_down, dilated_across) = layer.stride, layer.dilation
        return convolution_norm(weight, (down, across), (dilated_down, dilated_across))
    norm: Tensor = torch.linalg.matrix_norm(weight, 2)
    return norm
