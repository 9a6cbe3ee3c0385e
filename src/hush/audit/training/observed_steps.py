"""Steps of private training as an attacker sees them who knows everything but the noise, and whether one unit is there.

The steps are those of `hush.training.PrivateTraining`: its sampling, its clipping, its noise and its normaliser. Only
the optimizer is replaced, by one that writes down the gradients that it is given and leaves the weights as they are, so
that all observations are of one mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer

from hush.accounting import PldAccountant
from hush.errors import InvalidArgument, Unsupported, check_count, check_instance
from hush.guarantee import Guarantee, Relation
from hush.randomness import RandomSource, source_or_default, uniform_below
from hush.training import Adaptive, Clipping, PrivateTraining, Projected, TrainingPlan, privatize

Floats = NDArray[np.float64]
Loss = Callable[..., Tensor]  # of the model and the columns of a batch: one loss per example

STATISTICS = ("projection", "little noise", "much noise")


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What to audit: a model, data whose first unit is the canary, a loss, and the settings of `hush.privatize`.

    The canary should be the worst case: an example with a large gradient, apart from those of all others or against
    them. The other examples are known to the attacker.

    Attributes:
        model: Makes the model, the same each time.
        dataset: Tensors of one length; the canary is the first unit, and has the first row at least.
        loss: From the model and a batch's columns to one loss per example.
        settings: Everything else that `hush.privatize` is to be given; the number of steps is the audit's.
    """

    model: Callable[[], nn.Module]
    dataset: tuple[Tensor, ...]
    loss: Loss
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what would change from step to step: then observations would not be of one mechanism."""
        for name in ("num_steps", "epochs", "source"):
            if name in self.settings:
                raise InvalidArgument("settings", name, "nothing that the audit decides itself")
        if self.settings.get("schedule") is not None or self.settings.get("correlated") is not None:
            raise Unsupported(
                "an audit of steps that differ: a schedule or correlated noise", "Audit the steps' settings one by one"
            )
        if isinstance(self.settings.get("clipping"), Adaptive):
            raise Unsupported("an audit of steps whose clip norm moves", "Audit Flat clipping at some clip norms")


@dataclass(frozen=True, kw_only=True)
class Observations:
    """What was seen: a row for each observation, a column for each of `STATISTICS`; higher means more like a member.

    Attributes:
        scores_in: Of observations with the canary, [n, 3].
        scores_out: Of observations without it.
        plan: What the run promises.
        steps: How many steps an observation has.
    """

    scores_in: Floats
    scores_out: Floats
    plan: TrainingPlan
    steps: int

    def accountant(self) -> PldAccountant:
        """Return what the plan claims of the steps of one observation."""
        return PldAccountant(relation=self.plan.relation, unit=self.plan.unit).compose(self.plan.event(self.steps))

    def claimed(self, delta: float) -> Guarantee:
        """Return the claim at this delta."""
        return self.accountant().guarantee(delta)


class Recorder(Optimizer):
    """Writes down the gradients that it is given, and leaves the weights as they are.

    Attributes:
        seen: The gradients of all parameters, as one vector for each step.
    """

    def __init__(self, params: Any) -> None:
        """Take the parameters."""
        super().__init__(params, {})
        self.seen: list[Tensor] = []

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Write them down."""
        given = [param.grad for group in self.param_groups for param in group["params"] if param.requires_grad]
        self.seen.append(torch.cat([grad.detach().double().flatten() for grad in given if grad is not None]))


def observe(
    setup: Setup, *, observations: int = 1000, steps: int = 1, runs: int = 1, source: RandomSource | None = None
) -> Observations:
    """Watch the steps of private training with a canary gradient and without it.

    In one run, coins decide for each observation whether the canary takes part; in two, it takes part in all of the
    first and in none of the second. Not taking part means what the plan's relation says: the unit is not there, its
    gradient is zero, or it is another unit, with the opposite gradient. Within an observation of several steps the
    sign of the canary's loss alternates, so that noise which is used twice cancels out.

    Args:
        setup: What to audit.
        observations: How many with the canary, and as many without.
        steps: How many steps each has; for sampling in epochs, those of an epoch.
        runs: One or two.
        source: Where keys and coins come from; for tests, a TestSource.
    """
    check_count("observations", observations)
    check_count("steps", steps)
    if runs not in (1, 2):
        raise InvalidArgument("runs", runs, "1 or 2")
    own = source_or_default(source)
    if runs == 2:
        worlds = [np.ones(observations, dtype=bool), np.zeros(observations, dtype=bool)]
    else:
        order = uniform_below(own, 1 << 62, 2 * observations)
        worlds = [np.argsort(np.argsort(np.asarray(order))) < observations]
    found: dict[bool, list[Floats]] = {True: [], False: []}
    for world in worlds:
        scores, plan = _watched(setup, world, steps, own)
        for bit in (True, False):
            found[bit].append(scores[world == bit])
    return Observations(
        scores_in=np.concatenate(found[True]), scores_out=np.concatenate(found[False]), plan=plan, steps=steps
    )


