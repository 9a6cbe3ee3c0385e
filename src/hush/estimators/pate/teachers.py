"""Teachers: one estimator on each of disjoint parts, by unit; only their votes on public rows are kept."""

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


def made(teacher: Any) -> Any:
    """Return a new estimator: a copy of one, or what a factory returns."""
    if isinstance(teacher, type) or not hasattr(teacher, "fit"):
        return teacher()
    return clone(teacher)


def parts(num_rows: int, units: Any, num_teachers: int, source: RandomSource) -> list[NDArray[np.int64]]:
    """Return the rows of each teacher: a coin for every unit, by itself, so that others stay where they are."""
    whose = np.arange(num_rows) if units is None else np.unique(units, return_inverse=True)[1].ravel()
    coins = uniform_below(source, num_teachers, int(whose.max(initial=-1)) + 1)[whose]
    order = np.argsort(coins, kind="stable")
    edges = np.searchsorted(coins[order], np.arange(1, num_teachers))
    return np.split(order, edges)


def vote(teacher: Callable[[], Any] | Any, x: Any, y: NDArray[np.int64], public: Any, num_classes: int) -> Votes:
    """Return what a teacher of these rows says of public ones.

    What it raises, warns of or predicts beside the classes is private: it abstains, and nothing is told.
    """
    nothing = np.full(len(public), ABSTAINS, dtype=np.int32)
    if len(y) == 0:
        return nothing
    if (y == y[0]).all():  # many estimators refuse a single class
        return np.full(len(public), y[0], dtype=np.int32)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said = np.asarray(made(teacher).fit(x, y).predict(public), dtype=np.float64)
    except (Exception, SystemExit):
        return nothing
    if said.shape != nothing.shape:
        return nothing
    known = np.isin(said, np.arange(num_classes))
    return np.where(known, np.where(known, said, 0), ABSTAINS).astype(np.int32)


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
    """Return how many teachers vote for each class, for every public row; teachers are not kept."""
    tasks = (delayed(vote)(teacher, x[some], y[some], public, num_classes) for some in rows)
    counts = np.zeros((len(public), num_classes + 1), dtype=np.int64)
    everyone = np.arange(len(public))
    for said in Parallel(n_jobs=n_jobs, return_as="generator", pre_dispatch="2*n_jobs")(tasks):
        counts[everyone, said] += 1  # those who abstain count in the last column
    return counts[:, :num_classes]
