"""`hush.privatize`: turns a model, an optimizer and data into a private training run.

`privatize` makes the plan from your arguments. `start_training` takes an existing plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.optim import Optimizer

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument
from hush.guarantee import Relation, Unit, UnitKind
from hush.randomness import RandomSource
from hush.training.loop.session import PrivateTraining
from hush.training.loop.update import Ball
from hush.training.noise.correlated_noise import CorrelatedNoise
from hush.training.plan.clipping import Clipping, Flat
from hush.training.plan.completion import make_plan
from hush.training.plan.contributions import Contribution, PerExample
from hush.training.plan.loader import fetcher, refuse_repeated_records
from hush.training.plan.public_phase import PublicPhase
from hush.training.plan.samplers import Sampling
from hush.training.plan.schedule import Schedule
from hush.training.plan.training_plan import TrainingPlan
from hush.training.plan.units import UnitArgument, UserGroups, Users, as_users, refuse_repeated_ids


def privatize(
    model: nn.Module,
    optimizer: Optimizer | Sequence[Optimizer],
    data: Any,
    *,
    delta: float,
    clip_norm: float | None = None,
    clipping: Clipping | None = None,
    batch_size: int | None = None,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    epochs: float | None = None,
    num_steps: int | None = None,
    physical_batch_size: int | None = None,
    max_batch_size: int | None = None,
    sampling: Sampling | None = None,
    contribution: Contribution | None = None,
    schedule: Schedule | None = None,
    correlated: CorrelatedNoise | None = None,
    projection: Ball | None = None,
    relation: Relation | None = None,
    unit: UnitArgument | None = None,
    starts_from: PublicPhase | None = None,
    compile: bool | str | None = None,  # noqa: A002
    memory_limit: int | None = None,
    source: RandomSource | None = None,
    budget: Budget | None = None,
) -> PrivateTraining:
    """Prepare a model for private training. An ordinary training loop needs three more lines.

    Args:
        model: Any module that treats the examples of a batch, in the first dimension, independently. It stays yours.
        optimizer: Any of torch's optimizers over the model's parameters, or several.
        data: Tensors of the same length (as a tuple, or a TensorDataset), a mapping of columns, or a Dataset with a
            length.
        delta: The delta of the guarantee; less than 1 over the number of examples.
        clip_norm: The norm to which each per-example gradient is clipped. By default 1.
        clipping: Another kind of clipping, such as ``Automatic()`` or ``Flat(groups=PerLayer())``, instead of
            ``clip_norm``.
        batch_size: The expected number of examples in a batch. By default, every batch has all of them (DP-GD).
        epsilon: The epsilon of the whole run; the noise is calibrated to it.
        noise_multiplier: The noise, instead of epsilon. With both, the run ends before it would exceed epsilon.
        epochs: How many times an example is seen, on average.
        num_steps: The number of steps, instead of epochs.
        physical_batch_size: The number of examples that go through the model at once. It affects memory and speed only.
        max_batch_size: The largest number of examples in a step, so that all steps have the same shape. A larger sample
            is cut to a random part of this size, which the event accounts for: the cost is negligible if the limit is
            at least five standard deviations above ``batch_size``. By default, a large sample takes another physical
            batch.
        sampling: How batches are drawn, instead of ``batch_size``: such as ``BallsInBins(512)`` or ``InOrder(512)``.
        contribution: What is clipped instead of each example's own gradient, such as ``Augmented(8)``.
        schedule: How noise, clip norm and batch size change over the steps.
        correlated: How noise is correlated over the steps, such as ``BufferedToeplitz()`` with ``InOrder(512)``.
        projection: A ball that the weights are projected onto after every step.
        relation: The neighbouring relation. By default, the first one that the sampling is proven for.
        unit: The privacy unit. By default an example. For users, pass the name of a column with ids, an array of ids,
            or `Users` or `UserGroups` with more options. A `Unit` names what one example stands for.
        starts_from: The public phase that the weights come from, as `pretrain` returns it. It costs nothing.
        compile: Whether to use torch.compile for the model and the clipping, or a backend for it. By default, on GPUs
            only. The results are the same up to rounding.
        memory_limit: How many bytes the per-example gradients of one parameter may take. Larger ones are computed in
            parts, and twice. By default, an eighth of the device's memory.
        source: The random source of the secret key; for tests, a TestSource.
        budget: The budget to charge, such as a ledger's. The cost of the whole plan is
            reserved now; the actual cost is committed at the last step, or by ``private.close()``. To be able to resume
            an interrupted run, give it a name: ``patients.for_run("second try")``.

    Returns:
        The run: ``private.model``, ``private.loader``, ``private.step(losses)``, ``private.guarantee()``.

    >>> import torch
    >>> from torch import nn
    >>> from torch.nn import functional as F
    >>> x, y = torch.randn(200, 4), torch.randint(0, 2, (200,))
    >>> model = nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    >>> private = privatize(model, optimizer, (x, y), epsilon=3.0, delta=1e-5, epochs=2, batch_size=50)
    >>> for x, y in private.loader:
    ...     losses = F.cross_entropy(private.model(x), y, reduction="none")
    ...     step = private.step(losses)
    >>> round(private.guarantee().epsilon, 3)
    3.0
    """
    users = as_users(unit)
    if unit is None or (isinstance(unit, Unit) and unit.kind is not UnitKind.EXAMPLE):
        refuse_repeated_ids(data)
    if users is None:
        refuse_repeated_records(data)
    unit_settings: dict[str, Any] = {"unit": Unit.example() if unit is None else unit}
    if users is not None:
        unit_settings = {"unit": users.unit, "labelled": True, _rows_field(users): users.rows_per_unit}
    plan = make_plan(
        num_units=_count_units(data, users),
        delta=delta,
        clipping=_complete_clipping(clip_norm, clipping),
        sampling=sampling,
        batch_size=batch_size,
        max_batch_size=max_batch_size,
        epsilon=epsilon,
        noise_multiplier=noise_multiplier,
        epochs=epochs,
        num_steps=num_steps,
        physical_batch_size=physical_batch_size,
        contribution=PerExample() if contribution is None else contribution,
        schedule=schedule,
        correlated=correlated,
        relation=relation,
        starts_from=starts_from,
        **unit_settings,
    )
    return PrivateTraining(
        model,
        optimizer,
        data,
        plan,
        users=users,
        projection=projection,
        compile=compile,
        memory_limit=memory_limit,
        source=source,
        budget=budget,
    )


def start_training(
    plan: TrainingPlan,
    model: nn.Module,
    optimizer: Optimizer | Sequence[Optimizer],
    data: Any,
    *,
    users: Users | None = None,
    projection: Ball | None = None,
    source: RandomSource | None = None,
) -> PrivateTraining:
    """Start a private training under an existing plan.

    `privatize` makes the plan itself. Use this function if you need the plan beforehand, to state its guarantee or
    reserve its cost: a single object then determines both the noise and the guarantee.

    Args:
        plan: The plan. ``private.plan`` is this very object.
        model: Any module that treats the examples of a batch, in the first dimension, independently.
        optimizer: Any of torch's optimizers over the model's parameters, or several.
        data: Tensors of the same length (as a tuple, or a TensorDataset), or a Dataset with a length.
        users: The user of each example; None if each example is its own unit.
        projection: A ball that the weights are projected onto after every step.
        source: The random source of the secret key; for tests, a TestSource.

    Returns:
        The run, as `privatize` returns it.

    >>> import torch
    >>> from hush.training import Flat, Poisson
    >>> plan = TrainingPlan(
    ...     sampling=Poisson(50), num_units=200, num_steps=4, clipping=Flat(1.0), noise_multiplier=1.0, delta=1e-5,
    ...     physical_batch_size=100,
    ... )
    >>> model = nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    >>> private = start_training(plan, model, optimizer, (torch.randn(200, 4), torch.randint(0, 2, (200,))))
    >>> private.plan is plan
    True
    """
    if users is None:
        refuse_repeated_records(data)
    expected: dict[str, Any] = {"num_units": _count_units(data, users), "labelled": users is not None}
    if users is not None:
        expected |= {"unit": users.unit, _rows_field(users): users.rows_per_unit}
    for name, value in expected.items():
        if getattr(plan, name) != value:
            raise InvalidArgument(
                name, getattr(plan, name), "the value for this data and its users", "The plan is for other data"
            )
    return PrivateTraining(model, optimizer, data, plan, users=users, projection=projection, source=source)


def _complete_clipping(clip_norm: float | None, clipping: Clipping | None) -> Clipping:
    if clipping is None:
        return Flat(1.0 if clip_norm is None else clip_norm)
    if clip_norm is not None:
        raise InvalidArgument(
            "clip_norm", clip_norm, "no value, since the clipping sets it", "Give clip_norm or clipping, not both"
        )
    return clipping


def _count_units(data: Any, users: Users | None) -> int:
    """Return the number of units to sample from: examples, users, or the examples of users that take part."""
    num_examples: int = fetcher(data)[0]
    if users is None:
        return num_examples
    row_counts = [len(rows) for rows in users.rows(data, num_examples)]
    if isinstance(users, UserGroups):
        return sum(min(count, users.rows_per_unit) for count in row_counts)
    return len(row_counts)


def _rows_field(users: Users) -> str:
    """Return the field of a plan that bounds the number of a user's examples."""
    return "group_size" if isinstance(users, UserGroups) else "rows_per_unit"
