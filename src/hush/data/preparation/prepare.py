"""From a source to examples: what is declared is applied, what is not is learned privately, some are held out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hush.accounting import Event
from hush.data.preparation.examples import Examples, picture_examples, read_numbers, table_examples
from hush.data.preparation.learn import UNKNOWN_BOUNDS, Learn, Learned, log_histogram, refine, release
from hush.data.preparation.plan import resolve, to_learn
from hush.data.preparation.split import UnitSplit, check_holdout, split_rows, split_units, subkey
from hush.data.tables.columns import Category, Column, Numeric
from hush.data.tables.raw import ImageSource, RawData
from hush.data.tables.schema import Schema
from hush.data.tables.table import TableSource
from hush.errors import InvalidArgument, Unsupported, check_instance
from hush.randomness import KeyedSource

_PARTS = 64  # of an interval, to find closer bounds in
# Noise of the first and of the second release of bounds, over that of both together: their precisions, one over the
# square, are three quarters and one quarter of it, rounded to the safe side.
_FIRST, _SECOND = 1.1547006, 2.0000001


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Prepared:
    """Examples to train from and to test with, and what making them cost.

    Attributes:
        train: What to train from.
        test: What was held out, or the test part that the data set has.
        test_is_public: Whether the test part is that of a known public data set.
        classes: Names of the classes, in the order of the targets.
        shape: Shape of one input.
        event: What learning cost, for an accountant under add-or-remove with the same unit; None if nothing was.
        learned: What was learned, in sentences.
        schema: The complete schema: `transform` applies it to other data.
        assumptions: What the guarantee rests on.
    """

    train: Examples
    test: Examples
    test_is_public: bool
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    event: Event | None
    learned: tuple[str, ...]
    schema: Schema
    assumptions: tuple[str, ...]


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
) -> Prepared:
    """Read a source, learn what is not declared, hold some units out, and return examples.

    Args:
        data: From `open_data`.
        target: The column to predict; images have labels instead.
        schema: What is declared.
        unit: The column that says whose row it is; None if each row is somebody else's.
        groups: Columns by which accuracy will be compared.
        holdout: The share of units that is held out; not used if the source has a test part.
        learn: The noise for what is learned. `needs_learning` tells beforehand what that would be.
        key: 32 secret bytes, for this preparation alone. The same key, data and declarations give the same result.

    Guarantee:
        What is learned costs ``event``, per unit, under add-or-remove; held-out units take no part in it. The examples
        themselves are not private: they are what private training protects.

    Assumes:
        Names and types of columns, the number of rows and which columns hold text are public, and whatever else is in
        ``assumptions`` (the caller's duty). The key is secret and used once (the caller's duty). Each unit takes part
        in learning with one row (checked here).

    References:
        `hush.data.preparation.learn` has the proof, and who it is from.
    """
    plan = resolve(data, target, schema, unit, groups)
    check_holdout(holdout)
    check_instance("learn", learn, (Learn, type(None)))
    subkey(key, "check")
    numbers, texts = to_learn(plan)
    wanted = bool(numbers or texts or plan.classes is None)
    if wanted and learn is None:
        raise InvalidArgument(
            "learn", None, "the noise to learn with", "Not everything is declared: see needs_learning"
        )
    work = _Work(plan, holdout, learn if wanted else None, key)
    if isinstance(data, ImageSource):
        return _prepare_images(data, work)
    if not isinstance(data, TableSource):
        raise Unsupported("a source of another kind", "open_data makes them")
    return _prepare_table(data, work)


@dataclass(frozen=True, eq=False, slots=True)
class _Work:
    """What both kinds of sources need; ``learn`` is None if nothing is left to be learned."""

    plan: Schema
    holdout: float
    learn: Learn | None
    key: bytes

    @property
    def event(self) -> Event | None:
        values = bool(to_learn(self.plan)[1]) or self.plan.classes is None
        return None if self.learn is None else self.learn.event(values=values)


def _prepare_table(data: TableSource, work: _Work) -> Prepared:
    plan, table = work.plan, data.table
    numbers = read_numbers(data, plan)
    if plan.unit is None:
        split = split_rows(table.num_rows, work.holdout, work.key)
    else:
        split = split_units(table, plan.unit, work.holdout, work.key)
    schema, told = plan, tuple[str, ...]()
    if work.learn is not None:
        bounds, texts = to_learn(plan)
        counted = [*texts, *([] if plan.classes is not None else [str(plan.target)])]
        histograms = [log_histogram(numbers[name], split.speaks) for name in bounds]
        tallies = [table.counts(name, split.speaks) for name in counted]
        learn = work.learn if not bounds else replace(work.learn, noise_multiplier=work.learn.noise_multiplier * _FIRST)
        learned = release(histograms, tallies, learn, _noise_source(work, histograms, tallies))
        if bounds:
            learned = replace(learned, bounds=_refined(learned.bounds, [numbers[name] for name in bounds], split, work))
        schema, told = _completed(plan, learned)
    every = table_examples(schema, table, numbers, split.units)
    return _prepared(data, work, schema, told, every.among(split.train), every.among(split.test), own_test=False)


def _refined(
    bounds: list[tuple[float, float] | None], columns: list[NDArray[np.float64]], split: UnitSplit, work: _Work
) -> list[tuple[float, float] | None]:
    """Return bounds that are closer to where numbers are; tails do not stand out, so half as much on either side."""
    assert work.learn is not None
    intervals = [found or UNKNOWN_BOUNDS for found in bounds]
    histograms = [_parts(column[split.speaks], ends) for column, ends in zip(columns, intervals, strict=True)]
    found = refine(histograms, work.learn.noise_multiplier * _SECOND, _noise_source(work, histograms, []))
    closer: list[tuple[float, float] | None] = []
    for ends, own, places in zip(intervals, bounds, found, strict=True):
        if own is None or places is None:
            closer.append(own)
            continue
        width = ends[1] / _PARTS - ends[0] / _PARTS
        more = 1 + (places[1] - places[0]) // 2
        lower = ends[0] + max(places[0] - more, 0) * width
        upper = ends[0] + min(places[1] + 1 + more, _PARTS) * width
        closer.append((lower, upper) if ends[0] <= lower < upper <= ends[1] else own)
    return closer


def _parts(numbers: NDArray[np.float64], ends: tuple[float, float]) -> NDArray[np.int64]:
    """Count numbers by equal parts of an interval; those beyond it in the outer ones, NaN in none."""
    lower, upper = ends
    inside = np.clip(numbers[~np.isnan(numbers)], lower, upper)
    place = ((inside / 2 - lower / 2) / (upper / 2 - lower / 2) * _PARTS).astype(np.int64)
    return np.bincount(np.clip(place, 0, _PARTS - 1), minlength=_PARTS).astype(np.int64)


def _prepare_images(data: ImageSource, work: _Work) -> Prepared:
    pictures, own_test = data.read(work.plan.images)
    split = split_rows(len(pictures.labels), 0.0 if own_test is not None else work.holdout, work.key)
    schema, told = replace(work.plan, images=data.described(work.plan.images, pictures)), tuple[str, ...]()
    if work.learn is not None:
        values, counts = np.unique(pictures.labels[split.speaks], return_counts=True)
        tally = {str(value): int(count) for value, count in zip(values, counts, strict=True) if value}
        schema, told = _completed(schema, release([], [tally], work.learn, _noise_source(work, [], [tally])))
    train = picture_examples(data, pictures, schema, split.train)
    if own_test is None:
        test = picture_examples(data, pictures, schema, split.test)
    else:
        test = picture_examples(data, own_test, schema, np.ones(len(own_test.labels), dtype=np.bool_))
    return _prepared(data, work, schema, told, train, test, own_test=own_test is not None)


def _noise_source(work: _Work, histograms: list[NDArray[np.int64]], tallies: list[dict[str, int]]) -> KeyedSource:
    """Return noise that is a secret function of everything it is added to, and of what is asked.

    The same question about the same data gets the same answer. If a key is used for other data or another question
    after all, the noise is another one: differences of two answers do not cancel it.
    """
    digest = hashlib.blake2b(repr((work.learn, to_learn(work.plan), work.plan.classes)).encode())
    for counts in histograms:
        digest.update(counts.astype("<i8").tobytes())
    for tally in tallies:
        digest.update(json.dumps(sorted(tally.items())).encode())
    return KeyedSource(subkey(work.key, f"noise {digest.hexdigest()}"), 0)


def _completed(plan: Schema, learned: Learned) -> tuple[Schema, tuple[str, ...]]:
    """Return the schema with what was learned, and sentences about it. A function of the release, not of the data."""
    columns: dict[str, Column] = dict(plan.columns)
    told = []
    numbers, texts = to_learn(plan)
    for name, bounds in zip(numbers, learned.bounds, strict=True):
        columns[name] = found = _bounded(columns[name], bounds or UNKNOWN_BOUNDS)
        doubt = "" if bounds else " (nothing but zero stood out of the noise)"
        told.append(f"column {name!r}: bounds [{found.lower:.6g}, {found.upper:.6g}], learned privately{doubt}")
    for name, values in zip(texts, learned.values, strict=False):
        columns[name] = Category(values=values)
        told.append(f"column {name!r}: {_counted(values, 'value')}, learned privately")
    classes = plan.classes
    if classes is None:
        classes = learned.values[-1]
        told.append(f"target: {_counted(classes, 'class')}, learned privately")
        if len(classes) < 2:
            raise InvalidArgument(
                "target",
                plan.target or "label",
                "at least two classes that stand out of the noise",
                "With one there is nothing to predict",
                "Declare the classes, or give learning more of the budget; what was learned now is paid for, too",
            )
    return replace(plan, columns=columns, classes=classes), tuple(told)


def _bounded(column: Column, learned: tuple[float, float]) -> Numeric:
    """Return the declared bounds where there are some, else the learned ones; an empty interval is widened."""
    assert isinstance(column, Numeric)  # to_learn chooses them
    lower = learned[0] if column.lower is None else column.lower
    upper = learned[1] if column.upper is None else column.upper
    if not upper / 2 - lower / 2 > 0:
        room = max(1.0, abs(lower), abs(upper))
        lower, upper = (upper - room, upper) if column.lower is None else (lower, lower + room)
    return Numeric(lower=lower, upper=upper)


def _counted(values: tuple[str, ...], word: str) -> str:
    plural = {"value": "values", "class": "classes"}[word]
    shown = ", ".join(values[:10]) + (", ..." if len(values) > 10 else "")
    return f"{len(values)} {word if len(values) == 1 else plural} ({shown})" if values else f"no {word} stood out"


def _prepared(
    data: RawData,
    work: _Work,
    schema: Schema,
    told: tuple[str, ...],
    train: Examples,
    test: Examples,
    *,
    own_test: bool,
) -> Prepared:
    return Prepared(
        train=train,
        test=test,
        test_is_public=own_test and isinstance(data, ImageSource) and data.public_test,
        classes=schema.classes or (),
        shape=train.inputs.shape[1:],
        event=work.event,
        learned=told,
        schema=schema,
        assumptions=(*data.assumptions, *_assumed(work, own_test)),
    )


def _assumed(work: _Work, own_test: bool) -> list[str]:
    stated = ["a row whose target is missing or none of the classes takes part with nothing"]
    if work.plan.unit is not None:
        stated.append(
            f"the column {work.plan.unit!r} says whose each row is, compared as text (7 and 7.0 are two); a row "
            "without a value there is left out"
        )
    if own_test:
        stated.append("nobody is in both the training part and the test part of the data")
    elif work.holdout > 0:
        stated.append("units are held out by coins of their own, and take no part in learning and training then")
    if work.plan.groups:
        stated.append("names of groups are shown as they are in the data, unless they are declared")
    if work.learn is not None:
        stated.append("keyed randomness: the key is secret, and used for one preparation of one data set")
    return stated
