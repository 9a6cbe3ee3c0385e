"""Running tests on a GPU, or its kernels without one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
import torch

Test = TypeVar("Test", bound=Callable[..., Any])

_PREAMBLE = """
import contextlib
import torch

torch.cuda.device = lambda device: contextlib.nullcontext()
torch.Tensor.pin_memory = lambda tensor: tensor
torch.manual_seed(0)
"""

_REFUSED_BY_NUMPY = "only 0-dimensional arrays can be converted to Python scalars"


def needs_gpu(test: Test) -> Test:
    """Mark a test that runs on a GPU; it is skipped where there is none."""
    skip = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    marked: Test = pytest.mark.gpu(skip(test))
    return marked


def run_interpreted(script: str) -> None:
    """Run a script in which Triton's kernels are interpreted on the CPU; it must not raise.

    In a process of its own: Triton decides on being imported whether it compiles or interprets.

    The test is skipped where Triton's interpreter itself fails: that of Triton 3.6 calls ``int`` on arrays of one
    element, which NumPy 2.5 refuses. The tests on a GPU compile the kernels and do not need it.
    """
    variables = os.environ | {"TRITON_INTERPRET": "1"}
    command = [sys.executable, "-W", "ignore", "-c", _PREAMBLE + script + "\nprint('done')"]
    run = subprocess.run(command, capture_output=True, text=True, env=variables)
    if _REFUSED_BY_NUMPY in run.stderr and "triton/runtime/interpreter.py" in run.stderr:
        pytest.skip("Triton's interpreter does not work with this NumPy: it converts arrays of one element to integers")
    assert run.stdout.strip() == "done", run.stderr[-2000:]
