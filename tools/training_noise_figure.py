"""Draws docs/training_noise.svg: ``PYTHONPATH=src python tools/training_noise_figure.py``.

Counts of noisy sums next to 0, of two sums that differ by less than the noise's own steps: with floating-point noise,
and with integers on a grid. Floating point is that of half precision, whose steps are 2^13 times as coarse as single
precision's: the picture is the same, and millions of draws are enough to see it. Numbers follow from a fixed key.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hush.randomness import KeyedSource
from hush.training.noise.integer_gaussian import integer_gaussian

PAGE = Path(__file__).resolve().parents[1] / "docs" / "training_noise.svg"
KEY = bytes(range(32))
DRAWS = 1 << 21
STEP = 2.0**-12  # of half-precision numbers that are added up to noise of standard deviation 1
DIFFERENCE = 0.4 * STEP  # of the two sums
SPACING = STEP / 4  # of the grid: rounding the sums to it moves them by an eighth of a step at most
REACH = 12  # steps to either side of 0
BINS = 8  # per step
WIDTH, LEFT, HEIGHT = 900, 40, 96  # in pixels: of the drawing, of its margin, of one side of a histogram
COLOURS = ("#0072B2", "#D55E00")  # Okabe & Ito 2008

Counts = NDArray[np.int64]


def half_precision_noise(number: int) -> NDArray[np.float16]:
    """Return Gaussian noise as floating point makes it: sums of four rounded draws."""
    source, parts = KeyedSource(KEY, number), []
    for _ in range(DRAWS >> 16):
        words = source.words(1 << 18).view(np.uint32).reshape(2, 4, 1 << 16)
        radii = np.sqrt(-0.5 * np.log((words[0] + 0.5) * 2.0**-32))
        a, b, c, d = (radii * np.cos(words[1] * (2 * np.pi * 2.0**-32))).astype(np.float16)
        parts.append((a + b) + (c + d))
    return np.concatenate(parts)


def counts(values: NDArray[np.float64]) -> Counts:
    """Return how many values fall into each bin next to 0."""
    ends = (np.arange(-REACH * BINS, REACH * BINS + 1) - 0.5) * (STEP / BINS)
    return np.histogram(values, ends)[0]


def floating_point() -> list[Counts]:
    """Return the counts of both sums with half-precision noise, added in half precision."""
    return [
        counts((half_precision_noise(number) + np.float16(number * DIFFERENCE)).astype(np.float64)) for number in (0, 1)
    ]


def on_the_grid() -> list[Counts]:
    """Return the counts of both sums with integer noise."""
    noise = (integer_gaussian(KEY, number, DRAWS, stddev=1 / SPACING).numpy() for number in (2, 3))
    return [counts((drawn + round(number * DIFFERENCE / SPACING)) * SPACING) for number, drawn in enumerate(noise)]


def histogram(pair: list[Counts], middle: float) -> str:
    """Return two histograms, one upwards and one downwards."""
    largest = max(int(side.max()) for side in pair)
    width = (WIDTH - 2 * LEFT) / len(pair[0])
    parts = []
    for side, colour, sign in zip(pair, COLOURS, (-1, 1), strict=True):
        base = middle + 2 * sign
        bars = "".join(
            f"M{LEFT + bin_index * width:.1f} {base}v{sign * HEIGHT * count / largest:.1f}h{width - 0.8:.1f}V{base}z"
            for bin_index, count in enumerate(side.tolist())
            if count
        )
        parts.append(f'<path fill="{colour}" d="{bars}"/>')
    parts.append(f'<path stroke="#555" d="M{LEFT} {middle}H{WIDTH - LEFT}"/>')
    return "\n".join(parts)


def text(x: float, y: float, words: str, *, size: int = 15, colour: str = "#222", weight: str = "normal") -> str:
    """Return a line of text."""
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" font-weight="{weight}">{words}</text>'


def svg() -> str:
    """Return the picture."""
    panels = []
    for top, title, pair in (
        (30, "Floating-point noise on a floating-point sum", floating_point()),
        (320, "Integer noise on a public grid", on_the_grid()),
    ):
        middle = top + 30 + HEIGHT
        panels += [
            text(LEFT, top, title, size=18, weight="bold"),
            text(LEFT, top + 20, "without the record", colour=COLOURS[0], weight="bold"),
            text(LEFT, middle + HEIGHT + 22, "with the record", colour=COLOURS[1], weight="bold"),
            histogram(pair, middle),
        ]
    note = (
        f"Of {DRAWS:,} noisy sums, in half precision, those within {REACH} steps of 0: a step is 1/4096 of the noise."
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 610" font-family="system-ui, sans-serif" '
            'role="img" aria-labelledby="title description">',
            '<title id="title">Noisy sums next to zero</title>',
            '<desc id="description">Above: with floating-point noise, sums without the record lie on a comb of values, '
            "sums with it between the teeth. Below: with integer noise on a grid, both fill all points alike.</desc>",
            f'<rect width="{WIDTH}" height="610" fill="#fff"/>',
            *panels,
            text(LEFT, 592, note, size=13, colour="#555"),
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(svg(), encoding="utf-8")
