"""The examples of pages run, and the pages show every public name of their packages."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from types import ModuleType

import pytest

from hush import accounting, data, errors, lab, ledger, mechanisms, randomness, report, runs, sql, stability, statistics

DOCS = Path(__file__).resolve().parents[2] / "docs"


PAGES = {
    "accounting.md": [accounting],
    "choosing.md": [],
    "data.md": [data],
    "lab.md": [lab],
    "ledger.md": [ledger],
    "mechanisms.md": [mechanisms, randomness, errors],
    "queries.md": [sql],
    "runs.md": [runs, report],
    "stability.md": [stability],
    "statistics.md": [statistics],
}


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page: str) -> None:
    if page in ("lab.md", "runs.md", "stability.md"):
        pytest.importorskip("torch")
    path = DOCS / page
    # A blank line ends what an example prints, so the fence after it is prose.
    failures, tries = doctest.testfile(str(path), module_relative=False, encoding="utf-8")
    assert tries > 10
    assert failures == 0
    fences = re.findall(r"^```(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(fences) == {"pycon", ""}, "other blocks would not be executed"


@pytest.mark.parametrize(
    ("package", "page"),
    [(package, page) for page, packages in PAGES.items() for package in packages],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_every_public_name_is_shown(package: ModuleType, page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    missing = [name for name in package.__all__ if not re.search(rf"\b{name}\b", text)]
    assert not missing
