"""Computes the clipped sum of a physical batch from its losses, with the checks that it relies on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hush.errors import InvalidArgument
from hush.training.per_example.checks import check_batch, check_calls, check_outputs
from hush.training.per_example.clipped_sum import ClippedSum
from hush.training.per_example.engine import GradientEngine
from hush.training.per_example.projected_clipping import ProjectedClipping
from hush.training.plan.clipping import Clipping
from hush.training.plan.contributions import Projected
from hush.training.plan.loader import PhysicalBatch, to_device
from hush.training.plan.training_plan import TrainingPlan


class BatchSums:
    """The clipped sums of physical batches: by the gradients' own norms, or by projected ones for `Projected`.

    Attributes:
        engine: The gradient engine that is attached to the model.
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
        self._projected: ProjectedClipping | None = None
        if isinstance(plan.contribution, Projected):
            # Attaching has refused models that cannot be private. Projections run the model as it is.
            self.engine.detach()

    def begin(self, batch: PhysicalBatch) -> None:
        """Prepare for the forward pass of a batch."""
        if not isinstance(self._plan.contribution, Projected):
            self.engine.begin(len(batch.indices))

    def end(self) -> None:
        """Forget the batch."""
        self.engine.end()

    def detach(self) -> None:
        """Give the model its ordinary forward back."""
        self.engine.detach()
        self.engine.end()

    def forget_projections(self) -> None:
        """Draw new projections for the next batch, because the keys have changed."""
        self._projected = None

    def __call__(self, losses: Any, batch: PhysicalBatch, clipping: Clipping, *, step: int) -> ClippedSum:
        """Return the clipped sum of a batch.

        Args:
            losses: One loss per example; for `Projected`, a function that runs the model and returns them.
            batch: The batch.
            clipping: The clipping of this step.
            step: The number of the step.
        """
        # A recurring check is due in the first batch of steps 0, 1, 2, 4, 8 and so on: log2(T) of T steps are checked.
        is_check_step = batch.position == 0 and (step & (step - 1)) == 0
        if isinstance(self._plan.contribution, Projected):
            return self._projected_sum(losses, batch, clipping, step, is_check_step)
        return self._exact_sum(losses, batch, clipping, step, is_check_step)

    def _projected_sum(
        self, losses: Any, batch: PhysicalBatch, clipping: Clipping, step: int, is_check_step: bool
    ) -> ClippedSum:
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
        if is_check_step:
            self._projected.refuse_coupled(losses, len(batch.weights))
            check_outputs(self._model, self._projected.calls, len(batch.weights))
        return self._projected(
            losses,
            clip_norm=clipping.clip_norm,
            weights=to_device(batch.weights, next(self._model.parameters()).device),
            step=step,
            num_summed=self._num_summed(step),
        )

    def _exact_sum(
        self, losses: Any, batch: PhysicalBatch, clipping: Clipping, step: int, is_check_step: bool
    ) -> ClippedSum:
        """Return the clipped sum of a batch, from one backward pass."""
        contribution = self._plan.contribution
        self.engine.refuse_changed_buffers()
        if self._must_check(is_check_step):
            check_batch(self.engine, losses)
            if not self._checked:
                check_calls(self.engine)
            self._checked.add(self.engine.signature())
            self.engine.trust_buffer_contents()
        rows = len(batch.real) // len(batch.weights)
        row_weights = None
        if rows > 1:
            # Copies and micro-batches are averaged; a user's examples are summed. Padding counts nothing.
            averaged = batch.real.astype(np.float32) / (contribution.copies * contribution.examples)
            row_weights = to_device(averaged, losses.device)
        self.engine.backward(losses, weights=row_weights)
        weights = to_device(batch.weights, losses.device)
        return self.engine.clipped_sum(clipping, weights, num_summed=self._num_summed(step), rows=rows)

    def _must_check(self, is_check_step: bool) -> bool:
        """Return whether to compare this batch with a plain loop.

        That is, if its shapes are new; and, unless the model is compiled, in some later steps, as a loss may change.
        """
        is_recurring = self.engine.backend is None and is_check_step
        return is_recurring or self.engine.signature() not in self._checked

    def _num_summed(self, step: int) -> int:
        """Return a number of contributions that a step exceeds with a probability below 1e-50, to check rounding."""
        plan, batch_size = self._plan, self._plan.setting(step)[1]
        count = plan.sampling.count(step, plan.num_units, batch_size)
        # For a Poisson sample of expectation m, Chernoff's bound on P(more than 2 m + 100) is exp(-m h(1 + 100 / m)),
        # h(a) = (1 + a) log(1 + a) - a, whose exponent is at least 125 for all m.
        return 2 * batch_size + 100 if count is None else count


def _backend(model: nn.Module, compile: bool | str | None) -> str | None:  # noqa: A002
    """Return the backend of torch.compile to use, or None to run without it. By default, compile on GPUs only."""
    if isinstance(compile, str) and compile not in torch.compiler.list_backends(exclude_tags=()):
        raise InvalidArgument("compile", compile, "True, False or a backend", *torch.compiler.list_backends())
    if compile is None:
        compile = next(model.parameters()).is_cuda  # noqa: A001
    return "inductor" if compile is True else compile or None
