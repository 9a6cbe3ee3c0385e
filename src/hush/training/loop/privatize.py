"""`hush.privatize`: from what a caller says to a run."""

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
from hush.training.noise.correlated import CorrelatedNoise
from hush.training.plan.clipping import Clipping, Flat
from hush.training.plan.contributions import Contribution, PerExample
from hush.training.plan.loader import fetcher
from hush.training.plan.phases import PublicPhase
from hush.training.plan.plan import make_plan
from hush.training.plan.samplers import Sampling
from hush.training.plan.schedule import Schedule
from hush.training.plan.units import UserGroups, as_users, refuse_repeated_ids


def _clipping(clip_norm: float | None, clipping: Clipping | None) -> Clipping:
    if clipping is None:
        return Flat(1.0 if clip_norm is None else clip_norm)
    if clip_norm is not None:
        raise InvalidArgument("clip_norm", clip_norm, "nothing, beside clipping=...", "It has a clip norm of its own")
    return clipping


def privatize(
    model: nn.Module,
    optimizer: Optimizer | Sequence[Optimizer],
    dataset: Any,
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
    unit: Any = None,
    starts_from: PublicPhase | None = None,
    compile: bool | str | None = None,  # noqa: A002
    memory_limit: int | None = None,
    source: RandomSource | None = None,
    budget: Budget | None = None,
) -> PrivateTraining:
    """Prepare a model for private training: three lines more in an ordinary loop.

    Args:
        model: Any module that treats examples, in the first dimension, one by one. It stays the caller's own.
        optimizer: Any of torch's over the model's parameters, or several.
        dataset: Tensors of one length (as a tuple, or a TensorDataset), or a Dataset with a length.
        delta: The delta of the guarantee; less than one over the number of examples.
        clip_norm: To what norm each example's gradient is clipped; 1, if nothing is said.
        clipping: Or how it is clipped, such as ``Automatic()`` or ``Flat(groups=PerLayer())``.
        batch_size: How many examples are in a batch on average; without it, all are in every batch (DP-GD).
        epsilon: What the whole run may cost; the noise is calibrated to it.
        noise_multiplier: The noise instead; with epsilon as well, the run ends before it would cost more.
        epochs: How many times an example is seen on average.
        num_steps: Or how many steps are taken.
        physical_batch_size: How many examples go through the model at once; only memory and speed depend on it.
        max_batch_size: How many examples take part in a step at most, so that all steps have one shape and cost the
            same; what that changes is part of delta. Without it, a large sample takes one more physical batch.
        sampling: How batches are drawn, instead of ``batch_size``: such as ``BallsInBins(512)`` or ``InOrder(512)``.
        contribution: What is clipped, if it is not each example's own gradient: such as ``Augmented(8)``.
        schedule: How noise, clip norm and batch size change over the steps.
        correlated: How noise is correlated over the steps, such as ``BufferedToeplitz()`` with ``InOrder(512)``.
        projection: A ball that the weights are kept in.
        relation: What neighbouring datasets are; without it, the first that the sampling is proven for.
        unit: What is protected: a column of the dataset with whose each example is, or an array of such ids, or
            `Users` and `UserGroups` with more to say; without it, an example. A `Unit` names what one example stands
            for.
        starts_from: What `pretrain` returned, if the weights were trained on public data before; not accounted for.
        compile: Whether torch.compile is to speed up the model and the clipping, or by which of its backends; without
            it, on a GPU only. The numbers are the same within rounding.
        memory_limit: How many bytes all examples' gradients of one parameter may take; beyond it they are computed a
            few at a time, and twice. An eighth of the device's memory, unless given.
        source: Where the secret key comes from; for tests, a TestSource.
        budget: What the run is charged to, such as a ledger's data set: all of it is reserved now, and what was really
            run is committed at its last step, or by ``private.close()``. To be able to resume an interrupted run, give
            it a name: ``patients.for_run("second try")``.

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
        refuse_repeated_ids(dataset)
    num_units = num_examples = fetcher(dataset)[0]
    settings: dict[str, Any] = {"unit": Unit.example() if unit is None else unit}
    if users is not None:
        owned = users.rows(dataset, num_examples)
        settings = {"unit": users.unit}
        settings["labelled"] = True
        if isinstance(users, UserGroups):
            num_units = sum(min(len(own), users.rows_per_unit) for own in owned)
            settings["group_size"] = users.rows_per_unit
        else:
            num_units = len(owned)
            settings["rows_per_unit"] = users.rows_per_unit
    plan = make_plan(
        num_units=num_units,
        delta=delta,
        clipping=_clipping(clip_norm, clipping),
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
        **settings,
    )
    return PrivateTraining(
        model,
        optimizer,
        dataset,
        plan,
        users=users,
        projection=projection,
        compile=compile,
        memory_limit=memory_limit,
        source=source,
        budget=budget,
    )
