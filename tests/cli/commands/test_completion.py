"""The completion scripts: they follow from the parsers, and bash completes with them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from hush.cli import COMMANDS, main

ASK = """. "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _hush; echo "${COMPREPLY[*]}" """


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_is_in_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(command in script for command in COMMANDS)
    assert "epsilon" in script
    assert "\x1b" not in script


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    script = tmp_path / "hush"
    script.write_text(capsys.readouterr().out, encoding="utf-8")

    def completed(*words: str) -> list[str]:
        command = ["bash", "-c", ASK, "bash", str(script), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    assert set(COMMANDS) <= set(completed("hush", ""))
    assert completed("hush", "tr") == ["train"]
    assert "--delta" in completed("hush", "train", "x.csv", "--del")
    assert "create" in completed("hush", "ledger", "")
    assert completed("hush", "account", "--relation", "re") == ["replace"]
    assert completed("hush", "completion", "z") == ["zsh"]
