"""Turns raw data into examples: applies declarations, learns the rest privately, and holds out some units.

The flow of `prepare`:

plan         what happens to each column (`resolve`); no value is read
split        which units are held out, and which row each unit learns with
outline      the numbers of units on both sides, which are public; the caller reserves a budget here
learn        bounds, values and classes that are not declared: three Gaussian releases that share one noise multiplier
complete     the schema, with what was learned
examples     training and test part, encoded by the complete schema
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from hush.accounting import Event
from hush.data.preparation.examples import Examples, picture_examples, read_numbers, table_examples
from hush.data.preparation.learning import (
    FIRST,
    SECOND,
    THIRD,
    UNKNOWN_BOUNDS,
    Bounds,
    Learn,
    Learned,
    intervals,
    log_histogram,
    refine,
    release,
    widen,
)
from hush.data.preparation.plan import learns_classes, numeric_columns, resolve, to_learn
from hush.data.preparation.split import UnitSplit, check_holdout, split_rows, split_units, subkey
from hush.data.preparation.widening import OuterBins
from hush.data.tables.columns import Category, Column, Numeric, written
from hush.data.tables.raw_data import ImageData, RawData
from hush.data.tables.schema import Schema
from hush.data.tables.table import TableData
from hush.errors import InvalidArgument, Unsupported, check_instance
from hush.notebook import card, short_repr
from hush.randomness import KeyedSource

_SHOWN_VALUES = 10
_GROUP_ASSUMPTION = "names of groups are shown as they are in the data, unless they are declared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The public facts about examples, which are known before anything is learned from them.

    Attributes:
        num_units: How many units will be trained on.
        num_held_out: How many units are held out, or are in the test part of the dataset.
        rows_are_units: Whether each row is its own privacy unit.
        image_shape: The shape of an image; None for tables.
        test_is_public: Whether the test part is that of a known public dataset.
        event: The cost of learning, for an accountant under add-or-remove with the same unit; None if nothing is
            learned.
        assumptions: The assumptions of the guarantee.
        group_assumption: The assumption that holds for groups whose values are not declared; None without groups.
        plan: The schema before anything is learned.
    """

    num_units: int
    num_held_out: int
    rows_are_units: bool
    image_shape: tuple[int, ...] | None
    test_is_public: bool
    event: Event | None
    assumptions: tuple[str, ...]
    group_assumption: str | None
    plan: Schema = field(default_factory=Schema)


def _nothing(_: Outline | str) -> None:
    """Do nothing, because no budget is charged."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Prepared:
    """Examples to train and test with, and the cost of preparing them.

    >>> from hush.data import open_data, prepare
    >>> prepared = prepare(open_data("digits"), holdout=0.2, key=bytes(32))
    >>> prepared.shape, prepared.classes[:3], prepared.event
    ((1, 8, 8), ('0', '1', '2'), None)

    Attributes:
        train: The examples to train from.
        test: The examples that were held out, or the test part of the dataset.
        classes: The names of the classes or labels, in the order of the targets; empty if the target is a number.
        shape: The shape of one input.
        learned: The results of learning, in sentences.
        schema: The complete schema. `transform` applies it to other data.
        public_facts: The assumptions that say what is public.
        outline: The facts that were known before anything was learned.
    """

    train: Examples
    test: Examples
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    learned: tuple[str, ...]
    schema: Schema
    public_facts: tuple[str, ...]
    outline: Outline

    def __repr__(self) -> str:
        """Return one line: the public numbers."""
        sizes = {"train": len(self.train), "test": len(self.test), "classes": self.classes}
        return short_repr("Prepared", {**sizes, "shape": self.shape})

    def _repr_html_(self) -> str:
        """Return the public facts for a notebook."""
        facts = {
            "examples to train on": f"{len(self.train):,}",
            "examples held out": f"{len(self.test):,}",
            "classes": ", ".join(self.classes) or None,
            "one input": " x ".join(map(str, self.shape)),
        }
        return card("Prepared data", facts, notes=[*self.learned, *self.public_facts])

    @property
    def event(self) -> Event | None:
        """The cost of learning, for accountants under add-or-remove with the same unit; None without learning."""
        return self.outline.event

    @property
    def test_is_public(self) -> bool:
        """Whether the test part is that of a known public dataset."""
        return self.outline.test_is_public

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of the guarantee."""
        return self.outline.assumptions

    @property
    def group_assumption(self) -> str | None:
        """The assumption that holds for groups whose values are not declared; None without groups."""
        return self.outline.group_assumption


