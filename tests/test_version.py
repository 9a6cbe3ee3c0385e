"""The version: one number, stated once."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import hush
from hush.version import __version__


def test_is_a_release_number_that_the_package_and_its_metadata_share() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)
    assert hush.__version__ == __version__
    assert version("hush") == __version__ or version("hush").startswith(__version__)


def test_is_written_in_one_file_only() -> None:
    source = Path(hush.__file__).parent
    literal = re.compile(r"""__version__\s*=\s*["']""")
    assert [path.name for path in source.rglob("*.py") if literal.search(path.read_text(encoding="utf-8"))] == [
        "version.py"
    ]
