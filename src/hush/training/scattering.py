"""Wavelet scattering: features of images that nobody has to train, so that they cost no privacy.

Wavelets are fixed before any data is seen, and the features of an image depend on that image alone. A linear model on
them has few parameters and needs few steps: at the same budget it beats networks that are trained from scratch (Tramer
and Boneh 2021).

With wavelets psi of J scales j and L angles, a low pass phi, and * for convolution, the transform of an image x is

    S x = [ x * phi,  |x * psi_1| * phi,  ||x * psi_1| * psi_2| * phi ]        for all psi_1, and all coarser psi_2,

sampled once in 2^J pixels: K = 1 + L J + L^2 J (J - 1) / 2 channels.

- `Scattering`: the transform, a module without parameters.
- `features`: of a whole data set, batch by batch.

References:
    - Mallat 2012, "Group invariant scattering"; Bruna and Mallat 2013, "Invariant scattering convolution networks".
    - Tramer and Boneh 2021, "Differentially private learning needs better features (or much more data)": order 2,
      J = 2, L = 8, group normalisation with 27 groups, a linear classifier.

The variant: Morlet wavelets with the envelopes of Bruna and Mallat (sigma 0.8 2^j, centre 3 pi / 4 / 2^j, slant 4 / L),
images mirrored at their borders, and signals sampled once in 2^j pixels after a wavelet of scale j. Wavelets are
written down in the frequency domain, at every resolution anew, so that none is cut off there.
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

_WIDTH = 0.8  # of the finest wavelet's envelope, in pixels
_CENTRE = 3 * math.pi / 4  # its frequency
_TAIL = 8.6  # standard deviations, beyond which a Gaussian is below 1e-16


class Scattering(nn.Module):
    """The scattering transform of order 2: [B, C, H, W] to [B, C * K, H', W'], H' = ceil(H / 2^J).

    Channels are those of the first colour, then those of the next. Of one colour they are: the low pass; order 1, by
    (j1, angle 1); order 2, by (j1, angle 1, j2, angle 2), the last the fastest. Angle number l is l pi / L, from the
    axis of columns to that of rows.

    Args:
        size: Height and width of images.
        scales: J; the features are near invariant to shifts of much less than 2^J pixels.
        angles: L.
        groups: Into how many groups of neighbouring channels each example's features are split, each to have mean 0 and
            variance 1 over channels and positions; it has to divide C * K. 27 is what Tramer and Boneh use. Nothing is
            learned, and examples are not mixed, so that it is free. Without it, features stay as they are.

    Attributes:
        channels: K, the number of channels for each colour.
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
        # One step around the image, and what is missing to a whole number of steps, is filled by its mirror image.
        padded = [(side + 2) * step for side in self.shape]
        below, right = (whole - side - step for whole, side in zip(padded, self.size, strict=True))
        self._border = (step, right, step, below)
        if not (below < self.size[0] and right < self.size[1]):
            raise InvalidArgument(
                "size", size, f"more than the border of {max(below, right)} pixels", "It is mirrored: use fewer scales"
            )
        for level in range(scales + 1):
            grid = (padded[0] >> level, padded[1] >> level)
            for axis, length in zip(("rows", "columns"), grid, strict=True):
                self._keep(f"{axis}_{level}", _averaging(length, scales - level))
            # After a wavelet of scale `level` signals are coarser by 2^level: a wavelet of scale j is one of j - level.
            for scale in range(0 if level == 0 else level + 1, scales):
                self._keep(f"wavelets_{level}_{scale}", _wavelets(grid, scale - level, angles))

    def _keep(self, name: str, values: Tensor) -> None:
        # Not stored with a model's state: size, scales and angles say it all.
        self.register_buffer(name, values.float(), persistent=False)

    def extra_repr(self) -> str:
        """Show the settings."""
        return f"size={self.size}, scales={self.scales}, angles={self.angles}, groups={self.groups}"

    def forward(self, images: Tensor) -> Tensor:
        """Return the features of images, [B, C, H, W] of float32 or float64, in the module's precision."""
        self._check(images)
        batch, colours = images.shape[:2]
        if batch * colours == 0:  # which transforms refuse
            return images.new_zeros(batch, colours * self.channels, *self.shape, dtype=self.get_buffer("rows_0").dtype)
        x = F.pad(images.to(self.get_buffer("rows_0")), self._border, mode="reflect").flatten(0, 1)
        spectrum = _spectrum(x)
        first, second = [], []
        for scale in range(self.scales):
            bands = self._modulus(spectrum, 0, scale)  # [B C, L, h, w]
            first.append(self._average(bands, scale))
            if scale < self.scales - 1:
                second.append(self._second(_spectrum(bands), scale))
        found = torch.cat([self._average(x, 0).unsqueeze(1), *first, *second], 1)
        found = found.view(batch, colours * self.channels, *self.shape)
        return found if self.groups is None else F.group_norm(found, self.groups)

    def _second(self, spectrum: Tensor, first: int) -> Tensor:
        """Return order 2 after the first wavelet's scale, [B C, (angle 1, j2, angle 2), H', W']."""
        coarser = range(first + 1, self.scales)
        found = [self._average(self._modulus(spectrum, first, scale), scale) for scale in coarser]
        return torch.stack(found, 2).flatten(1, 3)

    def _modulus(self, spectrum: Tensor, level: int, scale: int) -> Tensor:
        """Return |x * psi|, sampled once in 2^scale pixels, for all angles: [..., L, h, w] from [..., h', w']."""
        wavelets: Tensor = self.get_buffer(f"wavelets_{level}_{scale}").to(spectrum.dtype)
        # To leave samples out is to add up the frequencies that they cannot tell apart.
        every = 2 ** (scale - level)
        height, width = (side // every for side in spectrum.shape[-2:])
        total: Tensor | None = None
        for i, j in itertools.product(range(every), repeat=2):
            part = (..., slice(i * height, (i + 1) * height), slice(j * width, (j + 1) * width))
            some = spectrum[part].unsqueeze(-3)
            total = some * wavelets[part] if total is None else total.addcmul_(some, wavelets[part])
        assert total is not None
        return _modulus(torch.fft.ifft2(total, norm="forward"))

    def _average(self, x: Tensor, level: int) -> Tensor:
        """Return x * phi at the output's positions; phi is a product of rows and columns, so that this is, too."""
        rows, columns = self.get_buffer(f"rows_{level}"), self.get_buffer(f"columns_{level}")
        return rows @ (x @ columns.mT)

    def _check(self, images: Tensor) -> None:
        check_instance("images", images, Tensor, "Such as torch.from_numpy(array)")
        if images.dtype not in (torch.float32, torch.float64):
            raise InvalidArgument("images.dtype", images.dtype, "torch.float32 or torch.float64", "Divide bytes by 255")
        if images.dim() != 4 or tuple(images.shape[2:]) != self.size:
            expected = f"(B, C, {self.size[0]}, {self.size[1]})"
            raise InvalidArgument("images.shape", tuple(images.shape), expected, "Set size=(H, W) to that of images")
        if self.groups is not None and images.shape[1] * self.channels % self.groups:
            total = images.shape[1] * self.channels
            raise InvalidArgument("groups", self.groups, f"a divisor of the {total} channels", "Such as 27 of 81")

    @torch.no_grad()
    def lipschitz_bound(self) -> float:
        """Return c such that features (before they are normalised) move at most c times as far as images.

        On the torus of mirrored images, a layer takes the squared norm of a difference to at most its Littlewood-Paley
        sum, max over w of |phi(w)|^2 + sum of |psi(w)|^2 (of real signals: of the mean of w and -w); the modulus and
        leaving samples out only lessen it (Mallat 2012, section 2). The two layers' bounds are combined for each
        first scale. Mirroring repeats pixels, which count as often as they are there: at most four times, if borders do
        not overlap.
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
    """Return the features of all images, on the device of the images.

    Args:
        transform: From a batch to its features, such as a `Scattering`; a module's device is where it is computed. It
            has to treat images one by one: then whoever is in the data changes nothing for the others.
        images: All of them, in the first dimension.
        batch_size: How many are transformed at once; on a CPU, few fit its caches and are faster.
        progress: Called with how many are done, and how many there are, after every batch.

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
    found: Tensor | None = None
    for start in range(0, len(images), batch_size):
        some = transform(images[start : start + batch_size].to(device))
        if found is None:  # one piece of memory from the beginning: pieces and their whole would take twice as much
            found = torch.empty((len(images), *some.shape[1:]), dtype=some.dtype, device=images.device)
        found[start : start + len(some)] = some
        if progress is not None:
            progress(min(start + batch_size, len(images)), len(images))
    assert found is not None
    return found


def _checked_size(size: Any) -> tuple[int, int]:
    if not isinstance(size, (tuple, list)) or len(size) != 2:
        raise InvalidArgument("size", size, "a height and a width", "Such as (28, 28)")
    return check_count("size", size[0]), check_count("size", size[1])


def _repeated(length: int, border: tuple[int, ...]) -> int:
    """Return how often a pixel is there, at most, once both ends are mirrored."""
    positions = torch.arange(length, dtype=torch.float32).view(1, 1, length)
    mirrored = F.pad(positions, border, mode="reflect").flatten().long()
    return int(mirrored.bincount().max())


def _spectrum(x: Tensor) -> Tensor:
    """Return the spectrum with the inverse transform's factor: 1 / (h w), also where samples are left out."""
    found: Tensor = torch.fft.fft2(x, norm="forward")
    return found


def _modulus(z: Tensor) -> Tensor:
    if z.requires_grad:
        return z.abs()  # whose derivative at 0 is 0
    real, imaginary = torch.view_as_real(z).unbind(-1)
    return torch.addcmul(real * real, imaginary, imaginary).sqrt_()  # a third of the time of abs


def _turns(length: int, reach: float) -> Tensor:
    """Return the frequencies of a signal of this length, each with those up to ``reach`` that alias to it."""
    base = 2 * math.pi * torch.arange(length, dtype=torch.float64) / length
    most = math.ceil(reach / (2 * math.pi))
    return base[:, None] + 2 * math.pi * torch.arange(-most, most, dtype=torch.float64)


def _gabor(grid: tuple[int, int], width: float, slant: float, angle: float, centre: float) -> Tensor:
    """Return the spectrum of exp(-(u^2 + slant^2 v^2) / (2 width^2) + i centre u), u along the angle, v across it.

    Its integral without the wave is 1. Sampled on the grid, and wrapped around it.
    """
    reach = centre + _TAIL * max(1.0, slant) / width
    columns = _turns(grid[1], reach)
    total = torch.zeros(grid, dtype=torch.float64)
    for rows in _turns(grid[0], reach).unbind(1):  # one turn of rows at a time: all at once would take a hundred grids
        along = columns * math.cos(angle) + rows[:, None, None] * math.sin(angle) - centre
        across = rows[:, None, None] * math.cos(angle) - columns * math.sin(angle)
        total += torch.exp(-(width**2) / 2 * (along**2 + across**2 / slant**2)).sum(2)
    return total


def _wavelets(grid: tuple[int, int], scale: int, angles: int) -> Tensor:
    """Return the spectra of the Morlet wavelets of a scale, real: [L, *grid]."""
    width, centre, slant = _WIDTH * 2**scale, _CENTRE / 2**scale, 4 / angles
    found = []
    for number in range(angles):
        angle = number * math.pi / angles
        wave = _gabor(grid, width, slant, angle, centre)
        hill = _gabor(grid, width, slant, angle, 0.0)
        found.append(wave - wave[0, 0] / hill[0, 0] * hill)  # whose mean is 0: constants are no detail
    return torch.stack(found)


def _low_pass(length: int, scales: int) -> Tensor:
    """Return the spectrum of phi along one axis, a Gaussian as wide as the coarsest wavelet's envelope."""
    width = _WIDTH * 2.0 ** (scales - 1)
    return torch.exp(-(width**2) / 2 * _turns(length, _TAIL / width) ** 2).sum(1)


def _averaging(length: int, scales: int) -> Tensor:
    """Return the matrix that convolves with phi along one axis, and keeps one in 2^scales, without the borders."""
    kernel = torch.fft.ifft(_low_pass(length, scales)).real
    positions = torch.arange(length)
    kept = positions[:: 2**scales][1:-1]
    found: Tensor = kernel[(kept[:, None] - positions) % length]
    return found