def prepare(
    data: RawData,
    *,
    target: str | None = None,
    schema: Schema | None = None,
    unit: str | None = None,
    groups: Sequence[str] = (),
    holdout: float = 0.1,
    learn: Learn | None = None,
    key: bytes,
    before_learning: Callable[[Outline], None] = _nothing,
    before_noise: Callable[[str], None] = _nothing,
) -> Prepared:
    """Read data, learn what is not declared, hold some units out, and return examples.

    Args:
        data: From `open_data`.
        target: The column to predict; images have labels instead.
        schema: Your declarations.
        unit: The column with the privacy unit of each row. If omitted, each row is its own unit.
        groups: Columns by which accuracy will be compared.
        holdout: The share of units that is held out; not used if the data have a test part.
        learn: The noise for learning. `needs_learning` lists beforehand what has to be learned.
        key: 32 secret bytes, for this preparation alone. The same key, data and declarations give the same result.
        before_learning: Called with the public outline, before any column but that of the units is read. Reserve a
            budget there: whatever `prepare` does or raises afterwards may depend on the data.
        before_noise: Called before each release of learning, with a secret hash of the counts that get noise. A
            preparation that is repeated must compare it with the first one: other counts would get fresh noise.

    Guarantee:
        Learning costs ``event``, per unit, under add-or-remove. Held-out units take no part in it. The examples
        themselves are not private: private training protects them.

    Assumes:
        Names and types of columns, the number of rows and which columns hold text or dates are public, and whatever
        else is in ``assumptions`` (the caller's duty). Most rows decide what a column holds, or with a unit, the first
        rows of most units: near one half, a single one can change it. The key is secret and used once (the caller's
        duty). Each unit takes part in learning with one row (checked here).

    References:
        The docstring of `hush.data.preparation.learning` has the proof and its sources.
    """
    plan = resolve(data, target, schema, unit, groups)
    check_holdout(holdout)
    check_instance("learn", learn, (Learn, type(None)))
    subkey(key, "check")  # refuses a key of another length before anything is read
    numbers, texts = to_learn(plan)
    is_incomplete = bool(numbers or texts or learns_classes(plan))
    if is_incomplete and learn is None:
        raise InvalidArgument(
            "learn", None, "the noise to learn with", "Not everything is declared: needs_learning lists the rest"
        )
    job = _Preparation(plan, holdout, learn if is_incomplete else None, key, before_learning, before_noise)
    if isinstance(data, ImageData):
        return _prepare_images(data, job)
    if not isinstance(data, TableData):
        raise Unsupported("data of another kind", "Use what open_data returns")
    return _prepare_table(data if plan.unit is None else data.with_ids(plan.unit), job)


@dataclass(frozen=True, eq=False, slots=True)
class _Preparation:
    """The settings that tables and images share.

    Attributes:
        plan: The schema so far.
        holdout: The share of units to hold out.
        learn: The noise; None if nothing is left to learn.
        key: 32 secret bytes.
        before_learning: Called with the public outline.
        before_noise: Called with a hash of the counts.
    """

    plan: Schema
    holdout: float
    learn: Learn | None
    key: bytes
    before_learning: Callable[[Outline], None]
    before_noise: Callable[[str], None]

    @property
    def event(self) -> Event | None:
        if self.learn is None:
            return None
        learns_values = bool(to_learn(self.plan)[1]) or learns_classes(self.plan)
        return self.learn.event() if learns_values else self.learn.bounds_event()


def _prepare_table(data: TableData, job: _Preparation) -> Prepared:
    plan, table = job.plan, data.table
    if plan.unit is None:
        split = split_rows(table.num_rows, job.holdout, job.key)
    else:
        split = split_units(table, plan.unit, job.holdout, job.key)
    outline = _outline(data, job, (split.count(split.train), split.count(split.test)), image_shape=None)
    job.before_learning(outline)
    numbers = read_numbers(data, plan, with_target=True)
    schema, sentences = plan, tuple[str, ...]()
    if job.learn is not None:
        number_columns, text_columns = to_learn(plan)
        tallied = [*text_columns, *([str(plan.target)] if learns_classes(plan) else [])]
        histograms = [log_histogram(numbers[name], split.learning) for name in number_columns]
        tallies = [table.counts(name, split.learning) for name in tallied]
        learn = job.learn
        if number_columns:  # leave some of the precision to the second release
            learn = replace(learn, noise_multiplier=learn.noise_multiplier * FIRST)
        learned = release(histograms, tallies, learn, _noise_source(job, histograms, tallies))
        if number_columns:
            bounds = _refined(learned.bounds, [numbers[name] for name in number_columns], split, job)
            learned = replace(learned, bounds=_widened(bounds, [numbers[name] for name in number_columns], split, job))
        schema, sentences = _completed(plan, learned)
    every_row = table_examples(schema, table, numbers, split.units)
    train, test = every_row.among(split.train), every_row.among(split.test)
    return _prepared(data, outline, schema, sentences, train, test)


