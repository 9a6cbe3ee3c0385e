"""Integer noise: a function of key, step and element, with the exact law of a floored Gaussian, far into its tails."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import binomtest, chi2, kstest

from hush.errors import InvalidArgument
from hush.randomness import KeyedSource, standard_normal
from hush.training.noise import integer_gaussian as module
from hush.training.noise.histogram import CELLS
from hush.training.noise.integer_gaussian import integer_gaussian
from training.noise_setups import KEY, OTHER_KEY

STDDEVS = [128.0, 1000.0, 3e6, 2.0**23, 2.0**23 + 1, 1e9, 2.0**40]
Numbers = NDArray[np.float64]


def drawn(stddev: float, size: int, *, step: int = 1) -> NDArray[np.int64]:
    return integer_gaussian(KEY, step, size, stddev=stddev).numpy()


@pytest.mark.parametrize("stddev", STDDEVS)
@pytest.mark.parametrize("size", [0, 1, 7, 1000])
def test_noise_is_a_function_of_key_step_and_element(stddev: float, size: int) -> None:
    values = integer_gaussian(KEY, 3, size, stddev=stddev)
    assert values.shape == (size,)
    assert values.dtype is torch.int64
    assert torch.equal(integer_gaussian(KEY, 3, size, stddev=stddev), values)
    if size == 1000:
        assert not torch.equal(integer_gaussian(KEY, 4, size, stddev=stddev), values)
        assert not torch.equal(integer_gaussian(OTHER_KEY, 3, size, stddev=stddev), values)


def test_memory_is_used_again_where_it_fits() -> None:
    first = integer_gaussian(KEY, 0, 1000, stddev=1e4)
    again = integer_gaussian(KEY, 1, 1000, stddev=1e4, out=first)
    assert again.data_ptr() == first.data_ptr()
    assert torch.equal(again, integer_gaussian(KEY, 1, 1000, stddev=1e4))
    assert len(integer_gaussian(KEY, 1, 999, stddev=1e4, out=first)) == 999


@pytest.mark.parametrize("stddev", STDDEVS)
def test_chunks_change_nothing(stddev: float, monkeypatch: Any) -> None:
    expected = integer_gaussian(KEY, 2, 9000, stddev=stddev)
    monkeypatch.setattr(module, "_CHUNK", 1)
    assert torch.equal(integer_gaussian(KEY, 2, 9000, stddev=stddev), expected)


@pytest.mark.parametrize("stddev", STDDEVS)
def test_deciding_everything_exactly_changes_nothing(stddev: float, monkeypatch: Any) -> None:
    """64 bits decide in either arithmetic but for one draw in 2^50, so the same words give the same noise."""
    expected = integer_gaussian(KEY, 2, 5000, stddev=stddev)
    monkeypatch.setattr(module, "_UNSURE", 1e300)
    assert torch.equal(integer_gaussian(KEY, 2, 5000, stddev=stddev), expected)


def histogram_p_value(values: Numbers, stddev: float) -> float:
    """Of the hypothesis that these are floors of Gaussian draws: chi-squared over bins with exact probabilities.

    Bins are an eighth of a standard deviation wide. Those with fewer than 20 expected values are joined, on each side.
    """
    ends = np.floor(stddev * np.arange(-48, 49) / 8)  # integers: q < end for floor(X) is X < end
    below = np.concatenate([[0.0], ndtr(ends / stddev), [1.0]])
    above = np.concatenate([[1.0], ndtr(-ends / stddev), [0.0]])
    # From the nearer tail, so that small probabilities do not cancel.
    chances = np.where(np.arange(len(below) - 1) < 49, np.diff(below), -np.diff(above))
    counts = np.histogram(values, np.concatenate([[-np.inf], ends, [np.inf]]))[0].astype(float)
    expected = len(values) * chances
    first, last = np.flatnonzero(expected >= 20)[[0, -1]]
    groups = np.clip(np.arange(len(expected)), first, last)
    observed, wanted = (np.bincount(groups, numbers)[first:] for numbers in (counts, expected))
    return float(chi2.sf((np.square(observed - wanted) / wanted).sum(), len(wanted) - 1))


@pytest.mark.parametrize("stddev", [128.0, 1000.0, 3e6, 1e9])
def test_counts_have_their_exact_probabilities(stddev: float) -> None:
    """A million draws: a false alarm with probability about 1e-9. Controls: 1.5 % too wide, and a tail cut at 3.5.

    1.5 % of the scale adds 2 n 0.015^2 = 450 to a statistic of 70 +- 12, and 465 +- 22 missing draws add as many.
    """
    values = drawn(stddev, 1_000_000).astype(float)
    assert histogram_p_value(values, stddev) > 1e-9
    assert histogram_p_value(values * 1.015, stddev) < 1e-9
    assert histogram_p_value(np.where(np.abs(values) < 3.5 * stddev, values, 0.0), stddev) < 1e-9


def test_noise_is_normal() -> None:
    """By the exact p-value of the Kolmogorov-Smirnov test: a false alarm once in 1e9 times."""
    values = drawn(1e9, 200_000) / 1e9
    assert kstest(values, "norm").pvalue > 1e-9
    for scale in (0.95, 1.05):
        assert kstest(scale * values, "norm").pvalue < 1e-9


CELLS_OF_THE_TAIL = [0, 100, 300, 500, 650, 800, 1000, 1500, 2000]  # of 100 in a standard deviation: up to 20 of these


def edge_points(cell: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.bool_], float]:
    """Draw points of the edge of one cell: the integers, which of them are below the curve, and how many should be."""
    stddev = 100.0 * 2**20
    law = module.BoxLaw.of(stddev)
    cumulative, full, room = module.edge_tables(law.histogram)
    assert (law.histogram.rho, law.shift) == (100.0, 20)
    words = KeyedSource(KEY, cell).words(3 * count).reshape(count, 3)
    words[:, 0] = (int(cumulative[cell]) - 1) << 1  # the last part of the cell, on the right
    values, is_below = module.Draw(KEY, 0, law).points(words, np.arange(count), 0)
    t = np.linspace(0, 1, 20_001)
    curve = law.histogram.height * np.exp(-0.5 * ((cell + t) / 100.0) ** 2)
    chance = float(np.trapezoid(np.clip((curve - float(full[cell])) / float(room[cell]), 0, 1), t))
    return values, is_below, chance


@pytest.mark.parametrize("cell", CELLS_OF_THE_TAIL)
def test_edges_are_accepted_with_the_curves_share(cell: int) -> None:
    """Up to fifteen standard deviations: 40,000 points of one cell's edge, by exact binomial tests at 1e-9.

    Cells further out have an edge of 2^-63, the smallest, and are (nearly) never accepted.
    """
    values, is_below, chance = edge_points(cell, 40_000)
    assert (values >> 20 == cell).all()
    assert binomtest(int(is_below.sum()), 40_000, min(chance, 1.0)).pvalue > 1e-9
    if chance > 0.02:  # the control misses at least 1,000 of 20,000, with a standard deviation of 100
        assert binomtest(int(is_below.sum()), 40_000, 0.95 * chance).pvalue < 1e-9


def test_accepted_points_of_the_tail_fall_as_the_curve_does() -> None:
    """Within a cell at eight standard deviations, where double precision alone decides; Kolmogorov-Smirnov at 1e-9."""
    values, is_below, _ = edge_points(800, 200_000)
    places = (values[is_below] & (2**20 - 1)) / 2**20
    slope = 800 / 100.0**2
    assert kstest(places, lambda t: np.expm1(-slope * t - t**2 / 2e4) / np.expm1(-slope - 1 / 2e4)).pvalue > 1e-9
    assert kstest(places, "uniform").pvalue < 1e-9


def test_the_tail_is_drawn_exactly() -> None:
    """Words that choose the tail: the point is above the curve, whatever its height, and the element is drawn again."""
    law = module.BoxLaw.of(1e6)
    cumulative, _, _ = module.edge_tables(law.histogram)
    assert int(cumulative[CELLS]) == int(cumulative[CELLS - 1]) + 1
    words = np.array([[int(cumulative[CELLS - 1]) << 1, 0, 0], [2**64 - 1, 0, 0]], dtype=np.uint64)
    _, is_below = module.Draw(KEY, 0, law).points(words, np.arange(2), 0)
    assert is_below.tolist() == [False, False], "the tail, and the spare share that is always rejected"


def test_cells_are_those_of_a_plain_search() -> None:
    """At random numbers, and at every boundary of a cell."""
    law = module.BoxLaw.of(1e6)
    cumulative = module.edge_tables(law.histogram)[0]
    parts = np.concatenate([(KeyedSource(KEY, 1).words(50_000) >> np.uint64(1)).view(np.int64), cumulative])
    parts = np.concatenate([parts, cumulative - 1, [0, 2**63 - 1]])
    assert (module._cells(law.histogram, parts) == np.searchsorted(cumulative, parts, side="right")).all()


@pytest.mark.parametrize("stddev", STDDEVS)
def test_elements_do_not_depend_on_how_many_follow(stddev: float) -> None:
    """Tiles that are cut short within the first pairs, within the others, and not at all."""
    expected = integer_gaussian(KEY, 4, 2 * module.TILE + 300, stddev=stddev)
    for size in (1, 2, 255, 257, 3000, module.TILE, module.TILE + 1, 2 * module.TILE):
        assert torch.equal(integer_gaussian(KEY, 4, size, stddev=stddev), expected[:size]), size


def element_by_element(stddev: float, size: int) -> list[int]:
    """Return the same integers from the definition, one by one."""
    law = module.BoxLaw.of(stddev)
    draw, bits = module.Draw(KEY, 5, law), law.place_bits
    cells = law.histogram.cells()
    num_lanes = -(-size // module.TILE) * module._LANES
    boxes = draw.stream(0).words(num_lanes * 8).view(np.uint16)
    places = draw.stream(1).words(num_lanes * 32 * bits // 64).view(f"int{bits}")
    edges = draw.stream(2)
    values = {}
    for number, (box, place) in enumerate(zip(boxes.tolist(), places.tolist(), strict=True)):
        tile, rest = divmod(number, module.TILE)
        lane, in_lane = divmod(rest, 32)
        element = tile * module.TILE + in_lane // 2 * 256 + lane * 2 + in_lane % 2
        if box < law.num_full:
            values[element] = (int(cells[box]) << law.shift) + (1 << law.shift >> 1) + (place >> (bits - law.shift))
        else:
            values[element] = one_edge(draw, edges.words(8), element)
    return [values[element] for element in range(size)]


def one_edge(draw: module.Draw, block: NDArray[np.uint64], element: int) -> int:
    """Return the integer of an element on an edge: points and boxes, in turn, until one is accepted."""
    law, further = draw.law, draw.stream(1 << 47 | element << 7)
    for attempt in itertools.count():
        words = block[4 * (attempt % 2) :][:4]
        values, is_below = draw.points(words[None, :3], np.array([element]), attempt)
        if is_below[0]:
            return int(values[0])
        word = int(words[3])
        if word % 65536 < law.num_full:
            signed = word - (word >> 63 << 64)
            cell = int(law.histogram.cells()[word % 65536])
            return (cell << law.shift) + (1 << law.shift >> 1) + (signed >> (64 - law.shift))
        if attempt % 2:
            block = further.words(8)
    raise AssertionError


@pytest.mark.parametrize("stddev", [1000.0, 1e9, 2.0**41])
def test_integers_are_those_of_the_definition(stddev: float) -> None:
    assert integer_gaussian(KEY, 5, 9000, stddev=stddev).tolist() == element_by_element(stddev, 9000)


def test_an_element_starts_over_until_a_point_is_below_the_curve() -> None:
    """Words whose further boxes are all edges: every fourth element needs its private stream. Fixed key."""
    law = module.BoxLaw.of(1e6)
    draw = module.Draw(KEY, 5, law)
    elements = np.arange(4000)
    blocks = draw.stream(2).words(8 * len(elements)).reshape(-1, 8)
    blocks[:, [3, 7]] |= np.uint64(0xFFFF)  # every further box is an edge
    values = draw.settled(elements, blocks)
    assert values.tolist() == [one_edge(draw, block, element) for element, block in enumerate(blocks)]


def low_bits_p_value(values: NDArray[np.int64], bits: int) -> float:
    """Of the hypothesis that the lowest bits are uniform, chi-squared."""
    counts = np.bincount(values & ((1 << bits) - 1), minlength=1 << bits)
    expected = len(values) / (1 << bits)
    return float(chi2.sf(np.square(counts - expected).sum() / expected, (1 << bits) - 1))


def test_low_bits_are_uniform_next_to_zero_and_in_the_tail() -> None:
    """Where fp32 noise lies on a lattice. Non-uniformity is below 2^-20 of a count; a false alarm once in 1e9 times.

    The broken twin: fp32 noise, turned into integers of the same grid.
    """
    stddev = 2.0**34
    values = drawn(stddev, 1_000_000)
    twin = (standard_normal(KeyedSource(KEY, 5), 1_000_000).astype(np.float64) * stddev).astype(np.int64)
    for keep in (lambda v: np.abs(v) < stddev / 16, lambda v: np.abs(v) > 3 * stddev):
        assert low_bits_p_value(values[keep(values)], 8) > 1e-9
        assert low_bits_p_value(twin[keep(twin)], 8) < 1e-9


def renyi(masses: Callable[[Numbers], Numbers], stddev: float, shift: int, order: float) -> float:
    """The divergence of order alpha between a law on the integers and its shift."""
    points = np.arange(-9 * stddev, 9 * stddev + shift)
    p, q = masses(points), masses(points - shift)
    return math.log(float((p**order * q ** (1 - order)).sum())) / (order - 1)


def test_no_shift_shows_more_than_real_noise_would() -> None:
    """D_alpha(P, P + k) <= alpha k^2 / (2 s^2) for the law of the draws, and not for the twin: rounded fp32 noise."""
    stddev = 128.0

    def floored(q: Numbers) -> Numbers:
        distance = np.abs(q + 0.5)  # the law is symmetric about -1/2
        return np.asarray(ndtr((0.5 - distance) / stddev) - ndtr((-0.5 - distance) / stddev))

    def lattice(q: Numbers) -> Numbers:
        return floored(q) * np.where(q % 2 == 0, 1.5, 0.5)

    for shift in (1, 2, 3, 17, 128, 256):
        for order in (1.1, 2.0, 8.0):
            limit = order * shift**2 / (2 * stddev**2)
            assert renyi(floored, stddev, shift, order) <= limit * (1 + 1e-6)
            assert shift % 2 == 0 or shift > 3 or renyi(lattice, stddev, shift, order) > 100 * limit


def test_wrong_arguments_are_refused() -> None:
    for stddev in (0.0, 127.9, math.nan, math.inf, 2.0**55):
        with pytest.raises(InvalidArgument, match="^stddev="):
            integer_gaussian(KEY, 0, 3, stddev=stddev)
    for step in (-1, 1 << 48, True):
        with pytest.raises(InvalidArgument, match="^step="):
            integer_gaussian(KEY, step, 3, stddev=1e4)
    with pytest.raises(InvalidArgument, match="^size="):
        integer_gaussian(KEY, 0, -1, stddev=1e4)
