"""The expected values of peers' own tests of accounting: hush agrees, or `peers.disagreements` says who is right."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from peers import accounts, audits, profiles
from peers.disagreements import explanation
from peers.facts import Group, groups
from peers.verdicts import Verdict

PROFILES = groups("dp_accounting_mechanisms", "dp_accounting_distributions")
ACCOUNTS = groups("dp_accounting_accountants", "autodp", "opacus", "jax_privacy")
AUDITS = groups("jax_privacy_audits")
SLOW = (
    "tpr-of-event",
    "gdp-of-event",
    "renyi-round-trip",
    "selection-poisson",
    "smallest-noise",
    "noise-from-its-epsilon",
    "calibrated-step",
    "selection",
    "gdp-parameter",
)
# Ranges, identities without a published number, and points of a coarse grid.
WITHOUT_NUMBER = ("at-most", "between", "at-its", "from-its", "optimal-composition")


def verdicts(group: Group) -> list[Verdict]:
    """Compare every value of a group."""
    return list((profiles if group in PROFILES else audits if group in AUDITS else accounts).compare(group))


def is_slow(group: Group) -> bool:
    return group.quantity in SLOW or "PRVAccountantTest" in group.test


def parameters(chosen: list[Group]) -> list[Any]:
    """Return the groups as test parameters."""
    return [
        pytest.param(group, id=f"{index}-{group.name}", marks=[pytest.mark.slow] if is_slow(group) else [])
        for index, group in enumerate(chosen)
    ]


@pytest.mark.parametrize("group", parameters(PROFILES + ACCOUNTS))
def test_values(group: Group) -> None:
    unexplained = [
        (verdict.row, verdict.ours)
        for verdict in verdicts(group)
        if not (verdict.agrees or verdict.reason or explanation(group, verdict))
    ]
    assert unexplained == []


def has_number(group: Group) -> bool:
    return not any(part in group.quantity for part in WITHOUT_NUMBER) and any(
        isinstance(row.get("value"), float | int) and math.isfinite(row["value"]) for row in group.rows
    )


@pytest.mark.parametrize(
    "chosen",
    [PROFILES[::4], pytest.param(PROFILES + ACCOUNTS, marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_a_wrong_value_is_noticed(chosen: list[Group]) -> None:
    unnoticed = []
    for group in filter(has_number, chosen):
        step = 100 * max(group.tolerance) + 1e-3
        rows = tuple({**row, "value": row["value"] * (1 + step) + step} for row in group.rows)
        before, after = agreements(group, group), agreements(group, replace(group, rows=rows))
        if before and not after < before:
            unnoticed.append(group.name)
    assert unnoticed == []


def agreements(group: Group, changed: Group) -> int:
    """Return how many values of a group agree after a change."""
    return sum(verdict.agrees for verdict in (profiles if group in PROFILES else accounts).compare(changed))


@pytest.mark.slow
@pytest.mark.parametrize("repository", sorted({group.repository for group in PROFILES + ACCOUNTS + AUDITS}))
def test_the_page_counts_them(repository: str) -> None:
    counts: Counter[str] = Counter()
    for group in PROFILES + ACCOUNTS + AUDITS:
        if group.repository == repository:
            for verdict in verdicts(group):
                counts["found"] += 1
                counts["agree" if verdict.agrees else "refused" if verdict.reason else "differ"] += 1
    page = (Path(__file__).parents[2] / "docs" / "accounting.md").read_text()
    line = re.search(rf"^\| {re.escape(repository)} \|(.*)\|$", page, re.MULTILINE)
    assert line is not None
    found, agree, differ, refused = (int(cell.replace(",", "")) for cell in line.group(1).split("|"))
    assert counts == Counter(found=found, agree=agree, differ=differ, refused=refused)
