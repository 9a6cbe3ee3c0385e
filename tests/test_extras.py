"""A missing optional package is named with the command that installs it, in the library as on the command line."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from hush import extras
from hush.extras import with_command

ROOT = Path(__file__).resolve().parents[1]
BLOCKED = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "sklearn", "sqlglot", "sqlalchemy"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
import hush
for line in sys.argv[1:]:
    try:
        exec(line)
        print("no error")
    except ModuleNotFoundError as error:
        print(error)
"""


def test_the_library_names_the_command() -> None:
    lines = {
        "from hush.estimators import PrivateRidge": "estimators",
        "hush.fit": "torch",
        "from hush.runs import train": "train",
        "from hush.sql import table": "sql",
        "hush.table": "sql",
        "from hush.ledger import Ledger": "ledger",
    }
    run = subprocess.run([sys.executable, "-c", BLOCKED, *lines], capture_output=True, text=True, check=True)
    for extra, message in zip(lines.values(), run.stdout.splitlines(), strict=True):
        assert f"pip install 'hush[{extra}]'" in message


def test_another_missing_module_stays_as_it_is() -> None:
    error = ModuleNotFoundError("No module named 'hush.typo'", name="hush.typo")
    assert with_command(error, "hush") is error


def test_every_extra_exists_and_all_has_them() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(extras._EXTRAS.values()) <= set(declared)
    (everything,) = declared["all"]
    listed = set(everything.removeprefix("hush[").removesuffix("]").split(","))
    assert listed | {"torch"} == set(declared) - {"all", "dev", "test"}  # train brings torch


@pytest.mark.parametrize("package", sorted(extras._EXTRAS))
def test_the_message_is_an_import_error(package: str) -> None:
    error = with_command(ModuleNotFoundError(f"No module named {package!r}", name=f"{package}.part"), "hush.x")
    assert isinstance(error, ImportError)
    assert error.name == f"{package}.part"
