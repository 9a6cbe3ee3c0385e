"""Held-out metrics: what one unit can change, and whether the intervals cover."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hush.accounting import PldAccountant
from hush.data import Examples
from hush.randomness import TestSource
from hush.runs import figures as figures_module
from hush.runs.draft import evaluation_event
from hush.runs.figures import Measurer

POINTS = 4
CLASSES = ("x", "y", "z")
GROUPS = {"sex": ("f", "m"), "age": ("old", "young", "other")}


class Bare(Measurer):
    """Records each table in units of its noise, instead of adding noise."""

    def _release(self, sums: NDArray[np.float64], part: str, tables: int) -> NDArray[np.float64]:
        self.tables.append(sums / self.stddev(part, tables))
        return sums

    @property
    def tables(self) -> list[NDArray[np.float64]]:
        return self.__dict__.setdefault("_tables", [])


class AllRows(Bare):
    """A broken twin: every row of a unit counts."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", np.arange(len(self.examples)))


class WholeCurve(Bare):
    """A broken twin: each point of the curve has the precision that all of them should share."""

    def stddev(self, part: str, tables: int) -> float:
        return super().stddev(part, 1 if part == "curve" else tables)


class NoGroups(Bare):
    """A broken twin: two columns of groups, with noise for one."""

    def stddev(self, part: str, tables: int) -> float:
        return super().stddev(part, 1 if part == "groups" else tables)


def people(num_units: int, per_unit: int, seed: int, groups: bool) -> tuple[Examples, NDArray[np.float64]]:
    """Return held-out rows, several for each unit and in any order, with the probabilities of a model."""
    random = np.random.default_rng(seed)
    rows = num_units * per_unit
    names = {name: np.array([*values, "(other)"]) for name, values in GROUPS.items()} if groups else {}
    examples = Examples(
        inputs=np.zeros((rows, 1), dtype=np.float32),
        targets=random.integers(0, len(CLASSES), rows),
        units=random.permutation(np.repeat(np.arange(num_units), per_unit)) if per_unit > 1 else None,
        groups={name: random.choice(values, rows) for name, values in names.items()},
    )
    return examples, random.dirichlet([0.3] * len(CLASSES), rows)


def subset(examples: Examples, rows: NDArray[np.bool_]) -> Examples:
    return Examples(
        inputs=examples.inputs[rows],
        targets=examples.targets[rows],
        units=None if examples.units is None else examples.units[rows],
        groups={name: values[rows] for name, values in examples.groups.items()},
    )


def all_tables(
    kind: type[Bare], examples: Examples, outputs: list[NDArray[np.float64]], groups: bool
) -> NDArray[np.float64]:
    measurer = kind(
        examples=examples,
        classes=CLASSES,
        groups=GROUPS if groups else {},
        noise=2.0,
        num_points=POINTS,
        source=TestSource(0),
    )
    for probabilities in outputs[:-1]:
        measurer.point(probabilities)
    measurer.figures(outputs[-1])
    return np.concatenate(measurer.tables)


def largest_sensitivity(kind: type[Bare], per_unit: int, groups: bool, num_units: int = 6) -> float:
    """Return how far one unit moves all tables together, in units of their noise: the maximum over many cases."""
    sensitivity = 0.0
    for seed in range(20):
        examples, _ = people(num_units, per_unit, seed, groups)
        outputs = [people(num_units, per_unit, 100 * seed + number, groups)[1] for number in range(POINTS + 1)]
        units = np.arange(len(examples)) if examples.units is None else examples.units
        tables = all_tables(kind, examples, outputs, groups)
        for unit in range(num_units):
            others = units != unit
            neighbour = [probabilities[others] for probabilities in outputs]
            difference = tables - all_tables(kind, subset(examples, others), neighbour, groups)
            sensitivity = max(sensitivity, float(np.linalg.norm(difference)))
    return sensitivity


# With seven other sets of seeds, the right one has 0.9989 or more of the bound; the closest twin, 1.0486 +- 0.0004.


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("per_unit", [1, 3])
def test_one_unit_moves_all_tables_by_one_over_the_noise(per_unit: int, groups: bool) -> None:
    sensitivity = largest_sensitivity(Bare, per_unit, groups)
    assert sensitivity <= 1 / 2.0
    assert sensitivity >= 0.9 / 2.0  # and no more noise than is needed


@pytest.mark.parametrize(
    ("twin", "per_unit", "groups"), [(AllRows, 3, False), (WholeCurve, 1, True), (NoGroups, 1, True)]
)
def test_broken_twins_are_caught(twin: type[Bare], per_unit: int, groups: bool) -> None:
    assert largest_sensitivity(twin, per_unit, groups) > 1.02 / 2.0


