"""Noisy Lloyd iterations: sensitivity of the totals, the budget of the rounds, a black box and a twin."""

from __future__ import annotations

import numpy as np
import pytest

from black_box.certainty import audit
from estimators.neighbours import EXTREMES
from hush.accounting import PldAccountant
from hush.audit.testers import Batched
from hush.estimators import PrivateKMeans
from hush.estimators.moments.gram import STEPS
from hush.estimators.moments.moments import FixedPoint
from hush.estimators.partitions import kmeans_rounds
from hush.estimators.partitions.cube_noise import cube_deviation
from hush.estimators.partitions.kmeans_rounds import KMeansPlan
from hush.estimators.partitions.kmeans_start import Overview, draw_directions, overview_totals
from hush.randomness import TestSource


@pytest.mark.parametrize("dimension", [2, 5])
def test_one_row_moves_every_total_by_one_step_at_most(dimension):
    x = np.random.default_rng(0).normal(size=(9, dimension))
    signs = draw_directions(dimension, TestSource(1))
    centres = np.rint(np.random.default_rng(1).uniform(-1, 1, (3, signs.shape[1])) * STEPS)

    def totals(rows):
        steps = FixedPoint(np.full(dimension, -1.0), np.full(dimension, 1.0), len(rows))
        return overview_totals(rows, signs, steps), kmeans_rounds.cluster_totals(rows, centres, steps, signs)

    before = totals(x)
    for a in EXTREMES:
        changes = [b - a for a, b in zip(before, totals(np.vstack([x, [a] + [1.0] * (dimension - 1)])), strict=True)]
        assert all(np.abs(change).max() in (0 if np.isnan(a) else STEPS,) for change in changes)
        assert np.count_nonzero(np.abs(changes[1]).max(axis=1)) <= 1, "a row is in one cluster"


SEEN = Overview(1e4, np.zeros(9), np.zeros(9), 1e-4, (np.zeros(3), np.ones(3)), 1.0)


@pytest.mark.parametrize("rounds", [None, 3])
def test_rounds_cost_no_more_than_what_is_left(rounds):
    for epsilon in (0.1, 1.0, 5.0):
        for delta in (0.0, 1e-6):
            plan = KMeansPlan.choose(SEEN, 9, 4, epsilon=epsilon, delta=delta, rounds=rounds)
            if plan.gaussian is not None:
                assert PldAccountant().compose(plan.gaussian.event).epsilon(delta) <= epsilon
            else:
                # Noise in a cube: each round has an equal part of epsilon, and the noise of that part.
                assert plan.deviation == pytest.approx(cube_deviation(plan.rounds / epsilon, 10))
    assert rounds is not None or plan.rounds == 7
    assert KMeansPlan.choose(SEEN, 9, 4, epsilon=1e-3, delta=0.0, rounds=None).clusters == 1, "one mean is all there is"


class OneIterationPaid(PrivateKMeans):
    """A broken twin: each iteration has all of epsilon."""

    def _plan(self, overview, epsilon, delta):
        return super()._plan(overview, epsilon * self.n_iter, delta)


@pytest.mark.parametrize(("model", "violated"), [(PrivateKMeans, False), (OneIterationPaid, True)])
def test_black_box(model, violated):
    """All rounds of a cluster of 5 or 6 rows. The evidence is how much better 6 rows explain the noisy counts."""
    rounds = 32
    plan = model(2, epsilon=1.0, bounds=(-1, 1), n_iter=rounds)._plan(SEEN, 1.0, 0.0)
    assert plan.rounds == rounds

    def evidence(rows, source, count):
        noisy = plan.release(np.full((count * rounds, 2), rows * STEPS), source)
        better = np.abs(noisy - 5).max(axis=1) - np.abs(noisy - 6).max(axis=1)
        return better.reshape(count, rounds).sum(axis=1)

    # The twin's evidence is 11.4 +- 4.6 on either side of 0: 0.7 % of the draws are on the wrong side.
    result = audit(Batched(evidence), 5, 6, samples=150, search_samples=75, source=TestSource(1))
    assert result.compare(1.0).violated is violated


def test_a_round_is_released_once_and_by_the_plan(monkeypatch):
    released, release = [], KMeansPlan.release
    monkeypatch.setattr(KMeansPlan, "release", lambda plan, *given: (released.append(plan), release(plan, *given))[1])
    PrivateKMeans(2, epsilon=1.0, bounds=(-1, 1), n_iter=8, source=TestSource(1)).fit(np.full((5, 1), 1.0))
    assert len(released) == 8
    assert {plan.rounds for plan in released} == {8}
