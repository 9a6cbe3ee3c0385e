"""Who is found by an attack again and again: overlap of predicted members across runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hush.audit.membership.signals import mask
from hush.errors import InvalidArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How often the same people are predicted to be members, by attacks on several trainings on the same sample.

    Attributes:
        members: How many members are predicted in k runs or more, for k = 1, 2, ...
        others: The same for those who are not members.
        jaccard: The mean, over pairs of runs, of predicted in both over predicted in either; 1 if neither predicts any.
    """

    members: tuple[int, ...]
    others: tuple[int, ...]
    jaccard: float

    @property
    def precision(self) -> tuple[float, ...]:
        """The share of members among those predicted in k runs or more; NaN where there is nobody."""
        return tuple(
            inside / (inside + outside) if inside + outside else float("nan")
            for inside, outside in zip(self.members, self.others, strict=True)
        )


def overlap(predicted: ArrayLike, member: ArrayLike) -> Overlap:
    """Return the overlap of predicted members across runs.

    If an attack finds other members each time, much of what it finds is chance; those whom it finds in every run are at
    real risk, even where its precision in one run is low.

    Args:
        predicted: For each run, who is predicted to be a member: (runs, examples).
        member: Who is: (examples,), the same in all runs.

    References:
        Jayaraman & Evans 2019, "Evaluating differentially private machine learning in practice", Section 4 (figures of
        predictions across multiple runs).

    >>> found = overlap([[1, 1, 1, 0], [1, 0, 0, 0]], [1, 1, 0, 0])
    >>> found.members, found.others, found.precision[1]
    ((2, 1), (1, 0), 1.0)
    """
    table = np.asarray(predicted)
    if table.ndim != 2 or 0 in table.shape:
        raise InvalidArgument("predicted", table.shape, "true or false for each run and example")
    said, who = mask("predicted", table, table.shape), mask("member", member, table.shape[1:])
    times = said.sum(0)
    runs = range(1, len(said) + 1)
    return Overlap(
        members=tuple(int((times[who] >= k).sum()) for k in runs),
        others=tuple(int((times[~who] >= k).sum()) for k in runs),
        jaccard=_jaccard(said.astype(np.float64)),
    )


def _jaccard(said: np.ndarray) -> float:
    if len(said) == 1:
        return 1.0
    both = said @ said.T
    size = said.sum(1)
    either = size[:, None] + size - both
    shares = np.divide(both, either, out=np.ones_like(both), where=either > 0)
    return float(shares[np.triu_indices(len(said), 1)].mean())
