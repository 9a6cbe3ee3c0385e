"""Tests draw randomness that follows from their names, and real randomness as often as they are told to."""

from __future__ import annotations

import os
import random
import secrets
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from chance import fixed_randomness, stream
from hush.randomness.source import system_source

pytestmark = pytest.mark.slow  # they start pytest

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
EXAMPLE = '''
"""
>>> with open("runs", "a") as file:
...     print(random.random(), file=file)
"""
import random
'''
# What is drawn from global generators, and the number of runs that `--repeat 3` makes of it.
FROM_GLOBALS = """
import random, numpy

def note(text):
    with open("runs", "a") as file:
        print(text, file=file)

def test_python(): note(f"python {random.random()}")
def test_numpy(): note(f"numpy {numpy.random.rand()}")
def test_seeded():
    random.seed(1), numpy.random.seed(1)
    note(f"seeded {random.random()} {numpy.random.rand()}")
def test_seeded_too_late():
    number = random.random()
    random.seed(1)
    note(f"late {number}")
def test_restored():
    state = random.getstate()
    random.seed(1)
    random.setstate(state)
    note(f"restored {random.random()}")
"""
TIMES = {"python": 3, "numpy": 3, "seeded": 1, "late": 3, "restored": 3}
FROM_TORCH = """
import torch

def test_torch(): note(f"torch {torch.rand(1).item()}")
def test_torch_seeded():
    with torch.random.fork_rng():
        torch.manual_seed(1)
        note(f"torch-seeded {torch.rand(1).item()}")
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


def test_fixed_randomness_is_that_of_its_name() -> None:
    def drawn(name: str) -> list[float]:
        with fixed_randomness(name):
            bits = int.from_bytes(os.urandom(8), "little"), *system_source().words(2).tolist(), secrets.randbits(64)
            return [*map(float, bits), random.random(), np.random.rand()]  # noqa: NPY002

    assert drawn("a") == drawn("a")
    assert not set(drawn("a")) & set(drawn("b"))
    assert system_source().words(2).tolist() != system_source().words(2).tolist()


def repeated(test_file: str, folder: Path, *options: str) -> list[str]:
    """Run tests with `--repeat 3`, and return the lines that they noted."""
    (folder / "test_it.py").write_text(test_file)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "chance", "--real-randomness", "--repeat", "3", *options]
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert f"{max(1, test_file.count('def test_'))} passed" in done.stdout
    return (folder / "runs").read_text().splitlines()


def test_repeated(tmp_path: Path) -> None:
    *drawn, last = repeated(DRAWING, tmp_path)
    assert last == "nothing"
    assert len(set(drawn)) == len(drawn) == 3


def test_examples_of_docstrings_are_repeated(tmp_path: Path) -> None:
    lines = repeated(EXAMPLE, tmp_path, "--doctest-modules")
    assert len(set(lines)) == len(lines) == 3


def test_draws_from_global_generators_are_repeated(tmp_path: Path) -> None:
    """Those of a test that seeds them itself are not."""
    has_torch = find_spec("torch") is not None
    lines = repeated(FROM_GLOBALS + FROM_TORCH * has_torch, tmp_path)
    times = TIMES | ({"torch": 3, "torch-seeded": 1} if has_torch else {})
    assert Counter(line.split()[0] for line in lines) == times
    assert len(set(lines)) == len(lines)


PROCESSES = """
import multiprocessing, os, subprocess, sys

def note(text):
    with open("runs", "a") as file:
        print(text, file=file)

def run(method):
    process = multiprocessing.get_context(method).Process(target=print)
    process.start(), process.join()
    note(method)

def test_fork(): run("fork")
def test_spawn(): run("spawn")
def test_command():
    subprocess.run([sys.executable, "-c", ""], check=True)
    note("command")
"""


def test_what_starts_a_process_is_repeated(tmp_path: Path) -> None:
    assert Counter(repeated(PROCESSES, tmp_path)) == {"fork": 3, "spawn": 3, "command": 3}
