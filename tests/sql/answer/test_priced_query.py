"""One unit more: all exact numbers that get noise, trees included, move by no more than the event says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hush.accounting import PldAccountant
from hush.guarantee import Unit
from hush.randomness import TestSource
from hush.sql import DuckDBEngine, Table
from hush.sql.answer import asked
from hush.sql.write import bounded
from hush.statistics import GaussianNoise, LaplaceNoise, NoisePlan
from hush.statistics.noise import release as release_module
from hush.statistics.noise.selection import SelectionPlan, TruncatedGeometric
from hush.statistics.noise.tree import UNITS, Block

# Keys come first, and every column is of a group.
PUBLIC = (
    "SELECT region, MEDIAN(income), QUANTILE_CONT(income, 0.9), COUNT(*), AVG(age), MEDIAN(age) FROM people "
    "GROUP BY region"
)
PRIVATE = "SELECT note, MEDIAN(income) AS m, SUM(age) AS s FROM people GROUP BY note"
ALL = "SELECT QUANTILE_CONT(score, 0.25) AS q FROM people"
KEYS = {PUBLIC: 1, PRIVATE: 1, ALL: 0}
_INTO = "INSERT INTO people(user_id, region, income, age, score, note) SELECT 99, "
INTRUDERS = {
    "many rows": f"{_INTO} ['north', 'south', 'east', 'west', 'new' || i][1 + i % 5], 1e5, 50, '99', 'n' || i FROM "
    "range(400) AS t(i)",
    "extreme numbers": f"{_INTO} 'north', v, 2147483647, CAST(v AS VARCHAR), 'n1' FROM (VALUES (1e308), (-1e308), "
    "('inf'::DOUBLE), ('nan'::DOUBLE), (-0.0), (NULL)) AS t(v), range(20)",
    "NULL": "INSERT INTO people(user_id) SELECT 99 FROM range(50)",
    "rows at one end": f"{_INTO} r, 200000, 120, '100', r FROM (VALUES ('north'), ('south'), ('east')) AS t(r), "
    "range(30)",
}
Told = dict[tuple[Any, ...], list[NDArray[np.float64]]]


def asked_of(connection: Any, described: Callable[..., Any], ranking_key: bytes, **changes: Any) -> Table:
    engine = DuckDBEngine(connection=connection)
    found = Table(engine, described(engine, **changes), "people")
    found._views.ranking_key = ranking_key  # neighbours are compared under one choice of groups
    return found


def over_noise(own: Table, text: str, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> tuple[Told, Any]:
    """Return each group's exact numbers over the scale of their noise, as the noise layer gets them, and the answer."""
    seen: list[NDArray[np.float64]] = []
    release = NoisePlan.release

    def spy(self: NoisePlan, totals: NDArray[np.int64], source: Any) -> NDArray[np.int64]:
        seen.extend(totals / self.scales)
        return release(self, totals, source)

    with monkeypatch.context() as patch:
        patch.setattr(NoisePlan, "release", spy)
        # Which groups are told has an event of its own: all of them are looked at here.
        patch.setattr(asked, "TruncatedGeometric", EveryGroup)
        answer = own.sql(text, source=TestSource(1), **settings)
    keys = [row[: KEYS[text]] for row in answer.rows]
    plain = seen[: len(keys)] if any("tree" not in name for name in answer.scales) else []
    trees = seen[len(plain) :]
    each = len(trees) // max(len(keys), 1)
    assert each == sum("tree" in name for name in answer.scales)
    found = {key: [*plain[at : at + 1], *trees[at * each : (at + 1) * each]] for at, key in enumerate(keys)}
    return found, answer


class EveryGroup(TruncatedGeometric):
    def plan(self, **settings: Any) -> SelectionPlan:
        real = super().plan(**settings)

        class All:
            event = real.event

            def choose(self, users: NDArray[np.int64], source: Any) -> NDArray[np.bool_]:
                return np.ones(len(users), dtype=bool)

        return All()  # type: ignore[return-value]


def change(before: Told, after: Told, order: int) -> float:
    """Return the norm of the difference, a group that is not there counting as zeros."""
    moved = []
    for keys in before.keys() | after.keys():
        left, right = before.get(keys), after.get(keys)
        parts = right or left or []
        moved += [
            (right[at] if right else 0.0) - (left[at] if left else np.zeros_like(parts[at])) for at in range(len(parts))
        ]
    return float(np.linalg.norm(np.concatenate(moved), order)) if moved else 0.0


