"""Privacy units larger than an example: users, and users within a time window.

There are two ways to protect a user:

- `Users`: users are sampled, and the sum of a user's gradients is clipped as one contribution.
- `UserGroups`: examples are sampled and clipped one by one, and the guarantee for an example is converted into one for
  a group of as many examples as a user may have.

`compare_units` computes which of the two costs less for given numbers.

This module also reads ids out of datasets, and refuses ids that could split one person into two or merge two into one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from hush.accounting import GaussianEvent, GroupEvent, PldAccountant, PoissonSampledEvent, SelfComposedEvent
from hush.errors import InvalidArgument, check_count, check_positive
from hush.guarantee import CalendarWindow, Guarantee, Unit, UserWindow
from hush.randomness import KeyedSource
from hush.training.plan.windows import window_numbers

# Words in column names that suggest ids of people, and words that suggest ids of something else.
_PEOPLE = {
    *("uid", "pid", "user", "username", "person", "patient", "customer", "client", "member", "employee", "owner"),
    *("subject", "account", "author", "speaker", "device", "email", "phone", "ssn", "participant", "household"),
}
_OBJECTS = {
    *("label", "class", "image", "token", "input", "intent", "item", "product", "word", "category", "document", "doc"),
    *("row", "target", "type", "topic", "segment", "position", "event", "session", "file", "model", "batch"),
}


@dataclass(frozen=True, eq=False)
class Users:
    """The user of each example, for user-level privacy: users are sampled, and a user's summed gradient is clipped.

    Attributes:
        units: The name of a column of the data, or one id per example.
        rows_per_unit: The largest number of a user's examples in a step. If a user has more, each step draws a new
            random subset.
        times: For a window: when each example was created, as a column name or an array, in seconds since 1970 or as
            datetimes. Those without a time zone are in UTC.
        window: Windows of the calendar, such as ``CalendarWindow.MONTH``; or a length, for windows of equal length
            that are counted from 1970. A user's examples within one window are protected together; examples in two
            windows are not, even if they are a second apart.
        zone: The time zone whose clocks begin and end windows of the calendar.

    >>> [rows.tolist() for rows in Users(["ann", "bob", "ann"]).rows(None, 3)]
    [[0, 2], [1]]
    """

    units: str | ArrayLike | Tensor
    rows_per_unit: int = 8
    times: str | ArrayLike | Tensor | None = None
    window: CalendarWindow | timedelta | None = None
    zone: str = "UTC"

    def __post_init__(self) -> None:
        """Check everything that does not need the data."""
        check_count("rows_per_unit", self.rows_per_unit)
        if self.window is not None:
            self._windows()  # refuses a wrong window or zone
        if (self.times is None) != (self.window is None):
            raise InvalidArgument("window", self.window, "a window together with times, or neither")

    @property
    def unit(self) -> Unit:
        """The unit that the guarantee protects."""
        return Unit.user() if self.window is None else self._windows().unit

    def _windows(self) -> UserWindow:
        """Return the windows, as `UserWindow` checks and names them. The columns' names do not matter."""
        return UserWindow("units", time="times", window=self.window, zone=self.zone)  # type: ignore[arg-type]

    def rows(self, data: Any, num_examples: int) -> list[NDArray[np.int64]]:
        """Return the indices of each unit's examples. Units come in the order of their first example."""
        labels = unit_labels(_column(self.units, data, "unit"), num_examples, "unit")
        if self.window is not None:
            seconds = _seconds(_column(self.times, data, "times"))
            if seconds.shape != (num_examples,):
                raise InvalidArgument("times", seconds.shape, f"one time for each of the {num_examples} examples")
            # A unit is a pair of user and window, with a new number.
            windows = window_numbers(seconds, self.window, self.zone)
            labels = np.unique(np.stack([labels, windows], 1), axis=0, return_inverse=True)[1].reshape(-1)
        order = np.argsort(labels, kind="stable")
        rows_by_unit = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
        return sorted(rows_by_unit, key=lambda rows: int(rows[0]))


@dataclass(frozen=True, eq=False)
class UserGroups(Users):
    """User-level privacy by group privacy: examples are sampled, and accounted for in groups of ``rows_per_unit``.

    If a user has more examples, the run uses a fixed random subset of them.

    >>> UserGroups(["ann", "bob", "ann"], rows_per_unit=2).unit.kind.value
    'user'
    """


