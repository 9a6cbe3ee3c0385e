"""Watch the steps of private training, as an attacker who knows everything except the noise and the canary's presence.

The steps are those of `hush.training.PrivateTraining`, with its sampling, clipping, noise and divisor. Only the
optimizer is replaced, by a `Recorder` that stores the noisy gradients and leaves the weights unchanged. So all
observations are outputs of one mechanism:

    Setup         model, data with a canary as its first unit, loss, and settings of `hush.privatize`
    observe       runs the steps, with the canary in a random half of them
    noisy sums    one vector for each step, from the recorder
    Observations  three scores for each observation, with and without the canary
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer

from hush.accounting import PldAccountant
from hush.audit.training.setup import CANARY, Loss, Setup, canary_direction
from hush.errors import InvalidArgument, check_count, check_instance
from hush.guarantee import Guarantee, Relation
from hush.randomness import RandomSource, source_or_default, uniform_below
from hush.training import PrivateTraining, Projected, TrainingPlan, leave_out_unit, privatize, unit_rows

Floats = NDArray[np.float64]

# The scores of an observation: the gradient along the canary, and the size of the rest with either sign.
STATISTICS = ("projection", "little noise", "much noise")


@dataclass(frozen=True, kw_only=True)
class Observations:
    """The scores of observed steps, from `observe`.

    Each observation has three scores: the projection of the noisy gradient onto the canary's gradient, in units of the
    clip norm, and the squared norm of the rest, once negated. Higher means that the canary was more likely present.

    >>> import torch
    >>> from torch import nn
    >>> from hush.randomness import TestSource
    >>> setup = Setup(
    ...     model=lambda: nn.Linear(4, 1, bias=False),
    ...     data=(10 * torch.eye(4),),
    ...     loss=lambda model, x: model(x).squeeze(1),
    ...     settings={"noise_multiplier": 1.0, "clip_norm": 1.0},
    ... )
    >>> observations = observe(setup, observations=5, source=TestSource(1))
    >>> observations.scores_in.shape, round(observations.claimed(1e-5).epsilon, 3)
    ((5, 3), 4.377)

    Attributes:
        scores_in: Scores of observations with the canary, [n, 3].
        scores_out: Scores of observations without it, [n, 3].
        plan: The plan of the run, which states the claim.
        num_steps: The number of steps in each observation.
    """

    scores_in: Floats
    scores_out: Floats
    plan: TrainingPlan
    num_steps: int

    def accountant(self) -> PldAccountant:
        """Return an accountant with the plan's event for the steps of one observation."""
        return PldAccountant(relation=self.plan.relation, unit=self.plan.unit).compose(self.plan.event(self.num_steps))

    def claimed(self, delta: float) -> Guarantee:
        """Return the plan's guarantee for the steps of one observation at ``delta``."""
        return self.accountant().guarantee(delta)