def measured(
    world: Callable[[], Any],
    described: Any,
    key: bytes,
    text: str,
    intruder: str,
    patch: pytest.MonkeyPatch,
    noise: Any,
) -> tuple[float, float, Any]:
    """Return how much one unit changes all that is released, over its noise, what the event allows, and the answer."""
    settings = {"epsilon": 1.0, "delta": 1e-6, "groups_per_unit": 2, "rows_per_unit": 3, "noise": noise}
    connection = world()
    before, _ = over_noise(asked_of(connection, described, key), text, patch, **settings)
    connection.execute(INTRUDERS[intruder])
    after, answer = over_noise(asked_of(connection, described, key), text, patch, **settings)
    budget = 2 / 3 if text == PRIVATE else 1.0
    if isinstance(noise, LaplaceNoise):
        return change(before, after, 1), budget, answer
    delta = 5e-7 if text == PRIVATE else 1e-6
    return change(before, after, 2), 1 / release_module._multiplier(budget, delta), answer


@pytest.mark.parametrize("noise", [LaplaceNoise(), GaussianNoise()])
@pytest.mark.parametrize("text", KEYS)
@pytest.mark.parametrize("intruder", INTRUDERS)
def test_one_unit_changes_all_that_is_released_by_no_more_than_the_event_says(
    new_world: Any, described: Any, ranking_key: bytes, text: str, intruder: str, noise: Any, monkeypatch: Any
) -> None:
    moved, allowed, answer = measured(new_world, described, ranking_key, text, intruder, monkeypatch, noise)
    assert moved <= allowed
    if intruder == "rows at one end":
        assert moved > 0.999 * allowed  # the bound is reached
    cost = PldAccountant(unit=Unit.user()).compose(answer.event).epsilon(1e-6)
    assert cost <= answer.guarantee.epsilon * (1 + 1e-6)


def no_limit_on_rows(patch: pytest.MonkeyPatch) -> None:
    right = bounded.leaves
    patch.setattr(bounded, "leaves", lambda *given: right(*given).replace("WHERE n <= 3 ", ""))


def no_limit_on_groups(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bounded, "_kept", lambda *_: "SELECT * FROM hush_pairs")


def noise_for_one_level(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        asked,
        "tree_blocks",
        lambda plan: tuple(Block(columns=69_904, l1=t.rows * UNITS, l2=t.rows * UNITS) for t in plan.trees),
    )


def trees_free_of_charge(patch: pytest.MonkeyPatch) -> None:
    shares = release_module._shares

    def twin(blocks: Any) -> list[float]:
        return [1.0 if block.columns > 1 else share for block, share in zip(blocks, shares(blocks), strict=True)]

    patch.setattr(release_module, "_shares", twin)


def noise_for_one_group(patch: pytest.MonkeyPatch) -> None:
    right = asked.plan_noise
    patch.setattr(
        asked, "plan_noise", lambda blocks, *, groups_per_unit, **rest: right(blocks, groups_per_unit=1, **rest)
    )


def every_release_at_the_whole_price(patch: pytest.MonkeyPatch) -> None:
    right = asked.plan_noise

    def alone(blocks: Any, **settings: Any) -> NoisePlan:
        scales = [right((block,), **settings).block_scales[0] for block in blocks]
        return replace(right(blocks, **settings), block_scales=tuple(scales))

    patch.setattr(asked, "plan_noise", alone)


TWINS = [
    no_limit_on_rows,
    no_limit_on_groups,
    noise_for_one_level,
    trees_free_of_charge,
    noise_for_one_group,
    every_release_at_the_whole_price,
]


@pytest.mark.parametrize("noise", [LaplaceNoise(), GaussianNoise()])
@pytest.mark.parametrize("twin", TWINS)
def test_broken_twins_are_caught(
    new_world: Any, described: Any, ranking_key: bytes, twin: Any, noise: Any, monkeypatch: Any
) -> None:
    twin(monkeypatch)
    moved, allowed, _ = measured(new_world, described, ranking_key, PUBLIC, "rows at one end", monkeypatch, noise)
    assert moved > allowed