# What `privatize` takes as ``unit``: a `Unit`, `Users`, the name of a column with ids, or one id per example.
UnitArgument = Unit | Users | str | ArrayLike | Tensor


def random_subset(rows: NDArray[np.int64], size: int, source: KeyedSource) -> NDArray[np.int64]:
    """Return at most ``size`` of a unit's examples, drawn at random."""
    if len(rows) <= size:
        return rows
    return np.sort(rows[np.argsort(source.words(len(rows)), kind="stable")[:size]])


def as_users(unit: UnitArgument | None) -> Users | None:
    """Return the users that a ``unit`` argument describes: `Users`, a column name or ids. None for an example."""
    if unit is None or isinstance(unit, Unit):
        return None
    return unit if isinstance(unit, Users) else Users(unit)


def refuse_repeated_ids(data: Any) -> None:
    """Refuse a dataset without a declared unit if a column looks like ids of people, and an id repeats."""
    for name, column in _columns(data, _suggests_people).items():
        values = _as_array(column)
        values = values.reshape(-1) if values.size == len(values) else values
        if values.ndim == 1 and values.dtype.kind in "iufUSO" and len(set(values.tolist())) < len(values):
            raise InvalidArgument(
                "unit",
                None,
                f"a unit: {name!r} repeats",
                f'Pass unit="{name}" to protect all examples of an id together, or unit=Unit.example()',
            )


def _suggests_people(name: Any) -> bool:
    """Return whether a column's name suggests ids of people: ``userId``, ``patient-number``, ``email``."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", str(name)).lower()  # camelCase into words
    words = {word for word in re.split(r"[^a-z]+", spaced) if word}
    words |= {re.sub(r"(ids?|no|number|s)$", "", word) for word in words}  # "customerid" into "customer"
    return not words & _OBJECTS and bool(words & {*_PEOPLE, "id", "ids"})


def _columns(data: Any, is_wanted: Callable[[Any], bool]) -> Mapping[Any, Any]:
    """Return the wanted columns of a mapping, or of a dataset whose examples are mappings; otherwise none."""
    if isinstance(data, Mapping):
        return {name: column for name, column in data.items() if is_wanted(name)}
    if isinstance(data, tuple) or not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        return {}
    first = data[0] if len(data) else None
    if not isinstance(first, Mapping):
        return {}
    names = [name for name in first if is_wanted(name) and _as_array(first[name]).size == 1]
    columns: dict[Any, list[Any]] = {name: [] for name in names}
    for index in range(len(data) if names else 0):
        row = data[index]
        for name in names:
            columns[name].append(_as_array(row[name]).item())
    return columns


def _column(values: Any, data: Any, argument: str) -> Any:
    """Return a column by name, or values that are a column already."""
    if not isinstance(values, str):
        return values
    columns = _columns(data, lambda name: name == values)
    if values not in columns:
        raise InvalidArgument(argument, values, "a column of the data", "Or pass an array with one id per example")
    return columns[values]


def _as_array(values: Any) -> NDArray[Any]:
    if isinstance(values, Tensor):
        tensor = values.detach().cpu()
        return (tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor).numpy()
    if isinstance(values, (list, tuple)):
        # As objects: NumPy would turn a missing value among strings into the string "nan".
        return np.array([*values, None], dtype=object)[:-1]
    return np.asarray(values)


def unit_labels(values: Any, count: int, argument: str) -> NDArray[np.int64]:
    """Number the ids of examples, in the order of their first appearance.

    Args:
        values: One id per example: integers, strings or bytes.
        count: The number of examples.
        argument: The name of the argument, for messages.
    """
    if np.ma.isMaskedArray(values) and np.ma.getmaskarray(values).any():
        raise _invalid_ids(argument)
    ids = _as_array(values)
    ids = ids.reshape(-1) if ids.size == len(ids) else ids
    if ids.shape != (count,):
        raise InvalidArgument(argument, ids.shape, f"one id for each of the {count} examples")
    if ids.dtype.kind == "f":
        # Beyond these integers, floats are rounded, which would merge different ids.
        largest_exact = 2.0**24 if ids.dtype.itemsize <= 4 else 2.0**53
        if not np.all((np.abs(ids) < largest_exact) & (ids == np.floor(ids))):  # also false for NaN
            raise _invalid_ids(argument)
    if ids.dtype.kind not in "iufbUSO":
        raise _invalid_ids(argument)
    numbers: dict[Any, int] = {}
    keys = [_typed_id(value, argument) for value in ids.tolist()]
    if len({kind for kind, _ in keys}) > 1:  # 3 and "3", or True and 1, may or may not be the same person
        raise _invalid_ids(argument)
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def _typed_id(value: Any, argument: str) -> tuple[type, Any]:
    """Return an id as a plain Python value, with its type."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and plain.is_integer():
        plain = int(plain)
    for kind in (bool, int, str, bytes):
        if isinstance(plain, kind):
            return kind, plain
    raise _invalid_ids(argument)


