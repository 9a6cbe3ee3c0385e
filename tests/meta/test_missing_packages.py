"""A missing optional package skips what needs it, and hides no other error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
FILES = {
    "conftest.py": 'import missing_packages\nmissing_packages.OPTIONAL = ("no_such_extra",)\n',
    "src/needs_it.py": '"""Needs it.\n\n>>> 1\n1\n"""\nimport no_such_extra.part\n',
    "src/names_it.py": '"""Names it.\n\n>>> import no_such_extra\n"""\n',
    "src/needs_nothing.py": '"""Needs nothing.\n\n>>> 1\n1\n"""\n',
    "tests/test_needs_it.py": "import no_such_extra\n\ndef test_it(): pass\n",
}
WRONG = {
    "src/misspelt.py": '"""Wrong.\n\n>>> 1\n1\n"""\nfrom os import no_such_name\n',
    "src/other_package.py": '"""Wrong.\n\n>>> 1\n1\n"""\nimport no_such_dependency\n',
    "src/misnamed.py": '"""Wrong.\n\n>>> 1\n1\n"""\ntry: import no_such_extra\nexcept ImportError: undefined\n',
}


def run(folder: Path, files: dict[str, str]) -> str:
    """Run the tests and doctests of some files, and return what pytest prints."""
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "missing_packages", "--doctest-modules"]
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stdout


def test_what_needs_a_missing_package_is_skipped(tmp_path: Path) -> None:
    printed = run(tmp_path, FILES)
    assert "1 passed, 4 skipped" in printed  # a file of tests may have examples, too
    assert "needs no_such_extra" in printed


def test_other_failed_imports_are_errors(tmp_path: Path) -> None:
    printed = run(tmp_path, FILES | WRONG)
    for name in WRONG:
        assert f"ERROR collecting {name}" in printed
    assert f"{len(WRONG)} errors" in printed
