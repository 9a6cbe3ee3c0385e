"""What a run will do, decided by its settings and by public numbers: the data as they are read, and the plan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hush.data import Category, Examples, Prepared, needs_learning, open_data, prepare
from hush.errors import InvalidArgument
from hush.guarantee import Unit
from hush.runs.budget import RunCost, learning
from hush.runs.defaults import Recipe, recipe
from hush.runs.networks import Description, Network, describe
from hush.runs.progress import Progress
from hush.runs.settings import Settings, default_delta
from hush.training import Automatic, Clipping, Flat, Full, Poisson, PublicPhase, TrainingPlan, Users

COUNTED = "how many rows and units are trained on, and how many are held out, is public"


@dataclass(frozen=True, eq=False)
class Ready:
    """All that training needs, and all that its result will say of where it comes from."""

    prepared: Prepared
    description: Description
    network: Network
    plan: TrainingPlan
    budget: RunCost
    recipe: Recipe
    public: PublicPhase | None
    users: Users | None


@dataclass(frozen=True, eq=False)
class Draft:
    """What will be trained and how, but for the noise, which is 1."""

    description: Description
    recipe: Recipe
    plan: TrainingPlan
    users: Users | None


def read(settings: Settings, key: bytes, delta: float, progress: Progress) -> Prepared:
    """Read the data, learn what is not declared with its share of the budget, and hold some units out."""
    source = open_data(
        settings.data,
        target=settings.target,
        data_dir=settings.data_dir,
        download=settings.download,
        delimiter=settings.delimiter,
    )
    if settings.target in settings.groups and settings.target is not None:
        raise InvalidArgument(
            "groups", settings.target, "another column than the target", "Classes are compared anyway"
        )
    unknown = needs_learning(source, settings.target, settings.schema, settings.unit, settings.groups)
    if unknown and not settings.learn_share > 0:
        raise InvalidArgument(
            "learn_share",
            settings.learn_share,
            "more than 0",
            f"Not declared: {_listed(unknown)}",
            "Declare it in a schema (see hush schema), or leave a share of the budget to learn it",
        )
    if unknown:
        progress.say(
            f"Not declared, so learned privately with {settings.learn_share:.0%} of the budget: {_listed(unknown)}."
        )
    prepared = prepare(
        source,
        target=settings.target,
        schema=settings.schema,
        unit=settings.unit,
        groups=settings.groups,
        holdout=settings.holdout,
        learn=learning(settings.epsilon, settings.learn_share, delta) if unknown else None,
        key=key,
    )
    refuse_undeclared_groups(prepared)
    return prepared


def refuse_undeclared_groups(prepared: Prepared) -> None:
    """What groups there are is something about people: a name that one of them has must not appear by itself."""
    for name in () if prepared.test_is_public else prepared.schema.groups:
        if name not in values_of_groups(prepared):
            raise InvalidArgument(
                "groups", name, "a column whose values are declared", f"Say --category {name}=VALUE,VALUE,..."
            )


def stated_by(prepared: Prepared) -> tuple[str, ...]:
    """Return what preparation assumes; of groups it need not, since undeclared ones are refused."""
    return tuple(sentence for sentence in prepared.assumptions if not sentence.startswith("names of groups"))


def values_of_groups(prepared: Prepared) -> dict[str, tuple[str, ...]]:
    """Return the declared values of columns that accuracy is compared by."""
    columns = prepared.schema.columns
    return {
        name: column.values
        for name in prepared.schema.groups
        if isinstance(column := columns.get(name), Category) and column.values is not None
    }


def drafted(settings: Settings, prepared: Prepared) -> Draft:
    """Return what the settings mean for these data: decided by public numbers alone."""
    own = prepared.train.units
    num_units = _num_units(prepared.train)
    if num_units < 2:
        raise InvalidArgument("data", settings.data, "at least two rows to train on, with a target")
    everybody = num_units + _num_units(prepared.test)
    description = describe(settings, prepared.shape, len(prepared.classes))
    chosen = recipe(settings, description, num_units, 1 if own is None else settings.rows_per_unit)
    users = None if own is None else Users(own, rows_per_unit=settings.rows_per_unit)
    plan = TrainingPlan(
        sampling=Full() if chosen.batch_size == num_units else Poisson(chosen.batch_size),
        num_units=num_units,
        num_steps=chosen.num_steps,
        clipping=_clipping(chosen),
        noise_multiplier=1.0,
        delta=settings.delta or default_delta(everybody),
        physical_batch_size=1,
        unit=Unit.example() if users is None else users.unit,
        rows_per_unit=1 if users is None else settings.rows_per_unit,
        labelled=users is not None,
        starts_from=None if settings.start is None else PublicPhase(settings.public or ""),
    )
    if not plan.delta * everybody < 1:
        raise InvalidArgument("delta", plan.delta, "less than one over the number of those who are protected")
    return Draft(description, chosen, plan, users)


def _num_units(examples: Examples) -> int:
    return len(examples) if examples.units is None else len(np.unique(examples.units))


def _clipping(chosen: Recipe) -> Clipping:
    return Automatic(1.0) if chosen.clip_norm is None else Flat(chosen.clip_norm)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
