"""Independent noise: a function of key, step and element, with the normal law down to its tails."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import chi2, kstest

from hush.training.noise import gaussian as gaussian_module
from hush.training.noise.gaussian import gaussian
from training.noise_setups import KEY, OTHER_KEY


@pytest.mark.parametrize("size", [1, 7, 8, 9, 1000])
def test_noise_is_a_function_of_key_step_and_element(size: int) -> None:
    values = gaussian(KEY, 3, size)
    assert values.shape == (size,)
    assert values.dtype is torch.float32
    assert torch.equal(gaussian(KEY, 3, size), values)
    assert not torch.equal(gaussian(KEY, 4, size), values)
    assert not torch.equal(gaussian(OTHER_KEY, 3, size), values)


def test_the_scale_is_the_standard_deviation() -> None:
    assert torch.allclose(gaussian(KEY, 3, 1000, scale=2.5), 2.5 * gaussian(KEY, 3, 1000), atol=1e-5)


def test_memory_is_used_again_where_it_is_large_enough() -> None:
    """The same numbers, in the memory of an earlier result or in new memory."""
    first = gaussian(KEY, 0, 1001)
    again = gaussian(KEY, 1, 1000, out=first)
    assert again.data_ptr() == first.data_ptr()
    assert torch.equal(again, gaussian(KEY, 1, 1000))
    larger = gaussian(KEY, 1, 5000, out=first)
    assert larger.data_ptr() != first.data_ptr()
    assert torch.equal(larger, gaussian(KEY, 1, 5000))


def test_noise_is_normal() -> None:
    """400,000 values. The p-value of the Kolmogorov-Smirnov test is exact: a false alarm once in 1e9 times.

    Controls: noise that is 5 % too large or too small. Its cumulative function is off by 0.05 * 0.242 = 0.0121 at one
    standard deviation, 7.6 / sqrt(400,000). A p-value above 1e-9 needs less than 3.3 of these; the value there varies
    by 0.37, so the control is missed only if it is 12 standard deviations off.
    """
    values = gaussian(KEY, 1, 400_000).double().numpy()
    assert kstest(values, "norm").pvalue > 1e-9
    for scale in (0.95, 1.05):
        assert kstest(scale * values, "norm").pvalue < 1e-9


def test_values_of_a_block_are_uncorrelated() -> None:
    """The eight values of a block come from eight draws; correlations of 100,000 blocks are within 7 / sqrt(100,000).

    28 correlations: a false alarm with probability 28 * 2.6e-12. The control is a block with a draw used twice.
    """
    blocks = gaussian(KEY, 2, 800_000).double().numpy().reshape(8, -1)
    limit = 7 / np.sqrt(blocks.shape[1])
    correlations = np.corrcoef(blocks) - np.eye(8)
    assert np.abs(correlations).max() < limit
    blocks[1] = blocks[0] + 0.1 * blocks[1]
    assert np.abs(np.corrcoef(blocks) - np.eye(8)).max() > limit


def test_radii_of_few_bits_get_more() -> None:
    """A radius whose 31 bits are nearly all 0 is as precise as others, and reaches beyond 6.5 standard deviations."""

    class Scripted:
        def __init__(self, *_: object) -> None:
            self.calls = 0

        def words(self, count: int) -> np.ndarray:
            self.calls += 1
            halves = np.full(2 * count, 1 << 20, dtype=np.uint32)
            if self.calls == 1:
                halves[:4] = 0  # the radii of the first column: not one bit is set
            return halves.view(np.uint64)

    real = gaussian_module.KeyedSource
    gaussian_module.KeyedSource = Scripted  # type: ignore[assignment,misc]
    try:
        values = gaussian(KEY, 0, 8)
    finally:
        gaussian_module.KeyedSource = real  # type: ignore[misc]
    # The four radii have u = (2^20 / 2^32 + 2^20 / 2^64) / 2^31, and an angle of (almost) 0 adds all four of them.
    expected = 4 * np.sqrt(-2 / 4 * np.log(2.0**-12 * 2.0**-31))
    assert float(values[0]) == pytest.approx(expected, rel=1e-3)
    assert expected > 6.5


def test_an_error_of_two_percent_in_the_scale_is_noticed() -> None:
    """By the sum of squares, whose law is chi-squared with 400,000 degrees of freedom: false alarms 1e-8.

    2 % too much is 18 standard deviations.
    """
    values = gaussian(KEY, 3, 400_000).double().numpy()

    def p_value(scale: float) -> float:
        total = float(np.square(scale * values).sum())
        return 2 * float(min(chi2.cdf(total, len(values)), chi2.sf(total, len(values))))

    assert p_value(1.0) > 1e-8
    assert p_value(1.02) < 1e-8


def test_tails_are_as_fine_as_the_middle() -> None:
    values = np.abs(gaussian(bytes(32), 1, 4_000_000).numpy())
    tail = values[values > 4.0]  # about 250 values, of numbers that are 5e-7 apart: 0.03 equal pairs are expected
    assert len(np.unique(tail)) > 0.9 * len(tail)
