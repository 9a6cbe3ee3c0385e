"""One budget for noise and group selection: how it is split, and that both parts together stay within it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hush.statistics as hs
from hush.accounting import PldAccountant
from hush.errors import InvalidArgument
from hush.guarantee import Unit
from hush.randomness import TestSource
from hush.randomness.source import SystemSource
from hush.statistics.noise import ReleasePlan, plan_release
from hush.statistics.noise.budget_split import check_selection_delta

COUNT = hs.Block.disjoint(1, whole=True)
SELECTIONS = [None, hs.Selection.laplace_threshold(), hs.Selection.gaussian_threshold()]


def plan(*, public_groups: bool = False, **settings: Any) -> ReleasePlan:
    return plan_release(
        (COUNT,), groups_per_unit=2, public_groups=public_groups, **{"epsilon": 0.9, "delta": 1e-6, **settings}
    )


@pytest.mark.parametrize("noise", [hs.LaplaceNoise(), hs.GaussianNoise()])
@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
def test_noise_and_selection_together_stay_within_the_budget(noise: Any, selection: Any) -> None:
    split = plan(noise=noise, selection=selection)
    spent = PldAccountant().compose(split.event).epsilon(1e-6)
    assert spent <= 0.9 * (1 + 1e-6)
    assert spent > 0.6  # and little of it is wasted
    # A twin that gives both parts the full epsilon is over it.
    twice = PldAccountant().compose(plan(epsilon=1.8, noise=noise, selection=selection).event).epsilon(1e-6)
    assert twice > 0.9


def test_a_third_of_epsilon_is_for_the_selection() -> None:
    split = plan(noise=hs.LaplaceNoise())
    assert split.noise.epsilon == pytest.approx(0.6)
    assert split.selection is not None
    assert split.selection.event.epsilon == pytest.approx(0.3)  # type: ignore[attr-defined]


def test_laplace_noise_leaves_all_of_delta_to_the_selection() -> None:
    laplace, gaussian = plan(noise=hs.LaplaceNoise()).selection, plan(noise=hs.GaussianNoise()).selection
    assert laplace is not None
    assert gaussian is not None
    assert laplace.event.delta == pytest.approx(1e-6, rel=1e-4)  # type: ignore[attr-defined]
    assert gaussian.event.delta == pytest.approx(5e-7, rel=1e-4)  # type: ignore[attr-defined]
    assert plan(noise=hs.GaussianNoise()).noise.delta == 5e-7


def test_public_groups_need_no_selection() -> None:
    split = plan(public_groups=True, noise=hs.LaplaceNoise())
    assert (split.selection, split.noise.epsilon, split.spent_delta) == (None, 0.9, 0.0)
    assert split.choose_groups(np.array([0, 5, 9]), TestSource(1)).tolist() == [0, 1, 2]
    assert plan(public_groups=True, noise=hs.GaussianNoise()).spent_delta == 1e-6


def test_private_groups_are_chosen_by_their_units() -> None:
    chosen = plan().choose_groups(np.array([0, 1_000, 1]), TestSource(1))
    assert chosen.tolist() == [1]  # a group of one unit is revealed with probability 1e-6 at most
    assert plan().spent_delta == 1e-6


@pytest.mark.parametrize("delta", [0.0, float("nan")])
def test_private_groups_need_a_delta(delta: float) -> None:
    with pytest.raises(InvalidArgument, match=r"^delta=.*: expected a number in \(0, 1\)\..*keys="):
        check_selection_delta(delta)
    with pytest.raises(InvalidArgument, match=r"^delta="):
        plan(delta=delta)
    check_selection_delta(1e-12)


def test_claims_state_method_unit_and_assumptions() -> None:
    guarantee, event = plan(noise=hs.LaplaceNoise()).claim(
        TestSource(1), unit=Unit.user(), method="a tree of counts", assumptions=("of the engine",)
    )
    assert (guarantee.epsilon, guarantee.delta, guarantee.method) == (0.9, 1e-6, "Laplace noise on a tree of counts")
    assert guarantee.assumptions == ("each person has exactly one id", "of the engine", "test randomness")
    assert event.assumptions == guarantee.assumptions  # type: ignore[attr-defined]
    by_row, _ = plan().claim(SystemSource(), unit=Unit.example())
    assert by_row.assumptions == ()
