"""Teachers: one estimator per disjoint part of the private data, split by unit.

Only their votes on public rows are kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from hush.randomness import RandomSource, uniform_below

Votes = NDArray[np.int32]
ABSTAINS = -1


def new_estimator(teacher: Any) -> Any:
    """Return a new estimator: a clone, or the result of a factory."""
    if isinstance(teacher, type) or not hasattr(teacher, "fit"):
        return teacher()
    return clone(teacher)


def assign_rows(num_rows: int, units: Any, num_teachers: int, source: RandomSource) -> list[NDArray[np.int64]]:
    """Return the rows of each teacher.

    An independent coin assigns every unit to a teacher, so adding or removing one unit leaves all others where they
    are.
    """
    # One coin for each unit, whatever the number of its rows: they all go to the same teacher.
    unit_numbers = np.arange(num_rows) if units is None else np.unique(units, return_inverse=True)[1].ravel()
    teachers = uniform_below(source, num_teachers, int(unit_numbers.max(initial=-1)) + 1)[unit_numbers]
    order = np.argsort(teachers, kind="stable")
    edges = np.searchsorted(teachers[order], np.arange(1, num_teachers))
    return np.split(order, edges)


def vote(teacher: Callable[[], Any] | Any, x: Any, y: NDArray[np.int64], public: Any, num_classes: int) -> Votes:
    """Return the votes on public rows of a teacher trained on these rows.

    Errors, warnings and predictions outside the classes would reveal private data. The teacher then abstains, silently.
    """
    abstention = np.full(len(public), ABSTAINS, dtype=np.int32)
    if len(y) == 0:
        return abstention
    if (y == y[0]).all():  # many estimators refuse to fit a single class
        return np.full(len(public), y[0], dtype=np.int32)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predicted = np.asarray(new_estimator(teacher).fit(x, y).predict(public), dtype=np.float64)
    # Whether and how a teacher fails depends on its private rows.
    except (Exception, SystemExit):
        return abstention
    if predicted.shape != abstention.shape:
        return abstention
    # A number outside the classes would count in another column.
    known = np.isin(predicted, np.arange(num_classes))
    return np.where(known, np.where(known, predicted, 0), ABSTAINS).astype(np.int32)


def count_votes(
    teacher: Any,
    x: Any,
    y: NDArray[np.int64],
    public: Any,
    *,
    rows: list[NDArray[np.int64]],
    num_classes: int,
    n_jobs: int | None,
) -> NDArray[np.int64]:
    """Return the number of teachers that vote for each class, for every public row. Teachers are not kept."""
    tasks = (delayed(vote)(teacher, x[part], y[part], public, num_classes) for part in rows)
    counts = np.zeros((len(public), num_classes + 1), dtype=np.int64)
    positions = np.arange(len(public))
    for votes in Parallel(n_jobs=n_jobs, return_as="generator", pre_dispatch="2*n_jobs")(tasks):
        counts[positions, votes] += 1  # abstentions count in the last column
    return counts[:, :num_classes]
