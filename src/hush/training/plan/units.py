"""Whose data is protected together: a user, or a user within a time window.

- `Users`: users are sampled; all of a user's gradients are added up and clipped as one.
- `UserGroups`: examples are sampled, and the guarantee is that for a group of as many as a user may have.

`compare_units` tells which of the two costs less.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hush.accounting import GaussianEvent, GroupEvent, PldAccountant, PoissonSampledEvent, SelfComposedEvent
from hush.errors import InvalidArgument, check_count, check_instance, check_positive
from hush.guarantee import Guarantee, Unit
from hush.randomness import KeyedSource

_PERSONS = {
    *("uid", "pid", "user", "username", "person", "patient", "customer", "client", "member", "employee", "owner"),
    *("subject", "account", "author", "speaker", "device", "email", "phone", "ssn", "participant", "household"),
}
_THINGS = {
    *("label", "class", "image", "token", "input", "intent", "item", "product", "word", "category", "document", "doc"),
    *("row", "target", "type", "topic", "segment", "position", "event", "session", "file", "model", "batch"),
}


@dataclass(frozen=True, eq=False)
class Users:
    """Whose each example is; users are sampled, and a user's summed gradient is clipped.

    Attributes:
        ids: A column of the dataset (its name), or one id per example.
        rows_per_unit: How many of a user's examples take part in a step at most; others are drawn afresh in each.
        times: When each example was made, for a window: a column or an array, in seconds or as datetimes.
        window: The length of the time windows, counted from 1970 on; what a user does in one of them is protected
            together, and what falls into two of them is not.
    """

    ids: Any
    rows_per_unit: int = 8
    times: Any = None
    window: timedelta | None = None

    def __post_init__(self) -> None:
        """Check what can be."""
        check_count("rows_per_unit", self.rows_per_unit)
        if self.window is not None:
            check_instance("window", self.window, timedelta, "Such as timedelta(days=7)")
            Unit.user_window(self.window)  # refuses what is no window
        if (self.times is None) != (self.window is None):
            raise InvalidArgument("window", self.window, "a timedelta together with times, or neither")

    @property
    def unit(self) -> Unit:
        """What the guarantee protects."""
        return Unit.user() if self.window is None else Unit.user_window(self.window)

    def rows(self, dataset: Any, num_examples: int) -> list[NDArray[np.int64]]:
        """Return the examples of each unit."""
        labels = _labels(_column(self.ids, dataset, "unit"), num_examples, "unit")
        if self.window is not None:
            seconds = _seconds(_column(self.times, dataset, "times"))
            if seconds.shape != (num_examples,):
                raise InvalidArgument("times", seconds.shape, f"one for each of the {num_examples} examples")
            windows = np.floor_divide(seconds, self.window.total_seconds()).astype(np.int64)
            labels = np.unique(np.stack([labels, windows], 1), axis=0, return_inverse=True)[1].reshape(-1)
        order = np.argsort(labels, kind="stable")
        owned = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
        return sorted(owned, key=lambda own: int(own[0]))  # in the order in which they first appear


@dataclass(frozen=True, eq=False)
class UserGroups(Users):
    """The same promise, kept another way: examples are sampled, and accounted for in groups of ``rows_per_unit``.

    Examples of a user beyond that, drawn at random, take no part in the run at all.
    """


def chosen(rows: NDArray[np.int64], most: int, source: KeyedSource) -> NDArray[np.int64]:
    """Return at most so many of a unit's examples, at random."""
    if len(rows) <= most:
        return rows
    return np.sort(rows[np.argsort(source.words(len(rows)), kind="stable")[:most]])


def as_users(unit: Any) -> Users | None:
    """Return users, if that is what a unit is: a column's name and an array are, too."""
    if unit is None or isinstance(unit, Unit):
        return None
    return unit if isinstance(unit, Users) else Users(unit)


def refuse_repeated_ids(dataset: Any) -> None:
    """Refuse a dataset with a column that looks like whose an example is, and repeats, where no unit is declared."""
    for name, column in _columns(dataset, _names_people).items():
        values = _plain(column)
        values = values.reshape(-1) if values.size == len(values) else values
        if values.ndim == 1 and values.dtype.kind in "iufUSO" and len(set(values.tolist())) < len(values):
            raise InvalidArgument(
                "unit",
                None,
                f"a unit: {name!r} repeats",
                f'Say unit="{name}" to protect all that belongs together, or unit=Unit.example()',
            )


