"""Taps: handed out in order, known again in an equal call, and stale in another one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from hush.training.per_example.gradients import DenseGradient
from hush.training.per_example.taps import StaleLayout, TapRecorder

LIKE = torch.zeros((), dtype=torch.float64)


def record_layer(recorder: TapRecorder, layer: str, width: int = 2) -> list[Tensor]:
    """Do what a layer does: ask for the taps of an input and a gradient, and report their use."""
    taps = [
        recorder.tap((3, width), LIKE, of_input=True, base=None),
        recorder.tap((3, 1), LIKE, of_input=False, base=None),
    ]
    if not recorder.expects_use(layer):
        recorder.record_use(layer, f"{layer}.weight", DenseGradient, 2, None)
    return taps


def test_taps_are_zeros_that_require_a_gradient() -> None:
    recorder = TapRecorder()
    tap = recorder.tap((3, 4), LIKE, of_input=False, base=None)
    assert tap.requires_grad
    assert tap.dtype is torch.float64
    assert tap.untyped_storage().nbytes() == 8, "expanded: no memory for every example"
    assert not tap.any()


def test_a_parameter_is_repeated_for_every_example() -> None:
    """It is a copy in the eyes of autograd: its gradient has a row for each example, and the parameter gets none."""
    recorder, param = TapRecorder(), torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    tap = recorder.tap((3, 2), param, of_input=False, base=param)
    (gradient,) = torch.autograd.grad((tap * torch.arange(3.0).unsqueeze(1)).sum(), tap)
    assert gradient.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert param.grad is None


def test_uses_know_their_taps() -> None:
    recorder = TapRecorder()
    record_layer(recorder, "a")
    record_layer(recorder, "b")
    layout = recorder.layout
    assert [(use.layer, use.param, use.taps) for use in layout.uses] == [
        ("a", "a.weight", (0, 1)),
        ("b", "b.weight", (2, 3)),
    ]
    assert layout.inputs == {0, 2}
    recorder.reset()
    assert recorder.layout.taps == []


def recorded(*layers: str) -> tuple[TapRecorder, Any]:
    recorder = TapRecorder()
    mark = recorder.mark()
    for layer in layers:
        record_layer(recorder, layer)
    known = recorder.since(mark)
    recorder.reset()
    return recorder, known


def test_an_equal_call_gets_the_same_taps() -> None:
    recorder, known = recorded("a", "b")
    complete, taps = recorder.replay(known, lambda: record_layer(recorder, "a") + record_layer(recorder, "b"))
    assert complete
    assert all(tap is expected for tap, expected in zip(taps, known.taps, strict=True))
    assert len(recorder.layout.uses) == 2, "known uses are not recorded twice"


def test_a_second_call_in_a_batch_has_its_own_numbers() -> None:
    recorder, known = recorded("a")
    record_layer(recorder, "first")
    complete, _ = recorder.replay(known, lambda: record_layer(recorder, "a"))
    assert complete
    assert [use.taps for use in recorder.layout.uses] == [(0, 1), (2, 3)]
    assert recorder.layout.inputs == {0, 2}


@pytest.mark.parametrize(
    "layers",
    [("b",), ("a", "b"), ()],
    ids=["another layer", "one more layer", "one layer less"],
)
def test_another_call_is_noticed_and_undone(layers: tuple[str, ...]) -> None:
    recorder, known = recorded("a")
    record_layer(recorder, "before")
    mark = recorder.mark()
    complete, _ = recorder.replay(known, lambda: [record_layer(recorder, layer) for layer in layers])
    assert not complete
    recorder.rewind(mark)
    assert len(recorder.layout.taps) == 2
    assert recorder.layout.inputs == {0}
    record_layer(recorder, "after")
    assert recorder.layout.uses[-1].taps == (2, 3)


def test_other_shapes_are_stale() -> None:
    recorder, known = recorded("a")

    def wider() -> list[Tensor]:
        with pytest.raises(StaleLayout):
            record_layer(recorder, "a", width=5)
        raise StaleLayout

    assert recorder.replay(known, wider) == (False, None)


def test_a_repeated_parameter_follows_its_value() -> None:
    """An optimizer may put new values elsewhere in memory: the tap of an earlier call must not be used again."""
    recorder, param = TapRecorder(), torch.nn.Parameter(torch.ones(2))
    mark = recorder.mark()
    recorder.tap((3, 2), param, of_input=False, base=param)
    known = recorder.since(mark)
    recorder.reset()
    moved = torch.nn.Parameter(torch.full((2,), 5.0))
    complete, tap = recorder.replay(known, lambda: recorder.tap((3, 2), moved, of_input=False, base=moved))
    assert complete
    assert tap.tolist() == [[5, 5]] * 3
