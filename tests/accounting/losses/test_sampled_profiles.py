"""Profiles under sampling: the mechanism with every batch listed, on tiny datasets, and limits in closed form."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from accounting.losses.cases import ADD_REMOVE, REPLACE, Measure, laplace, mix, normal, on_the_line, pair_of
from hush.accounting import FixedSizeSampledEvent, GaussianEvent, LaplaceEvent, PldAccountant, PoissonSampledEvent
from hush.accounting.events import TruncatedPoissonSampledEvent
from hush.accounting.losses.mixture_profiles import SampledGroup
from hush.accounting.losses.noise_profiles import GaussianProfile, LaplaceProfile, RandomizedResponseProfile
from hush.accounting.losses.pairs import changes
from hush.accounting.losses.sampled_profiles import ReplacedSample, SampledAddition, SampledRemoval

# The real mechanism on tiny datasets, with every batch listed: its profile must nowhere exceed the pair's.
OTHERS = [(0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (-1.0, -1.0, -1.0), (1.0, -1.0, 0.0), (1.0, 1.0, -1.0), (0.3, -0.8, 0.5)]
CHANGES = [(1.0, -1.0), (1.0, 0.0), (-1.0, 1.0), (0.5, -0.5)]


@pytest.mark.parametrize("others", OTHERS)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.quick_cases(17)
def test_fixed_size_sampling_by_brute_force(others: tuple[float, ...], change: tuple[float, float], noise: str) -> None:
    sigma, batch, size = 1.1, 2, 4
    density = normal if noise == "gaussian" else laplace
    event = GaussianEvent(sigma) if noise == "gaussian" else LaplaceEvent(sigma)
    first, second = (
        mix(
            *(
                (1 / math.comb(size, batch), density(sum(chosen), sigma))
                for chosen in itertools.combinations((*others, record), batch)
            )
        )
        for record in change
    )
    truth = on_the_line(first, second, 30 if noise == "laplace" else 14, num_points=20_001)
    (pair,) = [pair_of(FixedSizeSampledEvent(event, batch, size), replaced) for replaced in changes(REPLACE)]
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        assert truth.delta(epsilon) <= float(pair.forward.delta(np.array([epsilon]))[0]) + 1e-6
        assert truth.delta(epsilon, swapped=True) <= float(pair.backward.delta(np.array([epsilon]))[0]) + 1e-6


@pytest.mark.parametrize("others", OTHERS)
@pytest.mark.parametrize("change", [*CHANGES, (1.0, None), (-0.4, None)])
@pytest.mark.quick_cases(13)
def test_poisson_sampling_by_brute_force(others: tuple[float, ...], change: tuple[float, float | None]) -> None:
    sigma, rate = 0.9, 0.3

    def mechanism(records: tuple[float, ...]) -> Measure:
        batches = itertools.product((0, 1), repeat=len(records))
        return mix(
            *(
                (
                    rate ** sum(chosen) * (1 - rate) ** (len(records) - sum(chosen)),
                    normal(float(np.dot(chosen, records)), sigma),
                )
                for chosen in batches
            )
        )

    with_it, other = change
    truth = on_the_line(
        mechanism((*others, with_it)),
        mechanism(others if other is None else (*others, other)),
        14,
        num_points=20_001,
    )
    relation = ADD_REMOVE if other is None else REPLACE
    pair = pair_of(PoissonSampledEvent(GaussianEvent(sigma), rate), changes(relation)[0])
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        assert truth.delta(epsilon) <= float(pair.forward.delta(np.array([epsilon]))[0]) + 1e-6
        assert truth.delta(epsilon, swapped=True) <= float(pair.backward.delta(np.array([epsilon]))[0]) + 1e-6


@pytest.mark.parametrize("others", [*OTHERS, (-1.0,) * 5, (-1.0, -1.0, 1.0, 1.0, -1.0)])
@pytest.mark.parametrize("change", [(1.0, None), (-0.4, None), (1.0, -1.0), (0.5, -1.0)])
@pytest.mark.parametrize("limit", [1, 2, 4])
@pytest.mark.quick_cases(29)
def test_truncated_batches_by_brute_force(
    others: tuple[float, ...], change: tuple[float, float | None], limit: int
) -> None:
    """Every sample, and every choice of the records that are kept of it."""
    sigma, rate = 1.2, 0.4

    def mechanism(records: tuple[float, ...]) -> Measure:
        parts = []
        for size in range(len(records) + 1):
            weight = rate**size * (1 - rate) ** (len(records) - size)
            for chosen in itertools.combinations(records, size):
                kept = list(itertools.combinations(chosen, min(size, limit)))
                parts += [(weight / len(kept), normal(sum(batch), sigma)) for batch in kept]
        return mix(*parts)

    with_it, other = change
    truth = on_the_line(
        mechanism((*others, with_it)), mechanism(others if other is None else (*others, other)), 14, num_points=8001
    )
    event = TruncatedPoissonSampledEvent(GaussianEvent(sigma), rate, limit, len(others) + 1)
    pair = pair_of(event, changes(ADD_REMOVE if other is None else REPLACE)[0])
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        assert truth.delta(epsilon) <= float(pair.forward.delta(np.array([epsilon]))[0]) + 1e-6
        assert truth.delta(epsilon, swapped=True) <= float(pair.backward.delta(np.array([epsilon]))[0]) + 1e-6


def test_as_if_nothing_were_dropped_is_too_little() -> None:
    """The broken twin: the pair of a sample without a limit, where a full batch of others is pushed aside."""
    others, sigma, rate = (-1.0,) * 5, 1.2, 0.4
    batches = [(math.comb(5, k) * rate**k * (1 - rate) ** (5 - k), min(k, 1)) for k in range(6)]
    absent = mix(*((weight, normal(-float(size), sigma)) for weight, size in batches))
    # Of k others and the record, one is kept.
    joined = [(weight * rate / (k + 1), normal(1.0, sigma)) for k, (weight, _) in enumerate(batches)]
    left = [(weight * (1 - rate / (k + 1)), normal(-float(size), sigma)) for k, (weight, size) in enumerate(batches)]
    truth = on_the_line(mix(*joined, *left), absent, 14, num_points=8001).delta(1.0)
    twin = pair_of(PoissonSampledEvent(GaussianEvent(sigma), rate), changes(ADD_REMOVE)[0])
    event = TruncatedPoissonSampledEvent(GaussianEvent(sigma), rate, 1, len(others) + 1)
    assert truth > float(twin.forward.delta(np.array([1.0]))[0]) * 1.05
    assert truth <= float(pair_of(event, changes(ADD_REMOVE)[0]).forward.delta(np.array([1.0]))[0])


def test_a_limit_that_is_rarely_reached_costs_nothing() -> None:
    """160 for an expected 100: 1.82827 where a sample without a limit costs 1.82824."""
    without = PldAccountant().compose(PoissonSampledEvent(GaussianEvent(1.0), 0.01), 1000).interval(1e-5)
    for limit, most in ((160, 1.82828), (10_000, without[1])):
        event = TruncatedPoissonSampledEvent(GaussianEvent(1.0), 0.01, limit, 10_000)
        assert without[0] <= PldAccountant().compose(event, 1000).epsilon(1e-5) <= most
    smaller = [
        PldAccountant().compose(TruncatedPoissonSampledEvent(GaussianEvent(1.0), 0.01, 20, size)).epsilon(1e-5)
        for size in (20, 1000, 2000, 10**6)
    ]
    assert smaller == sorted(smaller), "fewer records than stated cost no more"


def test_pure_mechanisms_are_amplified_to_the_known_epsilon() -> None:
    base, rate = LaplaceProfile(1.0), 0.1
    assert SampledRemoval(base, rate).max_loss == pytest.approx(math.log1p(rate * math.expm1(1.0)))
    assert SampledAddition(base, rate).max_loss == pytest.approx(-math.log1p(rate * math.expm1(-1.0)))
    for profile in (SampledRemoval(base, rate), SampledAddition(base, rate)):
        assert profile.delta(np.array([profile.max_loss * (1 + 1e-12), 50.0])) == pytest.approx([0, 0], abs=1e-15)
        assert profile.delta(np.array([0.99 * profile.max_loss]))[0] > 0


def test_a_failure_is_sampled_too() -> None:
    base = RandomizedResponseProfile(1.0, failure=0.2)
    assert SampledRemoval(base, 0.1).failure == pytest.approx(0.02)
    assert SampledAddition(base, 0.1).max_loss == pytest.approx(-math.log(0.9))


def test_a_group_of_one_is_a_sampled_record() -> None:
    epsilon = np.linspace(0, 3, 30)
    base = GaussianProfile(1 / 1.5)
    removed = SampledGroup(1.5, 0.2, 1).delta(epsilon)
    assert removed == pytest.approx(SampledRemoval(base, 0.2).delta(epsilon), rel=1e-9)
    added = SampledGroup(1.5, 0.2, 1, reverse=True).delta(epsilon)
    assert added == pytest.approx(SampledAddition(base, 0.2).delta(epsilon), rel=1e-8, abs=1e-15)


def test_sampling_everything_changes_nothing() -> None:
    epsilon = np.linspace(0, 3, 30)
    replaced = ReplacedSample(1.5, 1 - 1e-12).delta(epsilon)
    assert replaced == pytest.approx(GaussianProfile(2 / 1.5).delta(epsilon), rel=1e-6)


def test_both_forms_of_the_amplified_epsilon_meet() -> None:
    # The profile switches formulas at epsilon = 1.
    profile = SampledRemoval(GaussianProfile(2.0), 0.01)
    below, above = profile.delta(np.array([math.nextafter(1.0, 0), 1.0]))
    assert below == pytest.approx(above, rel=1e-12)