def _watched(setup: Setup, world: NDArray[np.bool_], steps: int, source: RandomSource) -> tuple[Floats, TrainingPlan]:
    """Return the scores of a run's observations, of which those in ``world`` have the canary."""
    model = setup.model()
    check_instance("model", model, nn.Module)
    rows = torch.arange(len(setup.dataset[0]))
    # The size of physical batches matters to nothing but memory; one for each step keeps the run simple.
    settings = {"physical_batch_size": len(rows) + 1, "delta": 1e-6, **setup.settings}
    recorder = Recorder([param for param in model.parameters() if param.requires_grad])
    private = privatize(
        model, recorder, (*setup.dataset, rows), num_steps=steps * len(world), source=source, **settings
    )
    canary = _rows_of_canary(private)
    direction = _direction(model, setup, canary, private.plan.clipping)
    if private.plan.relation is Relation.ADD_OR_REMOVE:
        _remove(private, canary, world, steps)
    without = {Relation.ADD_OR_REMOVE: 1.0, Relation.ZERO_OUT: 0.0, Relation.REPLACE: -1.0}[private.plan.relation]
    for batch in private.loader:
        *columns, ids = batch
        step = private.steps_taken
        factor = (1.0 if step % steps % 2 == 0 else -1.0) * (1.0 if world[step // steps] else without)
        factors = torch.where(torch.isin(ids, canary), factor, 1.0)
        _take(private, setup.loss, columns, factors)
    private.close()
    return _scores(torch.stack(recorder.seen), direction, private.plan, steps), private.plan


def _take(private: PrivateTraining, loss: Loss, columns: Sequence[Tensor], factors: Tensor) -> None:
    """Take a step."""

    def losses() -> Tensor:
        return loss(private.model, *columns) * factors

    private.step(losses if isinstance(private.plan.contribution, Projected) else losses())


def _rows_of_canary(private: PrivateTraining) -> Tensor:
    rows_by_unit = private._batches.rows_by_unit
    return torch.tensor([0]) if rows_by_unit is None else torch.from_numpy(np.asarray(rows_by_unit[0]))


def _remove(private: PrivateTraining, canary: Tensor, world: NDArray[np.bool_], steps: int) -> None:
    """Leave the first unit out of samples where it is not there; the number of units, which is public, stays."""
    batches = private._batches
    drawn, gone = batches.sample, np.zeros(1, dtype=np.int64)
    if batches.samples_examples:  # examples are sampled, and all of the canary's go
        gone = np.flatnonzero(np.isin(batches.group_examples(), canary.numpy()))

    def sample(step: int) -> NDArray[np.int64]:
        units = drawn(step)
        return units if world[step // steps] else units[~np.isin(units, gone)]

    batches.sample = sample  # type: ignore[method-assign]


def _direction(model: nn.Module, setup: Setup, canary: Tensor, clipping: Clipping) -> Tensor:
    """Return the canary's gradient, clipped as the plan says, found by plain autograd."""
    params = {name: param for name, param in model.named_parameters() if param.requires_grad}
    losses = setup.loss(model, *(column[canary] for column in setup.dataset))
    found = torch.autograd.grad(losses.sum(), list(params.values()), allow_unused=True, materialize_grads=True)
    grads = [grad.double().flatten() for grad in found]
    places, shares = clipping.groups.of({name: param.numel() for name, param in params.items()})
    squares = torch.zeros(len(shares), dtype=torch.float64)
    for place, grad in zip(places, grads, strict=True):
        squares[place] += grad.square().sum()
    targets = torch.tensor(shares, dtype=torch.float64) * clipping.clip_norm
    factors = clipping.factors(squares.sqrt().unsqueeze(1), targets.unsqueeze(1)).squeeze(1)
    if not bool((factors * squares).sum() > 0):  # a way to clip that leaves the canary out: look along it all the same
        factors = torch.ones_like(factors)
    clipped = torch.cat([grad * factors[place] for place, grad in zip(places, grads, strict=True)])
    norm: Tensor = torch.linalg.vector_norm(clipped)
    if not bool(norm > 0) or not bool(torch.isfinite(norm)):
        raise InvalidArgument("dataset", "the first unit", "a canary whose gradient is finite and not zero")
    direction: Tensor = clipped / norm
    return direction


def _scores(seen: Tensor, direction: Tensor, plan: TrainingPlan, steps: int) -> Floats:
    """Return the statistics of every observation: the projection, in clip norms, and the size of all the rest."""
    seen = seen * (plan.divisor(0) / plan.clipping.clip_norm)
    along = seen @ direction
    rest = (seen - along.unsqueeze(1) * direction).square().sum(1)
    signs = torch.tensor([1.0 if step % 2 == 0 else -1.0 for step in range(steps)], dtype=torch.float64)
    projection = (along.view(-1, steps) * signs).sum(1)
    size = rest.view(-1, steps).sum(1)
    return torch.stack([projection, -size, size], 1).numpy()
