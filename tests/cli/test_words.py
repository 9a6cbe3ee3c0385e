"""Words for types: every word that the command line offers has a type, and the parser offers every word."""

from __future__ import annotations

import argparse

import pytest

from hush.accounting import Accountant
from hush.audit import Bonferroni, Explicit, MultiSplit, SplitScores
from hush.audit.bounds.method import BoundMethod
from hush.audit.bounds.thresholds import ThresholdRule
from hush.cli import build_parser
from hush.cli.words import ACCOUNTANTS, BOUND_METHODS, NOISES, ROLES, THRESHOLD_RULES, UNIT_KINDS, role, threshold_rule
from hush.errors import InvalidArgument
from hush.statistics import GaussianNoise, LaplaceNoise


def test_each_word_is_a_type_of_its_kind() -> None:
    assert all(isinstance(make(), Accountant) for make in ACCOUNTANTS.values())
    assert all(isinstance(make(), BoundMethod) for make in BOUND_METHODS.values())
    assert all(isinstance(make(), ThresholdRule) for make in THRESHOLD_RULES.values())
    assert {"laplace": LaplaceNoise, "gaussian": GaussianNoise} == NOISES


def test_rules_and_thresholds() -> None:
    assert threshold_rule(None) is None
    assert threshold_rule("bonferroni") == Bonferroni()
    assert threshold_rule("split") == SplitScores()
    assert threshold_rule("multi-split") == MultiSplit()
    assert threshold_rule("-2.5") == Explicit(-2.5)
    for wrong in ("nan", "best", ""):
        with pytest.raises(InvalidArgument, match="--threshold=.*bonferroni, split, multi-split"):
            threshold_rule(wrong)


def test_roles_are_those_of_a_ledger() -> None:
    pytest.importorskip("sqlalchemy")
    from hush.ledger import Role

    assert [role(word) for word in ROLES] == list(Role)


def choices(command: str, name: str) -> list[str]:
    """Return the words that a command offers for an argument."""
    parser = build_parser()
    for word in command.split():
        action = next(item for item in parser._actions if isinstance(item, argparse._SubParsersAction))
        parser = action.choices[word]
    return list(next(item.choices or () for item in parser._actions if item.dest == name))


@pytest.mark.parametrize(
    ("command", "name", "words"),
    [
        ("query", "noise", NOISES),
        ("audit", "method", BOUND_METHODS),
        ("plan", "unit_kind", UNIT_KINDS),
        ("ledger admit", "role", ROLES),
    ],
)
def test_commands_offer_these_words(command: str, name: str, words: object) -> None:
    assert choices(command, name) == list(words)  # type: ignore[call-overload]
