"""Keys: a function of purpose and step; a resumed run gets a new one for later steps only."""

from __future__ import annotations

from hush.training.loop.keys import RunKeys

FIRST, SECOND = bytes(32), bytes(range(32))


def test_keys_differ_by_purpose_and_by_resumption() -> None:
    keys = RunKeys([(0, FIRST), (4, SECOND)])
    assert keys.derive("noise", 0) == keys.derive("noise", 3) == RunKeys([(0, FIRST)]).derive("noise", 9)
    assert keys.derive("noise", 4) == RunKeys([(0, SECOND)]).derive("noise", 0)
    assert len({keys.derive(purpose, step) for purpose in ("noise", "sampling") for step in (0, 4)}) == 4


def test_a_resumed_run_keeps_earlier_keys_and_gets_a_new_one() -> None:
    keys = RunKeys([(0, FIRST), (4, SECOND)])
    resumed, again = (keys.resumed(6, renew=True) for _ in range(2))
    assert resumed.pairs[:2] == keys.pairs
    assert [first for first, _ in resumed.pairs] == [0, 4, 6]
    # Equal by chance with probability 2^-256.
    assert resumed.derive("noise", 6) != again.derive("noise", 6)
    assert keys.resumed(4, renew=False).pairs == [(0, FIRST)], "the second key was not used before step 4"
    assert [first for first, _ in keys.resumed(0, renew=True).pairs] == [0], "no step has used the first key"
