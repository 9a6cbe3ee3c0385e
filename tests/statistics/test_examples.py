"""The lecture's examples, corrected (approximate bounds, eye colours, salaries), and how large errors are."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

import hush.statistics as hs
from hush.accounting import PldAccountant, events
from hush.guarantee import Unit
from hush.randomness import TestSource
from hush.statistics.bounding import bounded
from hush.statistics.moments import mean_of
from hush.statistics.noise.release import plan_noise
from hush.statistics.noise.tree import tree_block
from hush.statistics.question import Answer, claim
from hush.statistics.totals import total_of

COLOURS = ["brown", "blue", "green", "hazel", "grey"]


def test_the_threshold_of_approximate_bounds() -> None:
    # B = 4 bins of each sign, c = 0.9, epsilon = 1: 3.51, not 3.5.
    assert hs.bounds_threshold(1.0, 4, 0.9) == pytest.approx(3.51, abs=5e-3)
    above = 1 - 0.9 ** (1 / 7)
    assert hs.bounds_threshold(1.0, 4, 0.9) == pytest.approx(-math.log(2 * above))


def test_approximate_bounds_hold_most_values_and_no_empty_bins() -> None:
    values = np.concatenate([np.random.default_rng(1).uniform(1, 900, 4_700), np.full(300, -2.5)])
    found = hs.approximate_bounds(values, units=range(5_000), epsilon=1.0, scale=1.0, num_bins=16, source=TestSource(1))
    assert found.bounds is not None
    lower, upper = found.bounds
    assert (lower, upper) == (-4, 1024)
    few = hs.approximate_bounds(values[:5], units=range(5), epsilon=1.0, source=TestSource(1))
    assert few.bounds is None


def test_empty_bins_pass_as_rarely_as_stated() -> None:
    runs = [
        hs.approximate_bounds([], units=[], epsilon=1.0, scale=1.0, num_bins=4, success=0.9, source=TestSource(seed))
        for seed in range(800)
    ]
    wrong = sum(run.bounds is not None for run in runs)
    # 8 empty bins here; the threshold is for 7. False alarms: P(Binomial(800, 0.1135) > 151) = 2e-10.
    assert wrong <= 151


def test_eye_colours() -> None:
    colours = [COLOURS[place % 5 if place % 3 else 0] for place in range(600)]
    result = hs.count(colours, units=range(600), groups=colours, keys=COLOURS, epsilon=1.0, source=TestSource(1))
    # Adding one person moves one of the counts by one: sensitivity 1.
    assert isinstance(result.event.event, events.DiscreteLaplaceEvent)  # type: ignore[attr-defined]
    assert result.noise_scale == pytest.approx(1.0)
    truth = Counter(colours)
    assert all(abs(result[colour].value - truth[colour]) < 25 for colour in COLOURS)
    best = hs.top_k(
        colours, 1, units=range(600), keys=COLOURS, epsilon=1.0, confidence=1 - math.exp(-3), source=TestSource(2)
    )
    assert best.keys == ("brown",)
    assert best.accuracy == pytest.approx(9.22, abs=0.005)


SALARIES = [*np.linspace(30_000, 90_000, 999), 2e9]


def test_salaries_are_clamped_to_a_public_range() -> None:
    asked = {"units": range(1000), "epsilon": 1.0}
    mean = hs.mean(SALARIES, bounds=(0, 200_000), **asked, confidence=1 - 1e-8, source=TestSource(1))
    assert mean.low <= np.clip(SALARIES, 0, 200_000).mean() <= mean.high
    assert mean.high - mean.low < 15_000
    for method in (hs.TreeQuantile(), hs.ExponentialQuantile(), hs.SmoothQuantile()):
        source = TestSource(2)
        found = [hs.median(SALARIES, bounds=(0, 200_000), method=method, **asked, source=source) for _ in range(25)]
        # Smooth noise has heavy tails: 5 of 60 answers were further off. Of 25 most are with P(Binomial(25, 0.1) > 12)
        # = 2e-7; none of the others' was.
        assert abs(np.median([each.value for each in found]) - 60_000) < 6_000, method


@pytest.mark.parametrize(
    ("per_user", "best", "other"),
    [(1, hs.LaplaceNoise(), hs.GaussianNoise()), (40, hs.GaussianNoise(), hs.LaplaceNoise())],
)
def test_the_noise_with_the_smaller_error_is_chosen(per_user: int, best: Any, other: Any) -> None:
    units, groups = np.repeat(np.arange(400), per_user), np.tile(np.arange(40), 10 * per_user)
    values = np.random.default_rng(1).uniform(0, 1, len(units))
    truth = np.bincount(groups, weights=values)
    errors = {}
    for noise in (best, other, None):
        asked = {"units": units, "groups": groups, "keys": range(40), "groups_per_unit": per_user, "epsilon": 1.0}
        found = [
            hs.sum(values, bounds=(0, 1), **asked, delta=1e-6, noise=noise, source=TestSource(f"noise {run}"))
            for run in range(8)
        ]
        errors[noise] = float(np.sqrt(np.mean(np.square([result.value - truth for result in found]))))
        assert found[0].guarantee.delta == (0 if (noise or best) == hs.LaplaceNoise() else 1e-6)
    # In one group, Laplace's error is 1.4 and the Gaussian's 4.2; in 40 groups, 57 and 27.
    # False alarms: of 320 draws, the errors are 6 % off and 4 %; ratios are 0.33 +- 0.03 and 0.47 +- 0.035.
    assert errors[None] < 0.7 * errors[other]
    assert errors[None] == errors[best]  # they are of the same draws


def test_many_columns_of_one_block_do_not_outvote_the_others() -> None:
    """Two counts and a tree of 69,904 nodes: Laplace's errors are 4.2, 4.2 and 17, the Gaussian's 7.3, 7.3 and 14.6."""
    count = hs.Block(columns=1, l1=1, l2=1, whole=True)
    blocks = (count, count, tree_block(1))
    assert plan_noise(blocks, groups_per_unit=1, epsilon=1.0, delta=1e-6).noise == hs.LaplaceNoise()
    assert plan_noise(blocks, groups_per_unit=9, epsilon=1.0, delta=1e-6).noise == hs.GaussianNoise()


def test_mean_count_and_sum_share_one_release() -> None:
    groups = np.repeat(np.arange(4_000), 2)
    asked = {"units": np.arange(8_000), "groups": groups, "keys": range(4_000), "epsilon": 1.0}
    found = hs.mean(np.tile([0.0, 100.0], 4_000), bounds=(0, 100), **asked, source=TestSource(1))
    count, total = found.parts["count"], found.parts["sum"]
    # Separate releases at half of epsilon each would have variances 8 and 8 * 50^2 (centred).
    # False alarms: the standard errors of these are sqrt(5 / 4000) = 3.5 % and of the mean 0.032: six of them, or more.
    assert np.var(count.value) == pytest.approx(4.0, rel=0.25)
    assert np.var(total.value - 50 * count.value) == pytest.approx(4 * 50**2, rel=0.25)
    assert count.guarantee == total.guarantee == found.guarantee
    assert np.abs(count.value.mean() - 2) < 0.2


def test_variance_shares_one_count() -> None:
    found = hs.describe([1.0, 2.0, 3.0], units=[1, 2, 3], bounds=(0, 4), epsilon=1.0)
    assert len({repr(part.event) for part in found.values()}) == 1
    assert isinstance(found["std"].event.event, events.LaplaceEvent)  # type: ignore[attr-defined]
    exact = hs.describe([1.0, 2.0, 4.0] * 3_000, units=range(9_000), bounds=(0, 4), epsilon=400.0)
    assert exact["variance"].value == pytest.approx(np.var([1.0, 2.0, 4.0]), abs=1e-3)
    assert exact["std"].value == pytest.approx(np.std([1.0, 2.0, 4.0]), abs=1e-3)


EVENTS: dict[str, Any] = {
    "count": lambda **asked: hs.count([1, 2], **asked),
    "mean": lambda **asked: hs.mean([1, 2], bounds=(0, 3), **asked),
    "variance": lambda **asked: hs.variance([1, 2], bounds=(0, 3), **asked),
    "median": lambda **asked: hs.median([1, 2], bounds=(0, 3), **asked),
    "vectors": lambda **asked: hs.covariance([[1, 2], [2, 1]], dimension=2, clip_norm=1, **asked),
    "bounds": lambda **asked: hs.approximate_bounds([1, 2], **asked),
    "top k": lambda **asked: hs.top_k([1, 2], 2, keys=[1, 2, 3], **asked),
}


@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_events_are_worth_their_guarantee(name: str, delta: float) -> None:
    result = EVENTS[name](units=[1, 2], epsilon=0.9, delta=delta)
    accountant = PldAccountant(unit=Unit.user()).compose(result.event)
    assert accountant.epsilon(result.guarantee.delta) <= 0.9 * (1 + 1e-6)
    assert accountant.epsilon(result.guarantee.delta) > 0.8
    assert result.guarantee.epsilon == 0.9


def test_kept_rows_and_groups_are_chosen_uniformly() -> None:
    units, groups = np.zeros(12, dtype=np.int64), np.repeat(np.arange(4), 3)
    source = TestSource(1)
    rows: Counter[int] = Counter()
    for _ in range(6_000):
        kept = bounded(units, groups, 4, rows_per_unit=2, groups_per_unit=1, source=source)
        rows.update(kept.rows.tolist())
        assert len(kept.rows) == 2
        assert len(set(groups[kept.rows])) == 1
    # Each row is kept with probability 1/4 * 2/3. False alarms: P(|Binomial(6000, 1/6) - 1000| > 189) = 8e-11, of 12.
    assert all(abs(rows[row] - 1000) < 6 * math.sqrt(1000) for row in range(12))


def test_bounding_agrees_with_a_loop() -> None:
    rng = np.random.default_rng(3)
    units, groups = rng.integers(-1, 30, 2_000), rng.integers(-1, 7, 2_000)
    kept = bounded(units, groups, 7, rows_per_unit=3, groups_per_unit=2, source=TestSource(2))
    weights = rng.integers(-(2**40), 2**40, len(kept.rows))
    totals = np.zeros(7, dtype=np.int64)
    pairs = Counter(zip(units[kept.rows].tolist(), groups[kept.rows].tolist(), strict=True))
    for row, weight in zip(kept.rows, weights, strict=True):
        totals[groups[row]] += weight
    assert totals.tolist() == kept.totals(weights)[:, 0].tolist()
    full = Counter(zip(units.tolist(), groups.tolist(), strict=True))
    assert all(number == min(full[pair], 3) for pair, number in pairs.items())
    assert set(Counter(user for user, _ in pairs).values()) == {2}
    assert min(min(pair) for pair in pairs) >= 0


def test_totals_from_elsewhere_become_estimates() -> None:
    # What an engine would compute: a count (block 0), and the weights of a mean on a grid (block 1), for two groups.
    steps, source = 1 << 20, TestSource(5)
    count, shares = np.array([3_000, 1_000]), np.array([0.25, 0.5])
    high = (count * shares * steps).astype(np.int64)
    sums = np.column_stack([count, count * steps - high, high]).astype(np.int64)
    blocks = (hs.Block(columns=1, l1=1, l2=1, whole=True), hs.Block(columns=2, l1=steps, l2=steps, share=2.0))
    noisy, plan = hs.release_sums(sums, blocks, groups_per_unit=1, epsilon=1.0, source=source)
    answer = Answer(
        noisy, plan, ("a", "b"), 0.95, *claim(plan.event, 1.0, 0.0, "test", unit=Unit.user(), source=source)
    )
    total, mean = total_of(answer.block(0), 1.0, whole=True), mean_of(answer.block(1), 1 / steps, (0.0, 200.0))
    assert np.abs(total.value - count).max() < 80
    assert np.abs(mean.value - 200 * shares).max() < 5
    assert ((mean.low < mean.value) & (mean.value < mean.high)).all()
    assert PldAccountant(unit=Unit.user()).compose(mean.event).epsilon(0.0) <= 1 + 1e-6
