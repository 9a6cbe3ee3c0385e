"""Whatever makes a claim says what it guarantees, what it assumes and who proved it."""

from __future__ import annotations

import importlib
import inspect
import re
from types import ModuleType
from typing import Any

import pytest

from hush.audit.bounds.method import BoundMethod
from hush.mechanisms import Mechanism

SECTIONS = ("Guarantee", "Assumes", "References")

# A public name with one of these endings, or that calibrates, makes a claim; every such name in `__all__` is enrolled.
CLAIMING = (
    "Accountant",
    "Filter",
    "Odometer",
    "_rate",
    "epsilon",
    "Training",
    "_from_counts",
    "best_of",
    "Holdout",
    "SmoothedClassifier",
)

# Layers whose names are examined; each is enrolled as soon as it exists.
LAYERS = (
    "hush.statistics",
    "hush.accounting",
    "hush.mechanisms",
    "hush.data",
    "hush.training",
    "hush.runs",
    "hush.audit",
    "hush.estimators",
    "hush.stability",
)


def is_mechanism(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, Mechanism | BoundMethod)


def public(layer: ModuleType) -> list[str]:
    return [
        name
        for name in getattr(layer, "__all__", ())
        if name.endswith(CLAIMING) or name.startswith(("calibrate_", "audit_")) or is_mechanism(getattr(layer, name))
        if not inspect.isabstract(getattr(layer, name))
    ]


ENROLLED = [
    pytest.param(getattr(module, name), id=f"{layer}.{name}")
    for layer in LAYERS
    for module in [importlib.import_module(layer)]
    for name in public(module)
]


def section(text: str, title: str) -> str:
    """Return the indented text under ``title:``, or nothing."""
    match = re.search(rf"^{title}:\n((?:[ ]+\S.*\n?|\n)+)", text, re.MULTILINE)
    return match[1].strip() if match else ""


@pytest.mark.parametrize("claimant", ENROLLED)
def test_claims_are_documented(claimant: Any) -> None:
    # Its own docstring, not one inherited from a base class that promises something else.
    text = inspect.cleandoc(claimant.__doc__ or "")
    missing = [f"{title}:" for title in SECTIONS if not section(text, title)]
    assert not missing, f"{claimant.__name__} lacks the docstring sections {missing}"


@pytest.mark.parametrize("claimant", ENROLLED)
def test_assumptions_say_whose_duty_they_are(claimant: Any) -> None:
    assumptions = section(inspect.cleandoc(claimant.__doc__ or ""), "Assumes")
    assert "checked here" in assumptions or "caller's duty" in assumptions


def test_somebody_is_enrolled() -> None:
    assert ENROLLED


def test_sections_are_found() -> None:
    text = "One line.\n\nGuarantee:\n    Something.\n\n    More.\n\nAssumes:\nReferences:\n    A (2020).\n"
    assert section(text, "Guarantee") == "Something.\n\n    More."
    assert section(text, "Assumes") == ""
    assert section(text, "References") == "A (2020)."
