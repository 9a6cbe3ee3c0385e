"""Private tests of hypotheses: their level where the hypothesis is true, and their power against published tests.

Level: how often a true hypothesis is rejected, in percent of experiments, at the nominal levels of 5 and 1 %. It should
be at most half a point above the nominal level. With 900 experiments, the standard error at a level of 5 % is 0.73
points, so that 4.6 % measured shows a level below 5.9 % at best: notes state this limit (Clopper-Pearson, one-sided,
95 %). Scenarios are small groups, groups of unequal sizes and variances, skewed and rare values, small and large
epsilon. The last one is known to fail, for any test: a small group whose mean depends on rare values that the large
group does not have. For tests with an interval, how often it covers the truth is in the notes.

Power: how often a false hypothesis is rejected at 5 %, next to that of three published tests, written here from their
papers. hush protects a person who is added or removed. Two of the peers protect one who is replaced, at the same
epsilon, which is a stronger promise: for a replaced person, hush's epsilon counts twice. So these two comparisons
flatter hush.

- the independence test of Gaboardi, Lim, Rogers & Vadhan 2016 (MCIndep): Pearson's statistic of noisy counts, simulated
  with the noise. Their projection of the counts on tables of n rows is by cutting off at 0 and scaling here; if an
  expected count is at most 5, it rejects nothing. It gets noise of scale 1 / epsilon, as ours: theirs is for one record
  replaced, and twice as large. So it is compared under add-or-remove. It knows n;
- the test of Kruskal and Wallis in absolute values of Couch, Kazan, Shi, Bray & Groce 2019: sensitivity 8 for one
  record replaced, n public;
- the binomial test of Awan & Slavkovic 2018, with Tulap noise, which is uniformly most powerful among one-sided tests
  for one record replaced and a public n; twice the smaller of its two p-values.

Only hush's tests hide the number of people, too. Experiments are simulated, and so need no data.

    python reproductions/hypothesis_tests.py [--seeds 3] [--quick]
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import Row, Settings, figure, main, mark
from scipy.stats import beta, binom

from hush.randomness import TestSource
from hush.statistics import EachRow
from hush.statistics.hypotheses import (
    HypothesisResult,
    compare_means,
    compare_proportions,
    correlation,
    goodness_of_fit,
    independence,
)

DRAWS = 199  # (DRAWS + 1) * level is a whole number, so simulated p-values are exact at both levels
Array = np.ndarray
Test = Callable[[np.random.Generator, dict[str, Any]], HypothesisResult]


def run(settings: Settings) -> list[Row]:
    """Measure levels, then power."""
    return [*levels(settings), *powers(settings)]


# Level


@dataclass(frozen=True, slots=True)
class Scenario:
    """A true hypothesis.

    Attributes:
        name: What it is.
        epsilon: The epsilon of the test.
        test: Draws data and tests them.
        truth: The true effect, for tests with an interval.
        aim: The level that it should have.
    """

    name: str
    epsilon: float
    test: Test
    truth: float | None = None
    aim: str = "at most 5.5"


def proportions(sizes: tuple[int, ...], rate: float) -> Test:
    def test(rng: np.random.Generator, settings: dict[str, Any]) -> HypothesisResult:
        groups = np.repeat(np.arange(len(sizes)), sizes)
        outcomes = (rng.random(len(groups)) < rate).astype(int)
        return compare_proportions(outcomes, groups, keys=range(len(sizes)), outcome_keys=(0, 1), **settings)

    return test


def means(*draws: Callable[[np.random.Generator], Array]) -> Test:
    def test(rng: np.random.Generator, settings: dict[str, Any]) -> HypothesisResult:
        parts = [draw(rng) for draw in draws]
        groups = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        return compare_means(np.concatenate(parts), groups, keys=range(len(parts)), bounds=(0, 1), **settings)

    return test


def uniform(size: int) -> Callable[[np.random.Generator], Array]:
    return lambda rng: rng.random(size)


def skewed(size: int) -> Callable[[np.random.Generator], Array]:
    """Return values of a log-normal distribution, clamped at its 99.9th percentile."""
    return lambda rng: rng.lognormal(0, 1, size) / 22


def rare(size: int) -> Callable[[np.random.Generator], Array]:
    """Return values that are 0 for 95 % of people."""
    return lambda rng: np.where(rng.random(size) < 0.05, rng.random(size), 0.0)


def around(size: int, std: float) -> Callable[[np.random.Generator], Array]:
    return lambda rng: 0.5 + std * rng.standard_normal(size)


def table(size: int, rows: list[float], columns: list[float]) -> Test:
    def test(rng: np.random.Generator, settings: dict[str, Any]) -> HypothesisResult:
        first, second = rng.choice(len(rows), size, p=rows), rng.choice(len(columns), size, p=columns)
        keys = {"first_keys": range(len(rows)), "second_keys": range(len(columns))}
        return independence(first, second, **keys, **settings)

    return test


def fit(size: int, shares: list[float]) -> Test:
    def test(rng: np.random.Generator, settings: dict[str, Any]) -> HypothesisResult:
        return goodness_of_fit(rng.choice(len(shares), size, p=shares), dict(enumerate(shares)), **settings)

    return test


def pairs(size: int, draw: Callable[[int], Callable[[np.random.Generator], Array]]) -> Test:
    def test(rng: np.random.Generator, settings: dict[str, Any]) -> HypothesisResult:
        bounds = {"first_bounds": (0, 1), "second_bounds": (0, 1)}
        return correlation(draw(size)(rng), draw(size)(rng), **bounds, **settings)

    return test


SCENARIOS = [
    Scenario("A/B test of a rate of 50 %, 30 and 30 people", 1.0, proportions((30, 30), 0.5), 0.0),
    Scenario("A/B test of a rate of 5 %, 100 and 100", 0.5, proportions((100, 100), 0.05), 0.0),
    Scenario("A/B test of a rate of 2 %, 200 and 800", 5.0, proportions((200, 800), 0.02), 0.0),
    Scenario("A/B test of a rate of 30 %, 2000 and 2000", 0.1, proportions((2000, 2000), 0.3), 0.0),
    Scenario("three groups, a rate of 30 %, 50, 50 and 200", 0.3, proportions((50, 50, 200), 0.3)),
    Scenario("means of uniform values, 20 and 20", 5.0, means(uniform(20), uniform(20)), 0.0),
    Scenario("means of skewed values, 30 and 30", 1.0, means(skewed(30), skewed(30)), 0.0),
    Scenario("means of skewed values, 20 and 200", 5.0, means(skewed(20), skewed(200)), 0.0),
    Scenario("means of values that are mostly 0, 60 and 240", 5.0, means(rare(60), rare(240)), 0.0),
    Scenario("means, small group with the larger spread", 5.0, means(around(20, 0.2), around(200, 0.05)), 0.0),
    Scenario("means of three skewed groups of 100", 0.5, means(skewed(100), skewed(100), skewed(100))),
    Scenario("independence, 2 x 3 cells, 100 people", 1.0, table(100, [0.5, 0.5], [0.2, 0.3, 0.5])),
    Scenario("independence, 4 x 4 cells, rare values, 300", 5.0, table(300, [0.7, 0.2, 0.07, 0.03], [0.25] * 4)),
    Scenario("independence, 4 x 4 cells, rare values, 1000", 0.2, table(1000, [0.7, 0.2, 0.07, 0.03], [0.25] * 4)),
    Scenario("fit, a fair coin, 30 tosses", 1.0, fit(30, [0.5, 0.5])),
    Scenario("fit, 6 shares, one of 1 %, 200 people", 0.5, fit(200, [0.3, 0.3, 0.2, 0.1, 0.09, 0.01])),
    Scenario("correlation of uniform values, 50 people", 1.0, pairs(50, uniform)),
    Scenario("correlation of skewed values, 200 people", 5.0, pairs(200, skewed)),
    Scenario(
        "means, 100 with rare values and 5000 without",
        5.0,
        means(lambda rng: (rng.random(100) < 0.02) * 1.0, lambda rng: rng.uniform(0, 0.04, 5000)),
        0.0,
        "known to fail: Welch's test has 14",
    ),
]
REPLACES = "protects a record that is replaced, at the same epsilon: hush's counts twice for that"


def levels(settings: Settings) -> list[Row]:
    """Return the rate of rejections of each true hypothesis."""
    experiments = 10 if settings.quick else 300
    return [_level(scenario, settings, experiments) for scenario in SCENARIOS]


def _level(scenario: Scenario, settings: Settings, experiments: int) -> Row:
    start, rates, strict, covered = time.perf_counter(), [], [], []
    for seed in settings.seeds:
        results = _results(scenario.test, scenario.epsilon, seed, experiments)
        p_values = np.array([result.p_value for result in results])
        rates.append(float(100 * (p_values <= 0.05).mean()))
        strict.append(float(100 * (p_values <= 0.01).mean()))
        if scenario.truth is not None:
            covered += [result.low <= scenario.truth <= result.high for result in results]
    note = f"at 1 %: {np.mean(strict):.2f}; {_uncertainty(rates, experiments)}"
    note += f"; the 95 % interval covers {100 * np.mean(covered):.1f} %" if covered else ""
    return _row(f"level at 5 %: {scenario.name}", scenario.aim, scenario.epsilon, rates, start, note)


def _uncertainty(rates: list[float], experiments: int) -> str:
    """Return the standard error of a level of 5 %, and the largest level that the measured one allows for."""
    total = experiments * len(rates)
    hits = round(total * float(np.mean(rates)) / 100)
    error = 100 * math.sqrt(0.05 * 0.95 / total)
    return f"standard error {error:.2f}; below {100 * beta.ppf(0.95, hits + 1, total - hits):.1f} with 95 % confidence"


def _results(test: Test, epsilon: float, seed: int, experiments: int) -> list[HypothesisResult]:
    rng, source = np.random.default_rng(seed), TestSource(seed)
    terms = {"units": EachRow(), "epsilon": epsilon, "num_simulations": DRAWS, "source": source}
    return [test(rng, terms) for _ in range(experiments)]


def _row(name: str, published: str, epsilon: float, rates: list[float], start: float, note: str) -> Row:
    seconds = (time.perf_counter() - start) / len(rates)
    row = Row(name, "simulated", published, None, epsilon, rates, seconds, note)
    print("  ".join(cell for cell in row.cells() if cell), flush=True)
    return row


# Published tests. All take a generator in place of a secret source: they protect nobody here.


def gaboardi_independence(table: Array, epsilon: float, rng: np.random.Generator) -> float:
    """Return the p-value of MCIndep (Gaboardi et al. 2016, Algorithms 2 and 3), with noise of scale 1 / epsilon."""
    size, scale = table.sum(), 1 / epsilon

    def statistic(noisy: Array) -> tuple[Array, Array]:
        cut = np.maximum(noisy, 0.0)
        shares = cut / np.maximum(cut.sum((-1, -2), keepdims=True), 1e-9)
        expected = size * shares.sum(-1, keepdims=True) * shares.sum(-2, keepdims=True)
        return ((noisy - expected) ** 2 / np.maximum(expected, 1e-9)).sum((-1, -2)), expected

    observed, expected = statistic(table + rng.laplace(0, scale, table.shape))
    if expected.min() <= 5:
        return 1.0
    counts = rng.multinomial(size, expected.ravel() / expected.sum(), DRAWS).reshape(DRAWS, *table.shape)
    null, smallest = statistic(counts + rng.laplace(0, scale, counts.shape))
    null = np.where(smallest.min((-1, -2)) <= 5, 0.0, null)
    return float((1 + np.count_nonzero(null >= observed)) / (1 + DRAWS))


def couch_kruskal_wallis(groups: list[Array], epsilon: float, rng: np.random.Generator, null: Array) -> float:
    """Return the p-value of the Kruskal-Wallis test in absolute values (Couch et al. 2019), given null statistics."""
    noisy = _absolute_kruskal_wallis(groups) + rng.laplace(0, 8 / epsilon)
    return float((1 + np.count_nonzero(null >= noisy)) / (1 + len(null)))


def couch_null(sizes: list[int], epsilon: float, rng: np.random.Generator, draws: int) -> Array:
    """Return statistics, with noise, of groups that do not differ; sizes are public in that paper."""
    cuts = np.cumsum(sizes)[:-1]
    exact = [_absolute_kruskal_wallis(np.split(rng.random(sum(sizes)), cuts)) for _ in range(draws)]
    return np.array(exact) + rng.laplace(0, 8 / epsilon, draws)


def _absolute_kruskal_wallis(groups: list[Array]) -> float:
    sizes = np.array([len(group) for group in groups])
    size = sizes.sum()
    ranks = np.empty(size)
    ranks[np.argsort(np.concatenate(groups))] = np.arange(1, size + 1)
    means = np.array([part.mean() for part in np.split(ranks, np.cumsum(sizes)[:-1])])
    return float(4 * (size - 1) / size**2 * (sizes * np.abs(means - (size + 1) / 2)).sum())


def tulap_binomial(successes: int, size: int, rate: float, epsilon: float, rng: np.random.Generator) -> float:
    """Return twice the smaller one-sided p-value of the binomial test of Awan & Slavkovic 2018, at most 1."""
    decay = math.exp(-epsilon)
    geometric = rng.geometric(1 - decay, 2)
    noisy = successes + geometric[0] - geometric[1] + rng.uniform(-0.5, 0.5)
    counts = np.arange(size + 1)
    above = float(binom.pmf(counts, size, rate) @ _tulap_cdf(counts - noisy, decay))
    return min(2 * min(above, 1 - above), 1.0)


def _tulap_cdf(x: Array, decay: float) -> Array:
    """Return the distribution function of Tulap(0, b, 0) (Awan & Slavkovic 2018, Definition 4.1)."""
    nearest = np.round(x)
    lower = decay ** -np.minimum(nearest, 0) / (1 + decay) * (decay + (x - nearest + 0.5) * (1 - decay))
    upper = 1 - decay ** np.maximum(nearest, 0) / (1 + decay) * (decay + (nearest - x + 0.5) * (1 - decay))
    return np.where(x <= 0, lower, upper)


# Power


def powers(settings: Settings) -> list[Row]:
    """Return the power of ours and of published tests, and draw it."""
    experiments = 10 if settings.quick else 100
    panels = [panel(settings, experiments) for panel in (_tables, _three_groups, _coins)]
    _draw(settings, panels)
    return [row for curves in panels for _, curve in curves.values() for row in curve]


Curves = dict[str, tuple[list[int], list[Row]]]
PANELS = ("independence, 2 x 2 cells", "three groups", "a coin of 60 %")


def _draw(settings: Settings, panels: list[Curves]) -> None:
    with figure(settings, "hypothesis_tests", columns=3) as grid:
        for axes, title, curves in zip(grid, PANELS, panels, strict=True):
            for name, (sizes, curve) in curves.items():
                errors = [row.spread or 0.0 for row in curve]
                axes.errorbar(sizes, [row.mean for row in curve], errors, capsize=2, label=name)
            epsilon = next(iter(curves.values()))[1][0].epsilon
            axes.set(xlabel="people", xscale="log", title=f"{title}, epsilon {epsilon:g}", ylim=(-2, 103))
            mark(axes, next(iter(curves.values()))[0])
            axes.legend(fontsize=7, loc="lower right")
        grid[0].set_ylabel("power at 5 %, in %")


REPLACING = ("Couch et al. 2019", "Awan & Slavkovic 2018")
PowerTest = Callable[[int, np.random.Generator, TestSource], float]


def _curves(
    settings: Settings, experiments: int, what: str, epsilon: float, sizes: list[int], tests: dict[str, PowerTest]
) -> Curves:
    curves: Curves = {}
    for name, test in tests.items():
        rows = []
        for size in sizes:
            start, rates = time.perf_counter(), []
            for seed in settings.seeds:
                rng, source = np.random.default_rng([seed, size]), TestSource(seed)
                hits = [test(size, rng, source) <= 0.05 for _ in range(experiments)]
                rates.append(float(100 * np.mean(hits)))
            note = REPLACES if name in REPLACING else ""
            rows.append(_row(f"power at 5 %: {what}, {size} people: {name}", "", epsilon, rates, start, note))
        curves[name] = (sizes, rows)
    return curves


def _tables(settings: Settings, experiments: int) -> Curves:
    chances = np.array([[0.25, 0.25], [0.25, 0.25]]) + 0.05 * np.array([[1, -1], [-1, 1]])

    def draw(size: int, rng: np.random.Generator) -> Array:
        return rng.multinomial(size, chances.ravel()).reshape(2, 2)

    def ours(size: int, rng: np.random.Generator, source: TestSource) -> float:
        cells = np.repeat(np.arange(4), draw(size, rng).ravel())
        keys = {"first_keys": (0, 1), "second_keys": (0, 1)}
        terms = {"units": EachRow(), "epsilon": 0.2, "num_simulations": DRAWS, "source": source}
        return independence(cells // 2, cells % 2, **keys, **terms).p_value

    def theirs(size: int, rng: np.random.Generator, source: TestSource) -> float:
        return gaboardi_independence(draw(size, rng), 0.2, rng)

    tests = {"hush": ours, "Gaboardi et al. 2016": theirs}
    return _curves(settings, experiments, "independence, 2 x 2", 0.2, [100, 200, 400, 800, 1600], tests)


def _three_groups(settings: Settings, experiments: int) -> Curves:
    """Three normal groups, one standard deviation apart, as in the experiments of Couch et al.; bounds of 7 of them."""

    def draw(size: int, rng: np.random.Generator) -> list[Array]:
        return [centre + rng.standard_normal(size // 3) for centre in (0, 1, 2)]

    def ours(size: int, rng: np.random.Generator, source: TestSource) -> float:
        parts = draw(size, rng)
        groups = np.repeat(np.arange(3), size // 3)
        terms = {"units": EachRow(), "epsilon": 1.0, "num_simulations": DRAWS, "source": source}
        return compare_means(np.concatenate(parts), groups, keys=(0, 1, 2), bounds=(-3, 5), **terms).p_value

    nulls: dict[int, Array] = {}

    def theirs(size: int, rng: np.random.Generator, source: TestSource) -> float:
        if size not in nulls:
            nulls[size] = couch_null([size // 3] * 3, 1.0, rng, 50 if settings.quick else 3999)
        return couch_kruskal_wallis(draw(size, rng), 1.0, rng, nulls[size])

    tests = {"hush": ours, "Couch et al. 2019": theirs}
    return _curves(settings, experiments, "three groups", 1.0, [15, 30, 60, 120, 240], tests)


def _coins(settings: Settings, experiments: int) -> Curves:
    def ours(size: int, rng: np.random.Generator, source: TestSource) -> float:
        tosses = (rng.random(size) < 0.6).astype(int)
        terms = {"units": EachRow(), "epsilon": 0.5, "num_simulations": DRAWS, "source": source}
        return goodness_of_fit(tosses, {0: 0.5, 1: 0.5}, **terms).p_value

    def theirs(size: int, rng: np.random.Generator, source: TestSource) -> float:
        return tulap_binomial(int(rng.binomial(size, 0.6)), size, 0.5, 0.5, rng)

    tests = {"hush": ours, "Awan & Slavkovic 2018": theirs}
    return _curves(settings, experiments, "a coin of 60 %", 0.5, [50, 100, 200, 400, 800], tests)


if __name__ == "__main__":
    main(run, __doc__)