def _refined(
    bounds: list[Bounds | None], columns: list[NDArray[np.float64]], split: UnitSplit, job: _Preparation
) -> list[Bounds | None]:
    """Return bounds that are closer to the numbers, from a second release."""
    assert job.learn is not None
    bins = intervals(bounds)
    histograms = [parts.counts(column[split.learning]) for column, parts in zip(columns, bins, strict=True)]
    noise_multiplier, source = job.learn.noise_multiplier * SECOND, _noise_source(job, histograms, [])
    closer = refine(bins, histograms, noise_multiplier, source, num_units=split.count(split.train))
    # A column without bounds has none to refine. Its counts get noise all the same, so that the cost does not depend
    # on the first release.
    return [refined if coarse and refined else coarse for coarse, refined in zip(bounds, closer, strict=True)]


def _widened(
    bounds: list[Bounds | None], columns: list[NDArray[np.float64]], split: UnitSplit, job: _Preparation
) -> list[Bounds | None]:
    """Return bounds that leave few units out, from a third release."""
    assert job.learn is not None
    known = [pair or UNKNOWN_BOUNDS for pair in bounds]
    around = [OuterBins(lower=lower, upper=upper) for lower, upper in known]
    histograms = [part.counts(column[split.learning]) for part, column in zip(around, columns, strict=True)]
    noise_multiplier, source = job.learn.noise_multiplier * THIRD, _noise_source(job, histograms, [])
    num_units = split.count(split.train)
    wider = widen(known, histograms, noise_multiplier, source, num_units=num_units)
    # A column without bounds stays without, unless the third release finds some.
    return [pair if pair is None and new == UNKNOWN_BOUNDS else new for pair, new in zip(bounds, wider, strict=True)]


def _prepare_images(data: ImageData, job: _Preparation) -> Prepared:
    pictures, test_pictures = data.read(job.plan.images)
    split = split_rows(len(pictures.labels), 0.0 if test_pictures is not None else job.holdout, job.key)
    schema, sentences = replace(job.plan, images=data.described(job.plan.images, pictures)), tuple[str, ...]()
    num_test = split.count(split.test) if test_pictures is None else len(test_pictures.labels)
    outline = _outline(
        data,
        job,
        (split.count(split.train), num_test),
        image_shape=pictures.images.shape[1:],
        has_test=test_pictures is not None,
    )
    job.before_learning(outline)
    if job.learn is not None:
        labels, counts = np.unique(pictures.labels[split.learning], return_counts=True)
        tally = {str(label): int(count) for label, count in zip(labels, counts, strict=True) if label}
        learned = release([], [tally], job.learn, _noise_source(job, [], [tally]))
        schema, sentences = _completed(schema, learned)
    train = picture_examples(data, pictures, schema, split.train)
    if test_pictures is None:
        test = picture_examples(data, pictures, schema, split.test)
    else:
        test = picture_examples(data, test_pictures, schema, np.ones(len(test_pictures.labels), dtype=np.bool_))
    return _prepared(data, outline, schema, sentences, train, test)


def _noise_source(job: _Preparation, histograms: list[NDArray[np.int64]], tallies: list[dict[str, int]]) -> KeyedSource:
    """Return noise that is a secret function of the counts that it is added to, and of what is being learned.

    The same question about the same data gets the same answer. If a key is reused for other data or another question in
    spite of the warning, the noise differs: a difference of two answers does not cancel it.
    """
    digest = hashlib.blake2b(repr((job.learn, to_learn(job.plan), job.plan.classes)).encode())
    for counts in histograms:
        digest.update(counts.astype("<i8").tobytes())
    for tally in tallies:
        digest.update(json.dumps(sorted(tally.items())).encode())
    job.before_noise(digest.hexdigest())
    return KeyedSource(subkey(job.key, f"noise {digest.hexdigest()}"), 0)


