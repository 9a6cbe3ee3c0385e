"""Tests draw randomness that follows from their names, and real randomness as often as they are told to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from chance import stream
from hush.randomness import system_source

TESTS = Path(__file__).resolve().parents[1]
DRAWING = """
import os, pathlib

def note(text):
    with pathlib.Path("runs").open("a") as file:
        print(text, file=file)

def test_that_draws(tmp_path):
    assert not list(tmp_path.iterdir()), "fixtures are those of an earlier run"
    (tmp_path / "used").touch()
    note(os.urandom(8).hex())

def test_that_does_not():
    note("nothing")
"""


def test_a_name_has_bytes_of_its_own() -> None:
    assert [stream("a")(8) for _ in range(2)] == [stream("a")(8)] * 2
    assert stream("a")(8) != stream("b")(8)
    again = stream("a")
    assert again(8) != again(8)


def test_a_child_has_real_bytes() -> None:
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.write(write, stream("a")(8))
        os._exit(0)
    os.waitpid(child, 0)
    drawn = os.read(read, 8)
    os.close(read)
    os.close(write)
    assert drawn != stream("a")(8)


@pytest.mark.parametrize("generator", ["hush", "numpy"])
def test_a_test_draws_what_it_drew_before(generator: str, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--real-randomness"):
        pytest.skip("with real randomness it does not")
    drawn = system_source().words(2).tolist() if generator == "hush" else np.random.rand(2).tolist()  # noqa: NPY002
    known = {"hush": [14001084571214073177, 18184855084029684453], "numpy": [0.1445416585986945, 0.7008807038593257]}
    assert drawn == known[generator]


def test_repeated(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(DRAWING)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "chance", "--real-randomness", "--repeat", "3"]
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    *drawn, last = (tmp_path / "runs").read_text().split()
    assert last == "nothing"
    assert len(set(drawn)) == len(drawn) == 3
