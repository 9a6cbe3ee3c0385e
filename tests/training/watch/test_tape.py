"""The tape: it computes what the code would, from other inputs, and leaves no trace."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from hush.training.watch.tape import Tape

WEIGHT = torch.linspace(-1, 1, 6).view(2, 3)


def in_place(x: Tensor) -> Tensor:
    out = torch.zeros(len(x), 3)
    out[:, :2] = x[:, :2]
    out[1:].mul_(2)
    x += 1
    return (out + x).sum(1)


def drops(x: Tensor) -> Tensor:
    return F.dropout(x @ WEIGHT.T, 0.5).sum(1)


def by_vmap(x: Tensor) -> Tensor:
    return torch.vmap(lambda row: (row * WEIGHT).sum())(x)


def with_autocast(x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return F.linear(x, WEIGHT).sum(1)


@pytest.mark.parametrize("compute", [in_place, drops, by_vmap, with_autocast])
def test_the_tape_computes_what_the_code_does(compute: Callable[[Tensor], Tensor]) -> None:
    first, second = torch.randn(4, 3), torch.randn(4, 3)
    tape = Tape([first])
    tape.start()
    result = compute(first)
    tape.stop()
    played = tape.play([second], result, seed=3)
    assert played is not None
    torch.manual_seed(3)
    with torch.no_grad():
        assert torch.equal(played, compute(second.clone()))
    assert not torch.equal(played, result)


def test_nothing_outside_is_written() -> None:
    x, total, weight = torch.ones(3), torch.zeros(3), torch.nn.Parameter(torch.ones(3))
    part = total[:2]
    tape = Tape([x])
    tape.start()
    with torch.no_grad():
        weight.add_(x)
    total.add_(x)
    part.add_(1)
    result = total * weight.detach()
    tape.stop()
    state = torch.get_rng_state()
    played = tape.play([torch.full((3,), 5.0)], result, seed=0)
    assert played is not None
    assert total.tolist() == [2, 2, 1]
    assert weight.tolist() == [2, 2, 2]
    assert torch.equal(torch.get_rng_state(), state)


def test_what_cannot_be_played() -> None:
    x = torch.tensor([1.0, 0.0, 2.0])
    tape = Tape([x])
    tape.start()
    chosen = x[x > 0] * torch.ones(2)
    tape.stop()
    after = x * 2
    assert tape.play([torch.zeros(3)], chosen, seed=0) is None, "another shape"
    assert tape.play([torch.zeros(3)], after, seed=0) is None, "not recorded"


def test_modes_of_the_loop_may_outlast_the_recording() -> None:
    x = torch.ones(2)
    tape, other = Tape([x]), Tape([])
    tape.start()
    other.start()
    tape.stop()  # lies below, and cannot be left yet
    result = x * 3
    other.stop()
    tape.stop()
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None
    assert tape.play([x], result, seed=0) is None
    assert other.play([], result, seed=0) is not None
