"""Public bounds of features, and the way to learn them privately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.errors import InvalidArgument, check_positive
from hush.estimators._private import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnBounds:
    """Bounds that are learned from the data, with a share of the budget.

    Attributes:
        share: The part of epsilon that learning may cost.
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        """Check the share."""
        if not check_positive("share", self.share) < 1:
            raise InvalidArgument("share", self.share, "a number in (0, 1)", "The rest is for what bounds are for")


def check_bounds(name: str, bounds: Any) -> tuple[Floats, Floats]:
    """Return lower and upper ends, one number each or one for each feature."""
    advice = "They are public, and never read from the data"
    try:
        lower, upper = (np.asarray(end, dtype=np.float64) for end in bounds)
        fine = lower.ndim <= 1 and upper.ndim <= 1 and bool(((upper > lower) & (upper - lower < 1e100)).all())
    except (TypeError, ValueError):
        fine = False
    if not fine:
        raise InvalidArgument(name, bounds, "(lower, upper), finite, lower < upper", advice)
    return lower, upper


def fitted_bounds(name: str, bounds: Any, num_features: int) -> tuple[Floats, Floats]:
    """Return bounds of each feature."""
    ends = check_bounds(name, bounds)
    if any(end.ndim == 1 and len(end) != num_features for end in ends):
        raise InvalidArgument(name, bounds, f"one number for each of {num_features} features, or one for all")
    lower, upper = (np.broadcast_to(end, (num_features,)).copy() for end in ends)
    return lower, upper


def scaled(rows: Floats, lower: Floats, upper: Floats) -> tuple[Floats, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Return rows clamped to the bounds, which become -1 and 1, and which of them are complete."""
    middle, half = lower + (upper - lower) / 2, (upper - lower) / 2
    with np.errstate(all="ignore"):
        units = np.clip((rows - middle) / half, -1.0, 1.0)
    complete = np.asarray(~np.isnan(units).any(axis=1))
    return units, complete