def _completed(plan: Schema, learned: Learned) -> tuple[Schema, tuple[str, ...]]:
    """Return the schema with what was learned, and sentences about it. Both are functions of the release alone."""
    columns: dict[str, Column] = dict(plan.columns)
    sentences = []
    number_columns, text_columns = to_learn(plan)
    target_range = plan.target_range
    for name, bounds in zip(number_columns, learned.bounds, strict=True):
        column = _with_bounds(numeric_columns(plan)[name], bounds or UNKNOWN_BOUNDS)
        if name in columns:
            columns[name] = column
        else:
            target_range = column
        remark = "" if bounds else " (no number except zero was frequent enough to rise above the noise)"
        lower, upper = (written(column, end or 0.0) for end in (column.lower, column.upper))
        sentences.append(f"column {name!r}: bounds [{lower}, {upper}], learned privately{remark}")
    for name, values in zip(text_columns, learned.values, strict=False):  # the classes follow, if they were learned
        columns[name] = Category(values=values)
        sentences.append(f"column {name!r}: {_listed(values, 'value', 'values')}, learned privately")
    classes = plan.classes
    if learns_classes(plan):
        classes = learned.values[-1]
        sentences.append(f"target: {_listed(classes, 'class', 'classes')}, learned privately")
        if len(classes) < 2:
            raise InvalidArgument(
                "target",
                plan.target or "label",
                "at least two classes that are frequent enough to rise above the noise",
                "With one there is nothing to predict",
                "Declare the classes, or give learning more of the budget; this attempt has spent its share",
            )
    return replace(plan, columns=columns, classes=classes, target_range=target_range), tuple(sentences)


def _with_bounds(column: Numeric, learned: tuple[float, float]) -> Numeric:
    """Return a column with its declared bounds, and learned ones where none are declared. Widen an empty interval."""
    lower = learned[0] if column.lower is None else column.lower
    upper = learned[1] if column.upper is None else column.upper
    if not upper / 2 - lower / 2 > 0:
        room = max(1.0, abs(lower), abs(upper))
        lower, upper = (upper - room, upper) if column.lower is None else (lower, lower + room)
    return replace(column, lower=lower, upper=upper)


def _listed(values: tuple[str, ...], singular: str, plural: str) -> str:
    if not values:
        return f"no {singular} rose above the noise"
    shown = ", ".join(values[:_SHOWN_VALUES]) + (", ..." if len(values) > _SHOWN_VALUES else "")
    return f"{len(values)} {singular if len(values) == 1 else plural} ({shown})"


def _outline(
    data: RawData,
    job: _Preparation,
    num_units: tuple[int, int],
    *,
    image_shape: tuple[int, ...] | None,
    has_test: bool = False,
) -> Outline:
    """Return the public facts: the numbers of units on both sides, and the cost and assumptions of learning."""
    return Outline(
        num_units=num_units[0],
        num_held_out=num_units[1],
        rows_are_units=job.plan.unit is None,
        image_shape=image_shape,
        test_is_public=has_test and isinstance(data, ImageData) and data.public_test,
        event=job.event,
        assumptions=(*data.assumptions, *_assumptions(job, has_test)),
        group_assumption=_GROUP_ASSUMPTION if job.plan.groups else None,
        plan=job.plan,
    )


def _prepared(
    data: RawData, outline: Outline, schema: Schema, sentences: tuple[str, ...], train: Examples, test: Examples
) -> Prepared:
    return Prepared(
        train=train,
        test=test,
        classes=schema.classes or schema.labels,
        shape=train.inputs.shape[1:],
        learned=sentences,
        schema=schema,
        public_facts=data.public_facts,
        outline=outline,
    )


def _assumptions(job: _Preparation, has_test: bool) -> list[str]:
    stated = ["a row whose target is missing or none of the classes contributes a zero gradient"]
    if job.plan.unit is not None:
        stated.append(
            f"the column {job.plan.unit!r} holds the privacy unit of each row, compared as text (7 and 7.0 are two "
            "units); rows without a value there are left out"
        )
    if has_test:
        stated.append("no unit is in both the training part and the test part of the data")
    elif job.holdout > 0:
        stated.append("a random subset of units is held out, and takes no part in learning or training")
    if job.plan.groups:
        stated.append(_GROUP_ASSUMPTION)
    if job.learn is not None:
        stated.append("keyed randomness: the key is secret, and used for one preparation of one dataset")
    return stated
