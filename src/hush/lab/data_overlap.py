"""The overlap of predicted members across runs: examples that an attack finds repeatedly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hush.audit.membership import Floats, mask
from hush.errors import InvalidArgument

__all__ = ["overlap"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How often the same examples are predicted to be members, by attacks on several runs with the same members.

    >>> result = overlap([[1, 1, 1, 0], [1, 0, 0, 0]], [1, 1, 0, 0])
    >>> result.members, result.others, result.precision[1]
    ((2, 1), (1, 0), 1.0)

    Attributes:
        members: The number of members predicted in at least k runs, for k = 1, 2, ...
        others: The same for non-members.
        jaccard: The mean Jaccard index of the predicted sets over pairs of runs. It is 1 if neither run predicts any.
    """

    members: tuple[int, ...]
    others: tuple[int, ...]
    jaccard: float

    @property
    def precision(self) -> tuple[float, ...]:
        """The share of members among the examples predicted in at least k runs; NaN if there are none."""
        return tuple(
            inside / (inside + outside) if inside + outside else float("nan")
            for inside, outside in zip(self.members, self.others, strict=True)
        )


def overlap(predicted: ArrayLike, member: ArrayLike) -> Overlap:
    """Return the overlap of predicted members across runs.

    If an attack finds different members each time, much of its success is chance. The members that it finds in every
    run are at real risk, even if its precision in a single run is low.

    >>> overlap([[1, 1, 1, 0], [1, 0, 0, 0]], [1, 1, 0, 0]).members
    (2, 1)

    Args:
        predicted: The predicted members of each run: (runs, examples).
        member: The true members, the same in all runs: (examples,).

    Returns:
        Counts by number of runs, and the mean Jaccard index.

    References:
        Jayaraman & Evans 2019, "Evaluating differentially private machine learning in practice", Section 4 (figures of
        predictions across multiple runs).
    """
    table = np.asarray(predicted)
    if table.ndim != 2 or 0 in table.shape:
        raise InvalidArgument("predicted", table.shape, "true or false for each run and example")
    predictions, is_member = mask("predicted", table, table.shape), mask("member", member, table.shape[1:])
    times_predicted = predictions.sum(0)
    run_counts = range(1, len(predictions) + 1)
    return Overlap(
        members=tuple(int((times_predicted[is_member] >= k).sum()) for k in run_counts),
        others=tuple(int((times_predicted[~is_member] >= k).sum()) for k in run_counts),
        jaccard=_mean_jaccard(predictions.astype(np.float64)),
    )


def _mean_jaccard(predictions: Floats) -> float:
    if len(predictions) == 1:
        return 1.0
    # |A and B| for all pairs of runs at once; |A or B| = |A| + |B| - |A and B|.
    intersections = predictions @ predictions.T
    sizes = predictions.sum(1)
    unions = sizes[:, None] + sizes - intersections
    indices = np.divide(intersections, unions, out=np.ones_like(intersections), where=unions > 0)
    return float(indices[np.triu_indices(len(predictions), 1)].mean())
