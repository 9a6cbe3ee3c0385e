"""Wavelet scattering: image features that need no training and therefore cost no privacy.

The wavelets are fixed before any data are seen, and the features of an image depend on that image alone. A linear model
on them has few parameters and needs few steps; at the same budget it beats networks that are trained from scratch
(Tramer and Boneh 2021).

With wavelets psi of J scales j and L angles, a low-pass filter phi, and * for convolution, the transform of an image x
is

    S x = [ x * phi,  |x * psi_1| * phi,  ||x * psi_1| * psi_2| * phi ]        for all psi_1, and all coarser psi_2,

sampled at every 2^J-th pixel. It has K = 1 + L J + L^2 J (J - 1) / 2 channels.

- `Scattering`: the transform, a module without parameters.
- `features`: the features of a whole dataset, batch by batch.

References:
    - Mallat 2012, "Group invariant scattering"; Bruna and Mallat 2013, "Invariant scattering convolution networks".
    - Tramer and Boneh 2021, "Differentially private learning needs better features (or much more data)": order 2,
      J = 2, L = 8, group normalisation with 27 groups, a linear classifier.

Variant: Morlet wavelets with the envelopes of Bruna and Mallat (sigma 0.8 2^j, centre frequency 3 pi / 4 / 2^j, slant
4 / L). Images are mirrored at their borders, and signals are subsampled by 2^j after a wavelet of scale j. The wavelets
are evaluated in the frequency domain, separately for each resolution, so that none of them is truncated.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hush.errors import InvalidArgument, check_count, check_instance

__all__ = ["Scattering", "features"]

_WIDTH = 0.8  # the width of the finest wavelet's envelope, in pixels
_CENTRE = 3 * math.pi / 4  # its centre frequency
_TAIL = 8.6  # beyond this many standard deviations, a Gaussian is below 1e-16


class Scattering(nn.Module):
    """The scattering transform of order 2: [B, C, H, W] to [B, C * K, H', W'], H' = ceil(H / 2^J).

    All channels of the first colour come first, then those of the next. For each colour: the low pass; order 1, indexed
    by (j1, angle 1); order 2, indexed by (j1, angle 1, j2, angle 2), with the last index the fastest. Angle number l is
    l pi / L, measured from the column axis towards the row axis.

    Args:
        size: Height and width of the images.
        scales: J. The features are nearly invariant to shifts by much less than 2^J pixels.
        angles: L.
        groups: The number of groups of neighbouring channels for group normalisation: in each example, every group gets
            mean 0 and variance 1 over channels and positions. It must divide C * K; Tramer and Boneh use 27. Nothing is
            learned and no examples are mixed, so it costs no privacy. By default, features are not normalised.

    Attributes:
        channels: K, the number of channels per colour.
        shape: H' and W'.

    >>> images = torch.rand(5, 1, 28, 28)
    >>> Scattering((28, 28))(images).shape
    torch.Size([5, 81, 7, 7])
    """

    def __init__(self, size: tuple[int, int], scales: int = 2, angles: int = 8, *, groups: int | None = None) -> None:
        """Compute the wavelets."""
        super().__init__()
        self.size, self.scales = _checked_size(size), check_count("scales", scales)
        self.angles = check_count("angles", angles)
        self.groups = None if groups is None else check_count("groups", groups)
        self.channels = 1 + angles * scales + angles**2 * scales * (scales - 1) // 2
        step = 2**scales
        self.shape = (-(-self.size[0] // step), -(-self.size[1] // step))
        # The mirrored border is one step wide, plus what is missing to a multiple of the step.
        padded = [(side + 2) * step for side in self.shape]
        below, right = (total - side - step for total, side in zip(padded, self.size, strict=True))
        self._border = (step, right, step, below)
        if not (below < self.size[0] and right < self.size[1]):
            raise InvalidArgument(
                "size",
                size,
                f"more than {max(below, right)} pixels, the width of the mirrored border",
                "Use fewer scales",
            )
        for level in range(scales + 1):
            grid = (padded[0] >> level, padded[1] >> level)
            for axis, length in zip(("rows", "columns"), grid, strict=True):
                self._register(f"{axis}_{level}", _averaging(length, scales - level))
            # After a wavelet of scale `level`, signals are subsampled by 2^level, so scale j becomes scale j - level.
            for scale in range(0 if level == 0 else level + 1, scales):
                self._register(f"wavelets_{level}_{scale}", _wavelets(grid, scale - level, angles))

    def _register(self, name: str, values: Tensor) -> None:
        # Not part of a model's state: size, scales and angles determine it.
        self.register_buffer(name, values.float(), persistent=False)

    def extra_repr(self) -> str:
        """Show the settings."""
        return f"size={self.size}, scales={self.scales}, angles={self.angles}, groups={self.groups}"

    def forward(self, images: Tensor) -> Tensor:
        """Return the features of images, [B, C, H, W] in float32 or float64, in the module's precision."""
        self._check(images)
        batch, colours = images.shape[:2]
        if batch * colours == 0:  # torch's transforms refuse empty batches
            return images.new_zeros(batch, colours * self.channels, *self.shape, dtype=self.get_buffer("rows_0").dtype)
        x = F.pad(images.to(self.get_buffer("rows_0")), self._border, mode="reflect").flatten(0, 1)
        spectrum = _spectrum(x)
        first, second = [], []
        for scale in range(self.scales):
            bands = self._modulus(spectrum, 0, scale)  # [B C, L, h, w]
            first.append(self._average(bands, scale))
            if scale < self.scales - 1:
                second.append(self._second_order(_spectrum(bands), scale))
        channels = torch.cat([self._average(x, 0).unsqueeze(1), *first, *second], 1)
        channels = channels.view(batch, colours * self.channels, *self.shape)
        return channels if self.groups is None else F.group_norm(channels, self.groups)

    def _second_order(self, spectrum: Tensor, first: int) -> Tensor:
        """Return order 2 after a wavelet of scale ``first``: [B C, (angle 1, j2, angle 2), H', W']."""
        coarser = range(first + 1, self.scales)
        averages = [self._average(self._modulus(spectrum, first, scale), scale) for scale in coarser]
        return torch.stack(averages, 2).flatten(1, 3)

    def _modulus(self, spectrum: Tensor, level: int, scale: int) -> Tensor:
        """Return |x * psi|, sampled at every 2^scale-th pixel, for all angles: [..., L, h, w] from [..., h', w']."""
        wavelets: Tensor = self.get_buffer(f"wavelets_{level}_{scale}").to(spectrum.dtype)
        # Subsampling in space is aliasing in frequency: frequencies that become equal are added up.
        stride = 2 ** (scale - level)
        height, width = (side // stride for side in spectrum.shape[-2:])
        total: Tensor | None = None
        for i, j in itertools.product(range(stride), repeat=2):
            part = (..., slice(i * height, (i + 1) * height), slice(j * width, (j + 1) * width))
            band = spectrum[part].unsqueeze(-3)
            total = band * wavelets[part] if total is None else total.addcmul_(band, wavelets[part])
        assert total is not None
        return _modulus(torch.fft.ifft2(total, norm="forward"))

    def _average(self, x: Tensor, level: int) -> Tensor:
        """Return x * phi at the output's positions. phi is separable, so this is a product with two matrices."""
        rows, columns = self.get_buffer(f"rows_{level}"), self.get_buffer(f"columns_{level}")
        return rows @ (x @ columns.mT)

    def _check(self, images: Tensor) -> None:
        check_instance("images", images, Tensor, "Such as torch.from_numpy(array)")
        if images.dtype not in (torch.float32, torch.float64):
            raise InvalidArgument("images.dtype", images.dtype, "torch.float32 or torch.float64", "Divide bytes by 255")
        if images.dim() != 4 or tuple(images.shape[2:]) != self.size:
            expected = f"(B, C, {self.size[0]}, {self.size[1]})"
            raise InvalidArgument("images.shape", tuple(images.shape), expected, "Set size=(H, W) to the images' size")
        if self.groups is not None and images.shape[1] * self.channels % self.groups:
            total = images.shape[1] * self.channels
            raise InvalidArgument("groups", self.groups, f"a divisor of the {total} channels", "Such as 27 of 81")

    @torch.no_grad()
    def lipschitz_bound(self) -> float:
        """Return a Lipschitz constant c: features before normalisation move at most c times as far as images.

        On the torus of mirrored images, a layer multiplies the squared norm of a difference by at most its
        Littlewood-Paley sum, the maximum over frequencies w of |phi(w)|^2 + sum of |psi(w)|^2; for real signals, of the
        mean over w and -w. The modulus and subsampling do not increase it (Mallat 2012, section 2). The bounds of both
        layers are combined for each first scale. Mirroring repeats pixels, and each repetition counts: at most four of
        a pixel, unless borders overlap.
        """
        first = self._low_pass_energy(0)
        for scale in range(self.scales):
            second = self._low_pass_energy(scale)
            for coarser in range(scale + 1, self.scales):
                second = second + self._energy(scale, coarser)
            first = first + self._energy(0, scale) * float(second.max())
        rows, columns = self._border[2:], self._border[:2]
        repeated = _repeated(self.size[0], rows) * _repeated(self.size[1], columns)
        return math.sqrt(repeated * float(first.max()))

    def _energy(self, level: int, scale: int) -> Tensor:
        power = self.get_buffer(f"wavelets_{level}_{scale}").double().square().sum(0)
        opposite = power.flip(0, 1).roll((1, 1), (0, 1))  # at -w
        return (power + opposite) / 2

    def _low_pass_energy(self, level: int) -> Tensor:
        grid = [2 ** (self.scales - level) * (side + 2) for side in self.shape]
        rows, columns = (_low_pass(length, self.scales - level).square() for length in grid)
        return (rows[:, None] * columns).to(self.get_buffer("rows_0").device)


@torch.no_grad()
def features(
    transform: Callable[[Tensor], Tensor],
    images: Tensor,
    *,
    batch_size: int = 32,
    progress: Callable[[int, int], None] | None = None,
) -> Tensor:
    """Return the features of a dataset, on the device of its images.

    Args:
        transform: From a batch to its features, such as a `Scattering`. A module is run on its own device. It must
            treat images independently: then adding or removing an image does not change the features of the others.
        images: All images, along the first dimension.
        batch_size: The number of images in a batch. On a CPU, small batches fit into its caches and are faster.
        progress: Called after every batch, with the number of finished images and the number of all images.

    >>> features(Scattering((8, 8), scales=1), torch.rand(10, 1, 8, 8), batch_size=4).shape
    torch.Size([10, 9, 4, 4])
    """
    check_instance("images", images, Tensor, "Such as torch.from_numpy(array)")
    check_count("batch_size", batch_size)
    if images.dim() == 0 or not len(images) > 0:
        raise InvalidArgument("images.shape", tuple(images.shape), "at least one image in the first dimension")
    device = images.device
    if isinstance(transform, nn.Module):
        device = next(itertools.chain(transform.parameters(), transform.buffers()), images).device
    result: Tensor | None = None
    for start in range(0, len(images), batch_size):
        batch = transform(images[start : start + batch_size].to(device))
        if result is None:  # allocated once: concatenating all batches in the end would take twice the memory
            result = torch.empty((len(images), *batch.shape[1:]), dtype=batch.dtype, device=images.device)
        result[start : start + len(batch)] = batch
        if progress is not None:
            progress(min(start + batch_size, len(images)), len(images))
    assert result is not None
    return result


def _checked_size(size: Any) -> tuple[int, int]:
    if not isinstance(size, (tuple, list)) or len(size) != 2:
        raise InvalidArgument("size", size, "a height and a width", "Such as (28, 28)")
    return check_count("size", size[0]), check_count("size", size[1])


def _repeated(length: int, border: tuple[int, ...]) -> int:
    """Return how many times a pixel occurs, at most, once both ends are mirrored."""
    positions = torch.arange(length, dtype=torch.float32).view(1, 1, length)
    mirrored = F.pad(positions, border, mode="reflect").flatten().long()
    return int(mirrored.bincount().max())


def _spectrum(x: Tensor) -> Tensor:
    """Return the spectrum with the factor 1 / (h w), which stays right when the inverse transform is subsampled."""
    spectrum: Tensor = torch.fft.fft2(x, norm="forward")
    return spectrum


def _modulus(z: Tensor) -> Tensor:
    if z.requires_grad:
        return z.abs()  # its derivative at 0 is 0; that of the square root would be infinite
    real, imaginary = torch.view_as_real(z).unbind(-1)
    return torch.addcmul(real * real, imaginary, imaginary).sqrt_()  # takes a third of the time of abs


def _aliases(length: int, reach: float) -> Tensor:
    """Return the frequencies of a signal of this length, each with its aliases up to ``reach``: [length, aliases]."""
    base = 2 * math.pi * torch.arange(length, dtype=torch.float64) / length
    turns = math.ceil(reach / (2 * math.pi))
    return base[:, None] + 2 * math.pi * torch.arange(-turns, turns, dtype=torch.float64)


def _gabor(grid: tuple[int, int], width: float, slant: float, angle: float, centre: float) -> Tensor:
    """Return the spectrum of exp(-(u^2 + slant^2 v^2) / (2 width^2) + i centre u), with u along the angle, v across it.

    The envelope's integral is 1. The signal is sampled on the grid and wrapped around it, so the spectrum is summed
    over aliases.
    """
    reach = centre + _TAIL * max(1.0, slant) / width
    columns = _aliases(grid[1], reach)
    total = torch.zeros(grid, dtype=torch.float64)
    for rows in _aliases(grid[0], reach).unbind(1):  # one alias at a time: all at once would take a hundred grids
        along = columns * math.cos(angle) + rows[:, None, None] * math.sin(angle) - centre
        across = rows[:, None, None] * math.cos(angle) - columns * math.sin(angle)
        total += torch.exp(-(width**2) / 2 * (along**2 + across**2 / slant**2)).sum(2)
    return total


def _wavelets(grid: tuple[int, int], scale: int, angles: int) -> Tensor:
    """Return the spectra of the Morlet wavelets of a scale, which are real: [L, *grid]."""
    width, centre, slant = _WIDTH * 2**scale, _CENTRE / 2**scale, 4 / angles
    spectra = []
    for number in range(angles):
        angle = number * math.pi / angles
        wave = _gabor(grid, width, slant, angle, centre)
        envelope = _gabor(grid, width, slant, angle, 0.0)
        spectra.append(wave - wave[0, 0] / envelope[0, 0] * envelope)  # with mean 0, so that constants have no detail
    return torch.stack(spectra)


def _low_pass(length: int, scales: int) -> Tensor:
    """Return the spectrum of phi along one axis: a Gaussian as wide as the coarsest wavelet's envelope."""
    width = _WIDTH * 2.0 ** (scales - 1)
    return torch.exp(-(width**2) / 2 * _aliases(length, _TAIL / width) ** 2).sum(1)


def _averaging(length: int, scales: int) -> Tensor:
    """Return the matrix that convolves with phi along one axis, at every 2^scales-th position, without the borders."""
    kernel = torch.fft.ifft(_low_pass(length, scales)).real
    positions = torch.arange(length)
    outputs = positions[:: 2**scales][1:-1]
    matrix: Tensor = kernel[(outputs[:, None] - positions) % length]
    return matrix
