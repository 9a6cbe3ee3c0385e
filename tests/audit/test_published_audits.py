"""Every expected value in jax_privacy's tests of audits: hush agrees, or `peers.disagreements` says who is right."""

from __future__ import annotations

import pytest

from peers import audits
from peers.disagreements import explanation
from peers.facts import Group, groups

SLOW = ("audited-gaussian", "audited-gdp", "one-run-epsilon")  # up to 5,000,000 scores, and whole curves
GROUPS = [
    pytest.param(group, id=f"{index}-{group.name}", marks=[pytest.mark.slow] if group.quantity in SLOW else [])
    for index, group in enumerate(groups("jax_privacy_audits"))
]


@pytest.mark.parametrize("group", GROUPS)
def test_values(group: Group) -> None:
    unexplained = [
        (verdict.row, verdict.ours)
        for verdict in audits.compare(group)
        if not (verdict.agrees or verdict.reason or explanation(group, verdict))
    ]
    assert unexplained == []


def test_a_wrong_value_is_noticed() -> None:
    (group,) = (group for group in groups("jax_privacy_audits") if group.test.endswith("auroc_simple"))
    rows = tuple({**row, "value": row["value"] + 1e-3} for row in group.rows)
    changed = Group(group.repository, group.test, group.quantity, group.mechanism, group.tolerance, rows)
    assert all(verdict.agrees for verdict in audits.compare(group))
    assert not any(verdict.agrees for verdict in audits.compare(changed))
