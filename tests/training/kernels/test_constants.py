"""Constants are made once, and a recorded graph keeps those that it reads."""

from __future__ import annotations

import torch

from hush.training.kernels import constants, graphs
from hush.training.kernels.constants import constant

CPU = torch.device("cpu")


def test_a_constant_is_made_once() -> None:
    first = constant((1, 2, 3), torch.float64, CPU)
    assert first.tolist() == [1, 2, 3]
    assert constant((1, 2, 3), torch.float64, CPU) is first
    assert constant((1, 2, 3), torch.int64, CPU).dtype is torch.int64
    assert constant(((1, 2), (3, 4)), torch.float32, CPU).shape == (2, 2)


def test_a_recording_keeps_the_constants_that_it_reads() -> None:
    recording = graphs.Recording(torch.zeros(4, dtype=torch.int64))
    graphs._recording = recording
    try:
        values = constant((7.0,), torch.float32, CPU)
    finally:
        graphs._recording = None
    constants._cached.cache_clear()
    assert recording.constants == [values]
    constant((8.0,), torch.float32, CPU)
    assert len(recording.constants) == 1, "what is made outside of a recording is not its own"
