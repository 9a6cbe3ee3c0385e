"""Steps that are checked: few, secret, and the last one."""

from __future__ import annotations

import hashlib

import pytest

from hush.training.watch.check_steps import check_position, check_steps


def keys(count: int) -> list[bytes]:
    return [hashlib.sha256(bytes([number])).digest() for number in range(count)]


@pytest.mark.parametrize(("num_steps", "count"), [(1, 1), (2, 1), (3, 2), (500, 2), (900, 3), (30_000, 100)])
def test_one_step_in_300_is_checked_or_two(num_steps: int, count: int) -> None:
    chosen = check_steps(num_steps, bytes(32))
    assert len(chosen) == count
    assert num_steps - 1 in chosen
    assert chosen <= set(range(num_steps))
    # With less than three steps' work for a check, that is at most 1 % of the run, or two checks.
    assert count <= max(num_steps // 300, 2)


def test_the_others_depend_on_the_key() -> None:
    secret = [min(check_steps(1000, key)) for key in keys(40)]
    assert len(set(secret)) > 20, "fixed keys"
    assert all(0 < step < 999 for step in secret)
    assert check_steps(1000, bytes(32)) == check_steps(1000, bytes(32))


def test_any_physical_batch_may_be_checked() -> None:
    positions = [check_position(step, bytes(32), 4) for step in range(40)]
    assert set(positions) == {0, 1, 2, 3}
    assert check_position(3, bytes(32), 1) == 0
