"""The noise layer: which noise is chosen, how much there is, and that events are worth their guarantee."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hush.statistics as hs
from hush.accounting import GaussianEvent, PldAccountant
from hush.errors import InvalidArgument
from hush.guarantee import Unit
from hush.randomness import TestSource
from hush.statistics.moments import mean_of
from hush.statistics.noise import plan_gaussian, tree_block
from hush.statistics.noise.budget_split import claim
from hush.statistics.request import Answer
from hush.statistics.totals import total_of

COUNT = hs.Block(columns=1, l1=1, l2=1, whole=True)


@pytest.mark.parametrize(
    ("groups_per_unit", "best", "other"),
    [(1, hs.LaplaceNoise(), hs.GaussianNoise()), (40, hs.GaussianNoise(), hs.LaplaceNoise())],
)
def test_the_noise_with_the_smaller_error_is_chosen(groups_per_unit: int, best: Any, other: Any) -> None:
    units, groups = np.repeat(np.arange(400), groups_per_unit), np.tile(np.arange(40), 10 * groups_per_unit)
    values = np.random.default_rng(1).uniform(0, 1, len(units))
    truth = np.bincount(groups, weights=values)
    settings = {"units": units, "groups": groups, "keys": range(40), "groups_per_unit": groups_per_unit}
    errors = {}
    for noise in (best, other, None):
        results = [
            hs.sum(
                values,
                bounds=(0, 1),
                **settings,
                epsilon=1.0,
                delta=1e-6,
                noise=noise,
                source=TestSource(f"noise {run}"),
            )
            for run in range(8)
        ]
        errors[noise] = float(np.sqrt(np.mean(np.square([result.value - truth for result in results]))))
        assert results[0].guarantee.delta == (0 if (noise or best) == hs.LaplaceNoise() else 1e-6)
    # In one group, Laplace's error is 1.4 and the Gaussian's 4.2; in 40 groups, 57 and 27.
    # False alarms: of 320 draws, the errors are 6 % off and 4 %; ratios are 0.33 +- 0.03 and 0.47 +- 0.035.
    assert errors[None] < 0.7 * errors[other]
    assert errors[None] == errors[best]  # they are of the same draws


def test_many_columns_of_one_block_do_not_outvote_the_others() -> None:
    """Two counts and a tree of 69,904 nodes: Laplace's errors are 4.2, 4.2 and 17, the Gaussian's 7.3, 7.3 and 14.6."""
    blocks = (COUNT, COUNT, tree_block(1))
    assert hs.plan_noise(blocks, groups_per_unit=1, epsilon=1.0, delta=1e-6).noise == hs.LaplaceNoise()
    assert hs.plan_noise(blocks, groups_per_unit=9, epsilon=1.0, delta=1e-6).noise == hs.GaussianNoise()


EVENTS: dict[str, Any] = {
    "count": lambda **settings: hs.count([1, 2], **settings),
    "mean": lambda **settings: hs.mean([1, 2], bounds=(0, 3), **settings),
    "variance": lambda **settings: hs.variance([1, 2], bounds=(0, 3), **settings),
    "median": lambda **settings: hs.median([1, 2], bounds=(0, 3), **settings),
    "vectors": lambda **settings: hs.covariance([[1, 2], [2, 1]], dimension=2, clip_norm=1, **settings),
    "bounds": lambda **settings: hs.approximate_bounds([1, 2], **settings),
    "top k": lambda **settings: hs.top_k([1, 2], 2, keys=[1, 2, 3], **settings),
}


@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_events_are_worth_their_guarantee(name: str, delta: float) -> None:
    result = EVENTS[name](units=[1, 2], epsilon=0.9, delta=delta)
    accountant = PldAccountant(unit=Unit.user()).compose(result.event)
    assert accountant.epsilon(result.guarantee.delta) <= 0.9 * (1 + 1e-6)
    assert accountant.epsilon(result.guarantee.delta) > 0.8
    assert result.guarantee.epsilon == 0.9


def test_totals_from_elsewhere_become_estimates() -> None:
    # What an engine would compute: a count (block 0), and the weights of a mean on a grid (block 1), for two groups.
    steps, source = 1 << 20, TestSource(5)
    count, shares = np.array([3_000, 1_000]), np.array([0.25, 0.5])
    high = (count * shares * steps).astype(np.int64)
    sums = np.column_stack([count, count * steps - high, high]).astype(np.int64)
    blocks = (COUNT, hs.Block(columns=2, l1=steps, l2=steps, share=2.0))
    plan = hs.plan_noise(blocks, groups_per_unit=1, epsilon=1.0)
    noisy = plan.release(sums, source)
    answer = Answer(
        noisy, plan, ("a", "b"), 0.95, *claim(plan.event, 1.0, 0.0, "test", unit=Unit.user(), source=source)
    )
    total, mean = total_of(answer.block(0), 1.0, whole=True), mean_of(answer.block(1), 1 / steps, (0.0, 200.0))
    assert np.abs(total.value - count).max() < 80
    assert np.abs(mean.value - 200 * shares).max() < 5
    assert ((mean.low < mean.value) & (mean.value < mean.high)).all()
    assert PldAccountant(unit=Unit.user()).compose(mean.event).epsilon(0.0) <= 1 + 1e-6


@pytest.mark.parametrize(
    ("block", "noise", "variance"),
    [
        (COUNT, hs.LaplaceNoise(), 2 * 3.0**2 - 1 / 6),
        (hs.Block(columns=1, l1=1, l2=1), hs.LaplaceNoise(), 2 * 3.0**2),
        (hs.Block(columns=1, l1=1 << 40, l2=1 << 40), hs.LaplaceNoise(), 2 * (3.0 * 2**40) ** 2),
        (COUNT, hs.GaussianNoise(), None),
    ],
)
def test_noise_has_the_scale_of_the_plan(block: hs.Block, noise: Any, variance: float | None) -> None:
    plan = hs.plan_noise((block,), groups_per_unit=3, epsilon=1.0, delta=1e-6, noise=noise)
    draws = plan.release(np.zeros((40_000, 1), dtype=np.int64), TestSource(1))[:, 0].astype(np.float64)
    expected = plan.block_scales[0] ** 2 if variance is None else variance
    # The discrete Laplace distribution has the variance 2 scale^2 - 1/6, about. False alarms: the relative standard
    # error of a variance is sqrt(5 / 40000) = 1.1 % (Laplace) and 0.7 % (Gaussian), and of a mean 0.5 %.
    assert np.var(draws) == pytest.approx(expected, rel=0.08)
    assert abs(draws.mean()) < 6 * np.sqrt(expected / len(draws))
    # The controls: noise of nine tenths and of eleven tenths of the scale is not taken for the right one.
    assert np.var(0.9 * draws) != pytest.approx(expected, rel=0.08)
    assert np.var(1.1 * draws) != pytest.approx(expected, rel=0.08)


def test_laplace_scales_add_up_to_epsilon_and_gaussian_ones_to_a_single_event() -> None:
    blocks = (COUNT, hs.Block(columns=3, l1=10, l2=6.0, share=3.0))
    laplace = hs.plan_noise(blocks, groups_per_unit=2, epsilon=1.0, noise=hs.LaplaceNoise())
    spent = [2 * block.l1 / scale for block, scale in zip(blocks, laplace.block_scales, strict=True)]
    assert spent == pytest.approx([0.25, 0.75])
    assert sum(spent) <= 1
    gaussian = hs.plan_noise(blocks, groups_per_unit=2, epsilon=1.0, delta=1e-6, noise=hs.GaussianNoise())
    norms = [2 * (block.l2 / scale) ** 2 for block, scale in zip(blocks, gaussian.block_scales, strict=True)]
    assert sum(norms) <= gaussian.event.noise_multiplier**-2  # type: ignore[attr-defined]
    assert sum(norms) == pytest.approx(gaussian.event.noise_multiplier**-2)  # type: ignore[attr-defined]
    assert gaussian.scales.tolist() == [gaussian.block_scales[0], *[gaussian.block_scales[1]] * 3]


def test_blocks_and_totals_that_do_not_fit_are_refused() -> None:
    for wrong in ({"columns": 0}, {"l1": 0}, {"l2": 2.0}, {"l2": float("nan")}, {"share": 0.0}):
        with pytest.raises(InvalidArgument):
            hs.Block(**{"columns": 1, "l1": 1, "l2": 1.0, **wrong})
    plan = hs.plan_noise((COUNT,), groups_per_unit=1, epsilon=1.0)
    for totals in (np.zeros((7, 2), dtype=np.int64), np.zeros(7, dtype=np.int64), np.zeros((7, 1))):
        with pytest.raises(InvalidArgument, match=r"^totals\.shape=\('any'") as caught:
            plan.release(totals, TestSource(1))
        assert "7" not in str(caught.value)  # how many groups there are may be private
    with pytest.raises(InvalidArgument, match="LaplaceNoise or GaussianNoise"):
        hs.plan_noise((COUNT,), groups_per_unit=1, epsilon=1.0, noise="laplace")  # type: ignore[arg-type]


def test_noise_for_a_multiplier_is_that_of_its_budget() -> None:
    blocks = (COUNT, hs.Block(columns=2, l1=7, l2=5.0, share=2.0))
    settings: Any = {"noise": hs.GaussianNoise(), "epsilon": 1.0, "delta": 1e-6}
    calibrated = hs.plan_noise(blocks, groups_per_unit=3, **settings)
    assert isinstance(calibrated.event, GaussianEvent)
    multiplier = calibrated.event.noise_multiplier
    plan = plan_gaussian(blocks, groups_per_unit=3, noise_multiplier=multiplier)
    assert (plan.event, plan.block_scales) == (calibrated.event, calibrated.block_scales)
    # What one unit adds in its three groups, in units of the noise: the squared norm is 1 / multiplier^2, not more.
    squares = sum(3 * block.l2**2 / scale**2 for block, scale in zip(blocks, plan.block_scales, strict=True))
    assert squares <= multiplier**-2
    assert squares == pytest.approx(multiplier**-2)
    with pytest.raises(InvalidArgument, match="^noise_multiplier="):
        plan_gaussian(blocks, groups_per_unit=3, noise_multiplier=float("nan"))
