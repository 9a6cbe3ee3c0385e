"""Correlated noise step by step: it is C^-1 z, whatever the order of the steps, the interruptions and the keys."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import chi2, t

from hush.errors import InvalidArgument
from hush.training import Banded
from hush.training.noise import stream as stream_module
from hush.training.noise.correlated_noise import CorrelatedNoise, Factor, Once
from hush.training.noise.integer_gaussian import integer_gaussian
from hush.training.noise.recursions import Bands, Buffers, Recursion, Window
from hush.training.noise.stream import NoiseStream
from training.noise_setups import FALSE_ALARMS, KEY, OTHER_KEY, every_noise, matrix


@pytest.mark.parametrize(
    ("recursion", "column"),
    [
        (Bands(2.0, (0.5, 0.25)), [0.5, 0.25, 0.125, 0, 0]),
        (Buffers(2.0, (0.5, 0.25), (0.5, 0.1)), [0.5, 0.375, 0.1375, 0.06375, 0.031375]),
        (Window(0.5, (-0.25,)), [2, 1, 0.5, 0.25, 0.125]),
    ],
    ids=repr,
)
def test_columns_by_hand(recursion: Recursion, column: list[float]) -> None:
    assert recursion.column(5) == pytest.approx(column)
    assert np.allclose(matrix(recursion.inverse(5)) @ matrix(np.array(column)), np.eye(5))
    assert recursion.bands == (3 if isinstance(recursion, Bands) else None)
    assert recursion.remembers is not isinstance(recursion, Window)


def test_a_stored_run_would_notice_another_recursion() -> None:
    """Runs store the text of their recursion: coefficients that differ in the last digit must show."""
    recursion = Banded(bands=3).factor(20, Once()).recursion
    assert isinstance(recursion, Bands)
    nudged = Bands(recursion.gain, (float(np.nextafter(np.float32(recursion.taps[0]), 1)), *recursion.taps[1:]))
    assert nudged != recursion
    assert repr(nudged) != repr(recursion)
    assert repr(recursion).startswith("Bands(gain=")


STDDEV = 2.0**20  # of independent noise, in spacings


def streamed(recursion: Recursion, keys: Any, size: int, num_steps: int) -> NoiseStream:
    return NoiseStream(recursion, keys, size, num_steps=num_steps, stddev=STDDEV)


def explicit(factor: Factor, keys: list[bytes], size: int) -> NDArray[np.float64]:
    """C^-1 z, for the real numbers z that the integers of the steps stand for."""
    gain = factor.recursion.gain
    draws = [integer_gaussian(key, step, size, stddev=STDDEV * gain).numpy() for step, key in enumerate(keys)]
    return matrix(factor.inverse) @ (np.stack(draws) / gain)


@every_noise
@pytest.mark.parametrize("num_steps", [1, 12, 300])
def test_the_stream_is_the_product_with_the_inverse(correlated: CorrelatedNoise, num_steps: int) -> None:
    factor = correlated.factor(num_steps, Once())
    stream = streamed(factor.recursion, KEY, 37, num_steps)
    noise = torch.stack([stream(step) for step in range(num_steps)]).numpy()
    assert (noise == np.rint(noise)).all()
    # Roundings are fed back through C^-1. They add up to less than what the grid allows for.
    difference = matrix(factor.column) @ (noise - explicit(factor, [KEY] * num_steps, 37))
    allowed = factor.recursion.rounding_gain(num_steps) / 2
    if not isinstance(factor.recursion, Bands):
        assert np.linalg.norm(difference, axis=0).max() <= allowed
    assert np.abs(difference).max() <= max(1.0, 2 * float(np.abs(factor.column).sum()))


@every_noise
def test_a_step_is_the_same_whenever_it_is_asked_for(correlated: CorrelatedNoise) -> None:
    """In any order, from a new stream, and whatever is done with what was returned."""
    recursion = correlated.factor(20, Once()).recursion
    stream = streamed(recursion, KEY, 11, 20)
    in_order = [stream(step) for step in range(20)]
    for step in (7, 7, 3, 19, 0, 8):
        assert torch.equal(stream(step).clone(), in_order[step])
        stream(step).zero_()
    assert torch.equal(streamed(recursion, KEY, 11, 20)(13), in_order[13])


@every_noise
def test_a_resumed_run_continues_one_mechanism_under_a_new_key(correlated: CorrelatedNoise) -> None:
    factor = correlated.factor(20, Once())
    stream = streamed(factor.recursion, [(0, KEY), (9, OTHER_KEY)], 11, 20)
    first = streamed(factor.recursion, KEY, 11, 20)
    assert all(torch.equal(stream(step), first(step)) for step in range(9))
    noise = torch.stack([stream(step) for step in range(20)]).numpy()
    assert np.allclose(noise, explicit(factor, [KEY] * 9 + [OTHER_KEY] * 11, 11), rtol=0, atol=1e-4 * STDDEV)


def test_a_failed_step_leaves_nothing_behind(monkeypatch: Any) -> None:
    recursion = Banded(bands=4).factor(9, Once()).recursion
    stream, expected = (streamed(recursion, KEY, 5, 9) for _ in range(2))
    stream(3)

    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(stream_module, "integer_gaussian", fail)
        with pytest.raises(MemoryError):
            stream(4)
    assert torch.equal(stream(4), expected(4))


def covariance_p_values(noise: NDArray[np.float64], column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of the hypothesis that the columns of ``noise`` are independent, each C^-1 times a standard normal vector.

    Whitened by C: two-sided, exact p-values of the variances (chi squared) and of the correlations (Student's t).
    """
    white = matrix(column) @ noise
    size = white.shape[1]
    squares = (white**2).sum(1)
    tails = [2 * min(chi2.cdf(square, size), chi2.sf(square, size)) for square in squares]
    for i, j in itertools.combinations(range(len(white)), 2):
        r = float(white[i] @ white[j]) / math.sqrt(squares[i] * squares[j])
        tails.append(2 * t.sf(abs(r) * math.sqrt((size - 1) / (1 - r * r)), size - 1))
    return np.array(tails)


@every_noise
def test_the_noise_has_the_covariance_of_the_inverse(correlated: CorrelatedNoise) -> None:
    """21 p-values, one of them below 1e-9 / 21 once in 1e9 times; controls: 3 % off, and no correlation."""
    factor = correlated.factor(6, Once())
    stream = streamed(factor.recursion, KEY, 50_000, 6)
    noise = torch.stack([stream(step) for step in range(6)]).numpy() / STDDEV
    limit = FALSE_ALARMS / 21
    assert covariance_p_values(noise, factor.column).min() > limit
    assert covariance_p_values(0.97 * noise, factor.column).min() < limit
    assert covariance_p_values(1.03 * noise, factor.column).min() < limit
    if factor.recursion.bands != 1:
        assert covariance_p_values(noise, np.eye(1, 6)[0]).min() < limit


def test_steps_beyond_what_is_accounted_for_are_refused() -> None:
    stream = streamed(Banded(bands=2).factor(5, Once()).recursion, KEY, 3, 5)
    for step in (5, -1, True):
        with pytest.raises(InvalidArgument, match="^step="):
            stream(step)
    for keys in ([], [(1, KEY)], [(0, KEY), (0, OTHER_KEY)]):
        with pytest.raises(InvalidArgument, match="^keys="):
            streamed(stream.recursion, keys, 3, 5)
