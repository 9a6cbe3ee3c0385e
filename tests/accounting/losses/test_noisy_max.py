"""Choices of the largest noisy score cost no more than Laplace noise on one number, by exact enumeration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from hush.accounting import LaplaceEvent, PldAccountant
from hush.accounting.events import ExponentialMechanismEvent, NoisyMaxEvent
from hush.accounting.losses.noise_profiles import BoundedRangeProfile, LaplaceProfile
from hush.accounting.losses.pairs import changes, leaf_pair
from hush.accounting.losses.profile import Profile
from hush.guarantee import Relation

REMOVE, _ = changes(Relation.ADD_OR_REMOVE)
ROOM = 1e-9  # for rounding
Law = Callable[[np.ndarray], np.ndarray]


def permute_and_flip(scores: np.ndarray) -> np.ndarray:
    """Return its distribution by its definition: every order of the candidates, every coin."""
    accepted = np.exp(scores - scores.max())
    law = np.zeros(len(scores))
    for order in itertools.permutations(range(len(scores))):
        reached = 1.0
        for candidate in order:
            law[candidate] += reached * accepted[candidate]
            reached *= 1 - accepted[candidate]
    return law / math.factorial(len(scores))


GRID = np.linspace(-40.0, 46.0, 20_001)


def laplace_max(scores: np.ndarray) -> np.ndarray:
    """Return the distribution of the largest score with Laplace noise, by integration."""
    distance = GRID - scores[:, None]
    density = np.exp(-np.abs(distance)) / 2
    below = np.where(distance < 0, density, 1 - density)
    others = [np.prod(np.delete(below, candidate, axis=0), axis=0) for candidate in range(len(scores))]
    return np.asarray([np.trapezoid(row * other, GRID) for row, other in zip(density, others, strict=True)])


def delta(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def excess(law: Law, profile: Profile, trials: int) -> float:
    """Return by how much neighbours are easier to tell apart than a profile says; fixed seed."""
    rng, worst = np.random.default_rng(5), -1.0
    for _ in range(trials):
        size, epsilon = int(rng.integers(2, 6)), profile.max_loss
        scores = rng.exponential(3.0, size) * rng.integers(0, 2, size)
        # Mostly the extremes, where the worst case is: each score moves by all of epsilon, or stays.
        moved = scores + epsilon * (rng.integers(0, 2, size) if rng.random() < 0.8 else rng.random(size))
        p, q = law(scores), law(moved)
        for at in epsilon * np.array([-0.9, -0.5, -0.1, 0.0, 0.2, 0.5, 0.8, 0.99]):
            bound = float(profile.delta(np.array([abs(at)]))[0])
            bound = bound if at >= 0 else -math.expm1(at) + math.exp(at) * bound
            worst = max(worst, delta(p, q, at) - bound, delta(q, p, at) - bound)
    return worst


@pytest.mark.parametrize(("law", "room"), [(permute_and_flip, ROOM), (laplace_max, 2e-5)], ids=["flips", "laplace"])
def test_no_neighbours_exceed_the_profile(law: Law, room: float) -> None:
    for epsilon in (0.3, 1.0, 4.0):
        profile = leaf_pair(NoisyMaxEvent(epsilon), REMOVE).forward
        assert excess(law, profile, 30) <= room


@pytest.mark.parametrize("twin", [BoundedRangeProfile(1.0), LaplaceProfile(0.97)], ids=["bounded range", "less noise"])
def test_smaller_profiles_are_exceeded(twin: Profile) -> None:
    """Permute-and-flip is no mechanism of bounded range: it does not cost as little as the exponential mechanism."""
    epsilon, at = 1.0, 0.3
    assert two_candidates(epsilon, at) > float(twin.delta(np.array([at]))[0]) + 0.005


def two_candidates(epsilon: float, at: float) -> float:
    """Return the largest delta of two candidates of any gap."""
    gaps = np.linspace(-2 * epsilon, 2 * epsilon, 401)
    laws = [[permute_and_flip(np.array([0.0, gap])) for gap in (start, start + epsilon)] for start in gaps]
    return max(delta(q, p, at) for p, q in laws)


@pytest.mark.parametrize("at", [0.0, 0.3, 0.9])
def test_two_candidates_attain_it(at: float) -> None:
    bound = float(LaplaceProfile(1.0).delta(np.array([at]))[0])
    assert two_candidates(1.0, at) == pytest.approx(bound, rel=1e-9)


def test_choices_that_depend_on_choices_compose() -> None:
    """Three choices, each among candidates that follow from the one before, against every outcome."""
    epsilon, rng = 0.8, np.random.default_rng(7)
    scores = rng.exponential(1.0, (27, 3)).round(1)
    moves = epsilon * rng.integers(0, 2, (27, 3))

    def outcomes(shifted: bool) -> np.ndarray:
        laws = [permute_and_flip(row + shifted * move) for row, move in zip(scores, moves, strict=True)]
        return np.array([laws[0][i] * laws[1 + i][j] * laws[4 + 3 * i + j][k] for i, j, k in np.ndindex(3, 3, 3)])

    p, q = outcomes(False), outcomes(True)
    accountant = PldAccountant().compose(NoisyMaxEvent(epsilon), 3)
    for at in (0.2, 1.0, 1.8):
        assert max(delta(p, q, at), delta(q, p, at)) <= accountant.delta(at)


def test_it_costs_what_laplace_noise_costs_and_more_than_bounded_range() -> None:
    choice, noise = (PldAccountant().compose(event, 10) for event in (NoisyMaxEvent(0.5), LaplaceEvent(2.0)))
    assert choice.epsilon(1e-6) == noise.epsilon(1e-6)
    assert choice.epsilon(1e-6) > PldAccountant().compose(ExponentialMechanismEvent(0.5), 10).epsilon(1e-6)
