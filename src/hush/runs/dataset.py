"""The dataset of a run: read, completed and split.

    file  ->  declared and privately learned bounds, values and classes  ->  training units and held-out units

Learning uses a share of the budget, which `hush.runs.run_plan` accounts for. Held-out units are not used for it.
`plan_for` makes the plan of a run on a dataset.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hush.data import (
    Category,
    Inspected,
    OpenQuestions,
    Outline,
    Prepared,
    Question,
    RawData,
    fewest_units,
    inspect,
    needs_learning,
    open_data,
    prepare,
)
from hush.errors import InvalidArgument
from hush.guarantee import Unit
from hush.runs.draft import choose_model, completed, draft_training, learning_delta, learning_noise
from hush.runs.progress import Progress
from hush.runs.run_plan import RunPlan
from hush.runs.settings import Settings

COUNTS_ARE_PUBLIC = "how many rows and units are trained on, and how many are held out, is public"
_MOST_NAMES = 6
# For numbers scaled to [-1, 1], and inputs of about norm 1 to 5.
_CLIP_NORM, _LEARNING_RATE = 1.0, 0.05


def read_dataset(
    settings: Settings,
    key: bytes,
    delta: float,
    progress: Progress,
    *,
    before_learning: Callable[[Outline], None] = lambda _: None,
    before_noise: Callable[[str], None] = lambda _: None,
) -> Prepared:
    """Read the data, learn what is not declared with its share of the budget, and hold some units out.

    Args:
        settings: The data to read, the declarations, and the shares of the budget.
        key: 32 secret bytes that decide the split and the noise of learning. The same key gives the same result.
        delta: The delta at which learning has to stay within its share of epsilon.
        progress: Receives a line that lists what has to be learned.
        before_learning: Called with the public outline before anything else is read. It reserves a budget.
        before_noise: Called before each release of learning, with a secret hash of the counts that get noise.
    """
    data = _opened(settings)
    if settings.target in settings.groups and settings.target is not None:
        raise InvalidArgument(
            "groups", settings.target, "a column other than the target", "Classes are always compared"
        )
    facts = _inspected(data, settings, delta)
    for note in facts.notes:
        progress.say(f"  {note}")
    undeclared = needs_learning(data, facts.target, facts.schema, settings.unit, settings.groups)
    if undeclared and not settings.learn_share > 0:
        raise InvalidArgument(
            "learn_share",
            settings.learn_share,
            "more than 0",
            f"Not declared: {_enumerate(undeclared)}",
            "Declare it in a schema (see hush schema), or leave a share of the budget to learn it",
        )
    if undeclared:
        share = f"{settings.learn_share:.0%} of the budget"
        progress.say(f"Not declared, so learned privately with {share}: {_enumerate(undeclared)}.")
    return prepare(
        data,
        target=facts.target,
        schema=facts.schema,
        unit=settings.unit,
        groups=settings.groups,
        holdout=settings.holdout,
        learn=learning_noise(settings.epsilon * settings.learn_share, delta) if undeclared else None,
        key=key,
        before_learning=before_learning,
        before_noise=before_noise,
    )


def questions_about(settings: Settings) -> tuple[Question, ...]:
    """Return what has to be settled before a run with these settings; nothing, if all is known. Nothing is spent."""
    try:
        _inspected(_opened(settings), settings, learning_delta(settings))
    except OpenQuestions as error:
        return error.questions
    return ()


def _opened(settings: Settings) -> RawData:
    return open_data(
        settings.data,
        data_dir=settings.data_dir,
        download=settings.download,
        delimiter=settings.delimiter,
        decimal_comma=settings.decimal_comma,
    )


def _inspected(data: RawData, settings: Settings, delta: float) -> Inspected:
    return inspect(
        data,
        target=settings.target,
        schema=settings.schema,
        unit=settings.unit,
        groups=settings.groups,
        task=settings.task,
        fewest_units=_forecast(settings, delta),
    )


def _forecast(settings: Settings, delta: float) -> Callable[[int, int], float]:
    """Return how many units a value needs to be found with the share for learning, by what is learned."""
    if not settings.learn_share > 0:
        return lambda num_numbers, num_texts: math.inf if num_texts else 0.0
    noise = learning_noise(settings.epsilon * settings.learn_share, delta)
    return lambda num_numbers, num_texts: fewest_units(noise, num_numbers, num_texts)


def group_values(prepared: Prepared) -> dict[str, tuple[str, ...]]:
    """Return the declared values of the columns whose groups are compared."""
    columns = prepared.schema.columns
    return {
        name: column.values
        for name in prepared.schema.groups
        if isinstance(column := columns.get(name), Category) and column.values is not None
    }


def plan_for(outline: Outline, settings: Settings, *, device: str) -> RunPlan:
    """Return the plan of a run on these data, with a noise multiplier of 1.

    Only public numbers decide it: the shape of an image, and how many units there are.
    """
    num_units = outline.num_units
    if num_units < 2:
        raise InvalidArgument("data", settings.data, "at least two units to train on")
    used = completed(
        _for_numbers(settings) if outline.plan.target_range is not None else settings,
        model=choose_model(settings, outline.image_shape),
        num_units=num_units,
        num_all_units=num_units + outline.num_held_out,
        rows_are_units=outline.rows_are_units,
        learns=outline.event is not None,
        device=device,
    )
    unit = Unit.example() if outline.rows_are_units else Unit.user()
    training = draft_training(used, num_units=num_units, unit=unit)
    return RunPlan(settings=used, training=training, learning=outline.event)


def _for_numbers(settings: Settings) -> Settings:
    """Return settings for a target that is a number, where none are given.

    Errors of numbers shrink to 0 as a model gets better, and so should the steps: automatic clipping would keep them
    long.
    """
    return settings.replace(
        clip_norm=settings.clip_norm or _CLIP_NORM, learning_rate=settings.learning_rate or _LEARNING_RATE
    )


def assumptions_of(outline: Outline) -> tuple[str, ...]:
    """Return the assumptions of preparing the data. None concerns groups, since `inspect` asks for their values."""
    return tuple(sentence for sentence in outline.assumptions if sentence != outline.group_assumption)


def _enumerate(names: list[str]) -> str:
    """Write a list of names, cut where it gets long."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
