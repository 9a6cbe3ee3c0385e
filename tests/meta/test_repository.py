"""What lies in the repository: nothing of one particular machine, nothing large, no Makefile that omits in silence."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LARGEST_FILE = 2**20

# Absolute paths of somebody's machine. Put together here, so that this file does not match itself.
FOLDERS = ("work", "root", "home", "Users", "opt", "mnt")
MACHINE_PATH = re.compile(r"(?<![\w.$})-])/(?:" + "|".join(FOLDERS) + r")/")

# Requirement files name packages; where to fetch them is for the machine to know.
PACKAGE_INDEX = re.compile(r"^\s*(?:-i|-f|--index-url|--extra-index-url|--find-links|--trusted-host)\b", re.MULTILINE)


def files() -> list[Path]:
    """Return what git tracks or would track, which exists and is no link."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: there is no list of the repository's files")
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in names.split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def text_of(path: Path) -> str:
    content = path.read_bytes()
    return "" if b"\0" in content else content.decode("utf-8", errors="replace")


def test_no_machine_paths() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files()
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert not found


def test_no_large_files() -> None:
    assert not [str(path.relative_to(ROOT)) for path in files() if path.stat().st_size > LARGEST_FILE]


def test_no_package_index_in_requirement_files() -> None:
    lists = [path for path in files() if path.suffix == ".txt"]
    assert not [str(path.relative_to(ROOT)) for path in lists if PACKAGE_INDEX.search(text_of(path))]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_pattern_finds_machine_paths_and_no_others(folder: str) -> None:
    path = f"/{folder}/someone/file"
    for text in (path, f"see {path}", f'"{path}"', f"file://{path}"):
        assert MACHINE_PATH.search(text)
    for text in (f"a{path}", f"https://example.org{path}", f"$ROOT{path}", f"..{path}"):
        assert not MACHINE_PATH.search(text)


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_a_python_that_is_not_installed_is_an_error() -> None:
    command = ["make", "test-3.0", "OTHER_PYTHONS=3.0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Python 3.0 is not installed, so its tests did not run." in done.stderr
