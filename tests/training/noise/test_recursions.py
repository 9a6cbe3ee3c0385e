"""Recursions on the grid: noise is integers, the data decide no rounding, and what roundings add up to is bounded."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from hush.errors import Unsupported
from hush.training.noise.correlated_noise import CorrelatedNoise, Once
from hush.training.noise.integer_gaussian import integer_gaussian
from hush.training.noise.recursions import Bands, Recursion, Window
from hush.training.noise.stream import NoiseStream
from training.noise_setups import KEY, every_noise, matrix

STEPS, SIZE, STDDEV = 12, 200, 2.0**20


def noise_of(recursion: Recursion, own: NDArray[np.float64]) -> NDArray[np.float64]:
    """y, from the own noise of every step."""
    memory: list[Tensor] = []

    def draw(step: int) -> Tensor:
        return torch.from_numpy(own[step].copy())

    return np.stack([recursion.follow(step, draw, memory).numpy().copy() for step in range(len(own))])


def own_of(recursion: Recursion, noise: NDArray[np.float64]) -> NDArray[np.float64]:
    """The own noise of every step that makes y: step by step, what is left when nothing of its own is drawn."""
    own = np.zeros_like(noise)
    for step in range(len(noise)):
        own[step] = noise[step] - noise_of(recursion, own[: step + 1])[step]
    return own


def drawn(recursion: Recursion) -> NDArray[np.float64]:
    steps = [integer_gaussian(KEY, step, SIZE, stddev=STDDEV * recursion.gain) for step in range(STEPS)]
    return torch.stack(steps).double().numpy()


@every_noise
def test_own_noise_follows_from_the_noise(correlated: CorrelatedNoise) -> None:
    """So a release, and the sums, say which own noise it was: for other sums, it moves by what they move it by."""
    recursion = correlated.factor(STEPS, Once()).recursion
    own = drawn(recursion)
    noise = noise_of(recursion, own)
    assert (noise == np.rint(noise)).all()
    assert (own_of(recursion, noise) == own).all()


@every_noise
def test_sums_move_the_own_noise_by_no_more_than_is_accounted_for(correlated: CorrelatedNoise) -> None:
    """One release, two sums that differ in one step: the own noises differ by C x, and by the roundings allowed for."""
    recursion = correlated.factor(STEPS, Once()).recursion
    noise = noise_of(recursion, drawn(recursion))
    moved = np.zeros((STEPS, SIZE))
    moved[3] = np.random.default_rng(1).integers(-50, 50, SIZE)  # the integers of a contribution, in spacings
    difference = (own_of(recursion, noise) - own_of(recursion, noise - moved)) / recursion.gain
    exact = matrix(recursion.column(STEPS)) @ moved
    rest = difference - exact
    assert np.linalg.norm(rest) <= recursion.rounding_gain(STEPS) * math.sqrt(SIZE)
    if isinstance(recursion, Bands):
        outside = np.r_[0:3, 3 + recursion.bands : STEPS]
        assert (difference[outside] == 0).all(), "steps beyond the bands do not depend on the contribution at all"


def test_rounding_by_the_data_would_reach_beyond_the_bands() -> None:
    """The broken twin: the noise stays real, and the noisy sum is rounded. Then all later own noise may move."""
    taps, gain = (0.6, 0.3), 1.1
    z = np.random.default_rng(2).normal(size=(STEPS, SIZE)) * 1000
    sums = np.random.default_rng(3).normal(size=(STEPS, SIZE)) * 1000

    def own(release: NDArray[np.float64], total: NDArray[np.float64]) -> NDArray[np.float64]:
        """The integers of each step's own noise, where memory holds what was not rounded."""
        y = np.zeros_like(release)
        result = np.zeros_like(release)
        for step in range(STEPS):
            carried = sum((-tap * y[step - lag] for lag, tap in enumerate(taps, 1) if lag <= step), np.zeros(SIZE))
            result[step] = release[step] - np.rint(total[step] + carried)
            y[step] = result[step] + carried
        return result

    release = np.rint(sums + gain * z)
    other = sums.copy()
    other[3] += 10.3
    beyond = (own(release, sums) - own(release, other))[3 + 3 :]
    assert (beyond != 0).any()


def test_bounds_of_roundings_by_hand() -> None:
    assert Bands(2.0, (0.5, 0.25)).rounding_gain(100) == pytest.approx(2 * math.sqrt(3) / 2)
    assert Bands(2.0, (0.5, 0.25)).rounding_gain(2) == pytest.approx(2 * math.sqrt(2) / 2)
    # The column of the window is 2, 1, 1/2, 1/4: its sum is 3.75.
    assert Window(0.5, (-0.25,)).rounding_gain(4) == pytest.approx(2 * 3.75 * 2)


def test_noise_that_double_precision_could_not_combine_is_refused() -> None:
    recursion = Window(1.0, (-0.5,) * 1000)
    settings: dict[str, Any] = {"num_steps": 2000}
    NoiseStream(recursion, KEY, 1, stddev=recursion.largest_stddev, **settings)
    with pytest.raises(Unsupported, match="double precision"):
        NoiseStream(recursion, KEY, 1, stddev=2 * recursion.largest_stddev, **settings)
