"""Calls of a model on two invented examples, to check that examples do not mix.

A run starts with a comparison: what the model computes for two examples must be what it computes for each of them
alone. Whether the run goes on must not depend on what real examples contain, so the comparison uses invented ones:

recorded call  the arguments of the first real batch
two examples   the same arguments, cut to two rows
invented       real numbers replaced by normal, uniform or constant ones; integers may be indices, and stay
comparable     the model runs on them, its outputs are finite, and they are not random

Models that are random (dropout) are compared in evaluation mode. A model that is random even then, or cannot run on
invented examples, is not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map


class Modes:
    """Which modules of a model are in training mode. They may differ, as with fixed batch norms."""

    def __init__(self, model: nn.Module) -> None:
        """Remember the modes as they are now."""
        self._modes = [(module, module.training) for module in model.modules()]

    def restore(self) -> None:
        """Set the modes as they were."""
        for module, mode in self._modes:
            module.training = mode


@dataclass(frozen=True, slots=True)
class ComparableCall:
    """A call on two invented examples, for which the outputs are known.

    Attributes:
        arguments: The positional and keyword arguments.
        output_numbers: Which of the returned tensors have a row for each example.
        outputs: These tensors.
    """

    arguments: Any
    output_numbers: list[int]
    outputs: list[Tensor]

    def example(self, index: int) -> Any:
        """Return the arguments for one of the two examples."""
        return select_rows(self.arguments, 2, slice(index, index + 1))

    def outputs_of(self, result: Any) -> list[Tensor]:
        """Return the tensors with a row for each example, among what the model has returned."""
        tensors = float_tensors(result)
        return [tensors[number] for number in self.output_numbers]


def comparable_calls(
    model: nn.Module, calls: list[Any], size: int | None, used: list[list[int]] | None = None
) -> Iterator[ComparableCall]:
    """Yield a comparable call for each recorded one, where there is one. The model may be left in evaluation mode.

    Args:
        model: The model.
        calls: The arguments of recorded calls.
        size: How many examples the recorded batch had.
        used: For each call, which of its `float_tensors` matter; all, if none is named.
    """
    # With a single example there is nothing that could mix.
    if size is None or size < 2:
        return
    modes = Modes(model)
    for number, call in enumerate(calls):
        wanted = None if used is None or not used[number] else used[number]
        # Two are enough: a model that mixes examples changes the first one's output with the second.
        two_examples = select_rows(call, size, slice(0, 2))
        # Some models take logarithms or roots, and need positive numbers; ones suit nearly all.
        for draw in (torch.randn, torch.rand, torch.ones):
            invented = _invent(two_examples, draw)
            modes.restore()
            outputs = _reproducible_outputs(model, invented)
            if outputs is None:
                model.eval()
                outputs = _reproducible_outputs(model, invented)
            if outputs is None:
                continue  # random in any mode, or it cannot run
            # An output such as a mean over the batch has no row for each example.
            numbers = _per_example_outputs(outputs, _outputs(model, select_rows(invented, 2, slice(0, 1))))
            if wanted is not None:
                # In evaluation mode, a model may return less.
                numbers = [number for number in numbers if number in wanted] or numbers
            expected = [outputs[number] for number in numbers]
            if numbers and all(bool(output.isfinite().all()) for output in expected):
                yield ComparableCall(invented, numbers, expected)
                break


@contextmanager
def isolated(model: nn.Module) -> Iterator[None]:
    """Run a model without disturbing a training run: in full precision, and restoring modes and random state."""
    device = next(model.parameters()).device
    modes = Modes(model)
    fast_path = torch.backends.mha.get_fastpath_enabled()
    try:
        # The fused attention of evaluation mode is another implementation than the one that trains.
        torch.backends.mha.set_fastpath_enabled(False)
        with (
            torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
            torch.autocast(device.type, enabled=False),
            without_tf32(),
        ):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
        modes.restore()


@contextmanager
def without_tf32() -> Iterator[None]:
    """Multiply without TensorFloat32, whose rounding would hide the differences that checks look for."""
    backends: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [backend.allow_tf32 for backend in backends]
    for backend in backends:
        backend.allow_tf32 = False
    try:
        yield
    finally:
        for backend, allowed in zip(backends, before, strict=True):
            backend.allow_tf32 = allowed


def run_call(model: nn.Module, call: Any, seed: int = 0) -> Any:
    """Run a model on a call. Random choices made for the whole batch are the same each time."""
    torch.manual_seed(seed)
    return model(*call[0], **call[1])


def select_rows(batch: Any, size: int | None, rows: slice) -> Any:
    """Return some examples of a batch: these rows of every tensor that has ``size`` rows."""

    def select(value: Any) -> Any:
        return value[rows] if isinstance(value, Tensor) and value.dim() > 0 and len(value) == size else value

    return tree_map(select, batch)


def float_numbers(outputs: Any, leaf_numbers: list[int]) -> list[int]:
    """Return where these leaves of what a model has returned are among its `float_tensors`."""
    leaves = enumerate(tree_leaves(outputs))
    floats = [number for number, leaf in leaves if isinstance(leaf, Tensor) and leaf.is_floating_point()]
    return [position for position, number in enumerate(floats) if number in leaf_numbers]


def float_tensors(outputs: Any) -> list[Tensor]:
    """Return the floating-point tensors among what a model has returned, in order."""
    return [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, Tensor) and leaf.is_floating_point()]


def _invent(call: Any, draw: Callable[..., Tensor]) -> Any:
    """Return a call with invented real numbers, the same ones each time."""
    generator = torch.Generator().manual_seed(0)
    options = {} if draw is torch.ones else {"generator": generator}

    def replacement(value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        # Integers stay: invented indices could exceed a table.
        return draw(value.shape, **options).to(value)

    return tree_map(replacement, call)


def _reproducible_outputs(model: nn.Module, call: Any) -> list[Tensor] | None:
    """Return the model's outputs; None if it cannot run, or if it draws random numbers.

    Whether it draws any shows in the generators' states. Its outputs need not show it: with dropout before weights of
    zero, as in a new LoRA adapter, they are the same for all seeds, and gradients are not.
    """
    with torch.random.fork_rng(devices=_devices(model)):
        torch.manual_seed(0)
        before = _generator_states(model)
        outputs = _outputs(model, call)
        drawn = any(not torch.equal(a, b) for a, b in zip(before, _generator_states(model), strict=True))
    if outputs is None or drawn:
        return None
    # Some draw from other generators than torch's.
    return outputs if all(_are_equal(outputs, _outputs(model, call, seed)) for seed in (1, 2, 3)) else None


def _devices(model: nn.Module) -> list[torch.device]:
    device = next(model.parameters()).device
    return [device] if device.type == "cuda" else []


def _generator_states(model: nn.Module) -> list[Tensor]:
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in _devices(model))]


def _outputs(model: nn.Module, call: Any, seed: int = 0) -> list[Tensor] | None:
    """Return the model's outputs; None if it cannot run."""
    try:
        with torch.no_grad():
            outputs = run_call(model, call, seed)
    except Exception:  # a model may raise anything for invented examples
        return None
    return float_tensors(outputs)


def _are_equal(first: list[Tensor], second: list[Tensor] | None) -> bool:
    return second is not None and all(
        # NaN is not equal to itself, and the same NaN in both is no difference.
        a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num())
        for a, b in zip(first, second, strict=True)
    )


def _per_example_outputs(of_two: list[Tensor], of_one: list[Tensor] | None) -> list[int]:
    """Return which outputs have a row for each example: two rows for two examples, and one for one."""
    if of_one is None or len(of_one) != len(of_two):
        return [number for number, output in enumerate(of_two) if output.dim() and len(output) == 2]
    pairs = zip(of_two, of_one, strict=True)
    return [number for number, (a, b) in enumerate(pairs) if a.dim() and b.dim() and (len(a), len(b)) == (2, 1)]
