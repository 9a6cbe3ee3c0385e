"""Runs a batch again on invented rows, some of which are then replaced: what belongs to the others must not move.

Whether a run is refused here does not depend on the real rows, apart from the ranges of their columns. What mixes
examples on rare contents only is not seen; the guarantee says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten

from hush.errors import Unsupported
from hush.training.watch.held import Attributes, NamedModules, StoredData, differing, held_values
from hush.training.watch.rows import InventedRows, invent
from hush.training.watch.seeds import same_seeds
from hush.training.watch.tape import Tape

_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4}  # relative; half precision keeps 8 to 11 bits
_MAX_SEED = 2**62
_SEEDS_PER_PAIR = 2**20  # more than tensors in a batch


class Rehearsal:
    """A batch that is being recorded, from the loader to its losses.

    A context: what happens within is recorded.
    """

    def __init__(
        self, batch: Any, size: int, key: bytes, num_pairs: int = 1, *, model: nn.Module | None = None
    ) -> None:
        """Take a batch of the loader.

        Args:
            batch: What the loader serves.
            size: How many examples it has.
            key: 32 bytes from which invented rows are drawn.
            num_pairs: How many pairs of invented batches to compare.
            model: The model, whose own calls are run again.
        """
        self._num_pairs = num_pairs
        self._size, self._seed = size, int.from_bytes(key[:8], "big") % _MAX_SEED
        self._tensors = [leaf for leaf in tree_leaves(batch) if _has_rows(leaf, size)]
        # The loop may write to a batch that it gets.
        self._before = [tensor.clone() for tensor in self._tensors]
        self._tape = Tape(self._tensors, model)

    def __enter__(self) -> Rehearsal:
        """Record from now on."""
        self._tape.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Record no more."""
        self.stop()

    def stop(self) -> None:
        """Record no more."""
        self._tape.stop()

    @property
    def has_reads(self) -> bool:
        """Whether the loop has taken numbers out of tensors that depend on the batch."""
        return self._tape.has_reads

    def refuse_mixed_losses(self, losses: Tensor) -> None:
        """Refuse losses that depend on other examples, through the model or through the loop."""
        if self._size < 2 or not self._tensors:
            return
        with torch.autocast(losses.device.type, enabled=False):
            if not any(self._moves(losses, rows) for rows in self._invented(self._before)):
                return
        raise Unsupported(
            "losses: the loss of one example depends on another example, or not on its own",
            "Each loss must be computed from its own row of the batch, in the loader's order. Mixed rows or targets, "
            "weights from the batch's labels, means and maxima over the batch do not do that, even detached",
        )

    def refuse_mixed_calls(self, modules: NamedModules, calls: list[Call]) -> None:
        """Run a model's own code again, and refuse it if an output depends on other examples, or an attribute on data.

        Args:
            modules: The model's modules by name, the model itself first.
            calls: How it was called.
        """
        for call in calls if self._size > 1 else ():
            leaves, structure = tree_flatten(call.arguments)
            batched = [number for number, leaf in enumerate(leaves) if _has_rows(leaf, self._size)]
            run = _run_on(modules[0][1], leaves, structure, batched)
            for rows in self._invented([leaves[number] for number in batched]):
                _compare(modules, run, rows, call.output_numbers, self._seed)

    def _moves(self, losses: Tensor, rows: InventedRows) -> bool:
        """Return whether the losses of the same rows differ between two invented batches."""
        first, second = (self._tape.play(tensors, losses, self._seed) for tensors in (rows.first, rows.second))
        if first is None or second is None or not _moved(first, second, rows.same):
            return False
        again = self._tape.play(rows.first, losses, self._seed)
        return again is not None and not _moved(first, again, rows.same)  # otherwise random without a seed

    def _invented(self, tensors: list[Tensor]) -> Iterator[InventedRows]:
        """Yield pairs of invented batches."""
        for number in range(self._num_pairs):
            seed = self._seed + number * _SEEDS_PER_PAIR
            yield invent(tensors, self._size, seed, crowded=(self._seed + number) % 2 == 0)


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a model.

    Attributes:
        arguments: The positional and keyword arguments.
        output_numbers: Which of the tensors that it returned the losses use.
    """

    arguments: Any
    output_numbers: list[int]


def _run_on(
    model: nn.Module, leaves: list[Any], structure: TreeSpec, batched: list[int]
) -> Callable[[list[Tensor]], Any]:
    """Return a function that calls the model, with tensors in place of the batched ones."""

    def run(tensors: list[Tensor]) -> Any:
        replacements = dict(zip(batched, tensors, strict=True))
        args, kwargs = tree_unflatten([replacements.get(number, leaf) for number, leaf in enumerate(leaves)], structure)
        return model(*args, **kwargs)

    return run


def _compare(
    modules: NamedModules,
    run: Callable[[list[Tensor]], Any],
    rows: InventedRows,
    output_numbers: list[int],
    seed: int,
) -> None:
    """Run the model on both batches, each time from the same state, and refuse it if they tell what they must not."""
    before = Attributes(modules)

    def result(tensors: list[Tensor]) -> tuple[list[Tensor], dict[str, Any]] | None:
        try:
            with same_seeds(seed), torch.no_grad():
                leaves = tree_leaves(run([tensor.clone() for tensor in tensors]))
            return [leaves[number].clone() for number in output_numbers], held_values(modules)
        except Exception:  # a model may raise anything for invented rows
            return None
        finally:
            before.restore()

    first, second = result(rows.first), result(rows.second)
    if first is None or second is None:
        return
    moved = any(_moved(a, b, rows.same) for a, b in zip(first[0], second[0], strict=True))
    stored = differing(first[1], second[1])
    if not moved and not stored:
        return
    again = result(rows.first)
    if again is None:
        return
    random = set(differing(first[1], again[1]))
    if stored := [name for name in stored if name not in random]:
        raise StoredData(
            f"{', '.join(stored)}: the forward pass stores something about the data in these attributes",
            "They stay in the model, and get no noise. Use local variables",
        )
    if moved and any(_moved(a, b, rows.same) for a, b in zip(first[0], again[0], strict=True)):
        raise Unsupported(
            "the model: its outputs differ from run to run, so it cannot be checked what each depends on",
            "Draw random numbers in the forward pass with torch, or with the global generators of NumPy and Python",
        )
    if moved:
        raise Unsupported(
            "the model: its output for one example depends on another example",
            "Does its forward mix rows, or decide something for the whole batch, as any() does?",
        )


def _has_rows(value: Any, size: int) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0 and len(value) == size and value.numel() > 0


def _moved(first: Tensor, second: Tensor, same: Tensor) -> bool:
    """Return whether the rows that are the same differ by more than rounding."""
    if first.shape != second.shape:
        return True
    if first.dim() == 0 or len(first) != len(same):
        return False
    chosen = same.to(first.device)
    a, b = (values[chosen].detach() for values in (first, second))
    if not (a.is_floating_point() or a.is_complex()):
        return not torch.equal(a, b)
    tolerance = _TOLERANCE.get(a.dtype, 0.05)
    sizes = a[a.isfinite()].abs()
    largest = float(sizes.max()) if sizes.numel() else 0.0
    return not torch.allclose(a, b, rtol=tolerance, atol=0.1 * tolerance * largest, equal_nan=True)