class Recorder(Optimizer):
    """An optimizer that records gradients and leaves the weights unchanged.

    Attributes:
        recorded: The gradients of all parameters, concatenated, one vector for each step.
    """

    def __init__(self, params: Any) -> None:
        """Take the parameters."""
        super().__init__(params, {})
        self.recorded: list[Tensor] = []

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Record the gradients."""
        grads = [param.grad for group in self.param_groups for param in group["params"] if param.requires_grad]
        self.recorded.append(torch.cat([grad.detach().double().flatten() for grad in grads if grad is not None]))


def observe(
    setup: Setup, *, observations: int = 1000, num_steps: int = 1, runs: int = 1, source: RandomSource | None = None
) -> Observations:
    """Watch the steps of private training with and without a canary.

    In one run, the canary takes part in a random half of the observations. In two runs, it takes part in all of the
    first and in none of the second. Its absence follows the plan's neighbouring relation: the unit is missing, its
    gradient is zero, or it is replaced by a unit with the opposite gradient. Within an observation of several steps,
    the sign of the canary's loss alternates, so that noise that is used twice cancels and reveals the canary.

    Args:
        setup: The training to audit.
        observations: The number of observations with the canary, and again without it.
        num_steps: The number of steps in each observation. For sampling in epochs, use the steps of an epoch.
        runs: One or two.
        source: The source of keys and coins. Pass a TestSource in tests only.

    Returns:
        The scores with and without the canary.
    """
    check_count("observations", observations)
    check_count("num_steps", num_steps)
    if runs not in (1, 2):
        raise InvalidArgument("runs", runs, "1 or 2")
    source = source_or_default(source)
    if runs == 2:
        presence_by_run = [np.ones(observations, dtype=bool), np.zeros(observations, dtype=bool)]
    else:
        sort_keys = uniform_below(source, 1 << 62, 2 * observations)
        ranks = np.argsort(np.argsort(np.asarray(sort_keys)))
        presence_by_run = [ranks < observations]
    scores_in: list[Floats] = []
    scores_out: list[Floats] = []
    for present in presence_by_run:
        scores, plan = _watch_run(setup, present, num_steps, source)
        scores_in.append(scores[present])
        scores_out.append(scores[~present])
    return Observations(
        scores_in=np.concatenate(scores_in), scores_out=np.concatenate(scores_out), plan=plan, num_steps=num_steps
    )


def _watch_run(
    setup: Setup, present: NDArray[np.bool_], num_steps: int, source: RandomSource
) -> tuple[Floats, TrainingPlan]:
    """Return the scores of a run's observations. The canary takes part in those where ``present`` is true."""
    model = setup.model()
    check_instance("model", model, nn.Module)
    rows = torch.arange(len(setup.data[0]))
    # The size of physical batches affects memory only; one batch for each step keeps the run simple.
    settings = {"physical_batch_size": len(rows) + 1, "delta": 1e-6, **setup.settings}
    recorder = Recorder([param for param in model.parameters() if param.requires_grad])
    private = privatize(
        model, recorder, (*setup.data, rows), num_steps=num_steps * len(present), source=source, **settings
    )
    canary = torch.from_numpy(unit_rows(private, CANARY))
    direction = canary_direction(model, setup, canary, private.plan.clipping)
    if private.plan.relation is Relation.ADD_OR_REMOVE:
        leave_out_unit(private, CANARY, lambda step: not present[step // num_steps])
    # The factor of the canary's loss in observations without it. A removed unit is not in the batch at all.
    absent_factor = {Relation.ADD_OR_REMOVE: 1.0, Relation.ZERO_OUT: 0.0, Relation.REPLACE: -1.0}[private.plan.relation]
    for batch in private.loader:
        *columns, ids = batch
        step = private.steps_taken
        sign = 1.0 if step % num_steps % 2 == 0 else -1.0
        factor = sign * (1.0 if present[step // num_steps] else absent_factor)
        factors = torch.where(torch.isin(ids, canary), factor, 1.0)
        _take_step(private, setup.loss, columns, factors)
    private.close()
    return _scores(torch.stack(recorder.recorded), direction, private.plan, num_steps), private.plan


def _take_step(private: PrivateTraining, loss: Loss, columns: Sequence[Tensor], factors: Tensor) -> None:

    def losses() -> Tensor:
        return loss(private.model, *columns) * factors

    private.step(losses if isinstance(private.plan.contribution, Projected) else losses())


def _scores(gradients: Tensor, direction: Tensor, plan: TrainingPlan, num_steps: int) -> Floats:
    """Return the scores of every observation: the projection, in clip norms, and the size of the rest."""
    # Undo the division by the batch size, and measure in clip norms: the canary contributes 1 at most.
    gradients = gradients * (plan.divisor(0) / plan.clipping.clip_norm)
    along = gradients @ direction
    rest = (gradients - along.unsqueeze(1) * direction).square().sum(1)
    signs = torch.tensor([1.0 if step % 2 == 0 else -1.0 for step in range(num_steps)], dtype=torch.float64)
    projection = (along.view(-1, num_steps) * signs).sum(1)
    size = rest.view(-1, num_steps).sum(1)
    return torch.stack([projection, -size, size], 1).numpy()
