"""Write docs/reference.md: every public name with the first sentence of its docstring.

``python tools/reference.py`` writes the page; tests/meta/test_reference.py checks that it is up to date.
"""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from enum import Enum
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference.md"

# In reading order. `hush.lab` is last: it is outside the promise of stability.
MODULES = (
    "hush",
    "hush.sql",
    "hush.statistics",
    "hush.statistics.hypotheses",
    "hush.training",
    "hush.training.scattering",
    "hush.estimators",
    "hush.estimators.pate",
    "hush.ledger",
    "hush.accounting",
    "hush.mechanisms",
    "hush.guarantee",
    "hush.randomness",
    "hush.audit",
    "hush.audit.membership",
    "hush.audit.canaries",
    "hush.audit.testers",
    "hush.audit.training",
    "hush.audit.fairness",
    "hush.stability",
    "hush.data",
    "hush.runs",
    "hush.report",
    "hush.errors",
    "hush.lab.anonymity",
    "hush.lab.attributes",
    "hush.lab.composition",
    "hush.lab.data_overlap",
    "hush.lab.divergence",
    "hush.lab.extraction",
    "hush.lab.histogram",
    "hush.lab.lessons.graphs",
    "hush.lab.lessons.langevin",
    "hush.lab.lessons.local_sensitivity",
    "hush.lab.lessons.top_counts",
    "hush.lab.lessons.utility",
    "hush.lab.ntk",
    "hush.lab.radius",
    "hush.lab.ratios",
    "hush.lab.reconstruction",
    "hush.lab.slicing",
    "hush.lab.trained_attacks",
)

INTRODUCTION = """# Reference

Every public name, with the first sentence of its documentation. For arguments, guarantees, assumptions, references and
examples, call for instance `help(hush.accounting.epsilon)`. This page is written by `tools/reference.py`.
"""


def first_sentence(value: Any) -> str:
    """Return the first sentence of a docstring, on one line."""
    text = inspect.getdoc(value) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    sentence = re.split(r"(?<=[.!?])\s+(?=[A-Z`])", paragraph)[0]
    return sentence.replace("|", "\\|")


def kind(value: Any) -> str:
    """Return what a name is, in a word."""
    if inspect.isclass(value):
        return "exception" if issubclass(value, BaseException) else "enum" if issubclass(value, Enum) else "class"
    return "function" if callable(value) else "module" if inspect.ismodule(value) else "value"


def section(name: str, seen: set[int]) -> str:
    """Return the table of one module; names that an earlier module has are left out."""
    module = importlib.import_module(name)
    rows = []
    for public in sorted(module.__all__, key=str.lower):
        value = getattr(module, public)
        if public.startswith("__") or inspect.ismodule(value) or id(value) in seen:
            continue
        seen.add(id(value))
        rows.append(f"| `{public}` | {kind(value)} | {first_sentence(value)} |")
    lines = [f"## `{name}`", "", first_sentence(module), "", "| name | | |", "|---|---|---|", *rows]
    return "\n".join(lines) if rows else ""


def page() -> str:
    """Return the whole page."""
    seen: set[int] = set()
    # The root's names are shown under their homes, which come later: it is read last.
    sections = [section(name, seen) for name in (*MODULES[1:], MODULES[0])]
    return "\n\n".join([textwrap.dedent(INTRODUCTION).strip(), *filter(None, sections)]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
