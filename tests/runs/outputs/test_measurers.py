"""Held-out metrics of numbers and labels: no unit moves them further than the noise allows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hush.data import Examples, Numeric
from hush.randomness import TestSource
from hush.runs.figures import ROUNDING, Measurer
from hush.runs.outputs.labels import LabelMeasurer
from hush.runs.outputs.regression import NumberMeasurer

LABELS = ("a", "b", "c")
POINTS, UNITS = 2, 12


def recorder(kind: type[Measurer]) -> Any:
    """Return a measurer that records its tables in units of their noise, and adds none."""

    class Bare(kind):  # type: ignore[misc,valid-type]
        def noisy(self, sums: NDArray[np.float64], stddev: float) -> NDArray[np.float64]:
            self.tables.append(sums / stddev * self.noise)
            return sums

    Bare.tables = []
    return Bare


def measured(kind: type[Measurer], examples: Examples, outputs: list[NDArray[np.float64]], **more: Any) -> Any:
    bare = recorder(kind)
    names = () if kind is NumberMeasurer else LABELS
    measurer = bare(
        examples=examples, classes=names, groups={}, noise=1.0, num_points=POINTS, source=TestSource(0), **more
    )
    for probabilities in outputs[:-1]:
        measurer.point(probabilities)
    measurer.figures(outputs[-1])
    return np.concatenate(bare.tables)


def people(seed: int, *, labels: bool) -> tuple[Examples, list[NDArray[np.float64]]]:
    """Return rows with extreme targets, two for each unit, and what a model says about them."""
    random = np.random.default_rng(seed)
    rows = 2 * UNITS
    units = random.permutation(np.repeat(np.arange(UNITS), 2))
    inputs = np.zeros((rows, 1), dtype=np.float32)
    if labels:
        targets: Any = random.integers(-1, 2, (rows, len(LABELS)))
        outputs = [random.random((rows, len(LABELS))) for _ in range(POINTS + 1)]
    else:
        targets = random.choice([-1.0, 1.0, 0.3, math.nan], rows).astype(np.float32)
        outputs = [random.choice([-9.0, 1.0, -1.0, 0.2, math.nan, math.inf], rows) for _ in range(POINTS + 1)]
    return Examples(inputs=inputs, targets=targets, units=units), outputs


def largest_change(kind: type[Measurer], *, labels: bool, **more: Any) -> float:
    change = 0.0
    for seed in range(30):
        examples, outputs = people(seed, labels=labels)
        tables = measured(kind, examples, outputs, **more)
        for unit in range(UNITS):
            others = examples.units != unit
            fewer = measured(kind, examples.among(others), [part[others] for part in outputs], **more)
            change = max(change, float(np.linalg.norm(tables - fewer)))
    return change


def test_numbers_move_no_further_than_the_noise() -> None:
    change = largest_change(NumberMeasurer, labels=False, target_range=Numeric(lower=-5, upper=5))
    assert 0.8 < change <= 1.0


def test_labels_move_no_further_than_the_noise() -> None:
    assert 0.7 < largest_change(LabelMeasurer, labels=True) <= 1.0


def test_a_twin_that_forgets_the_number_of_labels_is_caught() -> None:
    class Twin(LabelMeasurer):
        def _counts(self, probabilities: NDArray[np.float64], part: str, times: int) -> NDArray[np.float64]:
            targets = self.examples.targets[self.rows]
            is_right = (probabilities[self.rows] > 0.5) == (targets == 1)
            columns = [is_right[known, label].astype(np.int64) for label, known in enumerate((targets >= 0).T)]
            return np.stack([self._count(cells, 2, part, times) for cells in columns])

    assert largest_change(Twin, labels=True) > 1.2


def test_errors_are_in_the_unit_of_the_target() -> None:
    targets = np.linspace(-1, 1, 2001).astype(np.float32)
    examples = Examples(inputs=np.zeros((2001, 1), dtype=np.float32), targets=targets)
    shared: dict[str, Any] = {"classes": (), "groups": {}, "num_points": 0, "source": TestSource(0)}
    exact = NumberMeasurer(examples=examples, noise=None, target_range=Numeric(lower=0, upper=100), **shared)
    error = exact.figures(targets + 0.1)["error"]
    assert error["value"] == pytest.approx(5, rel=0.06)  # a tenth of half of the range, clamped at one end
    assert error["baseline"] == pytest.approx(100 / math.sqrt(12), rel=0.01)
    private = NumberMeasurer(examples=examples, noise=1.0, target_range=Numeric(lower=0, upper=100), **shared)
    noisy = private.figures(targets + 0.1)["error"]
    assert noisy["low"] < 5 < noisy["high"]  # fixed key
    assert noisy["private"] is True
    few = examples.among(np.arange(2001) < 5)
    assert error["clamped_to"] == noisy["clamped_to"] == [0, 100]
    withheld = NumberMeasurer(examples=few, noise=2.0, target_range=Numeric(lower=0, upper=100), **shared)
    assert withheld.figures(targets[:5])["error"]["value"] is None
    assert ROUNDING > 1
