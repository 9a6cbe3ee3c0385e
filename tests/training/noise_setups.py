"""Ways to correlate noise, patterns of participation, and the matrices that belong to them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import toeplitz

from hush.training import Banded, BufferedToeplitz
from hush.training.noise.correlated_noise import CorrelatedNoise, Once, Participation, Separated

KEY = bytes(range(32))
OTHER_KEY = bytes(32)
NOISES: dict[str, CorrelatedNoise] = {
    "independent": Banded(bands=1),
    "banded": Banded(bands=5),
    "buffered": BufferedToeplitz(buffers=3),
    "windowed": BufferedToeplitz(buffers=3, window=6),
    "momentum": BufferedToeplitz(buffers=2, momentum=0.9),
}
PATTERNS: list[Participation] = [Once(), Separated(separation=7, times=3), Separated(separation=1, times=2)]

every_noise = pytest.mark.parametrize("correlated", NOISES.values(), ids=NOISES)

# Simulations: how often each comparison with a true claim fails by chance. There are fewer than 100 of them.
FALSE_ALARMS = 1e-9


def matrix(column: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(toeplitz(column, np.zeros(len(column))))


def steps_of(num_steps: int, separation: int, times: int) -> Iterator[tuple[int, ...]]:
    """All sets of steps in which an example may take part."""
    for count in range(1, times + 1):
        for steps in itertools.combinations(range(num_steps), count):
            if all(b - a >= separation for a, b in itertools.pairwise(steps)):
                yield steps


def lower_bound(num_steps: int) -> float:
    """No factorisation has a smaller root mean squared error: the nuclear norm of prefix sums, over their number.

    |B|_F |C|_F is at least the nuclear norm of B C, and |C|_F at most sqrt(T) times its largest column. The singular
    values of prefix sums are 1 / (2 sin((2 j - 1) pi / (4 T + 2))).
    """
    angles = (2 * np.arange(1, num_steps + 1) - 1) * math.pi / (4 * num_steps + 2)
    return float((0.5 / np.sin(angles)).sum() / num_steps)