def _names_people(name: Any) -> bool:
    """Say whether a column's name sounds like whose an example is."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", str(name)).lower()
    words = {word for word in re.split(r"[^a-z]+", spaced) if word}
    words |= {re.sub(r"(ids?|no|number|s)$", "", word) for word in words}
    return not words & _THINGS and bool(words & {*_PERSONS, "id", "ids"})


def _columns(dataset: Any, wanted: Callable[[Any], bool]) -> Mapping[Any, Any]:
    """Return some columns of a dataset that has them: a mapping, or examples that are mappings, read once."""
    if isinstance(dataset, Mapping):
        return {name: column for name, column in dataset.items() if wanted(name)}
    if isinstance(dataset, tuple) or not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        return {}
    first = dataset[0] if len(dataset) else None
    if not isinstance(first, Mapping):
        return {}
    names = [name for name in first if wanted(name) and _plain(first[name]).size == 1]
    columns: dict[Any, list[Any]] = {name: [] for name in names}
    for index in range(len(dataset) if names else 0):
        row = dataset[index]
        for name in names:
            columns[name].append(_plain(row[name]).item())
    return columns


def _column(values: Any, dataset: Any, name: str) -> Any:
    if not isinstance(values, str):
        return values
    columns = _columns(dataset, lambda column: column == values)
    if values not in columns:
        raise InvalidArgument(name, values, "a column of the dataset", "Or one id per example, as an array")
    return columns[values]


def _plain(values: Any) -> NDArray[Any]:
    if isinstance(values, Tensor):
        plain = values.detach().cpu()
        return (plain.float() if plain.dtype in (torch.bfloat16, torch.float16) else plain).numpy()
    if isinstance(values, (list, tuple)):  # as they are: NumPy would make strings of what is missing
        return np.array([*values, None], dtype=object)[:-1]
    return np.asarray(values)


def _labels(values: Any, count: int, name: str) -> NDArray[np.int64]:
    """Return a number for each id, in the order in which they first appear."""
    if np.ma.isMaskedArray(values) and np.ma.getmaskarray(values).any():
        raise _no_ids(name)
    ids = _plain(values)
    ids = ids.reshape(-1) if ids.size == len(ids) else ids
    if ids.shape != (count,):
        raise InvalidArgument(name, ids.shape, f"one id for each of the {count} examples")
    if ids.dtype.kind == "f":
        exact = 2.0**24 if ids.dtype.itemsize <= 4 else 2.0**53
        if not np.all((np.abs(ids) < exact) & (ids == np.floor(ids))):  # and no NaN
            raise _no_ids(name)
    if ids.dtype.kind not in "iufbUSO":
        raise _no_ids(name)
    known: dict[Any, int] = {}
    keys = [_identity(one, name) for one in ids.tolist()]
    if len({kind for kind, _ in keys}) > 1:  # is 3 the same as "3", or True as 1? Nobody knows
        raise _no_ids(name)
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)


def _identity(one: Any, name: str) -> tuple[type, Any]:
    """Return an id as what it is, whatever NumPy calls it."""
    plain = one.item() if isinstance(one, np.generic) else one
    if isinstance(plain, float) and plain.is_integer():
        plain = int(plain)
    for kind in (bool, int, str, bytes):
        if isinstance(plain, kind):
            return kind, plain
    raise _no_ids(name)


def _no_ids(name: str) -> InvalidArgument:
    return InvalidArgument(
        name, "missing", "integers or words, one for every example", "What is missing, or rounded, is not one person"
    )


def _seconds(values: Any) -> NDArray[np.float64]:
    times = _plain(values)
    times = times.reshape(-1) if times.size == len(times) else times
    if times.dtype.kind == "O" and all(isinstance(one, datetime) for one in times.tolist()):
        times = np.array([(one if one.tzinfo else one.replace(tzinfo=UTC)).timestamp() for one in times.tolist()])
    if times.dtype.kind == "M":
        times = (times - np.datetime64("1970-01-01")) / np.timedelta64(1, "s")
    if times.dtype.kind not in "iuf":
        raise InvalidArgument("times", str(times.dtype), "seconds or datetimes")
    found = times.astype(np.float64)
    if not np.all(np.abs(found) < 1e11):  # and no NaN; more than 3,000 years
        raise InvalidArgument("times", "out of range", "seconds, or datetimes, for every example")
    return found


@dataclass(frozen=True, slots=True)
class UnitComparison:
    """What protecting users costs in two ways that add the same noise to the mean gradient.

    Attributes:
        users: With users sampled and their summed gradients clipped (`Users`).
        groups: With examples sampled, accounted for in groups (`UserGroups`).
    """

    users: Guarantee
    groups: Guarantee

    @property
    def recommended(self) -> type[Users]:
        """The way with the smaller epsilon."""
        return UserGroups if self.groups.epsilon < self.users.epsilon else Users

    def __str__(self) -> str:
        return (
            f"Users: epsilon {self.users.epsilon:.3g}; UserGroups: epsilon {self.groups.epsilon:.3g}, "
            f"both at delta {self.users.delta:.3g}. Use {self.recommended.__name__}."
        )


def compare_units(
    *,
    num_users: int,
    examples_per_user: int,
    batch_size: int,
    noise_multiplier: float,
    num_steps: int,
    delta: float,
) -> UnitComparison:
    """Return what a user's protection costs in two ways, at the same noise on the mean gradient.

    Sampling users, a batch is of ``batch_size`` users, with noise of ``noise_multiplier`` clip norms on the sum of
    their contributions. Sampling examples at the same rate, a batch is of k times as many contributions for k examples
    per user, so that k times the noise leaves the mean equally noisy. Which costs less depends on the numbers: a
    group's examples are rarely all in one batch.

    References:
        Charles et al. 2024 compare the two ways for language models.

    >>> print(compare_units(num_users=1000, examples_per_user=4, batch_size=50, noise_multiplier=1.0,
    ...                     num_steps=100, delta=1e-5))
    Users: epsilon 3.5; UserGroups: epsilon 2.13, both at delta 1e-05. Use UserGroups.
    """
    rate = check_count("batch_size", batch_size) / check_count("num_users", num_users)
    if not rate <= 1:
        raise InvalidArgument("batch_size", batch_size, f"at most the {num_users} users")
    size, steps = check_count("examples_per_user", examples_per_user), check_count("num_steps", num_steps)
    noise = check_positive("noise_multiplier", noise_multiplier)

    def step(multiplier: float) -> SelfComposedEvent:
        one = GaussianEvent(multiplier)
        return SelfComposedEvent(one if rate == 1 else PoissonSampledEvent(one, rate), steps)

    accountant = PldAccountant(unit=Unit.user())
    return UnitComparison(
        users=accountant.compose(step(noise)).guarantee(delta),
        groups=accountant.compose(GroupEvent(step(noise * size), size)).guarantee(delta),
    )
