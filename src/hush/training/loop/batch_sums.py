"""Computes the clipped sum of a physical batch from its losses, with the checks that it relies on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hush.errors import InvalidArgument
from hush.training.per_example.buffers import BufferWatch
from hush.training.per_example.checks import check_batch, check_calls, check_outputs, used_calls
from hush.training.per_example.clipped_sum import ClippedSum
from hush.training.per_example.engine import GradientEngine
from hush.training.per_example.invented_calls import isolated
from hush.training.per_example.projected_clipping import ProjectedClipping
from hush.training.plan.clipping import Clipping
from hush.training.plan.contributions import Projected
from hush.training.plan.loader import PhysicalBatch, to_device
from hush.training.plan.training_plan import TrainingPlan
from hush.training.watch.loss_graphs import kind_of, refuse_outside_parameters, refuse_scaled
from hush.training.watch.rehearsal import Call, Rehearsal

_FIRST_PAIRS = 2  # of invented batches, at the first batch of a run
_MAX_KINDS = 32  # of losses, all of which are checked; of more, only the 64th, the 128th and so on


class BatchSums:
    """The clipped sums of physical batches: by the gradients' own norms, or by projected ones for `Projected`.

    Attributes:
        engine: The gradient engine that is attached to the model.
        has_reads: Whether a loop was seen to take numbers out of tensors, where checks do not follow them.
        looks_back: Whether what is being checked may have been the same in earlier batches, which were not checked.
    """

    def __init__(
        self,
        model: nn.Module,
        plan: TrainingPlan,
        *,
        compile: bool | str | None,  # noqa: A002
        memory_limit: int | None,
        projection_key: Callable[[], bytes],
    ) -> None:
        """Attach to the model.

        Args:
            model: The model.
            plan: The plan of the run.
            compile: Whether to compile, or a backend; see `privatize`.
            memory_limit: How many bytes the per-example gradients of one parameter may take.
            projection_key: Returns the key of random projections, for `Projected`.
        """
        self._model, self._plan, self._projection_key = model, plan, projection_key
        self.engine = GradientEngine(model, backend=_backend(model, compile), memory=memory_limit, replay=True)
        self._checked: set[Any] = set()  # signatures of batches that were compared with a plain loop
        self._loss_kinds: set[Any] = set()
        # Whether batches have passed with fewer checks: what is found later may have been the same in them.
        self._has_uncompared = self._has_unrehearsed = False
        self._rehearsal: Rehearsal | None = None
        self.looks_back = self.has_reads = False
        self._seed = 0  # of the checks of this batch
        self._held = BufferWatch(model)
        self._projected: ProjectedClipping | None = None
        if isinstance(plan.contribution, Projected):
            # Attaching has refused models that cannot be private. Projections run the model as it is.
            self.engine.detach()

    def begin(self, batch: PhysicalBatch, fetched: Any = None, key: bytes | None = None) -> AbstractContextManager[Any]:
        """Prepare for the forward pass of a batch, and return a context for the time that the loop has it.

        Args:
            batch: The batch.
            fetched: What the loop gets.
            key: 32 secret bytes, if the batch is to be checked.
        """
        # The first batch is looked at most closely: nothing has been released yet.
        pairs = 1 if self._checked else _FIRST_PAIRS
        self._rehearsal = None if key is None else Rehearsal(fetched, len(batch.indices), key, pairs, model=self._model)
        self._seed = 0 if key is None else int.from_bytes(key[8:14], "big")
        if isinstance(self._plan.contribution, Projected):
            self._held.start_held()
        else:
            self.engine.compare_contents(on=key is not None)
            self.engine.begin(len(batch.indices))
            if key is not None:
                self.engine.run_eagerly()
        return nullcontext() if self._rehearsal is None else self._rehearsal

    def refuse_stored(self) -> None:
        """Refuse a model that has changed since the batch was served."""
        if isinstance(self._plan.contribution, Projected):
            self._held.refuse_held()
        else:
            self.engine.refuse_changed_buffers()

    def end(self) -> None:
        """Forget the batch."""
        self.engine.end()
        if self._rehearsal is not None:
            self._rehearsal.stop()
            self.has_reads |= self._rehearsal.has_reads
        self._rehearsal = None

    def detach(self) -> None:
        """Give the model its ordinary forward back."""
        self.engine.detach()
        self.engine.end()

    def resume(self, steps_taken: int) -> None:
        """Continue a run whose earlier steps were taken elsewhere, with checks that nobody here knows.

        Args:
            steps_taken: How many steps were taken.
        """
        self._has_uncompared = self._has_unrehearsed = steps_taken > 0
        self._projected = None  # the keys of projections have changed

    def __call__(self, losses: Any, batch: PhysicalBatch, clipping: Clipping, *, step: int) -> ClippedSum:
        """Return the clipped sum of a batch.

        Args:
            losses: One loss per example; for `Projected`, a function that runs the model and returns them.
            batch: The batch.
            clipping: The clipping of this step.
            step: The number of the step.
        """
        if isinstance(self._plan.contribution, Projected):
            return self._projected_sum(losses, batch, clipping, step)
        return self._exact_sum(losses, batch, clipping, step)

    def _projected_sum(self, losses: Any, batch: PhysicalBatch, clipping: Clipping, step: int) -> ClippedSum:
        """Return the sum of a batch, clipped by projected norms."""
        contribution = self._plan.contribution
        assert isinstance(contribution, Projected)
        if isinstance(losses, Tensor) or not callable(losses):
            raise InvalidArgument(
                "losses",
                type(losses).__name__,
                "a function that computes them",
                "Projections run the model several times: private.step(lambda: loss(private.model(x), y))",
            )
        if self._projected is None:
            key = self._projection_key()
            self._projected = ProjectedClipping(self._model, projections=contribution.projections, key=key)
        if self._rehearsal is not None:
            self.looks_back = step > 0
            self._check_projected(losses, len(batch.weights), self._projected, self._rehearsal)
            self.looks_back = False
        total = self._projected(
            losses,
            clip_norm=clipping.clip_norm,
            weights=to_device(batch.weights, next(self._model.parameters()).device),
            step=step,
            num_summed=self._num_summed(step),
        )
        self._held.refuse_held()
        return total

    def _check_projected(self, losses: Any, size: int, projected: ProjectedClipping, rehearsal: Rehearsal) -> None:
        """Check a batch whose losses are computed by a function, which is run once more for that."""
        state = _generator_states()
        values = losses()
        rehearsal.stop()
        _restore_generators(state)  # the run itself draws what it would have drawn
        if isinstance(values, Tensor) and values.shape == (size,) and values.requires_grad:
            self._held.refuse_held()
            refuse_outside_parameters(values, self._model)
            refuse_scaled(values)
            rehearsal.refuse_mixed_losses(values)
        projected.refuse_coupled(losses, size)
        check_outputs(self._model, projected.calls, size)
        with isolated(self._model):
            calls = [Call(arguments, []) for arguments in projected.calls]
            rehearsal.refuse_mixed_calls(list(self._model.named_modules()), calls)

    def _exact_sum(self, losses: Any, batch: PhysicalBatch, clipping: Clipping, step: int) -> ClippedSum:
        """Return the clipped sum of a batch, from one backward pass."""
        contribution = self._plan.contribution
        if self._rehearsal is not None:
            self._rehearsal.stop()
        self.engine.refuse_changed_buffers()
        self._check(losses, step)
        rows = len(batch.real) // len(batch.weights)
        row_weights = None
        if rows > 1:
            # Copies and micro-batches are averaged; a user's examples are summed. Padding counts nothing.
            averaged = batch.real.astype(np.float32) / (contribution.copies * contribution.examples)
            row_weights = to_device(averaged, losses.device)
        self.engine.backward(losses, weights=row_weights)
        weights = to_device(batch.weights, losses.device)
        return self.engine.clipped_sum(clipping, weights, num_summed=self._num_summed(step), rows=rows)

    def _check(self, losses: Any, step: int) -> None:
        """Check a batch of a new kind, and those whose time has come.

        A finding leaves the guarantee of earlier steps alone only if each of their batches passed the same check, in
        full. A batch of the same kind may have been another one: its kind is the names of a few operations.
        """
        signature, rehearsal = self.engine.signature(), self._rehearsal
        is_new, is_first = self._is_of_new_kind(losses), not self._checked
        is_new = is_new or signature not in self._checked
        self.looks_back = step > 0 and self._has_uncompared
        if is_new or rehearsal is not None:
            # All pairs are told apart in a new kind of batch, and a random half from the rest in others.
            check_batch(self.engine, losses, seed=self._seed, num_halves=0 if is_new else 1)
        calls = used_calls(self.engine, losses) if rehearsal is not None or is_first else []
        if is_first:
            check_calls(self.engine, calls)
        self._checked.add(signature)
        self.looks_back = step > 0 and self._has_unrehearsed
        if rehearsal is not None:
            rehearsal.refuse_mixed_losses(losses)
            with isolated(self._model), self.engine.suspended():
                rehearsal.refuse_mixed_calls(list(self._model.named_modules()), calls)
        self.looks_back = False
        self._has_uncompared |= not is_new
        self._has_unrehearsed |= rehearsal is None

    def _is_of_new_kind(self, losses: Any) -> bool:
        """Return whether the losses are computed by other operations than before."""
        # A tape changes the names of some operations, so kinds are compared with those of the same sort only.
        kind = (self._rehearsal is None, kind_of(losses) if isinstance(losses, Tensor) else ())
        if kind in self._loss_kinds:
            return False
        self._loss_kinds.add(kind)
        count = len(self._loss_kinds)
        return count <= _MAX_KINDS or (count & (count - 1)) == 0

    def _num_summed(self, step: int) -> int:
        """Return a number of contributions that a step exceeds with a probability below 1e-50, to check rounding."""
        plan, batch_size = self._plan, self._plan.setting(step)[1]
        count = plan.sampling.count(step, plan.num_units, batch_size)
        # For a Poisson sample of expectation m, Chernoff's bound on P(more than 2 m + 100) is exp(-m h(1 + 100 / m)),
        # h(a) = (1 + a) log(1 + a) - a, whose exponent is at least 125 for all m.
        return 2 * batch_size + 100 if count is None else count


def _generator_states() -> list[Tensor]:
    return [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]


def _restore_generators(states: list[Tensor]) -> None:
    torch.set_rng_state(states[0])
    for device, state in enumerate(states[1:]):
        torch.cuda.set_rng_state(state, device)


def _backend(model: nn.Module, compile: bool | str | None) -> str | None:  # noqa: A002
    """Return the backend of torch.compile to use, or None to run without it. By default, compile on GPUs only."""
    if isinstance(compile, str) and compile not in torch.compiler.list_backends(exclude_tags=()):
        raise InvalidArgument("compile", compile, "True, False or a backend", *torch.compiler.list_backends())
    if compile is None:
        compile = next(model.parameters()).is_cuda  # noqa: A001
    return "inductor" if compile is True else compile or None