def test_the_noise_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise of each table has the standard deviation that the test above divides by."""
    examples, probabilities = people(50, 1, 0, True)
    noises: dict[tuple[str, int], list[float]] = {}
    original = Measurer._release

    def recorded(self: Measurer, sums: NDArray[np.float64], part: str, tables: int) -> NDArray[np.float64]:
        result = original(self, sums, part, tables)
        noises.setdefault((part, tables), []).extend(((result - sums) / self.stddev(part, tables)).tolist())
        return result

    monkeypatch.setattr(Measurer, "_release", recorded)
    measurer = Measurer(
        examples=examples, classes=CLASSES, groups=GROUPS, noise=2.0, num_points=POINTS, source=TestSource("noise")
    )
    for _ in range(300):
        measurer.point(probabilities)
        measurer.figures(probabilities)
    assert set(noises) == {("curve", POINTS), ("final", 1), ("classes", 1), ("calibration", 2), ("groups", 2)}
    for values in noises.values():
        # False alarms: 600 or more values in each of 5 tables: 8e-11 for a mean and, by the chi-squared law, 2.5e-9 for
        # a variance; 7e-9 in all.
        assert abs(np.mean(values)) < 6.5 / math.sqrt(len(values))
        assert abs(np.var(values) - 1) < 6.5 * math.sqrt(2 / len(values))


def test_shares_of_the_noise_add_up() -> None:
    assert sum(figures_module.SHARES.values()) == pytest.approx(1)
    assert sum(figures_module.SHARES.values()) <= 1 + 1e-12


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_all_metrics_together_cost_epsilon(epsilon: float) -> None:
    event = evaluation_event(epsilon, 1e-5)
    assert epsilon * 0.99 < PldAccountant().compose(event).epsilon(1e-5) <= epsilon


def people_like(accuracy: float, rows: int, random: np.random.Generator) -> tuple[Examples, NDArray[np.float64]]:
    right = random.random(rows) < accuracy
    targets = random.integers(0, 2, rows)
    sure = np.where(right, targets, 1 - targets)
    examples = Examples(inputs=np.zeros((rows, 1), dtype=np.float32), targets=targets)
    return examples, np.stack([np.where(sure == 0, 0.8, 0.2), np.where(sure == 1, 0.8, 0.2)], 1)


@pytest.mark.parametrize("accuracy", [0.5, 0.75, 0.95])
@pytest.mark.parametrize(("rows", "noise"), [(400, 20.0), (2000, 0.5), (300, None)])
@pytest.mark.quick_cases(4)
def test_intervals_cover(accuracy: float, rows: int, noise: float | None) -> None:
    """Where noise dominates, where sampling does, and where metrics are exact: about 95 in 100 cover the truth.

    In 3,000 trials, 93.9 % or more did, in each case. False alarms: P(Binomial(500, 0.93) < 430) = 1.5e-8, twice.
    """
    random, source, trials = np.random.default_rng(1), TestSource("intervals"), 500
    covered = {"accuracy": 0, "class": 0}
    for _ in range(trials):
        examples, probabilities = people_like(accuracy, rows, random)
        measurer = Measurer(examples=examples, classes=("a", "b"), groups={}, noise=noise, num_points=1, source=source)
        figures = measurer.figures(probabilities)
        covered["accuracy"] += figures["accuracy"]["low"] <= accuracy <= figures["accuracy"]["high"]
        covered["class"] += figures["classes"][0]["low"] <= accuracy <= figures["classes"][0]["high"]
    for count in covered.values():
        assert count / trials >= 0.86


def test_exact_figures_are_exact() -> None:
    random = np.random.default_rng(0)
    examples, probabilities = people_like(0.7, 500, random)
    measurer = Measurer(
        examples=examples, classes=("a", "b"), groups={}, noise=None, num_points=1, source=TestSource(0)
    )
    figures = measurer.figures(probabilities)
    right = probabilities.argmax(1) == examples.targets
    assert figures["accuracy"]["value"] == right.mean()
    assert figures["accuracy"]["private"] is False
    assert [row["value"] for row in figures["classes"]] == [right[examples.targets == k].mean() for k in (0, 1)]
    assert sum(map(sum, figures["confusion"])) == 500
    assert figures["calibration"]["ece"] == pytest.approx(abs(0.8 - right.mean()))


@pytest.mark.parametrize("output", [math.nan, math.inf, 0.0, 1.0])
def test_a_model_whose_weights_overflowed_is_measured_too(output: float) -> None:
    """An exception would depend on the row that triggers it."""
    examples, probabilities = people(30, 1, 0, True)
    probabilities[::2] = output
    measurer = Measurer(
        examples=examples, classes=CLASSES, groups=GROUPS, noise=1.0, num_points=1, source=TestSource(0)
    )
    accuracy: dict[str, Any] = measurer.figures(probabilities)["accuracy"]
    assert 0 <= accuracy["low"] <= accuracy["high"] <= 1
    measurer.point(probabilities)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_hardly_any_rows(rows: int) -> None:
    examples, probabilities = people(rows, 1, 0, True)
    measurer = Measurer(
        examples=examples, classes=CLASSES, groups=GROUPS, noise=50.0, num_points=1, source=TestSource(rows)
    )
    figures = measurer.figures(probabilities)
    assert figures["accuracy"]["low"] <= figures["accuracy"]["high"]
    assert len(figures["classes"]) == 3
    assert len(figures["groups"]["age"]) == 4
