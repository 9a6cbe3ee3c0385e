"""Runs the examples of a page, and looks for names on pages."""

from __future__ import annotations

import doctest
import importlib
import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_examples(name: str) -> int:
    """Run the blocks of a page in ``docs`` as one session, compare what they print, and return their number."""
    blocks = re.findall(r"^```pycon\n(.*?)^```$", (ROOT / "docs" / name).read_text(encoding="utf-8"), re.DOTALL | re.M)
    session = doctest.DocTestParser().get_doctest("\n".join(blocks), {"__name__": name}, name, name, 0)
    results = doctest.DocTestRunner().run(session)
    assert results.failed == 0, f"{results.failed} of {results.attempted} examples print something else"
    return len(blocks)


def missing_names(modules: Iterable[str], pages: Iterable[str]) -> list[str]:
    """Return the public names of modules that no page shows in code."""
    text = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in pages)
    in_code = set(re.findall(r"\w+", "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))))
    return [
        f"{module}.{name}"
        for module in modules
        for name in importlib.import_module(module).__all__
        if name not in in_code
    ]
