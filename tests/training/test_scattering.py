"""Scattering against a slow transform in space, and its mathematical properties."""

from __future__ import annotations

import importlib.util
import math
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from hush.accounting import GaussianEvent
from hush.errors import InvalidArgument
from hush.training.scattering import Scattering, features


def wrapped(height: int, width: int, function: object, turns: int = 3) -> np.ndarray:
    """Sample a function of rows and columns around 0, and wrap it around the grid."""
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    shifts = range(-turns, turns + 1)
    return sum(function(rows + i * height, columns + j * width) for i in shifts for j in shifts)  # type: ignore[operator]


@cache
def morlet(grid: tuple[int, int], scale: int, number: int, angles: int) -> np.ndarray:
    """The wavelet in space, by the formula of Bruna and Mallat (2013, equation 4), at its own resolution."""
    sigma, centre, slant, angle = 0.8 * 2**scale, 0.75 * np.pi / 2**scale, 4 / angles, number * np.pi / angles

    def envelope(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        along = columns * np.cos(angle) + rows * np.sin(angle)
        across = rows * np.cos(angle) - columns * np.sin(angle)
        return slant / (2 * np.pi * sigma**2) * np.exp(-(along**2 + slant**2 * across**2) / (2 * sigma**2))

    def wave(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return envelope(rows, columns) * np.exp(1j * centre * (columns * np.cos(angle) + rows * np.sin(angle)))

    waves, envelopes = wrapped(*grid, wave), wrapped(*grid, envelope)
    return waves - waves.sum() / envelopes.sum() * envelopes


@cache
def gaussian(grid: tuple[int, int], sigma: float) -> np.ndarray:
    norm = 2 * np.pi * sigma**2
    return wrapped(*grid, lambda rows, columns: np.exp(-(rows**2 + columns**2) / (2 * sigma**2)) / norm)


def convolved(x: np.ndarray, kernel: np.ndarray, stride: int) -> np.ndarray:
    """Convolve around the grid, by a sum over all pixels for each pixel, and subsample."""
    height, width = x.shape
    rows, columns = np.divmod(np.arange(height * width), width)
    terms = kernel[(rows[:, None] - rows) % height, (columns[:, None] - columns) % width]
    return (terms @ x.reshape(-1)).reshape(x.shape)[::stride, ::stride]


def scattered(image: np.ndarray, scales: int, angles: int) -> np.ndarray:
    """The complete transform of one colour, path by path, in double precision."""
    step = 2**scales
    missing = [-side % step for side in image.shape]
    x = np.pad(image, [(step, step + more) for more in missing], mode="reflect")

    def low(signal: np.ndarray, level: int) -> np.ndarray:
        averaged = convolved(signal, gaussian(signal.shape, 0.8 * 2 ** (scales - 1 - level)), 2 ** (scales - level))
        return averaged[1:-1, 1:-1]

    def detail(signal: np.ndarray, level: int, scale: int, number: int) -> np.ndarray:
        return np.abs(convolved(signal, morlet(signal.shape, scale - level, number, angles), 2 ** (scale - level)))

    first, second = [], []
    for scale in range(scales):
        for number in range(angles):
            band = detail(x, 0, scale, number)
            first.append(low(band, scale))
            for coarser in range(scale + 1, scales):
                second += [low(detail(band, scale, coarser, other), coarser) for other in range(angles)]
    return np.stack([low(x, 0), *first, *second])


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("size", "scales", "angles"),
    [((8, 8), 1, 8), ((9, 12), 2, 3), ((10, 11), 2, 4), ((16, 16), 3, 1)],
)
def test_agrees_with_sums_over_all_pixels(size: tuple[int, int], scales: int, angles: int) -> None:
    images = noise(2, 2, *size)
    result = Scattering(size, scales, angles)(images)
    assert result.dtype is torch.float32
    for number, image in enumerate(images):
        expected = np.concatenate([scattered(colour.double().numpy(), scales, angles) for colour in image])
        torch.testing.assert_close(result[number].double(), torch.from_numpy(expected), rtol=1e-4, atol=2e-6)


def test_an_oracle_with_another_slant_disagrees() -> None:
    """The comparison above can fail: it depends on the wavelets' shape."""
    image = noise(1, 1, 9, 12)
    result = Scattering((9, 12), 1, 4)(image)[0].double().numpy()
    assert np.abs(result - scattered(image[0, 0].double().numpy(), 1, 4)).max() < 1e-5
    assert np.abs(result - scattered(image[0, 0].double().numpy(), 1, 5)[:5]).max() > 1e-2


@pytest.mark.parametrize(("size", "colours"), [((28, 28), 1), ((32, 32), 3), ((8, 8), 1), ((12, 20), 2), ((30, 29), 1)])
def test_shapes(size: tuple[int, int], colours: int) -> None:
    transform = Scattering(size)
    result = transform(noise(3, colours, *size))
    assert transform.channels == 81
    assert result.shape == (3, colours * 81, math.ceil(size[0] / 4), math.ceil(size[1] / 4))


@pytest.mark.parametrize("groups", [None, 27])
def test_no_images(groups: int | None) -> None:
    assert Scattering((28, 28), groups=groups)(torch.zeros(0, 1, 28, 28)).shape == (0, 81, 7, 7)


def test_colours_are_transformed_separately() -> None:
    images = noise(2, 3, 12, 12)
    transform = Scattering((12, 12))
    together = transform(images)
    for colour in range(3):
        alone = transform(images[:, colour : colour + 1])
        torch.testing.assert_close(together[:, 81 * colour : 81 * (colour + 1)], alone, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("groups", [None, 27])
@pytest.mark.parametrize("intruder", [0.0, 1e30, math.nan, math.inf])
def test_an_image_does_not_affect_the_others(groups: int | None, intruder: float) -> None:
    """Otherwise an example would leak into the features of others, without any accounting."""
    transform = Scattering((12, 12), groups=groups)
    images = noise(5, 1, 12, 12)
    changed = images.clone()
    changed[2] = intruder
    others = [0, 1, 3, 4]
    assert torch.equal(transform(images)[others], transform(changed)[others])


def test_normalising_over_the_batch_would_be_noticed() -> None:
    class Mixed(Scattering):
        def forward(self, images: Tensor) -> Tensor:
            plain = super().forward(images)
            return plain / plain.std(0)

    images = noise(5, 1, 12, 12)
    changed = images.clone()
    changed[2] = 0.0
    assert not torch.equal(Mixed((12, 12))(images)[:2], Mixed((12, 12))(changed)[:2])


@pytest.mark.parametrize(
    ("size", "scales", "angles"), [((28, 28), 2, 8), ((32, 32), 3, 4), ((17, 12), 2, 6), ((8, 8), 2, 8)]
)
def test_distances_grow_by_at_most_the_bound(size: tuple[int, int], scales: int, angles: int) -> None:
    transform = Scattering(size, scales, angles)
    bound = transform.lipschitz_bound()
    largest = 2.0 if min(size) > 8 else 3.0  # a contraction, except that mirroring repeats pixels 4 or 9 times
    assert bound <= largest * (1 + 1e-6)
    ramps = torch.linspace(0, 1, size[1]).expand(2, 1, *size)
    pairs = [(noise(2, 1, *size, seed=i), noise(2, 1, *size, seed=100 + i)) for i in range(3)]
    for x, y in [*pairs, (ramps, 1 - ramps), (ramps, ramps + 1e-3 * pairs[0][0])]:
        moved = (transform(x) - transform(y)).flatten(1).norm(dim=1)
        assert (moved <= bound * (x - y).flatten(1).norm(dim=1)).all()


def test_the_bound_depends_on_the_actual_wavelets() -> None:
    transform = Scattering((28, 28))
    before = transform.lipschitz_bound()
    transform.wavelets_0_1.mul_(2)
    assert transform.lipschitz_bound() > 1.2 * before


def test_wavelets_cover_every_frequency() -> None:
    """The lower Littlewood-Paley bound: no frequency is lost, so different images have different features."""
    transform = Scattering((28, 28))
    energy = transform._low_pass_energy(0) + sum(transform._energy(0, scale) for scale in range(2))
    assert energy.max() <= 1 + 1e-6
    assert energy.min() >= 0.1


def test_a_constant_has_no_detail() -> None:
    result = Scattering((16, 16))(torch.full((1, 1, 16, 16), 0.7))
    torch.testing.assert_close(result[:, 0], torch.full((1, 4, 4), 0.7), rtol=1e-4, atol=0)
    assert result[:, 1:].abs().max() < 1e-6


def blob(rows: float, columns: float, angle: float = 0.0, size: int = 40) -> Tensor:
    """A short wave in a round window, rotated and shifted."""
    y, x = torch.meshgrid(torch.arange(size) - size / 2, torch.arange(size) - size / 2, indexing="ij")
    y, x = y - rows, x - columns
    along = x * math.cos(angle) + y * math.sin(angle)
    return (torch.cos(1.3 * along) * torch.exp(-(x**2 + y**2) / 40))[None, None]


def test_small_shifts_change_little() -> None:
    transform = Scattering((40, 40), scales=3)
    still, moved = blob(0, 0), blob(0, 1)
    change = (transform(moved) - transform(still)).norm() / transform(still).norm()
    assert (moved - still).norm() / still.norm() > 1.0  # the pixels are completely different
    assert change < 0.15


def energies(images: Tensor, scale: int) -> Tensor:
    """The energy of order 1 for each angle."""
    result = Scattering((40, 40))(images)[0, 1 + 8 * scale : 9 + 8 * scale]
    return result.square().sum((1, 2))


@pytest.mark.parametrize("scale", [0, 1])
def test_rotating_by_45_degrees_shifts_energies_by_two_angles(scale: int) -> None:
    before, after = energies(blob(0, 0, 0.2), scale), energies(blob(0, 0, 0.2 + math.pi / 4), scale)
    torch.testing.assert_close(after, before.roll(2), rtol=0.05, atol=1e-3 * float(before.max()))
    assert (after - before).abs().max() > 0.3 * before.max()  # the blob has a direction


def test_normalised_groups_have_mean_0_and_variance_1() -> None:
    result = Scattering((28, 28), groups=27)(100 * noise(4, 1, 28, 28)).view(4, 27, -1)
    torch.testing.assert_close(result.mean(2), torch.zeros(4, 27), rtol=0, atol=1e-4)
    torch.testing.assert_close(result.var(2, correction=0), torch.ones(4, 27), rtol=0.01, atol=0)


def test_nothing_is_trained_or_stored() -> None:
    transform = Scattering((12, 12))
    assert not list(transform.parameters())
    assert not transform.state_dict()
    assert list(transform.buffers())


def test_double_precision() -> None:
    images = noise(2, 1, 12, 12)
    transform = Scattering((12, 12))
    single = transform(images)
    double = transform.double()(images)
    assert double.dtype is torch.float64
    torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-6)


def test_gradients_with_respect_to_images_are_finite() -> None:
    images = torch.zeros(1, 1, 12, 12, requires_grad=True)
    Scattering((12, 12))(images).sum().backward()
    assert images.grad is not None
    assert images.grad.isfinite().all()
    assert images.grad.abs().sum() > 0


def test_gradients_agree_with_finite_differences() -> None:
    transform = Scattering((9, 10), angles=2).double()
    images = noise(1, 1, 9, 10).double().requires_grad_()
    assert torch.autograd.gradcheck(transform, images)


@pytest.mark.parametrize("batch_size", [1, 3, 7, 100])
def test_features_of_a_dataset(batch_size: int) -> None:
    images, seen = noise(7, 1, 12, 12), []
    transform = Scattering((12, 12))
    result = features(transform, images, batch_size=batch_size, progress=lambda *counts: seen.append(counts))
    torch.testing.assert_close(result, transform(images), rtol=1e-5, atol=1e-6)
    assert seen == [(min(done, 7), 7) for done in range(batch_size, 7 + batch_size, batch_size)]


def test_features_of_any_function_and_module() -> None:
    images = noise(5, 1, 12, 12)
    assert torch.equal(features(lambda x: x.flatten(1), images, batch_size=2), images.flatten(1))
    linear = nn.Sequential(Scattering((12, 12)), nn.Flatten(), nn.Linear(729, 3))
    assert features(linear, images).shape == (5, 3)
    assert not features(linear, images).requires_grad


REFUSED = [
    ({"size": 28}, "size"),
    ({"size": (28,)}, "size"),
    ({"size": (28.0, 28)}, "size"),
    ({"size": (8, 8), "scales": 3}, "size"),
    ({"size": (28, 28), "scales": 0}, "scales"),
    ({"size": (28, 28), "angles": 0}, "angles"),
    ({"size": (28, 28), "angles": True}, "angles"),
    ({"size": (28, 28), "groups": 0}, "groups"),
]


@pytest.mark.parametrize(("settings", "name"), REFUSED)
def test_refused_settings(settings: dict[str, object], name: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"^{name}=.*: expected .*\."):
        Scattering(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("images", "match"),
    [
        (torch.zeros(1, 1, 28, 28, dtype=torch.uint8), r"^images\.dtype=torch\.uint8: expected torch\.float32"),
        (torch.zeros(1, 28, 28), r"^images\.shape=\(1, 28, 28\): expected \(B, C, 28, 28\)\. Set size"),
        (torch.zeros(1, 1, 28, 27), r"^images\.shape=\(1, 1, 28, 27\): expected \(B, C, 28, 28\)\. Set size"),
        (torch.zeros(1, 2, 28, 28), r"^groups=5: expected a divisor of the 162 channels\."),
        ([[0.0]], r"^images=\[\[0\.0\]\]: expected Tensor\."),
    ],
)
def test_refused_images(images: Tensor, match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        Scattering((28, 28), groups=5)(images)


def test_refused_datasets() -> None:
    with pytest.raises(InvalidArgument, match=r"^images\.shape=\(0, 1, 12, 12\): expected at least one image"):
        features(Scattering((12, 12)), torch.zeros(0, 1, 12, 12))
    with pytest.raises(InvalidArgument, match="^batch_size=0: expected an integer >= 1"):
        features(Scattering((12, 12)), torch.zeros(1, 1, 12, 12), batch_size=0)


@pytest.fixture
def reproduction(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    folder = Path(__file__).parents[2] / "reproductions"
    monkeypatch.syspath_prepend(folder)  # scripts there import what they share
    spec = importlib.util.spec_from_file_location("reproduced_scattering", folder / "scattering.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("value", [0.3, -1.0, 1e30, 1e38, math.nan, math.inf])
def test_a_row_moves_the_reproductions_sum_by_at_most_one(reproduction: ModuleType, value: float) -> None:
    x = noise(40, 81)
    row = torch.full((1, 81), value) * noise(1, 81, seed=1).sign()
    change = reproduction.bounded_sum(torch.cat([x, row])) - reproduction.bounded_sum(x)
    assert change.isfinite().all()
    assert change.norm() <= 1
    plain = (torch.cat([x, row]).sum(0) - x.sum(0)) / 9  # without bounds
    assert abs(value) <= 1 or not plain.norm() <= 1


def test_the_reproductions_mean_has_the_right_noise(reproduction: ModuleType) -> None:
    x = 0.5 + 0.1 * noise(2000, 900)
    mean, event = reproduction.private_mean(x, 4.0)
    assert event.event == GaussianEvent(4.0)
    error = (mean - x.mean(0)) * 2000 / 30  # on the sum of rows of norm 1: standard deviation 4
    # False alarms: 3e-10 by the chi-squared law with 899 degrees of freedom, and 2e-9 for 6 deviations of the mean.
    assert 3.4 < error.std() < 4.6
    assert error.mean().abs() < 0.8