def _invalid_ids(argument: str) -> InvalidArgument:
    return InvalidArgument(
        argument,
        "missing",
        "integers or strings, one for every example",
        "A missing or rounded id does not identify one person",
    )


def _seconds(values: Any) -> NDArray[np.float64]:
    """Return times as seconds since 1970."""
    times = _as_array(values)
    times = times.reshape(-1) if times.size == len(times) else times
    if times.dtype.kind == "O" and all(isinstance(time, datetime) for time in times.tolist()):
        times = np.array([(time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() for time in times.tolist()])
    if times.dtype.kind == "M":
        times = (times - np.datetime64("1970-01-01")) / np.timedelta64(1, "s")
    if times.dtype.kind not in "iuf":
        raise InvalidArgument("times", str(times.dtype), "seconds or datetimes")
    seconds = times.astype(np.float64)
    if not np.all(np.abs(seconds) < 1e11):  # 3,000 years; also false for NaN
        raise InvalidArgument("times", "out of range", "seconds, or datetimes, for every example")
    return seconds


@dataclass(frozen=True, slots=True)
class UnitComparison:
    """The cost of protecting users in two ways that add the same noise to the mean gradient.

    Attributes:
        users: The guarantee if users are sampled and their summed gradients clipped (`Users`).
        groups: The guarantee if examples are sampled and accounted for in groups (`UserGroups`).

    >>> comparison = compare_units(num_units=1000, rows_per_unit=4, batch_size=50, noise_multiplier=1.0,
    ...                            num_steps=100, delta=1e-5)
    >>> comparison.recommended.__name__
    'UserGroups'
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
    num_units: int,
    rows_per_unit: int,
    batch_size: int,
    noise_multiplier: float,
    num_steps: int,
    delta: float,
) -> UnitComparison:
    """Compare the cost of protecting users in two ways, at the same noise on the mean gradient.

    If users are sampled, a batch has ``batch_size`` of them, and noise of ``noise_multiplier`` clip norms is added to
    the sum of their contributions. If examples are sampled at the same rate, a batch has k times as many contributions,
    for k examples per user; then k times the noise leaves the mean equally noisy. Neither is always better: the
    examples of a group are rarely all in the same batch.

    Args:
        num_units: The number of users.
        rows_per_unit: The largest number of a user's examples, k.
        batch_size: The expected number of users in a batch.
        noise_multiplier: The noise on the sum of users' contributions, in clip norms.
        num_steps: The number of steps.
        delta: The delta of both guarantees.

    References:
        Charles et al. 2024, "Fine-Tuning Large Language Models with User-Level Differential Privacy", compares both.

    >>> print(compare_units(num_units=1000, rows_per_unit=4, batch_size=50, noise_multiplier=1.0,
    ...                     num_steps=100, delta=1e-5))
    Users: epsilon 3.5; UserGroups: epsilon 2.13, both at delta 1e-05. Use UserGroups.
    """
    rate = check_count("batch_size", batch_size) / check_count("num_units", num_units)
    if not rate <= 1:
        raise InvalidArgument("batch_size", batch_size, f"at most {num_units}, the number of users")
    group_size, steps = check_count("rows_per_unit", rows_per_unit), check_count("num_steps", num_steps)
    noise = check_positive("noise_multiplier", noise_multiplier)

    def run(multiplier: float) -> SelfComposedEvent:
        step = GaussianEvent(multiplier)
        return SelfComposedEvent(step if rate == 1 else PoissonSampledEvent(step, rate), steps)

    accountant = PldAccountant(unit=Unit.user())
    return UnitComparison(
        users=accountant.compose(run(noise)).guarantee(delta),
        # k examples per user: k times the noise on a sum of k times as many contributions, and groups of k.
        groups=accountant.compose(GroupEvent(run(noise * group_size), group_size)).guarantee(delta),
    )
